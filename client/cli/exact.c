#include "client/cli/exact.h"

#include "client/cli/progress.h"
#include "core/lane.h"
#include "core/steps.h"
#include "host/counts.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_BYTES (256u << 10)
#define LOOK_EVERY 64 /* steps, at the clock */

struct machine {
    const struct stream *stream;
    struct exact *exact;
    struct counts_set **set;  /* [datasets] */
    struct lk_lane **lane;    /* [lanes] */
    uint64_t *tokens;         /* [datasets] of the step that is being made */
    uint64_t used, made;      /* of it: tokens, sequences */
    bool unknown;             /* a count is missing */
    struct progress progress;
    uint64_t shown_ns, all;   /* what the progress is of: steps, or rows */
};

/* Gives a lane the counts it waits for; false when they are not known. */
static bool feed(struct machine *m, uint32_t l)
{
    struct source *source = lane_source(m->lane[l]);
    uint32_t d = lane_wanted(m->lane[l]);
    struct lk_slice slice;
    struct lk_count count[LK_SLICE_ROWS_MAX];
    struct lk_row_measure measure[LK_SLICE_ROWS_MAX];
    while (source_plan(source, d, SLICE_BYTES, LK_SLICE_ROWS_MAX, &slice)) {
        if (!counts_get(m->set[d], slice.rows, slice.n, count))
            return false;
        for (uint32_t i = 0; i < slice.n; i++)
            measure[i] = (struct lk_row_measure){.tokens = count[i].tokens,
                                                 .text_bytes = count[i].text_bytes,
                                                 .drop = count[i].drop};
        source_measured(source, d, slice.id, measure, slice.n);
    }
    return true;
}

/* The list of dropped rows is for a log; here they are only counted. */
static void forget_dropped(struct lk_lane *lane)
{
    struct lk_dropped row[256];
    while (source_take_dropped(lane_source(lane), row, 256) > 0)
        ;
}

static enum seq_pull next(struct machine *m, uint32_t l, struct lk_item *ret_item)
{
    for (;;) {
        enum seq_pull got = lane_next(m->lane[l], ret_item);
        if (got != SEQ_WANT)
            return got;
        forget_dropped(m->lane[l]);
        if (!feed(m, l)) {
            m->unknown = true;
            return SEQ_WANT;
        }
    }
}

/* One sequence of a lane, into the step. */
static enum seq_pull one_sequence(struct machine *m, uint32_t l)
{
    struct lk_item item;
    enum seq_pull got = next(m, l, &item);
    for (uint32_t i = 0; got == SEQ_OK && i < item.n; i++)
        m->tokens[item.span[i].dataset] += item.span[i].tokens;
    m->used += got == SEQ_OK ? item.tokens : 0;
    m->made += got == SEQ_OK;
    return got;
}

static void begin_step(struct machine *m)
{
    memset(m->tokens, 0, m->exact->n * sizeof *m->tokens);
    m->used = m->made = 0;
}

static void end_step(struct machine *m, uint32_t size)
{
    struct exact *e = m->exact;
    e->steps++;
    e->sequences += size;
    e->tokens += m->used;
    e->padded += (uint64_t)size * m->stream->recipe->sequence - m->used;
    for (uint32_t d = 0; d < e->n; d++)
        e->dataset[d].tokens += m->tokens[d];
}

enum made { MADE, ENDED, STUCK, BROKEN };

/* By the rules of core/ORDER.md, "Steps and cuts". */
static enum made one_step(struct machine *m, struct lk_err *err)
{
    const struct lk_recipe *recipe = m->stream->recipe;
    uint32_t size = steps_size(recipe, m->exact->steps);
    begin_step(m);
    for (uint32_t l = 0; l < recipe->lanes; l++)
        for (uint32_t i = 0; i < size / recipe->lanes; i++) {
            enum seq_pull got = one_sequence(m, l);
            if (got == SEQ_WANT)
                return STUCK;
            if (got == SEQ_ERROR) {
                *err = *lane_error(m->lane[l]);
                return BROKEN;
            }
            if (got == SEQ_END && recipe->tail == LK_TAIL_DROP)
                return ENDED;
            if (got == SEQ_END)
                break;
        }
    if (m->made == 0)
        return ENDED;
    end_step(m, size);
    return MADE;
}

/* Progress ------------------------------------------------------------------------------------ */

static uint64_t rows_drawn(const struct machine *m)
{
    uint64_t rows = 0;
    for (uint32_t l = 0; l < m->stream->recipe->lanes; l++)
        for (uint32_t d = 0; d < m->exact->n; d++)
            rows += source_counts(lane_source(m->lane[l]), d)->rows;
    return rows;
}

/* All rows of all passes: what is left of them when a dataset stops the stream is not known before. */
static uint64_t rows_of_all(const struct stream *stream)
{
    uint64_t rows = 0;
    for (uint32_t d = 0; d < stream->recipe->n_datasets; d++)
        rows += stream->index[d].rows * (stream->recipe->dataset[d].epochs);
    return rows;
}

