/*
 * Requests that wait for rows of a step: GetBatch, Trace and Digest. Each is given a cursor (places.c), and
 * is answered when its rows are ready, when the stream ends before them, when something fails, or when its
 * deadline comes, with the cause.
 */
#include "host/engine_private.h"
#include "proto/state.h"
#include "proto/unpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_MS 60000    /* between warnings of one kind */
#define EVENTS_A_TURN 64 /* then everybody else has a turn: a busy caller must not hold up the loop */

/* Answering ----------------------------------------------------------------------------------- */

static double seconds_since(const struct engine *engine, int64_t received_ms)
{
    return (double)(loop_now_ms(engine->config.loop) - received_ms) / 1000.0;
}

static void count_latency(struct engine *engine, const struct rpc_call *call)
{
    double seconds = seconds_since(engine, call->received_ms), limit = 0.001;
    uint32_t bucket = 0;
    while (bucket < LATENCY_BUCKETS - 1 && seconds > limit) {
        limit *= 3;
        bucket++;
    }
    engine->latency[bucket]++;
    engine->latency_sum += seconds;
    engine->latency_n++;
}

static void answer_ended(struct engine *engine, const struct request *request)
{
    struct served *served = &engine->stream[request->stream];
    uint64_t steps = cursor_steps(request->at->cursor);
    char detail[256];
    served->ended++;
    const struct lk_recipe *recipe = served->stream.recipe;
    if (steps == 0)
        (void)snprintf(detail, sizeof detail,
                       "stream %s is smaller than one global batch: no step of %u sequences of %u tokens, from %u lanes, can "
                       "be filled (tail: pad would fill it up)",
                       recipe->name, steps_size(recipe, 0), recipe->sequence, recipe->lanes);
    else
        (void)snprintf(detail, sizeof detail, "stream %s ends after %" PRIu64 " steps, before step %" PRIu64,
                       recipe->name, steps, request->step);
    rpc_fail(request->call, steps == 0 ? LK_FAILED_PRECONDITION : LK_OUT_OF_RANGE, detail, "");
}

static struct steps_cut whole(const struct served *served, uint64_t step)
{
    return steps_cut(steps_size(served->stream.recipe, step), 0, 1);
}

/* Adds the digest of a ready step; true when the call has all of its steps and was answered. */
static bool digest_step(struct engine *engine, struct request *request, uint32_t slot)
{
    struct served *served = &engine->stream[request->stream];
    struct lk_digest digest = reply_cut_digest(served, slot, request->cut);
    lk_digest_put(digest, lk_buf_room(&request->digests, 16));
    request->digests.len += 16;
    if (++request->step < request->to) {
        request->cut = whole(served, request->step);
        cursor_ask(request->at->cursor, request->step, request->cut);
        return false;
    }
    size_t n = request->digests.len / 16;
    ProtobufCBinaryData *steps = lk_zalloc(n, sizeof *steps);
    for (size_t i = 0; i < n; i++)
        steps[i] = (ProtobufCBinaryData){.data = request->digests.data + 16 * i, .len = 16};
    Lk__DigestReply reply = LK__DIGEST_REPLY__INIT;
    reply.n_steps = n;
    reply.steps = steps;
    rpc_reply(request->call, &reply.base, NULL, 0);
    free(steps);
    return true;
}

static bool answer_ready(struct engine *engine, struct request *request, uint32_t slot)
{
    switch (request->call->method) {
    case LK_METHOD_DIGEST:
        return digest_step(engine, request, slot);
    case LK_METHOD_TRACE:
        reply_trace(engine, request, slot);
        return true;
    default:
        count_latency(engine, request->call);
        engine->stream[request->stream].batches++;
        reply_batch(engine, request, slot);
        return true;
    }
}

/* True when the request has been answered and is to be forgotten. */
static bool serve(struct engine *engine, struct request *request)
{
    for (;;) {
        if (request->at == NULL)
            places_find(engine, request);
        if (request->at == NULL)
            return false;
        uint32_t slot;
        const struct lk_err *err;
        switch (cursor_look(request->at->cursor, request->step, request->cut, &slot)) {
        case CURSOR_WAITING:
            return false;
        case CURSOR_PAST:
            request->at = NULL;
            continue;
        case CURSOR_READY:
            places_answered(engine, request);
            if (answer_ready(engine, request, slot))
                return true;
            continue; /* a Digest goes on with its next step */
        case CURSOR_ENDED:
            answer_ended(engine, request);
            return true;
        case CURSOR_FAILED:
            err = cursor_error(request->at->cursor);
            rpc_fail(request->call, err->code, err->text, "");
            return true;
        }
    }
}

