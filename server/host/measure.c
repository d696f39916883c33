/*
 * Measuring: which rows are measured next, for whom, and what becomes of the results. Counts go to
 * the lanes' sources, token ids to the arena. Rows whose ids are missing when their sequence is made
 * (after a restore, or dropped by the arena) are fetched the same way.
 */
#include "host/cursor_private.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_BYTES_MIN (16u << 10)  /* small enough that the first rows of all lanes come first */
#define SLICE_BYTES_NEXT (64u << 10) /* later ones: a task has a price, whatever its size */
#define SLICE_BYTES_MAX (256u << 10)
#define AHEAD_BYTES_MAX (8u << 20)   /* per lane, when it has far to run */
#define BYTES_A_TOKEN 5              /* of stored rows; a guess that only sizes requests */
#define FETCH_ROWS_MAX 64
#define FETCH_URGENCY 0
#define SEEK_URGENCY 64 /* of a lane on its way to its window: after those that serve theirs */

static void errand_link(struct errand *errand, struct errand **list)
{
    errand->next = *list;
    errand->self = list;
    if (errand->next != NULL)
        errand->next->self = &errand->next;
    *list = errand;
}

static struct errand *errand_new(struct cursor *c, struct errand **list, uint32_t dataset, const uint64_t *row,
                                 uint32_t n)
{
    struct errand *errand = lk_zalloc(1, sizeof *errand);
    errand->cursor = c;
    errand->context = c->context;
    errand->dataset = dataset;
    errand->n = n;
    errand->row = lk_alloc(n * sizeof *errand->row);
    memcpy(errand->row, row, n * sizeof *errand->row);
    errand_link(errand, list);
    return errand;
}

static void errand_unlink(struct errand *errand)
{
    *errand->self = errand->next;
    if (errand->next != NULL)
        errand->next->self = errand->self;
    if (errand->cursor == NULL)
        return;
    if (errand->piece != NULL)
        errand->cursor->fetching -= errand->n;
    else
        errand->cursor->measuring--;
    errand->cursor = NULL;
}

static void errand_free(struct errand *errand)
{
    errand_unlink(errand);
    free(errand->row);
    free(errand->piece);
    free(errand);
}

/* An errand whose result is being delivered at this moment is freed by that. */
static void forget(struct cursor *c, struct errand **list)
{
    struct errand *errand;
    while ((errand = *list) != NULL) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): errand_free takes it off this list, through @self */
        if (pool_cancel(c->context->pool, errand->task)) {
            errand_free(errand);
            continue;
        }
        errand_unlink(errand);
        errand_link(errand, c->context->orphans);
    }
}

/* The workers have better things to do than what a cursor wanted that is gone. */
void measure_forget(struct cursor *c)
{
    forget(c, &c->fetches);
    for (uint32_t l = 0; l < c->recipe->lanes; l++)
        for (uint32_t d = 0; c->lane[l].slices != NULL && d < c->recipe->n_datasets; d++)
            forget(c, &c->lane[l].slices[d]);
}

void cursor_free_orphans(struct errand **orphans)
{
    while (*orphans != NULL)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): errand_free takes it off this list, through @self */
        errand_free(*orphans);
}

/* Counts ------------------------------------------------------------------------------------- */

static struct lk_count count_of(const struct pool_row *row)
{
    return (struct lk_count){.tokens = row->tokens,
                             .text_bytes = (uint32_t)row->text_bytes,
                             .specials = row->specials,
                             .drop = row->drop};
}

/* What was measured need not be measured again. */
static void keep_counts(const struct errand *errand, const struct pool_result *result)
{
    const struct cursor_context *context = errand->context;
    if (context->counts == NULL)
        return;
    for (uint32_t i = 0; i < result->n; i++)
        counts_put(context->counts[errand->dataset], errand->row[i], count_of(&result->rows[i]));
}

/* The rows of a slice whose counts are known are not measured: the lane has them at once. Their tokens
 * are made when they are handed out, if that is in the window, and must be as many then. */
