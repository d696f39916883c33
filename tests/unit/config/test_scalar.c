/* RC-128: numbers, booleans and sizes mean exactly one thing, or are refused. */
#include "config/scalar.h"

#include "tests/lib/check_main.h"

#include <locale.h>
#include <string.h>

typedef const char *parse(const char *text, uint64_t *ret);

struct reading {
    parse *parse;
    const char *text;
    uint64_t value;
};

static const struct reading good[] = {
    {lk_scalar_integer, "0", 0},
    {lk_scalar_integer, "8", 8},
    {lk_scalar_integer, "9223372036854775808", 9223372036854775808ull},
    {lk_scalar_integer, "18446744073709551615", UINT64_MAX},
    {lk_scalar_size, "0", 0},
    {lk_scalar_size, "64", 64},
    {lk_scalar_size, "64B", 64},
    {lk_scalar_size, "100kB", 100000},
    {lk_scalar_size, "100KiB", 102400},
    {lk_scalar_size, "3MB", 3000000},
    {lk_scalar_size, "2MiB", 2097152},
    {lk_scalar_size, "1GB", 1000000000},
    {lk_scalar_size, "1GiB", 1073741824},
    {lk_scalar_size, "16TiB", 17592186044416ull},
    {lk_scalar_size, "1TB", 1000000000000ull},
    {lk_scalar_duration, "500ms", 500},
    {lk_scalar_duration, "30s", 30000},
    {lk_scalar_duration, "2min", 120000},
    {lk_scalar_duration, "1h", 3600000},
    {lk_scalar_weight, "0", 0},
    {lk_scalar_weight, "5", 5000000000ull},
    {lk_scalar_weight, "0.5", 500000000},
    {lk_scalar_weight, "0.000000001", 1},
    {lk_scalar_weight, "999999999.999999999", 999999999999999999ull},
    {lk_scalar_weight, "1.50", 1500000000},
};

START_TEST(documented_forms_have_their_documented_value)
{
    const struct reading *row = &good[_i];
    uint64_t value = 77;
    const char *problem = row->parse(row->text, &value);
    ck_assert_msg(problem == NULL, "%s: %s", row->text, problem);
    ck_assert_uint_eq(value, row->value);
}
END_TEST

struct refusal {
    parse *parse;
    const char *text, *why;
};

static const struct refusal bad[] = {
    {lk_scalar_integer, "", "nothing"},
    {lk_scalar_integer, " 8", "not a number"},
    {lk_scalar_integer, "8 ", "follows"},
    {lk_scalar_integer, "-1", "negative"},
    {lk_scalar_integer, "+1", "sign"},
    {lk_scalar_integer, "8.0", "point"},
    {lk_scalar_integer, "8.7", "point"},
    {lk_scalar_integer, "1_000", "separators"},
    {lk_scalar_integer, "1,000", "separators"},
    {lk_scalar_integer, "1e3", "exponent"},
    {lk_scalar_integer, "1e-4", "exponent"},
    {lk_scalar_integer, "1.0e-4", "point"},
    {lk_scalar_integer, "0x10", "decimal"},
    {lk_scalar_integer, "0o10", "decimal"},
    {lk_scalar_integer, "0b1", "decimal"},
    {lk_scalar_integer, "010", "octal"},
    {lk_scalar_integer, "00", "octal"},
    {lk_scalar_integer, "18446744073709551616", "64 bits"},
    {lk_scalar_integer, "99999999999999999999999", "64 bits"},
    {lk_scalar_integer, "NaN", "not a number"},
    {lk_scalar_integer, "\xD9\xA3", "not a number"}, /* an Arabic digit three */
    {lk_scalar_size, "100kb", "units"},
    {lk_scalar_size, "100KB", "units"},
    {lk_scalar_size, "100 GB", "units"},
    {lk_scalar_size, "1.5gb", "point"},
    {lk_scalar_size, "1.5GiB", "point"},
    {lk_scalar_size, "GiB", "not a number"},
    {lk_scalar_size, "-1GiB", "negative"},
    {lk_scalar_size, "16777216TiB", "64 bits"},
    {lk_scalar_size, "1GiBs", "units"},
    {lk_scalar_duration, "30", "unit"},
    {lk_scalar_duration, "30 s", "unit"},
    {lk_scalar_duration, "1.5s", "point"},
    {lk_scalar_duration, "1m", "unit"},
    {lk_scalar_weight, "-2", "negative"},
    {lk_scalar_weight, "-0.5", "negative"},
    {lk_scalar_weight, "nan", "not a number"},
    {lk_scalar_weight, ".nan", "not a number"},
    {lk_scalar_weight, ".inf", "not a number"},
    {lk_scalar_weight, "inf", "not a number"},
    {lk_scalar_weight, "1e-320", "exponent"},
    {lk_scalar_weight, "0.5e3", "exponent"},
    {lk_scalar_weight, "0,5", "separators"},
    {lk_scalar_weight, ".5", "not a number"},
    {lk_scalar_weight, "5.", "follow the point"},
    {lk_scalar_weight, "1.2.3", "follows"},
    {lk_scalar_weight, "0.0000000001", "9 digits"},
    {lk_scalar_weight, "1000000000", "below"},
    {lk_scalar_weight, "05", "octal"},
};

START_TEST(other_forms_are_refused_with_the_reason)
{
    const struct refusal *row = &bad[_i];
    uint64_t value = 77;
    const char *problem = row->parse(row->text, &value);
    ck_assert_msg(problem != NULL, "%s was accepted", row->text);
    ck_assert_msg(strstr(problem, row->why) != NULL, "%s: %s", row->text, problem);
    ck_assert_uint_eq(value, 77);
}
END_TEST

START_TEST(a_locale_with_a_decimal_comma_changes_nothing)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)setlocale(LC_ALL, names[i]); /* those that are installed */
        ck_assert(lk_scalar_weight("0.25", &value) == NULL);
        ck_assert_uint_eq(value, 250000000);
        ck_assert(lk_scalar_weight("0,25", &value) != NULL);
    }
    (void)setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(written_sizes_and_durations_read_back)
{
    static const uint64_t values[] = {0,          1,       1000,       1024,          1536, 2097152,
                                      1000000000, 1 << 30, 1000000001, 1ull << 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct lk_buf text = {0};
        uint64_t back = 7;
        lk_put_size(&text, values[i]);
        ck_assert_msg(lk_scalar_size(lk_buf_cstr(&text), &back) == NULL, "%s", lk_buf_cstr(&text));
        ck_assert_uint_eq(back, values[i]);
        text.len = 0;
        lk_put_duration(&text, values[i]);
        ck_assert(lk_scalar_duration(lk_buf_cstr(&text), &back) == NULL);
        ck_assert_uint_eq(back, values[i]);
        lk_buf_done(&text);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config/scalar");
    TCase *t = tcase_create("scalar");
    tcase_add_loop_test(t, documented_forms_have_their_documented_value, 0,
                        (int)(sizeof good / sizeof *good));
    tcase_add_loop_test(t, other_forms_are_refused_with_the_reason, 0,
                        (int)(sizeof bad / sizeof *bad));
    tcase_add_test(t, a_locale_with_a_decimal_comma_changes_nothing);
    tcase_add_test(t, written_sizes_and_durations_read_back);
    suite_add_tcase(s, t);
    return s;
}
