#include "config/section.h"

#include "config/scalar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 60 /* bytes of a text that messages repeat */
#define KEYS_MAX 128

void lk_reading_done(struct lk_reading *r)
{
    lk_buf_done(&r->path);
    lk_buf_done(&r->notes);
}

/* Text from the file, fit for a terminal: bounded, without control characters. */
static void put_shown(struct lk_buf *out, const char *text)
{
    size_t n = strlen(text);
    size_t shown = n > SHOWN_MAX ? SHOWN_MAX : n;
    while (shown < n && shown > 0 && ((uint8_t)text[shown] & 0xC0) == 0x80)
        shown--; /* not in the middle of a character */
    for (size_t i = 0; i < shown; i++) {
        char c = (char)((uint8_t)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i]);
        lk_buf_put(out, &c, 1);
    }
    if (shown < n)
        lk_buf_puts(out, "…");
}

size_t lk_path_push(struct lk_reading *r, const char *key)
{
    size_t mark = r->path.len;
    if (mark > 0)
        lk_buf_puts(&r->path, ".");
    put_shown(&r->path, key);
    return mark;
}

size_t lk_path_push_index(struct lk_reading *r, uint32_t index)
{
    size_t mark = r->path.len;
    lk_buf_putf(&r->path, "[%u]", index);
    return mark;
}

void lk_path_pop(struct lk_reading *r, size_t mark)
{
    r->path.len = mark;
}

static void put_place(struct lk_reading *r, struct lk_buf *out, uint32_t line, uint32_t column)
{
    lk_buf_putf(out, "%s:%u:%u: ", r->name, line, column);
    lk_buf_put(out, r->path.data, r->path.len);
    if (r->path.len > 0)
        lk_buf_puts(out, ": ");
}

static enum lk_code fail_at(struct lk_reading *r, uint32_t line, uint32_t column,
                            const char *format, va_list args) __attribute__((format(printf, 4, 0)));

static enum lk_code fail_at(struct lk_reading *r, uint32_t line, uint32_t column,
                            const char *format, va_list args)
{
    char text[LK_ERR_TEXT_MAX];
    struct lk_buf place = {0};
    (void)vsnprintf(text, sizeof text, format, args);
    put_place(r, &place, line, column);
    (void)lk_fail(r->err, LK_INVALID_ARGUMENT, "%s%s", lk_buf_cstr(&place), text);
    lk_buf_done(&place);
    return LK_INVALID_ARGUMENT;
}

enum lk_code lk_read_fail(struct lk_reading *r, const struct lk_yaml *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum lk_code code = fail_at(r, at->line, at->column, format, args);
    va_end(args);
    return code;
}

enum lk_code lk_read_fail_key(struct lk_reading *r, const struct lk_yaml *at, const char *format,
                              ...)
{
    va_list args;
    va_start(args, format);
    bool has_key = at->key != NULL;
    enum lk_code code = fail_at(r, has_key ? at->key_line : at->line,
                                has_key ? at->key_column : at->column, format, args);
    va_end(args);
    return code;
}

