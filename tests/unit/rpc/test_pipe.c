/* Messages over a socket pair, and the memory beside it. */
#include "proto/board.h"
#include "proto/lanekeeper.pb-c.h"
#include "proto/pipe.h"
#include "tests/lib/check_main.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX ((size_t)8 << 20)

struct fix {
    struct lk_pipe a, b;
};

static void fix_init(struct fix *f)
{
    int ends[2] = {-1, -1};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    lk_pipe_open(&f->a, ends[0], MESSAGE_MAX);
    lk_pipe_open(&f->b, ends[1], MESSAGE_MAX);
}

static void fix_done(struct fix *f)
{
    lk_pipe_close(&f->a);
    lk_pipe_close(&f->b);
    lk_pipe_close(&f->b); /* twice is fine */
}

static void send_one(struct lk_pipe *pipe, uint64_t call, const uint8_t *payload, size_t bytes)
{
    Lk__Error message = LK__ERROR__INIT;
    struct lk_envelope e = {.method = LK_METHOD_WORKER_TASK, .call = call};
    message.detail = (char *)"why";
    lk_pipe_send(pipe, &e, &message.base, payload, bytes);
}

static uint8_t byte_at(uint64_t call, size_t i)
{
    return (uint8_t)(call * 31 + i * 7 + i / 251);
}

static uint8_t *payload_of(uint64_t call, size_t bytes)
{
    uint8_t *payload = lk_alloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        payload[i] = byte_at(call, i);
    return payload;
}

static void expect_one(struct lk_pipe *pipe, uint64_t call, size_t bytes)
{
    struct lk_envelope e;
    struct lk_err err = {.text = ""};
    enum lk_code code;
    while ((code = lk_pipe_next(pipe, &e, &err)) == LK_NOT_FOUND)
        ck_assert(lk_pipe_receive(pipe));
    ck_assert_msg(code == LK_OK, "%s", err.text);
    ck_assert_uint_eq(e.call, call);
    ck_assert_uint_eq(e.method, LK_METHOD_WORKER_TASK);
    ck_assert_uint_eq(e.payload_bytes, bytes);
    Lk__Error *message = lk__error__unpack(NULL, e.header_bytes, e.header);
    ck_assert_str_eq(message->detail, "why");
    lk__error__free_unpacked(message, NULL);
    uint8_t *want = payload_of(call, bytes);
    ck_assert(bytes == 0 || memcmp(want, e.payload, bytes) == 0);
    free(want);
}

START_TEST(messages_arrive_whole_and_in_order)
{
    struct fix f;
    fix_init(&f);
    size_t sizes[] = {0, 1, 100, 65536, 0, 40000};
    for (uint64_t i = 0; i < 6; i++) {
        uint8_t *payload = payload_of(i, sizes[i]);
        send_one(&f.a, i, payload, sizes[i]);
        free(payload);
    }
    ck_assert(lk_pipe_flush(&f.a));
    for (uint64_t i = 0; i < 6; i++)
        expect_one(&f.b, i, sizes[i]);
    ck_assert(!lk_pipe_receive(&f.b));
    ck_assert(!f.b.ended);
    fix_done(&f);
}
END_TEST

START_TEST(what_the_socket_does_not_take_is_kept_and_sent_later)
{
    struct fix f;
    struct lk_err err;
    struct lk_envelope e;
    fix_init(&f);
    size_t bytes = (size_t)6 << 20;
    uint8_t *payload = payload_of(9, bytes);
    send_one(&f.a, 9, payload, bytes);
    send_one(&f.a, 10, payload, 3); /* behind it, not before it */
    ck_assert(!lk_pipe_flush(&f.a));
    uint32_t turns = 0;
    while (!lk_pipe_flush(&f.a)) {
        ck_assert(lk_pipe_receive(&f.b));
        turns++;
    }
    ck_assert_uint_gt(turns, 2);
    expect_one(&f.b, 9, bytes);
    while (lk_pipe_next(&f.b, &e, &err) == LK_NOT_FOUND)
        ck_assert(lk_pipe_receive(&f.b));
    ck_assert_uint_eq(e.call, 10);
    ck_assert_uint_eq(e.payload_bytes, 3);
    free(payload);
    fix_done(&f);
}
END_TEST

