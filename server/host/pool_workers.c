/*
 * The workers' protocol, the daemon's side. A worker's request for a task is kept until there is one,
 * or until a few seconds have passed: the empty answer tells each side that the other is there.
 */
#include "host/pool_private.h"

#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "proto/unpack.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_WITHIN_MS 10000 /* requests are answered, if only with nothing */
#define SILENT_MS 60000        /* a remote worker that neither asks nor works is gone */
#define HELLO_WITHIN_MS 60000  /* of a local worker's start */
#define DOUBLINGS_MAX 6        /* of our patience with a slow task */
#define DECODED_A_MS (64u << 10) /* bytes, at least: read from afar and decompressed */
#define DECODE_MS_MAX INT32_MAX
#define HELLO_BYTES_MAX 8192   /* it is read before we know who sent it */
#define REFUSAL_EVERY_MS 1000 /* a line of the log */
#define EVENTS_A_TURN 64       /* then the loop looks after its others; it comes back at once */

static struct worker *by_peer(const struct pool *pool, uint32_t peer)
{
    for (uint32_t i = 0; i < pool->n_workers; i++)
        if (pool->worker[i]->ready && !pool->worker[i]->local && pool->worker[i]->peer == peer)
            return pool->worker[i];
    return NULL;
}

/* @worker may be NULL for a remote one that is not known. */
static void answer(struct worker *worker, const struct ask *ask, const ProtobufCMessage *message,
                   const void *payload, size_t payload_bytes)
{
    struct rpc_slice slice = {.data = payload, .bytes = payload_bytes};
    if (ask->call == NULL)
        local_answer(worker, ask, LK_OK, message, payload, payload_bytes);
    else
        rpc_reply(ask->call, message, &slice, payload_bytes > 0 ? 1 : 0);
}

static void refuse(struct worker *worker, const struct ask *ask, enum lk_code code, const char *why)
{
    Lk__Error error = LK__ERROR__INIT;
    error.detail = (char *)why;
    if (ask->call == NULL)
        local_answer(worker, ask, code, &error.base, NULL, 0);
    else
        rpc_fail(ask->call, code, why, "");
}

/* The request that has waited longest. */
static struct ask take_waiting(struct worker *worker)
{
    struct ask ask = worker->waiting[0];
    worker->waiting[0] = worker->waiting[1];
    worker->n_waiting--;
    return ask;
}

struct worker *worker_new(struct pool *pool, bool local)
{
    struct worker *worker = lk_zalloc(1, sizeof *worker);
    worker->pool = pool;
    worker->local = local;
    worker->pidfd = -1;
    worker->pipe.fd = worker->board.fd = -1;
    if (pool->n_workers == pool->cap_workers) {
        pool->cap_workers = pool->cap_workers == 0 ? 8 : pool->cap_workers * 2;
        pool->worker = lk_resize(pool->worker, pool->cap_workers, sizeof(struct worker *));
    }
    pool->worker[pool->n_workers++] = worker;
    return worker;
}

void worker_free(struct worker *worker)
{
    struct pool *pool = worker->pool;
    uint32_t i = 0;
    while (pool->worker[i] != worker)
        i++;
    memmove(&pool->worker[i], &pool->worker[i + 1],
            (pool->n_workers - i - 1) * sizeof(struct worker *));
    pool->n_workers--;
    loop_clear(pool->loop, &worker->respawn);
    local_close(worker);
    free(worker->host);
    free(worker);
}

void workers_forget_part(struct pool *pool, const struct part *part)
{
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        struct worker *w = pool->worker[i];
        for (uint32_t r = 0; r < w->n_running; r++)
            if (w->running[r].part == part)
                w->running[r].part = NULL;
    }
}

void worker_drop_calls(struct worker *worker, enum lk_code say)
{
    while (worker->n_waiting > 0) {
        const struct ask *ask = &worker->waiting[--worker->n_waiting];
        if (say != LK_OK)
            refuse(worker, ask, say, say == LK_UNAVAILABLE ? "the daemon ends" : "say hello again");
        else if (ask->call != NULL)
            rpc_drop(ask->call);
    }
}

/* The task that runs is most likely the first. What comes of it may free other parts of its job, which
 * then vanish from worker->running: so they are taken one by one. */
void worker_lost(struct worker *worker, enum blame blame, const char *how)
{
    bool lone = worker->n_running == 1;
    worker->ready = false;
    /* a local one is dead, or will be at once */
    worker_drop_calls(worker, worker->local ? LK_OK : LK_FAILED_PRECONDITION);
    for (uint32_t i = 0; i < worker->n_running; i++)
        if (worker->running[i].part != NULL)
            worker->running[i].part->copies--;
    while (worker->n_running > 0) {
        struct part *part = worker->running[0].part;
        worker->running[0] = worker->running[1];
        worker->n_running--;
        if (part != NULL)
            part_returned(worker->pool, part, blame, lone, how);
        blame = BLAME_NONE;
    }
    pool_pump_soon(worker->pool);
}