static bool feed_counts(struct cursor *c, struct cursor_lane *lane, const struct lk_slice *slice)
{
    struct lk_count count[LK_SLICE_ROWS_MAX];
    struct lk_row_measure measure[LK_SLICE_ROWS_MAX];
    if (!counts_get(c->context->counts[slice->dataset], slice->rows, slice->n, count))
        return false;
    for (uint32_t i = 0; i < slice->n; i++) {
        measure[i] = (struct lk_row_measure){.tokens = count[i].tokens,
                                             .text_bytes = count[i].text_bytes,
                                             .drop = count[i].drop};
        struct lk_span record = {.dataset = slice->dataset,
                                 .row = slice->rows[i],
                                 .epoch = slice->epoch,
                                 .tokens = count[i].tokens};
        if (count[i].drop == 0)
            (void)counted_add(&lane->counted, &record);
    }
    source_measured(lane_source(lane->lane), slice->dataset, slice->id, measure, slice->n);
    counts_used(c->context->counts[slice->dataset], slice->n);
    c->by_counts = true;
    c->allowance -= slice->n < c->allowance ? slice->n : c->allowance;
    lane->stuck = false;
    return true;
}

/* Results ------------------------------------------------------------------------------------ */

/* The counts of a slice, for its lane: of all its rows, or of those before one that cannot be measured. */
static void deliver_slice(struct cursor *c, const struct errand *errand,
                          const struct pool_result *result)
{
    struct cursor_lane *lane = &c->lane[errand->lane];
    struct lk_row_measure *measure = lk_zalloc(result->n, sizeof *measure);
    for (uint32_t i = 0; i < result->n; i++)
        measure[i] = (struct lk_row_measure){.tokens = result->rows[i].tokens,
                                             .text_bytes = (uint32_t)result->rows[i].text_bytes,
                                             .drop = result->rows[i].drop};
    source_measured(lane_source(lane->lane), errand->dataset, errand->slice, measure, result->n);
    lane->stuck = false;
    lane->planned = 0;
    free(measure);
}

/* The row of @piece, measured again, is not what was counted, or has less than the @least that is needed of it:
 * what this cursor has made since it used that may not be what it should be, nor what others made of the same
 * count, nor what any left in snapshots. With counts the engine sees to these (counts_doubts). */
static void counted_otherwise(struct cursor *c, const struct piece *piece, uint64_t least, const struct pool_row *row)
{
    const struct cursor_context *context = c->context;
    const struct lk_index *index = &context->stream->index[piece->dataset];
    struct lk_row_place place = lk_index_place(index, piece->row);
    struct lk_err err;
    (void)lk_fail(&err, LK_DATA_LOSS,
                  "dataset %s, shard %s, row %llu: measured again it has %u tokens, but %u were counted before: %s",
                  c->recipe->dataset[piece->dataset].name, index->shard[place.shard].name,
                  (unsigned long long)place.row_in_shard, row->tokens,
                  (unsigned)(piece->of > least ? piece->of : least),
                  piece->of != 0 ? "the count that was kept is wrong" : "the data or the tokenizer has changed");
    if (!c->by_counts) {
        cursor_fail(c, piece->step, err.code, err.text);
        return;
    }
    cursor_doubt(c, err.text);
    if (context->counts != NULL)
        counts_correct(context->counts[piece->dataset], piece->row, count_of(row));
    else if (context->snapshots != NULL)
        snapshots_forget(context->snapshots, context->stream->order);
}

/* The ids of fetched rows, for the batches that lack them. */
static void deliver_fetch(struct cursor *c, const struct errand *errand,
                          const struct pool_result *result)
{
    uint32_t i = 0;
    for (uint32_t p = 0; p < errand->pieces && !c->doubtful; p++) {
        const struct piece *piece = &errand->piece[p];
        while (errand->row[i] != piece->row)
            i++;
        uint64_t least = (uint64_t)piece->first + piece->tokens;
        if ((piece->of != 0 && piece->of != result->rows[i].tokens) || least > result->rows[i].tokens) {
            counted_otherwise(c, piece, least, &result->rows[i]);
            return;
        }
        assemble_piece(c, piece, result->rows[i].ids);
        c->fetched++;
    }
}

