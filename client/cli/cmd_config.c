#include "client/cli/commands.h"

#include "base/json.h"
#include "client/cli/memory.h"
#include "client/cli/output.h"
#include "config/canonical.h"
#include "config/config.h"
#include "config/scalar.h"
#include "host/footprint.h"
#include "host/stream.h"
#include "store/file.h"
#include "store/list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One stream, and what was found out about it. */
struct report {
    const struct lk_recipe *recipe;
    struct stream stream; /* zeroed unless @opened */
    bool opened;
};

struct check {
    const char *file;
    struct lk_config config;
    struct report *report; /* [config.n_streams] */
    char **problem;
    size_t n_problems;
};

static void check_done(struct check *check)
{
    for (uint32_t i = 0; check->report != NULL && i < check->config.n_streams; i++)
        stream_done(&check->report[i].stream);
    for (size_t i = 0; i < check->n_problems; i++)
        free(check->problem[i]);
    free(check->report);
    free(check->problem);
    lk_config_done(&check->config);
}

static void add_problem(struct check *check, const struct lk_err *err)
{
    check->problem = lk_resize(check->problem, check->n_problems + 1, sizeof *check->problem);
    check->problem[check->n_problems++] = lk_strdup(err->text);
}

/* ---- checks: all problems of all streams, not only the first ---- */

static void check_dataset(struct check *check, const struct lk_recipe *recipe,
                          const struct lk_dataset_recipe *dataset)
{
    struct lk_dataset_files files = {0};
    struct lk_index index = {0};
    struct lk_err err;
    enum lk_code code = lk_dataset_list(dataset->path, &files, &err);
    if (code == LK_OK)
        code = stream_index(&check->config, dataset, &index, &err);
    if (code != LK_OK) {
        (void)lk_fail_in(&err, "stream %s, dataset %s", recipe->name, dataset->name);
        add_problem(check, &err);
    }
    lk_index_close(&index);
    lk_dataset_files_done(&files);
}

static void check_tokenizer(struct check *check, const struct lk_recipe *recipe)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    if (stream_tokenizer(recipe, &tokenizer, &err) != LK_OK) {
        (void)lk_fail_in(&err, "stream %s, tokenizer", recipe->name);
        add_problem(check, &err);
    }
    lk_tokenizer_free(tokenizer);
}

static void check_stream(struct check *check, uint32_t number)
{
    const struct lk_recipe *recipe = &check->config.stream[number];
    struct report *report = &check->report[number];
    size_t before = check->n_problems;
    struct lk_err err;
    report->recipe = recipe;
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        check_dataset(check, recipe, &recipe->dataset[d]);
    check_tokenizer(check, recipe);
    if (check->n_problems > before)
        return;
    report->opened = stream_open(&check->config, number, &report->stream, &err) == LK_OK;
    if (!report->opened ||
        stream_check_cache(&report->stream, &check->config.runtime, &err) != LK_OK)
        add_problem(check, &err);
}

/* The secret of remote workers has to be there when the daemon starts. */
static void check_token_file(struct check *check)
{
    const char *path = check->config.runtime.worker_token_file;
    struct lk_source *source = NULL;
    struct lk_err err;
    if (path == NULL)
        return;
    if (lk_file_open(path, &source, &err) != LK_OK) {
        (void)lk_fail_in(&err, "runtime.worker_token_file");
        add_problem(check, &err);
    } else if (source->bytes == 0) {
        (void)lk_fail(&err, LK_INVALID_ARGUMENT, "runtime.worker_token_file: %s is empty", path);
        add_problem(check, &err);
    }
    lk_source_close(source);
}

/* Adds to the configuration's own notes. */
static void check_memory(struct check *check)
{
    struct machine_memory there;
    struct lk_buf notes = {0};
    struct lk_err err;
    lk_buf_puts(&notes, check->config.notes);
    machine_memory_read("", &there);
    if (footprint_check(&check->config, &there, &notes, &err) != LK_OK)
        add_problem(check, &err);
    free(check->config.notes);
    check->config.notes = lk_strdup(lk_buf_cstr(&notes));
    lk_buf_done(&notes);
    machine_memory_done(&there);
}

static void run_check(struct check *check)
{
    struct lk_err err;
    if (lk_config_load(check->file, &check->config, &err) != LK_OK) {
        add_problem(check, &err);
        return;
    }
    check->report = lk_zalloc(check->config.n_streams, sizeof *check->report);
    for (uint32_t i = 0; i < check->config.n_streams; i++)
        check_stream(check, i);
    check_token_file(check);
    check_memory(check);
}

/* ---- shared pieces of both outputs ---- */

