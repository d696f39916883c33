#include "worker/task.h"

#include "worker/fault.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES 4             /* of a task that fails for a transient reason */
#define FIRST_PAUSE_MS 50   /* doubled with each try */

struct run {
    struct lk_measure *measure;
    const Lk__WorkerTaskReply *task;
    const Lk__WorkerShard *shard; /* that is read */
    uint32_t first;               /* row of the task: its first one there */
    uint64_t result_max;
    struct task_result *result;
};

static void result_clear(struct task_result *result)
{
    for (uint32_t i = 0; i < result->n_notes; i++)
        lk__row_note__free_unpacked(result->note[i], NULL);
    result->n_notes = 0;
    result->n_rows = 0;
    result->tokens.n = 0;
    result->data_bytes = 0;
    result->specials = 0;
}

void task_result_done(struct task_result *result)
{
    result_clear(result);
    free(result->row);
    free(result->note);
    free(result->span);
    lk_tokens_done(&result->tokens);
    *result = (struct task_result){0};
}

static void add_note(struct task_result *result, uint32_t row, const char *text)
{
    if (result->n_notes == result->cap_notes) {
        result->cap_notes = result->cap_notes == 0 ? 16 : 2 * result->cap_notes;
        result->note = lk_resize(result->note, result->cap_notes, sizeof *result->note); /* NOLINT(bugprone-sizeof-expression): pointers */
    }
    Lk__RowNote *note = lk_alloc(sizeof *note);
    lk__row_note__init(note);
    note->row = row;
    note->text = lk_strdup(text);
    result->note[result->n_notes++] = note;
}

