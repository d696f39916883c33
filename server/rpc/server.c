/*
 * Threads: connections are rpc/sockets.h's, whose ops run on its thread. All they do is check a frame, and
 * change the lists and the eventfd under the mutex. The rest is the owner's thread. Answers go out on the
 * owner's thread, outside the mutex, as far as the connection takes them at once; what is beyond that is
 * kept by the sockets, up to bounds. A slow reader slows nobody but itself.
 *
 * A peer is in the table as long as its connection is there. Its PEER_GONE is queued when that goes, or
 * when the peer said goodbye; messages of it that come up later are dropped, so that no call follows the end
 * of its peer, and no answer the answer to its goodbye.
 */
#include "rpc/server.h"

#include "base/mem.h"
#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "rpc/items.h"
#include "rpc/listen.h"
#include "rpc/sockets.h"

#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define REFUSED_MIN 1024 /* refusals that may wait to be sent, at least */
#define FEW_CALLS 8 /* of a peer: for such are the last of the places for calls */
#define OWN_A_TURN 64 /* refusals and the like that one rpc_server_next answers */
#define STRANGERS_PART 16 /* of the places for calls, where some peers are trusted and others not */
#define DEADLINE_DEFAULT_MS (10 * 60 * 1000)

struct rpc_server {
    struct sockets *sockets;
    struct listening listening;
    uint32_t calls_max;
    size_t waiting_bytes_max;
    uint32_t deadline_max_ms;
    int wake; /* readable while something is queued */

