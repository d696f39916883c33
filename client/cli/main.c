/*
 * lanekeeper: the command line tool.
 *
 *   lanekeeper COMMAND [ARGUMENTS]
 *
 * One table drives dispatch and help.
 */
#include "client/cli/cmd_config.h"
#include "client/cli/cmd_index.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "config/keys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"index", lk_cmd_index, "make or verify the index of a dataset"},
    {"config", lk_cmd_config, "check a configuration; list all its keys"},
    {"measure", cmd_measure, "count the tokens of all rows ahead of time; what datasets are made of"},
    {"explain", cmd_explain, "the plan of a stream in words and numbers, without a daemon"},
    {"status", cmd_status, "what a daemon does, and what everything waits for"},
    {"peek", cmd_peek, "the sequences of a step, decoded, with the borders of documents"},
    {"trace", cmd_trace, "where the pieces of a step come from; in which steps a row is used"},
    {"digest", cmd_digest, "the digests of steps, as any number of ranks sees them"},
    {"tokenize", cmd_tokenize, "the token ids of texts; what a tokenizer is"},
    {"detokenize", cmd_detokenize, "the texts of token ids"},
    {"verify", cmd_verify, "check snapshots, indexes, and the steps that a daemon serves"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const struct command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int print_help(FILE *to)
{
    (void)fputs("usage: lanekeeper COMMAND [ARGUMENTS]\n"
                "       lanekeeper help COMMAND\n"
                "       lanekeeper --version\n\n",
                to);
    for (int i = 0; i < COMMANDS; i++)
        (void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    (void)fprintf(to, "\n%s", options_statuses);
    if (to != stdout)
        return EXIT_USAGE;
    return fflush(to) == 0 ? EXIT_WELL : EXIT_PROBLEM;
}

static int unknown(const char *name)
{
    const char *words[COMMANDS + 2];
    struct lk_buf meant = {0};
    for (int i = 0; i < COMMANDS; i++)
        words[i] = commands[i].name;
    words[COMMANDS] = "help";
    words[COMMANDS + 1] = NULL;
    lk_word_put_suggestion(&meant, words, name);
    (void)fprintf(stderr, "lanekeeper: unknown command \"%s\"%s\nTry `lanekeeper help`.\n", name,
                  lk_buf_cstr(&meant));
    lk_buf_done(&meant);
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc < 3)
        return print_help(stdout);
    const struct command *command = find(argv[2]);
    if (command == NULL)
        return unknown(argv[2]);
    char *args[] = {argv[2], option, NULL};
    return command->run(2, args);
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of writing */
    if (argc < 2)
        return print_help(stderr);
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "--version") == 0)
        return puts("lanekeeper " LK_VERSION) < 0 || fflush(stdout) != 0 ? EXIT_PROBLEM : EXIT_WELL;
    const struct command *command = find(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : unknown(argv[1]);
}
