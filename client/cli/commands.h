/*
 * The commands: one table drives dispatch, help, completion and manual pages.
 *
 * Each command takes argv with its own name first, says what it has to say, and returns the exit status:
 * 0 all is well, 1 a problem was found, 2 wrong arguments, 3 no daemon could be reached. With a listener it
 * does nothing but tell it what it takes (options.h).
 */
#ifndef LK_CLIENT_CLI_COMMANDS_H
#define LK_CLIENT_CLI_COMMANDS_H

#include "client/cli/options.h"

#include <stdbool.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv, const struct listener *listener);
    const char *help; /* one line */
    bool hidden;      /* for those who build packages: not in help, not completed */
};

/* In the order of help; a row without a name ends it. */
const struct command *commands(void);
const struct command *command_find(const char *name); /* NULL: there is none */

int cmd_completion(int argc, char **argv, const struct listener *listener);
int cmd_config(int argc, char **argv, const struct listener *listener);
int cmd_detokenize(int argc, char **argv, const struct listener *listener);
int cmd_digest(int argc, char **argv, const struct listener *listener);
int cmd_explain(int argc, char **argv, const struct listener *listener);
int cmd_index(int argc, char **argv, const struct listener *listener);
int cmd_init(int argc, char **argv, const struct listener *listener);
int cmd_man(int argc, char **argv, const struct listener *listener);
int cmd_measure(int argc, char **argv, const struct listener *listener);
int cmd_peek(int argc, char **argv, const struct listener *listener);
int cmd_status(int argc, char **argv, const struct listener *listener);
int cmd_tokenize(int argc, char **argv, const struct listener *listener);
int cmd_top(int argc, char **argv, const struct listener *listener);
int cmd_trace(int argc, char **argv, const struct listener *listener);
int cmd_verify(int argc, char **argv, const struct listener *listener);

#endif
