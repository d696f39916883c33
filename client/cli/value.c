#include "client/cli/value.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum lk_code read_value(struct lk_json *json, unsigned depth, struct value *value,
                               struct lk_err *err);

static enum lk_code read_members(struct lk_json *json, unsigned depth, struct value *value,
                                 struct lk_err *err)
{
    size_t cap = 0;
    if (depth == VALUE_DEPTH_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "nested deeper than %d", VALUE_DEPTH_MAX);
    LK_TRY(lk_json_enter(json, err));
    for (;;) {
        const uint8_t *key = NULL;
        size_t n = 0;
        bool more, object = value->type == LK_JSON_OBJECT;
        LK_TRY(lk_json_next(json, &more, object ? &key : NULL, object ? &n : NULL, err));
        if (!more)
            return LK_OK;
        if (value->n == cap) {
            cap = cap == 0 ? 8 : 2 * cap;
            value->child = lk_resize(value->child, cap, sizeof *value->child);
        }
        struct value *child = &value->child[value->n++];
        *child = (struct value){.key = object ? lk_strndup((const char *)key, n) : NULL};
        LK_TRY(read_value(json, depth + 1, child, err));
    }
}

static enum lk_code read_value(struct lk_json *json, unsigned depth, struct value *value,
                               struct lk_err *err)
{
    const uint8_t *text = NULL;
    size_t n = 0;
    LK_TRY(lk_json_peek(json, &value->type, err));
    switch (value->type) {
    case LK_JSON_STRING:
        LK_TRY(lk_json_string(json, &text, &n, err));
        break;
    case LK_JSON_NUMBER:
        LK_TRY(lk_json_number(json, &text, &n, err));
        break;
    case LK_JSON_ARRAY:
    case LK_JSON_OBJECT:
        return read_members(json, depth, value, err);
    case LK_JSON_NULL:
    case LK_JSON_FALSE:
    case LK_JSON_TRUE:
        return lk_json_skip(json, err);
    }
    value->text = lk_strndup((const char *)text, n);
    return LK_OK;
}

enum lk_code value_parse(const char *text, struct value *ret_value, struct lk_err *err)
{
    struct lk_json json;
    struct value value = {.key = NULL};
    size_t n = strlen(text);
    if (n > VALUE_BYTES_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%zu bytes, at most %u", n, VALUE_BYTES_MAX);
    lk_json_init(&json, text, n);
    enum lk_code code = read_value(&json, 0, &value, err);
    if (code == LK_OK)
        code = lk_json_end(&json, err);
    lk_json_done(&json);
    if (code == LK_OK)
        *ret_value = value;
    else
        value_done(&value);
    return code;
}

void value_done(struct value *value)
{
    for (size_t i = 0; i < value->n; i++)
        value_done(&value->child[i]);
    free(value->child);
    free(value->text);
    free(value->key);
    *value = (struct value){.key = NULL};
}

const struct value *value_get(const struct value *value, const char *key)
{
    static const struct value none = {.type = LK_JSON_NULL};
    for (size_t i = 0; value->type == LK_JSON_OBJECT && i < value->n; i++) {
        if (strcmp(value->child[i].key, key) == 0)
            return &value->child[i];
    }
    return &none;
}

uint64_t value_u64(const struct value *value, const char *key)
{
    const struct value *of = value_get(value, key);
    if (of->type != LK_JSON_NUMBER || of->text[strspn(of->text, "0123456789")] != '\0')
        return 0;
    errno = 0;
    unsigned long long n = strtoull(of->text, NULL, 10);
    return errno == 0 ? n : 0;
}

bool value_true(const struct value *value, const char *key)
{
    return value_get(value, key)->type == LK_JSON_TRUE;
}

const char *value_text(const struct value *value, const char *key)
{
    const struct value *of = value_get(value, key);
    return of->type == LK_JSON_STRING ? of->text : "";
}
