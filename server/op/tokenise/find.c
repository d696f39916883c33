/*
 * From a name in the recipe to a token's id.
 */
#include "op/tokenise/internal.h"

/* End and begin tokens of the well-known vocabularies. */
static const char *const well_known_eos[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                             "<｜end▁of▁sentence｜>"};
static const char *const well_known_bos[] = {"<|begin_of_text|>", "<s>", "<bos>",
                                             "<|startoftext|>", "<｜begin▁of▁sentence｜>"};

static bool find_bytes(const struct lk_vocab *vocab, const char *text, size_t n, uint32_t *ret_id)
{
    for (uint32_t id = 0; id < vocab->n && n > 0; id++) {
        struct lk_span span = vocab->spans[id];
        if (span.n == n && span.start != LK_NO_ID &&
            memcmp(vocab->pool.data + span.start, text, n) == 0) {
            *ret_id = id;
            return true;
        }
    }
    return false;
}

/* A token by its exact text: an added token, or the bytes that a token stands for. */
static bool find_text(const struct lk_tokenizer *tokenizer, const char *text, uint32_t *ret_id)
{
    size_t n = strlen(text);
    const struct lk_added_token *token = lk_added_find(&tokenizer->added, text, n);

    if (token != NULL) {
        *ret_id = token->id;
        return true;
    }
    return find_bytes(&tokenizer->vocab, text, n, ret_id) ||
           find_bytes(&tokenizer->shown, text, n, ret_id);
}

/* The added tokens, as far as a message can hold them. */
static void list_added(const struct lk_tokenizer *tokenizer, struct lk_buf *out)
{
    for (size_t i = 0; i < tokenizer->added.n && i < 8; i++) {
        const struct lk_added_token *token = &tokenizer->added.tokens[i];
        lk_buf_puts(out, i == 0 ? "" : ", ");
        lk_buf_put(out, token->text, token->n < 40 ? token->n : 40);
    }
    if (tokenizer->added.n > 8)
        lk_buf_putf(out, ", ... (%zu in all)", tokenizer->added.n);
}

static enum lk_code not_found(const struct lk_tokenizer *tokenizer, const char *what,
                              const char *text, struct lk_err *err)
{
    struct lk_buf list = {0};

    list_added(tokenizer, &list);
    enum lk_code code = lk_fail(err, LK_NOT_FOUND, "%s%s; the added tokens are: %s", what, text,
                                lk_buf_cstr(&list));
    lk_buf_done(&list);
    return code;
}

/* "eos" or "bos". */
static enum lk_code find_role(const struct lk_tokenizer *tokenizer, const char *role,
                              const char *configured, const char *const *known, size_t known_n,
                              uint32_t *ret_id, struct lk_err *err)
{
    struct lk_buf found = {0};
    size_t matches = 0;
    uint32_t id = 0;

    if (configured != NULL) {
        if (find_text(tokenizer, configured, ret_id))
            return LK_OK;
        return not_found(tokenizer, "tokenizer_config.json names a token that the vocabulary lacks: ",
                         configured, err);
    }
    if (tokenizer->has_config)
        return not_found(tokenizer, "tokenizer_config.json names no token as ", role, err);
    for (size_t i = 0; i < known_n; i++) {
        uint32_t candidate;
        if (!find_text(tokenizer, known[i], &candidate))
            continue;
        lk_buf_putf(&found, "%s%s", matches == 0 ? "" : ", ", known[i]);
        id = candidate;
        matches++;
    }
    enum lk_code code = LK_OK;
    if (matches == 0)
        code = not_found(tokenizer, "no well-known token can be the ", role, err);
    else if (matches > 1)
        code = lk_fail(err, LK_NOT_FOUND, "several tokens can be the %s: %s; name one", role,
                       lk_buf_cstr(&found));
    else
        *ret_id = id;
    lk_buf_done(&found);
    return code;
}

enum lk_code lk_tokenizer_find(const struct lk_tokenizer *tokenizer, const char *text,
                               uint32_t *ret_id, struct lk_err *err)
{
    if (strcmp(text, "eos") == 0)
        return find_role(tokenizer, "eos", tokenizer->eos, well_known_eos,
                         sizeof well_known_eos / sizeof *well_known_eos, ret_id, err);
    if (strcmp(text, "bos") == 0)
        return find_role(tokenizer, "bos", tokenizer->bos, well_known_bos,
                         sizeof well_known_bos / sizeof *well_known_bos, ret_id, err);
    if (find_text(tokenizer, text, ret_id))
        return LK_OK;
    return not_found(tokenizer, "no such token: ", text, err);
}