    pthread_mutex_t mutex;
    bool awake;             /* the eventfd is set */
    struct item_list queue; /* not yet seen by the owner */
    struct item_list taken; /* calls that the owner holds */
    struct peer_table peers;
    uint32_t n_callers; /* peers that have called */
    uint32_t n_calls, n_refused; /* waiting: queued or taken; refusals that are queued */
    uint32_t n_strange, strange_max; /* of the n_calls: of peers that were not trusted */
    size_t waiting_bytes;        /* of the messages of the n_calls */
    struct rpc_stats stats;
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the connections' side ---- */

/* The eventfd says whether there is something for the owner. It changes together with the queue, under
 * the mutex: so the owner may stop taking at any point, and is woken for what it left. */
static void wake_update(struct rpc_server *s)
{
    bool wanted = items_first(&s->queue) != NULL;
    uint64_t count = 1;

    if (wanted == s->awake)
        return;
    s->awake = wanted;
    /* Neither can fail: it does not block, and the count is 0 or 1. */
    ssize_t n = wanted ? write(s->wake, &count, sizeof count) : read(s->wake, &count, sizeof count);
    LK_CHECK(n == (ssize_t)sizeof count);
}

static void call_fill(struct item *item, const struct lk_envelope *e, uint32_t cap_ms)
{
    uint32_t wait_ms = e->deadline_ms == 0 || e->deadline_ms > cap_ms ? cap_ms : e->deadline_ms;

    item->id = item->call.number = e->call;
    item->call.method = e->method;
    item->call.received_ms = now_ms();
    item->call.deadline_ms = item->call.received_ms + wait_ms;
    item->call.header = e->header;
    item->call.header_bytes = e->header_bytes;
    item->call.payload = e->payload;
    item->call.payload_bytes = (size_t)e->payload_bytes;
}

/* Turns @item into the refusal of what it is, if the queue of refusals has room; else says false: its
 * sender waits until its deadline, so the queue is long even where few calls may wait. Of the request
 * only its header is kept, which the answer needs. */
static bool refuse(struct rpc_server *s, struct item *item, enum lk_code why)
{
    nng_msg *light;
    if ((s->n_refused >= s->calls_max && s->n_refused >= REFUSED_MIN) || nng_msg_alloc(&light, 0) != 0)
        return false;
    (void)nng_msg_header_append(light, nng_msg_header(item->request), nng_msg_header_len(item->request));
    nng_msg_free(item->request);
    item->request = light;
    item->call.header = item->call.payload = NULL;
    item->call.header_bytes = item->call.payload_bytes = 0;
    item->kind = ITEM_REFUSED;
    item->refusal = why;
    s->n_refused++;
    return true;
}

/* The end of a peer's calls, queued once: it says goodbye, or its connection is gone. */
static void peer_end(struct rpc_server *s, struct peer *peer)
{
    if (peer->called) {
        struct item *item = lk_zalloc(1, sizeof *item);
        item->server = s;
        item->kind = ITEM_PEER_GONE;
        item->call.peer = peer->number;
        items_append(&s->queue, item);
        s->n_callers--;
    }
    peers_remove(&s->peers, peer);
}

/* Is there a place for another call? Those who ask for much leave some to those who ask for little. */
static bool has_place(const struct rpc_server *s, const struct peer *peer, size_t bytes)
{
    uint32_t kept = peer->n_calls >= FEW_CALLS ? s->calls_max / 4 : 0;
    if (!peer->trusted && s->n_strange >= s->strange_max)
        return false;
    return s->n_calls + kept < s->calls_max && bytes <= s->waiting_bytes_max - s->waiting_bytes;
}

/* Decides what becomes of a request; false: nothing, the caller frees it. Under the mutex. */
static bool admit(struct rpc_server *s, struct item *item, struct peer *peer, bool whole)
{
    if (!whole) {
        s->stats.refused_malformed++;
        return refuse(s, item, LK_INVALID_ARGUMENT);
    }
    if (item->call.method == LK_METHOD_GOODBYE) {
        peer_end(s, peer);
        item->kind = ITEM_GOODBYE;
        return true;
    }
    if (peers_call_waits(peer, item->request)) {
        s->stats.repeats++;
        return false;
    }
    size_t bytes = nng_msg_len(item->request);
    if (!has_place(s, peer, bytes)) {
        s->stats.refused_busy++;
        return refuse(s, item, LK_RESOURCE_EXHAUSTED);
    }
    if (!peer->called)
        s->n_callers++;
    peer->called = true;
    item->kind = ITEM_CALL;
    item->peer_next = peer->calls;
    peer->calls = item;
    peer->n_calls++;
    item->strange = !peer->trusted;
    s->n_strange += item->strange;
    s->n_calls++;
    s->waiting_bytes += bytes;
    s->stats.calls++;
    return true;
}

static void request_take(struct rpc_server *s, uint32_t number, nng_msg *request)
{
    struct lk_envelope e;
    size_t n = nng_msg_len(request);
    bool whole = lk_envelope_get(nng_msg_body(request), n, &e);
    bool readable = whole || lk_envelope_peek(nng_msg_body(request), n, &e);
    struct item *item = lk_zalloc(1, sizeof *item);

    item->server = s;
    item->request = request;
    item->call.peer = number;
    if (readable)
        call_fill(item, &e, s->deadline_max_ms);
    (void)pthread_mutex_lock(&s->mutex);
    s->stats.bytes_in += n;
    struct peer *peer = peers_find(&s->peers, number);
    bool queued = peer != NULL && readable && admit(s, item, peer, whole);
    if (!readable)
        s->stats.refused_malformed++;
    if (queued)
        items_append(&s->queue, item);
    wake_update(s);
    (void)pthread_mutex_unlock(&s->mutex);
    if (!queued)
        items_free(item);
}

static void peer_joined(void *owner, uint32_t peer)
{
    struct rpc_server *s = owner;

    (void)pthread_mutex_lock(&s->mutex);
    peers_add(&s->peers, peer);
    (void)pthread_mutex_unlock(&s->mutex);
}

static void peer_gone(void *owner, uint32_t number)
{
    struct rpc_server *s = owner;

    (void)pthread_mutex_lock(&s->mutex);
    struct peer *peer = peers_find(&s->peers, number);
    if (peer != NULL)
        peer_end(s, peer);
    wake_update(s);
    (void)pthread_mutex_unlock(&s->mutex);
}

static void message_came(void *owner, uint32_t peer, nng_msg *message)
{
    request_take(owner, peer, message);
}

static const struct sockets_ops sockets_ops = {
    .joined = peer_joined, .message = message_came, .gone = peer_gone};

/* ---- opening ---- */

static enum lk_code open_all(struct rpc_server *s, const struct rpc_config *config, struct lk_err *err)
{
    size_t stranger_max = config->stranger_max != 0 ? config->stranger_max : config->message_max;
    LK_TRY(sockets_open(config->message_max, stranger_max, &sockets_ops, s, &s->sockets, err));
    LK_TRY(listening_open(&s->listening, s->sockets, config->listen, config->n_listen, config->socket_mode, err));
    return sockets_start(s->sockets, err);
}

enum lk_code rpc_server_open(const struct rpc_config *config, struct rpc_server **ret_server,
                             struct lk_err *err)
{
    struct rpc_server *s = lk_zalloc(1, sizeof *s);
    enum lk_code code;

