#include "format/scan.h"

#include "base/hasher.h"
#include "base/mem.h"
#include "format/decoder.h"
#include "format/jsonl.h"

#include <stdlib.h>

enum { CHUNK_BYTES = 1 << 20 };

void lk_shard_scan_done(struct lk_shard_scan *scan)
{
    free(scan->row_bytes);
    free(scan->row_hash);
    free(scan->granule);
    *scan = (struct lk_shard_scan){0};
}

/* ---- rows ---- */

static void push_granule(struct lk_shard_scan *scan, uint64_t offset)
{
    uint64_t n = scan->granules;
    if (n < 64 ? n == 0 : (n & (n - 1)) == 0)
        scan->granule = lk_resize(scan->granule, n == 0 ? 64 : 2 * n, sizeof *scan->granule);
    scan->granule[scan->granules++] = offset;
}

static void push_row(struct lk_shard_scan *scan, uint32_t bytes, uint32_t hash)
{
    uint64_t n = scan->rows;
    if (n < 64 ? n == 0 : (n & (n - 1)) == 0) {
        uint64_t cap = n == 0 ? 64 : 2 * n;
        scan->row_bytes = lk_resize(scan->row_bytes, cap, sizeof *scan->row_bytes);
        scan->row_hash = lk_resize(scan->row_hash, cap, sizeof *scan->row_hash);
    }
    scan->row_bytes[n] = bytes;
    scan->row_hash[n] = hash;
    scan->rows++;
}

/* Rows turn out to lie unevenly: from now on each has its offset stored, those so far as well. */
static void store_all_offsets(struct lk_shard_scan *scan)
{
    uint64_t offset = scan->granule[0];

    scan->granules = 0;
    for (uint64_t i = 0; i < scan->rows; i++) {
        push_granule(scan, offset);
        offset += (uint64_t)scan->row_bytes[i] + scan->gap;
    }
    scan->stride = 1;
    scan->gap = 0;
}

struct scanning {
    struct lk_shard_scan *scan;
    uint64_t end; /* of the last row */
};

static enum lk_code add_row(void *owner, const struct lk_jsonl_row *row, struct lk_err *err)
{
    struct scanning *s = owner;
    struct lk_shard_scan *scan = s->scan;
    uint64_t gap = row->offset - s->end;

    if (scan->rows == UINT32_MAX)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "more than %u rows: split the shard",
                       UINT32_MAX);
    if (scan->rows == 1 && gap <= UINT32_MAX)
        scan->gap = (uint32_t)gap;
    if (scan->rows > 0 && scan->stride > 1 && gap != scan->gap)
        store_all_offsets(scan);
    if (scan->rows % scan->stride == 0)
        push_granule(scan, row->offset);
    push_row(scan, row->bytes, row->hash);
    s->end = row->offset + row->bytes;
    return LK_OK;
}

/* ---- bytes ---- */

static enum lk_code scan_all(const struct lk_shard_work *work, const char *name,
                             struct lk_decoder *decoder, struct lk_jsonl *jsonl,
                             struct lk_hasher *hasher, struct lk_shard_scan *scan,
                             struct lk_err *err)
{
    uint8_t *chunk = lk_alloc(CHUNK_BYTES);
    enum lk_code code = LK_OK;
    size_t got = CHUNK_BYTES;

    while (code == LK_OK && got > 0) {
        uint64_t at = lk_decoder_at(decoder), rows = scan->rows;
        code = lk_decoder_read(decoder, chunk, CHUNK_BYTES, &got, err);
        if (code != LK_OK)
            break;
        lk_hasher_put(hasher, chunk, got);
        scan->data_bytes += got;
        code = got > 0 ? lk_jsonl_put(jsonl, chunk, got, err) : lk_jsonl_end(jsonl, err);
        if (code != LK_OK)
            (void)lk_fail_in(err, "%s", name);
        lk_shard_work_add(work, lk_decoder_at(decoder) - at, scan->rows - rows);
        if (code == LK_OK && lk_shard_work_unwanted(work))
            code = lk_fail(err, LK_CANCELLED, "an earlier shard has failed");
    }
    free(chunk);
    return code;
}

static enum lk_code scan_source(const struct lk_shard_work *work, struct lk_source *source,
                                enum lk_codec codec, struct lk_shard_scan *ret_scan,
                                struct lk_err *err)
{
    struct lk_shard_scan scan = {
        .file_bytes = source->bytes, .stride = LK_INDEX_GRANULE, .gap = 1};
    struct scanning state = {.scan = &scan};
    struct lk_decoder *decoder = lk_decoder_new(source, codec);
    struct lk_jsonl *jsonl = lk_jsonl_new(add_row, &state);
    struct lk_hasher *hasher = lk_hasher_new();

    enum lk_code code = scan_all(work, source->name, decoder, jsonl, hasher, &scan, err);
    if (code == LK_OK) {
        scan.content = lk_hasher_digest(hasher);
        *ret_scan = scan;
    } else {
        lk_shard_scan_done(&scan);
    }
    lk_hasher_free(hasher);
    lk_jsonl_free(jsonl);
    lk_decoder_free(decoder);
    return code;
}

enum lk_code lk_shard_scan_run(const struct lk_shard_work *work, struct lk_opener opener,
                               const char *root, const char *name, enum lk_codec codec,
                               struct lk_shard_scan *ret_scan, struct lk_err *err)
{
    char *path = lk_format("%s/%s", root, name);
    struct lk_source *source = NULL;
    enum lk_code code = lk_open(opener, path, &source, err);

    if (code == LK_OK)
        code = scan_source(work, source, codec, ret_scan, err);
    lk_source_close(source);
    free(path);
    return code;
}
