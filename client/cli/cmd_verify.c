/* `lanekeeper verify`: files as they lie, and steps as they are served. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/digests.h"
#include "client/cli/index_dataset.h"
#include "format/index.h"
#include "host/counts.h"
#include "host/snapshots.h"
#include "host/stream.h"
#include "store/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 64 /* steps compared at once */

struct verify {
    struct cli cli;
    struct steps steps; /* to 0: none */
    struct private_daemon again; /* works the steps out from nothing */
    struct lanekeeper *served, *recomputed;
    struct lk_buf out, json; /* the report so far */
    uint64_t checked, bad;
    struct lanekeeper *ended; /* whose stream has not all of the steps; its error text says so */
};

/* ---- the report: one line, or one object, a thing checked ---- */

static void note(struct verify *v, const char *what, const char *kind, bool good, const char *detail)
{
    v->checked++;
    v->bad += !good;
    if (v->cli.json) {
        lk_buf_puts(&v->json, v->checked > 1 ? ",{" : "{");
        json_text(&v->json, false, "what", what);
        json_text(&v->json, true, "kind", kind);
        json_bool(&v->json, true, "good", good);
        json_text(&v->json, true, "detail", detail);
        lk_buf_puts(&v->json, "}");
        return;
    }
    lk_buf_puts(&v->out, good ? "good  " : "BAD   ");
    put_safe(&v->out, what, strlen(what));
    lk_buf_putf(&v->out, ": %s", kind);
    lk_buf_puts(&v->out, detail[0] != '\0' ? ": " : "");
    put_safe(&v->out, detail, strlen(detail));
    lk_buf_puts(&v->out, "\n");
}

static int report(struct verify *v)
{
    if (v->cli.json) {
        lk_buf_puts(&v->out, "{");
        json_u64(&v->out, false, "checked", v->checked);
        json_u64(&v->out, true, "bad", v->bad);
        if (v->steps.to > 0)
            json_bool(&v->out, true, "stream_ends", v->ended != NULL);
        json_key(&v->out, true, "results");
        lk_buf_puts(&v->out, "[");
        lk_buf_put(&v->out, v->json.data, v->json.len);
        lk_buf_puts(&v->out, "]}\n");
    } else {
        lk_buf_putf(&v->out, "%" PRIu64 " checked, %" PRIu64 " bad\n", v->checked, v->bad);
    }
    bool written = output_flush(&v->out);
    if (v->ended != NULL)
        (void)fprintf(stderr, "lanekeeper verify: %s\n", lanekeeper_error_text(v->ended));
    return written && v->bad == 0 && v->ended == NULL ? EXIT_WELL : EXIT_PROBLEM;
}

/* ---- files ---- */

static void check_snapshot(struct verify *v, const char *path)
{
    struct lk_digest order;
    struct lk_err err;
    uint32_t lane;
    uint64_t position;
    char hex[LK_DIGEST_HEX];
    if (snapshot_check(path, &order, &lane, &position, &err) != LK_OK) {
        note(v, path, "snapshot", false, err.text);
        return;
    }
    lk_digest_hex(order, hex);
    char *detail = lk_format("lane %u at sequence %" PRIu64 " of order %s", lane, position, hex);
    note(v, path, "snapshot", true, detail);
    free(detail);
}

static void check_index(struct verify *v, const char *path)
{
    struct lk_index index = {0};
    struct lk_err err;
    char hex[LK_DIGEST_HEX];
    if (lk_index_open(path, &index, &err) != LK_OK) {
        note(v, path, "index", false, err.text);
        return;
    }
    lk_digest_hex(index.digest, hex);
    char *detail = lk_format("%u shards, %" PRIu64 " rows, digest %s", index.shards, index.rows, hex);
    note(v, path, "index", true, detail);
    free(detail);
    lk_index_close(&index);
}

