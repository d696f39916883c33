/*
 * o200k's expression (GPT-4o, gpt-oss, Llama 4), and Mistral's Tekken, which is like it.
 */
#include "op/pretok/families.h"
#include "op/pretok/masks.h"

/* Where "A*B+" ends from @p, with A = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], B =
 * [\p{Ll}\p{Lm}\p{Lo}\p{M}]; NULL when it does not match; and where A* alone ends. What is in
 * both classes goes to A* first, and the last of it is given back to B+ when no \p{Ll} follows. */
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

#ifdef __x86_64__
/* What becomes of a block's characters: classes as in A and B above. */
struct roles {
    uint64_t upper; /* in A only */
    uint64_t lower; /* in B only */
    uint64_t both;  /* letters without case, and marks in words */
    uint64_t other; /* of " ?[^\s\p{L}\p{N}]+", or a prefix: with the marks that follow others */
};

/* A mark is part of a word, unless a run of others has begun before it. Of others one alone does
 * not begin a run when a mark follows (it is the prefix of the word), two or one after a space
 * do. */
LK_ALWAYS_INLINE void place_marks(const struct lk_block *block, struct roles *roles)
{
    uint64_t begun = roles->other & (roles->other | block->blank) << 1;
    uint64_t in_run = lk_flood(begun, roles->other | block->mark) & block->mark;

    roles->other |= in_run;
    roles->both |= block->mark & ~in_run;
}

/* Contractions end words; what follows begins a piece. Takes their characters out of all roles. */
LK_TARGET_BITS
LK_ALWAYS_INLINE void take_contractions(const struct lk_block *block, struct roles *roles)
{
    uint64_t word = roles->upper | roles->lower | roles->both;
    uint64_t hook = block->hook | ~block->known; /* of the last one its bytes tell */

    for (uint64_t at = block->apostrophe & word << 1 & hook >> 1; at != 0; at &= at - 1) {
        uint64_t bit = at & -at;
        size_t n = lk_contraction_chars(block, bit, true);
        if (n == 0 || (word & bit >> 1) == 0) /* or the word before was itself taken */
            continue;
        uint64_t keep = ~(((UINT64_C(1) << n) - 1) * bit);
        word &= keep;
        roles->upper &= keep;
        roles->lower &= keep;
        roles->other &= keep;
    }
}

/* Where words are cut within: at an upper case letter after a lower case one, whatever is in
 * both classes between them; and after the last of both if only upper case follows to the end of
 * the run. */
LK_TARGET_BITS
LK_ALWAYS_INLINE uint64_t case_cuts(const struct lk_block *block, const struct roles *roles)
{
    uint64_t lower = roles->lower, cuts = 0;

    if (roles->both != 0) {
        lower |= lk_flood(roles->both & roles->lower << 1, roles->both);
        uint64_t word = roles->upper | roles->lower | roles->both;
        if (!block->whole)
            word |= ~block->known; /* not known: no cut there yet */
        cuts = roles->upper & (roles->both & ~lower) << 1;
        cuts &= ~lk_followed(cuts, roles->upper, word);
    }
    return cuts | (roles->upper & lower << 1);
}

LK_TARGET_BITS
LK_ALWAYS_INLINE bool find(const struct lk_block *block, uint64_t *ret_cuts, size_t digits,
                           bool contractions)
{
    struct roles roles = {.upper = block->upper, .lower = block->lower, .both = block->uncased};

    roles.other = block->known & ~(block->upper | block->lower | block->uncased | block->mark |
                                   block->number | block->space);
    if (block->mark != 0) {
        if ((block->slash & block->newline << 1) != 0)
            return false; /* is the slash of the run before it? Both would depend on each other */
        place_marks(block, &roles);
    }
    if (contractions)
        take_contractions(block, &roles);
    uint64_t others_lines = lk_flood(block->newline & roles.other << 1, block->newline | block->slash);
    uint64_t other = roles.other & ~others_lines, space = block->space & ~others_lines;
    uint64_t others = lk_firsts(other) & ~(block->blank << 1); /* each begins a piece */
    uint64_t prefix = (space & ~block->newline) | others;      /* if a word follows */
    uint64_t cuts = others | (lk_firsts(roles.upper | roles.lower | roles.both) & ~(prefix << 1));

    cuts |= digits == 1 ? block->number : lk_threes(block->number);
    *ret_cuts = cuts | case_cuts(block, &roles) | lk_space_cuts(block, space, block->known >> 1);
    return true;
}
#endif

LK_CUT_FAMILY(o200k, find(&block, &cuts, 3, true), o200k(unicode, p, end, 3, true))
LK_CUT_FAMILY(tekken, find(&block, &cuts, 1, false), o200k(unicode, p, end, 1, false))
