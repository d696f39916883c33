#include "op/tokenise/describe.h"

#include "op/tokenise/internal.h"

void lk_tokenizer_facts(const struct lk_tokenizer *tokenizer, struct lk_tokenizer_facts *ret_facts)
{
    struct lk_tokenizer_facts facts = {.kind = tokenizer->kind,
                                       .special_in_text = tokenizer->special_in_text,
                                       .vocab = tokenizer->vocab.n,
                                       .added = (uint32_t)tokenizer->added.n};
    for (uint32_t id = 0; id < facts.vocab; id++)
        facts.tokens += lk_vocab_has(&tokenizer->vocab, id);
    for (size_t i = 0; i < tokenizer->added.n; i++)
        facts.special += tokenizer->added.tokens[i].special;
    *ret_facts = facts;
}

struct lk_tokenizer_added lk_tokenizer_added(const struct lk_tokenizer *tokenizer, uint32_t i)
{
    LK_CHECK(i < tokenizer->added.n);
    const struct lk_added_token *token = &tokenizer->added.tokens[i];
    return (struct lk_tokenizer_added){.id = token->id,
                                       .text = token->text,
                                       .n = token->n,
                                       .special = token->special,
                                       .single_word = token->single_word,
                                       .lstrip = token->lstrip,
                                       .rstrip = token->rstrip,
                                       .normalized = token->normalized};
}
