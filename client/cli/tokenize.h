/*
 * The forms in which `lanekeeper tokenize` shows what it has made.
 */
#ifndef LK_CLIENT_CLI_TOKENIZE_H
#define LK_CLIENT_CLI_TOKENIZE_H

#include "client/cli/chosen.h"

struct tokenize {
    struct chosen chosen;
    /* options */
    bool rows, u32, u16, pieces, count, info;
    const char *field; /* of the text in a row; NULL: files are texts */
    const char *path;  /* of the output, or NULL */
    /* the work */
    struct lk_encoder *encoder;
    void (*put)(struct tokenize *tokenize); /* the ids of one document; NULL: they are only counted */
    struct lk_tokens ids;                   /* of the document at hand */
    struct lk_buf out;
    struct output output;
    uint64_t documents, bytes, tokens;
};

void tokenize_put_ids(struct tokenize *tokenize);
void tokenize_put_json(struct tokenize *tokenize);
void tokenize_put_u32(struct tokenize *tokenize);
void tokenize_put_u16(struct tokenize *tokenize); /* every id is below 2^16 */
void tokenize_put_pieces(struct tokenize *tokenize);

void tokenize_put_counts(struct tokenize *tokenize);
void tokenize_put_info(struct tokenize *tokenize);

#endif
