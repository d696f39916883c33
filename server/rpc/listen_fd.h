/* Listening sockets: their descriptors, and a Unix socket's file. Used by sockets.c alone. */
#ifndef LK_RPC_LISTEN_FD_H
#define LK_RPC_LISTEN_FD_H

#include "base/status.h"

#include <stdint.h>
#include <sys/stat.h>

#define LISTEN_TCP_MAX 8 /* addresses of one host's name */

/* Our socket file: what lies at the path later may be another's. */
struct unix_place {
    char *path; /* NULL: none */
    dev_t device;
    ino_t inode;
};

/* At a path for which there is room (unix_path_claim), with that file mode. */
enum lk_code listen_unix(const char *path, uint32_t mode, int *ret_fd, struct unix_place *ret_place,
                         struct lk_err *err);
void unix_place_done(struct unix_place *place); /* removes the file, if it is still ours */

/*
 * At every address that a host's name has here, all with one port; "*" stands for all that there are.
 * @address has passed address_check. ALREADY_EXISTS: in use; INVALID_ARGUMENT: no address of this machine.
 */
enum lk_code listen_tcp(const char *address, int ret_fd[LISTEN_TCP_MAX], uint32_t *ret_n, uint16_t *ret_port,
                        struct lk_err *err);

#endif
