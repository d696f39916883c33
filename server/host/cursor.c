#include "host/cursor_private.h"
#include "op/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNTED_A_PUMP 8192 /* rows of known counts: some milliseconds, after which calls are heard */

static void held_drop(struct cursor *c, struct held *held)
{
    slots_put(c->context->slots, held->slot);
    free(held->row);
    held->row = NULL;
}

void cursor_free(struct cursor *c)
{
    if (c == NULL)
        return;
    measure_forget(c);
    for (uint32_t i = 0; i < c->n; i++)
        held_drop(c, &c->held[(c->head + i) % c->capacity]);
    for (uint32_t l = 0; l < c->recipe->lanes; l++) {
        lane_free(c->lane[l].lane);
        free(c->lane[l].used);
        free(c->lane[l].slices);
        counted_done(&c->lane[l].counted);
    }
    free(c->lane);
    free(c->held);
    free(c->missing);
    for (struct failure *f = c->failures, *next; f != NULL; f = next) {
        next = f->next;
        free(f);
    }
    free(c);
}

void cursor_fail(struct cursor *c, uint64_t step, enum lk_code code, const char *text)
{
    if (step >= c->fail_step)
        return;
    c->fail_step = step;
    (void)lk_fail(&c->err, code, "%s", text);
    log_event(c->context->log, LOG_LEVEL_ERROR, "stream", "failed", "stream", c->recipe->name, "code",
              lk_code_name(code), "reason", text, NULL);
}

/* Nothing is left to be made. */
static bool broken(const struct cursor *c)
{
    return c->fail_step <= c->first_step;
}

/* The window ---------------------------------------------------------------------------------- */

struct held *cursor_held(const struct cursor *c, uint64_t step)
{
    if (step < c->first_step || step - c->first_step >= c->n)
        return NULL;
    return &c->held[(c->head + (uint32_t)(step - c->first_step)) % c->capacity];
}

static uint64_t window_end(const struct cursor *c)
{
    return c->first_step + c->n;
}

/* Drops the oldest step, unless somebody waits for it. */
static bool window_drop(struct cursor *c)
{
    struct held *held = &c->held[c->head];
    if (c->n == 0 || held->step >= c->keep)
        return false;
    held_drop(c, held);
    c->head = (c->head + 1) % c->capacity;
    c->n--;
    c->first_step++;
    return true;
}

void cursor_shed(struct cursor *c, bool all)
{
    while (c->n > 0 && (all || c->first_step < c->asked) && window_drop(c))
        ;
}

static struct held *window_grow(struct cursor *c)
{
    uint64_t step = window_end(c);
    if (c->n == c->capacity && !window_drop(c))
        return NULL;
    uint32_t size = steps_size(c->recipe, step);
    uint32_t slot = slots_take(c->context->slots, step, size);
    while (slot == SLOT_NONE && c->n > 0 && c->first_step < c->asked && window_drop(c))
        slot = slots_take(c->context->slots, step, size);
    if (slot == SLOT_NONE)
        return NULL;
    struct held *held = &c->held[(c->head + c->n++) % c->capacity];
    *held = (struct held){.step = step, .slot = slot, .size = size, .open = size};
    held->row = lk_alloc(size * sizeof *held->row);
    memset(held->row, 0xff, size * sizeof *held->row);
    return held;
}

void cursor_keep(struct cursor *c, uint64_t step)
{
    c->keep = step;
}

bool cursor_starved(const struct cursor *c, uint64_t step)
{
    return step < c->fail_step && step < c->target && window_end(c) <= step;
}

/* Lanes --------------------------------------------------------------------------------------- */

/* The first position after @position at which a snapshot is due; UINT64_MAX for never. */
static uint64_t snapshot_after(const struct cursor *c, uint64_t position)
{
    uint64_t every = c->context->snapshot_every;
    if (every == 0 || c->context->snapshots == NULL)
        return UINT64_MAX;
    uint64_t step = (steps_at(c->recipe, position) / every + 1) * every;
    return step <= LK_STEP_MAX ? steps_start(c->recipe, step) : UINT64_MAX;
}

