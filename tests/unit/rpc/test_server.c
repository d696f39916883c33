/* The service's socket. nng is used inside test bodies only, as it must not be touched before a fork. */
#include "rpc/server.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "tests/lib/check_main.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 5000

static char dir[64];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/lk-rpc-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct rpc_server *open_server(const char *address)
{
    const char *listen_on[] = {address};
    struct rpc_config config = {.listen = listen_on, .n_listen = 1, .message_max = 4096,
                                .calls_max = 4, .socket_mode = 0600, .deadline_max_ms = 60000};
    struct rpc_server *server = NULL;
    struct lk_err err;
    enum lk_code code = rpc_server_open(&config, &server, &err);
    ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
    return server;
}

static char *in_dir(const char *name)
{
    return lk_format("ipc://%s/%s", dir, name);
}

/* The next event; fails the test when none comes. */
static struct rpc_event wait_event(struct rpc_server *server)
{
    struct rpc_event event;
    while (!rpc_server_next(server, &event)) {
        struct pollfd p = {.fd = rpc_server_fd(server), .events = POLLIN};
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "no event within %d ms", WAIT_MS);
    }
    return event;
}

static struct rpc_call *wait_call(struct rpc_server *server)
{
    struct rpc_event event = wait_event(server);
    while (event.kind != RPC_EVENT_CALL)
        event = wait_event(server);
    return event.call;
}

/* Waits until the server has refused @n messages, letting it answer meanwhile. */
static void wait_refused(struct rpc_server *server, uint64_t n)
{
    struct rpc_stats stats;
    struct rpc_event event;
    for (int i = 0; i < WAIT_MS; i++) {
        rpc_server_stats(server, &stats); /* first: what is counted is queued, and answered below */
        while (rpc_server_next(server, &event))
            ck_assert(event.kind != RPC_EVENT_CALL);
        if (stats.refused_malformed + stats.refused_busy >= n)
            return;
        struct pollfd p = {.fd = rpc_server_fd(server), .events = POLLIN};
        (void)poll(&p, 1, 1);
    }
    ck_abort_msg("%lu of %lu refused", stats.refused_malformed + stats.refused_busy, n);
}

static nng_socket dial(const char *address)
{
    nng_socket s;
    ck_assert_int_eq(nng_req0_open(&s), 0);
    ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, WAIT_MS), 0);
    ck_assert_int_eq(nng_dial(s, address, NULL, 0), 0);
    return s;
}

static size_t frame(uint8_t *out, uint64_t call, const void *header, uint32_t n, uint32_t deadline_ms)
{
    struct lk_envelope e = {.method = LK_METHOD_STATUS, .call = call, .deadline_ms = deadline_ms,
                            .header_bytes = n};
    lk_envelope_put(&e, out);
    if (n > 0)
        memcpy(out + LK_ENVELOPE_BYTES, header, n);
    return LK_ENVELOPE_BYTES + n;
}

static void send_call(nng_socket s, uint64_t call)
{
    uint8_t bytes[64];
    size_t n = frame(bytes, call, "abc", 3, 1000);
    ck_assert_int_eq(nng_send(s, bytes, n, 0), 0);
}

/* Receives a reply; returns its status. The message is kept in *ret_message. */
static struct lk_envelope receive(nng_socket s, nng_msg **ret_message)
{
    struct lk_envelope e;
    ck_assert_int_eq(nng_recvmsg(s, ret_message, 0), 0);
    ck_assert(lk_envelope_get(nng_msg_body(*ret_message), nng_msg_len(*ret_message), &e));
    return e;
}

static enum lk_code receive_status(nng_socket s)
{
    nng_msg *message;
    struct lk_envelope e = receive(s, &message);
    nng_msg_free(message);
    return (enum lk_code)e.status;
}

static void reply_json(struct rpc_call *call, const char *json)
{
    Lk__StatusReply reply = LK__STATUS_REPLY__INIT;
    reply.json = (char *)(uintptr_t)json;
    rpc_reply(call, &reply.base, NULL, 0);
}

/* One whole call on a new connection: proof that the server serves. */
static void good_client_is_served(struct rpc_server *server, const char *address)
{
    nng_socket s = dial(address);
    send_call(s, 99);
    reply_json(wait_call(server), "{}");
    ck_assert_int_eq(receive_status(s), LK_OK);
    ck_assert_int_eq(nng_close(s), 0);
}

