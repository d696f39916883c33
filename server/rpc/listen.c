#include "rpc/listen.h"

#include "base/mem.h"
#include "rpc/address.h"

#include <stdlib.h>
#include <unistd.h>

static enum lk_code listen_at_path(struct listening *l, const char *path, struct lk_err *err)
{
    int lock = -1;
    LK_TRY(unix_path_claim(path, &lock, err));
    enum lk_code code = sockets_listen_unix(l->sockets, path, l->mode, err);
    if (lock >= 0)
        close(lock);
    return code;
}

static enum lk_code listen_on(struct listening *l, const char *address, struct lk_err *err)
{
    const char *path = address_ipc_path(address);
    uint16_t port;

    LK_TRY(address_check(address, err));
    if (path != NULL) {
        LK_TRY(listen_at_path(l, path, err));
        l->address[l->n++] = lk_strdup(address);
    } else {
        LK_TRY(sockets_listen_tcp(l->sockets, address, &port, err));
        l->address[l->n++] = address_with_port(address, port);
    }
    return LK_OK;
}

enum lk_code listening_open(struct listening *listening, struct sockets *sockets,
                            const char *const *address, uint32_t n, uint32_t mode, struct lk_err *err)
{
    *listening = (struct listening){.sockets = sockets, .mode = mode};
    listening->address = lk_zalloc(n, sizeof *listening->address);
    for (uint32_t i = 0; i < n; i++)
        LK_TRY(listen_on(listening, address[i], err));
    return LK_OK;
}

void listening_done(struct listening *listening)
{
    for (uint32_t i = 0; i < listening->n; i++)
        free(listening->address[i]);
    free(listening->address);
    *listening = (struct listening){0};
}

const char *listening_address(const struct listening *listening, uint32_t i)
{
    return i < listening->n ? listening->address[i] : NULL;
}
