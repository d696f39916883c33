/* `lanekeeper detokenize`: the texts of token ids, byte for byte. */
#include "base/bytes.h"
#include "base/json.h"
#include "base/utf8.h"
#include "client/cli/chosen.h"
#include "client/cli/commands.h"
#include "client/cli/input.h"
#include "op/tokenise/detokenise.h"

#include <inttypes.h>
#include <string.h>

#define PIECE_BYTES (256u << 10)
#define BATCH_IDS 16384u
#define FLUSH_BYTES (1u << 20)
#define WORD_SHOWN 40u

struct detokenize {
    struct chosen chosen;
    bool u32, u16, rows, skip_special;
    const char *path;
    /* the work */
    struct lk_detokeniser *detokeniser;
    struct output output;
    struct lk_buf out, text; /* text: of the document at hand, when it becomes a row */
    /* the input at hand */
    struct input input;
    uint64_t line;           /* from 1 */
    uint64_t place;          /* ids before the batch: in the line, or in the file when they are raw */
    struct lk_tokens batch;
    struct lk_buf word;      /* digits of the id at hand, or a raw id's first bytes */
    bool begun;              /* the line has an id or a document's end to come */
};

/* ---- documents ---- */

static enum lk_code flush(struct detokenize *d, struct lk_err *err)
{
    return d->out.len >= FLUSH_BYTES ? output_put(&d->output, &d->out, err) : LK_OK;
}

static uint32_t id_bytes(const struct detokenize *d)
{
    return d->u32 ? 4 : 2;
}

/* "standard input: line 3, id 7 in it", or the byte of a raw id. */
static enum lk_code fail_at(const struct detokenize *d, uint64_t place, struct lk_err *err)
{
    const char *name = input_name(&d->input);
    if (d->u32 || d->u16)
        return lk_fail_in(err, "%s: byte %" PRIu64, name, place * id_bytes(d));
    return lk_fail_in(err, "%s: line %" PRIu64 ", number %" PRIu64, name, d->line, place + 1);
}

static enum lk_code put_batch(struct detokenize *d, struct lk_err *err)
{
    size_t bad = 0;
    enum lk_code code = lk_detokenise(d->detokeniser, d->batch.ids, d->batch.n,
                                      d->rows ? &d->text : &d->out, &bad, err);
    if (code != LK_OK)
        return fail_at(d, d->place + bad, err);
    d->place += d->batch.n;
    d->batch.n = 0;
    return flush(d, err);
}

static enum lk_code put_id(struct detokenize *d, uint32_t id, struct lk_err *err)
{
    lk_tokens_push(&d->batch, id);
    return d->batch.n == BATCH_IDS ? put_batch(d, err) : LK_OK;
}

static enum lk_code put_row(struct detokenize *d, struct lk_err *err)
{
    size_t valid = lk_utf8_valid_prefix(d->text.data, d->text.len);
    if (valid < d->text.len)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: line %" PRIu64 ": byte %zu of the text is no UTF-8, which a row has to be",
                       input_name(&d->input), d->line, valid);
    lk_buf_puts(&d->out, "{\"text\":");
    lk_json_quote(&d->out, d->text.data, d->text.len);
    lk_buf_puts(&d->out, "}\n");
    d->text.len = 0;
    return flush(d, err);
}

static enum lk_code end_document(struct detokenize *d, struct lk_err *err)
{
    LK_TRY(put_batch(d, err));
    if (d->rows)
        LK_TRY(put_row(d, err));
    lk_detokeniser_begin(d->detokeniser);
    d->place = 0;
    d->line++;
    d->begun = false;
    return LK_OK;
}

/* ---- decimal ids ---- */

static enum lk_code end_word(struct detokenize *d, struct lk_err *err)
{
    uint64_t value = 0;
    size_t n = d->word.len;
    if (n == 0)
        return LK_OK;
    d->word.len = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = d->word.data[i];
        if (c < '0' || c > '9') {
            struct lk_buf shown = {0};
            put_quoted(&shown, d->word.data, n < WORD_SHOWN ? n : WORD_SHOWN);
            (void)lk_fail(err, LK_INVALID_ARGUMENT, "expected a token id, found %s", lk_buf_cstr(&shown));
            lk_buf_done(&shown);
            return fail_at(d, d->place + d->batch.n, err);
        }
        value = value > UINT32_MAX ? value : value * 10 + (uint64_t)(c - '0');
    }
    return put_id(d, value > UINT32_MAX ? UINT32_MAX : (uint32_t)value, err);
}

/* Commas and brackets are as good as spaces, so that what --json writes can be read. */
static const bool is_between[256] = {[' '] = true, ['\t'] = true, ['\r'] = true, ['\n'] = true,
                                     [','] = true, ['['] = true,  [']'] = true};

static enum lk_code put_decimal(struct detokenize *d, const uint8_t *p, size_t n, struct lk_err *err)
{
    for (const uint8_t *end = p + n; p < end; p++) {
        const uint8_t *word = p;
        while (p < end && !is_between[*p])
            p++;
        d->begun = d->begun || p > word;
        if (d->word.len <= WORD_SHOWN) /* so long a word is no id, whatever follows */
            lk_buf_put(&d->word, word, (size_t)(p - word));
        if (p == end)
            break;
        LK_TRY(end_word(d, err));
        if (*p == '\n')
            LK_TRY(end_document(d, err));
    }
    return LK_OK;
}

