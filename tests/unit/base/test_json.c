#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"
#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is @text, all of it, one JSON value? Tried by reading over it; @ret_at is where it stopped. */
static bool valid(const void *text, size_t n, size_t *ret_at)
{
    struct lk_json json;
    struct lk_err err = {0};
    lk_json_init(&json, text, n);
    bool ok = lk_json_skip(&json, &err) == LK_OK && lk_json_end(&json, &err) == LK_OK;
    if (!ok) {
        char prefix[40];
        (void)snprintf(prefix, sizeof prefix, "byte %zu: ", json.at);
        ck_assert_int_eq(err.code, LK_INVALID_ARGUMENT);
        ck_assert_msg(strncmp(err.text, prefix, strlen(prefix)) == 0, "%s", err.text);
    }
    *ret_at = json.at;
    lk_json_done(&json);
    return ok;
}

/* Decodes the one string of @text. */
static enum lk_code decode(const void *text, size_t n, struct lk_buf *out, struct lk_err *err)
{
    struct lk_json json;
    const uint8_t *bytes = NULL;
    size_t bytes_n = 0;
    lk_json_init(&json, text, n);
    enum lk_code code = lk_json_string(&json, &bytes, &bytes_n, err);
    if (code == LK_OK)
        code = lk_json_end(&json, err);
    out->len = 0;
    if (code == LK_OK)
        lk_buf_put(out, bytes, bytes_n);
    lk_json_done(&json);
    return code;
}

static const char *const good[] = {
    "null", "true", "false", "0", "-0", "10", "-1.5", "1e999", "1E+2", "1.0e-10", "0.1",
    "123456789012345678901234567890", "\"\"", "\"a\"", "[]", "{}", " [ 1 , 2 ] ", "[[],[{}]]",
    "{\"a\":1}", "{\"a\":{\"b\":[1,\"x\",null]},\"c\":false}", "\t\r\n 1 \n", "\"\\u0000\"",
    "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\x7f\"",
    "{\"a\":1,\"a\":2}", "\xef\xbb\xbf{}", "\"\xf4\x8f\xbf\xbf\"", "\"\xe2\x80\xa8\xc2\x85\"",
};

static const struct {
    const char *text;
    size_t at;
} bad[] = {
    {"", 0},           {" ", 1},           {"nul", 0},        {"nulL", 0},     {"NaN", 0},
    {"Infinity", 0},   {"-Infinity", 1},   {"+1", 0},         {"01", 0},       {"-01", 0},
    {"1.", 2},         {".5", 0},          {"1e", 2},         {"1e+", 3},      {"0x10", 1},
    {"[1,]", 3},       {"[,1]", 1},        {"[1 2]", 3},      {"[", 1},        {"[1", 2},
    {"]", 0},          {"[}", 1},          {"{]", 1},         {"{\"a\"}", 4},  {"{\"a\":}", 5},
    {"{\"a\":1,}", 7}, {"{'a':1}", 1},     {"{a:1}", 1},      {"{\"a\" 1}", 5}, {"{1:1}", 1},
    {"\"a", 2},        {"\"\\x61\"", 1},   {"\"\\u12\"", 1},  {"\"\\u123g\"", 1}, {"\"\\\"", 3},
    {"\"\t\"", 1},     {"\"a\nb\"", 2},    {"\"\x0b\"", 1},   {"\"\x0c\"", 1}, {"1 2", 2},
    {"{} {}", 3},      {"{}{}", 2},        {"[1]]", 3},       {"//x\n1", 0},   {"1//x", 1},
    {"truex", 4},      {"\xef\xbb\xbf\xef\xbb\xbf{}", 3},     {"\xff\xfe{", 0}, {"{}\xc2\xa0", 2},
    /* RC-027: surrogates that are no pair, in either order */
    {"\"\\ud83d\"", 1},      {"\"x\\udcb2y\"", 2},      {"\"\\ude00\\ud83d\"", 1},
    {"\"\\ud83dA\"", 1},     {"\"\\ud83d\\u0041\"", 1}, {"\"\\ud83d\\ud83d\\ude00\"", 1},
    {"\"\\ud83d\\n\"", 1},
    /* RC-040: bytes that are no UTF-8 */
    {"\"\xb2\"", 1},         {"\"a\xc0\xaf\"", 2},      {"\"\xed\xa0\xbd\xed\xb8\x80\"", 1},
    {"\"\xf4\x90\x80\x80\"", 1}, {"\"\xe2\x82\"", 1},   {"\"\xe2\x82", 1},
    {"\"\xf0\x9f\x98", 1},   {"\"\xf0\x80\x80\x80\"", 1}, {"\"\xe0\x80\x80\"", 1},
    {"\"\xf5\x80\x80\x80\"", 1}, {"\"\xc3\"", 1},       {"\"\xff\"", 1},
};

