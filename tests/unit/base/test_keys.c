#include "base/keys.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

START_TEST(keys_are_the_published_outputs_of_splitmix64)
{
    /* The first three outputs of the reference implementation from seed 0, and from 1234567. */
    ck_assert_uint_eq(lk_key(0, 0), 0xe220a8397b1dcdafu);
    ck_assert_uint_eq(lk_key(0, 1), 0x6e789e6aa1b965f4u);
    ck_assert_uint_eq(lk_key(0, 2), 0x06c45d188009454fu);
    ck_assert_uint_eq(lk_key(1234567, 0), 6457827717110365317u);
    ck_assert_uint_eq(lk_key(1234567, 1), 3203168211198807973u);
}
END_TEST

START_TEST(below_covers_its_range_and_stays_inside)
{
    static const uint64_t sizes[] = {1, 2, 3, 10, 1000, 1ull << 32, (1ull << 63) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_uint_eq(lk_below(0, sizes[i]), 0);
        ck_assert_uint_eq(lk_below(UINT64_MAX, sizes[i]), sizes[i] - 1);
    }
    uint32_t seen[10] = {0};
    for (uint64_t i = 0; i < 10000; i++)
        seen[lk_below(lk_key(5, i), 10)]++;
    for (int i = 0; i < 10; i++)
        ck_assert(seen[i] > 850 && seen[i] < 1150);
}
END_TEST

START_TEST(permutation_is_a_bijection_and_find_its_inverse_for_every_n_to_2000)
{
    uint8_t *seen = lk_zalloc(2001, 1);
    for (uint64_t n = 1; n <= 2000; n++) {
        struct lk_perm perm;
        uint64_t wrong = 0;
        lk_perm_init(&perm, n, lk_key(11, n));
        memset(seen, 0, n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = lk_perm_at(&perm, i);
            wrong += at >= n || seen[at]++ != 0 || lk_perm_find(&perm, at) != i;
        }
        ck_assert_msg(wrong == 0, "n = %llu", (unsigned long long)n);
    }
    free(seen);
}
END_TEST

START_TEST(permutation_of_huge_n_stays_inside_and_inverts)
{
    static const uint64_t sizes[] = {3000000000u, (1ull << 32) - 1, 1ull << 32, (1ull << 32) + 1,
                                     (1ull << 53) + 1, (1ull << 62) - 1, 1ull << 62};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct lk_perm perm;
        lk_perm_init(&perm, sizes[s], 3);
        for (uint64_t k = 0; k < 2000; k++) {
            uint64_t i = k == 0 ? 0 : k == 1 ? sizes[s] - 1 : lk_below(lk_key(s, k), sizes[s]);
            uint64_t at = lk_perm_at(&perm, i);
            ck_assert(at < sizes[s]);
            ck_assert_uint_eq(lk_perm_find(&perm, at), i);
        }
    }
}
END_TEST

START_TEST(permutations_of_different_keys_differ)
{
    struct lk_perm a, b;
    uint32_t same = 0;
    lk_perm_init(&a, 1000, 1);
    lk_perm_init(&b, 1000, 2);
    for (uint64_t i = 0; i < 1000; i++)
        same += lk_perm_at(&a, i) == lk_perm_at(&b, i);
    ck_assert_uint_lt(same, 12); /* one is expected by chance */
}
END_TEST

START_TEST(three_elements_come_in_every_order_about_as_often)
{
    uint32_t order[27] = {0};
    for (uint64_t key = 0; key < 6000; key++) {
        struct lk_perm perm;
        lk_perm_init(&perm, 3, lk_key(key, 9));
        order[lk_perm_at(&perm, 0) * 9 + lk_perm_at(&perm, 1) * 3 + lk_perm_at(&perm, 2)]++;
    }
    static const int all[] = {5, 7, 11, 15, 19, 21}; /* 012 021 102 120 201 210 in base 3 */
    for (size_t i = 0; i < 6; i++)
        ck_assert_msg(order[all[i]] > 800 && order[all[i]] < 1200, "order %d: %u of 6000", all[i],
                      order[all[i]]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/keys");
    TCase *t = tcase_create("keys");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, keys_are_the_published_outputs_of_splitmix64);
    tcase_add_test(t, below_covers_its_range_and_stays_inside);
    tcase_add_test(t, permutation_is_a_bijection_and_find_its_inverse_for_every_n_to_2000);
    tcase_add_test(t, permutation_of_huge_n_stays_inside_and_inverts);
    tcase_add_test(t, permutations_of_different_keys_differ);
    tcase_add_test(t, three_elements_come_in_every_order_about_as_often);
    suite_add_tcase(s, t);
    return s;
}
