#include "client/cli/complete.h"

#include "client/cli/commands.h"
#include "host/arguments.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A command, and where what it takes is written. */
struct telling {
    struct lk_buf *out;
    const struct command *command;
};

/* ---- what a table says ---- */

/* Does a value that is called so name a file or folder? */
static bool is_path(const char *value)
{
    static const char *const words[] = {"FILE", "PATH", "CONFIG", "DIR", "INDEX"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0)
            return true;
    }
    return false;
}

/* Are there arguments of a command that name files? */
static bool takes_paths(const struct usage *usage)
{
    char word[16];
    for (const char *at = usage->synopsis; *at != '\0' && usage->args_max != 0;) {
        size_t n = 0;
        while (isupper((unsigned char)at[n]))
            n++;
        if (n > 0 && n < sizeof word) {
            memcpy(word, at, n);
            word[n] = '\0';
            if (is_path(word))
                return true;
        }
        at += n + (n == 0);
    }
    return false;
}

/* On one line, with what stands in @escaped behind a backslash, and a quote as a shell wants it inside of
 * single quotes. */
static void put_flat(struct lk_buf *out, const char *text, const char *escaped, const char *quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            text += strspn(text, "\n ") - 1;
            lk_buf_puts(out, " ");
        } else if (*text == '\'') {
            lk_buf_puts(out, quote);
        } else {
            lk_buf_puts(out, strchr(escaped, *text) != NULL ? "\\" : "");
            lk_buf_put(out, text, 1);
        }
    }
}

static void each_command(struct lk_buf *out, void (*hear)(void *owner, const struct usage *usage))
{
    for (const struct command *command = commands(); command->name != NULL; command++) {
        struct telling telling = {.out = out, .command = command};
        const struct listener listener = {.hear = hear, .owner = &telling};
        char *name = lk_strdup(command->name), *argv[] = {name, NULL};
        if (!command->hidden)
            (void)command->run(1, argv, &listener);
        free(name);
    }
}

static void put_commands(struct lk_buf *out)
{
    for (const struct command *command = commands(); command->name != NULL; command++)
        if (!command->hidden)
            lk_buf_putf(out, "%s ", command->name);
}

/* ---- bash ---- */

static void bash_command(void *owner, const struct usage *usage)
{
    struct telling *t = owner;
    const struct option_row *row = NULL;
    lk_buf_putf(t->out, "    %s)\n        options='", t->command->name);
    while ((row = options_next(usage, row)) != NULL)
        lk_buf_putf(t->out, "%s ", row->name);
    lk_buf_puts(t->out, "--help'\n        paths='");
    while ((row = options_next(usage, row)) != NULL)
        if (row->value != NULL && is_path(row->value))
            lk_buf_putf(t->out, " %s ", row->name);
    lk_buf_puts(t->out, "'\n        values='");
    while ((row = options_next(usage, row)) != NULL)
        if (row->value != NULL && !is_path(row->value))
            lk_buf_putf(t->out, " %s ", row->name);
    lk_buf_puts(t->out, "'\n        words='");
    for (size_t i = 0; usage->words != NULL && usage->words[i] != NULL; i++)
        lk_buf_putf(t->out, "%s ", usage->words[i]);
    lk_buf_putf(t->out, "'\n        files=%d\n        ;;\n", takes_paths(usage));
}

static void bash_daemon(struct lk_buf *out)
{
    lk_buf_puts(out, "_lanekeeperd() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                     "    COMPREPLY=()\n    case $prev in\n");
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++) {
        if (row->value == NULL)
            continue;
        lk_buf_putf(out, "    %s)\n", row->name);
        if (row->choices == NULL) {
            lk_buf_puts(out, "        compopt -o filenames 2>/dev/null\n"
                             "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n");
        } else {
            lk_buf_puts(out, "        mapfile -t COMPREPLY < <(compgen -W '");
            for (size_t i = 0; row->choices[i] != NULL; i++)
                lk_buf_putf(out, "%s ", row->choices[i]);
            lk_buf_puts(out, "' -- \"$cur\")\n");
        }
        lk_buf_puts(out, "        return\n        ;;\n");
    }
    lk_buf_puts(out, "    esac\n    if [[ $cur == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '");
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++)
        lk_buf_putf(out, "%s ", row->name);
    lk_buf_puts(out, "--help --version' -- \"$cur\")\n    else\n        compopt -o filenames 2>/dev/null\n"
                     "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\n");
}

