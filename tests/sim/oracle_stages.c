/* Sequencers: ORDER.md, "Sequencers". Lists are searched from end to end. */
#include "oracle_private.h"

#include <stdlib.h>
#include <string.h>

/* Lists ----------------------------------------------------------------------------------------- */

void oracle_push_span(struct oracle_sequence *sequence, struct oracle_span span)
{
    if ((sequence->n & (sequence->n - 1)) == 0) /* 0, or a power of two: full */
        sequence->span = realloc(sequence->span, (sequence->n == 0 ? 1 : 2 * sequence->n) * sizeof span);
    sequence->span[sequence->n++] = span;
    sequence->tokens += span.tokens;
}

void oracle_push(struct oracle_list *list, struct oracle_sequence sequence)
{
    if (list->n == list->cap) {
        list->cap = list->cap == 0 ? 8 : 2 * list->cap;
        list->item = realloc(list->item, list->cap * sizeof *list->item);
    }
    list->item[list->n++] = sequence;
}

struct oracle_sequence oracle_remove(struct oracle_list *list, uint32_t i)
{
    struct oracle_sequence sequence = list->item[i];
    list->n--;
    memmove(list->item + i, list->item + i + 1, (list->n - i) * sizeof sequence);
    return sequence;
}

void oracle_list_done(struct oracle_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        free(list->item[i].span);
    free(list->item);
    *list = (struct oracle_list){0};
}

static struct oracle_span cut_off(struct oracle_span *span, uint32_t tokens)
{
    struct oracle_span head = *span;
    head.tokens = tokens;
    span->first += tokens;
    span->tokens -= tokens;
    return head;
}

static struct oracle_sequence alone(struct oracle_span span)
{
    struct oracle_sequence sequence = {0};
    oracle_push_span(&sequence, span);
    return sequence;
}

static uint64_t tokens_in(const struct oracle_list *list)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < list->n; i++)
        sum += list->item[i].tokens;
    return sum;
}

/* What all stages need. */
struct at {
    struct oracle_chain *chain;
    const struct sim_recipe *recipe;
    uint32_t i;
    struct oracle_stage *stage;
};

static enum oracle_why next_of(struct oracle_chain *chain, int i, struct oracle_sequence *ret_sequence);

/* The next record, before pack a list of one. */
static enum oracle_why next_record(const struct at *at, struct oracle_span *ret_span)
{
    struct oracle_sequence record;
    enum oracle_why why = next_of(at->chain, (int)at->i - 1, &record);
    if (why == ORACLE_GIVES) {
        *ret_span = record.span[0];
        free(record.span);
    }
    return why;
}

/* split, shuffle -------------------------------------------------------------------------------- */

static enum oracle_why split(const struct at *at, struct oracle_sequence *ret_sequence)
{
    struct oracle_span *rest = &at->stage->rest;
    uint32_t most = at->recipe->stage[at->i].max_tokens;
    if (rest->tokens == 0) {
        enum oracle_why why = next_record(at, rest);
        if (why != ORACLE_GIVES)
            return why;
    }
    *ret_sequence = alone(cut_off(rest, rest->tokens > most ? most : rest->tokens));
    return ORACLE_GIVES;
}

static enum oracle_why shuffle(const struct at *at, struct oracle_sequence *ret_sequence)
{
    struct oracle_stage *stage = at->stage;
    uint64_t key = oracle_stage_key(at->recipe, at->i, at->chain->source.lane);
    for (int taken = 0; taken < 2 && stage->held.n < at->recipe->stage[at->i].buffer && !stage->ended;) {
        struct oracle_sequence item;
        enum oracle_why why = next_of(at->chain, (int)at->i - 1, &item);
        if (why == ORACLE_FAILS)
            return why;
        stage->ended = why == ORACLE_ENDS;
        if (why == ORACLE_GIVES) {
            oracle_push(&stage->held, item);
            taken++;
        }
    }
    if (stage->held.n == 0)
        return ORACLE_ENDS;
    uint32_t i = (uint32_t)oracle_below(oracle_key(key, stage->draws++), stage->held.n);
    *ret_sequence = stage->held.item[i];
    stage->held.item[i] = stage->held.item[--stage->held.n];
    return ORACLE_GIVES;
}

