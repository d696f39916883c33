/*
 * The set of lengths 1…T present among waiting records, as two bitsets, one of them reversed, so that
 * "which two lengths add up to R" is a few dozen word operations whatever the number of records.
 */
#ifndef LK_SEQ_LENGTHS_H
#define LK_SEQ_LENGTHS_H

#include <stdbool.h>
#include <stdint.h>

struct lengths {
    uint32_t max;       /* T */
    uint32_t words;
    uint64_t *present;  /* bit i: length i is present */
    uint64_t *reversed; /* bit T-i: length i is present */
    uint32_t *count;    /* [T+1] records of that length; owned by the caller's pool */
};

void lengths_init(struct lengths *set, uint32_t max);
void lengths_done(struct lengths *set); /* safe on a zeroed one */
uint64_t lengths_bound(uint32_t max); /* bytes that lengths_init allocates */
void lengths_add(struct lengths *set, uint32_t length);
void lengths_remove(struct lengths *set, uint32_t length);

/* The largest present length <= @limit, or 0. */
uint32_t lengths_at_most(const struct lengths *set, uint32_t limit);
/* The smallest present length >= @limit, or 0. */
uint32_t lengths_at_least(const struct lengths *set, uint32_t limit);

/* The largest a <= @limit such that a and b = sum - a <= a are both present (twice when a = b); 0 when
 * there is none. */
uint32_t lengths_pair(const struct lengths *set, uint32_t sum, uint32_t limit);

#endif