/* A copy of lane @l of @near, if that is not past @position; else NULL. */
static struct lk_lane *copy_lane(const struct cursor *c, uint32_t l, uint64_t position,
                                 const struct cursor *near)
{
    const struct lk_lane *from = near != NULL ? near->lane[l].lane : NULL;
    struct lk_buf state = {0};
    struct lk_err err;
    if (from == NULL || lane_position(from) == 0 || lane_position(from) > position)
        return NULL;
    struct lk_lane *lane = lane_new(&c->context->stream->plan, l);
    lane_save(from, &state);
    LK_CHECK(lane_load(lane, state.data, state.len, &err) == LK_OK);
    lk_buf_done(&state);
    return lane;
}

/* Lane @l from the newest usable snapshot after @from and not after @position; NULL without one. */
static struct lk_lane *restore_lane(const struct cursor *c, uint32_t l, uint64_t from,
                                    uint64_t position)
{
    const struct stream *stream = c->context->stream;
    struct lk_buf state = {0};
    struct lk_lane *lane = NULL;
    uint64_t until = position, at;
    struct lk_err err;

    while (c->context->snapshots != NULL && until > from &&
           snapshots_read(c->context->snapshots, stream->order, l, from + 1, until, &at, &state)) {
        lane = lane_new(&stream->plan, l);
        enum lk_code code = lane_load(lane, state.data, state.len, &err);
        if (code == LK_OK && lane_position(lane) == at) {
            log_text(c->context->log, LOG_LEVEL_DEBUG, "snapshots", "restored",
                     "stream %s lane %u at sequence %" PRIu64, c->recipe->name, l, at);
            break;
        }
        log_event(c->context->log, LOG_LEVEL_WARN, "snapshots", "unusable", "reason",
                  code == LK_OK ? "its state is of another position" : err.text, "instead",
                  "an older one", NULL);
        lane_free(lane);
        lane = NULL;
        until = at - 1;
    }
    lk_buf_done(&state);
    return lane;
}

/* Lane @l as near before @position as can be had. A copy holds what the original does, counted rows too. */
static struct lk_lane *seek_lane(struct cursor *c, uint32_t l, uint64_t position,
                                 const struct cursor *near)
{
    struct lk_lane *copy = copy_lane(c, l, position, near);
    struct lk_lane *restored = restore_lane(c, l, copy != NULL ? lane_position(copy) : 0, position);
    if (restored != NULL) {
        lane_free(copy);
        return restored;
    }
    if (copy == NULL)
        return lane_new(&c->context->stream->plan, l);
    counted_copy(&c->lane[l].counted, &near->lane[l].counted);
    return copy;
}

static void activate(struct cursor *c, uint32_t l, const struct cursor *near)
{
    struct cursor_lane *lane = &c->lane[l];
    if (lane->lane != NULL)
        return;
    lane->lane = seek_lane(c, l, steps_start(c->recipe, c->first_step), near);
    lane->began = lane_position(lane->lane);
    c->by_counts = c->by_counts || lane->began > 0;
    lane->next_snapshot = snapshot_after(c, lane->began);
    lane->slices = lk_zalloc(c->recipe->n_datasets, sizeof(struct errand *));
    lane->used = c->ring > 0 ? lk_zalloc(c->ring, sizeof *lane->used) : NULL;
    c->active++;
}

static void lanes_of(const struct cursor *c, uint64_t step, struct steps_cut cut, uint32_t *ret_first,
                     uint32_t *ret_end)
{
    uint32_t size = steps_size(c->recipe, step);
    *ret_first = 0;
    *ret_end = c->recipe->lanes;
    if (!c->context->stream->finite && cut.rows > 0) {
        *ret_first = steps_lane(c->recipe, size, cut.first);
        *ret_end = steps_lane(c->recipe, size, cut.first + cut.rows - 1) + 1;
    }
}

static void activate_for(struct cursor *c, uint64_t step, struct steps_cut cut,
                         const struct cursor *near)
{
    uint32_t first, end;
    lanes_of(c, step, cut, &first, &end);
    for (uint32_t l = first; l < end; l++)
        activate(c, l, near);
}

static uint32_t per_lane(const struct cursor *c, const struct held *held)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): pad_lane's is one of the @n there are */
    return held->size / c->recipe->lanes;
}