/* concat ---------------------------------------------------------------------------------------- */

static enum oracle_why give_tail(const struct at *at, struct oracle_sequence *ret_sequence)
{
    for (uint32_t g = 0; g < at->recipe->groups; g++) {
        struct oracle_list *list = &at->stage->group[g];
        if (list->n > 0 && at->recipe->pad_tail) {
            *ret_sequence = oracle_remove(list, 0);
            return ORACLE_GIVES;
        }
    }
    return ORACLE_ENDS;
}

/* A group's list holds its open sequence, once that has anything. */
static enum oracle_why concat(const struct at *at, struct oracle_sequence *ret_sequence)
{
    struct oracle_stage *stage = at->stage;
    uint32_t t = at->recipe->sequence;
    while (!stage->ended) {
        if (stage->rest.tokens == 0) {
            enum oracle_why why = next_record(at, &stage->rest);
            if (why == ORACLE_FAILS)
                return why;
            stage->ended = why == ORACLE_ENDS;
            continue;
        }
        struct oracle_list *list = &stage->group[at->recipe->dataset[stage->rest.dataset].group];
        if (list->n == 0)
            oracle_push(list, (struct oracle_sequence){0});
        uint32_t room = t - list->item[0].tokens;
        oracle_push_span(&list->item[0],
                         cut_off(&stage->rest, stage->rest.tokens < room ? stage->rest.tokens : room));
        if (list->item[0].tokens == t) {
            *ret_sequence = oracle_remove(list, 0);
            return ORACLE_GIVES;
        }
    }
    return give_tail(at, ret_sequence);
}

/* first_fit, best_fit --------------------------------------------------------------------------- */

/* Of the bins with room for @tokens, the one with least; of several, that which had it longest. With @first
 * the lowest-numbered. UINT32_MAX: none. */
static uint32_t find_bin(const struct at *at, uint32_t g, uint32_t tokens, bool first)
{
    const struct oracle_list *bins = &at->stage->group[g];
    uint32_t t = at->recipe->sequence, best = UINT32_MAX;
    const uint64_t *since = at->stage->since + (size_t)g * bins->n;
    for (uint32_t b = 0; b < bins->n; b++) {
        uint32_t room = t - bins->item[b].tokens;
        if (room < tokens)
            continue;
        if (best == UINT32_MAX)
            best = b;
        else if (!first && (room < t - bins->item[best].tokens ||
                            (room == t - bins->item[best].tokens && since[b] < since[best])))
            best = b;
    }
    return best;
}

static void give_bin(const struct at *at, uint32_t g, uint32_t b, struct oracle_sequence *ret_sequence)
{
    struct oracle_list *bins = &at->stage->group[g];
    *ret_sequence = bins->item[b];
    bins->item[b] = (struct oracle_sequence){0};
    at->stage->since[(size_t)g * bins->n + b] = ++at->stage->clock;
}

static enum oracle_why give_bins(const struct at *at, struct oracle_sequence *ret_sequence)
{
    for (uint32_t g = 0; g < at->recipe->groups; g++)
        for (uint32_t b = 0; b < at->stage->group[g].n; b++)
            if (at->stage->group[g].item[b].n > 0) {
                give_bin(at, g, b, ret_sequence);
                return ORACLE_GIVES;
            }
    return ORACLE_ENDS;
}

static enum oracle_why fit(const struct at *at, struct oracle_sequence *ret_sequence)
{
    struct oracle_stage *stage = at->stage;
    bool first = at->recipe->stage[at->i].kind == SIM_FIRST_FIT;
    while (!stage->ended) {
        if (stage->rest.tokens == 0) {
            enum oracle_why why = next_record(at, &stage->rest);
            if (why == ORACLE_FAILS)
                return why;
            stage->ended = why == ORACLE_ENDS;
            continue;
        }
        if (stage->rest.tokens > at->recipe->sequence)
            return ORACLE_FAILS;
        uint32_t g = at->recipe->dataset[stage->rest.dataset].group;
        uint32_t b = find_bin(at, g, stage->rest.tokens, first);
        if (b == UINT32_MAX) {
            give_bin(at, g, find_bin(at, g, 0, false), ret_sequence);
            return ORACLE_GIVES;
        }
        struct oracle_sequence *bin = &stage->group[g].item[b];
        oracle_push_span(bin, stage->rest);
        stage->rest.tokens = 0;
        stage->since[(size_t)g * stage->group[g].n + b] = ++stage->clock;
        if (bin->tokens == at->recipe->sequence) {
            give_bin(at, g, b, ret_sequence);
            return ORACLE_GIVES;
        }
    }
    return give_bins(at, ret_sequence);
}