    (void)pthread_mutex_init(&s->mutex, NULL);
    items_init(&s->queue);
    items_init(&s->taken);
    s->calls_max = s->strange_max = config->calls_max;
    if (config->stranger_max != 0)
        s->strange_max = 1 + config->calls_max / STRANGERS_PART;
    s->waiting_bytes_max = config->waiting_bytes_max != 0 ? config->waiting_bytes_max : SIZE_MAX;
    s->deadline_max_ms = config->deadline_max_ms ? config->deadline_max_ms : DEADLINE_DEFAULT_MS;
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0)
        code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "eventfd: %s", strerror(errno));
    else
        code = open_all(s, config, err);
    if (code == LK_OK)
        *ret_server = s;
    else
        rpc_server_close(s);
    return code;
}

void rpc_server_trust(struct rpc_server *server, uint32_t number)
{
    (void)pthread_mutex_lock(&server->mutex);
    struct peer *peer = peers_find(&server->peers, number);
    if (peer != NULL)
        peer->trusted = true;
    (void)pthread_mutex_unlock(&server->mutex);
    sockets_trust(server->sockets, number);
}

const char *rpc_server_address(const struct rpc_server *server, uint32_t i)
{
    return listening_address(&server->listening, i);
}

int rpc_server_fd(const struct rpc_server *server)
{
    return server->wake;
}

/* ---- the owner's side ---- */

/* Takes the first item off the queue; calls move over to those that the owner holds. */
static struct item *queue_take(struct rpc_server *s)
{
    (void)pthread_mutex_lock(&s->mutex);
    struct item *item = items_first(&s->queue);
    if (item != NULL) {
        items_remove(item);
        if (item->kind == ITEM_CALL)
            items_append(&s->taken, item);
        if (item->kind == ITEM_REFUSED)
            s->n_refused--;
    }
    wake_update(s);
    (void)pthread_mutex_unlock(&s->mutex);
    return item;
}