/* Not on the way to the window where counts are known: they will be the next time, too, and lead as fast.
 * And nothing of what has turned out to be wrong. */
static void save_lane(struct cursor *c, struct cursor_lane *lane)
{
    struct lk_buf state = {0};
    uint64_t position = lane_position(lane->lane);
    lane->next_snapshot = snapshot_after(c, position);
    bool on_the_way = position < steps_start(c->recipe, c->first_step);
    if ((lane->counted.n > 0 && on_the_way) || c->fail_step != UINT64_MAX)
        return;
    lane_save(lane->lane, &state);
    snapshots_write(c->context->snapshots, c->recipe, c->context->snapshot_every,
                    c->context->stream->order, lane_number(lane->lane), position, &state);
}

/* A lane that has ended leaves padding where the recipe wants the last step whole. */
static void pad_lane(struct cursor *c, uint32_t l)
{
    if (!c->lane[l].over || c->recipe->tail != LK_TAIL_PAD)
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        struct held *held = &c->held[(c->head + i) % c->capacity];
        uint32_t n = per_lane(c, held);
        for (uint32_t row = l * n; row < (l + 1) * n; row++)
            if (held->row[row] == ROW_OPEN)
                assemble_padding(c, held, row);
    }
}

/*
 * How far lanes may run now. In a finite stream no lane runs further ahead of the slowest than a window
 * is long: should that one end, what the others handed out beyond the last step is still known.
 */
static uint64_t run_limit(const struct cursor *c)
{
    uint64_t step = window_end(c);
    for (uint32_t l = 0; c->ring > 0 && l < c->recipe->lanes; l++) {
        if (c->lane[l].lane == NULL || (c->lane[l].over && c->recipe->tail == LK_TAIL_PAD))
            continue;
        uint64_t at = steps_at(c->recipe, lane_position(c->lane[l].lane));
        if (at + c->capacity < step)
            step = at + c->capacity;
    }
    return steps_start(c->recipe, step);
}

/* By which rules the lanes have dropped rows of dataset @d so far. */
static void put_drops(const struct cursor *c, uint32_t d, struct lk_buf *out)
{
    const char *before = " (", *after = "";
    for (uint32_t drop = 1; drop < LK_DROP_REASONS; drop++) {
        uint64_t rows = 0;
        for (uint32_t l = 0; l < c->recipe->lanes; l++)
            rows += c->lane[l].lane != NULL ? source_counts(lane_source(c->lane[l].lane), d)->dropped[drop] : 0;
        if (rows == 0)
            continue;
        lk_buf_putf(out, "%s%" PRIu64 " by %s", before, rows, lk_drop_name((enum lk_drop)drop));
        before = ", ";
        after = ")";
    }
    lk_buf_puts(out, after);
}

static void fail_lane(struct cursor *c, uint32_t l, const struct lk_err *err)
{
    const struct source *source = lane_source(c->lane[l].lane);
    struct lk_buf text = {0};
    lk_buf_puts(&text, err->text);
    for (uint32_t d = 0; d < c->recipe->n_datasets; d++)
        if (source_dry(source, d))
            put_drops(c, d, &text);
    c->lane[l].failed = true;
    cursor_fail(c, steps_at(c->recipe, lane_position(c->lane[l].lane)), err->code, lk_buf_cstr(&text));
    lk_buf_done(&text);
}

/* The slice that lane @l waits for may be one that cannot be measured. */
static void check_wanted(struct cursor *c, uint32_t l)
{
    uint32_t wanted = lane_wanted(c->lane[l].lane);
    uint64_t slice;
    if (!source_front(lane_source(c->lane[l].lane), wanted, &slice))
        return;
    for (const struct failure *f = c->failures; f != NULL; f = f->next)
        if (f->lane == l && f->dataset == wanted && f->slice == slice) {
            fail_lane(c, l, &f->err);
            return;
        }
}

/* A sequence before the window. */
static void pass_over(struct cursor_lane *lane, const struct lk_item *item)
{
    for (uint32_t i = 0; i < item->n && lane->counted.n > 0; i++)
        (void)counted_use(&lane->counted, &item->span[i]);
}

