/*
 * What connections have to send is the only thing that both threads touch, under the mutex, with the
 * table of connections; what they receive is the thread's own.
 */
#include "rpc/sockets.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "rpc/listen_fd.h"
#include "rpc/outbox.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GREETING_BYTES 8
#define HEAD_UNIX 9       /* of a message: 1, and its length */
#define HEAD_TCP 8
#define WORDS_MAX 8       /* of a request's header: one, and one for each device on its way */
#define SLOTS_MAX (1u << 14)
#define LISTENERS_MAX 64
#define RECEIVE_BYTES (64u << 10)
#define KEPT_SOON ((size_t)512 << 20) /* unread answers of all: from here on those who take nothing go */
#define KEPT_MAX ((size_t)1 << 30)
#define STUCK_MS 1000
#define GREET_WITHIN_MS 10000
#define CARE_MS 1000      /* between looks at those who have not greeted, and of a listener's pause */
#define END_WITHIN_MS 500 /* of all connections, when the service ends */
#define END_LOOK_MS 2
#define PEER_BIT 0x80000000u /* no number is 0 */

enum { TAG_STOP = -1 }; /* else: a listener's number, or LISTENERS_MAX + a connection's slot */

struct connection {
    struct outbox out; /* with the descriptor; under the mutex */
    uint32_t number;
    uint32_t head_bytes;
    bool greeted;
    atomic_bool trusted;
    int64_t since_ms, heard_ms;
    struct lk_buf in;  /* of a message that is not whole yet */
    size_t counted;    /* of its bytes, in sockets.partial_bytes */
};

struct listener {
    int fd;
    bool tcp;
    bool paused; /* there was no descriptor for a connection */
    struct unix_place place;
};

struct sockets {
    const struct sockets_ops *ops;
    void *owner;
    size_t message_max, stranger_max;
    uint32_t connections_max;
    _Atomic uint64_t displaced;
    int epoll, stop;
    bool running;
    pthread_t thread;
    struct listener listener[LISTENERS_MAX];
    uint32_t n_listeners;
    uint32_t n_connections;
    uint32_t n_silent;    /* connections that have not greeted */
    uint32_t arrivals;
    size_t partial_bytes; /* of half messages of peers that are not trusted */
    bool pauses;
    uint8_t *received;    /* [RECEIVE_BYTES] */
    pthread_mutex_t mutex;
    struct connection *slot[SLOTS_MAX]; /* changed by the thread, under the mutex */
    uint32_t n_slots;
    size_t kept_bytes;    /* of all outboxes */
};

static const uint8_t our_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0}; /* REP */
static const uint8_t their_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* REQ */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool watch(const struct sockets *s, int operation, int fd, int64_t tag, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)tag};
    return epoll_ctl(s->epoll, operation, fd, &event) == 0;
}

static uint32_t slot_of(uint32_t number)
{
    return number & (SLOTS_MAX - 1);
}

static void watch_more(const struct sockets *s, const struct connection *c, uint32_t events)
{
    (void)watch(s, EPOLL_CTL_MOD, c->out.fd, (int64_t)LISTENERS_MAX + slot_of(c->number), events);
}

/* ---- connections come and go ---- */

static void connection_free(struct connection *c)
{
    (void)close(c->out.fd);
    lk_buf_done(&c->in);
    outbox_done(&c->out);
    free(c);
}

static void connection_end(struct sockets *s, struct connection *c)
{
    (void)pthread_mutex_lock(&s->mutex);
    s->slot[slot_of(c->number)] = NULL;
    s->kept_bytes -= c->out.bytes;
    (void)pthread_mutex_unlock(&s->mutex);
    s->partial_bytes -= c->counted;
    s->n_connections--;
    if (c->greeted)
        s->ops->gone(s->owner, c->number);
    else
        s->n_silent--;
    connection_free(c);
}

static bool free_slot(const struct sockets *s, uint32_t *ret_slot)
{
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        if (i >= s->n_slots || s->slot[i] == NULL) {
            *ret_slot = i;
            return true;
        }
    }
    return false;
}

/* Is @a to go rather than @b? Whoever only dials must not cost those their place who have greeted. */
static bool more_silent(const struct connection *a, const struct connection *b)
{
    return a->greeted != b->greeted ? !a->greeted : a->heard_ms < b->heard_ms;
}