START_TEST(envelope_refuses_every_truncation_and_extension)
{
    uint8_t bytes[80] = {0};
    struct lk_envelope e;
    size_t n = frame(bytes, 7, "abcdef", 6, 5);
    for (size_t k = 0; k < n; k++)
        ck_assert(!lk_envelope_get(bytes, k, &e));
    ck_assert(lk_envelope_get(bytes, n, &e));
    ck_assert_uint_eq(e.call, 7);
    ck_assert_int_eq(memcmp(e.header, "abcdef", 6), 0);
    ck_assert(!lk_envelope_get(bytes, n + 1, &e));
    lk_put_u64(bytes + 24, UINT64_MAX - 3); /* header + payload wraps around to the right sum */
    lk_put_u32(bytes + 20, 6 + 4);
    ck_assert(!lk_envelope_get(bytes, n, &e));
}
END_TEST

START_TEST(call_carries_its_parts_and_the_reply_its_payload)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s = dial(address);
    nng_msg *message;

    send_call(s, 41);
    struct rpc_call *call = wait_call(server);
    ck_assert_uint_eq(call->method, LK_METHOD_STATUS);
    ck_assert_uint_eq(call->header_bytes, 3);
    ck_assert_int_eq(memcmp(call->header, "abc", 3), 0);
    ck_assert_int_eq(call->deadline_ms - call->received_ms, 1000);
    Lk__StatusReply reply = LK__STATUS_REPLY__INIT;
    struct rpc_slice slices[] = {{"one", 3}, {NULL, 0}, {"two", 3}};
    rpc_reply(call, &reply.base, slices, 3);
    struct lk_envelope e = receive(s, &message);
    ck_assert_uint_eq(e.call, 41);
    ck_assert_uint_eq(e.payload_bytes, 6);
    ck_assert_int_eq(memcmp(e.payload, "onetwo", 6), 0);
    nng_msg_free(message);
    ck_assert_int_eq(nng_close(s), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(deadlines_are_capped_and_zero_means_the_cap)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    uint32_t asked[] = {0, UINT32_MAX, 10};
    int64_t expected[] = {60000, 60000, 10};
    for (int i = 0; i < 3; i++) {
        nng_socket s = dial(address);
        uint8_t bytes[64];
        ck_assert_int_eq(nng_send(s, bytes, frame(bytes, 1, NULL, 0, asked[i]), 0), 0);
        struct rpc_call *call = wait_call(server);
        ck_assert_int_eq(call->deadline_ms - call->received_ms, expected[i]);
        rpc_fail(call, LK_DEADLINE_EXCEEDED, "late", "lane 3");
        ck_assert_int_eq(receive_status(s), LK_DEADLINE_EXCEEDED);
        ck_assert_int_eq(nng_close(s), 0);
    }
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(calls_may_be_answered_in_any_order)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s[3];
    struct rpc_call *call[3];
    for (int i = 0; i < 3; i++) {
        s[i] = dial(address);
        send_call(s[i], (uint64_t)i);
        call[i] = wait_call(server);
    }
    reply_json(call[2], "2");
    reply_json(call[0], "0");
    reply_json(call[1], "1");
    for (int i = 0; i < 3; i++) {
        nng_msg *message;
        ck_assert_uint_eq(receive(s[i], &message).call, (uint64_t)i);
        nng_msg_free(message);
        ck_assert_int_eq(nng_close(s[i]), 0);
    }
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(peer_gone_comes_once_and_after_its_calls)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s = dial(address);
    send_call(s, 1);
    struct rpc_call *call = wait_call(server);
    ck_assert_int_eq(nng_close(s), 0);
    struct rpc_event event = wait_event(server);
    ck_assert_int_eq(event.kind, RPC_EVENT_PEER_GONE);
    ck_assert_uint_eq(event.peer, call->peer);
    rpc_drop(call);
    struct rpc_stats stats;
    rpc_server_stats(server, &stats);
    ck_assert_uint_eq(stats.peers, 0);
    ck_assert_uint_eq(stats.waiting, 0);
    ck_assert(!rpc_server_next(server, &event));
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(answer_to_a_gone_peer_is_harmless)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s = dial(address);
    send_call(s, 1);
    struct rpc_call *call = wait_call(server);
    ck_assert_int_eq(nng_close(s), 0);
    ck_assert_int_eq(wait_event(server).kind, RPC_EVENT_PEER_GONE);
    reply_json(call, "{}");
    good_client_is_served(server, address);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(too_many_calls_are_told_so)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address); /* 4 at once */
    nng_socket s[5];
    struct rpc_call *call[4];
    for (int i = 0; i < 4; i++) {
        s[i] = dial(address);
        send_call(s[i], 1);
        call[i] = wait_call(server);
    }
    s[4] = dial(address);
    send_call(s[4], 1);
    wait_refused(server, 1);
    ck_assert_int_eq(receive_status(s[4]), LK_RESOURCE_EXHAUSTED);
    for (int i = 0; i < 4; i++) {
        reply_json(call[i], "{}");
        ck_assert_int_eq(receive_status(s[i]), LK_OK);
    }
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(nng_close(s[i]), 0);
    good_client_is_served(server, address);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(repeated_request_is_one_call)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s;
    uint8_t body[64];
    nng_msg *message;
    ck_assert_int_eq(nng_req0_open_raw(&s), 0);
    ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, WAIT_MS), 0);
    ck_assert_int_eq(nng_dial(s, address, NULL, 0), 0);
    size_t n = frame(body, 5, NULL, 0, 1000);
    /* request 1, request 1 again, request 2 */
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(nng_msg_alloc(&message, 0), 0);
        ck_assert_int_eq(nng_msg_header_append_u32(message, 0x80000001u + i / 2), 0);
        ck_assert_int_eq(nng_msg_append(message, body, n), 0);
        ck_assert_int_eq(nng_sendmsg(s, message, 0), 0);
    }
    struct rpc_call *first = wait_call(server), *second = wait_call(server);
    struct rpc_stats stats = {0};
    for (int i = 0; i < WAIT_MS && stats.repeats == 0; i++) { /* two threads receive: it may come last */
        (void)poll(NULL, 0, 1);
        rpc_server_stats(server, &stats);
    }
    ck_assert_uint_eq(stats.calls, 2);
    ck_assert_uint_eq(stats.repeats, 1);
    reply_json(first, "{}");
    reply_json(second, "{}");
    ck_assert_int_eq(receive_status(s), LK_OK);
    ck_assert_int_eq(receive_status(s), LK_OK);
    ck_assert_int_eq(nng_close(s), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(malformed_frames_are_refused_and_counted)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s = dial(address);
    uint8_t bytes[64];
    char http[] = "GET / HTTP/1.1";
    nng_msg *message;

    size_t n = frame(bytes, 77, "abc", 3, 1000);
    ck_assert_int_eq(nng_send(s, bytes, n - 1, 0), 0); /* shorter than it says: answered */
    wait_refused(server, 1);
    struct lk_envelope e = receive(s, &message);
    ck_assert_uint_eq(e.status, LK_INVALID_ARGUMENT);
    ck_assert_uint_eq(e.call, 77);
    nng_msg_free(message);
    ck_assert_int_eq(nng_send(s, http, 14, 0), 0); /* no frame at all: dropped */
    wait_refused(server, 2);
    ck_assert_int_eq(nng_send(s, http, 0, 0), 0);
    wait_refused(server, 3);
    send_call(s, 1); /* the connection is as good as before */
    reply_json(wait_call(server), "{}");
    ck_assert_int_eq(receive_status(s), LK_OK);
    ck_assert_int_eq(nng_close(s), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(oversized_message_ends_its_connection_only)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s = dial(address), other = dial(address);
    static uint8_t big[4097];
    send_call(s, 1);
    reply_json(wait_call(server), "{}");
    ck_assert_int_eq(receive_status(s), LK_OK);
    send_call(other, 1);
    struct rpc_call *call = wait_call(server);
    lk_envelope_put(&(struct lk_envelope){.payload_bytes = sizeof big - 32}, big);
    ck_assert_int_eq(nng_send(s, big, sizeof big, 0), 0);
    ck_assert_int_eq(wait_event(server).kind, RPC_EVENT_PEER_GONE);
    ck_assert_int_eq(nng_close(s), 0);
    reply_json(call, "{}");
    ck_assert_int_eq(receive_status(other), LK_OK);
    lk_envelope_put(&(struct lk_envelope){.payload_bytes = sizeof big - 33}, big);
    ck_assert_int_eq(nng_send(other, big, sizeof big - 1, 0), 0); /* the largest that may be */
    reply_json(wait_call(server), "{}");
    ck_assert_int_eq(receive_status(other), LK_OK);
    ck_assert_int_eq(nng_close(other), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

/* ---- strangers at the door ---- */

static int connect_tcp(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

START_TEST(strangers_do_not_keep_a_good_client_waiting)
{
    static const struct {
        const char *bytes;
        size_t n;
    } openings[] = {
        {"", 0},
        {"\0", 1},
        {"\0SP\0\0\x30", 6},               /* half a handshake */
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11},
        {"\0SP\0\0\x30\0\0\0\0\0\0\xff\xff\xff\xff", 16}, /* handshake, then 4 GB */
        {"\0SP\0\0\x30\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16},
    };
    struct rpc_server *server = open_server("tcp://127.0.0.1:0");
    int silent[100];
    for (int i = 0; i < 1000; i++) {
        int fd = connect_tcp(rpc_server_address(server, 0));
        size_t which = (size_t)i % (sizeof openings / sizeof *openings);
        (void)send(fd, openings[which].bytes, openings[which].n, MSG_NOSIGNAL);
        if (i % 10 == 0) {
            silent[i / 10] = fd; /* stays, and never says another word */
            continue;
        }
        if (i % 3 == 0) { /* reset */
            struct linger l = {.l_onoff = 1};
            ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l), 0);
        }
        close(fd);
    }
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    good_client_is_served(server, rpc_server_address(server, 0));
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    double s = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    ck_assert_msg(s < 5.0, "served after %.3f s", s); /* a place in a queue behind them all takes ten and more */
    for (int i = 0; i < 100; i++)
        close(silent[i]);
    rpc_server_close(server);
}
END_TEST

static int connect_ipc(const char *address)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, address + strlen("ipc://"), strlen(address) - strlen("ipc://") + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void answered(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
}

/* Serves whoever comes until @s has its answer. */
static enum lk_code serve_until_answered(struct rpc_server *server, nng_socket s)
{
    nng_aio *aio;
    atomic_bool done = false;
    ck_assert_int_eq(nng_aio_alloc(&aio, answered, &done), 0);
    nng_aio_set_timeout(aio, 2 * WAIT_MS);
    nng_recv_aio(s, aio);
    for (int i = 0; !atomic_load(&done) && i < 100; i++) {
        struct pollfd p = {.fd = rpc_server_fd(server), .events = POLLIN};
        struct rpc_event event;
        (void)poll(&p, 1, 100);
        while (rpc_server_next(server, &event)) {
            if (event.kind == RPC_EVENT_CALL)
                reply_json(event.call, "{}");
        }
    }
    nng_aio_wait(aio);
    ck_assert_int_eq(nng_aio_result(aio), 0);
    struct lk_envelope e;
    nng_msg *message = nng_aio_get_msg(aio);
    ck_assert(lk_envelope_get(nng_msg_body(message), nng_msg_len(message), &e));
    nng_msg_free(message);
    nng_aio_free(aio);
    return (enum lk_code)e.status;
}

START_TEST(clients_killed_at_the_door_do_not_close_it)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket before = dial(address), s;
    send_call(before, 1); /* connected all the time */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++)
            close(connect_ipc(address)); /* gone before a word was said */
        ck_assert_int_eq(nng_req0_open(&s), 0);
        ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 2 * WAIT_MS), 0);
        ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_REQ_RESENDTIME, 100), 0);
        ck_assert_int_eq(nng_dial(s, address, NULL, NNG_FLAG_NONBLOCK), 0);
        send_call(s, 2);
        ck_assert_int_eq(serve_until_answered(server, s), LK_OK);
        ck_assert_int_eq(nng_close(s), 0);
    }
    ck_assert_int_eq(serve_until_answered(server, before), LK_OK);
    ck_assert_int_eq(nng_close(before), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(goodbye_is_the_last_word)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s;
    uint8_t body[64];
    nng_msg *message;
    struct rpc_event event;
    ck_assert_int_eq(nng_req0_open_raw(&s), 0);
    ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, WAIT_MS), 0);
    ck_assert_int_eq(nng_dial(s, address, NULL, 0), 0);
    struct lk_envelope e = {.method = LK_METHOD_STATUS, .call = 1};
    for (uint32_t i = 0; i < 2; i++) { /* a call, then goodbye */
        lk_envelope_put(&e, body);
        ck_assert_int_eq(nng_msg_alloc(&message, 0), 0);
        ck_assert_int_eq(nng_msg_header_append_u32(message, 0x80000001u + i), 0);
        ck_assert_int_eq(nng_msg_append(message, body, LK_ENVELOPE_BYTES), 0);
        ck_assert_int_eq(nng_sendmsg(s, message, 0), 0);
        if (i == 0)
            event = wait_event(server);
        e.method = LK_METHOD_GOODBYE;
        e.call = 2;
    }
    struct rpc_call *call = event.call;
    event = wait_event(server);
    ck_assert_int_eq(event.kind, RPC_EVENT_PEER_GONE);
    ck_assert_uint_eq(event.peer, call->peer);
    reply_json(call, "{}"); /* too late: it is not sent */
    while (rpc_server_next(server, &event))
        ck_assert_int_eq(event.kind, RPC_EVENT_CALL);
    e = receive(s, &message);
    ck_assert_uint_eq(e.call, 2);
    ck_assert_uint_eq(e.header_bytes, 0);
    nng_msg_free(message);
    ck_assert_int_eq(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 50), 0);
    ck_assert_int_eq(nng_recvmsg(s, &message, 0), NNG_ETIMEDOUT);
    ck_assert_int_eq(nng_close(s), 0);
    good_client_is_served(server, address); /* and no second end of that peer is told before it */
    rpc_server_close(server);
    free(address);
}
END_TEST

