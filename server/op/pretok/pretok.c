/*
 * The scanners follow the alternatives of their expression in order; a comment quotes each. What a
 * backtracking engine would try and give up is worked out here once, so every scanner is linear and
 * needs no stack. \p{L} is a letter, \p{N} a number, \s a space; anything else (marks too) is "other".
 */
#include "op/pretok/pretok.h"

#include "base/bytes.h"

#include <string.h>

static inline unsigned class_at(const struct lk_unicode *unicode, const uint8_t *p,
                                const uint8_t *end, size_t *ret_n)
{
    return lk_flags_at(unicode, p, end, ret_n) & LK_CLASS_MASK;
}

static inline bool is_letter(unsigned class)
{
    return class - LK_CLASS_UPPER <= LK_CLASS_LETTER - LK_CLASS_UPPER;
}

static inline bool is_other(unsigned class)
{
    return class == LK_CLASS_OTHER || class == LK_CLASS_MARK;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte)) /* in all eight bytes of a word */

/* How many of the eight bytes in @v, from the lowest, are ASCII letters. */
static inline unsigned ascii_letters(uint64_t v)
{
    uint64_t lower = (v | EACH(0x20)) & EACH(0x7f);
    uint64_t from_a = lower + EACH(0x80 - 'a');    /* top bit: >= 'a' */
    uint64_t above_z = lower + EACH(0x80 - 'z' - 1); /* top bit: > 'z' */
    uint64_t other = ~(from_a & ~above_z & ~v) & EACH(0x80);
    return other == 0 ? 8 : (unsigned)__builtin_ctzll(other) / 8;
}

static inline const uint8_t *letters(const struct lk_unicode *unicode, const uint8_t *p,
                                     const uint8_t *end)
{
    size_t n;
    while (end - p >= 8) { /* words are short: mostly once, without a branch for each letter */
        n = ascii_letters(lk_get_u64(p));
        p += n;
        if (n < 8) {
            if (*p < 0x80)
                return p;
            break;
        }
    }
    while (p < end && is_letter(class_at(unicode, p, end, &n)))
        p += n;
    return p;
}

static inline const uint8_t *numbers(const struct lk_unicode *unicode, const uint8_t *p,
                                     const uint8_t *end, size_t max)
{
    size_t n;
    for (; max > 0 && p < end && class_at(unicode, p, end, &n) == LK_CLASS_NUMBER; max--)
        p += n;
    return p;
}

static inline const uint8_t *others(const struct lk_unicode *unicode, const uint8_t *p,
                                    const uint8_t *end)
{
    size_t n;
    while (p < end && is_other(class_at(unicode, p, end, &n)))
        p += n;
    return p;
}

static inline const uint8_t *newlines(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == '\r' || *p == '\n'))
        p++;
    return p;
}

/* What the run of spaces at @p yields: "\s+(?!\S)|\s+", and before them "\s*[\r\n]+" if @lines. */
static inline const uint8_t *spaces(const struct lk_unicode *unicode, const uint8_t *p,
                                    const uint8_t *end, bool lines)
{
    const uint8_t *start = p, *last = p, *newline = NULL;
    size_t n;

    while (p < end && class_at(unicode, p, end, &n) == LK_CLASS_SPACE) {
        last = p;
        p += n;
        if (*last == '\n' || *last == '\r')
            newline = p;
    }
    if (lines && newline != NULL)
        return newline;
    return p == end || last == start ? p : last;
}

/* Bytes of "'s|'t|'re|'ve|'m|'ll|'d" at @p, which is an apostrophe; 0 when it is none of them. */
static inline size_t contraction(const uint8_t *p, const uint8_t *end)
{
    size_t left = (size_t)(end - p);

    if (left < 2)
        return 0;
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd')
        return 2;
    if (left < 3)
        return 0;
    return (p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') ||
                   (p[1] == 'l' && p[2] == 'l')
               ? 3
               : 0;
}

/* The same under (?i): U+017F, the long s, is an s too. */
static inline size_t contraction_i(const uint8_t *p, const uint8_t *end)
{
    size_t left = (size_t)(end - p);
    uint8_t lower[3] = {'\'', 0, 0};

    if (left < 2)
        return 0;
    if (left >= 3 && p[1] == 0xc5 && p[2] == 0xbf)
        return 3;
    for (size_t i = 1; i < 3 && i < left; i++)
        lower[i] = p[i] >= 'A' && p[i] <= 'Z' ? (uint8_t)(p[i] | 0x20) : p[i];
    return contraction(lower, lower + (left < 3 ? left : 3));
}

size_t lk_scan_whole(const struct lk_unicode *unicode, const uint8_t *p, const uint8_t *end,
                     const uint8_t *ret_stops[LK_SCAN_MAX])
{
    (void)unicode;
    (void)p;
    ret_stops[0] = end;
    return 1;
}

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

/* A scanner of many pieces from the expression for one. */
#define SCANNER(name, one)                                                                         \
    size_t name(const struct lk_unicode *unicode, const uint8_t *p, const uint8_t *end,            \
                const uint8_t *ret_stops[LK_SCAN_MAX])                                             \
    {                                                                                              \
        size_t n = 0;                                                                              \
        for (; n < LK_SCAN_MAX && p < end; n++)                                                    \
            ret_stops[n] = p = one;                                                                \
        return n;                                                                                  \
    }

SCANNER(lk_scan_gpt2, gpt2(unicode, p, end))
static SCANNER(scan_cl100k_3, cl100k(unicode, p, end, 3))
static SCANNER(scan_cl100k_1, cl100k(unicode, p, end, 1))
static SCANNER(scan_o200k, o200k(unicode, p, end, 3, true))
static SCANNER(scan_tekken, o200k(unicode, p, end, 1, false))

#define A_CLASS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define B_CLASS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

static const struct {
    const char *pattern;
    lk_scan_fn *scan;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     lk_scan_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     lk_scan_gpt2},
    /* cl100k, Llama 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_cl100k_3},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     scan_cl100k_3},
    /* Qwen 2, Qwen 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_cl100k_1},
    /* o200k: GPT-4o, gpt-oss, Llama 4 */
    {PREFIX A_CLASS "*" B_CLASS "+" CONTRACTION "|" PREFIX A_CLASS "+" B_CLASS "*" CONTRACTION
     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_o200k},
    /* Mistral's Tekken */
    {PREFIX A_CLASS "*" B_CLASS "+|" PREFIX A_CLASS "+" B_CLASS "*"
     "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_tekken},
};

lk_scan_fn *lk_scan_of_pattern(const uint8_t *pattern, size_t n)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (n == strlen(patterns[i].pattern) && memcmp(patterns[i].pattern, pattern, n) == 0)
            return patterns[i].scan;
    return NULL;
}
