#include "config/budget.h"

#include "config/config.h"
#include "config/scalar.h"
#include "core/lane.h"

#include <stdio.h>

/* Bytes a thing takes in a lane, rounded up from the stages' own structures. */
#define RECORD_BYTES  64ull   /* a slot of a shuffle of records, with its span */
#define PACKED_BYTES  512ull  /* a slot of a shuffle of sequences, of a dozen documents or so */
#define STEPS_AT_ONCE 4       /* batch slots that a stream has at least */
#define POOL_BYTES    96ull   /* a waiting record or an open bin of pack */
#define LENGTH_BYTES  16ull   /* a group's tables, for each length up to the sequence */
#define DATASET_BYTES 4096ull /* a dataset's position and the rows measured ahead */

static uint64_t step_bytes(const struct lk_recipe *recipe)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        if (recipe->batch[i].size > most)
            most = recipe->batch[i].size;
    }
    return (uint64_t)most * recipe->sequence * 4; /* at most 2^38 */
}

static uint64_t stage_bytes(const struct lk_recipe *recipe, const struct lk_stage_recipe *stage,
                            bool packed)
{
    uint64_t tables = stage->algorithm == LK_PACK_CONCAT ? 0 : LENGTH_BYTES * recipe->sequence;
    switch (stage->kind) {
    case LK_STAGE_SPLIT:
        return 0;
    case LK_STAGE_SHUFFLE:
        return (packed ? PACKED_BYTES : RECORD_BYTES) * stage->buffer;
    case LK_STAGE_PACK:
        return stage->groups * (tables + POOL_BYTES * stage->pool);
    }
    return 0;
}

/* At most 2^12 lanes × 2^12 groups × 2^27 bytes: fits. */
static uint64_t usual_bytes(const struct lk_recipe *recipe)
{
    uint64_t lane = DATASET_BYTES * recipe->n_datasets;
    bool packed = false;
    for (uint32_t i = 0; i < recipe->n_stages; i++) {
        lane += stage_bytes(recipe, &recipe->stage[i], packed);
        packed = packed || recipe->stage[i].kind == LK_STAGE_PACK;
    }
    return lane * recipe->lanes;
}

struct lk_state_bytes lk_recipe_state_bytes(const struct lk_recipe *recipe)
{
    uint64_t usual = usual_bytes(recipe), most = lane_bound(recipe) * recipe->lanes;
    /* The bound knows nothing of what the allocator puts around small pieces; the estimate does. */
    return (struct lk_state_bytes){usual, most > usual ? most : usual};
}

static enum lk_code fail_budget(struct lk_reading *r, const struct lk_yaml *at, const char *what,
                                uint64_t need, uint64_t have)
{
    struct lk_buf found = {0};
    lk_put_size(&found, have);
    enum lk_code code = lk_read_fail(r, at, "%s (%llu bytes), found %s", what,
                                     (unsigned long long)need, lk_buf_cstr(&found));
    lk_buf_done(&found);
    return code;
}

enum lk_code lk_check_budgets(struct lk_reading *r, const struct lk_yaml *at,
                              const struct lk_config *config)
{
    const struct lk_runtime *runtime = &config->runtime;
    uint64_t state = 0;
    for (uint32_t s = 0; s < config->n_streams; s++) {
        uint64_t step = STEPS_AT_ONCE * step_bytes(&config->stream[s]);
        state += usual_bytes(&config->stream[s]) * runtime->cursors_max;
        if (step > runtime->arena_bytes) {
            char what[160];
            (void)snprintf(what, sizeof what, "arena: expected room for four steps of stream \"%s\"",
                           config->stream[s].name);
            return fail_budget(r, at, what, step, runtime->arena_bytes);
        }
    }
    if (state > runtime->state_bytes)
        return fail_budget(r, at,
                           "state: expected room for the lanes' buffers: fewer lanes, groups, or "
                           "smaller buffers and pools need less",
                           state, runtime->state_bytes);
    return LK_OK;
}
