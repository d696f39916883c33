/*
 * rpc/server.h and rpc/handover.h: trainers without sockets. Every answer goes to check.c. Batch memory is
 * mapped read-only, from the descriptor, as a trainer maps it.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RPC_FD 1
#define HANDOVER_FD 2

struct rpc_server {
    uint32_t calls_max;
};

enum lk_code rpc_server_open(const struct rpc_config *config, struct rpc_server **ret_server,
                             struct lk_err *err)
{
    (void)err;
    *ret_server = lk_zalloc(1, sizeof **ret_server);
    (*ret_server)->calls_max = config->calls_max;
    return LK_OK;
}

void rpc_server_close(struct rpc_server *server)
{
    free(server);
}

const char *rpc_server_address(const struct rpc_server *server, uint32_t i)
{
    (void)server;
    (void)i;
    return "sim:";
}

int rpc_server_fd(const struct rpc_server *server)
{
    (void)server;
    return RPC_FD;
}

void rpc_server_stats(const struct rpc_server *server, struct rpc_stats *ret_stats)
{
    (void)server;
    *ret_stats = (struct rpc_stats){.waiting = sim_now()->n_calls};
}

/* Calls ----------------------------------------------------------------------------------------- */

struct sim_call *fake_call_new(struct sim *sim, uint32_t trainer, enum sim_call_kind kind, uint16_t method)
{
    struct sim_call *call = lk_zalloc(1, sizeof *call);
    call->kind = kind;
    call->serial = ++sim->last_call;
    call->trainer = trainer;
    call->stream = sim->trainer[trainer].stream;
    call->call.method = method;
    call->call.peer = sim->trainer[trainer].peer;
    call->call.header = call->header;
    call->call.received_ms = sim->now_ms;
    return call;
}

void fake_call_send(struct sim *sim, struct sim_call *call, size_t header_bytes)
{
    call->call.header_bytes = header_bytes;
    if (sim->n_calls == sim->cap_calls) {
        sim->cap_calls = sim->cap_calls == 0 ? 64 : 2 * sim->cap_calls;
        sim->call = lk_resize(sim->call, sim->cap_calls, sizeof(struct sim_call *));
    }
    sim->call[sim->n_calls++] = call;
    sim_note(sim, "call %" PRIu64 " of trainer %u (peer %u): method %u stream %u step %" PRIu64 " rows %u+%u",
             call->serial, call->trainer, call->call.peer, call->call.method, call->stream, call->step,
             call->first, call->rows);
}

void fake_peer_gone(struct sim *sim, uint32_t peer)
{
    if (sim->n_gone == sim->cap_gone) {
        sim->cap_gone = sim->cap_gone == 0 ? 8 : 2 * sim->cap_gone;
        sim->gone = lk_resize(sim->gone, sim->cap_gone, sizeof *sim->gone);
    }
    sim->gone[sim->n_gone++] = (struct rpc_event){.kind = RPC_EVENT_PEER_GONE, .peer = peer};
}

bool fake_something_to_hear(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_calls; i++)
        if (!sim->call[i]->heard)
            return true;
    return sim->n_gone > 0;
}

bool rpc_server_next(struct rpc_server *server, struct rpc_event *ret_event)
{
    struct sim *sim = sim_now();
    (void)server;
    for (uint32_t i = 0; i < sim->n_calls; i++)
        if (!sim->call[i]->heard) {
            sim->call[i]->heard = true;
            *ret_event = (struct rpc_event){
                .kind = RPC_EVENT_CALL, .call = &sim->call[i]->call, .peer = sim->call[i]->call.peer};
            return true;
        }
    if (sim->n_gone == 0)
        return false;
    *ret_event = sim->gone[--sim->n_gone];
    return true;
}

static struct sim_call *take_call(struct sim *sim, struct rpc_call *call)
{
    for (uint32_t i = 0; i < sim->n_calls; i++)
        if (&sim->call[i]->call == call) {
            struct sim_call *of = sim->call[i];
            memmove(&sim->call[i], &sim->call[i + 1], (sim->n_calls - i - 1) * sizeof(struct sim_call *));
            sim->n_calls--;
            return of;
        }
    sim_fail(sim, "rpc: a call is answered that there is not");
}

void fake_rpc_forget(struct sim *sim)
{
    while (sim->n_calls > 0)
        free(sim->call[--sim->n_calls]);
    sim->n_gone = 0;
}

/* Answers --------------------------------------------------------------------------------------- */

static uint8_t *whole_payload(const struct rpc_slice *payload, uint32_t n, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += payload[i].bytes;
    uint8_t *whole = lk_alloc(bytes + 1), *to = whole;
    for (uint32_t i = 0; i < n; i++) {
        if (payload[i].bytes > 0)
            memcpy(to, payload[i].data, payload[i].bytes);
        to += payload[i].bytes;
    }
    *ret_bytes = bytes;
    return whole;
}

