#include "op/tokenise/parse.h"

/* ---- where we are ---- */

size_t lk_path_key(struct lk_load *load, const uint8_t *key, size_t n)
{
    size_t before = load->path.len;
    bool plain = n > 0 && n < 64;

    for (size_t i = 0; i < n && plain; i++)
        plain = (key[i] >= 'a' && key[i] <= 'z') || (key[i] >= 'A' && key[i] <= 'Z') ||
                key[i] == '_';
    if (plain) {
        lk_buf_puts(&load->path, ".");
        lk_buf_put(&load->path, key, n);
        return before;
    }
    lk_buf_puts(&load->path, "[");
    lk_json_quote(&load->path, key, n < 64 ? n : 64);
    lk_buf_puts(&load->path, "]");
    return before;
}

size_t lk_path_index(struct lk_load *load, size_t index)
{
    size_t before = load->path.len;
    lk_buf_putf(&load->path, "[%zu]", index);
    return before;
}

enum lk_code lk_unimplemented(struct lk_err *err, const char *what)
{
    return lk_fail(err, LK_UNIMPLEMENTED, "%s is not implemented", what);
}

/* ---- values ---- */

enum lk_code lk_expect(struct lk_load *load, enum lk_json_type want, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;

    LK_TRY(lk_json_peek(&load->json, &type, err));
    if (type != want)
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected %s, found %s", lk_json_type_name(want),
                       lk_json_type_name(type));
    return LK_OK;
}

/* Is the value null? Then it is read. */
enum lk_code lk_read_null(struct lk_load *load, bool *ret_null, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;

    LK_TRY(lk_json_peek(&load->json, &type, err));
    if (type == LK_JSON_NULL)
        LK_TRY(lk_json_skip(&load->json, err));
    *ret_null = type == LK_JSON_NULL;
    return LK_OK;
}

enum lk_code lk_read_skip(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_json_skip(&load->json, err);
}

enum lk_code lk_read_flag(struct lk_load *load, void *to, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;

    LK_TRY(lk_json_peek(&load->json, &type, err));
    if (type != LK_JSON_TRUE && type != LK_JSON_FALSE)
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected true or false, found %s",
                       lk_json_type_name(type));
    return lk_json_bool(&load->json, to, err);
}

/* Remembers where a value is, for later. */
enum lk_code lk_read_mark(struct lk_load *load, void *to, struct lk_err *err)
{
    size_t *at = to;
    *at = load->json.at;
    return lk_json_skip(&load->json, err);
}

enum lk_code lk_read_word(struct lk_load *load, void *to, struct lk_err *err)
{
    const uint8_t *text;
    size_t n = 0;

    LK_TRY(lk_expect(load, LK_JSON_STRING, err));
    LK_TRY(lk_json_string(&load->json, &text, &n, err));
    n = n < LK_TYPE_MAX - 1 ? n : LK_TYPE_MAX - 1;
    memcpy(to, text, n);
    ((char *)to)[n] = '\0';
    return LK_OK;
}

enum lk_code lk_read_text(struct lk_load *load, void *to, struct lk_err *err)
{
    struct lk_text *copy = to;
    const uint8_t *text;
    size_t n = 0;

    LK_TRY(lk_expect(load, LK_JSON_STRING, err));
    LK_TRY(lk_json_string(&load->json, &text, &n, err));
    copy->text = lk_alloc(n + 1);
    memcpy(copy->text, text, n);
    copy->n = n;
    return LK_OK;
}

/* ---- objects ---- */

static const struct lk_member *find_member(const struct lk_member *members, size_t n, const uint8_t *key,
                                        size_t key_n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(members[i].key) == key_n && memcmp(members[i].key, key, key_n) == 0)
            return &members[i];
    return NULL;
}

static enum lk_code check_required(const struct lk_member *members, size_t n, uint32_t seen,
                                   struct lk_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (members[i].required && (seen >> i & 1) == 0)
            return lk_fail(err, LK_INVALID_ARGUMENT, "expected a key \"%s\"", members[i].key);
    return LK_OK;
}

/* Reads an object whose keys are all in the table. */
enum lk_code lk_read_object(struct lk_load *load, const struct lk_member *members, size_t n, void *to,
                                struct lk_err *err)
{
    const uint8_t *key = NULL;
    size_t key_n = 0;
    uint32_t seen = 0;
    bool more = false;

    LK_TRY(lk_expect(load, LK_JSON_OBJECT, err));
    LK_TRY(lk_json_enter(&load->json, err));
    for (;;) {
        LK_TRY(lk_json_next(&load->json, &more, &key, &key_n, err));
        if (!more)
            return check_required(members, n, seen, err);
        size_t before = lk_path_key(load, key, key_n);
        const struct lk_member *member = find_member(members, n, key, key_n);
        if (member == NULL)
            return lk_unimplemented(err, "this key is unknown and");
        if (seen >> (member - members) & 1)
            return lk_fail(err, LK_INVALID_ARGUMENT, "this key is given twice");
        seen |= 1u << (member - members);
        void *field = to != NULL ? (char *)to + member->offset : NULL;
        LK_TRY(member->read(load, field, err));
        load->path.len = before;
    }
}

enum lk_code lk_peek_type(struct lk_load *load, char ret_type[LK_TYPE_MAX], struct lk_err *err)
{
    size_t start = load->json.at, key_n = 0;
    uint32_t depth = load->json.depth;
    const uint8_t *key = NULL;
    bool more = false;

    ret_type[0] = '\0';
    LK_TRY(lk_expect(load, LK_JSON_OBJECT, err));
    LK_TRY(lk_json_enter(&load->json, err));
    for (;;) {
        LK_TRY(lk_json_next(&load->json, &more, &key, &key_n, err));
        if (!more)
            break;
        if (key_n != 4 || memcmp(key, "type", 4) != 0) {
            LK_TRY(lk_json_skip(&load->json, err));
            continue;
        }
        LK_TRY(lk_read_word(load, ret_type, err));
        break; /* the rest may be long; whoever reads it finds a second one */
    }
    load->json.at = start;
    load->json.depth = depth;
    return LK_OK;
}

/* Reads null or a component of a known kind. */
enum lk_code lk_read_component(struct lk_load *load, const char *what, const struct lk_kind *kinds,
                                   size_t n, struct lk_err *err)
{
    char type[LK_TYPE_MAX];
    bool null = false;

    LK_TRY(lk_read_null(load, &null, err));
    if (null)
        return LK_OK;
    LK_TRY(lk_peek_type(load, type, err));
    for (size_t i = 0; i < n; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return kinds[i].read(load, NULL, err);
    return lk_fail(err, LK_UNIMPLEMENTED, "%s of type \"%s\" is not implemented", what, type);
}

/* Reads an array of values. */
enum lk_code lk_read_array(struct lk_load *load, lk_read_fn *read, struct lk_err *err)
{
    bool more = false;

    LK_TRY(lk_expect(load, LK_JSON_ARRAY, err));
    LK_TRY(lk_json_enter(&load->json, err));
    for (size_t index = 0;; index++) {
        LK_TRY(lk_json_next(&load->json, &more, NULL, NULL, err));
        if (!more)
            return LK_OK;
        size_t before = lk_path_index(load, index);
        LK_TRY(read(load, NULL, err));
        load->path.len = before;
    }
}
