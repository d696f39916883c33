#include "client/cli/find.h"

#include "client/cli/rows.h"
#include "core/steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PASSES_SHOWN 4

struct found {
    uint64_t step;
    uint32_t sequence, at, tokens, epoch, first, lane;
};

struct search {
    struct cli *cli;
    const struct find_row *find;
    struct lanekeeper *handle;
    struct lanekeeper_info info;
    struct stream stream; /* with a configuration */
    bool planned;
    uint32_t d;           /* planned: the dataset, */
    uint64_t row;         /*          and the row in it */
    struct lk_measured measured;
    struct found *found;
    size_t n, cap;
    uint64_t end;         /* the steps searched end here */
    bool ended;           /* because the stream does */
    uint32_t misplaced;   /* found in another lane than the plan says */
    struct lk_buf out;
};

/* ---- the plan ---- */

static int find_in_index(struct search *s)
{
    const struct lk_recipe *recipe = s->stream.recipe;
    while (s->d < recipe->n_datasets && strcmp(recipe->dataset[s->d].name, s->find->dataset) != 0)
        s->d++;
    if (s->d == recipe->n_datasets)
        return cli_fail(s->cli, LANEKEEPER_NOT_FOUND, "stream %s has no dataset \"%s\"", recipe->name,
                        s->find->dataset);
    const struct lk_index *index = &s->stream.index[s->d];
    uint32_t i = 0;
    while (i < index->shards && strcmp(index->shard[i].name, s->find->shard) != 0)
        i++;
    if (i == index->shards)
        return cli_fail(s->cli, LANEKEEPER_NOT_FOUND,
                        "dataset %s has no shard \"%s\"; its shards are named like \"%s\"",
                        s->find->dataset, s->find->shard, index->shard[0].name);
    if (s->find->row_in_shard >= index->shard[i].rows)
        return cli_fail(s->cli, LANEKEEPER_OUT_OF_RANGE, "shard %s has rows 0 to %" PRIu64,
                        s->find->shard, index->shard[i].rows - 1);
    s->row = index->shard[i].first_row + s->find->row_in_shard;
    return -1;
}

static int plan_search(struct search *s)
{
    struct lk_err err;
    if (!s->cli->configured)
        return -1;
    if (stream_open(&s->cli->config, s->cli->stream_number, &s->stream, &err) != LK_OK)
        return cli_fail_err(s->cli, &err);
    int status = find_in_index(s);
    if (status >= 0)
        return status;
    if (rows_measure(&s->stream, s->d, &s->row, 1, &s->measured, &err) != LK_OK)
        return cli_fail_err(s->cli, &err);
    s->planned = true;
    return -1;
}

/* The plan is of the configuration's stream: the daemon's has to be the same. */
static int same_stream(struct search *s)
{
    char here[LK_DIGEST_HEX], there[LK_DIGEST_HEX];
    enum lanekeeper_code code = lanekeeper_info(s->handle, &s->info);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(s->cli, s->handle, (int)code);
    if (!s->planned || lk_digest_equal(s->stream.digest, lk_digest_get(s->info.stream_digest)))
        return -1;
    lk_digest_hex(s->stream.digest, here);
    lk_digest_hex(lk_digest_get(s->info.stream_digest), there);
    return cli_fail(s->cli, LANEKEEPER_FAILED_PRECONDITION,
                    "the stream of %s has digest %s, the daemon's %s: they are two streams",
                    s->cli->config_path, here, there);
}

static uint32_t passes_shown(const struct search *s)
{
    uint32_t passes = s->stream.recipe->dataset[s->d].epochs;
    return passes == 0 || passes > PASSES_SHOWN ? PASSES_SHOWN : passes;
}

/* ---- the steps ---- */

static void note(struct search *s, uint64_t step, uint32_t lane_rows,
                 const struct lanekeeper_trace_part *part)
{
    if (part->row_in_shard != s->find->row_in_shard ||
        strcmp(part->dataset, s->find->dataset) != 0 || strcmp(part->shard, s->find->shard) != 0)
        return;
    if (s->n == s->cap) {
        s->cap = s->cap == 0 ? 8 : 2 * s->cap;
        s->found = lk_resize(s->found, s->cap, sizeof *s->found);
    }
    struct found *found = &s->found[s->n++];
    *found = (struct found){.step = step,
                            .sequence = part->sequence,
                            .at = part->at,
                            .tokens = part->tokens,
                            .epoch = part->epoch,
                            .first = part->first,
                            .lane = part->sequence / lane_rows};
    if (s->planned &&
        plan_find(&s->stream.plan, s->d, part->epoch, s->row).lane != found->lane)
        s->misplaced++;
}

/* How many sequences a lane has in a step is not in a trace: a batch of the step says it. */
static int lane_rows(struct search *s, uint64_t step, uint32_t *ret_rows)
{
    struct lanekeeper_batch batch;
    if (s->planned) {
        *ret_rows = steps_size(s->stream.recipe, step) / s->info.lanes;
        return -1;
    }
    enum lanekeeper_code code = lanekeeper_get(s->handle, step, &batch);
    if (code != LANEKEEPER_OK)
        return (int)code;
    *ret_rows = batch.global_rows / s->info.lanes;
    lanekeeper_release(&batch);
    return -1;
}

static int search_step(struct search *s, uint64_t step)
{
    struct lanekeeper_trace trace;
    uint32_t rows = 1;
    enum lanekeeper_code code = lanekeeper_trace(s->handle, step, 0, 0, &trace);
    if (code == LANEKEEPER_OUT_OF_RANGE) {
        s->ended = true;
        return -1;
    }
    int other = code == LANEKEEPER_OK ? lane_rows(s, step, &rows) : (int)code;
    if (other >= 0)
        return cli_fail_call(s->cli, s->handle, other);
    for (size_t i = 0; i < trace.n; i++)
        note(s, step, rows, &trace.part[i]);
    lanekeeper_trace_done(&trace);
    s->end = step + 1;
    return -1;
}