START_TEST(a_message_may_come_byte_by_byte)
{
    struct fix f;
    struct lk_err err;
    struct lk_envelope e;
    uint8_t bytes[256];
    fix_init(&f);
    send_one(&f.a, 5, (const uint8_t *)"abc", 3);
    ssize_t n = recv(f.b.fd, bytes, sizeof bytes, 0);
    ck_assert_int_gt(n, LK_ENVELOPE_BYTES);
    for (ssize_t i = 0; i < n; i++) {
        ck_assert_int_eq(lk_pipe_next(&f.b, &e, &err), LK_NOT_FOUND);
        ck_assert_int_eq(send(f.a.fd, bytes + i, 1, 0), 1);
        ck_assert(lk_pipe_receive(&f.b));
    }
    ck_assert_int_eq(lk_pipe_next(&f.b, &e, &err), LK_OK);
    ck_assert_int_eq(memcmp(e.payload, "abc", 3), 0);
    fix_done(&f);
}
END_TEST

START_TEST(what_is_no_message_is_data_loss)
{
    struct fix f;
    struct lk_err err;
    struct lk_envelope e = {.method = 1, .header_bytes = 1};
    uint8_t frame[LK_ENVELOPE_BYTES];
    fix_init(&f);
    if (_i == 1)
        e.header_bytes = UINT32_MAX;
    if (_i == 2)
        e.payload_bytes = UINT64_MAX;
    if (_i == 3)
        e.payload_bytes = MESSAGE_MAX;
    lk_envelope_put(&e, frame);
    if (_i == 0)
        frame[0] ^= 1;
    ck_assert_int_eq(send(f.a.fd, frame, sizeof frame, 0), sizeof frame);
    ck_assert(lk_pipe_receive(&f.b));
    ck_assert_int_eq(lk_pipe_next(&f.b, &e, &err), LK_DATA_LOSS);
    ck_assert_uint_lt(f.b.in.cap, MESSAGE_MAX);
    fix_done(&f);
}
END_TEST

START_TEST(what_came_before_the_end_may_still_be_taken)
{
    struct fix f;
    struct lk_err err;
    struct lk_envelope e;
    fix_init(&f);
    send_one(&f.a, 1, (const uint8_t *)"", 0);
    lk_pipe_close(&f.a);
    while (!f.b.ended)
        (void)lk_pipe_receive(&f.b);
    expect_one(&f.b, 1, 0);
    ck_assert_int_eq(lk_pipe_next(&f.b, &e, &err), LK_NOT_FOUND);
    send_one(&f.b, 2, (const uint8_t *)"x", 1); /* to nobody: no signal, nothing kept */
    ck_assert(lk_pipe_flush(&f.b));
    fix_done(&f);
}
END_TEST

START_TEST(a_pipe_that_always_has_something_to_send_does_not_grow)
{
    struct fix f;
    fix_init(&f);
    size_t bytes = (size_t)1 << 20;
    uint8_t *payload = payload_of(1, bytes);
    send_one(&f.a, 1, payload, bytes);
    for (int i = 0; i < 50; i++) {
        struct lk_envelope e;
        struct lk_err err;
        send_one(&f.a, 1, payload, bytes);
        while (lk_pipe_next(&f.b, &e, &err) == LK_NOT_FOUND) {
            (void)lk_pipe_flush(&f.a);
            ck_assert(lk_pipe_receive(&f.b));
        }
        ck_assert_uint_eq(e.payload_bytes, bytes);
        ck_assert(memcmp(e.payload, payload, bytes) == 0);
        ck_assert_uint_gt(lk_pipe_unsent(&f.a), 0);
    }
    ck_assert_uint_le(f.a.out.cap, 8 * bytes);
    free(payload);
    fix_done(&f);
}
END_TEST

