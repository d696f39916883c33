/*
 * Jobs and their parts. The queue is a binary heap over (urgency, order of submission, first row):
 * a total order, so two pools that are told the same give out tasks in the same order.
 *
 * Who is to blame when workers die? A worker has two tasks, one of which runs; what it had finished
 * may not have reached us yet. So a part whose worker died is only a suspect: it runs alone from
 * then on, and a row is convicted by three deaths of workers that had nothing but that row. Only
 * deaths by the worker's own doing count: a kill from outside, a lost connection, say nothing of the
 * bytes. A row that keeps losing its workers that way waits longer and longer between its tries.
 */
#include "host/ids.h"
#include "host/pool_private.h"

#include "op/measure.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_FIRST_MS 100
#define RETRY_MAX_MS 10000
#define IDS_KEEP ((size_t)1 << 20) /* of the scratch for ids, after a larger result */

/* --- the queue --- */

static bool sooner(const struct part *a, const struct part *b)
{
    if (a->job->task.urgency != b->job->task.urgency)
        return a->job->task.urgency < b->job->task.urgency;
    if (a->job->order != b->job->order)
        return a->job->order < b->job->order;
    LK_CHECK(a == b || a->first != b->first);
    return a->first < b->first;
}

static void queue_put(struct pool *pool, uint32_t at, struct part *part)
{
    pool->queue[at] = part;
    part->place = at;
}

static void queue_up(struct pool *pool, struct part *part, uint32_t at)
{
    for (; at > 1 && sooner(part, pool->queue[at / 2]); at /= 2)
        queue_put(pool, at, pool->queue[at / 2]);
    queue_put(pool, at, part);
}

static void queue_down(struct pool *pool, struct part *part, uint32_t at)
{
    for (;;) {
        uint32_t child = at * 2;
        if (child > pool->n_queue)
            break;
        if (child < pool->n_queue && sooner(pool->queue[child + 1], pool->queue[child]))
            child++;
        if (!sooner(pool->queue[child], part))
            break;
        queue_put(pool, at, pool->queue[child]);
        at = child;
    }
    queue_put(pool, at, part);
}

void queue_part(struct pool *pool, struct part *part)
{
    if (part->place != 0)
        return;
    if (pool->n_queue + 2 > pool->cap_queue) {
        pool->cap_queue = pool->cap_queue == 0 ? 64 : pool->cap_queue * 2;
        pool->queue = lk_resize(pool->queue, pool->cap_queue, sizeof(struct part *));
    }
    pool->n_queue++;
    queue_up(pool, part, pool->n_queue);
}

void queue_remove(struct pool *pool, struct part *part)
{
    uint32_t at = part->place;
    if (at == 0)
        return;
    struct part *last = pool->queue[pool->n_queue--];
    part->place = 0;
    if (last == part)
        return;
    if (at > 1 && sooner(last, pool->queue[at / 2]))
        queue_up(pool, last, at);
    else
        queue_down(pool, last, at);
}

/* --- parts --- */

static struct part *part_new(struct pool *pool, struct job *job, uint32_t first, uint32_t n)
{
    struct part *part = lk_zalloc(1, sizeof *part);
    *part = (struct part){.pool = pool,
                          .job = job,
                          .first = first,
                          .n = n,
                          .deaths_max = POOL_DEATHS_MAX,
                          .next = job->parts};
    job->parts = part;
    return part;
}

static void part_stop_retry(struct part *part)
{
    if (part->retry.heap == 0)
        return;
    loop_clear(part->pool->loop, &part->retry);
    part->pool->n_retrying--;
    if (part->pool->retrying == part)
        part->pool->retrying = NULL;
}

static void part_free(struct part *part)
{
    struct part **at = &part->job->parts;
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
    part_stop_retry(part);
    queue_remove(part->pool, part);
    workers_forget_part(part->pool, part);
    free(part->why);
    free(part);
}

static const struct pool_stream *part_stream(const struct part *part)
{
    return &part->pool->config.stream[part->job->task.stream];
}

