#include "host/blocks.h"

#include "base/mem.h"
#include "base/status.h"
#include "host/ids.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES ((size_t)2 << 20) /* a huge page */
#define CHUNK_BLOCKS ((uint32_t)(CHUNK_BYTES / BLOCK_BYTES))
#define INDEX_EVERY 16u /* blocks */
#define AHEAD 4         /* blocks that are asked of memory before they are read: a trip there takes as long */
#define LINE 64u

static uint8_t *data_of(const struct blocks *blocks, uint32_t block)
{
    return blocks->chunk[block / CHUNK_BLOCKS] + (size_t)(block % CHUNK_BLOCKS) * BLOCK_BYTES;
}

static uint32_t ids_a_block(bool wide)
{
    return BLOCK_BYTES / (wide ? 4 : 2);
}

uint64_t blocks_of(uint32_t n, bool wide)
{
    uint32_t each = ids_a_block(wide);
    return ((uint64_t)n + each - 1) / each;
}

void blocks_done(struct blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->n_chunks; i++)
        free(blocks->chunk[i]);
    free(blocks->chunk);
    free(blocks->next);
    *blocks = (struct blocks){0};
}

static void add_chunk(struct blocks *blocks)
{
    LK_CHECK(blocks->n_chunks < UINT32_MAX / CHUNK_BLOCKS);
    if (blocks->n_chunks == blocks->cap_chunks) {
        blocks->cap_chunks = blocks->cap_chunks == 0 ? 8 : 2 * blocks->cap_chunks;
        blocks->chunk = lk_resize(blocks->chunk, blocks->cap_chunks, sizeof *blocks->chunk);
        blocks->next = lk_resize(blocks->next, (size_t)blocks->cap_chunks * CHUNK_BLOCKS,
                                 sizeof *blocks->next);
    }
    uint8_t *chunk = aligned_alloc(CHUNK_BYTES, CHUNK_BYTES);
    LK_CHECK(chunk != NULL);
    if (blocks->huge)
        (void)madvise(chunk, CHUNK_BYTES, MADV_HUGEPAGE); /* a wish */
    if (blocks->n_chunks == 0)
        blocks->fresh = 1; /* 0 is none */
    blocks->chunk[blocks->n_chunks++] = chunk;
}

static uint32_t take_block(struct blocks *blocks)
{
    uint32_t block = blocks->free;
    if (block != 0) {
        blocks->free = blocks->next[block];
        return block;
    }
    if (blocks->n_chunks == 0 || blocks->fresh == blocks->n_chunks * CHUNK_BLOCKS)
        add_chunk(blocks);
    return blocks->fresh++;
}

/* All bits of what has to fit in u16. */
static uint32_t write_block(uint8_t *to, const uint32_t *ids, uint32_t n, bool wide)
{
    if (!wide)
        return ids_narrow((uint16_t *)(void *)to, ids, n);
    memcpy(to, ids, 4 * (size_t)n);
    return 0;
}

bool blocks_put(struct blocks *blocks, const uint32_t *ids, uint32_t n, bool wide,
                struct block_row *ret_row)
{
    struct block_row row = {.n = n, .wide = wide};
    uint32_t all = 0, each = ids_a_block(wide);
    uint64_t count = blocks_of(n, wide);

    LK_CHECK(n > 0);
    if (count > INDEX_EVERY)
        row.index = lk_alloc((count + INDEX_EVERY - 1) / INDEX_EVERY * sizeof *row.index);
    for (uint32_t at = 0, i = 0; at < n; at += each, i++) {
        uint32_t block = take_block(blocks);
        if (i == 0)
            row.first = block;
        else
            blocks->next[row.last] = block;
        row.last = block;
        if (row.index != NULL && i % INDEX_EVERY == 0)
            row.index[i / INDEX_EVERY] = block;
        all |= write_block(data_of(blocks, block), ids + at, n - at < each ? n - at : each, wide);
        if (n - at <= each)
            break; /* or @at might wrap */
    }
    blocks->next[row.last] = 0;
    if (all > UINT16_MAX)
        blocks_drop(blocks, &row);
    *ret_row = row;
    return row.first != 0;
}

/* Inlined, or the compiler would take a function that only prefetches for one that does nothing. */
__attribute__((always_inline)) static inline void ask_for(const struct blocks *blocks, uint32_t block)
{
    const uint8_t *data = data_of(blocks, block);
    for (uint32_t i = 0; i < BLOCK_BYTES; i += LINE)
        __builtin_prefetch(data + i);
}

/* The block of the row's id @first; *ret_first is its place there. */
static uint32_t seek(const struct blocks *blocks, const struct block_row *row, uint32_t first,
                     uint32_t *ret_first)
{
    uint32_t each = ids_a_block(row->wide), i = first / each, block = row->first;
    if (row->index != NULL) {
        block = row->index[i / INDEX_EVERY];
        i %= INDEX_EVERY;
    }
    while (i-- > 0)
        block = blocks->next[block];
    *ret_first = first % each;
    return block;
}

void blocks_ask(const struct blocks *blocks, const struct block_row *row, uint32_t first)
{
    uint32_t at;
    if (first < row->n)
        ask_for(blocks, seek(blocks, row, first, &at));
}

void blocks_get(const struct blocks *blocks, const struct block_row *row, uint32_t first, uint32_t n,
                uint32_t *to)
{
    if (n == 0)
        return;
    LK_CHECK(first < row->n && n <= row->n - first);
    uint32_t each = ids_a_block(row->wide), at = 0;
    uint32_t block = seek(blocks, row, first, &at), ahead = block;
    uint64_t more = blocks_of(at + n, row->wide); /* at < each, so this is as many as the span lies in */
    for (uint32_t i = 0; i < AHEAD && more > 0; i++, more--) {
        ask_for(blocks, ahead);
        ahead = blocks->next[ahead];
    }
    for (;;) {
        uint32_t here = n < each - at ? n : each - at;
        const uint8_t *data = data_of(blocks, block);
        if (more > 0) {
            ask_for(blocks, ahead);
            ahead = blocks->next[ahead];
            more--;
        }
        if (row->wide)
            memcpy(to, data + 4 * (size_t)at, 4 * (size_t)here);
        else
            ids_widen(to, (const uint16_t *)(const void *)data + at, here);
        if (here == n)
            return;
        to += here;
        n -= here;
        at = 0;
        block = blocks->next[block];
    }
}

void blocks_drop(struct blocks *blocks, struct block_row *row)
{
    if (row->first != 0) {
        blocks->next[row->last] = blocks->free;
        blocks->free = row->first;
    }
    free(row->index);
    *row = (struct block_row){0};
}