/* The rows that the lane drew and dropped: each is told of once, when it was its turn. */
static void list_dropped(struct cursor *c, uint32_t l)
{
    struct lk_dropped row[64];
    uint32_t n;
    while ((n = source_take_dropped(lane_source(c->lane[l].lane), row, 64)) > 0)
        for (uint32_t i = 0; i < n; i++)
            drop_log_row(c->context->drops, row[i].dataset, row[i].row, (enum lk_drop)row[i].drop);
}

static bool may_run(const struct cursor_lane *lane, uint64_t limit)
{
    return !lane->over && !lane->failed && !lane->stuck && lane_position(lane->lane) < limit;
}

/* Hands out sequences of lane @l before position @limit; true when anything moved. */
static bool pump_lane(struct cursor *c, uint32_t l, uint64_t limit)
{
    struct cursor_lane *lane = &c->lane[l];
    bool moved = false;

    if (!may_run(lane, limit))
        return false;
    do {
        uint64_t position = lane_position(lane->lane);
        struct lk_item item;
        lane->planned = 0;
        enum seq_pull got = lane_next(lane->lane, &item);
        if (got == SEQ_WANT) {
            lane->stuck = true;
            check_wanted(c, l);
        } else if (got == SEQ_END) {
            lane->over = moved = true;
            c->over++;
            pad_lane(c, l);
        } else if (got == SEQ_ERROR) {
            fail_lane(c, l, lane_error(lane->lane));
            moved = true;
        } else {
            uint64_t step = steps_at(c->recipe, position);
            struct held *held = cursor_held(c, step);
            if (held != NULL)
                assemble_row(c, held,
                             l * per_lane(c, held) +
                                 (uint32_t)(position - steps_start(c->recipe, step)),
                             &item, lane);
            else
                pass_over(lane, &item);
            if (lane->used != NULL)
                lane->used[position % c->ring] = item.tokens;
            if (position + 1 == lane->next_snapshot)
                save_lane(c, lane);
            moved = true;
        }
    } while (may_run(lane, limit));
    list_dropped(c, l);
    return moved;
}

/* Positions are only counted up to @until: further than any step that will be asked for soon. */
static bool pump_ahead(struct cursor *c, uint32_t l, uint64_t until)
{
    const struct cursor_lane *lane = &c->lane[l];
    return !lane->over && !lane->failed && lane->planned != until && lane_position(lane->lane) < until &&
           measure_ahead(c, l, until);
}

/* Once over all lanes; true when it is worth another round, since one lane may wait for another. */
static bool pump_lanes(struct cursor *c)
{
    uint64_t limit = run_limit(c), until = steps_start(c->recipe, c->target);
    bool moved = false;
    for (uint32_t l = 0; l < c->recipe->lanes && !broken(c); l++) {
        if (c->lane[l].lane == NULL)
            continue;
        moved = pump_lane(c, l, limit) || moved;
        if (!broken(c))
            moved = pump_ahead(c, l, until) || moved;
    }
    return moved && !broken(c);
}

/* What the lanes say of a dataset: one has come to a record of it; none has, and none will; or else who has
 * none so far (an inactive one where there is one), which may be the only one that does. */
enum yields { YIELDS, YIELDS_NOTHING, YIELDS_PERHAPS, YIELDS_ELSEWHERE };

static enum yields yields(const struct cursor *c, uint32_t d)
{
    enum yields says = YIELDS_NOTHING;
    for (uint32_t l = 0; l < c->recipe->lanes; l++) {
        const struct cursor_lane *lane = &c->lane[l];
        if (lane->lane == NULL && says == YIELDS_NOTHING)
            says = YIELDS_ELSEWHERE;
        else if (lane->lane != NULL && !lane->over && lane_position(lane->lane) == 0)
            says = YIELDS_PERHAPS;
        else if (lane->lane != NULL && !source_barren(lane_source(lane->lane), d))
            return YIELDS;
    }
    return says;
}

static void fail_barren(struct cursor *c, uint32_t d)
{
    struct lk_buf text = {0};
    lk_buf_putf(&text, "dataset %s yields no tokens: every one of its %" PRIu64 " rows was dropped",
                c->recipe->dataset[d].name, c->context->stream->plan.dataset[d].rows);
    put_drops(c, d, &text);
    cursor_fail(c, 0, LK_FAILED_PRECONDITION, lk_buf_cstr(&text));
    lk_buf_done(&text);
}