/* Room for one more: a client that waits says something every few seconds, so it is not the one to go. */
static void end_most_silent(struct sockets *s)
{
    struct connection *silent = NULL;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        struct connection *c = s->slot[i];
        if (c != NULL && (silent == NULL || more_silent(c, silent)))
            silent = c;
    }
    if (silent == NULL)
        return;
    atomic_fetch_add_explicit(&s->displaced, 1, memory_order_relaxed);
    connection_end(s, silent);
}

/* A host that is gone says nothing, and one that is there answers probes, whatever its process does. While
 * answers are on their way there are none: then it is these that must be taken within the same time. */
static void set_up_tcp(int fd)
{
    int one = 1, idle_s = 30, every_s = 10, times = 3;
    unsigned taken_ms = 60000;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &taken_ms, sizeof taken_ms);
}

static void accept_one(struct sockets *s, const struct listener *l, int fd)
{
    uint32_t slot = 0;
    if (s->n_connections >= s->connections_max)
        end_most_silent(s);
    if (l->tcp)
        set_up_tcp(fd);
    /* A new connection's buffer takes the greeting at once, or the connection is broken. */
    if (!free_slot(s, &slot) || send(fd, our_greeting, GREETING_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) !=
                                    GREETING_BYTES ||
        !watch(s, EPOLL_CTL_ADD, fd, (int64_t)LISTENERS_MAX + slot, EPOLLIN)) {
        (void)close(fd);
        return;
    }
    struct connection *c = lk_zalloc(1, sizeof *c);
    c->head_bytes = l->tcp ? HEAD_TCP : HEAD_UNIX;
    c->out = (struct outbox){.fd = fd, .head_bytes = c->head_bytes};
    c->number = PEER_BIT | (++s->arrivals * SLOTS_MAX & (PEER_BIT - 1)) | slot;
    c->since_ms = c->heard_ms = now_ms();
    s->n_connections++;
    s->n_silent++;
    (void)pthread_mutex_lock(&s->mutex);
    s->slot[slot] = c;
    if (slot >= s->n_slots)
        s->n_slots = slot + 1;
    (void)pthread_mutex_unlock(&s->mutex);
}

static void accept_all(struct sockets *s, struct listener *l)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(s, l, fd);
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
            /* Without a descriptor for it, it would stay readable, and wake us without end. */
            if (errno != EAGAIN && watch(s, EPOLL_CTL_DEL, l->fd, 0, 0))
                l->paused = s->pauses = true;
            return;
        }
    }
}

/* Every second or so, while there is reason to: ends who has not greeted in time, and pauses. */
static void take_care(struct sockets *s)
{
    int64_t now = now_ms();
    for (uint32_t i = 0; i < s->n_slots && s->n_silent > 0; i++) {
        struct connection *c = s->slot[i];
        if (c != NULL && !c->greeted && now - c->since_ms > GREET_WITHIN_MS)
            connection_end(s, c);
    }
    bool pauses = false;
    for (uint32_t i = 0; i < s->n_listeners && s->pauses; i++) {
        struct listener *l = &s->listener[i];
        if (l->paused)
            l->paused = !watch(s, EPOLL_CTL_ADD, l->fd, i, EPOLLIN);
        pauses = pauses || l->paused;
    }
    s->pauses = pauses;
}

/* ---- in ---- */

static uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static size_t body_max(const struct sockets *s, struct connection *c)
{
    return atomic_load_explicit(&c->trusted, memory_order_acquire) ? s->message_max : s->stranger_max;
}

/* A message of @n bytes as a raw REP socket would give it; false: it is no request. */
static bool take_message(struct sockets *s, struct connection *c, const uint8_t *p, size_t n)
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
    good = good && n <= body_max(s, c) && (n == 0 || nng_msg_append(m, p, n) == 0);
    if (good)
        s->ops->message(s->owner, c->number, m);
    else
        nng_msg_free(m);
    return good;
}

static bool greet(struct sockets *s, struct connection *c, const uint8_t *p)
{
    if (memcmp(p, their_greeting, GREETING_BYTES) != 0)
        return false;
    c->greeted = true;
    s->n_silent--;
    s->ops->joined(s->owner, c->number);
    return true;
}