/* Bash splits words at "=", so that an option's value comes after a word of its own. */
static const char bash_head[] =
    "# Completion of lanekeeper and lanekeeperd for bash; made by `lanekeeper completion bash`.\n"
    "_lanekeeper() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} options paths values words files=0\n"
    "    COMPREPLY=()\n"
    "    if [[ $cur == '=' ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == '=' ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";
static const char bash_tail[] =
    "    *) return ;;\n"
    "    esac\n"
    "    if [[ $paths == *\" $prev \"* ]]; then\n"
    "        files=1 options= words=\n"
    "    elif [[ $values == *\" $prev \"* ]]; then\n"
    "        return\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
    "        return\n"
    "    elif [[ -n $words && $COMP_CWORD -eq 2 ]]; then\n"
    "        files=0\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "    if [[ $files -eq 1 ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    fi\n"
    "}\n";

void complete_bash(struct lk_buf *out)
{
    lk_buf_puts(out, bash_head);
    lk_buf_puts(out, "    if [[ $COMP_CWORD -eq 1 ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '");
    put_commands(out);
    lk_buf_puts(out, "help --help --version' -- \"$cur\")\n        return\n    fi\n    case $command in\n    help) words='");
    put_commands(out);
    lk_buf_puts(out, "' ;;\n");
    each_command(out, bash_command);
    lk_buf_puts(out, bash_tail);
    bash_daemon(out);
    lk_buf_puts(out, "complete -F _lanekeeper lanekeeper\ncomplete -F _lanekeeperd lanekeeperd\n");
}

/* ---- zsh ---- */

static void zsh_option(struct lk_buf *out, const char *name, const char *value, bool path,
                       const char *const *choices, const char *help)
{
    bool is_long = strncmp(name, "--", 2) == 0;
    lk_buf_putf(out, " \\\n            '%s%s[", name, value != NULL && is_long ? "=" : "");
    put_flat(out, help, "[]\\:", "'\\''");
    lk_buf_puts(out, "]");
    if (value != NULL)
        lk_buf_putf(out, ":%s:", value);
    if (path)
        lk_buf_puts(out, "_files");
    if (choices != NULL) {
        lk_buf_puts(out, "(");
        for (size_t i = 0; choices[i] != NULL; i++)
            lk_buf_putf(out, "%s%s", i > 0 ? " " : "", choices[i]);
        lk_buf_puts(out, ")");
    }
    lk_buf_puts(out, "'");
}

static void zsh_command(void *owner, const struct usage *usage)
{
    struct telling *t = owner;
    const struct option_row *row = NULL;
    lk_buf_putf(t->out, "    %s)\n        _arguments '(- *)--help[say what it takes]'", t->command->name);
    while ((row = options_next(usage, row)) != NULL)
        zsh_option(t->out, row->name, row->value, row->value != NULL && is_path(row->value), NULL, row->help);
    if (usage->words != NULL) {
        lk_buf_puts(t->out, " \\\n            '1:what:(");
        for (size_t i = 0; usage->words[i] != NULL; i++)
            lk_buf_putf(t->out, "%s%s", i > 0 ? " " : "", usage->words[i]);
        lk_buf_puts(t->out, ")'");
    }
    if (takes_paths(usage))
        lk_buf_puts(t->out, " \\\n            '*:file:_files'");
    lk_buf_puts(t->out, "\n        ;;\n");
}

void complete_zsh(struct lk_buf *out)
{
    lk_buf_puts(out, "#compdef lanekeeper lanekeeperd\n"
                     "# Completion of lanekeeper and lanekeeperd for zsh; made by `lanekeeper completion zsh`.\n"
                     "_lanekeeper() {\n    local -a commands\n    commands=(\n");
    for (const struct command *command = commands(); command->name != NULL; command++) {
        if (command->hidden)
            continue;
        lk_buf_putf(out, "        '%s:", command->name);
        put_flat(out, command->help, ":\\", "'\\''");
        lk_buf_puts(out, "'\n");
    }
    lk_buf_puts(out, "        'help:say what a command takes'\n    )\n"
                     "    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
                     "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n"
                     "    help) _describe command commands ;;\n");
    each_command(out, zsh_command);
    lk_buf_puts(out, "    esac\n}\n_lanekeeperd() {\n    _arguments '(- *)--help[say what it takes]' '(- *)--version[say its version]'");
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++)
        zsh_option(out, row->name, row->value, row->value != NULL && row->choices == NULL, row->choices, row->help);
    lk_buf_puts(out, " \\\n            '1:configuration:_files'\n}\n"
                     "case $service in\nlanekeeperd) _lanekeeperd \"$@\" ;;\n*) _lanekeeper \"$@\" ;;\nesac\n");
}

/* ---- fish ---- */

static void fish_option(struct lk_buf *out, const char *condition, const char *name, const char *value, bool path,
                        const char *help)
{
    bool is_long = strncmp(name, "--", 2) == 0;
    lk_buf_putf(out, "complete -c %s -%s %s", condition, is_long ? "l" : "s", name + (is_long ? 2 : 1));
    if (value != NULL)
        lk_buf_puts(out, path ? " -r -F" : " -x");
    lk_buf_puts(out, " -d '");
    put_flat(out, help, "\\", "\\'");
    lk_buf_puts(out, "'\n");
}

static void fish_command(void *owner, const struct usage *usage)
{
    struct telling *t = owner;
    const struct option_row *row = NULL;
    char *condition = lk_format("lanekeeper -n '__fish_seen_subcommand_from %s'", t->command->name);
    while ((row = options_next(usage, row)) != NULL)
        fish_option(t->out, condition, row->name, row->value, row->value != NULL && is_path(row->value), row->help);
    for (size_t i = 0; usage->words != NULL && usage->words[i] != NULL; i++)
        lk_buf_putf(t->out, "complete -c %s -a %s\n", condition, usage->words[i]);
    if (takes_paths(usage))
        lk_buf_putf(t->out, "complete -c %s -F\n", condition);
    free(condition);
}

void complete_fish(struct lk_buf *out)
{
    lk_buf_puts(out, "# Completion of lanekeeper and lanekeeperd for fish; made by `lanekeeper completion fish`.\n"
                     "complete -c lanekeeper -f\n");
    for (const struct command *command = commands(); command->name != NULL; command++) {
        if (command->hidden)
            continue;
        lk_buf_putf(out, "complete -c lanekeeper -n __fish_use_subcommand -a %s -d '", command->name);
        put_flat(out, command->help, "\\", "\\'");
        lk_buf_puts(out, "'\n");
    }
    lk_buf_puts(out, "complete -c lanekeeper -n __fish_use_subcommand -a help -d 'say what a command takes'\n"
                     "complete -c lanekeeper -n '__fish_seen_subcommand_from help' -a '");
    put_commands(out);
    lk_buf_puts(out, "'\n");
    each_command(out, fish_command);
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++) {
        if (row->choices != NULL) {
            lk_buf_putf(out, "complete -c lanekeeperd -l %s -x -a '", row->name + 2);
            for (size_t i = 0; row->choices[i] != NULL; i++)
                lk_buf_putf(out, "%s%s", i > 0 ? " " : "", row->choices[i]);
            lk_buf_puts(out, "'\n");
        }
        fish_option(out, "lanekeeperd", row->name, row->value, row->choices == NULL, row->help);
    }
}
