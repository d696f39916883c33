#include "op/measure.h"

#include "tests/lib/check_main.h"

#include <string.h>

enum { APPEND = 256 };

static struct lk_tokenizer *tokenizer;

static void setup(void)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES, .main_name = "bytes"};
    struct lk_err err;
    ck_assert_msg(lk_tokenizer_new(&files, &tokenizer, &err) == LK_OK, "%s", err.text);
}

static void teardown(void)
{
    lk_tokenizer_free(tokenizer);
}

static struct lk_measure_spec plain_spec(void)
{
    return (struct lk_measure_spec){.tokenizer = tokenizer, .text = "text", .drop_bad = true};
}

static struct lk_measure_filter no_filter(void)
{
    return (struct lk_measure_filter){.max_bytes = UINT64_MAX, .max_tokens = UINT64_MAX};
}

/* Measures one row; the tokens and the error text are for the caller to look at. */
static struct lk_measured measure(const struct lk_measure_spec *spec, const char *row,
                                  struct lk_tokens *out, struct lk_err *err)
{
    struct lk_measure *m = lk_measure_new(spec);
    struct lk_measured measured = {.drop = LK_DROP_KINDS};
    size_t before = out->n;
    err->text[0] = '\0';
    ck_assert_int_eq(lk_measure_row(m, (const uint8_t *)row, strlen(row), out, &measured, err),
                     LK_OK);
    ck_assert_uint_eq(out->n - before, measured.tokens);
    ck_assert((measured.drop == LK_DROP_NONE) == (measured.tokens > 0));
    lk_measure_free(m);
    return measured;
}

static enum lk_drop drop_of(const struct lk_measure_spec *spec, const char *row)
{
    struct lk_tokens out = {0};
    struct lk_err err;
    struct lk_measured measured = measure(spec, row, &out, &err);
    lk_tokens_done(&out);
    return measured.drop;
}

START_TEST(a_row_becomes_its_tokens)
{
    struct lk_measure_spec spec = plain_spec();
    struct lk_tokens out = {0};
    struct lk_err err;
    lk_tokens_push(&out, 7); /* what is there stays */
    struct lk_measured m = measure(&spec, "{\"text\":\"a\\u0000b\"}", &out, &err); /* RC-039 */
    ck_assert_int_eq(m.drop, LK_DROP_NONE);
    ck_assert_uint_eq(m.text_bytes, 3);
    ck_assert_uint_eq(out.n, 4);
    static const uint32_t want[] = {7, 'a', 0, 'b'};
    ck_assert_mem_eq(out.ids, want, sizeof want);

    spec.has_append = spec.has_prepend = true;
    spec.append = APPEND;
    spec.prepend = 99;
    out.n = 0;
    m = measure(&spec, "{\"text\":\"xy\"}", &out, &err);
    static const uint32_t framed[] = {99, 'x', 'y', APPEND};
    ck_assert_uint_eq(m.tokens, 4);
    ck_assert_uint_eq(m.text_bytes, 2);
    ck_assert_mem_eq(out.ids, framed, sizeof framed);
    lk_tokens_done(&out);
}
END_TEST

/* RC-037 */
START_TEST(an_empty_text_is_its_end_token_or_nothing)
{
    struct lk_measure_spec spec = plain_spec();
    struct lk_tokens out = {0};
    struct lk_err err;
    ck_assert_int_eq(measure(&spec, "{\"text\":\"\"}", &out, &err).drop, LK_DROP_EMPTY);
    ck_assert_uint_eq(out.n, 0);
    spec.has_append = true;
    spec.append = APPEND;
    struct lk_measured m = measure(&spec, "{\"text\":\"\"}", &out, &err);
    ck_assert_int_eq(m.drop, LK_DROP_NONE);
    ck_assert_uint_eq(m.tokens, 1);
    ck_assert_uint_eq(m.text_bytes, 0);
    ck_assert_uint_eq(out.ids[0], APPEND);
    lk_tokens_done(&out);
}
END_TEST