static void check_counts(struct verify *v, const char *path)
{
    struct lk_err err;
    uint64_t rows, known;
    if (counts_check(path, &rows, &known, &err) != LK_OK) {
        note(v, path, "counts", false, err.text);
        return;
    }
    char *detail = lk_format("%" PRIu64 " of %" PRIu64 " rows are known", known, rows);
    note(v, path, "counts", true, detail);
    free(detail);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static void check_file(struct verify *v, const char *path)
{
    if (ends_with(path, ".lks"))
        check_snapshot(v, path);
    else if (ends_with(path, ".lkindex"))
        check_index(v, path);
    else if (ends_with(path, LK_COUNTS_SUFFIX))
        check_counts(v, path);
    else
        note(v, path, "file", false, "expected a snapshot (*.lks), an index (*.lkindex), counts (*.lkc), "
                                     "or a folder of them; of a configuration --config FILE");
}

static int is_ours(const struct dirent *entry)
{
    return ends_with(entry->d_name, ".lks") || ends_with(entry->d_name, ".lkindex") ||
           ends_with(entry->d_name, LK_COUNTS_SUFFIX);
}

/* In the order of the bytes of their names, so that two reports can be compared. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* How many of them there are, or -1: a problem, which is told. */
static int check_folder(struct verify *v, const char *path)
{
    struct dirent **entry = NULL;
    struct lk_err err;
    int n = scandir(path, &entry, is_ours, by_name);
    if (n < 0) {
        (void)lk_file_fail(&err, errno, "cannot list", path);
        note(v, path, "folder", false, err.text);
        return n;
    }
    size_t length = strlen(path);
    for (int i = 0; i < n; i++) {
        char *file = lk_format("%s%s%s", path, length > 0 && path[length - 1] == '/' ? "" : "/", entry[i]->d_name);
        check_file(v, file);
        free(file);
        free(entry[i]);
    }
    free(entry);
    return n;
}

/* One of a name that nothing of ours has. */
static int is_foreign(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strstr(entry->d_name, ".lk") == NULL;
}

/* An empty folder is well, and says so by its count; that another was meant than the one named is not. */
static void check_named_folder(struct verify *v, const char *path)
{
    struct dirent **entry = NULL;
    if (check_folder(v, path) != 0)
        return;
    int n = scandir(path, &entry, is_foreign, by_name);
    if (n > 0) {
        char *detail = lk_format("expected *.lks, *.lkindex or *.lkc in it, found none, but %s", entry[0]->d_name);
        note(v, path, "folder", false, detail);
        free(detail);
    }
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
}

static void check_path(struct verify *v, const char *path)
{
    struct stat st;
    struct lk_err err;
    if (stat(path, &st) != 0) {
        (void)lk_file_fail(&err, errno, "cannot find", path);
        note(v, path, "file", false, err.text);
    } else if (S_ISDIR(st.st_mode)) {
        check_named_folder(v, path);
    } else {
        check_file(v, path);
    }
}

/* ---- what a configuration names ---- */

/* Reads all data of a dataset and holds every row against its index. */
static void check_dataset(struct verify *v, const struct lk_dataset_recipe *dataset)
{
    const char *paths[] = {dataset->path};
    struct lk_index_options options = {.threads = 1, .verify = true};
    struct lk_index_result result;
    struct lk_err err;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char *index = lk_config_index_path(&v->cli.config, dataset);
    options.threads = cores < 1 ? 1 : cores > LK_INDEX_THREADS_MAX ? LK_INDEX_THREADS_MAX : (unsigned)cores;
    if (lk_index_dataset(paths, 1, index, &options, &result, &err) != LK_OK) {
        note(v, dataset->name, "dataset and index", false, err.text);
    } else {
        char *detail = lk_format("%u shards, %" PRIu64 " rows read again", result.shards, result.rows);
        note(v, dataset->name, "dataset and index", true, detail);
        free(detail);
    }
    free(index);
}

static void check_configured(struct verify *v)
{
    const struct lk_recipe *recipe = cli_recipe(&v->cli);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        check_dataset(v, &recipe->dataset[d]);
    if (access(v->cli.config.runtime.snapshot_dir, F_OK) == 0)
        (void)check_folder(v, v->cli.config.runtime.snapshot_dir);
    if (access(v->cli.config.runtime.counts_dir, F_OK) == 0)
        (void)check_folder(v, v->cli.config.runtime.counts_dir);
}

/* ---- steps ---- */

/* The daemon that works the steps out again begins at step 0 and reads no snapshot: nothing that the
 * other one has, or left on the disk, can lead it to the same mistake. */
static int start_again(struct verify *v)
{
    struct lk_err err;
    if (private_start(&v->again, v->cli.config_path, "off", &err) != LK_OK)
        return cli_fail_err(&v->cli, &err);
    return -1;
}

static int connect_both(struct verify *v)
{
    struct cli second = v->cli;
    int status = cli_connect_one(&v->cli, LANEKEEPER_SHARED_NEVER, &v->served);
    if (status >= 0)
        return status;
    second.daemon = v->again;
    second.address = v->again.address;
    second.reached = false;
    status = cli_connect_one(&second, LANEKEEPER_SHARED_NEVER, &v->recomputed);
    v->again = second.daemon;
    return status;
}

static int same_digest(struct verify *v)
{
    struct lanekeeper_info served, recomputed;
    char there[LK_DIGEST_HEX], here[LK_DIGEST_HEX];
    enum lanekeeper_code code = lanekeeper_info(v->served, &served);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&v->cli, v->served, (int)code);
    code = lanekeeper_info(v->recomputed, &recomputed);
    if (code != LANEKEEPER_OK)
        return cli_fail(&v->cli, (int)code, "%s", lanekeeper_error_text(v->recomputed));
    if (memcmp(served.stream_digest, recomputed.stream_digest, 16) == 0)
        return -1;
    lk_digest_hex(lk_digest_get(served.stream_digest), there);
    lk_digest_hex(lk_digest_get(recomputed.stream_digest), here);
    return cli_fail(&v->cli, LANEKEEPER_FAILED_PRECONDITION,
                    "the daemon serves a stream with digest %s, %s describes %s: they are two streams",
                    there, v->cli.config_path, here);
}

