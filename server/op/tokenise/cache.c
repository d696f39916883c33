#include "op/tokenise/cache.h"

#include <stdlib.h>

void lk_cache_init(struct lk_cache *cache)
{
    cache->hot_memory = lk_zalloc(LK_CACHE_HOT + 1, sizeof *cache->hot);
    cache->hot = (struct lk_cache_hot *)(((uintptr_t)cache->hot_memory + 63) & ~(uintptr_t)63);
    cache->sets = lk_zalloc(LK_CACHE_SETS, sizeof *cache->sets);
    cache->longs = lk_zalloc(LK_CACHE_LONG_SLOTS, sizeof *cache->longs);
    cache->arena = lk_zalloc(LK_CACHE_ARENA, sizeof *cache->arena);
    cache->arena_n = 0;
}

void lk_cache_done(struct lk_cache *cache)
{
    free(cache->hot_memory);
    free(cache->sets);
    free(cache->longs);
    free(cache->arena);
    *cache = (struct lk_cache){0};
}

void lk_cache_put(struct lk_cache *cache, struct lk_key key, size_t hash, const uint32_t *ids,
                  size_t n)
{
    struct lk_cache_short *set = cache->sets[hash % LK_CACHE_SETS];

    set[1] = set[0];
    set[0].key = key;
    set[0].n = (uint32_t)n;
    memcpy(set[0].ids, ids, n * sizeof *ids);
}

static size_t words_of(size_t bytes)
{
    return (bytes + 3) / 4;
}

const uint32_t *lk_cache_find_long(const struct lk_cache *cache, uint64_t hash, const uint8_t *bytes,
                                   size_t n, size_t *ret_ids_n)
{
    const struct lk_cache_long *slot = &cache->longs[hash % LK_CACHE_LONG_SLOTS];

    if (slot->bytes != n || slot->hash != hash || memcmp(cache->arena + slot->start, bytes, n) != 0)
        return NULL;
    *ret_ids_n = slot->n;
    return cache->arena + slot->start + words_of(n);
}

void lk_cache_put_long(struct lk_cache *cache, uint64_t hash, const uint8_t *bytes, size_t n,
                       const uint32_t *ids, size_t ids_n)
{
    size_t need = words_of(n) + ids_n;

    if (n > LK_CACHE_LONG_BYTES)
        return;
    if (cache->arena_n + need > LK_CACHE_ARENA) { /* full: start over */
        memset(cache->longs, 0, LK_CACHE_LONG_SLOTS * sizeof *cache->longs);
        cache->arena_n = 0;
    }
    uint32_t *at = cache->arena + cache->arena_n;
    memcpy(at, bytes, n);
    memcpy(at + words_of(n), ids, ids_n * sizeof *ids);
    cache->longs[hash % LK_CACHE_LONG_SLOTS] =
        (struct lk_cache_long){.hash = hash,
                               .start = (uint32_t)cache->arena_n,
                               .bytes = (uint16_t)n,
                               .n = (uint16_t)ids_n};
    cache->arena_n += need;
}
