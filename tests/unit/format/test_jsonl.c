#include "format/jsonl.h"

#include "base/digest.h"
#include "base/mem.h"
#include "format/index.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    struct lk_jsonl_row row[64];
    size_t n;
};

static enum lk_code add(void *owner, const struct lk_jsonl_row *row, struct lk_err *err)
{
    struct rows *rows = owner;
    if (rows->n == 64)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "full");
    rows->row[rows->n++] = *row;
    return LK_OK;
}

/* Splits @data, fed in pieces of @piece bytes. */
static enum lk_code split(const void *data, size_t n, size_t piece, struct rows *rows,
                          struct lk_err *err)
{
    struct lk_jsonl *jsonl = lk_jsonl_new(add, rows);
    enum lk_code code = LK_OK;
    rows->n = 0;
    for (size_t at = 0; at < n && code == LK_OK; at += piece)
        code = lk_jsonl_put(jsonl, (const uint8_t *)data + at, n - at < piece ? n - at : piece,
                            err);
    if (code == LK_OK)
        code = lk_jsonl_end(jsonl, err);
    lk_jsonl_free(jsonl);
    return code;
}

/* Whatever the pieces, the rows of @data are @want. */
static void check_rows(const char *data, size_t n, const char *const *want, size_t want_n)
{
    for (size_t piece = 1; piece <= n + 1; piece++) {
        struct rows rows;
        struct lk_err err;
        ck_assert_int_eq(split(data, n, piece, &rows, &err), LK_OK);
        ck_assert_uint_eq(rows.n, want_n);
        for (size_t i = 0; i < want_n; i++) {
            const struct lk_jsonl_row *row = &rows.row[i];
            ck_assert_uint_eq(row->bytes, strlen(want[i]));
            ck_assert_mem_eq(data + row->offset, want[i], row->bytes);
            ck_assert_uint_eq(row->hash, lk_hash32(want[i], row->bytes));
        }
    }
}

#define CHECK_ROWS(data, ...)                                                                      \
    check_rows(data, sizeof data - 1, (const char *const[]){__VA_ARGS__},                          \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* RC-036 */
START_TEST(blank_lines_crlf_and_no_final_newline)
{
    CHECK_ROWS("{\"text\":\"a\"}\r\n\r\n   \n{\"text\":\"b\"}\n\n{\"text\":\"c\"}",
               "{\"text\":\"a\"}", "{\"text\":\"b\"}", "{\"text\":\"c\"}");
    CHECK_ROWS("1\r\n \t\r\r\n2\r", "1", "2");
    CHECK_ROWS("a\rb\r\r\nc\n", "a\rb\r", "c");
    check_rows("", 0, NULL, 0);
    check_rows("\n", 1, NULL, 0);
    check_rows("\r\n", 2, NULL, 0);
    check_rows(" \t\r\n\n\r", 6, NULL, 0);
}
END_TEST

/* RC-025 */
START_TEST(a_byte_order_mark_belongs_to_no_row)
{
    CHECK_ROWS("\xef\xbb\xbf{\"text\":\"a\"}\n", "{\"text\":\"a\"}");
    CHECK_ROWS("\xef\xbb\xbf\n1\n", "1");
    CHECK_ROWS("1\n\xef\xbb\xbf" "2\n", "1", "\xef\xbb\xbf" "2"); /* refused when it is read */
    check_rows("\xef\xbb\xbf", 3, NULL, 0);
    check_rows("\xef\xbb\xbf\r\n", 5, NULL, 0);
    CHECK_ROWS("\xef\xbb", "\xef\xbb");
}
END_TEST

/* RC-025 */
START_TEST(utf16_and_utf32_are_named)
{
    static const struct {
        const char *bytes;
        size_t n;
    } data[] = {{"\xff\xfe{\0\"\0", 6},   {"\xfe\xff\0{\0\"", 6}, {"{\0\"\0", 4},
                {"\0{\0\"", 4},           {"\0\0\0{", 4},         {"\xff\xfe\0\0{\0\0\0", 8},
                {"\xff\xfe", 2}};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        for (size_t piece = 1; piece <= 8; piece++) {
            struct rows rows;
            struct lk_err err;
            ck_assert_int_eq(split(data[i].bytes, data[i].n, piece, &rows, &err),
                             LK_INVALID_ARGUMENT);
            ck_assert_ptr_nonnull(strstr(err.text, "UTF-16"));
            ck_assert_ptr_nonnull(strstr(err.text, "line 1"));
        }
}
END_TEST

/* RC-026 */
START_TEST(only_0a_ends_a_record)
{
    CHECK_ROWS("\"a\xe2\x80\xa8" "b\xe2\x80\xa9" "c\xc2\x85" "d\x0b" "e\x0c" "f\x1e\"\n2",
               "\"a\xe2\x80\xa8" "b\xe2\x80\xa9" "c\xc2\x85" "d\x0b" "e\x0c" "f\x1e\"", "2");
}
END_TEST

/* RC-029: rows around the size of the pieces, and much longer ones. */
START_TEST(rows_longer_than_any_piece_are_whole)
{
    enum { PIECE = 1 << 16 };
    static const size_t lengths[] = {PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 1, 5, 3 << 20};
    struct lk_buf data = {0};
    for (size_t i = 0; i < 6; i++) {
        uint8_t *to = lk_buf_room(&data, lengths[i]);
        memset(to, 'a' + (int)i, lengths[i]);
        data.len += lengths[i];
        lk_buf_puts(&data, i == 5 ? "" : "\r\n");
    }
    struct rows rows;
    struct lk_err err;
    ck_assert_int_eq(split(data.data, data.len, PIECE, &rows, &err), LK_OK);
    ck_assert_uint_eq(rows.n, 6);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(rows.row[i].bytes, lengths[i]);
        ck_assert_uint_eq(rows.row[i].hash,
                          lk_hash32(data.data + rows.row[i].offset, rows.row[i].bytes));
    }
    lk_buf_done(&data);
}
END_TEST

