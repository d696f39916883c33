/*
 * A YAML file as a small tree that remembers where everything stood.
 *
 * Only what a configuration needs is let in: one document of mappings, lists and plain or quoted
 * scalars, at most LK_YAML_BYTES_MAX long and LK_YAML_DEPTH_MAX deep. Anchors, aliases, merge keys,
 * tags, duplicate keys, keys that are not scalars and NULs are refused, so the tree is never larger
 * than the file and means what it seems to mean. Scalars stay text: their types are the keys' affair.
 */
#ifndef LK_CONFIG_YAML_H
#define LK_CONFIG_YAML_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_YAML_BYTES_MAX (1u << 20)
#define LK_YAML_DEPTH_MAX 16
#define LK_YAML_ENTRIES_MAX 8192 /* of one mapping or list */

enum lk_yaml_kind { LK_YAML_SCALAR, LK_YAML_MAP, LK_YAML_LIST };

struct lk_yaml {
    enum lk_yaml_kind kind;
    uint32_t line, column; /* of the value, from 1 */
    bool quoted;           /* a scalar in quotes or a block scalar: text, whatever it looks like */
    char *text;            /* of a scalar, NUL-terminated UTF-8; NULL for the others */
    char *key;             /* of an entry of a mapping; NULL in lists and at the root */
    uint32_t key_line, key_column;
    uint32_t key_hash;
    uint32_t n;            /* entries or elements, in the order of the file */
    uint32_t cap;
    struct lk_yaml *item;
};

/* @name is for messages: "name:line:column: …". A byte-order mark is skipped. INVALID_ARGUMENT. */
enum lk_code lk_yaml_parse(const char *name, const void *bytes, size_t n, struct lk_yaml *ret_root,
                           struct lk_err *err);
void lk_yaml_done(struct lk_yaml *node); /* frees what it holds; safe on a zeroed one */

/* The entry of a mapping with this key, or NULL. */
const struct lk_yaml *lk_yaml_get(const struct lk_yaml *map, const char *key);

#endif
