/*
 * What a tokenizer consists of, for the loaders and the encoder.
 */
#ifndef LK_OP_TOKENISE_INTERNAL_H
#define LK_OP_TOKENISE_INTERNAL_H

#include "op/tokenise/added.h"
#include "op/tokenise/bpe.h"
#include "op/text/normal.h"
#include "op/pretok/pretok.h"
#include "op/tokenise/tokenizer.h"

/* When a space is put before a text. */
enum lk_prefix {
    LK_PREFIX_NONE,
    LK_PREFIX_UNLESS_SPACE, /* none stands there (ByteLevel) */
    LK_PREFIX_UNLESS_MARK,  /* neither a space nor U+2581 stands there (Metaspace) */
    LK_PREFIX_FIRST,        /* the same, and only where the document begins */
    LK_PREFIX_ALWAYS,       /* (Prepend) */
};

struct lk_tokenizer {
    enum lk_tokenizer_kind kind;
    enum lk_special_in_text special_in_text;
    struct lk_unicode unicode;
    struct lk_normal normal;  /* of text without raw added tokens; normalised ones are looked for in it */
    struct lk_normal section; /* of what lies between those, as its pre_tokenizer changes it */
    enum lk_prefix prefix;
    bool marks; /* a model of characters for which a space in the text is U+2581, not written out */
    struct lk_pretok pretok;
    struct lk_bpe bpe;
    struct lk_vocab vocab;  /* id → bytes as they stand in text */
    struct lk_vocab shown;  /* id → bytes when detokenising, where those differ; else empty */
    uint32_t strip;         /* leading spaces that detokenising drops */
    struct lk_added added;
    /* From tokenizer_config.json; NULL: it names none. */
    bool has_config;
    char *eos, *bos;
    struct lk_buf notes;
    struct lk_digest digest;
};

/* How a vocabulary spells its tokens. */
enum lk_spelling {
    LK_SPELLING_BYTES,      /* GPT-2's: a character for each byte */
    LK_SPELLING_CHARACTERS, /* as they are; U+2581 may stand for a space, <0xNN> for a byte */
    LK_SPELLING_RAW,        /* the bytes themselves */
};

/* A vocabulary and its merges as the files give them; zeroed = empty. */
struct lk_bpe_files {
    struct lk_names names; /* every token as it is spelled */
    enum lk_spelling spelling;
    struct lk_merge {
        uint32_t left, right, id;
    } *merges; /* in order of rank */
    size_t merges_n, merges_cap;
    uint32_t made;         /* place in names of what the last merge makes */
    struct lk_buf joined;  /* what was looked for last that way */
    bool ids_are_ranks; /* a merge has the rank of what it makes, not that of its place in the list */
    bool ignore_merges; /* a whole piece that is a token is that token, whatever merging makes of it */
    bool byte_fallback; /* what has no token becomes the tokens <0xNN> of its bytes */
    bool fuse_unknown;
    uint8_t *unknown; /* the token for what has none; owned; NULL: there is none */
    size_t unknown_n;
    struct { /* what the decoder does */
        bool marks; /* U+2581 becomes a space */
        bool bytes; /* <0xNN> becomes that byte */
    } decoder;
};

void lk_bpe_files_done(struct lk_bpe_files *files);

/* One merge "left right"; its index is merges_n. The error names what is missing. */
enum lk_code lk_add_merge(struct lk_bpe_files *files, const uint8_t *left, size_t left_n,
                          const uint8_t *right, size_t right_n, struct lk_err *err);

/* The same in two steps: parts by their places in names. */
enum lk_code lk_find_part(const struct lk_bpe_files *files, const uint8_t *text, size_t n,
                          uint32_t *ret_place, struct lk_err *err);
enum lk_code lk_add_merge_of(struct lk_bpe_files *files, uint32_t left, uint32_t right,
                             struct lk_err *err);

/* The same by ids, known to fit. */
void lk_push_merge(struct lk_bpe_files *files, struct lk_merge merge);

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

/* Adds a special token without rules of its own. An id may have several; its bytes are the first one's. */
void lk_push_special(struct lk_tokenizer *tokenizer, const char *text, uint32_t id);

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
