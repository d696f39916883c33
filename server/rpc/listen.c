#include "rpc/listen.h"

#include "base/mem.h"
#include "rpc/address.h"

#include <dirent.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
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

static int listen_tcp(nng_socket socket, const char *address, char **ret_address, int *ret_id)
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
    *ret_id = nng_listener_id(listener);
    return 0;
}

static int listen_ipc(nng_socket socket, const char *address, uint32_t mode, int *ret_id)
{
    nng_listener listener;
    int rv = nng_listener_create(&listener, socket, address);

    if (rv != 0)
        return rv;
    rv = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, (int)mode);
    if (rv == 0)
        rv = nng_listener_start(listener, 0);
    if (rv != 0)
        (void)nng_listener_close(listener);
    else
        *ret_id = nng_listener_id(listener);
    return rv;
}

static enum lk_code listen_on(struct listening *l, const char *address, struct lk_err *err)
{
    const char *path = address_ipc_path(address);
    struct listener *listener = &l->listener[l->n];
    char *real = NULL;
    int rv, id = 0, lock = -1;

    LK_TRY(address_check(address, err));
    if (path == NULL) {
        rv = listen_tcp(l->socket, address, &real, &id);
    } else {
        LK_TRY(unix_path_claim(path, &lock, err));
        rv = listen_ipc(l->socket, address, l->mode, &id);
        if (lock >= 0)
            close(lock);
        real = lk_strdup(address);
    }
    if (rv != 0) {
        free(real);
        return nng_failure(address, rv, err);
    }
    *listener = (struct listener){.address = real, .probe = -1};
    atomic_init(&listener->id, id);
    l->n++;
    return LK_OK;
}

enum lk_code listening_open(struct listening *listening, nng_socket socket, const char *const *address,
                            uint32_t n, uint32_t mode, struct lk_err *err)
{
    *listening = (struct listening){.socket = socket, .mode = mode};
    listening->listener = lk_zalloc(n, sizeof *listening->listener);
    for (uint32_t i = 0; i < n; i++)
        LK_TRY(listen_on(listening, address[i], err));
    return LK_OK;
}

static void probe_end(struct listener *l)
{
    if (l->probe >= 0)
        close(l->probe);
    l->probe = -1;
}

void listening_done(struct listening *listening)
{
    for (uint32_t i = 0; i < listening->n; i++) {
        free(listening->listener[i].address);
        probe_end(&listening->listener[i]);
    }
    free(listening->listener);
    *listening = (struct listening){0};
}

const char *listening_address(const struct listening *listening, uint32_t i)
{
    return i < listening->n ? listening->listener[i].address : NULL;
}

/* ---- care ---- */

void listening_accepted(struct listening *listening, int id)
{
    for (uint32_t i = 0; i < listening->n; i++) {
        if (atomic_load(&listening->listener[i].id) == id)
            listening->listener[i].accepted++;
    }
}

bool listening_needs_care(const struct listening *listening)
{
    for (uint32_t i = 0; i < listening->n; i++) {
        if (address_ipc_path(listening->listener[i].address) != NULL)
            return true;
    }
    return false;
}

/* A connection of our own, with the handshake of a requester; -1: none could be made. */
static int probe(const char *path)
{
    static const char hello[8] = {0, 'S', 'P', 0, 0, NNG_REQ0_SELF, 0, 0};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(at.sun_path, path, strlen(path) + 1);
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&at, sizeof at) != 0 ||
                    send(fd, hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True: the probe has been out long enough, and nothing came of it. */
static bool care_of(struct listener *l, const char *path, int64_t now)
{
    bool alive = l->accepted != l->seen;
    bool out = l->probe >= 0;

    l->seen = l->accepted;
    if (!alive && out && now - l->probed_ms < LISTENING_PROBE_MS)
        return false; /* too early to tell */
    probe_end(l);
    if (!alive) {
        l->probe = probe(path);
        l->probed_ms = now;
    }
    return !alive && out;
}

int listening_care(struct listening *listening)
{
    int64_t now = now_ms();
    int dead = -1;

    for (uint32_t i = 0; i < listening->n; i++) {
        const char *path = address_ipc_path(listening->listener[i].address);
        if (path != NULL && care_of(&listening->listener[i], path, now))
            dead = (int)i;
    }
    return dead;
}

/* Ends the connections at @path as if their peers had: nng then frees them in its ordinary way. */
static void cut_connections(const char *path)
{
    DIR *fds = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (fds != NULL && (entry = readdir(fds)) != NULL) {
        struct sockaddr_un at = {.sun_family = AF_UNSPEC};
        socklen_t bytes = sizeof at;
        int fd = atoi(entry->d_name);
        if (getsockname(fd, (struct sockaddr *)&at, &bytes) == 0 && at.sun_family == AF_UNIX &&
            strncmp(at.sun_path, path, sizeof at.sun_path) == 0)
            (void)shutdown(fd, SHUT_RDWR);
    }
    if (fds != NULL)
        (void)closedir(fds);
}

void listening_revive(struct listening *listening, uint32_t i)
{
    struct listener *l = &listening->listener[i];
    const char *path = address_ipc_path(l->address);
    int id;

    /* First: everything that has this path now, the dead listener included, is of before. */
    cut_connections(path);
    (void)unlink(path);
    /* The dead one is left to the end: closing it here might wait for its connections. */
    if (listen_ipc(listening->socket, l->address, listening->mode, &id) == 0) {
        atomic_store(&l->id, id);
        listening->replaced++;
    }
    probe_end(l);
}
