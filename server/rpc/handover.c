/*
 * Level-triggered epoll over one listening socket and its clients. Every descriptor is non-blocking;
 * a client that sends anything but the protocol is closed, and that ends its leases: nobody else
 * notices. Connections that have not said hello yet are the first to go when all places are taken.
 * When the process has no descriptor for another connection, the listening socket is left alone for a
 * second: it stays readable meanwhile, and would wake the owner without end.
 */
#include "rpc/handover.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "proto/handover.h"
#include "rpc/address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

struct connection {
    int fd; /* -1: a free place */
    bool joined;
    uint64_t client;
    uint64_t order; /* of arrival */
    size_t have;    /* bytes in @partial */
    uint8_t partial[LK_HANDOVER_MESSAGE_BYTES];
};

struct handover {
    char *path;
    int epoll, listener;
    int pause; /* a timer: its end is the end of a pause of the listener */
    int *region;
    uint64_t *region_bytes;
    uint32_t n_regions;
    struct connection *connection;
    uint32_t n_connections;
    uint64_t arrivals;
    const struct handover_ops *ops;
    void *owner;
    bool bound; /* the socket file is ours to remove */
};

#define LISTENER_TAG UINT32_MAX
#define PAUSE_TAG (UINT32_MAX - 1)
#define PAUSE_S 1

static bool watch(struct handover *h, int fd, uint32_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = tag};
    return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void connection_close(struct handover *h, struct connection *c)
{
    bool joined = c->joined;
    uint64_t client = c->client;

    close(c->fd); /* leaves the epoll set by itself */
    *c = (struct connection){.fd = -1};
    if (joined)
        h->ops->gone(h->owner, client);
}

/* ---- taking connections ---- */

/* A free place; else that of the connection that has been silent longest; else NULL. */
static struct connection *place_for(struct handover *h)
{
    struct connection *silent = NULL;

    for (uint32_t i = 0; i < h->n_connections; i++) {
        struct connection *c = &h->connection[i];
        if (c->fd < 0)
            return c;
        if (!c->joined && (silent == NULL || c->order < silent->order))
            silent = c;
    }
    if (silent != NULL)
        connection_close(h, silent);
    return silent;
}

static void accept_one(struct handover *h, int fd)
{
    struct connection *c = place_for(h);

    if (c == NULL || !watch(h, fd, (uint32_t)(c - h->connection))) {
        close(fd);
        return;
    }
    *c = (struct connection){.fd = fd, .order = h->arrivals++};
}

static void listener_pause(struct handover *h)
{
    struct itimerspec in = {.it_value.tv_sec = PAUSE_S};

    if (timerfd_settime(h->pause, 0, &in, NULL) == 0)
        (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, h->listener, NULL);
}

static void listener_resume(struct handover *h)
{
    uint64_t count;

    /* Without kernel memory for that: once more after the next pause. */
    if (read(h->pause, &count, sizeof count) == (ssize_t)sizeof count && !watch(h, h->listener, LISTENER_TAG))
        listener_pause(h);
}

static void accept_all(struct handover *h)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(h, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                listener_pause(h);
            return;
        }
    }
}

/* ---- hello ---- */

static bool send_regions(const struct handover *h, int fd)
{
    uint8_t text[8 + 8 * LK_HANDOVER_REGIONS_MAX];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * LK_HANDOVER_REGIONS_MAX)];
    } control;
    size_t n = 8 + 8 * (size_t)h->n_regions;
    struct iovec iov = {.iov_base = text, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

    memcpy(text, LK_HANDOVER_MAGIC, 4);
    lk_put_u32(text + 4, h->n_regions);
    for (uint32_t i = 0; i < h->n_regions; i++)
        lk_put_u64(text + 8 + 8 * (size_t)i, h->region_bytes[i]);
    if (h->n_regions > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * h->n_regions);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * h->n_regions);
        memcpy(CMSG_DATA(c), h->region, sizeof(int) * h->n_regions);
    }
    /* A new connection's buffer takes these few bytes at once, or the connection is broken. */
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static bool client_known(const struct handover *h, uint64_t client)
{
    for (uint32_t i = 0; i < h->n_connections; i++) {
        if (h->connection[i].fd >= 0 && h->connection[i].joined && h->connection[i].client == client)
            return true;
    }
    return false;
}

static bool hello(struct handover *h, struct connection *c)
{
    uint64_t client = lk_get_u64(c->partial + 8);

    /* Number 0 means "answer inline" in a GetBatch; a number in use is an error or an attempt on
     * somebody else's leases. */
    if (memcmp(c->partial, LK_HANDOVER_MAGIC, 4) != 0 || lk_get_u32(c->partial + 4) != 0 || client == 0 ||
        client_known(h, client))
        return false;
    c->joined = true;
    c->client = client;
    /* The owner hears of the client before the client can ask for anything. */
    h->ops->joined(h->owner, client);
    return send_regions(h, c->fd);
}