static void show(struct machine *m, uint64_t steps)
{
    uint64_t now = progress_now_ns();
    if (now - m->shown_ns < 200000000)
        return;
    m->shown_ns = now;
    uint64_t rows = rows_drawn(m);
    uint64_t done = steps > 0 ? m->exact->steps : rows;
    struct lk_progress hook = progress_hook(&m->progress);
    hook.report(hook.owner, done < m->all ? done : m->all, m->all, rows);
}

/* The run ------------------------------------------------------------------------------------- */

static void sum_up(struct machine *m)
{
    for (uint32_t l = 0; l < m->stream->recipe->lanes; l++) {
        for (uint32_t d = 0; d < m->exact->n; d++) {
            const struct lk_dataset_counts *counts = source_counts(lane_source(m->lane[l]), d);
            m->exact->dataset[d].drawn += counts->rows;
            for (int i = 1; i < LK_DROP_KINDS; i++)
                m->exact->dataset[d].dropped[i] += counts->dropped[i];
        }
    }
}

/* No step at all: what all lanes have is little, and says why. */
static void run_out(struct machine *m)
{
    struct lk_item item;
    for (uint32_t l = 0; l < m->stream->recipe->lanes; l++)
        while (next(m, l, &item) == SEQ_OK)
            ;
}

/* As the daemon does: a dataset that is dropped as a whole is no part of any mixture. */
static void check_barren(struct machine *m)
{
    for (uint32_t d = 0; d < m->exact->n && m->exact->run; d++) {
        bool barren = true;
        for (uint32_t l = 0; l < m->stream->recipe->lanes; l++)
            barren = barren && source_barren(lane_source(m->lane[l]), d);
        if (!barren)
            continue;
        m->exact->fails = lk_format("dataset %s yields no tokens: every one of its rows was dropped",
                                    m->stream->recipe->dataset[d].name);
        m->exact->run = false;
    }
}

static void run(struct machine *m, uint64_t steps)
{
    enum made made = MADE;
    struct lk_err err;
    while (made == MADE && (steps == 0 || m->exact->steps < steps)) {
        made = one_step(m, &err);
        if (m->exact->steps % LOOK_EVERY == 0)
            show(m, steps);
    }
    progress_done(&m->progress);
    if (made == BROKEN)
        m->exact->fails = lk_strdup(err.text);
    m->exact->run = made != STUCK && made != BROKEN;
    m->exact->ended = made == ENDED;
    if (made == ENDED && m->exact->steps == 0)
        run_out(m);
    sum_up(m);
    check_barren(m);
}

static void drive(const struct stream *stream, uint64_t steps, struct counts_set **set,
                  struct exact *exact)
{
    uint32_t lanes = stream->recipe->lanes;
    struct machine m = {.stream = stream, .exact = exact, .set = set};
    m.all = steps > 0 ? steps : rows_of_all(stream);
    m.tokens = lk_zalloc(exact->n, sizeof *m.tokens);
    m.lane = lk_zalloc(lanes, sizeof(struct lk_lane *));
    for (uint32_t l = 0; l < lanes; l++)
        m.lane[l] = lane_new(&stream->plan, l);
    progress_init(&m.progress, "explain");
    m.progress.of = steps > 0 ? "steps" : "rows of all passes";
    m.progress.unit = "rows drawn";
    m.shown_ns = m.progress.began_ns;
    run(&m, steps);
    for (uint32_t l = 0; l < lanes; l++)
        lane_free(m.lane[l]);
    free(m.lane);
    free(m.tokens);
}

enum lk_code exact_run(const struct stream *stream, const struct lk_runtime *runtime, uint64_t steps,
                       struct exact *ret_exact, struct lk_err *err)
{
    struct log log = {.level = LOG_LEVEL_WARN};
    struct counts_config config = {.dir = runtime->counts_dir,
                                   .disk_bytes = runtime->counts_bytes,
                                   .memory_bytes = runtime->counts_memory,
                                   .log = &log};
    uint32_t n = stream->recipe->n_datasets;
    struct exact exact = {.n = n, .dataset = lk_zalloc(n, sizeof *exact.dataset)};
    struct counts_set **set = lk_zalloc(n, sizeof(struct counts_set *));
    struct counts *counts = NULL;
    enum lk_code code = counts_open(&config, &counts, err);
    for (uint32_t d = 0; d < n && code == LK_OK; d++) {
        set[d] = counts_set(counts, stream->ops[d], &stream->index[d], stream->recipe->dataset[d].name);
        exact.rows += stream->index[d].rows;
        exact.known += runtime->counts_bytes > 0 ? counts_known(set[d]) : 0;
    }
    /* Some steps may need some of the rows only: that shows. */
    if (code == LK_OK && (steps > 0 ? exact.known > 0 : stream->finite && exact.known == exact.rows))
        drive(stream, steps, set, &exact);
    counts_close(counts);
    free(set);
    *ret_exact = exact;
    return code;
}

void exact_done(struct exact *exact)
{
    free(exact->dataset);
    free(exact->fails);
    *exact = (struct exact){0};
}
