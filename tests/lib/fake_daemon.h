/*
 * A daemon for tests of clients: the real service and hand-over sockets in a thread of their own, over
 * batches whose every value follows from (step, row, column). Faults are switched on by the test.
 */
#ifndef LK_TESTS_LIB_FAKE_DAEMON_H
#define LK_TESTS_LIB_FAKE_DAEMON_H

#include "base/mem.h"
#include "proto/batch.h"
#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "proto/training.h"
#include "rpc/handover.h"
#include "rpc/server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FAKE_ROWS 8u
#define FAKE_STEPS_SEEN 512
#define FAKE_HELD_MAX 256
#define FAKE_CLIENTS_MAX 64u
#define FAKE_WAITS_FOR "lane 3: docs/a.jsonl"

enum fake_fault {
    FAKE_NONE,
    FAKE_HOLD,      /* GetBatch waits until its deadline */
    FAKE_SILENT,    /* GetBatch is never answered */
    FAKE_DAMAGED,   /* GetBatch fails with DATA_LOSS */
    FAKE_BUSY,      /* every other GetBatch is RESOURCE_EXHAUSTED */
    FAKE_NO_HEAD,   /* malformed blocks, from here on */
    FAKE_BAD_MAGIC,
    FAKE_CUT,       /* payload ends in the tokens */
    FAKE_TOO_LONG,  /* claims more bytes than there are */
    FAKE_MANY_ROWS,
    FAKE_MANY_PARTS,
    FAKE_PART_OUTSIDE,
    FAKE_OTHER_STEP,
    FAKE_SHORT_DIGEST,
    FAKE_OUTSIDE,   /* shared: beyond the region */
    FAKE_NO_REGION, /* shared: a region that is not there */
    FAKE_STOPPING,  /* GetBatch and Digest fail with UNAVAILABLE */
    FAKE_SHORT_LIST, /* Digest gives a step too few */
    FAKE_HOLD_LATE,  /* Digest from step 128 on waits until its deadline */
    FAKE_TRAINING_OUTSIDE, /* training arrays: beyond the region */
    FAKE_TRAINING_ODD,     /* at an odd place */
    FAKE_TRAINING_SHORT,   /* of fewer bytes than they take */
    FAKE_TRAINING_LONG,    /* of more bytes than there are numbers for */
    FAKE_TRAINING_UNKNOWN, /* of a kind that does not exist */
    FAKE_TRAINING_INLINE,  /* with a batch that came inline */
    FAKE_TRAINING_OTHER    /* good ones, but not those that were asked for */
};

struct fake_slot {
    uint64_t step;
    bool filled;
    uint32_t holders;
};

struct fake_lease {
    uint64_t client;
    uint32_t slot;
    bool held;
};

struct fake_config {
    const char *address;  /* of the service */
    const char *handover; /* path; NULL: none */
    uint8_t digest;       /* every byte of the stream digest */
    uint32_t tokens;      /* T */
    uint32_t slots;
    uint64_t steps;       /* of the stream */
};

struct fake_daemon {
    struct fake_config config;
    struct rpc_server *rpc;
    struct handover *handover;
    pthread_t thread;
    int stop; /* eventfd */
    int memory;
    uint8_t *at;
    size_t slot_bytes, area_bytes; /* areas for training arrays lie behind the slots, one for each */
    struct fake_slot *slot;
    struct fake_lease *lease; /* number n at [n - 1] */
    uint32_t n_leases, lease_room;
    struct rpc_call *held[FAKE_HELD_MAX];
    uint32_t n_held, n_asked;
    uint64_t joined[FAKE_CLIENTS_MAX];
    bool silent; /* FAKE_SILENT: drop, do not expire */

    atomic_int fault;
    atomic_uint leases_held; /* now */
    atomic_uint trainings;   /* batches that came with training arrays */
    atomic_uint clients;     /* of the hand-over */
    atomic_uint asked[FAKE_STEPS_SEEN];
    atomic_uint refused;     /* FAKE_STOPPING: so many times */
    atomic_uint digests;     /* calls of Digest */
    atomic_uint digest_from; /* of the last of them */
    atomic_uint digest_ms;   /* its deadline */
};

