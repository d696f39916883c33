#include "client/cli/top_view.h"

#include "base/utf8.h"
#include "client/cli/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL = 11,       /* columns of a label before its text */
    NARROW = 60,      /* with fewer columns the text hangs below its label */
    OLD_MS = 1000,    /* a request that waits longer is worth a colour */
    BAR_CELLS = 20,
    LANES_LEAST = 3,  /* lanes shown on however low a screen, and 1 line that counts the others */
};

/* ---- lines ---- */

void lines_done(struct lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        free(lines->line[i].text);
    free(lines->line);
    *lines = (struct lines){.line = NULL};
}

/* Bytes of the first @columns characters of @text. */
static size_t bytes_of(const char *text, size_t n, size_t columns)
{
    size_t at = 0;
    bool valid;
    while (at < n && columns-- > 0)
        at += lk_utf8_step((const uint8_t *)text + at, n - at, &valid);
    return at;
}

static void add(struct lines *lines, const char *text, size_t n, enum tint tint)
{
    if (lines->n == lines->cap) {
        lines->cap = lines->cap == 0 ? 32 : 2 * lines->cap;
        lines->line = lk_resize(lines->line, lines->cap, sizeof *lines->line);
    }
    while (n > 0 && text[n - 1] == ' ')
        n--;
    struct line line = {.text = lk_strndup(text, n), .tint = tint};
    for (char *c = line.text; *c != '\0'; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    lines->line[lines->n++] = line;
}

/* One line, cut where the view ends. Empties @text. */
static void put_line(const struct top_view *view, struct lines *lines, struct lk_buf *text, enum tint tint)
{
    const char *all = lk_buf_cstr(text);
    add(lines, all, bytes_of(all, text->len, view->width), tint);
    text->len = 0;
}

/* A label and its text, on as many lines as it takes, broken at spaces. Empties @text. */
static void put_field(const struct top_view *view, struct lines *lines, const char *label,
                      struct lk_buf *text, enum tint tint)
{
    unsigned indent = view->width < NARROW ? 2 : LABEL;
    struct lk_buf line = {0};
    const char *at = lk_buf_cstr(text), *end = at + text->len;
    lk_buf_putf(&line, "%-*s", LABEL, label);
    unsigned room = view->width - LABEL;
    while (at < end) {
        size_t n = bytes_of(at, (size_t)(end - at), room);
        if (at + n < end) {
            size_t space = n;
            while (space > 0 && at[space] != ' ')
                space--;
            n = space > 0 ? space : n;
        }
        lk_buf_put(&line, at, n);
        put_line(view, lines, &line, tint);
        for (at += n; at < end && *at == ' ';)
            at++;
        lk_buf_putf(&line, "%*s", (int)indent, "");
        room = view->width - indent;
    }
    lk_buf_done(&line);
    text->len = 0;
}

/* ---- numbers ---- */

void top_put_short(struct lk_buf *out, uint64_t n)
{
    static const char unit[] = "kMGTPE";
    unsigned u = 0;
    uint64_t scale = 1000;
    if (n < 10000) {
        put_count(out, n);
        return;
    }
    while (n / scale >= 1000 && u < 5) {
        scale *= 1000;
        u++;
    }
    uint64_t whole = n / scale, thousandths = n % scale / (scale / 1000);
    if (whole >= 100)
        lk_buf_putf(out, "%" PRIu64 "%c", whole, unit[u]);
    else if (whole >= 10)
        lk_buf_putf(out, "%" PRIu64 ".%" PRIu64 "%c", whole, thousandths / 100, unit[u]);
    else
        lk_buf_putf(out, "%" PRIu64 ".%02" PRIu64 "%c", whole, thousandths / 10, unit[u]);
}

/* The same thing in both samples. */
struct pair {
    const struct value *old, *new;
    int64_t ms; /* between them; 0: there is nothing to compare with */
};

static struct pair pair_of(const struct pair *all, const struct value *old, const struct value *new)
{
    return (struct pair){old, new, old->type == LK_JSON_OBJECT ? all->ms : 0};
}

static struct pair pair_get(const struct pair *all, const char *key)
{
    return pair_of(all, value_get(all->old, key), value_get(all->new, key));
}

static bool per_second(const struct pair *of, const char *key, double *ret_rate)
{
    uint64_t before = value_u64(of->old, key), now = value_u64(of->new, key);
    if (of->ms <= 0 || now < before)
        return false;
    *ret_rate = (double)(now - before) * 1000.0 / (double)of->ms;
    return true;
}

static void put_rate(struct lk_buf *out, const struct pair *of, const char *key)
{
    double rate;
    if (!per_second(of, key, &rate))
        lk_buf_puts(out, "-");
    else if (rate < 100 && rate > 0)
        lk_buf_putf(out, "%.1f", rate);
    else
        top_put_short(out, (uint64_t)rate);
}

static void put_megabytes(struct lk_buf *out, const struct pair *of, const char *key)
{
    double rate;
    if (per_second(of, key, &rate))
        lk_buf_putf(out, "%.1f MB/s", rate / 1e6);
    else
        lk_buf_puts(out, "- MB/s");
}

static void put_short(struct lk_buf *out, const struct value *of, const char *key, const char *after)
{
    top_put_short(out, value_u64(of, key));
    lk_buf_puts(out, after);
}

/* ---- tables ---- */

/* A row whose columns come in the order of their worth: those that do not fit are left out. */
struct row {
    struct lk_buf line;
    unsigned left; /* columns that are free */
    bool full;
};

static void cell(struct row *row, unsigned width, struct lk_buf *text)
{
    size_t n = text->len, columns = 0;
    const char *all = lk_buf_cstr(text);
    while (bytes_of(all, n, columns) < n)
        columns++;
    if (row->full || width + 1 > row->left) {
        row->full = true;
    } else {
        size_t pad = columns < width ? width - columns : 0;
        lk_buf_putf(&row->line, " %*s", (int)pad, "");
        lk_buf_put(&row->line, all, bytes_of(all, n, width));
        row->left -= width + 1;
    }
    text->len = 0;
}

static struct row row_begin(const struct top_view *view, const char *before)
{
    struct row row = {.left = view->width};
    unsigned n = (unsigned)strlen(before);
    lk_buf_puts(&row.line, before);
    row.left -= n < row.left ? n : row.left;
    return row;
}

static void row_end(const struct top_view *view, struct lines *lines, struct row *row, enum tint tint)
{
    put_line(view, lines, &row->line, tint);
    lk_buf_done(&row->line);
}

struct column {
    const char *head;
    unsigned width;
};

static void put_heads(const struct top_view *view, struct lines *lines, const char *before,
                      const struct column *column, size_t n)
{
    struct row row = row_begin(view, before);
    struct lk_buf text = {0};
    for (size_t i = 0; i < n; i++) {
        lk_buf_puts(&text, column[i].head);
        cell(&row, column[i].width, &text);
    }
    row_end(view, lines, &row, TINT_HEAD);
    lk_buf_done(&text);
}

/* ---- the daemon ---- */

static void show_title(const struct top_view *view, const struct value *status, struct lines *lines)
{
    struct lk_buf text = {0};
    const char *health = value_text(status, "health");
    bool healthy = value_true(status, "healthy");
    lk_buf_puts(&text, view->address != NULL ? view->address : "?");
    if (status->type == LK_JSON_OBJECT)
        lk_buf_putf(&text, ", pid %" PRIu64, value_u64(status, "pid"));
    lk_buf_puts(&text, view->paused ? ", PAUSED" : "");
    put_field(view, lines, "lanekeeper", &text, TINT_TITLE);
    if (view->away != NULL) {
        put_safe(&text, view->away, strlen(view->away));
        lk_buf_puts(&text, status->type == LK_JSON_OBJECT ? "; trying again. What it said last:" : "; trying again");
        put_field(view, lines, "AWAY", &text, TINT_BAD);
    }
    if (status->type != LK_JSON_OBJECT) {
        lk_buf_done(&text);
        return;
    }
    lk_buf_puts(&text, healthy ? "" : "NOT HEALTHY: ");
    put_safe(&text, health, strlen(health));
    put_field(view, lines, "health", &text, healthy ? TINT_GOOD : TINT_BAD);
    lk_buf_done(&text);
}

static void show_workers(const struct top_view *view, const struct pair *all, struct lines *lines)
{
    struct pair workers = pair_get(all, "workers");
    struct lk_buf text = {0};
    const char *wait = value_text(workers.new, "waits_for");
    put_short(&text, workers.new, "local", " here, ");
    put_short(&text, workers.new, "remote", " elsewhere; tasks ");
    put_short(&text, workers.new, "running", " running, ");
    put_short(&text, workers.new, "queued", " queued, ");
    put_short(&text, workers.new, "tasks", " done, ");
    put_short(&text, workers.new, "retried", " again; ");
    put_short(&text, workers.new, "deaths", " died");
    put_field(view, lines, "workers", &text, value_u64(workers.new, "deaths") > 0 ? TINT_WARN : TINT_PLAIN);
    put_megabytes(&text, &workers, "data_bytes");
    lk_buf_puts(&text, " read, ");
    put_rate(&text, &workers, "rows");
    lk_buf_puts(&text, " rows/s, ");
    put_rate(&text, &workers, "tokens");
    lk_buf_puts(&text, " tokens/s");
    put_field(view, lines, "measuring", &text, TINT_PLAIN);
    if (wait[0] != '\0') {
        put_safe(&text, wait, strlen(wait));
        put_field(view, lines, "  now", &text, TINT_DIM);
    }
    lk_buf_done(&text);
}

static void put_bar(struct lk_buf *text, uint64_t part, uint64_t whole)
{
    int cells = whole == 0 ? 0 : part >= whole ? BAR_CELLS : (int)((double)part * BAR_CELLS / (double)whole);
    lk_buf_puts(text, "[");
    for (int i = 0; i < BAR_CELLS; i++)
        lk_buf_puts(text, i < cells ? "|" : " ");
    lk_buf_puts(text, "] ");
}

static void show_memory(const struct top_view *view, const struct value *status, struct lines *lines)
{
    const struct value *arena = value_get(status, "arena"), *counts = value_get(status, "counts");
    const struct value *snapshots = value_get(status, "snapshots");
    struct lk_buf text = {0};
    if (view->width >= NARROW)
        put_bar(&text, value_u64(arena, "bytes"), value_u64(arena, "budget"));
    put_bytes(&text, value_u64(arena, "bytes"));
    lk_buf_puts(&text, " of ");
    put_bytes(&text, value_u64(arena, "budget"));
    lk_buf_puts(&text, "; ");
    put_short(&text, arena, "rows", " rows, ");
    put_short(&text, arena, "misses", " fetched again, ");
    put_short(&text, arena, "evicted", " dropped for room");
    put_field(view, lines, "arena", &text, TINT_PLAIN);
    put_short(&text, counts, "rows_used", " rows used, ");
    put_short(&text, counts, "rows_kept", " kept, ");
    put_short(&text, counts, "rows_waiting", " to write; ");
    put_bytes(&text, value_u64(counts, "memory"));
    lk_buf_puts(&text, " of memory; ");
    put_short(&text, counts, "rows_wrong", " rows wrong, ");
    put_short(&text, counts, "failed", " files failed, ");
    put_short(&text, counts, "damaged", " damaged");
    bool bad = value_u64(counts, "rows_wrong") + value_u64(counts, "failed") + value_u64(counts, "damaged") > 0;
    put_field(view, lines, "counts", &text, bad ? TINT_WARN : TINT_PLAIN);
    put_short(&text, snapshots, "written", " written (");
    put_bytes(&text, value_u64(snapshots, "bytes"));
    lk_buf_puts(&text, "), ");
    put_short(&text, snapshots, "read", " read, ");
    put_short(&text, snapshots, "failed", " failed, ");
    put_short(&text, snapshots, "damaged", " damaged");
    bad = value_u64(snapshots, "failed") + value_u64(snapshots, "damaged") > 0;
    put_field(view, lines, "snapshots", &text, bad ? TINT_WARN : TINT_PLAIN);
    lk_buf_done(&text);
}

/* What each request waits for: where a stall is explained. */
static void show_requests(const struct top_view *view, const struct value *status, struct lines *lines)
{
    const struct value *waiting = value_get(status, "waiting");
    struct lk_buf text = {0};
    put_short(&text, status, "trainers_on_host", " trainers on the daemon's host; requests ");
    put_short(&text, status, "refused", " refused, ");
    put_short(&text, status, "timed_out", " too late, ");
    lk_buf_putf(&text, "%zu waiting", waiting->n);
    put_field(view, lines, "trainers", &text, TINT_PLAIN);
    for (size_t i = 0; i < waiting->n; i++) {
        const struct value *request = &waiting->child[i];
        const char *cause = value_text(request, "for");
        uint64_t age = value_u64(request, "age_ms");
        if (view->height > 0 && i == view->height / 6 && i + 1 < waiting->n) {
            lk_buf_putf(&text, "… %zu more requests", waiting->n - i);
            put_field(view, lines, "  waits", &text, TINT_DIM);
            break;
        }
        put_safe(&text, value_text(request, "method"), strlen(value_text(request, "method")));
        lk_buf_putf(&text, " of step %" PRIu64 ", %" PRIu64 " rows, for %" PRIu64 ".%" PRIu64 " s: ",
                    value_u64(request, "step"), value_u64(request, "rows"), age / 1000, age % 1000 / 100);
        put_safe(&text, cause, strlen(cause));
        put_field(view, lines, "  waits", &text, age > OLD_MS ? TINT_WARN : TINT_PLAIN);
    }
    lk_buf_done(&text);
}

/* ---- streams ---- */

static uint32_t shown_stream(const struct top_view *view, const struct value *streams)
{
    for (uint32_t s = 0; view->only != NULL && s < streams->n; s++) {
        if (strcmp(value_text(&streams->child[s], "name"), view->only) == 0)
            return s;
    }
    return view->stream < streams->n ? view->stream : streams->n > 0 ? (uint32_t)streams->n - 1 : 0;
}

static void show_streams(const struct top_view *view, const struct pair *all, const struct sample *old,
                         struct lines *lines)
{
    static const struct column columns[] = {{"BATCH/S", 8}, {"BATCHES", 8}, {"LEASED", 6}, {"SLOTS", 7},
                                            {"AREAS", 7}, {"SHARED", 8}, {"TRAINING", 8}};
    const struct value *streams = value_get(all->new, "streams");
    struct lk_buf text = {0};
    lk_buf_putf(&text, "%-16s", streams->n == 1 ? "STREAM" : "STREAMS");
    put_heads(view, lines, lk_buf_cstr(&text), columns, sizeof columns / sizeof *columns);
    text.len = 0;
    for (uint32_t s = 0; s < streams->n; s++) {
        const struct value *stream = &streams->child[s];
        struct pair pair = pair_of(all, sample_stream(old, value_text(stream, "name")), stream);
        bool shown = view->all || s == shown_stream(view, streams);
        char name[80];
        (void)snprintf(name, sizeof name, "%s%u %-13.13s", view->all || !shown ? " " : ">", s + 1,
                       value_text(stream, "name"));
        struct row row = row_begin(view, name);
        put_rate(&text, &pair, "batches");
        cell(&row, columns[0].width, &text);
        put_short(&text, stream, "batches", "");
        cell(&row, columns[1].width, &text);
        put_short(&text, stream, "slots_leased", "");
        cell(&row, columns[2].width, &text);
        lk_buf_putf(&text, "%" PRIu64 "/%" PRIu64, value_u64(stream, "slots_used"), value_u64(stream, "slots"));
        cell(&row, columns[3].width, &text);
        lk_buf_putf(&text, "%" PRIu64 "/%" PRIu64, value_u64(stream, "training_areas_used"),
                    value_u64(stream, "training_areas"));
        cell(&row, columns[4].width, &text);
        put_short(&text, stream, "batches_shared", "");
        cell(&row, columns[5].width, &text);
        put_short(&text, stream, "batches_training", "");
        cell(&row, columns[6].width, &text);
        row_end(view, lines, &row, TINT_PLAIN);
    }
    lk_buf_done(&text);
}

static void show_cursor(const struct top_view *view, const struct pair *pair, struct lines *lines)
{
    static const struct column columns[] = {{"ASKED", 9}, {"MAKES", 9}, {"READY", 5}, {"STEPS/S", 7},
                                            {"TOKENS/S", 8}, {"WAITING", 7}, {"MEASURE", 7}, {"FETCH", 6},
                                            {"LANES", 5}, {"HELD", 5}};
    static const char *const keys[] = {"asked_step", "next_step", "steps_ready", NULL, NULL, "requests_waiting",
                                       "slices_measuring", "rows_fetching", "lanes_active", "steps_held"};
    struct lk_buf text = {0};
    char from[24];
    put_heads(view, lines, "  FROM   ", columns, sizeof columns / sizeof *columns);
    top_put_short(&text, value_u64(pair->new, "first_step"));
    (void)snprintf(from, sizeof from, "  %-7s", lk_buf_cstr(&text));
    text.len = 0;
    struct row row = row_begin(view, from);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (keys[i] == NULL)
            put_rate(&text, pair, i == 3 ? "next_step" : "tokens_out");
        else if (i < 2)
            put_count(&text, value_u64(pair->new, keys[i]));
        else
            put_short(&text, pair->new, keys[i], "");
        cell(&row, columns[i].width, &text);
    }
    row_end(view, lines, &row, TINT_PLAIN);
    lk_buf_done(&text);
}

