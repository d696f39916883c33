#include "config/yaml.h"

#include "base/digest.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct loader {
    yaml_parser_t parser;
    const char *name;
    const uint8_t *bytes;
    size_t n;
    struct lk_err *err;
};

static enum lk_code read_node(struct loader *l, yaml_event_t *event, unsigned depth,
                              struct lk_yaml *node);

static enum lk_code fail_at(struct loader *l, yaml_mark_t mark, const char *text)
{
    return lk_fail(l->err, LK_INVALID_ARGUMENT, "%s:%zu:%zu: %s", l->name, mark.line + 1,
                   mark.column + 1, text);
}

/* libyaml gives only an offset for bytes that are no text: count the lines before it. */
static enum lk_code fail_at_offset(struct loader *l, size_t offset)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < offset && i < l->n; i++) {
        if (l->bytes[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return lk_fail(l->err, LK_INVALID_ARGUMENT,
                   "%s:%zu:%zu: expected UTF-8 text, found a byte that cannot be part of it (%s)",
                   l->name, line, offset - start + 1,
                   l->parser.problem != NULL ? l->parser.problem : "unknown");
}

static bool is_tab_at(const struct loader *l, yaml_mark_t mark)
{
    size_t at = 0;
    for (size_t line = 0; line < mark.line; line++) {
        const uint8_t *end = memchr(l->bytes + at, '\n', l->n - at);
        if (end == NULL)
            return false;
        at = (size_t)(end - l->bytes) + 1;
    }
    return mark.column < l->n - at && l->bytes[at + mark.column] == '\t';
}

static enum lk_code fail_parser(struct loader *l)
{
    yaml_parser_t *p = &l->parser;
    switch (p->error) {
    case YAML_MEMORY_ERROR:
        return lk_fail(l->err, LK_RESOURCE_EXHAUSTED, "%s: out of memory", l->name);
    case YAML_READER_ERROR:
        return fail_at_offset(l, p->problem_offset);
    default:
        break;
    }
    if (is_tab_at(l, p->problem_mark))
        return fail_at(l, p->problem_mark, "found a tab: YAML is indented with spaces");
    return lk_fail(l->err, LK_INVALID_ARGUMENT, "%s:%zu:%zu: not valid YAML: %s%s%s", l->name,
                   p->problem_mark.line + 1, p->problem_mark.column + 1,
                   p->context != NULL ? p->context : "", p->context != NULL ? ", " : "",
                   p->problem != NULL ? p->problem : "unknown problem");
}

static enum lk_code next_event(struct loader *l, yaml_event_t *event)
{
    if (!yaml_parser_parse(&l->parser, event))
        return fail_parser(l);
    return LK_OK;
}

/* The next event has to be of this type and carries nothing that is kept. */
static enum lk_code pass_event(struct loader *l, yaml_event_type_t type, const char *otherwise)
{
    yaml_event_t event;
    LK_TRY(next_event(l, &event));
    bool as_expected = event.type == type;
    yaml_mark_t mark = event.start_mark;
    yaml_event_delete(&event);
    return as_expected ? LK_OK : fail_at(l, mark, otherwise);
}

static enum lk_code refuse_properties(struct loader *l, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return fail_at(l, event->start_mark, "aliases (*name) are not supported: write it out");
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        return fail_at(l, event->start_mark, "expected a value");
    }
    if (anchor != NULL)
        return fail_at(l, event->start_mark, "anchors (&name) are not supported: write it out");
    if (tag != NULL)
        return fail_at(l, event->start_mark, "tags (!name) are not supported: remove it");
    return LK_OK;
}

static enum lk_code take_text(struct loader *l, const yaml_event_t *event, char **ret_text)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    if (memchr(value, '\0', n) != NULL)
        return fail_at(l, event->start_mark, "expected text, found one with a NUL in it");
    *ret_text = lk_strndup(value, n);
    return LK_OK;
}

static enum lk_code append(struct loader *l, const yaml_event_t *event, struct lk_yaml *node,
                           struct lk_yaml **ret_item)
{
    if (node->n == LK_YAML_ENTRIES_MAX)
        return fail_at(l, event->start_mark, "too many entries (8192 at most)");
    if (node->n == node->cap) {
        node->cap = node->cap == 0 ? 8 : node->cap * 2;
        node->item = lk_resize(node->item, node->cap, sizeof *node->item);
    }
    *ret_item = &node->item[node->n++];
    **ret_item = (struct lk_yaml){0};
    return LK_OK;
}

/* Entries are capped and hashes are compared first, so that a hostile file costs little. */
static const struct lk_yaml *find_hashed(const struct lk_yaml *map, uint32_t n, const char *key,
                                         uint32_t hash)
{
    for (uint32_t i = 0; i < n; i++) {
        if (map->item[i].key_hash == hash && strcmp(map->item[i].key, key) == 0)
            return &map->item[i];
    }
    return NULL;
}

