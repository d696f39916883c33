/*
 * Byte pair encoding (Sennrich, Haddow, Birch 2016) over bytes (GPT-2): a piece starts as its bytes'
 * tokens; as long as two neighbours are a known pair, the pair of lowest rank is replaced by its
 * token, the leftmost one where several have that rank.
 *
 * Short pieces are merged by looking for the minimum each time, which beats any structure up to a few
 * dozen symbols. Long ones use a doubly linked list and a binary heap of (rank, place). An entry of
 * the heap is stale when the pair at its place has another rank by now: ranks are unique to pairs.
 * Each merge adds at most two entries, so the whole is O(n log n), whatever the text.
 */
#include "op/tokenise/bpe.h"

#include <stdlib.h>

#define SMALL 48u
#define NONE UINT64_MAX
#define NOWHERE UINT32_MAX
#define SCRATCH_KEPT 65536u /* symbols */

#define M(n) ((n) >= 8 ? UINT64_MAX : (UINT64_C(1) << ((n) * 8 & 63)) - 1)
#define K(n) {M(n), (n) > 8 ? M((n)-8) : 0}
const struct lk_key lk_key_masks[LK_KEY_BYTES + 1] = {K(0), K(1), K(2),  K(3),  K(4),  K(5),
                                                      K(6), K(7), K(8),  K(9),  K(10), K(11),
                                                      K(12), K(13), K(14), K(15)};
#undef K
#undef M

/* A power of two, at least twice @n. */
static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < n * 2)
        size *= 2;
    return size;
}

void lk_bpe_init(struct lk_bpe *bpe, size_t pairs, size_t words)
{
    *bpe = (struct lk_bpe){0};
    lk_alphabet_init(&bpe->alphabet);
    bpe->pairs_mask = table_size(pairs) - 1;
    bpe->pairs = lk_zalloc(bpe->pairs_mask + 1, sizeof *bpe->pairs);
    for (size_t i = 0; i <= bpe->pairs_mask; i++)
        bpe->pairs[i].left = LK_NO_ID;
    bpe->words_mask = table_size(words) - 1;
    bpe->words = lk_zalloc(bpe->words_mask + 1, sizeof *bpe->words);
}

void lk_bpe_done(struct lk_bpe *bpe)
{
    free(bpe->pairs);
    free(bpe->words);
    lk_alphabet_done(&bpe->alphabet);
    lk_names_done(&bpe->long_words);
    *bpe = (struct lk_bpe){0};
}

/* The pair's entry, or the free one where it belongs. */
static inline struct lk_pair *find_pair(const struct lk_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(h >> 32) & bpe->pairs_mask;

    while (bpe->pairs[at].left != LK_NO_ID &&
           (bpe->pairs[at].left != left || bpe->pairs[at].right != right))
        at = (at + 1) & bpe->pairs_mask;
    return &bpe->pairs[at];
}

void lk_bpe_add_pair(struct lk_bpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    struct lk_pair *pair = find_pair(bpe, left, right);

    if (pair->left == LK_NO_ID) {
        LK_CHECK(bpe->pairs_n < bpe->pairs_mask); /* one stays free: it ends a search */
        bpe->pairs_n++;
    }
    *pair = (struct lk_pair){.left = left, .right = right, .rank = rank, .id = id};
}

void lk_bpe_add_word(struct lk_bpe *bpe, const uint8_t *bytes, size_t n, uint32_t id)
{
    if (n > LK_KEY_BYTES) {
        LK_CHECK(lk_names_add(&bpe->long_words, bytes, n, id));
        return;
    }
    struct lk_key key = lk_key_of(bytes, n, bytes + n);
    size_t at = lk_key_hash(key) & bpe->words_mask;
    while (bpe->words[at].key.hi != 0)
        at = (at + 1) & bpe->words_mask;
    LK_CHECK(bpe->words_n++ < bpe->words_mask);
    bpe->words[at] = (struct lk_word){.key = key, .id = id};
}

static inline uint64_t best_of(const struct lk_bpe *bpe, uint32_t left, uint32_t right)
{
    const struct lk_pair *pair = find_pair(bpe, left, right);
    return pair->left == LK_NO_ID ? NONE : (uint64_t)pair->rank << 32 | pair->id;
}

static size_t merge_small(const struct lk_bpe *bpe, uint32_t *ids, size_t n)
{
    uint64_t best[SMALL];

    for (size_t i = 0; i + 1 < n; i++)
        best[i] = best_of(bpe, ids[i], ids[i + 1]);
    while (n > 1) {
        size_t at = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (best[i] < best[at])
                at = i;
        if (best[at] == NONE)
            break;
        ids[at] = (uint32_t)best[at];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
        if (at + 1 < n) {
            memmove(best + at + 1, best + at + 2, (n - at - 2) * sizeof *best);
            best[at] = best_of(bpe, ids[at], ids[at + 1]);
        }
        if (at > 0)
            best[at - 1] = best_of(bpe, ids[at - 1], ids[at]);
    }
    return n;
}