/* A last line needs no end; an input without lines has no document. */
static enum lk_code end_decimal(struct detokenize *d, struct lk_err *err)
{
    if (!d->begun)
        return LK_OK;
    LK_TRY(end_word(d, err));
    return end_document(d, err);
}

/* ---- raw ids ---- */

static enum lk_code put_raw(struct detokenize *d, const uint8_t *p, size_t n, struct lk_err *err)
{
    uint32_t size = id_bytes(d);
    for (size_t i = 0; i < n; i++) {
        lk_buf_put(&d->word, &p[i], 1);
        if (d->word.len < size)
            continue;
        d->word.len = 0;
        LK_TRY(put_id(d, size == 4 ? lk_get_u32(d->word.data) : lk_get_u16(d->word.data), err));
    }
    return LK_OK;
}

static enum lk_code end_raw(struct detokenize *d, struct lk_err *err)
{
    if (d->word.len > 0)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: %" PRIu64 " bytes: expected a multiple of %u, the size of an id",
                       input_name(&d->input), input_at(&d->input), id_bytes(d));
    return end_document(d, err);
}

/* ---- the command ---- */

static enum lk_code read_pieces(struct detokenize *d, struct lk_err *err)
{
    bool raw = d->u32 || d->u16;
    struct lk_buf piece = {0};
    size_t got = 0;
    enum lk_code code;
    (void)lk_buf_room(&piece, PIECE_BYTES);
    do {
        code = input_read(&d->input, piece.data, PIECE_BYTES, &got, err);
        if (code == LK_OK)
            code = (raw ? put_raw : put_decimal)(d, piece.data, got, err);
    } while (code == LK_OK && got > 0);
    if (code == LK_OK)
        code = raw ? end_raw(d, err) : end_decimal(d, err);
    lk_buf_done(&piece);
    return code;
}

static enum lk_code read_one(struct detokenize *d, const char *path, struct lk_err *err)
{
    d->line = 1;
    d->place = 0;
    d->begun = false;
    LK_TRY(input_open(&d->input, path, false, err));
    enum lk_code code = read_pieces(d, err);
    input_close(&d->input);
    return code;
}

static int run(struct detokenize *d, const char *const *paths, uint32_t n)
{
    struct lk_err err;
    enum lk_code code = output_open(&d->output, d->path, &err);
    for (uint32_t i = 0; i < n && code == LK_OK; i++)
        code = read_one(d, paths[i], &err);
    code = output_end(&d->output, &d->out, code, &err);
    return code == LK_OK ? EXIT_WELL : cli_fail_err(&d->chosen.cli, &err);
}

static int start(struct detokenize *d, const char *const *paths, uint32_t n)
{
    static const char *const standard[] = {"-"};
    if (d->u32 && d->u16)
        return options_fail(d->chosen.cli.command, "expected at most one of --u32 and --u16");
    int status = chosen_open(&d->chosen);
    if (status >= 0)
        return status;
    d->detokeniser = lk_detokeniser_new(d->chosen.tokenizer, d->skip_special);
    return n == 0 ? run(d, standard, 1) : run(d, paths, n);
}

int cmd_detokenize(int argc, char **argv, const struct listener *listener)
{
    struct detokenize d = {.chosen = {.cli = {.command = argv[0]}}};
    struct option_row chosen[CHOSEN_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--u32", NULL, OPTION_FLAG, &d.u32, 0, 0, "ids are 4 bytes each, little-endian: one document"},
        {"--u16", NULL, OPTION_FLAG, &d.u16, 0, 0, "ids are 2 bytes each, likewise"},
        {"--skip-special", NULL, OPTION_FLAG, &d.skip_special, 0, 0, "leave special tokens out"},
        {"--jsonl", NULL, OPTION_FLAG, &d.rows, 0, 0, "a row {\"text\": …} a document, which must be UTF-8 then"},
        {"-o", "FILE", OPTION_TEXT, &d.path, 0, 0, "the file to write; it appears as a whole or not at all"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "detokenize --tokenizer PATH [FILE...] [OPTIONS]\n"
                    "detokenize --config FILE [--stream NAME] [FILE...] [OPTIONS]",
        .about = "Writes the bytes that token ids stand for; nothing is put between documents. Reads what\n"
                 "`lanekeeper tokenize` writes: a line of ids is a document; ids may be apart by spaces or\n"
                 "commas, in brackets or not. - or no FILE is standard input.\n",
        .own = own, .shared = chosen, .args_min = 0, .args_max = -1};
    int args;
    chosen_options(&d.chosen, false, chosen);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status < 0)
        status = start(&d, (const char *const *)argv + 1, (uint32_t)args);
    lk_detokeniser_free(d.detokeniser);
    lk_tokens_done(&d.batch);
    lk_buf_done(&d.word);
    lk_buf_done(&d.text);
    lk_buf_done(&d.out);
    chosen_done(&d.chosen);
    return status;
}
