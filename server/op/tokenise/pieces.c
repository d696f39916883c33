#include "op/tokenise/pieces.h"

void lk_pieces_init(struct lk_pieces *pieces, const struct lk_pretok *pretok,
                    const struct lk_bpe *bpe)
{
    *pieces = (struct lk_pieces){.pretok = pretok, .bpe = bpe};
    lk_cache_init(&pieces->cache);
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
                                                   uint32_t hash, const uint8_t *p, size_t n,
                                                   struct lk_tokens *out)
{
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

struct batch {
    struct lk_key keys[LK_PIECES_MAX];
    uint32_t hashes[LK_PIECES_MAX];
};

/* The keys of @n pieces, whose entries are on their way from memory afterwards. */
static __attribute__((noinline)) void look_ahead(const struct lk_cache *cache, struct batch *batch,
                                                 const uint8_t *p, const uint8_t *end,
                                                 const uint8_t *const *stops, size_t n)
{
    const struct lk_cache_entry *entries = cache->entries;
    size_t mask = cache->mask;

    for (size_t i = 0; i < n; p = stops[i++]) {
        size_t bytes = (size_t)(stops[i] - p);
        if (bytes <= LK_KEY_BYTES)
            lk_key_put(&batch->keys[i], p, bytes, end);
        else
            batch->keys[i] = lk_cache_long_key(p, bytes);
        uint32_t hash = lk_key_hash(batch->keys[i]);
        batch->hashes[i] = hash;
        __builtin_prefetch(&entries[hash & mask]);
    }
}

/* Two short loops, so that the many pieces that the cache has cost no waiting: the processor works on a
 * dozen of them at a time as long as no branch is a surprise. */
static __attribute__((noinline)) void encode_batch(struct lk_pieces *pieces, const uint8_t *p,
                                                   const uint8_t *end, const uint8_t *const *stops,
                                                   size_t n, struct lk_tokens *out)
{
    struct batch batch;

    look_ahead(&pieces->cache, &batch, p, end, stops, n);
    uint32_t *to = lk_tokens_room(out, n * LK_CACHE_NEAR_IDS);
    const struct lk_cache_entry *entries = pieces->cache.entries;
    size_t mask = pieces->cache.mask;
    for (size_t i = 0; i < n; i++) {
        const struct lk_cache_entry *entry = &entries[batch.hashes[i] & mask];
        uint64_t count = lk_cache_match(entry, batch.keys[i]);
        if (count <= LK_CACHE_NEAR_IDS) {
            memcpy(to, entry->ids, sizeof entry->ids); /* more than needed: no branch */
            to += count;
            continue;
        }
        const uint8_t *from = i == 0 ? p : stops[i - 1];
        out->n = (size_t)(to - out->ids);
        encode_piece(pieces, batch.keys[i], batch.hashes[i], from, (size_t)(stops[i] - from), out);
        to = lk_tokens_room(out, (n - i) * LK_CACHE_NEAR_IDS);
        entries = pieces->cache.entries;
        mask = pieces->cache.mask;
    }
    out->n = (size_t)(to - out->ids);
}

/* Every stage cuts the pieces of the one before; those of the last are encoded. */
static void encode_pieces(struct lk_pieces *pieces, uint32_t stage, const uint8_t *p,
                          const uint8_t *end, struct lk_tokens *out)
{
    const struct lk_pretok *pretok = pieces->pretok;
    const struct lk_cutter *cutter = &pretok->stages[stage];
    const uint8_t *stops[LK_PIECES_MAX];

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        if (stage + 1 == pretok->n)
            encode_batch(pieces, p, end, stops, n, out);
        else
            for (size_t i = 0; i < n; i++)
                encode_pieces(pieces, stage + 1, i == 0 ? p : stops[i - 1], stops[i], out);
        p = stops[n - 1];
    }
}

void lk_pieces_encode(struct lk_pieces *pieces, const uint8_t *p, const uint8_t *end,
                      struct lk_tokens *out)
{
    encode_pieces(pieces, 0, p, end, out);
}
