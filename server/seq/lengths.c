#include "seq/lengths.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>

static uint32_t words_of(uint32_t max)
{
    return max / 64 + 2; /* one spare word: unaligned reads may touch it */
}

void lengths_init(struct lengths *set, uint32_t max)
{
    set->max = max;
    set->words = words_of(max);
    set->present = lk_zalloc(set->words, sizeof *set->present);
    set->reversed = lk_zalloc(set->words, sizeof *set->reversed);
    set->count = lk_zalloc((size_t)max + 1, sizeof *set->count);
}

void lengths_done(struct lengths *set)
{
    free(set->present);
    free(set->reversed);
    free(set->count);
    *set = (struct lengths){0};
}

uint64_t lengths_bound(uint32_t max)
{
    return 2 * sizeof(uint64_t) * (uint64_t)words_of(max) + sizeof(uint32_t) * ((uint64_t)max + 1);
}

void lengths_add(struct lengths *set, uint32_t length)
{
    LK_CHECK(length >= 1 && length <= set->max);
    if (set->count[length]++ == 0) {
        uint32_t back = set->max - length;
        set->present[length / 64] |= 1ull << length % 64;
        set->reversed[back / 64] |= 1ull << back % 64;
    }
}

void lengths_remove(struct lengths *set, uint32_t length)
{
    LK_CHECK(length >= 1 && length <= set->max && set->count[length] > 0);
    if (--set->count[length] == 0) {
        uint32_t back = set->max - length;
        set->present[length / 64] &= ~(1ull << length % 64);
        set->reversed[back / 64] &= ~(1ull << back % 64);
    }
}

static uint32_t highest(uint64_t word)
{
    return 63 - (uint32_t)__builtin_clzll(word);
}

uint32_t lengths_at_most(const struct lengths *set, uint32_t limit)
{
    if (limit > set->max)
        limit = set->max;
    uint32_t w = limit / 64;
    uint64_t word = set->present[w] & (~0ull >> (63 - limit % 64));
    while (word == 0 && w > 0)
        word = set->present[--w];
    return word != 0 ? w * 64 + highest(word) : 0;
}

uint32_t lengths_at_least(const struct lengths *set, uint32_t limit)
{
    if (limit > set->max)
        return 0;
    uint32_t w = limit / 64;
    uint64_t word = set->present[w] & (~0ull << limit % 64);
    while (word == 0 && ++w < set->words)
        word = set->present[w];
    return word != 0 ? w * 64 + (uint32_t)__builtin_ctzll(word) : 0;
}

/* The word of @bits that begins at bit @at, which may lie before 0 or after the end. */
static uint64_t word_at(const uint64_t *bits, uint32_t words, int64_t at)
{
    int64_t w = at >= 0 ? at / 64 : -((63 - at) / 64);
    uint32_t shift = (uint32_t)(at - w * 64);
    uint64_t low = w >= 0 && w < words ? bits[w] : 0;
    uint64_t high = w + 1 >= 0 && w + 1 < words ? bits[w + 1] : 0;
    return shift == 0 ? low : low >> shift | high << (64 - shift);
}

/*
 * Bit i of present says that length i is there; length sum - i is there when bit T - (sum - i) of
 * reversed is set, which is bit i of reversed shifted down by T - sum. The conjunction of the two,
 * word by word from the top, is all pairs.
 */
uint32_t lengths_pair(const struct lengths *set, uint32_t sum, uint32_t limit)
{
    if (sum < 2)
        return 0;
    if (limit > sum - 1)
        limit = sum - 1;
    if (limit > set->max)
        limit = set->max;
    uint32_t floor = sum - sum / 2; /* a >= b */
    int64_t shift = (int64_t)set->max - (int64_t)sum;
    for (uint32_t w = limit / 64 + 1; w-- > floor / 64;) {
        uint64_t word = set->present[w];
        if (w == limit / 64)
            word &= ~0ull >> (63 - limit % 64);
        if (word == 0)
            continue;
        word &= word_at(set->reversed, set->words, (int64_t)w * 64 + shift);
        while (word != 0) {
            uint32_t a = w * 64 + highest(word);
            if (a < floor)
                return 0;
            if (2 * a != sum || set->count[a] >= 2)
                return a;
            word &= ~(1ull << a % 64);
        }
    }
    return 0;
}
