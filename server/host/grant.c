#include "host/grant.h"

#include "base/status.h"

#define SLOTS_MIN 4 /* two steps in the making, and two with trainers */

/* What batch memory a stream would like: a window for a training run, a smaller one for every other
 * cursor, and as much again as a window for trainers that hold on to their batches. */
static uint32_t slots_wanted(const struct lk_runtime *runtime)
{
    uint32_t window = 2 * runtime->prefetch_steps + 2;
    return 2 * window + runtime->cursors_max * (runtime->prefetch_steps + 2);
}

struct slots_grant slots_granted(const struct lk_runtime *runtime, uint32_t n_streams, const struct lk_recipe *recipe)
{
    struct slots_grant grant = {.rows = 0};
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        if (recipe->batch[i].size > grant.rows)
            grant.rows = recipe->batch[i].size;
    grant.step_bytes = (uint64_t)grant.rows * recipe->sequence * 4;
    LK_CHECK(n_streams > 0 && grant.step_bytes > 0);
    uint64_t fit = runtime->arena_bytes / 2 / n_streams / grant.step_bytes;
    uint32_t wanted = slots_wanted(runtime);
    grant.slots = fit >= wanted ? wanted : fit < SLOTS_MIN ? SLOTS_MIN : (uint32_t)fit;
    grant.leased_max = grant.slots / 4 + 1;
    return grant;
}
