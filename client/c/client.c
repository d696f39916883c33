/* The functions of lanekeeper.h, on top of the machine of calls. */
#include "handle.h"
#include "proto/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>

#define TIMEOUT_DEFAULT_MS 60000
#define TIMEOUT_MAX_MS 86400000
#define DIGESTS_MAX 10000
#define DIGESTS_A_CALL 64 /* what is lost when the connection breaks */
#define GOODBYE_MS 1000

_Static_assert(LK_STATE_BYTES <= LANEKEEPER_STATE_MAX, "a state fits its buffer");

const char *lanekeeper_code_name(int code)
{
    static const char *const names[] = {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
        "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
        "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    };
    return code >= 0 && (size_t)code < sizeof names / sizeof *names ? names[code] : "?";
}

void lanekeeper_options_init(struct lanekeeper_options *options)
{
    *options = (struct lanekeeper_options){.world = 1, .lookahead = 2, .timeout_ms = TIMEOUT_DEFAULT_MS};
}

/* ---- connecting ---- */

static enum lanekeeper_code options_check(const struct lanekeeper_options *o, struct lanekeeper_error *e)
{
    struct sockaddr_un at;

    if (o->address == NULL ||
        (strncmp(o->address, "ipc://", 6) != 0 && strncmp(o->address, "tcp://", 6) != 0))
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT,
                           "address \"%s\": expected ipc:///path/of.sock or tcp://host:port",
                           o->address == NULL ? "" : o->address);
    if (o->address[0] == 'i' && strlen(o->address + 6) >= sizeof at.sun_path)
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT, "%s: the path has %zu bytes, at most %zu",
                           o->address, strlen(o->address + 6), sizeof at.sun_path - 1);
    if (o->world == 0 || o->rank >= o->world)
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT, "rank %u of world %u: expected 0 <= rank < world",
                           o->rank, o->world);
    if (o->lookahead > LANEKEEPER_LOOKAHEAD_MAX)
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT, "lookahead %u: expected 0 to %d", o->lookahead,
                           LANEKEEPER_LOOKAHEAD_MAX);
    if (o->timeout_ms > TIMEOUT_MAX_MS)
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT, "timeout_ms %u: expected at most %d",
                           o->timeout_ms, TIMEOUT_MAX_MS);
    if ((unsigned)o->sharing > LANEKEEPER_SHARED_ALWAYS)
        return lkc_handle_fail(e, LANEKEEPER_INVALID_ARGUMENT, "sharing %d: expected 0 to 2", (int)o->sharing);
    return LANEKEEPER_OK;
}

static enum lanekeeper_code state_check(struct lanekeeper_error *e, const void *state, size_t n,
                                        uint64_t *ret_step, uint8_t ret_digest[16])
{
    if (!lk_state_get(state, n, ret_step, ret_digest))
        return lkc_handle_fail(e, LANEKEEPER_DATA_LOSS,
                           "the state (%zu bytes) is damaged, or not one of lanekeeper_state", n);
    return LANEKEEPER_OK;
}

static enum lanekeeper_code handle_set_up(struct lanekeeper *h, const struct lanekeeper_options *o)
{
    h->address = strdup(o->address);
    h->stream = strdup(o->stream == NULL ? "" : o->stream);
    h->wish = lkc_wish_new();
    if (h->address == NULL || h->stream == NULL || h->wish == NULL)
        return lkc_handle_fail(&h->error, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
    h->rank = o->rank;
    h->world = o->world;
    h->lookahead = o->lookahead;
    h->timeout_ms = o->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : o->timeout_ms;
    h->sharing = o->sharing;
    h->interrupted = o->interrupted;
    h->context = o->context;
    h->next = o->step;
    h->end = UINT64_MAX;
    if (getrandom(&h->random, sizeof h->random, GRND_NONBLOCK) < 0)
        h->random = (uint64_t)lkc_link_now_ms(); /* only jitter hangs on it */
    if (o->state != NULL) {
        enum lanekeeper_code code =
            state_check(&h->error, o->state, o->state_bytes, &h->next, h->info.stream_digest);
        if (code != LANEKEEPER_OK)
            return code;
        h->expects = true;
        h->expected = "the state";
    }
    return LANEKEEPER_OK;
}

static enum lanekeeper_code handle_open(struct lanekeeper *h, const struct lanekeeper_options *o)
{
    enum lanekeeper_code code = options_check(o, &h->error);

