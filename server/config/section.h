/*
 * Reading a tree of YAML by the table of keys, and failing with the place, the key and the reason.
 */
#ifndef LK_CONFIG_SECTION_H
#define LK_CONFIG_SECTION_H

#include "base/mem.h"
#include "base/status.h"
#include "config/keys.h"
#include "config/yaml.h"

#include <stddef.h>

struct lk_reading {
    const char *name;     /* of the file, for messages */
    const char *dir;      /* what relative paths start from */
    struct lk_buf path;   /* the key path being read: "streams.pretrain.lanes" */
    struct lk_buf notes;
    struct lk_err *err;
};

void lk_reading_done(struct lk_reading *r);

/* Steps into a key and back. */
size_t lk_path_push(struct lk_reading *r, const char *key);
size_t lk_path_push_index(struct lk_reading *r, uint32_t index);
void lk_path_pop(struct lk_reading *r, size_t mark);

/* "file:line:column: key.path: <text>", at a value or at its key. INVALID_ARGUMENT. */
enum lk_code lk_read_fail(struct lk_reading *r, const struct lk_yaml *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum lk_code lk_read_fail_key(struct lk_reading *r, const struct lk_yaml *at, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

/* "expected <what the table says>, found <what is there> (<problem>)"; @problem may be NULL. */
enum lk_code lk_read_expected(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, const char *problem);

/* A line for the notes, with the place before it. */
void lk_read_note(struct lk_reading *r, const struct lk_yaml *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Reads a mapping into @object by the rows of @section; keys that are not there get their defaults.
 * A @node of NULL is a section that is left out; @at is the place to name then.
 */
enum lk_code lk_read_section(struct lk_reading *r, const char *section, const struct lk_yaml *node,
                             const struct lk_yaml *at, void *object);

/* Reads one value by its row, whichever section it is in. */
enum lk_code lk_read_value(struct lk_reading *r, const struct lk_key *key,
                           const struct lk_yaml *node, void *object);

/* [A-Za-z0-9._-]{1,64}, not starting with a point; otherwise fails at the node's key. */
enum lk_code lk_read_name(struct lk_reading *r, const struct lk_yaml *node);

/* @path itself when it is absolute, else below @dir (absolute and without links, or relative).
 * Caller frees. */
char *lk_path_resolve(const char *dir, const char *path);

#endif
