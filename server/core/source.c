#include "core/source.h"

#include <stdlib.h>

__extension__ typedef unsigned __int128 u128;

#define NONE UINT32_MAX
#define LOADED_EPOCH_MAX (1u << 31) /* far beyond any pass; so passes cannot be used up after it */

struct slice {
    uint64_t id;
    uint32_t epoch;
    uint64_t k, r;           /* where it begins: block of the lane, row of the block */
    uint32_t n, used;        /* used < n while it is in the ring */
    uint32_t known;          /* of its first rows the measures are */
    uint64_t bytes;
    uint64_t *row;           /* [cap] */
    bool *opens;             /* [cap] a block; what it says of the first row is not used */
    struct lk_row_measure *measure; /* [cap] */
    uint32_t cap;
};

/* The row iterator of one dataset. */
struct draw {
    uint32_t epoch;          /* where the next slice will begin */
    uint64_t k, r;
    bool planned_out;        /* no rows beyond what is planned */
    uint64_t lane_blocks;
    struct plan_block block; /* of (epoch, k) */
    struct slice slice[LK_SLICES_MAX]; /* ring */
    uint32_t head, n;
    uint64_t next_id;
    uint64_t planned_bytes;
    uint64_t dry;            /* rows drawn since the last record */
    struct lk_dataset_counts counts;
};

/* What a dataset is in the mixture. Apart from its draw, as all of them are looked at for each record. */
struct share {
    uint64_t weight;
    uint64_t charged;        /* c_i: since the ledger began */
    uint64_t cost;           /* of the record at the front, when brought */
    bool takes_part;         /* false once released */
    bool brought;            /* its next record is at the front, or it is at its end; no state */
    bool at_end;             /* no record is left, when brought */
};

struct source {
    const struct lk_plan *plan;
    uint32_t lane;
    uint32_t datasets;
    bool ended;
    uint32_t wanted;         /* dataset whose measurement is missing; no state */
    struct draw *draw;       /* [datasets] */
    struct share *share;     /* [datasets] */
    struct lk_span record;   /* the item last given */
    struct lk_dropped *dropped;
    uint32_t n_dropped, cap_dropped;
};

static bool endless(const struct source *s, uint32_t d)
{
    return s->plan->recipe->dataset[d].then == LK_THEN_REPEAT;
}

/* Makes (epoch, k, r) name a row that exists, or finds that there is none. */
static void draw_settle(struct source *s, uint32_t d)
{
    struct draw *draw = &s->draw[d];
    uint32_t epochs = s->plan->recipe->dataset[d].epochs;
    if (draw->k == draw->lane_blocks) {
        draw->k = 0;
        draw->epoch++;
        LK_CHECK(draw->epoch != 0);
    }
    draw->planned_out = !endless(s, d) && draw->epoch >= epochs;
    if (!draw->planned_out)
        draw->block = plan_block_at(s->plan, d, s->lane, draw->epoch, draw->k);
}

struct source *source_new(const struct lk_plan *plan, uint32_t lane)
{
    struct source *s = lk_zalloc(1, sizeof *s);
    LK_CHECK(lane < plan->recipe->lanes);
    s->plan = plan;
    s->lane = lane;
    s->datasets = plan->recipe->n_datasets;
    s->draw = lk_zalloc(s->datasets, sizeof *s->draw);
    s->share = lk_zalloc(s->datasets, sizeof *s->share);
    for (uint32_t d = 0; d < s->datasets; d++) {
        s->share[d] = (struct share){.weight = plan->recipe->dataset[d].weight, .takes_part = true};
        s->draw[d].lane_blocks = plan_lane_blocks(plan, d, lane);
        LK_CHECK(s->draw[d].lane_blocks > 0);
        draw_settle(s, d);
    }
    return s;
}

void source_free(struct source *s)
{
    if (s == NULL)
        return;
    for (uint32_t d = 0; d < s->datasets; d++)
        for (uint32_t i = 0; i < LK_SLICES_MAX; i++) {
            free(s->draw[d].slice[i].row);
            free(s->draw[d].slice[i].opens);
            free(s->draw[d].slice[i].measure);
        }
    free(s->draw);
    free(s->share);
    free(s->dropped);
    free(s);
}

