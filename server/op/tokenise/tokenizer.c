/*
 * The tokenizer as others see it: made from files, asked about its vocabulary. encode.c uses it.
 */
#include "op/tokenise/tokenizer.h"

#include "op/tokenise/internal.h"

#include <stdlib.h>

static void load_bytes(struct lk_tokenizer *tokenizer)
{
    static const char end_of_text[] = "<|endoftext|>";
    struct lk_added_token token = {.n = sizeof end_of_text - 1, .special = true, .id = 256};

    lk_unicode_init(&tokenizer->unicode);
    lk_bpe_init(&tokenizer->bpe, 0, 0);
    for (unsigned b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        tokenizer->bpe.alphabet.byte_id[b] = b;
        lk_vocab_set(&tokenizer->vocab, b, &byte, 1);
    }
    lk_vocab_set(&tokenizer->vocab, 256, end_of_text, token.n);
    token.text = (uint8_t *)lk_strdup(end_of_text);
    token.pattern = (uint8_t *)lk_strdup(end_of_text);
    token.pattern_n = token.n;
    lk_added_push(&tokenizer->added, token);
    tokenizer->pretok.n = 1;
    lk_cutter_whole(&tokenizer->pretok.stages[0]);
}

static struct lk_digest digest_of(const struct lk_tokenizer *tokenizer,
                                  const struct lk_tokenizer_files *files)
{
    struct lk_buf buf = {0};
    uint8_t part[16];

    lk_buf_putf(&buf, "tokenizer %d %d\n", (int)files->kind, (int)files->special_in_text);
    if (files->kind != LK_TOKENIZER_BYTES) {
        lk_digest_put(lk_digest_of(files->main, files->main_bytes), part);
        lk_buf_put(&buf, part, sizeof part);
    }
    if (files->kind == LK_TOKENIZER_PAIR) {
        lk_digest_put(lk_digest_of(files->merges, files->merges_bytes), part);
        lk_buf_put(&buf, part, sizeof part);
    }
    if (files->kind == LK_TOKENIZER_TIKTOKEN)
        lk_buf_putf(&buf, "scheme %s\n", files->scheme == NULL ? "" : files->scheme);
    /* Of the configuration only this can change an id, not its chat template. */
    lk_buf_putf(&buf, "%d eos %s\nbos %s\n", tokenizer->has_config,
                tokenizer->eos == NULL ? "" : tokenizer->eos,
                tokenizer->bos == NULL ? "" : tokenizer->bos);
    struct lk_digest digest = lk_digest_of(buf.data, buf.len);
    lk_buf_done(&buf);
    return digest;
}

static enum lk_code load(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                         struct lk_err *err)
{
    switch (files->kind) {
    case LK_TOKENIZER_BYTES:
        load_bytes(tokenizer);
        break;
    case LK_TOKENIZER_HF:
        LK_TRY(lk_load_hf(tokenizer, files, err));
        break;
    case LK_TOKENIZER_PAIR:
        LK_TRY(lk_load_pair(tokenizer, files, err));
        break;
    case LK_TOKENIZER_TIKTOKEN:
        LK_TRY(lk_load_tiktoken(tokenizer, files, err));
        break;
    }
    if (files->config != NULL)
        LK_TRY(lk_load_config(tokenizer, files, err));
    return LK_OK;
}

enum lk_code lk_tokenizer_new(const struct lk_tokenizer_files *files,
                              struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer *tokenizer = lk_zalloc(1, sizeof *tokenizer);

    tokenizer->kind = files->kind;
    tokenizer->special_in_text = files->special_in_text;
    enum lk_code code = load(tokenizer, files, err);
    if (code != LK_OK) {
        lk_tokenizer_free(tokenizer);
        return code;
    }
    lk_added_sort(&tokenizer->added);
    tokenizer->digest = digest_of(tokenizer, files);
    (void)lk_buf_cstr(&tokenizer->notes);
    *ret_tokenizer = tokenizer;
    return LK_OK;
}

void lk_tokenizer_free(struct lk_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    lk_pretok_done(&tokenizer->pretok);
    lk_unicode_done(&tokenizer->unicode);
    lk_normal_done(&tokenizer->normal);
    lk_normal_done(&tokenizer->section);
    lk_bpe_done(&tokenizer->bpe);
    lk_vocab_done(&tokenizer->vocab);
    lk_vocab_done(&tokenizer->shown);
    lk_added_done(&tokenizer->added);
    lk_buf_done(&tokenizer->notes);
    free(tokenizer->eos);
    free(tokenizer->bos);
    free(tokenizer);
}

uint32_t lk_tokenizer_vocab(const struct lk_tokenizer *tokenizer)
{
    return tokenizer->vocab.n;
}

struct lk_digest lk_tokenizer_digest(const struct lk_tokenizer *tokenizer)
{
    return tokenizer->digest;
}

const char *lk_tokenizer_notes(const struct lk_tokenizer *tokenizer)
{
    return (const char *)tokenizer->notes.data;
}

const uint8_t *lk_tokenizer_bytes(const struct lk_tokenizer *tokenizer, uint32_t id, size_t *ret_n)
{
    const struct lk_vocab *vocab =
        tokenizer->shown.n > 0 ? &tokenizer->shown : &tokenizer->vocab;

    if (!lk_vocab_has(vocab, id))
        return NULL;
    *ret_n = vocab->spans[id].n;
    return vocab->pool.data + vocab->spans[id].start;
}

uint32_t lk_tokenizer_strip(const struct lk_tokenizer *tokenizer)
{
    return tokenizer->strip;
}