/*
 * A dataset that is dropped as a whole is part of no mixture that anybody asked for: such a stream has no step
 * (core/ORDER.md). Of one that repeats each lane finds that by itself; of another, a lane knows with its first
 * sequence or its end whether there is a record in its own rows, and nothing is given before that is known of
 * some lane, or of all. So it is the same for every step, whoever asks for what first. Where the lanes that were
 * asked for have no record, the others are begun, to see: true.
 */
static bool look_for_records(struct cursor *c)
{
    bool fruitful = true, elsewhere = false;
    for (uint32_t d = 0; d < c->recipe->n_datasets && !c->fruitful; d++) {
        enum yields says = c->recipe->dataset[d].then == LK_THEN_REPEAT ? YIELDS : yields(c, d);
        if (says == YIELDS_NOTHING)
            fail_barren(c, d);
        fruitful = fruitful && says == YIELDS;
        elsewhere = elsewhere || says == YIELDS_ELSEWHERE;
    }
    c->fruitful = fruitful;
    for (uint32_t l = 0; l < c->recipe->lanes && elsewhere; l++)
        activate(c, l, NULL);
    return elsewhere;
}

bool cursor_pump(struct cursor *c)
{
    bool moved = false;
    c->allowance = COUNTED_A_PUMP;
    c->hungry = false;
    if (broken(c))
        return false;
    while (window_end(c) < c->target && window_grow(c) != NULL) {
        for (uint32_t l = 0; l < c->recipe->lanes; l++)
            pad_lane(c, l);
        moved = true;
    }
    do {
        while (pump_lanes(c))
            moved = true;
    } while (!broken(c) && look_for_records(c));
    if (!broken(c))
        measure_fetch(c);
    return moved;
}

/* Asking -------------------------------------------------------------------------------------- */

struct cursor *cursor_new(const struct cursor_context *context, uint64_t step, struct steps_cut cut,
                          const struct cursor *near)
{
    struct cursor *c = lk_zalloc(1, sizeof *c);
    c->context = context;
    c->recipe = context->stream->recipe;
    c->lane = lk_zalloc(c->recipe->lanes, sizeof *c->lane);
    c->first_step = c->asked = c->target = step;
    c->keep = c->fail_step = UINT64_MAX;
    c->capacity = 2 * context->prefetch_steps + 2;
    c->held = lk_zalloc(c->capacity, sizeof *c->held);
    if (context->stream->finite)
        c->ring = (c->capacity + 2) * (context->stream->batch_max / c->recipe->lanes);
    activate_for(c, step, cut, near);
    return c;
}

/* Is lane @l past the rows of the step that it owes, without having filled them? */
static bool lane_past(const struct cursor *c, uint32_t l, uint64_t step, const struct held *held)
{
    const struct cursor_lane *lane = &c->lane[l];
    if (lane->lane == NULL || (held != NULL && held->row[(size_t)l * per_lane(c, held)] != ROW_OPEN))
        return false;
    return lane_position(lane->lane) > steps_start(c->recipe, step);
}

uint64_t cursor_distance(const struct cursor *c, uint64_t step, struct steps_cut cut)
{
    const struct held *held = cursor_held(c, step);
    uint32_t first, end;
    if (cursor_untold(c, step))
        return 0;
    if (step >= c->fail_step || step < c->first_step)
        return UINT64_MAX;
    lanes_of(c, step, cut, &first, &end);
    for (uint32_t l = first; l < end; l++)
        if (lane_past(c, l, step, held))
            return UINT64_MAX;
    return held != NULL ? 0 : step - window_end(c) + 1;
}

uint64_t cursor_reach(const struct cursor *c)
{
    return c->capacity;
}

void cursor_ask(struct cursor *c, uint64_t step, struct steps_cut cut)
{
    if (step >= c->fail_step)
        return;
    LK_CHECK(step <= window_end(c) + c->capacity);
    /* Looking ahead grows with use, so that a glance at one step costs no more than that step. */
    if (step > c->asked)
        c->ahead = c->ahead == 0 ? 1 : 2 * c->ahead;
    if (c->ahead > c->context->prefetch_steps)
        c->ahead = c->context->prefetch_steps;
    if (step > c->asked)
        c->asked = step;
    if (c->target < c->asked + 1 + c->ahead)
        c->target = c->asked + 1 + c->ahead;
    activate_for(c, step, cut, NULL);
}

