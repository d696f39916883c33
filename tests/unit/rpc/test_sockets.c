/* The service's sockets, byte for byte: what nng speaks there, and what is none of it. */
#include "base/bytes.h"
#include "base/mem.h"
#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "rpc/server.h"
#include "tests/lib/check_main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 5000
#define MESSAGE_MAX (1u << 20)
#define KEPT 128 /* answers, for a peer that does not read */

struct fix {
    char dir[64], *path;
    struct rpc_server *server;
};

static void fix_init(struct fix *f)
{
    struct lk_err err = {.text = ""};
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/lk-ipc-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    f->path = lk_format("%s/s", f->dir);
    char *address = lk_format("ipc://%s", f->path);
    const char *listen_on[] = {address};
    struct rpc_config config = {.listen = listen_on, .n_listen = 1, .message_max = MESSAGE_MAX,
                                .calls_max = 256, .socket_mode = 0640};
    ck_assert_msg(rpc_server_open(&config, &f->server, &err) == LK_OK, "%s", err.text);
    free(address);
}

static void fix_done(struct fix *f)
{
    rpc_server_close(f->server);
    ck_assert_int_ne(access(f->path, F_OK), 0); /* nothing stays behind */
    ck_assert_int_eq(rmdir(f->dir), 0);
    free(f->path);
}

static int dial(const struct fix *f, const char *greeting, size_t n)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint8_t theirs[8];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, f->path, strlen(f->path) + 1);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(send(fd, greeting, n, MSG_NOSIGNAL), (ssize_t)n);
    ck_assert_int_eq(recv(fd, theirs, 8, MSG_WAITALL), 8);
    ck_assert_int_eq(memcmp(theirs, "\0SP\0\0\x31\0\0", 8), 0);
    return fd;
}

static int dial_well(const struct fix *f)
{
    return dial(f, "\0SP\0\0\x30\0\0", 8);
}

/* A request as it goes over the wire: @words before its last word, and an envelope around nothing. */
static size_t request(uint8_t *out, int words, uint32_t id)
{
    struct lk_envelope e = {.method = LK_METHOD_STATUS, .call = id};
    size_t n = 4 * (size_t)words + 4 + LK_ENVELOPE_BYTES;
    memset(out, 0, 9 + n);
    out[0] = 1;
    out[7] = (uint8_t)(n >> 8);
    out[8] = (uint8_t)n;
    for (int i = 0; i < words; i++)
        out[9 + 4 * i + 3] = (uint8_t)(i + 1);
    uint8_t *last = out + 9 + 4 * words;
    last[0] = 0x80;
    last[3] = (uint8_t)id;
    lk_envelope_put(&e, last + 4);
    return 9 + n;
}

static struct rpc_call *wait_call(struct fix *f)
{
    struct rpc_event event;
    for (;;) {
        while (rpc_server_next(f->server, &event))
            if (event.kind == RPC_EVENT_CALL)
                return event.call;
        struct pollfd p = {.fd = rpc_server_fd(f->server), .events = POLLIN};
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "no call within %d ms", WAIT_MS);
    }
}

static void reply(struct rpc_call *call, const void *payload, size_t bytes)
{
    Lk__StatusReply empty = LK__STATUS_REPLY__INIT;
    struct rpc_slice slice = {.data = payload, .bytes = bytes};
    rpc_reply(call, &empty.base, &slice, 1);
}

/* The next message: its header's bytes, and how much payload it has. */
static size_t receive(int fd, size_t words, uint8_t *ret_words)
{
    uint8_t head[9], frame[LK_ENVELOPE_BYTES];
    struct lk_envelope e;
    ck_assert_int_eq(recv(fd, head, 9, MSG_WAITALL), 9);
    ck_assert_int_eq(head[0], 1);
    ck_assert_int_eq(recv(fd, ret_words, words, MSG_WAITALL), (ssize_t)words);
    ck_assert_int_eq(recv(fd, frame, sizeof frame, MSG_WAITALL), (ssize_t)sizeof frame);
    ck_assert(lk_envelope_peek(frame, sizeof frame, &e));
    size_t rest = e.header_bytes + (size_t)e.payload_bytes;
    uint64_t all = (uint64_t)head[5] << 24 | (uint64_t)head[6] << 16 | (uint64_t)head[7] << 8 | head[8];
    ck_assert_uint_eq(all, words + sizeof frame + rest);
    uint8_t *body = lk_alloc(rest + 1);
    ck_assert(rest == 0 || recv(fd, body, rest, MSG_WAITALL) == (ssize_t)rest);
    size_t wrong = 0; /* one assertion a message: each writes to a pipe */
    for (size_t i = e.header_bytes; i < rest; i++)
        wrong += body[i] != 'p';
    ck_assert_uint_eq(wrong, 0);
    free(body);
    return (size_t)e.payload_bytes;
}

