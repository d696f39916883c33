/*
 * What connections have to send is the only thing that both threads touch, under the mutex, with the
 * table of connections; what they receive is the thread's own.
 */
#include "rpc/ipc.h"

#include "base/bytes.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define GREETING_BYTES 8
#define HEAD_BYTES 9      /* of a message: 1, and its length */
#define WORDS_MAX 8       /* of a request's header: one, and one for each device on its way */
#define SLOTS_MAX (1u << 14)
#define LISTENERS_MAX 64
#define RECEIVE_BYTES (64u << 10)
#define KEEP_BYTES (256u << 10) /* a buffer that grew beyond this is given back when it is empty */
#define KEPT_MAX 128      /* answers that a peer has not read: more than a client ever waits for */
#define KEPT_BYTES_MAX ((size_t)1 << 30) /* … together, but for a single one */
#define BACKLOG 1024
#define GREET_WITHIN_MS 10000
#define CARE_MS 1000      /* between looks at those who have not greeted, and of a listener's pause */

enum { TAG_STOP = -1 }; /* else: a listener's number, or LISTENERS_MAX + a connection's slot */

/* An answer that waits for its socket. */
struct kept {
    struct kept *next;
    nng_msg *message;
};

struct connection {
    int fd;
    uint32_t number;
    bool greeted;
    int64_t since_ms;
    struct lk_buf in;
    struct kept *first, *last; /* oldest first */
    size_t sent;               /* bytes of the first one */
    uint32_t n_kept;
    size_t kept_bytes;         /* of all of them */
};

struct listener {
    int fd;
    bool paused; /* there was no descriptor for a connection */
    char *path;
    dev_t device; /* of our socket file: what lies at the path later may be another's */
    ino_t inode;
};

struct ipc {
    const struct ipc_ops *ops;
    void *owner;
    size_t message_max;
    int epoll, stop;
    bool running;
    pthread_t thread;
    struct listener listener[LISTENERS_MAX];
    uint32_t n_listeners;
    uint32_t n_silent;   /* connections that have not greeted */
    uint32_t arrivals;
    bool pauses;
    pthread_mutex_t mutex;
    struct connection *slot[SLOTS_MAX]; /* changed by the thread, under the mutex */
    uint32_t n_slots;
};

static const uint8_t our_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0}; /* REP */
static const uint8_t their_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* REQ */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool watch(const struct ipc *ipc, int operation, int fd, int64_t tag, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)tag};
    return epoll_ctl(ipc->epoll, operation, fd, &event) == 0;
}

static uint32_t slot_of(uint32_t number)
{
    return number & (SLOTS_MAX - 1);
}

/* What an answer takes on the wire. */
static size_t wire_bytes(nng_msg *message)
{
    return HEAD_BYTES + nng_msg_header_len(message) - 4 + nng_msg_len(message);
}

/* ---- connections come and go ---- */

static void drop_first(struct connection *c)
{
    struct kept *kept = c->first;
    c->first = kept->next;
    c->sent = 0;
    c->n_kept--;
    c->kept_bytes -= wire_bytes(kept->message);
    nng_msg_free(kept->message);
    free(kept);
}

static void connection_free(struct connection *c)
{
    (void)close(c->fd);
    lk_buf_done(&c->in);
    while (c->first != NULL)
        drop_first(c);
    free(c);
}

static void connection_end(struct ipc *ipc, struct connection *c)
{
    (void)pthread_mutex_lock(&ipc->mutex);
    ipc->slot[slot_of(c->number)] = NULL;
    (void)pthread_mutex_unlock(&ipc->mutex);
    if (c->greeted)
        ipc->ops->gone(ipc->owner, c->number);
    else
        ipc->n_silent--;
    connection_free(c);
}

static bool free_slot(const struct ipc *ipc, uint32_t *ret_slot)
{
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        if (i >= ipc->n_slots || ipc->slot[i] == NULL) {
            *ret_slot = i;
            return true;
        }
    }
    return false;
}

static void accept_one(struct ipc *ipc, int fd)
{
    uint32_t slot = 0;
    /* A new connection's buffer takes the greeting at once, or the connection is broken. */
    if (!free_slot(ipc, &slot) || send(fd, our_greeting, GREETING_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) !=
                                      GREETING_BYTES ||
        !watch(ipc, EPOLL_CTL_ADD, fd, (int64_t)LISTENERS_MAX + slot, EPOLLIN)) {
        (void)close(fd);
        return;
    }
    struct connection *c = lk_zalloc(1, sizeof *c);
    c->fd = fd;
    c->number = IPC_PEER_BIT | (++ipc->arrivals * SLOTS_MAX & (IPC_PEER_BIT - 1)) | slot;
    c->since_ms = now_ms();
    ipc->n_silent++;
    (void)pthread_mutex_lock(&ipc->mutex);
    ipc->slot[slot] = c;
    if (slot >= ipc->n_slots)
        ipc->n_slots = slot + 1;
    (void)pthread_mutex_unlock(&ipc->mutex);
}

