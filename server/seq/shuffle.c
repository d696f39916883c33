/*
 * shuffle: a bounded buffer of items; each item handed out is drawn uniformly from it. On records or,
 * after pack, on sequences.
 *
 * It warms up by growing: while the buffer is not full, each emission takes in two items, so the
 * first item needs two, not a full buffer, and nothing special happens at the start. At the end of the
 * input it shrinks by one an emission. The n-th draw is lk_below(lk_key(key, n), items).
 *
 * O(1) an item: the drawn one is replaced by the last. A slot keeps its memory for the next item.
 */
#include "base/keys.h"
#include "seq/seq.h"

#include <stdlib.h>

struct slot {
    struct lk_span *span;
    uint32_t n, cap;
    uint32_t tokens;
};

struct shuffle {
    uint64_t key;
    uint64_t draws;      /* items handed out */
    uint32_t capacity;
    uint32_t n;          /* slots 0…n-1 are waiting; slot n is the item last given */
    uint32_t taken;      /* since the last emission: survives SEQ_WANT */
    struct seq_bounds bounds;
    uint64_t tokens_max; /* of an item */
    uint32_t spans;      /* of an item, at most */
    bool ended;
    struct slot *slot;   /* [capacity + 1] */
};

static uint32_t most_spans(const struct seq_params *params)
{
    return params->packed ? params->sequence : 1;
}

static void shuffle_init(void *stage, const struct seq_params *params)
{
    struct shuffle *s = stage;
    LK_CHECK(params->buffer >= 2);
    s->key = params->key;
    s->capacity = params->buffer;
    s->bounds = params->bounds;
    s->tokens_max = params->packed ? params->sequence : UINT32_MAX;
    s->spans = most_spans(params);
    s->slot = lk_zalloc((size_t)s->capacity + 1, sizeof *s->slot);
}

static void shuffle_done(void *stage)
{
    struct shuffle *s = stage;
    if (s->slot == NULL)
        return;
    for (uint32_t i = 0; i <= s->capacity; i++)
        free(s->slot[i].span);
    free(s->slot);
    s->slot = NULL;
}

static struct lk_span *slot_room(struct slot *slot, uint32_t n)
{
    if (slot->cap < n) {
        slot->span = lk_resize(slot->span, n, sizeof *slot->span);
        slot->cap = n;
    }
    return slot->span;
}

static void shuffle_push(struct shuffle *s, const struct lk_item *item)
{
    struct slot *slot = &s->slot[s->n++];
    memcpy(slot_room(slot, item->n), item->span, item->n * sizeof *item->span);
    slot->n = item->n;
    slot->tokens = item->tokens;
}

static enum seq_pull shuffle_fill(struct shuffle *s, struct seq_input *in)
{
    while (!s->ended && s->taken < 2 && s->n < s->capacity) {
        struct lk_item item;
        enum seq_pull got = in->next(in->self, &item);
        if (got == SEQ_END)
            s->ended = true;
        else if (got != SEQ_OK)
            return got;
        else
            shuffle_push(s, &item);
        s->taken += got == SEQ_OK;
    }
    return SEQ_OK;
}

static enum seq_pull shuffle_next(void *stage, struct seq_input *in, struct lk_item *ret_item)
{
    struct shuffle *s = stage;
    enum seq_pull got = shuffle_fill(s, in);
    if (got != SEQ_OK)
        return got;
    if (s->n == 0)
        return SEQ_END;
    uint32_t i = (uint32_t)lk_below(lk_key(s->key, s->draws), s->n);
    struct slot *last = &s->slot[--s->n];
    struct slot drawn = s->slot[i];
    s->slot[i] = *last;
    *last = drawn;
    s->draws++;
    s->taken = 0;
    *ret_item = (struct lk_item){.span = drawn.span, .n = drawn.n, .tokens = drawn.tokens};
    return SEQ_OK;
}

static uint64_t shuffle_waiting(const void *stage)
{
    const struct shuffle *s = stage;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < s->n; i++)
        tokens += s->slot[i].tokens;
    return tokens;
}

static void shuffle_save(const void *stage, struct lk_buf *out)
{
    const struct shuffle *s = stage;
    lk_buf_put_varint(out, s->draws);
    lk_buf_put_varint(out, s->taken);
    lk_buf_put_varint(out, s->ended);
    lk_buf_put_varint(out, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        lk_buf_put_varint(out, s->slot[i].n);
        for (uint32_t j = 0; j < s->slot[i].n; j++)
            seq_put_span(out, &s->slot[i].span[j]);
    }
}

static void shuffle_load(void *stage, struct lk_reader *in)
{
    struct shuffle *s = stage;
    s->draws = lk_read_varint(in);
    s->taken = (uint32_t)lk_read_bounded(in, 2);
    s->ended = lk_read_bounded(in, 1) == 1;
    uint32_t n = (uint32_t)lk_read_bounded(in, s->capacity);
    for (uint32_t i = 0; i < n && !in->bad; i++) {
        struct slot *slot = &s->slot[i];
        uint32_t spans = (uint32_t)lk_read_bounded(in, s->spans);
        if (spans == 0 || (size_t)(in->end - in->at) < spans) {
            in->bad = 1;
            return;
        }
        (void)slot_room(slot, spans);
        slot->n = spans;
        uint64_t tokens = 0;
        for (uint32_t j = 0; j < spans && seq_get_span(in, &s->bounds, &slot->span[j]); j++)
            tokens += slot->span[j].tokens;
        if (tokens > s->tokens_max)
            in->bad = 1;
        slot->tokens = (uint32_t)tokens;
        s->n = i + 1;
    }
}

static void shuffle_check(const void *stage)
{
    const struct shuffle *s = stage;
    LK_CHECK(s->n <= s->capacity);
    LK_CHECK(s->taken <= 2);
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t tokens = 0;
        LK_CHECK(s->slot[i].n > 0 && s->slot[i].n <= s->slot[i].cap);
        for (uint32_t j = 0; j < s->slot[i].n; j++)
            tokens += s->slot[i].span[j].tokens;
        LK_CHECK(tokens == s->slot[i].tokens);
    }
}

static uint64_t shuffle_bound(const struct seq_params *params)
{
    uint64_t item = sizeof(struct slot) + most_spans(params) * sizeof(struct lk_span);
    return ((uint64_t)params->buffer + 1) * item;
}

const struct seq_ops seq_shuffle = {
    .name = "shuffle",
    .size = sizeof(struct shuffle),
    .init = shuffle_init,
    .done = shuffle_done,
    .next = shuffle_next,
    .waiting = shuffle_waiting,
    .save = shuffle_save,
    .load = shuffle_load,
    .check = shuffle_check,
    .bound = shuffle_bound,
};
