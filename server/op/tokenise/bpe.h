/*
 * Byte pair encoding of one piece of text (Sennrich, Haddow, Birch 2016), over bytes (GPT-2) or over
 * characters (SentencePiece): a piece starts as its symbols' tokens; as long as two neighbours are a
 * known pair, the pair of lowest rank is replaced by its token, the leftmost one where several have that
 * rank.
 */
#ifndef LK_OP_TOKENISE_BPE_H
#define LK_OP_TOKENISE_BPE_H

#include "base/bytes.h"
#include "op/tokenise/alphabet.h"
#include "op/tokenise/table.h"

/* A piece of at most 15 bytes as a value: its bytes, zeros, and its length in the last byte. */
struct lk_key {
    uint64_t lo, hi;
};

#define LK_KEY_BYTES 15
#define LK_RANKS_MAX ((1u << 26) - 1) /* so many fit into 32 bits together with a place below 64 */

/* What a pair of neighbours becomes: rank << 32 | id, or LK_NO_MERGE. */
#define LK_NO_MERGE UINT64_MAX

struct lk_bpe {
    struct lk_alphabet alphabet;
    struct lk_pair {
        uint64_t key;   /* left << 32 | right, or LK_NO_MERGE: free */
        uint64_t merge; /* rank << 32 | id */
    } *pairs; /* open addressing */
    size_t pairs_n, pairs_mask;
    struct lk_table pairs_table;
    /* A bit for each pair's hash: nearly all pairs that are none are known by it, out of a much smaller
     * memory than the pairs'. */
    uint64_t *maybe;
    unsigned maybe_shift;
    uint32_t ranks_n; /* ranks are below it */
    /* Where each byte has a token: what two bytes in a row become, at left << 8 | right; else NULL. */
    uint64_t *byte_pairs;
    struct lk_word {
        struct lk_key key; /* hi == 0: free (the length is never 0) */
        uint32_t id;
    } *words; /* pieces that are one token whatever merging makes of them; open addressing */
    size_t words_n, words_mask;
    struct lk_table words_table;
    struct lk_names long_words; /* the same, longer than LK_KEY_BYTES */
};

#define LK_WAITING_PLACES 14

/* One thread's memory for long pieces; see bpe_long.c. Zeroed = empty. */
struct lk_bpe_scratch {
    struct lk_symbol {
        uint32_t id, prev, next;
        uint32_t rank, made; /* of the pair that begins here */
    } *symbols;
    struct lk_waiting {
        uint32_t at[LK_WAITING_PLACES]; /* the last @n of them */
        uint32_t n, next;
    } *waiting; /* a line of memory each, in the lists of @first or in the one of free ones */
    size_t cap, waiting_cap;
    uint32_t waiting_free, waiting_n;
    struct lk_table symbols_table, waiting_table; /* what they lie in */
    uint32_t *first; /* by rank: a list of places where a pair has or had it */
    uint64_t *ranks, *ranks_far; /* bits: the lists that are not empty; the words of @ranks that are not 0 */
    uint32_t ranks_n;
    struct lk_tokens places, spare; /* of the rank at work */
    uint64_t *early; /* a binary heap: pairs of the rank at work, or below, that came up since */
    size_t early_n, early_cap;
};

/* Makes room for @pairs merges and @words short words. Every id of @bpe is unset. */
void lk_bpe_init(struct lk_bpe *bpe, size_t pairs, size_t words);
void lk_bpe_done(struct lk_bpe *bpe);
/* At most @pairs of them, with ranks below LK_RANKS_MAX; the last one given for a pair counts. Pairs of the
 * same rank become the same token. */