/* ---- addresses ---- */

static void refuses(const char *address, enum lk_code code, const char *part)
{
    const char *listen_on[] = {address};
    struct rpc_config config = {.listen = listen_on, .n_listen = 1, .message_max = 4096,
                                .calls_max = 4, .socket_mode = 0600};
    struct rpc_server *server = NULL;
    struct lk_err err;
    ck_assert_msg(rpc_server_open(&config, &server, &err) == code, "%s: wrong code", address);
    ck_assert_ptr_null(server);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s: %s", address, err.text);
}

START_TEST(bad_addresses_are_named)
{
    static const char *bad[] = {"tcp://127.0.0.1:70000", "tcp://127.0.0.1:-1", "tcp://127.0.0.1:",
                                "tcp://127.0.0.1", "tcp://:7070", "tcp://::1:7070", "tcp://[::1]", "ipc://",
                                "", "http://x:1", "/run/x.sock"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(bad[i], LK_INVALID_ARGUMENT, bad[i]);
    char *longest = lk_format("ipc://%s/%0*d", dir, 108 - 1 - (int)strlen(dir), 0);
    refuses(longest, LK_INVALID_ARGUMENT, "108 bytes");
    longest[strlen(longest) - 1] = '\0'; /* 107: fits */
    struct rpc_server *server = open_server(longest);
    good_client_is_served(server, longest);
    rpc_server_close(server);
    free(longest);
}
END_TEST

START_TEST(address_in_use_is_named)
{
    struct rpc_server *server = open_server("tcp://127.0.0.1:0");
    const char *real = rpc_server_address(server, 0);
    ck_assert_msg(strcmp(real, "tcp://127.0.0.1:0") != 0, "%s", real);
    refuses(real, LK_ALREADY_EXISTS, real);
    good_client_is_served(server, real);
    rpc_server_close(server);

    char *address = in_dir("a");
    server = open_server(address);
    refuses(address, LK_ALREADY_EXISTS, address + strlen("ipc://"));
    good_client_is_served(server, address); /* the attempt did not take its socket away */
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(stale_socket_is_replaced_and_other_files_are_not)
{
    char *address = in_dir("a");
    const char *path = address + strlen("ipc://");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd); /* the file stays, as after kill -9 */
    struct rpc_server *server = open_server(address);
    good_client_is_served(server, address);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    rpc_server_close(server);
    ck_assert_msg(stat(path, &st) != 0, "the socket file is left behind");

    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    refuses(address, LK_ALREADY_EXISTS, "is no socket");
    ck_assert_int_eq(stat(path, &st), 0);
    free(address);
}
END_TEST

START_TEST(restarts_find_their_port_free)
{
    struct rpc_server *server = open_server("tcp://127.0.0.1:0");
    char *address = lk_strdup(rpc_server_address(server, 0));
    for (int i = 0; i < 200; i++) {
        good_client_is_served(server, address);
        rpc_server_close(server);
        server = open_server(address);
    }
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(ipv6_loopback_works)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    if (!has) { /* a machine without IPv6: it must say so, not crash */
        refuses("tcp://[::1]:0", LK_INVALID_ARGUMENT, "[::1]");
        return;
    }
    struct rpc_server *server = open_server("tcp://[::1]:0");
    good_client_is_served(server, rpc_server_address(server, 0));
    rpc_server_close(server);
}
END_TEST

START_TEST(close_with_calls_waiting_is_clean)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    for (int i = 0; i < 4; i++) {
        send_call(dial(address), 1);
        if (i < 2)
            (void)wait_call(server); /* two are held, two are queued */
    }
    rpc_server_close(server); /* nng's own ends are left to the end of the process: while it dials anew, closing may hang */
    rpc_server_close(NULL);
    free(address);
}
END_TEST

