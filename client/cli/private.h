/*
 * A daemon of one's own: lanekeeperd from beside this program, on a socket in a new folder, for as
 * long as a command runs. Nothing of it stays behind: it is stopped with the command, it stops by
 * itself when the command dies in any way, and it removes its sockets and folder as it goes; its log
 * has no name.
 */
#ifndef LK_CLIENT_CLI_PRIVATE_H
#define LK_CLIENT_CLI_PRIVATE_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

struct private_daemon {
    pid_t pid;     /* 0: none */
    int log;       /* its standard error, in memory */
    int lifeline;  /* of its standard input: it stops when this is closed, by us or with us */
    char *dir;     /* its sockets are here */
    char *address; /* to connect to */
};

/*
 * Starts it on the configuration @config; @snapshots is "read" or "off". To be called before anything
 * that starts threads. It is not ready when this returns: connect, and see private_alive.
 */
enum lk_code private_start(struct private_daemon *daemon, const char *config, const char *snapshots,
                           struct lk_err *err);

/* False when it has ended: FAILED_PRECONDITION with what its log says last. */
bool private_alive(struct private_daemon *daemon, struct lk_err *err);

/* Has it made its socket? Before, connecting would only make one wait for the next try. */
bool private_listens(const struct private_daemon *daemon);

/* Ends it, within seconds, and removes what it used. Safe on a zeroed one, and twice. */
void private_stop(struct private_daemon *daemon);

#endif
