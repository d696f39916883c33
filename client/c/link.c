/*
 *   DOWN -> LOOKING_UP (tcp) -> CONNECTING (tcp) -> GREETING -> UP
 *
 * with every failure leading back to DOWN, but that the addresses of a name are tried one after the other.
 */
#include "link.h"

#include "lookup.h"
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN_MS 10  /* from one try to the next */
#define PAUSE_MAX_MS 250
#define CONNECT_MS 5000  /* for one address */
#define GREET_MS 10000   /* what nng allows */
#define AWAY_MS 1000     /* without a look at the socket: we have not been listening */
#define POLL_MAX_MS 60000

enum phase { PHASE_DOWN, PHASE_LOOKING_UP, PHASE_CONNECTING, PHASE_GREETING, PHASE_UP };

struct link {
    char *path;          /* ipc */
    char *host, *port;   /* tcp */
    bool last;           /* no connection after this one */
    enum phase phase;
    int fd;              /* CONNECTING and after */
    struct lkc_wire wire;
    struct lookup *lookup;           /* LOOKING_UP */
    struct addrinfo *found, *untried; /* of the host, the second into the first */
    int64_t until_ms;    /* CONNECTING, GREETING: no longer than that */
    int64_t dial_ms;     /* DOWN: not before that */
    int64_t pause_ms;    /* after the try that was last */
    uint64_t random;     /* for jitter */
    uint64_t connection; /* UP: its number; else 0 */
    uint64_t connections;
    int64_t looked_ms, quiet_ms;
    bool more;           /* the last read took all there was room for */
    char why[128];
};

int64_t lkc_link_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- going down ---- */

static void drop_found(struct link *link)
{
    if (link->found != NULL)
        freeaddrinfo(link->found);
    link->found = link->untried = NULL;
}

static void drop_socket(struct link *link)
{
    if (link->fd >= 0) {
        (void)shutdown(link->fd, SHUT_RDWR); /* also for children that were forked meanwhile */
        (void)close(link->fd);
    }
    link->fd = -1;
    link->connection = 0;
}

static void say_why(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_why(struct link *link, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
}

static void go_down(struct link *link)
{
    drop_socket(link);
    drop_found(link);
    lkc_lookup_drop(link->lookup);
    link->lookup = NULL;
    link->phase = PHASE_DOWN;
}

/* ---- dialling ---- */

/* From here it is some time to the next try, whatever becomes of this one. */
static void count_try(struct link *link, int64_t now)
{
    int64_t pause = link->pause_ms == 0 ? PAUSE_MIN_MS : link->pause_ms + link->pause_ms / 2;

    link->pause_ms = pause > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause;
    link->random = link->random * 6364136223846793005u + 1442695040888963407u;
    int64_t half = link->pause_ms / 2;
    link->dial_ms = now + link->pause_ms - (int64_t)((link->random >> 33) % (uint64_t)(half + 1));
}

static void greet(struct link *link, int64_t now)
{
    link->phase = PHASE_GREETING;
    link->until_ms = now + GREET_MS;
    if (!lkc_wire_start(&link->wire)) {
        say_why(link, "out of memory");
        go_down(link);
        return;
    }
    say_why(link, "whoever listens there does not greet");
    lkc_link_flush(link);
}

static void dial_ipc(struct link *link, int64_t now)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    memcpy(at.sun_path, link->path, strlen(link->path) + 1);
    link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd >= 0 && connect(link->fd, (const struct sockaddr *)&at, sizeof at) == 0) {
        greet(link, now);
        return;
    }
    say_why(link, "%s", errno == EAGAIN   ? "too many are dialling at once"
                        : errno == EACCES ? "permission denied: a daemon's sockets are for its own user"
                                          : strerror(errno));
    go_down(link);
}

