#include "host/engine_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TASK_TIMEOUT_MS 30000
#define HANDOVER_CLIENTS_MAX 4096
#define CALL_BYTES 512 /* of a trainer's request: it has some hundred */

#define COUNTS_TICK_MS 500

/* Turns --------------------------------------------------------------------------------------- */

static void progress(void *owner)
{
    struct engine *engine = owner;
    engine->results++; /* the loop's idle hook does the rest, once a turn */
}

/* Which cursors are waited for, and from which step on. */
static void count_waiting(struct engine *engine)
{
    uint32_t cursors = engine->config.config->runtime.cursors_max;
    for (uint32_t s = 0; s < engine->n_streams; s++)
        for (uint32_t i = 0; i < cursors; i++) {
            engine->stream[s].cursor[i].waiting = 0;
            engine->stream[s].cursor[i].lowest = UINT64_MAX;
        }
    for (struct request *request = engine->waiting; request != NULL; request = request->next) {
        struct served_cursor *at = request->at;
        if (at == NULL)
            continue;
        at->waiting++;
        if (request->step < at->lowest)
            at->lowest = request->step;
    }
}

/* True when one of them has no slot for what it must make next. */
static bool pump_waited_for(struct served *served, uint32_t cursors)
{
    bool starved = false;
    for (uint32_t i = 0; i < cursors; i++) {
        struct served_cursor *at = &served->cursor[i];
        if (at->cursor == NULL || at->waiting == 0)
            continue;
        (void)cursor_pump(at->cursor);
        starved = starved || cursor_starved(at->cursor, at->lowest);
    }
    return starved;
}

static void pump_stream(struct engine *engine, struct served *served)
{
    uint32_t cursors = engine->config.config->runtime.cursors_max;
    bool starved = false;
    for (uint32_t i = 0; i < cursors; i++) {
        struct served_cursor *at = &served->cursor[i];
        if (at->cursor == NULL)
            continue;
        cursor_keep(at->cursor, at->lowest);
        if (at->waiting == 0 && cursor_seeking(at->cursor))
            continue;
        (void)cursor_pump(at->cursor);
        starved = starved || (at->waiting > 0 && cursor_starved(at->cursor, at->lowest));
    }
    /* Slots are shared. When one cursor lacks them, every cursor gives up steps that nobody waits for,
     * first those behind: then each that is waited for holds the step it must make next, or nothing at
     * all, so one of them can always finish. */
    for (int all = 0; starved && all <= 1; all++) {
        for (uint32_t i = 0; i < cursors; i++)
            if (served->cursor[i].cursor != NULL)
                cursor_shed(served->cursor[i].cursor, all == 1);
        starved = pump_waited_for(served, cursors);
    }
}

static void another_turn(void *owner)
{
    (void)owner; /* it is what comes after */
}

/* A cursor that ran over known counts has left off, so that calls are heard. */
static void feed_the_hungry(struct engine *engine)
{
    bool hungry = false;
    for (uint32_t s = 0; s < engine->n_streams; s++)
        for (uint32_t i = 0; i < engine->config.config->runtime.cursors_max; i++) {
            const struct served_cursor *at = &engine->stream[s].cursor[i];
            hungry = hungry || (at->cursor != NULL && at->waiting > 0 && cursor_hungry(at->cursor));
        }
    engine->results += hungry;
    if (hungry && engine->again.heap == 0)
        loop_set(engine->config.loop, &engine->again, loop_now_ms(engine->config.loop), another_turn,
                 engine);
}

static void tell_dropped(void *owner)
{
    struct engine *engine = owner;
    for (uint32_t s = 0; s < engine->n_streams; s++)
        if (engine->stream[s].drops.log != NULL)
            drop_log_sum(&engine->stream[s].drops);
}

/* At most a line a minute, and none that comes much later than what it tells. */
static void tell_dropped_soon(struct engine *engine)
{
    for (uint32_t s = 0; s < engine->n_streams && engine->drops.heap == 0; s++)
        if (engine->stream[s].drops.more > 0)
            loop_set(engine->config.loop, &engine->drops, loop_now_ms(engine->config.loop) + DROP_LOG_EVERY_MS,
                     tell_dropped, engine);
}

static uint64_t progress_so_far(const struct engine *engine)
{
    uint64_t sum = engine->results + engine->latency_n;
    for (uint32_t s = 0; s < engine->n_streams; s++)
        sum += engine->stream[s].batches;
    return sum;
}

/* When kept counts turn out to be wrong nobody knows what they were used for: by streams of the same data,
 * now or before the last start. */
