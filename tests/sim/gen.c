#include "gen.h"

#include "rng.h"

#include <stdio.h>
#include <string.h>

#define TOKENS_MAX 12000 /* of all steps of a stream that are asked for */
#define CODE_FAILED_PRECONDITION 9
#define CODE_DATA_LOSS 15

static uint32_t one_of(struct rng *rng, const uint32_t *choice, uint32_t n)
{
    return choice[rng_below(rng, n)];
}
#define ONE_OF(rng, ...)                                                                           \
    one_of(rng, (const uint32_t[]){__VA_ARGS__},                                                   \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Data ------------------------------------------------------------------------------------------ */

/* At least @least rows over shards, some of them empty. */
static void make_shards(struct rng *rng, struct sim_dataset *dataset, uint32_t least)
{
    uint32_t rows = least + (uint32_t)rng_below(rng, ONE_OF(rng, 1, 8, 40, 300));
    dataset->shards = (uint32_t)rng_range(rng, 1, SIM_SHARDS_MAX);
    dataset->rows = rows;
    for (uint32_t s = 0; s < dataset->shards; s++) {
        uint32_t share = s + 1 == dataset->shards ? rows
                         : rng_chance(rng, 200)   ? 0
                                                  : (uint32_t)rng_below(rng, rows + 1);
        dataset->shard_rows[s] = share;
        rows -= share;
    }
}

static void make_dataset(struct rng *rng, struct sim_recipe *recipe, uint32_t d, uint32_t vocab)
{
    struct sim_dataset *dataset = &recipe->dataset[d];
    uint32_t t = recipe->sequence, most = ONE_OF(rng, 1, 2, t / 4 + 1, t / 2 + 1, t, t + 1, 3 * t, 8 * t);
    snprintf(dataset->name, sizeof dataset->name, "d%u-%x", d, (unsigned)rng_below(rng, 4096));
    dataset->weight = ONE_OF(rng, 1, 1, 2, 3, 7, 10, 100, 65537);
    dataset->epochs = 1 + (uint32_t)rng_below(rng, 3);
    dataset->group = (uint32_t)rng_below(rng, recipe->groups);
    make_shards(rng, dataset, rng_chance(rng, 10) && recipe->lanes > 1 ? 0 : recipe->lanes);
    dataset->key = rng_next(rng);
    dataset->shape = (enum sim_shape)rng_below(rng, SIM_SHAPES);
    dataset->most = most;
    dataset->drops = ONE_OF(rng, 0, 0, 0, 50, 300, 900);
    if (rng_chance(rng, 15))
        dataset->drops = 1000;
    dataset->stored = ONE_OF(rng, 1, 100, 1000, 5000, 20000, 70000);
    dataset->fatal = SIM_NO_ROW;
    if (rng_chance(rng, 20) && dataset->rows > 0)
        dataset->fatal = rng_below(rng, dataset->rows);
    dataset->fatal_code = rng_chance(rng, 500) ? CODE_DATA_LOSS : CODE_FAILED_PRECONDITION;
    dataset->vocab = vocab;
}

static void make_ends(struct rng *rng, struct sim_recipe *recipe)
{
    uint64_t kind = rng_below(rng, 8);
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        struct sim_dataset *dataset = &recipe->dataset[d];
        dataset->then = kind < 3   ? SIM_REPEAT
                        : kind < 5 ? SIM_RELEASE
                                   : (enum sim_then)rng_below(rng, 3);
        if (dataset->then == SIM_REPEAT && rng_chance(rng, 500))
            dataset->epochs = 0;
    }
}

/* Stages ---------------------------------------------------------------------------------------- */

static void add_stage(struct sim_recipe *recipe, struct sim_stage stage)
{
    recipe->stage[recipe->n_stages++] = stage;
}

static struct sim_stage make_shuffle(struct rng *rng)
{
    return (struct sim_stage){.kind = SIM_SHUFFLE, .buffer = ONE_OF(rng, 2, 3, 5, 16, 64)};
}

