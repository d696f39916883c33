/*
 * What is known of the rows lies close together in one array, apart from their ids: finding a row, and
 * moving it in the list of all by last use, then costs no trip to memory. Rows name each other by their
 * place in it; place 0 is the list itself, so its ends need no case of their own.
 */
#include "host/arena.h"

#include "base/keys.h"
#include "base/mem.h"
#include "base/status.h"
#include "host/blocks.h"
#include "host/ids.h"

#include <stdlib.h>

#define ROW_PRICE 80 /* bytes that a row takes beside its ids: its place here, and in the table */
#define HUGE_BUDGET ((uint64_t)64 << 20) /* from here on a huge page more or less is no matter */

struct entry {
    struct arena_key key;
    uint32_t chain;        /* the next of its bucket, or of the free ones; 0: none */
    uint32_t older, newer; /* in the list */
    uint64_t left;         /* ids not copied yet, were each copied once for each time that it was put */
    struct block_row ids;
};

struct arena {
    uint32_t *bucket;
    uint32_t buckets;      /* a power of two */
    struct entry *entry;   /* [n_entries] */
    uint32_t n_entries, cap_entries;
    uint32_t free;
    struct blocks blocks;
    bool wide; /* the last row had ids beyond u16, and the next one may */
    struct arena_stats stats;
};

struct arena *arena_new(uint64_t budget_bytes)
{
    struct arena *arena = lk_zalloc(1, sizeof *arena);
    arena->stats.budget = budget_bytes;
    arena->buckets = arena->cap_entries = 1024;
    arena->bucket = lk_zalloc(arena->buckets, sizeof *arena->bucket);
    arena->entry = lk_zalloc(arena->cap_entries, sizeof *arena->entry);
    arena->n_entries = 1;
    arena->blocks.huge = budget_bytes >= HUGE_BUDGET;
    return arena;
}

void arena_free(struct arena *arena)
{
    if (arena == NULL)
        return;
    for (uint32_t i = arena->entry[0].newer; i != 0; i = arena->entry[i].newer)
        blocks_drop(&arena->blocks, &arena->entry[i].ids);
    blocks_done(&arena->blocks);
    free(arena->entry);
    free(arena->bucket);
    free(arena);
}

/* ---- finding ---- */

static uint32_t *bucket_of(const struct arena *arena, const struct arena_key *key)
{
    uint64_t hash = lk_mix64(key->row + lk_key(key->dataset, key->stream));
    return &arena->bucket[hash & (arena->buckets - 1)];
}

/* Where the row's place stands, or would stand. */
static uint32_t *find(const struct arena *arena, const struct arena_key *key)
{
    uint32_t *at = bucket_of(arena, key);
    for (; *at != 0; at = &arena->entry[*at].chain) {
        const struct arena_key *have = &arena->entry[*at].key;
        if (have->row == key->row && have->dataset == key->dataset && have->stream == key->stream)
            break;
    }
    return at;
}

static void chain_in(struct arena *arena, uint32_t i)
{
    uint32_t *at = bucket_of(arena, &arena->entry[i].key);
    arena->entry[i].chain = *at;
    *at = i;
}

/* ---- the list, by last use ---- */

static void list_remove(struct arena *arena, uint32_t i)
{
    struct entry *entry = arena->entry;
    entry[entry[i].older].newer = entry[i].newer;
    entry[entry[i].newer].older = entry[i].older;
}

static void list_append(struct arena *arena, uint32_t i)
{
    struct entry *entry = arena->entry;
    entry[i].older = entry[0].older; /* the newest so far */
    entry[i].newer = 0;
    entry[entry[i].older].newer = i;
    entry[0].older = i;
}

/* ---- coming and going ---- */

static uint64_t price(uint32_t n, bool wide)
{
    return ROW_PRICE + BLOCK_PRICE * blocks_of(n, wide);
}