static void heed_doubts(struct engine *engine, struct served *served)
{
    uint64_t doubts = 0;
    for (uint32_t d = 0; served->counts != NULL && d < served->stream.recipe->n_datasets; d++)
        doubts += counts_doubts(served->counts[d]);
    if (doubts == served->doubts)
        return;
    served->doubts = doubts;
    if (engine->snapshots != NULL)
        snapshots_forget(engine->snapshots, served->stream.order);
    for (uint32_t i = 0; i < engine->config.config->runtime.cursors_max; i++)
        if (served->cursor[i].cursor != NULL)
            cursor_distrust(served->cursor[i].cursor);
}

static void heed_all_doubts(struct engine *engine)
{
    for (uint32_t s = 0; s < engine->n_streams; s++)
        heed_doubts(engine, &engine->stream[s]);
}

static void turn(void *owner)
{
    struct engine *engine = owner;
    uint32_t answered;
    heed_all_doubts(engine);
    do { /* an answer may set a window free to move on */
        (void)requests_serve(engine); /* gives new requests a cursor */
        count_waiting(engine);
        for (uint32_t s = 0; s < engine->n_streams; s++)
            pump_stream(engine, &engine->stream[s]);
        answered = requests_serve(engine);
    } while (answered > 0);
    feed_the_hungry(engine);
    tell_dropped_soon(engine);
    uint64_t now = progress_so_far(engine);
    if (now != engine->last_progress || engine->waiting == NULL) {
        engine->last_progress = now;
        engine->moved_ms = loop_now_ms(engine->config.loop);
    }
}

static void rpc_ready(void *owner)
{
    requests_receive(owner);
}

/* Trainers on this host ----------------------------------------------------------------------- */

static void client_joined(void *owner, uint64_t client)
{
    struct engine *engine = owner;
    if (engine->n_clients == engine->cap_clients) {
        engine->cap_clients = engine->cap_clients == 0 ? 16 : 2 * engine->cap_clients;
        engine->client = lk_resize(engine->client, engine->cap_clients, sizeof *engine->client);
    }
    engine->client[engine->n_clients++] = client;
}

static void client_released(void *owner, uint64_t client, uint64_t lease)
{
    struct engine *engine = owner;
    uint32_t region = slots_region(lease);
    if (region < engine->n_streams)
        slots_release(engine->stream[region].slots, client, lease);
}

static void client_gone(void *owner, uint64_t client)
{
    struct engine *engine = owner;
    for (uint32_t s = 0; s < engine->n_streams; s++)
        slots_release_all(engine->stream[s].slots, client);
    for (uint32_t i = 0; i < engine->n_clients; i++) {
        if (engine->client[i] == client) {
            engine->client[i] = engine->client[--engine->n_clients];
            return;
        }
    }
}

static const struct handover_ops client_ops = {
    .joined = client_joined, .released = client_released, .gone = client_gone};

static void handover_ready(void *owner)
{
    struct engine *engine = owner;
    handover_poll(engine->handover);
}

/* Wiring -------------------------------------------------------------------------------------- */

static void pool_log(void *owner, int level, const char *event, const char *text)
{
    const struct engine *engine = owner;
    enum log_level mine = level <= 3   ? LOG_LEVEL_ERROR
                          : level == 4 ? LOG_LEVEL_WARN
                          : level <= 6 ? LOG_LEVEL_INFO
                                       : LOG_LEVEL_DEBUG;
    log_event(engine->config.log, mine, "workers", event, "text", text, NULL);
}

static enum lk_code open_pool(struct engine *engine, struct lk_err *err)
{
    const struct lk_runtime *runtime = &engine->config.config->runtime;
    struct pool_stream *streams = engine->pool_stream =
        lk_zalloc(engine->n_streams, sizeof *streams);
    for (uint32_t s = 0; s < engine->n_streams; s++)
        stream_for_pool(&engine->stream[s].stream, &streams[s]);
    struct pool_config config = {
        .loop = engine->config.loop,
        .stream = streams,
        .n_streams = engine->n_streams,
        .workers = runtime->workers,
        .worker_path = engine->config.worker_path,
        .listen = runtime->workers_listen,
        .token_file = runtime->worker_token_file,
        .cache_bytes = stream_worker_cache(runtime),
        .task_timeout_ms = TASK_TIMEOUT_MS,
        .log = pool_log,
        .log_owner = engine,
    };
    return pool_open(&config, &engine->pool, err);
}