static inline int64_t fake_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline uint32_t fake_token(uint64_t step, uint32_t row, uint32_t column)
{
    return (uint32_t)((step * 7919 + row * 131 + column) % 50000);
}

static inline size_t fake_block_bytes(uint32_t tokens)
{
    size_t tokens_at = (64 + FAKE_ROWS * 32 + 63) / 64 * 64;
    return tokens_at + (size_t)FAKE_ROWS * tokens * 4 + (size_t)FAKE_ROWS * 2 * 24;
}

/* Writes rows [first, first + rows) of a step as a block of their own; returns its length. */
static inline size_t fake_fill(uint8_t *to, uint64_t step, uint32_t first, uint32_t rows, uint32_t tokens)
{
    struct lk_batch_head head = {.magic = LK_BATCH_MAGIC, .rows = rows, .tokens = tokens,
                                 .first_row = first, .step = step, .n_parts = 2 * (uint64_t)rows};
    struct lk_batch_row *row = (struct lk_batch_row *)(void *)(to + sizeof head);

    head.tokens_at = (sizeof head + rows * sizeof *row + 63) / 64 * 64;
    head.parts_at = head.tokens_at + (uint64_t)rows * tokens * 4;
    head.bytes = head.parts_at + head.n_parts * sizeof(struct lk_batch_part);
    memset(to, 0, (size_t)head.tokens_at);
    memcpy(to, &head, sizeof head);
    uint32_t *ids = (uint32_t *)(void *)(to + head.tokens_at);
    struct lk_batch_part *part = (struct lk_batch_part *)(void *)(to + head.parts_at);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t half = tokens / 2;
        row[r] = (struct lk_batch_row){.first_part = 2 * r, .n_parts = 2, .used = tokens};
        part[2 * r] = (struct lk_batch_part){.row = step, .first = first + r, .tokens = half};
        part[2 * r + 1] = (struct lk_batch_part){.row = step + 1, .dataset = 1, .tokens = tokens - half};
        for (uint32_t j = 0; j < tokens; j++)
            ids[(size_t)r * tokens + j] = fake_token(step, first + r, j);
    }
    return (size_t)head.bytes;
}

/* ---- leases ---- */

static inline void fake_lease_end(struct fake_daemon *f, struct fake_lease *lease)
{
    if (!lease->held)
        return;
    lease->held = false;
    f->slot[lease->slot].holders--;
    atomic_fetch_sub(&f->leases_held, 1);
}

/* The place of @client among those that are connected; 0 finds a free one. NULL: none. */
static inline uint64_t *fake_client(struct fake_daemon *f, uint64_t client)
{
    for (uint32_t i = 0; i < FAKE_CLIENTS_MAX; i++) {
        if (f->joined[i] == client)
            return &f->joined[i];
    }
    return NULL;
}

static inline void fake_joined(void *owner, uint64_t client)
{
    struct fake_daemon *f = owner;
    *fake_client(f, 0) = client;
    atomic_fetch_add(&f->clients, 1);
}

static inline void fake_released(void *owner, uint64_t client, uint64_t lease)
{
    struct fake_daemon *f = owner;
    if (lease >= 1 && lease <= f->n_leases && f->lease[lease - 1].client == client)
        fake_lease_end(f, &f->lease[lease - 1]);
}

static inline void fake_gone(void *owner, uint64_t client)
{
    struct fake_daemon *f = owner;
    *fake_client(f, client) = 0;
    for (uint32_t i = 0; i < f->n_leases; i++) {
        if (f->lease[i].client == client)
            fake_lease_end(f, &f->lease[i]);
    }
    atomic_fetch_sub(&f->clients, 1);
}

static inline uint64_t fake_lease_new(struct fake_daemon *f, uint64_t client, uint32_t slot)
{
    if (f->n_leases == f->lease_room) {
        f->lease_room = f->lease_room == 0 ? 64 : 2 * f->lease_room;
        f->lease = lk_resize(f->lease, f->lease_room, sizeof *f->lease);
    }
    f->lease[f->n_leases++] = (struct fake_lease){client, slot, true};
    f->slot[slot].holders++;
    atomic_fetch_add(&f->leases_held, 1);
    return f->n_leases;
}

