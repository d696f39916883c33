/*
 * o200k's expression (GPT-4o, gpt-oss, Llama 4), and Mistral's Tekken, which is like it.
 */
#include "op/pretok/families.h"
#include "op/pretok/runs.h"

/* Where "A*B+" ends from @p, with A = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], B = [\p{Ll}\p{Lm}\p{Lo}\p{M}]; NULL
 * when it does not match; and where A* alone ends. What is in both classes goes to A* first, and the
 * last of it is given back to B+ when no \p{Ll} follows. */
static inline const uint8_t *cased_word(const struct lk_unicode *unicode, const uint8_t *p,
                                        const uint8_t *end, const uint8_t **ret_upper)
{
    const uint8_t *both = NULL;
    unsigned class = LK_CLASS_OTHER;
    size_t n;

    for (; p < end; p += n) {
        class = class_at(unicode, p, end, &n);
        if (class == LK_CLASS_LETTER || class == LK_CLASS_MARK)
            both = p + n;
        else if (class != LK_CLASS_UPPER)
            break;
    }
    *ret_upper = p;
    if (p == end || class != LK_CLASS_LOWER)
        return both;
    while (p < end) {
        class = class_at(unicode, p, end, &n);
        if (class != LK_CLASS_LOWER && class != LK_CLASS_LETTER && class != LK_CLASS_MARK)
            break;
        p += n;
    }
    return p;
}

/* [^\r\n\p{L}\p{N}]?A*B+|[^\r\n\p{L}\p{N}]?A+B* with A and B as above; NULL: no match. The second is
 * only reached where A+ is all upper case and no B follows. */
static inline const uint8_t *o200k_word(const struct lk_unicode *unicode, const uint8_t *p,
                                        const uint8_t *end, unsigned class, size_t n)
{
    const uint8_t *word, *upper, *own;

    if (is_letter(class)) {
        word = cased_word(unicode, p, end, &upper);
        return word != NULL ? word : upper;
    }
    if (class == LK_CLASS_NUMBER || *p == '\r' || *p == '\n')
        return NULL;
    word = cased_word(unicode, p + n, end, &upper); /* the first character is the prefix */
    if (word != NULL)
        return word;
    if (class == LK_CLASS_MARK) /* or, itself in A and B, part of the word */
        return cased_word(unicode, p, end, &own);
    return upper > p + n ? upper : NULL;
}

/* The above, each with (?i:'s|'t|'re|'ve|'m|'ll|'d)? after it if @contractions, then \p{N}{1,digits}|
 *  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline const uint8_t *o200k(const struct lk_unicode *unicode, const uint8_t *p,
                                   const uint8_t *end, size_t digits, bool contractions)
{
    size_t n;
    unsigned class = class_at(unicode, p, end, &n);
    const uint8_t *word = o200k_word(unicode, p, end, class, n);

    if (word != NULL)
        return contractions && word < end && *word == '\'' ? word + contraction_i(word, end) : word;
    if (class == LK_CLASS_NUMBER)
        return numbers(unicode, p + n, end, digits - 1);
    const uint8_t *q = *p == ' ' ? p + 1 : p;
    if (q == end || !is_other(class_at(unicode, q, end, &n)))
        return spaces(unicode, p, end, true);
    q = others(unicode, q + n, end);
    while (q < end && (*q == '\r' || *q == '\n' || *q == '/'))
        q++;
    return q;
}

LK_CUT_ONE_BY_ONE(cut_o200k, o200k(unicode, p, end, 3, true))
LK_CUT_ONE_BY_ONE(cut_tekken, o200k(unicode, p, end, 1, false))

lk_cut_fn *lk_cut_o200k(enum lk_simd simd)
{
    (void)simd;
    return cut_o200k;
}

lk_cut_fn *lk_cut_tekken(enum lk_simd simd)
{
    (void)simd;
    return cut_tekken;
}