    if (code == LANEKEEPER_OK)
        code = handle_set_up(h, o);
    if (code != LANEKEEPER_OK)
        return code;
    lkc_handle_begin(h);
    code = lkc_link_open(h->address, &h->link);
    if (code == LANEKEEPER_INVALID_ARGUMENT)
        return lkc_handle_fail(&h->error, code, "address \"%s\": expected ipc:///path/of.sock or tcp://host:port",
                               h->address);
    if (code != LANEKEEPER_OK)
        return lkc_handle_fail(&h->error, code, "out of memory");
    return lkc_handle_wait_ready(h);
}

enum lanekeeper_code lanekeeper_connect(const struct lanekeeper_options *options,
                                        struct lanekeeper **ret_handle, struct lanekeeper_error *error)
{
    struct lanekeeper *h = calloc(1, sizeof *h);
    struct lanekeeper_error unused;

    if (h == NULL)
        return lkc_handle_fail(error == NULL ? &unused : error, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
    enum lanekeeper_code code = handle_open(h, options);
    if (code == LANEKEEPER_OK) {
        *ret_handle = h;
    } else {
        if (error != NULL)
            *error = h->error;
        lanekeeper_close(h);
    }
    return code;
}

static void window_clear(struct lanekeeper *h)
{
    for (int i = 0; i < WINDOW; i++)
        lkc_call_end(&h->window[i]);
}

/* Parts from the daemon, so that nothing is on its way when the connection is closed. */
static void say_goodbye(struct lanekeeper *h)
{
    static const Lk__CheckpointRequest empty = {
        .base = PROTOBUF_C_MESSAGE_INIT(&lk__checkpoint_request__descriptor),
        .stream = (char *)(uintptr_t)protobuf_c_empty_string}; /* packs to nothing */

    lkc_link_last(h->link);
    lkc_handle_advance(h); /* what has arrived may hold leases */
    if (h->standing == STANDING_DOWN)
        return;
    int64_t until = lkc_link_now_ms() + (h->timeout_ms < GOODBYE_MS ? h->timeout_ms : GOODBYE_MS);
    h->standing = STANDING_READY; /* also with a daemon that we refused, or that has not greeted */
    lkc_call_end(&h->hello);
    lkc_call_begin(&h->single, LK_METHOD_GOODBYE, 0, &empty.base);
    do {
        lkc_handle_advance(h);
        if (h->single.state == CALL_DONE || h->standing == STANDING_DOWN)
            break;
        lkc_handle_listen(h, until);
    } while (lkc_link_now_ms() < until);
    lkc_call_end(&h->single);
}

void lanekeeper_close(struct lanekeeper *handle)
{
    if (handle == NULL)
        return;
    window_clear(handle);
    lkc_call_end(&handle->single);
    if (handle->link != NULL)
        say_goodbye(handle);
    lkc_link_close(handle->link);
    lkc_memory_drop(handle->memory);
    lkc_wish_drop(handle->wish);
    for (uint32_t i = 0; handle->dataset != NULL && i < handle->info.datasets; i++)
        free(handle->dataset[i]);
    free(handle->dataset);
    free(handle->phase);
    free(handle->address);
    free(handle->stream);
    free(handle);
}

const char *lanekeeper_error_text(const struct lanekeeper *handle)
{
    return handle->error.text;
}

enum lanekeeper_code lanekeeper_info(struct lanekeeper *handle, struct lanekeeper_info *ret_info)
{
    lkc_handle_begin(handle);
    lkc_handle_advance(handle);
    *ret_info = handle->info;
    ret_info->shared = handle->memory != NULL;
    ret_info->connections = handle->connections;
    return LANEKEEPER_OK;
}

const char *lanekeeper_dataset(const struct lanekeeper *handle, uint32_t i)
{
    return i < handle->info.datasets ? handle->dataset[i] : NULL;
}

/* ---- batches ---- */

/* Asks for the next @n steps, as far as the stream is known to go. */
static void window_fill(struct lanekeeper *h, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t step = h->next + i;
        if (step < h->next || (i > 0 && step >= h->end))
            break;
        if (lkc_window_at(h, step)->state == CALL_FREE)
            lkc_call_begin(lkc_window_at(h, step), LK_METHOD_GET_BATCH, step, NULL);
    }
}

/* Moves the batch out of a DONE call, which becomes free. */
static void batch_move(struct call *call, struct lanekeeper_batch *ret_batch)
{
    *ret_batch = call->batch;
    call->batch = (struct lanekeeper_batch){0};
    lkc_call_end(call);
}

enum lanekeeper_code lanekeeper_next(struct lanekeeper *handle, struct lanekeeper_batch *ret_batch)
{
    *ret_batch = (struct lanekeeper_batch){0};
    lkc_handle_begin(handle);
    window_fill(handle, handle->lookahead + 1);
    struct call *call = lkc_window_at(handle, handle->next);
    enum lanekeeper_code code = lkc_handle_wait(handle, call);
    if (code == LANEKEEPER_OK) {
        batch_move(call, ret_batch);
        handle->next++;
        window_fill(handle, handle->lookahead);
        lkc_handle_send(handle); /* at once: the daemon works while the trainer computes */
    } else if (call->state == CALL_DONE) {
        lkc_call_end(call); /* asked again the next time */
    }
    return code;
}

/* Runs a call that is not part of the look-ahead, in the time that is left. On success the call holds
 * the answer until ended. */
static enum lanekeeper_code single_go(struct lanekeeper *h, enum lk_method method, uint64_t step,
                                      const ProtobufCMessage *request)
{
    lkc_call_begin(&h->single, method, step, request);
    enum lanekeeper_code code = lkc_handle_wait(h, &h->single);
    if (code != LANEKEEPER_OK)
        lkc_call_end(&h->single); /* the request is the caller's: nothing may be sent later */
    return code;
}

static enum lanekeeper_code single_run(struct lanekeeper *h, enum lk_method method, uint64_t step,
                                       const ProtobufCMessage *request)
{
    lkc_handle_begin(h);
    return single_go(h, method, step, request);
}

enum lanekeeper_code lanekeeper_get(struct lanekeeper *handle, uint64_t step,
                                    struct lanekeeper_batch *ret_batch)
{
    *ret_batch = (struct lanekeeper_batch){0};
    enum lanekeeper_code code = single_run(handle, LK_METHOD_GET_BATCH, step, NULL);
    if (code == LANEKEEPER_OK)
        batch_move(&handle->single, ret_batch);
    return code;
}

/* ---- state ---- */

enum lanekeeper_code lanekeeper_state(struct lanekeeper *handle, uint64_t step,
                                      uint8_t ret_state[LANEKEEPER_STATE_MAX], size_t *ret_bytes)
{
    lk_state_put(step == LANEKEEPER_CONSUMED ? handle->next : step, handle->info.stream_digest, ret_state);
    *ret_bytes = LK_STATE_BYTES;
    return LANEKEEPER_OK;
}

enum lanekeeper_code lanekeeper_seek(struct lanekeeper *handle, uint64_t step)
{
    window_clear(handle);
    handle->next = step;
    return LANEKEEPER_OK;
}

uint64_t lanekeeper_step(const struct lanekeeper *handle)
{
    return handle->next;
}

uint64_t lanekeeper_sequences(const struct lanekeeper *handle, uint64_t step)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < handle->n_phases && handle->phase[i].from < step; i++) {
        uint64_t end = i + 1 < handle->n_phases && handle->phase[i + 1].from < step ? handle->phase[i + 1].from : step;
        uint64_t n;
        if (__builtin_mul_overflow(end - handle->phase[i].from, handle->phase[i].size, &n) ||
            __builtin_add_overflow(sum, n, &sum))
            return UINT64_MAX;
    }
    return sum;
}