uint64_t source_bound(uint32_t datasets)
{
    uint64_t row = sizeof(uint64_t) + sizeof(bool) + sizeof(struct lk_row_measure);
    uint64_t draw = sizeof(struct draw) + sizeof(struct share) + UINT64_C(1) * LK_SLICES_MAX * LK_SLICE_ROWS_MAX * row;
    return sizeof(struct source) + datasets * draw;
}

/* Planning ahead ---------------------------------------------------------------------------- */

static uint64_t row_bytes(const struct plan_dataset *dataset, uint64_t row)
{
    return dataset->shape.row_bytes != NULL ? dataset->shape.row_bytes[row] : 1;
}

static void slice_push(struct slice *slice, uint64_t row, bool opens)
{
    if (slice->n == slice->cap) {
        slice->cap = slice->cap == 0 ? 64 : 2 * slice->cap;
        slice->row = lk_resize(slice->row, slice->cap, sizeof *slice->row);
        slice->opens = lk_resize(slice->opens, slice->cap, sizeof *slice->opens);
        slice->measure = lk_resize(slice->measure, slice->cap, sizeof *slice->measure);
    }
    slice->opens[slice->n] = opens;
    slice->row[slice->n++] = row;
}

static void draw_advance(struct source *s, uint32_t d)
{
    struct draw *draw = &s->draw[d];
    if (++draw->r < draw->block.rows)
        return;
    draw->r = 0;
    draw->k++;
    draw_settle(s, d);
}

bool source_plan(struct source *s, uint32_t d, uint64_t max_bytes, uint32_t max_rows,
                 struct lk_slice *ret_slice)
{
    struct draw *draw = &s->draw[d];
    const struct plan_dataset *dataset = &s->plan->dataset[d];
    if (draw->n == LK_SLICES_MAX || draw->planned_out || !source_takes_part(s, d))
        return false;
    struct slice *slice = &draw->slice[(draw->head + draw->n) % LK_SLICES_MAX];
    slice->id = draw->next_id++;
    slice->epoch = draw->epoch;
    slice->k = draw->k;
    slice->r = draw->r;
    slice->n = slice->used = slice->known = 0;
    slice->bytes = 0;
    if (max_rows > LK_SLICE_ROWS_MAX)
        max_rows = LK_SLICE_ROWS_MAX;
    while (!draw->planned_out && draw->epoch == slice->epoch) {
        uint64_t row = plan_row(&draw->block, draw->r);
        uint64_t bytes = row_bytes(dataset, row);
        if (slice->n > 0 && (slice->n >= max_rows || slice->bytes + bytes > max_bytes))
            break;
        slice_push(slice, row, draw->r == 0);
        slice->bytes += bytes;
        draw_advance(s, d);
    }
    draw->n++;
    draw->planned_bytes += slice->bytes;
    *ret_slice = (struct lk_slice){.dataset = d,
                                   .id = slice->id,
                                   .epoch = slice->epoch,
                                   .n = slice->n,
                                   .bytes = slice->bytes,
                                   .rows = slice->row};
    return true;
}

bool source_front(const struct source *s, uint32_t d, uint64_t *ret_id)
{
    const struct draw *draw = &s->draw[d];
    if (draw->n == 0)
        return false;
    *ret_id = draw->slice[draw->head].id;
    return true;
}

uint32_t source_planned(const struct source *s, uint32_t d)
{
    return s->draw[d].n;
}

uint64_t source_planned_bytes(const struct source *s, uint32_t d)
{
    return s->draw[d].planned_bytes;
}

bool source_takes_part(const struct source *s, uint32_t d)
{
    return s->share[d].takes_part && !s->ended;
}

bool source_barren(const struct source *s, uint32_t d)
{
    return s->draw[d].planned_out && s->draw[d].n == 0 && s->draw[d].counts.records == 0;
}

void source_measured(struct source *s, uint32_t d, uint64_t id, const struct lk_row_measure *rows,
                     uint32_t n)
{
    struct draw *draw = &s->draw[d];
    for (uint32_t i = 0; i < draw->n; i++) {
        struct slice *slice = &draw->slice[(draw->head + i) % LK_SLICES_MAX];
        if (slice->id != id || slice->known > 0)
            continue;
        LK_CHECK(n <= slice->n);
        memcpy(slice->measure, rows, n * sizeof *rows);
        slice->known = n;
        return;
    }
}