/* --- hello --- */

/* Takes the same time wherever the two differ. */
static bool same_token(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned different = n != m;
    for (size_t i = 0; i < n && i < m; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0 && n > 0;
}

static void answer_hello(struct worker *worker, const struct said *said)
{
    struct pool *pool = worker->pool;
    worker->number = ++pool->numbers;
    worker->ready = true;
    worker->heard_ms = loop_now_ms(pool->loop);
    pool->hello->worker = worker->number;
    answer(worker, &said->ask, &pool->hello->base, NULL, 0);
}

/* Why it is refused, or LK_OK. A local one is known by its connection, any other by its token. */
static enum lk_code check_hello(const struct pool *pool, const struct worker *worker,
                                const Lk__WorkerHelloRequest *hello, const char **ret_why)
{
    *ret_why = "a malformed hello";
    if (hello == NULL)
        return LK_INVALID_ARGUMENT;
    *ret_why = "another version of the workers' protocol";
    if (hello->protocol != LK_WORK_PROTOCOL)
        return LK_FAILED_PRECONDITION;
    *ret_why = "a second hello on one connection";
    if (worker != NULL && worker->ready)
        return LK_FAILED_PRECONDITION;
    *ret_why = "this is not a worker's token";
    if (worker == NULL && (pool->remote_token == NULL || !same_token(pool->remote_token, hello->token)))
        return LK_UNAUTHENTICATED;
    return LK_OK;
}

/* Whoever may connect may say hello again and again: that must not fill the log. */
static void log_refused(struct pool *pool, const Lk__WorkerHelloRequest *hello, const char *why)
{
    pool->refused.seen++;
    if (log_limit_more(&pool->refused, REFUSAL_EVERY_MS, loop_now_ms(pool->loop)) == 0)
        return;
    pool_log(pool, POOL_WARNING, "worker_refused", "a hello from %.255s, process %llu: %s; %llu refused so far",
             hello == NULL ? "?" : hello->host, hello == NULL ? 0ull : (unsigned long long)hello->pid, why,
             (unsigned long long)pool->refused.seen);
}

static void on_hello(struct pool *pool, struct worker *worker, const struct said *said)
{
    Lk__WorkerHelloRequest *hello = NULL;
    const char *why;
    if (said->header_bytes <= HELLO_BYTES_MAX)
        hello = lk_unpack(&lk__worker_hello_request__descriptor, said->header, said->header_bytes);
    enum lk_code code = check_hello(pool, worker, hello, &why);
    if (code != LK_OK) {
        refuse(worker, &said->ask, code, why);
        log_refused(pool, hello, why);
    } else {
        LK_CHECK(hello != NULL);
        if (worker == NULL) {
            worker = worker_new(pool, false);
            worker->peer = said->ask.call->peer;
            rpc_server_trust(pool->server, worker->peer); /* before it is answered, and sends results */
        }
        free(worker->host);
        worker->host = lk_strdup(hello->host);
        answer_hello(worker, said);
        pool_log(pool, POOL_INFO, "worker_ready", "%s worker %llu, process %llu on %s",
                 worker->local ? "local" : "remote", (unsigned long long)worker->number,
                 (unsigned long long)hello->pid, hello->host);
    }
    if (hello != NULL)
        lk__worker_hello_request__free_unpacked(hello, NULL);
}

/* --- tasks out --- */

static bool has_part(const struct worker *worker, const struct part *part)
{
    for (uint32_t i = 0; i < worker->n_running; i++)
        if (worker->running[i].part == part ||
            (worker->running[i].part != NULL && worker->running[i].part->suspect))
            return true;
    return false;
}

/* A suspect goes to an idle worker, and to a local one if there is any, whose death we can see. */
static bool may_have(const struct worker *worker, const struct part *part)
{
    if (worker->n_waiting == 0 || worker->n_running == POOL_SLOTS || has_part(worker, part))
        return false;
    if (!part->suspect)
        return true;
    return worker->n_running == 0 && (worker->local || worker->pool->config.workers == 0);
}

static struct worker *pick(const struct pool *pool, const struct part *part)
{
    struct worker *best = NULL;
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        struct worker *w = pool->worker[i];
        if (may_have(w, part) && (best == NULL || w->n_running < best->n_running))
            best = w;
    }
    return best;
}