enum lanekeeper_code lanekeeper_resume(struct lanekeeper *handle, const void *state, size_t state_bytes)
{
    uint64_t step;
    uint8_t digest[16];
    char ours[33], theirs[33];
    enum lanekeeper_code code = state_check(&handle->error, state, state_bytes, &step, digest);

    if (code != LANEKEEPER_OK)
        return code;
    if (memcmp(digest, handle->info.stream_digest, sizeof digest) != 0) {
        lkc_digest_text(handle->info.stream_digest, ours);
        lkc_digest_text(digest, theirs);
        return lkc_handle_fail(&handle->error, LANEKEEPER_FAILED_PRECONDITION,
                           "the state is of stream digest %s, this handle of stream digest %s", theirs, ours);
    }
    return lanekeeper_seek(handle, step);
}

/* ---- the other calls ---- */

/* The answer of the call that has just run, unpacked; the call ends. NULL: DATA_LOSS is set. */
static void *single_take(struct lanekeeper *h, const ProtobufCMessageDescriptor *type)
{
    void *reply = protobuf_c_message_unpack(type, NULL, h->single.reply_bytes, h->single.reply);

    if (reply == NULL)
        (void)lkc_handle_fail(&h->error, LANEKEEPER_DATA_LOSS, "malformed reply to %s",
                          lk_method_name((uint16_t)h->single.method));
    lkc_call_end(&h->single);
    return reply;
}

