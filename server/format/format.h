/*
 * Formats: the bytes of a shard → rows → the text of a row. Each is one file and one row in the
 * table (table.c). JSONL is the first; a format sees only a struct lk_source.
 */
#ifndef LK_FORMAT_FORMAT_H
#define LK_FORMAT_FORMAT_H

#include "base/mem.h"
#include "base/source.h"
#include "base/status.h"
#include "format/index.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A shard opened for reading rows at their places. Plain shards are read in place; compressed ones
 * are decoded once into an unlinked temporary file (or memory when small), within @cache_bytes.
 */
struct lk_shard_reader;

/* A set of open shards below one root, least recently used ones closed: at most @open_max files and
 * @cache_bytes of decoded data at once. For one thread. */
struct lk_shard_cache;

struct lk_shard_cache *lk_shard_cache_new(unsigned open_max, uint64_t cache_bytes);
void lk_shard_cache_free(struct lk_shard_cache *cache);

/*
 * Reads rows [0, n) of @places, all in one shard, verifies their hashes, and calls @each in order.
 * A row whose bytes differ from the index is DATA_LOSS naming shard, row and byte offset; I/O errors
 * are UNAVAILABLE after retries. @bytes is valid during the call of @each only.
 */
struct lk_row_span {
    uint64_t row;    /* number within the shard, for messages */
    uint64_t offset;
    uint32_t bytes;
    uint32_t hash;
};

enum lk_code lk_shard_read_rows(struct lk_shard_cache *cache, const char *root, const char *shard,
                                enum lk_codec codec, uint64_t data_bytes,
                                const struct lk_row_span *rows, uint32_t n,
                                enum lk_code (*each)(void *owner, uint32_t i, const uint8_t *bytes,
                                                     uint32_t n_bytes, struct lk_err *err),
                                void *owner, struct lk_err *err);

/*
 * The shards that a dataset path means, sorted by the bytes of their names relative to the root.
 * A directory: every *.jsonl, *.jsonl.gz, *.jsonl.zst (also *.json.gz … no: only these) below it,
 * recursively, without names that begin with a dot; other files are listed in @ret_ignored.
 * A glob: the files it matches; the root is the part before the first wildcard's directory.
 * The same shard twice under two codecs (x.jsonl and x.jsonl.gz) is an error.
 */
struct lk_dataset_files {
    char *root;
    char **names;
    enum lk_codec *codecs;
    uint32_t n;
    char **ignored;
    uint32_t n_ignored;
};

enum lk_code lk_dataset_list(const char *path, struct lk_dataset_files *ret_files,
                             struct lk_err *err);
void lk_dataset_files_done(struct lk_dataset_files *files);

#endif
