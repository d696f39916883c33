/*
 * Synthetic streams for tests of the pure part: a recipe, rows whose measures are made up, and the
 * plainest host there is, which plans one slice when a lane wants one and measures it at once.
 */
#ifndef LK_TESTS_LIB_SYNTH_H
#define LK_TESTS_LIB_SYNTH_H

#include "base/mem.h"
#include "core/lane.h"
#include "core/plan.h"

#include <stdlib.h>

#define SYNTH_DATASETS_MAX 512

struct synth {
    struct lk_recipe recipe;
    struct lk_dataset_recipe dataset[SYNTH_DATASETS_MAX];
    struct lk_batch_recipe batch[8];
    struct lk_shape shape[SYNTH_DATASETS_MAX];
    struct lk_row_measure *row[SYNTH_DATASETS_MAX]; /* [rows]; NULL: every row is one token, one byte */
    struct lk_plan plan;
    uint32_t slice_rows; /* most rows the plain host plans at once; 0 = 64 */
};

/* One lane, sequences of @sequence tokens, nothing permuted, samples counted, one sequence a step. */
static inline void synth_init(struct synth *s, uint32_t sequence)
{
    *s = (struct synth){0};
    s->recipe = (struct lk_recipe){
        .name = lk_strdup("synthetic"), .seed = 7, .lanes = 1, .sequence = sequence, .dataset = s->dataset,
        .mixture = LK_MEASURE_SAMPLES, .tail = LK_TAIL_DROP, .n_batches = 1, .batch = s->batch};
    s->batch[0] = (struct lk_batch_recipe){.from = 0, .size = 1};
}

static inline struct lk_stage_recipe *synth_stage(struct synth *s, enum lk_stage_kind kind)
{
    struct lk_stage_recipe *stage = &s->recipe.stage[s->recipe.n_stages++];
    *stage = (struct lk_stage_recipe){.kind = kind, .groups = 1};
    return stage;
}

static inline void synth_pack(struct synth *s, enum lk_pack algorithm, uint32_t pool)
{
    struct lk_stage_recipe *stage = synth_stage(s, LK_STAGE_PACK);
    stage->algorithm = algorithm;
    stage->pool = pool;
}

/* A dataset of @shards shards of the given row counts; rows are one token unless synth_rows says more. */
static inline struct lk_dataset_recipe *synth_sharded(struct synth *s, uint64_t weight,
                                                      const uint64_t *rows, uint32_t shards)
{
    uint32_t i = s->recipe.n_datasets++;
    uint64_t *first = lk_zalloc(shards + 1, sizeof *first);
    for (uint32_t k = 0; k < shards; k++)
        first[k + 1] = first[k] + rows[k];
    s->shape[i] = (struct lk_shape){.shards = shards, .shard_first = first};
    s->dataset[i] = (struct lk_dataset_recipe){
        .name = lk_format("d%u", (unsigned)i), .weight = weight, .then = LK_THEN_REPEAT};
    return &s->dataset[i];
}

static inline struct lk_dataset_recipe *synth_dataset(struct synth *s, uint64_t weight, uint64_t rows)
{
    return synth_sharded(s, weight, &rows, 1);
}

/* One pass over one shard of rows of @tokens[n] tokens (0: dropped, for reason 1), then @then. */
static inline struct lk_dataset_recipe *synth_tokens(struct synth *s, uint64_t weight,
                                                     const uint32_t *tokens, uint32_t n,
                                                     enum lk_then then)
{
    struct lk_dataset_recipe *dataset = synth_dataset(s, weight, n);
    struct lk_row_measure *row = lk_zalloc(n, sizeof *row);
    for (uint32_t k = 0; k < n; k++)
        row[k] = (struct lk_row_measure){
            .tokens = tokens[k], .text_bytes = 2 * tokens[k], .drop = tokens[k] == 0};
    s->row[s->recipe.n_datasets - 1] = row;
    dataset->epochs = 1;
    dataset->then = then;
    return dataset;
}

static inline enum lk_code synth_plan(struct synth *s, struct lk_err *err)
{
    return plan_init(&s->plan, &s->recipe, s->shape, err);
}

static inline void synth_done(struct synth *s)
{
    plan_done(&s->plan);
    free(s->recipe.name);
    for (uint32_t i = 0; i < s->recipe.n_datasets; i++) {
        free(s->dataset[i].name);
        free((void *)(uintptr_t)s->shape[i].shard_first);
        free(s->row[i]);
    }
}

static inline struct lk_row_measure synth_row(const struct synth *s, uint32_t dataset, uint64_t row)
{
    if (s->row[dataset] == NULL)
        return (struct lk_row_measure){.tokens = 1, .text_bytes = 1};
    return s->row[dataset][row];
}

/* Measures rows planned earlier, whose numbers the caller kept. */
static inline void synth_measured(const struct synth *s, struct source *source, uint32_t dataset,
                                  uint64_t id, const uint64_t *rows, uint32_t n)
{
    struct lk_row_measure measure[LK_SLICE_ROWS_MAX];
    for (uint32_t k = 0; k < n; k++)
        measure[k] = synth_row(s, dataset, rows[k]);
    source_measured(source, dataset, id, measure, n);
}

/* Plans and measures one slice of @dataset; false when none can be planned. */
static inline bool synth_feed(const struct synth *s, struct source *source, uint32_t dataset)
{
    struct lk_slice slice;
    uint32_t most = s->slice_rows != 0 ? s->slice_rows : 64;
    if (!source_plan(source, dataset, UINT64_MAX, most, &slice))
        return false;
    synth_measured(s, source, dataset, slice.id, slice.rows, slice.n);
    return true;
}

/* lane_next that never wants. */
static inline enum seq_pull synth_next(const struct synth *s, struct lk_lane *lane,
                                       struct lk_item *ret_item)
{
    enum seq_pull pull;
    while ((pull = lane_next(lane, ret_item)) == SEQ_WANT)
        LK_CHECK(synth_feed(s, lane_source(lane), lane_wanted(lane)));
    return pull;
}

#endif
