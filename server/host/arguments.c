#include "host/arguments.h"

#include <stdlib.h>
#include <string.h>

static const char *const snapshots[] = {"write", "read", "off", NULL}; /* by enum daemon_snapshots */

enum argument { RUN_DIR, SNAPSHOTS, UNTIL_EOF };

const char daemon_synopsis[] = "lanekeeperd [--run-dir DIR] [--snapshots write|read|off] [--until-eof] CONFIG";
const char daemon_about[] =
    "Serves the streams of CONFIG until SIGTERM or SIGINT. `lanekeeper config check CONFIG`\n"
    "checks it without serving; `lanekeeper config reference` lists the keys.\n";

const struct daemon_argument *daemon_arguments(void)
{
    static const struct daemon_argument table[] = {
        [RUN_DIR] = {"--run-dir", "DIR", NULL,
                     "sockets in DIR and nowhere else: a second daemon on the same CONFIG. DIR is made, and "
                     "removed at the end if nothing is left in it"},
        [SNAPSHOTS] = {"--snapshots", "HOW", snapshots,
                       "write them as CONFIG says (write), only use those that are there (read), or neither "
                       "(off); likewise the counts of rows"},
        [UNTIL_EOF] = {"--until-eof", NULL, NULL, "stop when standard input, a pipe, ends"},
        {.name = NULL},
    };
    return table;
}

static int find(const char *name)
{
    const struct daemon_argument *table = daemon_arguments();
    for (int i = 0; table[i].name != NULL; i++) {
        if (strcmp(table[i].name, name) == 0)
            return i;
    }
    return -1;
}

static bool set(struct daemon_options *options, int argument, const char *value)
{
    switch (argument) {
    case RUN_DIR:
        options->run_dir = value;
        return value[0] != '\0';
    case SNAPSHOTS:
        for (int i = 0; snapshots[i] != NULL; i++) {
            if (strcmp(value, snapshots[i]) != 0)
                continue;
            options->snapshots = (enum daemon_snapshots)i;
            return true;
        }
        return false;
    default:
        options->until_eof = true;
        return true;
    }
}

bool daemon_arguments_parse(int argc, char **argv, struct daemon_options *ret_options)
{
    struct daemon_options options = {.config = NULL};
    for (int i = 1; i < argc; i++) {
        int argument = find(argv[i]);
        bool valued = argument >= 0 && daemon_arguments()[argument].value != NULL;
        if (argument < 0 && (argv[i][0] == '-' || options.config != NULL))
            return false;
        if (argument < 0)
            options.config = argv[i];
        else if ((valued && i + 1 >= argc) || !set(&options, argument, valued ? argv[++i] : ""))
            return false;
    }
    *ret_options = options;
    return options.config != NULL;
}

/* Broken at spaces; the lines after the first begin where the help does. */
static void put_help(struct lk_buf *out, const char *text)
{
    enum { INDENT = 18, WIDTH = 98 };
    size_t column = INDENT;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (column > INDENT && column + 1 + n > WIDTH) {
            lk_buf_putf(out, "\n%*s", INDENT, "");
            column = INDENT;
        }
        lk_buf_putf(out, "%s%.*s", column > INDENT ? " " : "", (int)n, text);
        column += n + (column > INDENT);
        text += n + (text[n] == ' ');
    }
    lk_buf_puts(out, "\n");
}

void daemon_arguments_help(struct lk_buf *out)
{
    lk_buf_putf(out, "usage: %s\n%s\n", daemon_synopsis, daemon_about);
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++) {
        char *left = lk_format("%s%s%s", row->name, row->value != NULL ? " " : "",
                               row->value != NULL ? row->value : "");
        lk_buf_putf(out, "%-17s ", left);
        free(left);
        put_help(out, row->help);
    }
}
