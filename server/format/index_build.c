/*
 * Making an index, and holding one against the data again. Shards are scanned in parallel; what
 * comes out is put together in shard order, so no byte depends on who was faster.
 */
#include "base/bytes.h"
#include "format/index.h"
#include "format/index_layout.h"
#include "format/scan.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum_of(const uint64_t *bytes, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

static enum lk_code check_files(const struct lk_dataset_files *files, struct lk_err *err)
{
    if (files->n == 0 || files->n > LK_SHARDS_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected 1 to %u shards, found %u",
                       files->root, LK_SHARDS_MAX, files->n);
    for (uint32_t i = 1; i < files->n; i++)
        if (strcmp(files->names[i - 1], files->names[i]) >= 0)
            return lk_fail(err, LK_INVALID_ARGUMENT, "%s: \"%s\" does not come before \"%s\"",
                           files->root, files->names[i - 1], files->names[i]);
    return LK_OK;
}

/* ---- building ---- */

struct building {
    const struct lk_index_build *build;
    struct lk_shard_scan *scans; /* [n] */
};

static enum lk_code scan_one(void *owner, const struct lk_shard_work *work, struct lk_err *err)
{
    struct building *b = owner;
    const struct lk_dataset_files *files = b->build->files;
    return lk_shard_scan_run(work, b->build->opener, files->root, files->names[work->shard],
                             files->codecs[work->shard], &b->scans[work->shard], err);
}

static struct lk_index_sizes sizes_of(const struct lk_dataset_files *files,
                                      const struct lk_shard_scan *scans)
{
    struct lk_index_sizes sizes = {.shards = files->n};
    for (uint32_t i = 0; i < files->n; i++) {
        sizes.rows += scans[i].rows;
        sizes.granules += scans[i].granules;
        sizes.name_bytes += strlen(files->names[i]) + 1;
    }
    return sizes;
}

/* The table of shards, as it will be read. */
static struct lk_index_shard *table_of(const struct lk_dataset_files *files,
                                       const struct lk_shard_scan *scans)
{
    struct lk_index_shard *table = lk_zalloc(files->n, sizeof *table);
    uint64_t first_row = 0, first_granule = 0;
    for (uint32_t i = 0; i < files->n; i++) {
        const struct lk_shard_scan *scan = &scans[i];
        table[i] = (struct lk_index_shard){.name = files->names[i],
                                           .codec = files->codecs[i],
                                           .file_bytes = scan->file_bytes,
                                           .data_bytes = scan->data_bytes,
                                           .first_row = first_row,
                                           .rows = scan->rows,
                                           .content = scan->content,
                                           .first_granule = first_granule,
                                           .stride = scan->stride,
                                           .gap = scan->gap};
        first_row += scan->rows;
        first_granule += scan->granules;
    }
    return table;
}

static void put_header(uint8_t *p, const struct lk_index_sizes *sizes, uint64_t end,
                       struct lk_digest digest)
{
    memcpy(p, LK_INDEX_MAGIC, 8);
    lk_put_u32(p + 8, LK_INDEX_VERSION);
    lk_put_u32(p + 12, LK_INDEX_GRANULE);
    lk_put_u64(p + 16, end);
    lk_put_u32(p + 24, (uint32_t)sizes->shards);
    lk_put_u32(p + 28, 0);
    lk_put_u64(p + 32, sizes->rows);
    lk_put_u64(p + 40, sizes->granules);
    lk_put_u64(p + 48, sizes->name_bytes);
    lk_digest_put(digest, p + 56);
}

static void put_shard(uint8_t *p, const struct lk_index_shard *shard)
{
    lk_put_u32(p, (uint32_t)strlen(shard->name));
    lk_put_u32(p + 4, (uint32_t)shard->codec);
    lk_put_u32(p + 8, shard->stride);
    lk_put_u32(p + 12, shard->gap);
    lk_put_u64(p + 16, shard->file_bytes);
    lk_put_u64(p + 24, shard->data_bytes);
    lk_put_u64(p + 32, shard->first_row);
    lk_put_u64(p + 40, shard->rows);
    lk_put_u64(p + 48, shard->first_granule);
    lk_digest_put(shard->content, p + 56);
    lk_put_u64(p + 72, 0);
}

/* Copies n numbers of @size bytes each; the host is little-endian (index.c sees to that). */
static void put_array(uint8_t *to, const void *from, uint64_t n, size_t size)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * size);
}

static void encode(const struct lk_dataset_files *files, const struct lk_shard_scan *scans,
                   struct lk_buf *out)
{
    struct lk_index_sizes sizes = sizes_of(files, scans);
    struct lk_index_layout at = lk_index_layout_of(&sizes);
    struct lk_index_shard *table = table_of(files, scans);
    uint64_t name_at = at.names;

    lk_buf_done(out);
    out->data = lk_zalloc(at.end, 1);
    out->len = out->cap = at.end;
    put_header(out->data, &sizes, at.end, lk_index_digest_of(table, files->n));
    for (uint32_t i = 0; i < files->n; i++) {
        const struct lk_shard_scan *scan = &scans[i];
        uint64_t row = table[i].first_row, granule = table[i].first_granule;
        size_t name_bytes = strlen(files->names[i]) + 1;
        put_shard(out->data + LK_INDEX_HEADER_BYTES + (size_t)i * LK_INDEX_SHARD_BYTES, &table[i]);
        put_array(out->data + at.row_bytes + 4 * row, scan->row_bytes, scan->rows, 4);
        put_array(out->data + at.row_hash + 4 * row, scan->row_hash, scan->rows, 4);
        put_array(out->data + at.granule + 8 * granule, scan->granule, scan->granules, 8);
        put_array(out->data + name_at, files->names[i], name_bytes, 1);
        name_at += name_bytes;
    }
    lk_digest_put(lk_digest_of(out->data, at.trailer), out->data + at.trailer);
    free(table);
}