static uint64_t cpu_now(void)
{
    struct timespec t;
    LK_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum lk_code read_spans(const uint8_t *payload, size_t bytes, struct task_result *result,
                               uint32_t *ret_n, struct lk_err *err)
{
    size_t n = bytes / LK_WORK_ROW_BYTES;
    if (bytes % LK_WORK_ROW_BYTES != 0 || n == 0 || n > LK_WORK_ROWS_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "a task of %zu bytes, expected 1 to %u rows of %d",
                       bytes, LK_WORK_ROWS_MAX, LK_WORK_ROW_BYTES);
    if (n > result->cap_rows) {
        result->cap_rows = (uint32_t)n;
        result->row = lk_resize(result->row, n, sizeof *result->row);
        result->span = lk_resize(result->span, n, sizeof *result->span);
    }
    for (size_t i = 0; i < n; i++) {
        struct lk_work_row row = lk_work_row_get(payload + i * LK_WORK_ROW_BYTES);
        result->span[i] = (struct lk_row_span){
            .row = row.row, .offset = row.offset, .bytes = row.bytes, .hash = row.hash};
    }
    *ret_n = (uint32_t)n;
    return LK_OK;
}

/* The ids lie where they will be sent from, behind what is said of the rows, if there is such a place. */
static void place_tokens(struct task_result *result, uint32_t n)
{
    size_t head = n * sizeof *result->row;
    if (result->place != NULL && head < result->place_bytes)
        lk_tokens_borrow(&result->tokens, (uint32_t *)(void *)(result->place + head),
                         (result->place_bytes - head) / sizeof(uint32_t));
    else if (result->tokens.borrowed)
        lk_tokens_done(&result->tokens);
}

/* @at: row of those that are read of the shard. */
static enum lk_code measure_row(void *owner, uint32_t at, const uint8_t *bytes, uint32_t n_bytes,
                                struct lk_err *err)
{
    struct run *run = owner;
    struct task_result *result = run->result;
    uint32_t i = run->first + at;
    const struct lk_row_span *span = &result->span[i];
    LK_CHECK(i == result->n_rows && i < result->cap_rows);
    fault_row(bytes, n_bytes);
    struct lk_measured measured;
    struct lk_err why;
    why.text[0] = '\0'; /* the rest of its kilobyte is not worth clearing for each row */
    enum lk_code code = lk_measure_row(run->measure, bytes, n_bytes, &result->tokens, &measured,
                                       &why);
    if (code != LK_OK) /* the recipe wants it so; whoever wrote it may not have known its data */
        return lk_fail(err, code, "%s: row %llu at byte %llu: %.400s; such rows stop the stream unless the recipe says "
                                  "`on_bad_row: drop`", run->shard->name, (unsigned long long)span->row,
                       (unsigned long long)span->offset, why.text);
    if (result->tokens.n > run->result_max / 4)
        return lk_fail(err, LK_OUT_OF_RANGE,
                       "%s: row %llu: the task makes more than %llu bytes of tokens",
                       run->shard->name, (unsigned long long)span->row,
                       (unsigned long long)run->result_max);
    result->row[i] = (struct lk_work_result){.tokens = measured.tokens,
                                             .drop = (uint32_t)measured.drop,
                                             .specials = (uint32_t)measured.specials,
                                             .text_bytes = (uint32_t)measured.text_bytes};
    if (measured.drop != LK_DROP_NONE && why.text[0] != '\0')
        add_note(result, i, why.text);
    result->n_rows++;
    result->data_bytes += n_bytes;
    result->specials += measured.specials;
    return LK_OK;
}

static void pause_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static enum lk_code check_shards(const Lk__WorkerTaskReply *task, uint32_t n, struct lk_err *err)
{
    uint32_t most = n < LK_WORK_SHARDS_MAX ? n : LK_WORK_SHARDS_MAX;
    uint64_t rows = 0;
    if (task->n_shards == 0 || task->n_shards > most)
        return lk_fail(err, LK_INVALID_ARGUMENT, "a task of %u rows in %zu shards, expected 1 to %u", n,
                       task->n_shards, most);
    for (size_t k = 0; k < task->n_shards; k++) {
        const Lk__WorkerShard *shard = task->shards[k];
        if (shard->codec >= LK_CODECS)
            return lk_fail(err, LK_INVALID_ARGUMENT, "%s: codec %u is none", shard->name, shard->codec);
        if (shard->rows == 0)
            return lk_fail(err, LK_INVALID_ARGUMENT, "%s: no rows, expected at least one", shard->name);
        rows += shard->rows;
    }
    if (rows != n)
        return lk_fail(err, LK_INVALID_ARGUMENT, "a task of %u rows whose shards have %llu of them", n,
                       (unsigned long long)rows);
    return LK_OK;
}

/* All rows, those of one shard after those of the other. */
static enum lk_code read_shards(struct lk_shard_cache *cache, const char *root, struct run *run,
                                struct lk_err *err)
{
    const Lk__WorkerTaskReply *task = run->task;
    run->first = 0;
    for (size_t k = 0; k < task->n_shards; k++) {
        const Lk__WorkerShard *shard = run->shard = task->shards[k];
        LK_TRY(lk_shard_read_rows(cache, root, shard->name, (enum lk_codec)shard->codec, shard->data_bytes,
                                  run->result->span + run->first, shard->rows, measure_row, run, err));
        run->first += shard->rows;
    }
    return LK_OK;
}

static enum lk_code read_and_measure(struct streams *streams, struct lk_shard_cache *cache,
                                     struct run *run, uint32_t n, struct lk_err *err)
{
    const Lk__WorkerTaskReply *task = run->task;
    const Lk__WorkerDataset *dataset;
    LK_TRY(streams_find(streams, task->stream, task->dataset, &dataset, &run->measure, err));
    LK_TRY(check_shards(task, n, err));
    enum lk_code code;
    for (int tries = 1;; tries++) {
        result_clear(run->result);
        code = read_shards(cache, dataset->root, run, err);
        if (!lk_work_may_pass((uint32_t)code) || tries == TRIES)
            break;
        pause_ms((int64_t)FIRST_PAUSE_MS << (tries - 1));
    }
    if (code == LK_OK)
        return LK_OK;
    if (lk_work_may_pass((uint32_t)code))
        err->code = LK_UNAVAILABLE;
    return lk_fail_in(err, "dataset %s", dataset->name);
}

/* Of a task that failed for good, the rows before the one that failed it; else it is run again, whole or in halves. */
static void keep_measured(struct task_result *result)
{
    if (lk_work_may_pass((uint32_t)result->err.code) || result->err.code == LK_OUT_OF_RANGE)
        result_clear(result);
    size_t tokens = 0;
    for (uint32_t i = 0; i < result->n_rows; i++)
        tokens += result->row[i].tokens;
    result->tokens.n = tokens;
}

void task_run(struct streams *streams, struct lk_shard_cache *cache, const Lk__WorkerTaskReply *task,
              const uint8_t *payload, size_t payload_bytes, struct task_result *result)
{
    struct run run = {.task = task,
                      .result = result,
                      .result_max = streams_hello(streams)->result_max};
    struct lk_err err = {.code = LK_OK, .text = ""};
    uint64_t start = cpu_now();
    uint32_t n = 0;
    result_clear(result);
    result->task = task->task;
    enum lk_code code = read_spans(payload, payload_bytes, result, &n, &err);
    place_tokens(result, n);
    if (code == LK_OK)
        code = read_and_measure(streams, cache, &run, n, &err);
    result->err = (struct lk_err){.code = LK_OK, .text = ""};
    if (code != LK_OK) {
        result->err = err;
        keep_measured(result);
    }
    result->cpu_ns = cpu_now() - start;
}
