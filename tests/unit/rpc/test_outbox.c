/* What goes out on a connection: whole and in order, whoever reads how fast; and never very much at once. */
#include "base/mem.h"
#include "rpc/outbox.h"
#include "tests/lib/check_main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_ONCE ((size_t)1 << 20) /* as outbox.c has it */
#define HEAD 9
#define WORDS 8 /* the connection's number, which stays, and the requester's word */

struct reader {
    int fd;
    uint64_t bytes, sum;
    int failure; /* what ended it: 0, the other end's end */
};

/* Reads until the end, as fast as it can. */
static void *read_all(void *arg)
{
    struct reader *reader = arg;
    uint8_t *to = lk_alloc(AT_ONCE);
    ssize_t n;
    while ((n = read(reader->fd, to, AT_ONCE)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            reader->sum = (reader->sum << 1 | reader->sum >> 63) + to[i];
        reader->bytes += (uint64_t)n;
    }
    reader->failure = n < 0 ? errno : 0;
    free(to);
    return NULL;
}

static nng_msg *answer(size_t bytes, uint8_t mark)
{
    nng_msg *message;
    ck_assert_int_eq(nng_msg_alloc(&message, bytes), 0);
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)nng_msg_body(message))[i] = (uint8_t)(mark + i % 251);
    ck_assert_int_eq(nng_msg_header_append(message, "numbword", WORDS), 0);
    return message;
}

/* What a reader makes of @message when it comes whole. */
static void expect(struct reader *expected, nng_msg *message)
{
    size_t n = WORDS - 4 + nng_msg_len(message);
    uint8_t head[HEAD] = {1};
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
    const uint8_t *part[] = {head, (uint8_t *)nng_msg_header(message) + 4, nng_msg_body(message)};
    size_t bytes[] = {HEAD, WORDS - 4, nng_msg_len(message)};
    for (int p = 0; p < 3; p++)
        for (size_t i = 0; i < bytes[p]; i++)
            expected->sum = (expected->sum << 1 | expected->sum >> 63) + part[p][i];
    expected->bytes += HEAD + n;
}

/* What is left to send. */
static size_t left(const struct outbox *outbox)
{
    return outbox->bytes - outbox->sent;
}

START_TEST(all_is_sent_in_order_and_little_at_once)
{
    static const size_t sizes[] = {0, 5, 200000, 9u << 20, 1, (1u << 20) - HEAD - 4, 3000000, 70000, 24u << 20};
    struct reader reader = {0}, expected = {0};
    pthread_t thread;
    int fd[2], much = 64 << 20;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    /* As if its reader were faster than we are. (Others than root have to rely on the reader below.) */
    (void)setsockopt(fd[0], SOL_SOCKET, SO_SNDBUFFORCE, &much, sizeof much);
    struct outbox outbox = {.fd = fd[0], .head_bytes = HEAD};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        nng_msg *message = answer(sizes[i], (uint8_t)i);
        expect(&expected, message);
        outbox_send(&outbox, message, 1);
    }
    ck_assert_ptr_nonnull(outbox.first);
    reader.fd = fd[1];
    ck_assert_int_eq(pthread_create(&thread, NULL, read_all, &reader), 0);
    while (outbox.first != NULL) {
        size_t before = left(&outbox);
        outbox_flush(&outbox, 2);
        /* One more piece may begin just below the bound. */
        ck_assert_uint_le(before - left(&outbox), 2 * AT_ONCE);
    }
    ck_assert_uint_eq(outbox.bytes, 0);
    (void)close(fd[0]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(reader.bytes, expected.bytes);
    ck_assert_uint_eq(reader.sum, expected.sum);
    (void)close(fd[1]);
    outbox_done(&outbox);
}
END_TEST

START_TEST(who_is_gone_has_no_more_kept_for_it)
{
    int fd[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    struct outbox outbox = {.fd = fd[0], .head_bytes = HEAD};
    outbox_send(&outbox, answer(4u << 20, 0), 1);
    outbox_send(&outbox, answer(10, 0), 1);
    ck_assert_uint_eq(outbox.n, 2);
    (void)close(fd[1]);
    outbox_flush(&outbox, 2);
    outbox_flush(&outbox, 2);
    ck_assert_ptr_null(outbox.first);
    ck_assert_uint_eq(outbox.bytes, 0);
    (void)close(fd[0]);
}
END_TEST

/* Connected by TCP; the second takes a little at once. */
static void tcp_pair(int fd[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), little = 4096;
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(setsockopt(fd[1], SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    ck_assert_int_eq(connect(fd[1], (struct sockaddr *)&at, sizeof at), 0);
    fd[0] = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd[0], 0);
    (void)close(listener);
}

/* Calls outbox_end until it says so, or for two seconds; whether it did. */
static bool end(struct outbox *outbox)
{
    uint8_t scratch[4096];
    for (int i = 0; i < 2000; i++) {
        if (outbox_end(outbox, scratch, sizeof scratch, 1))
            return true;
        (void)usleep(1000);
    }
    return false;
}

/* TCP that is closed over unread bytes says so with a reset, and what was not taken yet is lost. */
START_TEST(what_was_said_before_the_end_gets_there_whatever_came_meanwhile)
{
    struct reader reader = {0}, expected = {0};
    uint8_t unread[50000] = {0};
    pthread_t thread;
    int fd[2];
    tcp_pair(fd);
    struct outbox outbox = {.fd = fd[0], .head_bytes = HEAD - 1};
    nng_msg *message = answer(_i == 0 ? 3u << 20 : 50000, 7);
    expect(&expected, message);
    expected.bytes -= 1; /* no byte 1 before it, which the sum has */
    outbox_send(&outbox, message, 1);
    ck_assert_int_eq(send(fd[1], unread, sizeof unread, MSG_NOSIGNAL), (ssize_t)sizeof unread);
    reader.fd = fd[1];
    reader.sum = 1;
    ck_assert_int_eq(pthread_create(&thread, NULL, read_all, &reader), 0);
    ck_assert(end(&outbox));
    (void)close(fd[0]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(reader.failure, 0);
    ck_assert_uint_eq(reader.bytes, expected.bytes);
    ck_assert_uint_eq(reader.sum, expected.sum);
    (void)close(fd[1]);
}
END_TEST

START_TEST(the_end_waits_for_those_who_have_something_to_come)
{
    int fd[2];
    uint8_t scratch[64];
    tcp_pair(fd);
    struct outbox outbox = {.fd = fd[0], .head_bytes = HEAD - 1};
    ck_assert(outbox_end(&outbox, scratch, sizeof scratch, 1)); /* at once: nothing is under way */
    outbox_send(&outbox, answer(3u << 20, 0), 1);
    for (int i = 0; i < 20; i++) {
        ck_assert(!outbox_end(&outbox, scratch, sizeof scratch, 1));
        (void)usleep(1000);
    }
    (void)setsockopt(fd[1], SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    (void)close(fd[1]); /* with a reset */
    ck_assert(end(&outbox));
    outbox_done(&outbox);
    (void)close(fd[0]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/outbox");
    TCase *t = tcase_create("outbox");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, all_is_sent_in_order_and_little_at_once);
    tcase_add_test(t, who_is_gone_has_no_more_kept_for_it);
    tcase_add_loop_test(t, what_was_said_before_the_end_gets_there_whatever_came_meanwhile, 0, 2);
    tcase_add_test(t, the_end_waits_for_those_who_have_something_to_come);
    suite_add_tcase(s, t);
    return s;
}
