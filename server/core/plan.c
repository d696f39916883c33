#include "core/plan.h"

#include "base/digest.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Children of the stream's key (ORDER.md, Keys). */
enum { KEY_DATASETS = 0, KEY_STAGES = 1 };

static uint64_t count_blocks(const struct lk_shape *shape, uint64_t block_rows,
                             uint64_t *ret_block_first)
{
    uint64_t blocks = 0;
    for (uint32_t s = 0; s < shape->shards; s++) {
        uint64_t rows = shape->shard_first[s + 1] - shape->shard_first[s];
        if (ret_block_first != NULL)
            ret_block_first[s] = blocks;
        blocks += rows / block_rows + (rows % block_rows != 0);
    }
    if (ret_block_first != NULL)
        ret_block_first[shape->shards] = blocks;
    return blocks;
}

static uint64_t longest_shard(const struct lk_shape *shape)
{
    uint64_t longest = 1;
    for (uint32_t s = 0; s < shape->shards; s++) {
        uint64_t rows = shape->shard_first[s + 1] - shape->shard_first[s];
        longest = rows > longest ? rows : longest;
    }
    return longest;
}

/* Halves the block size until every lane has LK_LANE_BLOCKS_MIN blocks or blocks are single rows. */
static uint64_t fit_block_rows(const struct lk_shape *shape, uint64_t asked, uint32_t lanes)
{
    uint64_t longest = longest_shard(shape);
    uint64_t block_rows = asked == 0 || asked > longest ? longest : asked;
    while (block_rows > 1 &&
           count_blocks(shape, block_rows, NULL) < (uint64_t)lanes * LK_LANE_BLOCKS_MIN)
        block_rows /= 2;
    return block_rows;
}

static enum lk_code plan_one(struct lk_plan *plan, uint32_t d, const struct lk_shape *shape,
                             struct lk_err *err)
{
    const struct lk_recipe *recipe = plan->recipe;
    const struct lk_dataset_recipe *dataset = &recipe->dataset[d];
    struct plan_dataset *made = &plan->dataset[d];

    made->shape = *shape;
    made->rows = shape->shard_first[shape->shards];
    if (made->rows < recipe->lanes)
        return lk_fail(err, LK_FAILED_PRECONDITION,
                       "stream %s: dataset %s has %llu rows, fewer than the %u lanes: "
                       "every lane needs at least one",
                       recipe->name, dataset->name, (unsigned long long)made->rows, recipe->lanes);
    made->block_rows = fit_block_rows(shape, recipe->block_rows, recipe->lanes);
    made->block_first = lk_zalloc((size_t)shape->shards + 1, sizeof *made->block_first);
    made->blocks = count_blocks(shape, made->block_rows, made->block_first);
    made->key = lk_hash64(dataset->name, strlen(dataset->name), lk_key(plan->key, KEY_DATASETS));
    plan->group_of[d] = dataset->group;
    plan->rows[d] = made->rows;
    return LK_OK;
}

enum lk_code plan_init(struct lk_plan *plan, const struct lk_recipe *recipe,
                       const struct lk_shape *shape, struct lk_err *err)
{
    LK_CHECK(recipe->lanes >= 1 && recipe->lanes <= LK_LANES_MAX);
    LK_CHECK(recipe->n_datasets >= 1 && recipe->n_datasets <= LK_DATASETS_MAX);
    *plan = (struct lk_plan){.recipe = recipe, .key = lk_key(recipe->seed, 0)};
    plan->dataset = lk_zalloc(recipe->n_datasets, sizeof *plan->dataset);
    plan->group_of = lk_zalloc(recipe->n_datasets, sizeof *plan->group_of);
    plan->rows = lk_zalloc(recipe->n_datasets, sizeof *plan->rows);
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        enum lk_code code = plan_one(plan, d, &shape[d], err);
        if (code != LK_OK) {
            plan_done(plan);
            return code;
        }
    }
    return LK_OK;
}