static void make_stages(struct rng *rng, struct sim_recipe *recipe)
{
    uint32_t t = recipe->sequence;
    enum sim_stage_kind pack = (enum sim_stage_kind)rng_range(rng, SIM_CONCAT, SIM_EXACT_FIT);
    bool fits = pack == SIM_FIRST_FIT || pack == SIM_BEST_FIT;
    if (rng_chance(rng, 250))
        add_stage(recipe, make_shuffle(rng));
    if (fits ? !rng_chance(rng, 30) : rng_chance(rng, 400)) {
        uint32_t most = fits ? (uint32_t)rng_range(rng, 1, t) : ONE_OF(rng, 1, t / 2 + 1, t, 2 * t);
        add_stage(recipe, (struct sim_stage){.kind = SIM_SPLIT, .max_tokens = most});
    }
    if (rng_chance(rng, 350))
        add_stage(recipe, make_shuffle(rng));
    add_stage(recipe, (struct sim_stage){.kind = pack, .pool = ONE_OF(rng, 1, 2, 3, 8, 24)});
    if (rng_chance(rng, 250))
        add_stage(recipe, make_shuffle(rng));
}

/* Recipes --------------------------------------------------------------------------------------- */

static void make_batches(struct rng *rng, struct sim_recipe *recipe)
{
    uint64_t from = 0, tokens = 0;
    recipe->n_batches = ONE_OF(rng, 1, 1, 2, SIM_BATCHES_MAX);
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        recipe->batch[i] = (struct sim_batch){.from = from,
                                              .size = recipe->lanes * ONE_OF(rng, 1, 1, 2, 3, 4)};
        from += rng_range(rng, 1, 6);
    }
    uint32_t most = recipe->lanes > 8 ? ONE_OF(rng, 2, 4) : ONE_OF(rng, 4, 12, 24, 48), now = 0;
    for (recipe->horizon = 0; recipe->horizon < most; recipe->horizon++) {
        while (now + 1 < recipe->n_batches && recipe->batch[now + 1].from <= recipe->horizon)
            now++;
        tokens += (uint64_t)recipe->batch[now].size * recipe->sequence;
        if (tokens > TOKENS_MAX && recipe->horizon > 1)
            break;
    }
}

static void make_recipe(struct rng *rng, struct sim_recipe *recipe, uint32_t number)
{
    uint32_t vocab = ONE_OF(rng, 2, 256, 50000, 65536, 65537, 1u << 20);
    *recipe = (struct sim_recipe){.seed = rng_next(rng)};
    snprintf(recipe->name, sizeof recipe->name, "stream%u", number);
    recipe->lanes = rng_chance(rng, 40) ? ONE_OF(rng, 16, 33, 64) : ONE_OF(rng, 1, 1, 2, 2, 3, 4, 5, 8);
    recipe->sequence = ONE_OF(rng, 1, 2, 3, 5, 8, 8, 13, 16, 16, 31, 32, 64, 65, 100);
    recipe->mixture = (enum sim_unit)rng_below(rng, 3);
    recipe->n_datasets = ONE_OF(rng, 1, 1, 2, 2, 3, SIM_DATASETS_MAX);
    recipe->groups = rng_chance(rng, 600) ? 1 : (uint32_t)rng_range(rng, 1, recipe->n_datasets);
    recipe->block_rows = ONE_OF(rng, 0, 1, 1, 2, 3, 7, 16, 1000);
    recipe->permute_blocks = rng_chance(rng, 750);
    recipe->permute_rows = rng_chance(rng, 500);
    recipe->pad_tail = rng_chance(rng, 400);
    recipe->pad_id = (uint32_t)rng_below(rng, vocab);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        make_dataset(rng, recipe, d, vocab);
    make_ends(rng, recipe);
    make_stages(rng, recipe);
    make_batches(rng, recipe);
}

/* The rest -------------------------------------------------------------------------------------- */

