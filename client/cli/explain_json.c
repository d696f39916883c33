#include "client/cli/explain.h"

#include "client/cli/memory.h"
#include "core/plan.h"

#include <string.h>

static void json_batches(struct lk_buf *out, const struct lk_recipe *recipe)
{
    json_key(out, true, "batches");
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        lk_buf_puts(out, i > 0 ? ",{" : "[{");
        json_u64(out, false, "from", recipe->batch[i].from);
        json_u64(out, true, "size", recipe->batch[i].size);
        lk_buf_puts(out, "}");
    }
    lk_buf_puts(out, "]");
}

/* Estimates have a member of their own, null when there are none. */
static void json_estimate(struct lk_buf *out, const struct facts_dataset *facts)
{
    json_key(out, true, "estimate");
    if (facts->no_sample != NULL) {
        lk_buf_puts(out, "null");
        json_text(out, true, "no_estimate", facts->no_sample);
        return;
    }
    lk_buf_puts(out, "{");
    json_u64(out, false, "sampled_rows", facts->sampled);
    json_u64(out, true, "kept_rows", facts->kept);
    json_u64(out, true, "longer_than_sequence", facts->longer);
    json_key(out, true, "dropped");
    for (int i = 1; i < LK_DROP_KINDS; i++) {
        lk_buf_puts(out, i == 1 ? "{" : "");
        json_u64(out, i > 1, lk_drop_name((enum lk_drop)i), facts->dropped[i]);
    }
    lk_buf_puts(out, "}");
    json_u64(out, true, "pass_tokens", facts->pass_tokens);
    json_u64(out, true, "pass_rows", facts->pass_rows);
    json_u64(out, true, "pass_text_bytes", facts->pass_text_bytes);
    json_u64(out, true, "pass_steps", facts->pass_steps);
    lk_buf_puts(out, "}");
}

static void json_dataset(struct explain *e, uint32_t d)
{
    const struct lk_dataset_recipe *dataset = &e->stream.recipe->dataset[d];
    const struct facts_dataset *facts = &e->facts.dataset[d];
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, d > 0 ? ",{" : "{");
    json_text(out, false, "name", dataset->name);
    json_u64(out, true, "weight", facts->weight);
    json_u64(out, true, "rows", facts->rows);
    json_u64(out, true, "row_bytes", facts->row_bytes);
    json_u64(out, true, "shards", facts->shards);
    json_u64(out, true, "block_rows", facts->block_rows);
    json_u64(out, true, "blocks", facts->blocks);
    json_u64(out, true, "lane_blocks_min", facts->lane_blocks_min);
    json_u64(out, true, "lane_blocks_max", facts->lane_blocks_max);
    json_u64(out, true, "passes", dataset->epochs);
    json_text(out, true, "then", explain_then(dataset->then));
    json_estimate(out, facts);
    lk_buf_puts(out, "}");
}

static void json_stage(struct lk_buf *out, const struct lk_stage_recipe *stage)
{
    static const char *const kinds[] = {"split", "shuffle", "pack"};
    lk_buf_puts(out, "{");
    json_text(out, false, "stage", kinds[stage->kind]);
    switch (stage->kind) {
    case LK_STAGE_SPLIT:
        json_u64(out, true, "max_tokens", stage->max_tokens);
        break;
    case LK_STAGE_SHUFFLE:
        json_u64(out, true, "holds", stage->buffer);
        break;
    case LK_STAGE_PACK:
        json_text(out, true, "algorithm", explain_packs[stage->algorithm]);
        json_u64(out, true, "holds", (uint64_t)stage->pool * stage->groups);
        json_u64(out, true, "groups", stage->groups);
        json_bool(out, true, "may_cut",
                  stage->algorithm == LK_PACK_CONCAT || stage->algorithm == LK_PACK_EXACT_FIT);
        json_bool(out, true, "may_pad",
                  stage->algorithm == LK_PACK_FIRST_FIT || stage->algorithm == LK_PACK_BEST_FIT);
        break;
    }
    lk_buf_puts(out, "}");
}

