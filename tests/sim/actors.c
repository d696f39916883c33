/* Trainers: what they ask for, and when they give back, leave and come again. */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MODE_RUN, MODE_JUMP, MODE_NEAR, MODES };

static const struct sim_recipe *recipe_of(const struct sim *sim, const struct sim_trainer *trainer)
{
    return &sim->of.recipe[trainer->stream];
}

static uint32_t smallest_step(const struct sim *sim, const struct sim_trainer *trainer)
{
    const struct sim_recipe *recipe = recipe_of(sim, trainer);
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        if (recipe->batch[i].size < least)
            least = recipe->batch[i].size;
    return least;
}

/* Another world goes on somewhere: where the last one was, back at a checkpoint, or anywhere. */
static void move(struct sim *sim, struct sim_trainer *trainer)
{
    struct rng *rng = &sim->rng;
    uint64_t horizon = recipe_of(sim, trainer)->horizon, step = trainer->step[0];
    uint32_t most = smallest_step(sim, trainer);
    trainer->world = rng_chance(rng, 300)   ? 1
                     : rng_chance(rng, 950) ? (uint32_t)rng_range(rng, 1, most)
                                            : most + 1;
    if (rng_chance(rng, 300))
        step = rng_below(rng, horizon);
    else if (rng_chance(rng, 300))
        step -= rng_below(rng, step + 1);
    for (uint32_t r = 0; r < SIM_RANKS_MAX; r++)
        trainer->step[r] = step;
    sim_note(sim, "trainer %u: world %u from step %" PRIu64, (unsigned)(trainer - sim->trainer), trainer->world,
             step);
}

void actors_begin(struct sim *sim)
{
    sim->trainer = lk_zalloc(sim->of.trainers, sizeof *sim->trainer);
    for (uint32_t i = 0; i < sim->of.trainers; i++) {
        struct sim_trainer *trainer = &sim->trainer[i];
        trainer->stream = (uint32_t)rng_below(&sim->rng, sim->of.n_streams);
        trainer->peer = ++sim->last_peer;
        trainer->mode = rng_chance(&sim->rng, 600) ? MODE_RUN : (int)rng_below(&sim->rng, MODES);
        if (sim->of.plant && rng_chance(&sim->rng, 500))
            trainer->mode = MODE_JUMP;
        trainer->keeps = rng_chance(&sim->rng, 200);
        move(sim, trainer);
    }
}

static uint32_t any_trainer(struct sim *sim)
{
    return (uint32_t)rng_below(&sim->rng, sim->of.trainers);
}

void actor_moves(struct sim *sim)
{
    move(sim, &sim->trainer[any_trainer(sim)]);
}

/* Asking ---------------------------------------------------------------------------------------- */

static void set_deadline(struct sim *sim, struct sim_call *call)
{
    bool soon = !sim->calm && rng_chance(&sim->rng, 200);
    call->call.deadline_ms = sim->now_ms + (int64_t)(soon ? rng_range(&sim->rng, 1, 500) : 600000);
}

/* Which rank asks next: mostly one that is behind. */
static uint32_t next_rank(struct sim *sim, const struct sim_trainer *trainer)
{
    uint32_t rank = (uint32_t)rng_below(&sim->rng, trainer->world), from = rank;
    for (uint32_t i = 0; i < trainer->world && rng_chance(&sim->rng, 950); i++) {
        uint32_t r = (from + i) % trainer->world;
        if (trainer->step[r] < trainer->step[rank])
            rank = r;
    }
    return rank;
}

static uint64_t next_step(struct sim *sim, struct sim_trainer *trainer, uint32_t rank)
{
    struct rng *rng = &sim->rng;
    uint64_t horizon = recipe_of(sim, trainer)->horizon;
    if (trainer->mode == MODE_JUMP)
        return rng_below(rng, horizon);
    uint64_t step = trainer->step[rank];
    if (trainer->mode == MODE_NEAR)
        step = step + rng_below(rng, 4) - (step >= 2 ? 2 : 0);
    if (rng_chance(rng, 850))
        trainer->step[rank]++;
    if (step < horizon)
        return step;
    return trainer->step[rank] = rng_below(rng, horizon);
}