/* Kinds of event are likely, rare or absent, by the seed. */
static void make_chances(struct rng *rng, struct sim_case *sim)
{
    static const uint32_t most[EVENT_KINDS] = {
        [EVENT_ASK] = 300,    [EVENT_HEAR] = 300, [EVENT_TASK] = 400, [EVENT_TASKS] = 200,
        [EVENT_LOSS] = 40,    [EVENT_CLOCK] = 40, [EVENT_RELEASE] = 80, [EVENT_CLIENT] = 30,
        [EVENT_DROP] = 20,    [EVENT_WORLD] = 30, [EVENT_DISK] = 100, [EVENT_REPORT] = 10,
        [EVENT_STOP] = 8,     [EVENT_KILL] = 16,
    };
    for (int i = 0; i < EVENT_KINDS; i++) {
        uint32_t part = ONE_OF(rng, 0, 1, 2, 4);
        if (part == 0 && i <= EVENT_TASK)
            part = 1;
        sim->chance[i] = most[i] * part / 4;
    }
}

/* Rows wait for long between being drawn and being handed out. */
static void make_waiting(struct sim_recipe *recipe)
{
    bool any = false;
    for (uint32_t i = 0; i < recipe->n_stages; i++)
        any = any || recipe->stage[i].kind == SIM_SHUFFLE;
    if (!any) {
        memmove(&recipe->stage[1], &recipe->stage[0], recipe->n_stages++ * sizeof recipe->stage[0]);
        recipe->stage[0].kind = SIM_SHUFFLE;
    }
    for (uint32_t i = 0; i < recipe->n_stages; i++)
        if (recipe->stage[i].kind == SIM_SHUFFLE)
            recipe->stage[i].buffer = 64;
}

/* A wrong count is used by daemons that seek by counts: so they start often, and lack states. It is found when
 * its row is handed out: so rows wait for long; and cursors begin where others are, while what they have had is
 * forgotten; or it is found ahead of time, when nobody waits; or by another daemon, in a state. */
static void make_misleading(struct rng *rng, struct sim_case *sim)
{
    enum { PLAIN, COPIES, AHEAD, STATES, KINDS } kind = (int)rng_below(rng, KINDS);
    sim->chance[EVENT_STOP] = sim->chance[EVENT_KILL] = 20;
    if (kind == PLAIN)
        return;
    sim->cursors_max = 4;
    sim->prefetch_steps = kind == AHEAD ? 5 : 1;
    sim->snapshot_every = kind == STATES;
    for (uint32_t s = 0; s < sim->n_streams; s++)
        make_waiting(&sim->recipe[s]);
    if (kind == COPIES) {
        sim->arena_bytes = 8u << 20;
        sim->forgetful = 1000;
        sim->write_counts = rng_chance(rng, 200);
    } else if (kind == AHEAD) {
        sim->chance[EVENT_ASK] = 60;
        sim->chance[EVENT_TASKS] = 300;
    } else {
        sim->chance[EVENT_DISK] = 150;
        sim->chance[EVENT_KILL] = 40;
    }
}

/* A dataset of which nothing is kept, in a stream that is endless all the same, if others repeat. */
static void make_barren(struct rng *rng, struct sim_recipe *recipe)
{
    struct sim_dataset *dataset = &recipe->dataset[rng_below(rng, recipe->n_datasets)];
    if (!rng_chance(rng, 20))
        return;
    dataset->drops = 1000;
    if (rng_chance(rng, 500))
        for (uint32_t d = 0; d < recipe->n_datasets; d++)
            recipe->dataset[d].then = &recipe->dataset[d] == dataset ? SIM_RELEASE : SIM_REPEAT;
}