/* Handles all of @n bytes that is whole, and says how much that was; false: it is not nng that speaks. */
static bool take_all(struct sockets *s, struct connection *c, const uint8_t *p, size_t n, size_t *ret_taken)
{
    size_t at = 0;
    if (!c->greeted && n >= GREETING_BYTES) {
        if (!greet(s, c, p))
            return false;
        at = GREETING_BYTES;
    }
    while (c->greeted && n - at >= c->head_bytes) {
        const uint8_t *length = p + at + c->head_bytes - 8;
        uint64_t all = (uint64_t)get_be32(length) << 32 | get_be32(length + 4);
        if ((c->head_bytes == HEAD_UNIX && p[at] != 1) || all > body_max(s, c) + 4UL * WORDS_MAX)
            return false;
        if (n - at - c->head_bytes < all)
            break;
        if (!take_message(s, c, length + 8, (size_t)all))
            return false;
        at += c->head_bytes + (size_t)all;
    }
    *ret_taken = at;
    return true;
}

/* Ends those that have sent most of a message which is not whole, until all of them together are within the
 * bound. */
static void bound_partial(struct sockets *s)
{
    while (s->partial_bytes > s->stranger_max + 2UL * RECEIVE_BYTES) {
        struct connection *most = NULL;
        for (uint32_t i = 0; i < s->n_slots; i++) {
            struct connection *c = s->slot[i];
            if (c != NULL && (most == NULL || c->counted > most->counted))
                most = c;
        }
        LK_CHECK(most != NULL);
        connection_end(s, most);
    }
}

static void count_partial(struct sockets *s, struct connection *c)
{
    size_t now = atomic_load_explicit(&c->trusted, memory_order_acquire) ? 0 : c->in.len;
    s->partial_bytes += now - c->counted;
    c->counted = now;
}

/* New bytes lie behind those of before; without such, they are not copied before they are known to be half
 * a message. */
static bool take_received(struct sockets *s, struct connection *c, size_t n)
{
    size_t taken;
    if (c->in.len == 0) {
        if (!take_all(s, c, s->received, n, &taken))
            return false;
        if (taken < n)
            lk_buf_put(&c->in, s->received + taken, n - taken);
    } else {
        lk_buf_put(&c->in, s->received, n);
        if (!take_all(s, c, c->in.data, c->in.len, &taken))
            return false;
        c->in.len -= taken;
        if (c->in.len > 0 && taken > 0)
            memmove(c->in.data, c->in.data + taken, c->in.len);
    }
    if (c->in.len == 0)
        lk_buf_done(&c->in);
    count_partial(s, c);
    return true;
}

/* One read a turn: a busy peer does not keep the others waiting. False: the connection is over. */
static bool receive(struct sockets *s, struct connection *c, int64_t now)
{
    ssize_t n = recv(c->out.fd, s->received, RECEIVE_BYTES, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->heard_ms = now;
    return n > 0 && take_received(s, c, (size_t)n);
}

/* ---- out ---- */

/* The connection that has taken nothing for longest of what is kept for it; NULL: there is none but @not. */
static struct connection *most_stuck(const struct sockets *s, const struct connection *not)
{
    struct connection *stuck = NULL;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        struct connection *c = s->slot[i];
        if (c != NULL && c != not && c->out.first != NULL &&
            (stuck == NULL || c->out.moved_ms < stuck->out.moved_ms))
            stuck = c;
    }
    return stuck;
}

/* Before @more bytes are kept for @c. Half a message may be out: so the others' connections end with it, of
 * which the thread then hears. Under the mutex. */
static void make_room(struct sockets *s, const struct connection *c, size_t more, int64_t now)
{
    while (s->kept_bytes + more > KEPT_SOON) {
        struct connection *stuck = most_stuck(s, c);
        if (stuck == NULL || (now - stuck->out.moved_ms < STUCK_MS && s->kept_bytes + more <= KEPT_MAX))
            return;
        s->kept_bytes -= stuck->out.bytes;
        outbox_done(&stuck->out);
        (void)shutdown(stuck->out.fd, SHUT_RDWR);
    }
}

