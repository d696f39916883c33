/* What the engine says of itself: status as JSON, metrics for Prometheus, health. */
#include "base/json.h"
#include "host/engine_private.h"
#include "op/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void key_text(struct lk_buf *out, const char *key, const char *text)
{
    lk_buf_putf(out, "\"%s\":", key);
    lk_json_quote(out, text, strlen(text));
}

static void key_digest(struct lk_buf *out, const char *key, struct lk_digest digest)
{
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(digest, hex);
    lk_buf_putf(out, "\"%s\":\"%s\"", key, hex);
}

static void put_dropped(struct lk_buf *out, const uint64_t dropped[LK_DROP_REASONS])
{
    lk_buf_puts(out, "\"dropped\":{");
    for (int i = 1; i < LK_DROP_KINDS; i++)
        lk_buf_putf(out, "%s\"%s\":%" PRIu64, i > 1 ? "," : "", lk_drop_name((enum lk_drop)i),
                    dropped[i]);
    lk_buf_puts(out, "}");
}

static uint64_t sum_dropped(const uint64_t dropped[LK_DROP_REASONS])
{
    uint64_t sum = 0;
    for (int i = 1; i < LK_DROP_REASONS; i++)
        sum += dropped[i];
    return sum;
}

/* Law 5, at run time: nothing is lost between what was drawn and what was handed out. */
static bool identity_holds(const struct lane_totals *totals)
{
    return totals->tokens_in == totals->tokens_out + totals->pack.lost + totals->waiting &&
           totals->rows == totals->records + sum_dropped(totals->dropped);
}

static void put_totals(struct lk_buf *out, const struct lane_totals *totals)
{
    lk_buf_putf(out,
                "\"rows\":%" PRIu64 ",\"records\":%" PRIu64 ",\"tokens_in\":%" PRIu64
                ",\"tokens_out\":%" PRIu64 ",\"tokens_waiting\":%" PRIu64 ",\"tokens_lost\":%" PRIu64
                ",\"tokens_padded\":%" PRIu64 ",\"sequences\":%" PRIu64 ",\"cuts\":%" PRIu64
                ",\"forced_cuts\":%" PRIu64 ",\"identity\":%s,",
                totals->rows, totals->records, totals->tokens_in, totals->tokens_out,
                totals->waiting, totals->pack.lost, totals->pack.padded, totals->pack.sequences,
                totals->pack.cuts, totals->pack.forced_cuts,
                identity_holds(totals) ? "true" : "false");
    put_dropped(out, totals->dropped);
}

static void put_lanes(struct lk_buf *out, const struct stream *stream, const struct cursor *cursor)
{
    bool first = true;
    lk_buf_puts(out, "\"lanes\":[");
    for (uint32_t l = 0; l < stream->recipe->lanes; l++) {
        const struct lk_lane *lane = cursor_lane(cursor, l);
        struct lane_totals totals;
        if (lane == NULL)
            continue;
        cursor_lane_totals(cursor, l, &totals);
        lk_buf_putf(out, "%s{\"lane\":%u,\"position\":%" PRIu64 ",", first ? "" : ",", l,
                    lane_position(lane));
        put_totals(out, &totals);
        lk_buf_puts(out, "}");
        first = false;
    }
    lk_buf_puts(out, "]");
}

static void put_cursor(struct lk_buf *out, const struct served *served,
                       const struct served_cursor *at)
{
    struct cursor_status status;
    cursor_status(at->cursor, &status);
    lk_buf_putf(out,
                "{\"first_step\":%" PRIu64 ",\"next_step\":%" PRIu64 ",\"asked_step\":%" PRIu64
                ",\"lanes_active\":%u,\"steps_held\":%u,\"steps_ready\":%u,\"slices_measuring\":%u"
                ",\"rows_fetching\":%u,\"requests_waiting\":%u,\"sequences_made\":%" PRIu64 ",",
                status.first_step, status.next_step, status.asked, status.lanes_active,
                status.steps_held, status.steps_ready, status.slices_measuring,
                status.rows_fetching, at->waiting, status.rows_made);
    put_totals(out, &status.totals);
    lk_buf_puts(out, ",");
    put_lanes(out, &served->stream, at->cursor);
    lk_buf_puts(out, "}");
}

