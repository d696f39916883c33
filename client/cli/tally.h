/*
 * What the rows of a dataset add up to: what a curator wants to know of it.
 */
#ifndef LK_CLIENT_CLI_TALLY_H
#define LK_CLIENT_CLI_TALLY_H

#include "base/mem.h"
#include "op/measure.h"
#include "store/counts.h"

#include <stdint.h>

#define TALLY_LENGTHS 31 /* powers of two up to LK_COUNTS_TOKENS_MAX */

struct tally {
    uint64_t rows;                        /* added so far */
    uint64_t row_bytes;                   /* of them, as stored */
    uint64_t dropped[LK_DROP_KINDS];      /* rows, by rule; [0]: kept */
    uint64_t text_bytes, tokens;          /* of kept rows */
    uint64_t specials;                    /* special tokens in their text */
    uint32_t longest;                     /* tokens of the longest row, */
    uint64_t longest_row;                 /* and its number in the dataset: of several the lowest */
    struct {
        uint64_t rows, tokens;
    } length[TALLY_LENGTHS];              /* kept rows of 2^i … 2^(i+1) - 1 tokens */
};

void tally_add(struct tally *tally, uint64_t row, uint32_t row_bytes, const struct lk_count *count);

/* The drops, the texts and tokens, and the lengths, as lines of text. @place: where the longest row is. */
void tally_text(const struct tally *tally, const char *place, struct lk_buf *out);
/* The same as members of an object, each after a comma. */
void tally_json(const struct tally *tally, struct lk_buf *out);

#endif
