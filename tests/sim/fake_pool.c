/*
 * host/pool.h without workers: a task is done when an event says so, in any order. Results are what the
 * data is (recipe.h); what the pool retries for ever (workers that die, transient errors) is here a task
 * that may not be done before some time. Duplicates of results end in the pool: of a task, done is called
 * once, or never when it was taken back.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool {
    struct pool_config config;
};

enum lk_code pool_open(const struct pool_config *config, struct pool **ret_pool, struct lk_err *err)
{
    struct pool *pool = lk_zalloc(1, sizeof *pool);
    (void)err;
    pool->config = *config;
    *ret_pool = pool;
    return LK_OK;
}

static void remove_task(struct sim *sim, uint32_t i)
{
    memmove(&sim->task[i], &sim->task[i + 1], (sim->n_tasks - i - 1) * sizeof *sim->task);
    sim->n_tasks--;
}

void pool_close(struct pool *pool)
{
    struct sim *sim = sim_now();
    while (pool != NULL && sim->n_tasks > 0) {
        free((void *)(uintptr_t)sim->task[0].task.rows);
        remove_task(sim, 0);
    }
    free(pool);
}

static void check_task(struct sim *sim, const struct pool_task *task)
{
    const struct sim_recipe *recipe = &sim->of.recipe[task->stream];
    if (task->stream >= sim->of.n_streams || task->dataset >= recipe->n_datasets || task->n < 1 ||
        task->n > LK_WORK_ROWS_MAX)
        sim_fail(sim, "pool: a task of %u rows of dataset %u", task->n, task->dataset);
    const struct sim_dataset *dataset = &recipe->dataset[task->dataset];
    for (uint32_t i = 0; i < task->n; i++)
        if (task->rows[i] >= dataset->rows)
            sim_fail(sim, "pool: a task with row %" PRIu64 " of %" PRIu64, task->rows[i],
                     dataset->rows);
}

uint64_t pool_submit(struct pool *pool, const struct pool_task *task)
{
    struct sim *sim = sim_now();
    (void)pool;
    check_task(sim, task);
    if (sim->n_tasks == sim->cap_tasks) {
        sim->cap_tasks = sim->cap_tasks == 0 ? 64 : 2 * sim->cap_tasks;
        sim->task = lk_resize(sim->task, sim->cap_tasks, sizeof *sim->task);
    }
    uint64_t *rows = lk_alloc(task->n * sizeof *rows);
    memcpy(rows, task->rows, task->n * sizeof *rows);
    struct sim_task *at = &sim->task[sim->n_tasks++];
    *at = (struct sim_task){.id = ++sim->last_task, .task = *task};
    at->task.rows = rows;
    sim_note(sim, "task %" PRIu64 ": stream %u dataset %u rows %" PRIu64 "… (%u) urgency %" PRIu64, at->id,
             task->stream, task->dataset, rows[0], task->n, task->urgency);
    return at->id;
}

static struct sim_task *find_task(struct sim *sim, uint64_t id)
{
    for (uint32_t i = 0; i < sim->n_tasks; i++)
        if (sim->task[i].id == id)
            return &sim->task[i];
    return NULL;
}

void pool_hurry(struct pool *pool, uint64_t id, uint64_t urgency)
{
    struct sim_task *task = find_task(sim_now(), id);
    (void)pool;
    if (task != NULL && urgency < task->task.urgency)
        task->task.urgency = urgency;
}

bool pool_cancel(struct pool *pool, uint64_t id)
{
    struct sim *sim = sim_now();
    struct sim_task *task = find_task(sim, id);
    (void)pool;
    if (task == NULL)
        return false;
    free((void *)(uintptr_t)task->task.rows);
    remove_task(sim, (uint32_t)(task - sim->task));
    return true;
}

void pool_stats(const struct pool *pool, struct pool_stats *ret_stats)
{
    (void)pool;
    *ret_stats = sim_now()->pool_stats;
    ret_stats->queued = sim_now()->n_tasks;
}

const char *pool_address(const struct pool *pool)
{
    (void)pool;
    return NULL;
}

const char *pool_waits_for(const struct pool *pool)
{
    (void)pool;
    return "simulated workers";
}

/* Results --------------------------------------------------------------------------------------- */