/* A slot with the whole step in it: one that has it, or a free one; -1: none. */
static inline int fake_slot_for(struct fake_daemon *f, uint64_t step)
{
    for (uint32_t i = 0; i < f->config.slots; i++) {
        if (f->slot[i].filled && f->slot[i].step == step)
            return (int)i;
    }
    for (uint32_t i = 0; i < f->config.slots; i++) {
        if (f->slot[i].holders == 0) {
            (void)fake_fill(f->at + i * f->slot_bytes, step, 0, FAKE_ROWS, f->config.tokens);
            f->slot[i] = (struct fake_slot){.step = step, .filled = true};
            return (int)i;
        }
    }
    return -1;
}

/* ---- answers ---- */

static inline void fake_hello(struct fake_daemon *f, struct rpc_call *call)
{
    static char version[] = "test", stream_name[] = "pretrain", docs[] = "docs", code[] = "code";
    char *datasets[] = {docs, code}, host[64] = "";
    uint8_t digest[16];
    Lk__BatchPhase phase = LK__BATCH_PHASE__INIT, *phases[] = {&phase};
    Lk__StreamInfo stream = LK__STREAM_INFO__INIT, *streams[] = {&stream};
    Lk__HelloReply reply = LK__HELLO_REPLY__INIT;
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (boot != NULL) {
        if (fgets(host, sizeof host, boot) == NULL)
            host[0] = '\0';
        (void)fclose(boot);
    }
    memset(digest, f->config.digest, sizeof digest);
    phase.size = FAKE_ROWS;
    stream.name = stream_name;
    stream.order_digest = stream.stream_digest = (ProtobufCBinaryData){sizeof digest, digest};
    stream.sequence = f->config.tokens;
    stream.lanes = 4;
    stream.vocab = 50000;
    stream.n_datasets = 2;
    stream.datasets = datasets;
    stream.n_batch = 1;
    stream.batch = phases;
    reply.protocol = 1;
    reply.version = version;
    reply.host = host;
    if (f->handover != NULL)
        reply.handover = (char *)(uintptr_t)f->config.handover;
    reply.n_streams = 1;
    reply.streams = streams;
    rpc_reply(call, &reply.base, NULL, 0);
}

static inline void fake_spoil_block(uint8_t *block, size_t *bytes, enum fake_fault fault)
{
    struct lk_batch_head *head = (struct lk_batch_head *)(void *)block;
    struct lk_batch_row *row = (struct lk_batch_row *)(void *)(block + sizeof *head);

    switch (fault) {
    case FAKE_NO_HEAD: *bytes = 63; break;
    case FAKE_BAD_MAGIC: head->magic ^= 1; break;
    case FAKE_CUT: *bytes = (size_t)head->tokens_at + 4; break;
    case FAKE_TOO_LONG: head->bytes = UINT64_MAX; break;
    case FAKE_MANY_ROWS: head->rows = UINT32_MAX; break;
    case FAKE_MANY_PARTS: head->n_parts = UINT64_MAX / 24 + 2; break;
    case FAKE_PART_OUTSIDE: row->first_part = UINT32_MAX; break;
    case FAKE_OTHER_STEP: head->step++; break;
    default: break;
    }
}

