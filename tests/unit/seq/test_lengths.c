#include "seq/lengths.h"

#include "base/keys.h"
#include "tests/lib/check_main.h"

#include <string.h>

enum { MAX = 200 };
static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, MAX};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A set and the plain counts it must agree with. */
struct both {
    struct lengths set;
    uint32_t count[MAX + 1];
};

static void both_init(struct both *b, uint32_t max, uint64_t key, uint32_t n)
{
    *b = (struct both){0};
    lengths_init(&b->set, max);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t length = 1 + (uint32_t)lk_below(lk_key(key, i), max);
        lengths_add(&b->set, length);
        b->count[length]++;
    }
    for (uint64_t i = 0; i < n / 2; i++) {
        uint32_t length = 1 + (uint32_t)lk_below(lk_key(key + 1, i), max);
        if (b->count[length] > 0) {
            lengths_remove(&b->set, length);
            b->count[length]--;
        }
    }
}

static uint32_t naive_pair(const struct both *b, uint32_t sum, uint32_t limit)
{
    for (uint32_t a = limit < b->set.max ? limit : b->set.max; a >= 1; a--) {
        uint32_t other = sum > a ? sum - a : 0;
        if (other < 1 || other > a || b->count[a] == 0 || b->count[other] == 0)
            continue;
        if (other != a || b->count[a] >= 2)
            return a;
    }
    return 0;
}

START_TEST(neighbours_agree_with_a_plain_search)
{
    for (int s = 0; s < SIZES; s++)
        for (uint64_t key = 0; key < 20; key++) {
            struct both b;
            both_init(&b, sizes[s], key, (uint32_t)key * 3);
            for (uint32_t limit = 1; limit <= sizes[s] + 3; limit++) {
                uint32_t below = limit < sizes[s] ? limit : sizes[s], above = limit;
                while (below > 0 && b.count[below] == 0)
                    below--;
                while (above <= sizes[s] && b.count[above] == 0)
                    above++;
                ck_assert_uint_eq(lengths_at_most(&b.set, limit), below);
                ck_assert_uint_eq(lengths_at_least(&b.set, limit), above <= sizes[s] ? above : 0);
            }
            lengths_done(&b.set);
        }
}
END_TEST

START_TEST(pairs_agree_with_a_plain_search)
{
    for (int s = 0; s < SIZES; s++)
        for (uint64_t key = 0; key < 6; key++) {
            struct both b;
            uint32_t wrong = 0;
            both_init(&b, sizes[s], key, 2 + (uint32_t)key * 9);
            for (uint32_t sum = 0; sum <= 2 * sizes[s] + 2; sum++)
                for (uint32_t limit = 1; limit <= sizes[s] + 2; limit++)
                    wrong += lengths_pair(&b.set, sum, limit) != naive_pair(&b, sum, limit);
            ck_assert_uint_eq(wrong, 0);
            lengths_done(&b.set);
        }
}
END_TEST

START_TEST(two_of_a_length_are_needed_for_a_pair_of_it)
{
    struct lengths set;
    lengths_init(&set, 64);
    lengths_add(&set, 32);
    ck_assert_uint_eq(lengths_pair(&set, 64, 64), 0);
    lengths_add(&set, 32);
    ck_assert_uint_eq(lengths_pair(&set, 64, 64), 32);
    lengths_add(&set, 1);
    lengths_add(&set, 63);
    ck_assert_uint_eq(lengths_pair(&set, 64, 64), 63);
    ck_assert_uint_eq(lengths_pair(&set, 64, 62), 32);
    lengths_done(&set);
    lengths_done(&set);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/lengths");
    TCase *t = tcase_create("lengths");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, neighbours_agree_with_a_plain_search);
    tcase_add_test(t, pairs_agree_with_a_plain_search);
    tcase_add_test(t, two_of_a_length_are_needed_for_a_pair_of_it);
    suite_add_tcase(s, t);
    return s;
}
