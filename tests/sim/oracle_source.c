/* Keys, permutation, blocks and lanes, mixing: ORDER.md from the top down to "Sequencers". */
#include "oracle_private.h"

#include <string.h>
#include <xxhash.h>

__extension__ typedef unsigned __int128 wide;

static uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
}

uint64_t oracle_key(uint64_t parent, uint64_t i)
{
    return mix64(parent + 0x9e3779b97f4a7c15ull * (i + 1));
}

uint64_t oracle_below(uint64_t random, uint64_t n)
{
    return (uint64_t)(((wide)random * n) >> 64);
}

uint64_t oracle_stage_key(const struct sim_recipe *recipe, uint32_t stage, uint32_t lane)
{
    uint64_t stream = oracle_key(recipe->seed, 0);
    return oracle_key(oracle_key(oracle_key(stream, 1), stage), lane);
}

static uint64_t permuted(uint64_t n, uint64_t k, uint64_t x)
{
    uint32_t h = 1;
    while (h < 31 && (1ull << (2 * h)) < n)
        h++;
    uint64_t m = (1ull << h) - 1;
    do {
        uint64_t left = x >> h, right = x & m;
        for (uint64_t r = 0; r < 6; r++) {
            uint64_t turned = left ^ (mix64(oracle_key(k, r) + right) & m);
            left = right;
            right = turned;
        }
        x = left << h | right;
    } while (x >= n);
    return x;
}

/* Blocks ---------------------------------------------------------------------------------------- */

static uint64_t blocks_of(const struct sim_dataset *dataset, uint64_t block_rows)
{
    uint64_t blocks = 0;
    for (uint32_t s = 0; s < dataset->shards; s++)
        blocks += (dataset->shard_rows[s] + block_rows - 1) / block_rows;
    return blocks;
}

static uint64_t block_rows_of(const struct sim_recipe *recipe, const struct sim_dataset *dataset)
{
    uint64_t largest = 1, b = recipe->block_rows;
    for (uint32_t s = 0; s < dataset->shards; s++)
        if (dataset->shard_rows[s] > largest)
            largest = dataset->shard_rows[s];
    if (b == 0 || b > largest)
        b = largest;
    while (b > 1 && blocks_of(dataset, b) < 32ull * recipe->lanes)
        b /= 2;
    return b;
}

/* The first row of block @b, and how many it has. */
static void block_at(const struct sim_dataset *dataset, uint64_t block_rows, uint64_t b, uint64_t *ret_first,
                     uint64_t *ret_rows)
{
    uint64_t first = 0;
    for (uint32_t s = 0;; s++) {
        uint64_t rows = dataset->shard_rows[s], blocks = (rows + block_rows - 1) / block_rows;
        if (b < blocks) {
            uint64_t left = rows - b * block_rows;
            *ret_first = first + b * block_rows;
            *ret_rows = left < block_rows ? left : block_rows;
            return;
        }
        b -= blocks;
        first += rows;
    }
}

void oracle_source_init(struct oracle_source *source, const struct sim_recipe *recipe, uint32_t lane)
{
    *source = (struct oracle_source){.recipe = recipe, .lane = lane};
    uint64_t datasets = oracle_key(oracle_key(recipe->seed, 0), 0);
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        const struct sim_dataset *dataset = &recipe->dataset[d];
        struct oracle_place *place = &source->place[d];
        place->block_rows = block_rows_of(recipe, dataset);
        place->blocks = blocks_of(dataset, place->block_rows);
        place->key = XXH3_64bits_withSeed(dataset->name, strlen(dataset->name), datasets);
        place->part = true;
    }
}

/* The row that stands next; false when there is none any more. */
static bool row_now(const struct oracle_source *source, uint32_t d, uint64_t *ret_row, uint64_t *ret_block_rows)
{
    const struct sim_recipe *recipe = source->recipe;
    const struct sim_dataset *dataset = &recipe->dataset[d];
    const struct oracle_place *place = &source->place[d];
    if (dataset->then != SIM_REPEAT && place->epoch >= dataset->epochs)
        return false;
    uint64_t key = oracle_key(place->key, place->epoch), first, rows;
    uint64_t b = source->lane + place->k * recipe->lanes;
    if (recipe->permute_blocks)
        b = permuted(place->blocks, oracle_key(key, 0), b);
    block_at(dataset, place->block_rows, b, &first, &rows);
    uint64_t r = place->r;
    if (recipe->permute_rows && rows > 1)
        r = permuted(rows, oracle_key(key, 1 + b), r);
    *ret_row = first + r;
    *ret_block_rows = rows;
    return true;
}