static void accept_all(struct ipc *ipc, struct listener *l)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(ipc, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* Without a descriptor for it, it would stay readable, and wake us without end. */
            if (errno != EAGAIN && watch(ipc, EPOLL_CTL_DEL, l->fd, 0, 0))
                l->paused = ipc->pauses = true;
            return;
        }
    }
}

/* Every second or so, while there is reason to: ends who has not greeted in time, and pauses. */
static void take_care(struct ipc *ipc)
{
    int64_t now = now_ms();
    for (uint32_t i = 0; i < ipc->n_slots && ipc->n_silent > 0; i++) {
        struct connection *c = ipc->slot[i];
        if (c != NULL && !c->greeted && now - c->since_ms > GREET_WITHIN_MS)
            connection_end(ipc, c);
    }
    bool pauses = false;
    for (uint32_t i = 0; i < ipc->n_listeners && ipc->pauses; i++) {
        struct listener *l = &ipc->listener[i];
        if (l->paused)
            l->paused = !watch(ipc, EPOLL_CTL_ADD, l->fd, i, EPOLLIN);
        pauses = pauses || l->paused;
    }
    ipc->pauses = pauses;
}

/* ---- in ---- */

static uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A message of @n bytes as a raw REP socket would give it; false: it is no request. */
static bool take_message(struct ipc *ipc, const struct connection *c, const uint8_t *p, size_t n)
{
    nng_msg *m;
    if (nng_msg_alloc(&m, 0) != 0)
        return false;
    bool good = nng_msg_header_append_u32(m, c->number) == 0, last = false;
    for (int words = 0; good && !last; words++) {
        good = words < WORDS_MAX && n >= 4 && nng_msg_header_append(m, p, 4) == 0;
        if (!good)
            break;
        last = get_be32(p) >> 31 != 0;
        p += 4;
        n -= 4;
    }
    good = good && n <= ipc->message_max && (n == 0 || nng_msg_append(m, p, n) == 0);
    if (good)
        ipc->ops->message(ipc->owner, c->number, m);
    else
        nng_msg_free(m);
    return good;
}

static bool greet(struct ipc *ipc, struct connection *c)
{
    if (memcmp(c->in.data, their_greeting, GREETING_BYTES) != 0)
        return false;
    c->greeted = true;
    ipc->n_silent--;
    ipc->ops->joined(ipc->owner, c->number);
    return true;
}

/* Handles all that is whole; false: it is not nng that speaks. */
static bool take_all(struct ipc *ipc, struct connection *c)
{
    size_t at = 0;
    bool good = true;
    if (!c->greeted && c->in.len >= GREETING_BYTES) {
        good = greet(ipc, c);
        at = GREETING_BYTES;
    }
    while (good && c->greeted && c->in.len - at >= HEAD_BYTES) {
        const uint8_t *p = c->in.data + at;
        uint64_t n = (uint64_t)get_be32(p + 1) << 32 | get_be32(p + 5);
        good = p[0] == 1 && n <= ipc->message_max + 4 * WORDS_MAX;
        if (!good || c->in.len - at - HEAD_BYTES < n)
            break;
        good = take_message(ipc, c, p + HEAD_BYTES, (size_t)n);
        at += HEAD_BYTES + (size_t)n;
    }
    c->in.len -= good ? at : c->in.len;
    if (c->in.len > 0 && at > 0)
        memmove(c->in.data, c->in.data + at, c->in.len);
    else if (c->in.len == 0 && c->in.cap > KEEP_BYTES)
        lk_buf_done(&c->in);
    return good;
}

