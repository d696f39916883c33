/*
 * Steps: how the sequences of the lanes become global batches, and batches the cuts of ranks. Pure
 * arithmetic on the batch schedule and (rank, world); nothing here knows what a sequence holds.
 */
#ifndef LK_CORE_STEPS_H
#define LK_CORE_STEPS_H

#include "core/recipe.h"

#include <stdint.h>

/* Steps below this can be asked for. With at most 2^16 sequences of a lane in a step, positions stay
 * below 2^63, also for steps somewhat beyond it. */
#define LK_STEP_MAX (1ull << 46)

/* Sequences in global batch @step: N. */
uint32_t steps_size(const struct lk_recipe *recipe, uint64_t step);

/* Sequences of each lane before @step: the lane position at which the step begins. @step may be up to
 * 2 * LK_STEP_MAX. */
uint64_t steps_start(const struct lk_recipe *recipe, uint64_t step);

/* The step to which the lane sequence at @position belongs. */
uint64_t steps_at(const struct lk_recipe *recipe, uint64_t position);

/* The rows of the global batch that @rank of @world reads: [first, first + rows). Rank r gets
 * [r*N/W, (r+1)*N/W), rounded down: sizes differ by one at most, and the cuts in rank order are the
 * batch. 1 <= world <= N, rank < world. */
struct steps_cut {
    uint32_t first, rows;
};
struct steps_cut steps_cut(uint32_t size, uint32_t rank, uint32_t world);

/* Row @row of a batch of @size is sequence number row % (size/L) of the step in lane row / (size/L). */
static inline uint32_t steps_lane(const struct lk_recipe *recipe, uint32_t size, uint32_t row)
{
    return row / (size / recipe->lanes);
}

#endif
