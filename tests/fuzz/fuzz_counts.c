/*
 * Counts files: any bytes are one, or are refused. What a block says keeps the bounds of a measured row;
 * what was read, written again, reads the same; and a file of kept blocks is a file.
 *
 * Input: a byte, two for the lengths of rows, then the file. With an odd byte all checksums are made right
 * first. The second bit of it: the whole is not a file, but makes rows to be written.
 */
#include "base/bytes.h"
#include "store/counts.h"
#include "tests/fuzz/fuzz.h"

#define HEAD_BYTES 96u
#define ROWS_MAX 4096u /* larger files are parsed, but not read */

static void repair(uint8_t *p, size_t n)
{
    uint64_t rows = lk_get_u64(p + 48);
    size_t at, blocks;

    lk_put_u64(p + 64, n - HEAD_BYTES);
    if (rows <= (n - HEAD_BYTES) / 2 * LK_COUNTS_BLOCK) {
        blocks = lk_counts_blocks(rows);
        at = HEAD_BYTES + 2 * blocks;
        if (at <= n)
            lk_put_u64(p + 72, lk_hash64(p + HEAD_BYTES, 2 * blocks, 0));
        for (size_t b = 0; b < blocks && at < n; b++) {
            size_t bytes = lk_get_u16(p + HEAD_BYTES + 2 * b);
            if (bytes >= 8 && bytes <= n - at)
                lk_put_u64(p + at, lk_hash64(p + at + 8, bytes - 8, b));
            at += bytes;
        }
    }
    lk_put_u64(p + 88, lk_hash64(p, 88, 0));
}

static void check_count(const struct lk_count *row)
{
    if (!row->known) {
        LK_CHECK(row->tokens == 0 && row->text_bytes == 0 && row->specials == 0 && row->drop == 0);
        return;
    }
    LK_CHECK(row->drop < LK_COUNTS_DROPS);
    LK_CHECK(row->drop == 0 ? row->tokens >= 1 && row->tokens <= LK_COUNTS_TOKENS_MAX : row->tokens == 0);
}

/* Equal, field by field. */
static void check_same(const struct lk_count *a, const struct lk_count *b)
{
    for (uint32_t i = 0; i < LK_COUNTS_BLOCK; i++)
        LK_CHECK(a[i].known == b[i].known && a[i].tokens == b[i].tokens && a[i].drop == b[i].drop &&
                 a[i].text_bytes == b[i].text_bytes && a[i].specials == b[i].specials);
}

/* Writes @row as the blocks of a file of @rows, and reads it again. */
static void write_again(const struct lk_counts_id *id, const struct lk_count *row, const uint32_t *row_bytes)
{
    struct lk_counts_build build;
    struct lk_counts_file file = {0};
    struct lk_count read[LK_COUNTS_BLOCK];
    struct lk_buf bytes = {0};
    struct lk_err err;

    lk_counts_begin(&build, id);
    for (uint32_t b = 0; b < lk_counts_blocks(id->rows); b++)
        lk_counts_put(&build, row_bytes, row + (size_t)b * LK_COUNTS_BLOCK);
    lk_counts_end(&build, &bytes);
    LK_CHECK(lk_counts_parse("again", &bytes, &file, &err) == LK_OK);
    LK_CHECK(lk_counts_id_equal(&file.id, id) && lk_counts_check(&file, &err) == LK_OK);
    for (uint32_t b = 0; b < file.blocks; b++) {
        LK_CHECK(lk_counts_read(&file, b, row_bytes, read, &err) == LK_OK);
        check_same(read, row + (size_t)b * LK_COUNTS_BLOCK);
    }
    lk_counts_file_done(&file);
}