void lk_bpe_add_pair(struct lk_bpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* At most @words of them with up to LK_KEY_BYTES bytes; no string twice. */
void lk_bpe_add_word(struct lk_bpe *bpe, const uint8_t *bytes, size_t n, uint32_t id);
/* After the last pair and the alphabet: what only makes merging faster. */
void lk_bpe_finish(struct lk_bpe *bpe);

/* Merges @n bytes (1 … 2^32 - 2) and writes the ids to @ret_ids, which has room for @n of them; returns
 * how many. */
size_t lk_bpe_merge(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, const uint8_t *bytes,
                    size_t n, uint32_t *ret_ids);
/* The same for initial ids of any number, by memory for them; what lk_bpe_merge does with a long piece. */
size_t lk_bpe_merge_long(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t *ids,
                         size_t n);
void lk_bpe_scratch_done(struct lk_bpe_scratch *scratch);
/* Gives back what only an extraordinary piece needed. */
void lk_bpe_scratch_trim(struct lk_bpe_scratch *scratch);

extern const uint64_t lk_key_masks_lo[LK_KEY_BYTES + 1], lk_key_masks_hi[LK_KEY_BYTES + 1];

/* The halves of the key of @n <= LK_KEY_BYTES bytes at @p, where 16 may be read. */
static inline uint64_t lk_key_lo(const uint8_t *p, size_t n)
{
    return lk_get_u64(p) & lk_key_masks_lo[n];
}

static inline uint64_t lk_key_hi(const uint8_t *p, size_t n)
{
    return (lk_get_u64(p + 8) & lk_key_masks_hi[n]) | (uint64_t)n << 56;
}

/* The key of @n <= LK_KEY_BYTES bytes at @p, of which nothing behind is read. */
struct lk_key lk_key_at_end(const uint8_t *p, size_t n);

/* Both halves of a product of the two (as in wyhash, Wang Yi): every bit of the key counts. */
static inline uint32_t lk_key_hash(struct lk_key key)
{
    unsigned __int128 product = (unsigned __int128)(key.lo ^ 0x9e3779b97f4a7c15u) *
                                (key.hi ^ 0xd6e8feb86659fd93u);
    return (uint32_t)((uint64_t)product ^ (uint64_t)(product >> 64));
}

/* lk_bpe_word may follow. */
static inline void lk_bpe_word_soon(const struct lk_bpe *bpe, uint32_t hash)
{
    __builtin_prefetch(&bpe->words[hash & bpe->words_mask]);
}

/* The id of a short piece that is one token, or LK_NO_ID. */
static inline uint32_t lk_bpe_word(const struct lk_bpe *bpe, struct lk_key key, uint32_t hash)
{
    for (size_t at = hash & bpe->words_mask; bpe->words[at].key.hi != 0;
         at = (at + 1) & bpe->words_mask)
        if (bpe->words[at].key.lo == key.lo && bpe->words[at].key.hi == key.hi)
            return bpe->words[at].id;
    return LK_NO_ID;
}

static inline uint64_t lk_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static inline uint64_t lk_pair_hash(uint64_t key)
{
    return key * 0x9e3779b97f4a7c15u;
}

/* The pair's entry, or the free one where it belongs. */
static inline struct lk_pair *lk_find_pair(const struct lk_bpe *bpe, uint64_t key, uint64_t hash)
{
    size_t at = (size_t)(hash >> 32) & bpe->pairs_mask;

    while (bpe->pairs[at].key != key && bpe->pairs[at].key != LK_NO_MERGE)
        at = (at + 1) & bpe->pairs_mask;
    return &bpe->pairs[at];
}

/* False: it is no pair. */
static inline bool lk_maybe_pair(const struct lk_bpe *bpe, uint64_t hash)
{
    uint64_t bit = hash >> bpe->maybe_shift;
    return bpe->maybe[bit / 64] >> (bit % 64) & 1;
}

static inline uint64_t lk_merge_of(const struct lk_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t key = lk_pair_key(left, right), hash = lk_pair_hash(key);

    /* A free entry has LK_NO_MERGE for its merge, too. */
    return lk_maybe_pair(bpe, hash) ? lk_find_pair(bpe, key, hash)->merge : LK_NO_MERGE;
}

#endif