/* Makes the training arrays that are asked for, of all rows of the slot. */
static inline void fake_training(struct fake_daemon *f, const Lk__GetBatchRequest *q, uint32_t slot,
                                 Lk__GetBatchReply *reply)
{
    enum fake_fault fault = (enum fake_fault)atomic_load(&f->fault);
    struct lk_training_wish wish = {q->training, q->ignore_index};
    struct lk_training_layout layout;
    const uint8_t *block = f->at + slot * f->slot_bytes;
    const struct lk_batch_head *head = (const struct lk_batch_head *)(const void *)block;
    const struct lk_batch_row *row = (const struct lk_batch_row *)(const void *)(head + 1);
    const uint32_t *ids = (const uint32_t *)(const void *)(block + head->tokens_at);
    const struct lk_batch_part *part = (const struct lk_batch_part *)(const void *)(block + head->parts_at);

    if (wish.flags == 0)
        return;
    if (fault == FAKE_TRAINING_OTHER)
        wish.flags ^= LK_TRAINING_DOCUMENT_IDS;
    atomic_fetch_add(&f->trainings, 1);
    reply->training_offset = f->slot_bytes * f->config.slots + slot * f->area_bytes;
    lk_training_layout(&wish, FAKE_ROWS, f->config.tokens, &layout);
    for (uint32_t r = 0; r < FAKE_ROWS; r++)
        lk_training_row(&wish, &layout, f->at + reply->training_offset, r, ids + (size_t)r * head->tokens,
                        &row[r], part + row[r].first_part);
    reply->training = fault == FAKE_TRAINING_UNKNOWN ? wish.flags | 0x200 : wish.flags;
    reply->ignore_index = wish.ignore_index;
    reply->training_bytes = layout.bytes;
    if (fault == FAKE_TRAINING_OUTSIDE)
        reply->training_offset = UINT64_MAX - 63;
    if (fault == FAKE_TRAINING_ODD)
        reply->training_offset += 8;
    if (fault == FAKE_TRAINING_SHORT)
        reply->training_bytes -= 64;
    if (fault == FAKE_TRAINING_LONG)
        reply->training_bytes = UINT64_MAX - reply->training_offset + 65;
}

static inline void fake_batch(struct fake_daemon *f, struct rpc_call *call, const Lk__GetBatchRequest *q)
{
    enum fake_fault fault = (enum fake_fault)atomic_load(&f->fault);
    uint8_t digest[16];
    Lk__GetBatchReply reply = LK__GET_BATCH_REPLY__INIT;
    uint32_t first = FAKE_ROWS * q->rank / q->world, end = FAKE_ROWS * (q->rank + 1) / q->world;
    /* A client that left while its call was on the way gets no lease: nobody would end it. */
    bool joined = q->client_id != 0 && fake_client(f, q->client_id) != NULL;
    int slot = joined ? fake_slot_for(f, q->step) : -1;
    struct rpc_slice slice = {NULL, 0};
    uint8_t *block = NULL;

    memset(digest, (int)(q->step & 255), sizeof digest);
    reply.step = q->step;
    reply.first_row = first;
    reply.rows = end - first;
    reply.global_rows = FAKE_ROWS;
    reply.sequence = f->config.tokens;
    reply.digest = (ProtobufCBinaryData){fault == FAKE_SHORT_DIGEST ? 15 : 16, digest};
    if (slot >= 0) {
        reply.shared = 1;
        reply.region = fault == FAKE_NO_REGION ? 9 : 0;
        reply.offset = (uint64_t)slot * f->slot_bytes;
        reply.bytes = f->slot_bytes;
        if (fault == FAKE_OUTSIDE)
            reply.offset = UINT64_MAX - 7;
        reply.lease = fake_lease_new(f, q->client_id, (uint32_t)slot);
        fake_training(f, q, (uint32_t)slot, &reply);
    } else {
        reply.training = fault == FAKE_TRAINING_INLINE ? LK_TRAINING_WANTED | LK_TRAINING_OF_ROW : 0;
        block = lk_alloc(f->slot_bytes);
        slice = (struct rpc_slice){block, fake_fill(block, q->step, first, end - first, f->config.tokens)};
        fake_spoil_block(block, &slice.bytes, fault);
    }
    rpc_reply(call, &reply.base, &slice, 1);
    free(block);
}

/* A GetBatch that is not served with a batch; false: serve it. */
static inline bool fake_get_fails(struct fake_daemon *f, struct rpc_call *call, const Lk__GetBatchRequest *q)
{
    enum fake_fault fault = (enum fake_fault)atomic_load(&f->fault);
    char text[64];

    if (q->step < FAKE_STEPS_SEEN)
        atomic_fetch_add(&f->asked[q->step], 1);
    if (q->step >= f->config.steps) {
        (void)snprintf(text, sizeof text, "the stream has %lu steps", f->config.steps);
        rpc_fail(call, LK_OUT_OF_RANGE, text, NULL);
    } else if ((fault == FAKE_HOLD || fault == FAKE_SILENT) && f->n_held < FAKE_HELD_MAX) {
        f->held[f->n_held++] = call;
    } else if (fault == FAKE_DAMAGED) {
        rpc_fail(call, LK_DATA_LOSS, "docs/a.jsonl: block 3 has changed", NULL);
    } else if (fault == FAKE_STOPPING) {
        atomic_fetch_add(&f->refused, 1);
        rpc_fail(call, LK_UNAVAILABLE, "the daemon is stopping", "");
    } else if (fault == FAKE_BUSY && f->n_asked++ % 2 == 0) {
        rpc_fail(call, LK_RESOURCE_EXHAUSTED, "too many calls", NULL);
    } else {
        return false;
    }
    return true;
}

