/*
 * pack: exact_fit. Keeps documents whole, and neither loses nor pads.
 *
 * A pool of waiting records is kept per homogeneity group. The oldest opens the next sequence, so
 * age is bounded; what remains of it, R tokens, is filled by one record of exactly R, else by two, else
 * by three that add up to R, else by the longest that fits and then the same again for what remains
 * after it. Only where nothing fits is a record cut: the oldest waiting, whose rest, still the oldest,
 * opens the next sequence. A record longer than the sequence gives whole sequences of its own as soon
 * as it comes, until its rest fits. Among records of one length the oldest is taken.
 *
 * The pool warms up by growing: a group hands out a sequence when it holds `pool` records, or whenever
 * it has taken in two sequences' worth of tokens since its last one (and can fill one).
 *
 * Cost: O(T/64) words a search, for three records times the number of distinct lengths in the pool
 * at worst; independent of the number of records. Memory: a node a record, two words a length.
 *
 * The problem is one-dimensional bin packing with a bounded look-ahead; the search by subset sums of
 * one, two and three is a bounded form of the minimum bin slack heuristic (Gupta, Ho, 1999).
 */
#include "seq/lengths.h"
#include "seq/seq.h"

#include <stdlib.h>

#define NIL UINT32_MAX

/* A waiting record: in the list of all (by age) and in that of its length (by age). */
struct node {
    struct lk_span span;
    uint32_t older, younger;
    uint32_t older_same, younger_same;
};

struct pool {
    uint32_t n;
    uint64_t tokens;
    uint64_t taken;      /* tokens taken in since the last sequence */
    uint32_t oldest, youngest;
    struct lengths lengths;
    uint32_t *first, *last; /* [T+1] of each length */
};

struct exact {
    uint32_t sequence, groups, capacity;
    struct seq_bounds bounds;
    const uint32_t *group_of;
    bool pad_tail;
    bool ended;
    uint32_t group;      /* that may be able to hand out: the one last pushed to, or the one drained */
    struct lk_span rest; /* of a record longer than the sequence, handed out whole sequence by whole */
    struct pool *pool;   /* [groups] */
    struct node *node;
    uint32_t nodes, free;
    struct lk_span *out; /* [sequence at most, grown] the item last given */
    uint32_t out_n, out_cap;
};

static void exact_init(void *stage, const struct seq_params *params)
{
    struct exact *e = stage;
    e->sequence = params->sequence;
    e->groups = params->groups;
    e->bounds = params->bounds;
    e->capacity = params->pool;
    e->group_of = params->group_of;
    e->pad_tail = params->pad_tail;
    e->free = NIL;
    e->pool = lk_zalloc(e->groups, sizeof *e->pool);
    for (uint32_t g = 0; g < e->groups; g++) {
        struct pool *pool = &e->pool[g];
        size_t lengths = (size_t)e->sequence + 1;
        lengths_init(&pool->lengths, e->sequence);
        pool->first = lk_alloc(lengths * sizeof *pool->first);
        pool->last = lk_alloc(lengths * sizeof *pool->last);
        memset(pool->first, 0xff, lengths * sizeof *pool->first);
        memset(pool->last, 0xff, lengths * sizeof *pool->last);
        pool->oldest = pool->youngest = NIL;
    }
}

static void exact_done(void *stage)
{
    struct exact *e = stage;
    for (uint32_t g = 0; e->pool != NULL && g < e->groups; g++) {
        lengths_done(&e->pool[g].lengths);
        free(e->pool[g].first);
        free(e->pool[g].last);
    }
    free(e->pool);
    free(e->node);
    free(e->out);
    e->pool = NULL;
    e->node = NULL;
    e->out = NULL;
}

static uint32_t node_new(struct exact *e)
{
    if (e->free == NIL) {
        uint32_t grown = e->nodes == 0 ? 256 : 2 * e->nodes;
        e->node = lk_resize(e->node, grown, sizeof *e->node);
        for (uint32_t i = grown; i-- > e->nodes;) {
            e->node[i].younger = e->free;
            e->free = i;
        }
        e->nodes = grown;
    }
    uint32_t i = e->free;
    e->free = e->node[i].younger;
    return i;
}

