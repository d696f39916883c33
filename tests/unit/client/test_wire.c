/* What goes over the client's connection, byte for byte: torn anywhere, announced falsely, or garbage. */
#include "client/c/wire.h"

#include "proto/lanekeeper.pb-c.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t greeting[8] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

/* Loops: tcp and ipc. */
#define HEAD(tagged) ((tagged) ? 9u : 8u)

static size_t put_head(uint8_t *to, bool tagged, uint64_t whole)
{
    if (tagged)
        *to++ = 1;
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(whole >> (56 - 8 * i));
    return HEAD(tagged);
}

/* A message with a body of @n bytes that count up from @first. */
static size_t put_message(uint8_t *to, bool tagged, size_t n, uint8_t first)
{
    size_t head = put_head(to, tagged, 4 + n);
    memset(to + head, 0x80, 4);
    for (size_t i = 0; i < n; i++)
        to[head + 4 + i] = (uint8_t)(first + i);
    return head + 4 + n;
}

static void feed(struct lkc_wire *w, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t room;
        uint8_t *to = lkc_wire_room(w, &room);
        ck_assert_ptr_nonnull(to);
        size_t part = room < n ? room : n;
        memcpy(to, bytes, part);
        lkc_wire_came(w, part);
        bytes += part;
        n -= part;
    }
}

static void assert_message(struct lkc_wire *w, size_t n, uint8_t first)
{
    const uint8_t *body;
    size_t bytes;
    ck_assert_int_eq(lkc_wire_take(w, &body, &bytes), LKC_WIRE_READY);
    ck_assert_uint_eq(bytes, n);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += body[i] != (uint8_t)(first + i);
    ck_assert_uint_eq(wrong, 0);
}

static enum lkc_wire_step take(struct lkc_wire *w)
{
    const uint8_t *body;
    size_t bytes;
    return lkc_wire_take(w, &body, &bytes);
}

static struct lkc_wire greeted(bool tagged)
{
    struct lkc_wire w = {.tagged = tagged};
    ck_assert(lkc_wire_start(&w));
    feed(&w, greeting, sizeof greeting);
    ck_assert_int_eq(lkc_wire_greeted(&w), LKC_WIRE_READY);
    return w;
}

#define SIZES 4
static const size_t sizes[SIZES] = {0, 5, 700, 1};

static size_t put_all(uint8_t *to, bool tagged)
{
    size_t n = sizeof greeting;
    memcpy(to, greeting, n);
    for (int i = 0; i < SIZES; i++)
        n += put_message(to + n, tagged, sizes[i], (uint8_t)(50 * i));
    return n;
}

START_TEST(reads_may_be_torn_anywhere)
{
    uint8_t all[1024];
    size_t n = put_all(all, _i == 1);
    for (size_t cut = 0; cut <= n; cut++) {
        struct lkc_wire w = {.tagged = _i == 1};
        int taken = 0;
        bool up = false;
        ck_assert(lkc_wire_start(&w));
        for (int piece = 0; piece < 2; piece++) {
            feed(&w, all + (piece == 0 ? 0 : cut), piece == 0 ? cut : n - cut);
            if (!up)
                up = lkc_wire_greeted(&w) == LKC_WIRE_READY;
            ck_assert_int_eq(up, piece == 1 || cut >= sizeof greeting);
            if (!up)
                continue;
            size_t end = sizeof greeting;
            for (int i = 0; i < SIZES; i++) {
                end += HEAD(_i == 1) + 4 + sizes[i];
                if (i == taken && (piece == 1 || end <= cut)) {
                    assert_message(&w, sizes[i], (uint8_t)(50 * i));
                    taken++;
                }
            }
            ck_assert_int_eq(take(&w), LKC_WIRE_MORE);
        }
        ck_assert_int_eq(taken, SIZES);
        lkc_wire_done(&w);
    }
}
END_TEST

