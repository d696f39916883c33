/* `lanekeeper explain`: the plan of a stream in words and numbers. No daemon takes part. */
#include "client/cli/commands.h"
#include "client/cli/explain.h"

static int run(struct explain *e)
{
    struct lk_err err;
    if (e->cli.config_path == NULL)
        return options_fail(e->cli.command, "expected --config FILE");
    int status = cli_open(&e->cli);
    if (status >= 0)
        return status;
    if (stream_open(&e->cli.config, e->cli.stream_number, &e->stream, &err) != LK_OK)
        return cli_fail_err(&e->cli, &err);
    facts_of(&e->stream, e->sample, &e->facts);
    if (!e->estimate && exact_run(&e->stream, &e->cli.config.runtime, e->steps, &e->exact, &err) != LK_OK)
        return cli_fail_err(&e->cli, &err);
    (e->cli.json ? explain_json : explain_text)(e);
    return output_flush(&e->out) ? EXIT_WELL : EXIT_PROBLEM;
}

int cmd_explain(int argc, char **argv, const struct listener *listener)
{
    struct explain e = {.cli = {.command = argv[0], .timeout_s = 60}, .sample = 256};
    const struct option_row own[] = {
        {"--config", "FILE", OPTION_TEXT, &e.cli.config_path, 0, 0, "the configuration"},
        {"--stream", "NAME", OPTION_TEXT, &e.cli.stream, 0, 0, "which one, if there are several"},
        {"--sample", "ROWS", OPTION_U32, &e.sample, 0, 1000000,
         "of each dataset to read for estimates; 256 by default, 0: none"},
        {"--steps", "N", OPTION_U32, &e.steps, 1, UINT32_MAX,
         "to run over known counts; of a stream that ends, all by default"},
        {"--estimate", NULL, OPTION_FLAG, &e.estimate, 0, 0, "do not run over known counts"},
        {"--json", NULL, OPTION_FLAG, &e.cli.json, 0, 0, "for a program to read"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "explain CONFIG [--stream NAME] [--sample ROWS] [--steps N | --estimate] [--json]",
        .about = "Says what a stream will do: its rows, blocks and lanes, what each stage may drop, pad\n"
                 "or hold, what memory it may take, how long it lasts, and its digests. What depends on\n"
                 "the contents of rows is estimated from some of them, and called so. Where `lanekeeper measure` has\n"
                 "counted the rows, the whole run is made in advance, and what it comes to is exact.\n",
        .own = own, .args_min = 0, .args_max = 1};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (args == 1)
        e.cli.config_path = argv[1];
    status = run(&e);
    facts_done(&e.facts);
    exact_done(&e.exact);
    stream_done(&e.stream);
    cli_done(&e.cli);
    lk_buf_done(&e.out);
    return status;
}