/* Of a task on its way out: where its rows lie, and the runs of them that lie in one shard. */
struct layout {
    uint8_t *rows;        /* [n * LK_WORK_ROW_BYTES] */
    Lk__WorkerShard *run; /* [n_runs] */
    Lk__WorkerShard **runs;
    uint32_t n_runs, cap_runs;
    uint64_t decode_ms;   /* of all runs: its worker may have room for the shard of one only */
};

static void add_run(struct layout *layout, const struct lk_index_shard *shard)
{
    LK_CHECK(layout->n_runs < LK_WORK_SHARDS_MAX);
    if (layout->n_runs == layout->cap_runs) {
        layout->cap_runs = layout->cap_runs == 0 ? 16 : 2 * layout->cap_runs;
        layout->run = lk_resize(layout->run, layout->cap_runs, sizeof *layout->run);
    }
    Lk__WorkerShard *run = &layout->run[layout->n_runs++];
    lk__worker_shard__init(run);
    run->name = (char *)shard->name;
    run->codec = (uint32_t)shard->codec;
    run->data_bytes = shard->data_bytes;
    if (shard->codec != LK_CODEC_PLAIN)
        layout->decode_ms += shard->data_bytes / DECODED_A_MS;
}

static void lay_out(const struct part *part, struct layout *ret)
{
    const struct lk_index *index = part_index(part);
    const struct lk_index_shard *shard = NULL;
    *ret = (struct layout){.rows = lk_alloc((size_t)part->n * LK_WORK_ROW_BYTES)};
    for (uint32_t i = 0; i < part->n; i++) {
        uint64_t number = part_rows(part)[i];
        bool same = shard != NULL && number - shard->first_row < shard->rows; /* a lower number wraps */
        struct lk_row_place place = same ? lk_index_place_in(index, (uint32_t)(shard - index->shard), number)
                                         : lk_index_place(index, number);
        if (!same) {
            shard = &index->shard[place.shard];
            add_run(ret, shard);
        }
        ret->run[ret->n_runs - 1].rows++;
        struct lk_work_row row = {place.row_in_shard, place.offset, place.bytes, place.hash};
        lk_work_row_put(&row, ret->rows + (size_t)i * LK_WORK_ROW_BYTES);
    }
    ret->runs = lk_alloc(ret->n_runs * sizeof(Lk__WorkerShard *));
    for (uint32_t k = 0; k < ret->n_runs; k++)
        ret->runs[k] = &ret->run[k];
}

static void give(struct worker *worker, struct part *part)
{
    struct pool *pool = worker->pool;
    struct layout layout;
    Lk__WorkerTaskReply reply = LK__WORKER_TASK_REPLY__INIT;
    lay_out(part, &layout);
    reply.task = ++pool->assignments;
    reply.stream = part->job->task.stream;
    reply.dataset = part->job->task.dataset;
    reply.shards = layout.runs;
    reply.n_shards = layout.n_runs;
    struct ask ask = take_waiting(worker);
    worker->running[worker->n_running++] = (struct run){
        .assignment = reply.task,
        .part = part,
        .since_ms = loop_now_ms(pool->loop),
        .decode_ms = layout.decode_ms < DECODE_MS_MAX ? (int64_t)layout.decode_ms : DECODE_MS_MAX};
    part->copies++;
    pool->stats.tasks++;
    answer(worker, &ask, &reply.base, layout.rows, (size_t)part->n * LK_WORK_ROW_BYTES);
    free(layout.rows);
    free(layout.run);
    free(layout.runs);
}

/* Strictly in the queue's order: what the first part cannot have, the others wait for, so that a
 * suspect, which needs a worker of its own, is not passed by for ever. */
void workers_dispatch(struct pool *pool)
{
    while (pool->n_queue > 0) {
        struct part *part = pool->queue[1];
        struct worker *worker = pick(pool, part);
        if (worker == NULL)
            return;
        queue_remove(pool, part);
        give(worker, part);
    }
}

/* --- results in --- */

/* Where a result's payload lies; false: on no board. */
static bool find_payload(const struct worker *worker, const Lk__WorkerTaskRequest *request,
                         const struct said *said, const uint8_t **ret_payload, size_t *ret_bytes,
                         struct lk_err *err)
{
    *ret_payload = said->payload;
    *ret_bytes = said->payload_bytes;
    if (!worker->local)
        return true;
    if (request->part >= LK_BOARD_PARTS || request->part_bytes > worker->board.part_bytes)
        return lk_fail(err, LK_DATA_LOSS, "%llu bytes in part %u of its board",
                       (unsigned long long)request->part_bytes, request->part), false;
    *ret_payload = lk_board_part(&worker->board, request->part);
    *ret_bytes = (size_t)request->part_bytes;
    return true;
}

