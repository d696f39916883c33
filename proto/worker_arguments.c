#include "proto/worker_arguments.h"

#include <stddef.h>

const char worker_synopsis[] =
    "lanekeeper-worker --connect ADDRESS (--token-file FILE | --token-fd N) [--reconnect SECONDS]";
const char worker_about[] = "Does tasks for the lanekeeperd that listens for workers at ADDRESS (tcp://host:port).\n";

const struct worker_argument *worker_arguments(void)
{
    static const struct worker_argument table[WORKER_ARGUMENTS + 1] = {
        {'c', "connect", "ADDRESS", "where the daemon listens for workers"},
        {'f', "token-file", "FILE", "file with the secret that the daemon asks of its workers"},
        {'d', "token-fd", "N", "the same from an open descriptor"},
        {'r', "reconnect", "SECONDS", "how long to look for a daemon that is gone (default 600)"},
        {'l', "local", "PID", "of a daemon's own workers: its process number, and no other option"},
        {.name = NULL},
    };
    return table;
}
