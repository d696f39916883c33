#include "client/cli/options.h"

#include "config/keys.h"
#include "config/scalar.h"
#include "core/steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char options_statuses[] = "exit status: 0 all is well, 1 a problem was found, 2 wrong arguments,\n"
                                "             3 no daemon could be reached\n";

int options_fail(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "lanekeeper %s: ", command);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\nTry `lanekeeper help %s`.\n", command);
    va_end(args);
    return EXIT_USAGE;
}

bool options_u64(const char *text, uint64_t max, uint64_t *ret_value)
{
    uint64_t value;
    if (lk_scalar_integer(text, &value) != NULL || value > max)
        return false;
    *ret_value = value;
    return true;
}

bool options_steps(const char *text, struct steps *ret_steps)
{
    struct steps steps;
    char from[24];
    const char *dots = strstr(text, "..");
    size_t n = dots != NULL ? (size_t)(dots - text) : strlen(text);
    if (n >= sizeof from)
        return false;
    memcpy(from, text, n);
    from[n] = '\0';
    if (!options_u64(from, LK_STEP_MAX - 1, &steps.from))
        return false;
    steps.to = steps.from + 1;
    if (dots != NULL && !options_u64(dots + 2, LK_STEP_MAX, &steps.to))
        return false;
    if (steps.to <= steps.from)
        return false;
    *ret_steps = steps;
    return true;
}

const struct option_row *options_next(const struct usage *usage, const struct option_row *row)
{
    bool own = true;
    if (row == NULL) {
        row = usage->own;
    } else {
        own = false;
        for (const struct option_row *r = usage->own; r != NULL && r->name != NULL; r++)
            own = own || r == row;
        row++;
    }
    if (own && (row == NULL || row->name == NULL))
        row = usage->shared;
    return row != NULL && row->name != NULL ? row : NULL;
}

/* ---- help ---- */

static void help_synopsis(const char *synopsis)
{
    const char *before = "usage: ";
    while (*synopsis != '\0') {
        int n = (int)strcspn(synopsis, "\n");
        (void)printf("%slanekeeper %.*s\n", before, n, synopsis);
        synopsis += n + (synopsis[n] == '\n');
        before = "       ";
    }
}

static void help_table(const struct option_row *row)
{
    for (; row != NULL && row->name != NULL; row++) {
        char left[64];
        (void)snprintf(left, sizeof left, "%s%s%s", row->name, row->value != NULL ? " " : "",
                       row->value != NULL ? row->value : "");
        (void)printf("  %-22s %s\n", left, row->help);
    }
}

static int help(const struct usage *usage)
{
    help_synopsis(usage->synopsis);
    (void)printf("\n%s", usage->about);
    if (options_next(usage, NULL) != NULL)
        (void)puts("");
    help_table(usage->own);
    if (usage->shared != NULL)
        (void)puts("");
    help_table(usage->shared);
    (void)printf("\n%s", options_statuses);
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_PROBLEM;
}

/* ---- parsing ---- */

static const struct option_row *find_in(const struct option_row *row, const char *name, size_t n)
{
    for (; row != NULL && row->name != NULL; row++) {
        if (strlen(row->name) == n && strncmp(row->name, name, n) == 0)
            return row;
    }
    return NULL;
}

static int fail_unknown(const char *command, const struct usage *usage, const char *name, int n)
{
    enum { WORDS_MAX = 32 };
    const char *words[WORDS_MAX + 1] = {NULL};
    char unknown[64];
    struct lk_buf meant = {0};
    size_t count = 0;
    const struct option_row *row = NULL;
    while (count < WORDS_MAX && (row = options_next(usage, row)) != NULL)
        words[count++] = row->name;
    (void)snprintf(unknown, sizeof unknown, "%.*s", n, name);
    lk_word_put_suggestion(&meant, words, unknown);
    int status = options_fail(command, "unknown option %s%s", unknown, lk_buf_cstr(&meant));
    lk_buf_done(&meant);
    return status;
}