/* The run of that number is over: its part, which may be NULL; false: there is no such run. */
static bool end_run(struct worker *worker, uint64_t assignment, struct part **ret_part)
{
    uint32_t i = 0;
    while (i < worker->n_running && worker->running[i].assignment != assignment)
        i++;
    if (i == worker->n_running)
        return false;
    *ret_part = worker->running[i].part;
    memmove(&worker->running[i], &worker->running[i + 1],
            (worker->n_running - i - 1) * sizeof *worker->running);
    worker->n_running--;
    if (worker->n_running > 0)
        worker->running[0].since_ms = loop_now_ms(worker->pool->loop);
    return true;
}

static void take_result(struct worker *worker, const Lk__WorkerTaskRequest *request,
                        const struct said *said)
{
    struct pool *pool = worker->pool;
    struct lk_err err = {.code = LK_OK, .text = ""};
    struct part *part = NULL;
    const uint8_t *payload;
    size_t bytes;
    if (!end_run(worker, request->task, &part) || part == NULL)
        return;
    bool lone = worker->n_running == 0;
    part->copies--;
    if (find_payload(worker, request, said, &payload, &bytes, &err) &&
        part_result(pool, part, request, payload, bytes, &err)) {
        worker->fails = 0;
        pool->unfit->len = 0;
        return;
    }
    pool_log(pool, POOL_ERROR, "bad_result", "worker %llu on %s: %s",
             (unsigned long long)worker->number, worker->host, err.text);
    part_returned(pool, part, worker->local ? BLAME_PART : BLAME_OTHER, lone,
                  "sent a result that contradicts itself");
    if (worker->local)
        proc_kill(worker, true);
    worker_lost(worker, BLAME_NONE, "");
}

/* It has read its hello and cannot serve what that asks for: another tokenizer, for instance. */
static void on_unfit(struct worker *worker, const Lk__WorkerTaskRequest *request)
{
    struct pool *pool = worker->pool;
    pool->unfit->len = 0;
    lk_buf_putf(pool->unfit, "%.512s", request->detail);
    pool_log(pool, POOL_ERROR, "worker_unfit", "worker %llu on %s: %s",
             (unsigned long long)worker->number, worker->host, lk_buf_cstr(pool->unfit));
    worker->ready = false;
}

/* Has a call of that number come before? A task that answers the second copy of a request would reach nobody. */
static bool repeats(struct worker *worker, uint64_t number)
{
    if (number >= worker->calls_end) {
        uint64_t more = number - worker->calls_end + 1;
        worker->calls_seen = (more < 64 ? worker->calls_seen << more : 0) | 1;
        worker->calls_end = number + 1;
        return false;
    }
    uint64_t age = worker->calls_end - 1 - number, bit = age < 64 ? 1ull << age : 0;
    bool seen = bit == 0 || (worker->calls_seen & bit) != 0;
    worker->calls_seen |= bit;
    return seen;
}

/* Nothing is read of a request before we know that it comes from a worker. */
static void on_task(struct pool *pool, struct worker *worker, const struct said *said)
{
    if (worker == NULL) {
        refuse(NULL, &said->ask, LK_FAILED_PRECONDITION, "say hello again");
        return;
    }
    if (said->ask.call != NULL && repeats(worker, said->ask.call->number)) {
        rpc_drop(said->ask.call);
        return;
    }
    Lk__WorkerTaskRequest *request =
        lk_unpack(&lk__worker_task_request__descriptor, said->header, said->header_bytes);
    worker->heard_ms = loop_now_ms(pool->loop);
    bool its_own = request != NULL && request->worker == worker->number;
    if (its_own && request->task != 0)
        take_result(worker, request, said);
    else if (its_own && request->status != 0)
        on_unfit(worker, request);
    if (request == NULL)
        refuse(worker, &said->ask, LK_INVALID_ARGUMENT, "a malformed request for a task");
    else if (!worker->ready || request->worker != worker->number)
        refuse(worker, &said->ask, LK_FAILED_PRECONDITION, "say hello again");
    else if (worker->n_waiting == POOL_SLOTS)
        refuse(worker, &said->ask, LK_RESOURCE_EXHAUSTED, "too many requests for tasks");
    else
        worker->waiting[worker->n_waiting++] = said->ask;
    if (request != NULL)
        lk__worker_task_request__free_unpacked(request, NULL);
    workers_dispatch(pool);
}