static void send_reply(struct item *item, nng_msg *reply, size_t bytes)
{
    struct rpc_server *s = item->server;

    (void)nng_msg_header_append(reply, nng_msg_header(item->request),
                                nng_msg_header_len(item->request));
    (void)pthread_mutex_lock(&s->mutex);
    bool wanted = item->kind == ITEM_GOODBYE || peers_find(&s->peers, item->call.peer) != NULL;
    if (wanted) {
        s->stats.replies++;
        s->stats.bytes_out += bytes;
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (wanted)
        sockets_send(s->sockets, reply);
    else
        nng_msg_free(reply);
}

/* Builds frame, header and payload in one message and sends it. Does not free the item. */
static void answer(struct item *item, enum lk_code status, const ProtobufCMessage *message,
                   const struct rpc_slice *payload, uint32_t n_payload)
{
    struct lk_envelope e = {.method = item->call.method, .status = (uint16_t)status, .call = item->id};
    nng_msg *reply;

    e.header_bytes = (uint32_t)protobuf_c_message_get_packed_size(message);
    for (uint32_t i = 0; i < n_payload; i++)
        e.payload_bytes += payload[i].bytes;
    size_t bytes = LK_ENVELOPE_BYTES + e.header_bytes + e.payload_bytes;
    if (nng_msg_alloc(&reply, bytes) != 0)
        return; /* out of memory: the caller asks again */
    uint8_t *at = nng_msg_body(reply);
    lk_envelope_put(&e, at);
    at += LK_ENVELOPE_BYTES;
    at += protobuf_c_message_pack(message, at);
    for (uint32_t i = 0; i < n_payload; i++) {
        if (payload[i].bytes > 0)
            memcpy(at, payload[i].data, payload[i].bytes);
        at += payload[i].bytes;
    }
    send_reply(item, reply, bytes);
}

static void answer_error(struct item *item, enum lk_code code, const char *detail,
                         const char *waited_for)
{
    Lk__Error error = LK__ERROR__INIT;
    /* protobuf-c's strings are not const, but packing only reads them. */
    error.detail = (char *)(uintptr_t)(detail == NULL ? "" : detail);
    error.waited_for = (char *)(uintptr_t)(waited_for == NULL ? "" : waited_for);
    answer(item, code, &error.base, NULL, 0);
}

/* What the owner is not bothered with: refusals and goodbyes. */
static void answer_own(struct item *item)
{
    static const Lk__CheckpointReply empty = {
        .base = PROTOBUF_C_MESSAGE_INIT(&lk__checkpoint_reply__descriptor)}; /* packs to nothing */

    if (item->kind == ITEM_GOODBYE)
        answer(item, LK_OK, &empty.base, NULL, 0);
    else
        answer_error(item, item->refusal,
                     item->refusal == LK_INVALID_ARGUMENT
                         ? "malformed message: its lengths do not add up to its size"
                         : "too many calls are waiting; try again later",
                     NULL);
}

bool rpc_server_next(struct rpc_server *server, struct rpc_event *ret_event)
{
    for (uint32_t own = 0; own < OWN_A_TURN; own++) {
        struct item *item = queue_take(server);
        if (item == NULL)
            return false;
        if (item->kind == ITEM_CALL) {
            *ret_event = (struct rpc_event){RPC_EVENT_CALL, &item->call, item->call.peer};
            return true;
        }
        bool gone = item->kind == ITEM_PEER_GONE;
        if (gone)
            *ret_event = (struct rpc_event){RPC_EVENT_PEER_GONE, NULL, item->call.peer};
        else
            answer_own(item);
        items_free(item);
        if (gone)
            return true;
    }
    return false;
}

static struct item *item_of(struct rpc_call *call)
{
    return (struct item *)(void *)call;
}

static void call_finish(struct item *item)
{
    struct rpc_server *s = item->server;

    (void)pthread_mutex_lock(&s->mutex);
    items_remove(item);
    peers_forget_call(&s->peers, item);
    s->n_calls--;
    s->n_strange -= item->strange;
    s->waiting_bytes -= nng_msg_len(item->request);
    (void)pthread_mutex_unlock(&s->mutex);
    items_free(item);
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message, const struct rpc_slice *payload,
               uint32_t n_payload)
{
    answer(item_of(call), LK_OK, message, payload, n_payload);
    call_finish(item_of(call));
}

void rpc_fail(struct rpc_call *call, enum lk_code code, const char *detail, const char *waited_for)
{
    answer_error(item_of(call), code, detail, waited_for);
    call_finish(item_of(call));
}

void rpc_drop(struct rpc_call *call)
{
    call_finish(item_of(call));
}

void rpc_server_stats(const struct rpc_server *server, struct rpc_stats *ret_stats)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&server->mutex;

    (void)pthread_mutex_lock(mutex);
    *ret_stats = server->stats;
    ret_stats->peers = server->n_callers;
    ret_stats->waiting = server->n_calls;
    ret_stats->displaced = sockets_displaced(server->sockets);
    (void)pthread_mutex_unlock(mutex);
}

/* ---- closing ---- */

static struct item *list_take(struct rpc_server *s, struct item_list *list)
{
    (void)pthread_mutex_lock(&s->mutex);
    struct item *item = items_first(list);
    if (item != NULL)
        items_remove(item);
    (void)pthread_mutex_unlock(&s->mutex);
    return item;
}

static void list_drain(struct rpc_server *s, struct item_list *list, bool answered)
{
    struct item *item;

    while ((item = list_take(s, list)) != NULL) {
        if (answered && item->kind != ITEM_PEER_GONE)
            answer_error(item, LK_UNAVAILABLE, "the server is shutting down", NULL);
        /* Still in its peer's list: nothing looks there any more, as no request is received now. */
        items_free(item);
    }
}

void rpc_server_close(struct rpc_server *server)
{
    if (server == NULL)
        return;
    sockets_stop(server->sockets);
    if (server->sockets != NULL) {
        list_drain(server, &server->queue, true);
        list_drain(server, &server->taken, true);
    }
    sockets_close(server->sockets);
    listening_done(&server->listening);
    free(server->peers.peer);
    if (server->wake >= 0)
        close(server->wake);
    (void)pthread_mutex_destroy(&server->mutex);
    free(server);
}