/* What cannot be measured stops the lane when it comes to it, not before; what cannot be fetched stops
 * the first batch that lacks it. To a trainer, whatever is wrong with the data is one of two things. */
static void deliver_failure(struct cursor *c, const struct errand *errand,
                            const struct pool_result *result)
{
    enum lk_code code = result->code == LK_DATA_LOSS ? LK_DATA_LOSS : LK_FAILED_PRECONDITION;
    if (errand->piece != NULL) {
        for (uint32_t i = 0; i < errand->pieces; i++)
            cursor_fail(c, errand->piece[i].step, code, result->detail);
        return;
    }
    struct failure *failure = lk_zalloc(1, sizeof *failure);
    *failure = (struct failure){.next = c->failures,
                                .lane = errand->lane,
                                .dataset = errand->dataset,
                                .slice = errand->slice};
    (void)lk_fail(&failure->err, code, "%s", result->detail);
    c->failures = failure;
    c->lane[errand->lane].stuck = false; /* it may be the very one that is wanted */
}

/* The ids go to the arena. A fetched row is used at once, but for one so long that later sequences need it too. */
static void keep_ids(const struct errand *errand, const struct pool_result *result)
{
    const struct cursor_context *context = errand->context;
    uint32_t long_row = context->stream->recipe->sequence;
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pool_row *row = &result->rows[i];
        struct arena_key key = {.stream = context->stream->number,
                                .dataset = errand->dataset,
                                .row = errand->row[i]};
        if (row->drop != 0)
            drop_log_why(context->drops, errand->dataset, errand->row[i], (enum lk_drop)row->drop, row->detail);
        else if (errand->piece == NULL || row->tokens > long_row)
            arena_put(context->arena, key, row->ids, row->tokens);
    }
}

static void measured(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct errand *errand = owner;
    struct cursor *c = errand->cursor;
    const struct cursor_context *context = errand->context;
    (void)tag;

    keep_counts(errand, result);
    keep_ids(errand, result);
    if (c != NULL && errand->piece == NULL && result->n > 0)
        deliver_slice(c, errand, result);
    if (c != NULL && result->code != LK_OK)
        deliver_failure(c, errand, result);
    else if (c != NULL && errand->piece != NULL)
        deliver_fetch(c, errand, result);
    errand_free(errand);
    context->progress(context->owner);
}

static void submit(struct errand *errand, uint64_t urgency)
{
    struct pool_task task = {.stream = errand->context->stream->number,
                             .dataset = errand->dataset,
                             .rows = errand->row,
                             .n = errand->n,
                             .urgency = urgency,
                             .done = measured,
                             .owner = errand};
    errand->task = pool_submit(errand->context->pool, &task);
}

/* Ahead --------------------------------------------------------------------------------------- */

