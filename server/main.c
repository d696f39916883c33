/*
 * lanekeeperd: arguments → configuration → wire up → run.
 *
 *   lanekeeperd [--run-dir DIR] [--snapshots write|read|off] [--until-eof] CONFIG
 *
 * Exit status: 0 stopped as asked; 1 could not start or go on, with the reason on stderr; 2 usage.
 */
#include "host/arguments.h"
#include "host/daemon.h"

#include <stdio.h>
#include <string.h>

static int usage(FILE *to)
{
    struct lk_buf text = {0};
    daemon_arguments_help(&text);
    (void)fputs(lk_buf_cstr(&text), to);
    lk_buf_done(&text);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct daemon_options options;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("lanekeeperd " LK_VERSION);
        return 0;
    }
    if (!daemon_arguments_parse(argc, argv, &options))
        return usage(stderr);
    return daemon_run(&options);
}
