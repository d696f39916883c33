#include "core/lane.h"

#include <stdlib.h>

/* A stage and its place in the chain. */
struct link {
    const struct seq_ops *ops;
    void *stage;
    struct seq_input input; /* where it pulls from: the link before it, or the source */
};

struct lk_lane {
    const struct lk_plan *plan;
    uint32_t number;
    uint64_t position;
    uint64_t tokens_out;
    struct source *source;
    struct seq_counts counts;
    struct lk_err err;
    enum seq_pull over; /* SEQ_END or SEQ_ERROR once that was said, else SEQ_OK */
    uint32_t n;
    struct link link[LK_STAGES_MAX];
};

static enum seq_pull pull_source(void *self, struct lk_item *ret_item)
{
    struct lk_lane *lane = self;
    return source_next(lane->source, ret_item, &lane->err);
}

static enum seq_pull pull_link(void *self, struct lk_item *ret_item)
{
    struct link *link = self;
    return link->ops->next(link->stage, &link->input, ret_item);
}

static const struct seq_ops *ops_of(const struct lk_stage_recipe *stage)
{
    switch (stage->kind) {
    case LK_STAGE_SPLIT:
        return seq_table[SEQ_SPLIT];
    case LK_STAGE_SHUFFLE:
        return seq_table[SEQ_SHUFFLE];
    case LK_STAGE_PACK:
        break;
    }
    switch (stage->algorithm) {
    case LK_PACK_CONCAT:
        return seq_table[SEQ_CONCAT];
    case LK_PACK_FIRST_FIT:
    case LK_PACK_BEST_FIT:
        return seq_table[SEQ_FIT];
    case LK_PACK_EXACT_FIT:
        break;
    }
    return seq_table[SEQ_EXACT];
}

/* What the recipe alone says of a stage. */
static struct seq_params params_of(const struct lk_recipe *recipe, uint32_t i)
{
    const struct lk_stage_recipe *stage = &recipe->stage[i];
    struct seq_params params = {
        .sequence = recipe->sequence,
        .max_tokens = stage->max_tokens,
        .buffer = stage->buffer,
        .pool = stage->pool,
        .groups = stage->groups,
        .best = stage->algorithm == LK_PACK_BEST_FIT,
        .pad_tail = recipe->tail == LK_TAIL_PAD,
        .bounds = {.datasets = recipe->n_datasets},
    };
    for (uint32_t before = 0; before < i; before++)
        params.packed |= recipe->stage[before].kind == LK_STAGE_PACK;
    return params;
}

static void link_init(struct lk_lane *lane, uint32_t i)
{
    struct seq_params params = params_of(lane->plan->recipe, i);
    struct link *link = &lane->link[i];
    params.group_of = lane->plan->group_of;
    params.key = plan_stage_key(lane->plan, i, lane->number);
    params.bounds.rows = lane->plan->rows;
    link->ops = ops_of(&lane->plan->recipe->stage[i]);
    link->stage = lk_zalloc(1, link->ops->size);
    link->ops->init(link->stage, &params);
    link->input = (struct seq_input){.next = i == 0 ? pull_source : pull_link,
                                     .self = i == 0 ? (void *)lane : (void *)&lane->link[i - 1],
                                     .counts = &lane->counts,
                                     .err = &lane->err};
}

struct lk_lane *lane_new(const struct lk_plan *plan, uint32_t number)
{
    struct lk_lane *lane = lk_zalloc(1, sizeof *lane);
    lane->plan = plan;
    lane->number = number;
    lane->over = SEQ_OK;
    lane->source = source_new(plan, number);
    lane->n = plan->recipe->n_stages;
    LK_CHECK(lane->n >= 1 && lane->n <= LK_STAGES_MAX);
    for (uint32_t i = 0; i < lane->n; i++)
        link_init(lane, i);
    return lane;
}

void lane_free(struct lk_lane *lane)
{
    if (lane == NULL)
        return;
    for (uint32_t i = 0; i < lane->n; i++) {
        lane->link[i].ops->done(lane->link[i].stage);
        free(lane->link[i].stage);
    }
    source_free(lane->source);
    free(lane);
}

enum seq_pull lane_next(struct lk_lane *lane, struct lk_item *ret_item)
{
    if (lane->over != SEQ_OK)
        return lane->over;
    enum seq_pull got = pull_link(&lane->link[lane->n - 1], ret_item);
    if (got == SEQ_OK) {
        LK_CHECK(ret_item->tokens > 0 && ret_item->tokens <= lane->plan->recipe->sequence);
        lane->position++;
        lane->tokens_out += ret_item->tokens;
    } else if (got == SEQ_END || got == SEQ_ERROR) {
        lane->over = got;
    }
    return got;
}

uint32_t lane_wanted(const struct lk_lane *lane)
{
    return source_wanted(lane->source);
}

const struct lk_err *lane_error(const struct lk_lane *lane)
{
    return &lane->err;
}

uint64_t lane_position(const struct lk_lane *lane)
{
    return lane->position;
}

uint32_t lane_number(const struct lk_lane *lane)
{
    return lane->number;
}

struct source *lane_source(struct lk_lane *lane)
{
    return lane->source;
}