static void put_datasets(struct lk_buf *out, const struct stream *stream)
{
    lk_buf_puts(out, "\"datasets\":[");
    for (uint32_t d = 0; d < stream->recipe->n_datasets; d++) {
        const struct lk_dataset_recipe *dataset = &stream->recipe->dataset[d];
        lk_buf_puts(out, d > 0 ? ",{" : "{");
        key_text(out, "name", dataset->name);
        lk_buf_putf(out, ",\"share\":%.9f,\"rows\":%" PRIu64 ",\"shards\":%u,\"block_rows\":%" PRIu64
                         ",\"blocks\":%" PRIu64 "}",
                    stream_share(stream, d), stream->plan.dataset[d].rows,
                    stream->index[d].shards, stream->plan.dataset[d].block_rows,
                    stream->plan.dataset[d].blocks);
    }
    lk_buf_puts(out, "]");
}

static void put_stream(struct lk_buf *out, const struct engine *engine, const struct served *served)
{
    const struct stream *stream = &served->stream;
    struct slots_stats slots;
    bool first = true;
    slots_stats(served->slots, &slots);
    lk_buf_puts(out, "{");
    key_text(out, "name", stream->recipe->name);
    lk_buf_puts(out, ",");
    key_digest(out, "order_digest", stream->order);
    lk_buf_puts(out, ",");
    key_digest(out, "stream_digest", stream->digest);
    lk_buf_putf(out,
                ",\"lanes\":%u,\"sequence\":%u,\"finite\":%s,\"batches\":%" PRIu64
                ",\"batches_shared\":%" PRIu64 ",\"slots\":%u,\"slots_used\":%u,\"slots_leased\":%u,"
                "\"batches_training\":%" PRIu64 ",\"training_rows\":%" PRIu64
                ",\"training_areas\":%u,\"training_areas_used\":%u,\"training_area_bytes\":%" PRIu64 ",",
                stream->recipe->lanes, stream->recipe->sequence, stream->finite ? "true" : "false",
                served->batches, served->batches_shared, slots.slots, slots.used, slots.leased,
                served->batches_training, slots.training_rows, slots.areas, slots.areas_used, slots.area_bytes_each);
    put_datasets(out, stream);
    lk_buf_puts(out, ",\"cursors\":[");
    for (uint32_t i = 0; i < engine->config.config->runtime.cursors_max; i++) {
        if (served->cursor[i].cursor == NULL)
            continue;
        lk_buf_puts(out, first ? "" : ",");
        put_cursor(out, served, &served->cursor[i]);
        first = false;
    }
    lk_buf_puts(out, "]}");
}

static void put_pool(struct lk_buf *out, const struct pool *pool)
{
    struct pool_stats stats;
    pool_stats(pool, &stats);
    lk_buf_putf(out,
                "{\"local\":%u,\"remote\":%u,\"queued\":%u,\"running\":%u,\"tasks\":%" PRIu64
                ",\"retried\":%" PRIu64 ",\"deaths\":%" PRIu64 ",\"bisected\":%" PRIu64
                ",\"rows\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"data_bytes\":%" PRIu64
                ",\"special_tokens_in_text\":%" PRIu64 ",\"cpu_seconds\":%.3f,",
                stats.workers, stats.remote, stats.queued, stats.running, stats.tasks,
                stats.retried, stats.deaths, stats.bisected, stats.rows, stats.tokens,
                stats.data_bytes, stats.specials, (double)stats.cpu_ns / 1e9);
    const char *address = pool_address(pool);
    key_text(out, "listen", address != NULL ? address : "");
    lk_buf_puts(out, ",");
    key_text(out, "waits_for", pool_waits_for(pool));
    lk_buf_puts(out, "}");
}

