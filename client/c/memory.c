#include "memory.h"

#include "link.h"
#include "proto/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct region {
    const uint8_t *at;
    uint64_t bytes;
};

struct memory {
    atomic_uint holders;
    int fd;
    uint64_t client;
    uint32_t n_regions;
    struct region region[LK_HANDOVER_REGIONS_MAX];
    pthread_mutex_t mutex; /* of the socket's sending side and @owed */
    uint64_t *owed;        /* leases that could not be sent yet */
    size_t n_owed, owed_room;
};

/* Numbers of the hand-over's messages: @n bytes, little-endian. */
static void put_le(uint8_t *to, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *from, size_t n)
{
    uint64_t value = 0;
    for (size_t i = n; i > 0; i--)
        value = value << 8 | from[i - 1];
    return value;
}

static bool failed(char *ret_why, size_t n, const char *what, int error)
{
    (void)snprintf(ret_why, n, "%s: %s", what, strerror(error));
    return false;
}

/* Waits until @fd is ready for @events; false: not in time. */
static bool ready(int fd, short events, int64_t until_ms)
{
    for (;;) {
        int64_t left = until_ms - lkc_link_now_ms();
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
        if (n > 0)
            return true;
        if (n == 0 && left <= 0)
            return false;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

/* ---- joining ---- */

static bool join(struct memory *m, const char *path, int64_t until_ms, char *ret_why, size_t why_bytes)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint8_t hello[LK_HANDOVER_MESSAGE_BYTES] = LK_HANDOVER_MAGIC;

    if (strlen(path) >= sizeof at.sun_path)
        return failed(ret_why, why_bytes, path, ENAMETOOLONG);
    memcpy(at.sun_path, path, strlen(path) + 1);
    m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->fd < 0)
        return failed(ret_why, why_bytes, "socket", errno);
    while (connect(m->fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        /* EAGAIN: the daemon's queue of connections is full. There is nothing to poll for. */
        if ((errno != EAGAIN && errno != EINTR) || lkc_link_now_ms() >= until_ms)
            return failed(ret_why, why_bytes, path, errno);
        (void)poll(NULL, 0, 5);
    }
    do {
        if (getrandom(&m->client, sizeof m->client, 0) != (ssize_t)sizeof m->client)
            return failed(ret_why, why_bytes, "getrandom", errno);
    } while (m->client == 0);
    put_le(hello + 4, 0, 4);
    put_le(hello + 8, m->client, 8);
    if (send(m->fd, hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return failed(ret_why, why_bytes, path, errno);
    return true;
}

/* Maps one region. It must be sealed against shrinking: nobody may turn a read into a SIGBUS. */
static bool map_region(struct memory *m, int fd, uint64_t bytes, char *ret_why, size_t why_bytes)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || bytes == 0 ||
        (uint64_t)st.st_size < bytes || bytes > SIZE_MAX) {
        (void)snprintf(ret_why, why_bytes, "the shared region is not sealed, or smaller than announced");
        return false;
    }
    void *at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return failed(ret_why, why_bytes, "mmap", errno);
    m->region[m->n_regions++] = (struct region){at, bytes};
    return true;
}

/* Receives exactly @n bytes, and the descriptors that come with them. */
static bool receive(int socket_fd, void *to, size_t n, int *fds, uint32_t *n_fds, int64_t until_ms)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * LK_HANDOVER_REGIONS_MAX)];
    } control;

    for (size_t have = 0; have < n;) {
        struct iovec iov = {.iov_base = (char *)to + have, .iov_len = n - have};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        if (!ready(socket_fd, POLLIN, until_ms))
            return false;
        ssize_t got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                continue;
            size_t bytes = c->cmsg_len - CMSG_LEN(0);
            for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int)) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i, sizeof fd);
                if (*n_fds < LK_HANDOVER_REGIONS_MAX)
                    fds[(*n_fds)++] = fd;
                else
                    close(fd);
            }
        }
        have += (size_t)got;
    }
    return true;
}

