/*
 * A tokenizer from where its files lie, for daemon and worker alike: both must read the very same ones.
 * How a file is read is the caller's affair, since ops do no I/O.
 */
#ifndef LK_OP_TOKENISE_OPEN_H
#define LK_OP_TOKENISE_OPEN_H

#include "op/tokenise/tokenizer.h"

/* Reads a whole file of at most @max_bytes; NOT_FOUND when there is none (the store's
 * lk_file_read_all). */
typedef enum lk_code lk_read_file(const char *path, size_t max_bytes, struct lk_buf *out,
                                  struct lk_err *err);

struct lk_tokenizer_paths {
    enum lk_tokenizer_kind kind;
    enum lk_special_in_text special_in_text;
    const char *main;   /* tokenizer.json, or vocab.json of a pair; not used for bytes */
    const char *merges; /* of a pair */
    const char *scheme; /* of a .tiktoken file; borrowed */
};

/* For a tokenizer.json, tokenizer_config.json in the same folder is read too, when there is one. Errors
 * are those of reading and of lk_tokenizer_new. */
enum lk_code lk_tokenizer_open(const struct lk_tokenizer_paths *paths, lk_read_file *read,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err);

#endif
