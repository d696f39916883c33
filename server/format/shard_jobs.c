#include "format/shard_jobs.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { REPORT_EVERY_MS = 200 };

struct lk_shard_jobs {
    enum lk_code (*run)(void *owner, const struct lk_shard_work *work, struct lk_err *err);
    void *owner;
    uint32_t n;
    struct lk_progress progress;
    uint64_t all_bytes;
    _Atomic uint32_t next;      /* shard to be taken next: in order, so that all before it were */
    _Atomic uint32_t first_bad; /* the first shard that failed; n when none has */
    _Atomic uint64_t bytes, rows;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t idle;
    unsigned running;
    enum lk_code code; /* of first_bad */
    struct lk_err err;
};

void lk_shard_work_add(const struct lk_shard_work *work, uint64_t bytes, uint64_t rows)
{
    atomic_fetch_add_explicit(&work->jobs->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&work->jobs->rows, rows, memory_order_relaxed);
}

bool lk_shard_work_unwanted(const struct lk_shard_work *work)
{
    return atomic_load_explicit(&work->jobs->first_bad, memory_order_relaxed) < work->shard;
}

static void note_failure(struct lk_shard_jobs *jobs, uint32_t shard, enum lk_code code,
                         const struct lk_err *err)
{
    pthread_mutex_lock(&jobs->lock);
    if (shard < atomic_load(&jobs->first_bad)) {
        atomic_store(&jobs->first_bad, shard);
        jobs->code = code;
        jobs->err = *err;
    }
    pthread_mutex_unlock(&jobs->lock);
}

static void *work_on(void *arg)
{
    struct lk_shard_jobs *jobs = arg;
    for (;;) {
        struct lk_shard_work work = {.jobs = jobs, .shard = atomic_fetch_add(&jobs->next, 1)};
        if (work.shard >= jobs->n || lk_shard_work_unwanted(&work))
            break;
        struct lk_err err = {0};
        enum lk_code code = jobs->run(jobs->owner, &work, &err);
        if (code != LK_OK)
            note_failure(jobs, work.shard, code, &err);
    }
    pthread_mutex_lock(&jobs->lock);
    jobs->running--;
    pthread_cond_signal(&jobs->idle);
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static void report(struct lk_shard_jobs *jobs)
{
    if (jobs->progress.report != NULL)
        jobs->progress.report(jobs->progress.owner, atomic_load(&jobs->bytes), jobs->all_bytes,
                              atomic_load(&jobs->rows));
}

static void wait_for_workers(struct lk_shard_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    while (jobs->running > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += REPORT_EVERY_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (pthread_cond_timedwait(&jobs->idle, &jobs->lock, &until) == 0)
            continue;
        pthread_mutex_unlock(&jobs->lock);
        report(jobs);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
}

static void jobs_init(struct lk_shard_jobs *jobs)
{
    pthread_condattr_t attr;
    jobs->code = LK_OK;
    atomic_store(&jobs->first_bad, jobs->n);
    LK_CHECK(pthread_mutex_init(&jobs->lock, NULL) == 0);
    LK_CHECK(pthread_condattr_init(&attr) == 0);
    LK_CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    LK_CHECK(pthread_cond_init(&jobs->idle, &attr) == 0);
    (void)pthread_condattr_destroy(&attr);
}

enum lk_code lk_shard_jobs_run(uint32_t n, unsigned threads, uint64_t all_bytes,
                               struct lk_progress progress,
                               enum lk_code (*run)(void *owner, const struct lk_shard_work *work,
                                                   struct lk_err *err),
                               void *owner, struct lk_err *err)
{
    struct lk_shard_jobs jobs = {
        .run = run, .owner = owner, .n = n, .progress = progress, .all_bytes = all_bytes};
    pthread_t ids[LK_INDEX_THREADS_MAX];
    unsigned started = 0;

    jobs_init(&jobs);
    if (threads > n)
        threads = n;
    if (threads > LK_INDEX_THREADS_MAX)
        threads = LK_INDEX_THREADS_MAX;
    jobs.running = threads;
    while (started < threads && pthread_create(&ids[started], NULL, work_on, &jobs) == 0)
        started++;
    pthread_mutex_lock(&jobs.lock);
    jobs.running -= threads - started;
    pthread_mutex_unlock(&jobs.lock);
    wait_for_workers(&jobs);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    if (started == 0 && n > 0)
        jobs.code = lk_fail(&jobs.err, LK_RESOURCE_EXHAUSTED, "cannot start a thread");
    report(&jobs);
    if (jobs.code != LK_OK && err != NULL)
        *err = jobs.err;
    (void)pthread_cond_destroy(&jobs.idle);
    (void)pthread_mutex_destroy(&jobs.lock);
    return jobs.code;
}