static void json_end(struct explain *e)
{
    struct lk_buf *out = &e->out;
    json_bool(out, true, "finite", e->stream.finite);
    json_text(out, true, "tail", e->stream.recipe->tail == LK_TAIL_PAD ? "pad" : "drop");
    json_key(out, true, "estimated_end");
    if (!e->stream.finite || !e->facts.estimated) {
        lk_buf_puts(out, "null");
        return;
    }
    lk_buf_puts(out, "{");
    json_u64(out, false, "steps", e->facts.steps);
    json_u64(out, true, "tokens", e->facts.tokens);
    json_text(out, true, "stopped_by", e->facts.ends_by != NULL ? e->facts.ends_by : "");
    lk_buf_puts(out, "}");
}

static void json_exact_dataset(struct explain *e, uint32_t d)
{
    const struct exact_dataset *exact = &e->exact.dataset[d];
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, d > 0 ? ",{" : "{");
    json_text(out, false, "dataset", e->stream.recipe->dataset[d].name);
    json_u64(out, true, "tokens", exact->tokens);
    json_u64(out, true, "rows_drawn", exact->drawn);
    json_u64(out, true, "rows", e->facts.dataset[d].rows);
    json_key(out, true, "dropped");
    for (int i = 1; i < LK_DROP_KINDS; i++) {
        lk_buf_puts(out, i > 1 ? "" : "{");
        json_u64(out, i > 1, lk_drop_name((enum lk_drop)i), exact->dropped[i]);
    }
    lk_buf_puts(out, "}}");
}

static void json_exact(struct explain *e)
{
    struct lk_buf *out = &e->out;
    json_u64(out, true, "rows", e->exact.rows);
    json_u64(out, true, "rows_counted", e->exact.known);
    json_text(out, true, "fails", e->exact.fails != NULL ? e->exact.fails : "");
    json_key(out, true, "exact");
    if (!e->exact.run) {
        lk_buf_puts(out, "null");
        return;
    }
    lk_buf_puts(out, "{");
    json_bool(out, false, "ended", e->exact.ended);
    json_u64(out, true, "steps", e->exact.steps);
    json_u64(out, true, "sequences", e->exact.sequences);
    json_u64(out, true, "tokens", e->exact.tokens);
    json_u64(out, true, "padded", e->exact.padded);
    json_key(out, true, "datasets");
    lk_buf_puts(out, "[");
    for (uint32_t d = 0; d < e->exact.n; d++)
        json_exact_dataset(e, d);
    lk_buf_puts(out, "]}");
}

static void json_memories(struct explain *e)
{
    json_key(&e->out, true, "memory");
    json_stream_memory(&e->out, &e->cli.config, e->stream.recipe);
    json_key(&e->out, true, "memory_of_all");
    json_memory(&e->out, &e->cli.config);
}

void explain_json(struct explain *e)
{
    const struct lk_recipe *recipe = e->stream.recipe;
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, "{");
    json_text(out, false, "stream", recipe->name);
    json_digest(out, true, "order_digest", e->stream.order);
    json_digest(out, true, "stream_digest", e->stream.digest);
    json_u64(out, true, "order_version", LK_ORDER_VERSION);
    json_u64(out, true, "lanes", recipe->lanes);
    json_u64(out, true, "sequence", recipe->sequence);
    json_batches(out, recipe);
    json_u64(out, true, "weights", e->facts.weights);
    json_text(out, true, "mixture", explain_units[recipe->mixture]);
    json_text(out, true, "special_in_text", explain_specials[recipe->tokenizer.special_in_text]);
    json_key(out, true, "datasets");
    lk_buf_puts(out, "[");
    for (uint32_t d = 0; d < e->facts.n; d++)
        json_dataset(e, d);
    lk_buf_puts(out, "]");
    json_key(out, true, "stages");
    lk_buf_puts(out, "[");
    for (uint32_t i = 0; i < recipe->n_stages; i++) {
        lk_buf_puts(out, i > 0 ? "," : "");
        json_stage(out, &recipe->stage[i]);
    }
    lk_buf_puts(out, "]");
    json_u64(out, true, "filters", recipe->n_filters);
    json_end(e);
    json_exact(e);
    json_memories(e);
    lk_buf_puts(out, "}\n");
}