/* Reads the key event into a new last entry of @map. */
static enum lk_code read_key(struct loader *l, const yaml_event_t *event, struct lk_yaml *map,
                             struct lk_yaml **ret_item)
{
    struct lk_yaml *item;
    LK_TRY(refuse_properties(l, event));
    if (event->type != YAML_SCALAR_EVENT)
        return fail_at(l, event->start_mark, "expected a key, found a list or a mapping");
    LK_TRY(append(l, event, map, &item));
    item->key_line = (uint32_t)event->start_mark.line + 1;
    item->key_column = (uint32_t)event->start_mark.column + 1;
    LK_TRY(take_text(l, event, &item->key));
    item->key_hash = lk_hash32(item->key, strlen(item->key));
    if (strcmp(item->key, "<<") == 0)
        return fail_at(l, event->start_mark, "merge keys (<<) are not supported: write it out");
    const struct lk_yaml *first = find_hashed(map, map->n - 1, item->key, item->key_hash);
    if (first != NULL)
        return lk_fail(l->err, LK_INVALID_ARGUMENT,
                       "%s:%u:%u: key \"%.80s\" is given twice (first on line %u)", l->name,
                       item->key_line, item->key_column, item->key, first->key_line);
    *ret_item = item;
    return LK_OK;
}

static enum lk_code read_map(struct loader *l, unsigned depth, struct lk_yaml *node)
{
    for (;;) {
        yaml_event_t event;
        struct lk_yaml *item = NULL;
        LK_TRY(next_event(l, &event));
        bool end = event.type == YAML_MAPPING_END_EVENT;
        enum lk_code code = end ? LK_OK : read_key(l, &event, node, &item);
        yaml_event_delete(&event);
        if (end || code != LK_OK)
            return code;
        LK_TRY(next_event(l, &event));
        LK_TRY(read_node(l, &event, depth + 1, item));
    }
}

static enum lk_code read_list(struct loader *l, unsigned depth, struct lk_yaml *node)
{
    for (;;) {
        yaml_event_t event;
        struct lk_yaml *item;
        LK_TRY(next_event(l, &event));
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return LK_OK;
        }
        enum lk_code code = append(l, &event, node, &item);
        if (code != LK_OK) {
            yaml_event_delete(&event);
            return code;
        }
        LK_TRY(read_node(l, &event, depth + 1, item));
    }
}

static enum lk_code read_value(struct loader *l, const yaml_event_t *event, unsigned depth,
                               struct lk_yaml *node)
{
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    LK_TRY(refuse_properties(l, event));
    if (depth > LK_YAML_DEPTH_MAX)
        return fail_at(l, event->start_mark, "nested too deeply (16 levels at most)");
    if (event->type == YAML_SCALAR_EVENT) {
        node->kind = LK_YAML_SCALAR;
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        return take_text(l, event, &node->text);
    }
    node->kind = event->type == YAML_MAPPING_START_EVENT ? LK_YAML_MAP : LK_YAML_LIST;
    return node->kind == LK_YAML_MAP ? read_map(l, depth, node) : read_list(l, depth, node);
}

/* Consumes @event. */
static enum lk_code read_node(struct loader *l, yaml_event_t *event, unsigned depth,
                              struct lk_yaml *node)
{
    enum lk_code code = read_value(l, event, depth, node);
    yaml_event_delete(event);
    return code;
}

static enum lk_code read_document(struct loader *l, struct lk_yaml *root)
{
    yaml_event_t event;
    LK_TRY(pass_event(l, YAML_STREAM_START_EVENT, "expected a YAML document"));
    LK_TRY(next_event(l, &event));
    bool empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (empty)
        return lk_fail(l->err, LK_INVALID_ARGUMENT,
                       "%s: the file is empty: expected the keys \"streams\" and \"runtime\"",
                       l->name);
    LK_TRY(next_event(l, &event));
    LK_TRY(read_node(l, &event, 1, root));
    LK_TRY(pass_event(l, YAML_DOCUMENT_END_EVENT, "expected the end of the document"));
    return pass_event(l, YAML_STREAM_END_EVENT,
                      "a second document begins here: expected one document a file");
}

enum lk_code lk_yaml_parse(const char *name, const void *bytes, size_t n, struct lk_yaml *ret_root,
                           struct lk_err *err)
{
    struct loader l = {.name = name, .bytes = bytes, .n = n, .err = err};
    struct lk_yaml root = {0};

    if (n > LK_YAML_BYTES_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected at most 1MiB, found more", name);
    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        l.bytes += 3;
        l.n -= 3;
    }
    if (!yaml_parser_initialize(&l.parser))
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    /* Said here, or libyaml would take the first bytes for a mark of UTF-16. */
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, l.n > 0 ? l.bytes : (const uint8_t *)"", l.n);
    enum lk_code code = read_document(&l, &root);
    yaml_parser_delete(&l.parser);
    if (code == LK_OK)
        *ret_root = root;
    else
        lk_yaml_done(&root);
    return code;
}

void lk_yaml_done(struct lk_yaml *node)
{
    for (uint32_t i = 0; i < node->n; i++)
        lk_yaml_done(&node->item[i]); /* at most LK_YAML_DEPTH_MAX deep */
    free(node->item);
    free(node->text);
    free(node->key);
    *node = (struct lk_yaml){0};
}

const struct lk_yaml *lk_yaml_get(const struct lk_yaml *map, const char *key)
{
    if (map == NULL || map->kind != LK_YAML_MAP)
        return NULL;
    return find_hashed(map, map->n, key, lk_hash32(key, strlen(key)));
}