/* Drawing ----------------------------------------------------------------------------------- */

static void note_dropped(struct source *s, uint32_t d, uint64_t row, uint8_t drop)
{
    if (s->n_dropped == s->cap_dropped) {
        s->cap_dropped = s->cap_dropped == 0 ? 64 : 2 * s->cap_dropped;
        s->dropped = lk_resize(s->dropped, s->cap_dropped, sizeof *s->dropped);
    }
    s->dropped[s->n_dropped++] = (struct lk_dropped){.dataset = d, .drop = drop, .row = row};
}

uint32_t source_take_dropped(struct source *s, struct lk_dropped *ret_rows, uint32_t max)
{
    uint32_t n = s->n_dropped < max ? s->n_dropped : max;
    if (n == 0)
        return 0;
    memcpy(ret_rows, s->dropped, n * sizeof *ret_rows);
    memmove(s->dropped, s->dropped + n, (s->n_dropped - n) * sizeof *s->dropped);
    s->n_dropped -= n;
    return n;
}

/* The cost of a record to its dataset. */
static uint64_t cost_of(enum lk_mixture_unit mixture, const struct lk_row_measure *row)
{
    switch (mixture) {
    case LK_MEASURE_TOKENS:
        return row->tokens;
    case LK_MEASURE_BYTES:
        return row->text_bytes > 0 ? row->text_bytes : 1;
    case LK_MEASURE_SAMPLES:
        break;
    }
    return 1;
}

/* The row at the front, measured, which draw_row takes off the slice, and the slice off the ring when
 * that was its last. */
static const struct lk_row_measure *front_row(const struct draw *draw)
{
    const struct slice *slice = &draw->slice[draw->head];
    return &slice->measure[slice->used];
}

static void draw_row(struct draw *draw, const struct plan_dataset *dataset, uint64_t *ret_row,
                     uint32_t *ret_epoch)
{
    struct slice *slice = &draw->slice[draw->head];
    *ret_row = slice->row[slice->used++];
    *ret_epoch = slice->epoch;
    draw->planned_bytes -= row_bytes(dataset, *ret_row);
    if (slice->used == slice->n) {
        draw->head = (draw->head + 1) % LK_SLICES_MAX;
        draw->n--;
    }
    draw->counts.rows++;
}

bool source_dry(const struct source *s, uint32_t d)
{
    return s->draw[d].dry >= s->plan->dataset[d].rows && endless(s, d);
}

static enum seq_pull dry_error(const struct source *s, uint32_t d, struct lk_err *err)
{
    (void)lk_fail(err, LK_FAILED_PRECONDITION,
                  "dataset %s yields no tokens: lane %u drew %llu rows in a row and every one was "
                  "dropped; the dataset has %llu rows",
                  s->plan->recipe->dataset[d].name, s->lane,
                  (unsigned long long)s->draw[d].dry, (unsigned long long)s->plan->dataset[d].rows);
    return SEQ_ERROR;
}

/* Brings the next record of dataset @d to the front, dropping the rows before it that have none. */
static enum seq_pull bring_record(struct source *s, uint32_t d, struct lk_err *err)
{
    struct draw *draw = &s->draw[d];
    for (;;) {
        if (draw->n == 0)
            return draw->planned_out ? SEQ_END : SEQ_WANT;
        if (draw->slice[draw->head].used == draw->slice[draw->head].known)
            return SEQ_WANT;
        uint8_t drop = front_row(draw)->drop;
        if (drop == 0)
            return SEQ_OK;
        LK_CHECK(drop < LK_DROP_REASONS);
        uint64_t row;
        uint32_t epoch;
        draw_row(draw, &s->plan->dataset[d], &row, &epoch);
        draw->counts.dropped[drop]++;
        note_dropped(s, d, row, drop);
        draw->dry++;
        if (source_dry(s, d))
            return dry_error(s, d, err);
    }
}

