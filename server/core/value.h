/*
 * Digests of values: what a sequence, a cut and a step hold. Over token ids as u32 and the lengths of
 * the pieces of documents, so neither dtype nor transport nor world size can change them.
 * The layout is in ORDER.md, Digests.
 */
#ifndef LK_CORE_VALUE_H
#define LK_CORE_VALUE_H

#include "base/digest.h"
#include "seq/seq.h"

#include <stdint.h>

/* Of one sequence: @tokens [sequence] ids, padding included; @span [n] its pieces. */
struct lk_digest value_sequence(const uint32_t *tokens, uint32_t sequence,
                                const struct lk_span *span, uint32_t n);

/* The same, placed at row @row of the batch of @step. Those of any set of rows add up
 * (lk_digest_add) to the digest of the set: a rank's cut, or the whole step. */
struct lk_digest value_placed(struct lk_digest sequence, uint64_t step, uint32_t row);

#endif
