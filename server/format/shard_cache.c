#include "base/digest.h"
#include "format/decoded.h"
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

/* Rows are fetched by one read when they and what lies between them are at most this long, … */
enum { RUN_BYTES_MAX = 8 << 20 };
/* … and at least one part in this many of it is wanted. */
enum { RUN_SPARSE = 4 };

/* Shards name each other by their place; place 0 is the list of all, so its ends need no case of their own. */
struct open_shard {
    char *path;
    uint64_t hash;          /* of it */
    enum lk_codec codec;
    struct lk_source *source;
    uint64_t decoded_bytes; /* 0 for plain */
    unsigned chain;         /* the next of its bucket, or of the free places; 0: none */
    unsigned older, newer;  /* by last use */
};

struct lk_shard_cache {
    struct lk_opener opener;
    unsigned open_max;
    uint64_t cache_bytes;
    uint64_t decoded_bytes;    /* of all open shards */
    unsigned n;
    struct open_shard *shards; /* [open_max + 1] */
    unsigned fresh, free;      /* the first place that was never used; of those that were, a free one */
    unsigned *bucket;          /* [buckets] a power of two */
    unsigned buckets;
    struct lk_buf buf;         /* what was read last */
};

struct lk_shard_cache *lk_shard_cache_new(struct lk_opener opener, unsigned open_max,
                                          uint64_t cache_bytes)
{
    struct lk_shard_cache *cache = lk_zalloc(1, sizeof *cache);
    cache->opener = opener;
    cache->open_max = open_max > 0 ? open_max : 1;
    cache->cache_bytes = cache_bytes;
    cache->shards = lk_zalloc((size_t)cache->open_max + 1, sizeof *cache->shards);
    cache->fresh = cache->buckets = 1;
    while (cache->buckets < cache->open_max)
        cache->buckets *= 2;
    cache->bucket = lk_zalloc(cache->buckets, sizeof *cache->bucket);
    return cache;
}

static void list_remove(struct open_shard *shards, unsigned i)
{
    shards[shards[i].older].newer = shards[i].newer;
    shards[shards[i].newer].older = shards[i].older;
}

static void list_append(struct open_shard *shards, unsigned i)
{
    shards[i].older = shards[0].older;
    shards[i].newer = 0;
    shards[shards[i].older].newer = i;
    shards[0].older = i;
}

/* Where the place of a shard stands, or would stand. */
static unsigned *find(const struct lk_shard_cache *cache, const char *path, uint64_t hash, enum lk_codec codec,
                      uint64_t data_bytes)
{
    unsigned *at = &cache->bucket[hash & (cache->buckets - 1)];
    for (; *at != 0; at = &cache->shards[*at].chain) {
        const struct open_shard *shard = &cache->shards[*at];
        if (shard->hash == hash && shard->codec == codec && shard->source->bytes == data_bytes &&
            strcmp(shard->path, path) == 0)
            break;
    }
    return at;
}

static void close_shard(struct lk_shard_cache *cache, unsigned i)
{
    struct open_shard *shard = &cache->shards[i];
    *find(cache, shard->path, shard->hash, shard->codec, shard->source->bytes) = shard->chain;
    list_remove(cache->shards, i);
    cache->decoded_bytes -= shard->decoded_bytes;
    cache->n--;
    lk_source_close(shard->source);
    free(shard->path);
    *shard = (struct open_shard){.chain = cache->free};
    cache->free = i;
}

static void close_oldest(struct lk_shard_cache *cache)
{
    close_shard(cache, cache->shards[0].newer);
}

void lk_shard_cache_free(struct lk_shard_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->n > 0)
        close_oldest(cache);
    free(cache->shards);
    free(cache->bucket);
    lk_buf_done(&cache->buf);
    free(cache);
}

static unsigned free_place(struct lk_shard_cache *cache)
{
    unsigned i = cache->free;
    if (i == 0)
        return cache->fresh++;
    cache->free = cache->shards[i].chain;
    return i;
}