static uint64_t weight_sum(const struct lk_recipe *recipe)
{
    uint64_t sum = 0;
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        sum += recipe->dataset[d].weight;
    return sum;
}

/* weight/sum with 9 decimals, rounded to nearest; in integers, so that no locale has a say. */
static void put_share(struct lk_buf *out, uint64_t weight, uint64_t sum)
{
    uint64_t nano = (weight * LK_WEIGHT_ONE + sum / 2) / sum; /* weight ≤ 2^32 */
    lk_buf_putf(out, "%llu.%09llu", (unsigned long long)(nano / LK_WEIGHT_ONE),
                (unsigned long long)(nano % LK_WEIGHT_ONE));
}

static const char *then_name(enum lk_then then)
{
    return then == LK_THEN_REPEAT ? "repeat" : then == LK_THEN_STOP ? "stop" : "release";
}

/* ---- text ---- */

static void text_dataset(struct lk_buf *out, const struct report *report, uint32_t d, uint64_t sum)
{
    const struct lk_dataset_recipe *dataset = &report->recipe->dataset[d];
    lk_buf_putf(out, "  dataset %-20s share ", dataset->name);
    put_share(out, dataset->weight, sum);
    if (dataset->epochs != 0)
        lk_buf_putf(out, "  passes %u, then %s", dataset->epochs, then_name(dataset->then));
    else
        lk_buf_puts(out, "  repeats without end");
    if (report->opened)
        lk_buf_putf(out, "  rows %llu, shards %u",
                    (unsigned long long)report->stream.index[d].rows,
                    report->stream.index[d].shards);
    lk_buf_puts(out, "\n");
}

static void text_digests(struct lk_buf *out, const struct report *report)
{
    char hex[LK_DIGEST_HEX];
    if (!report->opened) {
        lk_buf_puts(out, "  order digest  unknown: see the problems\n"
                         "  stream digest unknown: see the problems\n");
        return;
    }
    lk_digest_hex(report->stream.order, hex);
    lk_buf_putf(out, "  order digest  %s\n", hex);
    lk_digest_hex(report->stream.digest, hex);
    lk_buf_putf(out, "  stream digest %s\n", hex);
    const char *note = lk_tokenizer_notes(report->stream.tokenizer);
    while (*note != '\0') {
        int n = (int)strcspn(note, "\n");
        lk_buf_putf(out, "  note: tokenizer: %.*s\n", n, note);
        note += n + (note[n] == '\n');
    }
}

static void text_lines(struct lk_buf *out, struct lk_buf *text)
{
    const char *line = lk_buf_cstr(text);
    while (*line != '\0') {
        int n = (int)strcspn(line, "\n");
        lk_buf_putf(out, "    %.*s\n", n, line);
        line += n + (line[n] == '\n');
    }
}

static void text_stream(struct lk_buf *out, const struct check *check, const struct report *report)
{
    const struct lk_recipe *recipe = report->recipe;
    struct lk_buf order = {0}, batch = {0};
    uint64_t sum = weight_sum(recipe);
    lk_buf_putf(out, "stream %s\n", recipe->name);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        text_dataset(out, report, d, sum);
    put_stream_memory(out, &check->config, recipe);
    text_digests(out, report);
    lk_recipe_canonical(recipe, &order, &batch);
    lk_buf_puts(out, "  canonical recipe\n");
    text_lines(out, &order);
    lk_buf_puts(out, "  batch schedule\n");
    text_lines(out, &batch);
    lk_buf_done(&order);
    lk_buf_done(&batch);
}

static void text_check(struct lk_buf *out, const struct check *check)
{
    for (uint32_t i = 0; check->report != NULL && i < check->config.n_streams; i++)
        text_stream(out, check, &check->report[i]);
    if (check->report != NULL)
        put_memory(out, &check->config);
    if (check->config.notes != NULL && check->config.notes[0] != '\0')
        lk_buf_putf(out, "notes\n%s", check->config.notes);
}

/* ---- JSON ---- */

static void json_known_digest(struct lk_buf *out, const char *key, bool known, struct lk_digest digest)
{
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(digest, hex);
    if (known)
        lk_buf_putf(out, "\"%s\":\"%s\"", key, hex);
    else
        lk_buf_putf(out, "\"%s\":null", key);
}

static void json_dataset(struct lk_buf *out, const struct report *report, uint32_t d, uint64_t sum)
{
    const struct lk_dataset_recipe *dataset = &report->recipe->dataset[d];
    lk_buf_puts(out, d > 0 ? ",{" : "{");
    json_text(out, false, "name", dataset->name);
    lk_buf_puts(out, ",");
    json_text(out, false, "path", dataset->path);
    lk_buf_putf(out, ",\"weight\":%llu,\"share\":", (unsigned long long)dataset->weight);
    put_share(out, dataset->weight, sum);
    lk_buf_putf(out, ",\"epochs\":%u,\"then\":\"%s\"", dataset->epochs, then_name(dataset->then));
    if (report->opened)
        lk_buf_putf(out, ",\"rows\":%llu,\"shards\":%u",
                    (unsigned long long)report->stream.index[d].rows,
                    report->stream.index[d].shards);
    lk_buf_puts(out, "}");
}

