/*
 * lanekeeperd: arguments → configuration → wire up → run.
 *
 *   lanekeeperd CONFIG
 *
 * Exit status: 0 stopped as asked; 1 could not start or go on, with the reason on stderr; 2 usage.
 */
#include "host/daemon.h"

#include <stdio.h>
#include <string.h>

static int usage(FILE *to)
{
    fputs("usage: lanekeeperd CONFIG\n"
          "Serves the streams of CONFIG until SIGTERM or SIGINT. `lanekeeper config check CONFIG`\n"
          "checks it without serving; `lanekeeper config reference` lists the keys.\n",
          to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("lanekeeperd " LK_VERSION);
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-')
        return usage(stderr);
    return daemon_run(argv[1]);
}