static void expect_end(int fd)
{
    uint8_t byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

START_TEST(a_request_may_come_byte_by_byte_and_through_devices)
{
    struct fix f;
    uint8_t bytes[128], words[64];
    fix_init(&f);
    struct stat status;
    ck_assert_int_eq(stat(f.path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0640);
    int fd = dial_well(&f);
    for (int n = 0; n <= 7; n++) {
        size_t all = request(bytes, n, 7);
        for (size_t i = 0; i < all; i++)
            ck_assert_int_eq(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
        reply(wait_call(&f), "ppp", 3);
        ck_assert_uint_eq(receive(fd, 4 * (size_t)n + 4, words), 3);
        ck_assert_int_eq(memcmp(words, bytes + 9, 4 * (size_t)n + 4), 0); /* the very words */
    }
    (void)close(fd);
    fix_done(&f);
}
END_TEST

START_TEST(many_requests_in_one_go_are_all_answered)
{
    struct fix f;
    uint8_t bytes[100 * 64], words[4];
    size_t n = 0;
    fix_init(&f);
    int fd = dial_well(&f);
    for (uint32_t i = 0; i < 100; i++)
        n += request(bytes + n, 0, i);
    ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    for (uint32_t i = 0; i < 100; i++)
        reply(wait_call(&f), "p", 1);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_uint_eq(receive(fd, 4, words), 1);
        ck_assert_uint_eq(words[3], i);
    }
    (void)close(fd);
    fix_done(&f);
}
END_TEST

START_TEST(what_nng_would_not_say_ends_the_connection)
{
    struct fix f;
    uint8_t bytes[128];
    fix_init(&f);
    size_t n = request(bytes, 8, 1); /* too many devices */
    int good = dial_well(&f);
    int fd = _i == 0 ? dial(&f, "\0SP\0\0\x10\0\0", 8) : _i == 1 ? dial(&f, "GET / HT", 8) : dial_well(&f);
    if (_i == 3)
        n = 9 + (bytes[8] = 3); /* no whole word */
    if (_i == 4)
        bytes[0] = 2;
    if (_i == 5)
        bytes[1] = 0x80; /* as long as no memory is */
    if (_i == 6)
        bytes[6] = 0x11; /* a little longer than may be */
    if (_i >= 2)
        ck_assert_int_gt(send(fd, bytes, n, MSG_NOSIGNAL), 0);
    expect_end(fd);
    n = request(bytes, 0, 1);
    ck_assert_int_eq(send(good, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    reply(wait_call(&f), "p", 1);
    ck_assert_uint_eq(receive(good, 4, bytes), 1);
    (void)close(good);
    fix_done(&f);
}
END_TEST

START_TEST(a_peer_that_does_not_read_has_a_bounded_number_of_answers_kept)
{
    struct fix f;
    uint8_t bytes[64], words[4], *payload = lk_alloc(MESSAGE_MAX);
    memset(payload, 'p', MESSAGE_MAX);
    fix_init(&f);
    int slow = dial_well(&f), other = dial_well(&f);
    for (uint32_t i = 0; i < 200; i++) {
        size_t n = request(bytes, 0, i);
        ck_assert_int_eq(send(slow, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
        reply(wait_call(&f), payload, MESSAGE_MAX);
    }
    size_t n = request(bytes, 0, 250);
    ck_assert_int_eq(send(other, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    reply(wait_call(&f), payload, 5);
    ck_assert_uint_eq(receive(other, 4, words), 5);
    for (uint32_t i = 0; i < KEPT; i++) { /* what was kept comes whole and in order */
        ck_assert_uint_eq(receive(slow, 4, words), MESSAGE_MAX);
        ck_assert_uint_eq(words[3], i);
    }
    n = request(bytes, 0, 251); /* and it alone: the next is another's answer */
    ck_assert_int_eq(send(slow, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    reply(wait_call(&f), payload, 5);
    ck_assert_uint_eq(receive(slow, 4, words), 5);
    (void)close(slow);
    (void)close(other);
    free(payload);
    fix_done(&f);
}
END_TEST

/* ---- what strangers may cost ---- */

/* With messages of @stranger_max at most, until they are trusted, and so many bytes of requests waiting. */
static void fix_init_bounded(struct fix *f, size_t stranger_max, size_t waiting_bytes_max)
{
    struct lk_err err = {.text = ""};
    const char *listen_on[] = {"tcp://localhost:0"};
    struct rpc_config config = {.listen = listen_on, .n_listen = 1, .message_max = MESSAGE_MAX,
                                .stranger_max = stranger_max, .calls_max = 256,
                                .waiting_bytes_max = waiting_bytes_max};
    *f = (struct fix){0};
    ck_assert_msg(rpc_server_open(&config, &f->server, &err) == LK_OK, "%s", err.text);
}

static void fix_done_bounded(struct fix *f)
{
    rpc_server_close(f->server);
}

static int dial_tcp(const struct fix *f)
{
    const char *address = rpc_server_address(f->server, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t theirs[8];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL), 8);
    ck_assert_int_eq(recv(fd, theirs, 8, MSG_WAITALL), 8);
    return fd;
}

/* By TCP there is no byte 1 before a message: a request of @all bytes of body, of which @n are sent. */
static void send_tcp(int fd, uint32_t id, size_t all, size_t n)
{
    uint8_t *bytes = lk_zalloc(12 + all + LK_ENVELOPE_BYTES, 1);
    struct lk_envelope e = {.method = LK_METHOD_STATUS, .call = id, .payload_bytes = all - LK_ENVELOPE_BYTES};
    size_t length = 4 + all;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> (56 - 8 * i));
    bytes[8] = 0x80;
    bytes[11] = (uint8_t)id;
    lk_envelope_put(&e, bytes + 12);
    for (size_t at = 0; at < 12 + n;) {
        ssize_t sent = send(fd, bytes + at, 12 + n - at, MSG_NOSIGNAL);
        if (sent <= 0)
            break; /* the other end has had enough */
        at += (size_t)sent;
    }
    free(bytes);
}

/* The status of the next answer by TCP, and whose it is. */
static enum lk_code receive_tcp(int fd, uint32_t *ret_id)
{
    uint8_t head[12 + LK_ENVELOPE_BYTES], rest[256];
    struct lk_envelope e;
    ck_assert_int_eq(recv(fd, head, sizeof head, MSG_WAITALL), (ssize_t)sizeof head);
    ck_assert(lk_envelope_peek(head + 12, LK_ENVELOPE_BYTES, &e));
    size_t n = e.header_bytes + (size_t)e.payload_bytes;
    ck_assert_uint_le(n, sizeof rest);
    ck_assert_int_eq(recv(fd, rest, n, MSG_WAITALL), (ssize_t)n);
    *ret_id = head[11];
    return (enum lk_code)e.status;
}

START_TEST(a_stranger_sends_little_until_it_is_trusted)
{
    struct fix f;
    uint32_t id;
    fix_init_bounded(&f, 4096, 0);
    int fd = dial_tcp(&f), other = dial_tcp(&f);
    send_tcp(other, 1, 5000, 0); /* its length alone says that it is too much */
    expect_end(other);
    send_tcp(fd, 1, 4096, 4096);
    struct rpc_call *call = wait_call(&f);
    ck_assert_uint_eq(call->payload_bytes, 4096 - LK_ENVELOPE_BYTES);
    rpc_server_trust(f.server, call->peer);
    reply(call, "p", 1);
    ck_assert_int_eq(receive_tcp(fd, &id), LK_OK);
    send_tcp(fd, 2, MESSAGE_MAX, MESSAGE_MAX);
    call = wait_call(&f);
    ck_assert_uint_eq(call->payload_bytes, MESSAGE_MAX - LK_ENVELOPE_BYTES);
    reply(call, "p", 1);
    ck_assert_int_eq(receive_tcp(fd, &id), LK_OK);
    send_tcp(fd, 3, MESSAGE_MAX + 100, 0);
    expect_end(fd);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(half_messages_are_bounded_together_and_those_with_most_go)
{
    struct fix f;
    uint32_t id;
    uint8_t byte;
    int half[8], ended = 0;
    fix_init_bounded(&f, 0, 0);
    int small = dial_tcp(&f);
    send_tcp(small, 7, 1000, 500);
    for (int i = 0; i < 8; i++) {
        half[i] = dial_tcp(&f);
        send_tcp(half[i], 1, MESSAGE_MAX, MESSAGE_MAX / 2 + (size_t)i * 1000);
    }
    for (int wait = 0; wait < WAIT_MS / 10 && ended < 6; wait++) {
        ended = 0;
        for (int i = 0; i < 8; i++)
            ended += recv(half[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
                     (recv(half[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == ECONNRESET);
        (void)usleep(10 * 1000);
    }
    ck_assert_int_ge(ended, 6); /* of 8 halves two fit */
    ck_assert_int_le(ended, 7);
    uint8_t rest[500] = {0};
    ck_assert_int_eq(send(small, rest, sizeof rest, MSG_NOSIGNAL), (ssize_t)sizeof rest);
    reply(wait_call(&f), "p", 1);
    ck_assert_int_eq(receive_tcp(small, &id), LK_OK);
    ck_assert_uint_eq(id, 7);
    for (int i = 0; i < 8; i++)
        (void)close(half[i]);
    (void)close(small);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(requests_that_wait_are_bounded_in_bytes)
{
    struct fix f;
    uint32_t id;
    fix_init_bounded(&f, 0, 10000);
    int fd = dial_tcp(&f);
    struct rpc_call *call[2];
    for (uint32_t i = 0; i < 2; i++) {
        send_tcp(fd, i, 4000, 4000);
        call[i] = wait_call(&f);
    }
    struct rpc_event event;
    send_tcp(fd, 2, 4000, 4000);
    struct pollfd p = {.fd = rpc_server_fd(f.server), .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    ck_assert(!rpc_server_next(f.server, &event)); /* it is not bothered with that */
    ck_assert_int_eq(receive_tcp(fd, &id), LK_RESOURCE_EXHAUSTED);
    ck_assert_uint_eq(id, 2);
    reply(call[0], "p", 1);
    ck_assert_int_eq(receive_tcp(fd, &id), LK_OK);
    send_tcp(fd, 3, 4000, 4000);
    reply(wait_call(&f), "p", 1);
    reply(call[1], "p", 1);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(receive_tcp(fd, &id), LK_OK);
    (void)close(fd);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(who_asks_for_much_leaves_places_to_others)
{
    struct fix f;
    uint32_t id;
    fix_init_bounded(&f, 0, 0);
    int greedy = dial_tcp(&f), other = dial_tcp(&f);
    struct rpc_call *call[200];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 200; i++)
        send_tcp(greedy, i, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    while (n < 192) /* three quarters of 256 */
        call[n++] = wait_call(&f);
    for (int i = 0; i < 8; i++) {
        struct rpc_event event;
        struct pollfd p[] = {{.fd = rpc_server_fd(f.server), .events = POLLIN}, {.fd = greedy, .events = POLLIN}};
        while (p[1].revents == 0) { /* it answers what it refuses when it is asked for events */
            ck_assert_int_gt(poll(p, 2, WAIT_MS), 0);
            ck_assert(!rpc_server_next(f.server, &event));
        }
        ck_assert_int_eq(receive_tcp(greedy, &id), LK_RESOURCE_EXHAUSTED);
        ck_assert_uint_ge(id, 192);
    }
    send_tcp(other, 1, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    reply(wait_call(&f), "p", 1);
    ck_assert_int_eq(receive_tcp(other, &id), LK_OK);
    while (n > 0)
        reply(call[--n], "p", 1);
    (void)close(greedy);
    (void)close(other);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(strangers_have_few_of_the_places_for_calls)
{
    struct fix f;
    uint32_t id;
    fix_init_bounded(&f, 4096, 0);
    int strange = dial_tcp(&f), good = dial_tcp(&f);
    send_tcp(good, 1, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    struct rpc_call *first = wait_call(&f), *call[17];
    rpc_server_trust(f.server, first->peer);
    reply(first, "p", 1);
    ck_assert_int_eq(receive_tcp(good, &id), LK_OK);
    for (uint32_t i = 0; i < 20; i++)
        send_tcp(strange, i, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    for (int i = 0; i < 17; i++) /* one and a sixteenth of 256 */
        call[i] = wait_call(&f);
    struct rpc_stats stats = {0};
    struct rpc_event event;
    while (stats.refused_busy < 3)
        rpc_server_stats(f.server, &stats);
    ck_assert(!rpc_server_next(f.server, &event));
    for (uint32_t i = 17; i < 20; i++) {
        ck_assert_int_eq(receive_tcp(strange, &id), LK_RESOURCE_EXHAUSTED);
        ck_assert_uint_eq(id, i);
    }
    for (uint32_t i = 0; i < 100; i++) { /* the others have theirs */
        send_tcp(good, 2 + i, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
        reply(wait_call(&f), "p", 1);
        ck_assert_int_eq(receive_tcp(good, &id), LK_OK);
    }
    for (int i = 0; i < 17; i++)
        reply(call[i], "p", 1);
    send_tcp(strange, 50, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    reply(wait_call(&f), "p", 1); /* and strangers again */
    (void)close(strange);
    (void)close(good);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(when_all_places_are_taken_the_one_that_is_silent_longest_goes)
{
    struct fix f;
    struct rlimit before, limit;
    uint32_t id;
    uint8_t byte;
    int fd[24];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 80, .rlim_max = before.rlim_max}; /* a quarter of which: 20 places */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    fix_init_bounded(&f, 0, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 24; i++) {
        fd[i] = dial_tcp(&f);
        (void)usleep(3000);
        if (i > 0) { /* the first one is heard of all the time */
            send_tcp(fd[0], (uint32_t)i, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
            reply(wait_call(&f), "p", 1);
            ck_assert_int_eq(receive_tcp(fd[0], &id), LK_OK);
        }
    }
    for (int i = 1; i < 24; i++)
        ck_assert_msg((recv(fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) == (i <= 4), "number %d", i);
    for (int i = 0; i < 24; i++)
        (void)close(fd[i]);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(whoever_only_dials_takes_no_place_from_those_who_have_greeted)
{
    struct fix f;
    struct rlimit before, limit;
    struct rpc_stats stats;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint32_t id;
    int good[10], mute[40];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 80, .rlim_max = before.rlim_max}; /* a quarter of which: 20 places */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    fix_init_bounded(&f, 0, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 10; i++) {
        good[i] = dial_tcp(&f);
        send_tcp(good[i], 1, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
        reply(wait_call(&f), "p", 1);
        ck_assert_int_eq(receive_tcp(good[i], &id), LK_OK);
    }
    at.sin_port = htons((uint16_t)atoi(strrchr(rpc_server_address(f.server, 0), ':') + 1));
    for (int i = 0; i < 40; i++) {
        mute[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(mute[i], (const struct sockaddr *)&at, sizeof at), 0);
    }
    do {
        (void)usleep(1000);
        rpc_server_stats(f.server, &stats);
    } while (stats.displaced < 30);
    ck_assert_uint_eq(stats.displaced, 30);
    for (int i = 0; i < 10; i++) { /* in a place that was not taken: the same connection still answers */
        send_tcp(good[i], 2, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
        reply(wait_call(&f), "p", 1);
        ck_assert_int_eq(receive_tcp(good[i], &id), LK_OK);
        (void)close(good[i]);
    }
    for (int i = 0; i < 40; i++)
        (void)close(mute[i]);
    fix_done_bounded(&f);
}
END_TEST

START_TEST(a_peer_that_always_has_an_answer_under_way_loses_none)
{
    struct fix f;
    uint8_t bytes[64], words[4], *payload = lk_alloc(MESSAGE_MAX);
    memset(payload, 'p', MESSAGE_MAX);
    fix_init(&f);
    int fd = dial_well(&f);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 5},
                                sizeof(struct timeval)), 0);
    for (uint32_t i = 0; i < 200; i++) { /* more than are kept for one that does not read */
        size_t n = request(bytes, 0, i);
        ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
        reply(wait_call(&f), payload, MESSAGE_MAX);
        if (i == 0)
            continue;
        ck_assert_uint_eq(receive(fd, 4, words), MESSAGE_MAX);
        ck_assert_uint_eq(words[3], i - 1);
    }
    (void)close(fd);
    free(payload);
    fix_done(&f);
}
END_TEST

/* Connects in a process of its own, which has closed what is the server's and the test's, and so must not
 * assert anything. */
static int dial_elsewhere(const struct fix *f)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, f->path, strlen(f->path) + 1);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        _exit(1);
    return fd;
}

/* Asks without end, and reads what comes. */
static pid_t flooder(const struct fix *f)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    uint8_t bytes[64], answers[65536];
    (void)close_range(3, ~0u, 0);
    int fd = dial_elsewhere(f);
    (void)!send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL);
    for (uint32_t i = 0;; i++) {
        size_t n = request(bytes, 1, i);
        bytes[9] = (uint8_t)(i >> 16);
        bytes[10] = (uint8_t)(i >> 8);
        if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
            _exit(0);
        (void)!recv(fd, answers, sizeof answers, MSG_DONTWAIT);
    }
}

START_TEST(closing_under_a_flood_of_requests_is_clean)
{
    for (int round = 0; round < 10; round++) {
        struct fix f;
        pid_t pid[2];
        fix_init(&f);
        for (int i = 0; i < 2; i++)
            pid[i] = flooder(&f);
        uint32_t first = 0;
        bool both = false;
        for (int i = 0; i < 300 || !both; i++) { /* on a busy machine one may begin late */
            struct rpc_call *call = wait_call(&f);
            both = both || (first != 0 && first != call->peer);
            first = call->peer;
            if (i % 2 == 0)
                reply(call, "p", 1);
        }
        fix_done(&f);
        for (int i = 0; i < 2; i++) {
            int status;
            ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
}
END_TEST

static void *close_server(void *arg)
{
    struct fix *f = arg;
    fix_done_bounded(f);
    return NULL;
}

static int64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Those that were given, and that what waits will get none; then the end, and no reset. Who does not read does
 * not hold it up for long. */
START_TEST(answers_get_to_who_reads_them_when_the_service_ends)
{
    struct fix f;
    pthread_t thread;
    uint32_t id;
    uint8_t byte, *payload = lk_alloc(8 * MESSAGE_MAX);
    memset(payload, 'p', 8 * MESSAGE_MAX);
    fix_init_bounded(&f, 0, 0);
    int fd = dial_tcp(&f), deaf = dial_tcp(&f);
    int ends[] = {deaf, fd};
    for (int i = 0; i < 2; i++) {
        send_tcp(ends[i], 1, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
        reply(wait_call(&f), payload, 8 * MESSAGE_MAX);
    }
    for (uint32_t i = 2; i < 22; i++)
        send_tcp(fd, i, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    struct rpc_stats stats = {0};
    while (stats.waiting < 20)
        rpc_server_stats(f.server, &stats);
    int64_t begin = clock_ms();
    ck_assert_int_eq(pthread_create(&thread, NULL, close_server, &f), 0);
    for (uint32_t i = 0; i < 50; i++) /* which nobody takes any more, or is told the same */
        send_tcp(fd, 100, LK_ENVELOPE_BYTES, LK_ENVELOPE_BYTES);
    uint8_t head[12 + LK_ENVELOPE_BYTES];
    ck_assert_int_eq(recv(fd, head, sizeof head, MSG_WAITALL), (ssize_t)sizeof head);
    ck_assert_int_eq(recv(fd, payload, 8 * MESSAGE_MAX, MSG_WAITALL), 8 * MESSAGE_MAX);
    for (uint32_t i = 2; i < 22; i++) {
        ck_assert_int_eq(receive_tcp(fd, &id), LK_UNAVAILABLE);
        ck_assert_uint_eq(id, i);
    }
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK);
    while (n == 1 && receive_tcp(fd, &id) == LK_UNAVAILABLE && id == 100)
        n = recv(fd, &byte, 1, MSG_PEEK);
    ck_assert_int_eq(n, 0);
    (void)close(fd);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_lt(clock_ms() - begin, 3000);
    (void)close(deaf);
    free(payload);
}
END_TEST

START_TEST(a_socket_that_another_has_put_in_its_place_is_left_alone)
{
    struct fix f;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    fix_init(&f);
    ck_assert_int_eq(unlink(f.path), 0);
    memcpy(at.sun_path, f.path, strlen(f.path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    rpc_server_close(f.server);
    f.server = NULL;
    ck_assert_int_eq(unlink(f.path), 0); /* it is still there */
    (void)close(fd);
    fix_done(&f);
}
END_TEST

/* Connections of which half say nothing; they stay until they are told to end. */
static pid_t crowd(const struct fix *f, int n, int told)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    uint8_t byte;
    struct rlimit limit;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    told = dup2(told, 3);
    (void)close_range(4, ~0u, 0);
    for (int i = 0; i < n; i++) {
        int fd = dial_elsewhere(f);
        if (i % 2 == 0)
            (void)!send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL);
    }
    (void)!read(told, &byte, 1);
    _exit(0); /* and with it the connections */
}

/* Waits until this process may have another descriptor, or may not. */
static void wait_descriptor(int of, bool wanted)
{
    for (int i = 0; i < WAIT_MS / 10; i++) {
        int spare = dup(of);
        if (spare >= 0)
            (void)close(spare);
        if ((spare >= 0) == wanted)
            return;
        (void)usleep(10 * 1000);
    }
    ck_abort_msg("there is %s descriptor after %d ms", wanted ? "no" : "still a", WAIT_MS);
}

START_TEST(when_no_descriptor_is_left_others_wait_until_there_is_one)
{
    struct fix f;
    uint8_t bytes[64], words[4];
    struct rlimit limit;
    int tell[2], status;
    fix_init(&f);
    ck_assert_int_eq(pipe(tell), 0);
    int early = dial_well(&f);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    pid_t pid = crowd(&f, 300, tell[0]);
    wait_descriptor(early, false);
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            ck_assert_int_eq(write(tell[1], "", 1), 1);
            ck_assert_int_eq(waitpid(pid, &status, 0), pid);
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            wait_descriptor(early, true);
        }
        int fd = i == 0 ? early : dial_well(&f);
        size_t n = request(bytes, 0, 1);
        ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
        reply(wait_call(&f), "p", 1);
        ck_assert_uint_eq(receive(fd, 4, words), 1);
        if (i == 1)
            (void)close(fd);
    }
    (void)close(early);
    (void)close(tell[0]);
    (void)close(tell[1]);
    fix_done(&f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/sockets");
    TCase *t = tcase_create("ipc");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, a_request_may_come_byte_by_byte_and_through_devices);
    tcase_add_test(t, many_requests_in_one_go_are_all_answered);
    tcase_add_loop_test(t, what_nng_would_not_say_ends_the_connection, 0, 7);
    tcase_add_test(t, a_peer_that_does_not_read_has_a_bounded_number_of_answers_kept);
    tcase_add_test(t, a_peer_that_always_has_an_answer_under_way_loses_none);
    tcase_add_test(t, a_stranger_sends_little_until_it_is_trusted);
    tcase_add_test(t, half_messages_are_bounded_together_and_those_with_most_go);
    tcase_add_test(t, requests_that_wait_are_bounded_in_bytes);
    tcase_add_test(t, who_asks_for_much_leaves_places_to_others);
    tcase_add_test(t, strangers_have_few_of_the_places_for_calls);
    tcase_add_test(t, when_all_places_are_taken_the_one_that_is_silent_longest_goes);
    tcase_add_test(t, whoever_only_dials_takes_no_place_from_those_who_have_greeted);
    tcase_add_test(t, closing_under_a_flood_of_requests_is_clean);
    tcase_add_test(t, answers_get_to_who_reads_them_when_the_service_ends);
    tcase_add_test(t, a_socket_that_another_has_put_in_its_place_is_left_alone);
    tcase_add_test(t, when_no_descriptor_is_left_others_wait_until_there_is_one);
    suite_add_tcase(s, t);
    return s;
}