void plan_done(struct lk_plan *plan)
{
    for (uint32_t d = 0; plan->dataset != NULL && d < plan->recipe->n_datasets; d++)
        free(plan->dataset[d].block_first);
    free(plan->dataset);
    free(plan->group_of);
    free(plan->rows);
    *plan = (struct lk_plan){0};
}

uint64_t plan_lane_blocks(const struct lk_plan *plan, uint32_t dataset, uint32_t lane)
{
    uint64_t blocks = plan->dataset[dataset].blocks, lanes = plan->recipe->lanes;
    return blocks / lanes + (lane < blocks % lanes);
}

/* The shard in whose range of @first (blocks or rows) @value lies: the last s with first[s] <= value.
 * Shards without rows share their start with the next and are passed over. */
static uint32_t shard_of(const uint64_t *first, uint32_t shards, uint64_t value)
{
    uint32_t low = 0, high = shards;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (first[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct lk_perm block_order(const struct plan_dataset *dataset, uint64_t epoch_key)
{
    struct lk_perm perm;
    lk_perm_init(&perm, dataset->blocks, lk_key(epoch_key, 0));
    return perm;
}

static struct plan_block block_numbered(const struct lk_plan *plan, uint32_t d, uint64_t epoch_key,
                                        uint64_t b)
{
    const struct plan_dataset *dataset = &plan->dataset[d];
    uint32_t s = shard_of(dataset->block_first, dataset->shape.shards, b);
    uint64_t offset = (b - dataset->block_first[s]) * dataset->block_rows;
    uint64_t in_shard = dataset->shape.shard_first[s + 1] - dataset->shape.shard_first[s];
    struct plan_block block = {.first_row = dataset->shape.shard_first[s] + offset};
    LK_CHECK(offset < in_shard);
    block.rows = in_shard - offset < dataset->block_rows ? in_shard - offset : dataset->block_rows;
    block.permuted = plan->recipe->permute_rows && block.rows > 1;
    if (block.permuted)
        lk_perm_init(&block.order, block.rows, lk_key(epoch_key, 1 + b));
    return block;
}

struct plan_block plan_block_at(const struct lk_plan *plan, uint32_t dataset, uint32_t lane,
                                uint32_t epoch, uint64_t k)
{
    const struct plan_dataset *d = &plan->dataset[dataset];
    uint64_t epoch_key = lk_key(d->key, epoch);
    uint64_t b = lane + k * plan->recipe->lanes;
    LK_CHECK(b < d->blocks);
    if (plan->recipe->permute_blocks) {
        struct lk_perm perm = block_order(d, epoch_key);
        b = lk_perm_at(&perm, b);
    }
    return block_numbered(plan, dataset, epoch_key, b);
}

struct plan_place plan_find(const struct lk_plan *plan, uint32_t dataset, uint32_t epoch,
                            uint64_t row)
{
    const struct plan_dataset *d = &plan->dataset[dataset];
    LK_CHECK(row < d->rows);
    uint64_t epoch_key = lk_key(d->key, epoch);
    uint32_t s = shard_of(d->shape.shard_first, d->shape.shards, row);
    uint64_t b = d->block_first[s] + (row - d->shape.shard_first[s]) / d->block_rows;
    struct plan_block block = block_numbered(plan, dataset, epoch_key, b);
    uint64_t r = row - block.first_row;
    if (block.permuted)
        r = lk_perm_find(&block.order, r);
    if (plan->recipe->permute_blocks) {
        struct lk_perm perm = block_order(d, epoch_key);
        b = lk_perm_find(&perm, b);
    }
    uint32_t lanes = plan->recipe->lanes;
    return (struct plan_place){.lane = (uint32_t)(b % lanes), .k = b / lanes, .r = r};
}

uint64_t plan_stage_key(const struct lk_plan *plan, uint32_t stage, uint32_t lane)
{
    return lk_key(lk_key(lk_key(plan->key, KEY_STAGES), stage), lane);
}