START_TEST(bytes_may_come_one_by_one)
{
    uint8_t all[1024];
    size_t n = put_all(all, _i == 1), end = sizeof greeting;
    struct lkc_wire w = {.tagged = _i == 1};
    int taken = 0;
    ck_assert(lkc_wire_start(&w));
    for (size_t i = 0; i < n; i++) {
        feed(&w, &all[i], 1);
        if (i < sizeof greeting) {
            ck_assert_int_eq(lkc_wire_greeted(&w), i + 1 < sizeof greeting ? LKC_WIRE_MORE : LKC_WIRE_READY);
            continue;
        }
        if (i + 1 == end + HEAD(_i == 1) + 4 + sizes[taken]) {
            assert_message(&w, sizes[taken], (uint8_t)(50 * taken));
            end = i + 1;
            taken++;
        }
        ck_assert_int_eq(take(&w), LKC_WIRE_MORE);
    }
    ck_assert_int_eq(taken, SIZES);
    lkc_wire_done(&w);
}
END_TEST

START_TEST(another_greeting_is_known_at_its_first_wrong_byte)
{
    for (size_t wrong = 0; wrong < sizeof greeting; wrong++) {
        struct lkc_wire w = {.tagged = true};
        ck_assert(lkc_wire_start(&w));
        for (size_t i = 0; i <= wrong; i++) {
            uint8_t byte = (uint8_t)(greeting[i] ^ (i == wrong ? 1 : 0));
            feed(&w, &byte, 1);
            ck_assert_int_eq(lkc_wire_greeted(&w), i == wrong ? LKC_WIRE_GARBAGE : LKC_WIRE_MORE);
        }
        lkc_wire_done(&w);
    }
}
END_TEST

START_TEST(lengths_that_cannot_be_are_garbage)
{
    static const uint64_t bad[] = {0, 1, 3, LKC_REPLY_MAX + 1, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lkc_wire w = greeted(_i == 1);
        uint8_t head[9];
        size_t n = put_head(head, _i == 1, bad[i]);
        feed(&w, head, n - 1);
        ck_assert_int_eq(take(&w), LKC_WIRE_MORE);
        feed(&w, head + n - 1, 1);
        ck_assert_int_eq(take(&w), LKC_WIRE_GARBAGE);
        ck_assert_int_eq(take(&w), LKC_WIRE_GARBAGE); /* and stays so */
        lkc_wire_done(&w);
    }
}
END_TEST

START_TEST(ipc_message_begins_with_a_one)
{
    for (int byte = 0; byte < 256; byte++) {
        struct lkc_wire w = greeted(true);
        uint8_t first = (uint8_t)byte;
        feed(&w, &first, 1);
        ck_assert_int_eq(take(&w), byte == 1 ? LKC_WIRE_MORE : LKC_WIRE_GARBAGE);
        lkc_wire_done(&w);
    }
}
END_TEST

START_TEST(memory_grows_with_what_came_not_with_what_is_announced)
{
    static uint8_t bytes[100000];
    struct lkc_wire w = greeted(_i == 1);
    uint8_t head[9];
    feed(&w, head, put_head(head, _i == 1, LKC_REPLY_MAX));
    for (size_t came = 0; came < (size_t)8 << 20; came += sizeof bytes) {
        size_t room;
        ck_assert_ptr_nonnull(lkc_wire_room(&w, &room));
        ck_assert_uint_le(room, (size_t)1 << 20);
        ck_assert_uint_le(w.in.cap, 2 * came + ((size_t)2 << 20));
        ck_assert_int_eq(take(&w), LKC_WIRE_MORE);
        feed(&w, bytes, sizeof bytes);
    }
    lkc_wire_done(&w);
}
END_TEST

START_TEST(a_large_message_comes_whole_and_its_memory_goes_back)
{
    size_t n = (size_t)5 << 20;
    uint8_t *large = malloc(n + 13), small[64];
    struct lkc_wire w = greeted(_i == 1);
    size_t bytes = put_message(large, _i == 1, n, 7);
    for (int round = 0; round < 3; round++) {
        feed(&w, large, bytes);
        assert_message(&w, n, 7);
    }
    ck_assert_uint_ge(w.in.cap, n); /* kept while they are that large */
    bytes = put_message(small, _i == 1, 20, 9);
    feed(&w, small, bytes);
    assert_message(&w, 20, 9);
    feed(&w, small, bytes);
    assert_message(&w, 20, 9);
    ck_assert_uint_le(w.in.cap, 1 << 16);
    lkc_wire_done(&w);
    free(large);
}
END_TEST

/* ---- out ---- */