void gen_case(uint64_t seed, struct sim_case *ret_case)
{
    struct rng rng = {.state = rng_hash(seed + 0x5eed)};
    struct sim_case *sim = ret_case;
    *sim = (struct sim_case){.seed = seed};
    sim->n_streams = rng_chance(&rng, 150) ? 2 : 1;
    for (uint32_t s = 0; s < sim->n_streams; s++)
        make_recipe(&rng, &sim->recipe[s], s);
    sim->arena_bytes = ONE_OF(&rng, 1, 300, 3000, 20000, 100000, 1u << 20, 8u << 20, 8u << 20);
    sim->prefetch_steps = ONE_OF(&rng, 1, 1, 2, 3, 5, 8);
    sim->cursors_max = ONE_OF(&rng, 1, 2, 3, 4);
    sim->snapshot_every = ONE_OF(&rng, 0, 1, 1, 2, 3, 5);
    sim->counts = rng_chance(&rng, 650);
    sim->write_counts = rng_chance(&rng, 850);
    sim->plant = sim->counts && rng_chance(&rng, 350);
    sim->blind_files = rng_chance(&rng, 500);
    sim->trainers = ONE_OF(&rng, 1, 2, 3, 5);
    sim->events = ONE_OF(&rng, 60, 150, 300, 600);
    sim->urgent = ONE_OF(&rng, 0, 300, 900, 1000);
    make_chances(&rng, sim);
    sim->forgetful = sim->counts ? ONE_OF(&rng, 0, 0, 50, 1000) : 0;
    if (sim->plant)
        make_misleading(&rng, sim);
    for (uint32_t s = 0; s < sim->n_streams; s++)
        make_barren(&rng, &sim->recipe[s]);
}

/* In words -------------------------------------------------------------------------------------- */

static const char *const then_name[] = {"repeat", "stop", "release"};
static const char *const stage_name[] = {"split",     "shuffle",  "concat",
                                         "first_fit", "best_fit", "exact_fit"};
static const char *const shape_name[] = {"equal", "uniform", "skewed", "near", "giant"};
static const char *const unit_name[] = {"tokens", "bytes", "samples"};

void gen_describe(const struct sim_case *sim, void (*line)(void *owner, const char *format, ...), void *owner)
{
    line(owner, "arena %llu prefetch %u cursors %u snapshots every %llu%s counts %d%d%s (%u) trainers %u",
         (unsigned long long)sim->arena_bytes, sim->prefetch_steps, sim->cursors_max,
         (unsigned long long)sim->snapshot_every, sim->blind_files ? " (blind)" : "", sim->counts,
         sim->write_counts, sim->plant ? " planted" : "", sim->forgetful, sim->trainers);
    for (uint32_t s = 0; s < sim->n_streams; s++) {
        const struct sim_recipe *r = &sim->recipe[s];
        line(owner, "%s: lanes %u sequence %u by %s block_rows %u permute %d%d groups %u tail %s horizon %llu",
             r->name, r->lanes, r->sequence, unit_name[r->mixture], r->block_rows, r->permute_blocks,
             r->permute_rows, r->groups, r->pad_tail ? "pad" : "drop", (unsigned long long)r->horizon);
        for (uint32_t d = 0; d < r->n_datasets; d++) {
            const struct sim_dataset *x = &r->dataset[d];
            line(owner, "  %s: weight %llu epochs %u then %s group %u shards %u rows %llu %s of %u drops %u "
                 "stored %u fatal %lld", x->name, (unsigned long long)x->weight, x->epochs,
                 then_name[x->then], x->group, x->shards, (unsigned long long)x->rows,
                 shape_name[x->shape], x->most, x->drops, x->stored, (long long)x->fatal);
        }
        for (uint32_t i = 0; i < r->n_stages; i++)
            line(owner, "  %s max %u buffer %u pool %u", stage_name[r->stage[i].kind],
                 r->stage[i].max_tokens, r->stage[i].buffer, r->stage[i].pool);
        for (uint32_t i = 0; i < r->n_batches; i++)
            line(owner, "  batch %u from %llu", r->batch[i].size, (unsigned long long)r->batch[i].from);
    }
}