static inline void fake_get(struct fake_daemon *f, struct rpc_call *call)
{
    Lk__GetBatchRequest *q = lk__get_batch_request__unpack(NULL, call->header_bytes, call->header);
    if (q == NULL)
        rpc_fail(call, LK_INVALID_ARGUMENT, "malformed GetBatch", NULL);
    else if (!fake_get_fails(f, call, q))
        fake_batch(f, call, q);
    if (q != NULL)
        lk__get_batch_request__free_unpacked(q, NULL);
}

static inline void fake_digest_answer(struct rpc_call *call, uint64_t from, uint64_t to)
{
    Lk__DigestReply reply = LK__DIGEST_REPLY__INIT;
    uint8_t bytes[64][16];
    ProtobufCBinaryData digests[64];

    for (uint64_t s = from; s < to && s - from < 64; s++) {
        memset(bytes[s - from], (int)(s & 255), 16);
        digests[reply.n_steps++] = (ProtobufCBinaryData){16, bytes[s - from]};
    }
    reply.steps = digests;
    rpc_reply(call, &reply.base, NULL, 0);
}

static inline void fake_digest(struct fake_daemon *f, struct rpc_call *call)
{
    enum fake_fault fault = (enum fake_fault)atomic_load(&f->fault);
    Lk__DigestRequest *q = lk__digest_request__unpack(NULL, call->header_bytes, call->header);

    atomic_store(&f->digest_from, (unsigned)q->from);
    atomic_store(&f->digest_ms, (unsigned)(call->deadline_ms - call->received_ms));
    atomic_fetch_add(&f->digests, 1);
    if (fault == FAKE_HOLD_LATE && q->from >= 128 && f->n_held < FAKE_HELD_MAX)
        f->held[f->n_held++] = call;
    else if (fault == FAKE_STOPPING)
        rpc_fail(call, LK_UNAVAILABLE, "the daemon is stopping", "");
    else
        fake_digest_answer(call, q->from, fault == FAKE_SHORT_LIST ? q->to - 1 : q->to);
    lk__digest_request__free_unpacked(q, NULL);
}

static inline void fake_trace(struct rpc_call *call)
{
    static char docs[] = "docs", shard[] = "a.jsonl";
    Lk__TraceReply reply = LK__TRACE_REPLY__INIT;
    Lk__TracePart part = LK__TRACE_PART__INIT, *parts[] = {&part};

    part.dataset = docs;
    part.shard = shard;
    part.row_in_shard = 17;
    part.tokens = 9;
    reply.n_parts = 1;
    reply.parts = parts;
    rpc_reply(call, &reply.base, NULL, 0);
}

static inline void fake_status(struct rpc_call *call)
{
    static char json[] = "{\"streams\":[]}";
    Lk__StatusReply reply = LK__STATUS_REPLY__INIT;
    reply.json = json;
    rpc_reply(call, &reply.base, NULL, 0);
}

static inline void fake_call(struct fake_daemon *f, struct rpc_call *call)
{
    switch (call->method) {
    case LK_METHOD_HELLO: fake_hello(f, call); break;
    case LK_METHOD_GET_BATCH: fake_get(f, call); break;
    case LK_METHOD_DIGEST: fake_digest(f, call); break;
    case LK_METHOD_TRACE: fake_trace(call); break;
    case LK_METHOD_STATUS: fake_status(call); break;
    default: rpc_fail(call, LK_UNIMPLEMENTED, "no such method", NULL);
    }
}