static void request_free(struct request *request)
{
    lk_buf_done(&request->digests);
    free(request);
}

static struct request *request_unlink(struct engine *engine, struct request **link)
{
    struct request *request = *link;
    *link = request->next;
    if (*link == NULL)
        engine->last = link;
    return request;
}

static void answer_late(struct engine *engine, struct request *request)
{
    struct lk_buf cause = {0};
    places_late(engine, request, &cause);
    engine->timed_out++;
    rpc_fail(request->call, LK_DEADLINE_EXCEEDED, "the deadline came before the rows were ready",
             lk_buf_cstr(&cause));
    lk_buf_done(&cause);
}

static void deadline_due(void *owner)
{
    (void)owner; /* the turn that follows looks at all deadlines */
}

uint32_t requests_serve(struct engine *engine)
{
    int64_t now = loop_now_ms(engine->config.loop), next = INT64_MAX;
    uint32_t answered = 0;
    for (uint32_t i = 0; i < engine->n_streams && engine->waiting != NULL; i++)
        places_turn(engine, i);
    struct request **link = &engine->waiting;
    while (*link != NULL) {
        struct request *request = *link;
        const struct served_cursor *at = request->at;
        uint64_t step = request->step;
        int64_t deadline = request->call->deadline_ms; /* an answered call is gone */
        bool done = serve(engine, request);
        /* It now waits for what no cursor has been told to make, and no event need ever come: a Digest
         * went on to its next step, or the step has to be made again. So the next turn is now. */
        if (!done && (request->at != at || request->step != step))
            next = now;
        if (!done && deadline != 0 && deadline <= now) {
            answer_late(engine, request);
            done = true;
        }
        if (done) {
            request_free(request_unlink(engine, link));
            answered++;
            continue;
        }
        if (deadline != 0 && deadline < next)
            next = deadline;
        if (request->at == NULL && now + PLACES_LOOK_MS < next)
            next = now + PLACES_LOOK_MS; /* by then somebody's turn may be over */
        link = &request->next;
    }
    loop_clear(engine->config.loop, &engine->deadline);
    if (next != INT64_MAX)
        loop_set(engine->config.loop, &engine->deadline, next, deadline_due, engine);
    return answered;
}

void requests_close(struct engine *engine)
{
    while (engine->waiting != NULL) {
        struct request *request = request_unlink(engine, &engine->waiting);
        rpc_fail(request->call, LK_UNAVAILABLE, "the daemon is stopping", "");
        request_free(request);
    }
}

int64_t requests_oldest_ms(const struct engine *engine)
{
    int64_t oldest = INT64_MAX;
    for (const struct request *request = engine->waiting; request != NULL; request = request->next)
        if (request->call->received_ms < oldest)
            oldest = request->call->received_ms;
    return oldest == INT64_MAX ? 0 : loop_now_ms(engine->config.loop) - oldest;
}

/* Receiving ----------------------------------------------------------------------------------- */

static void bad(struct engine *engine, struct rpc_call *call, enum lk_code code, const char *detail)
{
    engine->refused++;
    rpc_fail(call, code, detail, "");
}

static bool find_stream(struct engine *engine, struct rpc_call *call, const char *name,
                        uint32_t *ret_stream)
{
    char detail[256];
    if (name[0] == '\0' && engine->n_streams == 1) {
        *ret_stream = 0;
        return true;
    }
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        if (strcmp(engine->stream[s].stream.recipe->name, name) == 0) {
            *ret_stream = s;
            return true;
        }
    }
    (void)snprintf(detail, sizeof detail, "no stream \"%.64s\" here; there %s %u, the first is \"%s\"", name,
             engine->n_streams == 1 ? "is" : "are", engine->n_streams,
             engine->stream[0].stream.recipe->name);
    bad(engine, call, LK_NOT_FOUND, detail);
    return false;
}