void worker_said(struct pool *pool, struct worker *worker, const struct said *said)
{
    if (said->ask.method == LK_METHOD_WORKER_HELLO)
        on_hello(pool, worker, said);
    else if (said->ask.method == LK_METHOD_WORKER_TASK)
        on_task(pool, worker, said);
    else
        refuse(worker, &said->ask, LK_UNIMPLEMENTED, "workers only");
}

/* --- events --- */

static void on_gone(struct pool *pool, uint32_t peer)
{
    struct worker *worker = by_peer(pool, peer);
    if (worker == NULL)
        return;
    worker_drop_calls(worker, LK_OK);
    pool_log(pool, POOL_WARNING, "worker_lost", "remote worker %llu on %s",
             (unsigned long long)worker->number, worker->host);
    pool->stats.deaths++;
    worker_lost(worker, BLAME_OTHER, "was lost");
    worker_free(worker);
}

static void on_call(struct pool *pool, struct rpc_call *call)
{
    struct said said = {.ask = {.call = call,
                                .method = call->method,
                                .received_ms = call->received_ms},
                        .header = call->header,
                        .header_bytes = call->header_bytes,
                        .payload = call->payload,
                        .payload_bytes = call->payload_bytes};
    worker_said(pool, by_peer(pool, call->peer), &said);
}

void workers_ready(void *owner)
{
    struct pool *pool = owner;
    struct rpc_event event;
    for (uint32_t n = 0; n < EVENTS_A_TURN && rpc_server_next(pool->server, &event); n++) {
        if (event.kind == RPC_EVENT_PEER_GONE)
            on_gone(pool, event.peer);
        else
            on_call(pool, event.call);
    }
}

/* --- time --- */

static int64_t patience_ms(const struct pool *pool, const struct run *run)
{
    uint32_t timeouts = run->part != NULL ? run->part->timeouts : 0;
    uint32_t doublings = timeouts < DOUBLINGS_MAX ? timeouts : DOUBLINGS_MAX;
    return ((int64_t)pool->config.task_timeout_ms << doublings) + run->decode_ms;
}

/* Slow is not dead: others get the tasks too, and the first answer counts. One that is far too slow
 * may be stuck, so a local one is replaced; its tasks are not to blame, and get more time. A task that
 * nobody waits for any more may still be what the others wait behind. */
static void look_at(struct worker *worker, int64_t now)
{
    struct pool *pool = worker->pool;
    if (worker->n_running == 0 || !worker->ready)
        return;
    struct part *head = worker->running[0].part;
    int64_t age = now - worker->running[0].since_ms;
    int64_t patience = patience_ms(pool, &worker->running[0]);
    if (age <= patience)
        return;
    for (uint32_t i = 0; i < worker->n_running; i++) {
        struct part *part = worker->running[i].part;
        if (part == NULL || part->copies != 1 || part->place != 0)
            continue;
        pool_log(pool, POOL_WARNING, "task_slow", "given to another worker too: %s%s, after %lld ms",
                 part_shard(part), part_others(part), (long long)age);
        pool->stats.retried++;
        queue_part(pool, part);
    }
    if (age <= 4 * patience)
        return;
    if (head != NULL)
        head->timeouts++;
    pool_log(pool, POOL_WARNING, "worker_stuck", "worker %llu on %s: one task for %lld ms",
             (unsigned long long)worker->number, worker->host, (long long)age);
    if (worker->local)
        proc_kill(worker, true);
    worker_lost(worker, BLAME_NONE, "was stuck");
}

static void answer_waiting(struct worker *worker, int64_t now)
{
    Lk__WorkerTaskReply nothing = LK__WORKER_TASK_REPLY__INIT;
    while (worker->n_waiting > 0 && now - worker->waiting[0].received_ms > ANSWER_WITHIN_MS) {
        struct ask ask = take_waiting(worker);
        answer(worker, &ask, &nothing.base, NULL, 0);
    }
}

static void check_silence(struct worker *worker, int64_t now)
{
    if (worker->local) {
        if (worker->pid != 0 && !worker->ready && now - worker->started_ms > HELLO_WITHIN_MS)
            proc_kill(worker, true);
    } else if (!worker->ready || (worker->n_running + worker->n_waiting == 0 &&
                                  now - worker->heard_ms > SILENT_MS)) {
        worker_lost(worker, BLAME_NONE, "was silent");
        worker_free(worker);
    }
}

void workers_tick(struct pool *pool)
{
    int64_t now = loop_now_ms(pool->loop);
    for (uint32_t i = pool->n_workers; i-- > 0;) {
        look_at(pool->worker[i], now);
        answer_waiting(pool->worker[i], now);
        check_silence(pool->worker[i], now);
    }
    workers_dispatch(pool);
}
