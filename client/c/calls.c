/*
 * The machine of calls. It runs on the caller's thread only, inside of API calls: what has been asked for
 * ahead arrives in the link's socket while the trainer computes.
 *
 *   UNSENT -> SENT -> DONE
 *      ^        |
 *      +--------+   the connection was lost, or the daemon said "not yet"
 *
 * Every sending has a number of its own. An answer whose number is not that of a SENT call is one
 * that nobody waits for: its lease, if any, is given back. So losing interest in a call is free, and
 * a lease is never lost: not with a time-out, nor with an answer that was late.
 *
 * A GetBatch asks the daemon to wait for a slice of time at most: the step that is being made stays with
 * the daemon when it is asked again. A daemon that answers nothing at all within the slice and some
 * grace is taken for dead, whatever its TCP connection looks like. What a Digest or a Trace has done is
 * lost with its deadline, so those ask for all the time that is left.
 */
#include "handle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MAX_MS 10000
#define GRACE_MS 5000
#define PAUSE_MS 50
#define INTERRUPT_MS 100 /* how often we ask whether to give up */
#define REASON_MS 500 /* before our time is up: so that the reason for a delay arrives */
#define MEMORY_SHIFT 40 /* call id = memories joined << 40 | number of the call */

enum lanekeeper_code lkc_handle_fail(struct lanekeeper_error *error, enum lanekeeper_code code,
                                 const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
    return code;
}

void lkc_handle_begin(struct lanekeeper *handle)
{
    int64_t now = lkc_link_now_ms();

    handle->until_ms = now + handle->timeout_ms;
    handle->ask_ms = now + INTERRUPT_MS;
}

void lkc_call_begin(struct call *call, enum lk_method method, uint64_t step, const ProtobufCMessage *request)
{
    *call = (struct call){.state = CALL_UNSENT, .method = method, .step = step, .request = request};
}

void lkc_call_end(struct call *call)
{
    lanekeeper_release(&call->batch);
    if (call->reply != NULL)
        free(call->reply);
    *call = (struct call){.state = CALL_FREE};
}

/* ---- sending ---- */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How long the daemon may take for @call. */
static uint32_t wait_ms(const struct lanekeeper *handle, const struct call *call, int64_t now)
{
    /* Shorter than the caller's time-out, so that the reason for a delay arrives before it. */
    if (call->method == LK_METHOD_GET_BATCH || call->method == LK_METHOD_HELLO)
        return min_u32(handle->timeout_ms - handle->timeout_ms / 4, SLICE_MAX_MS);
    if (handle->until_ms <= now)
        return 1; /* not 0, which lets the daemon choose */
    uint32_t left = (uint32_t)(handle->until_ms - now);
    return left - min_u32(left / 4, REASON_MS);
}

static bool send_batch_call(struct lanekeeper *h, const struct lk_envelope *e, const struct call *call)
{
    Lk__GetBatchRequest request = LK__GET_BATCH_REQUEST__INIT;

    request.stream = h->stream;
    request.step = call->step;
    request.rank = h->rank;
    request.world = h->world;
    request.stream_digest.data = h->info.stream_digest;
    request.stream_digest.len = sizeof h->info.stream_digest;
    if (h->memory != NULL) {
        struct lk_training_wish wish = lkc_wish_get(h->wish);
        request.client_id = lkc_memory_client(h->memory);
        request.training = wish.flags;
        request.ignore_index = wish.ignore_index;
    }
    return lkc_link_send(h->link, e, &request.base);
}

static void send_call(struct lanekeeper *h, struct call *call)
{
    int64_t now = lkc_link_now_ms();
    struct lk_envelope e = {.method = (uint16_t)call->method, .deadline_ms = wait_ms(h, call, now)};

    call->id = h->n_memories << MEMORY_SHIFT | (++h->n_calls & (((uint64_t)1 << MEMORY_SHIFT) - 1));
    e.call = call->id;
    bool sent = call->request != NULL ? lkc_link_send(h->link, &e, call->request)
                                      : send_batch_call(h, &e, call);
    call->overdue_ms = now + e.deadline_ms + GRACE_MS;
    call->not_before_ms = now + PAUSE_MS;
    call->state = sent ? CALL_SENT : CALL_UNSENT;
}

static void call_again(struct lanekeeper *h, struct call *call, int64_t pause_ms)
{
    h->random = h->random * 6364136223846793005u + 1442695040888963407u;
    int64_t jitter = pause_ms == 0 ? 0 : (int64_t)((h->random >> 33) % (uint64_t)pause_ms);
    call->state = CALL_UNSENT;
    call->not_before_ms = pause_ms == 0 ? 0 : lkc_link_now_ms() + pause_ms + jitter;
}

/* Calls with @f every call but hello. Of the window that is the part in use: what lies before the next step
 * is free. */
