#include "op/tokenise/cache.h"

#include "base/digest.h"

void lk_cache_init(struct lk_cache *cache, size_t entries_n, size_t ring_n)
{
    *cache = (struct lk_cache){.mask = entries_n - 1, .ring_n = ring_n};
    cache->table = lk_table_new(entries_n, sizeof *cache->entries);
    cache->entries = cache->table.data;
    cache->ring_memory = lk_table_new(ring_n, sizeof *cache->ring);
    cache->ring = cache->ring_memory.data;
}

void lk_cache_done(struct lk_cache *cache)
{
    lk_table_done(&cache->table);
    lk_table_done(&cache->ring_memory);
    *cache = (struct lk_cache){0};
}

/* ---- the ring ---- */

static size_t words_of(size_t bytes)
{
    return (bytes + 3) / 4;
}

/* Room for @need words in a row; the oldest go. */
static uint64_t ring_take(struct lk_cache *cache, size_t need)
{
    size_t at = cache->head & (cache->ring_n - 1);
    if (at + need > cache->ring_n)
        cache->head += cache->ring_n - at;
    uint64_t start = cache->head;
    cache->head += need;
    return start;
}

static uint32_t *ring_at(const struct lk_cache *cache, uint64_t start)
{
    return cache->ring + (start & (cache->ring_n - 1));
}

/* ---- the table ---- */

struct lk_key lk_cache_long_key(const uint8_t *bytes, size_t n)
{
    return (struct lk_key){.lo = lk_hash64(bytes, n, 0), .hi = n};
}

/* The bytes of @entry's piece that lie in the ring: none of a short one, whose key has them. */
static size_t ring_bytes(size_t n)
{
    return n > LK_KEY_BYTES ? n : 0;
}

static const uint32_t *far_ids(const struct lk_cache *cache, const struct lk_cache_entry *entry,
                               const uint8_t *bytes, size_t n, size_t *ret_ids_n)
{
    size_t kept = ring_bytes(n);

    if (cache->head - entry->far.start > cache->ring_n)
        return NULL;
    const uint32_t *at = ring_at(cache, entry->far.start);
    if (memcmp(at, bytes, kept) != 0)
        return NULL;
    *ret_ids_n = entry->far.n;
    return at + words_of(kept);
}

static struct lk_key bare(struct lk_key key)
{
    return (struct lk_key){.lo = key.lo, .hi = key.hi << 4 >> 4};
}

/* How far behind its first place the entry at @at is. */
static size_t distance(const struct lk_cache *cache, size_t at)
{
    return (at - lk_key_hash(bare(cache->entries[at].key))) & cache->mask;
}

/* Moves the entry at @at one forward, if the one that is there may move one back. Returns where it is. */
static size_t promote(struct lk_cache *cache, size_t at)
{
    size_t before = (at - 1) & cache->mask;

    if (distance(cache, before) + 1 >= LK_CACHE_WINDOW)
        return at;
    struct lk_cache_entry entry = cache->entries[at];
    cache->entries[at] = cache->entries[before];
    cache->entries[before] = entry;
    return before;
}

const uint32_t *lk_cache_find(struct lk_cache *cache, struct lk_key key, uint32_t hash,
                              const uint8_t *bytes, size_t n, size_t *ret_ids_n)
{
    for (size_t i = 0; i < LK_CACHE_WINDOW; i++) {
        size_t at = (hash + i) & cache->mask;
        uint64_t count = lk_cache_match(&cache->entries[at], key);
        if (count <= LK_CACHE_FAR) {
            at = i == 0 ? at : promote(cache, at);
            if (count == LK_CACHE_FAR)
                return far_ids(cache, &cache->entries[at], bytes, n, ret_ids_n);
            *ret_ids_n = count;
            return cache->entries[at].ids;
        }
        if (cache->entries[at].key.hi == 0)
            return NULL;
    }
    return NULL;
}

/* Where an entry goes that is not there yet: a free place, or one of the last it may have. An old one of
 * the same key, whose words the ring has lost, is used again. */
static struct lk_cache_entry *place_for(struct lk_cache *cache, struct lk_key key, uint32_t hash)
{
    for (size_t i = 0; i < LK_CACHE_WINDOW; i++) {
        struct lk_cache_entry *entry = &cache->entries[(hash + i) & cache->mask];
        if (entry->key.hi == 0 || lk_cache_match(entry, key) != UINT64_MAX)
            return entry;
    }
    size_t victim = LK_CACHE_WINDOW / 2 + cache->turn++ % (LK_CACHE_WINDOW / 2);
    return &cache->entries[(hash + victim) & cache->mask];
}

void lk_cache_put(struct lk_cache *cache, struct lk_key key, uint32_t hash, const uint8_t *bytes,
                  size_t n, const uint32_t *ids, size_t ids_n)
{
    size_t kept = ring_bytes(n), need = words_of(kept) + ids_n;

    if (n > LK_CACHE_LONG_BYTES || need > cache->ring_n)
        return;
    struct lk_cache_entry *entry = place_for(cache, key, hash);
    entry->key = key;
    if (kept == 0 && ids_n <= LK_CACHE_NEAR_IDS) {
        entry->key.hi |= (uint64_t)ids_n << 60;
        memcpy(entry->ids, ids, ids_n * sizeof *ids);
        return;
    }
    entry->key.hi |= (uint64_t)LK_CACHE_FAR << 60;
    entry->far.start = ring_take(cache, need);
    entry->far.n = (uint32_t)ids_n;
    uint32_t *at = ring_at(cache, entry->far.start);
    memcpy(at, bytes, kept);
    memcpy(at + words_of(kept), ids, ids_n * sizeof *ids);
}
