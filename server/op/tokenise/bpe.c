/*
 * The tables, and merging of short pieces.
 *
 * Up to 64 symbols stay where they are in an array; a word of bits says which are left, so that a
 * symbol's neighbours are found by counting zeros. The next pair is the minimum of an array of rank and
 * place in one number: that beats any structure for so few. Long pieces: bpe_long.c.
 */
#include "op/tokenise/bpe.h"

#include <stdlib.h>

#define SMALL 64u
#define NONE LK_NO_MERGE
#define MAYBE_BITS 8u /* a pair, at least: one in 8 of what is no pair is taken for one at most */

#define M(n) ((n) <= 0 ? 0 : (n) >= 8 ? UINT64_MAX : (UINT64_C(1) << ((n) * 8 & 63)) - 1)
#define EACH(at)                                                                                   \
    {M(0 - (at)),  M(1 - (at)),  M(2 - (at)),  M(3 - (at)),  M(4 - (at)),  M(5 - (at)),            \
     M(6 - (at)),  M(7 - (at)),  M(8 - (at)),  M(9 - (at)),  M(10 - (at)), M(11 - (at)),           \
     M(12 - (at)), M(13 - (at)), M(14 - (at)), M(15 - (at))}
const uint64_t lk_key_masks_lo[LK_KEY_BYTES + 1] = EACH(0);
const uint64_t lk_key_masks_hi[LK_KEY_BYTES + 1] = EACH(8);
#undef EACH
#undef M

struct lk_key lk_key_at_end(const uint8_t *p, size_t n)
{
    uint8_t copy[16] = {0};

    memcpy(copy, p, n);
    return (struct lk_key){.lo = lk_key_lo(copy, n), .hi = lk_key_hi(copy, n)};
}

/* A power of two, at least one and a half times @n. */
static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < n + n / 2)
        size *= 2;
    return size;
}

void lk_bpe_init(struct lk_bpe *bpe, size_t pairs, size_t words)
{
    *bpe = (struct lk_bpe){0};
    lk_alphabet_init(&bpe->alphabet);
    bpe->pairs_mask = table_size(pairs) - 1;
    bpe->pairs_table = lk_table_new(bpe->pairs_mask + 1, sizeof *bpe->pairs);
    bpe->pairs = bpe->pairs_table.data;
    memset(bpe->pairs, 0xff, (bpe->pairs_mask + 1) * sizeof *bpe->pairs);
    bpe->maybe_shift = 58;
    while (UINT64_C(1) << (64 - bpe->maybe_shift) < pairs * MAYBE_BITS)
        bpe->maybe_shift--;
    bpe->maybe = lk_zalloc((size_t)1 << (58 - bpe->maybe_shift), sizeof *bpe->maybe);
    bpe->words_mask = table_size(words) - 1;
    bpe->words_table = lk_table_new(bpe->words_mask + 1, sizeof *bpe->words);
    bpe->words = bpe->words_table.data;
}

void lk_bpe_done(struct lk_bpe *bpe)
{
    lk_table_done(&bpe->pairs_table);
    free(bpe->maybe);
    free(bpe->byte_pairs);
    lk_table_done(&bpe->words_table);
    lk_alphabet_done(&bpe->alphabet);
    lk_names_done(&bpe->long_words);
    *bpe = (struct lk_bpe){0};
}

void lk_bpe_add_pair(struct lk_bpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    uint64_t key = lk_pair_key(left, right);
    uint64_t hash = lk_pair_hash(key), bit = hash >> bpe->maybe_shift;
    struct lk_pair *pair = lk_find_pair(bpe, key, hash);

    if (pair->key == NONE) {
        LK_CHECK(bpe->pairs_n < bpe->pairs_mask); /* one stays free: it ends a search */
        bpe->pairs_n++;
    }
    bpe->maybe[bit / 64] |= UINT64_C(1) << (bit % 64);
    *pair = (struct lk_pair){.key = key, .merge = (uint64_t)rank << 32 | id};
    LK_CHECK(rank < LK_RANKS_MAX);
    if (rank >= bpe->ranks_n)
        bpe->ranks_n = rank + 1;
}

void lk_bpe_finish(struct lk_bpe *bpe)
{
    const uint32_t *ids = bpe->alphabet.byte_id;

    if (bpe->alphabet.characters)
        return;
    for (unsigned b = 0; b < 256; b++)
        if (ids[b] == LK_NO_ID)
            return;
    bpe->byte_pairs = lk_zalloc(65536, sizeof *bpe->byte_pairs);
    for (unsigned left = 0; left < 256; left++)
        for (unsigned right = 0; right < 256; right++)
            bpe->byte_pairs[left << 8 | right] = lk_merge_of(bpe, ids[left], ids[right]);
}