/* exact_fit ------------------------------------------------------------------------------------- */

/* The oldest record of @tokens but for two that are taken already. */
static uint32_t oldest(const struct oracle_list *pool, uint32_t tokens, uint32_t but, uint32_t nor)
{
    for (uint32_t i = 0; i < pool->n; i++)
        if (pool->item[i].tokens == tokens && i != but && i != nor)
            return i;
    return UINT32_MAX;
}

/* Records that together have exactly @room tokens, in the order in which they are added; how many. */
static uint32_t find_exactly(const struct oracle_list *pool, uint32_t room, uint32_t ret_i[3])
{
    uint32_t none = UINT32_MAX, longest = 0;
    if ((ret_i[0] = oldest(pool, room, none, none)) != none)
        return 1;
    for (uint32_t i = 0; i < pool->n; i++)
        if (pool->item[i].tokens > longest && pool->item[i].tokens < room)
            longest = pool->item[i].tokens;
    for (uint32_t a = longest; 2 * a >= room && a > 0; a--) {
        ret_i[0] = oldest(pool, a, none, none);
        ret_i[1] = oldest(pool, room - a, ret_i[0], none);
        if (ret_i[0] != none && ret_i[1] != none)
            return 2;
    }
    for (uint32_t a = longest; 3 * a >= room && a > 0; a--) {
        if ((ret_i[0] = oldest(pool, a, none, none)) == none)
            continue;
        for (uint32_t b = a; b > 0; b--) {
            if (a + b >= room || room - a - b > b)
                continue;
            ret_i[1] = oldest(pool, b, ret_i[0], none);
            ret_i[2] = oldest(pool, room - a - b, ret_i[0], ret_i[1]);
            if (ret_i[1] != none && ret_i[2] != none)
                return 3;
        }
    }
    return 0;
}

static void add_from(struct oracle_list *pool, uint32_t i, struct oracle_sequence *sequence)
{
    struct oracle_sequence record = oracle_remove(pool, i);
    oracle_push_span(sequence, record.span[0]);
    free(record.span);
}

static void fill(struct oracle_list *pool, uint32_t t, struct oracle_sequence *sequence)
{
    while (pool->n > 0 && sequence->tokens < t) {
        uint32_t room = t - sequence->tokens, found[3], longest = UINT32_MAX;
        uint32_t n = find_exactly(pool, room, found);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = i + 1; j < n; j++)
                found[j] -= found[j] > found[i];
            add_from(pool, found[i], sequence);
        }
        if (n > 0)
            return;
        for (uint32_t i = 0; i < pool->n; i++)
            if (pool->item[i].tokens <= room &&
                (longest == UINT32_MAX || pool->item[i].tokens > pool->item[longest].tokens))
                longest = i;
        if (longest != UINT32_MAX) {
            add_from(pool, longest, sequence);
        } else {
            oracle_push_span(sequence, cut_off(&pool->item[0].span[0], room));
            pool->item[0].tokens -= room;
        }
    }
}

static void give_exact(const struct at *at, uint32_t g, struct oracle_sequence *ret_sequence)
{
    struct oracle_list *pool = &at->stage->group[g];
    *ret_sequence = (struct oracle_sequence){0};
    add_from(pool, 0, ret_sequence);
    fill(pool, at->recipe->sequence, ret_sequence);
    at->stage->taken[g] = 0;
}

static enum oracle_why drain_exact(const struct at *at, struct oracle_sequence *ret_sequence)
{
    for (uint32_t g = 0; g < at->recipe->groups; g++) {
        struct oracle_list *pool = &at->stage->group[g];
        if (tokens_in(pool) >= at->recipe->sequence || (pool->n > 0 && at->recipe->pad_tail)) {
            give_exact(at, g, ret_sequence);
            return ORACLE_GIVES;
        }
    }
    return ORACLE_ENDS;
}