static void put_dropped(struct lk_buf *out, const struct value *of)
{
    const struct value *dropped = value_get(of, "dropped");
    size_t before = out->len;
    for (size_t i = 0; i < dropped->n; i++) {
        const char *key = dropped->child[i].key;
        if (value_u64(dropped, key) == 0)
            continue;
        lk_buf_puts(out, out->len > before ? ", " : "");
        put_short(out, dropped, key, " ");
        put_safe(out, key, strlen(key));
    }
    if (out->len == before)
        lk_buf_puts(out, "none");
}

static void show_tokens(const struct top_view *view, const struct value *cursor, struct lines *lines)
{
    struct lk_buf text = {0};
    bool holds = value_true(cursor, "identity");
    put_short(&text, cursor, "tokens_in", " in, ");
    put_short(&text, cursor, "tokens_out", " out, ");
    put_short(&text, cursor, "tokens_waiting", " waiting, ");
    put_short(&text, cursor, "tokens_lost", " lost, ");
    put_short(&text, cursor, "tokens_padded", " of padding; ");
    put_short(&text, cursor, "cuts", " cuts in ");
    put_short(&text, cursor, "sequences", " sequences");
    lk_buf_puts(&text, holds ? "" : "; TOKENS IN AND OUT DO NOT ADD UP");
    put_field(view, lines, "  tokens", &text, holds ? TINT_PLAIN : TINT_BAD);
    put_dropped(&text, cursor);
    put_field(view, lines, "  dropped", &text, TINT_PLAIN);
    lk_buf_done(&text);
}