static void pool_add(struct exact *e, struct pool *pool, const struct lk_span *span)
{
    uint32_t i = node_new(e), length = span->tokens;
    struct node *node = &e->node[i];
    *node = (struct node){.span = *span,
                          .older = pool->youngest,
                          .younger = NIL,
                          .older_same = pool->last[length],
                          .younger_same = NIL};
    *(node->older == NIL ? &pool->oldest : &e->node[node->older].younger) = i;
    pool->youngest = i;
    *(node->older_same == NIL ? &pool->first[length] : &e->node[node->older_same].younger_same) = i;
    pool->last[length] = i;
    lengths_add(&pool->lengths, length);
    pool->n++;
    pool->tokens += length;
}

/* Takes node @i out of the list of its length, whose number it may then change. */
static void unlink_same(struct exact *e, struct pool *pool, uint32_t i)
{
    struct node *node = &e->node[i];
    uint32_t length = node->span.tokens;
    *(node->older_same == NIL ? &pool->first[length] : &e->node[node->older_same].younger_same) =
        node->younger_same;
    *(node->younger_same == NIL ? &pool->last[length] : &e->node[node->younger_same].older_same) =
        node->older_same;
    lengths_remove(&pool->lengths, length);
}

static void exact_emit(struct exact *e, struct lk_span span)
{
    if (e->out_n == e->out_cap) {
        e->out_cap = e->out_cap == 0 ? 16 : 2 * e->out_cap;
        e->out = lk_resize(e->out, e->out_cap, sizeof *e->out);
    }
    e->out[e->out_n++] = span;
}

/* The whole of record @i goes into the sequence. */
static void pool_use(struct exact *e, struct pool *pool, uint32_t i)
{
    struct node *node = &e->node[i];
    unlink_same(e, pool, i);
    *(node->older == NIL ? &pool->oldest : &e->node[node->older].younger) = node->younger;
    *(node->younger == NIL ? &pool->youngest : &e->node[node->younger].older) = node->older;
    pool->n--;
    pool->tokens -= node->span.tokens;
    exact_emit(e, node->span);
    node->younger = e->free;
    e->free = i;
}

/* The first @tokens of the oldest record go into the sequence; the rest stays, still the oldest of
 * all and so the oldest of its new length. */
static void pool_cut(struct exact *e, struct pool *pool, uint32_t tokens)
{
    uint32_t i = pool->oldest;
    unlink_same(e, pool, i);
    struct node *node = &e->node[i];
    exact_emit(e, seq_take(&node->span, tokens));
    uint32_t length = node->span.tokens;
    node->older_same = NIL;
    node->younger_same = pool->first[length];
    *(node->younger_same == NIL ? &pool->last[length] : &e->node[node->younger_same].older_same) = i;
    pool->first[length] = i;
    lengths_add(&pool->lengths, length);
    pool->tokens -= tokens;
}

/* One, two or three lengths that add up to @room, largest first; false when there are none. */
static bool find_exact(const struct lengths *set, uint32_t room, uint32_t ret_length[3])
{
    ret_length[1] = ret_length[2] = 0;
    ret_length[0] = set->count[room] > 0 ? room : lengths_pair(set, room, room);
    if (ret_length[0] == room)
        return true;
    if (ret_length[0] > 0) {
        ret_length[1] = room - ret_length[0];
        return true;
    }
    if (room < 3)
        return false;
    for (uint32_t a = lengths_at_most(set, room - 2); 3 * (uint64_t)a >= room && a > 0;
         a = lengths_at_most(set, a - 1)) {
        uint32_t b = lengths_pair(set, room - a, a);
        uint32_t c = room - a - b;
        if (b == 0)
            continue;
        uint32_t need = 1 + (b == a) + (c == a);
        if (set->count[a] < need) {
            /* a is there too few times: with b = a, the pair below it may still do. */
            b = a > 1 ? lengths_pair(set, room - a, a - 1) : 0;
            c = room - a - b;
            if (b == 0)
                continue;
        }
        ret_length[0] = a;
        ret_length[1] = b;
        ret_length[2] = c;
        return true;
    }
    return false;
}