/* Opens the shard for reading its data bytes, decoding it if need be. */
static enum lk_code open_data(struct lk_shard_cache *cache, const char *path, enum lk_codec codec,
                              uint64_t data_bytes, struct lk_source **ret_source,
                              struct lk_err *err)
{
    struct lk_source *stored = NULL, *decoded = NULL;

    LK_TRY(lk_open(cache->opener, path, &stored, err));
    if (codec != LK_CODEC_PLAIN) {
        enum lk_code code = lk_decoded_make(stored, codec, data_bytes, &decoded, err);
        lk_source_close(stored);
        if (code == LK_OK)
            *ret_source = decoded;
        return code;
    }
    if (stored->bytes != data_bytes) {
        uint64_t found = stored->bytes;
        lk_source_close(stored);
        return lk_fail(err, LK_DATA_LOSS,
                       "%s changed since it was indexed: expected %llu bytes, found %llu", path,
                       (unsigned long long)data_bytes, (unsigned long long)found);
    }
    *ret_source = stored;
    return LK_OK;
}

/* The place of an open shard. @path is taken when it is kept, and set to NULL. */
static enum lk_code get_shard(struct lk_shard_cache *cache, char **path, enum lk_codec codec,
                              uint64_t data_bytes, unsigned *ret_place, struct lk_err *err)
{
    uint64_t hash = lk_hash64(*path, strlen(*path), 0);
    unsigned i = *find(cache, *path, hash, codec, data_bytes);
    uint64_t decoded_bytes = codec == LK_CODEC_PLAIN ? 0 : data_bytes;

    if (i != 0) {
        list_remove(cache->shards, i);
    } else {
        if (decoded_bytes > cache->cache_bytes)
            return lk_fail(err, LK_RESOURCE_EXHAUSTED,
                           "%s has %llu bytes when decoded, more than the cache's %llu: raise "
                           "runtime.cache or use smaller shards",
                           *path, (unsigned long long)decoded_bytes,
                           (unsigned long long)cache->cache_bytes);
        while (cache->n == cache->open_max ||
               decoded_bytes > cache->cache_bytes - cache->decoded_bytes)
            close_oldest(cache);
        struct lk_source *source = NULL;
        LK_TRY(open_data(cache, *path, codec, data_bytes, &source, err));
        unsigned *bucket = &cache->bucket[hash & (cache->buckets - 1)];
        i = free_place(cache);
        cache->shards[i] = (struct open_shard){.path = *path,
                                               .hash = hash,
                                               .codec = codec,
                                               .source = source,
                                               .decoded_bytes = decoded_bytes,
                                               .chain = *bucket};
        *bucket = i;
        cache->n++;
        cache->decoded_bytes += decoded_bytes;
        *path = NULL;
    }
    list_append(cache->shards, i);
    *ret_place = i;
    return LK_OK;
}

/* ---- rows ---- */

static enum lk_code check_spans(const char *path, uint64_t data_bytes,
                                const struct lk_row_span *rows, uint32_t n, struct lk_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].bytes > LK_ROW_BYTES_MAX || rows[i].offset > data_bytes ||
            rows[i].bytes > data_bytes - rows[i].offset)
            return lk_fail(err, LK_INVALID_ARGUMENT,
                           "%s: row %llu: %u bytes at %llu are not within its %llu bytes", path,
                           (unsigned long long)rows[i].row, rows[i].bytes,
                           (unsigned long long)rows[i].offset, (unsigned long long)data_bytes);
    return LK_OK;
}

/* The bytes from @low to @high, which hold some rows. */
struct run {
    uint64_t low, high;
};

/* Can all rows be had by one read that is not too long and not mostly for nothing? */
static bool all_in_one(const struct lk_row_span *rows, uint32_t n, struct run *ret_run)
{
    struct run run = {.low = UINT64_MAX, .high = 0};
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = rows[i].offset + rows[i].bytes;
        run.low = rows[i].offset < run.low ? rows[i].offset : run.low;
        run.high = end > run.high ? end : run.high;
        wanted += rows[i].bytes;
    }
    *ret_run = run;
    return n > 0 && run.high - run.low <= RUN_BYTES_MAX &&
           (run.high - run.low) / RUN_SPARSE <= wanted;
}

