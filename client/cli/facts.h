/*
 * What can be said of a stream without running it: what its plan fixes, and estimates from a sample of
 * its rows. Estimates are called so wherever they are shown; nothing else depends on them, and they
 * alone use floating point.
 */
#ifndef LK_CLIENT_CLI_FACTS_H
#define LK_CLIENT_CLI_FACTS_H

#include "host/stream.h"
#include "op/measure.h"

#include <stdint.h>

struct facts_dataset {
    uint64_t rows, row_bytes;         /* stored, without line ends */
    uint32_t shards;
    uint64_t block_rows, blocks;
    uint64_t lane_blocks_min, lane_blocks_max;
    uint64_t weight;
    /* the sample */
    uint32_t sampled;                 /* rows; 0: none, and no estimates */
    uint32_t kept;
    uint32_t dropped[LK_DROP_KINDS];
    uint32_t longer;                  /* kept rows with more tokens than a sequence */
    char *no_sample;                  /* why there is none, or NULL */
    /* estimates of one pass, from it */
    uint64_t pass_tokens, pass_rows, pass_text_bytes;
    uint64_t pass_steps;              /* steps until the dataset has been passed once; 0: unknown */
};

struct facts {
    const struct stream *stream;      /* borrowed */
    uint64_t weights;                 /* sum */
    uint32_t n;
    struct facts_dataset *dataset;    /* [n] */
    bool estimated;                   /* every dataset was sampled, and kept something */
    uint64_t steps, tokens;           /* finite and estimated: of the whole stream */
    const char *ends_by;              /* finite: the dataset that ends it first, or NULL: all are used up */
};

/* @sample: rows read of each dataset, at most; 0: none. Only failures of memory fail: what cannot be
 * read has no estimate, and says why. */
void facts_of(const struct stream *stream, uint32_t sample, struct facts *ret_facts);
void facts_done(struct facts *facts); /* safe on a zeroed one */

#endif
