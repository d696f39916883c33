#include "client/cli/manual.h"

#include "base/utf8.h"
#include "client/cli/commands.h"
#include "config/config.h"
#include "config/keys.h"
#include "host/arguments.h"
#include "proto/worker_arguments.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

/* One character that is not ASCII, by its number: what every formatter reads, whatever its locale. */
static size_t put_wide(struct lk_buf *out, const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t n = lk_utf8_length(p, strlen(text));
    unsigned c = n == 2 ? p[0] & 0x1fu : n == 3 ? p[0] & 0x0fu : p[0] & 0x07u;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3fu);
    if (n == 0)
        return 1;
    lk_buf_putf(out, "\\[u%04X]", c);
    return n;
}

/* Prose: `code` in backticks becomes bold; a line that begins with spaces goes on with the one before. */
static void put_text(struct lk_buf *out, const char *text)
{
    bool begins = true, bold = false;
    while (*text != '\0') {
        size_t n = 1;
        if (begins && (*text == '.' || *text == '\''))
            lk_buf_puts(out, "\\&");
        begins = *text == '\n';
        if ((unsigned char)*text >= 0x80) {
            n = put_wide(out, text);
        } else if (*text == '`') {
            bold = !bold;
            lk_buf_puts(out, bold ? "\\fB" : "\\fR");
        } else if (*text == '\\') {
            lk_buf_puts(out, "\\e");
        } else if (*text == '-') {
            lk_buf_puts(out, "\\-");
        } else {
            lk_buf_put(out, text, 1);
        }
        text += n;
        if (begins)
            text += strspn(text, " ");
    }
}

/* In whole lines; nothing at all stays nothing. */
static void put_lines(struct lk_buf *out, const char *text)
{
    size_t before = out->len;
    put_text(out, text);
    if (out->len > before && out->data[out->len - 1] != '\n')
        lk_buf_puts(out, "\n");
}

static void put_head(struct lk_buf *out, const char *name, int section, const char *what)
{
    lk_buf_putf(out, ".\\\" Made by `lanekeeper man`.\n.TH \"%s\" \"%d\" \"\" \"lanekeeper " LK_VERSION "\" \"Lanekeeper\"\n.SH NAME\n", name, section);
    put_text(out, name);
    lk_buf_puts(out, " \\- ");
    put_lines(out, what);
}

/* The term of a list: what is typed in bold, what stands for something in italics. */
static void put_term(struct lk_buf *out, const char *name, const char *value)
{
    lk_buf_puts(out, ".TP\n\\fB");
    put_text(out, name);
    lk_buf_puts(out, "\\fR");
    if (value != NULL) {
        lk_buf_puts(out, " \\fI");
        put_text(out, value);
        lk_buf_puts(out, "\\fR");
    }
    lk_buf_puts(out, "\n");
}

static void put_item(struct lk_buf *out, const char *name, const char *value, const char *text)
{
    put_term(out, name, value);
    put_lines(out, text);
}

/* The texts of exit statuses 0, 1, …, up to NULL. */
static void put_statuses(struct lk_buf *out, const char *const *text)
{
    lk_buf_puts(out, ".SH EXIT STATUS\n");
    for (char status[] = "0"; *text != NULL; status[0]++)
        put_item(out, status, NULL, *text++);
}

/* Of a program that has options, which follow. */
static void put_opening(struct lk_buf *out, const char *synopsis, const char *about)
{
    lk_buf_puts(out, ".SH SYNOPSIS\n");
    put_lines(out, synopsis);
    lk_buf_puts(out, ".SH DESCRIPTION\n");
    put_lines(out, about);
}

/* ---- lanekeeper.1 ---- */

static void put_synopsis(struct lk_buf *out, const char *synopsis)
{
    while (*synopsis != '\0') {
        size_t n = strcspn(synopsis, "\n");
        char *line = lk_strndup(synopsis, n);
        lk_buf_puts(out, "\\fBlanekeeper\\fR ");
        put_lines(out, line);
        synopsis += n + (synopsis[n] == '\n');
        lk_buf_puts(out, *synopsis != '\0' ? ".br\n" : "");
        free(line);
    }
}