/* Where the streams end is a part of what they are. */
static void compare_ends(struct verify *v, uint64_t to, uint64_t served, uint64_t recomputed)
{
    if (served < to || recomputed < to)
        v->ended = served < to ? v->served : v->recomputed;
    if (served == recomputed)
        return;
    char *detail = lk_format("%s ends after %" PRIu64 " steps, %s does not",
                             served < recomputed ? "the served one" : "the recomputed one",
                             served < recomputed ? served : recomputed,
                             served < recomputed ? "the recomputed one" : "the served one");
    note(v, "stream", "end", false, detail);
    free(detail);
}

static int compare(struct verify *v, uint64_t from, uint64_t to)
{
    uint8_t a[CHUNK * 16], b[CHUNK * 16];
    uint64_t served_end, end;
    enum lanekeeper_code code = digests_get(v->served, from, to, a, &served_end);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&v->cli, v->served, (int)code);
    code = digests_get(v->recomputed, from, to, b, &end);
    if (code != LANEKEEPER_OK)
        return cli_fail(&v->cli, (int)code, "recomputing: %s", lanekeeper_error_text(v->recomputed));
    compare_ends(v, to, served_end, end);
    if (v->bad == 0 && end == v->steps.from)
        return cli_fail_call(&v->cli, v->served, LANEKEEPER_OUT_OF_RANGE);
    if (served_end < end)
        end = served_end;
    for (uint64_t step = from; step < end; step++) {
        const uint8_t *served = a + (step - from) * 16, *recomputed = b + (step - from) * 16;
        char there[LK_DIGEST_HEX], here[LK_DIGEST_HEX], what[32];
        bool same = memcmp(served, recomputed, 16) == 0;
        lk_digest_hex(lk_digest_get(served), there);
        lk_digest_hex(lk_digest_get(recomputed), here);
        char *detail = same ? lk_strdup(there) : lk_format("served %s, recomputed %s", there, here);
        (void)snprintf(what, sizeof what, "step %" PRIu64, step);
        note(v, what, "digest", same, detail);
        free(detail);
    }
    return -1;
}

static int check_steps(struct verify *v)
{
    int status = connect_both(v);
    if (status < 0)
        status = same_digest(v);
    for (uint64_t from = v->steps.from; status < 0 && v->ended == NULL && from < v->steps.to; from += CHUNK) {
        uint64_t left = v->steps.to - from;
        status = compare(v, from, from + (left < CHUNK ? left : CHUNK));
    }
    return status;
}

/* ---- the command ---- */

static int run(struct verify *v, char **path, int n)
{
    bool steps = v->steps.to > 0;
    if (steps && v->cli.config_path == NULL)
        return options_fail(v->cli.command, "--steps needs --config FILE, to work them out again");
    if (n == 0 && v->cli.config_path == NULL)
        return options_fail(v->cli.command, "expected files or folders, or --config FILE");
    if (v->cli.offline && !steps)
        return options_fail(v->cli.command, "--offline goes with --steps: files need no daemon");
    int status = cli_open(&v->cli);
    if (status < 0 && steps)
        status = start_again(v);
    for (int i = 0; status < 0 && i < n; i++)
        check_path(v, path[i]);
    if (status < 0 && v->cli.configured && !steps)
        check_configured(v);
    if (status < 0 && steps)
        status = check_steps(v);
    return status < 0 ? report(v) : status;
}

int cmd_verify(int argc, char **argv, const struct listener *listener)
{
    struct verify v = {.cli = {.command = argv[0], .timeout_s = 60}};
    struct option_row shared[CLI_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--steps", "FROM..TO", OPTION_STEPS, &v.steps, 0, 0,
         "work these steps out again, from nothing and without snapshots, and"
         "\n                         compare their digests with the daemon's"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "verify PATH... [--json]\n"
                    "verify --config FILE [--stream NAME] [--json]\n"
                    "verify --config FILE --steps FROM..TO [OPTIONS]",
        .about = "Checks snapshots (*.lks), indexes (*.lkindex), counts (*.lkc), and folders of them. With\n"
                 "--config: reads a stream's data again and compares every row with its index, and checks the\n"
                 "snapshots and counts.\n"
                 "With --steps: the steps that a daemon serves; a range that goes beyond the stream's end is a problem,\n"
                 "told after what there is.\n",
        .own = own, .shared = shared, .args_min = 0, .args_max = -1};
    int args;
    cli_options(&v.cli, shared);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    status = run(&v, argv + 1, args);
    lanekeeper_close(v.served);
    lanekeeper_close(v.recomputed);
    private_stop(&v.again);
    cli_done(&v.cli);
    lk_buf_done(&v.out);
    lk_buf_done(&v.json);
    return status;
}
