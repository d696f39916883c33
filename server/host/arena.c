#include "host/arena.h"

#include "base/keys.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* A row. In its bucket's chain, and in the list of all by last use. */
struct entry {
    struct arena_key key;
    struct entry *chain;
    struct entry *older, *newer;
    uint32_t n;
    uint64_t left;  /* ids not copied yet, were each copied once */
    bool wide;      /* ids as u32; else as u16, which half of all vocabularies fit in */
    _Alignas(8) uint8_t ids[];
};

struct arena {
    struct entry **bucket;
    uint64_t buckets;       /* a power of two */
    struct entry *oldest, *newest;
    struct arena_stats stats;
};

struct arena *arena_new(uint64_t budget_bytes)
{
    struct arena *arena = lk_zalloc(1, sizeof *arena);
    arena->stats.budget = budget_bytes;
    arena->buckets = 1024;
    arena->bucket = lk_zalloc(arena->buckets, sizeof *arena->bucket);
    return arena;
}

static struct entry **slot_of(const struct arena *arena, struct arena_key key)
{
    uint64_t hash = lk_mix64(key.row + lk_key(key.dataset, key.stream));
    struct entry **at = &arena->bucket[hash & (arena->buckets - 1)];
    while (*at != NULL && ((*at)->key.row != key.row || (*at)->key.dataset != key.dataset ||
                           (*at)->key.stream != key.stream))
        at = &(*at)->chain;
    return at;
}

static uint64_t entry_bytes(const struct entry *entry)
{
    return sizeof *entry + 16 + (uint64_t)entry->n * (entry->wide ? 4 : 2);
}

static void list_remove(struct arena *arena, struct entry *entry)
{
    *(entry->older != NULL ? &entry->older->newer : &arena->oldest) = entry->newer;
    *(entry->newer != NULL ? &entry->newer->older : &arena->newest) = entry->older;
}

static void list_append(struct arena *arena, struct entry *entry)
{
    entry->older = arena->newest;
    entry->newer = NULL;
    *(entry->older != NULL ? &entry->older->newer : &arena->oldest) = entry;
    arena->newest = entry;
}

static void drop(struct arena *arena, struct entry **at)
{
    struct entry *entry = *at;
    *at = entry->chain;
    list_remove(arena, entry);
    arena->stats.bytes -= entry_bytes(entry);
    arena->stats.rows--;
    free(entry);
}

void arena_free(struct arena *arena)
{
    if (arena == NULL)
        return;
    for (struct entry *entry = arena->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        free(entry);
    }
    free(arena->bucket);
    free(arena);
}

static void grow(struct arena *arena)
{
    if (arena->stats.rows < arena->buckets)
        return;
    free(arena->bucket);
    arena->buckets *= 2;
    arena->bucket = lk_zalloc(arena->buckets, sizeof *arena->bucket);
    for (struct entry *entry = arena->oldest; entry != NULL; entry = entry->newer) {
        struct entry **at = slot_of(arena, entry->key);
        entry->chain = *at;
        *at = entry;
    }
}

static bool needs_u32(const uint32_t *ids, uint32_t n)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all |= ids[i];
    return all > UINT16_MAX;
}

static void copy_in(struct entry *entry, const uint32_t *ids)
{
    if (entry->wide) {
        memcpy(entry->ids, ids, 4 * (size_t)entry->n);
        return;
    }
    uint16_t *to = (uint16_t *)entry->ids;
    for (uint32_t i = 0; i < entry->n; i++)
        to[i] = (uint16_t)ids[i];
}

void arena_put(struct arena *arena, struct arena_key key, const uint32_t *ids, uint32_t n)
{
    struct entry **at = slot_of(arena, key);
    if (*at != NULL)
        drop(arena, at);
    bool wide = needs_u32(ids, n);
    uint64_t bytes = sizeof(struct entry) + 16 + (uint64_t)n * (wide ? 4 : 2);
    if (bytes > arena->stats.budget)
        return;
    while (arena->stats.bytes + bytes > arena->stats.budget) {
        drop(arena, slot_of(arena, arena->oldest->key));
        arena->stats.evicted++;
    }
    grow(arena);
    struct entry *entry = lk_alloc(sizeof *entry + (size_t)n * (wide ? 4 : 2));
    *entry = (struct entry){.key = key, .n = n, .left = n, .wide = wide};
    copy_in(entry, ids);
    at = slot_of(arena, key);
    entry->chain = *at;
    *at = entry;
    list_append(arena, entry);
    arena->stats.bytes += entry_bytes(entry);
    arena->stats.rows++;
}

bool arena_take(struct arena *arena, struct arena_key key, uint32_t first, uint32_t n, uint32_t *to)
{
    struct entry **at = slot_of(arena, key);
    struct entry *entry = *at;
    if (entry == NULL || (uint64_t)first + n > entry->n) {
        arena->stats.misses++;
        return false;
    }
    if (entry->wide) {
        memcpy(to, entry->ids + 4 * (size_t)first, 4 * (size_t)n);
    } else {
        const uint16_t *from = (const uint16_t *)entry->ids + first;
        for (uint32_t i = 0; i < n; i++)
            to[i] = from[i];
    }
    arena->stats.hits++;
    if (entry->left <= n) {
        drop(arena, at);
        return true;
    }
    entry->left -= n;
    list_remove(arena, entry);
    list_append(arena, entry);
    return true;
}

uint32_t arena_has(const struct arena *arena, struct arena_key key)
{
    const struct entry *entry = *slot_of(arena, key);
    return entry != NULL ? entry->n : 0;
}

void arena_stats(const struct arena *arena, struct arena_stats *ret_stats)
{
    *ret_stats = arena->stats;
}