void lk_bpe_add_word(struct lk_bpe *bpe, const uint8_t *bytes, size_t n, uint32_t id)
{
    if (n > LK_KEY_BYTES) {
        LK_CHECK(lk_names_add(&bpe->long_words, bytes, n, id));
        return;
    }
    struct lk_key key = lk_key_at_end(bytes, n);
    size_t at = lk_key_hash(key) & bpe->words_mask;
    while (bpe->words[at].key.hi != 0)
        at = (at + 1) & bpe->words_mask;
    LK_CHECK(bpe->words_n++ < bpe->words_mask);
    bpe->words[at] = (struct lk_word){.key = key, .id = id};
}

/* ---- short pieces ---- */

/* Up to 64 symbols; those at a place whose bit is not set are gone. */
struct small {
    uint32_t keys[SMALL]; /* rank << 6 | place of the pair that begins there, or UINT32_MAX */
    uint32_t made[SMALL]; /* what it becomes */
    uint32_t *ids;
    uint64_t left;
};

static inline void small_set(struct small *small, unsigned at, uint64_t merge)
{
    small->keys[at] = merge == NONE ? UINT32_MAX : (uint32_t)(merge >> 32) << 6 | at;
    small->made[at] = (uint32_t)merge;
}

/* Of @n numbers, a multiple of four. */
static inline uint32_t minimum(const uint32_t *keys, size_t n)
{
    uint32_t a = keys[0], b = keys[1], c = keys[2], d = keys[3];

    for (size_t i = 4; i < n; i += 4) {
        a = keys[i] < a ? keys[i] : a;
        b = keys[i + 1] < b ? keys[i + 1] : b;
        c = keys[i + 2] < c ? keys[i + 2] : c;
        d = keys[i + 3] < d ? keys[i + 3] : d;
    }
    a = b < a ? b : a;
    c = d < c ? d : c;
    return c < a ? c : a;
}

/* Merges the pair at @at and renews the pairs on both sides. Both are asked for before either is needed:
 * what a merge costs is waiting for memory. */
static inline void small_merge(const struct lk_bpe *bpe, struct small *small, unsigned at)
{
    uint64_t after = small->left & (UINT64_MAX << at << 1);
    uint64_t before = small->left & ~(UINT64_MAX << at);
    uint32_t id = small->made[at];

    small->ids[at] = id;
    small->keys[__builtin_ctzll(after)] = UINT32_MAX;
    small->left &= ~(after & -after);
    after &= after - 1;
    unsigned next = after == 0 ? 0 : (unsigned)__builtin_ctzll(after);
    unsigned prev = before == 0 ? 0 : 63 - (unsigned)__builtin_clzll(before);
    uint64_t right = lk_pair_key(id, small->ids[next]), left = lk_pair_key(small->ids[prev], id);
    uint64_t right_hash = lk_pair_hash(right), left_hash = lk_pair_hash(left);
    bool right_maybe = lk_maybe_pair(bpe, right_hash), left_maybe = lk_maybe_pair(bpe, left_hash);
    small_set(small, at, right_maybe && after != 0 ? lk_find_pair(bpe, right, right_hash)->merge : NONE);
    if (before != 0)
        small_set(small, prev, left_maybe ? lk_find_pair(bpe, left, left_hash)->merge : NONE);
}

static size_t small_gather(const struct small *small)
{
    size_t n = 0;

    for (uint64_t left = small->left; left != 0; left &= left - 1)
        small->ids[n++] = small->ids[__builtin_ctzll(left)];
    return n;
}

/* @bytes: those that @ids are the tokens of, one each, if the table of byte pairs may be used. */
static size_t merge_small(const struct lk_bpe *bpe, const uint8_t *bytes, uint32_t *ids, size_t n)
{
    struct small small = {.ids = ids, .left = UINT64_MAX >> (64 - n)};
    size_t padded = (n + 3) & ~(size_t)3;

    for (unsigned i = 0; i + 1 < n; i++)
        small_set(&small, i, bytes != NULL ? bpe->byte_pairs[bytes[i] << 8 | bytes[i + 1]]
                                           : lk_merge_of(bpe, ids[i], ids[i + 1]));
    for (size_t i = n - 1; i < padded; i++)
        small.keys[i] = UINT32_MAX;
    for (uint32_t key; (key = minimum(small.keys, padded)) != UINT32_MAX;)
        small_merge(bpe, &small, key & 63);
    return small_gather(&small);
}

size_t lk_bpe_merge(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, const uint8_t *bytes,
                    size_t n, uint32_t *ret_ids)
{
    LK_CHECK(n < UINT32_MAX);
    size_t count = lk_alphabet_ids(&bpe->alphabet, bytes, n, ret_ids);

    if (count < 2)
        return count;
    if (count <= SMALL)
        return merge_small(bpe, bpe->byte_pairs == NULL ? NULL : bytes, ret_ids, count);
    return lk_bpe_merge_long(bpe, scratch, ret_ids, count);
}
