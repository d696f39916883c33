/*
 * The tokenizer that a command works with: named by its files, or as a stream of a configuration has it.
 */
#ifndef LK_CLIENT_CLI_CHOSEN_H
#define LK_CLIENT_CLI_CHOSEN_H

#include "client/cli/cli.h"
#include "op/tokenise/open.h"

struct chosen {
    struct cli cli; /* --config and --stream go there, failures are told by it */
    /* options */
    const char *path, *merges, *scheme, *special, *append, *prepend;
    /* after chosen_open */
    struct lk_tokenizer *tokenizer;
    struct lk_tokenizer_paths paths; /* what was read */
    bool has_append, has_prepend;
    uint32_t append_id, prepend_id;
    uint64_t load_ns;
    char *found[2]; /* paths that were found in a folder; owned */
};

#define CHOSEN_OPTIONS_MAX 9

/* Rows of the options that choose, ended. @encodes: with those that matter to text → ids only. */
void chosen_options(struct chosen *chosen, bool encodes, struct option_row ret_rows[CHOSEN_OPTIONS_MAX]);

/* -1, or the exit status after the reason has been said. chosen_done in any case. */
int chosen_open(struct chosen *chosen);
void chosen_done(struct chosen *chosen);

#endif