/* One read a turn: a busy peer does not keep the others waiting. False: the connection is over. */
static bool receive(struct ipc *ipc, struct connection *c)
{
    ssize_t n = recv(c->fd, lk_buf_room(&c->in, RECEIVE_BYTES), RECEIVE_BYTES, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->in.len += (size_t)n;
    return n > 0 && take_all(ipc, c);
}

/* ---- out ---- */

/* What of @message goes over the wire beyond its first @sent bytes; @head has room for HEAD_BYTES. */
static void pieces(nng_msg *message, size_t sent, uint8_t *head, struct iovec iov[3])
{
    size_t all = wire_bytes(message) - HEAD_BYTES;
    head[0] = 1;
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)all >> (56 - 8 * i));
    iov[0] = (struct iovec){.iov_base = head, .iov_len = HEAD_BYTES};
    iov[1] = (struct iovec){.iov_base = (uint8_t *)nng_msg_header(message) + 4,
                            .iov_len = nng_msg_header_len(message) - 4};
    iov[2] = (struct iovec){.iov_base = nng_msg_body(message), .iov_len = nng_msg_len(message)};
    for (int i = 0; i < 3; i++) {
        size_t cut = sent < iov[i].iov_len ? sent : iov[i].iov_len;
        sent -= cut;
        iov[i].iov_base = (uint8_t *)iov[i].iov_base + cut;
        iov[i].iov_len -= cut;
    }
}

/*
 * Sends what the socket takes of @message beyond its first @sent bytes; how many are sent then. Whatever
 * else fails, be it the kernel's memory, ends the connection, of which the thread then hears: nothing may
 * follow half a message. So everything is as good as sent.
 */
static size_t push(int fd, nng_msg *message, size_t sent)
{
    uint8_t head[HEAD_BYTES];
    struct iovec iov[3];
    struct msghdr header = {.msg_iov = iov, .msg_iovlen = 3};
    ssize_t n;
    pieces(message, sent, head, iov);
    do {
        n = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return sent + (size_t)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return sent;
    (void)shutdown(fd, SHUT_RDWR);
    return wire_bytes(message);
}

/* Under the mutex. */
static void flush(const struct ipc *ipc, struct connection *c)
{
    while (c->first != NULL) {
        c->sent = push(c->fd, c->first->message, c->sent);
        if (c->sent < wire_bytes(c->first->message))
            return;
        drop_first(c);
    }
    (void)watch(ipc, EPOLL_CTL_MOD, c->fd, (int64_t)LISTENERS_MAX + slot_of(c->number), EPOLLIN);
}

/* Takes @message, of which @sent bytes are on their way. Under the mutex. */
static void keep(const struct ipc *ipc, struct connection *c, nng_msg *message, size_t sent)
{
    struct kept *kept = lk_zalloc(1, sizeof *kept);
    kept->message = message;
    if (c->first == NULL) {
        c->first = kept;
        c->sent = sent;
        (void)watch(ipc, EPOLL_CTL_MOD, c->fd, (int64_t)LISTENERS_MAX + slot_of(c->number),
                    EPOLLIN | EPOLLOUT);
    } else {
        c->last->next = kept;
    }
    c->last = kept;
    c->n_kept++;
    c->kept_bytes += wire_bytes(message);
}

/* Takes @message if it must be kept. Under the mutex. */
static bool send_message(const struct ipc *ipc, struct connection *c, nng_msg *message)
{
    size_t all = wire_bytes(message), sent = 0;
    if (c->first != NULL && (c->n_kept >= KEPT_MAX || c->kept_bytes + all > KEPT_BYTES_MAX))
        return false;
    if (c->first == NULL)
        sent = push(c->fd, message, 0);
    if (sent < all)
        keep(ipc, c, message, sent);
    return sent < all;
}

void ipc_send(struct ipc *ipc, nng_msg *message)
{
    LK_CHECK(nng_msg_header_len(message) >= 4);
    uint32_t number = get_be32(nng_msg_header(message));
    (void)pthread_mutex_lock(&ipc->mutex);
    struct connection *c = ipc->slot[slot_of(number)];
    bool taken = c != NULL && c->number == number && send_message(ipc, c, message);
    (void)pthread_mutex_unlock(&ipc->mutex);
    if (!taken)
        nng_msg_free(message);
}

/* ---- the thread ---- */

static void connection_ready(struct ipc *ipc, struct connection *c, uint32_t events)
{
    if (events & EPOLLOUT) {
        (void)pthread_mutex_lock(&ipc->mutex);
        if (c->first != NULL)
            flush(ipc, c);
        (void)pthread_mutex_unlock(&ipc->mutex);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && !receive(ipc, c))
        connection_end(ipc, c);
}

/* False: it is time to end. */
static bool turn(struct ipc *ipc, const struct epoll_event *event, int n)
{
    bool arrivals[LISTENERS_MAX] = {false};
    for (int i = 0; i < n; i++) {
        int64_t tag = (int64_t)event[i].data.u64;
        if (tag == TAG_STOP)
            return false;
        if (tag < LISTENERS_MAX)
            arrivals[tag] = true;
        else if (ipc->slot[tag - LISTENERS_MAX] != NULL)
            connection_ready(ipc, ipc->slot[tag - LISTENERS_MAX], event[i].events);
    }
    /* Last, so that no event of this turn can meet a slot that changed hands. */
    for (uint32_t i = 0; i < ipc->n_listeners; i++)
        if (arrivals[i])
            accept_all(ipc, &ipc->listener[i]);
    return true;
}

static void *run(void *arg)
{
    struct ipc *ipc = arg;
    struct epoll_event event[64];
    int64_t cared_ms = now_ms();
    for (;;) {
        bool care = ipc->n_silent > 0 || ipc->pauses;
        int n = epoll_wait(ipc->epoll, event, 64, care ? CARE_MS : -1);
        LK_CHECK(n >= 0 || errno == EINTR);
        if (!turn(ipc, event, n))
            return NULL;
        if (care && now_ms() - cared_ms >= CARE_MS) {
            cared_ms = now_ms();
            take_care(ipc);
        }
    }
}

/* ---- opening and closing ---- */

enum lk_code ipc_open(size_t message_max, const struct ipc_ops *ops, void *owner, struct ipc **ret_ipc,
                      struct lk_err *err)
{
    struct ipc *ipc = lk_zalloc(1, sizeof *ipc);
    ipc->ops = ops;
    ipc->owner = owner;
    ipc->message_max = message_max;
    (void)pthread_mutex_init(&ipc->mutex, NULL);
    ipc->epoll = epoll_create1(EPOLL_CLOEXEC);
    ipc->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ipc->epoll < 0 || ipc->stop < 0 || !watch(ipc, EPOLL_CTL_ADD, ipc->stop, TAG_STOP, EPOLLIN)) {
        enum lk_code code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
        ipc_close(ipc);
        return code;
    }
    *ret_ipc = ipc;
    return LK_OK;
}

