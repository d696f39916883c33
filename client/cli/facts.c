#include "client/cli/facts.h"

#include "client/cli/rows.h"
#include "core/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_SHARDS 8          /* shards that rows are taken from */
#define SAMPLE_ROW_MAX (4u << 20) /* bytes: longer rows are passed over */

/* ---- the sample ---- */

/* @want rows at even distances in up to SAMPLE_SHARDS shards at even distances. Even distances rather
 * than chance: the same answer each time. */
static uint32_t choose_rows(const struct lk_index *index, uint32_t want, uint64_t *ret_row)
{
    uint32_t shards = index->shards < SAMPLE_SHARDS ? index->shards : SAMPLE_SHARDS;
    uint32_t each = want / shards + (want % shards != 0), n = 0;
    for (uint32_t i = 0; i < shards; i++) {
        uint32_t s = (uint32_t)((uint64_t)i * index->shards / shards);
        const struct lk_index_shard *shard = &index->shard[s];
        uint64_t take = shard->rows < each ? shard->rows : each;
        for (uint64_t r = 0; r < take && n < want; r++) {
            uint64_t row = shard->first_row + r * shard->rows / take;
            if (index->row_bytes[row] <= SAMPLE_ROW_MAX)
                ret_row[n++] = row;
        }
    }
    return n;
}

static uint64_t scale(uint64_t part, uint64_t sampled, uint64_t all)
{
    return sampled == 0 ? 0 : (uint64_t)((double)part / (double)sampled * (double)all);
}

static void use_sample(const struct stream *stream, uint32_t d, struct facts_dataset *facts,
                       const uint64_t *row, const struct lk_measured *measured, uint32_t n)
{
    uint64_t bytes = 0, tokens = 0, text_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        bytes += stream->index[d].row_bytes[row[i]];
        facts->dropped[measured[i].drop]++;
        if (measured[i].drop != LK_DROP_NONE)
            continue;
        tokens += measured[i].tokens;
        text_bytes += measured[i].text_bytes;
        facts->longer += measured[i].tokens > stream->recipe->sequence;
    }
    facts->sampled = n;
    facts->kept = facts->dropped[LK_DROP_NONE];
    facts->pass_tokens = scale(tokens, bytes, facts->row_bytes);
    facts->pass_text_bytes = scale(text_bytes, bytes, facts->row_bytes);
    facts->pass_rows = scale(facts->kept, n, facts->rows);
}

static void sample(const struct stream *stream, uint32_t d, uint32_t want, struct facts_dataset *facts)
{
    struct lk_err err;
    if (want == 0) {
        facts->no_sample = lk_strdup("--sample 0");
        return;
    }
    uint64_t *row = lk_zalloc(want, sizeof *row);
    struct lk_measured *measured = lk_zalloc(want, sizeof *measured);
    uint32_t n = choose_rows(&stream->index[d], want, row);
    if (n == 0)
        facts->no_sample = lk_strdup("its rows are too long to be read for this");
    else if (rows_measure(stream, d, row, n, measured, &err) == LK_OK)
        use_sample(stream, d, facts, row, measured, n);
    else
        facts->no_sample = lk_strdup(err.text);
    free(row);
    free(measured);
}

/* ---- what follows from it ---- */

/* What the mixture counts of one pass. */
static double pass_units(const struct facts *facts, uint32_t d)
{
    const struct facts_dataset *dataset = &facts->dataset[d];
    switch (facts->stream->recipe->mixture) {
    case LK_MEASURE_TOKENS:
        return (double)dataset->pass_tokens;
    case LK_MEASURE_BYTES:
        return (double)dataset->pass_text_bytes;
    case LK_MEASURE_SAMPLES:
        return (double)dataset->pass_rows;
    }
    return 0;
}

static double tokens_a_unit(const struct facts *facts, uint32_t d)
{
    return (double)facts->dataset[d].pass_tokens / pass_units(facts, d);
}

static uint64_t steps_of(const struct facts *facts, double tokens)
{
    const struct lk_recipe *recipe = facts->stream->recipe;
    double position = tokens / recipe->sequence / recipe->lanes;
    return position >= 1e15 ? 0 : steps_at(recipe, (uint64_t)position);
}

