#include "base/json.h"

#include "base/json_scan.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static const char *const type_names[] = {
    [LK_JSON_NULL] = "null",       [LK_JSON_FALSE] = "a boolean", [LK_JSON_TRUE] = "a boolean",
    [LK_JSON_NUMBER] = "a number", [LK_JSON_STRING] = "a string", [LK_JSON_ARRAY] = "an array",
    [LK_JSON_OBJECT] = "an object",
};

const char *lk_json_type_name(enum lk_json_type type)
{
    return type_names[type];
}

void lk_json_init(struct lk_json *json, const void *text, size_t bytes)
{
    *json = (struct lk_json){.text = text, .bytes = bytes};
    json->valid = lk_utf8_valid_prefix(json->text, bytes);
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        json->at = 3;
}

void lk_json_done(struct lk_json *json)
{
    lk_buf_done(&json->scratch);
}

/* ---- errors ---- */

static enum lk_code bad_at(struct lk_json *json, size_t at, const char *what, struct lk_err *err)
{
    json->at = at;
    return lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: %s", at, what);
}

/* "expected X, found Y" for the byte at the cursor. */
static enum lk_code expected(struct lk_json *json, const char *what, struct lk_err *err)
{
    const uint8_t *p = json->text + json->at;
    char found[64];

    if (json->at >= json->bytes)
        (void)snprintf(found, sizeof found, "the end of the text");
    else if (*p > 0x20 && *p < 0x7f)
        (void)snprintf(found, sizeof found, "'%c'", *p);
    else
        (void)snprintf(found, sizeof found, "byte 0x%02x", *p);
    const char *hint = "";
    if (json->at == 0 && json->bytes >= 2 && (p[0] ^ p[1]) == 1 && (p[0] & p[1]) == 0xfe)
        hint = " (the text is UTF-16, expected UTF-8)";
    else if (json->bytes - json->at >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        hint = " (a UTF-8 byte-order mark, allowed at the beginning only)";
    return lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: expected %s, found %s%s", json->at, what,
                   found, hint);
}

/* ---- characters ---- */

static inline bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A run of spaces, as in indented files. */
static __attribute__((noinline)) void skip_spaces(struct lk_json *json)
{
    const uint8_t *p = json->text + json->at, *end = json->text + json->bytes;

#if defined(__SSE2__)
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i space = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')),
                                     _mm_cmpeq_epi8(v, _mm_set1_epi8('\n')));
        unsigned other = ~(unsigned)_mm_movemask_epi8(space) & 0xffff;
        p += other != 0 ? __builtin_ctz(other) : 0;
        if (other != 0)
            break;
    }
#endif
    while (p < end && is_space(*p))
        p++;
    json->at = (size_t)(p - json->text);
}

static inline void skip_space(struct lk_json *json)
{
    if (json->at < json->bytes && is_space(json->text[json->at]))
        skip_spaces(json);
}

/* The byte at the cursor, or NUL at the end: NUL is nowhere valid, so it needs no case of its own. */
static uint8_t here(const struct lk_json *json)
{
    return json->at < json->bytes ? json->text[json->at] : 0;
}

/* ---- strings ---- */

