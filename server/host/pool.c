#include "host/pool_private.h"

#include "host/stream.h"
#include "store/file.h"

#include <limits.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_FILE_MAX 4096
#define TOKEN_MIN 16
#define OPEN_FILES 1024 /* shards that a worker keeps open: rows that are shuffled lie in any of them */
#define TICK_MAX_MS 1000

void pool_log(const struct pool *pool, int level, const char *event, const char *format, ...)
{
    if (pool->config.log == NULL)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pool->config.log(pool->config.log_owner, level, event, text);
}

/* --- what workers are told --- */

/* Links are left as they are: what lies beside a link (tokenizer_config.json) need not lie beside what it
 * leads to. */
static char *absolute(const char *path)
{
    char here[PATH_MAX];
    if (path == NULL || path[0] == '\0' || path[0] == '/' || getcwd(here, sizeof here) == NULL)
        return lk_strdup(path == NULL ? "" : path);
    return lk_format("%s/%s", here, path);
}

static char *text_of(const char *text)
{
    return lk_strdup(text == NULL ? "" : text);
}

static Lk__WorkerFilter *filter_of(const struct lk_filter_recipe *f)
{
    Lk__WorkerFilter *to = lk_zalloc(1, sizeof *to);
    lk__worker_filter__init(to);
    to->min_bytes = f->min_bytes;
    to->max_bytes = f->max_bytes;
    to->min_tokens = f->min_tokens;
    to->max_tokens = f->max_tokens;
    to->field = text_of(f->field);
    to->equals = text_of(f->equals);
    to->has_equals = f->equals != NULL;
    return to;
}

static Lk__WorkerDataset *dataset_of(const struct lk_dataset_recipe *d, const char *root)
{
    Lk__WorkerDataset *to = lk_zalloc(1, sizeof *to);
    lk__worker_dataset__init(to);
    to->name = text_of(d->name);
    to->root = text_of(root);
    to->text = text_of(d->text);
    return to;
}

static Lk__WorkerStream *stream_of(const struct pool_stream *s)
{
    const struct lk_recipe *r = s->recipe;
    Lk__WorkerStream *to = lk_zalloc(1, sizeof *to);
    lk__worker_stream__init(to);
    to->name = text_of(r->name);
    to->tokenizer_kind = (uint32_t)stream_tokenizer_kind(r->tokenizer.source);
    to->tokenizer_path = absolute(r->tokenizer.path);
    to->tokenizer_merges = absolute(r->tokenizer.merges);
    to->tokenizer_scheme = text_of(r->tokenizer.scheme);
    to->special_in_text = (uint32_t)stream_special_in_text(r->tokenizer.special_in_text);
    to->tokenizer_digest.len = 16;
    to->tokenizer_digest.data = lk_alloc(16);
    lk_digest_put(s->tokenizer_digest, to->tokenizer_digest.data);
    to->has_append = s->has_append;
    to->append = s->append;
    to->has_prepend = s->has_prepend;
    to->prepend = s->prepend;
    to->drop_bad = r->on_bad_row == LK_BAD_DROP;
    to->filters = lk_zalloc(r->n_filters + 1, sizeof(Lk__WorkerFilter *));
    to->n_filters = r->n_filters;
    for (uint32_t i = 0; i < r->n_filters; i++)
        to->filters[i] = filter_of(&r->filter[i]);
    to->datasets = lk_zalloc(r->n_datasets + 1, sizeof(Lk__WorkerDataset *));
    to->n_datasets = r->n_datasets;
    for (uint32_t i = 0; i < r->n_datasets; i++)
        to->datasets[i] = dataset_of(&r->dataset[i], s->root[i]);
    return to;
}

static Lk__WorkerHelloReply *hello_of(const struct pool_config *config)
{
    Lk__WorkerHelloReply *hello = lk_zalloc(1, sizeof *hello);
    lk__worker_hello_reply__init(hello);
    hello->cache_bytes = config->cache_bytes;
    hello->open_files = OPEN_FILES;
    hello->result_max = POOL_RESULT_MAX;
    hello->streams = lk_zalloc(config->n_streams + 1, sizeof(Lk__WorkerStream *));
    hello->n_streams = config->n_streams;
    for (uint32_t i = 0; i < config->n_streams; i++)
        hello->streams[i] = stream_of(&config->stream[i]);
    return hello;
}

/* --- opening --- */

