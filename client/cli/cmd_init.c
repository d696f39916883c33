/* `lanekeeper init`: from a folder of data to a configuration that serves it. */
#include "client/cli/commands.h"
#include "client/cli/init_text.h"
#include "client/cli/output.h"
#include "config/config.h"
#include "host/machine.h"
#include "store/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_BYTES = 4 }; /* of a text, about, for want of counting */

struct init_command {
    const char *dir, *path, *field;
    char *folder; /* of the file to write, absolute */
    struct survey survey;
    struct found_tokenizers tokenizers;
    struct suggestion suggestion;
    struct lk_buf text;
};

static int fail(const char *why)
{
    (void)fprintf(stderr, "lanekeeper init: %s\n", why);
    return EXIT_PROBLEM;
}

/* Where the file goes: a folder that is there, a name that is free. */
static enum lk_code check_target(struct init_command *c, struct lk_err *err)
{
    struct stat st;
    const char *slash = strrchr(c->path, '/');
    char *folder = slash == NULL ? lk_strdup(".") : lk_strndup(c->path, slash == c->path ? 1 : (size_t)(slash - c->path));
    c->folder = realpath(folder, NULL);
    enum lk_code code = c->folder == NULL ? lk_file_fail(err, errno, "cannot write into", folder) : LK_OK;
    free(folder);
    if (code == LK_OK && lstat(c->path, &st) == 0)
        code = lk_fail(err, LK_ALREADY_EXISTS, "%s is there already, and is not overwritten: say -o FILE", c->path);
    return code;
}

static void look_for_tokenizers(struct init_command *c)
{
    char *above = lk_format("%s/..", c->dir);
    const char *const dirs[] = {c->dir, above, c->folder, "."};
    seek_tokenizers(dirs, sizeof dirs / sizeof *dirs, &c->tokenizers);
    free(above);
}

static bool any_tokenizer(const struct init_command *c)
{
    for (uint32_t i = 0; i < c->tokenizers.n; i++) {
        if (c->tokenizers.one[i].trouble == NULL)
            return true;
    }
    return false;
}

/* What this process may use of it: in a container less than there is. */
static struct machine this_machine(void)
{
    struct machine_memory memory;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    machine_memory_read("", &memory);
    struct machine machine = {.processors = processors > 0 ? (unsigned)processors : 1,
                              .memory_bytes = memory.from != NULL ? memory.bytes : 0};
    machine_memory_done(&memory);
    return machine;
}

/* ---- what is said ---- */

static void put_field(struct lk_buf *out, const char *path)
{
    lk_buf_puts(out, "\"");
    put_safe(out, path, strlen(path));
    lk_buf_puts(out, "\"");
}

/* What rows have beside the field that is served: to lose it silently would cost a training run. */
static void tell_fields(const struct init_command *c, const struct survey_dataset *d)
{
    struct lk_buf out = {0}, unserved = {0};
    const char *text = d->field[d->text].path;
    if (c->field != NULL && !d->named) {
        lk_buf_putf(&out, "lanekeeper init: dataset %s: fewer than half of the sampled rows have a text ", d->name);
        put_field(&out, c->field);
        lk_buf_puts(&out, ": the longest string, ");
        put_field(&out, text);
        lk_buf_puts(&out, ", is taken\n");
    }
    put_unserved(&unserved, d);
    if (unserved.len > 0) {
        lk_buf_putf(&out, "lanekeeper init: dataset %s: a row has one text, ", d->name);
        put_field(&out, text);
        lk_buf_putf(&out, ", so these are not served: %s; --text FIELD takes another; to serve several, write them into one "
                          "field first\n", lk_buf_cstr(&unserved));
    }
    (void)fputs(lk_buf_cstr(&out), stderr);
    lk_buf_done(&unserved);
    lk_buf_done(&out);
}

static void tell_troubles(const struct init_command *c)
{
    for (uint32_t i = 0; i < c->survey.n; i++) {
        const struct survey_dataset *d = &c->survey.dataset[i];
        const struct survey_field *text = d->trouble == NULL ? &d->field[d->text] : NULL;
        if (d->trouble != NULL)
            (void)fprintf(stderr, "lanekeeper init: dataset %s is left out: %s\n", d->name, d->trouble);
        else if (d->bad != NULL)
            (void)fprintf(stderr, "lanekeeper init: dataset %s: %s\n", d->name, d->bad);
        if (text != NULL)
            tell_fields(c, d);
        if (text != NULL && text->missing != NULL)
            (void)fprintf(stderr, "lanekeeper init: dataset %s: %" PRIu64 " of %" PRIu64 " sampled rows have no text \"%s\" and "
                          "will be dropped, the first is %s; shards with another field are a dataset of their own\n",
                          d->name, d->rows - text->rows, d->rows, text->path, text->missing);
        if (d->files.n_ignored > 0)
            (void)fprintf(stderr, "lanekeeper init: dataset %s: not shards: %u file%s, such as %s/%s\n", d->name,
                          d->files.n_ignored, d->files.n_ignored == 1 ? "" : "s", d->files.root, d->files.ignored[0]);
    }
    for (uint32_t i = 0; i < c->survey.n_bare; i++)
        (void)fprintf(stderr, "lanekeeper init: left out: %s\n", c->survey.bare[i]);
    if (c->survey.beside != NULL)
        (void)fprintf(stderr, "lanekeeper init: left out: %s: expected a name like *.jsonl, *.jsonl.gz or *.jsonl.zst%s\n",
                      c->survey.beside, survey_hint(c->survey.beside));
    for (uint32_t i = 0; i < c->tokenizers.n; i++)
        if (c->tokenizers.one[i].trouble != NULL)
            (void)fprintf(stderr, "lanekeeper init: a tokenizer cannot be used: %s\n", c->tokenizers.one[i].trouble);
}

