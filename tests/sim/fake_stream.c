/*
 * host/stream.h, and what the engine asks of indexes, tokenizers and the log: from the case, in memory.
 * Digests name what they stand for: the order digest is the stream's number, the ops digest stream and
 * dataset.
 */
#include "sim.h"

#include "op/measure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Recipes --------------------------------------------------------------------------------------- */

static struct lk_stage_recipe stage_of(const struct sim_recipe *recipe, uint32_t i)
{
    static const enum lk_pack pack[] = {[SIM_CONCAT] = LK_PACK_CONCAT,
                                        [SIM_FIRST_FIT] = LK_PACK_FIRST_FIT,
                                        [SIM_BEST_FIT] = LK_PACK_BEST_FIT,
                                        [SIM_EXACT_FIT] = LK_PACK_EXACT_FIT};
    const struct sim_stage *stage = &recipe->stage[i];
    if (stage->kind == SIM_SPLIT)
        return (struct lk_stage_recipe){.kind = LK_STAGE_SPLIT, .max_tokens = stage->max_tokens};
    if (stage->kind == SIM_SHUFFLE)
        return (struct lk_stage_recipe){.kind = LK_STAGE_SHUFFLE, .buffer = stage->buffer};
    return (struct lk_stage_recipe){.kind = LK_STAGE_PACK,
                                    .algorithm = pack[stage->kind],
                                    .pool = stage->kind == SIM_CONCAT ? 0 : stage->pool,
                                    .groups = recipe->groups};
}

static void fill_datasets(const struct sim_recipe *recipe, struct lk_recipe *out)
{
    static const enum lk_then then[] = {LK_THEN_REPEAT, LK_THEN_STOP, LK_THEN_RELEASE};
    out->n_datasets = recipe->n_datasets;
    out->dataset = lk_zalloc(recipe->n_datasets, sizeof *out->dataset);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        out->dataset[d] = (struct lk_dataset_recipe){.name = lk_strdup(recipe->dataset[d].name),
                                                     .weight = recipe->dataset[d].weight,
                                                     .epochs = recipe->dataset[d].epochs,
                                                     .then = then[recipe->dataset[d].then],
                                                     .group = recipe->dataset[d].group};
}

static void make_recipe(const struct sim_recipe *recipe, struct lk_recipe *out)
{
    static const enum lk_mixture_unit unit[] = {LK_MEASURE_TOKENS, LK_MEASURE_BYTES, LK_MEASURE_SAMPLES};
    *out = (struct lk_recipe){.name = lk_strdup(recipe->name),
                              .seed = recipe->seed,
                              .lanes = recipe->lanes,
                              .sequence = recipe->sequence,
                              .mixture = unit[recipe->mixture],
                              .block_rows = recipe->block_rows,
                              .permute_blocks = recipe->permute_blocks,
                              .permute_rows = recipe->permute_rows,
                              .n_stages = recipe->n_stages,
                              .tail = recipe->pad_tail ? LK_TAIL_PAD : LK_TAIL_DROP,
                              .pad_id = recipe->pad_id,
                              .n_batches = recipe->n_batches};
    fill_datasets(recipe, out);
    for (uint32_t i = 0; i < recipe->n_stages; i++)
        out->stage[i] = stage_of(recipe, i);
    out->batch = lk_zalloc(recipe->n_batches, sizeof *out->batch);
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        out->batch[i] = (struct lk_batch_recipe){.from = recipe->batch[i].from, .size = recipe->batch[i].size};
}

