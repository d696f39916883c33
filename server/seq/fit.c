/*
 * pack: first_fit and best_fit. Documents stay whole; what cannot be filled is padded.
 *
 * `pool` bins are open per homogeneity group, all empty at first. A record goes into the first bin (by
 * number) that has room for it, or into the one whose room is smallest (of several, the one that has
 * had this room longest). A full bin is handed out at once. When no bin has room, the fullest is handed
 * out, padded, and the record starts the bin anew (of several, the one that has been that full
 * longest). At the end the bins are handed out in the order of their numbers. A record longer than the
 * sequence is an error: `split` comes before.
 *
 * First fit: a tree of the largest room below each node, O(log pool) a record. Best fit and the fullest
 * bin: lists of bins by room over a bitset of the rooms present, O(T/64) words.
 * Source: Johnson, "Near-optimal bin packing algorithms", 1973 (first fit, best fit; here with a
 * bounded number of open bins).
 */
#include "seq/lengths.h"
#include "seq/seq.h"

#include <stdlib.h>

#define NIL UINT32_MAX

struct bin {
    struct lk_span *span;
    uint32_t n, cap;
    uint32_t room;
    uint32_t before, after; /* among bins of the same room, in the order they came to it */
};

struct group {
    struct bin *bin;        /* [bins] */
    uint32_t *tree;         /* [2*leaves] largest room below; first_fit only */
    struct lengths rooms;   /* rooms 1…T of the open bins */
    uint32_t *first, *last; /* [T+1] bins of each room */
};

struct fit {
    uint32_t sequence, groups, bins, leaves;
    struct seq_bounds bounds;
    const uint32_t *group_of;
    bool best;
    bool ended;
    uint32_t drain_group, drain_bin;
    struct lk_span waiting; /* a record whose bin must first be handed out; tokens 0 = none */
    struct group *group;
    struct bin out;         /* the item last given; its memory goes round */
};

static void bin_link(struct group *group, uint32_t b)
{
    struct bin *bin = &group->bin[b];
    bin->after = NIL;
    bin->before = group->last[bin->room];
    *(bin->before == NIL ? &group->first[bin->room] : &group->bin[bin->before].after) = b;
    group->last[bin->room] = b;
    lengths_add(&group->rooms, bin->room);
}

static void bin_unlink(struct group *group, uint32_t b)
{
    struct bin *bin = &group->bin[b];
    *(bin->before == NIL ? &group->first[bin->room] : &group->bin[bin->before].after) = bin->after;
    *(bin->after == NIL ? &group->last[bin->room] : &group->bin[bin->after].before) = bin->before;
    lengths_remove(&group->rooms, bin->room);
}

static void tree_set(struct fit *f, struct group *group, uint32_t b)
{
    size_t i = (size_t)f->leaves + b;
    group->tree[i] = group->bin[b].room;
    for (i /= 2; i >= 1; i /= 2) {
        uint32_t left = group->tree[2 * i], right = group->tree[2 * i + 1];
        group->tree[i] = left > right ? left : right;
    }
}

/* The room of bin @b becomes @room: the one place where the three views of it change. A full bin is in
 * no list; it is handed out before anything looks for it. */
static void bin_set_room(struct fit *f, struct group *group, uint32_t b, uint32_t room)
{
    if (group->bin[b].room > 0)
        bin_unlink(group, b);
    group->bin[b].room = room;
    if (room > 0)
        bin_link(group, b);
    if (!f->best)
        tree_set(f, group, b);
}

static void group_init(struct fit *f, struct group *group)
{
    size_t lengths = (size_t)f->sequence + 1;
    group->bin = lk_zalloc(f->bins, sizeof *group->bin);
    group->tree = lk_zalloc(2 * (size_t)f->leaves, sizeof *group->tree);
    group->first = lk_alloc(lengths * sizeof *group->first);
    group->last = lk_alloc(lengths * sizeof *group->last);
    memset(group->first, 0xff, lengths * sizeof *group->first);
    memset(group->last, 0xff, lengths * sizeof *group->last);
    lengths_init(&group->rooms, f->sequence);
    for (uint32_t b = 0; b < f->bins; b++) {
        group->bin[b].room = f->sequence;
        bin_link(group, b);
        if (!f->best)
            tree_set(f, group, b);
    }
}

static void fit_init(void *stage, const struct seq_params *params)
{
    struct fit *f = stage;
    LK_CHECK(params->pool >= 1);
    f->sequence = params->sequence;
    f->groups = params->groups;
    f->bounds = params->bounds;
    f->bins = params->pool;
    f->group_of = params->group_of;
    f->best = params->best;
    f->leaves = 1;
    while (f->leaves < f->bins)
        f->leaves *= 2;
    f->group = lk_zalloc(f->groups, sizeof *f->group);
    for (uint32_t g = 0; g < f->groups; g++)
        group_init(f, &f->group[g]);
}

