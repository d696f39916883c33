/*
 * The JSON reader: skipping a value and reading all of it must agree on what JSON is; what was read, quoted
 * again, must be read the same; and rows must be taken for valid exactly when the reader does.
 */
#include "base/json.h"
#include "op/fields.h"
#include "tests/fuzz/fuzz.h"

/* A string must survive being quoted. */
static void check_quote(const uint8_t *bytes, size_t n)
{
    struct lk_buf quoted = {0};
    struct lk_json json;
    const uint8_t *again = NULL;
    size_t again_n = 0;
    struct lk_err err;

    LK_CHECK(lk_utf8_valid_prefix(bytes, n) == n);
    lk_json_quote(&quoted, bytes, n);
    lk_json_init(&json, quoted.data, quoted.len);
    LK_CHECK(lk_json_string(&json, &again, &again_n, &err) == LK_OK);
    LK_CHECK(again_n == n && (n == 0 || memcmp(again, bytes, n) == 0));
    LK_CHECK(lk_json_end(&json, &err) == LK_OK);
    lk_json_done(&json);
    lk_buf_done(&quoted);
}

static enum lk_code read_scalar(struct lk_json *json, enum lk_json_type type, struct lk_err *err)
{
    const uint8_t *bytes;
    size_t n = 0;
    bool flag;

    if (type == LK_JSON_NUMBER)
        return lk_json_number(json, &bytes, &n, err);
    if (type == LK_JSON_TRUE || type == LK_JSON_FALSE) {
        enum lk_code code = lk_json_bool(json, &flag, err);
        LK_CHECK(code != LK_OK || flag == (type == LK_JSON_TRUE));
        return code;
    }
    if (type != LK_JSON_STRING)
        return lk_json_skip(json, err);
    enum lk_code code = lk_json_string(json, &bytes, &n, err);
    if (code == LK_OK)
        check_quote(bytes, n);
    return code;
}

/* To the next place where a value stands: out of containers that end, then to what follows. Sets
 * @ret_open to whether there is one. */
static enum lk_code go_on(struct lk_json *json, bool *ret_open, struct lk_err *err)
{
    const uint8_t *key;
    size_t key_n = 0;

    *ret_open = false;
    while (json->depth > 0 && !*ret_open)
        LK_TRY(lk_json_next(json, ret_open, &key, &key_n, err));
    return LK_OK;
}

/* All of one value, container by container. */
static enum lk_code read_value(struct lk_json *json, struct lk_err *err)
{
    for (bool open = true; open;) {
        enum lk_json_type type = LK_JSON_NULL;
        LK_TRY(lk_json_peek(json, &type, err));
        if (type == LK_JSON_ARRAY || type == LK_JSON_OBJECT)
            LK_TRY(lk_json_enter(json, err));
        else
            LK_TRY(read_scalar(json, type, err));
        LK_TRY(go_on(json, &open, err));
    }
    return lk_json_end(json, err);
}

static bool skips(const uint8_t *data, size_t n, size_t *ret_at)
{
    struct lk_json json;
    struct lk_err err;

    lk_json_init(&json, data, n);
    enum lk_code code = lk_json_skip(&json, &err);
    if (code == LK_OK)
        code = lk_json_end(&json, &err);
    LK_CHECK(json.at <= n);
    *ret_at = json.at;
    lk_json_done(&json);
    return code == LK_OK;
}

static bool reads(const uint8_t *data, size_t n, size_t *ret_at)
{
    struct lk_json json;
    struct lk_err err;

    lk_json_init(&json, data, n);
    enum lk_code code = read_value(&json, &err);
    LK_CHECK(json.at <= n);
    *ret_at = json.at;
    lk_json_done(&json);
    return code == LK_OK;
}

static void check_row(const uint8_t *data, size_t n, bool valid)
{
    static const char *const paths[] = {"text", "a", "a.b", "a\\.b", "", "b.a.a"};
    enum { N = sizeof paths / sizeof *paths };
    struct lk_row_reader *reader = lk_row_reader_new(paths, N);
    struct lk_err err;
    bool mark = n >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    bool good = lk_row_read(reader, data, n, &err) == LK_OK;

    LK_CHECK(good == (valid && !mark));
    for (size_t i = 0; good && i < N; i++) {
        const struct lk_row_field *field = lk_row_field(reader, i);
        if (!field->found)
            continue;
        LK_CHECK(field->at < n);
        LK_CHECK(field->n == 0 || lk_utf8_valid_prefix(field->bytes, field->n) == field->n);
    }
    lk_row_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *exact = lk_fuzz_copy(data, n);
    size_t skipped = 0, read = 0;
    bool valid = skips(exact, n, &skipped);

    LK_CHECK(reads(exact, n, &read) == valid);
    LK_CHECK(!valid || (skipped == n && read == n));
    check_row(exact, n, valid);
    free(exact);
    return 0;
}
