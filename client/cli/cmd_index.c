#include "client/cli/commands.h"

#include "base/json.h"
#include "base/mem.h"
#include "client/cli/index_dataset.h"
#include "client/cli/output.h"
#include "config/config.h"
#include "format/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct making {
    const char *out;
    bool json;
    struct lk_index_options options;
    struct lk_buf text; /* for standard output */
    uint32_t done, failed;
};

static bool is_config(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* ---- output ---- */

static void put_text(struct making *c, const char *out, const struct lk_index_result *r)
{
    char hex[LK_DIGEST_HEX];
    double seconds = (double)r->nanoseconds / 1e9;

    lk_digest_hex(r->digest, hex);
    lk_buf_putf(&c->text, "%s: %s%u shard%s, %llu row%s, ", out, c->options.verify ? "verified, " : "", r->shards,
                r->shards == 1 ? "" : "s", (unsigned long long)r->rows, r->rows == 1 ? "" : "s");
    put_bytes(&c->text, r->file_bytes);
    if (r->data_bytes != r->file_bytes) {
        lk_buf_puts(&c->text, " (");
        put_bytes(&c->text, r->data_bytes);
        lk_buf_puts(&c->text, " of data)");
    }
    lk_buf_putf(&c->text, " in %.2f s, digest %s\n", seconds, hex);
}

static void put_json(struct making *c, const char *path, const char *out,
                     const struct lk_index_result *r, const struct lk_err *err)
{
    lk_buf_puts(&c->text, c->done > 1 ? ",{\"path\":" : "{\"path\":");
    lk_json_quote(&c->text, path, strlen(path));
    lk_buf_puts(&c->text, ",\"index\":");
    lk_json_quote(&c->text, out, strlen(out));
    if (r == NULL) {
        lk_buf_putf(&c->text, ",\"ok\":false,\"code\":\"%s\",\"error\":", lk_code_name(err->code));
        lk_json_quote(&c->text, err->text, strlen(err->text));
        lk_buf_puts(&c->text, "}");
        return;
    }
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(r->digest, hex);
    lk_buf_putf(&c->text,
                ",\"ok\":true,\"shards\":%u,\"rows\":%llu,\"file_bytes\":%llu,\"data_bytes\":%llu,"
                "\"digest\":\"%s\",\"nanoseconds\":%llu}",
                r->shards, (unsigned long long)r->rows, (unsigned long long)r->file_bytes,
                (unsigned long long)r->data_bytes, hex, (unsigned long long)r->nanoseconds);
}

/* A full disk or a closed pipe must not look like success. */
static int print(struct making *c)
{
    if (c->json)
        lk_buf_putf(&c->text, "],\"ok\":%s}\n", c->failed == 0 ? "true" : "false");
    bool written = fwrite(c->text.data, 1, c->text.len, stdout) == c->text.len &&
                   fflush(stdout) == 0;
    if (!written)
        (void)fputs("lanekeeper: cannot write to standard output\n", stderr);
    return written && c->failed == 0 ? EXIT_WELL : EXIT_PROBLEM;
}

/* ---- work ---- */

static void index_one(struct making *c, const char *const *paths, uint32_t n, const char *out)
{
    struct lk_index_result result;
    struct lk_err err = {.code = LK_OK, .text = ""};
    enum lk_code code = lk_index_dataset(paths, n, out, &c->options, &result, &err);

    c->done++;
    if (code != LK_OK) {
        c->failed++;
        (void)fprintf(stderr, "lanekeeper: %s\n", err.text);
    }
    if (c->json)
        put_json(c, paths[0], out, code == LK_OK ? &result : NULL, &err);
    else if (code == LK_OK)
        put_text(c, out, &result);
}

/* Streams share the index of a dataset that they name alike. */
static bool seen_before(const struct lk_config *config, uint32_t stream, uint32_t dataset)
{
    const char *name = config->stream[stream].dataset[dataset].name;
    for (uint32_t s = 0; s < stream; s++)
        for (uint32_t d = 0; d < config->stream[s].n_datasets; d++)
            if (strcmp(config->stream[s].dataset[d].name, name) == 0)
                return true;
    return false;
}

static void index_config(struct making *c, const char *path)
{
    struct lk_config config = {0};
    struct lk_err err = {.code = LK_OK, .text = ""};

    if (lk_config_load(path, &config, &err) != LK_OK) {
        (void)fprintf(stderr, "lanekeeper: %s\n", err.text);
        c->done++;
        c->failed++;
        if (c->json)
            put_json(c, path, "", NULL, &err);
        return;
    }
    for (uint32_t s = 0; s < config.n_streams; s++)
        for (uint32_t d = 0; d < config.stream[s].n_datasets; d++) {
            if (seen_before(&config, s, d))
                continue;
            const struct lk_dataset_recipe *dataset = &config.stream[s].dataset[d];
            const char *data = dataset->path;
            char *out = lk_config_index_path(&config, dataset);
            index_one(c, &data, 1, out);
            free(out);
        }
    lk_config_done(&config);
}

static unsigned processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > LK_INDEX_THREADS_MAX ? LK_INDEX_THREADS_MAX : (unsigned)n;
}

static int run(struct making *c, const char *const *paths, uint32_t n)
{
    bool config = n == 1 && c->out == NULL && is_config(paths[0]);
    if (c->out == NULL && !config)
        return options_fail("index", "expected -o INDEX with PATH, or one CONFIG.yaml without it");
    lk_buf_puts(&c->text, c->json ? "{\"datasets\":[" : "");
    if (config)
        index_config(c, paths[0]);
    else
        index_one(c, paths, n, c->out);
    return print(c);
}

int cmd_index(int argc, char **argv, const struct listener *listener)
{
    struct making c = {.options = {.threads = processors()}};
    uint32_t threads = c.options.threads;
    const struct option_row own[] = {
        {"-o", "INDEX", OPTION_TEXT, &c.out, 0, 0, "the file to write; it appears as a whole or not at all"},
        {"--verify", NULL, OPTION_FLAG, &c.options.verify, 0, 0,
         "read the data again and compare every row with the index"},
        {"--threads", "N", OPTION_U32, &threads, 1, LK_INDEX_THREADS_MAX,
         "as many as processors by default; changes no byte of the result"},
        {"--json", NULL, OPTION_FLAG, &c.json, 0, 0, "one JSON object on standard output"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "index PATH... -o INDEX [--verify] [--threads N] [--json]\n"
                    "index CONFIG.yaml [--verify] [--threads N] [--json]",
        .about = "Scans the shards of a dataset (*.jsonl, *.jsonl.gz, *.jsonl.zst) and writes where their rows\n"
                 "lie. PATH is a directory (read recursively), a quoted glob, or files of one directory. Of a\n"
                 "configuration, the indexes of all its datasets are made, where it says they are.\n",
        .own = own, .args_min = 1, .args_max = -1};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    c.options.threads = threads;
    status = run(&c, (const char *const *)argv + 1, (uint32_t)args);
    lk_buf_done(&c.text);
    return status;
}