static void each_call(struct lanekeeper *h, void (*f)(struct lanekeeper *, struct call *, int64_t *),
                      int64_t *arg)
{
    f(h, &h->single, arg);
    for (uint32_t i = 0; i <= h->lookahead; i++)
        f(h, lkc_window_at(h, h->next + i), arg);
}

static void send_if_due(struct lanekeeper *h, struct call *call, int64_t *now)
{
    if (call->state == CALL_UNSENT && call->not_before_ms <= *now)
        send_call(h, call);
}

static void unsend(struct lanekeeper *h, struct call *call, int64_t *unused)
{
    (void)unused;
    if (call->state == CALL_SENT)
        call_again(h, call, 0);
}

/* From when on no answer to @call, which is SENT, means that the daemon is dead: not while its answers come,
 * however slowly, nor when nobody has listened to them. */
static int64_t overdue_ms(const struct lanekeeper *h, const struct call *call)
{
    int64_t quiet = lkc_link_quiet_since(h->link) + GRACE_MS;
    return call->overdue_ms > quiet ? call->overdue_ms : quiet;
}

/* Lowers *until to when @call wants attention. */
static void attention(struct lanekeeper *h, struct call *call, int64_t *until)
{
    if (call->state == CALL_SENT && overdue_ms(h, call) < *until)
        *until = overdue_ms(h, call);
    bool may_go = h->standing == STANDING_READY || call == &h->hello;
    if (call->state == CALL_UNSENT && may_go && call->not_before_ms < *until)
        *until = call->not_before_ms;
}

static int64_t next_attention(struct lanekeeper *h, int64_t until)
{
    attention(h, &h->hello, &until);
    each_call(h, attention, &until);
    return until;
}

/* ---- receiving ---- */

static struct call *find_call(struct lanekeeper *h, uint64_t id)
{
    struct call *known[] = {&h->hello, &h->single};

    for (uint32_t i = 0; i <= h->lookahead; i++) {
        struct call *call = lkc_window_at(h, h->next + i);
        if (call->state == CALL_SENT && call->id == id)
            return call;
    }
    for (int i = 0; i < 2; i++) {
        if (known[i]->state == CALL_SENT && known[i]->id == id)
            return known[i];
    }
    return NULL;
}

/* A batch that nobody wants any more. */
static void refuse_lease(struct lanekeeper *h, const struct lk_envelope *e)
{
    if (e->method != LK_METHOD_GET_BATCH || e->status != LANEKEEPER_OK || h->memory == NULL ||
        e->call >> MEMORY_SHIFT != h->n_memories)
        return;
    Lk__GetBatchReply *reply = lk__get_batch_reply__unpack(NULL, e->header_bytes, e->header);
    if (reply != NULL && reply->shared)
        lkc_memory_release(h->memory, reply->lease);
    if (reply != NULL)
        lk__get_batch_reply__free_unpacked(reply, NULL);
}

static void done_failed(struct call *call, enum lanekeeper_code code, const char *text)
{
    (void)lkc_handle_fail(&call->failure, code, "%s", text);
    call->state = CALL_DONE;
}

static bool passes(unsigned code)
{
    return code == LANEKEEPER_DEADLINE_EXCEEDED || code == LANEKEEPER_UNAVAILABLE ||
           code == LANEKEEPER_RESOURCE_EXHAUSTED || code == LANEKEEPER_ABORTED;
}

/* After a refusal that passes. When what begins anew each time was late, and nearly all of our time is up,
 * it is not asked for again: the daemon would work for nothing. */
static void refused_for_now(struct lanekeeper *h, struct call *call, unsigned code)
{
    call_again(h, call, code == LANEKEEPER_DEADLINE_EXCEEDED ? 0 : PAUSE_MS);
    if (code == LANEKEEPER_DEADLINE_EXCEEDED && call == &h->single &&
        call->method != LK_METHOD_GET_BATCH && h->until_ms - lkc_link_now_ms() <= INT64_C(2) * REASON_MS)
        call->not_before_ms = INT64_MAX;
}

static void take_error(struct lanekeeper *h, struct call *call, const struct lk_envelope *e)
{
    Lk__Error *error = lk__error__unpack(NULL, e->header_bytes, e->header);
    const char *detail = error == NULL || error->detail[0] == '\0' ? "the daemon gave no reason" : error->detail;
    unsigned code = e->status > LANEKEEPER_UNAUTHENTICATED ? LANEKEEPER_UNKNOWN : e->status;

    if (passes(code)) {
        const char *why = error != NULL && error->waited_for[0] != '\0' ? error->waited_for : detail;
        (void)snprintf(call->waits_for, sizeof call->waits_for, "%s", why);
        refused_for_now(h, call, code);
    } else {
        done_failed(call, code, detail);
        if (code == LANEKEEPER_OUT_OF_RANGE && call->method == LK_METHOD_GET_BATCH && call->step < h->end)
            h->end = call->step;
    }
    if (error != NULL)
        lk__error__free_unpacked(error, NULL);
}

