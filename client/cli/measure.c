#include "client/cli/measure.h"

#include "client/cli/drops.h"
#include "client/cli/progress.h"
#include "host/counts.h"
#include "host/loop.h"
#include "host/pool.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TASK_BYTES (512u << 10) /* of rows: some milliseconds of work */
#define TASK_ROWS 1024
#define TASKS_A_JOB 4           /* at the pool at once */
#define TICK_MS 200
#define TASK_TIMEOUT_MS 30000

struct run {
    const struct lk_config *config;
    const struct measure_options *options;
    struct measure_result *result;
    struct counts *counts;
    struct counts_set **set;     /* [result->n] */
    struct loop *loop;
    struct pool *pool;
    struct pool_stream *pool_stream;
    struct loop_timer tick;
    int signals;                 /* descriptor, or -1 */
    sigset_t unblocked;          /* the mask before they were blocked */
    struct log log;
    struct progress progress;
    struct drops drops;          /* where they are listed */
    uint64_t all_bytes, done_bytes, done_rows;
    /* where the next row is looked at */
    uint32_t d, shard, block;
    struct task *task;           /* that collects rows, or NULL */
    struct task *tasks;          /* at the pool, */
    uint32_t running;            /* so many */
    enum lk_code code;           /* not OK: it ends */
    struct lk_err err;
};

/* Rows of one shard that are measured together. */
struct task {
    struct task *next, **self;   /* of those at the pool */
    struct run *run;
    uint32_t d, n;
    uint64_t row[TASK_ROWS];
    uint64_t bytes;
};

static const struct stream *stream_of(const struct run *run, uint32_t d)
{
    return &run->result->stream[run->result->dataset[d].stream];
}

static const struct lk_index *index_of(const struct run *run, uint32_t d)
{
    return &stream_of(run, d)->index[run->result->dataset[d].dataset];
}

static void row_done(struct run *run, uint32_t d, uint64_t row, const struct lk_count *count)
{
    uint32_t bytes = index_of(run, d)->row_bytes[row];
    tally_add(&run->result->dataset[d].tally, row, bytes, count);
    if (run->options->dropped)
        drops_put(&run->drops, d, row, count->drop);
    run->done_bytes += bytes;
    run->done_rows++;
}

/* Tasks --------------------------------------------------------------------------------------- */

static void stop_with(struct run *run, enum lk_code code, const char *text)
{
    if (run->code == LK_OK)
        run->code = lk_fail(&run->err, code, "%s", text);
    loop_stop(run->loop);
}

static void task_free(struct task *task)
{
    *task->self = task->next;
    if (task->next != NULL)
        task->next->self = task->self;
    task->run->running--;
    free(task);
}

static void measured(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct task *task = owner;
    struct run *run = task->run;
    (void)tag;
    if (result->code != LK_OK)
        stop_with(run, result->code, result->detail);
    for (uint32_t i = 0; result->code == LK_OK && i < task->n; i++) {
        const struct pool_row *row = &result->rows[i];
        struct lk_count count = {.tokens = row->tokens,
                                 .text_bytes = (uint32_t)row->text_bytes,
                                 .specials = row->specials,
                                 .drop = row->drop,
                                 .known = true};
        counts_put(run->set[task->d], task->row[i], count);
        row_done(run, task->d, task->row[i], &count);
        run->result->measured++;
    }
    task_free(task);
}

static void submit(struct run *run)
{
    struct task *task = run->task;
    run->task = NULL;
    if (task == NULL)
        return;
    task->next = run->tasks;
    task->self = &run->tasks;
    if (task->next != NULL)
        task->next->self = &task->next;
    run->tasks = task;
    struct pool_task wanted = {.stream = run->result->dataset[task->d].stream,
                               .dataset = run->result->dataset[task->d].dataset,
                               .rows = task->row,
                               .n = task->n,
                               .done = measured,
                               .owner = task};
    run->running++;
    (void)pool_submit(run->pool, &wanted);
}

/* To the next block that has rows; false after the last one of all. */
static bool find_block(struct run *run)
{
    for (; run->d < run->result->n; run->d++, run->shard = run->block = 0) {
        const struct lk_index *index = index_of(run, run->d);
        for (; run->shard < index->shards; run->shard++, run->block = 0)
            if (run->block < lk_counts_blocks(index->shard[run->shard].rows))
                return true;
    }
    return false;
}

static void add_to_task(struct run *run, uint64_t row)
{
    if (run->task == NULL) {
        run->task = lk_zalloc(1, sizeof *run->task);
        run->task->run = run;
        run->task->d = run->d;
    }
    run->task->row[run->task->n++] = row;
    run->task->bytes += index_of(run, run->d)->row_bytes[row];
    if (run->task->bytes >= TASK_BYTES || run->task->n == TASK_ROWS)
        submit(run);
}

