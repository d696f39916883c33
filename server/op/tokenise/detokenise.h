/*
 * Token ids → the bytes of their text. For a byte-level tokenizer without a normaliser the exact inverse of
 * lk_encode: whatever the bytes are, and wherever a document's ids are cut into calls. Of SentencePiece-style
 * ones, too, but for what their normalisers change; the space that they put before a text is taken off again.
 */
#ifndef LK_OP_TOKENISE_DETOKENISE_H
#define LK_OP_TOKENISE_DETOKENISE_H

#include "op/tokenise/tokenizer.h"

struct lk_detokeniser; /* for one thread */

/* Borrows @tokenizer. @skip_special: special tokens give nothing, rather than their text. */
struct lk_detokeniser *lk_detokeniser_new(const struct lk_tokenizer *tokenizer, bool skip_special);
void lk_detokeniser_free(struct lk_detokeniser *detokeniser); /* NULL is fine */

/* The ids that follow are another document's. A new one stands at the beginning of its first. */
void lk_detokeniser_begin(struct lk_detokeniser *detokeniser);

/*
 * Appends the bytes of the next ids of the document. OUT_OF_RANGE for an id beyond the vocabulary,
 * NOT_FOUND for a hole in it; @ret_bad is its place in @ids then, and the bytes of those before it
 * have been appended.
 */
enum lk_code lk_detokenise(struct lk_detokeniser *detokeniser, const uint32_t *ids, size_t n,
                           struct lk_buf *out, size_t *ret_bad, struct lk_err *err);

#endif