/* Of the counts cache; zeros without one. */
static struct counts_stats counts_of(const struct engine *engine)
{
    struct counts_stats stats = {0};
    if (engine->counts != NULL)
        counts_stats(engine->counts, &stats);
    return stats;
}

static void put_counts(struct lk_buf *out, const struct engine *engine)
{
    struct counts_stats stats = counts_of(engine);
    lk_buf_putf(out,
                "\"counts\":{\"rows_used\":%" PRIu64 ",\"rows_kept\":%" PRIu64
                ",\"rows_waiting\":%" PRIu64 ",\"rows_dropped\":%" PRIu64 ",\"rows_wrong\":%" PRIu64
                ",\"written\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"failed\":%" PRIu64
                ",\"damaged\":%" PRIu64 ",\"removed\":%" PRIu64 ",\"memory\":%" PRIu64 "}",
                stats.used, stats.kept, stats.waiting, stats.dropped, stats.wrong, stats.written,
                stats.bytes, stats.failed, stats.damaged, stats.removed, stats.memory);
}

static void put_waiting(struct lk_buf *out, struct engine *engine)
{
    uint32_t n = 0;
    lk_buf_puts(out, "\"waiting\":[");
    for (struct request *request = engine->waiting; request != NULL && n < 32;
         request = request->next, n++) {
        struct lk_buf cause = {0};
        if (request->at != NULL)
            cursor_waits_for(request->at->cursor, request->step, request->cut, &cause);
        lk_buf_putf(out, "%s{\"method\":\"%s\",\"step\":%" PRIu64 ",\"rows\":%u,\"age_ms\":%" PRId64 ",",
                    n > 0 ? "," : "", lk_method_name(request->call->method), request->step,
                    request->cut.rows,
                    loop_now_ms(engine->config.loop) - request->call->received_ms);
        key_text(out, "for", lk_buf_cstr(&cause));
        lk_buf_puts(out, "}");
        lk_buf_done(&cause);
    }
    lk_buf_puts(out, "]");
}

void engine_status(struct engine *engine, struct lk_buf *out)
{
    struct arena_stats arena;
    struct snapshots_stats snapshots = {0};
    struct lk_buf reason = {0};
    bool healthy = engine_healthy(engine, &reason);
    arena_stats(engine->arena, &arena);
    if (engine->snapshots != NULL)
        snapshots_stats(engine->snapshots, &snapshots);
    lk_buf_putf(out, "{\"pid\":%d,\"healthy\":%s,", (int)getpid(), healthy ? "true" : "false");
    key_text(out, "health", lk_buf_cstr(&reason));
    lk_buf_puts(out, ",\"streams\":[");
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        lk_buf_puts(out, s > 0 ? "," : "");
        put_stream(out, engine, &engine->stream[s]);
    }
    lk_buf_puts(out, "],\"workers\":");
    put_pool(out, engine->pool);
    lk_buf_putf(out,
                ",\"arena\":{\"bytes\":%" PRIu64 ",\"budget\":%" PRIu64 ",\"rows\":%" PRIu64
                ",\"hits\":%" PRIu64 ",\"misses\":%" PRIu64 ",\"evicted\":%" PRIu64
                "},\"snapshots\":{\"written\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"failed\":%" PRIu64
                ",\"damaged\":%" PRIu64 ",\"read\":%" PRIu64
                "},\"trainers_on_host\":%u,\"refused\":%" PRIu64 ",\"timed_out\":%" PRIu64 ",",
                arena.bytes, arena.budget, arena.rows, arena.hits, arena.misses, arena.evicted,
                snapshots.written, snapshots.bytes, snapshots.failed, snapshots.damaged,
                snapshots.read, engine->n_clients, engine->refused, engine->timed_out);
    put_counts(out, engine);
    lk_buf_puts(out, ",");
    put_waiting(out, engine);
    lk_buf_puts(out, "}\n");
    lk_buf_done(&reason);
}