static int tell_found(const struct init_command *c)
{
    struct lk_buf out = {0};
    for (uint32_t i = 0; i < c->survey.n; i++) {
        const struct survey_dataset *d = &c->survey.dataset[i];
        if (d->trouble != NULL)
            continue;
        const struct survey_field *text = &d->field[d->text];
        lk_buf_putf(&out, "dataset %s: %s", d->name, d->whole ? "" : "about ");
        put_count(&out, d->all_rows);
        lk_buf_puts(&out, d->all_rows == 1 ? " row in " : " rows in ");
        put_count(&out, d->files.n);
        lk_buf_puts(&out, d->files.n == 1 ? " shard, " : " shards, ");
        put_bytes(&out, d->all_text_bytes);
        lk_buf_puts(&out, " of text in \"");
        put_safe(&out, text->path, strlen(text->path));
        lk_buf_putf(&out, "\"%s (%llu bytes a row)\n", d->named ? "" : ", the longest string",
                    (unsigned long long)(text->bytes / text->rows));
    }
    if (!any_tokenizer(c))
        lk_buf_puts(&out, "no tokenizer was found: every byte is a token until you name one in the file\n");
    lk_buf_puts(&out, "wrote ");
    put_safe(&out, c->path, strlen(c->path));
    lk_buf_puts(&out, "; next: lanekeeper index ");
    put_safe(&out, c->path, strlen(c->path));
    lk_buf_puts(&out, "\n");
    bool written = output_flush(&out);
    lk_buf_done(&out);
    return written && c->survey.usable == c->survey.n ? EXIT_WELL : EXIT_PROBLEM;
}

/* ---- the command ---- */

/* What is written has to be what the daemon reads. */
static enum lk_code write_file(struct init_command *c, struct lk_err *err)
{
    struct lk_config config = {0};
    enum lk_code code = lk_config_parse(c->path, c->text.data, c->text.len, c->folder, &config, err);
    lk_config_done(&config);
    if (code != LK_OK)
        return lk_fail_in(err, "what was found gives no good configuration");
    return lk_file_write_atomic(c->path, c->text.data, c->text.len, err);
}

static int run(struct init_command *c)
{
    struct lk_err err;
    const struct machine machine = this_machine();
    if (check_target(c, &err) != LK_OK || survey_folder(c->dir, c->field, &c->survey, &err) != LK_OK)
        return fail(err.text);
    look_for_tokenizers(c);
    tell_troubles(c);
    if (c->survey.usable == 0)
        return fail("no dataset can be used, so nothing was written");
    c->suggestion = suggest(&c->survey, &machine, any_tokenizer(c) ? TOKEN_BYTES : 1);
    init_text(&c->text, c->folder, &c->survey, &c->tokenizers, &c->suggestion);
    return write_file(c, &err) == LK_OK ? tell_found(c) : fail(err.text);
}

int cmd_init(int argc, char **argv, const struct listener *listener)
{
    struct init_command c = {.path = "lanekeeper.yaml"};
    const struct option_row own[] = {
        {"-o", "FILE", OPTION_TEXT, &c.path, 0, 0, "the file to write, which must not be there; lanekeeper.yaml by default"},
        {"--text", "FIELD", OPTION_TEXT, &c.field, 0, 0,
         "the text of datasets that have such a field, a dotted path (body.content); by default the longest string"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "init DIR [-o FILE] [--text FIELD]",
        .about = "Writes a starting configuration for a folder of data (*.jsonl, *.jsonl.gz, *.jsonl.zst), with\n"
                 "comments that say what was found and why it was chosen: a dataset a subfolder (or a group of\n"
                 "files whose names begin alike), the field of the text, weights by bytes, a tokenizer that lies\n"
                 "near, lanes, batch and memory. Reads the beginnings of some shards; what cannot be used is\n"
                 "named and left out, with exit status 1. The file works as it is: index, check, explain, serve.\n",
        .own = own, .args_min = 1, .args_max = 1};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    c.dir = argv[1];
    status = run(&c);
    survey_done(&c.survey);
    found_tokenizers_done(&c.tokenizers);
    lk_buf_done(&c.text);
    free(c.folder);
    return status;
}