static void take_batch(struct lanekeeper *h, struct call *call, const struct lk_envelope *e)
{
    struct batch_wanted wanted = {call->step, h->info.sequence, h->info.datasets, h->wish};
    Lk__GetBatchReply *reply = lk__get_batch_reply__unpack(NULL, e->header_bytes, e->header);
    char why[256];

    if (reply == NULL) {
        done_failed(call, LANEKEEPER_DATA_LOSS, "malformed reply to GetBatch");
        return;
    }
    h->suspect = h->suspect || !reply->shared; /* this answer came inline: is there still a hand-over? */
    enum lanekeeper_code code = lkc_batch_make(&wanted, reply, e->payload, (size_t)e->payload_bytes,
                                               h->memory, &call->batch, why, sizeof why);
    if (code == LANEKEEPER_OK) {
        call->failure.code = LANEKEEPER_OK;
        call->state = CALL_DONE;
    } else {
        done_failed(call, code, why);
    }
    lk__get_batch_reply__free_unpacked(reply, NULL);
}

static void take_hello(struct lanekeeper *h, struct call *call, const struct lk_envelope *e)
{
    Lk__HelloReply *reply = lk__hello_reply__unpack(NULL, e->header_bytes, e->header);

    lkc_call_end(call);
    if (reply == NULL) {
        h->standing = STANDING_REFUSED;
        (void)lkc_handle_fail(&h->refusal, LANEKEEPER_DATA_LOSS, "%s: malformed reply to Hello", h->address);
        return;
    }
    lkc_hello_take(h, reply);
    lk__hello_reply__free_unpacked(reply, NULL);
}

