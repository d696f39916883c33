/*
 * Pre-tokenizers: where the reference's regular expressions cut text into the pieces that BPE then
 * works on. Each known expression has a scanner written by hand, chosen by the expression's exact
 * text; no regex engine here has the reference's Unicode tables.
 */
#ifndef LK_OP_TOKENISE_PRETOK_H
#define LK_OP_TOKENISE_PRETOK_H

#include "op/text/unicode.h"

#define LK_SCAN_MAX 64 /* pieces found at a time */

/*
 * Writes the ends of the next pieces of the text from @p < @end to @ret_stops and returns how many
 * they are: LK_SCAN_MAX, or fewer, when the last one ends at @end. Every piece has at least one byte.
 * @end is what the expression's look-ahead takes for the end of the text.
 *
 * Many at a time, so that finding pieces and looking them up are two short loops, not one long one.
 */
typedef size_t lk_scan_fn(const struct lk_unicode *unicode, const uint8_t *p, const uint8_t *end,
                          const uint8_t *ret_stops[LK_SCAN_MAX]);

lk_scan_fn lk_scan_whole; /* no cutting */
lk_scan_fn lk_scan_gpt2;

/* The scanner for an expression, or NULL when it is not a known one. */
lk_scan_fn *lk_scan_of_pattern(const uint8_t *pattern, size_t n);

#endif
