/*
 * What lies in a folder of data: which datasets it has, how their rows look, which field is the text. Found
 * by listing it and by reading the beginnings of some shards; what cannot be used is named, and the rest goes
 * on.
 */
#ifndef LK_CLIENT_CLI_SURVEY_H
#define LK_CLIENT_CLI_SURVEY_H

#include "base/dataset_files.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SURVEY_SHARDS 16            /* of a dataset that are looked into, evenly over all */
#define SURVEY_ROWS 256             /* of each */
#define SURVEY_BYTES (1u << 20)     /* of each, decoded; more only to reach the end of its first row … */
#define SURVEY_ROW_MAX (64u << 20)  /* … up to this */
#define SURVEY_FIELDS 64            /* that are told apart; others are not considered */
#define SURVEY_DEPTH 4              /* objects in objects */

struct survey_field {
    char *path;       /* dotted, as a configuration has it */
    bool list;        /* of it only strings that read like text count, at any depth: it can be no row's text */
    uint64_t rows;    /* sampled rows in which it is a string, or a list */
    uint64_t bytes;   /* of them all */
    uint64_t filled;  /* rows in which it is not empty … */
    uint64_t worded;  /* … and in which it reads like text: it has a space, or a byte that is not ASCII */
    char *missing;    /* the first sampled row that has no such string: "FILE: row N"; NULL: none */
};

struct survey_dataset {
    char *name;             /* good in a configuration */
    char *path;             /* a folder, a file or a pattern */
    char *trouble;          /* why it cannot be used; NULL: it can */
    struct lk_dataset_files files;
    uint64_t stored_bytes;  /* of all shards */
    /* of the sample */
    uint32_t shards;
    uint64_t rows, bad_rows;
    char *bad;              /* the first row that is no JSON object: where, and what was expected; or NULL */
    uint64_t data_bytes, read_bytes; /* decoded, and what it took of the stored ones */
    uint64_t row_bytes;              /* of the sampled rows */
    bool whole;                      /* all of the dataset was read: nothing below is an estimate */
    uint64_t decoded_max;            /* of the largest compressed shard when decoded; 0: none is compressed */
    struct survey_field field[SURVEY_FIELDS];
    uint32_t n_fields;
    uint32_t text;                   /* which of them is the text; without trouble there is one */
    bool named;                      /* it is the one that was asked for, not the longest */
    /* of all of it */
    uint64_t all_rows, all_text_bytes;
};

struct survey {
    struct survey_dataset *dataset; /* [n] by name */
    uint32_t n, usable;
    char **bare;                    /* [n_bare] of subfolders without a shard: which, and what is there instead */
    uint32_t n_bare;
    char *beside;                   /* a file that looks like data and is no shard, not in a subfolder; or NULL */
};

/*
 * @text: the field that is to be the text of the datasets that have it, a dotted path; NULL: the longest string.
 * NOT_FOUND when there are no shards at all, saying what there is, or none has @text; INVALID_ARGUMENT when @dir is no
 * folder. survey_done in any case.
 */
enum lk_code survey_folder(const char *dir, const char *text, struct survey *ret_survey, struct lk_err *err);
void survey_done(struct survey *survey); /* safe on a zeroed one, and twice */

/* What to do with a file of such a name, which may be NULL: "" or more of a sentence. Static storage. */
const char *survey_hint(const char *name);

/* Field @f holds text, too, which rows would be served without: a twentieth of the text's bytes or more. */
bool survey_unserved(const struct survey_dataset *dataset, uint32_t f);

/* Reads what the sample is of @dataset, whose path is set; all else is filled in. For survey_folder. */
void survey_sample(struct survey_dataset *dataset, const char *text);

#endif