/* How many rows from the first on follow each other closely; their bytes. At least one. */
static uint32_t next_run(const struct lk_row_span *rows, uint32_t n, struct run *ret_run)
{
    struct run run = {.low = rows[0].offset, .high = rows[0].offset + rows[0].bytes};
    uint32_t i = 1;
    for (; i < n; i++) {
        uint64_t end = rows[i].offset + rows[i].bytes;
        if (rows[i].offset < run.high || rows[i].offset - run.high > 4096 ||
            end - run.low > RUN_BYTES_MAX)
            break;
        run.high = end;
    }
    *ret_run = run;
    return i;
}

static enum lk_code check_row(const char *path, const struct lk_row_span *row,
                              const uint8_t *bytes, struct lk_err *err)
{
    uint32_t hash = lk_hash32(bytes, row->bytes);
    if (hash == row->hash)
        return LK_OK;
    return lk_fail(err, LK_DATA_LOSS,
                   "%s: row %llu (byte %llu, %u bytes) changed since it was indexed: expected hash "
                   "%08x, found %08x",
                   path, (unsigned long long)row->row, (unsigned long long)row->offset, row->bytes,
                   row->hash, hash);
}

struct reading {
    const char *path;
    struct lk_source *source;
    struct lk_buf *buf;
    enum lk_code (*each)(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n_bytes,
                         struct lk_err *err);
    void *owner;
};

static enum lk_code read_run(const struct reading *r, const struct run *run,
                             const struct lk_row_span *rows, uint32_t first, uint32_t n,
                             struct lk_err *err)
{
    size_t bytes = (size_t)(run->high - run->low);

    r->buf->len = 0;
    uint8_t *at = lk_buf_room(r->buf, bytes);
    enum lk_code code = lk_source_read(r->source, run->low, at, bytes, err);
    if (code != LK_OK)
        return code;
    for (uint32_t i = first; i < first + n; i++) {
        const uint8_t *row = at + (rows[i].offset - run->low);
        LK_TRY(check_row(r->path, &rows[i], row, err));
        LK_TRY(r->each(r->owner, i, row, rows[i].bytes, err));
    }
    return LK_OK;
}

static enum lk_code read_all_rows(const struct reading *r, const struct lk_row_span *rows,
                                  uint32_t n, struct lk_err *err)
{
    struct run run;

    if (all_in_one(rows, n, &run))
        return read_run(r, &run, rows, 0, n, err);
    for (uint32_t i = 0, k; i < n; i += k) {
        k = next_run(rows + i, n - i, &run);
        LK_TRY(read_run(r, &run, rows, i, k, err));
    }
    return LK_OK;
}

enum lk_code lk_shard_read_rows(struct lk_shard_cache *cache, const char *root, const char *shard,
                                enum lk_codec codec, uint64_t data_bytes,
                                const struct lk_row_span *rows, uint32_t n,
                                enum lk_code (*each)(void *owner, uint32_t i, const uint8_t *bytes,
                                                     uint32_t n_bytes, struct lk_err *err),
                                void *owner, struct lk_err *err)
{
    char *path = lk_format("%s/%s", root, shard), *kept = path;
    struct reading r = {.buf = &cache->buf, .each = each, .owner = owner};
    enum lk_code code = check_spans(path, data_bytes, rows, n, err);
    unsigned place = 0;

    if (code == LK_OK)
        code = get_shard(cache, &kept, codec, data_bytes, &place, err);
    if (code == LK_OK) {
        r.path = path; /* kept by the cache, perhaps: then it lives as long as the shard is open */
        r.source = cache->shards[place].source;
        code = read_all_rows(&r, rows, n, err);
        if (code != LK_OK) /* the next try opens the file again, which may be another one by then */
            close_shard(cache, place);
    }
    free(kept);
    /* One long row must not hold its memory for ever. */
    if (cache->buf.cap > (size_t)2 * RUN_BYTES_MAX)
        lk_buf_done(&cache->buf);
    return code;
}