static int search_steps(struct search *s)
{
    s->end = s->find->within.from;
    for (uint64_t step = s->find->within.from; step < s->find->within.to && !s->ended; step++) {
        int status = search_step(s, step);
        if (status >= 0)
            return status;
    }
    return -1;
}

/* ---- output ---- */

static void text_plan(struct search *s)
{
    lk_buf_putf(&s->out, "row %" PRIu64 " of shard ", s->find->row_in_shard);
    put_safe(&s->out, s->find->shard, strlen(s->find->shard));
    lk_buf_putf(&s->out, " is row %" PRIu64 " of dataset %s; ", s->row, s->find->dataset);
    if (s->measured.drop != LK_DROP_NONE)
        lk_buf_putf(&s->out, "it is never used: %s\n", lk_drop_name(s->measured.drop));
    else
        lk_buf_putf(&s->out, "it has %u tokens\n", s->measured.tokens);
    for (uint32_t e = 0; e < passes_shown(s); e++) {
        struct plan_place place = plan_find(&s->stream.plan, s->d, e, s->row);
        lk_buf_putf(&s->out, "pass %u: lane %u draws it as row %" PRIu64 " of its block %" PRIu64
                             " of %" PRIu64 "\n",
                    e, place.lane, place.r, place.k,
                    plan_lane_blocks(&s->stream.plan, s->d, place.lane));
    }
}

static void text_found(struct search *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct found *f = &s->found[i];
        lk_buf_putf(&s->out, "step %" PRIu64 ", sequence %u (lane %u), tokens %u to %u: tokens %u to %u "
                             "of the document, pass %u\n",
                    f->step, f->sequence, f->lane, f->at, f->at + f->tokens - 1, f->first,
                    f->first + f->tokens - 1, f->epoch);
    }
    lk_buf_putf(&s->out, "%zu pieces in steps %" PRIu64 "..%" PRIu64 "%s\n", s->n,
                s->find->within.from, s->end, s->ended ? ", where the stream ends" : "");
}

static void json_plan(struct search *s)
{
    json_u64(&s->out, true, "row", s->row);
    json_text(&s->out, true, "dropped", s->measured.drop == LK_DROP_NONE ? "" : lk_drop_name(s->measured.drop));
    json_u64(&s->out, true, "tokens", s->measured.drop == LK_DROP_NONE ? s->measured.tokens : 0);
    json_key(&s->out, true, "drawn");
    for (uint32_t e = 0; e < passes_shown(s); e++) {
        struct plan_place place = plan_find(&s->stream.plan, s->d, e, s->row);
        lk_buf_puts(&s->out, e > 0 ? ",{" : "[{");
        json_u64(&s->out, false, "epoch", e);
        json_u64(&s->out, true, "lane", place.lane);
        json_u64(&s->out, true, "block", place.k);
        json_u64(&s->out, true, "row_in_block", place.r);
        lk_buf_puts(&s->out, "}");
    }
    lk_buf_puts(&s->out, "]");
}

static void json_all(struct search *s)
{
    lk_buf_puts(&s->out, "{");
    json_text(&s->out, false, "dataset", s->find->dataset);
    json_text(&s->out, true, "shard", s->find->shard);
    json_u64(&s->out, true, "row_in_shard", s->find->row_in_shard);
    if (s->planned)
        json_plan(s);
    json_u64(&s->out, true, "from", s->find->within.from);
    json_u64(&s->out, true, "to", s->end);
    json_bool(&s->out, true, "stream_ends", s->ended);
    json_key(&s->out, true, "found");
    lk_buf_puts(&s->out, "[");
    for (size_t i = 0; i < s->n; i++) {
        const struct found *f = &s->found[i];
        lk_buf_puts(&s->out, i > 0 ? ",{" : "{");
        json_u64(&s->out, false, "step", f->step);
        json_u64(&s->out, true, "sequence", f->sequence);
        json_u64(&s->out, true, "lane", f->lane);
        json_u64(&s->out, true, "at", f->at);
        json_u64(&s->out, true, "tokens", f->tokens);
        json_u64(&s->out, true, "epoch", f->epoch);
        json_u64(&s->out, true, "first", f->first);
        lk_buf_puts(&s->out, "}");
    }
    lk_buf_puts(&s->out, "]}\n");
}

static int report(struct search *s)
{
    if (s->misplaced > 0)
        return cli_fail(s->cli, LANEKEEPER_INTERNAL,
                        "%u pieces came from another lane than the plan says: the order is broken",
                        s->misplaced);
    if (s->cli->json) {
        json_all(s);
    } else {
        if (s->planned)
            text_plan(s);
        text_found(s);
    }
    return output_flush(&s->out) && s->n > 0 ? EXIT_WELL : EXIT_PROBLEM;
}

int find_run(struct cli *cli, const struct find_row *find)
{
    struct search s = {.cli = cli, .find = find};
    int status = cli_open(cli);
    if (status < 0)
        status = plan_search(&s);
    if (status < 0)
        status = cli_connect_one(cli, LANEKEEPER_SHARED_NEVER, &s.handle);
    if (status < 0)
        status = same_stream(&s);
    if (status < 0)
        status = search_steps(&s);
    if (status < 0)
        status = report(&s);
    lanekeeper_close(s.handle);
    stream_done(&s.stream);
    free(s.found);
    lk_buf_done(&s.out);
    return status;
}
