/*
 * tiktoken's own form of cl100k's expression: white space that ends the text is one piece, line ends in it
 * or not ("\s++$" before "\s*[\r\n]"). In the form that tokenizer.json files have, it ends with its last
 * line end and a piece of its own follows.
 */
#ifndef LK_OP_PRETOK_TRAILING_H
#define LK_OP_PRETOK_TRAILING_H

#include "op/pretok/pretok.h"

/* @inner: what cuts by the other form; it has no data. */
void lk_cutter_trailing(lk_cut_fn *inner, const struct lk_unicode *unicode, struct lk_cutter *ret_cutter);

#endif