static enum lk_code read_token(struct pool *pool, struct lk_err *err)
{
    const char *file = pool->config.token_file;
    if (file == NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "workers may connect to %s: a token file is needed", pool->config.listen);
    struct lk_buf token = {0};
    LK_TRY(lk_file_read_all(file, TOKEN_FILE_MAX, &token, err));
    while (token.len > 0 && strchr(" \t\r\n", token.data[token.len - 1]) != NULL)
        token.len--;
    bool good = token.len >= TOKEN_MIN && memchr(token.data, '\0', token.len) == NULL;
    if (good)
        pool->remote_token = lk_strndup((const char *)token.data, token.len);
    lk_buf_done(&token);
    if (good)
        return LK_OK;
    return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected a token of at least %d characters", file,
                   TOKEN_MIN);
}

static enum lk_code open_server(struct pool *pool, struct lk_err *err)
{
    struct rpc_config config = {
        .listen = &pool->config.listen,
        .n_listen = 1,
        .message_max = POOL_MESSAGE_MAX,
        .stranger_max = POOL_STRANGER_MAX,
        .calls_max = 4096,
        .waiting_bytes_max = POOL_WAITING_MAX,
        .socket_mode = 0600,
    };
    LK_TRY(read_token(pool, err));
    LK_TRY(rpc_server_open(&config, &pool->server, err));
    loop_watch(pool->loop, rpc_server_fd(pool->server), workers_ready, pool);
    return LK_OK;
}

static void pump_due(void *owner)
{
    workers_dispatch(owner);
}

void pool_pump_soon(struct pool *pool)
{
    if (pool->pump.heap == 0)
        loop_set(pool->loop, &pool->pump, loop_now_ms(pool->loop), pump_due, pool);
}

static void tick_due(void *owner)
{
    struct pool *pool = owner;
    int64_t period = pool->config.task_timeout_ms / 4;
    period = period < 10 ? 10 : period > TICK_MAX_MS ? TICK_MAX_MS : period;
    loop_set(pool->loop, &pool->tick, loop_now_ms(pool->loop) + period, tick_due, pool);
    workers_tick(pool);
}

static enum lk_code open_all(struct pool *pool, struct lk_err *err)
{
    const struct pool_config *c = &pool->config;
    if (c->workers > 0 && access(c->worker_path, X_OK) != 0)
        return lk_fail(err, LK_FAILED_PRECONDITION, "%s cannot be executed", c->worker_path);
    if (c->listen != NULL)
        LK_TRY(open_server(pool, err));
    pool->hello = hello_of(c);
    /* Who started us may ignore it, and passes that on: then the kernel tells nobody how a worker ended. */
    (void)signal(SIGCHLD, SIG_DFL);
    for (uint32_t i = 0; i < c->workers; i++)
        proc_spawn(worker_new(pool, true));
    tick_due(pool);
    return LK_OK;
}

enum lk_code pool_open(const struct pool_config *config, struct pool **ret_pool, struct lk_err *err)
{
    struct pool *pool = lk_zalloc(1, sizeof *pool);
    pool->config = *config;
    pool->streams = lk_zalloc(config->n_streams + 1, sizeof *pool->streams);
    memcpy(pool->streams, config->stream, config->n_streams * sizeof *pool->streams);
    pool->config.stream = pool->streams;
    if (config->task_timeout_ms == 0)
        pool->config.task_timeout_ms = 30000;
    pool->loop = config->loop;
    pool->text = lk_zalloc(1, sizeof *pool->text);
    pool->last_death = lk_zalloc(1, sizeof *pool->last_death);
    pool->unfit = lk_zalloc(1, sizeof *pool->unfit);
    enum lk_code code = open_all(pool, err);
    if (code != LK_OK) {
        pool_close(pool);
        return code;
    }
    *ret_pool = pool;
    return LK_OK;
}

void pool_close(struct pool *pool)
{
    if (pool == NULL)
        return;
    loop_clear(pool->loop, &pool->pump);
    loop_clear(pool->loop, &pool->tick);
    if (pool->server != NULL)
        loop_unwatch(pool->loop, rpc_server_fd(pool->server));
    /* Idle workers are told, and go; then the others; then there is hardly a connection to close. */
    for (uint32_t i = 0; i < pool->n_workers; i++)
        worker_drop_calls(pool->worker[i], LK_UNAVAILABLE);
    procs_end(pool);
    rpc_server_close(pool->server);
    jobs_done(pool);
    while (pool->n_workers > 0)
        worker_free(pool->worker[pool->n_workers - 1]);
    free(pool->worker);
    if (pool->hello != NULL)
        lk__worker_hello_reply__free_unpacked(pool->hello, NULL);
    free(pool->streams);
    free(pool->remote_token);
    free(pool->row);
    lk_tokens_done(&pool->ids);
    lk_buf_done(pool->text);
    lk_buf_done(pool->last_death);
    lk_buf_done(pool->unfit);
    free(pool->unfit);
    free(pool->text);
    free(pool->last_death);
    free(pool);
}