/* The task that measures the slice that lane @l waits for goes to the front. */
static void hurry(struct cursor *c, uint32_t l)
{
    const struct errand *oldest = c->lane[l].slices[lane_wanted(c->lane[l].lane)];
    for (const struct errand *errand = oldest; errand != NULL; errand = errand->next)
        if (errand->slice < oldest->slice)
            oldest = errand;
    if (oldest != NULL)
        pool_hurry(c->context->pool, oldest->task, FETCH_URGENCY + 1);
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/*
 * Plans and submits slices of each dataset until what lies ahead covers its share of what the lane
 * still has to hand out before position @until. Urgency is about when a slice will be needed, in
 * sequences from the window's start: so the first slices of all lanes precede the second ones.
 *
 * On the way to its window a lane needs counts alone, and takes them from the cache where it can. Within
 * the window tokens are needed, so rows are measured: it makes them ahead, and in time.
 */
bool measure_ahead(struct cursor *c, uint32_t l, uint64_t until)
{
    struct cursor_lane *lane = &c->lane[l];
    struct source *source = lane_source(lane->lane);
    const struct lk_recipe *recipe = c->recipe;
    uint64_t position = lane_position(lane->lane);
    uint64_t start = steps_start(recipe, c->first_step);
    uint64_t a_sequence = (uint64_t)recipe->sequence * BYTES_A_TOKEN;
    uint64_t need = clamp((until > position ? until - position : 0) * a_sequence, SLICE_BYTES_MIN,
                          AHEAD_BYTES_MAX);
    uint64_t least = position == lane->began ? SLICE_BYTES_MIN : SLICE_BYTES_NEXT;
    bool counts = c->context->counts != NULL && position < start, fed = false;
    uint64_t weights = 0;
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        weights += source_takes_part(source, d) ? recipe->dataset[d].weight : 0;
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        uint64_t weight = recipe->dataset[d].weight;
        uint64_t share = weights > 0 ? (uint64_t)((__uint128_t)need * weight / weights) : 0;
        struct lk_slice slice;
        for (;;) {
            uint64_t before = source_planned_bytes(source, d);
            if (counts && c->allowance == 0) {
                c->hungry = true;
                return fed;
            }
            if ((before > share && source_planned(source, d) > 0) ||
                !source_plan(source, d, clamp(share / 4, least, SLICE_BYTES_MAX),
                             LK_SLICE_ROWS_MAX, &slice))
                break;
            if (counts && feed_counts(c, lane, &slice)) {
                fed = true;
                continue;
            }
            struct errand *errand = errand_new(c, &lane->slices[d], d, slice.rows, slice.n);
            errand->lane = l;
            errand->slice = slice.id;
            c->measuring++;
            LK_CHECK(weight > 0); /* a recipe has no dataset of weight 0 */
            uint64_t when = (uint64_t)((__uint128_t)before * weights / weight) / a_sequence;
            submit(errand, 2 + (position < start ? SEEK_URGENCY : position - start) + when);
        }
    }
    if (lane->stuck)
        hurry(c, l);
    lane->planned = until;
    return fed;
}

/* Again --------------------------------------------------------------------------------------- */

/* By step first: what is sent for first comes first, and the first step is the one that is waited for. */
static int by_need(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->dataset != y->dataset)
        return x->dataset < y->dataset ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->batch_row != y->batch_row)
        return x->batch_row < y->batch_row ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sends for the rows of pieces [from, …) of one step that lie in one shard; how many pieces that were. */
static uint32_t fetch_some(struct cursor *c, uint32_t from)
{
    const struct piece *piece = &c->missing[from];
    const struct lk_index *index = &c->context->stream->index[piece->dataset];
    uint32_t shard = lk_index_place(index, piece->row).shard;
    uint64_t shard_end = index->shard[shard].first_row + index->shard[shard].rows;
    uint64_t row[FETCH_ROWS_MAX];
    uint32_t n = 0, i = 0;

    for (; from + i < c->n_missing; i++) {
        if (piece[i].step != piece->step || piece[i].dataset != piece->dataset ||
            piece[i].row >= shard_end)
            break;
        if (n > 0 && row[n - 1] == piece[i].row)
            continue;
        if (n == FETCH_ROWS_MAX)
            break;
        row[n++] = piece[i].row;
    }
    struct errand *errand = errand_new(c, &c->fetches, piece->dataset, row, n);
    errand->pieces = i;
    errand->piece = lk_alloc(i * sizeof *errand->piece);
    memcpy(errand->piece, piece, i * sizeof *errand->piece);
    c->fetching += n;
    submit(errand, FETCH_URGENCY);
    return i;
}

void measure_fetch(struct cursor *c)
{
    uint32_t from = 0;
    if (c->n_missing == 0)
        return;
    qsort(c->missing, c->n_missing, sizeof *c->missing, by_need);
    while (from < c->n_missing)
        from += fetch_some(c, from);
    c->n_missing = 0;
}
