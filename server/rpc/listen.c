#include "rpc/listen.h"

#include "base/mem.h"
#include "rpc/address.h"

#include <stdlib.h>
#include <unistd.h>

static enum lk_code nng_failure(const char *address, int rv, struct lk_err *err)
{
    if (rv == NNG_EADDRINUSE)
        return lk_fail(err, LK_ALREADY_EXISTS, "%s: address in use: another process listens on it",
                       address);
    if (rv == NNG_EADDRINVAL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: no such address on this machine", address);
    return lk_fail(err, LK_UNAVAILABLE, "cannot listen on %s: %s", address, nng_strerror(rv));
}

static int listen_tcp(nng_socket socket, const char *address, char **ret_address)
{
    nng_listener listener;
    int port = 0;
    int rv = nng_listener_create(&listener, socket, address);

    if (rv != 0)
        return rv;
    rv = nng_listener_start(listener, 0);
    if (rv == 0)
        rv = nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port);
    if (rv != 0) {
        (void)nng_listener_close(listener);
        return rv;
    }
    *ret_address = address_with_port(address, (uint16_t)port);
    return 0;
}

static enum lk_code listen_on(struct listening *l, const char *address, struct lk_err *err)
{
    const char *path = address_ipc_path(address);
    char *real = NULL;

    LK_TRY(address_check(address, err));
    if (path == NULL) {
        int rv = listen_tcp(l->socket, address, &real);
        if (rv != 0)
            return nng_failure(address, rv, err);
    } else {
        int lock = -1;
        LK_TRY(unix_path_claim(path, &lock, err));
        enum lk_code code = ipc_listen(l->ipc, path, l->mode, err);
        if (lock >= 0)
            close(lock);
        if (code != LK_OK)
            return code;
        real = lk_strdup(address);
    }
    l->address[l->n++] = real;
    return LK_OK;
}

enum lk_code listening_open(struct listening *listening, nng_socket socket, struct ipc *ipc,
                            const char *const *address, uint32_t n, uint32_t mode, struct lk_err *err)
{
    *listening = (struct listening){.socket = socket, .ipc = ipc, .mode = mode};
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