/* Takes @message. Under the mutex. */
static void send_message(struct sockets *s, struct connection *c, nng_msg *message)
{
    int64_t now = now_ms();
    bool idle = c->out.first == NULL;
    size_t before = c->out.bytes;
    make_room(s, c, outbox_wire_bytes(&c->out, message), now);
    outbox_send(&c->out, message, now);
    s->kept_bytes += c->out.bytes - before;
    if (idle && c->out.first != NULL)
        watch_more(s, c, EPOLLIN | EPOLLOUT);
}

/* Of that number, or NULL. Under the mutex. */
static struct connection *by_number(const struct sockets *s, uint32_t number)
{
    struct connection *c = s->slot[slot_of(number)];
    return c != NULL && c->number == number ? c : NULL;
}

void sockets_send(struct sockets *sockets, nng_msg *message)
{
    LK_CHECK(nng_msg_header_len(message) >= 4);
    (void)pthread_mutex_lock(&sockets->mutex);
    struct connection *c = by_number(sockets, get_be32(nng_msg_header(message)));
    if (c != NULL)
        send_message(sockets, c, message);
    (void)pthread_mutex_unlock(&sockets->mutex);
    if (c == NULL)
        nng_msg_free(message);
}

void sockets_trust(struct sockets *sockets, uint32_t peer)
{
    (void)pthread_mutex_lock(&sockets->mutex);
    struct connection *c = by_number(sockets, peer);
    if (c != NULL)
        atomic_store_explicit(&c->trusted, true, memory_order_release);
    (void)pthread_mutex_unlock(&sockets->mutex);
}

uint64_t sockets_displaced(const struct sockets *sockets)
{
    return atomic_load_explicit(&sockets->displaced, memory_order_relaxed);
}

/* ---- the thread ---- */

static void flush(struct sockets *s, struct connection *c, int64_t now)
{
    (void)pthread_mutex_lock(&s->mutex);
    size_t before = c->out.bytes;
    outbox_flush(&c->out, now);
    s->kept_bytes -= before - c->out.bytes;
    if (c->out.first == NULL)
        watch_more(s, c, EPOLLIN);
    (void)pthread_mutex_unlock(&s->mutex);
}

static void connection_ready(struct sockets *s, struct connection *c, uint32_t events, int64_t now)
{
    if (events & EPOLLOUT)
        flush(s, c, now);
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && !receive(s, c, now))
        connection_end(s, c);
}

/* False: it is time to end. */
static bool turn(struct sockets *s, const struct epoll_event *event, int n)
{
    bool arrivals[LISTENERS_MAX] = {false};
    int64_t now = now_ms();
    for (int i = 0; i < n; i++) {
        int64_t tag = (int64_t)event[i].data.u64;
        if (tag == TAG_STOP)
            return false;
        if (tag < LISTENERS_MAX)
            arrivals[tag] = true;
        else if (s->slot[tag - LISTENERS_MAX] != NULL)
            connection_ready(s, s->slot[tag - LISTENERS_MAX], event[i].events, now);
    }
    bound_partial(s);
    /* Last, so that no event of this turn can meet a slot that changed hands. */
    for (uint32_t i = 0; i < s->n_listeners; i++)
        if (arrivals[i])
            accept_all(s, &s->listener[i]);
    return true;
}

static void *run(void *arg)
{
    struct sockets *s = arg;
    struct epoll_event event[64];
    int64_t cared_ms = now_ms();
    for (;;) {
        bool care = s->n_silent > 0 || s->pauses;
        int n = epoll_wait(s->epoll, event, 64, care ? CARE_MS : -1);
        LK_CHECK(n >= 0 || errno == EINTR);
        if (!turn(s, event, n))
            return NULL;
        if (care && now_ms() - cared_ms >= CARE_MS) {
            cared_ms = now_ms();
            take_care(s);
        }
    }
}

/* ---- opening and closing ---- */

/* A quarter of what the process may have open: the rest is for files, workers and the other sockets. */
static uint32_t connections_most(void)
{
    struct rlimit limit;
    rlim_t most = SLOTS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < most)
        most = limit.rlim_cur / 4;
    return most > 8 ? (uint32_t)most : 8;
}

