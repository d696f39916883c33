/*
 * The listeners of a service: their addresses, and their care. Used by server.c alone, on the owner's
 * thread but where it says otherwise.
 */
#ifndef LK_RPC_LISTEN_H
#define LK_RPC_LISTEN_H

#include "base/status.h"

#include <nng/nng.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LISTENING_PROBE_MS 1000 /* by then a listener that lives has made a connection */

struct listener {
    char *address;     /* as clients dial it */
    atomic_int id;     /* nng's number of the listener: changes without the mutex when it is replaced */
    int probe;         /* a connection of our own to an ipc listener, on its way; -1: none */
    int64_t probed_ms; /* when it was begun */
    uint64_t accepted; /* connections that nng has made on it */
    uint64_t seen;     /* of them, the last time we looked */
};

struct listening {
    nng_socket socket;
    uint32_t mode;
    struct listener *listener;
    uint32_t n;
    uint64_t replaced; /* listeners that had died */
};

/* Safe to call listening_done on, also after a failure. */
enum lk_code listening_open(struct listening *listening, nng_socket socket, const char *const *address,
                            uint32_t n, uint32_t mode, struct lk_err *err);
void listening_done(struct listening *listening); /* the socket is closed already */

const char *listening_address(const struct listening *listening, uint32_t i);

/* Counts a connection that listener number @id has made. nng's threads, under the owner's mutex. */
void listening_accepted(struct listening *listening, int id);

/*
 * nng 1.5.2 stops making connections on an ipc address for good when one is closed between connect()
 * and the server's first write to it (EPIPE is taken for its own closing): one client killed at a bad
 * moment, and nobody is served any more, though the kernel and the handshake still welcome everybody.
 * So every now and then connect to ourselves, unless others did; if that connection is not made within
 * LISTENING_PROBE_MS, listen anew on the same path, and cut what hangs on the old one: clients dial
 * again. How often care is taken does not matter: an owner that was held up may make up for it.
 *
 * listening_care returns the index of a dead listener, or -1; it is called under the mutex, and is
 * followed by listening_revive without it.
 */
bool listening_needs_care(const struct listening *listening);
int listening_care(struct listening *listening);
void listening_revive(struct listening *listening, uint32_t i);

#endif