static const struct value *same_lane(const struct value *lanes, uint64_t number)
{
    for (size_t i = 0; i < lanes->n; i++) {
        if (value_u64(&lanes->child[i], "lane") == number)
            return &lanes->child[i];
    }
    return value_get(lanes, "none");
}

static void show_lane(const struct top_view *view, const struct pair *pair, const struct column *columns,
                      struct lines *lines)
{
    struct lk_buf text = {0};
    char number[24];
    (void)snprintf(number, sizeof number, "  %-5" PRIu64, value_u64(pair->new, "lane"));
    struct row row = row_begin(view, number);
    put_count(&text, value_u64(pair->new, "position"));
    cell(&row, columns[0].width, &text);
    put_rate(&text, pair, "tokens_out");
    cell(&row, columns[1].width, &text);
    put_short(&text, pair->new, "tokens_waiting", "");
    cell(&row, columns[2].width, &text);
    put_short(&text, pair->new, "rows", "");
    cell(&row, columns[3].width, &text);
    put_short(&text, pair->new, "tokens_out", "");
    cell(&row, columns[4].width, &text);
    put_short(&text, pair->new, "tokens_lost", "");
    cell(&row, columns[5].width, &text);
    put_short(&text, pair->new, "cuts", "");
    cell(&row, columns[6].width, &text);
    row_end(view, lines, &row, TINT_PLAIN);
    lk_buf_done(&text);
}