bool engine_healthy(struct engine *engine, struct lk_buf *ret_reason)
{
    int64_t still = loop_now_ms(engine->config.loop) - engine->moved_ms;
    /* Before the first request came, nothing had to move. */
    if (still > requests_oldest_ms(engine))
        still = requests_oldest_ms(engine);
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        for (uint32_t i = 0; i < engine->config.config->runtime.cursors_max; i++) {
            const struct served_cursor *at = &engine->stream[s].cursor[i];
            struct cursor_status status;
            if (at->cursor == NULL)
                continue;
            cursor_status(at->cursor, &status);
            if (!identity_holds(&status.totals)) {
                lk_buf_putf(ret_reason, "stream %s: tokens in differ from tokens out",
                            engine->stream[s].stream.recipe->name);
                return false;
            }
        }
    }
    if (engine->waiting == NULL || still < engine->config.config->runtime.stall_timeout_ms) {
        lk_buf_puts(ret_reason, engine->waiting == NULL ? "ok, idle" : "ok");
        return true;
    }
    lk_buf_putf(ret_reason, "nothing has moved for %.1f s: ", (double)still / 1000.0);
    if (engine->waiting->at != NULL)
        cursor_waits_for(engine->waiting->at->cursor, engine->waiting->step, engine->waiting->cut,
                         ret_reason);
    return false;
}

/* Metrics ------------------------------------------------------------------------------------- */

static void metric(struct lk_buf *out, const char *name, const char *type, const char *help)
{
    lk_buf_putf(out, "# HELP lanekeeper_%s %s\n# TYPE lanekeeper_%s %s\n", name, help, name, type);
}

static void single(struct lk_buf *out, const char *name, const char *type, const char *help,
                   double value)
{
    metric(out, name, type, help);
    lk_buf_putf(out, "lanekeeper_%s %.17g\n", name, value);
}

/* What the metrics of a stream are made of. The cursor that is furthest is the training run: its lanes'
 * totals stand for the stream; queues are added up over all. */
struct stream_numbers {
    struct lane_totals totals;
    struct slots_stats slots;
    uint64_t asked, ready, measuring, fetching;
};

static struct stream_numbers numbers_of(const struct engine *engine, const struct served *served)
{
    struct stream_numbers numbers = {0};
    slots_stats(served->slots, &numbers.slots);
    for (uint32_t i = 0; i < engine->config.config->runtime.cursors_max; i++) {
        struct cursor_status status;
        if (served->cursor[i].cursor == NULL)
            continue;
        cursor_status(served->cursor[i].cursor, &status);
        if (status.asked >= numbers.asked) {
            numbers.asked = status.asked;
            numbers.totals = status.totals;
        }
        numbers.ready += status.steps_ready;
        numbers.measuring += status.slices_measuring;
        numbers.fetching += status.rows_fetching;
    }
    return numbers;
}

/* One row a metric of a stream: X(name, type, help, value of n). */
#define STREAM_METRICS(X)                                                                          \
    X("asked_step", "gauge", "Highest step asked for.", n->asked)                                  \
    X("steps_ready", "gauge", "Complete steps in the windows.", n->ready)                          \
    X("slices_measuring", "gauge", "Slices of rows being measured.", n->measuring)                 \
    X("rows_fetching", "gauge", "Rows being fetched again for a batch.", n->fetching)              \
    X("slots_leased", "gauge", "Batch slots that trainers hold.", n->slots.leased)                 \
    X("rows_drawn_total", "counter", "Rows drawn by the lanes.", n->totals.rows)                   \
    X("tokens_in_total", "counter", "Tokens of the records drawn.", n->totals.tokens_in)           \
    X("tokens_out_total", "counter", "Tokens in sequences handed out.", n->totals.tokens_out)      \
    X("tokens_waiting", "gauge", "Tokens held by the sequencers.", n->totals.waiting)              \
    X("tokens_lost_total", "counter", "Tokens dropped by the tail rule.", n->totals.pack.lost)     \
    X("tokens_padded_total", "counter", "Padding in sequences.", n->totals.pack.padded)            \
    X("sequences_total", "counter", "Sequences handed out.", n->totals.pack.sequences)             \
    X("cuts_total", "counter", "Records cut by packing.", n->totals.pack.cuts)                     \
    X("token_identity", "gauge", "1 while tokens in = out + lost + waiting.",                      \
      identity_holds(&n->totals))

