/* `lanekeeper peek`: the sequences of a step as a person reads them. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "base/json.h"
#include "host/stream.h"

#include <inttypes.h>
#include <string.h>

struct peek {
    struct cli cli;
    uint64_t step;
    uint32_t row, rows; /* of the global batch */
    struct lanekeeper *handle;
    struct lanekeeper_info info;
    struct lanekeeper_batch batch;
    struct lanekeeper_trace trace;
    struct lk_tokenizer *tokenizer; /* NULL: ids are shown */
    struct lk_buf out, text;
};

/* ---- shared by both outputs ---- */

static void decode(struct peek *p, const uint32_t *ids, uint32_t n)
{
    p->text.len = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        const uint8_t *token = lk_tokenizer_bytes(p->tokenizer, ids[i], &bytes);
        if (token != NULL)
            lk_buf_put(&p->text, token, bytes);
        else
            lk_buf_putf(&p->text, "<%u>", ids[i]);
    }
}

/* The first part of sequence @row, and how many there are. */
static const struct lanekeeper_trace_part *parts_of(const struct peek *p, uint32_t row, size_t *ret_n)
{
    size_t first = 0;
    while (first < p->trace.n && p->trace.part[first].sequence != row)
        first++;
    size_t end = first;
    while (end < p->trace.n && p->trace.part[end].sequence == row)
        end++;
    *ret_n = end - first;
    return p->trace.part + first;
}

/* ---- text ---- */

static void text_tokens(struct peek *p, const uint32_t *ids, uint32_t n)
{
    struct lk_buf *out = &p->out;
    if (p->tokenizer != NULL) {
        decode(p, ids, n);
        put_safe(out, p->text.data, p->text.len);
    }
    for (uint32_t i = 0; p->tokenizer == NULL && i < n; i++)
        lk_buf_putf(out, "%s%u", i > 0 ? " " : "", ids[i]);
    if (out->len == 0 || out->data[out->len - 1] != '\n')
        lk_buf_puts(out, "\n");
}

static void text_part(struct peek *p, const struct lanekeeper_trace_part *part, const uint32_t *row)
{
    struct lk_buf *out = &p->out;
    lk_buf_putf(out, "--- %s, shard ", part->dataset);
    put_safe(out, part->shard, strlen(part->shard));
    lk_buf_putf(out, ", row %" PRIu64 ", pass %u: ", part->row_in_shard, part->epoch);
    if (part->first == 0)
        lk_buf_putf(out, "%u tokens from its beginning\n", part->tokens);
    else
        lk_buf_putf(out, "%u tokens, going on at token %u\n", part->tokens, part->first);
    text_tokens(p, row + part->at, part->tokens);
}

static void text_row(struct peek *p, uint32_t r)
{
    const struct lanekeeper_row *row = &p->batch.row[r];
    const uint32_t *tokens = p->batch.tokens + (size_t)r * p->batch.sequence;
    uint32_t number = p->batch.first_row + r;
    size_t n;
    const struct lanekeeper_trace_part *part = parts_of(p, number, &n);
    lk_buf_putf(&p->out, "=== step %" PRIu64 ", sequence %u of %u (lane %u): %u tokens, %zu piece%s, "
                         "%u of padding\n",
                p->step, number, p->batch.global_rows,
                number / (p->batch.global_rows / p->info.lanes), p->batch.sequence, n, n == 1 ? "" : "s",
                p->batch.sequence - row->used);
    for (size_t i = 0; i < n; i++)
        text_part(p, &part[i], tokens);
}

/* ---- JSON ---- */

static void json_part(struct peek *p, bool more, const struct lanekeeper_trace_part *part,
                      const uint32_t *row)
{
    struct lk_buf *out = &p->out;
    lk_buf_puts(out, more ? ",{" : "{");
    json_text(out, false, "dataset", part->dataset);
    json_text(out, true, "shard", part->shard);
    json_u64(out, true, "row_in_shard", part->row_in_shard);
    json_u64(out, true, "row", part->row);
    json_u64(out, true, "epoch", part->epoch);
    json_u64(out, true, "first", part->first);
    json_u64(out, true, "at", part->at);
    json_u64(out, true, "tokens", part->tokens);
    json_key(out, true, "ids");
    for (uint32_t i = 0; i < part->tokens; i++)
        lk_buf_putf(out, "%s%u", i > 0 ? "," : "[", row[part->at + i]);
    lk_buf_puts(out, part->tokens > 0 ? "]" : "[]");
    if (p->tokenizer != NULL) {
        decode(p, row + part->at, part->tokens);
        json_key(out, true, "text");
        lk_json_quote(out, p->text.data, p->text.len);
    }
    lk_buf_puts(out, "}");
}