static void put_command(void *owner, const struct usage *usage)
{
    struct lk_buf *out = owner;
    const struct option_row *row = NULL;
    put_synopsis(out, usage->synopsis);
    lk_buf_puts(out, ".PP\n");
    put_lines(out, usage->about);
    while ((row = options_next(usage, row)) != NULL) {
        put_item(out, row->name, row->value, row->help);
    }
}

static void put_environment(struct lk_buf *out)
{
    lk_buf_puts(out, ".SH ENVIRONMENT\n");
    put_item(out, "LANEKEEPER_ADDRESS", NULL, "where the daemon is, for commands that are told neither an address nor a configuration");
    put_item(out, "NO_COLOR", NULL, "if it is not empty, `lanekeeper top` shows no colours");
    put_item(out, "TMPDIR", NULL, "where large shards are decoded, and private daemons have their sockets");
}

void manual_lanekeeper(struct lk_buf *out)
{
    put_head(out, "lanekeeper", 1, "prepare, look at and check streams of training batches");
    lk_buf_puts(out, ".SH SYNOPSIS\n\\fBlanekeeper\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.br\n"
                     "\\fBlanekeeper help\\fR \\fICOMMAND\\fR\n.br\n\\fBlanekeeper \\-\\-version\\fR\n.SH DESCRIPTION\n");
    put_lines(out, "The tool of lanekeeperd(8), which serves packed batches of tokens to those who train models. It makes "
                   "configurations and indexes, says what a stream will do, shows what a daemon does, and checks that "
                   "what was served is what the configuration says.");
    lk_buf_puts(out, ".PP\n");
    put_lines(out, "An option's value follows it, after a space or `=`; `--` ends the options.");
    lk_buf_puts(out, ".SH COMMANDS\n");
    for (const struct command *command = commands(); command->name != NULL; command++) {
        const struct listener listener = {.hear = put_command, .owner = out};
        char *name = lk_strdup(command->name), *argv[] = {name, NULL};
        if (!command->hidden) {
            lk_buf_putf(out, ".SS %s\n", command->name);
            (void)command->run(1, argv, &listener);
        }
        free(name);
    }
    static const char *const statuses[] = {"all is well", "a problem was found", "wrong arguments",
                                           "no daemon could be reached", NULL};
    put_statuses(out, statuses);
    put_environment(out);
    lk_buf_puts(out, ".SH EXAMPLES\n.EX\nlanekeeper init data\nlanekeeper index lanekeeper.yaml\n"
                     "lanekeeper explain lanekeeper.yaml\nlanekeeperd lanekeeper.yaml &\nlanekeeper top lanekeeper.yaml\n"
                     "lanekeeper peek 0 \\-\\-config lanekeeper.yaml\n.EE\n"
                     ".SH SEE ALSO\n.BR lanekeeper.yaml (5),\n.BR lanekeeperd (8),\n.BR lanekeeper\\-worker (8)\n");
}

/* ---- lanekeeperd.8 ---- */

void manual_lanekeeperd(struct lk_buf *out)
{
    static const char *const statuses[] = {"stopped as asked",
                                           "could not start or go on: standard error has the reason",
                                           "wrong arguments",
                                           NULL};
    put_head(out, "lanekeeperd", 8, "serve streams of training batches");
    put_opening(out, daemon_synopsis, daemon_about);
    lk_buf_puts(out, ".SH OPTIONS\n");
    for (const struct daemon_argument *row = daemon_arguments(); row->name != NULL; row++) {
        put_item(out, row->name, row->value, row->help);
    }
    put_item(out, "--help", NULL, "says this");
    put_item(out, "--version", NULL, "says which version it is");
    lk_buf_puts(out, ".SH SIGNALS\n");
    put_lines(out, "SIGTERM and SIGINT stop it once what it was doing is put away, within `runtime.drain_timeout`; a second "
                   "one stops it at once. SIGHUP and SIGPIPE change nothing.");
    put_statuses(out, statuses);
    lk_buf_puts(out, ".SH SEE ALSO\n.BR lanekeeper (1),\n.BR lanekeeper\\-worker (8),\n.BR lanekeeper.yaml (5)\n");
}