/* RC-030 */
START_TEST(a_text_of_another_type_is_dropped_and_named)
{
    static const struct {
        const char *row;
        enum lk_drop drop;
        const char *why;
    } rows[] = {
        {"{\"text\":\"a\",\"x\":[]}", LK_DROP_NONE, ""},
        {"{\"text\":5,\"x\":[\"x\"]}", LK_DROP_FIELD,
         "byte 8: field \"text\": expected a string, found a number"},
        {"{\"text\":null}", LK_DROP_FIELD, "byte 8: field \"text\": expected a string, found null"},
        {"{\"text\":[\"b\"]}", LK_DROP_FIELD,
         "byte 8: field \"text\": expected a string, found an array"},
        {"{\"txt\":\"c\"}", LK_DROP_FIELD, "byte 0: the row has no field \"text\""},
        {"[]", LK_DROP_FIELD, "byte 0: the row has no field \"text\""},
        {"{\"text\":\"d\",\"x\":3}", LK_DROP_NONE, ""},
        {"{\"text\":\"d\"", LK_DROP_MALFORMED, "byte 11: "},
        {"{\"text\":\"\xb2\"}", LK_DROP_MALFORMED, "byte 9: invalid UTF-8"}, /* RC-040 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lk_measure_spec spec = plain_spec();
        struct lk_tokens out = {0};
        struct lk_err err;
        struct lk_measured m = measure(&spec, rows[i].row, &out, &err);
        ck_assert_msg(m.drop == rows[i].drop, "%s: %s", rows[i].row, lk_drop_name(m.drop));
        ck_assert_msg(strncmp(err.text, rows[i].why, strlen(rows[i].why)) == 0, "%s", err.text);

        spec.drop_bad = false;
        struct lk_measure *strict = lk_measure_new(&spec);
        struct lk_measured untouched = {.tokens = 12345};
        out.n = 0;
        enum lk_code code = lk_measure_row(strict, (const uint8_t *)rows[i].row,
                                           strlen(rows[i].row), &out, &untouched, &err);
        if (rows[i].drop == LK_DROP_NONE) {
            ck_assert_int_eq(code, LK_OK);
        } else {
            ck_assert_int_eq(code, LK_INVALID_ARGUMENT);
            ck_assert_int_eq(strncmp(err.text, rows[i].why, strlen(rows[i].why)), 0);
            ck_assert_uint_eq(untouched.tokens, 12345);
            ck_assert_uint_eq(out.n, 0);
        }
        lk_measure_free(strict);
        lk_tokens_done(&out);
    }
}
END_TEST

START_TEST(byte_filters_keep_their_bounds)
{
    struct lk_measure_filter filter = no_filter();
    struct lk_measure_spec spec = plain_spec();
    filter.min_bytes = 2;
    filter.max_bytes = 3;
    spec.filter = &filter;
    spec.n_filters = 1;
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\"}"), LK_DROP_FILTER_BYTES);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"ab\"}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"\\u00e9\"}"), LK_DROP_NONE); /* decoded bytes */
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"abc\"}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"abcd\"}"), LK_DROP_FILTER_BYTES);
}
END_TEST

START_TEST(token_filters_count_what_is_added)
{
    struct lk_measure_filter filter = no_filter();
    struct lk_measure_spec spec = plain_spec();
    filter.min_tokens = 3;
    filter.max_tokens = 4;
    spec.filter = &filter;
    spec.n_filters = 1;
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"ab\"}"), LK_DROP_FILTER_TOKENS);
    spec.has_append = true;
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"ab\"}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"abc\"}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"abcd\"}"), LK_DROP_FILTER_TOKENS);
}
END_TEST

START_TEST(equality_is_of_text_and_a_missing_field_equals_nothing)
{
    struct lk_measure_filter filter = no_filter();
    struct lk_measure_spec spec = plain_spec();
    filter.field = "meta.lang";
    filter.equals = "en";
    spec.filter = &filter;
    spec.n_filters = 1;
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":\"en\"}}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":\"en\\u0000\"}}"),
                     LK_DROP_FILTER_EQUALS);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":\"de\"}}"),
                     LK_DROP_FILTER_EQUALS);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"lang\":\"en\"}"), LK_DROP_FILTER_EQUALS);
    filter.equals = "";
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\"}"), LK_DROP_FILTER_EQUALS);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":[]}}"),
                     LK_DROP_FILTER_EQUALS);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":\"\"}}"), LK_DROP_NONE);
    filter.equals = "1.0";
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":1.0}}"), LK_DROP_NONE);
    ck_assert_int_eq(drop_of(&spec, "{\"text\":\"a\",\"meta\":{\"lang\":1}}"),
                     LK_DROP_FILTER_EQUALS);
}
END_TEST

