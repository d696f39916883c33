#include "host/blocks.h"

#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = (2u << 20) / BLOCK_BYTES, LONGEST = 70000 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Ids that differ at every place, and between rows. */
static uint32_t *ids_of(uint32_t row, uint32_t n, bool wide)
{
    uint32_t *ids = calloc(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = ((row * 7919 + i * 997) ^ (i >> 7)) & (wide ? (1u << 24) - 1 : UINT16_MAX);
    return ids;
}

static struct block_row put(struct blocks *blocks, const uint32_t *ids, uint32_t n, bool wide)
{
    struct block_row row;
    ck_assert(blocks_put(blocks, ids, n, wide, &row));
    ck_assert_uint_eq(row.n, n);
    return row;
}

static void check_span(const struct blocks *blocks, const struct block_row *row, const uint32_t *ids,
                       uint32_t first, uint32_t n)
{
    static uint32_t out[LONGEST + 1];
    out[n] = 12345;
    blocks_get(blocks, row, first, n, out);
    ck_assert_mem_eq(out, ids + first, 4 * (size_t)n);
    ck_assert_uint_eq(out[n], 12345); /* nothing is written beyond */
}

/* Lengths on both sides of the borders of blocks and of an index, and spans from and to everywhere. */
START_TEST(every_span_of_a_row_comes_back)
{
    static const uint32_t length[] = {1,    63,   64,   65,   127,  128,  129,  255,   257,
                                      1023, 1024, 1025, 2047, 2048, 2049, 4097, 32768, LONGEST};
    bool wide = _i == 1;
    struct blocks blocks = {0};
    uint64_t seed = 1;
    for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
        uint32_t n = length[k];
        uint32_t *ids = ids_of((uint32_t)k, n, wide);
        struct block_row row = put(&blocks, ids, n, wide);
        check_span(&blocks, &row, ids, 0, n);
        check_span(&blocks, &row, ids, n - 1, 1);
        check_span(&blocks, &row, ids, n / 2, 0);
        for (int i = 0; i < 300; i++) {
            uint32_t first = (uint32_t)(next_random(&seed) % n);
            check_span(&blocks, &row, ids, first, (uint32_t)(next_random(&seed) % (n - first)) + 1);
        }
        blocks_drop(&blocks, &row);
        ck_assert_uint_eq(row.first, 0);
        free(ids);
    }
    blocks_done(&blocks);
}
END_TEST

/* Rows come and go in any order, and no more memory is taken than for the blocks that were in use at once. */
START_TEST(memory_is_what_was_in_use_at_once)
{
    enum { ROWS = 64 };
    struct blocks blocks = {0};
    struct block_row row[ROWS] = {0};
    uint32_t *ids[ROWS] = {0};
    uint64_t seed = 7, used = 0, peak = 0;
    for (uint32_t turn = 0; turn < 6000; turn++) {
        uint32_t k = (uint32_t)(next_random(&seed) % ROWS);
        if (ids[k] != NULL) {
            check_span(&blocks, &row[k], ids[k], 0, row[k].n);
            used -= blocks_of(row[k].n, row[k].wide);
            blocks_drop(&blocks, &row[k]);
            free(ids[k]);
        }
        /* Short and long ones by turns: what one kind leaves must do for the other. */
        uint32_t n = (uint32_t)(next_random(&seed) % (turn / 500 % 2 == 0 ? 40 : 20000)) + 1;
        bool wide = next_random(&seed) % 2 == 0;
        ids[k] = ids_of(turn, n, wide);
        row[k] = put(&blocks, ids[k], n, wide);
        used += blocks_of(n, wide);
        peak = used > peak ? used : peak;
    }
    ck_assert_uint_gt(peak, CHUNK); /* more than one chunk was needed */
    ck_assert_uint_eq(blocks.fresh, peak + 1);
    ck_assert_uint_eq(blocks.n_chunks, (peak + 1 + CHUNK - 1) / CHUNK);
    for (uint32_t k = 0; k < ROWS; k++) {
        if (ids[k] != NULL)
            check_span(&blocks, &row[k], ids[k], 0, row[k].n);
        blocks_drop(&blocks, &row[k]);
        free(ids[k]);
    }
    blocks_done(&blocks);
    ck_assert_uint_eq(blocks.n_chunks, 0);
}
END_TEST

/* Wherever the one that is too large stands, it is seen, and nothing is left behind. */
START_TEST(what_does_not_fit_in_half_the_bits_is_refused)
{
    static const uint32_t too_large[] = {1u << 16, 65537, 1u << 20, 1u << 31, UINT32_MAX};
    struct blocks blocks = {0};
    struct block_row row;
    uint32_t ids[300];
    for (uint32_t n = 1; n <= 300; n += n < 20 ? 1 : 35) {
        for (uint32_t at = 0; at < n; at++) {
            for (uint32_t i = 0; i < n; i++)
                ids[i] = UINT16_MAX - i;
            ids[at] = too_large[(at + n) % (sizeof too_large / sizeof *too_large)];
            ck_assert(!blocks_put(&blocks, ids, n, false, &row));
            row = put(&blocks, ids, n, true);
            check_span(&blocks, &row, ids, 0, n);
            blocks_drop(&blocks, &row);
        }
    }
    ck_assert_uint_le(blocks.fresh, 1 + blocks_of(300, true));
    blocks_done(&blocks);
}
END_TEST

START_TEST(a_row_takes_the_blocks_that_it_needs)
{
    ck_assert_uint_eq(blocks_of(1, false), 1);
    ck_assert_uint_eq(blocks_of(BLOCK_BYTES / 2, false), 1);
    ck_assert_uint_eq(blocks_of(BLOCK_BYTES / 2 + 1, false), 2);
    ck_assert_uint_eq(blocks_of(BLOCK_BYTES / 4, true), 1);
    ck_assert_uint_eq(blocks_of(BLOCK_BYTES / 4 + 1, true), 2);
    ck_assert_uint_eq(blocks_of(UINT32_MAX, true), ((uint64_t)1 << 32) * 4 / BLOCK_BYTES);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/blocks");
    TCase *t = tcase_create("blocks");
    tcase_add_loop_test(t, every_span_of_a_row_comes_back, 0, 2);
    tcase_add_test(t, memory_is_what_was_in_use_at_once);
    tcase_add_test(t, what_does_not_fit_in_half_the_bits_is_refused);
    tcase_add_test(t, a_row_takes_the_blocks_that_it_needs);
    suite_add_tcase(s, t);
    return s;
}
