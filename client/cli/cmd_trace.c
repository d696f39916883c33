/* `lanekeeper trace`: which rows made a step, and the inverse. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/find.h"

#include <inttypes.h>
#include <string.h>

#define WITHIN_DEFAULT 1000 /* steps searched for a row */

struct trace_command {
    struct cli cli;
    bool find;
    uint32_t row, rows; /* of the batch; UINT32_MAX: all */
    uint64_t step;
    struct lanekeeper *handle;
    struct lanekeeper_trace trace;
    struct lk_buf out;
};

static void text_part(struct lk_buf *out, const struct lanekeeper_trace_part *part)
{
    lk_buf_putf(out, "sequence %-5u tokens %6u to %-6u  %s, shard ", part->sequence, part->at,
                part->at + part->tokens - 1, part->dataset);
    put_safe(out, part->shard, strlen(part->shard));
    lk_buf_putf(out, ", row %" PRIu64 ": its tokens %u to %u, pass %u\n", part->row_in_shard,
                part->first, part->first + part->tokens - 1, part->epoch);
}

static void json_part(struct lk_buf *out, bool more, const struct lanekeeper_trace_part *part)
{
    lk_buf_puts(out, more ? ",{" : "{");
    json_u64(out, false, "sequence", part->sequence);
    json_u64(out, true, "at", part->at);
    json_u64(out, true, "tokens", part->tokens);
    json_text(out, true, "dataset", part->dataset);
    json_text(out, true, "shard", part->shard);
    json_u64(out, true, "row_in_shard", part->row_in_shard);
    json_u64(out, true, "row", part->row);
    json_u64(out, true, "epoch", part->epoch);
    json_u64(out, true, "first", part->first);
    lk_buf_puts(out, "}");
}

static int run(struct trace_command *c)
{
    bool all = c->row == UINT32_MAX;
    int status = cli_open(&c->cli);
    if (status < 0)
        status = cli_connect_one(&c->cli, LANEKEEPER_SHARED_NEVER, &c->handle);
    if (status >= 0)
        return status;
    enum lanekeeper_code code = lanekeeper_trace(c->handle, c->step, all ? 0 : c->row,
                                                 all ? 0 : c->rows, &c->trace);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&c->cli, c->handle, (int)code);
    if (c->cli.json) {
        lk_buf_puts(&c->out, "{");
        json_u64(&c->out, false, "step", c->step);
        json_key(&c->out, true, "pieces");
        lk_buf_puts(&c->out, "[");
    }
    for (size_t i = 0; i < c->trace.n; i++) {
        if (c->cli.json)
            json_part(&c->out, i > 0, &c->trace.part[i]);
        else
            text_part(&c->out, &c->trace.part[i]);
    }
    lk_buf_puts(&c->out, c->cli.json ? "]}\n" : "");
    cli_tell_changed(&c->cli, c->handle);
    return output_flush(&c->out) ? EXIT_WELL : EXIT_PROBLEM;
}

static int run_find(struct trace_command *c, char **argv, struct steps within)
{
    struct find_row find = {.dataset = argv[1], .shard = argv[2], .within = within};
    if (!options_u64(argv[3], UINT64_MAX, &find.row_in_shard))
        return options_fail(argv[0], "expected the number of a row in its shard, found \"%s\"", argv[3]);
    return find_run(&c->cli, &find);
}

static int run_step(struct trace_command *c, char **argv)
{
    struct steps step;
    if (!options_steps(argv[1], &step) || step.to - step.from != 1)
        return options_fail(argv[0], "expected a step, found \"%s\"", argv[1]);
    c->step = step.from;
    return run(c);
}

int cmd_trace(int argc, char **argv, const struct listener *listener)
{
    struct trace_command c = {
        .cli = {.command = argv[0], .timeout_s = 60}, .row = UINT32_MAX, .rows = 1};
    struct option_row shared[CLI_OPTIONS_MAX];
    struct steps within = {0, WITHIN_DEFAULT};
    const struct option_row own[] = {
        {"--row", "R", OPTION_U32, &c.row, 0, UINT32_MAX - 1, "this sequence of the step; else all"},
        {"--rows", "N", OPTION_U32, &c.rows, 1, UINT32_MAX, "with --row: so many from there"},
        {"--find", NULL, OPTION_FLAG, &c.find, 0, 0,
         "in which steps a row of a shard is used, and with --config which lane"
         "\n                         draws it where"},
        {"--within", "FROM..TO", OPTION_STEPS, &within, 0, 0,
         "with --find: the steps to search; 0..1000 by default"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "trace STEP [--row R [--rows N]] [OPTIONS]\n"
                    "trace --find DATASET SHARD ROW [--within FROM..TO] [OPTIONS]",
        .about = "Prints dataset, shard, row and token range of each piece of a step's sequences. With\n"
                 "--find the inverse; its exit status is 1 when the row is in none of the steps.\n",
        .own = own, .shared = shared, .args_min = 1, .args_max = 3};
    int args;
    cli_options(&c.cli, shared);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (args != (c.find ? 3 : 1))
        return options_fail(argv[0], c.find ? "--find: expected DATASET SHARD ROW"
                                            : "expected one step");
    status = c.find ? run_find(&c, argv, within) : run_step(&c, argv);
    lanekeeper_trace_done(&c.trace);
    lanekeeper_close(c.handle);
    cli_done(&c.cli);
    lk_buf_done(&c.out);
    return status;
}