static const Lk__HelloRequest hello = {.base = PROTOBUF_C_MESSAGE_INIT(&lk__hello_request__descriptor),
                                       .protocol = 1, .client = (char *)(uintptr_t)"x"};

START_TEST(requests_go_out_as_nng_would_send_them)
{
    struct lkc_wire w = {.tagged = _i == 1};
    struct lk_envelope e = {.method = LK_METHOD_HELLO, .call = 0x123456789, .deadline_ms = 5}, got;
    size_t n, packed = lk__hello_request__get_packed_size(&hello), head = HEAD(_i == 1);
    uint8_t expected[9];
    ck_assert(lkc_wire_start(&w));
    ck_assert(lkc_wire_put(&w, &e, &hello.base));
    const uint8_t *out = lkc_wire_waits(&w, &n);
    ck_assert_uint_eq(n, 8 + head + 4 + LK_ENVELOPE_BYTES + packed);
    ck_assert_int_eq(memcmp(out, "\0SP\0\0\x30\0\0", 8), 0);
    (void)put_head(expected, _i == 1, 4 + LK_ENVELOPE_BYTES + packed);
    ck_assert_int_eq(memcmp(out + 8, expected, head), 0);
    ck_assert_int_eq(memcmp(out + 8 + head, "\xa3\x45\x67\x89", 4), 0);
    ck_assert(lk_envelope_get(out + 8 + head + 4, n - 8 - head - 4, &got));
    ck_assert_uint_eq(got.call, 0x123456789);
    ck_assert_uint_eq(got.header_bytes, packed);
    lkc_wire_went(&w, n - 1);
    (void)lkc_wire_waits(&w, &n);
    ck_assert_uint_eq(n, 1);
    lkc_wire_went(&w, 1);
    ck_assert_ptr_null(lkc_wire_waits(&w, &n));
    lkc_wire_done(&w);
}
END_TEST

START_TEST(what_waits_to_be_sent_is_bounded)
{
    struct lkc_wire w = {.tagged = true};
    struct lk_envelope e = {.method = LK_METHOD_STATUS};
    Lk__StatusRequest small = LK__STATUS_REQUEST__INIT, large = LK__STATUS_REQUEST__INIT;
    char *name = malloc(LKC_OUT_MAX + 2);
    size_t n, puts = 0;
    memset(name, 'x', LKC_OUT_MAX + 1);
    name[LKC_OUT_MAX + 1] = '\0';
    large.stream = name;
    ck_assert(lkc_wire_start(&w));
    while (lkc_wire_put(&w, &e, &small.base))
        ck_assert_uint_lt(++puts, LKC_OUT_MAX);
    (void)lkc_wire_waits(&w, &n);
    ck_assert_uint_gt(puts, 1000);
    ck_assert_uint_le(n, LKC_OUT_MAX);
    lkc_wire_went(&w, n);
    ck_assert(lkc_wire_put(&w, &e, &large.base)); /* a single one may be larger */
    ck_assert(!lkc_wire_put(&w, &e, &small.base));
    ck_assert(lkc_wire_start(&w)); /* a new connection begins with a greeting and nothing else */
    (void)lkc_wire_waits(&w, &n);
    ck_assert_uint_eq(n, 8);
    lkc_wire_done(&w);
    free(name);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/wire");
    TCase *t = tcase_create("wire");
    tcase_add_loop_test(t, reads_may_be_torn_anywhere, 0, 2);
    tcase_add_loop_test(t, bytes_may_come_one_by_one, 0, 2);
    tcase_add_test(t, another_greeting_is_known_at_its_first_wrong_byte);
    tcase_add_loop_test(t, lengths_that_cannot_be_are_garbage, 0, 2);
    tcase_add_test(t, ipc_message_begins_with_a_one);
    tcase_add_loop_test(t, memory_grows_with_what_came_not_with_what_is_announced, 0, 2);
    tcase_add_loop_test(t, a_large_message_comes_whole_and_its_memory_goes_back, 0, 2);
    tcase_add_loop_test(t, requests_go_out_as_nng_would_send_them, 0, 2);
    tcase_add_test(t, what_waits_to_be_sent_is_bounded);
    suite_add_tcase(s, t);
    return s;
}
