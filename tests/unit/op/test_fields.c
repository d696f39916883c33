#include "op/fields.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads @row for one path and says what is there: "-" when nothing, the value, or "[]" / "{}". */
static const char *value_of(const char *path, const char *row)
{
    static char text[1024];
    struct lk_row_reader *reader = lk_row_reader_new(&path, 1);
    struct lk_err err;
    size_t n = strlen(row);
    uint8_t *copy = malloc(n + 1);
    memcpy(copy, row, n);
    if (lk_row_read(reader, copy, n, &err) != LK_OK) {
        (void)snprintf(text, sizeof text, "error: %s", err.text);
    } else {
        const struct lk_row_field *f = lk_row_field(reader, 0);
        if (!f->found)
            strcpy(text, "-");
        else if (f->type == LK_JSON_ARRAY || f->type == LK_JSON_OBJECT)
            strcpy(text, f->type == LK_JSON_ARRAY ? "[]" : "{}");
        else
            (void)snprintf(text, sizeof text, "%.*s", (int)f->n, (const char *)f->bytes);
        ck_assert(!f->found || f->at < n);
    }
    lk_row_reader_free(reader);
    free(copy);
    return text;
}

START_TEST(a_path_leads_through_objects)
{
    ck_assert_str_eq(value_of("text", "{\"text\":\"a\"}"), "a");
    ck_assert_str_eq(value_of("text", " { \"x\" : [1,{\"text\":2}] , \"text\" : \"a\" } "), "a");
    ck_assert_str_eq(value_of("body.content", "{\"body\":{\"x\":1,\"content\":\"c\"}}"), "c");
    ck_assert_str_eq(value_of("a.b.c.d", "{\"a\":{\"b\":{\"c\":{\"d\":\"e\"},\"z\":0}}}"), "e");
    ck_assert_str_eq(value_of("text", "{\"meta\":{\"text\":\"no\"}}"), "-");
    ck_assert_str_eq(value_of("a.b", "{\"b\":1,\"a\":{\"a\":{\"b\":2}}}"), "-");
    ck_assert_str_eq(value_of("a.b", "{\"a\":[{\"b\":1}]}"), "-");
    ck_assert_str_eq(value_of("a.b", "{\"a.b\":1}"), "-");
    ck_assert_str_eq(value_of("a\\.b", "{\"a.b\":\"dot\",\"a\":{\"b\":2}}"), "dot");
    ck_assert_str_eq(value_of("a\\\\.b", "{\"a\\\\\":{\"b\":\"slash\"}}"), "slash");
    ck_assert_str_eq(value_of("", "{\"\":\"empty\"}"), "empty");
    ck_assert_str_eq(value_of("a.", "{\"a\":{\"\":\"empty\"}}"), "empty");
    ck_assert_str_eq(value_of("text", "{\"te\\u0078t\":\"escaped\"}"), "escaped");
    ck_assert_str_eq(value_of("t\xc3\xa9xt", "{\"t\\u00e9xt\":\"x\"}"), "x");
}
END_TEST

START_TEST(values_of_every_type_are_told_apart)
{
    ck_assert_str_eq(value_of("v", "{\"v\":-1.50e2}"), "-1.50e2");
    ck_assert_str_eq(value_of("v", "{\"v\":true}"), "true");
    ck_assert_str_eq(value_of("v", "{\"v\":null}"), "null");
    ck_assert_str_eq(value_of("v", "{\"v\":[1]}"), "[]");
    ck_assert_str_eq(value_of("v", "{\"v\":{\"w\":1},\"x\":2}"), "{}");
    ck_assert_str_eq(value_of("v", "{\"v\":\"a\\n\\\"b\"}"), "a\n\"b");
    ck_assert_str_eq(value_of("v", "[{\"v\":1}]"), "-");
    ck_assert_str_eq(value_of("v", "5"), "-");
    ck_assert_str_eq(value_of("v", "\"v\""), "-");
}
END_TEST

/* RC-035 */
START_TEST(the_last_of_duplicate_keys_wins_at_each_level)
{
    ck_assert_str_eq(value_of("text", "{\"text\":\"a\",\"text\":\"b\"}"), "b");
    ck_assert_str_eq(value_of("text", "{\"text\":\"a\\n\",\"text\":\"b\\n\",\"text\":\"c\"}"), "c");
    ck_assert_str_eq(value_of("a.b", "{\"a\":{\"b\":1},\"a\":{\"c\":2}}"), "-");
    ck_assert_str_eq(value_of("a.b", "{\"a\":{\"b\":1},\"a\":2}"), "-");
    ck_assert_str_eq(value_of("a.b", "{\"a\":2,\"a\":{\"b\":1,\"b\":3}}"), "3");
    ck_assert_str_eq(value_of("text", "{\"text\":\"a\",\"t\\u0065xt\":[]}"), "[]");
}
END_TEST