/* RC-138: read = kept + dropped by each rule. */
START_TEST(ten_rows_through_three_filters_add_up)
{
    static const char *const rows[] = {
        "{\"text\":\"one\",\"ok\":true}",   "{\"text\":\"\",\"ok\":true}",
        "{\"text\":\"two\",\"ok\":false}",  "{\"text\":\"three\",\"ok\":true}",
        "{\"text\":\"a long one\",\"ok\":true}", "{\"text\":1}",
        "not json",                         "{\"text\":\"four\",\"ok\":true}",
        "{\"text\":\"fives\"}",             "{\"text\":\"a very long one\",\"ok\":true}"};
    static const unsigned want[LK_DROP_KINDS] = {
        [LK_DROP_NONE] = 3,         [LK_DROP_EMPTY] = 1,         [LK_DROP_MALFORMED] = 1,
        [LK_DROP_FIELD] = 1,        [LK_DROP_FILTER_BYTES] = 1,  [LK_DROP_FILTER_TOKENS] = 1,
        [LK_DROP_FILTER_EQUALS] = 2};
    struct lk_measure_filter filters[] = {no_filter(), no_filter(), no_filter()};
    struct lk_measure_spec spec = plain_spec();
    unsigned got[LK_DROP_KINDS] = {0};
    filters[0].max_bytes = 12;
    filters[1].field = "ok";
    filters[1].equals = "true";
    filters[2].max_tokens = 9;
    spec.filter = filters;
    spec.n_filters = 3;
    for (size_t i = 0; i < 10; i++)
        got[drop_of(&spec, rows[i])]++;
    for (size_t k = 0; k < LK_DROP_KINDS; k++)
        ck_assert_msg(got[k] == want[k], "%s: %u", lk_drop_name((enum lk_drop)k), got[k]);
}
END_TEST

/* RC-059 */
START_TEST(special_tokens_are_counted_by_row_of_what_is_kept)
{
    struct lk_measure_filter filter = no_filter();
    struct lk_measure_spec spec = plain_spec();
    struct lk_tokens out = {0};
    struct lk_err err = {.text = ""};
    filter.max_tokens = 5;
    spec.filter = &filter;
    spec.n_filters = 1;
    spec.has_append = true; /* the one that the recipe adds does not count */
    spec.append = APPEND;
    static const struct {
        const char *row;
        uint64_t want;
    } rows[] = {
        {"{\"text\":\"a<|endoftext|>b\"}", 1},
        {"{\"text\":\"\"}", 0},
        {"{\"text\":\"ab\"}", 0},
        {"{\"text\":\"<|endoftext|>a<|endoftext|>\"}", 2},
        {"{\"text\":\"a<|endoftext|>bcdef\"}", 0}, /* dropped */
        {"{\"text\":\"<|endoftext|>\"", 0},        /* malformed */
    };
    struct lk_measure *m = lk_measure_new(&spec);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lk_measured measured = {.specials = 99};
        ck_assert_int_eq(lk_measure_row(m, (const uint8_t *)rows[i].row, strlen(rows[i].row), &out,
                                        &measured, &err),
                         LK_OK);
        ck_assert_msg(measured.specials == rows[i].want, "%s", rows[i].row);
    }
    lk_measure_free(m);
    lk_tokens_done(&out);
}
END_TEST