struct stream_metric {
    const char *name, *type, *help;
};

static uint64_t stream_value(const struct stream_numbers *n, size_t i)
{
    const uint64_t value[] = {
#define VALUE(name, type, help, of) (uint64_t)(of),
        STREAM_METRICS(VALUE)
#undef VALUE
    };
    return value[i];
}

static void put_stream_metrics(struct lk_buf *out, const struct engine *engine,
                               const struct stream_numbers *numbers)
{
    static const struct stream_metric table[] = {
#define ROW(name, type, help, of) {name, type, help},
        STREAM_METRICS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        metric(out, table[i].name, table[i].type, table[i].help);
        for (uint32_t s = 0; s < engine->n_streams; s++)
            lk_buf_putf(out, "lanekeeper_%s{stream=\"%s\"} %" PRIu64 "\n", table[i].name,
                        engine->stream[s].stream.recipe->name, stream_value(&numbers[s], i));
    }
    metric(out, "rows_dropped_total", "counter", "Rows dropped, by rule.");
    for (uint32_t s = 0; s < engine->n_streams; s++)
        for (int i = 1; i < LK_DROP_KINDS; i++)
            lk_buf_putf(out, "lanekeeper_rows_dropped_total{stream=\"%s\",rule=\"%s\"} %" PRIu64 "\n",
                        engine->stream[s].stream.recipe->name, lk_drop_name((enum lk_drop)i),
                        numbers[s].totals.dropped[i]);
}

static void put_latency(struct lk_buf *out, const struct engine *engine)
{
    double limit = 0.001;
    uint64_t sum = 0;
    metric(out, "get_batch_seconds", "histogram", "Time from a GetBatch request to its answer.");
    for (int i = 0; i < LATENCY_BUCKETS - 1; i++) {
        sum += engine->latency[i];
        lk_buf_putf(out, "lanekeeper_get_batch_seconds_bucket{le=\"%.3f\"} %" PRIu64 "\n", limit, sum);
        limit *= 3;
    }
    lk_buf_putf(out,
                "lanekeeper_get_batch_seconds_bucket{le=\"+Inf\"} %" PRIu64
                "\nlanekeeper_get_batch_seconds_sum %.6f\nlanekeeper_get_batch_seconds_count %" PRIu64
                "\n",
                engine->latency_n, engine->latency_sum, engine->latency_n);
}

static void put_pool_metrics(struct lk_buf *out, const struct engine *engine)
{
    struct pool_stats pool;
    pool_stats(engine->pool, &pool);
    single(out, "workers", "gauge", "Workers connected, local and remote.",
           (double)pool.workers + (double)pool.remote);
    single(out, "tasks_queued", "gauge", "Tasks that wait for a worker.", pool.queued);
    single(out, "tasks_running", "gauge", "Tasks at workers.", pool.running);
    single(out, "task_oldest_seconds", "gauge", "Age of the oldest running task.",
           (double)pool.oldest_ms / 1000.0);
    single(out, "tasks_total", "counter", "Tasks completed.", (double)pool.tasks);
    single(out, "task_retries_total", "counter", "Tasks given out again.", (double)pool.retried);
    single(out, "worker_deaths_total", "counter", "Workers that died.", (double)pool.deaths);
    single(out, "rows_measured_total", "counter", "Rows measured.", (double)pool.rows);
    single(out, "tokens_measured_total", "counter", "Tokens made.", (double)pool.tokens);
    single(out, "row_bytes_read_total", "counter", "Bytes of rows read.", (double)pool.data_bytes);
    single(out, "special_tokens_in_text_total", "counter",
           "Special tokens found in the text of rows measured.", (double)pool.specials);
    single(out, "worker_cpu_seconds_total", "counter", "CPU time of tasks.",
           (double)pool.cpu_ns / 1e9);
}