static size_t pack_get(struct sim *sim, struct sim_call *call, uint64_t step, uint32_t rank, uint32_t world,
                       const char *stream, size_t digest_bytes)
{
    Lk__GetBatchRequest get = LK__GET_BATCH_REQUEST__INIT;
    uint8_t digest[16];
    lk_digest_put((struct lk_digest){.lo = call->stream, .hi = call->bad != 0 ? 9 : 8}, digest);
    get.stream = (char *)(uintptr_t)stream;
    get.step = step;
    get.rank = rank;
    get.world = world;
    get.client_id = call->client;
    get.stream_digest = (ProtobufCBinaryData){.data = digest, .len = digest_bytes};
    if (protobuf_c_message_get_packed_size(&get.base) > sizeof call->header)
        sim_fail(sim, "actors: a request does not fit");
    return lk__get_batch_request__pack(&get, call->header);
}

static void ask_batch(struct sim *sim, uint32_t i)
{
    struct sim_trainer *trainer = &sim->trainer[i];
    uint32_t rank = next_rank(sim, trainer), world = trainer->world;
    uint64_t step = next_step(sim, trainer, rank);
    uint32_t size = oracle_size(sim->oracle[trainer->stream], step);
    struct sim_call *call =
        fake_call_new(sim, i, world <= size ? CALL_GET : CALL_BAD, LK_METHOD_GET_BATCH);
    const char *name = sim->of.n_streams > 1 || rng_chance(&sim->rng, 500) ? recipe_of(sim, trainer)->name : "";
    call->step = step;
    call->client = trainer->client;
    if (world <= size)
        oracle_cut(size, rank, world, &call->first, &call->rows);
    size_t n = pack_get(sim, call, step, rank, world, name, rng_chance(&sim->rng, 500) ? 16 : 0);
    if (world > size)
        call->bad = LK_INVALID_ARGUMENT;
    set_deadline(sim, call);
    fake_call_send(sim, call, n);
}

static void ask_trace(struct sim *sim, uint32_t i)
{
    struct sim_trainer *trainer = &sim->trainer[i];
    struct sim_call *call = fake_call_new(sim, i, CALL_TRACE, LK_METHOD_TRACE);
    Lk__TraceRequest trace = LK__TRACE_REQUEST__INIT;
    call->step = rng_below(&sim->rng, recipe_of(sim, trainer)->horizon);
    uint32_t size = oracle_size(sim->oracle[trainer->stream], call->step);
    call->first = (uint32_t)rng_below(&sim->rng, size);
    call->rows = (uint32_t)rng_range(&sim->rng, 1, size - call->first);
    trace.stream = (char *)(uintptr_t)recipe_of(sim, trainer)->name;
    trace.step = call->step;
    trace.first_row = call->first;
    trace.rows = call->first + call->rows == size && rng_chance(&sim->rng, 500) ? 0 : call->rows;
    set_deadline(sim, call);
    fake_call_send(sim, call, lk__trace_request__pack(&trace, call->header));
}

static void ask_digests(struct sim *sim, uint32_t i)
{
    struct sim_trainer *trainer = &sim->trainer[i];
    struct sim_call *call = fake_call_new(sim, i, CALL_DIGEST, LK_METHOD_DIGEST);
    Lk__DigestRequest digest = LK__DIGEST_REQUEST__INIT;
    uint64_t horizon = recipe_of(sim, trainer)->horizon;
    call->step = rng_below(&sim->rng, horizon);
    call->to = rng_range(&sim->rng, call->step + 1, horizon);
    digest.stream = (char *)(uintptr_t)recipe_of(sim, trainer)->name;
    digest.from = call->step;
    digest.to = call->to;
    set_deadline(sim, call);
    fake_call_send(sim, call, lk__digest_request__pack(&digest, call->header));
}

static void ask_small(struct sim *sim, uint32_t i)
{
    static const struct {
        enum sim_call_kind kind;
        uint16_t method;
    } small[] = {{CALL_CHECKPOINT, LK_METHOD_CHECKPOINT}, {CALL_STATUS, LK_METHOD_STATUS}};
    uint32_t what = (uint32_t)rng_below(&sim->rng, 2);
    struct sim_call *call = fake_call_new(sim, i, small[what].kind, small[what].method);
    Lk__CheckpointRequest ask = LK__CHECKPOINT_REQUEST__INIT;
    ask.stream = (char *)(uintptr_t)recipe_of(sim, &sim->trainer[i])->name;
    set_deadline(sim, call);
    fake_call_send(sim, call, lk__checkpoint_request__pack(&ask, call->header));
}

