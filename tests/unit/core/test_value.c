#include "core/value.h"

#include "base/bytes.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>

static uint32_t ids[256];
static struct lk_span spans[200];

static struct lk_digest digest_of(uint32_t tokens, uint32_t n)
{
    for (uint32_t i = 0; i < 256; i++)
        ids[i] = i * 7 + 1;
    for (uint32_t i = 0; i < 200; i++)
        spans[i] = (struct lk_span){.row = i, .tokens = i + 1};
    return value_sequence(ids, tokens, spans, n);
}

START_TEST(the_digest_of_a_sequence_is_that_of_its_ids_and_lengths_byte_for_byte)
{
    static const uint32_t counts[] = {0, 1, 2, 63, 64, 65, 200};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct lk_digest got = digest_of(256, counts[c]);
        struct lk_buf ids_le = {0}, all = {0};
        for (uint32_t i = 0; i < 256; i++)
            lk_buf_put_u32(&ids_le, ids[i]);
        struct lk_digest inner = lk_digest_of(ids_le.data, ids_le.len);
        lk_buf_put_u64(&all, inner.lo);
        lk_buf_put_u64(&all, inner.hi);
        lk_buf_put_u32(&all, counts[c]);
        for (uint32_t i = 0; i < counts[c]; i++)
            lk_buf_put_u32(&all, i + 1);
        ck_assert(lk_digest_equal(got, lk_digest_of(all.data, all.len)));
        lk_buf_done(&ids_le);
        lk_buf_done(&all);
    }
}
END_TEST

START_TEST(ids_borders_step_and_row_all_enter_the_digest)
{
    struct lk_digest one = digest_of(16, 2);
    ids[3]++;
    ck_assert(!lk_digest_equal(one, value_sequence(ids, 16, spans, 2)));
    ids[3]--;
    spans[1].tokens++;
    ck_assert(!lk_digest_equal(one, value_sequence(ids, 16, spans, 2)));
    spans[1].tokens--;
    ck_assert(!lk_digest_equal(one, value_sequence(ids, 16, spans, 1)));
    ck_assert(lk_digest_equal(one, value_sequence(ids, 16, spans, 2)));
    struct lk_digest placed = value_placed(one, 5, 1);
    ck_assert(!lk_digest_equal(placed, value_placed(one, 6, 1)));
    ck_assert(!lk_digest_equal(placed, value_placed(one, 5, 2)));
    ck_assert(!lk_digest_equal(placed, value_placed(digest_of(15, 2), 5, 1)));
}
END_TEST

START_TEST(which_dataset_or_row_a_piece_came_from_does_not)
{
    struct lk_digest one = digest_of(16, 2);
    spans[0].row = 77;
    spans[0].dataset = 3;
    spans[0].first = 9;
    ck_assert(lk_digest_equal(one, value_sequence(ids, 16, spans, 2)));
}
END_TEST

START_TEST(the_same_sequences_in_another_order_are_another_step)
{
    struct lk_digest a = digest_of(16, 1), b = digest_of(17, 1);
    struct lk_digest ab = lk_digest_add(value_placed(a, 0, 0), value_placed(b, 0, 1));
    struct lk_digest ba = lk_digest_add(value_placed(b, 0, 0), value_placed(a, 0, 1));
    ck_assert(!lk_digest_equal(ab, ba));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("core/value");
    TCase *t = tcase_create("value");
    tcase_add_test(t, the_digest_of_a_sequence_is_that_of_its_ids_and_lengths_byte_for_byte);
    tcase_add_test(t, ids_borders_step_and_row_all_enter_the_digest);
    tcase_add_test(t, which_dataset_or_row_a_piece_came_from_does_not);
    tcase_add_test(t, the_same_sequences_in_another_order_are_another_step);
    suite_add_tcase(s, t);
    return s;
}
