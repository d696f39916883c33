/*
 * Text → token ids, with the very ids of Hugging Face `tokenizers` for the files it reads.
 *
 * A tokenizer is made once from the bytes of its files, is then immutable, and may be shared by
 * threads; what one encoding needs besides lives in a struct lk_encoder.
 */
#ifndef LK_OP_TOKENISE_TOKENIZER_H
#define LK_OP_TOKENISE_TOKENIZER_H

#include "base/digest.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_tokenizer;
struct lk_encoder;

/*
 * Which rule a file gets. tokenizer.json and pair: merges go by their place in the file's list; with
 * "ignore_merges" a piece that is a token is that token whatever merging would make of it. tiktoken: a piece
 * that is a token is that token, always; in others neighbours merge by the rank of the token they make. The two
 * differ where a list and ranks do, and for cl100k in white space that ends a text.
 */
enum lk_tokenizer_kind {
    LK_TOKENIZER_BYTES, /* id = byte; 256 is the end-of-text token "<|endoftext|>"; vocabulary 257 */
    LK_TOKENIZER_HF,    /* a Hugging Face tokenizer.json */
    LK_TOKENIZER_PAIR,  /* vocab.json or encoder.json, and merges.txt or vocab.bpe: GPT-2's format */
    LK_TOKENIZER_TIKTOKEN, /* a .tiktoken file of ranks, with a named scheme */
};

/* What to do with the text of a special token (`<|endoftext|>`) inside a document. */
enum lk_special_in_text {
    LK_SPECIAL_SPLIT, /* Hugging Face's rule and the default: it becomes that token */
    LK_SPECIAL_TEXT,  /* it is text like any other (the reference's encode_special_tokens) */
    LK_SPECIAL_ERROR, /* such a document is malformed; encoded as by SPLIT, see lk_encoder_refuses */
};

struct lk_tokenizer_files {
    enum lk_tokenizer_kind kind;
    enum lk_special_in_text special_in_text;
    const uint8_t *main; /* tokenizer.json, vocab.json of a pair, or ranks; borrowed for the call */
    size_t main_bytes;
    const char *main_name; /* for messages */
    const uint8_t *merges; /* of a pair, else NULL */
    size_t merges_bytes;
    const char *merges_name;
    const uint8_t *config; /* tokenizer_config.json beside it, or NULL: says which token is "eos"/"bos" */
    size_t config_bytes;
    const char *config_name;
    const char *scheme; /* of a .tiktoken file: "cl100k_base", …; else NULL */
};

/*
 * Errors: INVALID_ARGUMENT for a broken file, UNIMPLEMENTED for a component that is not implemented;
 * both name the file and the JSON path ("gpt2/tokenizer.json: $.model.merges[17]: …"). Parts that
 * are read but have no effect here (truncation, padding, dropout) are listed in lk_tokenizer_notes.
 */
enum lk_code lk_tokenizer_new(const struct lk_tokenizer_files *files,
                              struct lk_tokenizer **ret_tokenizer, struct lk_err *err);
void lk_tokenizer_free(struct lk_tokenizer *tokenizer); /* NULL is fine */

/* Number of ids: every id that encode can return is below it. At most 2^24. */
uint32_t lk_tokenizer_vocab(const struct lk_tokenizer *tokenizer);

/* Digest of everything that can change an id (the files' bytes, special_in_text, kind, scheme). */
struct lk_digest lk_tokenizer_digest(const struct lk_tokenizer *tokenizer);

/* One line each, separated by '\n', for the log; "" when there is nothing to say. */
const char *lk_tokenizer_notes(const struct lk_tokenizer *tokenizer);

/*
 * The id of a token given as it stands in the recipe: a token's exact text ("<|endoftext|>"), or
 * "eos" / "bos", which mean what tokenizer_config.json says or, without one, the only well-known
 * end (or begin) token that the vocabulary has. NOT_FOUND names the candidates.
 */
enum lk_code lk_tokenizer_find(const struct lk_tokenizer *tokenizer, const char *text,
                               uint32_t *ret_id, struct lk_err *err);

/* Bytes of one token as they appear in text; special tokens give their text. Where the file's decoder says
 * so, U+2581 is a space and <0xNN> is that byte. NULL beyond the vocabulary or for a hole in it. Valid as
 * long as the tokenizer. */
const uint8_t *lk_tokenizer_bytes(const struct lk_tokenizer *tokenizer, uint32_t id, size_t *ret_n);

/* How many spaces, as far as they are there, detokenising takes from the beginning of a text: those that
 * encoding has put there (Llama 2). The text of ids is their bytes one after the other, less these. */
uint32_t lk_tokenizer_strip(const struct lk_tokenizer *tokenizer);

/* Scratch memory of one thread. What it keeps between documents is bounded: 40 MiB of cache, taken at once,
 * and 16 MiB of other memory. */
struct lk_encoder *lk_encoder_new(const struct lk_tokenizer *tokenizer);
/* With 24 KiB of cache: made in no time, for a few short texts. */
struct lk_encoder *lk_encoder_new_small(const struct lk_tokenizer *tokenizer);
void lk_encoder_free(struct lk_encoder *encoder);

/*
 * Appends the ids of one document to @out (no BOS/EOS: the recipe adds those). @text must be valid
 * UTF-8 of less than 2^32 - 1 bytes (checked: more stops the process); it may contain NUL.
 * Deterministic, linear time in practice and in the worst case O(n log n). Cannot fail for valid
 * UTF-8; anything else gives some ids, and no access outside of @text.
 */
void lk_encode(struct lk_encoder *encoder, const uint8_t *text, size_t bytes,
               struct lk_tokens *out);

/* Special tokens whose text stood in the documents that this encoder has had so far, whether they
 * became that token (SPLIT) or stayed text (TEXT). Where NFC can change the text, those that
 * only normalising brings about count, too. */
uint64_t lk_encoder_specials(const struct lk_encoder *encoder);

/*
 * Under LK_SPECIAL_ERROR: is the document that was encoded last malformed, and which special token stands
 * in it first? @ret_at: the byte of the document where its text begins; in a stretch that a normaliser has
 * changed, the byte where the stretch does. Never true under SPLIT and TEXT.
 */
bool lk_encoder_refuses(const struct lk_encoder *encoder, uint32_t *ret_id, size_t *ret_at);

#endif