static void json_stream(struct lk_buf *out, const struct check *check, const struct report *report)
{
    const struct lk_recipe *recipe = report->recipe;
    struct lk_buf order = {0}, batch = {0};
    uint64_t sum = weight_sum(recipe);
    lk_recipe_canonical(recipe, &order, &batch);
    lk_buf_puts(out, "{");
    json_text(out, false, "name", recipe->name);
    lk_buf_puts(out, ",");
    json_known_digest(out, "order_digest", report->opened, report->stream.order);
    lk_buf_puts(out, ",");
    json_known_digest(out, "stream_digest", report->opened, report->stream.digest);
    lk_buf_puts(out, ",");
    json_text(out, false, "canonical", lk_buf_cstr(&order));
    lk_buf_puts(out, ",");
    json_text(out, false, "batches", lk_buf_cstr(&batch));
    json_key(out, true, "memory");
    json_stream_memory(out, &check->config, recipe);
    json_key(out, true, "datasets");
    lk_buf_puts(out, "[");
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        json_dataset(out, report, d, sum);
    lk_buf_puts(out, "]}");
    lk_buf_done(&order);
    lk_buf_done(&batch);
}

static void json_check(struct lk_buf *out, const struct check *check)
{
    lk_buf_puts(out, "{");
    json_text(out, false, "file", check->file);
    lk_buf_putf(out, ",\"ok\":%s,\"problems\":[", check->n_problems == 0 ? "true" : "false");
    for (size_t i = 0; i < check->n_problems; i++) {
        lk_buf_puts(out, i > 0 ? "," : "");
        lk_json_quote(out, check->problem[i], strlen(check->problem[i]));
    }
    lk_buf_puts(out, "],");
    json_text(out, false, "notes", check->config.notes != NULL ? check->config.notes : "");
    lk_buf_puts(out, ",\"streams\":[");
    for (uint32_t i = 0; check->report != NULL && i < check->config.n_streams; i++) {
        lk_buf_puts(out, i > 0 ? "," : "");
        json_stream(out, check, &check->report[i]);
    }
    lk_buf_puts(out, "]");
    if (check->report != NULL) {
        json_key(out, true, "memory_of_all");
        json_memory(out, &check->config);
    }
    lk_buf_puts(out, "}\n");
}

/* ---- the command ---- */

static int print(struct lk_buf *out, int status)
{
    bool written = output_flush(out);
    lk_buf_done(out);
    return written ? status : EXIT_PROBLEM;
}

static int run_reference(void)
{
    struct lk_buf out = {0};
    lk_config_reference(&out);
    return print(&out, EXIT_WELL);
}

static int run_check_command(const char *file, bool json)
{
    struct check check = {.file = file};
    struct lk_buf out = {0};
    run_check(&check);
    if (json)
        json_check(&out, &check);
    else
        text_check(&out, &check);
    if (!json && check.n_problems == 0)
        lk_buf_putf(&out, "%s: no problem found\n", file);
    int status = print(&out, check.n_problems == 0 ? EXIT_WELL : EXIT_PROBLEM);
    for (size_t i = 0; !json && i < check.n_problems; i++) /* last: the rest is longer than a screen */
        (void)fprintf(stderr, "lanekeeper: %s\n", check.problem[i]);
    check_done(&check);
    return status;
}

int cmd_config(int argc, char **argv, const struct listener *listener)
{
    static const char *const words[] = {"check", "reference", NULL};
    bool json = false;
    const struct option_row own[] = {
        {"--json", NULL, OPTION_FLAG, &json, 0, 0, "with check: for a program to read"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "config check FILE [--json]\n"
                    "config reference",
        .about = "With check, validates all that can be known without serving: the file, its paths, indexes\n"
                 "and tokenizers, and prints each stream's shares, its canonical recipe and its digests.\n"
                 "With reference, prints all keys of a configuration, as Markdown.\n",
        .own = own, .args_min = 1, .args_max = 2, .words = words};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    bool check = strcmp(argv[1], "check") == 0;
    if (args != (check ? 2 : 1) || (json && !check))
        return options_fail(argv[0], check ? "check: expected one FILE" : "reference takes no more");
    return check ? run_check_command(argv[2], json) : run_reference();
}
