/* `lanekeeper measure`: fills the counts cache, and says what the datasets are made of. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/measure.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct measure_command {
    struct cli cli;
    struct measure_options options;
    struct measure_result result;
    struct lk_buf out;
};

static uint32_t processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > LK_WORKERS_MAX ? LK_WORKERS_MAX : (uint32_t)n;
}

static const struct lk_index *index_of(const struct measure_command *c, const struct measure_dataset *d)
{
    return &c->result.stream[d->stream].index[d->dataset];
}

static void bytes_of(const struct lk_index *index, uint64_t *ret_file, uint64_t *ret_data)
{
    *ret_file = *ret_data = 0;
    for (uint32_t s = 0; s < index->shards; s++) {
        *ret_file += index->shard[s].file_bytes;
        *ret_data += index->shard[s].data_bytes;
    }
}

static char *place_of(const struct lk_index *index, uint64_t row)
{
    struct lk_row_place place = lk_index_place(index, row);
    return lk_format("shard %s row %llu", index->shard[place.shard].name,
                     (unsigned long long)place.row_in_shard);
}

static void text_dataset(struct measure_command *c, const struct measure_dataset *d)
{
    const struct lk_recipe *recipe = c->result.stream[d->stream].recipe;
    const struct lk_index *index = index_of(c, d);
    struct lk_buf *out = &c->out;
    uint64_t file_bytes, data_bytes;
    bytes_of(index, &file_bytes, &data_bytes);
    lk_buf_putf(out, "dataset %s, as stream %s measures it\n  rows      ", recipe->dataset[d->dataset].name,
                recipe->name);
    put_count(out, index->rows);
    lk_buf_putf(out, " in %u shard%s of ", index->shards, index->shards == 1 ? "" : "s");
    put_bytes(out, file_bytes);
    if (data_bytes != file_bytes) {
        lk_buf_puts(out, ", ");
        put_bytes(out, data_bytes);
        lk_buf_puts(out, " decompressed");
    }
    lk_buf_puts(out, "; ");
    put_count(out, d->known);
    lk_buf_puts(out, " were known\n");
    char *place = place_of(index, d->tally.longest_row);
    tally_text(&d->tally, place, out);
    free(place);
}

static void json_dataset(struct measure_command *c, const struct measure_dataset *d)
{
    const struct lk_recipe *recipe = c->result.stream[d->stream].recipe;
    const struct lk_index *index = index_of(c, d);
    uint64_t file_bytes, data_bytes;
    bytes_of(index, &file_bytes, &data_bytes);
    lk_buf_puts(&c->out, "{");
    json_text(&c->out, false, "stream", recipe->name);
    json_text(&c->out, true, "dataset", recipe->dataset[d->dataset].name);
    json_digest(&c->out, true, "ops_digest", c->result.stream[d->stream].ops[d->dataset]);
    json_u64(&c->out, true, "shards", index->shards);
    json_u64(&c->out, true, "rows", index->rows);
    json_u64(&c->out, true, "rows_known_before", d->known);
    json_u64(&c->out, true, "file_bytes", file_bytes);
    json_u64(&c->out, true, "data_bytes", data_bytes);
    tally_json(&d->tally, &c->out);
    lk_buf_puts(&c->out, "}");
}

static void put_result(struct measure_command *c)
{
    if (!c->cli.json) {
        for (uint32_t i = 0; i < c->result.n; i++) {
            lk_buf_puts(&c->out, i > 0 ? "\n" : "");
            text_dataset(c, &c->result.dataset[i]);
        }
        return;
    }
    lk_buf_puts(&c->out, "{");
    json_u64(&c->out, false, "measured", c->result.measured);
    json_u64(&c->out, true, "wrong", c->result.wrong);
    json_key(&c->out, true, "datasets");
    lk_buf_puts(&c->out, "[");
    for (uint32_t i = 0; i < c->result.n; i++) {
        lk_buf_puts(&c->out, i > 0 ? "," : "");
        json_dataset(c, &c->result.dataset[i]);
    }
    lk_buf_puts(&c->out, "]}\n");
}

static int run(struct measure_command *c)
{
    struct lk_err err;
    if (c->cli.config_path == NULL)
        return options_fail(c->cli.command, "expected a configuration");
    c->cli.any_stream = c->cli.stream == NULL;
    c->options.stream = c->cli.stream;
    c->options.json = c->cli.json;
    int status = cli_open(&c->cli);
    if (status >= 0)
        return status;
    if (measure_run(&c->cli.config, &c->options, &c->result, &err) != LK_OK) {
        if (c->options.dropped && c->result.stopped != 0)
            c->cli.json = false; /* whoever reads the list may not, and would be waited for */
        return cli_fail_err(&c->cli, &err);
    }
    if (!c->options.dropped)
        put_result(c);
    if (c->result.wrong > 0)
        (void)fprintf(stderr, "lanekeeper measure: %llu counts were wrong, and have been replaced\n",
                      (unsigned long long)c->result.wrong);
    return output_flush(&c->out) && c->result.wrong == 0 ? EXIT_WELL : EXIT_PROBLEM;
}

int cmd_measure(int argc, char **argv, const struct listener *listener)
{
    struct measure_command c = {.cli = {.command = argv[0], .timeout_s = 60},
                                .options = {.jobs = processors()}};
    const struct option_row own[] = {
        {"--config", "FILE", OPTION_TEXT, &c.cli.config_path, 0, 0, "the configuration"},
        {"--stream", "NAME", OPTION_TEXT, &c.cli.stream, 0, 0, "the datasets of this one alone"},
        {"--dataset", "NAME", OPTION_TEXT, &c.options.dataset, 0, 0, "this one alone"},
        {"--jobs", "N", OPTION_U32, &c.options.jobs, 1, LK_WORKERS_MAX,
         "worker processes; as many as processors by default"},
        {"--again", NULL, OPTION_FLAG, &c.options.again, 0, 0,
         "measure rows that are known, too: wrong counts are named, replaced, and a problem"},
        {"--dropped", NULL, OPTION_FLAG, &c.options.dropped, 0, 0,
         "list every row that is dropped instead, a line each: dataset, shard, row and rule"},
        {"--json", NULL, OPTION_FLAG, &c.cli.json, 0, 0, "for a program to read; with --dropped an object a line"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "measure CONFIG [--stream NAME] [--dataset NAME] [--jobs N] [--again] [--dropped] [--json]",
        .about = "Measures every row whose tokens have not been counted yet, and keeps the counts where the\n"
                 "configuration says: daemons then find any step without reading what comes before it, and\n"
                 "`lanekeeper explain` is exact. It may be stopped at any time, with Ctrl-C too, keeps what it has\n"
                 "measured, and goes on from there.\n"
                 "Says what each dataset is made of, or with --dropped which of its rows are dropped, in order:\n"
                 "those that were measured before are known, and cost nothing.\n",
        .own = own, .args_min = 0, .args_max = 1};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (args == 1)
        c.cli.config_path = argv[1];
    status = run(&c);
    int stopped = c.result.stopped;
    measure_done(&c.result);
    cli_done(&c.cli);
    lk_buf_done(&c.out);
    if (stopped != 0)
        (void)raise(stopped); /* whoever waits, a loop of a shell for instance, is to see what ended it */
    return status;
}
