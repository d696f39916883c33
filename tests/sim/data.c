/* The data: token counts and ids, made up from (dataset, row) alone. */
#include "recipe.h"
#include "rng.h"

#define REASONS 8 /* of the ops: 1…8 */

static uint64_t hash_of(const struct sim_dataset *dataset, uint64_t row, uint64_t what)
{
    return rng_hash(rng_hash(dataset->key + what) ^ rng_hash(row * 0x9e3779b97f4a7c15u + what));
}

static uint32_t tokens_of(const struct sim_dataset *dataset, uint64_t row, uint64_t random)
{
    uint32_t most = dataset->most;
    switch (dataset->shape) {
    case SIM_EQUAL:
        return most;
    case SIM_UNIFORM:
        return 1 + (uint32_t)(random % most);
    case SIM_SKEWED:
        return 1 + (uint32_t)(random % most) / (1 + (uint32_t)(random >> 40) % 16);
    case SIM_NEAR:
        return most + 1 - (uint32_t)(random % 3) + (most == 1);
    case SIM_GIANT:
        return row == dataset->key % dataset->rows ? 30 * most : 1 + (uint32_t)(random % most);
    case SIM_SHAPES:
        break;
    }
    return 1;
}

struct sim_row sim_row(const struct sim_dataset *dataset, uint64_t row)
{
    uint64_t random = hash_of(dataset, row, 1);
    struct sim_row out = {.text_bytes = (uint32_t)(random >> 50) % 100};
    if (row == dataset->fatal)
        out.fatal = true;
    else if (hash_of(dataset, row, 2) % 1000 < dataset->drops)
        out.drop = (uint8_t)(1 + random % REASONS);
    else
        out.tokens = tokens_of(dataset, row, random);
    return out;
}

uint32_t sim_row_stored(const struct sim_dataset *dataset, uint64_t row)
{
    return 1 + (uint32_t)(hash_of(dataset, row, 3) % dataset->stored);
}

uint32_t sim_token(const struct sim_dataset *dataset, uint64_t row, uint32_t i)
{
    return (uint32_t)(rng_hash(dataset->key ^ (row << 20) ^ i) % dataset->vocab);
}
