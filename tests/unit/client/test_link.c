/* The client's connection against peers that do what no daemon does. Peer and link share one thread. */
#include "tests/unit/client/fixture.h"

#include "client/c/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#define GREETING "\0SP\0\0\x31\0\0"
#define WAIT_MS 5000

static const Lk__CheckpointRequest empty = {
    .base = PROTOBUF_C_MESSAGE_INIT(&lk__checkpoint_request__descriptor),
    .stream = (char *)(uintptr_t)protobuf_c_empty_string};

static int listen_ipc(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, address + 6, strlen(address + 6) + 1);
    (void)unlink(at.sun_path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

static struct link *open_link(const char *to)
{
    struct link *link = NULL;
    ck_assert_int_eq(lkc_link_open(to, &link), LANEKEEPER_OK);
    return link;
}

/* Drives the link for as long, or until its connection is another than @connection. */
static void drive(struct link *link, int ms, uint64_t connection)
{
    int64_t until = lkc_link_now_ms() + ms;
    do {
        lkc_link_turn(link);
        if (lkc_link_connection(link) != connection)
            return;
        (void)lkc_link_wait(link, -1, until);
    } while (lkc_link_now_ms() < until);
}

/* Until the link dials; the peer's end. */
static int accept_from(struct link *link, int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    for (int64_t until = lkc_link_now_ms() + WAIT_MS; poll(&p, 1, 0) != 1;) {
        ck_assert_int_lt(lkc_link_now_ms(), until);
        lkc_link_turn(link);
        (void)lkc_link_wait(link, listener, until);
    }
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* A peer that has greeted, and a link that is up. */
static int greet(struct link *link, int listener)
{
    uint64_t before = lkc_link_connection(link);
    char theirs[8];
    int fd = accept_from(link, listener);
    say(fd, GREETING, 8);
    drive(link, WAIT_MS, before);
    ck_assert_uint_ne(lkc_link_connection(link), 0);
    ck_assert_int_eq(recv(fd, theirs, 8, MSG_WAITALL), 8);
    ck_assert_int_eq(memcmp(theirs, "\0SP\0\0\x30\0\0", 8), 0);
    return fd;
}

/* A message over ipc with a body of @n times @byte, n < 200. */
static size_t message(uint8_t *to, size_t n, uint8_t byte)
{
    memset(to, 0, 13);
    to[0] = 1;
    to[8] = (uint8_t)(4 + n);
    to[9] = 0x80;
    memset(to + 13, byte, n);
    return 13 + n;
}

static void assert_taken(struct link *link, size_t n, uint8_t byte)
{
    size_t bytes = 0;
    const uint8_t *body = lkc_link_take(link, &bytes);
    ck_assert_ptr_nonnull(body);
    ck_assert_uint_eq(bytes, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(body[i], byte);
}

static void assert_none(struct link *link)
{
    size_t bytes;
    ck_assert_ptr_null(lkc_link_take(link, &bytes));
}

static void assert_why(const struct link *link, const char *why)
{
    ck_assert_msg(strstr(lkc_link_why(link), why) != NULL, "%s", lkc_link_why(link));
}

/* ---- what is read ---- */

START_TEST(several_replies_are_read_at_once)
{
    uint8_t bytes[2000];
    size_t n = 0;
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = greet(link, listener);
    for (uint8_t i = 0; i < 10; i++)
        n += message(bytes + n, 10u * i, i);
    say(fd, bytes, n);
    lkc_link_turn(link);
    for (uint8_t i = 0; i < 10; i++)
        assert_taken(link, 10u * i, i);
    assert_none(link);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

START_TEST(peer_that_dribbles_is_read_and_heard)
{
    uint8_t bytes[64];
    size_t n = message(bytes, 20, 7);
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = accept_from(link, listener);
    for (size_t i = 0; i < 8; i++) {
        lkc_link_turn(link);
        ck_assert_uint_eq(lkc_link_connection(link), 0);
        say(fd, &GREETING[i], 1);
    }
    drive(link, WAIT_MS, 0);
    for (size_t i = 0; i < n; i++) {
        assert_none(link);
        (void)poll(NULL, 0, 2);
        int64_t before = lkc_link_now_ms();
        say(fd, &bytes[i], 1);
        lkc_link_turn(link);
        ck_assert_int_ge(lkc_link_quiet_since(link), before);
    }
    assert_taken(link, 20, 7);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

/* Who does not look for a second or more has not listened, and cannot call a daemon silent. */
START_TEST(silence_counts_only_while_somebody_listens)
{
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = greet(link, listener);
    lkc_link_turn(link);
    int64_t quiet = lkc_link_quiet_since(link);
    for (int64_t until = lkc_link_now_ms() + 1200; lkc_link_now_ms() < until; lkc_link_turn(link))
        (void)lkc_link_wait(link, -1, until);
    ck_assert_int_eq(lkc_link_quiet_since(link), quiet);
    (void)poll(NULL, 0, 1200); /* away */
    int64_t back = lkc_link_now_ms();
    lkc_link_turn(link);
    ck_assert_int_ge(lkc_link_quiet_since(link), back);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

/* Loop: closes at every byte of a message. What was whole is taken; the next connection begins clean. */
START_TEST(peer_may_close_in_the_middle_of_a_message)
{
    uint8_t bytes[64];
    size_t whole = message(bytes, 3, 1), n = message(bytes + whole, 3, 2);
    int listener = listen_ipc();
    struct link *link = open_link(address);
    for (size_t cut = 0; cut < n; cut += 5) {
        int fd = greet(link, listener);
        uint64_t connection = lkc_link_connection(link);
        say(fd, bytes, whole + cut);
        close(fd);
        lkc_link_turn(link);
        assert_taken(link, 3, 1);
        assert_none(link);
        drive(link, WAIT_MS, connection);
        ck_assert_uint_eq(lkc_link_connection(link), 0);
        assert_none(link);
        assert_why(link, "closed");
    }
    int fd = greet(link, listener);
    say(fd, bytes, whole);
    drive(link, 20, lkc_link_connection(link));
    assert_taken(link, 3, 1);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

/* Loop: what is said instead of a greeting, or after it. */
START_TEST(garbage_ends_the_connection_and_another_is_made)
{
    static const struct {
        const char *bytes;
        size_t n;
    } kinds[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28},
        {"\0SP\0\0\x30\0\0", 8}, /* another requester, or ourselves */
        {GREETING "\2", 9},
        {GREETING "\1\0\0\0\0\0\0\0\3", 17},           /* shorter than a request's number */
        {GREETING "\1\0\0\0\0\x40\0\0\1", 17},         /* longer than a gigabyte */
        {GREETING "\1\xff\xff\xff\xff\xff\xff\xff\xff", 17},
    };
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = accept_from(link, listener);
    say(fd, kinds[_i].bytes, kinds[_i].n);
    for (int i = 0; i < 20; i++) {
        lkc_link_turn(link);
        assert_none(link);
        (void)lkc_link_wait(link, -1, lkc_link_now_ms() + 1);
    }
    ck_assert_uint_eq(lkc_link_connection(link), 0);
    close(fd);
    fd = accept_from(link, listener);
    say(fd, GREETING, 8);
    drive(link, WAIT_MS, 0);
    ck_assert_uint_ne(lkc_link_connection(link), 0);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

/* ---- what is sent ---- */

START_TEST(full_socket_keeps_what_it_does_not_take)
{
    struct lk_envelope e = {.method = LK_METHOD_GOODBYE};
    uint64_t sent = 0, seen = 0;
    uint8_t frame[13 + LK_ENVELOPE_BYTES];
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = greet(link, listener);
    for (e.call = 0; lkc_link_send(link, &e, &empty.base); e.call = ++sent) {
        ck_assert_uint_lt(sent, 200000);
        lkc_link_flush(link);
    }
    ck_assert_uint_gt(sent, 20000); /* a megabyte, and what the socket holds */
    (void)lkc_link_wait(link, -1, lkc_link_now_ms() + 20); /* full: nothing to do */
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (seen < sent) {
        lkc_link_turn(link);
        ck_assert_uint_ne(lkc_link_connection(link), 0);
        while (seen < sent && poll(&p, 1, 0) == 1) {
            struct lk_envelope got;
            if (recv(fd, frame, sizeof frame, MSG_PEEK) < (ssize_t)sizeof frame)
                break; /* the rest is still with the link */
            ck_assert_int_eq(recv(fd, frame, sizeof frame, MSG_WAITALL), (ssize_t)sizeof frame);
            ck_assert(lk_envelope_get(frame + 13, LK_ENVELOPE_BYTES, &got));
            ck_assert_uint_eq(got.call, seen++);
        }
    }
    ck_assert(lkc_link_send(link, &e, &empty.base));
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

/* With the default action SIGPIPE would end this process. What came before the end is still read. */
START_TEST(peer_that_is_gone_sends_no_signal)
{
    struct lk_envelope e = {.method = LK_METHOD_GOODBYE};
    uint8_t bytes[64];
    (void)signal(SIGPIPE, SIG_DFL);
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = greet(link, listener);
    uint64_t connection = lkc_link_connection(link);
    say(fd, bytes, message(bytes, 9, 4));
    close(fd);
    for (int i = 0; i < 3; i++) {
        ck_assert(lkc_link_send(link, &e, &empty.base));
        lkc_link_flush(link);
    }
    lkc_link_turn(link);
    assert_taken(link, 9, 4);
    drive(link, WAIT_MS, connection);
    ck_assert_uint_eq(lkc_link_connection(link), 0);
    ck_assert(!lkc_link_send(link, &e, &empty.base));
    lkc_link_close(link);
    close(listener);
}
END_TEST

/* ---- dialling ---- */

/* Loop: a peer that ends each connection at once, and one that first greets and answers something. */
START_TEST(redialling_pauses)
{
    enum { DIALS = 13 };
    uint8_t bytes[64];
    int64_t begin = 0, last = 0, longest = 0, until = lkc_link_now_ms() + 4 * WAIT_MS;
    int dials = 0, short_ones = 0, listener = listen_ipc();
    struct link *link = open_link(address);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    while (dials < DIALS) {
        size_t n;
        ck_assert_int_lt(lkc_link_now_ms(), until);
        lkc_link_turn(link);
        (void)lkc_link_take(link, &n);
        (void)lkc_link_wait(link, listener, until);
        if (poll(&p, 1, 0) != 1)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (_i == 1) {
            say(fd, GREETING, 8);
            say(fd, bytes, message(bytes, 1, 1));
        }
        close(fd);
        int64_t now = lkc_link_now_ms(), pause = now - last;
        longest = dials > 0 && pause > longest ? pause : longest;
        short_ones += dials > 0 && pause < 60;
        begin = dials == 0 ? now : begin;
        last = now;
        dials++;
    }
    /* 10, 15, 22 … 250 ms, less some jitter; always the first of these after an answer. A machine that does much else
     * makes some of them longer, and none shorter. */
    int64_t least = _i == 1 ? 4 * (DIALS - 1) : 500;
    ck_assert_msg(last - begin >= least, "%ld ms", (long)(last - begin));
    if (_i == 0)
        ck_assert_msg(longest >= 100, "%ld ms", (long)longest);
    else
        ck_assert_msg(short_ones > DIALS / 2, "%d", short_ones);
    lkc_link_close(link);
    close(listener);
}
END_TEST

START_TEST(peer_that_does_not_greet_is_named)
{
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int64_t before = lkc_link_now_ms();
    drive(link, 100, 0);
    ck_assert_int_ge(lkc_link_now_ms() - before, 100);
    ck_assert_uint_eq(lkc_link_connection(link), 0);
    assert_why(link, "greet");
    lkc_link_close(link);
    close(listener);
}
END_TEST

START_TEST(nothing_is_dialled_after_the_last)
{
    int listener = listen_ipc();
    struct link *link = open_link(address);
    int fd = greet(link, listener);
    lkc_link_last(link);
    close(fd);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    drive(link, WAIT_MS, lkc_link_connection(link));
    ck_assert_uint_eq(lkc_link_connection(link), 0);
    for (int i = 0; i < 5; i++) {
        (void)poll(NULL, 0, 20); /* longer than the first pauses */
        lkc_link_turn(link);
    }
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    lkc_link_close(link);
    close(listener);
}
END_TEST

static int listen_tcp(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* Loop: a number, and a name (of which there may be more addresses than the one that listens). */
START_TEST(tcp_has_no_byte_before_the_length)
{
    uint16_t port;
    uint8_t bytes[64];
    char to[64];
    int listener = listen_tcp(&port);
    (void)snprintf(to, sizeof to, "tcp://%s:%u", _i == 0 ? "127.0.0.1" : "localhost", port);
    struct link *link = open_link(to);
    int fd = greet(link, listener);
    size_t n = message(bytes, 30, 6);
    say(fd, bytes + 1, n - 1);
    drive(link, 50, lkc_link_connection(link));
    assert_taken(link, 30, 6);
    lkc_link_close(link);
    close(fd);
    close(listener);
}
END_TEST

START_TEST(tcp_refusal_and_unknown_names_are_named)
{
    uint16_t port;
    char to[64];
    int listener = listen_tcp(&port);
    close(listener);
    (void)snprintf(to, sizeof to, "tcp://127.0.0.1:%u", port);
    struct link *link = open_link(to);
    drive(link, 50, 0);
    assert_why(link, "refused");
    lkc_link_close(link);

    int64_t before = lkc_link_now_ms();
    link = open_link("tcp://no.such.host.invalid:7");
    drive(link, 200, 0);
    assert_why(link, "no.such.host.invalid");
    lkc_link_close(link); /* also when it is still being looked up */
    ck_assert_int_lt(lkc_link_now_ms() - before, 4000); /* a resolver that nobody answers takes five seconds and more */
}
END_TEST

START_TEST(what_is_no_address_is_refused)
{
    static const char *const bad[] = {"tcp://host", "tcp://host:", "tcp://:5", "tcp://host:0", "tcp://host:65536",
                                      "tcp://host:5x", "tcp://host:-5", "tcp://::1:5", "tcp://[]:5",
                                      "tcp://host:000005", "udp://host:5", "ipc://", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct link *link = NULL;
        ck_assert_msg(lkc_link_open(bad[i], &link) == LANEKEEPER_INVALID_ARGUMENT, "%s", bad[i]);
    }
    lkc_link_close(open_link("tcp://[::1]:5"));
    lkc_link_close(open_link("tcp://a.b:65535"));
}
END_TEST

/* ---- with a handle on top ---- */

static void nothing(int signal_number)
{
    (void)signal_number;
}

/* A trainer's own signals come at any moment of a call, and restart nothing. */
START_TEST(signals_disturb_nothing)
{
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct fake_daemon *f = start(_i == 1);
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    struct lanekeeper *lk = connect_ahead(2);
    struct lanekeeper_info info;
    for (uint64_t s = 0; s < 300; s++)
        next_is(lk, s, _i == 1);
    LK_OK_(lanekeeper_info(lk, &info), lk);
    ck_assert_uint_eq(info.connections, 1);
    lanekeeper_close(lk);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    fake_stop(f);
}
END_TEST

/* A forked child has its parent's descriptors. It may connect anew, and keeps nothing of its parent alive. */
START_TEST(child_may_connect_anew)
{
    int pair[2];
    char byte = 0;
    struct lanekeeper_info info;
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(2);
    next_is(lk, 0, true);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct lanekeeper *own = connect_ahead(2);
        for (uint64_t s = 0; s < 20; s++)
            next_is(own, s, true);
        lanekeeper_close(own);
        (void)close(pair[0]);
        _exit(write(pair[1], &byte, 1) == 1 && read(pair[1], &byte, 1) == 0 ? 0 : 1); /* until the parent ends it */
    }
    (void)close(pair[1]);
    for (uint64_t s = 1; s < 20; s++)
        next_is(lk, s, true);
    ck_assert_int_eq(read(pair[0], &byte, 1), 1);
    LK_OK_(lanekeeper_info(lk, &info), lk);
    ck_assert_uint_eq(info.connections, 1);
    lanekeeper_close(lk);
    wait_for(&f->clients, 0); /* though the child lives */
    int status;
    (void)close(pair[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    fake_stop(f);
}
END_TEST

/* Answers of two megabytes wait with the daemon while the trainer computes: longer than a daemon may be
 * silent to one who listens. That daemon is not taken for dead, and others are served meanwhile. */
START_TEST(look_ahead_waits_while_nobody_listens)
{
    struct fake_config c = config_of(false);
    c.tokens = 65536;
    struct fake_daemon *f = fake_start(&c);
    struct lanekeeper_options o = options_of(4);
    struct lanekeeper_info info;
    struct lanekeeper_batch b;
    o.timeout_ms = 1000;
    struct lanekeeper *lk = connect_with(&o);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    lanekeeper_release(&b);
    wait_for(&f->asked[4], 1);
    struct lanekeeper *other = connect_ahead(0);
    for (int64_t until = fake_now_ms() + 7000; fake_now_ms() < until; (void)poll(NULL, 0, 500)) {
        LK_OK_(lanekeeper_next(other, &b), other);
        lanekeeper_release(&b);
    }
    for (uint64_t s = 1; s < 8; s++) {
        LK_OK_(lanekeeper_next(lk, &b), lk);
        ck_assert_uint_eq(b.step, s);
        ck_assert_uint_eq(b.tokens[65536 * FAKE_ROWS - 1], fake_token(s, FAKE_ROWS - 1, 65535));
        lanekeeper_release(&b);
    }
    LK_OK_(lanekeeper_info(lk, &info), lk);
    ck_assert_uint_eq(info.connections, 1);
    lanekeeper_close(other);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* A daemon that stays silent although somebody listens is given up, and dialled anew. */
START_TEST(silent_daemon_is_given_up)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper_options o = options_of(0);
    struct lanekeeper_info info;
    struct lanekeeper_batch b;
    o.timeout_ms = 400;
    struct lanekeeper *lk = connect_with(&o);
    atomic_store(&f->fault, FAKE_SILENT);
    int64_t begin = fake_now_ms(), took;
    do {
        enum lanekeeper_code code = lanekeeper_next(lk, &b);
        took = fake_now_ms() - begin;
        /* Time may be up in the moment between two connections. */
        ck_assert(code == LANEKEEPER_DEADLINE_EXCEEDED || (code == LANEKEEPER_UNAVAILABLE && took >= 5000));
        LK_OK_(lanekeeper_info(lk, &info), lk);
        ck_assert_int_lt(took, 20000);
    } while (info.connections == 1);
    ck_assert_int_ge(took, 5000);
    atomic_store(&f->fault, FAKE_NONE);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/link");
    TCase *t = tcase_create("link");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, several_replies_are_read_at_once);
    tcase_add_test(t, peer_that_dribbles_is_read_and_heard);
    tcase_add_test(t, silence_counts_only_while_somebody_listens);
    tcase_add_test(t, peer_may_close_in_the_middle_of_a_message);
    tcase_add_loop_test(t, garbage_ends_the_connection_and_another_is_made, 0, 6);
    tcase_add_test(t, full_socket_keeps_what_it_does_not_take);
    tcase_add_test(t, peer_that_is_gone_sends_no_signal);
    tcase_add_loop_test(t, redialling_pauses, 0, 2);
    tcase_add_test(t, peer_that_does_not_greet_is_named);
    tcase_add_test(t, nothing_is_dialled_after_the_last);
    tcase_add_loop_test(t, tcp_has_no_byte_before_the_length, 0, 2);
    tcase_add_test(t, tcp_refusal_and_unknown_names_are_named);
    tcase_add_test(t, what_is_no_address_is_refused);
    tcase_add_loop_test(t, signals_disturb_nothing, 0, 2);
    tcase_add_test(t, child_may_connect_anew);
    tcase_add_test(t, look_ahead_waits_while_nobody_listens);
    tcase_add_test(t, silent_daemon_is_given_up);
    suite_add_tcase(s, t);
    return s;
}
