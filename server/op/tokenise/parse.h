/*
 * Reading a tokenizer.json piece by piece: a cursor that knows its JSON path, tables of keys, tables
 * of component kinds. Only the loaders of tokenizer.json use it.
 */
#ifndef LK_OP_TOKENISE_PARSE_H
#define LK_OP_TOKENISE_PARSE_H

#include "base/json.h"
#include "op/tokenise/internal.h"

#define LK_TYPE_MAX 32

struct lk_load {
    struct lk_tokenizer *tokenizer;
    struct lk_json json;
    struct lk_buf path; /* where the cursor is: ".model.merges"; kept on failure, for the message */
    struct lk_bpe_files parsed;
    /* Offsets in the text of values that are read later; 0: there is none. */
    size_t merges_at, normalizer_at, pre_tokenizer_at, decoder_at;
    bool has_vocab;
    bool byte_level;            /* a ByteLevel pre-tokenizer was read */
    struct lk_stages *stages;   /* load_pretok.c's own */
    struct lk_added_token *added; /* their text is owned */
    uint32_t *added_ids;
    size_t added_n;
};

/* Reads the value at the cursor into what @to points to; NULL where there is no such thing. */
typedef enum lk_code lk_read_fn(struct lk_load *load, void *to, struct lk_err *err);

/* One key of an object: its reader gets a pointer to @offset in the object's own struct. */
struct lk_member {
    const char *key;
    lk_read_fn *read;
    size_t offset;
    bool required;
};

/* One kind of component, by its "type"; the reader starts at the object's beginning. */
struct lk_kind {
    const char *type;
    lk_read_fn *read;
};

struct lk_text { /* of any length; owned by whoever read it */
    uint8_t *text;
    size_t n;
};

#define LK_COUNT(table) (sizeof(table) / sizeof *(table))

/* Lengthen the path; what it was before is its returned length. */
size_t lk_path_key(struct lk_load *load, const uint8_t *key, size_t n);
size_t lk_path_index(struct lk_load *load, size_t index);

enum lk_code lk_unimplemented(struct lk_err *err, const char *what); /* "<what> is not implemented" */

enum lk_code lk_expect(struct lk_load *load, enum lk_json_type want, struct lk_err *err);
enum lk_code lk_read_null(struct lk_load *load, bool *ret_null, struct lk_err *err); /* if it is one */

lk_read_fn lk_read_skip;
lk_read_fn lk_read_flag; /* bool */
lk_read_fn lk_read_word; /* char[LK_TYPE_MAX], cut */
lk_read_fn lk_read_text; /* struct lk_text; set even if the object fails later on */
lk_read_fn lk_read_mark; /* size_t: where the value is, for later */

/* An object whose keys are all in the table (at most 32 of them). */
enum lk_code lk_read_object(struct lk_load *load, const struct lk_member *members, size_t n, void *to,
                            struct lk_err *err);
enum lk_code lk_read_array(struct lk_load *load, lk_read_fn *read, struct lk_err *err);
/* The first "type" of the object at the cursor, which stays there; "" when it has none. */
enum lk_code lk_peek_type(struct lk_load *load, char ret_type[LK_TYPE_MAX], struct lk_err *err);
/* Null, or a component of a known kind. */
enum lk_code lk_read_component(struct lk_load *load, const char *what, const struct lk_kind *kinds,
                               size_t n, struct lk_err *err);

/* Adds a step, whose strings it takes over; refuses what is too much or too long. */
enum lk_code lk_add_step(struct lk_normal *normal, struct lk_normal_step step, struct lk_err *err);

/* The components with files of their own. */
lk_read_fn lk_read_normalizer;
lk_read_fn lk_read_pre_tokenizer;
lk_read_fn lk_read_decoder;
lk_read_fn lk_read_merges; /* the vocabulary must have been read */

/*
 * The usual way of SentencePiece's files: the only normalising is that a space becomes U+2581, and perhaps
 * that one is put in front. Sets the tokenizer up to take spaces for that character as it goes, so that no
 * text is written anew; false, and nothing done, when the file is not of that kind. Model and added
 * tokens must have been read.
 */
bool lk_read_marks(struct lk_load *load);

#endif