void lane_totals(const struct lk_lane *lane, struct lane_totals *ret_totals)
{
    struct lane_totals totals = {.tokens_out = lane->tokens_out, .pack = lane->counts};
    for (uint32_t d = 0; d < lane->plan->recipe->n_datasets; d++) {
        const struct lk_dataset_counts *counts = source_counts(lane->source, d);
        totals.rows += counts->rows;
        totals.records += counts->records;
        totals.tokens_in += counts->tokens;
        for (int i = 0; i < LK_DROP_REASONS; i++)
            totals.dropped[i] += counts->dropped[i];
    }
    for (uint32_t i = 0; i < lane->n; i++)
        totals.waiting += lane->link[i].ops->waiting(lane->link[i].stage);
    *ret_totals = totals;
}

/* State ------------------------------------------------------------------------------------- */

/* A section: u32 length, u64 XXH3-64 of the bytes, the bytes. */
static void put_section(struct lk_buf *out, const struct lk_buf *section)
{
    LK_CHECK(section->len <= UINT32_MAX);
    lk_buf_put_u32(out, (uint32_t)section->len);
    lk_buf_put_u64(out, lk_hash64(section->data, section->len, 0));
    lk_buf_put(out, section->data, section->len);
}

static struct lk_reader get_section(struct lk_reader *in)
{
    uint32_t n = lk_read_u32(in);
    uint64_t hash = lk_read_u64(in);
    const uint8_t *bytes = lk_read_bytes(in, n);
    if (bytes == NULL || lk_hash64(bytes, n, 0) != hash) {
        in->bad = 1;
        return (struct lk_reader){.bad = 1};
    }
    return lk_reader_of(bytes, n);
}

static void save_counts(const struct lk_lane *lane, struct lk_buf *out)
{
    lk_buf_put_varint(out, lane->number);
    lk_buf_put_varint(out, lane->position);
    lk_buf_put_varint(out, lane->tokens_out);
    lk_buf_put_varint(out, lane->counts.lost);
    lk_buf_put_varint(out, lane->counts.padded);
    lk_buf_put_varint(out, lane->counts.cuts);
    lk_buf_put_varint(out, lane->counts.forced_cuts);
    lk_buf_put_varint(out, lane->counts.sequences);
}

static void load_counts(struct lk_lane *lane, struct lk_reader *in)
{
    if (lk_read_varint(in) != lane->number)
        in->bad = 1;
    lane->position = lk_read_varint(in);
    lane->tokens_out = lk_read_varint(in);
    lane->counts.lost = lk_read_varint(in);
    lane->counts.padded = lk_read_varint(in);
    lane->counts.cuts = lk_read_varint(in);
    lane->counts.forced_cuts = lk_read_varint(in);
    lane->counts.sequences = lk_read_varint(in);
}

void lane_save(const struct lk_lane *lane, struct lk_buf *out)
{
    struct lk_buf section = {0};
    save_counts(lane, &section);
    put_section(out, &section);
    section.len = 0;
    source_save(lane->source, &section);
    put_section(out, &section);
    for (uint32_t i = 0; i < lane->n; i++) {
        section.len = 0;
        lane->link[i].ops->save(lane->link[i].stage, &section);
        put_section(out, &section);
    }
    lk_buf_done(&section);
}

static enum lk_code bad_section(const struct lk_lane *lane, const char *what, struct lk_err *err)
{
    return lk_fail(err, LK_DATA_LOSS,
                   "the saved state of lane %u is damaged or of another recipe: section %s",
                   lane->number, what);
}

enum lk_code lane_load(struct lk_lane *lane, const void *bytes, size_t n, struct lk_err *err)
{
    struct lk_reader in = lk_reader_of(bytes, n), section;
    struct lane_totals totals;

    section = get_section(&in);
    load_counts(lane, &section);
    if (section.bad || section.at != section.end)
        return bad_section(lane, "counts", err);
    section = get_section(&in);
    source_load(lane->source, &section);
    if (section.bad || section.at != section.end)
        return bad_section(lane, "source", err);
    for (uint32_t i = 0; i < lane->n; i++) {
        section = get_section(&in);
        lane->link[i].ops->load(lane->link[i].stage, &section);
        if (section.bad || section.at != section.end)
            return bad_section(lane, lane->link[i].ops->name, err);
    }
    lane_totals(lane, &totals);
    if (in.at != in.end ||
        totals.tokens_in != totals.tokens_out + totals.pack.lost + totals.waiting)
        return bad_section(lane, "totals", err);
    return LK_OK;
}

void lane_check(const struct lk_lane *lane)
{
    struct lane_totals totals;
    source_check(lane->source);
    for (uint32_t i = 0; i < lane->n; i++)
        lane->link[i].ops->check(lane->link[i].stage);
    lane_totals(lane, &totals);
    LK_CHECK(totals.tokens_in == totals.tokens_out + totals.pack.lost + totals.waiting);
}

uint64_t lane_bound(const struct lk_recipe *recipe)
{
    uint64_t bytes = sizeof(struct lk_lane) + source_bound(recipe->n_datasets);
    for (uint32_t i = 0; i < recipe->n_stages; i++) {
        const struct seq_ops *ops = ops_of(&recipe->stage[i]);
        struct seq_params params = params_of(recipe, i);
        bytes += ops->size + ops->bound(&params);
    }
    return bytes;
}
