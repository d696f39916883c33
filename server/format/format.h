/*
 * Reading rows at their places: the bytes of a shard, decompressed where need be, → rows.
 * A format sees files through a struct lk_opener only.
 */
#ifndef LK_FORMAT_FORMAT_H
#define LK_FORMAT_FORMAT_H

#include "base/mem.h"
#include "base/opener.h"
#include "base/status.h"
#include "format/index.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_SHARD_MEMORY_MAX (16u << 20) /* larger decoded shards go to a temporary file */

/*
 * A set of open shards, least recently used ones closed: at most @open_max of them and @cache_bytes
 * of decoded data at once. Plain shards are read in place. Compressed ones are decoded once, as a
 * whole, into memory when small or else an unnamed file in $TMPDIR (or /var/tmp), which the kernel
 * frees whatever happens to the process. For one thread.
 * Descriptors: at most one per open shard, and one more while a shard is decoded.
 */
struct lk_shard_cache;

struct lk_shard_cache *lk_shard_cache_new(struct lk_opener opener, unsigned open_max,
                                          uint64_t cache_bytes);
void lk_shard_cache_free(struct lk_shard_cache *cache);

struct lk_row_span {
    uint64_t row;    /* number within the shard, for messages */
    uint64_t offset;
    uint32_t bytes;
    uint32_t hash;
};

/*
 * Reads rows [0, n) of @rows, all in one shard, in any order of offsets, verifies their hashes, and
 * calls @each in the order given; what it returns other than OK ends the call. @bytes is valid
 * during the call of @each only.
 *
 * A row whose bytes differ from the index, a shard of another size, a broken compressed stream:
 * DATA_LOSS naming shard, row and byte offset. I/O errors: UNAVAILABLE after retries. A shard that
 * is larger than all of @cache_bytes when decoded: RESOURCE_EXHAUSTED with both sizes. A span beyond
 * @data_bytes or LK_ROW_BYTES_MAX: INVALID_ARGUMENT, before anything is allocated.
 */
enum lk_code lk_shard_read_rows(struct lk_shard_cache *cache, const char *root, const char *shard,
                                enum lk_codec codec, uint64_t data_bytes,
                                const struct lk_row_span *rows, uint32_t n,
                                enum lk_code (*each)(void *owner, uint32_t i, const uint8_t *bytes,
                                                     uint32_t n_bytes, struct lk_err *err),
                                void *owner, struct lk_err *err);

#endif