/* Fills @room tokens from the pool, which holds at least as many or is all that is left. */
static void fill(struct exact *e, struct pool *pool, uint32_t room, struct seq_counts *counts)
{
    while (room > 0 && pool->n > 0) {
        uint32_t length[3];
        if (find_exact(&pool->lengths, room, length)) {
            for (int i = 0; i < 3 && length[i] > 0; i++)
                pool_use(e, pool, pool->first[length[i]]);
            return;
        }
        uint32_t longest = lengths_at_most(&pool->lengths, room);
        if (longest == 0) {
            pool_cut(e, pool, room);
            counts->cuts++;
            return;
        }
        pool_use(e, pool, pool->first[longest]);
        room -= longest;
    }
}

static void give(struct exact *e, struct pool *pool, struct seq_counts *counts,
                 struct lk_item *ret_item)
{
    e->out_n = 0;
    uint32_t room = e->sequence - e->node[pool->oldest].span.tokens;
    uint64_t before = pool->tokens;
    pool_use(e, pool, pool->oldest);
    fill(e, pool, room, counts);
    pool->taken = 0;
    uint32_t tokens = (uint32_t)(before - pool->tokens);
    LK_CHECK(tokens <= e->sequence);
    counts->sequences++;
    counts->padded += e->sequence - tokens;
    *ret_item = (struct lk_item){.span = e->out, .n = e->out_n, .tokens = tokens};
}

/* A whole sequence of a longer record. */
static void give_whole(struct exact *e, struct seq_counts *counts, struct lk_item *ret_item)
{
    e->out_n = 0;
    if (e->rest.tokens == e->sequence) {
        exact_emit(e, e->rest);
        e->rest.tokens = 0;
    } else {
        exact_emit(e, seq_take(&e->rest, e->sequence));
        counts->cuts++;
        counts->forced_cuts++;
    }
    counts->sequences++;
    *ret_item = (struct lk_item){.span = e->out, .n = 1, .tokens = e->sequence};
}

static bool ready(const struct exact *e, const struct pool *pool)
{
    return pool->tokens >= e->sequence &&
           (pool->n >= e->capacity || pool->taken >= 2ull * e->sequence);
}

static enum seq_pull drain(struct exact *e, struct seq_counts *counts, struct lk_item *ret_item)
{
    for (; e->group < e->groups; e->group++) {
        struct pool *pool = &e->pool[e->group];
        if (pool->tokens >= e->sequence || (pool->n > 0 && e->pad_tail)) {
            give(e, pool, counts, ret_item);
            return SEQ_OK;
        }
        counts->lost += pool->tokens;
        while (pool->n > 0)
            pool_use(e, pool, pool->oldest);
    }
    return SEQ_END;
}

static enum seq_pull exact_next(void *stage, struct seq_input *in, struct lk_item *ret_item)
{
    struct exact *e = stage;
    while (!e->ended) {
        if (e->rest.tokens >= e->sequence) {
            give_whole(e, in->counts, ret_item);
            return SEQ_OK;
        }
        if (e->rest.tokens > 0) {
            struct pool *pool = &e->pool[e->group];
            pool_add(e, pool, &e->rest);
            pool->taken += e->rest.tokens;
            e->rest.tokens = 0;
        }
        if (ready(e, &e->pool[e->group])) {
            give(e, &e->pool[e->group], in->counts, ret_item);
            return SEQ_OK;
        }
        struct lk_item record;
        enum seq_pull got = in->next(in->self, &record);
        if (got == SEQ_END) {
            e->ended = true;
            e->group = 0;
        } else if (got != SEQ_OK) {
            return got;
        } else {
            LK_CHECK(record.n == 1);
            e->rest = record.span[0];
            e->group = e->group_of[e->rest.dataset];
        }
    }
    e->out_n = 0;
    return drain(e, in->counts, ret_item);
}