const char *part_dataset(const struct part *part)
{
    return part_stream(part)->recipe->dataset[part->job->task.dataset].name;
}

const struct lk_index *part_index(const struct part *part)
{
    return &part_stream(part)->index[part->job->task.dataset];
}

const uint64_t *part_rows(const struct part *part)
{
    return part->job->task.rows + part->first;
}

static const struct lk_index_shard *first_shard(const struct part *part)
{
    const struct lk_index *index = part_index(part);
    return &index->shard[lk_index_place(index, part_rows(part)[0]).shard];
}

const char *part_shard(const struct part *part)
{
    return first_shard(part)->name;
}

const char *part_others(const struct part *part)
{
    const struct lk_index_shard *first = first_shard(part);
    for (uint32_t i = 1; i < part->n; i++)
        if (part_rows(part)[i] - first->first_row >= first->rows)
            return " and others";
    return "";
}

/* --- jobs --- */

static uint32_t free_slot(struct pool *pool)
{
    if (pool->free_job != 0) {
        uint32_t slot = pool->free_job - 1;
        pool->free_job = pool->job[slot].next_free;
        return slot;
    }
    if (pool->n_jobs == pool->cap_jobs) {
        pool->cap_jobs = pool->cap_jobs == 0 ? 64 : pool->cap_jobs * 2;
        pool->job = lk_resize(pool->job, pool->cap_jobs, sizeof *pool->job);
    }
    pool->job[pool->n_jobs] = (struct job_slot){.job = NULL, .generation = 0};
    return pool->n_jobs++;
}

struct job *job_new(struct pool *pool, const struct pool_task *task)
{
    struct job *job = lk_zalloc(1, sizeof *job);
    uint32_t slot = free_slot(pool);
    job->task = *task;
    uint64_t *rows = lk_zalloc(task->n, sizeof *rows);
    memcpy(rows, task->rows, task->n * sizeof *rows);
    job->task.rows = rows;
    job->order = ++pool->orders;
    job->end = task->n;
    pool->job[slot].job = job;
    pool->job[slot].generation++;
    job->id = (uint64_t)pool->job[slot].generation << 32 | slot;
    queue_part(pool, part_new(pool, job, 0, task->n));
    return job;
}

struct job *job_find(const struct pool *pool, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    if (slot >= pool->n_jobs || pool->job[slot].generation != (uint32_t)(id >> 32))
        return NULL;
    return pool->job[slot].job;
}

void job_free(struct pool *pool, struct job *job)
{
    uint32_t slot = (uint32_t)job->id;
    while (job->parts != NULL)
        part_free(job->parts);
    for (uint32_t i = 0; job->rows != NULL && i < job->task.n; i++) {
        free((void *)job->rows[i].ids);
        free((void *)job->rows[i].detail);
    }
    free(job->rows);
    free(job->why);
    free((void *)job->task.rows);
    pool->job[slot].job = NULL;
    pool->job[slot].next_free = pool->free_job;
    pool->free_job = slot + 1;
    free(job);
}

void jobs_done(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->n_jobs; i++)
        if (pool->job[i].job != NULL)
            job_free(pool, pool->job[i].job);
    free(pool->job);
    free(pool->queue);
}

/* The callback may submit more: nothing of the job is queued or running by then. */
static void job_finish(struct pool *pool, struct job *job, const struct pool_row *rows)
{
    struct pool_result result = {.code = job->code,
                                 .detail = job->why != NULL ? job->why : "",
                                 .rows = rows,
                                 .n = job->end,
                                 .cpu_ns = job->cpu_ns};
    while (job->parts != NULL)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): part_free takes it off its job's list, which is this one */
        part_free(job->parts);
    job->finished = true;
    job->task.done(job->task.owner, job->task.tag, &result);
    job_free(pool, job);
}

/* --- results --- */

/* Copies @n ids of a vocabulary of @vocab, 0 = not known, into the pool's scratch. A local worker can still
 * write where they lie, so it is the copies that are checked, and used. */
