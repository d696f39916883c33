/*
 * The starting configuration that `lanekeeper init` writes: what a survey found, with the reasons as comments.
 */
#ifndef LK_CLIENT_CLI_INIT_TEXT_H
#define LK_CLIENT_CLI_INIT_TEXT_H

#include "client/cli/seek_tokenizer.h"
#include "client/cli/survey.h"

struct machine {
    unsigned processors;
    uint64_t memory_bytes; /* 0: not known */
};

/* What is chosen for a stream. Pure. */
struct suggestion {
    uint32_t lanes, batch, sequence, workers;
    bool some_workers;         /* not one a processor: too little memory for them and their caches */
    uint64_t arena, cache, counts; /* bytes */
    uint64_t rows_least;       /* of the smallest dataset, about */
    uint64_t tokens;           /* of all of it, about */
    bool drops;                /* rows of the sample cannot be used */
};

/* @bytes_per_token: about. */
struct suggestion suggest(const struct survey *survey, const struct machine *machine, unsigned bytes_per_token);

/* Appends the other fields of @dataset that hold text, with their bytes a row; nothing when there are none. */
void put_unserved(struct lk_buf *out, const struct survey_dataset *dataset);

/*
 * Appends the configuration. @dir: its folder, an absolute path, from which paths are written where they lie
 * below it, else they are absolute. @survey has a usable dataset. What names of files hold stays in its line.
 */
void init_text(struct lk_buf *out, const char *dir, const struct survey *survey,
               const struct found_tokenizers *found, const struct suggestion *suggestion);

#endif
