/*
 * The listeners of a service: TCP by nng, Unix sockets by rpc/ipc.h. Used by server.c alone, on the owner's
 * thread.
 */
#ifndef LK_RPC_LISTEN_H
#define LK_RPC_LISTEN_H

#include "base/status.h"
#include "rpc/ipc.h"

#include <nng/nng.h>
#include <stdint.h>

struct listening {
    nng_socket socket;
    struct ipc *ipc;
    uint32_t mode;
    char **address; /* [n] as clients dial them */
    uint32_t n;
};

/* Safe to call listening_done on, also after a failure. */
enum lk_code listening_open(struct listening *listening, nng_socket socket, struct ipc *ipc,
                            const char *const *address, uint32_t n, uint32_t mode, struct lk_err *err);
void listening_done(struct listening *listening); /* the socket is closed already */

const char *listening_address(const struct listening *listening, uint32_t i);

#endif