void fake_config_make(struct sim *sim)
{
    struct lk_config *config = &sim->config;
    config->n_streams = sim->of.n_streams;
    config->stream = lk_zalloc(config->n_streams, sizeof *config->stream);
    for (uint32_t s = 0; s < config->n_streams; s++)
        make_recipe(&sim->of.recipe[s], &config->stream[s]);
    config->runtime = (struct lk_runtime){.n_listen = 1,
                                          .workers = 1,
                                          .arena_bytes = sim->of.arena_bytes,
                                          .cache_bytes = 1u << 20,
                                          .prefetch_steps = sim->of.prefetch_steps,
                                          .snapshot_every = sim->of.snapshot_every,
                                          .snapshot_keep = 4,
                                          .counts_bytes = sim->of.counts ? 1u << 20 : 0,
                                          .counts_memory = 1u << 20,
                                          .stall_timeout_ms = 60000,
                                          .deadline_max_ms = 600000,
                                          .message_max = 1u << 20,
                                          .waiting_max = 1024,
                                          .cursors_max = sim->of.cursors_max};
    for (uint32_t s = 0; s < config->n_streams; s++)
        for (uint32_t d = 0; d < sim->of.recipe[s].n_datasets; d++) {
            struct sim_counts *counts = &sim->counts[s][d];
            counts->rows = sim->of.recipe[s].dataset[d].rows;
            counts->file = lk_zalloc(counts->rows, sizeof *counts->file);
            counts->memory = lk_zalloc(counts->rows, sizeof *counts->memory);
            counts->given = lk_zalloc(counts->rows, sizeof *counts->given);
            counts->news = lk_zalloc(counts->rows, sizeof *counts->news);
            counts->told = lk_zalloc(counts->rows, sizeof *counts->told);
        }
}

void fake_config_done(struct sim *sim)
{
    for (uint32_t s = 0; s < sim->config.n_streams; s++) {
        struct lk_recipe *recipe = &sim->config.stream[s];
        for (uint32_t d = 0; d < recipe->n_datasets; d++)
            free(recipe->dataset[d].name);
        free(recipe->dataset);
        free(recipe->batch);
        free(recipe->name);
    }
    free(sim->config.stream);
    sim->config = (struct lk_config){0};
}

/* Indexes --------------------------------------------------------------------------------------- */

static void make_index(const struct sim_dataset *dataset, uint32_t stream, uint32_t d, struct lk_index *out)
{
    static const char *const name[SIM_SHARDS_MAX] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
    uint32_t *bytes = lk_zalloc(dataset->rows, sizeof *bytes);
    uint64_t first = 0;
    *out = (struct lk_index){.shards = dataset->shards,
                             .rows = dataset->rows,
                             .row_bytes = bytes,
                             .digest = {.lo = d, .hi = stream},
                             .path = "index"};
    out->shard = lk_zalloc(dataset->shards, sizeof *out->shard);
    for (uint32_t s = 0; s < dataset->shards; s++) {
        out->shard[s] = (struct lk_index_shard){
            .name = name[s], .first_row = first, .rows = dataset->shard_rows[s]};
        first += dataset->shard_rows[s];
    }
    for (uint64_t row = 0; row < dataset->rows; row++)
        bytes[row] = sim_row_stored(dataset, row);
}

struct lk_row_place lk_index_place(const struct lk_index *index, uint64_t row)
{
    uint32_t s = 0;
    LK_CHECK(row < index->rows);
    while (row >= index->shard[s].first_row + index->shard[s].rows)
        s++;
    return (struct lk_row_place){.shard = s, .row_in_shard = row - index->shard[s].first_row};
}

/* Streams --------------------------------------------------------------------------------------- */

enum lk_code stream_open(const struct lk_config *config, uint32_t number, struct stream *ret_stream,
                         struct lk_err *err)
{
    struct sim *sim = sim_now();
    const struct sim_recipe *recipe = &sim->of.recipe[number];
    uint32_t n = recipe->n_datasets;
    struct stream stream = {.recipe = &config->stream[number],
                            .number = number,
                            .order = {.lo = number, .hi = 7},
                            .digest = {.lo = number, .hi = 8},
                            .finite = oracle_finite(sim->oracle[number])};
    stream.index = lk_zalloc(n, sizeof *stream.index);
    stream.shape = lk_zalloc(n, sizeof *stream.shape);
    stream.shard_first = lk_zalloc(n, sizeof *stream.shard_first);
    stream.ops = lk_zalloc(n, sizeof *stream.ops);
    for (uint32_t d = 0; d < n; d++) {
        make_index(&recipe->dataset[d], number, d, &stream.index[d]);
        stream_shape(&stream, d);
        stream.ops[d] = (struct lk_digest){.lo = (uint64_t)number << 32 | d};
    }
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        if (recipe->batch[i].size > stream.batch_max)
            stream.batch_max = recipe->batch[i].size;
    enum lk_code code = plan_init(&stream.plan, stream.recipe, stream.shape, err);
    if (code != LK_OK) {
        stream_done(&stream);
        return code;
    }
    *ret_stream = stream;
    return LK_OK;
}

