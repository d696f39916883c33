/*
 * GPT-2's expression (Radford et al. 2019), also that of GPT-NeoX, OLMo, StarCoder, Claude 2 …
 */
#include "op/pretok/families.h"
#include "op/pretok/runs.h"

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

LK_CUT_ONE_BY_ONE(cut_gpt2, gpt2(unicode, p, end))

lk_cut_fn *lk_cut_gpt2(enum lk_simd simd)
{
    (void)simd;
    return cut_gpt2;
}
