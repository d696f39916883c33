/*
 * Cutting where no merge can join: for models that merge whole texts (SentencePiece-style BPE).
 *
 * A merge joins two tokens; at their seam the last character of the left one meets the first
 * character of the right one. Two neighbouring characters that meet at no merge's seam are never
 * joined, whatever stands around them, so that the ids of a text are those of its parts to the left
 * and to the right of that place. Cut in all such places, a text falls into word-like pieces, of which
 * most occur again and again.
 */
#ifndef LK_OP_PRETOK_JOINS_H
#define LK_OP_PRETOK_JOINS_H

#include "op/pretok/pretok.h"

struct lk_joins;

/* No pair is joined. @space_is: what ' ' in the text stands for (itself, or U+2581). */
struct lk_joins *lk_joins_new(uint32_t space_is);
void lk_joins_free(struct lk_joins *joins);

/* These two, next to each other, may be joined. */
void lk_joins_add(struct lk_joins *joins, uint32_t left, uint32_t right);

/* Unknown characters must stay together, as they become one token: from now on cutting needs an ASCII
 * character on one side for which known[] is set. Call it last. */
void lk_joins_keep_unknown(struct lk_joins *joins, const bool known[128]);

/* Cuts before every space and every U+2581 (Metaspace's split, of text whose spaces mean U+2581). */
void lk_cutter_marks(struct lk_cutter *ret_cutter);

/* Takes over @joins. */
void lk_cutter_joins(struct lk_joins *joins, struct lk_cutter *ret_cutter);

#endif