/* Tries the next of the addresses that were found. */
static void dial_next(struct link *link, int64_t now)
{
    int on = 1;

    drop_socket(link);
    while (link->untried != NULL) {
        const struct addrinfo *at = link->untried;
        link->untried = at->ai_next;
        link->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (link->fd >= 0) {
            (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            if (connect(link->fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS) {
                link->phase = PHASE_CONNECTING;
                link->until_ms = now + CONNECT_MS;
                return;
            }
        }
        say_why(link, "%s", strerror(errno));
        drop_socket(link);
    }
    go_down(link);
}

static void look_up_turn(struct link *link, int64_t now)
{
    const char *why;

    if (!lkc_lookup_take(link->lookup, &link->found, &why))
        return;
    lkc_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (link->found == NULL)
        say_why(link, "%.64s: %s", link->host, why);
    link->untried = link->found;
    dial_next(link, now);
}

static void dial(struct link *link, int64_t now)
{
    count_try(link, now);
    if (link->path != NULL) {
        dial_ipc(link, now);
        return;
    }
    link->lookup = lkc_lookup_start(link->host, link->port);
    if (link->lookup == NULL) {
        say_why(link, "out of memory");
        return;
    }
    link->phase = PHASE_LOOKING_UP;
    say_why(link, "%.64s is still being looked up", link->host);
    look_up_turn(link, now);
}

static void connect_turn(struct link *link, int64_t now)
{
    struct pollfd p = {.fd = link->fd, .events = POLLOUT};
    int failure = 0;
    socklen_t n = sizeof failure;

    if (poll(&p, 1, 0) != 1) {
        if (now < link->until_ms)
            return;
        failure = ETIMEDOUT;
    } else if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failure, &n) != 0) {
        failure = errno;
    }
    if (failure == 0) {
        greet(link, now);
        return;
    }
    say_why(link, "%s", strerror(failure));
    dial_next(link, now);
}

/* ---- up ---- */

static void garbage(struct link *link)
{
    say_why(link, "what listens there does not speak our protocol");
    go_down(link);
}

static void come_up(struct link *link, int64_t now)
{
    drop_found(link);
    link->phase = PHASE_UP;
    link->connection = ++link->connections;
    link->looked_ms = link->quiet_ms = now;
    say_why(link, "the connection was lost");
}

void lkc_link_flush(struct link *link)
{
    size_t n;
    const uint8_t *bytes;

    while (link->fd >= 0 && link->phase >= PHASE_GREETING &&
           (bytes = lkc_wire_waits(&link->wire, &n)) != NULL) {
        ssize_t sent = send(link->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            lkc_wire_went(&link->wire, (size_t)sent);
        } else if (errno != EINTR) {
            /* Nothing may follow half a message; but what has come is still to be read, up to the end. */
            if (errno != EAGAIN) {
                lkc_wire_went(&link->wire, n);
                (void)shutdown(link->fd, SHUT_RDWR);
            }
            return;
        }
    }
}

static void receive(struct link *link, int64_t now)
{
    size_t room;
    uint8_t *to = lkc_wire_room(&link->wire, &room);

    if (to == NULL) {
        say_why(link, "out of memory");
        go_down(link);
        return;
    }
    ssize_t n = recv(link->fd, to, room, MSG_DONTWAIT);
    link->more = n == (ssize_t)room;
    if (n > 0) {
        lkc_wire_came(&link->wire, (size_t)n);
        link->quiet_ms = now;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        say_why(link, "%s", n == 0 ? "the connection was closed" : strerror(errno));
        go_down(link);
    }
}

static void greet_turn(struct link *link, int64_t now)
{
    receive(link, now);
    if (link->phase != PHASE_GREETING)
        return;
    enum lkc_wire_step step = lkc_wire_greeted(&link->wire);
    if (step == LKC_WIRE_READY)
        come_up(link, now);
    else if (step == LKC_WIRE_GARBAGE)
        garbage(link);
    else if (now >= link->until_ms)
        go_down(link);
}

static void up_turn(struct link *link, int64_t now)
{
    if (now - link->looked_ms > AWAY_MS)
        link->quiet_ms = now;
    link->looked_ms = now;
    receive(link, now);
}

void lkc_link_turn(struct link *link)
{
    int64_t now = lkc_link_now_ms();

    if (link->phase == PHASE_DOWN && !link->last && now >= link->dial_ms)
        dial(link, now);
    else if (link->phase == PHASE_LOOKING_UP)
        look_up_turn(link, now);
    if (link->phase == PHASE_CONNECTING)
        connect_turn(link, now);
    lkc_link_flush(link);
    if (link->phase == PHASE_GREETING)
        greet_turn(link, now);
    else if (link->phase == PHASE_UP)
        up_turn(link, now);
}