/* Packets of a size are refused for good: that stands for any failure in the middle of a message. */
START_TEST(nothing_follows_a_message_that_could_not_be_sent)
{
    struct fix f;
    struct lk_err err;
    struct lk_envelope e;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    lk_pipe_open(&f.a, ends[0], MESSAGE_MAX);
    lk_pipe_open(&f.b, ends[1], MESSAGE_MAX);
    size_t bytes = (size_t)6 << 20;
    uint8_t *payload = payload_of(1, bytes);
    send_one(&f.a, 1, payload, bytes);
    send_one(&f.a, 2, payload, 3);
    ck_assert(lk_pipe_flush(&f.a));
    ck_assert(!lk_pipe_receive(&f.b));
    ck_assert_int_eq(lk_pipe_next(&f.b, &e, &err), LK_NOT_FOUND);
    ck_assert(f.b.ended);
    ck_assert(!lk_pipe_receive(&f.a)); /* the sender hears of it, too */
    ck_assert(f.a.ended);
    free(payload);
    fix_done(&f);
}
END_TEST

START_TEST(a_board_is_seen_by_both_and_keeps_its_size)
{
    struct lk_err err = {.text = ""};
    struct lk_board daemon, worker;
    ck_assert_msg(lk_board_make(100000, &daemon, &err) == LK_OK, "%s", err.text);
    ck_assert_uint_ge(daemon.part_bytes, 100000);
    ck_assert_msg(lk_board_open(dup(daemon.fd), &worker, &err) == LK_OK, "%s", err.text);
    ck_assert_uint_eq(worker.part_bytes, daemon.part_bytes);
    for (uint32_t part = 0; part < LK_BOARD_PARTS; part++)
        memset(lk_board_part(&worker, part), 'a' + (int)part, worker.part_bytes);
    for (uint32_t part = 0; part < LK_BOARD_PARTS; part++) {
        ck_assert_int_eq(lk_board_part(&daemon, part)[0], 'a' + (int)part);
        ck_assert_int_eq(lk_board_part(&daemon, part)[daemon.part_bytes - 1], 'a' + (int)part);
    }
    lk_board_trim(&worker, 0, 4096);
    ck_assert_int_eq(lk_board_part(&daemon, 0)[4095], 'a');
    ck_assert_int_eq(lk_board_part(&daemon, 0)[4096], 0);
    ck_assert_int_eq(lk_board_part(&daemon, 1)[0], 'b');
    ck_assert_int_ne(ftruncate(worker.fd, 4096), 0); /* would be the daemon's end */
    ck_assert_int_ne(ftruncate(worker.fd, 1 << 30), 0);
    lk_board_close(&worker);
    lk_board_close(&daemon);
    lk_board_close(&daemon);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(lk_board_open(fd, &worker, &err), LK_INVALID_ARGUMENT);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/pipe");
    TCase *cases = tcase_create("pipe");
    tcase_add_test(cases, messages_arrive_whole_and_in_order);
    tcase_add_test(cases, what_the_socket_does_not_take_is_kept_and_sent_later);
    tcase_add_test(cases, a_message_may_come_byte_by_byte);
    tcase_add_loop_test(cases, what_is_no_message_is_data_loss, 0, 4);
    tcase_add_test(cases, what_came_before_the_end_may_still_be_taken);
    tcase_add_test(cases, a_pipe_that_always_has_something_to_send_does_not_grow);
    tcase_add_test(cases, nothing_follows_a_message_that_could_not_be_sent);
    tcase_add_test(cases, a_board_is_seen_by_both_and_keeps_its_size);
    suite_add_tcase(s, cases);
    return s;
}