static void fit_done(void *stage)
{
    struct fit *f = stage;
    for (uint32_t g = 0; f->group != NULL && g < f->groups; g++) {
        struct group *group = &f->group[g];
        for (uint32_t b = 0; b < f->bins; b++)
            free(group->bin[b].span);
        free(group->bin);
        free(group->tree);
        free(group->first);
        free(group->last);
        lengths_done(&group->rooms);
    }
    free(f->group);
    free(f->out.span);
    f->group = NULL;
    f->out.span = NULL;
}

static uint32_t find_bin(const struct fit *f, const struct group *group, uint32_t tokens)
{
    if (f->best) {
        uint32_t room = lengths_at_least(&group->rooms, tokens);
        return room > 0 ? group->first[room] : NIL;
    }
    if (group->tree[1] < tokens)
        return NIL;
    size_t i = 1;
    while (i < f->leaves)
        i = group->tree[2 * i] >= tokens ? 2 * i : 2 * i + 1;
    return (uint32_t)(i - f->leaves);
}

/* Empties bin @b into the item to hand out: the two bins trade their memory. */
static void give(struct fit *f, struct group *group, uint32_t b, struct seq_counts *counts,
                 struct lk_item *ret_item)
{
    struct bin *bin = &group->bin[b];
    struct lk_span *span = f->out.span;
    uint32_t cap = f->out.cap, n = bin->n, tokens = f->sequence - bin->room;
    f->out.span = bin->span;
    f->out.cap = bin->cap;
    bin->span = span;
    bin->cap = cap;
    bin->n = 0;
    bin_set_room(f, group, b, f->sequence);
    counts->sequences++;
    counts->padded += f->sequence - tokens;
    *ret_item = (struct lk_item){.span = f->out.span, .n = n, .tokens = tokens};
}

static void put(struct group *group, uint32_t b, const struct lk_span *span)
{
    struct bin *bin = &group->bin[b];
    if (bin->n == bin->cap) {
        bin->cap = bin->cap == 0 ? 8 : 2 * bin->cap;
        bin->span = lk_resize(bin->span, bin->cap, sizeof *bin->span);
    }
    bin->span[bin->n++] = *span;
}

/* Lays @f->waiting down; SEQ_OK when that handed out a sequence, SEQ_WANT when it did not. */
static enum seq_pull lay_down(struct fit *f, struct seq_counts *counts, struct lk_item *ret_item)
{
    struct group *group = &f->group[f->group_of[f->waiting.dataset]];
    uint32_t tokens = f->waiting.tokens;
    uint32_t b = find_bin(f, group, tokens);
    if (b == NIL) {
        /* No bin has room, so none is empty: the fullest goes, and this one is laid down next. */
        give(f, group, group->first[lengths_at_least(&group->rooms, 1)], counts, ret_item);
        return SEQ_OK;
    }
    put(group, b, &f->waiting);
    f->waiting.tokens = 0;
    bin_set_room(f, group, b, group->bin[b].room - tokens);
    if (group->bin[b].room > 0)
        return SEQ_WANT;
    give(f, group, b, counts, ret_item);
    return SEQ_OK;
}

static enum seq_pull drain(struct fit *f, struct seq_counts *counts, struct lk_item *ret_item)
{
    for (; f->drain_group < f->groups; f->drain_group++, f->drain_bin = 0) {
        struct group *group = &f->group[f->drain_group];
        while (f->drain_bin < f->bins) {
            uint32_t b = f->drain_bin++;
            if (group->bin[b].n > 0) {
                give(f, group, b, counts, ret_item);
                return SEQ_OK;
            }
        }
    }
    return SEQ_END;
}

/* The record stays where it is: its tokens are still accounted for. */
static enum seq_pull too_long(const struct fit *f, struct lk_err *err)
{
    (void)lk_fail(err, LK_FAILED_PRECONDITION,
                  "dataset %u row %llu: a record of %u tokens does not fit a sequence of %u: "
                  "put `split` before %s",
                  f->waiting.dataset, (unsigned long long)f->waiting.row, f->waiting.tokens,
                  f->sequence, f->best ? "best_fit" : "first_fit");
    return SEQ_ERROR;
}

static enum seq_pull fit_next(void *stage, struct seq_input *in, struct lk_item *ret_item)
{
    struct fit *f = stage;
    while (!f->ended || f->waiting.tokens > 0) {
        if (f->waiting.tokens > f->sequence)
            return too_long(f, in->err);
        if (f->waiting.tokens > 0) {
            if (lay_down(f, in->counts, ret_item) == SEQ_OK)
                return SEQ_OK;
            continue;
        }
        struct lk_item record;
        enum seq_pull got = in->next(in->self, &record);
        if (got == SEQ_END) {
            f->ended = true;
            continue;
        }
        if (got != SEQ_OK)
            return got;
        LK_CHECK(record.n == 1);
        f->waiting = record.span[0];
    }
    return drain(f, in->counts, ret_item);
}