/* What the tokenizer's file asks for and does not get, or what rule it is read by. */
/* Weights are relative: so what they come to is said. */
static void log_datasets(const struct engine *engine, const struct stream *stream)
{
    for (uint32_t d = 0; d < stream->recipe->n_datasets; d++) {
        char share[32], rows[32];
        (void)snprintf(share, sizeof share, "%.9g", stream_share(stream, d));
        (void)snprintf(rows, sizeof rows, "%" PRIu64, stream->plan.dataset[d].rows);
        log_event(engine->config.log, LOG_LEVEL_INFO, "stream", "dataset", "stream",
                  stream->recipe->name, "dataset", stream->recipe->dataset[d].name, "share", share,
                  "rows", rows, NULL);
    }
}

static void log_notes(const struct engine *engine, const struct stream *stream)
{
    const char *note = lk_tokenizer_notes(stream->tokenizer);
    while (*note != '\0') {
        int n = (int)strcspn(note, "\n");
        log_text(engine->config.log, LOG_LEVEL_INFO, "stream", "tokenizer", "%s: %.*s",
                 stream->recipe->name, n, note);
        note += n + (note[n] == '\n');
    }
}

static enum lk_code open_stream(struct engine *engine, uint32_t s, struct lk_err *err)
{
    const struct lk_runtime *runtime = &engine->config.config->runtime;
    struct served *served = &engine->stream[s];
    LK_TRY(stream_open(engine->config.config, s, &served->stream, err));
    LK_TRY(stream_check_cache(&served->stream, runtime, err));
    log_datasets(engine, &served->stream);
    log_notes(engine, &served->stream);
    served->cursor = lk_zalloc(runtime->cursors_max, sizeof *served->cursor);
    struct slots_grant grant = slots_granted(runtime, engine->n_streams, served->stream.recipe);
    engine->batch_bytes += grant.slots * grant.step_bytes;
    return slots_open((uint16_t)s, grant.slots, grant.leased_max, grant.rows, served->stream.recipe->sequence,
                      &served->slots, err);
}

static void counts_due(void *owner)
{
    struct engine *engine = owner;
    counts_work(engine->counts);
    loop_set(engine->config.loop, &engine->counts_tick,
             loop_now_ms(engine->config.loop) + COUNTS_TICK_MS, counts_due, engine);
}

/* Without a folder for them, rows are measured each time: that costs time, and is said. */
static void open_counts(struct engine *engine)
{
    const struct lk_runtime *runtime = &engine->config.config->runtime;
    struct counts_config config = {.dir = runtime->counts_dir,
                                   .disk_bytes = runtime->counts_bytes,
                                   .memory_bytes = runtime->counts_memory,
                                   .write = engine->config.write_counts,
                                   .log = engine->config.log};
    struct lk_err err;
    if (counts_open(&config, &engine->counts, &err) != LK_OK) {
        log_event(engine->config.log, LOG_LEVEL_WARN, "counts", "none_kept", "reason", err.text, NULL);
        return;
    }
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        struct served *served = &engine->stream[s];
        const struct lk_recipe *recipe = served->stream.recipe;
        served->counts = lk_zalloc(recipe->n_datasets, sizeof(struct counts_set *));
        for (uint32_t d = 0; d < recipe->n_datasets; d++)
            served->counts[d] = counts_set(engine->counts, served->stream.ops[d],
                                           &served->stream.index[d], recipe->dataset[d].name);
    }
    counts_due(engine);
}

static void make_context(struct engine *engine, struct served *served)
{
    const struct lk_runtime *runtime = &engine->config.config->runtime;
    drop_log_init(&served->drops, &served->stream, engine->config.log);
    served->context = (struct cursor_context){
        .stream = &served->stream,
        .pool = engine->pool,
        .arena = engine->arena,
        .slots = served->slots,
        .snapshots = engine->snapshots,
        .counts = served->counts,
        .snapshot_every = runtime->snapshot_every,
        .prefetch_steps = runtime->prefetch_steps,
        .log = engine->config.log,
        .drops = &served->drops,
        .progress = progress,
        .owner = engine,
        .orphans = &served->orphans,
    };
}

/* A quarter of what the process may have open, as each service's connections (rpc/sockets.h). */
static uint32_t handover_clients(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < HANDOVER_CLIENTS_MAX)
        return limit.rlim_cur < 32 ? 8 : (uint32_t)(limit.rlim_cur / 4);
    return HANDOVER_CLIENTS_MAX;
}