/* Ends held calls that are due or whose peer is gone (@peer not 0); returns ms to the next one. */
static inline int fake_expire(struct fake_daemon *f, uint32_t peer)
{
    int64_t now = fake_now_ms(), next = now + 1000;
    uint32_t kept = 0;
    bool silent = atomic_load(&f->fault) == FAKE_SILENT;

    for (uint32_t i = 0; i < f->n_held; i++) {
        struct rpc_call *call = f->held[i];
        if (peer != 0 && call->peer == peer) {
            rpc_drop(call);
        } else if (call->deadline_ms <= now && !silent) {
            rpc_fail(call, LK_DEADLINE_EXCEEDED, "not ready", FAKE_WAITS_FOR);
        } else {
            if (!silent && call->deadline_ms < next)
                next = call->deadline_ms;
            f->held[kept++] = call;
        }
    }
    f->n_held = kept;
    return (int)(next - now);
}

static inline void *fake_run(void *arg)
{
    struct fake_daemon *f = arg;
    struct rpc_event event;
    struct pollfd p[] = {{.fd = f->stop, .events = POLLIN},
                         {.fd = rpc_server_fd(f->rpc), .events = POLLIN},
                         {.fd = f->handover == NULL ? -1 : handover_fd(f->handover), .events = POLLIN}};

    do {
        if (f->handover != NULL)
            handover_poll(f->handover);
        while (rpc_server_next(f->rpc, &event)) {
            if (event.kind == RPC_EVENT_CALL)
                fake_call(f, event.call);
            else
                (void)fake_expire(f, event.peer);
        }
        (void)poll(p, 3, fake_expire(f, 0));
    } while (p[0].revents == 0);
    return NULL;
}

static inline void fake_memory(struct fake_daemon *f)
{
    size_t bytes = (f->slot_bytes + f->area_bytes) * f->config.slots;
    f->memory = memfd_create("lk-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    LK_CHECK(f->memory >= 0 && ftruncate(f->memory, (off_t)bytes) == 0);
    f->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->memory, 0);
    LK_CHECK(f->at != MAP_FAILED);
    LK_CHECK(fcntl(f->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
}

static inline struct fake_daemon *fake_start(const struct fake_config *config)
{
    static const struct handover_ops ops = {fake_joined, fake_released, fake_gone};
    struct fake_daemon *f = lk_zalloc(1, sizeof *f);
    const char *listen_on[] = {config->address};
    struct rpc_config rpc = {.listen = listen_on, .n_listen = 1, .message_max = 65536,
                             .calls_max = 1024, .socket_mode = 0600};
    struct lk_err err = {0};

    f->config = *config;
    f->slot_bytes = (fake_block_bytes(config->tokens) + 4095) / 4096 * 4096;
    f->area_bytes = (lk_training_bytes_max(FAKE_ROWS, config->tokens) + 4095) / 4096 * 4096;
    f->slot = lk_zalloc(config->slots, sizeof *f->slot);
    f->stop = eventfd(0, EFD_CLOEXEC);
    f->memory = -1;
    if (rpc_server_open(&rpc, &f->rpc, &err) != LK_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    if (config->handover != NULL) {
        fake_memory(f);
        uint64_t bytes = (f->slot_bytes + f->area_bytes) * config->slots;
        struct handover_config h = {.path = config->handover, .socket_mode = 0600, .regions = &f->memory,
                                    .region_bytes = &bytes, .n_regions = 1, .clients_max = FAKE_CLIENTS_MAX,
                                    .ops = &ops, .owner = f};
        LK_CHECK(handover_open(&h, &f->handover, &err) == LK_OK);
    }
    LK_CHECK(pthread_create(&f->thread, NULL, fake_run, f) == 0);
    return f;
}

/* Ends it as a crash would look to its clients: nothing is answered, memory is not given back. */
static inline void fake_stop(struct fake_daemon *f)
{
    uint64_t one = 1;
    LK_CHECK(write(f->stop, &one, sizeof one) == sizeof one);
    (void)pthread_join(f->thread, NULL);
    handover_close(f->handover);
    rpc_server_close(f->rpc);
    if (f->at != NULL)
        (void)munmap(f->at, (f->slot_bytes + f->area_bytes) * f->config.slots);
    if (f->memory >= 0)
        close(f->memory);
    close(f->stop);
    free(f->slot);
    free(f->lease);
    free(f);
}

#endif