static uint64_t fit_waiting(const void *stage)
{
    const struct fit *f = stage;
    uint64_t tokens = f->waiting.tokens;
    for (uint32_t g = 0; g < f->groups; g++)
        for (uint32_t b = 0; b < f->bins; b++)
            tokens += f->sequence - f->group[g].bin[b].room;
    return tokens;
}

/* Bins of one room are saved in the order in which they came to it, since that breaks ties. */
static void fit_save(const void *stage, struct lk_buf *out)
{
    const struct fit *f = stage;
    lk_buf_put_varint(out, f->ended);
    lk_buf_put_varint(out, f->drain_group);
    lk_buf_put_varint(out, f->drain_bin);
    lk_buf_put_varint(out, f->waiting.tokens > 0);
    if (f->waiting.tokens > 0)
        seq_put_span(out, &f->waiting);
    for (uint32_t g = 0; g < f->groups; g++) {
        const struct group *group = &f->group[g];
        for (uint32_t room = lengths_at_least(&group->rooms, 1); room > 0;
             room = lengths_at_least(&group->rooms, room + 1)) {
            for (uint32_t b = group->first[room]; b != NIL; b = group->bin[b].after) {
                lk_buf_put_varint(out, b);
                lk_buf_put_varint(out, group->bin[b].n);
                for (uint32_t i = 0; i < group->bin[b].n; i++)
                    seq_put_span(out, &group->bin[b].span[i]);
            }
        }
    }
}

static void load_bin(struct fit *f, struct group *group, struct lk_reader *in)
{
    uint32_t b = (uint32_t)lk_read_bounded(in, f->bins - 1);
    uint32_t n = (uint32_t)lk_read_bounded(in, f->sequence);
    uint32_t room = f->sequence;
    if (in->bad || group->bin[b].n > 0) {
        in->bad = 1;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct lk_span span;
        if (!seq_get_span(in, &f->bounds, &span) || span.tokens >= room) {
            in->bad = 1;
            return;
        }
        put(group, b, &span);
        room -= span.tokens;
    }
    bin_set_room(f, group, b, room); /* also moves it to the end of its list */
}

static void fit_load(void *stage, struct lk_reader *in)
{
    struct fit *f = stage;
    f->ended = lk_read_bounded(in, 1) == 1;
    f->drain_group = (uint32_t)lk_read_bounded(in, f->groups);
    f->drain_bin = (uint32_t)lk_read_bounded(in, f->bins);
    if (lk_read_bounded(in, 1) == 1)
        (void)seq_get_span(in, &f->bounds, &f->waiting);
    for (uint32_t g = 0; g < f->groups; g++)
        for (uint32_t i = 0; i < f->bins && !in->bad; i++)
            load_bin(f, &f->group[g], in);
}

static void fit_check(const void *stage)
{
    const struct fit *f = stage;
    for (uint32_t g = 0; g < f->groups; g++) {
        const struct group *group = &f->group[g];
        uint32_t listed = 0;
        for (uint32_t b = 0; b < f->bins; b++) {
            const struct bin *bin = &group->bin[b];
            uint64_t tokens = 0;
            for (uint32_t i = 0; i < bin->n; i++)
                tokens += bin->span[i].tokens;
            LK_CHECK(bin->room > 0 && tokens == f->sequence - bin->room);
            LK_CHECK(f->best || group->tree[f->leaves + b] == bin->room);
            listed += group->rooms.count[bin->room] > 0;
        }
        LK_CHECK(listed == f->bins);
    }
}

/* Every bin filled, at some time, with records of one token each, in arrays that double. */
static uint64_t fit_bound(const struct seq_params *params)
{
    uint64_t lengths = (uint64_t)params->sequence + 1;
    uint64_t spans = (8 + 2 * (uint64_t)params->sequence) * sizeof(struct lk_span);
    uint64_t group = sizeof(struct group) + lengths_bound(params->sequence) +
                     2 * lengths * sizeof(uint32_t) +
                     params->pool * (sizeof(struct bin) + 4 * sizeof(uint32_t) + spans);
    return params->groups * group + spans;
}

const struct seq_ops seq_fit = {
    .name = "fit",
    .size = sizeof(struct fit),
    .init = fit_init,
    .done = fit_done,
    .next = fit_next,
    .waiting = fit_waiting,
    .save = fit_save,
    .load = fit_load,
    .check = fit_check,
    .bound = fit_bound,
};
