/*
 * Cutters that look for matches of something, and what becomes of the text between two of them: the
 * reference's pre-tokenizers Split, Digits and Punctuation.
 */
#ifndef LK_OP_PRETOK_SPLIT_H
#define LK_OP_PRETOK_SPLIT_H

#include "op/pretok/pretok.h"

/* The reference's "behavior". Text between matches is never cut itself. To invert (take what lies
 * between for the matches) is to swap WITH_PREVIOUS and WITH_NEXT. */
enum lk_split {
    LK_SPLIT_ISOLATED,      /* each match is a piece */
    LK_SPLIT_WITH_PREVIOUS, /* a match belongs to the text before it, if it does not follow a match */
    LK_SPLIT_WITH_NEXT,     /* a match belongs to the text after it, if no match follows */
    LK_SPLIT_CONTIGUOUS,    /* matches one after the other are one piece */
};

/*
 * What a stage sees. NULL: text. Else bytes that a ByteLevel before it has spelled: [b] is the code
 * point that stands for the byte b, and every byte is a character of its own.
 */
typedef const uint32_t lk_spelled[256];

/* Characters with @flag, one of LK_CLASS_NUMERIC and LK_CLASS_PUNCTUATION; each is a match. */
void lk_cutter_chars(const struct lk_unicode *unicode, uint8_t flag, enum lk_split how,
                     lk_spelled *spelled, struct lk_cutter *ret_cutter);

/* A text that is not empty; it is copied. */
void lk_cutter_literal(const uint8_t *text, size_t n, enum lk_split how,
                       struct lk_cutter *ret_cutter);

struct lk_match {
    const uint8_t *start, *stop; /* not empty */
};

/* The first match at or after @p < @end; false: there is none. */
typedef bool lk_find_fn(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        struct lk_match *ret_match);

/* The next piece: where it ends. @match: the first match at or after @p, and afterwards the first one
 * after the piece; its start is @end when there is none. */
static inline const uint8_t *lk_split_next(const struct lk_cutter *cutter, lk_find_fn *find,
                                           enum lk_split how, const uint8_t *p, const uint8_t *end,
                                           struct lk_match *match)
{
    const uint8_t *stop = match->start;

    if (p < match->start && (how != LK_SPLIT_WITH_PREVIOUS || stop == end))
        return stop;
    do {
        stop = match->stop;
        if (stop == end || !find(cutter, stop, end, match))
            *match = (struct lk_match){.start = end, .stop = end};
    } while (how == LK_SPLIT_CONTIGUOUS && match->start == stop && stop < end);
    return how == LK_SPLIT_WITH_NEXT ? match->start == stop ? stop : match->start : stop;
}

static inline size_t lk_split_cut(const struct lk_cutter *cutter, lk_find_fn *find,
                                  enum lk_split how, const uint8_t *p, const uint8_t *end,
                                  const uint8_t *ret_stops[LK_PIECES_MAX])
{
    struct lk_match match;
    size_t n = 0;

    if (!find(cutter, p, end, &match))
        match = (struct lk_match){.start = end, .stop = end};
    while (n < LK_PIECES_MAX && p < end)
        ret_stops[n++] = p = lk_split_next(cutter, find, how, p, end, &match);
    return n;
}

#endif
