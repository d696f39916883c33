/*
 * split: a record longer than max_tokens becomes parts of max_tokens, in order; the last part is
 * what remains. Loses nothing. O(1) a part.
 */
#include "seq/seq.h"

struct split {
    uint32_t max_tokens;
    struct seq_bounds bounds;
    struct lk_span rest; /* of the record being split; tokens 0 = none */
    struct lk_span part; /* the item last given */
};

static void split_init(void *stage, const struct seq_params *params)
{
    struct split *s = stage;
    LK_CHECK(params->max_tokens > 0);
    s->max_tokens = params->max_tokens;
    s->bounds = params->bounds;
}

static void split_done(void *stage)
{
    (void)stage;
}

static enum seq_pull split_next(void *stage, struct seq_input *in, struct lk_item *ret_item)
{
    struct split *s = stage;
    if (s->rest.tokens == 0) {
        struct lk_item record;
        enum seq_pull got = in->next(in->self, &record);
        if (got != SEQ_OK)
            return got;
        LK_CHECK(record.n == 1);
        s->rest = record.span[0];
    }
    if (s->rest.tokens > s->max_tokens) {
        s->part = seq_take(&s->rest, s->max_tokens);
    } else {
        s->part = s->rest;
        s->rest.tokens = 0;
    }
    *ret_item = (struct lk_item){.span = &s->part, .n = 1, .tokens = s->part.tokens};
    return SEQ_OK;
}

static uint64_t split_waiting(const void *stage)
{
    return ((const struct split *)stage)->rest.tokens;
}

static void split_save(const void *stage, struct lk_buf *out)
{
    const struct split *s = stage;
    lk_buf_put_varint(out, s->rest.tokens > 0);
    if (s->rest.tokens > 0)
        seq_put_span(out, &s->rest);
}

static void split_load(void *stage, struct lk_reader *in)
{
    struct split *s = stage;
    if (lk_read_bounded(in, 1) == 1)
        (void)seq_get_span(in, &s->bounds, &s->rest);
}

static void split_check(const void *stage)
{
    const struct split *s = stage;
    LK_CHECK(s->max_tokens > 0);
    LK_CHECK(s->rest.tokens == 0 || s->rest.first > 0 || s->rest.tokens > 0);
}

static uint64_t split_bound(const struct seq_params *params)
{
    (void)params;
    return 0;
}

const struct seq_ops seq_split = {
    .name = "split",
    .size = sizeof(struct split),
    .init = split_init,
    .done = split_done,
    .next = split_next,
    .waiting = split_waiting,
    .save = split_save,
    .load = split_load,
    .check = split_check,
    .bound = split_bound,
};