/* ---- messages ---- */

static bool message(struct handover *h, struct connection *c)
{
    if (!c->joined)
        return hello(h, c);
    if (lk_get_u32(c->partial) != LK_HANDOVER_RELEASE || lk_get_u32(c->partial + 4) != 0)
        return false;
    h->ops->released(h->owner, c->client, lk_get_u64(c->partial + 8));
    return true;
}

static bool feed(struct handover *h, struct connection *c, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t take = LK_HANDOVER_MESSAGE_BYTES - c->have;
        if (take > n)
            take = n;
        memcpy(c->partial + c->have, bytes, take);
        c->have += take;
        bytes += take;
        n -= take;
        if (c->have < LK_HANDOVER_MESSAGE_BYTES)
            return true;
        c->have = 0;
        if (!message(h, c))
            return false;
    }
    return true;
}

static void connection_ready(struct handover *h, struct connection *c)
{
    uint8_t bytes[4096]; /* one read a turn: a busy client does not keep the others waiting */
    ssize_t n = read(c->fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || !feed(h, c, bytes, (size_t)n))
        connection_close(h, c);
}

void handover_poll(struct handover *handover)
{
    struct epoll_event event[64];
    int n = epoll_wait(handover->epoll, event, 64, 0);
    bool arrivals = false;

    for (int i = 0; i < n; i++) {
        if (event[i].data.u32 == LISTENER_TAG)
            arrivals = true;
        else if (event[i].data.u32 == PAUSE_TAG)
            listener_resume(handover);
        else if (handover->connection[event[i].data.u32].fd >= 0)
            connection_ready(handover, &handover->connection[event[i].data.u32]);
    }
    /* Last, so that no event of this round can meet a place that changed hands. */
    if (arrivals)
        accept_all(handover);
}

/* ---- opening and closing ---- */

static int listen_at(struct handover *h, const char *path, uint32_t mode)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->listener < 0)
        return errno;
    memcpy(at.sun_path, path, strlen(path) + 1);
    /* Nobody can connect before listen(), so the mode is right from the first moment on. */
    if (bind(h->listener, (const struct sockaddr *)&at, sizeof at) != 0)
        return errno;
    h->bound = true;
    if (chmod(path, mode) != 0 || listen(h->listener, 1024) != 0)
        return errno;
    h->pause = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (h->pause < 0 || !watch(h, h->pause, PAUSE_TAG))
        return errno;
    return watch(h, h->listener, LISTENER_TAG) ? 0 : errno;
}

static void regions_copy(struct handover *h, const struct handover_config *config)
{
    h->n_regions = config->n_regions;
    h->region = lk_zalloc(h->n_regions, sizeof *h->region);
    h->region_bytes = lk_zalloc(h->n_regions, sizeof *h->region_bytes);
    for (uint32_t i = 0; i < h->n_regions; i++) {
        h->region[i] = config->regions[i];
        h->region_bytes[i] = config->region_bytes[i];
    }
}

enum lk_code handover_open(const struct handover_config *config, struct handover **ret_handover,
                           struct lk_err *err)
{
    int lock = -1, failure;

    if (config->n_regions > LK_HANDOVER_REGIONS_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%u shared regions; at most %d", config->n_regions,
                       LK_HANDOVER_REGIONS_MAX);
    LK_TRY(unix_path_claim(config->path, &lock, err));
    struct handover *h = lk_zalloc(1, sizeof *h);
    h->listener = h->pause = -1;
    h->path = lk_strdup(config->path);
    h->ops = config->ops;
    h->owner = config->owner;
    h->n_connections = config->clients_max;
    h->connection = lk_zalloc(config->clients_max, sizeof *h->connection);
    for (uint32_t i = 0; i < h->n_connections; i++)
        h->connection[i].fd = -1;
    regions_copy(h, config);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    failure = h->epoll < 0 ? errno : listen_at(h, config->path, config->socket_mode);
    if (lock >= 0)
        close(lock);
    if (failure != 0) {
        handover_close(h);
        return lk_fail(err, LK_UNAVAILABLE, "cannot listen on %s: %s", config->path, strerror(failure));
    }
    *ret_handover = h;
    return LK_OK;
}

int handover_fd(const struct handover *handover)
{
    return handover->epoll;
}

void handover_close(struct handover *handover)
{
    if (handover == NULL)
        return;
    for (uint32_t i = 0; i < handover->n_connections; i++) {
        if (handover->connection[i].fd >= 0)
            close(handover->connection[i].fd);
    }
    if (handover->bound)
        (void)unlink(handover->path);
    if (handover->listener >= 0)
        close(handover->listener);
    if (handover->pause >= 0)
        close(handover->pause);
    if (handover->epoll >= 0)
        close(handover->epoll);
    free(handover->connection);
    free(handover->region);
    free(handover->region_bytes);
    free(handover->path);
    free(handover);
}
