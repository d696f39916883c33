#include "base/mem.h"

#include "tests/lib/check_main.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(nothing_asked_for_is_still_something)
{
    void *none = lk_alloc(0), *zero = lk_zalloc(0, 0), *unsized = lk_zalloc(3, 0);
    ck_assert_ptr_nonnull(none);
    ck_assert_ptr_nonnull(zero);
    ck_assert_ptr_nonnull(unsized);
    none = lk_resize(none, 0, 8);
    ck_assert_ptr_nonnull(none);
    free(none);
    free(zero);
    free(unsized);
}
END_TEST

START_TEST(zeroed_memory_is_zero)
{
    uint8_t *p = lk_zalloc(100, 10);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(p[i], 0);
    free(p);
}
END_TEST

START_TEST(a_size_that_overflows_stops_the_process)
{
    (void)lk_resize(NULL, SIZE_MAX / 2, 3);
}
END_TEST

START_TEST(strings_are_copied_and_formatted_at_any_length)
{
    char *whole = lk_strdup("tokens"), *part = lk_strndup("tokens", 3);
    char *text = lk_format("%s and %0500d", whole, 7);
    ck_assert_str_eq(whole, "tokens");
    ck_assert_str_eq(part, "tok");
    ck_assert_uint_eq(strlen(text), 6 + 5 + 500);
    ck_assert_int_eq(text[strlen(text) - 1], '7');
    free(whole);
    free(part);
    free(text);
}
END_TEST

START_TEST(a_buffer_grows_and_keeps_what_it_holds)
{
    struct lk_buf buf = {0};
    ck_assert_str_eq(lk_buf_cstr(&buf), "");
    ck_assert_uint_eq(buf.len, 0);
    for (unsigned i = 0; i < 1000; i++)
        lk_buf_putf(&buf, "%u,", i);
    lk_buf_puts(&buf, "end");
    lk_buf_put(&buf, "", 1);
    const char *text = lk_buf_cstr(&buf);
    ck_assert_mem_eq(text, "0,1,2,3,", 8);
    ck_assert_str_eq(text + strlen(text) - 7, "999,end");
    ck_assert_uint_eq(buf.len, strlen(text) + 1);
    lk_buf_done(&buf);
    lk_buf_done(&buf);
    ck_assert_ptr_null(buf.data);
}
END_TEST

START_TEST(room_of_no_bytes_is_a_place)
{
    struct lk_buf buf = {0};
    ck_assert_ptr_nonnull(lk_buf_room(&buf, 0));
    lk_buf_done(&buf);
}
END_TEST

START_TEST(tokens_grow_and_keep_what_they_hold)
{
    struct lk_tokens tokens = {0};
    for (uint32_t i = 0; i < 10000; i++)
        lk_tokens_push(&tokens, 3 * i);
    ck_assert_uint_eq(tokens.n, 10000);
    uint32_t *ids = tokens.ids;
    ck_assert_uint_gt(tokens.cap, tokens.n);
    ck_assert_ptr_eq(lk_tokens_room(&tokens, 1), ids + tokens.n); /* which moves nothing */
    for (uint32_t i = 0; i < 10000; i++)
        ck_assert_uint_eq(tokens.ids[i], 3 * i);
    lk_tokens_done(&tokens);
    lk_tokens_done(&tokens);
}
END_TEST

START_TEST(borrowed_memory_is_used_up_and_then_left_alone)
{
    uint32_t place[4] = {9, 9, 9, 9};
    struct lk_tokens tokens = {0};
    lk_tokens_push(&tokens, 1); /* freed when memory is borrowed */
    lk_tokens_borrow(&tokens, place, 3);
    ck_assert_uint_eq(tokens.n, 0);
    for (uint32_t i = 0; i < 3; i++)
        lk_tokens_push(&tokens, i);
    ck_assert_ptr_eq(tokens.ids, place);
    for (uint32_t i = 3; i < 100; i++)
        lk_tokens_push(&tokens, i);
    ck_assert_ptr_ne(tokens.ids, place);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_uint_eq(tokens.ids[i], i);
    ck_assert_uint_eq(place[2], 2);
    ck_assert_uint_eq(place[3], 9);
    lk_tokens_done(&tokens);
}
END_TEST

START_TEST(borrowed_memory_that_was_not_used_is_left_at_once)
{
    uint32_t place[2];
    struct lk_tokens tokens = {0};
    lk_tokens_borrow(&tokens, place, 2);
    ck_assert_ptr_ne(lk_tokens_room(&tokens, 5), place);
    ck_assert(!tokens.borrowed);
    lk_tokens_borrow(&tokens, place, 2);
    lk_tokens_push(&tokens, 7);
    lk_tokens_done(&tokens); /* which frees nothing that was borrowed */
    ck_assert_uint_eq(place[0], 7);
    ck_assert_ptr_nonnull(lk_tokens_room(&tokens, 0));
    lk_tokens_done(&tokens);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/mem");
    TCase *t = tcase_create("mem");
    tcase_add_test(t, nothing_asked_for_is_still_something);
    tcase_add_test(t, zeroed_memory_is_zero);
    tcase_add_test_raise_signal(t, a_size_that_overflows_stops_the_process, SIGABRT);
    tcase_add_test(t, strings_are_copied_and_formatted_at_any_length);
    tcase_add_test(t, a_buffer_grows_and_keeps_what_it_holds);
    tcase_add_test(t, room_of_no_bytes_is_a_place);
    tcase_add_test(t, tokens_grow_and_keep_what_they_hold);
    tcase_add_test(t, borrowed_memory_is_used_up_and_then_left_alone);
    tcase_add_test(t, borrowed_memory_that_was_not_used_is_left_at_once);
    suite_add_tcase(s, t);
    return s;
}