/* Known rows are done; the others make tasks. */
static void look_at_block(struct run *run)
{
    const struct lk_index_shard *shard = &index_of(run, run->d)->shard[run->shard];
    uint64_t first = shard->first_row + (uint64_t)run->block * LK_COUNTS_BLOCK;
    struct lk_count known[LK_COUNTS_BLOCK];
    counts_block(run->set[run->d], run->shard, run->block, known);
    for (uint32_t i = 0; i < lk_counts_block_rows(shard->rows, run->block); i++) {
        run->result->dataset[run->d].known += known[i].known;
        if (known[i].known && !run->options->again)
            row_done(run, run->d, first + i, &known[i]);
        else
            add_to_task(run, first + i);
    }
    if (++run->block == lk_counts_blocks(shard->rows))
        submit(run); /* a task's rows are of one shard */
}

/* The loop ------------------------------------------------------------------------------------ */

/* Whoever is impatient sends a second one, which ends it at once. */
static void signalled(void *owner)
{
    struct run *run = owner;
    struct signalfd_siginfo info;
    if (read(run->signals, &info, sizeof info) != sizeof info)
        return;
    loop_unwatch(run->loop, run->signals);
    (void)sigprocmask(SIG_SETMASK, &run->unblocked, NULL);
    run->result->stopped = (int)info.ssi_signo;
    stop_with(run, LK_CANCELLED, "stopped by a signal");
}

static void list(struct run *run, bool all)
{
    struct lk_err err;
    if (!run->options->dropped || run->code != LK_OK)
        return;
    enum lk_code code = drops_write(&run->drops, all, run->signals, &err);
    if (code == LK_CANCELLED)
        signalled(run);
    else if (code != LK_OK)
        stop_with(run, code, err.text);
}

/* The list may have to wait for rows that are in no task yet. */
static bool may_look(struct run *run)
{
    if (!find_block(run))
        return false;
    const struct lk_index_shard *shard = &index_of(run, run->d)->shard[run->shard];
    uint64_t row = shard->first_row + (uint64_t)run->block * LK_COUNTS_BLOCK;
    if (!run->options->dropped ||
        drops_room(&run->drops, run->d, row, lk_counts_block_rows(shard->rows, run->block)))
        return true;
    submit(run);
    return false;
}

static void fill(void *owner)
{
    struct run *run = owner;
    while (run->code == LK_OK && run->running < TASKS_A_JOB * run->options->jobs && may_look(run)) {
        look_at_block(run);
        list(run, false);
    }
    counts_work(run->counts);
    bool over = run->running == 0 && !find_block(run);
    list(run, over);
    if (over)
        loop_stop(run->loop);
}

static void tick(void *owner)
{
    struct run *run = owner;
    struct lk_progress hook = progress_hook(&run->progress);
    list(run, true);
    hook.report(hook.owner, run->done_bytes, run->all_bytes, run->done_rows);
    loop_set(run->loop, &run->tick, loop_now_ms(run->loop) + TICK_MS, tick, run);
}

static void pool_said(void *owner, int level, const char *event, const char *text)
{
    struct run *run = owner;
    if (level > 4 || strcmp(event, "task_failed") == 0) /* the command says that itself */
        return;
    progress_done(&run->progress);
    log_event(&run->log, LOG_LEVEL_WARN, "workers", event, "text", text, NULL);
}