static void note_lease(struct sim *sim, const struct sim_call *call, const Lk__GetBatchReply *reply)
{
    if (sim->n_leases == sim->cap_leases) {
        sim->cap_leases = sim->cap_leases == 0 ? 16 : 2 * sim->cap_leases;
        sim->lease = lk_resize(sim->lease, sim->cap_leases, sizeof *sim->lease);
    }
    struct sim_lease *lease = &sim->lease[sim->n_leases++];
    *lease = (struct sim_lease){.trainer = call->trainer,
                                .stream = call->stream,
                                .client = call->client,
                                .lease = reply->lease,
                                .step = call->step,
                                .offset = reply->offset,
                                .first = call->first,
                                .rows = call->rows};
    lease->hash = check_lease_hash(sim, lease);
}

static void receive_batch(struct sim *sim, const struct sim_call *call, const Lk__GetBatchReply *reply,
                          const struct rpc_slice *payload, uint32_t n)
{
    if (reply->shared) {
        if (call->client == 0 || reply->region != call->stream || reply->lease == 0 || n != 0 ||
            reply->offset + reply->bytes > sim->region_bytes[call->stream])
            sim_fail(sim, "call %" PRIu64 ": a shared batch out of place", call->serial);
        check_batch(sim, call, reply, sim->region[call->stream] + reply->offset, reply->bytes);
        note_lease(sim, call, reply);
        return;
    }
    uint64_t bytes;
    uint8_t *block = whole_payload(payload, n, &bytes);
    check_batch(sim, call, reply, block, bytes);
    free(block);
}

static void receive(struct sim *sim, const struct sim_call *call, const ProtobufCMessage *message,
                    const struct rpc_slice *payload, uint32_t n)
{
    const ProtobufCMessageDescriptor *kind = message->descriptor;
    sim->answers++;
    if (call->kind == CALL_GET && kind == &lk__get_batch_reply__descriptor)
        receive_batch(sim, call, (const Lk__GetBatchReply *)message, payload, n);
    else if (call->kind == CALL_TRACE && kind == &lk__trace_reply__descriptor)
        check_trace(sim, call, (const Lk__TraceReply *)message);
    else if (call->kind == CALL_DIGEST && kind == &lk__digest_reply__descriptor)
        check_digests(sim, call, (const Lk__DigestReply *)message);
    else if (call->kind != CALL_HELLO && call->kind != CALL_CHECKPOINT && call->kind != CALL_STATUS)
        sim_fail(sim, "call %" PRIu64 ": answered with %s", call->serial, kind->name);
}

void rpc_reply(struct rpc_call *of, const ProtobufCMessage *message, const struct rpc_slice *payload,
               uint32_t n_payload)
{
    struct sim *sim = sim_now();
    struct sim_call *call = take_call(sim, of);
    sim_note(sim, "call %" PRIu64 " is answered: %s", call->serial, message->descriptor->short_name);
    receive(sim, call, message, payload, n_payload);
    free(call);
}

void rpc_fail(struct rpc_call *of, enum lk_code code, const char *detail, const char *waited_for)
{
    struct sim *sim = sim_now();
    struct sim_call *call = take_call(sim, of);
    sim_note(sim, "call %" PRIu64 " is refused: %s %s %s", call->serial, lk_code_name(code), detail, waited_for);
    sim->refusals++;
    check_refusal(sim, call, code, detail);
    free(call);
}

void rpc_drop(struct rpc_call *of)
{
    struct sim *sim = sim_now();
    struct sim_call *call = take_call(sim, of);
    if (sim->trainer[call->trainer].peer == call->call.peer)
        sim_fail(sim, "call %" PRIu64 ": dropped, but its peer is there", call->serial);
    free(call);
}

/* Hand-over ------------------------------------------------------------------------------------- */

struct handover {
    uint32_t regions;
};

enum lk_code handover_open(const struct handover_config *config, struct handover **ret_handover,
                           struct lk_err *err)
{
    struct sim *sim = sim_now();
    (void)err;
    *ret_handover = lk_zalloc(1, sizeof **ret_handover);
    (*ret_handover)->regions = config->n_regions;
    sim->client_ops = config->ops;
    sim->client_owner = config->owner;
    for (uint32_t s = 0; s < config->n_regions; s++) {
        void *map = mmap(NULL, config->region_bytes[s], PROT_READ, MAP_SHARED, config->regions[s], 0);
        if (map == MAP_FAILED)
            sim_fail(sim, "handover: cannot map batch memory");
        sim->region[s] = map;
        sim->region_bytes[s] = config->region_bytes[s];
    }
    return LK_OK;
}

void handover_close(struct handover *handover)
{
    struct sim *sim = sim_now();
    for (uint32_t s = 0; handover != NULL && s < handover->regions; s++) {
        munmap((void *)(uintptr_t)sim->region[s], sim->region_bytes[s]);
        sim->region[s] = NULL;
    }
    sim->client_ops = NULL;
    free(handover);
}

int handover_fd(const struct handover *handover)
{
    (void)handover;
    return HANDOVER_FD;
}

void handover_poll(struct handover *handover)
{
    (void)handover;
}

void fake_leases_forget(struct sim *sim)
{
    sim->n_leases = 0;
    for (uint32_t i = 0; i < sim->of.trainers; i++)
        sim->trainer[i].client = 0;
}