enum lk_code sockets_open(size_t message_max, size_t stranger_max, const struct sockets_ops *ops,
                          void *owner, struct sockets **ret_sockets, struct lk_err *err)
{
    struct sockets *s = lk_zalloc(1, sizeof *s);
    s->ops = ops;
    s->owner = owner;
    s->message_max = message_max;
    s->stranger_max = stranger_max;
    s->connections_max = connections_most();
    s->received = lk_alloc(RECEIVE_BYTES);
    (void)pthread_mutex_init(&s->mutex, NULL);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll < 0 || s->stop < 0 || !watch(s, EPOLL_CTL_ADD, s->stop, TAG_STOP, EPOLLIN)) {
        enum lk_code code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
        sockets_close(s);
        return code;
    }
    *ret_sockets = s;
    return LK_OK;
}

/* Takes the descriptor and the place, also when it fails. */
static enum lk_code add_listener(struct sockets *s, const struct listener *l, struct lk_err *err)
{
    if (s->n_listeners < LISTENERS_MAX && watch(s, EPOLL_CTL_ADD, l->fd, s->n_listeners, EPOLLIN)) {
        s->listener[s->n_listeners++] = *l;
        return LK_OK;
    }
    struct unix_place place = l->place;
    unix_place_done(&place);
    (void)close(l->fd);
    return lk_fail(err, LK_RESOURCE_EXHAUSTED, "more than %d listening sockets", LISTENERS_MAX);
}

enum lk_code sockets_listen_unix(struct sockets *sockets, const char *path, uint32_t mode, struct lk_err *err)
{
    struct listener l = {.fd = -1};
    LK_TRY(listen_unix(path, mode, &l.fd, &l.place, err));
    return add_listener(sockets, &l, err);
}

enum lk_code sockets_listen_tcp(struct sockets *sockets, const char *address, uint16_t *ret_port,
                                struct lk_err *err)
{
    int fd[LISTEN_TCP_MAX];
    uint32_t n;
    enum lk_code code = LK_OK;
    LK_TRY(listen_tcp(address, fd, &n, ret_port, err));
    for (uint32_t i = 0; i < n; i++) {
        struct listener l = {.fd = fd[i], .tcp = true};
        enum lk_code added = add_listener(sockets, &l, err);
        if (added != LK_OK)
            code = added;
    }
    return code;
}

enum lk_code sockets_start(struct sockets *sockets, struct lk_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the others */
    int failure = sockets->n_listeners == 0 ? 0 : pthread_create(&sockets->thread, NULL, run, sockets);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot start a thread: %s", strerror(failure));
    sockets->running = sockets->n_listeners > 0;
    return LK_OK;
}

void sockets_stop(struct sockets *sockets)
{
    uint64_t one = 1;
    if (sockets == NULL || !sockets->running)
        return;
    LK_CHECK(write(sockets->stop, &one, sizeof one) == (ssize_t)sizeof one);
    (void)pthread_join(sockets->thread, NULL);
    sockets->running = false;
}

/* How many of the connections have something on its way; those that have not are over. */
static uint32_t end_quiet(struct sockets *s)
{
    uint32_t left = 0;
    int64_t now = now_ms();
    for (uint32_t i = 0; i < s->n_slots; i++) {
        struct connection *c = s->slot[i];
        if (c == NULL)
            continue;
        if (!outbox_end(&c->out, s->received, RECEIVE_BYTES, now)) {
            left++;
            continue;
        }
        connection_free(c);
        s->slot[i] = NULL;
    }
    return left;
}

static void end_all(struct sockets *s)
{
    const struct timespec pause = {.tv_nsec = (long)END_LOOK_MS * 1000000};
    int64_t until = now_ms() + END_WITHIN_MS;
    while (end_quiet(s) > 0 && now_ms() < until)
        (void)nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slot[i] != NULL)
            connection_free(s->slot[i]);
}

void sockets_close(struct sockets *sockets)
{
    if (sockets == NULL)
        return;
    sockets_stop(sockets);
    for (uint32_t i = 0; i < sockets->n_listeners; i++) {
        unix_place_done(&sockets->listener[i].place);
        (void)close(sockets->listener[i].fd);
    }
    end_all(sockets);
    if (sockets->stop >= 0)
        (void)close(sockets->stop);
    if (sockets->epoll >= 0)
        (void)close(sockets->epoll);
    (void)pthread_mutex_destroy(&sockets->mutex);
    free(sockets->received);
    free(sockets);
}
