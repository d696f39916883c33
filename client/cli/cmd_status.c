/* `lanekeeper status`: what a daemon does. One sample gives its state, two give its speed. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct status_command {
    struct cli cli;
    const char *only; /* the stream asked for; NULL: all */
    bool watch;
    uint32_t interval_ms;
    uint32_t count; /* 0: without end */
    struct lanekeeper *handle;
    struct lk_buf out;
};

/* ---- text ---- */

static void count(struct lk_buf *out, const char *before, const struct value *of, const char *key,
                  const char *after)
{
    lk_buf_puts(out, before);
    put_count(out, value_u64(of, key));
    lk_buf_puts(out, after);
}

static void rate(struct lk_buf *out, uint64_t before, uint64_t now, int64_t ms)
{
    if (now < before || ms <= 0)
        lk_buf_puts(out, "-");
    else
        put_count(out, (now - before) * 1000 / (uint64_t)ms);
    lk_buf_puts(out, " tokens/s");
}

static void text_dropped(struct lk_buf *out, const struct value *of)
{
    const struct value *dropped = value_get(of, "dropped");
    const char *before = "";
    for (size_t i = 0; i < dropped->n; i++) {
        uint64_t n = value_u64(dropped, dropped->child[i].key);
        if (n == 0)
            continue;
        lk_buf_putf(out, "%s%s ", before, dropped->child[i].key);
        put_count(out, n);
        before = ", ";
    }
    if (before[0] == '\0')
        lk_buf_puts(out, "none");
}

static void text_workers(struct lk_buf *out, const struct sample *old, const struct sample *new)
{
    const struct value *workers = value_get(&new->status, "workers");
    const char *now = value_text(workers, "waits_for");
    count(out, "workers   ", workers, "local", " here, ");
    count(out, "", workers, "remote", " elsewhere; tasks ");
    count(out, "", workers, "running", " running, ");
    count(out, "", workers, "queued", " queued, ");
    count(out, "", workers, "tasks", " done, ");
    count(out, "", workers, "retried", " given out again; ");
    count(out, "", workers, "deaths", " died\n          measured ");
    count(out, "", workers, "rows", " rows, ");
    count(out, "", workers, "tokens", " tokens, ");
    rate(out, value_u64(value_get(&old->status, "workers"), "tokens"), value_u64(workers, "tokens"),
         new->at_ms - old->at_ms);
    lk_buf_putf(out, "%s%s\n", now[0] != '\0' ? "; now: " : "", now);
}

static void text_memory(struct lk_buf *out, const struct value *status)
{
    const struct value *arena = value_get(status, "arena");
    const struct value *snapshots = value_get(status, "snapshots");
    lk_buf_puts(out, "arena     ");
    put_bytes(out, value_u64(arena, "bytes"));
    lk_buf_puts(out, " of ");
    put_bytes(out, value_u64(arena, "budget"));
    count(out, ", ", arena, "rows", " rows; ");
    count(out, "", arena, "misses", " fetched again, ");
    count(out, "", arena, "evicted", " dropped for room\n");
    count(out, "snapshots ", snapshots, "written", " written (");
    put_bytes(out, value_u64(snapshots, "bytes"));
    count(out, "), ", snapshots, "read", " read, ");
    count(out, "", snapshots, "failed", " failed, ");
    count(out, "", snapshots, "damaged", " damaged\n");
    const struct value *counts = value_get(status, "counts");
    count(out, "counts    ", counts, "rows_used", " rows used, ");
    count(out, "", counts, "rows_kept", " kept; ");
    count(out, "", counts, "failed", " files failed, ");
    count(out, "", counts, "damaged", " damaged, ");
    count(out, "", counts, "rows_wrong", " rows wrong\n");
}

static void text_waiting(struct lk_buf *out, const struct value *status)
{
    const struct value *waiting = value_get(status, "waiting");
    count(out, "requests  ", status, "refused", " refused, ");
    count(out, "", status, "timed_out", " too late; ");
    lk_buf_putf(out, "%s\n", waiting->n == 0 ? "none waits" : "waiting:");
    for (size_t i = 0; i < waiting->n; i++) {
        const struct value *request = &waiting->child[i];
        const char *cause = value_text(request, "for");
        lk_buf_putf(out, "          %s of step %" PRIu64 ", %" PRIu64 " rows, since %" PRIu64 " ms, for ",
                    value_text(request, "method"), value_u64(request, "step"),
                    value_u64(request, "rows"), value_u64(request, "age_ms"));
        put_safe(out, cause, strlen(cause));
        lk_buf_puts(out, "\n");
    }
}

