#include "host/ids.h"

#include "tests/lib/check_main.h"

#include <string.h>

enum { LONGEST = 40 };

static const uint32_t limits[] = {1, 2, 256, 50257, 65536, 65537, 1u << 20, INT32_MAX};

/* One that is not below the limit, at every place of every length, at every address. */
START_TEST(an_id_that_is_too_large_is_seen_wherever_it_stands)
{
    static const uint32_t beyond[] = {0, 1, 12345, 1u << 31, UINT32_MAX}; /* of the limit; the last two wrap */
    uint32_t limit = limits[_i], ids[LONGEST], to[LONGEST + 1];
    uint8_t bytes[4 * LONGEST + 4];
    for (uint32_t n = 0; n <= LONGEST; n++) {
        uint8_t *at = bytes + n % 4;
        for (uint32_t i = 0; i < n; i++)
            ids[i] = (limit - 1) - i % limit;
        memcpy(at, ids, 4 * (size_t)n);
        to[n] = 77;
        ck_assert(ids_copy_below(to, at, n, limit));
        ck_assert_mem_eq(to, ids, 4 * (size_t)n);
        ck_assert_uint_eq(to[n], 77); /* nothing is written beyond */
        for (uint32_t bad = 0; bad < n; bad++) {
            for (size_t k = 0; k < sizeof beyond / sizeof *beyond; k++) {
                uint32_t id = beyond[k] > UINT32_MAX - limit ? beyond[k] : limit + beyond[k];
                memcpy(at + 4 * (size_t)bad, &id, 4);
                ck_assert(!ids_copy_below(to, at, n, limit));
                ck_assert_uint_eq(to[bad], id);
            }
            memcpy(at + 4 * (size_t)bad, &ids[bad], 4);
        }
    }
}
END_TEST

START_TEST(halves_come_back_and_bits_are_seen)
{
    uint32_t ids[LONGEST], back[LONGEST];
    uint16_t half[LONGEST + 1];
    for (uint32_t n = 0; n <= LONGEST; n++) {
        uint32_t all = 0;
        for (uint32_t i = 0; i < n; i++)
            all |= ids[i] = (0x8000u >> i % 16) ^ (i % 3 == 0 ? 0xffffu : 0);
        half[n] = 77;
        ck_assert_uint_eq(ids_narrow(half, ids, n), all);
        ck_assert_uint_eq(ids_or(ids, n), all);
        ck_assert_uint_eq(half[n], 77);
        ids_widen(back, half, n);
        ck_assert_mem_eq(back, ids, 4 * (size_t)n);
        for (uint32_t i = 0; i < n; i++) {
            ids[i] |= 1u << (16 + i % 16);
            ck_assert_uint_gt(ids_narrow(half, ids, n), UINT16_MAX);
            ck_assert_uint_eq(half[i], ids[i] & UINT16_MAX);
            ids[i] &= UINT16_MAX;
        }
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/ids");
    TCase *t = tcase_create("ids");
    tcase_add_loop_test(t, an_id_that_is_too_large_is_seen_wherever_it_stands, 0,
                        sizeof limits / sizeof *limits);
    tcase_add_test(t, halves_come_back_and_bits_are_seen);
    suite_add_tcase(s, t);
    return s;
}
