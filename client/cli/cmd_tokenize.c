/* `lanekeeper tokenize`: the token ids of texts, in a form for people or programs. */
#include "client/cli/chosen.h"
#include "client/cli/commands.h"
#include "client/cli/documents.h"
#include "client/cli/tokenize.h"
#include "op/measure.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES (1u << 20)

static void add_counts(struct tokenize *t, size_t bytes)
{
    t->documents++;
    t->bytes += bytes;
    t->tokens += t->ids.n;
}

static enum lk_code encode(struct tokenize *t, const struct document *document, struct lk_err *err)
{
    t->ids.n = 0;
    if (t->chosen.has_prepend)
        lk_tokens_push(&t->ids, t->chosen.prepend_id);
    lk_encode(t->encoder, document->text, document->n, &t->ids);
    if (t->chosen.has_append)
        lk_tokens_push(&t->ids, t->chosen.append_id);
    return lk_check_specials(t->encoder, t->chosen.tokenizer, err);
}

static enum lk_code each(void *owner, const struct document *document, struct lk_err *err)
{
    struct tokenize *t = owner;
    LK_TRY(encode(t, document, err));
    if (t->put != NULL)
        t->put(t);
    add_counts(t, document->n);
    return t->out.len >= FLUSH_BYTES ? output_put(&t->output, &t->out, err) : LK_OK;
}

static enum lk_code read_all(struct tokenize *t, const char *const *paths, uint32_t n,
                             struct lk_err *err)
{
    const struct documents documents = {.field = t->field, .each = each, .owner = t};
    struct progress progress;
    progress_init(&progress, "tokenize");
    progress.unit = t->field != NULL ? "rows" : "files";
    /* A bar between lines of output helps nobody. */
    progress.terminal = progress.terminal && (t->count || t->path != NULL || isatty(STDOUT_FILENO) != 1);
    enum lk_code code = documents_read(&documents, paths, n, &progress, err);
    progress_done(&progress);
    if (code == LK_OK && t->count)
        tokenize_put_counts(t);
    return code;
}

/* What was made before a failure is written, too, except to a file. */
static int run(struct tokenize *t, const char *const *paths, uint32_t n)
{
    struct lk_err err;
    enum lk_code code = output_open(&t->output, t->path, &err);
    if (code == LK_OK)
        code = read_all(t, paths, n, &err);
    code = output_end(&t->output, &t->out, code, &err);
    return code == LK_OK ? EXIT_WELL : cli_fail_err(&t->chosen.cli, &err);
}

/* ---- options ---- */

/* The field that all datasets of the stream have their text in. */
static int field_of_stream(struct tokenize *t)
{
    const struct lk_recipe *recipe = cli_recipe(&t->chosen.cli);
    t->field = "text";
    if (recipe == NULL)
        return -1;
    t->field = recipe->dataset[0].text;
    for (uint32_t d = 1; d < recipe->n_datasets; d++) {
        if (strcmp(recipe->dataset[d].text, t->field) != 0)
            return options_fail(t->chosen.cli.command,
                                "the stream's datasets have their text in \"%s\" and \"%s\": say --field",
                                t->field, recipe->dataset[d].text);
    }
    return -1;
}

static int check_form(struct tokenize *t)
{
    const char *command = t->chosen.cli.command;
    int forms = t->u32 + t->u16 + t->count + t->pieces + t->info;
    if (forms > 1 || (t->chosen.cli.json && (t->u32 || t->u16 || t->pieces)))
        return options_fail(command, "expected at most one of --json, --u32, --u16, --pieces, --count and "
                                     "--info; --json goes with the last two");
    if ((t->u32 || t->u16) && t->path == NULL && isatty(STDOUT_FILENO) == 1)
        return options_fail(command, "%s writes bytes, not text: say -o FILE", t->u32 ? "--u32" : "--u16");
    t->put = t->count    ? NULL
             : t->u32    ? tokenize_put_u32
             : t->u16    ? tokenize_put_u16
             : t->pieces ? tokenize_put_pieces
             : t->chosen.cli.json ? tokenize_put_json
                                  : tokenize_put_ids;
    return -1;
}

