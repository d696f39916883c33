/*
 * A whole run before it starts: the lanes of a stream driven over known counts alone, no data read.
 * It is the daemon's own machine that runs, so what it finds is what will be.
 */
#ifndef LK_CLIENT_CLI_EXACT_H
#define LK_CLIENT_CLI_EXACT_H

#include "config/runtime.h"
#include "host/stream.h"
#include "op/measure.h"

#include <stdbool.h>
#include <stdint.h>

struct exact_dataset {
    uint64_t tokens;                 /* in the steps */
    uint64_t drawn;                  /* rows, also of what is still held or lost at the end */
    uint64_t dropped[LK_DROP_KINDS]; /* of them, by rule */
};

struct exact {
    bool run;                        /* false: not all counts that it takes are known, or it fails: */
    char *fails;                     /* why, or NULL */
    uint64_t rows, known;            /* of all datasets */
    bool ended;                      /* by itself; else after the steps asked for */
    uint64_t steps, sequences;
    uint64_t tokens, padded;         /* in the steps */
    uint32_t n;
    struct exact_dataset *dataset;   /* [n] */
};

/*
 * Runs @stream to its end, or for @steps steps (0: to its end; at once not run where it has none). Shows its
 * progress on standard error.
 */
enum lk_code exact_run(const struct stream *stream, const struct lk_runtime *runtime, uint64_t steps,
                       struct exact *ret_exact, struct lk_err *err);
void exact_done(struct exact *exact); /* safe on a zeroed one */

#endif
