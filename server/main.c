/*
 * lanekeeperd: arguments → configuration → wire up → run.
 *
 *   lanekeeperd [--run-dir DIR] [--snapshots write|read|off] [--until-eof] CONFIG
 *
 * Exit status: 0 stopped as asked; 1 could not start or go on, with the reason on stderr; 2 usage.
 */
#include "host/daemon.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int usage(FILE *to)
{
    (void)fputs("usage: lanekeeperd [--run-dir DIR] [--snapshots write|read|off] [--until-eof] CONFIG\n"
          "Serves the streams of CONFIG until SIGTERM or SIGINT. `lanekeeper config check CONFIG`\n"
          "checks it without serving; `lanekeeper config reference` lists the keys.\n"
          "\n"
          "--run-dir DIR    sockets in DIR and nowhere else: a second daemon on the same CONFIG. DIR is\n"
          "                 made, and removed at the end if nothing is left in it\n"
          "--snapshots HOW  write them as CONFIG says (write), only use those that are there (read),\n"
          "                 or neither (off); likewise the counts of rows\n"
          "--until-eof      stop when standard input, a pipe, ends\n",
          to);
    return to == stdout ? 0 : 2;
}

static bool parse_snapshots(const char *text, enum daemon_snapshots *ret_snapshots)
{
    static const char *const names[] = {"write", "read", "off"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_snapshots = (enum daemon_snapshots)i;
            return true;
        }
    }
    return false;
}

/* False: usage. */
static bool parse(int argc, char **argv, struct daemon_options *options)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--run-dir") == 0 && value != NULL && value[0] != '\0')
            options->run_dir = argv[++i];
        else if (strcmp(argv[i], "--snapshots") == 0 && value != NULL &&
                 parse_snapshots(value, &options->snapshots))
            i++;
        else if (strcmp(argv[i], "--until-eof") == 0)
            options->until_eof = true;
        else if (argv[i][0] != '-' && options->config == NULL)
            options->config = argv[i];
        else
            return false;
    }
    return options->config != NULL;
}

int main(int argc, char **argv)
{
    struct daemon_options options = {.config = NULL};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("lanekeeperd " LK_VERSION);
        return 0;
    }
    if (!parse(argc, argv, &options))
        return usage(stderr);
    return daemon_run(&options);
}
