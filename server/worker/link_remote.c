/*
 * The link of a worker over nng, for one on another machine: nng's callbacks only mark a slot as answered;
 * everything else is done by the one thread that calls.
 */
#include "worker/link_private.h"

#include "proto/socket.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum phase { PHASE_FREE, PHASE_SENDING, PHASE_WAITING, PHASE_ANSWERED };

struct slot {
    struct link_remote *link;
    nng_ctx ctx;
    nng_aio *aio;
    bool has_ctx;
    enum phase phase;
    int rc;
    nng_msg *reply;
    uint64_t answered; /* order of the answers */
};

struct link_remote {
    struct link base;
    nng_socket socket;
    bool has_socket;
    pthread_mutex_t lock; /* guards all below and the slots */
    pthread_cond_t changed;
    uint32_t pipes;
    int64_t lost_at_ms;
    uint64_t answers, calls;
    struct slot slot[LINK_SLOTS];
};

static struct link_remote *remote_of(struct link *link)
{
    return (struct link_remote *)(void *)link;
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *owner)
{
    struct link_remote *link = owner;
    (void)pipe;
    pthread_mutex_lock(&link->lock);
    if (event == NNG_PIPE_EV_ADD_POST)
        link->pipes++;
    else if (event == NNG_PIPE_EV_REM_POST && link->pipes > 0 && --link->pipes == 0)
        link->lost_at_ms = link_clock_ms();
    pthread_cond_signal(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

static void slot_answered(struct slot *slot, int rc)
{
    slot->phase = PHASE_ANSWERED;
    slot->rc = rc;
    slot->answered = ++slot->link->answers;
    pthread_cond_signal(&slot->link->changed);
}

/* On an nng thread: a request was sent, or its reply came, or it failed. */
static void on_aio(void *owner)
{
    struct slot *slot = owner;
    int rc = nng_aio_result(slot->aio);
    pthread_mutex_lock(&slot->link->lock);
    if (slot->phase == PHASE_SENDING && rc == 0) {
        slot->phase = PHASE_WAITING;
        pthread_mutex_unlock(&slot->link->lock);
        nng_ctx_recv(slot->ctx, slot->aio);
        return;
    }
    if (slot->phase == PHASE_SENDING) {
        nng_msg_free(nng_aio_get_msg(slot->aio)); /* what was not sent is still ours */
        nng_aio_set_msg(slot->aio, NULL);
    } else if (rc == 0) {
        slot->reply = nng_aio_get_msg(slot->aio);
    }
    slot_answered(slot, rc);
    pthread_mutex_unlock(&slot->link->lock);
}

static enum lk_code open_socket(struct link_remote *link, const char *address, size_t reply_max,
                                struct lk_err *err)
{
    int rc = nng_req0_open(&link->socket);
    if (rc != 0)
        return lk_fail(err, LK_UNAVAILABLE, "cannot open a socket: %s", nng_strerror(rc));
    link->has_socket = true;
    /* Without a resend time nng gives a request up as soon as its connection is lost, and never
     * because an answer takes long: waiting for a task may take for ever. */
    if ((rc = nng_socket_set_ms(link->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0 ||
        (rc = nng_socket_set_size(link->socket, NNG_OPT_RECVMAXSZ, reply_max)) != 0 ||
        (rc = nng_socket_set_ms(link->socket, NNG_OPT_RECONNMINT, 50)) != 0 ||
        (rc = nng_socket_set_ms(link->socket, NNG_OPT_RECONNMAXT, 2000)) != 0 ||
        (rc = nng_pipe_notify(link->socket, NNG_PIPE_EV_ADD_POST, on_pipe, link)) != 0 ||
        (rc = nng_pipe_notify(link->socket, NNG_PIPE_EV_REM_POST, on_pipe, link)) != 0)
        return lk_fail(err, LK_INTERNAL, "cannot set up a socket: %s", nng_strerror(rc));
    for (unsigned i = 0; i < LINK_SLOTS; i++) {
        struct slot *slot = &link->slot[i];
        slot->link = link;
        if ((rc = nng_ctx_open(&slot->ctx, link->socket)) != 0)
            return lk_fail(err, LK_UNAVAILABLE, "cannot open a context: %s", nng_strerror(rc));
        slot->has_ctx = true;
        if ((rc = nng_aio_alloc(&slot->aio, on_aio, slot)) != 0)
            return lk_fail(err, LK_UNAVAILABLE, "cannot make an aio: %s", nng_strerror(rc));
        nng_aio_set_timeout(slot->aio, NNG_DURATION_INFINITE);
    }
    rc = nng_dial(link->socket, address, NULL, NNG_FLAG_NONBLOCK);
    if (rc != 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "--connect %s: expected tcp://host:port (%s)", address, nng_strerror(rc));
    return LK_OK;
}

static void remote_close(struct link *base)
{
    struct link_remote *link = remote_of(base);
    for (unsigned i = 0; i < LINK_SLOTS; i++) {
        if (link->slot[i].aio != NULL)
            nng_aio_stop(link->slot[i].aio); /* its callback has run, or never will */
        if (link->slot[i].has_ctx)
            (void)nng_ctx_close(link->slot[i].ctx);
    }
    if (link->has_socket && !lk_socket_close(link->socket))
        return; /* left to the end of the process */
    for (unsigned i = 0; i < LINK_SLOTS; i++) {
        struct slot *slot = &link->slot[i];
        if (slot->reply != NULL)
            nng_msg_free(slot->reply);
        if (slot->aio != NULL)
            nng_aio_free(slot->aio);
    }
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

static int64_t remote_lost_ms(const struct link *link)
{
    struct link_remote *l = remote_of((struct link *)link);
    pthread_mutex_lock(&l->lock);
    int64_t lost = l->pipes > 0 ? 0 : link_clock_ms() - l->lost_at_ms + 1;
    pthread_mutex_unlock(&l->lock);
    return lost;
}

/* --- requests --- */

static nng_msg *message_of(enum lk_method method, uint64_t call, const ProtobufCMessage *message,
                           const struct link_payload *payload)
{
    size_t payload_bytes = link_payload_bytes(payload);
    size_t header = protobuf_c_message_get_packed_size(message);
    LK_CHECK(header <= UINT32_MAX);
    nng_msg *msg;
    if (nng_msg_alloc(&msg, 0) != 0)
        return NULL;
    if (nng_msg_reserve(msg, LK_ENVELOPE_BYTES + header + payload_bytes) != 0 ||
        nng_msg_realloc(msg, LK_ENVELOPE_BYTES + header) != 0) {
        nng_msg_free(msg);
        return NULL;
    }
    struct lk_envelope envelope = {.method = (uint16_t)method,
                                   .call = call,
                                   .header_bytes = (uint32_t)header,
                                   .payload_bytes = payload_bytes};
    lk_envelope_put(&envelope, nng_msg_body(msg));
    protobuf_c_message_pack(message, (uint8_t *)nng_msg_body(msg) + LK_ENVELOPE_BYTES);
    for (int i = 0; payload != NULL && i < 2; i++) {
        if (payload->bytes[i] > 0 && nng_msg_append(msg, payload->data[i], payload->bytes[i]) != 0) {
            nng_msg_free(msg);
            return NULL;
        }
    }
    return msg;
}

static enum lk_code remote_send(struct link *base, unsigned slot_number, enum lk_method method,
                                const ProtobufCMessage *message,
                                const struct link_payload *payload, struct lk_err *err)
{
    struct link_remote *link = remote_of(base);
    struct slot *slot = &link->slot[slot_number];
    nng_msg *msg = message_of(method, ++link->calls, message, payload);
    if (msg == NULL)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes",
                       link_payload_bytes(payload));
    pthread_mutex_lock(&link->lock);
    LK_CHECK(slot->phase == PHASE_FREE);
    if (slot->reply != NULL)
        nng_msg_free(slot->reply);
    slot->reply = NULL;
    slot->phase = PHASE_SENDING;
    pthread_mutex_unlock(&link->lock);
    nng_aio_set_msg(slot->aio, msg);
    nng_ctx_send(slot->ctx, slot->aio);
    return LK_OK;
}

static enum lk_code remote_send_result(struct link *link, unsigned slot,
                                       Lk__WorkerTaskRequest *request,
                                       const struct link_payload *payload, struct lk_err *err)
{
    return remote_send(link, slot, LK_METHOD_WORKER_TASK, &request->base, payload, err);
}

static struct slot *first_answered(struct link_remote *link)
{
    struct slot *first = NULL;
    for (unsigned i = 0; i < LINK_SLOTS; i++) {
        struct slot *slot = &link->slot[i];
        if (slot->phase == PHASE_ANSWERED && (first == NULL || slot->answered < first->answered))
            first = slot;
    }
    return first;
}

static struct slot *wait_answer(struct link_remote *link, int64_t timeout_ms)
{
    int64_t until = link_clock_ms() + timeout_ms;
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    pthread_mutex_lock(&link->lock);
    struct slot *slot;
    while ((slot = first_answered(link)) == NULL)
        if (pthread_cond_timedwait(&link->changed, &link->lock, &at) != 0)
            break;
    if (slot != NULL)
        slot->phase = PHASE_FREE;
    pthread_mutex_unlock(&link->lock);
    return slot;
}

static enum lk_code remote_wait(struct link *base, int64_t timeout_ms, struct link_reply *ret_reply,
                                struct lk_err *err)
{
    struct link_remote *link = remote_of(base);
    struct slot *slot = wait_answer(link, timeout_ms);
    if (slot == NULL)
        return lk_fail(err, LK_DEADLINE_EXCEEDED, "no answer for %lld ms", (long long)timeout_ms);
    if (slot->rc != 0)
        return lk_fail(err, LK_UNAVAILABLE, "request failed: %s", nng_strerror(slot->rc));
    struct lk_envelope envelope;
    if (!lk_envelope_get(nng_msg_body(slot->reply), nng_msg_len(slot->reply), &envelope))
        return lk_fail(err, LK_DATA_LOSS, "the answer is no whole message (%zu bytes)",
                       nng_msg_len(slot->reply));
    *ret_reply = (struct link_reply){.slot = (unsigned)(slot - link->slot), .envelope = envelope};
    return LK_OK;
}

enum lk_code link_open(const char *address, size_t reply_max, struct link **ret_link,
                       struct lk_err *err)
{
    static const struct link_ops ops = {.close = remote_close,
                                        .lost_ms = remote_lost_ms,
                                        .send = remote_send,
                                        .send_result = remote_send_result,
                                        .wait = remote_wait};
    struct link_remote *link = lk_zalloc(1, sizeof *link);
    link->base.ops = &ops;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, &attr);
    pthread_condattr_destroy(&attr);
    link->lost_at_ms = link_clock_ms();
    enum lk_code code = open_socket(link, address, reply_max, err);
    if (code != LK_OK) {
        remote_close(&link->base);
        return code;
    }
    *ret_link = &link->base;
    return LK_OK;
}