static void sift_down(uint64_t *heap, size_t n, size_t at)
{
    uint64_t item = heap[at];

    for (size_t child; (child = at * 2 + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= item)
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static void sift_up(uint64_t *heap, size_t at)
{
    uint64_t item = heap[at];

    for (size_t parent; at > 0 && heap[parent = (at - 1) / 2] > item; at = parent)
        heap[at] = heap[parent];
    heap[at] = item;
}

static void reserve(struct lk_bpe_scratch *scratch, size_t n)
{
    if (n <= scratch->cap)
        return;
    scratch->cap = n < 4096 ? 4096 : n;
    free(scratch->symbols);
    free(scratch->heap);
    scratch->symbols = lk_zalloc(scratch->cap, sizeof *scratch->symbols);
    scratch->heap = lk_zalloc(scratch->cap * 2, sizeof *scratch->heap);
}

/* Sets the pair that begins at @at anew; a known one goes into the heap. Returns the heap's size. */
static size_t renew(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, size_t heap_n,
                    uint32_t at)
{
    struct lk_symbol *symbol = &scratch->symbols[at];

    symbol->best = symbol->next == NOWHERE
                       ? NONE
                       : best_of(bpe, symbol->id, scratch->symbols[symbol->next].id);
    if (symbol->best != NONE) {
        LK_CHECK(heap_n < scratch->cap * 2);
        scratch->heap[heap_n] = (symbol->best & 0xffffffff00000000u) | at;
        sift_up(scratch->heap, heap_n++);
    }
    return heap_n;
}

static size_t fill(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, const uint32_t *ids,
                   size_t n)
{
    struct lk_symbol *symbols = scratch->symbols;
    size_t heap_n = 0;

    for (size_t i = 0; i < n; i++) {
        symbols[i].id = ids[i];
        symbols[i].prev = i == 0 ? NOWHERE : (uint32_t)i - 1;
        symbols[i].next = i + 1 == n ? NOWHERE : (uint32_t)i + 1;
        symbols[i].best = i + 1 == n ? NONE : best_of(bpe, ids[i], ids[i + 1]);
        if (symbols[i].best != NONE)
            scratch->heap[heap_n++] = (symbols[i].best & 0xffffffff00000000u) | i;
    }
    for (size_t i = heap_n / 2; i-- > 0;)
        sift_down(scratch->heap, heap_n, i);
    return heap_n;
}

static size_t merge_large(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t *ids,
                          size_t n)
{
    reserve(scratch, n);
    struct lk_symbol *symbols = scratch->symbols;
    uint64_t *heap = scratch->heap;
    size_t heap_n = fill(bpe, scratch, ids, n), count = 0;

    while (heap_n > 0) {
        uint64_t top = heap[0];
        uint32_t at = (uint32_t)top;
        heap[0] = heap[--heap_n];
        if (heap_n > 1)
            sift_down(heap, heap_n, 0);
        struct lk_symbol *symbol = &symbols[at];
        if (symbol->best == NONE || symbol->best >> 32 != top >> 32)
            continue;
        symbol->id = (uint32_t)symbol->best;
        struct lk_symbol *gone = &symbols[symbol->next];
        gone->best = NONE;
        symbol->next = gone->next;
        if (symbol->next != NOWHERE)
            symbols[symbol->next].prev = at;
        heap_n = renew(bpe, scratch, heap_n, at);
        if (symbol->prev != NOWHERE)
            heap_n = renew(bpe, scratch, heap_n, symbol->prev);
    }
    for (uint32_t at = 0; at != NOWHERE; at = symbols[at].next)
        ids[count++] = symbols[at].id;
    return count;
}

size_t lk_bpe_merge(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, const uint8_t *bytes,
                    size_t n, uint32_t *ret_ids)
{
    LK_CHECK(n < NOWHERE);
    size_t count = lk_alphabet_ids(&bpe->alphabet, bytes, n, ret_ids);

    return count <= SMALL ? merge_small(bpe, ret_ids, count)
                          : merge_large(bpe, scratch, ret_ids, count);
}

void lk_bpe_scratch_done(struct lk_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct lk_bpe_scratch){0};
}

void lk_bpe_scratch_trim(struct lk_bpe_scratch *scratch)
{
    if (scratch->cap > SCRATCH_KEPT)
        lk_bpe_scratch_done(scratch);
}
