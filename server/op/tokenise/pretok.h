/*
 * Pre-tokenizers: where the reference's regular expressions cut text into the pieces that BPE then
 * works on. Each known expression has a scanner written by hand, chosen by the expression's exact
 * text; no regex engine here has the reference's Unicode tables.
 */
#ifndef LK_OP_TOKENISE_PRETOK_H
#define LK_OP_TOKENISE_PRETOK_H

#include "op/tokenise/unicode.h"

/* The end of the piece that begins at @p < @end. Every piece has at least one byte. @end is what the
 * expression's look-ahead takes for the end of the text. */
typedef const uint8_t *lk_scan_fn(const struct lk_unicode *unicode, const uint8_t *p,
                                  const uint8_t *end);

lk_scan_fn lk_scan_whole; /* no cutting */
lk_scan_fn lk_scan_gpt2;

/* The scanner for an expression, or NULL when it is not a known one. */
lk_scan_fn *lk_scan_of_pattern(const uint8_t *pattern, size_t n);

#endif