static bool same_stream(struct engine *engine, struct rpc_call *call, const struct served *served,
                        const ProtobufCBinaryData *digest)
{
    char detail[256], asked[LK_DIGEST_HEX], ours[LK_DIGEST_HEX];
    if (digest->len == 0)
        return true;
    if (digest->len != 16) {
        bad(engine, call, LK_INVALID_ARGUMENT, "stream_digest: expected 16 bytes or none");
        return false;
    }
    if (lk_digest_equal(lk_digest_get(digest->data), served->stream.digest))
        return true;
    lk_digest_hex(lk_digest_get(digest->data), asked);
    lk_digest_hex(served->stream.digest, ours);
    (void)snprintf(detail, sizeof detail,
             "another stream: the request is for digest %s, stream %s here has %s "
             "(recipe, data or tokenizer differ)",
             asked, served->stream.recipe->name, ours);
    bad(engine, call, LK_FAILED_PRECONDITION, detail);
    return false;
}

static struct request *wait_for(struct engine *engine, struct rpc_call *call, uint32_t stream,
                                uint64_t step, struct steps_cut cut)
{
    struct request *request = lk_zalloc(1, sizeof *request);
    *request = (struct request){.call = call, .stream = stream, .step = step, .cut = cut};
    *engine->last = request;
    engine->last = &request->next;
    return request;
}

static bool good_step(struct engine *engine, struct rpc_call *call, uint64_t step)
{
    char detail[128];
    if (step < LK_STEP_MAX)
        return true;
    (void)snprintf(detail, sizeof detail, "step %" PRIu64 ": expected less than 2^46", step);
    bad(engine, call, LK_INVALID_ARGUMENT, detail);
    return false;
}

static bool good_training(struct engine *engine, struct rpc_call *call, const Lk__GetBatchRequest *get,
                          struct lk_training_wish *ret_wish)
{
    char detail[192];
    *ret_wish = (struct lk_training_wish){get->training, get->ignore_index};
    if (get->training == 0 || lk_training_wish_good(ret_wish))
        return true;
    (void)snprintf(detail, sizeof detail,
             "training flags %#x with ignore_index %" PRId64 ": no such arrays (proto/training.h)",
             get->training, get->ignore_index);
    bad(engine, call, LK_INVALID_ARGUMENT, detail);
    return false;
}

static void receive_get(struct engine *engine, struct rpc_call *call)
{
    struct lk_training_wish wish;
    Lk__GetBatchRequest *get = lk_unpack(&lk__get_batch_request__descriptor, call->header, call->header_bytes);
    uint32_t s;
    char detail[192];
    if (get == NULL) {
        bad(engine, call, LK_INVALID_ARGUMENT, "GetBatch: the request is no GetBatchRequest");
        return;
    }
    if (find_stream(engine, call, get->stream, &s) && good_step(engine, call, get->step) &&
        same_stream(engine, call, &engine->stream[s], &get->stream_digest) &&
        good_training(engine, call, get, &wish)) {
        uint32_t size = steps_size(engine->stream[s].stream.recipe, get->step);
        if (get->world < 1 || get->world > size || get->rank >= get->world) {
            (void)snprintf(detail, sizeof detail,
                     "rank %u of %u: expected a rank below the world size, and a world size of 1 to "
                     "%u, the sequences of step %" PRIu64,
                     get->rank, get->world, size, get->step);
            bad(engine, call, LK_INVALID_ARGUMENT, detail);
        } else {
            struct request *request =
                wait_for(engine, call, s, get->step, steps_cut(size, get->rank, get->world));
            request->client = get->client_id;
            request->training = wish;
        }
    }
    lk__get_batch_request__free_unpacked(get, NULL);
}

static void receive_trace(struct engine *engine, struct rpc_call *call)
{
    Lk__TraceRequest *trace = lk_unpack(&lk__trace_request__descriptor, call->header, call->header_bytes);
    uint32_t s;
    if (trace == NULL) {
        bad(engine, call, LK_INVALID_ARGUMENT, "Trace: the request is no TraceRequest");
        return;
    }
    if (find_stream(engine, call, trace->stream, &s) && good_step(engine, call, trace->step)) {
        struct steps_cut all = whole(&engine->stream[s], trace->step);
        uint32_t rows = trace->rows == 0 && trace->first_row < all.rows
                            ? all.rows - trace->first_row
                            : trace->rows;
        if (trace->first_row >= all.rows || rows > all.rows - trace->first_row)
            bad(engine, call, LK_INVALID_ARGUMENT, "Trace: rows beyond the step's sequences");
        else
            (void)wait_for(engine, call, s, trace->step,
                           (struct steps_cut){.first = trace->first_row, .rows = rows});
    }
    lk__trace_request__free_unpacked(trace, NULL);
}