static uint64_t exact_waiting(const void *stage)
{
    const struct exact *e = stage;
    uint64_t tokens = e->rest.tokens;
    for (uint32_t g = 0; g < e->groups; g++)
        tokens += e->pool[g].tokens;
    return tokens;
}

static void exact_save(const void *stage, struct lk_buf *out)
{
    const struct exact *e = stage;
    lk_buf_put_varint(out, e->ended);
    lk_buf_put_varint(out, e->group);
    lk_buf_put_varint(out, e->rest.tokens > 0);
    if (e->rest.tokens > 0)
        seq_put_span(out, &e->rest);
    for (uint32_t g = 0; g < e->groups; g++) {
        lk_buf_put_varint(out, e->pool[g].taken);
        lk_buf_put_varint(out, e->pool[g].n);
        for (uint32_t i = e->pool[g].oldest; i != NIL; i = e->node[i].younger)
            seq_put_span(out, &e->node[i].span);
    }
}

static void exact_load(void *stage, struct lk_reader *in)
{
    struct exact *e = stage;
    e->ended = lk_read_bounded(in, 1) == 1;
    e->group = (uint32_t)lk_read_bounded(in, e->ended ? e->groups : e->groups - 1);
    if (lk_read_bounded(in, 1) == 1)
        (void)seq_get_span(in, &e->bounds, &e->rest);
    for (uint32_t g = 0; g < e->groups; g++) {
        e->pool[g].taken = lk_read_varint(in);
        uint32_t n = (uint32_t)lk_read_bounded(in, (uint64_t)e->capacity + e->sequence);
        for (uint32_t i = 0; i < n && !in->bad; i++) {
            struct lk_span span;
            if (!seq_get_span(in, &e->bounds, &span))
                return;
            if (span.tokens > e->sequence || e->group_of[span.dataset] != g) {
                in->bad = 1;
                return;
            }
            pool_add(e, &e->pool[g], &span);
        }
    }
}

static void pool_check(const struct exact *e, const struct pool *pool)
{
    uint32_t n = 0, older = NIL;
    uint64_t tokens = 0;
    for (uint32_t i = pool->oldest; i != NIL; older = i, i = e->node[i].younger) {
        const struct node *node = &e->node[i];
        LK_CHECK(node->older == older);
        LK_CHECK(node->span.tokens >= 1 && node->span.tokens <= e->sequence);
        LK_CHECK(node->older_same == NIL ? pool->first[node->span.tokens] == i
                                         : e->node[node->older_same].younger_same == i);
        LK_CHECK(pool->lengths.count[node->span.tokens] > 0);
        n++;
        tokens += node->span.tokens;
    }
    LK_CHECK(older == pool->youngest && n == pool->n && tokens == pool->tokens);
}

static void exact_check(const void *stage)
{
    const struct exact *e = stage;
    LK_CHECK(e->group <= e->groups);
    for (uint32_t g = 0; g < e->groups; g++)
        pool_check(e, &e->pool[g]);
}

/* A group that holds T records holds T tokens, so at most max(pool, T) of them wait; arrays double. */
static uint64_t exact_bound(const struct seq_params *params)
{
    uint64_t lengths = (uint64_t)params->sequence + 1;
    uint64_t group = sizeof(struct pool) + lengths_bound(params->sequence) +
                     2 * lengths * sizeof(uint32_t);
    uint64_t records = params->pool > params->sequence ? params->pool : params->sequence;
    uint64_t nodes = 256 + UINT64_C(2) * params->groups * records;
    uint64_t spans = 16 + 2 * (uint64_t)params->sequence;
    return params->groups * group + nodes * sizeof(struct node) + spans * sizeof(struct lk_span);
}

const struct seq_ops seq_exact = {
    .name = "exact_fit",
    .size = sizeof(struct exact),
    .init = exact_init,
    .done = exact_done,
    .next = exact_next,
    .waiting = exact_waiting,
    .save = exact_save,
    .load = exact_load,
    .check = exact_check,
    .bound = exact_bound,
};
