/*
 * Piece → ids. A cache forgets as it likes: what it returns is what looking up or merging would.
 * About 15 MiB at most, touched only as far as it is used.
 *
 * Three parts: "hot", small enough for a core's own cache, for the few thousand pieces that make up
 * nine tenths of a text; "sets", for short pieces that are not one token; "longs", for long ones.
 */
#ifndef LK_OP_TOKENISE_CACHE_H
#define LK_OP_TOKENISE_CACHE_H

#include "op/tokenise/bpe.h"

#define LK_CACHE_HOT 16384u
#define LK_CACHE_HOT_IDS 11u /* 64 bytes an entry: a line of memory */
#define LK_CACHE_SETS 32768u       /* of two short pieces each */
#define LK_CACHE_SHORT_IDS LK_KEY_BYTES
#define LK_CACHE_LONG_SLOTS 32768u
#define LK_CACHE_LONG_BYTES 512u   /* longer pieces are not kept */
#define LK_CACHE_ARENA (2u << 20)  /* words of 4 bytes */

struct lk_cache_hot {
    struct lk_key key; /* hi == 0: free */
    uint32_t n;
    uint32_t ids[LK_CACHE_HOT_IDS];
};

struct lk_cache_short {
    struct lk_key key; /* hi == 0: free */
    uint32_t n;
    uint32_t ids[LK_CACHE_SHORT_IDS];
};

struct lk_cache {
    void *hot_memory;
    struct lk_cache_hot *hot; /* in it, aligned */
    struct lk_cache_short (*sets)[2];
    struct lk_cache_long {
        uint64_t hash;
        uint32_t start; /* in the arena: the bytes, filled up to words, then the ids */
        uint16_t bytes; /* 0: free */
        uint16_t n;
    } *longs;
    uint32_t *arena;
    size_t arena_n;
};

void lk_cache_init(struct lk_cache *cache);
void lk_cache_done(struct lk_cache *cache);

static inline const struct lk_cache_short *lk_cache_find(struct lk_cache *cache, struct lk_key key,
                                                         size_t hash)
{
    struct lk_cache_short *set = cache->sets[hash % LK_CACHE_SETS];
    if (set[0].key.lo == key.lo && set[0].key.hi == key.hi)
        return &set[0];
    if (set[1].key.lo == key.lo && set[1].key.hi == key.hi)
        return &set[1];
    return NULL;
}

static inline struct lk_cache_hot *lk_cache_hot(struct lk_cache *cache, size_t hash)
{
    return &cache->hot[hash % LK_CACHE_HOT];
}

void lk_cache_put(struct lk_cache *cache, struct lk_key key, size_t hash, const uint32_t *ids,
                  size_t n);

/* @hash is lk_hash64 of the bytes. NULL when it is not there. */
const uint32_t *lk_cache_find_long(const struct lk_cache *cache, uint64_t hash, const uint8_t *bytes,
                                   size_t n, size_t *ret_ids_n);
void lk_cache_put_long(struct lk_cache *cache, uint64_t hash, const uint8_t *bytes, size_t n,
                       const uint32_t *ids, size_t ids_n);

#endif