/* Brings the next record of every dataset that takes part to the front. */
static enum seq_pull bring_all(struct source *s, struct lk_err *err)
{
    for (uint32_t d = 0; d < s->datasets; d++) {
        struct share *share = &s->share[d];
        if (share->brought || !share->takes_part)
            continue;
        enum seq_pull got = bring_record(s, d, err);
        if (got == SEQ_WANT)
            s->wanted = d;
        if (got == SEQ_WANT || got == SEQ_ERROR)
            return got;
        share->brought = true;
        share->at_end = got == SEQ_END;
        share->cost = share->at_end ? 0 : cost_of(s->plan->recipe->mixture, front_row(&s->draw[d]));
    }
    return SEQ_OK;
}

/* Of the datasets that are not ahead of their share, the one whose share would be used up soonest by
 * its next record; NONE when none takes part. */
static uint32_t pick_dataset(const struct source *s)
{
    u128 weights = 0, charged = 0, soonest = 0, soonest_weight = 1;
    uint32_t pick = NONE;
    for (uint32_t d = 0; d < s->datasets; d++) {
        if (s->share[d].takes_part) {
            weights += s->share[d].weight;
            charged += s->share[d].charged;
        }
    }
    for (uint32_t d = 0; d < s->datasets; d++) {
        const struct share *share = &s->share[d];
        if (!share->takes_part || share->charged * weights > charged * share->weight)
            continue;
        u128 then = (u128)share->charged + share->cost;
        if (pick == NONE || then * soonest_weight < soonest * share->weight) {
            soonest = then;
            soonest_weight = share->weight;
            pick = d;
        }
    }
    return pick;
}

/* The record at the front of dataset @d is given. */
static void give(struct source *s, uint32_t d, struct lk_item *ret_item)
{
    struct draw *draw = &s->draw[d];
    uint32_t tokens = front_row(draw)->tokens;
    LK_CHECK(tokens > 0 && tokens <= LK_RECORD_TOKENS_MAX);
    s->record = (struct lk_span){.dataset = d, .tokens = tokens};
    draw_row(draw, &s->plan->dataset[d], &s->record.row, &s->record.epoch);
    draw->dry = 0;
    s->share[d].charged += s->share[d].cost;
    s->share[d].brought = false;
    draw->counts.records++;
    draw->counts.tokens += tokens;
    *ret_item = (struct lk_item){.span = &s->record, .n = 1, .tokens = tokens};
}

/* Dataset @d leaves the mixture; the ledger of those that stay begins anew. */
static void release(struct source *s, uint32_t d)
{
    s->share[d].takes_part = false;
    for (uint32_t i = 0; i < s->datasets; i++)
        s->share[i].charged = 0;
}

enum seq_pull source_next(struct source *s, struct lk_item *ret_item, struct lk_err *err)
{
    while (!s->ended) {
        enum seq_pull got = bring_all(s, err);
        if (got != SEQ_OK)
            return got;
        uint32_t pick = pick_dataset(s);
        if (pick == NONE) { /* NOLINT(bugprone-branch-clone): in the order of ORDER.md */
            s->ended = true;
        } else if (!s->share[pick].at_end) {
            give(s, pick, ret_item);
            return SEQ_OK;
        } else if (s->plan->recipe->dataset[pick].then == LK_THEN_STOP) {
            s->ended = true;
        } else {
            release(s, pick);
        }
    }
    return SEQ_END;
}

uint32_t source_wanted(const struct source *s)
{
    return s->wanted;
}

const struct lk_dataset_counts *source_counts(const struct source *s, uint32_t d)
{
    return &s->draw[d].counts;
}

uint32_t source_epoch(const struct source *s, uint32_t d)
{
    const struct draw *draw = &s->draw[d];
    return draw->n > 0 ? draw->slice[draw->head].epoch : draw->epoch;
}

/* State ------------------------------------------------------------------------------------- */

/* Planned slices are no state: what is saved is where the next row is drawn. */
static void next_place(const struct draw *draw, uint32_t *ret_epoch, uint64_t *ret_k, uint64_t *ret_r)
{
    const struct slice *front = &draw->slice[draw->head];
    bool planned = draw->n > 0;
    *ret_epoch = planned ? front->epoch : draw->epoch;
    *ret_k = planned ? front->k : draw->k;
    *ret_r = planned ? front->r : draw->r;
    for (uint32_t i = 1; planned && i <= front->used; i++) {
        *ret_k += front->opens[i];
        *ret_r = front->opens[i] ? 0 : *ret_r + 1;
    }
}

