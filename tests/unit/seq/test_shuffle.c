#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

enum { N = 500 };
static uint32_t ones[N];

static void make_trial(struct trial *t, uint32_t buffer, uint64_t key, bool wants)
{
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    trial_init(t, SEQ_SHUFFLE,
               &(struct seq_params){.buffer = buffer, .key = key, .sequence = 8, .bounds.datasets = 1},
               &(struct feed){.tokens = ones, .n = N, .wants = wants});
}

START_TEST(every_item_comes_out_once)
{
    static const uint32_t buffers[] = {2, 3, 64, N, 2 * N};
    for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
        uint8_t seen[N] = {0};
        struct trial t;
        struct lk_item item;
        uint32_t n = 0;
        make_trial(&t, buffers[b], 4, true);
        for (; trial_next(&t, &item) == SEQ_OK; n++)
            ck_assert_int_eq(seen[item.span->row]++, 0);
        ck_assert_uint_eq(n, N);
        trial_done(&t);
    }
}
END_TEST

START_TEST(it_warms_up_by_taking_in_two_for_one)
{
    struct trial t;
    struct lk_item item;
    make_trial(&t, 10, 4, false);
    for (uint32_t i = 1; i <= 100; i++) {
        ck_assert_int_eq(trial_next(&t, &item), SEQ_OK);
        uint32_t held = i < 9 ? i : 9; /* one more each time, until ten are held before an emission */
        ck_assert_uint_eq(t.feed.at, i + held);
        ck_assert_uint_eq(t.ops->waiting(t.stage), held);
    }
    trial_done(&t);
}
END_TEST

START_TEST(the_draws_are_those_of_the_specification)
{
    uint32_t held[N], n = 0, in = 0;
    struct trial t;
    struct lk_item item;
    make_trial(&t, 16, 99, true);
    for (uint64_t k = 0; k < N; k++) {
        for (int taken = 0; taken < 2 && n < 16 && in < N; taken++)
            held[n++] = in++;
        uint64_t i = lk_below(lk_key(99, k), n);
        ck_assert_int_eq(trial_next(&t, &item), SEQ_OK);
        ck_assert_uint_eq(item.span->row, held[i]);
        held[i] = held[--n];
    }
    ck_assert_int_eq(trial_next(&t, &item), SEQ_END);
    ck_assert_int_eq(trial_next(&t, &item), SEQ_END);
    trial_done(&t);
}
END_TEST

START_TEST(another_key_gives_another_order)
{
    struct lk_buf a = {0}, b = {0};
    struct trial t;
    make_trial(&t, 16, 1, false);
    (void)trial_text(&t, N, &a);
    trial_done(&t);
    make_trial(&t, 16, 2, false);
    (void)trial_text(&t, N, &b);
    trial_done(&t);
    ck_assert_str_ne(lk_buf_cstr(&a), lk_buf_cstr(&b));
    lk_buf_done(&a);
    lk_buf_done(&b);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/shuffle");
    TCase *t = tcase_create("shuffle");
    tcase_add_test(t, every_item_comes_out_once);
    tcase_add_test(t, it_warms_up_by_taking_in_two_for_one);
    tcase_add_test(t, the_draws_are_those_of_the_specification);
    tcase_add_test(t, another_key_gives_another_order);
    suite_add_tcase(s, t);
    return s;
}
