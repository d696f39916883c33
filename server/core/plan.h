/*
 * The plan of a stream: what of the order does not depend on what rows hold. Blocks, their
 * permutation in every epoch, which lane has which, the order of rows inside them, the keys. Immutable
 * once made; shared by all lanes. O(shards) memory, any point of it in O(log shards).
 */
#ifndef LK_CORE_PLAN_H
#define LK_CORE_PLAN_H

#include "base/keys.h"
#include "base/status.h"
#include "core/recipe.h"

#include <stdint.h>

#define LK_ORDER_VERSION 1 /* names the algorithms of core/ORDER.md; enters the order digest */

/* Blocks a lane should have in a dataset, rows permitting, so that lanes get like amounts of data. */
#define LK_LANE_BLOCKS_MIN 32

/* What the plan needs to know of a dataset. Borrowed; must outlive the plan. */
struct lk_shape {
    uint32_t shards;
    const uint64_t *shard_first; /* [shards + 1] number of the shard's first row; the last is all rows */
    const uint32_t *row_bytes;   /* [rows] stored bytes; NULL: one each. Sizes requests, orders nothing */
};

struct plan_dataset {
    struct lk_shape shape;
    uint64_t rows;
    uint64_t block_rows;         /* what `block_rows` came to */
    uint64_t blocks;
    uint64_t *block_first;       /* [shards + 1] number of the shard's first block */
    uint64_t key;
};

struct lk_plan {
    const struct lk_recipe *recipe;
    struct plan_dataset *dataset; /* [recipe->n_datasets] */
    uint32_t *group_of;           /* [recipe->n_datasets] homogeneity groups */
    uint64_t *rows;               /* [recipe->n_datasets] */
    uint64_t key;
};

/* FAILED_PRECONDITION names a dataset with fewer rows than lanes, and both numbers. */
enum lk_code plan_init(struct lk_plan *plan, const struct lk_recipe *recipe,
                       const struct lk_shape *shape, struct lk_err *err);
void plan_done(struct lk_plan *plan); /* safe on a zeroed one */

/* A block as a lane meets it: the @k-th that @lane has of @dataset in @epoch. */
struct plan_block {
    uint64_t first_row;
    uint64_t rows;
    bool permuted;
    struct lk_perm order; /* of the rows inside, when permuted */
};

uint64_t plan_lane_blocks(const struct lk_plan *plan, uint32_t dataset, uint32_t lane);
struct plan_block plan_block_at(const struct lk_plan *plan, uint32_t dataset, uint32_t lane,
                                uint32_t epoch, uint64_t k);

static inline uint64_t plan_row(const struct plan_block *block, uint64_t r)
{
    return block->first_row + (block->permuted ? lk_perm_at(&block->order, r) : r);
}

/* The inverse: where @row is drawn in @epoch. */
struct plan_place {
    uint32_t lane;
    uint64_t k; /* block of the lane */
    uint64_t r; /* row of the block, in drawn order */
};
struct plan_place plan_find(const struct lk_plan *plan, uint32_t dataset, uint32_t epoch,
                            uint64_t row);

/* The shuffle key of a lane's stage. */
uint64_t plan_stage_key(const struct lk_plan *plan, uint32_t stage, uint32_t lane);

#endif