/* RC-059: with special_in_text: error such a row is malformed, by a rule of its own. */
START_TEST(a_special_token_in_the_text_is_an_error_naming_it_or_a_drop)
{
    struct lk_tokenizer_files files = {.special_in_text = LK_SPECIAL_ERROR, .main_name = "bytes"};
    struct lk_measure_filter filter = no_filter();
    struct lk_measure_spec spec = plain_spec();
    struct lk_tokenizer *strict;
    struct lk_tokens out = {0};
    struct lk_err err = {.text = ""};
    static const char row[] = "{\"n\": 1, \"text\": \"\\u00e9b<|endoftext|>c<|endoftext|>\"}";
    ck_assert_int_eq(lk_tokenizer_new(&files, &strict, &err), LK_OK);
    spec.tokenizer = strict;
    spec.filter = &filter;
    spec.n_filters = 1;
    struct lk_measured m = measure(&spec, row, &out, &err);
    ck_assert_int_eq(m.drop, LK_DROP_SPECIAL);
    ck_assert_uint_eq(m.specials, 0);
    ck_assert_uint_eq(m.text_bytes, 3 + 13 + 1 + 13);
    ck_assert_uint_eq(out.n, 0);
    static const char want[] = "byte 17: field \"text\": byte 3 of the text: a special token where "
                               "special_in_text is error: id 256, \"<|endoftext|>\"";
    ck_assert_str_eq(err.text, want);
    ck_assert_int_eq(drop_of(&spec, "{\"text\": \"a<|endoftex|>\"}"), LK_DROP_NONE);
    filter.max_tokens = 1; /* malformed is malformed, whatever the filters on tokens */
    ck_assert_int_eq(drop_of(&spec, row), LK_DROP_SPECIAL);
    filter.max_bytes = 1; /* those on bytes look before */
    ck_assert_int_eq(drop_of(&spec, row), LK_DROP_FILTER_BYTES);

    filter = no_filter();
    spec.drop_bad = false;
    struct lk_measure *one = lk_measure_new(&spec);
    ck_assert_int_eq(lk_measure_row(one, (const uint8_t *)row, strlen(row), &out, &m, &err),
                     LK_INVALID_ARGUMENT);
    ck_assert_str_eq(err.text, want);
    ck_assert_uint_eq(out.n, 0);
    static const char next[] = "{\"text\": \"ok\"}"; /* and the next row is another one */
    ck_assert_int_eq(lk_measure_row(one, (const uint8_t *)next, strlen(next), &out, &m, &err), LK_OK);
    ck_assert_uint_eq(m.tokens, 2);
    static const char empty[] = "{\"text\": \"\"}"; /* also one that gives the encoder nothing to do */
    ck_assert_int_eq(lk_measure_row(one, (const uint8_t *)row, strlen(row), &out, &m, &err),
                     LK_INVALID_ARGUMENT);
    ck_assert_int_eq(lk_measure_row(one, (const uint8_t *)empty, strlen(empty), &out, &m, &err), LK_OK);
    ck_assert_int_eq(m.drop, LK_DROP_EMPTY);
    lk_measure_free(one);
    lk_tokens_done(&out);
    lk_tokenizer_free(strict);
}
END_TEST

START_TEST(every_drop_has_a_name)
{
    for (int a = 0; a < LK_DROP_KINDS; a++)
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(lk_drop_name((enum lk_drop)a), lk_drop_name((enum lk_drop)b));
    ck_assert_str_eq(lk_drop_name(LK_DROP_MALFORMED), "malformed_row");
    ck_assert_str_eq(lk_drop_name(LK_DROP_KINDS), "?");
    ck_assert_str_eq(lk_drop_name((enum lk_drop)-1), "?");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/measure");
    TCase *t = tcase_create("measure");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_row_becomes_its_tokens);
    tcase_add_test(t, an_empty_text_is_its_end_token_or_nothing);
    tcase_add_test(t, a_text_of_another_type_is_dropped_and_named);
    tcase_add_test(t, byte_filters_keep_their_bounds);
    tcase_add_test(t, token_filters_count_what_is_added);
    tcase_add_test(t, equality_is_of_text_and_a_missing_field_equals_nothing);
    tcase_add_test(t, ten_rows_through_three_filters_add_up);
    tcase_add_test(t, special_tokens_are_counted_by_row_of_what_is_kept);
    tcase_add_test(t, a_special_token_in_the_text_is_an_error_naming_it_or_a_drop);
    tcase_add_test(t, every_drop_has_a_name);
    suite_add_tcase(s, t);
    return s;
}
