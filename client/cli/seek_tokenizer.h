/*
 * Tokenizers that lie near a folder of data: in it, in its subfolders, or beside what is written.
 */
#ifndef LK_CLIENT_CLI_SEEK_TOKENIZER_H
#define LK_CLIENT_CLI_SEEK_TOKENIZER_H

#include "op/tokenise/open.h"

#include <stdbool.h>
#include <stdint.h>

#define FOUND_MAX 16

struct found_tokenizer {
    struct lk_tokenizer_paths paths; /* into the strings below */
    char *main, *merges, *scheme;
    char *trouble;  /* why it cannot be used; NULL: it can */
    bool has_end;   /* it knows its end of text */
    uint32_t vocab; /* ids */
};

struct found_tokenizers {
    struct found_tokenizer one[FOUND_MAX];
    uint32_t n;
};

/* Each is read, so that what is offered works. Looks in every one of @dirs [n] and in their subfolders. */
void seek_tokenizers(const char *const *dirs, uint32_t n, struct found_tokenizers *ret_found);
void found_tokenizers_done(struct found_tokenizers *found);

#endif