/* --- submitting --- */

uint64_t pool_submit(struct pool *pool, const struct pool_task *task)
{
    LK_CHECK(task->stream < pool->config.n_streams && task->n >= 1 && task->n <= LK_WORK_ROWS_MAX);
    LK_CHECK(task->dataset < pool->config.stream[task->stream].recipe->n_datasets);
    uint64_t rows = pool->config.stream[task->stream].index[task->dataset].rows;
    for (uint32_t i = 0; i < task->n; i++)
        LK_CHECK(task->rows[i] < rows);
    struct job *job = job_new(pool, task);
    pool_pump_soon(pool);
    return job->id;
}

void pool_hurry(struct pool *pool, uint64_t id, uint64_t urgency)
{
    struct job *job = job_find(pool, id);
    if (job == NULL || job->task.urgency <= urgency)
        return;
    /* Out of the heap before their key changes, one by one: it stays a heap at every moment. */
    uint32_t n = 0;
    for (struct part *p = job->parts; p != NULL; p = p->next)
        n += p->place != 0;
    struct part **queued = lk_zalloc(n + 1, sizeof(struct part *));
    uint32_t k = 0;
    for (struct part *p = job->parts; p != NULL; p = p->next)
        if (p->place != 0)
            queued[k++] = p;
    for (uint32_t i = 0; i < k; i++)
        queue_remove(pool, queued[i]);
    job->task.urgency = urgency;
    for (uint32_t i = 0; i < k; i++)
        queue_part(pool, queued[i]);
    free(queued);
    pool_pump_soon(pool);
}

bool pool_cancel(struct pool *pool, uint64_t id)
{
    struct job *job = job_find(pool, id);
    if (job == NULL || job->finished)
        return false;
    job_free(pool, job);
    pool_pump_soon(pool); /* others may have waited behind it */
    return true;
}

/* --- what it says about itself --- */

const char *pool_address(const struct pool *pool)
{
    return pool->server == NULL ? NULL : rpc_server_address(pool->server, 0);
}

static const struct run *oldest_run(const struct pool *pool)
{
    const struct run *oldest = NULL;
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        const struct worker *w = pool->worker[i];
        for (uint32_t r = 0; r < w->n_running; r++)
            if (w->running[r].part != NULL &&
                (oldest == NULL || w->running[r].since_ms < oldest->since_ms))
                oldest = &w->running[r];
    }
    return oldest;
}

void pool_stats(const struct pool *pool, struct pool_stats *ret_stats)
{
    struct pool_stats stats = pool->stats;
    stats.queued = pool->n_queue + pool->n_retrying;
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        const struct worker *w = pool->worker[i];
        stats.workers += w->ready && w->local;
        stats.remote += w->ready && !w->local;
        stats.running += w->n_running;
    }
    const struct run *oldest = oldest_run(pool);
    stats.oldest_ms = oldest == NULL ? 0 : loop_now_ms(pool->loop) - oldest->since_ms;
    *ret_stats = stats;
}

const char *pool_waits_for(const struct pool *pool)
{
    struct pool_stats stats;
    pool_stats(pool, &stats);
    const struct run *oldest = oldest_run(pool);
    struct lk_buf *text = pool->text;
    text->len = 0;
    if (pool->retrying != NULL && pool->retrying->why != NULL)
        lk_buf_putf(text, "%u tasks wait to be tried again: %s; ", pool->n_retrying,
                    pool->retrying->why);
    if (pool->unfit->len > 0)
        lk_buf_putf(text, "a worker cannot serve: %s; ", lk_buf_cstr(pool->unfit));
    if (stats.workers + stats.remote == 0) {
        lk_buf_putf(text, "no worker is connected, of %u local ones", pool->config.workers);
        if (pool->last_death->len > 0)
            lk_buf_putf(text, "; %s", lk_buf_cstr(pool->last_death));
    } else if (oldest != NULL) {
        lk_buf_putf(text, "%u workers, %u tasks running, %u queued, oldest task %lld.%lld s: %s/%s%s",
                    stats.workers + stats.remote, stats.running, stats.queued,
                    (long long)(stats.oldest_ms / 1000), (long long)(stats.oldest_ms % 1000 / 100),
                    part_dataset(oldest->part), part_shard(oldest->part), part_others(oldest->part));
        if (oldest->part->why != NULL)
            lk_buf_putf(text, ", tried before: %s", oldest->part->why);
    } else {
        lk_buf_putf(text, "%u workers, nothing running, %u queued", stats.workers + stats.remote,
                    stats.queued);
    }
    return lk_buf_cstr(text);
}
