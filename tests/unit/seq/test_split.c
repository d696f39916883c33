#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

static const char *split(uint32_t most, const uint32_t *tokens, uint32_t n, struct lk_buf *text)
{
    struct trial t;
    trial_init(&t, SEQ_SPLIT, &(struct seq_params){.max_tokens = most, .bounds.datasets = 1},
               &(struct feed){.tokens = tokens, .n = n, .wants = true});
    const char *said = trial_text(&t, 1000, text);
    ck_assert_uint_eq(t.out, t.feed.fed);
    trial_done(&t);
    return said;
}

START_TEST(a_long_record_becomes_parts_in_order_and_the_rest)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(split(4, (uint32_t[]){11}, 1, &text), "0:0+4 / 0:4+4 / 0:8+3");
    lk_buf_done(&text);
}
END_TEST

START_TEST(parts_take_no_memory_of_their_own)
{
    const struct seq_params params = {.max_tokens = 4, .bounds.datasets = 1};
    ck_assert_uint_eq(seq_table[SEQ_SPLIT]->bound(&params), 0);
}
END_TEST

START_TEST(records_up_to_the_limit_pass_whole)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(split(4, (uint32_t[]){1, 4, 5, 8, 3}, 5, &text),
                     "0:0+1 / 1:0+4 / 2:0+4 / 2:4+1 / 3:0+4 / 3:4+4 / 4:0+3");
    lk_buf_done(&text);
}
END_TEST

START_TEST(a_limit_of_one_token_gives_every_token_alone)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(split(1, (uint32_t[]){3, 1}, 2, &text), "0:0+1 / 0:1+1 / 0:2+1 / 1:0+1");
    lk_buf_done(&text);
}
END_TEST

START_TEST(nothing_comes_of_nothing)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(split(4, NULL, 0, &text), "");
    lk_buf_done(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/split");
    TCase *t = tcase_create("split");
    tcase_add_test(t, a_long_record_becomes_parts_in_order_and_the_rest);
    tcase_add_test(t, parts_take_no_memory_of_their_own);
    tcase_add_test(t, records_up_to_the_limit_pass_whole);
    tcase_add_test(t, a_limit_of_one_token_gives_every_token_alone);
    tcase_add_test(t, nothing_comes_of_nothing);
    suite_add_tcase(s, t);
    return s;
}