const uint8_t *lkc_link_take(struct link *link, size_t *ret_bytes)
{
    const uint8_t *body;

    if (link->phase != PHASE_UP)
        return NULL;
    enum lkc_wire_step step = lkc_wire_take(&link->wire, &body, ret_bytes);
    if (step == LKC_WIRE_GARBAGE)
        garbage(link);
    if (step != LKC_WIRE_READY)
        return NULL;
    link->pause_ms = 0; /* a daemon, and well: the next time it is dialled at once */
    return body;
}

bool lkc_link_send(struct link *link, const struct lk_envelope *envelope, const ProtobufCMessage *header)
{
    return link->phase == PHASE_UP && lkc_wire_put(&link->wire, envelope, header);
}

/* ---- waiting ---- */

static int64_t turn_due(const struct link *link)
{
    if (link->phase == PHASE_DOWN && !link->last)
        return link->dial_ms;
    if (link->phase == PHASE_CONNECTING || link->phase == PHASE_GREETING)
        return link->until_ms;
    return INT64_MAX;
}

bool lkc_link_wait(struct link *link, int fd, int64_t until_ms)
{
    size_t n;
    struct pollfd p[2] = {{.fd = link->fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

    if (link->phase == PHASE_UP && link->more)
        return false; /* there is probably the rest of a large message to read */
    if (link->phase == PHASE_LOOKING_UP)
        p[0].fd = lkc_lookup_fd(link->lookup);
    else if (link->phase == PHASE_CONNECTING)
        p[0].events = POLLOUT;
    else if (lkc_wire_waits(&link->wire, &n) != NULL)
        p[0].events = POLLIN | POLLOUT;
    int64_t due = turn_due(link), left = (due < until_ms ? due : until_ms) - lkc_link_now_ms();
    int ready = poll(p, 2, left < 0 ? 0 : left > POLL_MAX_MS ? POLL_MAX_MS : (int)left);
    link->looked_ms = lkc_link_now_ms();
    return ready > 0 && p[1].revents != 0;
}

int64_t lkc_link_quiet_since(const struct link *link)
{
    return link->quiet_ms;
}

/* ---- opening and closing ---- */

enum lanekeeper_code lkc_link_open(const char *address, struct link **ret_link)
{
    struct sockaddr_un at;
    struct link *link = calloc(1, sizeof *link);
    bool good = true;

    if (link == NULL)
        return LANEKEEPER_RESOURCE_EXHAUSTED;
    link->fd = -1;
    if (getrandom(&link->random, sizeof link->random, GRND_NONBLOCK) < 0)
        link->random = (uint64_t)lkc_link_now_ms(); /* only jitter hangs on it */
    if (strncmp(address, "ipc://", 6) == 0) {
        good = address[6] != '\0' && strlen(address + 6) < sizeof at.sun_path;
        link->path = good ? strdup(address + 6) : NULL;
        link->wire.tagged = true;
    } else {
        good = strncmp(address, "tcp://", 6) == 0 && lkc_lookup_split(address + 6, &link->host, &link->port);
    }
    if (good && (link->path != NULL || link->host != NULL)) {
        *ret_link = link;
        return LANEKEEPER_OK;
    }
    lkc_link_close(link);
    return good ? LANEKEEPER_RESOURCE_EXHAUSTED : LANEKEEPER_INVALID_ARGUMENT;
}

void lkc_link_close(struct link *link)
{
    if (link == NULL)
        return;
    go_down(link);
    lkc_wire_done(&link->wire);
    free(link->path);
    free(link->host);
    free(link->port);
    free(link);
}

void lkc_link_last(struct link *link)
{
    link->last = true;
}

uint64_t lkc_link_connection(const struct link *link)
{
    return link->connection;
}

const char *lkc_link_why(const struct link *link)
{
    return link->why;
}

void lkc_link_break(struct link *link)
{
    if (link->phase != PHASE_UP)
        return;
    say_why(link, "it did not answer");
    go_down(link);
}
