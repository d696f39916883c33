/*
 * What the commands share: where the daemon is, what the configuration says, how a failure is told.
 */
#ifndef LK_CLIENT_CLI_CLI_H
#define LK_CLIENT_CLI_CLI_H

#include "client/c/lanekeeper.h"
#include "client/cli/options.h"
#include "client/cli/output.h"
#include "client/cli/private.h"
#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct cli {
    const char *command;
    /* options */
    const char *connect, *config_path, *stream;
    bool offline, json;
    bool any_stream;         /* set before cli_open: which stream does not matter to the command */
    uint32_t timeout_s;
    /* after cli_open */
    struct lk_config config;
    bool configured;
    uint32_t stream_number;  /* with a configuration: of the stream */
    const char *address;     /* where the daemon is; NULL: none is known */
    bool reached;            /* it has answered */
    struct private_daemon daemon;
};

#define CLI_OPTIONS_MAX 8

/* Rows of the shared options, ended; @ret_rows has room for CLI_OPTIONS_MAX. */
void cli_options(struct cli *cli, struct option_row *ret_rows);

/*
 * Loads --config when given, picks the stream, finds the daemon's address and, with --offline, starts
 * a private daemon. -1, or the exit status after the reason has been said. cli_done in any case.
 */
int cli_open(struct cli *cli);
void cli_done(struct cli *cli);

/* The recipe of the stream; NULL without a configuration. */
const struct lk_recipe *cli_recipe(const struct cli *cli);

/*
 * Connects. -1, or the exit status after the reason has been said. A daemon that does not answer
 * within seconds is unreachable; a private one is waited for as long as --timeout says.
 */
int cli_connect(struct cli *cli, const struct lanekeeper_options *ask, struct lanekeeper **ret_handle);

/* As rank 0 of 1, without look-ahead. */
int cli_connect_one(struct cli *cli, enum lanekeeper_sharing sharing, struct lanekeeper **ret_handle);

/*
 * Whoever shows what a running daemon serves under the name of a configuration says, on standard error, when that
 * describes another stream by now: a daemon reads its configuration once. Nothing is said when that cannot be told here.
 */
void cli_tell_changed(struct cli *cli, struct lanekeeper *handle);

/*
 * Tells a failure on standard error and, with --json, as an object on standard output. Returns the exit
 * status: EXIT_PROBLEM; of what a daemon said, or did not, EXIT_UNREACHABLE for UNAVAILABLE, unless it is a private
 * one. A file that cannot be read is UNAVAILABLE, too, and a problem.
 */
int cli_fail_daemon(struct cli *cli, int code, const char *text);
int cli_fail(struct cli *cli, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int cli_fail_call(struct cli *cli, const struct lanekeeper *handle, int code);
int cli_fail_err(struct cli *cli, const struct lk_err *err);

#endif