static void receive_digest(struct engine *engine, struct rpc_call *call)
{
    Lk__DigestRequest *digest = lk_unpack(&lk__digest_request__descriptor, call->header, call->header_bytes);
    uint32_t s;
    if (digest == NULL) {
        bad(engine, call, LK_INVALID_ARGUMENT, "Digest: the request is no DigestRequest");
        return;
    }
    if (find_stream(engine, call, digest->stream, &s) && good_step(engine, call, digest->to)) {
        if (digest->from >= digest->to || digest->to - digest->from > STEPS_A_DIGEST_CALL) {
            bad(engine, call, LK_INVALID_ARGUMENT, "Digest: expected from < to, 10,000 steps at most");
        } else {
            struct request *request = wait_for(engine, call, s, digest->from,
                                               whole(&engine->stream[s], digest->from));
            request->from = digest->from;
            request->to = digest->to;
        }
    }
    lk__digest_request__free_unpacked(digest, NULL);
}

static void receive_checkpoint(struct engine *engine, struct rpc_call *call)
{
    Lk__CheckpointRequest *ask =
        lk_unpack(&lk__checkpoint_request__descriptor, call->header, call->header_bytes);
    uint32_t s;
    if (ask == NULL) {
        bad(engine, call, LK_INVALID_ARGUMENT, "Checkpoint: the request is no CheckpointRequest");
        return;
    }
    if (find_stream(engine, call, ask->stream, &s) && good_step(engine, call, ask->step)) {
        uint8_t digest[16], state[LK_STATE_BYTES];
        Lk__CheckpointReply reply = LK__CHECKPOINT_REPLY__INIT;
        lk_digest_put(engine->stream[s].stream.digest, digest);
        lk_state_put(ask->step, digest, state);
        reply.state = (ProtobufCBinaryData){.data = state, .len = sizeof state};
        rpc_reply(call, &reply.base, NULL, 0);
    }
    lk__checkpoint_request__free_unpacked(ask, NULL);
}

static void receive_status(struct engine *engine, struct rpc_call *call)
{
    struct lk_buf json = {0};
    Lk__StatusReply reply = LK__STATUS_REPLY__INIT;
    engine_status(engine, &json);
    reply.json = (char *)(uintptr_t)lk_buf_cstr(&json);
    rpc_reply(call, &reply.base, NULL, 0);
    lk_buf_done(&json);
}

static void receive(struct engine *engine, struct rpc_call *call)
{
    switch (call->method) {
    case LK_METHOD_HELLO:
        reply_hello(engine, call);
        break;
    case LK_METHOD_GET_BATCH:
        receive_get(engine, call);
        break;
    case LK_METHOD_TRACE:
        receive_trace(engine, call);
        break;
    case LK_METHOD_DIGEST:
        receive_digest(engine, call);
        break;
    case LK_METHOD_CHECKPOINT:
        receive_checkpoint(engine, call);
        break;
    case LK_METHOD_STATUS:
        receive_status(engine, call);
        break;
    default:
        bad(engine, call, LK_UNIMPLEMENTED, "this service has no such method");
    }
}

static void forget_peer(struct engine *engine, uint32_t peer)
{
    struct request **link = &engine->waiting;
    places_gone(engine, peer);
    while (*link != NULL) {
        if ((*link)->call->peer != peer) {
            link = &(*link)->next;
            continue;
        }
        struct request *request = request_unlink(engine, link);
        rpc_drop(request->call);
        request_free(request);
    }
}

/* There are more of them than may be: each takes the place of another, which dials again. */
static void warn_displaced(struct engine *engine)
{
    struct rpc_stats stats;
    int64_t now = loop_now_ms(engine->config.loop);
    rpc_server_stats(engine->rpc, &stats);
    engine->displaced.seen = stats.displaced;
    uint64_t more = log_limit_more(&engine->displaced, WARN_MS, now);
    if (more == 0)
        return;
    log_text(engine->config.log, LOG_LEVEL_WARN, "rpc", "connections_displaced",
             "%" PRIu64 " ended for others: only a quarter of the open files that are allowed may be connections; "
             "raise `ulimit -Hn` to four for each trainer", more);
}

void requests_receive(struct engine *engine)
{
    struct rpc_event event;
    warn_displaced(engine);
    for (int i = 0; i < EVENTS_A_TURN && rpc_server_next(engine->rpc, &event); i++) {
        if (event.kind == RPC_EVENT_PEER_GONE)
            forget_peer(engine, event.peer);
        else
            receive(engine, event.call);
    }
}
