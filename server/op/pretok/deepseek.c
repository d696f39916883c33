/*
 * DeepSeek-V3's three expressions, each of which cuts the pieces of the one before as whole texts:
 *
 *   \p{N}{1,3}
 *   [一-龥぀-ゟ゠-ヿ]+
 *   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 *    ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * In one go: numbers, and what changes between CJK (U+4E00 to U+9FA5, U+3040 to U+30FF) and not,
 * are ends of texts, beyond which the third does not see. It finds nothing in a number, so that
 * this stays whole; nor in controls, unassigned code points and the like: those before what it
 * finds next are a piece.
 */
#include "op/pretok/families.h"
#include "op/pretok/masks.h"

enum { END_OF_PART = LK_CLASS_NUMBER }; /* to the third expression a number is no part of its text */

/* The class of the character at @p if it is of the same text that the third sees, which is one of CJK
 * or one of others. */
static inline unsigned part_at(const struct lk_unicode *unicode, const uint8_t *p, const uint8_t *end,
                               unsigned cjk, size_t *ret_n)
{
    *ret_n = 0;
    if (p == end)
        return END_OF_PART;
    unsigned flags = lk_flags_at(unicode, p, end, ret_n);
    return (flags & LK_CLASS_CJK) == cjk ? flags & LK_CLASS_MASK : END_OF_PART;
}

static inline bool in_word(unsigned class)
{
    return is_letter(class) || class == LK_CLASS_MARK;
}

static inline bool is_ascii_letter(uint8_t c)
{
    return (unsigned)((c | 0x20) - 'a') < 26;
}

/* "\s*[\r\n]+|\s+(?!\S)|\s+" from @p, which is a space. */
static inline const uint8_t *part_spaces(const struct lk_unicode *unicode, const uint8_t *p,
                                         const uint8_t *end)
{
    const uint8_t *q = p;
    size_t n;

    while (part_at(unicode, q, end, 0, &n) == LK_CLASS_SPACE)
        q += n;
    if (part_at(unicode, q, end, 0, &n) == END_OF_PART)
        end = q;
    return spaces(unicode, p, end, true);
}

static inline const uint8_t *deepseek(const struct lk_unicode *unicode, const uint8_t *p,
                                      const uint8_t *end)
{
    size_t n, next_n;
    unsigned cjk = lk_flags_at(unicode, p, end, &n) & LK_CLASS_CJK;
    unsigned class = part_at(unicode, p, end, cjk, &n);
    unsigned next = part_at(unicode, p + n, end, cjk, &next_n);
    const uint8_t *q = p + n;

    if (class == LK_CLASS_NUMBER)
        return numbers(unicode, q, end, 2);
    if (class == LK_CLASS_PUNCT && *p < 0x80 && q < end && is_ascii_letter(*q)) {
        while (q < end && is_ascii_letter(*q))
            q++;
        return q;
    }
    if (in_word(class) || (class != LK_CLASS_PUNCT && *p != '\r' && *p != '\n' && in_word(next))) {
        while (in_word(part_at(unicode, q, end, cjk, &n)))
            q += n;
        return q;
    }
    if (class == LK_CLASS_PUNCT || (*p == ' ' && next == LK_CLASS_PUNCT)) {
        while (part_at(unicode, q, end, cjk, &n) == LK_CLASS_PUNCT)
            q += n;
        return cjk != 0 ? q : newlines(q, end);
    }
    if (class == LK_CLASS_SPACE)
        return part_spaces(unicode, p, end);
    while (next == LK_CLASS_OTHER) { /* nothing is found before @q; at @q, if a word follows */
        n = next_n;
        next = part_at(unicode, q + n, end, cjk, &next_n);
        if (in_word(next))
            break;
        q += n;
    }
    return q;
}

#ifdef __x86_64__
LK_TARGET_BITS
LK_ALWAYS_INLINE bool find(const struct lk_block *block, uint64_t *ret_cuts)
{
    uint64_t word = block->upper | block->lower | block->uncased | block->mark, punct = block->punct;
    uint64_t nothing = block->known & ~(word | block->number | block->space | punct);
    uint64_t edges = (block->number ^ block->number << 1) | (block->cjk ^ block->cjk << 1);
    uint64_t inner = block->known & ~edges; /* the one before is of the same part */
    uint64_t newlines_after = lk_flood(block->newline & punct << 1 & inner, block->newline);
    uint64_t space = block->space & ~newlines_after, plain = space & ~block->newline;

    /* Behind punctuation in ASCII letters in ASCII go with it, and them alone. */
    uint64_t puncts = punct & ~((punct | block->blank) << 1 & inner);
    uint64_t tail = block->ascii_letter & (puncts & block->ascii_punct) << 1;
    uint64_t cuts = edges | lk_threes(block->number) | puncts | lk_past(tail, block->ascii_letter);

    cuts |= word & ~((word | plain | nothing) << 1 & inner) & ~tail;
    cuts |= nothing & (~(nothing << 1 & inner) | (word & inner) >> 1);
    *ret_cuts = cuts | lk_space_cuts(block, space, inner >> 1);
    return true;
}
#endif

LK_CUT_FAMILY(deepseek, find(&block, &cuts), deepseek(unicode, p, end))