static void json_row(struct peek *p, uint32_t r)
{
    uint32_t number = p->batch.first_row + r;
    size_t n;
    const struct lanekeeper_trace_part *part = parts_of(p, number, &n);
    lk_buf_puts(&p->out, number > p->row ? ",{" : "{");
    json_u64(&p->out, false, "row", number);
    json_u64(&p->out, true, "lane", number / (p->batch.global_rows / p->info.lanes));
    json_u64(&p->out, true, "used", p->batch.row[r].used);
    json_key(&p->out, true, "pieces");
    lk_buf_puts(&p->out, "[");
    for (size_t i = 0; i < n; i++)
        json_part(p, i > 0, &part[i], p->batch.tokens + (size_t)r * p->batch.sequence);
    lk_buf_puts(&p->out, "]}");
}

static void put_rows(struct peek *p)
{
    uint32_t end = p->row + p->rows;
    if (p->cli.json) {
        lk_buf_puts(&p->out, "{");
        json_u64(&p->out, false, "step", p->step);
        json_u64(&p->out, true, "sequences", p->batch.global_rows);
        json_u64(&p->out, true, "tokens", p->batch.sequence);
        json_digest(&p->out, true, "digest", lk_digest_get(p->batch.digest));
        json_key(&p->out, true, "rows");
        lk_buf_puts(&p->out, "[");
    }
    for (uint32_t r = p->row; r < end; r++)
        (p->cli.json ? json_row : text_row)(p, r);
    lk_buf_puts(&p->out, p->cli.json ? "]}\n" : "");
}

/* ---- the command ---- */

/* Another tokenizer than the daemon's would show a text that was never there. */
static int load_tokenizer(struct peek *p)
{
    struct lk_err err;
    const struct lk_recipe *recipe = cli_recipe(&p->cli);
    if (recipe == NULL)
        return -1;
    if (stream_tokenizer(recipe, &p->tokenizer, &err) != LK_OK)
        return cli_fail_err(&p->cli, &err);
    if (lk_tokenizer_vocab(p->tokenizer) == p->info.vocab)
        return -1;
    return cli_fail(&p->cli, LANEKEEPER_FAILED_PRECONDITION,
                    "the tokenizer of %s has %u ids, that of the daemon's stream %u: it is another one",
                    p->cli.config_path, lk_tokenizer_vocab(p->tokenizer), p->info.vocab);
}

static int fetch(struct peek *p)
{
    enum lanekeeper_code code = lanekeeper_info(p->handle, &p->info);
    if (code == LANEKEEPER_OK)
        code = lanekeeper_get(p->handle, p->step, &p->batch);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&p->cli, p->handle, (int)code);
    if (p->row >= p->batch.global_rows)
        return options_fail(p->cli.command, "--row %u: step %" PRIu64 " has sequences 0 to %u", p->row,
                            p->step, p->batch.global_rows - 1);
    if (p->rows > p->batch.global_rows - p->row)
        p->rows = p->batch.global_rows - p->row;
    code = lanekeeper_trace(p->handle, p->step, p->row, p->rows, &p->trace);
    return code == LANEKEEPER_OK ? -1 : cli_fail_call(&p->cli, p->handle, (int)code);
}

static int run(struct peek *p)
{
    int status = cli_open(&p->cli);
    if (status < 0)
        status = cli_connect_one(&p->cli, LANEKEEPER_SHARED_AUTO, &p->handle);
    if (status < 0)
        status = fetch(p);
    if (status < 0)
        status = load_tokenizer(p);
    if (status >= 0)
        return status;
    put_rows(p);
    cli_tell_changed(&p->cli, p->handle);
    return output_flush(&p->out) ? EXIT_WELL : EXIT_PROBLEM;
}

int cmd_peek(int argc, char **argv, const struct listener *listener)
{
    struct peek p = {.cli = {.command = argv[0], .timeout_s = 60}, .rows = 1};
    struct option_row shared[CLI_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--row", "R", OPTION_U32, &p.row, 0, UINT32_MAX, "the first sequence to show; 0 by default"},
        {"--rows", "N", OPTION_U32, &p.rows, 1, UINT32_MAX, "how many; 1 by default"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "peek STEP [--row R] [--rows N] [OPTIONS]",
        .about = "Shows sequences of a step: each piece of a document after a line that says where it is\n"
                 "from. Text needs --config, for its tokenizer; without it token ids are shown.\n",
        .own = own, .shared = shared, .args_min = 1, .args_max = 1};
    int args;
    cli_options(&p.cli, shared);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    struct steps step;
    if (!options_steps(argv[1], &step) || step.to - step.from != 1)
        return options_fail(argv[0], "expected a step, found \"%s\"", argv[1]);
    p.step = step.from;
    status = run(&p);
    lanekeeper_trace_done(&p.trace);
    lanekeeper_release(&p.batch);
    lanekeeper_close(p.handle);
    lk_tokenizer_free(p.tokenizer);
    cli_done(&p.cli);
    lk_buf_done(&p.out);
    lk_buf_done(&p.text);
    return status;
}