/* @room: lines for the heads and lanes; 0: as many as it takes. */
static void show_lanes(const struct top_view *view, const struct pair *cursor, size_t room, struct lines *lines)
{
    static const struct column columns[] = {{"SEQUENCE", 10}, {"TOKENS/S", 8}, {"WAITING", 7}, {"ROWS", 7},
                                            {"TOKENS", 7}, {"LOST", 7}, {"CUTS", 7}};
    struct pair lanes = {value_get(cursor->old, "lanes"), value_get(cursor->new, "lanes"), cursor->ms};
    size_t n = lanes.new->n, first = view->height > 0 && view->first_lane < n ? view->first_lane : 0;
    size_t some = n - first;
    if (room > 0 && 1 + some > room)
        some = room > 2 + LANES_LEAST ? room - 2 : LANES_LEAST < some ? LANES_LEAST : some;
    if (n == 0)
        return;
    put_heads(view, lines, "  LANE ", columns, sizeof columns / sizeof *columns);
    for (size_t i = first; i < first + some; i++) {
        const struct value *lane = &lanes.new->child[i];
        struct pair pair = pair_of(&lanes, same_lane(lanes.old, value_u64(lane, "lane")), lane);
        show_lane(view, &pair, columns, lines);
    }
    if (some < n) {
        struct lk_buf text = {0};
        lk_buf_putf(&text, "  … %zu of %zu lanes", n - some, n);
        lk_buf_puts(&text, first > 0 ? " above and below" : " below");
        put_line(view, lines, &text, TINT_DIM);
        lk_buf_done(&text);
    }
}