/* RC-035, RC-040, RC-034, RC-025: the whole row counts, asked for or not. */
START_TEST(a_malformed_row_is_an_error_wherever_the_fault_lies)
{
    static const struct {
        const char *row, *error;
    } bad[] = {
        {"{\"text\":\"a\",\"n\":NaN}", "byte 16: "},
        {"{\"text\":\"a\",}", "byte 12: "},
        {"{'text':'a'}", "byte 1: "},
        {"{\"text\":\"a\"}{\"text\":\"b\"}", "byte 12: expected the end"},
        {"{\"text\":\"\\x61\"}", "byte 9: "},
        {"{\"text\":\"tab\traw\"}", "byte 12: raw control character 0x09"},
        {"{\"x\":\"\xb2\",\"text\":\"a\"}", "byte 6: invalid UTF-8"},
        {"{\"x\":{\"y\":[\"\\ud800\"]},\"text\":\"a\"}", "byte 12: lone surrogate"},
        {"{\"text\":\"a\"", "byte 11: "},
        {"", "byte 0: expected a value, found the end"},
        {"nonsense", "byte 0: "},
        {"\xef\xbb\xbf{\"text\":\"a\"}", "byte 0: a UTF-8 byte-order mark"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *got = value_of("text", bad[i].row);
        ck_assert_msg(strncmp(got, "error: ", 7) == 0 &&
                          strncmp(got + 7, bad[i].error, strlen(bad[i].error)) == 0,
                      "%s: %s", bad[i].row, got);
    }
    ck_assert_str_eq(value_of("text", "{\"n\":1e999,\"m\":123456789012345678901234567890,"
                                      "\"text\":\"a\"}"), "a");
    struct lk_buf deep = {0};
    lk_buf_puts(&deep, "{\"x\":");
    for (int i = 0; i < 100000; i++)
        lk_buf_puts(&deep, "[");
    ck_assert_ptr_nonnull(strstr(value_of("text", lk_buf_cstr(&deep)), "nesting deeper than 512"));
    deep.len = 0;
    for (int i = 0; i < 100000; i++)
        lk_buf_puts(&deep, "{\"a\":");
    ck_assert_ptr_nonnull(strstr(value_of("a.a.a.a", lk_buf_cstr(&deep)), "nesting deeper"));
    lk_buf_done(&deep);
}
END_TEST

START_TEST(many_fields_come_from_one_pass_and_none_outlives_its_row)
{
    static const char *const paths[] = {"text", "meta.lang", "meta", "text", "meta.n", "x.y"};
    static const char first[] = "{\"meta\":{\"lang\":\"e\\u006e\",\"n\":7},\"text\":\"a\\tb\"}";
    static const char second[] = "{\"text\":\"plain\"}";
    struct lk_row_reader *reader = lk_row_reader_new(paths, 6);
    struct lk_err err;
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(lk_row_read(reader, (const uint8_t *)first, sizeof first - 1, &err), LK_OK);
        static const char *const want[] = {"a\tb", "en", NULL, "a\tb", "7"};
        for (size_t i = 0; i < 5; i++) {
            const struct lk_row_field *f = lk_row_field(reader, i);
            ck_assert(f->found);
            if (want[i] == NULL)
                ck_assert_int_eq(f->type, LK_JSON_OBJECT);
            else
                ck_assert(f->n == strlen(want[i]) && memcmp(f->bytes, want[i], f->n) == 0);
        }
        ck_assert_uint_eq(lk_row_field(reader, 4)->at, (size_t)(strchr(first, '7') - first));
        ck_assert(!lk_row_field(reader, 5)->found);
        ck_assert_int_eq(lk_row_read(reader, (const uint8_t *)second, sizeof second - 1, &err),
                         LK_OK);
        ck_assert(lk_row_field(reader, 0)->found);
        ck_assert_mem_eq(lk_row_field(reader, 0)->bytes, "plain", 5);
        for (size_t i = 1; i < 6; i++)
            ck_assert(lk_row_field(reader, i)->found == (i == 3));
    }
    lk_row_reader_free(reader);
}
END_TEST

START_TEST(as_many_fields_as_allowed)
{
    char names[LK_ROW_FIELDS_MAX][8];
    const char *paths[LK_ROW_FIELDS_MAX];
    struct lk_buf row = {0};
    struct lk_err err;
    for (int i = 0; i < LK_ROW_FIELDS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "k%d", i);
        paths[i] = names[i];
        lk_buf_putf(&row, "%s\"k%d\":%d", i > 0 ? "," : "{", i, i * 3);
    }
    lk_buf_puts(&row, "}");
    struct lk_row_reader *reader = lk_row_reader_new(paths, LK_ROW_FIELDS_MAX);
    ck_assert_int_eq(lk_row_read(reader, row.data, row.len, &err), LK_OK);
    for (int i = 0; i < LK_ROW_FIELDS_MAX; i++)
        ck_assert_int_eq(atoi((const char *)lk_row_field(reader, (size_t)i)->bytes), i * 3);
    lk_row_reader_free(reader);
    lk_buf_done(&row);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/fields");
    TCase *t = tcase_create("fields");
    tcase_add_test(t, a_path_leads_through_objects);
    tcase_add_test(t, values_of_every_type_are_told_apart);
    tcase_add_test(t, the_last_of_duplicate_keys_wins_at_each_level);
    tcase_add_test(t, a_malformed_row_is_an_error_wherever_the_fault_lies);
    tcase_add_test(t, many_fields_come_from_one_pass_and_none_outlives_its_row);
    tcase_add_test(t, as_many_fields_as_allowed);
    suite_add_tcase(s, t);
    return s;
}
