/*
 * The arena: token ids of measured rows, until their sequences have been made. It is a cache. What is
 * dropped under pressure is measured again when it is needed; nothing depends on anything being here.
 *
 * Keyed by (stream, dataset, row): the ids of a row depend on nothing else, so cursors share them.
 */
#ifndef LK_HOST_ARENA_H
#define LK_HOST_ARENA_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

struct arena_key {
    uint64_t row;
    uint32_t dataset;
    uint32_t stream;
};

struct arena *arena_new(uint64_t budget_bytes);
void arena_free(struct arena *arena);

/* Keeps a copy of @ids [n], dropping what was used longest ago as needed. A row that alone exceeds
 * the budget, or has no ids, is not kept. One that is here already is wanted once more: by another
 * cursor or lane, or in the next epoch of a small dataset. */
void arena_put(struct arena *arena, struct arena_key key, const uint32_t *ids, uint32_t n);

/* Copies ids [first, first + n) of the row to @to; false when the row is not here, or shorter. Once
 * as many ids as the row has were copied for each time that it was put, it is dropped: every token is used
 * once. */
bool arena_take(struct arena *arena, struct arena_key key, uint32_t first, uint32_t n, uint32_t *to);

/* Says that id @first of the row will be taken soon, so that memory can be asked for it: for several rows at
 * once this takes as long as for one. Changes nothing. */
void arena_ask(const struct arena *arena, struct arena_key key, uint32_t first);

/* How many ids of the row are here: all it has, or 0. */
uint32_t arena_has(const struct arena *arena, struct arena_key key);

struct arena_stats {
    uint64_t bytes, budget, rows, hits, misses, evicted;
};
void arena_stats(const struct arena *arena, struct arena_stats *ret_stats);

#endif
