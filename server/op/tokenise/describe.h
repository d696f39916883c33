/*
 * What a tokenizer is, for people: `lanekeeper tokenize --info`.
 */
#ifndef LK_OP_TOKENISE_DESCRIBE_H
#define LK_OP_TOKENISE_DESCRIBE_H

#include "op/tokenise/tokenizer.h"

struct lk_tokenizer_facts {
    enum lk_tokenizer_kind kind;
    enum lk_special_in_text special_in_text;
    uint32_t vocab;   /* ids are below it */
    uint32_t tokens;  /* ids that have a token: the rest are holes */
    uint32_t added;   /* tokens that are cut out of the text before anything else */
    uint32_t special; /* of these, special ones */
};

/* Reads all of the vocabulary. */
void lk_tokenizer_facts(const struct lk_tokenizer *tokenizer, struct lk_tokenizer_facts *ret_facts);

struct lk_tokenizer_added {
    uint32_t id;
    const uint8_t *text; /* valid as long as the tokenizer */
    size_t n;
    bool special, single_word, lstrip, rstrip, normalized; /* as tokenizer.json calls them */
};

/* The added token @i, 0 … facts.added - 1, in the order of the file. */
struct lk_tokenizer_added lk_tokenizer_added(const struct lk_tokenizer *tokenizer, uint32_t i);

#endif
