/*
 * One pass over the row with a stack of sets: at each depth, which paths still agree with the keys
 * that lead there. A key that no path agrees with has its value read over; so what is not asked for
 * costs its validation only.
 */
#include "op/fields.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct key {
    char *text;
    size_t n;
};

struct path {
    struct key *keys; /* [depth] */
    uint32_t depth;   /* 1… */
};

struct lk_row_reader {
    size_t n;
    struct path *paths;          /* [n] */
    struct lk_row_field *fields; /* [n] */
    struct lk_buf *decoded;      /* [n] where a string's value lies that had escapes */
    uint64_t *alive;             /* [deepest + 1] paths that agree with the keys down to a depth */
    struct lk_json json;
};

/* ---- paths ---- */

static struct path parse_path(const char *text)
{
    struct path path = {.depth = 1};
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '.')
            path.depth++;
    }
    path.keys = lk_zalloc(path.depth, sizeof *path.keys);
    for (uint32_t i = 0; i < path.depth; i++) {
        struct key *key = &path.keys[i];
        key->text = lk_alloc(strlen(text) + 1);
        for (; *text != '\0' && *text != '.'; text++) {
            if (*text == '\\' && text[1] != '\0')
                text++;
            key->text[key->n++] = *text;
        }
        text += *text == '.';
    }
    return path;
}

struct lk_row_reader *lk_row_reader_new(const char *const *paths, size_t n)
{
    struct lk_row_reader *r = lk_zalloc(1, sizeof *r);
    uint32_t deepest = 0;

    LK_CHECK(n > 0 && n <= LK_ROW_FIELDS_MAX);
    r->n = n;
    r->paths = lk_zalloc(n, sizeof *r->paths);
    r->fields = lk_zalloc(n, sizeof *r->fields);
    r->decoded = lk_zalloc(n, sizeof *r->decoded);
    for (size_t i = 0; i < n; i++) {
        r->paths[i] = parse_path(paths[i]);
        deepest = r->paths[i].depth > deepest ? r->paths[i].depth : deepest;
    }
    r->alive = lk_zalloc((size_t)deepest + 1, sizeof *r->alive);
    return r;
}

void lk_row_reader_free(struct lk_row_reader *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; i++) {
        for (uint32_t d = 0; d < r->paths[i].depth; d++)
            free(r->paths[i].keys[d].text);
        free(r->paths[i].keys);
        lk_buf_done(&r->decoded[i]);
    }
    lk_json_done(&r->json);
    free(r->paths);
    free(r->fields);
    free(r->decoded);
    free(r->alive);
    free(r);
}

const struct lk_row_field *lk_row_field(const struct lk_row_reader *r, size_t i)
{
    LK_CHECK(i < r->n);
    return &r->fields[i];
}

/* ---- values ---- */

/* Which of @alive have @key at @depth, and among them those that end with it. */
static uint64_t matching(const struct lk_row_reader *r, uint64_t alive, uint32_t depth,
                         const uint8_t *key, size_t n, uint64_t *ret_ending)
{
    uint64_t found = 0, ending = 0;
    for (; alive != 0; alive &= alive - 1) {
        unsigned i = (unsigned)__builtin_ctzll(alive);
        const struct key *want = &r->paths[i].keys[depth];
        if (want->n != n || memcmp(want->text, key, n) != 0)
            continue;
        found |= 1ull << i;
        if (r->paths[i].depth == depth + 1)
            ending |= 1ull << i;
    }
    *ret_ending = ending;
    return found;
}

static enum lk_code read_string(struct lk_row_reader *r, unsigned field, struct lk_err *err)
{
    struct lk_json *json = &r->json;
    struct lk_row_field *f = &r->fields[field];

    LK_TRY(lk_json_string(json, &f->bytes, &f->n, err));
    if (f->bytes == json->scratch.data) { /* decoded: keep that, and lend the reader another */
        struct lk_buf old = r->decoded[field];
        r->decoded[field] = json->scratch;
        json->scratch = old;
    }
    return LK_OK;
}

/* The value at the cursor belongs to the paths in @ending. An object or array is left unread. */
static enum lk_code read_value(struct lk_row_reader *r, uint64_t ending, enum lk_json_type type,
                               struct lk_err *err)
{
    unsigned first = (unsigned)__builtin_ctzll(ending);
    struct lk_row_field *f = &r->fields[first];

    *f = (struct lk_row_field){.found = true, .type = type, .at = r->json.at};
    if (type == LK_JSON_STRING) {
        LK_TRY(read_string(r, first, err));
    } else if (type != LK_JSON_ARRAY && type != LK_JSON_OBJECT) {
        LK_TRY(lk_json_skip(&r->json, err));
        f->bytes = r->json.text + f->at;
        f->n = r->json.at - f->at;
    }
    for (uint64_t rest = ending & (ending - 1); rest != 0; rest &= rest - 1)
        r->fields[__builtin_ctzll(rest)] = *f; /* the same path was asked for twice */
    return LK_OK;
}

/* One member of an object: @found are the paths that its key agrees with. */
static enum lk_code read_member(struct lk_row_reader *r, uint64_t found, uint64_t ending,
                                uint32_t *depth, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;

    if (found == 0)
        return lk_json_skip(&r->json, err);
    for (uint64_t all = found; all != 0; all &= all - 1) /* an earlier value has lost */
        r->fields[__builtin_ctzll(all)].found = false;
    LK_TRY(lk_json_peek(&r->json, &type, err));
    bool container = type == LK_JSON_OBJECT || type == LK_JSON_ARRAY;
    if (ending != 0)
        LK_TRY(read_value(r, ending, type, err));
    if (type == LK_JSON_OBJECT && found != ending) {
        r->alive[++*depth] = found & ~ending;
        return lk_json_enter(&r->json, err);
    }
    return ending == 0 || container ? lk_json_skip(&r->json, err) : LK_OK;
}

static enum lk_code read_object(struct lk_row_reader *r, struct lk_err *err)
{
    uint32_t depth = 1; /* of objects entered */

    LK_TRY(lk_json_enter(&r->json, err));
    r->alive[1] = r->n == 64 ? UINT64_MAX : (1ull << r->n) - 1;
    while (depth > 0) {
        bool more = false;
        const uint8_t *key = NULL;
        size_t n = 0;
        LK_TRY(lk_json_next(&r->json, &more, &key, &n, err));
        if (!more) {
            depth--;
            continue;
        }
        uint64_t ending, found = matching(r, r->alive[depth], depth - 1, key, n, &ending);
        LK_TRY(read_member(r, found, ending, &depth, err));
    }
    return LK_OK;
}

enum lk_code lk_row_read(struct lk_row_reader *r, const uint8_t *row, size_t bytes,
                         struct lk_err *err)
{
    struct lk_buf scratch = r->json.scratch;
    enum lk_json_type type = LK_JSON_NULL;

    for (size_t i = 0; i < r->n; i++)
        r->fields[i] = (struct lk_row_field){0};
    lk_json_init(&r->json, row, bytes);
    r->json.scratch = scratch;
    if (r->json.at > 0)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "byte 0: a UTF-8 byte-order mark inside the file, expected a value");
    LK_TRY(lk_json_peek(&r->json, &type, err));
    if (type == LK_JSON_OBJECT)
        LK_TRY(read_object(r, err));
    else
        LK_TRY(lk_json_skip(&r->json, err));
    return lk_json_end(&r->json, err);
}