static void drop(struct arena *arena, uint32_t *at)
{
    uint32_t i = *at;
    struct entry *entry = &arena->entry[i];
    *at = entry->chain;
    list_remove(arena, i);
    arena->stats.bytes -= price(entry->ids.n, entry->ids.wide);
    arena->stats.rows--;
    blocks_drop(&arena->blocks, &entry->ids);
    entry->chain = arena->free;
    arena->free = i;
}

/* As many buckets as rows. */
static void grow(struct arena *arena)
{
    if (arena->stats.rows < arena->buckets || arena->buckets > UINT32_MAX / 2)
        return;
    free(arena->bucket);
    arena->buckets *= 2;
    arena->bucket = lk_zalloc(arena->buckets, sizeof *arena->bucket);
    for (uint32_t i = arena->entry[0].newer; i != 0; i = arena->entry[i].newer)
        chain_in(arena, i);
}

static uint32_t free_place(struct arena *arena)
{
    uint32_t i = arena->free;
    if (i != 0) {
        arena->free = arena->entry[i].chain;
        return i;
    }
    if (arena->n_entries == arena->cap_entries) {
        LK_CHECK(arena->cap_entries <= UINT32_MAX / 2);
        arena->cap_entries *= 2;
        arena->entry = lk_resize(arena->entry, arena->cap_entries, sizeof *arena->entry);
    }
    return arena->n_entries++;
}

/* ---- the arena ---- */

/* Drops what was used longest ago; false: it would not fit even alone. */
static bool make_room(struct arena *arena, uint32_t n, bool wide)
{
    uint64_t bytes = price(n, wide);
    if (bytes > arena->stats.budget)
        return false;
    while (arena->stats.bytes + bytes > arena->stats.budget) {
        drop(arena, find(arena, &arena->entry[arena->entry[0].newer].key));
        arena->stats.evicted++;
    }
    return true;
}

void arena_put(struct arena *arena, struct arena_key key, const uint32_t *ids, uint32_t n)
{
    if (n == 0)
        return;
    uint32_t *at = find(arena, &key);
    uint64_t left = n;
    if (*at != 0) {
        left += arena->entry[*at].left;
        drop(arena, at);
    }
    struct block_row row;
    bool wide = arena->wide && ids_or(ids, n) > UINT16_MAX;
    if (!make_room(arena, n, wide))
        return;
    if (!blocks_put(&arena->blocks, ids, n, wide, &row)) {
        wide = true;
        if (!make_room(arena, n, wide))
            return;
        bool fits = blocks_put(&arena->blocks, ids, n, wide, &row);
        LK_CHECK(fits);
    }
    arena->wide = wide;
    grow(arena);
    uint32_t i = free_place(arena);
    arena->entry[i] = (struct entry){.key = key, .left = left, .ids = row};
    chain_in(arena, i);
    list_append(arena, i);
    arena->stats.bytes += price(n, wide);
    arena->stats.rows++;
}

bool arena_take(struct arena *arena, struct arena_key key, uint32_t first, uint32_t n, uint32_t *to)
{
    uint32_t *at = find(arena, &key), i = *at;
    struct entry *entry = &arena->entry[i];
    if (i == 0 || (uint64_t)first + n > entry->ids.n) {
        arena->stats.misses++;
        return false;
    }
    blocks_get(&arena->blocks, &entry->ids, first, n, to);
    arena->stats.hits++;
    if (entry->left <= n) {
        drop(arena, at);
        return true;
    }
    entry->left -= n;
    list_remove(arena, i);
    list_append(arena, i);
    return true;
}

void arena_ask(const struct arena *arena, struct arena_key key, uint32_t first)
{
    blocks_ask(&arena->blocks, &arena->entry[*find(arena, &key)].ids, first); /* that of 0 is empty */
}

uint32_t arena_has(const struct arena *arena, struct arena_key key)
{
    uint32_t i = *find(arena, &key);
    return i != 0 ? arena->entry[i].ids.n : 0;
}

void arena_stats(const struct arena *arena, struct arena_stats *ret_stats)
{
    *ret_stats = arena->stats;
}