static enum lk_code open_service(struct engine *engine, struct lk_err *err)
{
    const struct lk_runtime *runtime = &engine->config.config->runtime;
    int *region = lk_zalloc(engine->n_streams, sizeof *region);
    uint64_t *bytes = lk_zalloc(engine->n_streams, sizeof *bytes);
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        region[s] = slots_fd(engine->stream[s].slots);
        bytes[s] = slots_bytes(engine->stream[s].slots);
    }
    struct handover_config handover = {.path = runtime->fd_socket,
                                       .socket_mode = 0600,
                                       .regions = region,
                                       .region_bytes = bytes,
                                       .n_regions = engine->n_streams,
                                       .clients_max = handover_clients(),
                                       .ops = &client_ops,
                                       .owner = engine};
    struct rpc_config rpc = {.listen = (const char *const *)runtime->listen,
                             .n_listen = runtime->n_listen,
                             .message_max = runtime->message_max,
                             .calls_max = runtime->waiting_max,
                             .waiting_bytes_max = runtime->message_max +
                                                  (size_t)runtime->waiting_max * CALL_BYTES,
                             .deadline_max_ms = runtime->deadline_max_ms,
                             .socket_mode = 0600};
    enum lk_code code = handover_open(&handover, &engine->handover, err);
    if (code == LK_OK)
        code = rpc_server_open(&rpc, &engine->rpc, err);
    free(region);
    free(bytes);
    LK_TRY(code);
    loop_watch(engine->config.loop, handover_fd(engine->handover), handover_ready, engine);
    loop_watch(engine->config.loop, rpc_server_fd(engine->rpc), rpc_ready, engine);
    return LK_OK;
}

enum lk_code engine_open(const struct engine_config *config, struct engine **ret_engine,
                         struct lk_err *err)
{
    const struct lk_runtime *runtime = &config->config->runtime;
    struct engine *engine = lk_zalloc(1, sizeof *engine);
    enum lk_code code = LK_OK;

    engine->config = *config;
    engine->last = &engine->waiting;
    engine->n_streams = config->config->n_streams;
    engine->stream = lk_zalloc(engine->n_streams, sizeof *engine->stream);
    engine->moved_ms = loop_now_ms(config->loop);
    for (uint32_t s = 0; s < engine->n_streams && code == LK_OK; s++)
        code = open_stream(engine, s, err);
    engine->arena = arena_new(runtime->arena_bytes > 2 * engine->batch_bytes
                                  ? runtime->arena_bytes - engine->batch_bytes
                                  : runtime->arena_bytes / 2);
    if (code == LK_OK && runtime->snapshot_every > 0)
        code = snapshots_open(runtime->snapshot_dir, runtime->snapshot_keep, config->log,
                              &engine->snapshots, err);
    if (code == LK_OK && runtime->counts_bytes > 0)
        open_counts(engine);
    if (code == LK_OK)
        code = open_pool(engine, err);
    if (code == LK_OK)
        code = open_service(engine, err);
    if (code != LK_OK) {
        engine_close(engine);
        return code;
    }
    for (uint32_t s = 0; s < engine->n_streams; s++)
        make_context(engine, &engine->stream[s]);
    loop_idle(config->loop, turn, engine);
    *ret_engine = engine;
    return LK_OK;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL)
        return;
    uint32_t cursors = engine->config.config->runtime.cursors_max;
    loop_idle(engine->config.loop, NULL, NULL);
    loop_clear(engine->config.loop, &engine->deadline);
    loop_clear(engine->config.loop, &engine->counts_tick);
    loop_clear(engine->config.loop, &engine->again);
    loop_clear(engine->config.loop, &engine->drops);
    requests_close(engine);
    if (engine->counts != NULL) {
        counts_flush(engine->counts); /* what it comes upon now, nobody would next time */
        heed_all_doubts(engine);
    }
    if (engine->rpc != NULL)
        loop_unwatch(engine->config.loop, rpc_server_fd(engine->rpc));
    rpc_server_close(engine->rpc);
    if (engine->handover != NULL)
        loop_unwatch(engine->config.loop, handover_fd(engine->handover));
    handover_close(engine->handover);
    for (uint32_t s = 0; s < engine->n_streams; s++)
        for (uint32_t i = 0; engine->stream[s].cursor != NULL && i < cursors; i++)
            cursor_free(engine->stream[s].cursor[i].cursor);
    pool_close(engine->pool);
    tell_dropped(engine);
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        cursor_free_orphans(&engine->stream[s].orphans);
        drop_log_done(&engine->stream[s].drops);
    }
    free(engine->pool_stream);
    snapshots_close(engine->snapshots);
    counts_close(engine->counts);
    arena_free(engine->arena);
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        slots_close(engine->stream[s].slots);
        stream_done(&engine->stream[s].stream);
        free(engine->stream[s].cursor);
        free(engine->stream[s].counts);
    }
    free(engine->stream);
    free(engine->client);
    free(engine);
}

const char *engine_address(const struct engine *engine, uint32_t i)
{
    return i < engine->config.config->runtime.n_listen ? rpc_server_address(engine->rpc, i) : NULL;
}