enum lk_code lk_index_build(const struct lk_index_build *build, struct lk_buf *ret_bytes,
                            struct lk_err *err)
{
    const struct lk_dataset_files *files = build->files;
    LK_TRY(check_files(files, err));
    struct building b = {.build = build,
                         .scans = lk_zalloc(files->n, sizeof(struct lk_shard_scan))};
    enum lk_code code =
        lk_shard_jobs_run(files->n, build->threads, sum_of(files->bytes, files->n),
                          build->progress, scan_one, &b, err);
    if (code == LK_OK && sizes_of(files, b.scans).rows == 0)
        code = lk_fail(err, LK_FAILED_PRECONDITION, "%s: no rows in %u shards (first: %s)",
                       files->root, files->n, files->names[0]);
    if (code == LK_OK)
        encode(files, b.scans, ret_bytes);
    for (uint32_t i = 0; i < files->n; i++)
        lk_shard_scan_done(&b.scans[i]);
    free(b.scans);
    return code;
}

/* ---- verifying ---- */

/* Up to three names, and how many there are. */
struct differences {
    const char *what;
    const char *names[3];
    uint32_t n;
};

static void note(struct differences *d, const char *name)
{
    if (d->n < 3)
        d->names[d->n] = name;
    d->n++;
}

static void put_differences(struct lk_buf *text, const struct differences *d)
{
    if (d->n == 0)
        return;
    lk_buf_putf(text, "%s%s ", text->len > 0 ? "; " : "", d->what);
    for (uint32_t i = 0; i < d->n && i < 3; i++)
        lk_buf_putf(text, "%s%s", i > 0 ? ", " : "", d->names[i]);
    if (d->n > 3)
        lk_buf_putf(text, " and %u more", d->n - 3);
}

/* Walks both lists, which are in the same order. */
enum lk_code lk_index_check_listing(const struct lk_index *index,
                                    const struct lk_dataset_files *files, struct lk_err *err)
{
    struct differences added = {.what = "added"}, removed = {.what = "removed"};
    struct differences resized = {.what = "changed in size"};
    uint32_t i = 0, k = 0;

    while (i < index->shards || k < files->n) {
        int order = i == index->shards ? 1
                    : k == files->n    ? -1
                                       : strcmp(index->shard[i].name, files->names[k]);
        if (order == 0 && index->shard[i].file_bytes != files->bytes[k])
            note(&resized, files->names[k]);
        if (order < 0)
            note(&removed, index->shard[i].name);
        if (order > 0)
            note(&added, files->names[k]);
        i += order <= 0;
        k += order >= 0;
    }
    if (added.n + removed.n + resized.n == 0)
        return LK_OK;
    struct lk_buf text = {0};
    put_differences(&text, &removed);
    put_differences(&text, &added);
    put_differences(&text, &resized);
    (void)lk_fail(err, LK_DATA_LOSS, "%s: the data changed since %s was made: %s", files->root,
                  index->path, lk_buf_cstr(&text));
    lk_buf_done(&text);
    return LK_DATA_LOSS;
}

struct verifying {
    const struct lk_index *index;
    const struct lk_index_build *build;
};

/* The first row that differs, or has no counterpart. */
static enum lk_code compare_rows(const struct lk_index *index, uint32_t shard, const char *root,
                                 const struct lk_shard_scan *scan, struct lk_err *err)
{
    const struct lk_index_shard *s = &index->shard[shard];
    uint64_t i = 0, rows = scan->rows < s->rows ? scan->rows : s->rows;

    while (i < rows && scan->row_bytes[i] == index->row_bytes[s->first_row + i] &&
           scan->row_hash[i] == index->row_hash[s->first_row + i])
        i++;
    if (i == s->rows && i == scan->rows && lk_digest_equal(scan->content, s->content) &&
        scan->data_bytes == s->data_bytes)
        return LK_OK;
    if (i == s->rows && i == scan->rows)
        return lk_fail(err, LK_DATA_LOSS,
                       "%s/%s changed since it was indexed: its bytes between the rows", root,
                       s->name);
    return lk_fail(err, LK_DATA_LOSS,
                   "%s/%s changed since it was indexed: row %llu is the first that differs (of %llu "
                   "then, %llu now)",
                   root, s->name, (unsigned long long)i, (unsigned long long)s->rows,
                   (unsigned long long)scan->rows);
}

static enum lk_code verify_one(void *owner, const struct lk_shard_work *work, struct lk_err *err)
{
    struct verifying *v = owner;
    const struct lk_dataset_files *files = v->build->files;
    struct lk_shard_scan scan = {0};

    LK_TRY(lk_shard_scan_run(work, v->build->opener, files->root, files->names[work->shard],
                             files->codecs[work->shard], &scan, err));
    enum lk_code code = compare_rows(v->index, work->shard, files->root, &scan, err);
    lk_shard_scan_done(&scan);
    return code;
}

enum lk_code lk_index_verify(const struct lk_index *index, const struct lk_index_build *build,
                             struct lk_err *err)
{
    const struct lk_dataset_files *files = build->files;
    struct verifying v = {.index = index, .build = build};

    LK_TRY(check_files(files, err));
    LK_TRY(lk_index_check_listing(index, files, err));
    return lk_shard_jobs_run(files->n, build->threads, sum_of(files->bytes, files->n),
                             build->progress, verify_one, &v, err);
}
