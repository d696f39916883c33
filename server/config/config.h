/*
 * The configuration: one YAML file → the recipes of its streams and the runtime settings.
 *
 * One table of keys (config/keys.c) drives parsing, defaults, ranges, error texts, suggestions and
 * the reference. Everything is checked that the file alone can tell; whether its paths exist is not
 * (`lanekeeper config check` does that). Nothing is ignored: a key that has no effect is an error,
 * or, for a dataset of weight 0, a note.
 *
 * Errors are INVALID_ARGUMENT, "file:line:column: key.path: expected …, found …; did you mean …?"
 * (NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE when the file cannot be read).
 */
#ifndef LK_CONFIG_CONFIG_H
#define LK_CONFIG_CONFIG_H

#include "base/mem.h"
#include "base/status.h"
#include "config/runtime.h"
#include "core/recipe.h"

#include <stddef.h>
#include <stdint.h>

#define LK_STREAMS_MAX 64

struct lk_config {
    char *path;               /* of the file, as given */
    char *dir;                /* its folder, absolute: what relative paths start from */
    uint32_t n_streams;       /* 1… */
    struct lk_recipe *stream; /* in the order of the file; names are unique */
    struct lk_runtime runtime;
    char *notes;              /* lines worth a look, each with its '\n'; "" when there are none */
};

enum lk_code lk_config_load(const char *path, struct lk_config *ret_config, struct lk_err *err);

/* The same from memory. @name stands for the file in messages, @dir for its folder. */
enum lk_code lk_config_parse(const char *name, const void *bytes, size_t n, const char *dir,
                             struct lk_config *ret_config, struct lk_err *err);
void lk_config_done(struct lk_config *config); /* safe on a zeroed one, and twice */

/* The stream of that name, or NULL. */
const struct lk_recipe *lk_config_stream(const struct lk_config *config, const char *name);

/* Where a dataset's index lies: <index_dir>/<dataset>.lkindex. Datasets of one name have one path in
 * all streams, so they share it. Caller frees. */
char *lk_config_index_path(const struct lk_config *config, const struct lk_dataset_recipe *dataset);

/* Appends the reference of all keys, as Markdown. */
void lk_config_reference(struct lk_buf *out);

/* What it is made of: how values are written, with `code` in backticks; and the sections in its order, ""
 * for the file itself, whose keys lk_key_name_in tells. */
const char *lk_config_notation(void);
void lk_config_each_section(void (*each)(void *owner, const char *section), void *owner);

#endif