START_TEST(what_the_rfc_allows_is_read_over)
{
    size_t at;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(valid(good[i], strlen(good[i]), &at), "%s", good[i]);
        ck_assert_uint_eq(at, strlen(good[i]));
    }
}
END_TEST

START_TEST(what_it_forbids_is_refused_at_its_byte)
{
    size_t at;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!valid(bad[i].text, strlen(bad[i].text), &at), "%zu: %s", i, bad[i].text);
        ck_assert_msg(at == bad[i].at, "%zu: %s: at %zu, not %zu", i, bad[i].text, at, bad[i].at);
    }
    ck_assert(!valid("\"a\0b\"", 5, &at)); /* a raw NUL */
    ck_assert_uint_eq(at, 2);
}
END_TEST

START_TEST(a_bad_string_is_refused_in_skipped_and_in_read_values_alike)
{
    struct lk_buf out = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bad[i].text[0] != '"')
            continue;
        struct lk_err err;
        size_t at;
        ck_assert_int_eq(decode(bad[i].text, strlen(bad[i].text), &out, &err),
                         LK_INVALID_ARGUMENT);
        char *nested = lk_format("{\"x\":[0,{\"y\":%s}]}", bad[i].text);
        ck_assert_msg(!valid(nested, strlen(nested), &at), "%s", nested);
        ck_assert_uint_ge(at, strlen("{\"x\":[0,{\"y\":") + bad[i].at);
        free(nested);
    }
    lk_buf_done(&out);
}
END_TEST

static void check_decoded(const char *text, const char *want, size_t want_n)
{
    struct lk_buf out = {0};
    struct lk_err err;
    ck_assert_msg(decode(text, strlen(text), &out, &err) == LK_OK, "%s", text);
    ck_assert_uint_eq(out.len, want_n);
    if (want_n > 0)
        ck_assert_mem_eq(out.data, want, want_n);
    lk_buf_done(&out);
}