static bool read_ids(struct pool *pool, const uint8_t *at, size_t n, uint32_t vocab, struct lk_err *err)
{
    size_t i = 0;
    LK_CHECK(vocab <= INT32_MAX);
    if (pool->ids.cap > IDS_KEEP && n <= IDS_KEEP)
        lk_tokens_done(&pool->ids); /* one long row must not hold its memory for ever */
    pool->ids.n = 0;
    uint32_t *ids = lk_tokens_room(&pool->ids, n + 1);
    if (vocab == 0)
        memcpy(ids, at, n * sizeof *ids);
    else if (!ids_copy_below(ids, at, n, vocab)) {
        while (i + 1 < n && ids[i] < vocab)
            i++;
        return lk_fail(err, LK_DATA_LOSS, "token id %u, expected below %u", ids[i], vocab), false;
    }
    return true;
}

/* A worker's text: no longer than our own are. */
static const char *shortened(char *text)
{
    if (strnlen(text, LK_ERR_TEXT_MAX) == LK_ERR_TEXT_MAX)
        text[LK_ERR_TEXT_MAX - 1] = '\0';
    return text;
}

/* What is said of the first @n rows of a part, into the pool's scratch; false when it contradicts itself. */
static bool read_said(struct pool *pool, uint32_t n, const Lk__WorkerTaskRequest *result, const uint8_t *payload,
                      uint64_t *ret_tokens, struct lk_err *err)
{
    uint64_t tokens = 0;
    if (n > pool->cap_row) {
        pool->cap_row = n;
        pool->row = lk_resize(pool->row, n, sizeof *pool->row);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct lk_work_result row;
        memcpy(&row, payload + i * sizeof row, sizeof row);
        __asm__ volatile("" : "+m"(row)); /* read once: its worker could write there meanwhile */
        bool kept = row.drop == LK_DROP_NONE;
        /* A worker cannot report its own end. */
        bool known = row.drop < LK_DROP_KINDS && row.drop != LK_DROP_CRASH;
        if (!known || kept != (row.tokens > 0))
            return lk_fail(err, LK_DATA_LOSS, "row %u: drop %u with %u tokens", i, row.drop,
                           row.tokens), false;
        tokens += row.tokens;
        pool->row[i] = (struct pool_row){.tokens = row.tokens,
                                         .drop = (uint8_t)row.drop,
                                         .specials = row.specials,
                                         .text_bytes = row.text_bytes,
                                         .detail = ""};
    }
    for (size_t k = 0; k < result->n_notes; k++) {
        const Lk__RowNote *note = result->notes[k];
        if (note->row >= n)
            return lk_fail(err, LK_DATA_LOSS, "a note on row %u of %u", note->row, n), false;
        pool->row[note->row].detail = shortened(note->text);
    }
    *ret_tokens = tokens;
    return true;
}

/* The first rows of a part, as many as its worker has measured, into the pool's scratch; false when the answer
 * contradicts itself. */
static bool read_rows(struct pool *pool, const struct part *part,
                      const Lk__WorkerTaskRequest *result, const uint8_t *payload,
                      size_t payload_bytes, struct lk_err *err)
{
    uint32_t n = result->n_rows;
    size_t head = n * sizeof(struct lk_work_result);
    uint64_t tokens;
    bool all = result->status == LK_OK;
    if ((all ? n != part->n : n >= part->n) || payload_bytes < head)
        return lk_fail(err, LK_DATA_LOSS, "%u rows in %zu bytes, expected %s%u", n, payload_bytes,
                       all ? "" : "fewer than ", part->n), false;
    if (!read_said(pool, n, result, payload, &tokens, err))
        return false;
    if ((payload_bytes - head) % 4 != 0 || tokens != (payload_bytes - head) / 4)
        return lk_fail(err, LK_DATA_LOSS, "%zu bytes of ids for %llu tokens", payload_bytes - head,
                       (unsigned long long)tokens), false;
    if (!read_ids(pool, payload + head, tokens, part_stream(part)->vocab, err))
        return false;
    const uint32_t *ids = pool->ids.ids;
    for (uint32_t i = 0; i < n; i++) {
        pool->row[i].ids = ids;
        ids += pool->row[i].tokens;
    }
    pool->stats.rows += n;
    pool->stats.tokens += tokens;
    return true;
}

