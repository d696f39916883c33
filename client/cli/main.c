/*
 * lanekeeper: the command line tool.
 *
 *   lanekeeper COMMAND [ARGUMENTS]
 */
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "config/keys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int print_help(FILE *to)
{
    (void)fputs("usage: lanekeeper COMMAND [ARGUMENTS]\n"
                "       lanekeeper help COMMAND\n"
                "       lanekeeper --version\n\n",
                to);
    for (const struct command *command = commands(); command->name != NULL; command++)
        if (!command->hidden)
            (void)fprintf(to, "  %-10s %s\n", command->name, command->help);
    (void)fprintf(to, "\n%s", options_statuses);
    if (to != stdout)
        return EXIT_USAGE;
    return fflush(to) == 0 ? EXIT_WELL : EXIT_PROBLEM;
}

static int unknown(const char *name)
{
    enum { WORDS_MAX = 32 };
    const char *words[WORDS_MAX + 2];
    struct lk_buf meant = {0};
    size_t n = 0;
    for (const struct command *command = commands(); command->name != NULL && n < WORDS_MAX; command++)
        words[n++] = command->name;
    words[n++] = "help";
    words[n] = NULL;
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
    const struct command *command = command_find(argv[2]);
    if (command == NULL)
        return unknown(argv[2]);
    char *args[] = {argv[2], option, NULL};
    return command->run(2, args, NULL);
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
    const struct command *command = command_find(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1, NULL) : unknown(argv[1]);
}