/* Before any thread starts, so that all of them have them blocked. One that is ignored (nohup) stays so. */
static enum lk_code watch_signals(struct run *run, struct lk_err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    if (sigprocmask(SIG_BLOCK, &set, &run->unblocked) != 0 ||
        (run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return lk_fail(err, LK_INTERNAL, "signalfd: %s", strerror(errno));
    loop_watch(run->loop, run->signals, signalled, run);
    return LK_OK;
}

static char *worker_beside(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return lk_format("%s/lanekeeper-worker", dirname(path));
}

static enum lk_code work(struct run *run, struct lk_err *err)
{
    struct lk_runtime runtime = run->config->runtime;
    char *worker = worker_beside();
    runtime.workers = run->options->jobs;
    struct pool_config config = {.loop = run->loop,
                                 .stream = run->pool_stream,
                                 .n_streams = run->result->n_streams,
                                 .workers = runtime.workers,
                                 .worker_path = worker,
                                 .cache_bytes = stream_worker_cache(&runtime),
                                 .task_timeout_ms = TASK_TIMEOUT_MS,
                                 .log = pool_said,
                                 .log_owner = run};
    enum lk_code code = pool_open(&config, &run->pool, err);
    if (code == LK_OK) {
        loop_set(run->loop, &run->tick, 0, tick, run);
        loop_idle(run->loop, fill, run);
        loop_run(run->loop);
        loop_idle(run->loop, NULL, NULL);
        loop_clear(run->loop, &run->tick);
    }
    pool_close(run->pool);
    free(run->task);
    while (run->tasks != NULL)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): task_free takes it off this list, through @self */
        task_free(run->tasks);
    free(worker);
    return code == LK_OK && run->code != LK_OK ? lk_fail(err, run->code, "%s", run->err.text) : code;
}

/* What there is to do ------------------------------------------------------------------------- */

static enum lk_code open_streams(struct run *run, struct lk_err *err)
{
    const struct lk_config *config = run->config;
    struct lk_runtime runtime = config->runtime;
    runtime.workers = run->options->jobs;
    for (uint32_t s = 0; s < config->n_streams; s++) {
        if (run->options->stream != NULL &&
            strcmp(run->options->stream, config->stream[s].name) != 0)
            continue;
        uint32_t n = run->result->n_streams;
        LK_TRY(stream_open(config, s, &run->result->stream[n], err));
        run->result->n_streams++;
        LK_TRY(stream_check_cache(&run->result->stream[n], &runtime, err));
        stream_for_pool(&run->result->stream[n], &run->pool_stream[n]);
    }
    return LK_OK;
}

static bool add_set(struct run *run, uint32_t s, uint32_t d)
{
    struct measure_result *result = run->result;
    const struct stream *stream = &result->stream[s];
    struct counts_set *set = counts_set(run->counts, stream->ops[d], &stream->index[d],
                                        stream->recipe->dataset[d].name);
    for (uint32_t i = 0; i < result->n; i++)
        if (run->set[i] == set)
            return false;
    result->dataset = lk_resize(result->dataset, result->n + 1, sizeof *result->dataset);
    result->dataset[result->n] = (struct measure_dataset){.stream = s, .dataset = d};
    run->set = lk_resize(run->set, result->n + 1, sizeof(struct counts_set *));
    run->set[result->n++] = set;
    for (uint64_t row = 0; row < stream->index[d].rows; row++)
        run->all_bytes += stream->index[d].row_bytes[row];
    return true;
}

static enum lk_code find_datasets(struct run *run, struct lk_err *err)
{
    bool found = false;
    for (uint32_t s = 0; s < run->result->n_streams; s++) {
        const struct lk_recipe *recipe = run->result->stream[s].recipe;
        for (uint32_t d = 0; d < recipe->n_datasets; d++)
            if (run->options->dataset == NULL ||
                strcmp(run->options->dataset, recipe->dataset[d].name) == 0)
                found = add_set(run, s, d) || found;
    }
    if (found)
        return LK_OK;
    return lk_fail(err, LK_NOT_FOUND, "%s has no dataset \"%s\"", run->config->path,
                   run->options->dataset != NULL ? run->options->dataset : "");
}

static enum lk_code run_all(struct run *run, struct lk_err *err)
{
    const struct lk_runtime *runtime = &run->config->runtime;
    struct counts_config counts = {.dir = runtime->counts_dir,
                                   .disk_bytes = runtime->counts_bytes,
                                   .memory_bytes = runtime->counts_memory,
                                   .write = true,
                                   .eager = true,
                                   .log = &run->log};
    if (runtime->counts_bytes == 0)
        return lk_fail(err, LK_FAILED_PRECONDITION,
                       "%s keeps no counts: runtime.counts.size is 0", run->config->path);
    LK_TRY(open_streams(run, err));
    LK_TRY(watch_signals(run, err));
    LK_TRY(counts_open(&counts, &run->counts, err));
    LK_TRY(find_datasets(run, err));
    if (run->options->dropped)
        drops_init(&run->drops, run->result, run->options->json,
                   isatty(STDOUT_FILENO) == 1 ? &run->progress : NULL);
    enum lk_code code = work(run, err);
    counts_flush(run->counts);
    return code;
}

enum lk_code measure_run(const struct lk_config *config, const struct measure_options *options,
                         struct measure_result *ret_result, struct lk_err *err)
{
    struct measure_result *result = ret_result;
    struct counts_stats stats = {0};
    *result = (struct measure_result){.n_streams = 0};
    result->stream = lk_zalloc(config->n_streams, sizeof *result->stream);
    struct run run = {.config = config,
                      .options = options,
                      .result = result,
                      .loop = loop_new(err),
                      .signals = -1,
                      .log = {.level = LOG_LEVEL_WARN}};
    run.pool_stream = lk_zalloc(config->n_streams, sizeof *run.pool_stream);
    progress_init(&run.progress, "measure");
    enum lk_code code = run.loop == NULL ? LK_RESOURCE_EXHAUSTED : run_all(&run, err);
    progress_done(&run.progress);
    if (run.counts != NULL)
        counts_stats(run.counts, &stats);
    if (code == LK_CANCELLED && result->stopped != 0)
        (void)lk_fail(err, code, "stopped by SIG%s; the counts of %llu rows are kept, and it goes on from there when it is "
                                 "called again", sigabbrev_np(result->stopped), (unsigned long long)result->measured);
    if ((code == LK_OK || code == LK_CANCELLED) && stats.failed > 0)
        code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "%s: %llu counts files could not be written",
                       config->runtime.counts_dir, (unsigned long long)stats.failed);
    result->wrong = stats.wrong;
    drops_done(&run.drops);
    counts_close(run.counts);
    loop_free(run.loop);
    if (run.signals >= 0) {
        (void)close(run.signals);
        (void)sigprocmask(SIG_SETMASK, &run.unblocked, NULL);
    }
    free(run.set);
    free(run.pool_stream);
    return code;
}

void measure_done(struct measure_result *result)
{
    for (uint32_t s = 0; s < result->n_streams; s++)
        stream_done(&result->stream[s]);
    free(result->stream);
    free(result->dataset);
    *result = (struct measure_result){0};
}