/* Of a job that is not finished at once: the first @n rows of @part. */
static void keep_rows(struct job *job, const struct part *part, const struct pool_row *rows, uint32_t n)
{
    if (job->rows == NULL)
        job->rows = lk_zalloc(job->task.n, sizeof *job->rows);
    for (uint32_t i = 0; i < n; i++) {
        struct pool_row *to = &job->rows[part->first + i];
        *to = rows[i];
        uint32_t *ids = lk_zalloc((size_t)rows[i].tokens + 1, sizeof *ids);
        if (rows[i].tokens > 0)
            memcpy(ids, rows[i].ids, rows[i].tokens * sizeof *ids);
        to->ids = ids;
        to->detail = lk_strdup(rows[i].detail);
    }
}

static void part_finished(struct pool *pool, struct part *part, const struct pool_row *rows)
{
    struct job *job = part->job;
    if (part->n == job->task.n) {
        job_finish(pool, job, rows);
        return;
    }
    keep_rows(job, part, rows, part->n);
    part_free(part);
    if (job->parts == NULL)
        job_finish(pool, job, job->rows);
}

/* The row behind the first @known ones of @part cannot be measured, nor need those after it. Those before it are
 * waited for: whoever wants the rows in order gets all that precede it, and the reason is of the first that fails. */
static void part_failed(struct pool *pool, struct part *part, uint32_t known, enum lk_code code, const char *why)
{
    struct job *job = part->job;
    pool_log(pool, POOL_ERROR, "task_failed", "%s: %s", lk_code_name(code), why);
    keep_rows(job, part, pool->row, known);
    if (part->first + known < job->end) {
        job->end = part->first + known;
        job->code = code;
        free(job->why);
        job->why = lk_strdup(why);
    }
    part_free(part);
    for (struct part *at = job->parts, *next; at != NULL; at = next) {
        next = at->next;
        if (at->first >= job->end)
            part_free(at);
    }
    if (job->parts == NULL)
        job_finish(pool, job, job->rows);
}

static void cut_part(struct pool *pool, struct part *part)
{
    struct job *job = part->job;
    uint32_t half = part->n / 2;
    struct part *halves[2] = {part_new(pool, job, part->first, half),
                              part_new(pool, job, part->first + half, part->n - half)};
    for (int i = 0; i < 2; i++) {
        /* The half was part of what killed three: one more death is enough to look closer. A row
         * alone still needs three. */
        halves[i]->suspect = part->suspect;
        halves[i]->deaths_max = halves[i]->n == 1 || !part->suspect ? POOL_DEATHS_MAX : 1;
    }
    pool->stats.bisected++;
    part_free(part);
    queue_part(pool, halves[0]);
    queue_part(pool, halves[1]);
}

static void retry_due(void *owner)
{
    struct part *part = owner;
    part->pool->n_retrying--;
    if (part->pool->retrying == part)
        part->pool->retrying = NULL;
    queue_part(part->pool, part);
    workers_dispatch(part->pool);
}

static void retry_later(struct pool *pool, struct part *part, const char *why)
{
    int64_t delay = RETRY_FIRST_MS;
    for (uint32_t i = 0; i < part->tries && delay < RETRY_MAX_MS; i++)
        delay *= 2;
    delay = delay > RETRY_MAX_MS ? RETRY_MAX_MS : delay;
    part->tries++;
    free(part->why);
    part->why = lk_strdup(why);
    pool_log(pool, POOL_WARNING, "task_retried", "again in %lld ms: %s", (long long)delay, why);
    queue_remove(pool, part);
    if (part->retry.heap == 0)
        pool->n_retrying++;
    pool->retrying = part;
    loop_set(pool->loop, &part->retry, loop_now_ms(pool->loop) + delay, retry_due, part);
}

