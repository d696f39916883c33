/*
 * pack: concat. Records follow each other without gap; a sequence ends after T tokens wherever that
 * falls, and the remainder of the record opens the next sequence. Loses no token, ever; cuts one
 * record a sequence. Each homogeneity group fills a sequence of its own.
 *
 * O(1) a span.
 */
#include "seq/seq.h"

#include <stdlib.h>

struct open {
    struct lk_span *span; /* the sequence being filled */
    uint32_t n, cap;
    uint32_t tokens;
};

struct concat {
    uint32_t sequence, groups;
    struct seq_bounds bounds;
    const uint32_t *group_of;
    bool pad_tail;
    bool ended;
    uint32_t drain;       /* next group to hand out after the end */
    uint32_t last;        /* group whose sequence was given out, its memory still borrowed; or groups */
    struct lk_span rest;  /* of the record being laid down; tokens 0 = none */
    struct open *open;    /* [groups] */
};

static void concat_init(void *stage, const struct seq_params *params)
{
    struct concat *c = stage;
    c->sequence = params->sequence;
    c->groups = params->groups;
    c->bounds = params->bounds;
    c->group_of = params->group_of;
    c->pad_tail = params->pad_tail;
    c->last = c->groups;
    c->open = lk_zalloc(c->groups, sizeof *c->open);
}

static void concat_done(void *stage)
{
    struct concat *c = stage;
    for (uint32_t g = 0; c->open != NULL && g < c->groups; g++)
        free(c->open[g].span);
    free(c->open);
    c->open = NULL;
}

static void open_push(struct open *open, struct lk_span span)
{
    if (open->n == open->cap) {
        open->cap = open->cap == 0 ? 16 : 2 * open->cap;
        open->span = lk_resize(open->span, open->cap, sizeof *open->span);
    }
    open->span[open->n++] = span;
    open->tokens += span.tokens;
}

static void concat_give(struct concat *c, uint32_t g, struct seq_counts *counts,
                        struct lk_item *ret_item)
{
    struct open *open = &c->open[g];
    *ret_item = (struct lk_item){.span = open->span, .n = open->n, .tokens = open->tokens};
    counts->sequences++;
    counts->padded += c->sequence - open->tokens;
    c->last = g;
}

/* The sequence last given is the caller's until now; only then is its memory used again. */
static void concat_reclaim(struct concat *c)
{
    if (c->last < c->groups) {
        c->open[c->last].n = 0;
        c->open[c->last].tokens = 0;
        c->last = c->groups;
    }
}

static enum seq_pull concat_drain(struct concat *c, struct seq_counts *counts,
                                  struct lk_item *ret_item)
{
    for (; c->drain < c->groups; c->drain++) {
        if (c->open[c->drain].n == 0)
            continue;
        if (c->pad_tail) {
            concat_give(c, c->drain++, counts, ret_item);
            return SEQ_OK;
        }
        counts->lost += c->open[c->drain].tokens;
        c->open[c->drain].n = 0;
        c->open[c->drain].tokens = 0;
    }
    return SEQ_END;
}

static enum seq_pull concat_next(void *stage, struct seq_input *in, struct lk_item *ret_item)
{
    struct concat *c = stage;
    concat_reclaim(c);
    while (!c->ended) {
        if (c->rest.tokens == 0) {
            struct lk_item record;
            enum seq_pull got = in->next(in->self, &record);
            if (got == SEQ_END) {
                c->ended = true;
                break;
            }
            if (got != SEQ_OK)
                return got;
            LK_CHECK(record.n == 1);
            c->rest = record.span[0];
        }
        uint32_t g = c->group_of[c->rest.dataset];
        struct open *open = &c->open[g];
        uint32_t room = c->sequence - open->tokens;
        if (c->rest.tokens > room) {
            open_push(open, seq_take(&c->rest, room));
            in->counts->cuts++;
            in->counts->forced_cuts += room == c->sequence;
        } else {
            open_push(open, c->rest);
            c->rest.tokens = 0;
        }
        if (open->tokens == c->sequence) {
            concat_give(c, g, in->counts, ret_item);
            return SEQ_OK;
        }
    }
    return concat_drain(c, in->counts, ret_item);
}

static uint64_t concat_waiting(const void *stage)
{
    const struct concat *c = stage;
    uint64_t tokens = c->rest.tokens;
    for (uint32_t g = 0; g < c->groups; g++)
        tokens += g == c->last ? 0 : c->open[g].tokens;
    return tokens;
}

static void concat_save(const void *stage, struct lk_buf *out)
{
    const struct concat *c = stage;
    lk_buf_put_varint(out, c->ended);
    lk_buf_put_varint(out, c->drain);
    lk_buf_put_varint(out, c->rest.tokens > 0);
    if (c->rest.tokens > 0)
        seq_put_span(out, &c->rest);
    for (uint32_t g = 0; g < c->groups; g++) {
        uint32_t n = g == c->last ? 0 : c->open[g].n;
        lk_buf_put_varint(out, n);
        for (uint32_t i = 0; i < n; i++)
            seq_put_span(out, &c->open[g].span[i]);
    }
}

static void concat_load(void *stage, struct lk_reader *in)
{
    struct concat *c = stage;
    c->ended = lk_read_bounded(in, 1) == 1;
    c->drain = (uint32_t)lk_read_bounded(in, c->groups);
    if (lk_read_bounded(in, 1) == 1)
        (void)seq_get_span(in, &c->bounds, &c->rest);
    for (uint32_t g = 0; g < c->groups; g++) {
        uint32_t n = (uint32_t)lk_read_bounded(in, c->sequence);
        for (uint32_t i = 0; i < n && !in->bad; i++) {
            struct lk_span span;
            if (!seq_get_span(in, &c->bounds, &span))
                return;
            if (span.tokens >= c->sequence - c->open[g].tokens) {
                in->bad = 1; /* a full sequence would have been handed out */
                return;
            }
            open_push(&c->open[g], span);
        }
    }
}

static void concat_check(const void *stage)
{
    const struct concat *c = stage;
    LK_CHECK(c->last <= c->groups && c->drain <= c->groups);
    for (uint32_t g = 0; g < c->groups; g++) {
        uint64_t tokens = 0;
        for (uint32_t i = 0; i < c->open[g].n; i++)
            tokens += c->open[g].span[i].tokens;
        LK_CHECK(tokens == c->open[g].tokens);
        LK_CHECK(tokens < c->sequence || g == c->last);
    }
}

/* A sequence of records of one token each, in an array that doubles. */
static uint64_t concat_bound(const struct seq_params *params)
{
    uint64_t spans = 16 + 2 * (uint64_t)params->sequence;
    return params->groups * (sizeof(struct open) + spans * sizeof(struct lk_span));
}

const struct seq_ops seq_concat = {
    .name = "concat",
    .size = sizeof(struct concat),
    .init = concat_init,
    .done = concat_done,
    .next = concat_next,
    .waiting = concat_waiting,
    .save = concat_save,
    .load = concat_load,
    .check = concat_check,
    .bound = concat_bound,
};