/* Four hexadecimal digits at @p, or -1. */
static int hex4(const uint8_t *p, const uint8_t *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            v = v << 4 | (c - '0');
        else if (low >= 'a' && low <= 'f')
            v = v << 4 | (low - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* A \uXXXX escape whose backslash is at *@at, or the pair of two that makes one code point. */
static enum lk_code unicode_escape(struct lk_json *json, const uint8_t **at, uint32_t *ret_code,
                                   struct lk_err *err)
{
    const uint8_t *p = *at, *end = json->text + json->bytes;
    size_t where = (size_t)(p - json->text);
    int unit = hex4(p + 2, end);

    if (unit < 0)
        return bad_at(json, where, "\\u needs four hexadecimal digits", err);
    *at = p + 6;
    *ret_code = (uint32_t)unit;
    if (unit < 0xd800 || unit > 0xdfff)
        return LK_OK;
    int low = -1;
    if (unit < 0xdc00 && end - *at >= 6 && p[6] == '\\' && p[7] == 'u')
        low = hex4(p + 8, end);
    if (low < 0xdc00 || low > 0xdfff)
        return bad_at(json, where, "lone surrogate escape: no character", err);
    *at = p + 12;
    *ret_code = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return LK_OK;
}

/* Any escape: its bytes, 1 to 4 of them. */
static enum lk_code escape(struct lk_json *json, const uint8_t **at, uint8_t ret_bytes[4],
                           size_t *ret_n, struct lk_err *err)
{
    const uint8_t *p = *at, *end = json->text + json->bytes;

    if (end - p >= 2 && lk_json_escapes[p[1]] != 0) {
        ret_bytes[0] = lk_json_escapes[p[1]];
        *ret_n = 1;
        *at = p + 2;
        return LK_OK;
    }
    if (end - p < 2 || p[1] != 'u')
        return bad_at(json, (size_t)(p - json->text), "unknown escape in a string", err);
    uint32_t code = 0;
    LK_TRY(unicode_escape(json, at, &code, err));
    *ret_n = lk_utf8_put(code, ret_bytes);
    return LK_OK;
}

/* Why a string cannot go on at @p. */
static enum lk_code bad_in_string(struct lk_json *json, const uint8_t *p, struct lk_err *err)
{
    size_t at = (size_t)(p - json->text);
    char what[96];

    if (at >= json->bytes)
        (void)snprintf(what, sizeof what, "the text ends inside the string begun at byte %zu",
                       json->at);
    else if (*p < ' ')
        (void)snprintf(what, sizeof what, "raw control character 0x%02x in a string", *p);
    else
        (void)snprintf(what, sizeof what, "invalid UTF-8 in a string (byte 0x%02x)", *p);
    return bad_at(json, at, what, err);
}

/* Strings are looked through up to here: beyond it is no UTF-8, or nothing. What is wrong there is found
 * when a string reaches it. */
static const uint8_t *string_end(const struct lk_json *json)
{
    return json->text + json->valid;
}

/* The rest of a string from its first escape at @p on, after @run that came before it, into the
 * scratch. Decoded text is never longer than its source, so there is room for all of it. */
static enum lk_code decode(struct lk_json *json, const uint8_t *run, const uint8_t **at,
                           struct lk_err *err)
{
    const uint8_t *p = *at, *end = string_end(json);

    json->scratch.len = 0;
    uint8_t *begin = lk_buf_room(&json->scratch, (size_t)(end - run) + LK_JSON_SLACK), *to = begin;
    memcpy(to, run, (size_t)(p - run));
    to += p - run;
    p = lk_json_copy(p, end, &to);
    while (p < end && *p == '\\') {
        uint8_t bytes[4] = {0};
        size_t n = 0;
        LK_TRY(escape(json, &p, bytes, &n, err));
        memcpy(to, bytes, sizeof bytes); /* a fixed size is one store */
        to += n;
        p = lk_json_copy(p, end, &to);
    }
    json->scratch.len = (size_t)(to - begin);
    *at = p;
    return LK_OK;
}

/* The same without keeping anything. */
static enum lk_code validate(struct lk_json *json, const uint8_t **at, struct lk_err *err)
{
    const uint8_t *p = *at, *end = string_end(json);
    while (p < end && *p == '\\') {
        uint8_t bytes[4];
        size_t n = 0;
        LK_TRY(escape(json, &p, bytes, &n, err));
        p = lk_json_scan(p, end);
    }
    *at = p;
    return LK_OK;
}

/*
 * The string whose opening quote is at the cursor. @keep: its value is set, in the text itself or,
 * with escapes, in the scratch; otherwise it is only validated.
 */
static enum lk_code read_string(struct lk_json *json, bool keep, const uint8_t **ret_bytes,
                                size_t *ret_n, struct lk_err *err)
{
    const uint8_t *end = string_end(json), *run = json->text + json->at + 1;
    const uint8_t *p = lk_json_scan(run, end);
    bool in_place = p == end || *p != '\\';

    if (!in_place)
        LK_TRY(keep ? decode(json, run, &p, err) : validate(json, &p, err));
    if (p == end || *p != '"')
        return bad_in_string(json, p, err);
    json->at = (size_t)(p + 1 - json->text);
    if (keep) {
        *ret_bytes = in_place ? run : json->scratch.data;
        *ret_n = in_place ? (size_t)(p - run) : json->scratch.len;
    }
    return LK_OK;
}

enum lk_code lk_json_string(struct lk_json *json, const uint8_t **ret_bytes, size_t *ret_n,
                            struct lk_err *err)
{
    skip_space(json);
    if (here(json) != '"')
        return expected(json, "a string", err);
    return read_string(json, true, ret_bytes, ret_n, err);
}

/* ---- numbers and literals ---- */

static size_t digits(const struct lk_json *json, size_t at)
{
    size_t from = at;
    while (at < json->bytes && json->text[at] >= '0' && json->text[at] <= '9')
        at++;
    return at - from;
}

/* RFC 8259: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
enum lk_code lk_json_number(struct lk_json *json, const uint8_t **ret_text, size_t *ret_n,
                            struct lk_err *err)
{
    skip_space(json);
    size_t from = json->at, n;
    if (here(json) == '-')
        json->at++;
    if ((n = digits(json, json->at)) == 0)
        return expected(json, json->at == from ? "a number" : "a digit", err);
    json->at += here(json) == '0' ? 1 : n;
    if (here(json) == '.') {
        json->at++;
        if ((n = digits(json, json->at)) == 0)
            return expected(json, "a digit", err);
        json->at += n;
    }
    if ((here(json) | 0x20) == 'e') {
        json->at++;
        if (here(json) == '+' || here(json) == '-')
            json->at++;
        if ((n = digits(json, json->at)) == 0)
            return expected(json, "a digit", err);
        json->at += n;
    }
    if (digits(json, json->at) > 0)
        return bad_at(json, from, "a number must not begin with 0", err);
    *ret_text = json->text + from;
    *ret_n = json->at - from;
    return LK_OK;
}

enum lk_code lk_json_u64(struct lk_json *json, uint64_t max, uint64_t *ret_value,
                         struct lk_err *err)
{
    const uint8_t *text = NULL;
    size_t n = 0;
    uint64_t value = 0;

    LK_TRY(lk_json_number(json, &text, &n, err));
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)text[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10 || value * 10 + digit > max) {
            json->at = (size_t)(text - json->text);
            return lk_fail(err, LK_INVALID_ARGUMENT,
                           "byte %zu: expected an integer from 0 to %llu, found %.*s", json->at,
                           (unsigned long long)max, (int)(n < 40 ? n : 40), (const char *)text);
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return LK_OK;
}

static enum lk_code literal(struct lk_json *json, const char *word, struct lk_err *err)
{
    size_t n = strlen(word);
    if (json->bytes - json->at < n || memcmp(json->text + json->at, word, n) != 0)
        return bad_at(json, json->at, "expected null, true or false", err);
    json->at += n;
    return LK_OK;
}

enum lk_code lk_json_bool(struct lk_json *json, bool *ret_value, struct lk_err *err)
{
    skip_space(json);
    bool value = here(json) == 't';
    if (!value && here(json) != 'f')
        return expected(json, "a boolean", err);
    LK_TRY(literal(json, value ? "true" : "false", err));
    *ret_value = value;
    return LK_OK;
}

/* ---- structure ---- */

enum lk_code lk_json_peek(struct lk_json *json, enum lk_json_type *ret_type, struct lk_err *err)
{
    skip_space(json);
    uint8_t c = here(json);
    switch (c) {
    case 'n':
        *ret_type = LK_JSON_NULL;
        return LK_OK;
    case 'f':
        *ret_type = LK_JSON_FALSE;
        return LK_OK;
    case 't':
        *ret_type = LK_JSON_TRUE;
        return LK_OK;
    case '"':
        *ret_type = LK_JSON_STRING;
        return LK_OK;
    case '[':
        *ret_type = LK_JSON_ARRAY;
        return LK_OK;
    case '{':
        *ret_type = LK_JSON_OBJECT;
        return LK_OK;
    default:
        if (c != '-' && (c < '0' || c > '9'))
            return expected(json, "a value", err);
        *ret_type = LK_JSON_NUMBER;
        return LK_OK;
    }
}

static bool in_object(const struct lk_json *json)
{
    uint32_t i = json->depth - 1;
    return json->open[i / 8] >> (i % 8) & 1;
}

enum lk_code lk_json_enter(struct lk_json *json, struct lk_err *err)
{
    skip_space(json);
    uint8_t c = here(json), bit = (uint8_t)(1u << json->depth % 8);
    if (c != '{' && c != '[')
        return expected(json, "an object or an array", err);
    if (json->depth == LK_JSON_DEPTH_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: nesting deeper than %d", json->at,
                       LK_JSON_DEPTH_MAX);
    if (c == '{')
        json->open[json->depth / 8] |= bit;
    else
        json->open[json->depth / 8] &= (uint8_t)~bit;
    json->depth++;
    json->at++;
    json->fresh = true;
    return LK_OK;
}

/* A key and its colon. */
static enum lk_code read_key(struct lk_json *json, const uint8_t **ret_key, size_t *ret_key_n,
                             struct lk_err *err)
{
    if (here(json) != '"')
        return expected(json, "a key in double quotes", err);
    LK_TRY(read_string(json, ret_key != NULL, ret_key, ret_key_n, err));
    skip_space(json);
    if (here(json) != ':')
        return expected(json, "':'", err);
    json->at++;
    return LK_OK;
}

enum lk_code lk_json_next(struct lk_json *json, bool *ret_more, const uint8_t **ret_key,
                          size_t *ret_key_n, struct lk_err *err)
{
    LK_CHECK(json->depth > 0);
    bool object = in_object(json), fresh = json->fresh;

    json->fresh = false;
    skip_space(json);
    if (here(json) == (object ? '}' : ']')) {
        json->at++;
        json->depth--;
        *ret_more = false;
        return LK_OK;
    }
    if (!fresh) {
        if (here(json) != ',')
            return expected(json, object ? "',' or '}'" : "',' or ']'", err);
        json->at++;
        skip_space(json);
    }
    if (object)
        LK_TRY(read_key(json, ret_key, ret_key_n, err));
    *ret_more = true;
    return LK_OK;
}

/* A scalar is read over; a container is entered. */
static enum lk_code skip_or_enter(struct lk_json *json, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;
    const uint8_t *text;
    size_t n;

    LK_TRY(lk_json_peek(json, &type, err));
    switch (type) {
    case LK_JSON_NULL:
        return literal(json, "null", err);
    case LK_JSON_FALSE:
        return literal(json, "false", err);
    case LK_JSON_TRUE:
        return literal(json, "true", err);
    case LK_JSON_NUMBER:
        return lk_json_number(json, &text, &n, err);
    case LK_JSON_STRING:
        return read_string(json, false, NULL, NULL, err);
    case LK_JSON_ARRAY:
    case LK_JSON_OBJECT:
        break;
    }
    return lk_json_enter(json, err);
}

enum lk_code lk_json_skip(struct lk_json *json, struct lk_err *err)
{
    uint32_t outside = json->depth;

    LK_TRY(skip_or_enter(json, err));
    while (json->depth > outside) {
        bool more = false;
        LK_TRY(lk_json_next(json, &more, NULL, NULL, err));
        if (more)
            LK_TRY(skip_or_enter(json, err));
    }
    return LK_OK;
}

enum lk_code lk_json_end(struct lk_json *json, struct lk_err *err)
{
    skip_space(json);
    if (json->at < json->bytes)
        return expected(json, "the end of the text", err);
    return LK_OK;
}

/* ---- writing ---- */

static void quote_odd(struct lk_buf *out, uint8_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *hit = c != 0 ? strchr(from, c) : NULL;
    if (hit != NULL)
        lk_buf_putf(out, "\\%c", to[hit - from]);
    else
        lk_buf_putf(out, "\\u%04x", c);
}

/* Runs over valid characters that stand for themselves, ASCII or not. */
static const uint8_t *literal_end(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p >= ' ' && *p != '"' && *p != '\\') {
        size_t step = lk_utf8_length(p, (size_t)(end - p));
        if (step == 0)
            break;
        p += step;
    }
    return p;
}

void lk_json_quote(struct lk_buf *out, const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;

    lk_buf_puts(out, "\"");
    while (p < end) {
        const uint8_t *stop = literal_end(p, end);
        lk_buf_put(out, p, (size_t)(stop - p));
        p = stop;
        if (p == end)
            break;
        if (*p < 0x80) {
            quote_odd(out, *p++);
        } else {
            bool valid;
            p += lk_utf8_step(p, (size_t)(end - p), &valid);
            lk_buf_puts(out, "\xef\xbf\xbd");
        }
    }
    lk_buf_puts(out, "\"");
}