void lk_read_note(struct lk_reading *r, const struct lk_yaml *at, const char *format, ...)
{
    char text[LK_ERR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_place(r, &r->notes, at->line, at->column);
    lk_buf_putf(&r->notes, "%s\n", text);
}

static void put_found(struct lk_buf *out, const struct lk_yaml *node)
{
    if (node->kind == LK_YAML_MAP) {
        lk_buf_puts(out, "a mapping");
    } else if (node->kind == LK_YAML_LIST) {
        lk_buf_puts(out, "a list");
    } else if (node->text[0] == '\0' && !node->quoted) {
        lk_buf_puts(out, "nothing");
    } else {
        lk_buf_puts(out, node->quoted ? "the quoted text \"" : "\"");
        put_shown(out, node->text);
        lk_buf_puts(out, "\"");
    }
}

enum lk_code lk_read_expected(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, const char *problem)
{
    struct lk_buf text = {0};
    lk_buf_puts(&text, "expected ");
    lk_key_put_expected(&text, key);
    lk_buf_puts(&text, ", found ");
    put_found(&text, node);
    if (problem != NULL)
        lk_buf_putf(&text, " (%s)", problem);
    if (key->choices != NULL && node->kind == LK_YAML_SCALAR)
        lk_word_put_suggestion(&text, key->choices, node->text);
    enum lk_code code = lk_read_fail(r, node, "%s", lk_buf_cstr(&text));
    lk_buf_done(&text);
    return code;
}

/* A leading "../" is taken off together with the end of an absolute @dir, which has no links in it:
 * messages read better, and sockets have little room for their paths. */
char *lk_path_resolve(const char *dir, const char *path)
{
    if (path[0] == '/' || dir == NULL || dir[0] == '\0')
        return lk_strdup(path);
    size_t n = strlen(dir);
    while (dir[0] == '/') {
        while (n > 0 && dir[n - 1] == '/')
            n--;
        if (strncmp(path, "./", 2) == 0) {
            path += 2;
        } else if (strncmp(path, "../", 3) == 0) {
            path += 3;
            while (n > 0 && dir[n - 1] != '/')
                n--;
        } else {
            break;
        }
    }
    return lk_format("%.*s%s%s", (int)n, dir, n > 0 && dir[n - 1] == '/' ? "" : "/", path);
}

/* ---- one value by its type ---- */

static void store(const struct lk_key *key, void *object, const void *value, size_t n)
{
    memcpy((char *)object + key->offset, value, n);
}

static void store_text(const struct lk_key *key, void *object, char *text)
{
    char *old;
    memcpy(&old, (char *)object + key->offset, sizeof old);
    free(old);
    store(key, object, &text, sizeof text);
}

static const char *number_of(const struct lk_key *key, const char *text, uint64_t *ret_value)
{
    switch (key->type) {
    case LK_KEY_SIZE:
        return lk_scalar_size(text, ret_value);
    case LK_KEY_DURATION:
        return lk_scalar_duration(text, ret_value);
    case LK_KEY_WEIGHT:
        return lk_scalar_weight(text, ret_value);
    default:
        return lk_scalar_integer(text, ret_value);
    }
}

static enum lk_code read_number(struct lk_reading *r, const struct lk_key *key,
                                const struct lk_yaml *node, void *object)
{
    uint64_t value = 0;
    if (key->word != NULL && strcmp(node->text, key->word) == 0) {
        value = key->word_value;
    } else {
        if (node->quoted)
            return lk_read_expected(r, key, node, "numbers are written without quotes");
        const char *problem = number_of(key, node->text, &value);
        if (problem != NULL)
            return lk_read_expected(r, key, node, problem);
        if (value < key->min || value > key->max)
            return lk_read_expected(r, key, node, value < key->min ? "too small" : "too large");
    }
    if (key->type == LK_KEY_U32 || key->type == LK_KEY_DURATION) {
        uint32_t narrow = (uint32_t)value; /* the row's max fits */
        store(key, object, &narrow, sizeof narrow);
    } else {
        store(key, object, &value, sizeof value);
    }
    return LK_OK;
}

static enum lk_code read_bool(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, void *object)
{
    bool value = strcmp(node->text, "true") == 0;
    if (node->quoted || (!value && strcmp(node->text, "false") != 0))
        return lk_read_expected(r, key, node, NULL);
    store(key, object, &value, sizeof value);
    return LK_OK;
}

static enum lk_code read_choice(struct lk_reading *r, const struct lk_key *key,
                                const struct lk_yaml *node, void *object)
{
    for (unsigned i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(node->text, key->choices[i]) != 0)
            continue;
        bool on = i == 1;
        if (key->type == LK_KEY_SWITCH)
            store(key, object, &on, sizeof on);
        else
            store(key, object, &i, sizeof i);
        return LK_OK;
    }
    return lk_read_expected(r, key, node, NULL);
}

/* A dotted path has no empty part; "\." is a point inside one. */
static const char *field_problem(const char *text)
{
    size_t part = 0;
    for (const char *p = text;; p++) {
        if (*p == '\\') {
            if (p[1] != '.' && p[1] != '\\')
                return "a backslash stands before a point or another backslash only";
            part++;
            p++;
        } else if (*p == '.' || *p == '\0') {
            if (part == 0)
                return "a part of the path is empty";
            part = 0;
        } else {
            part++;
        }
        if (*p == '\0')
            return NULL;
    }
}

static enum lk_code read_text(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, void *object)
{
    size_t n = strlen(node->text);
    if (n == 0 && !node->quoted)
        return lk_read_expected(r, key, node, NULL);
    if (n < key->min || n > key->max)
        return lk_read_expected(r, key, node, n < key->min ? "too short" : "too long");
    const char *problem = key->type == LK_KEY_FIELD ? field_problem(node->text) : NULL;
    if (problem != NULL)
        return lk_read_expected(r, key, node, problem);
    if (key->type == LK_KEY_PATH)
        store_text(key, object, lk_path_resolve(r->dir, node->text));
    else
        store_text(key, object, lk_strdup(node->text));
    return LK_OK;
}

