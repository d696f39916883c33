/*
 * The listeners of a service, as its configuration names them. Used by server.c alone, on the owner's thread.
 */
#ifndef LK_RPC_LISTEN_H
#define LK_RPC_LISTEN_H

#include "base/status.h"
#include "rpc/sockets.h"

#include <stdint.h>

struct listening {
    struct sockets *sockets;
    uint32_t mode;
    char **address; /* [n] as clients dial them */
    uint32_t n;
};

/* Safe to call listening_done on, also after a failure. */
enum lk_code listening_open(struct listening *listening, struct sockets *sockets,
                            const char *const *address, uint32_t n, uint32_t mode, struct lk_err *err);
void listening_done(struct listening *listening);

const char *listening_address(const struct listening *listening, uint32_t i);

#endif
