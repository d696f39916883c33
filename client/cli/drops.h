/*
 * The list of dropped rows: a line each on standard output, in the order of datasets, shards and rows, while rows
 * become known in any order. What is not written yet is kept for so many rows and no more: whoever measures waits
 * where there is no room, for the rows that came first or for who reads.
 *
 *   s: dataset d shard part-0.jsonl row 4: malformed_row
 *   {"stream":"s","dataset":"d","shard":"part-0.jsonl","row_in_shard":4,"row":4,"reason":"malformed_row"}
 */
#ifndef LK_CLIENT_CLI_DROPS_H
#define LK_CLIENT_CLI_DROPS_H

#include "client/cli/measure.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"

#include <stdbool.h>
#include <stdint.h>

struct drops {
    const struct measure_result *result;
    struct progress *wiped;  /* before something is written; NULL: need not be */
    bool json;
    uint64_t *before;        /* [result->n] rows of the datasets before */
    uint8_t *why;            /* of a row, a ring: enum lk_drop, or that it is not known */
    uint32_t d;              /* the first row that was not looked at yet: dataset, */
    uint64_t row;            /* and row in it */
    struct lk_buf line, out; /* whole lines, at most PIPE_BUF bytes of them */
    struct output output;
};

/* Everything is borrowed; the datasets of @result are all there. */
void drops_init(struct drops *drops, const struct measure_result *result, bool json, struct progress *wiped);
void drops_done(struct drops *drops); /* of a zeroed one is fine */

/* May rows [@row, @row + @n) of dataset @d be given? @n is small. */
bool drops_room(const struct drops *drops, uint32_t d, uint64_t row, uint32_t n);

/* What became of a row that there is room for, also of one that is kept. Once each. */
void drops_put(struct drops *drops, uint32_t d, uint64_t row, uint8_t why);

/*
 * Writes what can be written by now, as soon as there is enough of it, or @all. Waits for who reads; CANCELLED when
 * the descriptor @stop (-1: none) becomes readable, whoever reads or not. Else fails as writing does.
 */
enum lk_code drops_write(struct drops *drops, bool all, int stop, struct lk_err *err);

#endif
