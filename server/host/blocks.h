/*
 * Token ids in blocks of one size, all of them in few large pieces of memory: what a row leaves behind fits the
 * next one, so nothing is lost between rows, and no allocator is asked for each. A row is a chain of blocks.
 * Free ones are used again last in, first out, since those are still in the processor's caches.
 *
 * Memory once taken is kept until the end: who owns the blocks bounds how many are in use.
 */
#ifndef LK_HOST_BLOCKS_H
#define LK_HOST_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES 512u
#define BLOCK_PRICE (BLOCK_BYTES + 5u) /* with its link, and its share of a row's index */

struct blocks { /* zeroed = empty */
    uint8_t **chunk;    /* [n_chunks] */
    uint32_t n_chunks, cap_chunks;
    uint32_t *next;     /* [blocks of all chunks] the next one of its row, or of the free ones; 0: none */
    uint32_t free;      /* 0: none */
    uint32_t fresh;     /* blocks from this one on were never used */
    bool huge;          /* ask for huge pages; what is not used of one is memory all the same */
};

/* The ids of one row. Zeroed = none. */
struct block_row {
    uint32_t first, last; /* blocks */
    uint32_t *index;      /* of a long row: every so many of its blocks, to begin in the middle; else NULL */
    uint32_t n;           /* ids */
    bool wide;            /* u32, or u16, which half of all vocabularies fit in */
};

void blocks_done(struct blocks *blocks); /* frees all but the rows' indexes: drop them before */

uint64_t blocks_of(uint32_t n, bool wide); /* how many @n ids take */

/* A row of @ids [n], n > 0; u16 unless @wide. False: not all of them fit in u16, and nothing was put. */
bool blocks_put(struct blocks *blocks, const uint32_t *ids, uint32_t n, bool wide,
                struct block_row *ret_row);
/* Copies ids [first, first + n), which are within the row. */
void blocks_get(const struct blocks *blocks, const struct block_row *row, uint32_t first, uint32_t n,
                uint32_t *to);
/* Asks memory for what blocks_get will read first; changes nothing. */
void blocks_ask(const struct blocks *blocks, const struct block_row *row, uint32_t first);
void blocks_drop(struct blocks *blocks, struct block_row *row); /* and zeroes @row */

#endif
