/* Lanes, steps, cuts and digests: ORDER.md from "Steps and cuts" on. */
#include "oracle_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct lane {
    struct oracle_chain chain;
    struct oracle_list given;
    enum oracle_why over; /* ORACLE_GIVES: it goes on */
    bool begun;
};

struct oracle {
    const struct sim_recipe *recipe;
    struct lane *lane; /* [lanes] */
    uint64_t steps;    /* 0: not known yet; else one more than there are, or UINT64_MAX */
    uint64_t fails;    /* step, once it is known */
    bool fails_known;
    struct oracle_digest **digest; /* [horizon][size] */
};

struct oracle *oracle_new(const struct sim_recipe *recipe)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);
    oracle->recipe = recipe;
    oracle->lane = calloc(recipe->lanes, sizeof *oracle->lane);
    oracle->digest = calloc(recipe->horizon, sizeof *oracle->digest);
    return oracle;
}

void oracle_free(struct oracle *oracle)
{
    if (oracle == NULL)
        return;
    for (uint32_t l = 0; l < oracle->recipe->lanes; l++) {
        oracle_chain_done(&oracle->lane[l].chain);
        oracle_list_done(&oracle->lane[l].given);
    }
    for (uint64_t s = 0; s < oracle->recipe->horizon; s++)
        free(oracle->digest[s]);
    free(oracle->digest);
    free(oracle->lane);
    free(oracle);
}

bool oracle_refuses(const struct oracle *oracle)
{
    for (uint32_t d = 0; d < oracle->recipe->n_datasets; d++)
        if (oracle->recipe->dataset[d].rows < oracle->recipe->lanes)
            return true;
    return false;
}

bool oracle_finite(const struct oracle *oracle)
{
    bool all_release = true, any_stop = false;
    for (uint32_t d = 0; d < oracle->recipe->n_datasets; d++) {
        all_release = all_release && oracle->recipe->dataset[d].then == SIM_RELEASE;
        any_stop = any_stop || oracle->recipe->dataset[d].then == SIM_STOP;
    }
    return all_release || any_stop;
}

bool oracle_barren(const struct oracle *oracle)
{
    for (uint32_t d = 0; d < oracle->recipe->n_datasets; d++) {
        const struct sim_dataset *dataset = &oracle->recipe->dataset[d];
        bool kept = dataset->then == SIM_REPEAT;
        for (uint64_t row = 0; row < dataset->rows && !kept; row++)
            kept = sim_row(dataset, row).tokens > 0;
        if (!kept)
            return true;
    }
    return false;
}

/* Why the number @position of a lane is not there, or that it is. */
static enum oracle_why lane_at(struct oracle *oracle, uint32_t l, uint64_t position)
{
    struct lane *lane = &oracle->lane[l];
    if (!lane->begun)
        oracle_chain_init(&lane->chain, oracle->recipe, l);
    lane->begun = true;
    while (lane->over == ORACLE_GIVES && lane->given.n <= position) {
        struct oracle_sequence sequence;
        lane->over = oracle_chain_next(&lane->chain, &sequence);
        if (lane->over == ORACLE_GIVES)
            oracle_push(&lane->given, sequence);
    }
    return position < lane->given.n ? ORACLE_GIVES : lane->over;
}

/* Steps ----------------------------------------------------------------------------------------- */

uint32_t oracle_size(const struct oracle *oracle, uint64_t step)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < oracle->recipe->n_batches; i++)
        if (oracle->recipe->batch[i].from <= step)
            size = oracle->recipe->batch[i].size;
    return size;
}

static uint64_t start_of(const struct oracle *oracle, uint64_t step)
{
    uint64_t position = 0;
    for (uint64_t s = 0; s < step; s++)
        position += oracle_size(oracle, s) / oracle->recipe->lanes;
    return position;
}

void oracle_cut(uint32_t size, uint32_t rank, uint32_t world, uint32_t *ret_first, uint32_t *ret_rows)
{
    uint64_t n = size;
    *ret_first = (uint32_t)(rank * n / world);
    *ret_rows = (uint32_t)((rank + 1) * n / world) - *ret_first;
}

/* Of the lanes, do all have what step @step wants of them, or does any have something? */
static bool filled(struct oracle *oracle, uint64_t step)
{
    bool all = true, any = false;
    uint32_t share = oracle_size(oracle, step) / oracle->recipe->lanes;
    uint64_t start = start_of(oracle, step);
    for (uint32_t l = 0; l < oracle->recipe->lanes; l++) {
        /* One that fails has not ended. */
        all = all && lane_at(oracle, l, start + share - 1) != ORACLE_ENDS;
        any = any || lane_at(oracle, l, start) != ORACLE_ENDS;
    }
    return oracle->recipe->pad_tail ? any : all;
}