/* A listening socket; nobody can connect before listen(), so the mode is right from the first moment on. */
static int listen_at(struct ipc *ipc, const char *path, uint32_t mode)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat status;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    memcpy(at.sun_path, path, strlen(path) + 1);
    int failure = bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 ? errno : 0;
    if (failure == 0) {
        if (chmod(path, mode) != 0 || lstat(path, &status) != 0 || listen(fd, BACKLOG) != 0 ||
            !watch(ipc, EPOLL_CTL_ADD, fd, ipc->n_listeners, EPOLLIN))
            failure = errno;
        if (failure != 0)
            (void)unlink(path);
    }
    if (failure != 0) {
        (void)close(fd);
        return failure;
    }
    ipc->listener[ipc->n_listeners++] = (struct listener){
        .fd = fd, .path = lk_strdup(path), .device = status.st_dev, .inode = status.st_ino};
    return 0;
}

enum lk_code ipc_listen(struct ipc *ipc, const char *path, uint32_t mode, struct lk_err *err)
{
    if (ipc->n_listeners == LISTENERS_MAX)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "more than %d Unix sockets", LISTENERS_MAX);
    int failure = listen_at(ipc, path, mode);
    if (failure != 0)
        return lk_fail(err, LK_UNAVAILABLE, "cannot listen on ipc://%s: %s", path, strerror(failure));
    return LK_OK;
}

enum lk_code ipc_start(struct ipc *ipc, struct lk_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the others */
    int failure = ipc->n_listeners == 0 ? 0 : pthread_create(&ipc->thread, NULL, run, ipc);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot start a thread: %s", strerror(failure));
    ipc->running = ipc->n_listeners > 0;
    return LK_OK;
}

void ipc_stop(struct ipc *ipc)
{
    uint64_t one = 1;
    if (ipc == NULL || !ipc->running)
        return;
    LK_CHECK(write(ipc->stop, &one, sizeof one) == (ssize_t)sizeof one);
    (void)pthread_join(ipc->thread, NULL);
    ipc->running = false;
}

static void listener_close(struct listener *l)
{
    struct stat status;
    if (lstat(l->path, &status) == 0 && status.st_dev == l->device && status.st_ino == l->inode)
        (void)unlink(l->path);
    (void)close(l->fd);
    free(l->path);
}

void ipc_close(struct ipc *ipc)
{
    if (ipc == NULL)
        return;
    ipc_stop(ipc);
    for (uint32_t i = 0; i < ipc->n_slots; i++)
        if (ipc->slot[i] != NULL)
            connection_free(ipc->slot[i]);
    for (uint32_t i = 0; i < ipc->n_listeners; i++)
        listener_close(&ipc->listener[i]);
    if (ipc->stop >= 0)
        (void)close(ipc->stop);
    if (ipc->epoll >= 0)
        (void)close(ipc->epoll);
    (void)pthread_mutex_destroy(&ipc->mutex);
    free(ipc);
}
