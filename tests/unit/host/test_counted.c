#include "host/counted.h"

#include "base/keys.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>

#define ROWS 3000

static bool add(struct counted *counted, uint32_t dataset, uint64_t row, uint32_t epoch, uint32_t tokens)
{
    struct lk_span span = {.dataset = dataset, .row = row, .epoch = epoch, .tokens = tokens};
    return counted_add(counted, &span);
}

static uint32_t use(struct counted *counted, uint32_t dataset, uint64_t row, uint32_t epoch, uint32_t tokens)
{
    struct lk_span span = {.dataset = dataset, .row = row, .epoch = epoch, .tokens = tokens};
    return counted_use(counted, &span);
}

START_TEST(a_row_stays_until_its_tokens_are_used)
{
    struct counted counted = {0};
    ck_assert_uint_eq(use(&counted, 1, 2, 3, 4), 0);
    ck_assert(add(&counted, 1, 2, 3, 100));
    ck_assert(!add(&counted, 1, 2, 3, 50));
    ck_assert(add(&counted, 1, 2, 4, 7));
    ck_assert(add(&counted, 2, 2, 3, 8));
    ck_assert_uint_eq(use(&counted, 1, 2, 3, 60), 100);
    ck_assert_uint_eq(use(&counted, 1, 2, 3, 40), 100);
    ck_assert_uint_eq(use(&counted, 1, 2, 3, 1), 0);
    ck_assert_uint_eq(use(&counted, 1, 2, 4, 9), 7);
    ck_assert_uint_eq(use(&counted, 2, 2, 3, 8), 8);
    ck_assert_uint_eq(counted.n, 0);
    counted_done(&counted);
    counted_done(&counted);
}
END_TEST

/* The @i-th row: its number is also that of others, of other datasets and passes. */
static bool add_ith(struct counted *counted, uint64_t i, uint32_t tokens)
{
    return add(counted, (uint32_t)(i % 3), i / 15, (uint32_t)(i / 3 % 5), tokens);
}

static uint32_t use_ith(struct counted *counted, uint64_t i, uint32_t tokens)
{
    return use(counted, (uint32_t)(i % 3), i / 15, (uint32_t)(i / 3 % 5), tokens);
}

/* Against an array that is its own index. */
START_TEST(many_come_and_go)
{
    static uint32_t tokens[ROWS], left[ROWS];
    struct counted counted = {0}, copy = {0};
    uint64_t n = 0;
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t row = lk_key(1, i) % ROWS;
        uint32_t some = 1 + (uint32_t)(lk_key(2, i) % 9);
        if (lk_key(3, i) % 2) {
            bool added = add_ith(&counted, row, some);
            ck_assert_int_eq(added, tokens[row] == 0);
            if (added)
                tokens[row] = left[row] = some;
            n += added;
        } else {
            ck_assert_uint_eq(use_ith(&counted, row, some), tokens[row]);
            bool was = tokens[row] != 0;
            left[row] -= some < left[row] ? some : left[row];
            tokens[row] = left[row] > 0 ? tokens[row] : 0;
            n -= was && tokens[row] == 0;
        }
        ck_assert_uint_eq(counted.n, n);
    }
    counted_copy(&copy, &counted);
    for (uint64_t row = 0; row < ROWS; row++) {
        ck_assert_uint_eq(use_ith(&copy, row, 100), tokens[row]);
        ck_assert_uint_eq(use_ith(&counted, row, 100), tokens[row]);
    }
    ck_assert_uint_eq(copy.n + counted.n, 0);
    counted_done(&copy);
    counted_done(&counted);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/counted");
    TCase *t = tcase_create("counted");
    tcase_add_test(t, a_row_stays_until_its_tokens_are_used);
    tcase_add_test(t, many_come_and_go);
    suite_add_tcase(s, t);
    return s;
}
