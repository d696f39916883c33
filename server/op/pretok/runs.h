/*
 * What the families share: walking over runs of one class of characters, one character at a time.
 *
 * What a backtracking engine would try and give up is worked out once in these and in the families,
 * so every cutter is linear and needs no stack. \p{L} is a letter, \p{N} a number, \s a space; anything else
 * (marks and punctuation too) is "other".
 */
#ifndef LK_OP_PRETOK_RUNS_H
#define LK_OP_PRETOK_RUNS_H

#include "base/bytes.h"
#include "op/pretok/pretok.h"

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
    return class == LK_CLASS_PUNCT || class == LK_CLASS_MARK || class == LK_CLASS_OTHER;
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

/* A cutter from the code that finds one piece. */
#define LK_CUT_ONE_BY_ONE(name, one)                                                               \
    static size_t name(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,       \
                       const uint8_t *ret_stops[LK_PIECES_MAX])                                    \
    {                                                                                              \
        const struct lk_unicode *unicode = cutter->unicode;                                        \
        size_t n = 0;                                                                              \
        for (; n < LK_PIECES_MAX && p < end; n++)                                                  \
            ret_stops[n] = p = one;                                                                \
        return n;                                                                                  \
    }

#endif