static void pass(const struct oracle_source *source, struct oracle_place *place, uint64_t block_rows)
{
    if (++place->r < block_rows)
        return;
    place->r = 0;
    place->k++;
    if (source->lane + place->k * source->recipe->lanes < place->blocks)
        return;
    place->k = 0;
    place->epoch++;
}

/* Mixing ---------------------------------------------------------------------------------------- */

struct front {
    bool there;
    uint64_t row, block_rows, cost;
    uint32_t tokens;
};

static uint64_t cost_of(const struct sim_recipe *recipe, const struct sim_row *row)
{
    if (recipe->mixture == SIM_TOKENS)
        return row->tokens;
    if (recipe->mixture == SIM_BYTES)
        return row->text_bytes == 0 ? 1 : row->text_bytes;
    return 1;
}

/* Rows are drawn until the next one has a record, which stays where it is. */
static enum oracle_why bring(struct oracle_source *source, uint32_t d, struct front *ret_front)
{
    const struct sim_dataset *dataset = &source->recipe->dataset[d];
    struct oracle_place *place = &source->place[d];
    *ret_front = (struct front){0};
    while (row_now(source, d, &ret_front->row, &ret_front->block_rows)) {
        struct sim_row row = sim_row(dataset, ret_front->row);
        if (row.fatal)
            return ORACLE_FAILS;
        if (row.drop == 0) {
            ret_front->there = true;
            ret_front->tokens = row.tokens;
            ret_front->cost = cost_of(source->recipe, &row);
            return ORACLE_GIVES;
        }
        pass(source, place, ret_front->block_rows);
        if (++place->dry >= dataset->rows && dataset->then == SIM_REPEAT)
            return ORACLE_FAILS;
    }
    return ORACLE_GIVES;
}

static uint32_t pick(const struct oracle_source *source, const struct front *front)
{
    const struct sim_recipe *recipe = source->recipe;
    wide weights = 0, charges = 0;
    uint32_t best = UINT32_MAX;
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        if (source->place[d].part) {
            weights += recipe->dataset[d].weight;
            charges += source->place[d].charge;
        }
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        const struct oracle_place *place = &source->place[d];
        if (!place->part || place->charge * weights > recipe->dataset[d].weight * charges)
            continue;
        if (best == UINT32_MAX ||
            (wide)(place->charge + front[d].cost) * recipe->dataset[best].weight <
                (wide)(source->place[best].charge + front[best].cost) * recipe->dataset[d].weight)
            best = d;
    }
    return best;
}

enum oracle_why oracle_source_next(struct oracle_source *source, struct oracle_span *ret_span)
{
    const struct sim_recipe *recipe = source->recipe;
    for (;;) {
        struct front front[SIM_DATASETS_MAX] = {0};
        for (uint32_t d = 0; d < recipe->n_datasets; d++)
            if (source->place[d].part && bring(source, d, &front[d]) == ORACLE_FAILS)
                return ORACLE_FAILS;
        uint32_t d = pick(source, front);
        if (d == UINT32_MAX)
            return ORACLE_ENDS;
        struct oracle_place *place = &source->place[d];
        if (front[d].there) {
            *ret_span = (struct oracle_span){.row = front[d].row,
                                             .dataset = d,
                                             .epoch = place->epoch,
                                             .tokens = front[d].tokens};
            pass(source, place, front[d].block_rows);
            place->dry = 0;
            place->charge += front[d].cost;
            return ORACLE_GIVES;
        }
        if (recipe->dataset[d].then == SIM_STOP)
            return ORACLE_ENDS;
        place->part = false;
        for (uint32_t i = 0; i < recipe->n_datasets; i++)
            source->place[i].charge = 0;
    }
}
