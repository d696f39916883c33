/*
 * What reading costs: scanning shards into an index, and the text field out of JSON rows.
 *
 *   bench_rows DATASET [FIELD]                          one line a run
 *   bench_rows --tokens TOKENIZER.JSON FIELD DATASET…   all the way to tokens, see rows_to_tokens.h
 *
 * Read everything once before: what is measured is the program, not the disk.
 */
#include "base/mem.h"
#include "format/format.h"
#include "op/fields.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/bench/rows_to_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const struct lk_err *err)
{
    (void)fprintf(stderr, "bench_rows: %s\n", err->text);
    exit(1);
}

static void bench_index(const struct lk_dataset_files *files, unsigned threads,
                        struct lk_index *ret_index)
{
    struct lk_index_build build = {
        .files = files, .opener = lk_file_opener(), .threads = threads};
    struct lk_buf bytes = {0};
    struct lk_err err;
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    if (lk_index_build(&build, &bytes, &err) != LK_OK)
        die(&err);
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (lk_index_of_bytes("bench", &bytes, ret_index, &err) != LK_OK)
        die(&err);
    double megabytes = 0;
    for (uint32_t i = 0; i < ret_index->shards; i++)
        megabytes += (double)ret_index->shard[i].data_bytes / 1e6;
    printf("index, %u threads: %.0f MB of data, %.0f MB/s, %.0f MB per CPU-second\n", threads,
           megabytes, megabytes / wall, megabytes / cpu);
}

struct reading {
    struct lk_row_reader *reader;
    uint64_t row_bytes, text_bytes, rows;
};

static enum lk_code read_row(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n,
                             struct lk_err *err)
{
    struct reading *r = owner;
    (void)i;
    if (lk_row_read(r->reader, bytes, n, err) != LK_OK)
        return err->code;
    r->row_bytes += n;
    r->text_bytes += lk_row_field(r->reader, 0)->n;
    r->rows++;
    return LK_OK;
}

/* As a worker does: 256 rows at a time, hashes checked. */
static void bench_fields(const struct lk_index *index, const char *root, const char *field)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(lk_file_opener(), 16, UINT64_MAX / 2);
    struct reading r = {.reader = lk_row_reader_new(&field, 1)};
    struct lk_row_span spans[256];
    struct lk_err err;
    double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t row = 0; row < index->rows;) {
        uint32_t n = 0;
        const struct lk_index_shard *shard = &index->shard[lk_index_place(index, row).shard];
        for (; n < 256 && row < shard->first_row + shard->rows; n++, row++) {
            struct lk_row_place at = lk_index_place(index, row);
            spans[n] = (struct lk_row_span){at.row_in_shard, at.offset, at.bytes, at.hash};
        }
        if (lk_shard_read_rows(cache, root, shard->name, shard->codec, shard->data_bytes, spans, n,
                               read_row, &r, &err) != LK_OK)
            die(&err);
    }
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("read, check hashes, parse, take \"%s\": %llu rows, %.0f MB of text, %.0f MB of rows per "
           "CPU-second\n",
           field, (unsigned long long)r.rows, (double)r.text_bytes / 1e6,
           (double)r.row_bytes / 1e6 / cpu);
    lk_row_reader_free(r.reader);
    lk_shard_cache_free(cache);
}

int main(int argc, char **argv)
{
    struct lk_dataset_files files;
    struct lk_index index = {0};
    struct lk_err err;
    if (argc >= 5 && strcmp(argv[1], "--tokens") == 0) {
        if (rows_to_tokens(argv[2], argv[3], (const char *const *)argv + 4, (unsigned)argc - 4, &err) !=
            LK_OK)
            die(&err);
        return 0;
    }
    if (argc < 2 || argc > 3) {
        (void)fputs("usage: bench_rows DATASET [FIELD]\n"
                    "       bench_rows --tokens TOKENIZER.JSON FIELD DATASET...\n", stderr);
        return 2;
    }
    if (lk_dataset_list(argv[1], &files, &err) != LK_OK)
        die(&err);
    for (unsigned round = 0; round < 6; round++) {
        lk_index_close(&index);
        bench_index(&files, 1 + round / 3, &index);
    }
    for (unsigned round = 0; round < 3; round++)
        bench_fields(&index, files.root, argc > 2 ? argv[2] : "text");
    lk_index_close(&index);
    lk_dataset_files_done(&files);
    return 0;
}
