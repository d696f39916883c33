#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

/* What concat makes of the records, and its counts. */
static const char *concat(uint32_t sequence, bool pad, const uint32_t *tokens, uint32_t n,
                          struct lk_buf *text, struct seq_counts *ret_counts)
{
    static const uint32_t group_of[1] = {0};
    struct trial t;
    trial_init(&t, SEQ_CONCAT,
               &(struct seq_params){.sequence = sequence, .groups = 1, .group_of = group_of,
                                    .pad_tail = pad, .bounds.datasets = 1},
               &(struct feed){.tokens = tokens, .n = n, .wants = true});
    const char *said = trial_text(&t, 1000, text);
    ck_assert_uint_eq(t.feed.fed, t.out + t.counts.lost);
    *ret_counts = t.counts;
    trial_done(&t);
    return said;
}

START_TEST(rc_014_the_open_sequence_is_dropped_and_counted_or_padded_at_the_end)
{
    static const uint32_t tokens[] = {3, 6, 2, 7, 1, 3};
    struct lk_buf text = {0};
    struct seq_counts counts;
    ck_assert_str_eq(concat(8, false, tokens, 6, &text, &counts),
                     "0:0+3 1:0+5 / 1:5+1 2:0+2 3:0+5");
    ck_assert_uint_eq(counts.lost, 6);
    ck_assert_uint_eq(counts.padded, 0);
    ck_assert_str_eq(concat(8, true, tokens, 6, &text, &counts),
                     "0:0+3 1:0+5 / 1:5+1 2:0+2 3:0+5 / 3:5+2 4:0+1 5:0+3");
    ck_assert_uint_eq(counts.lost, 0);
    ck_assert_uint_eq(counts.padded, 2);
    lk_buf_done(&text);
}
END_TEST

START_TEST(rc_072_a_long_document_is_cut_into_whole_sequences_and_its_tail_counted)
{
    struct lk_buf text = {0};
    struct seq_counts counts;
    ck_assert_str_eq(concat(4, false, (uint32_t[]){11}, 1, &text, &counts), "0:0+4 / 0:4+4");
    ck_assert_uint_eq(counts.lost, 3);
    ck_assert_str_eq(concat(4, false, (uint32_t[]){11, 2}, 2, &text, &counts),
                     "0:0+4 / 0:4+4 / 0:8+3 1:0+1");
    ck_assert_uint_eq(counts.lost, 1);
    ck_assert_uint_eq(counts.cuts, 3);
    ck_assert_uint_eq(counts.forced_cuts, 2); /* those of the record that is longer than a sequence */
    lk_buf_done(&text);
}
END_TEST

START_TEST(rc_073_edges_that_coincide_neither_lose_nor_repeat_nor_leave_empty_pieces)
{
    struct lk_buf text = {0};
    struct seq_counts counts;
    ck_assert_str_eq(concat(4, false, (uint32_t[]){4, 4, 3, 5, 1}, 5, &text, &counts),
                     "0:0+4 / 1:0+4 / 2:0+3 3:0+1 / 3:1+4");
    ck_assert_uint_eq(counts.lost, 1);
    ck_assert_uint_eq(counts.cuts, 1);
    ck_assert_uint_eq(counts.forced_cuts, 0);
    lk_buf_done(&text);
}
END_TEST

START_TEST(sequences_of_one_token_work)
{
    struct lk_buf text = {0};
    struct seq_counts counts;
    ck_assert_str_eq(concat(1, false, (uint32_t[]){2, 1}, 2, &text, &counts),
                     "0:0+1 / 0:1+1 / 1:0+1");
    lk_buf_done(&text);
}
END_TEST

START_TEST(groups_never_share_a_sequence_and_end_in_their_order)
{
    static const uint32_t group_of[3] = {1, 0, 1}, tokens[] = {3, 3, 3, 3},
                          dataset[] = {0, 1, 2, 0};
    struct lk_buf text = {0};
    struct trial t;
    trial_init(&t, SEQ_CONCAT,
               &(struct seq_params){.sequence = 4, .groups = 2, .group_of = group_of,
                                    .pad_tail = true, .bounds.datasets = 3},
               &(struct feed){.tokens = tokens, .dataset = dataset, .n = 4});
    ck_assert_str_eq(trial_text(&t, 1000, &text), "0:0+3 2:0+1 / 2:1+2 3:0+2 / 1:0+3 / 3:2+1");
    trial_done(&t);
    lk_buf_done(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/concat");
    TCase *t = tcase_create("concat");
    tcase_add_test(t, rc_014_the_open_sequence_is_dropped_and_counted_or_padded_at_the_end);
    tcase_add_test(t, rc_072_a_long_document_is_cut_into_whole_sequences_and_its_tail_counted);
    tcase_add_test(t, rc_073_edges_that_coincide_neither_lose_nor_repeat_nor_leave_empty_pieces);
    tcase_add_test(t, sequences_of_one_token_work);
    tcase_add_test(t, groups_never_share_a_sequence_and_end_in_their_order);
    suite_add_tcase(s, t);
    return s;
}