START_TEST(hundreds_of_peers_come_and_go)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s[300];
    struct rpc_stats stats;
    for (int i = 0; i < 300; i++) {
        s[i] = dial(address);
        send_call(s[i], 1);
        reply_json(wait_call(server), "{}");
        ck_assert_int_eq(receive_status(s[i]), LK_OK);
    }
    rpc_server_stats(server, &stats);
    ck_assert_uint_eq(stats.peers, 300);
    for (int i = 0; i < 300; i += 2)
        ck_assert_int_eq(nng_close(s[i]), 0);
    for (int i = 0; i < 150; i++)
        ck_assert_int_eq(wait_event(server).kind, RPC_EVENT_PEER_GONE);
    for (int i = 1; i < 300; i += 2) { /* the others are still known */
        send_call(s[i], 2);
        reply_json(wait_call(server), "{}");
        ck_assert_int_eq(receive_status(s[i]), LK_OK);
    }
    for (int i = 1; i < 300; i += 2)
        ck_assert_int_eq(nng_close(s[i]), 0);
    for (int i = 0; i < 150; i++)
        ck_assert_int_eq(wait_event(server).kind, RPC_EVENT_PEER_GONE);
    rpc_server_stats(server, &stats);
    ck_assert_uint_eq(stats.peers, 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

/* --- stopping early --- */

static bool readable(struct rpc_server *server, int wait_ms)
{
    struct pollfd p = {.fd = rpc_server_fd(server), .events = POLLIN};
    return poll(&p, 1, wait_ms) == 1;
}

/* Lets the server's threads queue @n calls that the owner has not answered, some of them taken. */
static void wait_waiting(struct rpc_server *server, uint32_t n)
{
    struct rpc_stats stats;
    for (int i = 0; i < WAIT_MS; i++) {
        rpc_server_stats(server, &stats);
        if (stats.waiting == n)
            return;
        (void)poll(NULL, 0, 1);
    }
    ck_abort_msg("%u calls wait, expected %u", stats.waiting, n);
}

START_TEST(descriptor_is_readable_while_something_is_queued_and_only_then)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    struct rpc_event event[3];
    nng_socket s[3];
    ck_assert(!readable(server, 0));
    for (uint32_t i = 0; i < 3; i++) {
        s[i] = dial(address);
        send_call(s[i], i);
        wait_waiting(server, i + 1);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert(readable(server, 0));
        ck_assert(rpc_server_next(server, &event[i]));
    }
    ck_assert(!readable(server, 0)); /* without asking once more */
    ck_assert(!rpc_server_next(server, &event[0]));
    for (int i = 0; i < 3; i++) {
        reply_json(event[i].call, "{}");
        ck_assert_int_eq(receive_status(s[i]), LK_OK);
        ck_assert_int_eq(nng_close(s[i]), 0);
    }
    rpc_server_close(server);
    free(address);
}
END_TEST