START_TEST(a_row_beyond_the_limit_is_named_and_one_at_it_is_not)
{
    enum { PIECE = 1 << 20 };
    uint8_t *piece = lk_alloc(PIECE);
    memset(piece, 'x', PIECE);
    struct rows rows = {.n = 0};
    struct lk_err err;
    struct lk_jsonl *jsonl = lk_jsonl_new(add, &rows);
    ck_assert_int_eq(lk_jsonl_put(jsonl, (const uint8_t *)"1\n\n", 3, &err), LK_OK);
    for (uint64_t i = 0; i < LK_ROW_BYTES_MAX / PIECE; i++)
        ck_assert_int_eq(lk_jsonl_put(jsonl, piece, PIECE, &err), LK_OK);
    ck_assert_int_eq(lk_jsonl_put(jsonl, (const uint8_t *)"\r\n", 2, &err), LK_OK);
    ck_assert_uint_eq(rows.n, 2);
    ck_assert_uint_eq(rows.row[1].bytes, LK_ROW_BYTES_MAX);
    for (uint64_t i = 0; i < LK_ROW_BYTES_MAX / PIECE; i++)
        ck_assert_int_eq(lk_jsonl_put(jsonl, piece, PIECE, &err), LK_OK);
    ck_assert_int_eq(lk_jsonl_put(jsonl, piece, 1, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "line 4 (byte 1073741829)"));
    lk_jsonl_free(jsonl);
    free(piece);
}
END_TEST

START_TEST(what_the_receiver_refuses_ends_it)
{
    struct lk_buf data = {0};
    struct rows rows;
    struct lk_err err;
    for (int i = 0; i < 65; i++)
        lk_buf_puts(&data, "1\n");
    ck_assert_int_eq(split(data.data, data.len, 7, &rows, &err), LK_RESOURCE_EXHAUSTED);
    lk_buf_done(&data);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("format/jsonl");
    TCase *t = tcase_create("jsonl");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, blank_lines_crlf_and_no_final_newline);
    tcase_add_test(t, a_byte_order_mark_belongs_to_no_row);
    tcase_add_test(t, utf16_and_utf32_are_named);
    tcase_add_test(t, only_0a_ends_a_record);
    tcase_add_test(t, rows_longer_than_any_piece_are_whole);
    tcase_add_test(t, a_row_beyond_the_limit_is_named_and_one_at_it_is_not);
    tcase_add_test(t, what_the_receiver_refuses_ends_it);
    suite_add_tcase(s, t);
    return s;
}