static int set_value(const char *command, const struct option_row *row, const char *text)
{
    uint64_t value;
    switch (row->type) {
    case OPTION_FLAG:
        break;
    case OPTION_TEXT:
        if (text[0] == '\0')
            return options_fail(command, "%s: expected %s, found nothing", row->name, row->value);
        *(const char **)row->at = text;
        break;
    case OPTION_U32:
        if (!options_u64(text, row->max, &value) || value < row->min)
            return options_fail(command, "%s: expected an integer from %u to %u, found \"%s\"",
                                row->name, row->min, row->max, text);
        *(uint32_t *)row->at = (uint32_t)value;
        break;
    case OPTION_STEPS:
        if (!options_steps(text, row->at))
            return options_fail(command, "%s: expected FROM..TO with FROM < TO, found \"%s\"",
                                row->name, text);
        break;
    }
    return -1;
}

/* The option at argv[*i]; moves *i to its last argument. */
static int parse_option(int argc, char **argv, const struct usage *usage, int *i)
{
    const char *arg = argv[*i];
    size_t n = strcspn(arg, "=");
    const struct option_row *row = find_in(usage->own, arg, n);
    if (row == NULL)
        row = find_in(usage->shared, arg, n);
    if (row == NULL)
        return fail_unknown(argv[0], usage, arg, (int)n);
    if (row->type == OPTION_FLAG) {
        if (arg[n] == '=')
            return options_fail(argv[0], "%s takes no value", row->name);
        *(bool *)row->at = true;
        return -1;
    }
    if (arg[n] == '=')
        return set_value(argv[0], row, arg + n + 1);
    if (*i + 1 >= argc)
        return options_fail(argv[0], "%s: expected %s after it", row->name, row->value);
    return set_value(argv[0], row, argv[++*i]);
}

static int check_words(const char *command, const struct usage *usage, const char *word)
{
    struct lk_buf known = {0};
    for (size_t i = 0; usage->words[i] != NULL; i++) {
        if (strcmp(usage->words[i], word) == 0)
            return lk_buf_done(&known), -1;
        lk_buf_putf(&known, "%s%s", i == 0 ? "" : usage->words[i + 1] == NULL ? " or " : ", ",
                    usage->words[i]);
    }
    int status = options_fail(command, "expected %s, found \"%s\"", lk_buf_cstr(&known), word);
    lk_buf_done(&known);
    return status;
}

/* A configuration or an address where it is an option's value is the usual mistake: some commands take it so. */
static int fail_unexpected(const char *command, const struct usage *usage, const char *arg)
{
    const char *dot = strrchr(arg, '.');
    const char *name = strstr(arg, "://") != NULL                                              ? "--connect"
                       : dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0) ? "--config"
                                                                                                : NULL;
    bool known = name != NULL && (find_in(usage->own, name, strlen(name)) != NULL ||
                                  find_in(usage->shared, name, strlen(name)) != NULL);
    if (!known)
        return options_fail(command, "unexpected argument \"%s\"", arg);
    return options_fail(command, "unexpected argument \"%s\"; did you mean %s %s?", arg, name, arg);
}

int options_parse(int argc, char **argv, const struct listener *listener, const struct usage *usage,
                  int *ret_args)
{
    bool options = true;
    int args = 0;
    if (listener != NULL) {
        listener->hear(listener->owner, usage);
        return EXIT_WELL;
    }
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            return help(usage);
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            int status = parse_option(argc, argv, usage, &i);
            if (status >= 0)
                return status;
        } else {
            argv[1 + args++] = argv[i];
        }
    }
    if (usage->words != NULL && args > 0) {
        int status = check_words(argv[0], usage, argv[1]);
        if (status >= 0)
            return status;
    }
    if (args < usage->args_min)
        return options_fail(argv[0], "arguments are missing: lanekeeper %.*s",
                            (int)strcspn(usage->synopsis, "\n"), usage->synopsis);
    if (usage->args_max >= 0 && args > usage->args_max)
        return fail_unexpected(argv[0], usage, argv[1 + usage->args_max]);
    *ret_args = args;
    return -1;
}