/* Takes one event at a moment when others may just be arriving, and stops. */
START_TEST(owner_that_stops_early_is_woken_for_the_rest)
{
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    nng_socket s[3];
    for (int i = 0; i < 3; i++)
        s[i] = dial(address);
    for (int round = 0; round < 1000; round++) {
        struct rpc_event event[3];
        for (int i = 0; i < 3; i++)
            send_call(s[i], (uint64_t)round);
        while (!rpc_server_next(server, &event[0])) /* busy: to be in the middle of it */
            continue;
        for (int i = 1; i < 3; i++) {
            ck_assert_msg(readable(server, WAIT_MS), "round %d: not woken for call %d", round, i);
            ck_assert(rpc_server_next(server, &event[i]));
        }
        for (int i = 0; i < 3; i++)
            reply_json(event[i].call, "{}");
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(receive_status(s[i]), LK_OK);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nng_close(s[i]), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

START_TEST(flood_of_malformed_messages_is_answered_bit_by_bit)
{
    enum { FLOOD = 200, BIT = 64 };
    char *address = in_dir("a");
    struct rpc_server *server = open_server(address);
    struct rpc_event event;
    struct rpc_stats stats = {0};
    nng_socket s;
    uint8_t body[64];
    nng_msg *message;
    ck_assert_int_eq(nng_req0_open_raw(&s), 0);
    ck_assert_int_eq(nng_dial(s, address, NULL, 0), 0);
    size_t n = frame(body, 5, "abc", 3, 1000);
    for (uint32_t i = 0; i < FLOOD; i++) {
        ck_assert_int_eq(nng_msg_alloc(&message, 0), 0);
        ck_assert_int_eq(nng_msg_header_append_u32(message, 0x80000001u + i), 0);
        ck_assert_int_eq(nng_msg_append(message, body, n - 1), 0);
        ck_assert_int_eq(nng_sendmsg(s, message, 0), 0);
    }
    for (int i = 0; i < WAIT_MS && stats.refused_malformed < FLOOD; i++) {
        (void)poll(NULL, 0, 1);
        rpc_server_stats(server, &stats);
    }
    ck_assert_uint_eq(stats.refused_malformed, FLOOD);
    uint32_t turns = 0;
    for (; readable(server, 0); turns++) {
        rpc_server_stats(server, &stats);
        ck_assert_uint_eq(stats.replies, turns * BIT);
        ck_assert(!rpc_server_next(server, &event));
    }
    ck_assert_uint_eq(turns, (FLOOD + BIT - 1) / BIT);
    good_client_is_served(server, address);
    ck_assert_int_eq(nng_close(s), 0);
    rpc_server_close(server);
    free(address);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/server");
    TCase *t = tcase_create("server");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, envelope_refuses_every_truncation_and_extension);
    tcase_add_test(t, call_carries_its_parts_and_the_reply_its_payload);
    tcase_add_test(t, deadlines_are_capped_and_zero_means_the_cap);
    tcase_add_test(t, calls_may_be_answered_in_any_order);
    tcase_add_test(t, peer_gone_comes_once_and_after_its_calls);
    tcase_add_test(t, answer_to_a_gone_peer_is_harmless);
    tcase_add_test(t, too_many_calls_are_told_so);
    tcase_add_test(t, repeated_request_is_one_call);
    tcase_add_test(t, malformed_frames_are_refused_and_counted);
    tcase_add_test(t, oversized_message_ends_its_connection_only);
    tcase_add_test(t, strangers_do_not_keep_a_good_client_waiting);
    tcase_add_test(t, clients_killed_at_the_door_do_not_close_it);
    tcase_add_test(t, goodbye_is_the_last_word);
    tcase_add_test(t, bad_addresses_are_named);
    tcase_add_test(t, address_in_use_is_named);
    tcase_add_test(t, stale_socket_is_replaced_and_other_files_are_not);
    tcase_add_test(t, restarts_find_their_port_free);
    tcase_add_test(t, ipv6_loopback_works);
    tcase_add_test(t, close_with_calls_waiting_is_clean);
    tcase_add_test(t, hundreds_of_peers_come_and_go);
    tcase_add_test(t, descriptor_is_readable_while_something_is_queued_and_only_then);
    tcase_add_test(t, owner_that_stops_early_is_woken_for_the_rest);
    tcase_add_test(t, flood_of_malformed_messages_is_answered_bit_by_bit);
    suite_add_tcase(s, t);
    return s;
}
