/* What happens, and when: events drawn by the case's chances, then the calm in which all must be answered. */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CALM_EVENTS_MAX 200000
#define CALM_ASKS 12
#define MINUTE_MS 60000

/* The daemon ------------------------------------------------------------------------------------ */

static void start(struct sim *sim)
{
    struct engine_config config = {.config = &sim->config, .log = &sim->log, .worker_path = "worker"};
    struct lk_err err = {0};
    bool refuses = false;
    if (sim->of.plant && rng_chance(&sim->rng, 500))
        fake_files_plant(sim);
    fake_files_open(sim);
    sim->loop = config.loop = loop_new(&err);
    config.write_counts = sim->of.write_counts;
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        refuses = refuses || oracle_refuses(sim->oracle[s]);
    enum lk_code code = engine_open(&config, &sim->engine, &err);
    sim_note(sim, "the daemon starts: %s %s", lk_code_name(code), code == LK_OK ? "" : err.text);
    if (code != (refuses ? LK_FAILED_PRECONDITION : LK_OK))
        sim_fail(sim, "the daemon says %s: %s", lk_code_name(code), err.text);
}

static void stop(struct sim *sim, bool kill)
{
    for (uint32_t i = 0; i < sim->n_leases; i++)
        check_lease(sim, &sim->lease[i]);
    sim_note(sim, "the daemon is %s", kill ? "killed" : "stopped");
    sim->closing = true;
    sim->killing = kill;
    if (kill)
        fake_files_crash(sim);
    fake_leases_forget(sim);
    engine_close(sim->engine);
    loop_free(sim->loop);
    fake_rpc_forget(sim);
    sim->engine = NULL;
    sim->loop = NULL;
    sim->closing = sim->killing = false;
    if (sim->n_tasks > 0)
        sim_fail(sim, "pool: tasks are left");
    for (uint32_t i = 0; i < sim->of.trainers; i++)
        sim->trainer[i].peer = ++sim->last_peer;
}

static void report(struct sim *sim)
{
    struct lk_buf out = {0};
    engine_status(sim->engine, &out);
    if (strstr(lk_buf_cstr(&out), "\"identity\":false") != NULL)
        sim_fail(sim, "status: tokens in differ from tokens out");
    out.len = 0;
    engine_metrics(sim->engine, &out);
    out.len = 0;
    (void)engine_healthy(sim->engine, &out);
    lk_buf_done(&out);
}

/* Events ---------------------------------------------------------------------------------------- */

static enum sim_event draw(struct sim *sim)
{
    uint64_t sum = 0;
    for (int i = 0; i < EVENT_KINDS; i++)
        sum += sim->of.chance[i];
    uint64_t at = rng_below(&sim->rng, sum);
    int event = 0;
    while (at >= sim->of.chance[event])
        at -= sim->of.chance[event++];
    return (enum sim_event)event;
}

static void do_tasks(struct sim *sim, uint64_t n)
{
    while (n-- > 0 && fake_pool_ready(sim))
        fake_pool_done_one(sim, rng_chance(&sim->rng, sim->of.urgent));
}

static void pass_time(struct sim *sim)
{
    static const uint32_t most[] = {5, 200, 2000};
    uint64_t far = rng_chance(&sim->rng, 50) ? 2 * MINUTE_MS : most[rng_below(&sim->rng, 3)];
    sim->now_ms += (int64_t)rng_range(&sim->rng, 1, far);
    sim_note(sim, "time is %" PRId64, sim->now_ms);
}

static void happen(struct sim *sim, enum sim_event event)
{
    switch (event) {
    case EVENT_ASK:
        actor_asks(sim);
        break;
    case EVENT_HEAR:
        break;
    case EVENT_TASK:
        do_tasks(sim, 1);
        break;
    case EVENT_TASKS:
        do_tasks(sim, 2 + rng_below(&sim->rng, sim->n_tasks + 1));
        break;
    case EVENT_LOSS:
        fake_pool_lose(sim);
        break;
    case EVENT_CLOCK:
        pass_time(sim);
        break;
    case EVENT_RELEASE:
        actor_releases(sim);
        break;
    case EVENT_CLIENT:
        actor_joins_or_leaves(sim);
        break;
    case EVENT_DROP:
        actor_drops(sim);
        break;
    case EVENT_WORLD:
        actor_moves(sim);
        break;
    case EVENT_DISK:
        fake_files_disturb(sim);
        break;
    case EVENT_REPORT:
        report(sim);
        break;
    case EVENT_STOP:
    case EVENT_KILL:
        stop(sim, event == EVENT_KILL);
        start(sim);
        break;
    case EVENT_KINDS:
        break;
    }
}

static void step(struct sim *sim, enum sim_event event)
{
    bool hear = event == EVENT_HEAR || sim->calm;
    sim->events++;
    happen(sim, event);
    check_at_hand(sim);
    fake_turn(sim, hear);
    check_world(sim, sim->events % 16 == 0);
}

void world_begin(struct sim *sim)
{
    sim->now_ms = 1000000;
    sim->rng = (struct rng){.state = rng_hash(sim->of.seed ^ 0xac710175)};
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        sim->oracle[s] = oracle_new(&sim->of.recipe[s]);
    fake_config_make(sim);
    actors_begin(sim);
    start(sim);
}

void world_events(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->of.events && sim->engine != NULL; i++)
        step(sim, draw(sim));
}

/* The calm -------------------------------------------------------------------------------------- */

/* A cursor is kept for a moment for whoever was late: time that must pass. */
static bool somebody_was_late(const struct sim *sim)
{
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        for (uint32_t i = 0; i < sim->of.cursors_max; i++)
            if (sim->now_ms - sim->engine->stream[s].cursor[i].late_ms < PLACES_AGAIN_MS)
                return true;
    return false;
}

static void answer_all(struct sim *sim)
{
    for (uint32_t i = 0; sim->n_calls > 0; i++) {
        bool moves = fake_something_to_hear(sim) || fake_pool_ready(sim) || fake_timer_due(sim);
        if (!moves && somebody_was_late(sim)) {
            sim->now_ms += PLACES_AGAIN_MS;
            moves = fake_timer_due(sim);
        }
        if (!moves || i == CALM_EVENTS_MAX)
            sim_fail(sim, "call %" PRIu64 " is not answered, and %s", sim->call[0]->serial,
                     moves ? "there is no end of it" : "nothing moves");
        step(sim, fake_something_to_hear(sim) ? EVENT_HEAR : EVENT_TASKS);
    }
}

void world_calm(struct sim *sim)
{
    if (sim->engine == NULL)
        return;
    sim->calm = true;
    sim_note(sim, "calm");
    answer_all(sim);
    for (int i = 0; i < CALM_ASKS; i++) {
        step(sim, EVENT_ASK);
        if (i % 4 == 3)
            answer_all(sim);
    }
    check_world(sim, true);
    report(sim);
    stop(sim, false);
}

void world_end(struct sim *sim)
{
    if (sim->engine != NULL)
        stop(sim, false);
}

void world_restart(struct sim *sim)
{
    world_end(sim);
    start(sim);
}

void world_done(struct sim *sim)
{
    if (sim->loop != NULL)
        loop_free(sim->loop);
    for (uint32_t s = 0; s < SIM_STREAMS_MAX; s++)
        oracle_free(sim->oracle[s]);
    fake_files_done(sim);
    fake_config_done(sim);
    free(sim->task);
    free(sim->call);
    free(sim->gone);
    free(sim->lease);
    free(sim->trainer);
}
