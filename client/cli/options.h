/*
 * Options of a command: tables that drive parsing, ranges, help, completion and manual pages alike.
 *
 * `--name VALUE`, `--name=VALUE`, `--flag`; `--` ends options. Options and other arguments mix.
 */
#ifndef LK_CLIENT_CLI_OPTIONS_H
#define LK_CLIENT_CLI_OPTIONS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXIT_WELL = 0, EXIT_PROBLEM = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };

/* Steps [from, to). */
struct steps {
    uint64_t from, to;
};

enum option_type {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char *, not empty */
    OPTION_U32,   /* uint32_t in min…max */
    OPTION_STEPS, /* struct steps */
};

struct option_row {
    const char *name;  /* with its dashes; NULL ends a table */
    const char *value; /* what stands for the value in help; NULL for a flag */
    enum option_type type;
    void *at;          /* where it goes; untouched when the option is not given */
    uint32_t min, max; /* U32 */
    const char *help;  /* one line */
};

struct usage {
    const char *synopsis; /* lines without "usage: " or "lanekeeper " */
    const char *about;    /* paragraphs */
    const struct option_row *own, *shared; /* tables; either may be NULL */
    int args_min, args_max; /* arguments that are no options; -1: any number */
    const char *const *words; /* what the first of them may be, ended by NULL; NULL: anything */
};

/* Who wants to know what a command takes, rather than have it do its work: completions, manual pages. */
struct listener {
    void (*hear)(void *owner, const struct usage *usage); /* @usage is good during the call */
    void *owner;
};

/*
 * Parses argv[1…]. On success returns -1, and argv[1 … *ret_args] are the arguments that are no
 * options. Otherwise everything has been said and the result is the exit status: 0 for --help, and when a
 * @listener (may be NULL) was told of @usage instead.
 */
int options_parse(int argc, char **argv, const struct listener *listener, const struct usage *usage,
                  int *ret_args);

/* The next row of both tables of a usage, or NULL; begin with NULL. */
const struct option_row *options_next(const struct usage *usage, const struct option_row *row);

/* Says what is wrong with the arguments, on standard error; EXIT_USAGE. */
int options_fail(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "7" (one step) or "0..200" (0 to 199). At least one step. */
bool options_steps(const char *text, struct steps *ret_steps);
bool options_u64(const char *text, uint64_t max, uint64_t *ret_value);

/* The exit statuses, as help shows them. */
extern const char options_statuses[];

#endif