/* The lanes of the cursor that is furthest, the training run, have what room is left. */
static void show_stream(const struct top_view *view, const struct pair *all, const struct sample *old,
                        const struct sample *new, const struct value *stream, struct lines *lines)
{
    const struct value *cursors = value_get(stream, "cursors");
    const char *name = value_text(stream, "name");
    struct pair furthest = {.new = NULL};
    struct lk_buf text = {0};
    lk_buf_putf(&text, "%s, %" PRIu64 " lanes, sequences of %" PRIu64 "%s", name, value_u64(stream, "lanes"),
                value_u64(stream, "sequence"), value_true(stream, "finite") ? ", finite" : "");
    put_field(view, lines, "stream", &text, TINT_TITLE);
    for (size_t i = 0; i < cursors->n; i++) {
        const struct value *cursor = &cursors->child[i];
        struct pair pair = pair_of(all, sample_cursor(old, new, name, i), cursor);
        show_cursor(view, &pair, lines);
        show_tokens(view, cursor, lines);
        if (furthest.new == NULL || value_u64(cursor, "asked_step") >= value_u64(furthest.new, "asked_step"))
            furthest = pair;
    }
    if (furthest.new == NULL) {
        lk_buf_puts(&text, "  nothing has been asked for yet");
        put_line(view, lines, &text, TINT_DIM);
    } else {
        size_t used = lines->n + 1;
        size_t room = view->height == 0 ? 0 : view->height > used ? view->height - used : 1;
        show_lanes(view, &furthest, room, lines);
    }
    lk_buf_done(&text);
}