/* Keeps the answer's header until whoever asked comes for it. */
static void take_other(struct call *call, const struct lk_envelope *e)
{
    call->reply = malloc(e->header_bytes + 1u);
    if (call->reply == NULL) {
        done_failed(call, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    memcpy(call->reply, e->header, e->header_bytes);
    call->reply_bytes = e->header_bytes;
    call->failure.code = LANEKEEPER_OK;
    call->state = CALL_DONE;
}

static void take_message(struct lanekeeper *h, const uint8_t *body, size_t n)
{
    struct lk_envelope e;
    bool whole = lk_envelope_get(body, n, &e);

    if (!whole && !lk_envelope_peek(body, n, &e)) {
        h->malformed++;
        return;
    }
    struct call *call = find_call(h, e.call);
    if (call == NULL || e.method != call->method) {
        if (whole)
            refuse_lease(h, &e);
    } else if (!whole) {
        done_failed(call, LANEKEEPER_DATA_LOSS, "malformed reply: its lengths do not add up to its size");
    } else if (e.status != LANEKEEPER_OK) {
        take_error(h, call, &e);
    } else if (call == &h->hello) {
        take_hello(h, call, &e);
    } else if (call->method == LK_METHOD_GET_BATCH) {
        take_batch(h, call, &e);
    } else {
        take_other(call, &e);
    }
}

/* ---- the connection ---- */

/* Begins anew on the connection that is up, if any: hello first, and then all calls again. */
static void begin_anew(struct lanekeeper *h)
{
    h->malformed = 0;
    h->end = UINT64_MAX;
    h->standing = STANDING_DOWN;
    /* Batches that lie in it hold it on; the next one is another, so that leases whose answers are
     * lost now end with the old one. */
    lkc_memory_drop(h->memory);
    h->memory = NULL;
    each_call(h, unsend, NULL);
    lkc_call_end(&h->hello);
    if (h->connection != 0) {
        h->standing = STANDING_GREETING;
        lkc_hello_send(h);
    }
}

static void connection_changed(struct lanekeeper *h, uint64_t connection)
{
    h->connection = connection;
    if (connection != 0)
        h->connections++;
    begin_anew(h);
}

/* A hello that failed: try again later if that may help, else this daemon is not for us. */
static void hello_failed(struct lanekeeper *h)
{
    h->refusal = h->hello.failure;
    h->standing = STANDING_REFUSED;
    lkc_call_end(&h->hello);
}

static void notice_connection(struct lanekeeper *h)
{
    uint64_t connection = lkc_link_connection(h->link);

    if (connection != h->connection)
        connection_changed(h, connection);
}

static void break_if_overdue(struct lanekeeper *h, struct call *call, int64_t *now)
{
    if (call->state != CALL_SENT || overdue_ms(h, call) > *now)
        return;
    lkc_link_break(h->link);
    notice_connection(h); /* no call is SENT any more */
}

void lkc_handle_send(struct lanekeeper *h)
{
    int64_t now = lkc_link_now_ms();

    if (h->standing == STANDING_GREETING)
        send_if_due(h, &h->hello, &now);
    if (h->standing == STANDING_READY)
        each_call(h, send_if_due, &now);
    lkc_link_flush(h->link);
}

void lkc_handle_advance(struct lanekeeper *h)
{
    const uint8_t *body;
    size_t n;

    lkc_link_turn(h->link);
    notice_connection(h);
    while ((body = lkc_link_take(h->link, &n)) != NULL)
        take_message(h, body, n);
    notice_connection(h); /* what came may have been garbage */
    if (h->hello.state == CALL_DONE)
        hello_failed(h);
    if (h->suspect && h->memory != NULL && !lkc_memory_alive(h->memory))
        begin_anew(h); /* the daemon gave the hand-over up, and with it our leases */
    h->suspect = false;
    lkc_handle_send(h);
    int64_t now = lkc_link_now_ms();
    break_if_overdue(h, &h->hello, &now);
    each_call(h, break_if_overdue, &now);
}

/* ---- waiting ---- */

static enum lanekeeper_code time_is_up(struct lanekeeper *h, const struct call *call)
{
    char what[64];

    if (call != NULL && call->method == LK_METHOD_GET_BATCH)
        (void)snprintf(what, sizeof what, "step %llu", (unsigned long long)call->step);
    else
        (void)snprintf(what, sizeof what, "%s",
                       call == NULL ? "Hello" : lk_method_name((uint16_t)call->method));
    if (h->standing == STANDING_DOWN)
        return lkc_handle_fail(&h->error, LANEKEEPER_UNAVAILABLE,
                           "%s%sno connection to %s within %u ms (%s); is lanekeeperd running there?",
                           call == NULL ? "" : what, call == NULL ? "" : ": ", h->address, h->timeout_ms,
                           lkc_link_why(h->link));
    if (h->malformed > 0)
        return lkc_handle_fail(&h->error, LANEKEEPER_DATA_LOSS,
                           "%s: %s sent %llu messages that are no answers; is it a lanekeeperd?", what,
                           h->address, (unsigned long long)h->malformed);
    const char *reason = "the daemon's answer";
    if (h->standing == STANDING_GREETING)
        reason = "the daemon's answer to Hello";
    else if (call != NULL && call->waits_for[0] != '\0')
        reason = call->waits_for;
    return lkc_handle_fail(&h->error, LANEKEEPER_DEADLINE_EXCEEDED, "%s: not within %u ms; waiting for %s",
                       what, h->timeout_ms, reason);
}

void lkc_handle_listen(struct lanekeeper *h, int64_t until_ms)
{
    if (lkc_link_connection(h->link) != h->connection)
        return;
    if (lkc_link_wait(h->link, h->memory == NULL ? -1 : lkc_memory_fd(h->memory), until_ms))
        h->suspect = true;
}

/* Waits until something is to be done, or time is up. False: the caller wants no more. */
static bool wait_more(struct lanekeeper *h)
{
    int64_t until = next_attention(h, h->until_ms);

    if (h->interrupted != NULL) {
        if (h->ask_ms <= lkc_link_now_ms()) {
            if (h->interrupted(h->context) != 0) {
                (void)lkc_handle_fail(&h->error, LANEKEEPER_CANCELLED, "given up: interrupted");
                return false;
            }
            h->ask_ms = lkc_link_now_ms() + INTERRUPT_MS;
        }
        until = h->ask_ms < until ? h->ask_ms : until;
    }
    lkc_handle_listen(h, until);
    return true;
}

enum lanekeeper_code lkc_handle_wait(struct lanekeeper *h, struct call *call)
{
    for (;;) {
        lkc_handle_advance(h);
        if (call->state == CALL_DONE) {
            if (call->failure.code != LANEKEEPER_OK)
                h->error = call->failure;
            return call->failure.code;
        }
        if (h->standing == STANDING_REFUSED) {
            h->error = h->refusal;
            return h->refusal.code;
        }
        if (lkc_link_now_ms() >= h->until_ms)
            return time_is_up(h, call);
        if (!wait_more(h))
            return h->error.code;
    }
}

enum lanekeeper_code lkc_handle_wait_ready(struct lanekeeper *h)
{
    for (;;) {
        lkc_handle_advance(h);
        if (h->standing == STANDING_READY)
            return LANEKEEPER_OK;
        if (h->standing == STANDING_REFUSED) {
            h->error = h->refusal;
            return h->refusal.code;
        }
        if (lkc_link_now_ms() >= h->until_ms)
            return time_is_up(h, NULL);
        if (!wait_more(h))
            return h->error.code;
    }
}