static void text_lane(struct lk_buf *out, const struct value *lane)
{
    lk_buf_putf(out, "    lane %-4" PRIu64, value_u64(lane, "lane"));
    count(out, " at sequence ", lane, "position", ": ");
    count(out, "", lane, "rows", " rows drawn, ");
    count(out, "", lane, "tokens_out", " tokens out, ");
    count(out, "", lane, "tokens_waiting", " waiting; dropped ");
    text_dropped(out, lane);
    lk_buf_puts(out, "\n");
}

static void text_cursor(struct lk_buf *out, const struct sample *old, const struct sample *new,
                        const struct value *stream, size_t i)
{
    const struct value *cursor = &value_get(stream, "cursors")->child[i];
    const struct value *lanes = value_get(cursor, "lanes");
    const struct value *was = sample_cursor(old, new, value_text(stream, "name"), i);
    uint64_t tokens = value_u64(cursor, "tokens_out");
    uint64_t before = was->type == LK_JSON_OBJECT ? value_u64(was, "tokens_out") : UINT64_MAX;
    count(out, "  cursor from step ", cursor, "first_step", "");
    count(out, ": makes step ", cursor, "next_step", ", asked for ");
    count(out, "", cursor, "asked_step", "; ");
    count(out, "", cursor, "steps_ready", " steps ready, ");
    count(out, "", cursor, "lanes_active", " lanes active, ");
    rate(out, before, tokens, new->at_ms - old->at_ms);
    count(out, "\n    queues: ", cursor, "slices_measuring", " slices being measured, ");
    count(out, "", cursor, "rows_fetching", " rows being fetched, ");
    count(out, "", cursor, "requests_waiting", " requests waiting\n    tokens: ");
    count(out, "", cursor, "tokens_in", " in, ");
    count(out, "", cursor, "tokens_out", " out, ");
    count(out, "", cursor, "tokens_waiting", " waiting, ");
    count(out, "", cursor, "tokens_lost", " lost, ");
    count(out, "", cursor, "tokens_padded", " of padding; ");
    count(out, "", cursor, "cuts", " cuts in ");
    count(out, "", cursor, "sequences", " sequences\n    dropped rows: ");
    text_dropped(out, cursor);
    lk_buf_puts(out, value_true(cursor, "identity") ? "\n" : "; TOKENS IN AND OUT DO NOT ADD UP\n");
    for (size_t l = 0; l < lanes->n; l++)
        text_lane(out, &lanes->child[l]);
}

static void text_stream(struct lk_buf *out, const struct sample *old, const struct sample *new,
                        const struct value *stream)
{
    const struct value *cursors = value_get(stream, "cursors");
    const char *name = value_text(stream, "name");
    lk_buf_putf(out, "stream %s, digest %s\n", name, value_text(stream, "stream_digest"));
    count(out, "  batches handed out: ", stream, "batches", ", ");
    count(out, "", stream, "batches_shared", " of them in shared memory; slots: ");
    count(out, "", stream, "slots_used", " used, ");
    count(out, "", stream, "slots_leased", " held by trainers, of ");
    count(out, "", stream, "slots", "\n");
    for (size_t i = 0; i < cursors->n; i++)
        text_cursor(out, old, new, stream, i);
    if (cursors->n == 0)
        lk_buf_puts(out, "  nothing has been asked for yet\n");
}

static void text_status(struct status_command *c, const struct sample *old, const struct sample *new)
{
    struct lk_buf *out = &c->out;
    const struct value *status = &new->status, *streams = value_get(status, "streams");
    const char *health = value_text(status, "health");
    lk_buf_putf(out, "daemon    pid %" PRIu64 ", %s: ", value_u64(status, "pid"),
                value_true(status, "healthy") ? "healthy" : "NOT HEALTHY");
    put_safe(out, health, strlen(health));
    count(out, "; ", status, "trainers_on_host", " trainers on its host\n");
    text_workers(out, old, new);
    text_memory(out, status);
    text_waiting(out, status);
    for (size_t i = 0; i < streams->n; i++)
        if (c->only == NULL || strcmp(c->only, value_text(&streams->child[i], "name")) == 0)
            text_stream(out, old, new, &streams->child[i]);
}