/* Looking ------------------------------------------------------------------------------------- */

/* With `pad` the last lane that has anything for a step ends the stream after it. */
static uint64_t steps_padded(const struct cursor *c)
{
    uint64_t steps = 0;
    if (c->over < c->recipe->lanes)
        return UINT64_MAX;
    for (uint32_t l = 0; l < c->recipe->lanes; l++) {
        uint64_t position = lane_position(c->lane[l].lane);
        uint64_t step = steps_at(c->recipe, position);
        step += position > steps_start(c->recipe, step);
        if (step > steps)
            steps = step;
    }
    return steps;
}

/* With `drop` the first lane that cannot fill a step ends it. Another one may do so even sooner: the number stands
 * when all have come so far. */
static uint64_t steps_dropped(const struct cursor *c)
{
    uint64_t steps = UINT64_MAX;
    if (c->over == 0)
        return UINT64_MAX;
    for (uint32_t l = 0; l < c->recipe->lanes; l++) {
        uint64_t step = steps_at(c->recipe, lane_position(c->lane[l].lane));
        if (c->lane[l].over && step < steps)
            steps = step;
    }
    for (uint32_t l = 0; l < c->recipe->lanes; l++)
        if (!c->lane[l].over && lane_position(c->lane[l].lane) < steps_start(c->recipe, steps))
            return UINT64_MAX;
    return steps;
}

/* Steps of a stream whose end is known, else UINT64_MAX. */
uint64_t cursor_steps(const struct cursor *c)
{
    if (c->active < c->recipe->lanes || !c->fruitful)
        return UINT64_MAX;
    return c->recipe->tail == LK_TAIL_PAD ? steps_padded(c) : steps_dropped(c);
}

/* In a finite stream a step exists only when every lane has filled it. */
static bool step_exists(const struct cursor *c, const struct held *held)
{
    return !c->context->stream->finite || held->open == 0;
}

static bool rows_ready(const struct cursor *c, const struct held *held, struct steps_cut cut)
{
    if (held == NULL || !c->fruitful || !step_exists(c, held))
        return false;
    for (uint32_t row = cut.first; row < cut.first + cut.rows; row++)
        if (held->row[row] != 0)
            return false;
    return true;
}

enum cursor_state cursor_look(const struct cursor *c, uint64_t step, struct steps_cut cut,
                              uint32_t *ret_slot)
{
    const struct held *held = cursor_held(c, step);
    if (!c->doubtful && rows_ready(c, held, cut) &&
        !(c->context->stream->finite && step >= cursor_steps(c))) {
        *ret_slot = held->slot;
        return CURSOR_READY;
    }
    if (step >= c->fail_step)
        return CURSOR_FAILED;
    if (step < c->first_step)
        return CURSOR_PAST;
    return c->context->stream->finite && step >= cursor_steps(c) ? CURSOR_ENDED : CURSOR_WAITING;
}

const struct lk_err *cursor_error(struct cursor *c)
{
    c->untold = false;
    return &c->err;
}

bool cursor_untold(const struct cursor *c, uint64_t step)
{
    return c->untold && step >= c->fail_step && step - c->fail_step <= c->capacity;
}

void cursor_doubt(struct cursor *c, const char *text)
{
    if (c->doubtful)
        return;
    cursor_fail(c, c->first_step, LK_DATA_LOSS, text);
    c->doubtful = true;
    c->untold = true;
}

void cursor_distrust(struct cursor *c)
{
    if (c->by_counts)
        cursor_doubt(c, "a count that was kept is wrong (the log names the row), and may have entered what was "
                        "made here: ask again, and it is made without");
}

