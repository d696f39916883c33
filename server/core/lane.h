/*
 * A lane: one of the L logical streams of a recipe. It is a source and a chain of sequencers, and to
 * the rest of the program these few verbs. Host, offline tools, simulator and tests drive it through
 * them alone. It is pure: no I/O, no threads, no clock; what it gives depends on the plan, the lane's
 * number and the measures of rows, never on when or in which order it learns of them.
 */
#ifndef LK_CORE_LANE_H
#define LK_CORE_LANE_H

#include "base/digest.h"
#include "core/plan.h"
#include "core/source.h"
#include "seq/seq.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_lane;

/* Never fails: all that can be wrong with a recipe has been refused before. Takes memory for its
 * buffers; the largest are bounded by the recipe (`lane_bound`). */
struct lk_lane *lane_new(const struct lk_plan *plan, uint32_t lane);
void lane_free(struct lk_lane *lane);

/*
 * The next sequence. SEQ_OK: @ret_item is it, valid until the next call on this lane, and the lane's
 * position has advanced by one. SEQ_WANT: the front slice of dataset lane_wanted() has not been
 * measured (or not even planned). SEQ_END: the lane has no more; what was left is in its counts.
 * SEQ_ERROR: lane_error() says why, for good.
 */
enum seq_pull lane_next(struct lk_lane *lane, struct lk_item *ret_item);
uint32_t lane_wanted(const struct lk_lane *lane);
const struct lk_err *lane_error(const struct lk_lane *lane);

uint64_t lane_position(const struct lk_lane *lane); /* sequences handed out, ever */
uint32_t lane_number(const struct lk_lane *lane);

/* Its source, for planning and measuring ahead: see core/source.h. */
struct source *lane_source(struct lk_lane *lane);

struct lane_totals {
    uint64_t rows, records, tokens_in; /* drawn; kept; their tokens */
    uint64_t dropped[LK_DROP_REASONS]; /* rows, by reason */
    uint64_t tokens_out;               /* in sequences handed out */
    uint64_t waiting;                  /* tokens held by the sequencers */
    struct seq_counts pack;            /* lost, padded, cuts, … */
};

/* tokens_in == tokens_out + pack.lost + waiting, always (law 5). */
void lane_totals(const struct lk_lane *lane, struct lane_totals *ret_totals);

/* All state, exactly, as bytes that depend on nothing but plan, lane and position. */
void lane_save(const struct lk_lane *lane, struct lk_buf *out);
/* Onto a lane just made. DATA_LOSS when the bytes are not such a state; then only lane_free is left. */
enum lk_code lane_load(struct lk_lane *lane, const void *bytes, size_t n, struct lk_err *err);

/* Walks every invariant by LK_CHECK; for tests and the simulator. */
void lane_check(const struct lk_lane *lane);

/* Bytes a lane of this recipe allocates at most, were every record one token long. */
uint64_t lane_bound(const struct lk_recipe *recipe);

#endif