static void put_counts_metrics(struct lk_buf *out, const struct engine *engine)
{
    struct counts_stats stats = counts_of(engine);
    single(out, "counts_rows_used_total", "counter", "Rows whose counts were known, so not measured.",
           (double)stats.used);
    single(out, "counts_rows_kept_total", "counter", "Rows whose counts were written.",
           (double)stats.kept);
    single(out, "counts_rows_wrong_total", "counter",
           "Rows that, measured again, contradicted the count that was kept.", (double)stats.wrong);
    single(out, "counts_rows_dropped_total", "counter", "Rows whose counts found no room in memory.",
           (double)stats.dropped);
    single(out, "counts_written_total", "counter", "Counts files written.", (double)stats.written);
    single(out, "counts_written_bytes_total", "counter", "Bytes of them.", (double)stats.bytes);
    single(out, "counts_failed_total", "counter", "Counts files not written.", (double)stats.failed);
    single(out, "counts_damaged_total", "counter", "Counts files that could not be used.",
           (double)stats.damaged);
    single(out, "counts_removed_total", "counter", "Counts files removed to make room.",
           (double)stats.removed);
    single(out, "counts_memory_bytes", "gauge", "Memory of the counts cache.", (double)stats.memory);
}

void engine_metrics(struct engine *engine, struct lk_buf *out)
{
    struct stream_numbers *numbers = lk_zalloc(engine->n_streams, sizeof *numbers);
    struct arena_stats arena;
    struct snapshots_stats snapshots = {0};
    struct rpc_stats rpc;
    struct lk_buf reason = {0};

    for (uint32_t s = 0; s < engine->n_streams; s++)
        numbers[s] = numbers_of(engine, &engine->stream[s]);
    arena_stats(engine->arena, &arena);
    if (engine->snapshots != NULL)
        snapshots_stats(engine->snapshots, &snapshots);
    rpc_server_stats(engine->rpc, &rpc);
    single(out, "healthy", "gauge", "1 unless requests wait and nothing moves.",
           engine_healthy(engine, &reason));
    single(out, "oldest_request_seconds", "gauge", "Age of the oldest waiting request.",
           (double)requests_oldest_ms(engine) / 1000.0);
    put_stream_metrics(out, engine, numbers);
    put_latency(out, engine);
    put_pool_metrics(out, engine);
    single(out, "arena_bytes", "gauge", "Token memory in use.", (double)arena.bytes);
    single(out, "arena_budget_bytes", "gauge", "Token memory allowed.", (double)arena.budget);
    single(out, "arena_misses_total", "counter", "Rows that had to be fetched again.",
           (double)arena.misses);
    single(out, "arena_evicted_total", "counter", "Rows dropped under pressure.",
           (double)arena.evicted);
    single(out, "snapshots_written_total", "counter", "Snapshot files.", (double)snapshots.written);
    single(out, "snapshots_failed_total", "counter", "Snapshots not written.",
           (double)snapshots.failed);
    single(out, "snapshots_damaged_total", "counter", "Snapshots that could not be used.",
           (double)snapshots.damaged);
    put_counts_metrics(out, engine);
    single(out, "requests_waiting", "gauge", "Requests that wait.", rpc.waiting);
    single(out, "requests_total", "counter", "Requests received.", (double)rpc.calls);
    single(out, "requests_refused_total", "counter", "Requests refused as wrong.",
           (double)(engine->refused + rpc.refused_malformed + rpc.refused_busy));
    single(out, "connections_displaced_total", "counter",
           "Connections ended for others: there are more than a quarter of the open files allowed.",
           (double)rpc.displaced);
    single(out, "requests_late_total", "counter", "Requests whose deadline came.",
           (double)engine->timed_out);
    single(out, "trainers_on_host", "gauge", "Trainers that read batches in shared memory.",
           engine->n_clients);
    lk_buf_done(&reason);
    free(numbers);
}
