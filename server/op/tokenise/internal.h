/*
 * What a tokenizer consists of, for the loaders and the encoder.
 */
#ifndef LK_OP_TOKENISE_INTERNAL_H
#define LK_OP_TOKENISE_INTERNAL_H

#include "op/tokenise/added.h"
#include "op/tokenise/bpe.h"
#include "op/text/nfc.h"
#include "op/pretok/pretok.h"
#include "op/tokenise/tokenizer.h"

struct lk_tokenizer {
    enum lk_tokenizer_kind kind;
    enum lk_special_in_text special_in_text;
    struct lk_unicode unicode;
    struct lk_nfc nfc;
    bool normalize; /* to NFC */
    bool prefix_space;
    struct lk_pretok pretok;
    struct lk_bpe bpe;
    struct lk_vocab vocab;
    struct lk_added added;
    /* From tokenizer_config.json; NULL: it names none. */
    bool has_config;
    char *eos, *bos;
    struct lk_buf notes;
    struct lk_digest digest;
};

/* A vocabulary and its merges as the files give them; zeroed = empty. */
struct lk_bpe_files {
    struct lk_names names; /* every token as it is spelled */
    struct lk_merge {
        uint32_t left, right, id;
    } *merges; /* in order of rank */
    size_t merges_n, merges_cap;
    bool ignore_merges;
    bool has_unknown; /* an unk_token, or byte_fallback: matters only when a byte has no token */
};

void lk_bpe_files_done(struct lk_bpe_files *files);

/* One merge "left right"; its index is merges_n. The error names what is missing. */
enum lk_code lk_add_merge(struct lk_bpe_files *files, const uint8_t *left, size_t left_n,
                          const uint8_t *right, size_t right_n, struct lk_err *err);

/* One token of the vocabulary; refuses ids of LK_VOCAB_MAX and above, and strings given twice. */
enum lk_code lk_add_token(struct lk_bpe_files *files, const uint8_t *text, size_t n, uint64_t id,
                          struct lk_err *err);

/* Builds vocab, bpe and the Unicode tables; once, after the files are read, as broken ones are not
 * worth the work. */
enum lk_code lk_build(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                      struct lk_err *err);

/*
 * Adds a token with the id that the reference gives it: the vocabulary's, or the next free one; it
 * takes over no memory. @want is the file's own idea of the id, or LK_NO_ID.
 */
enum lk_code lk_add_added(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                          const struct lk_added_token *token, uint32_t want, struct lk_err *err);

void lk_note(struct lk_tokenizer *tokenizer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The loaders; errors name the file and the place in it. */
enum lk_code lk_load_hf(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                        struct lk_err *err);
enum lk_code lk_load_pair(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                          struct lk_err *err);
enum lk_code lk_load_tiktoken(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                              struct lk_err *err);
/* tokenizer_config.json: which tokens are "eos" and "bos". */
enum lk_code lk_load_config(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                            struct lk_err *err);

#endif
