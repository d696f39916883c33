#include "core/steps.h"

#include "base/status.h"

/* The entry of the schedule that @step falls under. Schedules are short. */
static uint32_t entry_of(const struct lk_recipe *recipe, uint64_t step)
{
    uint32_t i = 0;
    while (i + 1 < recipe->n_batches && recipe->batch[i + 1].from <= step)
        i++;
    return i;
}

uint32_t steps_size(const struct lk_recipe *recipe, uint64_t step)
{
    return recipe->batch[entry_of(recipe, step)].size;
}

uint64_t steps_start(const struct lk_recipe *recipe, uint64_t step)
{
    LK_CHECK(step <= 2 * LK_STEP_MAX);
    uint64_t position = 0;
    for (uint32_t i = 0; i < recipe->n_batches && recipe->batch[i].from < step; i++) {
        uint64_t until = i + 1 < recipe->n_batches && recipe->batch[i + 1].from < step
                             ? recipe->batch[i + 1].from
                             : step;
        position += (until - recipe->batch[i].from) * (recipe->batch[i].size / recipe->lanes);
    }
    return position;
}

uint64_t steps_at(const struct lk_recipe *recipe, uint64_t position)
{
    uint64_t step = 0;
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        uint64_t per_step = recipe->batch[i].size / recipe->lanes;
        step = recipe->batch[i].from + position / per_step;
        if (i + 1 == recipe->n_batches || step < recipe->batch[i + 1].from)
            break;
        position -= (recipe->batch[i + 1].from - recipe->batch[i].from) * per_step;
    }
    return step;
}

struct steps_cut steps_cut(uint32_t size, uint32_t rank, uint32_t world)
{
    LK_CHECK(world >= 1 && world <= size && rank < world);
    uint32_t first = (uint32_t)((uint64_t)rank * size / world);
    uint32_t end = (uint32_t)((uint64_t)(rank + 1) * size / world);
    return (struct steps_cut){.first = first, .rows = end - first};
}