static enum lanekeeper_code digest_take(struct lanekeeper *h, uint64_t n, uint8_t *ret_digests)
{
    Lk__DigestReply *reply = single_take(h, &lk__digest_reply__descriptor);

    if (reply == NULL)
        return h->error.code;
    bool ok = reply->n_steps == n;
    for (size_t i = 0; ok && i < n; i++)
        ok = reply->steps[i].len == 16;
    for (size_t i = 0; ok && i < n; i++)
        memcpy(ret_digests + 16 * i, reply->steps[i].data, 16);
    lk__digest_reply__free_unpacked(reply, NULL);
    return ok ? LANEKEEPER_OK
              : lkc_handle_fail(&h->error, LANEKEEPER_DATA_LOSS,
                                "malformed reply to Digest: not one of 16 bytes for each step");
}

enum lanekeeper_code lanekeeper_digest(struct lanekeeper *handle, uint64_t from, uint64_t to,
                                       uint8_t *ret_digests)
{
    Lk__DigestRequest request = LK__DIGEST_REQUEST__INIT;
    enum lanekeeper_code code = LANEKEEPER_OK;

    if (from > to || to - from > DIGESTS_MAX)
        return lkc_handle_fail(&handle->error, LANEKEEPER_INVALID_ARGUMENT,
                           "steps %llu to %llu: expected a range of at most %d steps",
                           (unsigned long long)from, (unsigned long long)to, DIGESTS_MAX);
    lkc_handle_begin(handle);
    request.stream = handle->stream;
    for (uint64_t at = from; code == LANEKEEPER_OK && at < to; at = request.to) {
        request.from = at;
        request.to = to - at > DIGESTS_A_CALL ? at + DIGESTS_A_CALL : to;
        code = single_go(handle, LK_METHOD_DIGEST, at, &request.base);
        if (code == LANEKEEPER_OK)
            code = digest_take(handle, request.to - at, ret_digests + 16 * (at - from));
    }
    return code;
}

enum lanekeeper_code lanekeeper_status(struct lanekeeper *handle, char **ret_json)
{
    Lk__StatusRequest request = LK__STATUS_REQUEST__INIT;

    request.stream = handle->stream;
    enum lanekeeper_code code = single_run(handle, LK_METHOD_STATUS, 0, &request.base);
    if (code != LANEKEEPER_OK)
        return code;
    Lk__StatusReply *reply = single_take(handle, &lk__status_reply__descriptor);
    if (reply == NULL)
        return handle->error.code;
    char *json = strdup(reply->json);
    lk__status_reply__free_unpacked(reply, NULL);
    if (json == NULL)
        return lkc_handle_fail(&handle->error, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
    *ret_json = json;
    return LANEKEEPER_OK;
}

void lanekeeper_free(void *text)
{
    free(text);
}

static struct lanekeeper_trace_part trace_part(const Lk__TracePart *part)
{
    return (struct lanekeeper_trace_part){
        .dataset = part->dataset,
        .shard = part->shard,
        .row_in_shard = part->row_in_shard,
        .row = part->row,
        .sequence = part->sequence,
        .at = part->at,
        .tokens = part->tokens,
        .epoch = part->epoch,
        .first = part->first,
    };
}

enum lanekeeper_code lanekeeper_trace(struct lanekeeper *handle, uint64_t step, uint32_t first_row,
                                      uint32_t rows, struct lanekeeper_trace *ret_trace)
{
    Lk__TraceRequest request = LK__TRACE_REQUEST__INIT;

    request.stream = handle->stream;
    request.step = step;
    request.first_row = first_row;
    request.rows = rows;
    enum lanekeeper_code code = single_run(handle, LK_METHOD_TRACE, step, &request.base);
    if (code != LANEKEEPER_OK)
        return code;
    Lk__TraceReply *reply = single_take(handle, &lk__trace_reply__descriptor);
    if (reply == NULL)
        return handle->error.code;
    struct lanekeeper_trace trace = {.n = reply->n_parts, .owner = reply};
    trace.part = calloc(trace.n + 1, sizeof *trace.part);
    if (trace.part == NULL) {
        lk__trace_reply__free_unpacked(reply, NULL);
        return lkc_handle_fail(&handle->error, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (size_t i = 0; i < trace.n; i++)
        trace.part[i] = trace_part(reply->parts[i]);
    *ret_trace = trace;
    return LANEKEEPER_OK;
}

void lanekeeper_trace_done(struct lanekeeper_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->owner != NULL)
        lk__trace_reply__free_unpacked(trace->owner, NULL);
    free(trace->part);
    *trace = (struct lanekeeper_trace){0};
}
