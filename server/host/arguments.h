/*
 * The command line of lanekeeperd: one table of options, for parsing, help, completion and the manual page.
 */
#ifndef LK_HOST_ARGUMENTS_H
#define LK_HOST_ARGUMENTS_H

#include "base/mem.h"
#include "host/daemon.h"

#include <stdbool.h>

struct daemon_argument {
    const char *name;           /* with its dashes; NULL ends the table */
    const char *value;          /* what stands for its value in help; NULL: it takes none */
    const char *const *choices; /* what the value may be, ended by NULL; NULL: anything */
    const char *help;
};

const struct daemon_argument *daemon_arguments(void);

extern const char daemon_synopsis[]; /* "lanekeeperd [--run-dir DIR] …" */
extern const char daemon_about[];    /* what it does, in prose */

/* False: they are wrong. The strings of @ret_options are those of @argv. */
bool daemon_arguments_parse(int argc, char **argv, struct daemon_options *ret_options);

/* Appends what --help prints. */
void daemon_arguments_help(struct lk_buf *out);

#endif