/* ---- sampling ---- */

static int take(struct status_command *c, char **ret_json, struct sample *ret_sample)
{
    struct lk_err err;
    enum lanekeeper_code code = lanekeeper_status(c->handle, ret_json);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&c->cli, c->handle, (int)code);
    if (sample_parse(*ret_json, sample_now_ms(), ret_sample, &err) == LK_OK)
        return -1;
    lanekeeper_free(*ret_json);
    return cli_fail(&c->cli, LANEKEEPER_DATA_LOSS, "the daemon's status is not JSON: %s", err.text);
}

/* The daemon's document as it is, on one line. */
static void put_document(struct lk_buf *out, const char *json)
{
    size_t n = strlen(json);
    while (n > 0 && json[n - 1] == '\n')
        n--;
    lk_buf_put(out, json, n);
    lk_buf_puts(out, "\n");
}

/* One look: @old is the sample before, and becomes the new one. */
static int look(struct status_command *c, struct sample *old)
{
    struct sample new = {.at_ms = 0};
    char *json;
    int status = take(c, &json, &new);
    if (status >= 0)
        return status;
    if (c->cli.json) {
        put_document(&c->out, json);
    } else {
        if (c->watch && isatty(STDOUT_FILENO))
            lk_buf_puts(&c->out, "\033[H\033[2J");
        text_status(c, old, &new);
    }
    lanekeeper_free(json);
    sample_done(old);
    *old = new;
    return output_flush(&c->out) ? -1 : EXIT_PROBLEM;
}

static int run(struct status_command *c)
{
    struct sample old = {.at_ms = 0};
    char *json;
    c->only = c->cli.stream;
    c->cli.any_stream = true;
    int status = cli_open(&c->cli);
    if (status < 0)
        status = cli_connect_one(&c->cli, LANEKEEPER_SHARED_NEVER, &c->handle);
    if (status < 0 && !c->cli.json) {
        status = take(c, &json, &old); /* what the first rates are taken against */
        if (status < 0) {
            lanekeeper_free(json);
            sample_pause_ms(c->interval_ms);
        }
    }
    uint32_t looks = c->watch ? c->count : 1;
    for (uint32_t i = 0; status < 0 && (looks == 0 || i < looks); i++) {
        if (i > 0)
            sample_pause_ms(c->interval_ms);
        status = look(c, &old);
    }
    sample_done(&old);
    return status < 0 ? EXIT_WELL : status;
}

int cmd_status(int argc, char **argv, const struct listener *listener)
{
    struct status_command c = {.cli = {.command = argv[0], .timeout_s = 60}, .interval_ms = 1000};
    struct option_row shared[CLI_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--watch", NULL, OPTION_FLAG, &c.watch, 0, 0, "again and again; ends when the daemon does"},
        {"--interval", "MS", OPTION_U32, &c.interval_ms, 10, 3600000,
         "between two samples; 1000 by default"},
        {"--count", "N", OPTION_U32, &c.count, 1, UINT32_MAX, "with --watch: so many times"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "status [ADDRESS | CONFIG] [--watch] [--interval MS] [OPTIONS]",
        .about = "Prints what a daemon has and does: each stream's cursors and lanes, its queues, what\n"
                 "every request waits for, tokens a second between two samples, and rows dropped by\n"
                 "rule. With --json the daemon's own document, one a line. ADDRESS and CONFIG are as with\n"
                 "--connect and --config.\n",
        .own = own, .shared = shared, .args_max = 1};
    int args;
    cli_options(&c.cli, shared);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (args == 1 && strstr(argv[1], "://") != NULL)
        c.cli.connect = argv[1];
    else if (args == 1)
        c.cli.config_path = argv[1];
    status = run(&c);
    lanekeeper_close(c.handle);
    cli_done(&c.cli);
    lk_buf_done(&c.out);
    return status;
}