void stream_done(struct stream *stream)
{
    for (uint32_t d = 0; stream->recipe != NULL && d < stream->recipe->n_datasets; d++) {
        free(stream->index[d].shard);
        free((void *)(uintptr_t)stream->index[d].row_bytes);
        free(stream->shard_first[d]);
    }
    free(stream->index);
    free(stream->shape);
    free(stream->shard_first);
    free(stream->ops);
    plan_done(&stream->plan);
    *stream = (struct stream){0};
}

void stream_for_pool(const struct stream *stream, struct pool_stream *ret_stream)
{
    *ret_stream = (struct pool_stream){.recipe = stream->recipe, .index = stream->index};
}

uint64_t stream_worker_cache(const struct lk_runtime *runtime)
{
    return runtime->cache_bytes;
}

enum lk_code stream_check_cache(const struct stream *stream, const struct lk_runtime *runtime,
                                struct lk_err *err)
{
    (void)stream;
    (void)runtime;
    (void)err;
    return LK_OK;
}

/* Tokenizers, drops ----------------------------------------------------------------------------- */

const char *lk_tokenizer_notes(const struct lk_tokenizer *tokenizer)
{
    (void)tokenizer;
    return "";
}

uint32_t lk_tokenizer_vocab(const struct lk_tokenizer *tokenizer)
{
    (void)tokenizer;
    return sim_now()->of.recipe[0].dataset[0].vocab;
}

const char *lk_drop_name(enum lk_drop drop)
{
    static const char *const name[] = {
#define DROP_TEXT(name, text) text,
        LK_DROPS(DROP_TEXT)
#undef DROP_TEXT
    };
    return name[drop];
}

/* The log --------------------------------------------------------------------------------------- */

/* What is said to be dropped is, and for that reason. */
static void check_dropped(struct sim *sim, const char *text)
{
    unsigned stream, d, shard;
    unsigned long long row;
    char reason[32];
    if (sscanf(text, "stream%u: dataset d%u-%*x shard s%u row %llu: %31s", &stream, &d, &shard, &row, reason) != 5)
        sim_fail(sim, "log: %s", text);
    const struct sim_dataset *dataset = &sim->of.recipe[stream].dataset[d];
    for (uint32_t s = 0; s < shard; s++)
        row += dataset->shard_rows[s];
    struct sim_row data = sim_row(dataset, row);
    if (data.drop == 0 || strcmp(lk_drop_name((enum lk_drop)data.drop), reason) != 0)
        sim_fail(sim, "log: %s: it has %u tokens", text, data.tokens);
}

void log_event(const struct log *log, enum log_level level, const char *component, const char *event, ...)
{
    struct sim *sim = sim_now();
    char line[SIM_LOG_LINE];
    const char *stream = "", *reason = "";
    size_t n = (size_t)snprintf(line, sizeof line, "log: %s %s", component, event);
    va_list args;
    (void)log;
    (void)level;
    va_start(args, event);
    for (const char *key; (key = va_arg(args, const char *)) != NULL && n < sizeof line;) {
        const char *value = va_arg(args, const char *);
        n += (size_t)snprintf(line + n, sizeof line - n, " %s=%s", key, value);
        stream = strcmp(key, "stream") == 0 ? value : stream;
        reason = strcmp(key, "reason") == 0 ? value : reason;
    }
    va_end(args);
    sim_note(sim, "%s", line);
    if (strcmp(event, "failed") == 0)
        check_failed(sim, stream, reason);
}

void log_text(const struct log *log, enum log_level level, const char *component, const char *event,
              const char *format, ...)
{
    char text[SIM_LOG_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_event(log, level, component, event, "text", text, NULL);
    if (strcmp(event, "row_dropped") == 0)
        check_dropped(sim_now(), text);
}
