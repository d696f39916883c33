/*
 * Pre-tokenizers: where text is cut into the pieces that byte pair encoding then works on.
 *
 * A cutter is one way of cutting. Each family of known regular expressions has one file here, with
 * the scalar code that defines it and, where that pays, code that finds the same pieces by vector
 * instructions; which one runs is decided when a cutter is made, never while it cuts. What is no
 * known family goes through PCRE2 (regex.c), or is refused. See README.md.
 */
#ifndef LK_OP_PRETOK_PRETOK_H
#define LK_OP_PRETOK_PRETOK_H

#include "base/status.h"
#include "op/text/unicode.h"

#define LK_PIECES_MAX 256 /* found at a time */

struct lk_cutter;

/*
 * Writes the ends of the next pieces of the text from @p < @end to @ret_stops and returns how many
 * they are: at least one, at most LK_PIECES_MAX; the last may lie before @end, and the caller goes on
 * from there: a cutter keeps no state between calls. Every piece has at least one byte, and the pieces
 * of a text are the same however often it was stopped between two of them. @end is what look-ahead takes
 * for the end of the text; @p is what look-behind would take for its beginning (no family has any).
 * The text is valid UTF-8 by contract; should it not be, this stays inside of it all the same. All of
 * @ret_stops may be written to, whatever is returned. It cannot fail; only regex.c may end the process.
 *
 * Many at a time, so that finding pieces and looking them up are two short loops, not one long one.
 */
typedef size_t lk_cut_fn(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                         const uint8_t *ret_stops[LK_PIECES_MAX]);

/* Immutable once made; may be shared by threads. */
struct lk_cutter {
    lk_cut_fn *cut;
    const struct lk_unicode *unicode; /* borrowed */
    void *data;                       /* the cutter's own: a compiled expression, a table */
    void (*data_done)(void *data);    /* NULL: there is none */
};

void lk_cutter_done(struct lk_cutter *cutter); /* zeroed is fine */

/* Which code a family with several may use; what the processor lacks is never used. */
enum lk_simd {
    LK_SIMD_SCALAR, /* the reference that the tests compare the others with */
    LK_SIMD_AVX2,
    LK_SIMD_AVX512,
    LK_SIMD_BEST = LK_SIMD_AVX512,
};

enum lk_simd lk_simd_here(void); /* the best one that this processor has */

/* An expression as a tokenizer file has it; its matches are isolated, one piece each. */
struct lk_pattern {
    const uint8_t *text;
    size_t n;
};

/* The family of @n expressions, each of which cuts the pieces of the one before, known by their exact
 * texts: NOT_FOUND when they are no known ones. */
enum lk_code lk_cutter_of_patterns(const struct lk_pattern *patterns, size_t n,
                                   const struct lk_unicode *unicode, enum lk_simd simd,
                                   struct lk_cutter *ret_cutter);

/* Families that are no expression. */
void lk_cutter_whole(struct lk_cutter *ret_cutter); /* no cutting */

#define LK_PRETOK_STAGES 8

/* Cutters one after the other: each cuts the pieces of the one before as if each were a whole text. */
struct lk_pretok {
    struct lk_cutter stages[LK_PRETOK_STAGES];
    uint32_t n;
};

void lk_pretok_done(struct lk_pretok *pretok); /* zeroed is fine */

#endif