bool part_result(struct pool *pool, struct part *part, const Lk__WorkerTaskRequest *result,
                 const uint8_t *payload, size_t payload_bytes, struct lk_err *err)
{
    const char *why = result->detail[0] != '\0' ? shortened(result->detail) : "its worker gave no reason";
    if (result->status == LK_OK) {
        if (!read_rows(pool, part, result, payload, payload_bytes, err))
            return false;
        pool->stats.cpu_ns += result->cpu_ns;
        pool->stats.data_bytes += result->data_bytes;
        pool->stats.specials += result->specials;
        part->job->cpu_ns += result->cpu_ns;
        part_finished(pool, part, pool->row);
    } else if (result->status > LK_UNAUTHENTICATED) {
        return lk_fail(err, LK_DATA_LOSS, "status %u is none", result->status), false;
    } else if (lk_work_may_pass(result->status)) {
        pool->stats.retried++;
        if (part->place == 0 && part->copies == 0)
            retry_later(pool, part, why);
    } else if (result->status == LK_OUT_OF_RANGE && part->n > 1) {
        cut_part(pool, part);
    } else {
        if (!read_rows(pool, part, result, payload, payload_bytes, err))
            return false;
        part->job->cpu_ns += result->cpu_ns;
        part_failed(pool, part, result->n_rows, (enum lk_code)result->status, why);
    }
    return true;
}

/* --- deaths --- */

static char *row_text(const struct part *part)
{
    struct lk_row_place place = lk_index_place(part_index(part), part_rows(part)[0]);
    return lk_format("dataset %s: %s: row %llu at byte %llu", part_dataset(part), part_shard(part),
                     (unsigned long long)place.row_in_shard, (unsigned long long)place.offset);
}

/* Three workers died on this one row, alone. */
static void convict(struct pool *pool, struct part *part, const char *how)
{
    char *row_name = row_text(part);
    char *detail = lk_format("%s kills its worker: it was given to %d that did nothing else, the "
                             "last one %s", row_name, POOL_DEATHS_MAX, how);
    if (part_stream(part)->recipe->drop_crashing) {
        struct pool_row row = {.drop = LK_DROP_CRASH, .detail = detail};
        pool_log(pool, POOL_ERROR, "row_crashes", "%s", detail);
        pool->stats.rows++;
        part_finished(pool, part, &row);
    } else {
        part_failed(pool, part, 0, LK_FAILED_PRECONDITION, detail);
    }
    free(row_name);
    free(detail);
}

/* The row, or whatever ends its workers: nobody can tell from here. It stays in the order of data, and
 * is tried for ever. */
static void wait_with_row(struct pool *pool, struct part *part, const char *how)
{
    char *row_name = row_text(part);
    char *why = lk_format("%s: %u workers were lost that had nothing else to do, the last one %s",
                          row_name, part->lone_losses, how);
    retry_later(pool, part, why);
    free(row_name);
    free(why);
}

void part_returned(struct pool *pool, struct part *part, enum blame blame, bool lone,
                   const char *how)
{
    pool->stats.retried++;
    if (blame != BLAME_NONE) {
        part->suspect = true;
        part->deaths++;
        part->lone_deaths += lone && blame == BLAME_PART;
        part->lone_losses += lone && blame == BLAME_OTHER;
    }
    if (part->n == 1 && part->lone_deaths >= POOL_DEATHS_MAX)
        convict(pool, part, how);
    else if (part->copies > 0 || part->retry.heap != 0)
        return;
    else if (part->n > 1 && part->deaths >= part->deaths_max)
        cut_part(pool, part);
    else if (part->n == 1 && blame == BLAME_OTHER && part->lone_losses >= POOL_DEATHS_MAX)
        wait_with_row(pool, part, how);
    else
        queue_part(pool, part);
}
