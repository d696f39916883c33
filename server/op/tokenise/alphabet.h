/*
 * The symbols that merging starts from: the ids of a piece's bytes, or of its characters.
 */
#ifndef LK_OP_TOKENISE_ALPHABET_H
#define LK_OP_TOKENISE_ALPHABET_H

#include "op/tokenise/vocab.h"

struct lk_alphabet {
    uint32_t byte_id[256]; /* LK_NO_ID: that byte has no token */
};

void lk_alphabet_init(struct lk_alphabet *alphabet); /* no byte has a token */
void lk_alphabet_done(struct lk_alphabet *alphabet);

/* Writes the initial ids of @n bytes to @ret_ids, which has room for @n of them; returns how many. What
 * has no token vanishes, as in the reference. */
size_t lk_alphabet_ids(const struct lk_alphabet *alphabet, const uint8_t *bytes, size_t n,
                       uint32_t *ret_ids);

#endif
