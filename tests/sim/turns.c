/*
 * More far steps than cursors, and nothing kept of what was done: others ask without end for steps that
 * mostly take longer than the shortest turn (host/places.c), and whoever has asked for the furthest one gets
 * it all the same, in a time that has to do with how long it takes alone.
 */
#include "sim.h"

#define ALONE_MS 20000 /* what the furthest step takes by itself */
#define DUE_MS 300000
#define ASK_MS 10000   /* a client asks anew so often */
#define TASKS_MIN 20
#define TASKS_MAX 20000

enum { FAR, OTHER };

void turns_case(struct sim_case *sim)
{
    sim->n_streams = 1;
    sim->trainers = 2;
    sim->cursors_max = 1;
    sim->prefetch_steps = 1;
    sim->arena_bytes = 8u << 20;
    sim->snapshot_every = 0;
    sim->counts = sim->write_counts = sim->plant = false;
}

static bool waits(const struct sim *sim, uint32_t trainer)
{
    for (uint32_t i = 0; i < sim->n_calls; i++)
        if (sim->call[i]->trainer == trainer)
            return true;
    return false;
}

static void ask(struct sim *sim, uint32_t trainer, uint64_t step)
{
    actor_wants(sim, trainer, step);
    sim->call[sim->n_calls - 1]->call.deadline_ms = sim->now_ms + ASK_MS;
}

/* Each time somebody else: or it would be a training run, which keeps its cursor. */
static void ask_once(struct sim *sim, uint64_t step)
{
    struct sim_trainer *trainer = &sim->trainer[OTHER];
    fake_peer_gone(sim, trainer->peer);
    trainer->peer = ++sim->last_peer;
    ask(sim, OTHER, step);
}

/* How many tasks it takes until the furthest step is there, each of @task_us; @others: though they ask. */
static uint64_t reach(struct sim *sim, uint64_t task_us, bool others)
{
    uint64_t last = sim->of.recipe[0].horizon - 1, tasks = 0, us = 0, late;
    int64_t due_ms = sim->now_ms + DUE_MS;
    ask(sim, FAR, last);
    for (;;) {
        if (others && !waits(sim, OTHER))
            ask_once(sim, rng_below(&sim->rng, last));
        late = sim->late;
        if (fake_pool_ready(sim)) {
            fake_pool_done_one(sim, true); /* as the pool does: what is waited for comes first */
            tasks++;
            us += task_us;
        } else if (!fake_something_to_hear(sim)) {
            us += 100000;
        }
        sim->now_ms += (int64_t)(us / 1000);
        us %= 1000;
        fake_turn(sim, true);
        if (!waits(sim, FAR) && sim->late == late)
            return tasks;
        if (!waits(sim, FAR))
            ask(sim, FAR, last);
        if (task_us > 0 && sim->now_ms > due_ms)
            sim_fail(sim, "step %llu is not there after %d s; alone it takes %d", (unsigned long long)last,
                     DUE_MS / 1000, ALONE_MS / 1000);
    }
}

void turns(struct sim *sim)
{
    sim->calm = true;
    uint64_t tasks = reach(sim, 0, false);
    sim_note(sim, "the furthest step takes %llu tasks", (unsigned long long)tasks);
    world_restart(sim);
    if (tasks >= TASKS_MIN && tasks <= TASKS_MAX)
        (void)reach(sim, 1000 * (uint64_t)ALONE_MS / tasks, true);
    world_end(sim);
}