static enum lk_code read_typed(struct lk_reading *r, const struct lk_key *key,
                               const struct lk_yaml *node, void *object)
{
    if (node->kind != LK_YAML_SCALAR)
        return lk_read_expected(r, key, node, NULL);
    switch (key->type) {
    case LK_KEY_BOOL:
        return read_bool(r, key, node, object);
    case LK_KEY_CHOICE:
    case LK_KEY_SWITCH:
        return read_choice(r, key, node, object);
    case LK_KEY_TEXT:
    case LK_KEY_FIELD:
    case LK_KEY_PATH:
        return read_text(r, key, node, object);
    default:
        return read_number(r, key, node, object);
    }
}

enum lk_code lk_read_value(struct lk_reading *r, const struct lk_key *key,
                           const struct lk_yaml *node, void *object)
{
    if (key->type == LK_KEY_SECTION) {
        if (node->kind != LK_YAML_MAP)
            return lk_read_expected(r, key, node, NULL);
        return lk_read_section(r, key->path, node, node, object);
    }
    if (key->type == LK_KEY_OWN)
        return key->read(r, key, node, object);
    return read_typed(r, key, node, object);
}

/* ---- a section ---- */

static enum lk_code fail_unknown(struct lk_reading *r, const char *section,
                                 const struct lk_yaml *entry)
{
    struct lk_buf hint = {0};
    lk_key_put_suggestion(&hint, section, entry->key);
    enum lk_code code = lk_read_fail_key(r, entry, "unknown key%s", lk_buf_cstr(&hint));
    lk_buf_done(&hint);
    return code;
}

static enum lk_code read_entries(struct lk_reading *r, const char *section,
                                 const struct lk_yaml *node, void *object, bool *seen)
{
    size_t n_keys;
    const struct lk_key *keys = lk_keys(&n_keys);
    for (uint32_t i = 0; i < node->n; i++) {
        const struct lk_yaml *entry = &node->item[i];
        size_t mark = lk_path_push(r, entry->key);
        size_t k = lk_key_find(section, entry->key);
        if (k == n_keys)
            return fail_unknown(r, section, entry);
        seen[k] = true;
        LK_TRY(lk_read_value(r, &keys[k], entry, object));
        lk_path_pop(r, mark);
    }
    return LK_OK;
}

/* A default is read like any other value, so the table cannot promise one thing and do another. */
static enum lk_code read_absent(struct lk_reading *r, const struct lk_key *key,
                                const struct lk_yaml *at, void *object)
{
    if (key->required)
        return lk_read_fail_key(r, at, "missing: %s", key->help);
    if (key->type == LK_KEY_SECTION)
        return lk_read_section(r, key->path, NULL, at, object);
    if (key->def == NULL)
        return LK_OK;
    struct lk_yaml node = {.kind = LK_YAML_SCALAR, .line = at->line, .column = at->column};
    node.text = lk_strdup(key->def);
    enum lk_code code = lk_read_value(r, key, &node, object);
    lk_yaml_done(&node);
    return code;
}

enum lk_code lk_read_section(struct lk_reading *r, const char *section, const struct lk_yaml *node,
                             const struct lk_yaml *at, void *object)
{
    size_t n_keys;
    const struct lk_key *keys = lk_keys(&n_keys);
    bool seen[KEYS_MAX] = {false};
    LK_CHECK(n_keys <= KEYS_MAX);
    if (node != NULL)
        LK_TRY(read_entries(r, section, node, object, seen));
    for (size_t k = 0; k < n_keys; k++) {
        const char *name = lk_key_name_in(&keys[k], section);
        if (name == NULL || seen[k])
            continue;
        size_t mark = lk_path_push(r, name);
        LK_TRY(read_absent(r, &keys[k], at, object));
        lk_path_pop(r, mark);
    }
    return LK_OK;
}

enum lk_code lk_read_name(struct lk_reading *r, const struct lk_yaml *node)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(node->key);
    if (n == 0 || n > 64 || strspn(node->key, allowed) != n || node->key[0] == '.')
        return lk_read_fail_key(r, node,
                                "expected a name of 1 to 64 letters, digits, \"_\", \"-\" and "
                                "\".\", not starting with a point");
    return LK_OK;
}