/* Ids lie in memory of exactly their size, and are gone after the call. */
static void make_rows(const struct sim_dataset *dataset, const struct pool_task *task, uint32_t n,
                      struct pool_row *row, uint32_t *ids)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sim_row data = sim_row(dataset, task->rows[i]);
        row[i] = (struct pool_row){.tokens = data.tokens,
                                   .drop = data.drop,
                                   .text_bytes = data.text_bytes,
                                   .ids = ids,
                                   .detail = data.drop == 2 ? "byte 17: expected a comma" : ""};
        for (uint32_t t = 0; t < data.tokens; t++)
            *ids++ = sim_token(dataset, task->rows[i], t);
    }
}

/* With the first @n rows of @task. */
static void deliver(struct sim *sim, const struct pool_task *task, uint32_t n, enum lk_code code, const char *detail)
{
    const struct sim_dataset *dataset = &sim->of.recipe[task->stream].dataset[task->dataset];
    size_t tokens = 0;
    for (uint32_t i = 0; i < n; i++)
        tokens += sim_row(dataset, task->rows[i]).tokens;
    uint32_t *ids = lk_alloc(4 * tokens + 1);
    struct pool_row *row = lk_zalloc((size_t)n + 1, sizeof *row);
    make_rows(dataset, task, n, row, ids);
    struct pool_result result = {.code = code, .detail = detail, .rows = row, .n = n};
    task->done(task->owner, task->tag, &result);
    free(row);
    free(ids);
}

static void finish(struct sim *sim, const struct pool_task *task)
{
    const struct sim_dataset *dataset = &sim->of.recipe[task->stream].dataset[task->dataset];
    char detail[96];
    uint32_t n = 0;
    while (n < task->n && task->rows[n] != dataset->fatal)
        n++;
    snprintf(detail, sizeof detail, "dataset %s row %" PRIu64 ": cannot be measured", dataset->name,
             dataset->fatal);
    if (n == task->n)
        deliver(sim, task, n, LK_OK, "");
    else
        deliver(sim, task, n, (enum lk_code)dataset->fatal_code, detail);
}

static bool may_be_done(const struct sim *sim, uint32_t i)
{
    return sim->calm || sim->task[i].not_before_ms <= sim->now_ms;
}

static uint32_t choose(struct sim *sim, bool urgent)
{
    uint32_t i = (uint32_t)rng_below(&sim->rng, sim->n_tasks), best = UINT32_MAX;
    for (uint32_t n = 0; n < sim->n_tasks; n++, i = (i + 1) % sim->n_tasks) {
        if (!may_be_done(sim, i))
            continue;
        if (!urgent)
            return i;
        if (best == UINT32_MAX || sim->task[i].task.urgency < sim->task[best].task.urgency)
            best = i;
    }
    return best;
}

void fake_pool_done_one(struct sim *sim, bool urgent)
{
    uint32_t i = choose(sim, urgent);
    struct pool_task task = sim->task[i].task;
    sim_note(sim, "task %" PRIu64 " is done", sim->task[i].id);
    remove_task(sim, i);
    finish(sim, &task);
    sim->pool_stats.tasks++;
    free((void *)(uintptr_t)task.rows);
}

void fake_pool_lose(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_tasks; i++)
        if (rng_chance(&sim->rng, 400)) {
            sim->task[i].not_before_ms = sim->now_ms + (int64_t)rng_below(&sim->rng, 3000);
            sim->pool_stats.retried++;
        }
    sim->pool_stats.deaths++;
}

bool fake_pool_ready(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_tasks; i++)
        if (may_be_done(sim, i))
            return true;
    return false;
}
