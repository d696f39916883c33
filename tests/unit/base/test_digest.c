#include "base/digest.h"
#include "tests/lib/check_main.h"

START_TEST(hex_round_trip_keeps_both_halves)
{
    struct lk_digest d = lk_digest_of("lanekeeper", 10), back;
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(d, hex);
    ck_assert(lk_digest_parse(hex, &back));
    ck_assert(lk_digest_equal(d, back));
    ck_assert(!lk_digest_parse("xyz", &back));
    hex[31] = '\0';
    ck_assert(!lk_digest_parse(hex, &back));
}
END_TEST

START_TEST(empty_input_has_the_published_value)
{
    /* XXH3-128 of nothing, seed 0, from the specification's reference implementation. */
    struct lk_digest d = lk_digest_of("", 0);
    ck_assert_uint_eq(d.hi, 0x99aa06d3014798d8u);
    ck_assert_uint_eq(d.lo, 0x6001c324468d497fu);
}
END_TEST

START_TEST(bytes_round_trip)
{
    uint8_t bytes[16];
    struct lk_digest d = {.lo = 0x1122334455667788u, .hi = 0x99aabbccddeeff00u};
    lk_digest_put(d, bytes);
    ck_assert_uint_eq(bytes[0], 0x88);
    ck_assert_uint_eq(bytes[15], 0x99);
    ck_assert(lk_digest_equal(lk_digest_get(bytes), d));
}
END_TEST

START_TEST(hex_of_another_length_or_alphabet_is_refused)
{
    char hex[LK_DIGEST_HEX + 1] = "0123456789abcdef0123456789abcdef";
    struct lk_digest d;
    ck_assert(lk_digest_parse(hex, &d));
    hex[32] = '0';
    hex[33] = '\0';
    ck_assert(!lk_digest_parse(hex, &d));
    hex[31] = '\0';
    ck_assert(!lk_digest_parse(hex, &d));
    hex[31] = 'g';
    hex[32] = '\0';
    ck_assert(!lk_digest_parse(hex, &d));
}
END_TEST

START_TEST(addition_carries_and_commutes)
{
    struct lk_digest a = {.lo = UINT64_MAX, .hi = 1}, b = {.lo = 2, .hi = 3};
    struct lk_digest sum = lk_digest_add(a, b);
    ck_assert_uint_eq(sum.lo, 1);
    ck_assert_uint_eq(sum.hi, 5);
    ck_assert(lk_digest_equal(sum, lk_digest_add(b, a)));
    ck_assert(!lk_digest_equal(sum, (struct lk_digest){.lo = 1, .hi = 6}));
    ck_assert(!lk_digest_equal(sum, (struct lk_digest){.lo = 2, .hi = 5}));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/digest");
    TCase *t = tcase_create("digest");
    tcase_add_test(t, hex_round_trip_keeps_both_halves);
    tcase_add_test(t, empty_input_has_the_published_value);
    tcase_add_test(t, bytes_round_trip);
    tcase_add_test(t, hex_of_another_length_or_alphabet_is_refused);
    tcase_add_test(t, addition_carries_and_commutes);
    suite_add_tcase(s, t);
    return s;
}