static void estimate_passes(struct facts *facts)
{
    for (uint32_t d = 0; d < facts->n; d++) {
        double all = pass_units(facts, d) * (double)facts->weights / (double)facts->dataset[d].weight;
        double tokens = 0;
        for (uint32_t e = 0; e < facts->n; e++)
            tokens += all * (double)facts->dataset[e].weight / (double)facts->weights *
                      tokens_a_unit(facts, e);
        facts->dataset[d].pass_steps = steps_of(facts, tokens);
    }
}

/* The dataset that is used up next when the shares are those of the @left datasets: the one whose rest
 * lasts for the least of the whole, which is *ret_all units. */
static uint32_t next_used_up(const struct facts *facts, const double *rest, double weights,
                             double *ret_all)
{
    uint32_t next = facts->n;
    for (uint32_t d = 0; d < facts->n; d++) {
        if (rest[d] <= 0)
            continue;
        double all = rest[d] * weights / (double)facts->dataset[d].weight;
        if (next == facts->n || all < *ret_all) {
            next = d;
            *ret_all = all;
        }
    }
    return next;
}

/* Walks from one used-up dataset to the next. Those that repeat never are: they end with the stream. */
static void estimate_end(struct facts *facts)
{
    const struct lk_recipe *recipe = facts->stream->recipe;
    double *rest = lk_zalloc(facts->n, sizeof *rest), weights = (double)facts->weights, tokens = 0;
    for (uint32_t d = 0; d < facts->n; d++)
        rest[d] = recipe->dataset[d].then == LK_THEN_REPEAT
                      ? HUGE_VAL
                      : pass_units(facts, d) * recipe->dataset[d].epochs;
    for (;;) {
        double all = HUGE_VAL;
        uint32_t next = next_used_up(facts, rest, weights, &all);
        if (next == facts->n || all >= HUGE_VAL)
            break;
        for (uint32_t d = 0; d < facts->n; d++) {
            double used = all * (double)facts->dataset[d].weight / weights;
            if (rest[d] <= 0)
                continue;
            tokens += used * tokens_a_unit(facts, d);
            rest[d] = d == next ? 0 : rest[d] - used;
        }
        if (recipe->dataset[next].then == LK_THEN_STOP) {
            facts->ends_by = recipe->dataset[next].name;
            break;
        }
        weights -= (double)facts->dataset[next].weight;
    }
    free(rest);
    facts->tokens = (uint64_t)tokens;
    facts->steps = steps_of(facts, tokens);
}

/* ---- the plan ---- */

static void plan_facts(const struct stream *stream, uint32_t d, struct facts_dataset *facts)
{
    const struct plan_dataset *plan = &stream->plan.dataset[d];
    uint32_t lanes = stream->recipe->lanes;
    *facts = (struct facts_dataset){.rows = plan->rows,
                                    .shards = stream->index[d].shards,
                                    .block_rows = plan->block_rows,
                                    .blocks = plan->blocks,
                                    .weight = stream->recipe->dataset[d].weight};
    facts->lane_blocks_min = plan_lane_blocks(&stream->plan, d, lanes - 1);
    facts->lane_blocks_max = plan_lane_blocks(&stream->plan, d, 0);
    for (uint64_t row = 0; row < plan->rows; row++)
        facts->row_bytes += stream->index[d].row_bytes[row];
}

void facts_of(const struct stream *stream, uint32_t want, struct facts *ret_facts)
{
    struct facts facts = {.stream = stream, .n = stream->recipe->n_datasets, .estimated = true};
    facts.dataset = lk_zalloc(facts.n, sizeof *facts.dataset);
    for (uint32_t d = 0; d < facts.n; d++) {
        plan_facts(stream, d, &facts.dataset[d]);
        sample(stream, d, want, &facts.dataset[d]);
        facts.weights += facts.dataset[d].weight;
        facts.estimated = facts.estimated && facts.dataset[d].pass_tokens > 0 &&
                          facts.dataset[d].pass_text_bytes > 0 && facts.dataset[d].pass_rows > 0;
    }
    if (facts.estimated)
        estimate_passes(&facts);
    if (facts.estimated && stream->finite)
        estimate_end(&facts);
    *ret_facts = facts;
}

void facts_done(struct facts *facts)
{
    for (uint32_t d = 0; d < facts->n; d++)
        free(facts->dataset[d].no_sample);
    free(facts->dataset);
    *facts = (struct facts){.n = 0};
}