static void save_draw(const struct draw *draw, const struct share *share, struct lk_buf *out)
{
    uint32_t epoch;
    uint64_t k, r;
    next_place(draw, &epoch, &k, &r);
    lk_buf_put_varint(out, epoch);
    lk_buf_put_varint(out, k);
    lk_buf_put_varint(out, r);
    lk_buf_put_varint(out, share->takes_part);
    lk_buf_put_varint(out, draw->dry);
    lk_buf_put_varint(out, share->charged);
    lk_buf_put_varint(out, draw->counts.rows);
    lk_buf_put_varint(out, draw->counts.tokens);
    lk_buf_put_varint(out, draw->counts.records);
    for (int i = 1; i < LK_DROP_REASONS; i++)
        lk_buf_put_varint(out, draw->counts.dropped[i]);
}

void source_save(const struct source *s, struct lk_buf *out)
{
    lk_buf_put_varint(out, s->ended);
    for (uint32_t d = 0; d < s->datasets; d++)
        save_draw(&s->draw[d], &s->share[d], out);
}

/* Every row drawn was kept or dropped; and of a dataset without end, never as many dropped in a row as it has
 * rows, since that is an error. */
static bool counts_agree(const struct source *s, uint32_t d)
{
    const struct draw *draw = &s->draw[d];
    u128 rows = draw->counts.records;
    for (int i = 1; i < LK_DROP_REASONS; i++)
        rows += draw->counts.dropped[i];
    return rows == draw->counts.rows && draw->counts.tokens >= draw->counts.records &&
           draw->dry <= draw->counts.rows && (!endless(s, d) || draw->dry < s->plan->dataset[d].rows);
}

static void load_draw(struct source *s, uint32_t d, struct lk_reader *in)
{
    struct draw *draw = &s->draw[d];
    draw->epoch = (uint32_t)lk_read_bounded(in, LOADED_EPOCH_MAX);
    draw->k = lk_read_bounded(in, draw->lane_blocks - 1);
    draw->r = lk_read_varint(in);
    s->share[d].takes_part = lk_read_bounded(in, 1) == 1;
    draw->dry = lk_read_varint(in);
    s->share[d].charged = lk_read_varint(in);
    draw->counts.rows = lk_read_varint(in);
    draw->counts.tokens = lk_read_varint(in);
    draw->counts.records = lk_read_varint(in);
    for (int i = 1; i < LK_DROP_REASONS; i++)
        draw->counts.dropped[i] = lk_read_varint(in);
    if (in->bad)
        return;
    draw_settle(s, d);
    if ((draw->planned_out ? draw->r != 0 : draw->r >= draw->block.rows) || !counts_agree(s, d))
        in->bad = 1;
}

void source_load(struct source *s, struct lk_reader *in)
{
    s->ended = lk_read_bounded(in, 1) == 1;
    for (uint32_t d = 0; d < s->datasets && !in->bad; d++)
        load_draw(s, d, in);
}

void source_check(const struct source *s)
{
    LK_CHECK(s->wanted < s->datasets);
    for (uint32_t d = 0; d < s->datasets; d++) {
        const struct draw *draw = &s->draw[d];
        uint64_t dropped = 0, bytes = 0;
        for (int i = 1; i < LK_DROP_REASONS; i++)
            dropped += draw->counts.dropped[i];
        LK_CHECK(draw->counts.rows == draw->counts.records + dropped);
        LK_CHECK(draw->n <= LK_SLICES_MAX);
        LK_CHECK(draw->planned_out || draw->r < draw->block.rows);
        for (uint32_t i = 0; i < draw->n; i++) {
            const struct slice *slice = &draw->slice[(draw->head + i) % LK_SLICES_MAX];
            LK_CHECK(slice->used <= slice->known && slice->used < slice->n && (i == 0 || slice->used == 0));
            for (uint32_t j = slice->used; j < slice->n; j++)
                bytes += row_bytes(&s->plan->dataset[d], slice->row[j]);
        }
        LK_CHECK(bytes == draw->planned_bytes);
    }
}
