/*
 * Counts files: what measuring the rows of one shard found out, so that it need not be found out again.
 *
 * One file for a shard and a way of measuring (the ops digest: see config/canonical.h). It may know
 * some rows and not others. Rows are kept in blocks of 256: as bits, about two bytes a row, since the
 * length of a row foretells that of its text, and that the number of its tokens. Everything is
 * checksummed. Here are bytes only; which file is read and written when is host/counts.h's affair.
 *
 * File, little-endian: "LKN1", u32 version (1), ops digest 16, digest of the shard's data 16, u64
 * XXH3-64 of the lengths of its rows (u32 each), u64 rows, u64 rows known, u64 bytes after the head,
 * u64 XXH3-64 of the directory, u64 0, u64 XXH3-64 of the 88 bytes before. Then the directory: u16
 * bytes of each block, 0 where no row of it is known. Then the blocks:
 *
 *   u64   XXH3-64 of what follows, seeded with the block's number
 *   u8    flags: 1 all rows are known, 2 some are dropped, 4 some have special tokens
 *   bits  which rows are known, unless all are; a byte for 8, the lowest bit first
 *   columns, of known rows: [drop reasons], bytes of the text, [special tokens]; of kept rows: tokens
 *
 * A column foretells each value from one that is known already, x (the row's bytes for the text's, the
 * text's for the tokens, 0 for the others): base + x * slope / 65536. What is left, folded to be
 * positive, is written in Exp-Golomb codes (J. Teuhola, 1978) whose order grows with the bits of what
 * was foretold. A column is: zigzag base, zigzag slope, u8 growth (order += bits * growth / 4),
 * u8 order + 64, then the codes from the lowest bit on, filled up with zeros to a byte.
 */
#ifndef LK_STORE_COUNTS_H
#define LK_STORE_COUNTS_H

#include "base/digest.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_COUNTS_BLOCK 256u
#define LK_COUNTS_SUFFIX ".lkc"
#define LK_COUNTS_DROPS 16u           /* reasons are below */
#define LK_COUNTS_TOKENS_MAX (1u << 30)

/* Of one row. Zeroed: not known. */
struct lk_count {
    uint32_t tokens;     /* 0 when dropped, else 1 … LK_COUNTS_TOKENS_MAX */
    uint32_t text_bytes;
    uint32_t specials;   /* special tokens in the text of a kept row */
    uint8_t drop;        /* 0: kept */
    bool known;
};

struct lk_counts_id {
    struct lk_digest ops;   /* how rows are measured */
    struct lk_digest shard; /* of its data */
    uint64_t lengths;       /* lk_hash64 of its rows' lengths, u32 each */
    uint64_t rows;          /* 1 … */
};

/* A file in memory: immutable, may be shared by threads. */
struct lk_counts_file {
    struct lk_counts_id id;
    uint64_t known;      /* rows */
    uint32_t blocks;
    uint32_t *at;        /* [blocks + 1] where each begins in bytes; private, like the next */
    struct lk_buf bytes;
};

static inline uint32_t lk_counts_blocks(uint64_t rows)
{
    return (uint32_t)((rows + LK_COUNTS_BLOCK - 1) / LK_COUNTS_BLOCK);
}

/* How many rows block @b of @rows has. */
static inline uint32_t lk_counts_block_rows(uint64_t rows, uint32_t b)
{
    uint64_t left = rows - (uint64_t)b * LK_COUNTS_BLOCK;
    return left < LK_COUNTS_BLOCK ? (uint32_t)left : LK_COUNTS_BLOCK;
}

/* Takes the contents of @bytes, on failure too. @name stands for the file in texts. DATA_LOSS: damaged;
 * FAILED_PRECONDITION: of another version. The blocks are checked when they are read. */
enum lk_code lk_counts_parse(const char *name, struct lk_buf *bytes,
                             struct lk_counts_file *ret_file, struct lk_err *err);
void lk_counts_file_done(struct lk_counts_file *file); /* safe on a zeroed one */

bool lk_counts_id_equal(const struct lk_counts_id *a, const struct lk_counts_id *b);

/* The rows of block @b; those not known are zeroed. @row_bytes: of all rows of the shard. DATA_LOSS
 * names the block. */
enum lk_code lk_counts_read(const struct lk_counts_file *file, uint32_t b,
                            const uint32_t *row_bytes,
                            struct lk_count ret_row[static LK_COUNTS_BLOCK], struct lk_err *err);

/* Checks every block as far as that can be done without the rows' lengths. */
enum lk_code lk_counts_check(const struct lk_counts_file *file, struct lk_err *err);

/* A file in the making: begin, then for each block in turn one of keep and put, then end. */
struct lk_counts_build {
    struct lk_counts_id id;
    struct lk_buf out;
    uint32_t next;
    uint64_t known;
};

void lk_counts_begin(struct lk_counts_build *build, const struct lk_counts_id *id);
/* The next block as @file has it; NULL: no row of it is known. */
void lk_counts_keep(struct lk_counts_build *build, const struct lk_counts_file *file);
/* The next block, of these rows. */
void lk_counts_put(struct lk_counts_build *build, const uint32_t *row_bytes,
                   const struct lk_count row[static LK_COUNTS_BLOCK]);
void lk_counts_end(struct lk_counts_build *build, struct lk_buf *ret_bytes); /* gives the memory away */

/* "<ops>-<shard>.lkc"; caller frees. */
char *lk_counts_name(const struct lk_counts_id *id);
/* Is it such a name? */
bool lk_counts_is_name(const char *name);

#endif