/* What must be refused, and how. */
static void ask_badly(struct sim *sim, uint32_t i)
{
    struct sim_call *call = fake_call_new(sim, i, CALL_BAD, LK_METHOD_GET_BATCH);
    const char *name = recipe_of(sim, &sim->trainer[i])->name;
    size_t n = 0;
    set_deadline(sim, call);
    call->bad = LK_INVALID_ARGUMENT;
    switch (rng_below(&sim->rng, 7)) {
    case 0:
        n = pack_get(sim, call, 0, 3, 3, name, 0);
        break;
    case 1:
        n = pack_get(sim, call, 1ull << 46, 0, 1, name, 0);
        break;
    case 2:
        n = pack_get(sim, call, 0, 0, 0, name, 0);
        break;
    case 3:
        n = pack_get(sim, call, 0, 0, 1, name, 15);
        break;
    case 4:
        call->bad = LK_FAILED_PRECONDITION;
        n = pack_get(sim, call, 0, 0, 1, name, 16);
        break;
    case 5:
        call->bad = LK_NOT_FOUND;
        n = pack_get(sim, call, 0, 0, 1, "nobody", 0);
        break;
    default:
        memset(call->header, 0xff, n = 12);
    }
    fake_call_send(sim, call, n);
}

void actor_wants(struct sim *sim, uint32_t trainer, uint64_t step)
{
    sim->trainer[trainer].mode = MODE_RUN;
    sim->trainer[trainer].world = 1;
    sim->trainer[trainer].step[0] = step;
    ask_batch(sim, trainer);
}

void actor_asks(struct sim *sim)
{
    uint32_t i = any_trainer(sim);
    uint64_t what = rng_below(&sim->rng, 100);
    if (sim->n_calls > 60)
        return;
    if (what < 88)
        ask_batch(sim, i);
    else if (what < 92)
        ask_trace(sim, i);
    else if (what < 96)
        ask_digests(sim, i);
    else if (what < 98)
        ask_small(sim, i);
    else
        ask_badly(sim, i);
}

/* Shared memory --------------------------------------------------------------------------------- */

static void remove_lease(struct sim *sim, uint32_t i)
{
    check_lease(sim, &sim->lease[i]);
    sim->lease[i] = sim->lease[--sim->n_leases];
}

void actor_releases(struct sim *sim)
{
    if (sim->n_leases == 0 || sim->client_ops == NULL)
        return;
    uint32_t i = (uint32_t)rng_below(&sim->rng, sim->n_leases);
    struct sim_lease lease = sim->lease[i];
    if (sim->trainer[lease.trainer].keeps)
        return;
    remove_lease(sim, i);
    sim_note(sim, "lease %" PRIx64 " of client %" PRIu64 " is given back", lease.lease, lease.client);
    sim->client_ops->released(sim->client_owner, lease.client, lease.lease);
    if (rng_chance(&sim->rng, 100)) /* twice, and what was never had */
        sim->client_ops->released(sim->client_owner, lease.client, lease.lease);
    if (rng_chance(&sim->rng, 100))
        sim->client_ops->released(sim->client_owner, lease.client, rng_next(&sim->rng));
}

static void leave(struct sim *sim, struct sim_trainer *trainer)
{
    for (uint32_t i = sim->n_leases; i-- > 0;)
        if (sim->lease[i].client == trainer->client)
            remove_lease(sim, i);
    sim_note(sim, "client %" PRIu64 " is gone", trainer->client);
    sim->client_ops->gone(sim->client_owner, trainer->client);
    trainer->client = 0;
}

void actor_joins_or_leaves(struct sim *sim)
{
    struct sim_trainer *trainer = &sim->trainer[any_trainer(sim)];
    if (sim->client_ops == NULL)
        return;
    if (trainer->client != 0) {
        leave(sim, trainer);
        return;
    }
    trainer->client = ++sim->last_client;
    sim_note(sim, "client %" PRIu64 " joins", trainer->client);
    sim->client_ops->joined(sim->client_owner, trainer->client);
}

/* The connection of the calls, which is another one than that of shared memory. */
void actor_drops(struct sim *sim)
{
    struct sim_trainer *trainer = &sim->trainer[any_trainer(sim)];
    sim_note(sim, "peer %u is gone", trainer->peer);
    fake_peer_gone(sim, trainer->peer);
    trainer->peer = ++sim->last_peer;
}