static bool take_regions(struct memory *m, int64_t until_ms, char *ret_why, size_t why_bytes)
{
    uint8_t head[8], sizes[8 * LK_HANDOVER_REGIONS_MAX];
    int fds[LK_HANDOVER_REGIONS_MAX];
    uint32_t n_fds = 0, n = 0;
    bool ok = receive(m->fd, head, sizeof head, fds, &n_fds, until_ms) &&
              memcmp(head, LK_HANDOVER_MAGIC, 4) == 0;

    if (ok) {
        n = (uint32_t)get_le(head + 4, 4);
        ok = n <= LK_HANDOVER_REGIONS_MAX &&
             receive(m->fd, sizes, 8 * (size_t)n, fds, &n_fds, until_ms) && n_fds == n;
    }
    if (!ok)
        (void)snprintf(ret_why, why_bytes, "the daemon's hand-over socket did not answer as it should");
    for (uint32_t i = 0; ok && i < n; i++)
        ok = map_region(m, fds[i], get_le(sizes + 8 * (size_t)i, 8), ret_why, why_bytes);
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
    return ok;
}

bool lkc_memory_open(const char *path, int64_t until_ms, struct memory **ret_memory, char *ret_why,
                 size_t why_bytes)
{
    struct memory *m = calloc(1, sizeof *m);

    if (m == NULL)
        return failed(ret_why, why_bytes, "shared memory", ENOMEM);
    atomic_init(&m->holders, 1);
    m->fd = -1;
    (void)pthread_mutex_init(&m->mutex, NULL);
    if (!join(m, path, until_ms, ret_why, why_bytes) ||
        !take_regions(m, until_ms, ret_why, why_bytes)) {
        lkc_memory_drop(m);
        return false;
    }
    *ret_memory = m;
    return true;
}

/* ---- holding ---- */

void lkc_memory_hold(struct memory *memory)
{
    (void)atomic_fetch_add_explicit(&memory->holders, 1, memory_order_relaxed);
}

void lkc_memory_drop(struct memory *memory)
{
    if (memory == NULL || atomic_fetch_sub_explicit(&memory->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < memory->n_regions; i++)
        (void)munmap((void *)(uintptr_t)memory->region[i].at, (size_t)memory->region[i].bytes);
    if (memory->fd >= 0) {
        (void)shutdown(memory->fd, SHUT_RDWR); /* also for children that were forked meanwhile */
        close(memory->fd);
    }
    (void)pthread_mutex_destroy(&memory->mutex);
    free(memory->owed);
    free(memory);
}

uint64_t lkc_memory_client(const struct memory *memory)
{
    return memory->client;
}

bool lkc_memory_alive(const struct memory *memory)
{
    char byte;
    /* The daemon says nothing after its hello: a byte, an end or an error all mean that it is over. */
    return recv(memory->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

int lkc_memory_fd(const struct memory *memory)
{
    return memory->fd;
}

const uint8_t *lkc_memory_at(const struct memory *memory, uint32_t region, uint64_t offset, uint64_t bytes)
{
    if (region >= memory->n_regions || offset % 8 != 0 || offset > memory->region[region].bytes ||
        bytes > memory->region[region].bytes - offset)
        return NULL;
    return memory->region[region].at + offset;
}

/* True: sent, or there is nobody to send it to. */
static bool send_release(struct memory *m, uint64_t lease)
{
    uint8_t message[LK_HANDOVER_MESSAGE_BYTES];

    put_le(message, LK_HANDOVER_RELEASE, 4);
    put_le(message + 4, 0, 4);
    put_le(message + 8, lease, 8);
    for (;;) {
        /* A Unix stream takes sixteen bytes whole or not at all. */
        if (send(m->fd, message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return true;
        if (errno != EINTR)
            return errno != EAGAIN && errno != ENOBUFS;
    }
}

static void owe(struct memory *m, uint64_t lease)
{
    if (m->n_owed == m->owed_room) {
        size_t room = m->owed_room == 0 ? 64 : m->owed_room * 2;
        uint64_t *more = realloc(m->owed, room * sizeof *more);
        if (more == NULL)
            return; /* this lease ends with the connection; ending that now would end those in use, too */
        m->owed = more;
        m->owed_room = room;
    }
    m->owed[m->n_owed++] = lease;
}

void lkc_memory_release(struct memory *memory, uint64_t lease)
{
    (void)pthread_mutex_lock(&memory->mutex);
    while (memory->n_owed > 0 && send_release(memory, memory->owed[memory->n_owed - 1]))
        memory->n_owed--;
    if (memory->n_owed > 0 || !send_release(memory, lease))
        owe(memory, lease);
    (void)pthread_mutex_unlock(&memory->mutex);
}
