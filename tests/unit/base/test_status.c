#include "base/status.h"

#include "tests/lib/check_main.h"

#include <signal.h>
#include <string.h>

START_TEST(every_code_has_its_name)
{
#define SAME(name, number) ck_assert_str_eq(lk_code_name((enum lk_code)(number)), #name);
    LK_CODES(SAME)
#undef SAME
    ck_assert_str_eq(lk_code_name((enum lk_code)17), "?");
    ck_assert_str_eq(lk_code_name((enum lk_code)-1), "?");
}
END_TEST

START_TEST(a_failure_is_its_code_and_its_text)
{
    struct lk_err err;
    ck_assert_int_eq(lk_fail(&err, LK_DATA_LOSS, "row %d of %s", 7, "x"), LK_DATA_LOSS);
    ck_assert_int_eq(err.code, LK_DATA_LOSS);
    ck_assert_str_eq(err.text, "row 7 of x");
}
END_TEST

START_TEST(who_wants_no_text_gets_the_code)
{
    ck_assert_int_eq(lk_fail(NULL, LK_NOT_FOUND, "%s", "x"), LK_NOT_FOUND);
    ck_assert_int_eq(lk_fail_in(NULL, "%s", "x"), LK_UNKNOWN);
}
END_TEST

START_TEST(where_it_was_comes_before_what_it_was)
{
    struct lk_err err;
    (void)lk_fail(&err, LK_ABORTED, "inner");
    ck_assert_int_eq(lk_fail_in(&err, "shard %d", 3), LK_ABORTED);
    ck_assert_int_eq(lk_fail_in(&err, "dataset d"), LK_ABORTED);
    ck_assert_str_eq(err.text, "dataset d: shard 3: inner");
}
END_TEST

/* A text of so many of one letter. */
static const char *many(size_t n, char letter)
{
    static char text[2000];
    memset(text, letter, n);
    text[n] = '\0';
    return text;
}

/* At every length around the bound, of both halves. */
START_TEST(what_does_not_fit_is_cut_at_its_end)
{
    struct lk_err err;
    for (size_t n = LK_ERR_TEXT_MAX - 6; n < LK_ERR_TEXT_MAX + 6; n++) {
        (void)lk_fail(&err, LK_ABORTED, "%s", many(n, 'a'));
        size_t kept = n < LK_ERR_TEXT_MAX ? n : LK_ERR_TEXT_MAX - 1;
        ck_assert_uint_eq(strlen(err.text), kept);
        (void)lk_fail_in(&err, "context");
        ck_assert_uint_eq(strlen(err.text), LK_ERR_TEXT_MAX - 1);
        ck_assert_mem_eq(err.text, "context: aaaa", 13);

        (void)lk_fail(&err, LK_ABORTED, "inner");
        (void)lk_fail_in(&err, "%s", many(n, 'c'));
        size_t context = n < LK_ERR_TEXT_MAX - 3 ? n : LK_ERR_TEXT_MAX - 3;
        ck_assert_uint_eq(strspn(err.text, "c"), context);
        ck_assert_mem_eq(err.text + context, ": ", 2);
        ck_assert_uint_eq(strlen(err.text), LK_ERR_TEXT_MAX - 1);
        ck_assert(strncmp(err.text + context + 2, "inner", LK_ERR_TEXT_MAX - 3 - context) == 0);
    }
}
END_TEST

static enum lk_code forward(enum lk_code code)
{
    LK_TRY(code);
    return LK_CANCELLED;
}

START_TEST(a_failure_is_forwarded_and_success_goes_on)
{
    ck_assert_int_eq(forward(LK_INTERNAL), LK_INTERNAL);
    ck_assert_int_eq(forward(LK_OK), LK_CANCELLED);
}
END_TEST

START_TEST(a_broken_invariant_stops_the_process)
{
    LK_CHECK(strlen("x") == 1);
    LK_CHECK(strlen("x") == 2);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/status");
    TCase *t = tcase_create("status");
    tcase_add_test(t, every_code_has_its_name);
    tcase_add_test(t, a_failure_is_its_code_and_its_text);
    tcase_add_test(t, who_wants_no_text_gets_the_code);
    tcase_add_test(t, where_it_was_comes_before_what_it_was);
    tcase_add_test(t, what_does_not_fit_is_cut_at_its_end);
    tcase_add_test(t, a_failure_is_forwarded_and_success_goes_on);
    tcase_add_test_raise_signal(t, a_broken_invariant_stops_the_process, SIGABRT);
    suite_add_tcase(s, t);
    return s;
}