static int check_u16(struct tokenize *t)
{
    uint32_t vocab = lk_tokenizer_vocab(t->chosen.tokenizer);
    if (!t->u16 || vocab <= 1u << 16)
        return -1;
    return cli_fail(&t->chosen.cli, LANEKEEPER_OUT_OF_RANGE,
                    "--u16: the vocabulary has %u ids, and 16 bits hold 65536 of them; say --u32", vocab);
}

static int start(struct tokenize *t, const char *const *paths, uint32_t n)
{
    int status = check_form(t);
    if (status < 0)
        status = chosen_open(&t->chosen);
    if (status >= 0)
        return status;
    if (t->info) {
        if (n > 0)
            return options_fail(t->chosen.cli.command, "--info reads no text: unexpected \"%s\"", paths[0]);
        tokenize_put_info(t);
        return output_flush(&t->out) ? EXIT_WELL : EXIT_PROBLEM;
    }
    status = check_u16(t);
    if (status < 0 && t->rows && t->field == NULL)
        status = field_of_stream(t);
    if (status >= 0)
        return status;
    t->encoder = lk_encoder_new(t->chosen.tokenizer);
    return run(t, paths, n);
}

int cmd_tokenize(int argc, char **argv, const struct listener *listener)
{
    struct tokenize t = {.chosen = {.cli = {.command = argv[0]}}};
    struct option_row chosen[CHOSEN_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--jsonl", NULL, OPTION_FLAG, &t.rows, 0, 0,
         "files are shards (*.jsonl, *.jsonl.gz, *.jsonl.zst), each row a document"},
        {"--field", "FIELD", OPTION_TEXT, &t.field, 0, 0,
         "that has a row's text: a dotted path, text by default; as --jsonl"},
        {"-o", "FILE", OPTION_TEXT, &t.path, 0, 0, "the file to write; it appears as a whole or not at all"},
        {"--json", NULL, OPTION_FLAG, &t.chosen.cli.json, 0, 0, "[1,2,3] a document"},
        {"--u32", NULL, OPTION_FLAG, &t.u32, 0, 0, "4 bytes a token, little-endian, nothing between documents"},
        {"--u16", NULL, OPTION_FLAG, &t.u16, 0, 0, "2 bytes a token, likewise; for up to 65,536 ids"},
        {"--pieces", NULL, OPTION_FLAG, &t.pieces, 0, 0, "each token's id and text, one a line"},
        {"--count", NULL, OPTION_FLAG, &t.count, 0, 0, "documents, bytes and tokens in all"},
        {"--info", NULL, OPTION_FLAG, &t.info, 0, 0, "what the tokenizer is; reads no text"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "tokenize --tokenizer PATH [FILE...] [OPTIONS]\n"
                    "tokenize --config FILE [--stream NAME] [FILE...] [OPTIONS]\n"
                    "tokenize --info --tokenizer PATH",
        .about = "Writes the token ids of texts: one document a line, with spaces between ids. A FILE is one\n"
                 "document, exactly as it is, or with --jsonl as many as it has rows; - or none is standard\n"
                 "input. Ids are those of Hugging Face's tokenizers, and with --config the very ones that\n"
                 "the stream serves, with what it puts around documents.\n",
        .own = own, .shared = chosen, .args_min = 0, .args_max = -1};
    int args;
    chosen_options(&t.chosen, true, chosen);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status < 0) {
        t.rows = t.rows || t.field != NULL;
        status = start(&t, (const char *const *)argv + 1, (uint32_t)args);
    }
    lk_encoder_free(t.encoder);
    lk_tokens_done(&t.ids);
    lk_buf_done(&t.out);
    chosen_done(&t.chosen);
    return status;
}
