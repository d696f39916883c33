#include "host/log_limit.h"

#include "tests/lib/check_main.h"

START_TEST(the_first_are_written_each_and_of_the_others_how_many)
{
    struct log_limit limit = {0};
    uint64_t written = 0;
    for (int i = 0; i < 1000; i++)
        written += log_limit_first(&limit, 20);
    ck_assert_uint_eq(written, 20);
    ck_assert_uint_eq(log_limit_more(&limit, 0, 0), 980);
    ck_assert_uint_eq(log_limit_more(&limit, 0, 0), 0);
    ck_assert(!log_limit_first(&limit, 20));
    ck_assert_uint_eq(log_limit_more(&limit, 0, 0), 1);
    ck_assert_uint_eq(limit.seen, 1001);
}
END_TEST

START_TEST(a_line_at_once_and_then_one_in_a_while)
{
    struct log_limit limit = {.seen = 3};
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 5), 3); /* whatever the clock says at first */
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 2005), 0);
    limit.seen = 10;
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 1004), 0);
    limit.seen = 12;
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 1005), 9);
    limit.seen++;
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 2004), 0);
    ck_assert_uint_eq(log_limit_more(&limit, 1000, 2005), 1);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/log_limit");
    TCase *t = tcase_create("log_limit");
    tcase_add_test(t, the_first_are_written_each_and_of_the_others_how_many);
    tcase_add_test(t, a_line_at_once_and_then_one_in_a_while);
    suite_add_tcase(s, t);
    return s;
}
