/*
 * GPT-2's expression (Radford et al. 2019), also that of GPT-NeoX, OLMo, StarCoder, Claude 2 …
 */
#include "op/pretok/families.h"
#include "op/pretok/masks.h"

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static inline const uint8_t *gpt2(const struct lk_unicode *unicode, const uint8_t *p,
                                  const uint8_t *end)
{
    const uint8_t *q = p;
    size_t n;

    if (*p == '\'') {
        n = contraction(p, end);
        if (n != 0)
            return p + n;
    }
    if (*p == ' ' && end - p > 1)
        q = p + 1;
    unsigned class = class_at(unicode, q, end, &n);
    if (is_letter(class))
        return letters(unicode, q + n, end);
    if (class == LK_CLASS_NUMBER)
        return numbers(unicode, q + n, end, SIZE_MAX);
    if (class == LK_CLASS_SPACE)
        return spaces(unicode, p, end, false);
    return others(unicode, q + n, end);
}

#ifdef __x86_64__
LK_TARGET_BITS
LK_ALWAYS_INLINE bool find(const struct lk_block *block, uint64_t *ret_cuts)
{
    uint64_t letter = block->upper | block->lower | block->uncased;
    uint64_t other = block->known & ~(letter | block->number | block->space);
    uint64_t blank_before = block->blank << 1;
    uint64_t words = (lk_firsts(letter) | lk_firsts(block->number) | lk_firsts(other)) & ~blank_before;
    uint64_t last_spaces = block->space & ~(block->space >> 1) & block->known >> 1;
    uint64_t cuts = words | lk_firsts(block->space) | last_spaces;

    *ret_cuts = lk_cut_contractions(block, ~(other << 1 | blank_before), false, cuts);
    return true;
}
#endif

LK_CUT_FAMILY(gpt2, find(&block, &cuts), gpt2(unicode, p, end))