static void keep_all(const struct lk_counts_file *file)
{
    struct lk_counts_build build;
    struct lk_counts_file kept = {0};
    struct lk_buf bytes = {0};
    struct lk_err err;

    lk_counts_begin(&build, &file->id);
    for (uint32_t b = 0; b < file->blocks; b++)
        lk_counts_keep(&build, file);
    lk_counts_end(&build, &bytes);
    LK_CHECK(lk_counts_parse("kept", &bytes, &kept, &err) == LK_OK);
    LK_CHECK(lk_counts_id_equal(&kept.id, &file->id));
    lk_counts_file_done(&kept);
}

static uint32_t *lengths(uint64_t rows, uint16_t how)
{
    uint32_t *bytes = lk_zalloc(rows, sizeof *bytes);
    for (uint64_t i = 0; i < rows; i++)
        bytes[i] = 1 + (uint32_t)(i * how) % (1u << how % 31);
    return bytes;
}

static void read_file(const struct lk_counts_file *file, uint16_t how)
{
    uint64_t rows = (uint64_t)file->blocks * LK_COUNTS_BLOCK;
    struct lk_count *row = lk_zalloc(rows, sizeof *row);
    uint32_t *row_bytes = lengths(file->id.rows, how);
    struct lk_err err;
    bool all = true;

    (void)lk_counts_check(file, &err);
    for (uint32_t b = 0; b < file->blocks; b++) {
        struct lk_count *block = row + (size_t)b * LK_COUNTS_BLOCK;
        enum lk_code code = lk_counts_read(file, b, row_bytes, block, &err);
        LK_CHECK(code == LK_OK || code == LK_DATA_LOSS);
        all = all && code == LK_OK;
        for (uint32_t i = 0; i < LK_COUNTS_BLOCK; i++)
            check_count(&block[i]);
    }
    if (all)
        write_again(&file->id, row, row_bytes);
    keep_all(file);
    free(row);
    free(row_bytes);
}

static uint32_t take_number(struct lk_fuzz_input *input)
{
    uint8_t how = lk_fuzz_byte(input);
    uint32_t v = lk_fuzz_byte(input);
    if (how < 160)
        return v;
    v |= (uint32_t)lk_fuzz_byte(input) << 8;
    return how < 224 ? v : v << how % 16 | v;
}

/* Rows out of the input, written and read. */
static void make_rows(struct lk_fuzz_input *input, uint16_t how)
{
    uint32_t rows = 1 + (uint32_t)lk_fuzz_byte(input) * 3;
    struct lk_counts_id id = {.rows = rows};
    struct lk_count *row = lk_zalloc((size_t)lk_counts_blocks(rows) * LK_COUNTS_BLOCK, sizeof *row);
    uint32_t *row_bytes = lengths(rows, how);

    for (uint32_t i = 0; i < rows && input->left > 0; i++) {
        uint8_t what = lk_fuzz_byte(input);
        if (what % 8 == 0)
            continue;
        row[i] = (struct lk_count){.known = true, .text_bytes = take_number(input)};
        row[i].drop = what % 8 == 1 ? 1 + what / 8 % (LK_COUNTS_DROPS - 1) : 0;
        row[i].tokens = row[i].drop != 0 ? 0 : 1 + take_number(input) % LK_COUNTS_TOKENS_MAX;
        row[i].specials = what % 8 == 2 ? take_number(input) : 0;
    }
    write_again(&id, row, row_bytes);
    free(row);
    free(row_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct lk_counts_file file = {0};
    struct lk_err err;
    uint8_t mode = lk_fuzz_byte(&input);
    uint16_t how = (uint16_t)(lk_fuzz_byte(&input) | lk_fuzz_byte(&input) << 8);

    if (mode & 2) {
        make_rows(&input, how);
        return 0;
    }
    struct lk_buf bytes = {.data = lk_fuzz_copy(input.at, input.left), .len = input.left, .cap = input.left};
    if ((mode & 1) && bytes.len >= HEAD_BYTES)
        repair(bytes.data, bytes.len);
    if (lk_counts_parse("c", &bytes, &file, &err) != LK_OK)
        return 0;
    if (file.id.rows <= ROWS_MAX)
        read_file(&file, how);
    lk_counts_file_done(&file);
    return 0;
}
