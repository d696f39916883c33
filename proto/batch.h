/*
 * A batch in memory: the layout of a slot in shared memory and of the payload of a GetBatch reply,
 * so that a local and a remote trainer read the same bytes with the same code. Little-endian.
 *
 *   struct lk_batch_head                    64 bytes
 *   struct lk_batch_row   [rows]            one per sequence
 *   uint32_t              [rows][tokens]    at tokens_at, 64-byte aligned: the token ids, row-major
 *   struct lk_batch_part  [...]             at parts_at: the pieces of documents; a row's pieces are
 *                                           parts[first_part … first_part + n_parts), in token order
 *
 * A slot holds the rows of a whole step (those that were asked for are filled in); a reply holds the
 * rows of one rank. Tokens after a row's used ones are padding (the recipe's pad_id).
 */
#ifndef LK_PROTO_BATCH_H
#define LK_PROTO_BATCH_H

#include <stdint.h>

#define LK_BATCH_MAGIC 0x31424b4cu /* "LKB1" */

struct lk_batch_head {
    uint32_t magic;
    uint32_t rows;       /* sequences in this block */
    uint32_t tokens;     /* tokens a sequence (T) */
    uint32_t first_row;  /* number in the global batch of row 0 of this block */
    uint64_t step;
    uint64_t tokens_at;  /* byte offset from the head */
    uint64_t parts_at;
    uint64_t bytes;      /* of the whole block; a shared slot's parts end below it */
    uint64_t n_parts;
    uint64_t reserved;
};

struct lk_batch_row {
    uint64_t digest_lo, digest_hi; /* of the sequence's values, see server/core/ORDER.md */
    uint32_t first_part;
    uint32_t n_parts;              /* 0: the whole row is padding */
    uint32_t used;                 /* tokens that are data; the rest is padding */
    uint32_t reserved;
};

struct lk_batch_part {
    uint64_t row;        /* number in the dataset */
    uint32_t dataset;    /* number in the recipe */
    uint32_t epoch;      /* pass of the dataset in this lane, from 0 */
    uint32_t first;      /* first token of the record that is in this piece */
    uint32_t tokens;     /* length of the piece */
};

_Static_assert(sizeof(struct lk_batch_head) == 64, "wire layout");
_Static_assert(sizeof(struct lk_batch_row) == 32, "wire layout");
_Static_assert(sizeof(struct lk_batch_part) == 24, "wire layout");

#endif
