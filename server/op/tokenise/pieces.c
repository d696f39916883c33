#include "op/tokenise/pieces.h"

void lk_pieces_init(struct lk_pieces *pieces, const struct lk_pretok *pretok,
                    const struct lk_bpe *bpe, size_t entries_n, size_t ring_n)
{
    *pieces = (struct lk_pieces){.pretok = pretok, .bpe = bpe};
    lk_cache_init(&pieces->cache, entries_n, ring_n);
}

void lk_pieces_done(struct lk_pieces *pieces)
{
    lk_cache_done(&pieces->cache);
    lk_bpe_scratch_done(&pieces->scratch);
}

void lk_pieces_trim(struct lk_pieces *pieces)
{
    lk_bpe_scratch_trim(&pieces->scratch);
}

static void merge(struct lk_pieces *pieces, const uint8_t *p, size_t n, struct lk_tokens *out)
{
    uint32_t *ids = lk_tokens_room(out, n);
    out->n += lk_bpe_merge(pieces->bpe, &pieces->scratch, p, n, ids);
}

/* The id of a piece that is one token whatever merging would make of it, or LK_NO_ID. */
static uint32_t whole_word(const struct lk_bpe *bpe, struct lk_key key, uint32_t hash,
                           const uint8_t *p, size_t n)
{
    return n > LK_KEY_BYTES ? lk_names_find(&bpe->long_words, p, n) : lk_bpe_word(bpe, key, hash);
}

/* A piece that is not where the first look finds it. */
static __attribute__((noinline)) void encode_piece(struct lk_pieces *pieces, struct lk_key key,
                                                   const uint8_t *p, size_t n, struct lk_tokens *out)
{
    uint32_t hash = lk_key_hash(key);
    size_t before = out->n, count = 0;
    lk_bpe_word_soon(pieces->bpe, hash);
    const uint32_t *ids = lk_cache_find(&pieces->cache, key, hash, p, n, &count);

    if (ids != NULL) {
        memcpy(lk_tokens_room(out, count), ids, count * sizeof *ids);
        out->n += count;
        return;
    }
    uint32_t word = whole_word(pieces->bpe, key, hash, p, n);
    if (word != LK_NO_ID)
        lk_tokens_push(out, word);
    else
        merge(pieces, p, n, out);
    lk_cache_put(&pieces->cache, key, hash, p, n, out->ids + before, out->n - before);
}

/* A piece of a batch: its key, and where the first look for it goes. */
struct look {
    struct lk_key key;
    const struct lk_cache_entry *entry;
};

/* How many of @n pieces begin where 16 bytes may be read: all but the last ones of a document. */
static size_t inside(const uint8_t *p, const uint8_t *limit, const uint8_t *const *stops, size_t n)
{
    while (n > 0 && limit - (n == 1 ? p : stops[n - 2]) < 16)
        n--;
    return n;
}

/* Two numbers, not a key: the compiler would put it together and take it apart again. */
static inline void look_for(struct look *look, const struct lk_cache_entry *entries, size_t mask,
                            uint64_t lo, uint64_t hi)
{
    look->key.lo = lo;
    look->key.hi = hi;
    look->entry = &entries[lk_key_hash((struct lk_key){.lo = lo, .hi = hi}) & mask];
    __builtin_prefetch(look->entry);
}

/* The keys of @n pieces, whose entries are on their way from memory afterwards. */
static __attribute__((noinline)) void look_ahead(const struct lk_cache *cache, struct look *look,
                                                 const uint8_t *p, const uint8_t *limit,
                                                 const uint8_t *const *stops, size_t n)
{
    const struct lk_cache_entry *entries = cache->entries;
    const uint8_t *const *plain = stops + inside(p, limit, stops, n), *const *last = stops + n;
    size_t mask = cache->mask;

    for (; stops < plain; p = *stops++, look++) {
        size_t bytes = (size_t)(*stops - p);
        if (bytes <= LK_KEY_BYTES) {
            look_for(look, entries, mask, lk_key_lo(p, bytes), lk_key_hi(p, bytes));
        } else {
            struct lk_key key = lk_cache_long_key(p, bytes);
            look_for(look, entries, mask, key.lo, key.hi);
        }
    }
    for (; stops < last; p = *stops++, look++) {
        size_t bytes = (size_t)(*stops - p);
        struct lk_key key =
            bytes > LK_KEY_BYTES ? lk_cache_long_key(p, bytes) : lk_key_at_end(p, bytes);
        look_for(look, entries, mask, key.lo, key.hi);
    }
}

/* Two short loops, so that the many pieces that the cache has cost no waiting: the processor works on a
 * dozen of them at a time as long as no branch is a surprise. */
static __attribute__((noinline)) void encode_batch(struct lk_pieces *pieces, const uint8_t *p,
                                                   const uint8_t *limit, const uint8_t *const *stops,
                                                   size_t n, struct lk_tokens *out)
{
    struct look looks[LK_PIECES_MAX];

    look_ahead(&pieces->cache, looks, p, limit, stops, n);
    uint32_t *to = lk_tokens_room(out, n * LK_CACHE_NEAR_IDS);
    for (struct look *look = looks, *last = looks + n; look < last; look++) {
        uint64_t count = lk_cache_match(look->entry, look->key);
        if (__builtin_expect(count <= LK_CACHE_NEAR_IDS, 1)) {
            memcpy(to, look->entry->ids, sizeof look->entry->ids); /* more than needed: no branch */
            to += count;
            continue;
        }
        size_t i = (size_t)(look - looks);
        const uint8_t *from = i == 0 ? p : stops[i - 1];
        out->n = (size_t)(to - out->ids);
        encode_piece(pieces, look->key, from, (size_t)(stops[i] - from), out);
        to = lk_tokens_room(out, (n - i) * LK_CACHE_NEAR_IDS);
    }
    out->n = (size_t)(to - out->ids);
}

/* Every stage cuts the pieces of the one before; those of the last are encoded. */
static void encode_pieces(struct lk_pieces *pieces, uint32_t stage, const uint8_t *p,
                          const uint8_t *end, const uint8_t *limit, struct lk_tokens *out)
{
    const struct lk_pretok *pretok = pieces->pretok;
    const struct lk_cutter *cutter = &pretok->stages[stage];
    const uint8_t *stops[LK_PIECES_MAX];

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        if (stage + 1 == pretok->n)
            encode_batch(pieces, p, limit, stops, n, out);
        else
            for (size_t i = 0; i < n; i++)
                encode_pieces(pieces, stage + 1, i == 0 ? p : stops[i - 1], stops[i], limit,
                              out);
        p = stops[n - 1];
    }
}

void lk_pieces_encode(struct lk_pieces *pieces, const uint8_t *p, const uint8_t *end,
                      const uint8_t *limit, struct lk_tokens *out)
{
    encode_pieces(pieces, 0, p, end, limit, out);
}
