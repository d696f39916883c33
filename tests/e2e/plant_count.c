/*
 * Plants a wrong count in a counts file whose checksums are then right: what no checksum can find.
 *
 *   plant_count COUNTS_FILE INDEX ROW_IN_SHARD TOKENS
 *
 * Prints the shard's name and the tokens that the row had. Exit status 1: the file is not of that data.
 */
#include "format/index.h"
#include "store/counts.h"
#include "store/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_index_shard *shard_of(const struct lk_index *index,
                                             const struct lk_counts_file *file)
{
    for (uint32_t s = 0; s < index->shards; s++)
        if (lk_digest_equal(index->shard[s].content, file->id.shard))
            return &index->shard[s];
    return NULL;
}

static enum lk_code plant(const struct lk_counts_file *file, const uint32_t *row_bytes, uint64_t row,
                          uint32_t tokens, struct lk_buf *out, struct lk_err *err)
{
    struct lk_counts_build build;
    struct lk_count block[LK_COUNTS_BLOCK];
    lk_counts_begin(&build, &file->id);
    for (uint32_t b = 0; b < file->blocks; b++) {
        LK_TRY(lk_counts_read(file, b, row_bytes, block, err));
        if (row / LK_COUNTS_BLOCK == b) {
            struct lk_count *count = &block[row % LK_COUNTS_BLOCK];
            if (!count->known || count->drop != 0)
                return lk_fail(err, LK_NOT_FOUND, "the row is not known, or was dropped");
            printf("%u\n", count->tokens);
            count->tokens = tokens;
        }
        lk_counts_put(&build, row_bytes, block);
    }
    lk_counts_end(&build, out);
    return LK_OK;
}

static enum lk_code run(const char *path, const char *index_path, uint64_t row, uint32_t tokens,
                        struct lk_err *err)
{
    struct lk_buf bytes = {0}, out = {0};
    struct lk_counts_file file;
    struct lk_index index;
    LK_TRY(lk_file_read_all(path, 1u << 28, &bytes, err));
    LK_TRY(lk_counts_parse(path, &bytes, &file, err));
    LK_TRY(lk_index_open(index_path, &index, err));
    const struct lk_index_shard *shard = shard_of(&index, &file);
    if (shard == NULL || row >= shard->rows)
        return lk_fail(err, LK_NOT_FOUND, "%s is not of this data", path);
    printf("%s\n", shard->name);
    LK_TRY(plant(&file, index.row_bytes + shard->first_row, row, tokens, &out, err));
    enum lk_code code = lk_file_write_atomic(path, out.data, out.len, err);
    lk_buf_done(&out);
    lk_counts_file_done(&file);
    lk_index_close(&index);
    return code;
}

int main(int argc, char **argv)
{
    struct lk_err err;
    if (argc != 5) {
        fputs("usage: plant_count COUNTS_FILE INDEX ROW_IN_SHARD TOKENS\n", stderr);
        return 2;
    }
    if (run(argv[1], argv[2], strtoull(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10), &err) !=
        LK_OK) {
        fprintf(stderr, "plant_count: %s\n", err.text);
        return 1;
    }
    return 0;
}
