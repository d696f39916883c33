#include "client/cli/commands.h"

#include <stddef.h>
#include <string.h>

const struct command *commands(void)
{
    static const struct command table[] = {
        {"init", cmd_init, "write a starting configuration for a folder of data", false},
        {"index", cmd_index, "make or verify the index of a dataset", false},
        {"config", cmd_config, "check a configuration; list all its keys", false},
        {"measure", cmd_measure, "count the tokens of all rows ahead of time; what datasets are made of", false},
        {"explain", cmd_explain, "the plan of a stream in words and numbers, without a daemon", false},
        {"status", cmd_status, "what a daemon does, and what everything waits for", false},
        {"top", cmd_top, "the same as a screen that is refreshed: streams, lanes, workers, stalls, rates", false},
        {"peek", cmd_peek, "the sequences of a step, decoded, with the borders of documents", false},
        {"trace", cmd_trace, "where the pieces of a step come from; in which steps a row is used", false},
        {"digest", cmd_digest, "the digests of steps, as any number of ranks sees them", false},
        {"tokenize", cmd_tokenize, "the token ids of texts; what a tokenizer is", false},
        {"detokenize", cmd_detokenize, "the texts of token ids", false},
        {"verify", cmd_verify, "check snapshots, indexes, and the steps that a daemon serves", false},
        {"completion", cmd_completion, "what completes these commands in bash, zsh or fish", false},
        {"man", cmd_man, "a manual page", true},
        {.name = NULL},
    };
    return table;
}

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands(); command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0)
            return command;
    }
    return NULL;
}