START_TEST(strings_decode_to_their_bytes)
{
    check_decoded("\"\"", "", 0);
    check_decoded("\"plain\"", "plain", 5);
    check_decoded("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4);             /* RC-027 */
    check_decoded("\"a\\u0000b\"", "a\0b", 3);                              /* RC-039 */
    check_decoded("\"\\u0001\\u007f\"", "\x01\x7f", 2);
    check_decoded("\"a\xe2\x80\xa8" "b\xc2\x85" "c\"", "a\xe2\x80\xa8" "b\xc2\x85" "c", 8); /* RC-026 */
    check_decoded("\"\\u00e9\\u20AC\\uFFFF\"", "\xc3\xa9\xe2\x82\xac\xef\xbf\xbf", 8);
    check_decoded("\"x\\n\\ty\\\\z\\/\"", "x\n\ty\\z/", 7);
    check_decoded("\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf", 4);
}
END_TEST

START_TEST(a_character_is_found_wherever_it_falls_in_a_vector)
{
    static const char *const special[] = {"\\n", "\xc3\xa9", "\xf0\x9f\x98\x80", "\\u0041"};
    for (size_t k = 0; k < sizeof special / sizeof *special; k++) {
        for (size_t before = 0; before < 40; before++) {
            char text[128], want[128], pad[41] = {0};
            memset(pad, 'a', before);
            (void)snprintf(text, sizeof text, "\"%s%szz\"", pad, special[k]);
            const char *value = k == 0 ? "\n" : k == 3 ? "A" : special[k];
            (void)snprintf(want, sizeof want, "%s%szz", pad, value);
            check_decoded(text, want, strlen(want));
            size_t at, cut = before + 1;
            text[cut] = '\x1f';
            ck_assert(!valid(text, strlen(text), &at));
            ck_assert_uint_eq(at, cut);
        }
    }
}
END_TEST

/* Random texts of every kind of character and length, escaped at random: what comes back is what went
 * in, and the reader never looks beyond the text (which lies in memory of exactly its size). */
START_TEST(random_strings_round_trip)
{
    uint64_t x = 88172645463325252u;
    unsigned wrong = 0;
    struct lk_buf value = {0}, text = {0}, back = {0};
    for (int round = 0; round < 20000; round++) {
        value.len = text.len = 0;
        lk_buf_puts(&text, "\"");
        for (unsigned n = (unsigned)(round % 97); n > 0; n--) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            static const uint32_t spans[] = {0x60, 0x60, 0x60, 0x60, 0x780, 0xd000, 0x100000};
            uint32_t c = (uint32_t)(x >> 8) % spans[x % 7];
            c = x % 7 < 4 ? c + 0x20 : x % 7 == 6 ? c + 0x10000 : c + 0x80;
            uint8_t bytes[4];
            size_t k = lk_utf8_put(c, bytes);
            lk_buf_put(&value, bytes, k);
            if (c == '"' || c == '\\' || x >> 60 == 0) {
                if (c >= 0x10000)
                    lk_buf_putf(&text, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
                else
                    lk_buf_putf(&text, "\\u%04X", c);
            } else {
                lk_buf_put(&text, bytes, k);
            }
        }
        lk_buf_puts(&text, "\"");
        uint8_t *exact = malloc(text.len);
        memcpy(exact, text.data, text.len);
        size_t at;
        wrong += !valid(exact, text.len, &at) || at != text.len;
        wrong += decode(exact, text.len, &back, NULL) != LK_OK || back.len != value.len ||
                 (back.len > 0 && memcmp(back.data, value.data, back.len) != 0);
        free(exact);
    }
    ck_assert_uint_eq(wrong, 0);
    lk_buf_done(&value);
    lk_buf_done(&text);
    lk_buf_done(&back);
}
END_TEST

START_TEST(every_truncation_is_refused_within_bounds)
{
    static const char text[] = "{\"a\\u00e9\":[1.5e3,\"\xf0\x9f\x98\x80\\ud83d\\ude00\",null],\"b\":{}}";
    size_t n = sizeof text - 1, at;
    ck_assert(valid(text, n, &at));
    for (size_t cut = 0; cut < n; cut++) {
        char *copy = malloc(cut > 0 ? cut : 1); /* exact size: a sanitizer sees one byte too many */
        memcpy(copy, text, cut);
        ck_assert_msg(!valid(copy, cut, &at), "cut at %zu", cut);
        ck_assert_uint_le(at, cut);
        free(copy);
    }
}
END_TEST

/* RC-034 */
START_TEST(hostile_nesting_is_an_error_and_no_crash)
{
    struct lk_buf text = {0};
    size_t at;
    for (int i = 0; i < 100000; i++)
        lk_buf_puts(&text, "[");
    ck_assert(!valid(text.data, text.len, &at));
    ck_assert_uint_eq(at, LK_JSON_DEPTH_MAX);
    text.len = 0;
    for (int i = 0; i < 500000; i++)
        lk_buf_puts(&text, "{\"a\":");
    ck_assert(!valid(text.data, text.len, &at));
    ck_assert_uint_eq(at, 5u * LK_JSON_DEPTH_MAX);
    text.len = 0;
    for (int i = 0; i < LK_JSON_DEPTH_MAX; i++)
        lk_buf_puts(&text, i % 2 ? "[" : "{\"k\":");
    lk_buf_puts(&text, "1");
    for (int i = LK_JSON_DEPTH_MAX - 1; i >= 0; i--)
        lk_buf_puts(&text, i % 2 ? "]" : "}");
    ck_assert(valid(text.data, text.len, &at));
    lk_buf_done(&text);
}
END_TEST

START_TEST(the_cursor_walks_members_and_elements)
{
    static const char text[] = " {\"n\" : [1, 20 ,300], \"k\\u0065y\":{}, \"t\":true,\"s\":\"\\n\"} ";
    struct lk_json json;
    struct lk_err err;
    const uint8_t *key, *value;
    size_t key_n, n;
    bool more, flag;
    uint64_t sum = 0, v;
    lk_json_init(&json, text, sizeof text - 1);
    ck_assert_int_eq(lk_json_enter(&json, &err), LK_OK);
    ck_assert_int_eq(lk_json_next(&json, &more, &key, &key_n, &err), LK_OK);
    ck_assert(more && key_n == 1 && *key == 'n');
    ck_assert_int_eq(lk_json_enter(&json, &err), LK_OK);
    while (lk_json_next(&json, &more, NULL, NULL, &err) == LK_OK && more) {
        ck_assert_int_eq(lk_json_u64(&json, 300, &v, &err), LK_OK);
        sum += v;
    }
    ck_assert(!more);
    ck_assert_uint_eq(sum, 321);
    ck_assert_int_eq(lk_json_next(&json, &more, &key, &key_n, &err), LK_OK);
    ck_assert(more && key_n == 3 && memcmp(key, "key", 3) == 0);
    ck_assert_int_eq(lk_json_skip(&json, &err), LK_OK);
    ck_assert_int_eq(lk_json_next(&json, &more, &key, &key_n, &err), LK_OK);
    ck_assert_int_eq(lk_json_bool(&json, &flag, &err), LK_OK);
    ck_assert(flag);
    ck_assert_int_eq(lk_json_next(&json, &more, NULL, NULL, &err), LK_OK);
    ck_assert_int_eq(lk_json_string(&json, &value, &n, &err), LK_OK);
    ck_assert(n == 1 && *value == '\n');
    ck_assert_int_eq(lk_json_next(&json, &more, NULL, NULL, &err), LK_OK);
    ck_assert(!more);
    ck_assert_int_eq(lk_json_end(&json, &err), LK_OK);
    lk_json_done(&json);
}
END_TEST

static enum lk_code read_a_string(struct lk_json *json, struct lk_err *err)
{
    const uint8_t *bytes;
    size_t n;
    return lk_json_string(json, &bytes, &n, err);
}

static enum lk_code read_a_bool(struct lk_json *json, struct lk_err *err)
{
    bool value;
    return lk_json_bool(json, &value, err);
}

START_TEST(another_type_than_is_wanted_is_refused_and_named)
{
    static const struct {
        const char *text, *says;
        enum lk_code (*read)(struct lk_json *json, struct lk_err *err);
    } cases[] = {
        {"1", "a string", read_a_string},  {"1", "a boolean", read_a_bool},
        {"fals", "expected", read_a_bool}, {"tru", "expected", read_a_bool},
        {"\"\"", "an object", lk_json_enter}, {"", "a string", read_a_string},
        {"\x7f", "a string", read_a_string},   {" ", "a boolean", read_a_bool},
        {"\x01", "a string", read_a_string},   {"45", "a string", read_a_string},
        {"                 \n                    \t1", "byte 39", read_a_string},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_json json;
        struct lk_err err = {.text = ""};
        lk_json_init(&json, cases[i].text, strlen(cases[i].text));
        ck_assert_int_eq(cases[i].read(&json, &err), LK_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s: %s", cases[i].text, err.text);
        lk_json_done(&json);
    }
    struct lk_json json;
    struct lk_err err;
    bool flag = true;
    lk_json_init(&json, "false", 5);
    ck_assert_int_eq(lk_json_bool(&json, &flag, &err), LK_OK);
    ck_assert(!flag);
    lk_json_done(&json);
}
END_TEST

START_TEST(types_have_the_names_that_messages_use)
{
    static const struct {
        const char *text;
        enum lk_json_type type;
    } cases[] = {{"null", LK_JSON_NULL},   {"true", LK_JSON_TRUE}, {"false", LK_JSON_FALSE}, {"-1", LK_JSON_NUMBER},
                 {"9", LK_JSON_NUMBER},    {"[]", LK_JSON_ARRAY},  {"{}", LK_JSON_OBJECT},   {"\"\"", LK_JSON_STRING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_json json;
        enum lk_json_type type = LK_JSON_NULL;
        lk_json_init(&json, cases[i].text, strlen(cases[i].text));
        ck_assert_int_eq(lk_json_peek(&json, &type, NULL), LK_OK);
        ck_assert_int_eq((int)type, (int)cases[i].type);
        ck_assert_uint_gt(strlen(lk_json_type_name(type)), 3);
        for (size_t k = 0; k < i; k++) { /* true and false are both called a boolean */
            bool one = type == cases[k].type || (type == LK_JSON_FALSE && cases[k].type == LK_JSON_TRUE);
            ck_assert_int_eq(strcmp(lk_json_type_name(type), lk_json_type_name(cases[k].type)) == 0, one);
        }
        lk_json_done(&json);
    }
}
END_TEST

START_TEST(surrogates_count_in_pairs_only)
{
    static const struct {
        const char *text, *bytes; /* NULL: refused */
    } cases[] = {{"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"}, {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
                 {"\"\\ud800\"", NULL},                          {"\"\\ud800\\u0041\"", NULL},
                 {"\"\\ud800\\ue000\"", NULL},                   {"\"\\ud800\\n12345\"", NULL},
                 {"\"\\ud800xu1234\"", NULL},                    {"\"\\udc00\\udc00\"", NULL},
                 {"\"\\ud7ff\"", "\xed\x9f\xbf"},               {"\"\\ue000\"", "\xee\x80\x80"}};
    struct lk_buf back = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_err err = {.text = ""};
        enum lk_code code = decode(cases[i].text, strlen(cases[i].text), &back, &err);
        ck_assert_msg((code == LK_OK) == (cases[i].bytes != NULL), "%s: %s", cases[i].text, err.text);
        if (code == LK_OK) {
            ck_assert_uint_eq(back.len, strlen(cases[i].bytes));
            ck_assert_mem_eq(back.data, cases[i].bytes, back.len);
        }
    }
    lk_buf_done(&back);
}
END_TEST

START_TEST(integers_outside_their_range_are_refused)
{
    static const char *const texts[] = {"301", "-1", "-0", "1.0", "1e2", "18446744073709551616",
                                        "99999999999999999999999",
                                        "99999999999999999999999999999999999999999999999999", "\"1\"", "null"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct lk_json json;
        struct lk_err err;
        uint64_t v = 7;
        lk_json_init(&json, texts[i], strlen(texts[i]));
        uint64_t max = i == 0 ? 300 : UINT64_MAX;
        ck_assert_int_eq(lk_json_u64(&json, max, &v, &err), LK_INVALID_ARGUMENT);
        ck_assert_uint_eq(v, 7);
        lk_json_done(&json);
    }
    struct lk_json json;
    uint64_t v;
    lk_json_init(&json, "18446744073709551615", 20);
    ck_assert_int_eq(lk_json_u64(&json, UINT64_MAX, &v, NULL), LK_OK);
    ck_assert_uint_eq(v, UINT64_MAX);
}
END_TEST

START_TEST(utf16_and_stray_marks_are_named)
{
    struct lk_json json;
    struct lk_err err;
    lk_json_init(&json, "\xff\xfe{\0}\0", 6);
    ck_assert_int_ne(lk_json_skip(&json, &err), LK_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "UTF-16"));
    lk_json_init(&json, "[\xef\xbb\xbf]", 5);
    ck_assert_int_ne(lk_json_skip(&json, &err), LK_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "byte-order mark"));
}
END_TEST

START_TEST(quoting_round_trips_and_replaces_what_is_no_utf8)
{
    char all[0x80];
    for (int i = 0; i < 0x80; i++)
        all[i] = (char)i;
    struct lk_buf quoted = {0}, back = {0};
    struct lk_err err;
    lk_json_quote(&quoted, all, sizeof all);
    ck_assert_int_eq(decode(quoted.data, quoted.len, &back, &err), LK_OK);
    ck_assert_uint_eq(back.len, sizeof all);
    ck_assert_mem_eq(back.data, all, sizeof all);

    /* How many U+FFFD each bad form gives: RC-040. */
    static const struct {
        const char *bytes;
        size_t marks;
    } forms[] = {{"\xb2", 1}, {"\xc0\xaf", 2}, {"\xe2\x82", 1}, {"\xed\xa0\xbd\xed\xb8\x80", 6},
                 {"\xf4\x90\x80\x80", 4}, {"\xf0\x9f\x98", 1}, {"\xf0\x9f" "A", 1}, {"\xf0\x9f\x98" "A", 1}, {"\xf0\x9f\x98\x80", 0}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t marks = 0;
        quoted.len = 0;
        lk_json_quote(&quoted, forms[i].bytes, strlen(forms[i].bytes));
        ck_assert_int_eq(decode(quoted.data, quoted.len, &back, &err), LK_OK);
        for (size_t k = 0; k + 3 <= back.len; k++)
            marks += memcmp(back.data + k, "\xef\xbf\xbd", 3) == 0;
        ck_assert_uint_eq(marks, forms[i].marks);
    }
    lk_buf_done(&quoted);
    lk_buf_done(&back);
}
END_TEST

/* Every code point, and every pair of bytes, against the arithmetic definition. */
START_TEST(utf8_is_exactly_the_standards)
{
    bool ok;
    uint8_t b[4];
    unsigned wrong = 0; /* counted: an assertion each would take a minute */
    for (uint32_t c = 0; c < 0x110000; c++) {
        size_t n = lk_utf8_put(c, b);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        wrong += lk_utf8_valid_prefix(b, n) != (surrogate ? 0 : n);
        for (size_t cut = 1; cut < n && !surrogate; cut++)
            wrong += lk_utf8_step(b, cut, &ok) != cut || ok;
    }
    for (unsigned v = 0; v < 0x10000; v++) {
        uint8_t two[2] = {(uint8_t)(v >> 8), (uint8_t)v};
        size_t n = lk_utf8_step(two, 2, &ok);
        bool want = two[0] < 0x80 || (two[0] >= 0xc2 && two[0] < 0xe0 && (two[1] & 0xc0) == 0x80);
        wrong += ok != want || (ok && n != (two[0] < 0x80 ? 1u : 2u));
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Whole characters of all lengths and, rarely, what is none; or bytes that are mostly none. */
static size_t random_text(uint32_t *state, bool wild, uint8_t *to, size_t n)
{
    static const uint32_t edges[] = {0x7f,   0x80,   0x7ff,  0x800,  0xd7ff,  0xe000,
                                     0xffff, 0x10000, 0x10ffff, 0x41, 0x20ac, 0x1f600};
    size_t at = 0;
    while (at + 4 <= n) {
        uint32_t dice = next_random(state) % 100;
        if (wild || dice == 0)
            to[at++] = (uint8_t)(next_random(state) % 3 == 0 ? 0x80 | next_random(state) : next_random(state));
        else if (dice < 50)
            to[at++] = (uint8_t)('a' + dice % 26);
        else
            at += lk_utf8_put(edges[next_random(state) % 12], to + at);
    }
    return at;
}

START_TEST(a_valid_prefix_is_that_of_one_character_after_the_other)
{
    uint32_t state = 7;
    uint8_t text[400];
    unsigned wrong = 0, whole = 0;
    for (unsigned round = 0; round < 200000; round++) {
        size_t n = random_text(&state, round % 8 == 7, text, 4 + next_random(&state) % 390), want = 0;
        n -= next_random(&state) % 4 == 0 && n > 0; /* cut within a character, perhaps */
        while (want < n) {
            size_t step = lk_utf8_length(text + want, n - want);
            if (step == 0)
                break;
            want += step;
        }
        whole += want == n && n > 64;
        wrong += lk_utf8_valid_prefix(text, n) != want;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_gt(whole, 1000);
}
END_TEST

/* Every pair of bytes, and every third after those that may have one, at the border of two vectors. */
START_TEST(every_sequence_is_judged_alike_wherever_it_stands)
{
    unsigned wrong = 0;
    for (size_t at = 28; at <= 36; at++) {
        for (uint32_t bytes = 0; bytes < 1u << 24; bytes += (bytes >> 16) < 0xc0 ? 0x0101 : 1) {
            uint8_t text[96];
            if ((bytes >> 16) >= 0xc0 && (bytes & 0xff) % 16 > 1)
                continue; /* the third byte's lower half matters little */
            memset(text, 'a', sizeof text);
            text[at] = (uint8_t)(bytes >> 16);
            text[at + 1] = (uint8_t)(bytes >> 8);
            text[at + 2] = (uint8_t)bytes;
            size_t want = 0, step = 1;
            while (want < sizeof text && (step = lk_utf8_length(text + want, sizeof text - want)) > 0)
                want += step;
            wrong += lk_utf8_valid_prefix(text, sizeof text) != want;
        }
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* What scanning and copying are, said once more. */
static const uint8_t *copy_again(const uint8_t *p, const uint8_t *end, uint8_t **to)
{
    static const char from[] = "\"\\/bfnrt", mean[] = "\"\\/\b\f\n\r\t";
    for (; p < end; p++) {
        if (*p == '\\') {
            const char *hit = end - p >= 2 && p[1] != 0 ? strchr(from, p[1]) : NULL;
            if (hit == NULL)
                return p;
            *(*to)++ = (uint8_t)mean[hit - from];
            p++;
        } else if (*p < ' ' || *p == '"') {
            return p;
        } else {
            *(*to)++ = *p;
        }
    }
    return p;
}

START_TEST(all_ways_of_scanning_and_copying_do_the_same)
{
    static const uint8_t odd[] = {'"', '\\', '\\', 'n', 'u', 0x1f, ' ', 0x80, 0xff, 0, '/', 'b'};
    const struct lk_json_loops *way;
    for (unsigned i = 0; (way = lk_json_loops(i)) != NULL; i++) {
        uint32_t state = 3;
        unsigned wrong = 0;
        for (unsigned round = 0; round < 100000; round++) {
            uint8_t text[300], out[300 + LK_JSON_SLACK], want[300];
            size_t n = next_random(&state) % sizeof text;
            uint32_t rare = 1 + next_random(&state) % 90;
            for (size_t k = 0; k < n; k++)
                text[k] = next_random(&state) % rare == 0 ? odd[next_random(&state) % sizeof odd]
                                                          : (uint8_t)('a' + k % 26);
            uint8_t *to = out, *want_to = want;
            const uint8_t *end = copy_again(text, text + n, &want_to);
            const uint8_t *first = text;
            while (first < text + n && *first >= ' ' && *first != '"' && *first != '\\')
                first++;
            wrong += way->scan(text, text + n) != first;
            wrong += way->copy(text, text + n, &to) != end || to - out != want_to - want ||
                     memcmp(out, want, (size_t)(to - out)) != 0;
        }
        ck_assert_msg(wrong == 0, "%s: %u times", way->name, wrong);
    }
    ck_assert_ptr_nonnull(lk_json_loops(0));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/json");
    TCase *t = tcase_create("json");
    tcase_add_test(t, what_the_rfc_allows_is_read_over);
    tcase_add_test(t, what_it_forbids_is_refused_at_its_byte);
    tcase_add_test(t, a_bad_string_is_refused_in_skipped_and_in_read_values_alike);
    tcase_add_test(t, strings_decode_to_their_bytes);
    tcase_add_test(t, a_character_is_found_wherever_it_falls_in_a_vector);
    tcase_add_test(t, random_strings_round_trip);
    tcase_add_test(t, every_truncation_is_refused_within_bounds);
    tcase_add_test(t, hostile_nesting_is_an_error_and_no_crash);
    tcase_add_test(t, the_cursor_walks_members_and_elements);
    tcase_add_test(t, another_type_than_is_wanted_is_refused_and_named);
    tcase_add_test(t, types_have_the_names_that_messages_use);
    tcase_add_test(t, surrogates_count_in_pairs_only);
    tcase_add_test(t, integers_outside_their_range_are_refused);
    tcase_add_test(t, utf16_and_stray_marks_are_named);
    tcase_add_test(t, quoting_round_trips_and_replaces_what_is_no_utf8);
    tcase_add_test(t, utf8_is_exactly_the_standards);
    tcase_add_test(t, a_valid_prefix_is_that_of_one_character_after_the_other);
    tcase_add_test(t, every_sequence_is_judged_alike_wherever_it_stands);
    tcase_add_test(t, all_ways_of_scanning_and_copying_do_the_same);
    suite_add_tcase(s, t);
    return s;
}
