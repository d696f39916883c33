/*
 * Rows whose counts a lane had from the counts cache rather than from measuring, until all their tokens
 * have been handed out: when one's tokens are made at last, there must be as many.
 */
#ifndef LK_HOST_COUNTED_H
#define LK_HOST_COUNTED_H

#include "seq/seq.h"

#include <stdbool.h>
#include <stdint.h>

struct counted_row {
    uint64_t row;
    uint32_t dataset;
    uint32_t epoch;
    uint32_t tokens; /* that it has, says the cache; 0: a free place. Private, like the next */
    uint32_t left;   /* of them, not handed out yet */
};

/* Zeroed = empty. A hash table with linear probing. */
struct counted {
    struct counted_row *place; /* [places], a power of two */
    uint64_t places, n;
};

void counted_done(struct counted *counted); /* safe on a zeroed one */

/* Adds a row, whole: of 1 token or more. False: it is here already. */
bool counted_add(struct counted *counted, const struct lk_span *record);

/* A span of a row is handed out: how many tokens the row has in all. It goes with its last one. 0: it is not
 * here. */
uint32_t counted_use(struct counted *counted, const struct lk_span *span);

/* Makes @to, which is empty, a copy. */
void counted_copy(struct counted *to, const struct counted *from);

#endif
