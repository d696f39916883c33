#include "base/hasher.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>

/* Lengths around every boundary of XXH3's inner blocks, in pieces of every kind. */
START_TEST(pieces_hash_like_the_whole)
{
    enum { MOST = 5000 };
    static const size_t lengths[] = {0,   1,   3,   4,    8,    9,    16,   17,   128,  129,
                                     240, 241, 255, 256,  257,  512,  1023, 1024, 1025, 2048,
                                     2049, 4096, 4097, MOST};
    static const size_t pieces[] = {1, 7, 64, 255, 256, 257, 1024, MOST};
    unsigned char *bytes = malloc(MOST);
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    struct lk_hasher *hasher = lk_hasher_new();
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            size_t n = lengths[l];
            lk_hasher_reset(hasher);
            for (size_t at = 0; at < n; at += pieces[p])
                lk_hasher_put(hasher, bytes + at, n - at < pieces[p] ? n - at : pieces[p]);
            ck_assert_uint_eq(lk_hasher_hash32(hasher), lk_hash32(bytes, n));
            ck_assert(lk_digest_equal(lk_hasher_digest(hasher), lk_digest_of(bytes, n)));
        }
    lk_hasher_free(hasher);
    free(bytes);
}
END_TEST

START_TEST(a_new_one_is_ready)
{
    struct lk_hasher *hasher = lk_hasher_new();
    ck_assert_uint_eq(lk_hasher_hash32(hasher), lk_hash32("", 0));
    lk_hasher_put(hasher, NULL, 0);
    lk_hasher_put(hasher, "x", 1);
    ck_assert_uint_eq(lk_hasher_hash32(hasher), lk_hash32("x", 1));
    lk_hasher_free(hasher);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/hasher");
    TCase *t = tcase_create("hasher");
    tcase_add_test(t, pieces_hash_like_the_whole);
    tcase_add_test(t, a_new_one_is_ready);
    suite_add_tcase(s, t);
    return s;
}