/* ---- all of it ---- */

static void show_status(const struct top_view *view, const struct pair *all, const struct sample *old,
                        const struct sample *new, struct lines *lines)
{
    const struct value *streams = value_get(all->new, "streams");
    show_workers(view, all, lines);
    show_memory(view, all->new, lines);
    show_requests(view, all->new, lines);
    show_streams(view, all, old, lines);
    for (uint32_t s = 0; s < streams->n; s++) {
        bool named = view->only == NULL || strcmp(view->only, value_text(&streams->child[s], "name")) == 0;
        if (view->all ? named : s == shown_stream(view, streams))
            show_stream(view, all, old, new, &streams->child[s], lines);
    }
}

/* The last line of the screen has the keys, whatever else does not fit. */
static void show_keys(const struct top_view *view, struct lines *lines)
{
    struct lk_buf text = {0};
    for (; lines->n > view->height - 1; lines->n--)
        free(lines->line[lines->n - 1].text);
    while (lines->n < view->height - 1)
        add(lines, "", 0, TINT_PLAIN);
    lk_buf_puts(&text, view->width < NARROW ? "q quit  space pause  1-9 stream"
                                            : "q quit   space pause   1-9 left right: stream   up down: lanes");
    put_line(view, lines, &text, TINT_DIM);
    lk_buf_done(&text);
}

void top_lines(const struct top_view *view, const struct sample *old, const struct sample *new,
               struct lines *out)
{
    struct top_view fit = *view;
    struct pair all = {&old->status, &new->status, new->at_ms - old->at_ms};
    bool comparable = old->status.type == LK_JSON_OBJECT &&
                      value_u64(&old->status, "pid") == value_u64(&new->status, "pid");
    if (!comparable)
        all.ms = 0;
    if (fit.width < TOP_WIDTH_MIN)
        fit.width = TOP_WIDTH_MIN;
    lines_done(out);
    show_title(&fit, &new->status, out);
    if (new->status.type == LK_JSON_OBJECT)
        show_status(&fit, &all, old, new, out);
    if (fit.height > 0)
        show_keys(&fit, out);
}