static bool ready(const struct at *at, uint32_t g)
{
    uint32_t t = at->recipe->sequence;
    const struct oracle_list *pool = &at->stage->group[g];
    return tokens_in(pool) >= t &&
           (pool->n >= at->recipe->stage[at->i].pool || at->stage->taken[g] >= 2ull * t);
}

static enum oracle_why exact(const struct at *at, struct oracle_sequence *ret_sequence)
{
    struct oracle_stage *stage = at->stage;
    uint32_t t = at->recipe->sequence;
    while (!stage->ended) {
        uint32_t g = stage->last;
        if (stage->rest.tokens >= t) {
            *ret_sequence = alone(cut_off(&stage->rest, t));
            return ORACLE_GIVES;
        }
        if (stage->rest.tokens > 0) {
            stage->taken[g] += stage->rest.tokens;
            oracle_push(&stage->group[g], alone(stage->rest));
            stage->rest.tokens = 0;
        }
        if (ready(at, g)) {
            give_exact(at, g, ret_sequence);
            return ORACLE_GIVES;
        }
        enum oracle_why why = next_record(at, &stage->rest);
        if (why == ORACLE_FAILS)
            return why;
        stage->ended = why == ORACLE_ENDS;
        if (why == ORACLE_GIVES)
            stage->last = at->recipe->dataset[stage->rest.dataset].group;
    }
    return drain_exact(at, ret_sequence);
}

/* The chain ------------------------------------------------------------------------------------- */

static enum oracle_why next_of(struct oracle_chain *chain, int i, struct oracle_sequence *ret_sequence)
{
    const struct sim_recipe *recipe = chain->source.recipe;
    if (i < 0) {
        struct oracle_span span;
        enum oracle_why why = oracle_source_next(&chain->source, &span);
        if (why == ORACLE_GIVES)
            *ret_sequence = alone(span);
        return why;
    }
    struct at at = {.chain = chain, .recipe = recipe, .i = (uint32_t)i, .stage = &chain->stage[i]};
    switch (recipe->stage[i].kind) {
    case SIM_SPLIT:
        return split(&at, ret_sequence);
    case SIM_SHUFFLE:
        return shuffle(&at, ret_sequence);
    case SIM_CONCAT:
        return concat(&at, ret_sequence);
    case SIM_FIRST_FIT:
    case SIM_BEST_FIT:
        return fit(&at, ret_sequence);
    case SIM_EXACT_FIT:
        break;
    }
    return exact(&at, ret_sequence);
}

enum oracle_why oracle_chain_next(struct oracle_chain *chain, struct oracle_sequence *ret_sequence)
{
    return next_of(chain, (int)chain->source.recipe->n_stages - 1, ret_sequence);
}

static void init_bins(struct oracle_stage *stage, uint32_t groups, uint32_t bins)
{
    stage->since = calloc((size_t)groups * bins, sizeof *stage->since);
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t b = 0; b < bins; b++) {
            oracle_push(&stage->group[g], (struct oracle_sequence){0});
            stage->since[(size_t)g * bins + b] = b;
        }
    stage->clock = bins;
}

void oracle_chain_init(struct oracle_chain *chain, const struct sim_recipe *recipe, uint32_t lane)
{
    *chain = (struct oracle_chain){0};
    oracle_source_init(&chain->source, recipe, lane);
    for (uint32_t i = 0; i < recipe->n_stages; i++) {
        struct oracle_stage *stage = &chain->stage[i];
        stage->group = calloc(recipe->groups, sizeof *stage->group);
        if (recipe->stage[i].kind == SIM_FIRST_FIT || recipe->stage[i].kind == SIM_BEST_FIT)
            init_bins(stage, recipe->groups, recipe->stage[i].pool);
    }
}

void oracle_chain_done(struct oracle_chain *chain)
{
    const struct sim_recipe *recipe = chain->source.recipe;
    for (uint32_t i = 0; recipe != NULL && i < recipe->n_stages; i++) {
        for (uint32_t g = 0; g < recipe->groups; g++)
            oracle_list_done(&chain->stage[i].group[g]);
        free(chain->stage[i].group);
        free(chain->stage[i].since);
        oracle_list_done(&chain->stage[i].held);
    }
}
