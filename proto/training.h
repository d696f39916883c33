/*
 * What a training step is fed with, made of the rows of a batch: token ids in the wanted type, labels,
 * positions, document ids, a loss mask, and cumulative lengths. The daemon and the client make them with
 * the same code, so that it does not matter which of them did. What the arrays mean stands in
 * client/c/lanekeeper.h. Nothing here allocates or fails.
 *
 * A wish names the arrays whose size is the batch's, as GetBatch carries it. Cumulative lengths are short
 * and are not part of it.
 */
#ifndef LK_PROTO_TRAINING_H
#define LK_PROTO_TRAINING_H

#include "proto/batch.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_TRAINING_WANTED 0x001u       /* in every wish but "none", which is 0 */
#define LK_TRAINING_WIDE 0x002u         /* 64-bit arrays, else 32 */
#define LK_TRAINING_SHIFTED 0x004u      /* label[i] = token[i + 1] */
#define LK_TRAINING_SAME 0x008u         /* label[i] = token[i] */
#define LK_TRAINING_KEEP_BORDERS 0x010u /* the first token of a piece counts, too */
#define LK_TRAINING_POSITIONS 0x060u    /* two bits: none, in the piece, in the document, in the row */
#define LK_TRAINING_OF_PIECE 0x020u
#define LK_TRAINING_OF_DOCUMENT 0x040u
#define LK_TRAINING_OF_ROW 0x060u
#define LK_TRAINING_LOSS_MASK 0x080u    /* aligned with the labels; without labels, as for shifted ones */
#define LK_TRAINING_DOCUMENT_IDS 0x100u

struct lk_training_wish {
    uint32_t flags;
    int64_t ignore_index; /* 0 without labels, and must fit the type with them */
};

/* Is it one that lk_training_row can fulfil, in its only spelling (so that equal wishes are equal)? */
bool lk_training_wish_good(const struct lk_training_wish *wish);
bool lk_training_wish_equal(const struct lk_training_wish *a, const struct lk_training_wish *b);

enum lk_training_array {
    LK_TRAINING_AT_INPUT_IDS, /* only wide: narrow ones are the tokens as they are */
    LK_TRAINING_AT_LABELS,
    LK_TRAINING_AT_POSITIONS,
    LK_TRAINING_AT_DOCUMENT_IDS,
    LK_TRAINING_AT_LOSS_MASK,
    LK_TRAINING_ARRAYS
};

#define LK_TRAINING_ABSENT UINT64_MAX
#define LK_TRAINING_ALIGN 64u

/* Where the arrays lie in a block of their own, [rows][tokens] each, one behind the other. */
struct lk_training_layout {
    uint64_t at[LK_TRAINING_ARRAYS]; /* byte offset, aligned to 64; LK_TRAINING_ABSENT: not wished for */
    uint64_t bytes;                  /* of the block, a multiple of 64; 0: nothing is to be made */
    uint32_t tokens;                 /* T */
};
/* @rows × @tokens: below 2^58. */
void lk_training_layout(const struct lk_training_wish *wish, uint32_t rows, uint32_t tokens,
                        struct lk_training_layout *ret_layout);

/* Bytes of the largest layout. */
uint64_t lk_training_bytes_max(uint32_t rows, uint32_t tokens);

/*
 * Makes row number @row of the block.
 *
 * @tokens  [T] of the row.
 * @from    the row; its pieces are @part[0 … from->n_parts), with from->used tokens together. Whatever
 *          they say, nothing is written beyond the row: what has no piece is taken for padding.
 */
void lk_training_row(const struct lk_training_wish *wish, const struct lk_training_layout *layout,
                     uint8_t *block, uint32_t row, const uint32_t *tokens,
                     const struct lk_batch_row *from, const struct lk_batch_part *part);

/* The pieces of a row in token order, padding last, none empty:
 *
 *     struct lk_training_walk walk = lk_training_walk(from, part, tokens);
 *     while (lk_training_walk_next(&walk))
 *         … walk.at, walk.n, walk.id
 */
struct lk_training_walk {
    uint32_t at, n;  /* the piece: tokens [at, at + n) of the row */
    int32_t id;      /* from 0; -1: it is padding */
    uint32_t first;  /* its first token's place in its document; 0 for padding */
    int32_t pieces;
    uint32_t used, tokens;
    const struct lk_batch_part *part, *end;
};
struct lk_training_walk lk_training_walk(const struct lk_batch_row *from,
                                         const struct lk_batch_part *part, uint32_t tokens);
bool lk_training_walk_next(struct lk_training_walk *walk);

#endif
