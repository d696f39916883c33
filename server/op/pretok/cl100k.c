/*
 * cl100k's expression (GPT-3.5, GPT-4), also that of Llama 3 and, with single digits, Qwen.
 */
#include "op/pretok/families.h"
#include "op/pretok/runs.h"

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

LK_CUT_ONE_BY_ONE(cut_cl100k_3, cl100k(unicode, p, end, 3))
LK_CUT_ONE_BY_ONE(cut_cl100k_1, cl100k(unicode, p, end, 1))

lk_cut_fn *lk_cut_cl100k(enum lk_simd simd)
{
    (void)simd;
    return cut_cl100k_3;
}

lk_cut_fn *lk_cut_qwen(enum lk_simd simd)
{
    (void)simd;
    return cut_cl100k_1;
}