uint64_t oracle_steps(struct oracle *oracle)
{
    if (!oracle_finite(oracle))
        return UINT64_MAX;
    for (uint64_t s = 0; oracle->steps == 0; s++) {
        if (s == oracle->recipe->horizon)
            oracle->steps = UINT64_MAX;
        else if (!filled(oracle, s))
            oracle->steps = s + 1;
    }
    return oracle->steps == UINT64_MAX ? UINT64_MAX : oracle->steps - 1;
}

uint64_t oracle_fails(struct oracle *oracle)
{
    for (; !oracle->fails_known; oracle->fails++) {
        uint64_t end = start_of(oracle, oracle->fails + 1);
        for (uint32_t l = 0; l < oracle->recipe->lanes && !oracle->fails_known; l++)
            oracle->fails_known = lane_at(oracle, l, end - 1) == ORACLE_FAILS;
        if (oracle->fails_known)
            break;
        if (oracle->fails + 1 == oracle->recipe->horizon) {
            oracle->fails_known = true;
            oracle->fails = UINT64_MAX;
            break;
        }
    }
    return oracle->fails;
}

static uint32_t share_of(const struct oracle *oracle, uint64_t step)
{
    return oracle_size(oracle, step) / oracle->recipe->lanes;
}

enum oracle_why oracle_why(struct oracle *oracle, uint64_t step, uint32_t row)
{
    uint32_t share = share_of(oracle, step);
    return lane_at(oracle, row / share, start_of(oracle, step) + row % share);
}

const struct oracle_sequence *oracle_row(struct oracle *oracle, uint64_t step, uint32_t row)
{
    static const struct oracle_sequence padding = {0};
    uint32_t share = share_of(oracle, step);
    if (oracle_why(oracle, step, row) != ORACLE_GIVES)
        return &padding;
    return &oracle->lane[row / share].given.item[start_of(oracle, step) + row % share];
}

/* Values ---------------------------------------------------------------------------------------- */

void oracle_tokens(struct oracle *oracle, const struct oracle_sequence *sequence, uint32_t *ret_ids)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < sequence->n; i++) {
        const struct oracle_span *span = &sequence->span[i];
        for (uint32_t t = 0; t < span->tokens; t++)
            ret_ids[at++] = sim_token(&oracle->recipe->dataset[span->dataset], span->row, span->first + t);
    }
    while (at < oracle->recipe->sequence)
        ret_ids[at++] = oracle->recipe->pad_id;
}

static void put32(uint8_t **to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        *(*to)++ = (uint8_t)(v >> (8 * i));
}

static void put64(uint8_t **to, uint64_t v)
{
    put32(to, (uint32_t)v);
    put32(to, (uint32_t)(v >> 32));
}

static struct oracle_digest make_digest(struct oracle *oracle, uint64_t step, uint32_t row)
{
    const struct oracle_sequence *sequence = oracle_row(oracle, step, row);
    uint32_t t = oracle->recipe->sequence;
    uint32_t *ids = malloc(4 * (size_t)t);
    uint8_t *bytes = malloc(4 * (size_t)t + 4 * (size_t)sequence->n + 64), *to = bytes;
    oracle_tokens(oracle, sequence, ids);
    for (uint32_t i = 0; i < t; i++)
        put32(&to, ids[i]);
    XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)(to - bytes));
    to = bytes;
    put64(&to, hash.low64);
    put64(&to, hash.high64);
    put32(&to, sequence->n);
    for (uint32_t i = 0; i < sequence->n; i++)
        put32(&to, sequence->span[i].tokens);
    hash = XXH3_128bits(bytes, (size_t)(to - bytes));
    to = bytes;
    put64(&to, hash.low64);
    put64(&to, hash.high64);
    put64(&to, step);
    put32(&to, row);
    hash = XXH3_128bits(bytes, (size_t)(to - bytes));
    free(bytes);
    free(ids);
    return (struct oracle_digest){.lo = hash.low64, .hi = hash.high64};
}

struct oracle_digest oracle_digest(struct oracle *oracle, uint64_t step, uint32_t row)
{
    struct oracle_digest **of = &oracle->digest[step];
    if (*of == NULL)
        *of = calloc(oracle_size(oracle, step), sizeof **of);
    struct oracle_digest *digest = *of + row;
    if (digest->lo == 0 && digest->hi == 0)
        *digest = make_digest(oracle, step, row);
    return *digest;
}

struct oracle_digest oracle_add(struct oracle_digest a, struct oracle_digest b)
{
    struct oracle_digest sum = {.lo = a.lo + b.lo, .hi = a.hi + b.hi};
    sum.hi += sum.lo < a.lo;
    return sum;
}
