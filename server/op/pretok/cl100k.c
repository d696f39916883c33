/*
 * cl100k's expression (GPT-3.5, GPT-4), also that of Llama 3 and, with single digits, Qwen.
 */
#include "op/pretok/families.h"
#include "op/pretok/masks.h"

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
static inline const uint8_t *cl100k(const struct lk_unicode *unicode, const uint8_t *p,
                                    const uint8_t *end, size_t digits)
{
    size_t n, next_n;

    if (*p == '\'') {
        n = contraction_i(p, end);
        if (n != 0)
            return p + n;
    }
    unsigned class = class_at(unicode, p, end, &n);
    if (is_letter(class))
        return letters(unicode, p + n, end);
    if (class == LK_CLASS_NUMBER)
        return numbers(unicode, p + n, end, digits - 1);
    unsigned next = p + n < end ? class_at(unicode, p + n, end, &next_n) : LK_CLASS_SPACE;
    if (is_letter(next) && *p != '\r' && *p != '\n')
        return letters(unicode, p + n + next_n, end);
    if (is_other(class) || (*p == ' ' && is_other(next)))
        return newlines(others(unicode, p + n, end), end);
    return spaces(unicode, p, end, true);
}

#ifdef __x86_64__
LK_TARGET_BITS
LK_ALWAYS_INLINE bool find(const struct lk_block *block, uint64_t *ret_cuts, size_t digits)
{
    uint64_t letter = block->upper | block->lower | block->uncased;
    uint64_t other = block->known & ~(letter | block->number | block->space);
    uint64_t others = lk_firsts(other) & ~(block->blank << 1); /* each begins a piece */
    uint64_t others_newlines = lk_flood(block->newline & other << 1, block->newline);
    uint64_t space = block->space & ~others_newlines;
    uint64_t prefix = (space & ~block->newline) | others; /* if a letter follows */
    uint64_t cuts = others | (lk_firsts(letter) & ~(prefix << 1));

    cuts |= digits == 1 ? block->number : lk_threes(block->number);
    cuts |= lk_space_cuts(block, space, block->known >> 1);
    *ret_cuts = lk_cut_contractions(block, others, true, cuts);
    return true;
}
#endif

LK_CUT_FAMILY(cl100k, find(&block, &cuts, 3), cl100k(unicode, p, end, 3))
LK_CUT_FAMILY(qwen, find(&block, &cuts, 1), cl100k(unicode, p, end, 1))