/* ---- lanekeeper-worker.8 ---- */

void manual_worker(struct lk_buf *out)
{
    static const char *const statuses[] = {"the daemon ended",
                                           "refused by the daemon, or it was gone for longer than `--reconnect`: standard error has the reason",
                                           "wrong arguments",
                                           NULL};
    put_head(out, "lanekeeper-worker", 8, "read and tokenise rows for a lanekeeperd");
    put_opening(out, worker_synopsis, worker_about);
    lk_buf_puts(out, ".PP\n");
    put_lines(out, "A daemon starts the workers of its own machine by itself (`runtime.workers`). On other machines they are "
                   "started by hand, as many as there are processors to spare, for a daemon whose configuration has "
                   "`runtime.workers_listen` and `runtime.worker_token_file`. The data and the tokenizer must have the same "
                   "paths there. Workers keep nothing: they may come, go and be killed at any time, and no batch "
                   "depends on it.");
    lk_buf_puts(out, ".SH OPTIONS\n");
    for (const struct worker_argument *row = worker_arguments(); row->name != NULL; row++) {
        char *name = lk_format("--%s", row->name);
        put_item(out, name, row->value, row->help);
        free(name);
    }
    put_item(out, "--help", NULL, "says this");
    put_statuses(out, statuses);
    lk_buf_puts(out, ".SH EXAMPLES\n.EX\nlanekeeper\\-worker \\-\\-connect tcp://trainer\\-0:7100 \\-\\-token\\-file worker.token\n.EE\n"
                     ".SH SEE ALSO\n.BR lanekeeper.yaml (5),\n.BR lanekeeperd (8)\n");
}

/* ---- lanekeeper.yaml.5 ---- */

static void put_key(struct lk_buf *out, const struct lk_key *key, const char *name)
{
    struct lk_buf expected = {0};
    put_item(out, name, NULL, key->help);
    lk_key_put_expected(&expected, key);
    lk_buf_puts(out, ".br\n");
    put_text(out, lk_buf_cstr(&expected));
    if (key->required)
        lk_buf_puts(out, "; required");
    if (key->def != NULL) {
        lk_buf_puts(out, "; default \\fB");
        put_text(out, key->def);
        lk_buf_puts(out, "\\fR");
    }
    lk_buf_puts(out, "\n");
    lk_buf_done(&expected);
}

static void put_section(void *owner, const char *section)
{
    struct lk_buf *out = owner;
    size_t n;
    const struct lk_key *keys = lk_keys(&n);
    lk_buf_puts(out, ".SS ");
    put_lines(out, section[0] == '\0' ? "The file" : section);
    for (size_t k = 0; k < n; k++) {
        const char *name = lk_key_name_in(&keys[k], section);
        if (name != NULL)
            put_key(out, &keys[k], name);
    }
}

void manual_yaml(struct lk_buf *out)
{
    put_head(out, "lanekeeper.yaml", 5, "the configuration of lanekeeperd");
    lk_buf_puts(out, ".SH DESCRIPTION\n");
    put_lines(out, lk_config_notation());
    lk_buf_puts(out, ".PP\n");
    put_lines(out, "`lanekeeper init` writes one for a folder of data, `lanekeeper config check` checks one.");
    lk_buf_puts(out, ".SH KEYS\n");
    lk_config_each_section(put_section, out);
    lk_buf_puts(out, ".SH EXAMPLES\n.EX\nstreams:\n  pretrain:\n    sequence: 2048\n    batch: 8\n"
                     "    tokenizer: {hf: tokenizer.json, append: eos}\n    datasets:\n      docs: {path: data/docs}\n"
                     "    pipeline:\n      \\- pack: {algorithm: exact_fit}\n.EE\n"
                     ".SH SEE ALSO\n.BR lanekeeper (1),\n.BR lanekeeperd (8)\n");
}