void cursor_waits_for(const struct cursor *c, uint64_t step, struct steps_cut cut,
                      struct lk_buf *out)
{
    const struct held *held = cursor_held(c, step);
    uint32_t open = 0, missing = 0, first, end;
    lk_buf_putf(out, "step %" PRIu64 " of stream %s: ", step, c->recipe->name);
    if (held == NULL) {
        lk_buf_putf(out, "no free batch slot (the window is steps %" PRIu64 " to %" PRIu64 "); ",
                    c->first_step, window_end(c));
    } else {
        for (uint32_t row = cut.first; row < cut.first + cut.rows; row++) {
            open += held->row[row] == ROW_OPEN;
            missing += held->row[row] != ROW_OPEN && held->row[row] > 0;
        }
        lk_buf_putf(out, "%u of %u sequences not made yet, %u lack tokens that are fetched again; ",
                    open, cut.rows, missing);
    }
    lanes_of(c, step, cut, &first, &end);
    for (uint32_t l = first; l < end; l++) {
        if (c->lane[l].lane == NULL || !c->lane[l].stuck)
            continue;
        lk_buf_putf(out, "lane %u at sequence %" PRIu64 " needs rows of dataset %s; ", l,
                    lane_position(c->lane[l].lane),
                    c->recipe->dataset[lane_wanted(c->lane[l].lane)].name);
        break; /* one is enough to see the cause */
    }
    lk_buf_putf(out, "workers: %s", pool_waits_for(c->context->pool));
}

bool cursor_hungry(const struct cursor *c)
{
    return c->hungry;
}

bool cursor_seeking(const struct cursor *c)
{
    uint64_t start = steps_start(c->recipe, c->first_step);
    for (uint32_t l = 0; l < c->recipe->lanes; l++)
        if (c->lane[l].lane != NULL && !c->lane[l].over && !c->lane[l].failed &&
            lane_position(c->lane[l].lane) < start)
            return true;
    return false;
}

void cursor_lane_totals(const struct cursor *c, uint32_t l, struct lane_totals *ret_totals)
{
    const struct cursor_lane *lane = &c->lane[l];
    lane_totals(lane->lane, ret_totals);
    uint64_t steps = c->context->stream->finite ? cursor_steps(c) : UINT64_MAX;
    if (steps == UINT64_MAX)
        return;
    uint64_t end = steps_start(c->recipe, steps);
    for (uint64_t position = lane_position(lane->lane); position > end && position > lane->began;
         position--) {
        uint32_t tokens = lane->used[(position - 1) % c->ring];
        ret_totals->tokens_out -= tokens;
        ret_totals->pack.lost += tokens;
        ret_totals->pack.padded -= c->recipe->sequence - tokens;
        ret_totals->pack.sequences--;
    }
}

static void add_totals(struct lane_totals *sum, const struct lane_totals *lane)
{
    sum->rows += lane->rows;
    sum->records += lane->records;
    sum->tokens_in += lane->tokens_in;
    sum->tokens_out += lane->tokens_out;
    sum->waiting += lane->waiting;
    sum->pack.lost += lane->pack.lost;
    sum->pack.padded += lane->pack.padded;
    sum->pack.cuts += lane->pack.cuts;
    sum->pack.forced_cuts += lane->pack.forced_cuts;
    sum->pack.sequences += lane->pack.sequences;
    for (int i = 0; i < LK_DROP_REASONS; i++)
        sum->dropped[i] += lane->dropped[i];
}

void cursor_status(const struct cursor *c, struct cursor_status *ret_status)
{
    *ret_status = (struct cursor_status){.first_step = c->first_step,
                                         .next_step = window_end(c),
                                         .asked = c->asked,
                                         .lanes_active = c->active,
                                         .steps_held = c->n,
                                         .slices_measuring = c->measuring,
                                         .rows_fetching = c->fetching,
                                         .rows_made = c->rows_made,
                                         .fetched = c->fetched};
    for (uint32_t i = 0; i < c->n; i++) {
        const struct held *held = &c->held[(c->head + i) % c->capacity];
        ret_status->steps_ready += held->ready == held->size;
    }
    for (uint32_t l = 0; l < c->recipe->lanes; l++) {
        struct lane_totals totals;
        if (c->lane[l].lane == NULL)
            continue;
        cursor_lane_totals(c, l, &totals);
        add_totals(&ret_status->totals, &totals);
    }
}

const struct lk_lane *cursor_lane(const struct cursor *c, uint32_t lane)
{
    return c->lane[lane].lane;
}
