/* `lanekeeper completion` and `lanekeeper man`: what is made from the tables of commands and keys. */
#include "client/cli/commands.h"
#include "client/cli/complete.h"
#include "client/cli/manual.h"
#include "client/cli/output.h"

#include <string.h>

typedef void generate(struct lk_buf *out);

/* Prints what the first argument, one of @words, stands for. */
static int print(const char *const *words, generate *const *makes, const char *word)
{
    struct lk_buf out = {0};
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            makes[i](&out);
    bool written = output_flush(&out);
    lk_buf_done(&out);
    return written ? EXIT_WELL : EXIT_PROBLEM;
}

int cmd_completion(int argc, char **argv, const struct listener *listener)
{
    static const char *const words[] = {"bash", "zsh", "fish", NULL};
    static generate *const makes[] = {complete_bash, complete_zsh, complete_fish};
    const struct usage usage = {
        .synopsis = "completion bash | zsh | fish",
        .about = "Prints what completes lanekeeper and lanekeeperd in a shell. `make install` puts it where shells\n"
                 "look; else: . <(lanekeeper completion bash)\n",
        .args_min = 1, .args_max = 1, .words = words};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    return status >= 0 ? status : print(words, makes, argv[1]);
}

int cmd_man(int argc, char **argv, const struct listener *listener)
{
    static const char *const words[] = {"lanekeeper.1", "lanekeeperd.8", "lanekeeper-worker.8", "lanekeeper.yaml.5", NULL};
    static generate *const makes[] = {manual_lanekeeper, manual_lanekeeperd, manual_worker, manual_yaml};
    const struct usage usage = {
        .synopsis = "man lanekeeper.1 | lanekeeperd.8 | lanekeeper-worker.8 | lanekeeper.yaml.5",
        .about = "Prints a manual page for man -l.\n",
        .args_min = 1, .args_max = 1, .words = words};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    return status >= 0 ? status : print(words, makes, argv[1]);
}
