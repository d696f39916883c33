/*
 * Piece → ids, of one encoder. A cache forgets as it likes: what it returns is what merging would.
 *
 * One open table of 32-byte entries, two to a line of memory: the key and up to four ids. More ids,
 * and the bytes of pieces that are longer than a key, lie in a ring of words; what the ring has
 * overwritten since is known by its age and taken for absent. An entry is at most LK_CACHE_WINDOW
 * places behind the one that its hash names. Where all of them are taken the new one replaces one of the
 * last, and whatever is found behind the first place moves one forward: the pieces that make up most of
 * a text come to lie where the first look finds them.
 *
 * 32 MiB of entries and 8 MiB of ring, from the beginning: growing would hold up the one document in
 * whose midst it falls by more than that document takes.
 */
#ifndef LK_OP_TOKENISE_CACHE_H
#define LK_OP_TOKENISE_CACHE_H

#include "op/tokenise/bpe.h"
#include "op/tokenise/table.h"

#define LK_CACHE_NEAR_IDS 4u /* in the entry itself */
#define LK_CACHE_FAR 15u     /* for a count of ids: they are in the ring */
#define LK_CACHE_WINDOW 8u
#define LK_CACHE_ENTRIES (1u << 20) /* of an encoder's cache, */
#define LK_CACHE_RING (1u << 21)    /* and words of 4 bytes */
#define LK_CACHE_LONG_BYTES 512u /* longer pieces are not kept */

struct lk_cache_entry {
    struct lk_key key; /* with the number of ids, or LK_CACHE_FAR, in its four highest bits; hi == 0: free */
    union {
        uint32_t ids[LK_CACHE_NEAR_IDS];
        struct {
            uint64_t start; /* words ever put into the ring before */
            uint32_t n;
        } far;
    };
};

struct lk_cache {
    struct lk_cache_entry *entries;
    size_t mask;   /* a power of two entries, less 1 */
    uint32_t turn; /* whose turn it is to be replaced */
    uint32_t *ring; /* the bytes of a long piece, filled up to words, then the ids */
    size_t ring_n;  /* a power of two */
    uint64_t head;  /* words ever put into the ring */
    struct lk_table table, ring_memory; /* what these lie in */
};

/* Both sizes powers of two, @entries_n at least LK_CACHE_WINDOW. */
void lk_cache_init(struct lk_cache *cache, size_t entries_n, size_t ring_n);
void lk_cache_done(struct lk_cache *cache);

/* A piece of more than LK_KEY_BYTES as a key: its hash and its length. Unlike a short one's it is not
 * the piece itself; lk_cache_find compares the bytes. */
struct lk_key lk_cache_long_key(const uint8_t *bytes, size_t n);

static inline const struct lk_cache_entry *lk_cache_first(const struct lk_cache *cache, uint32_t hash)
{
    return &cache->entries[hash & cache->mask];
}

/* Whether the entry has that key, and then how many ids (or LK_CACHE_FAR); else a number above it. */
static inline uint64_t lk_cache_match(const struct lk_cache_entry *entry, struct lk_key key)
{
    uint64_t lo = entry->key.lo ^ key.lo, hi = entry->key.hi ^ key.hi;
    return (lo | hi << 4) == 0 ? hi >> 60 : UINT64_MAX;
}

/*
 * The ids of a piece whose key is @key and whose bytes are the @n at @bytes, wherever they are: valid until
 * the next call. NULL: not there.
 */
const uint32_t *lk_cache_find(struct lk_cache *cache, struct lk_key key, uint32_t hash,
                              const uint8_t *bytes, size_t n, size_t *ret_ids_n);
/* Keeps them; the piece is not there yet. */
void lk_cache_put(struct lk_cache *cache, struct lk_key key, uint32_t hash, const uint8_t *bytes,
                  size_t n, const uint32_t *ids, size_t ids_n);

#endif
