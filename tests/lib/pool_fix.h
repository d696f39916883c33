/*
 * A pool with real workers over a made-up corpus, whose results are looked at as they come: each row once, with the
 * tokens of its text.
 */
#ifndef LK_TESTS_LIB_POOL_FIX_H
#define LK_TESTS_LIB_POOL_FIX_H

#include "base/mem.h"
#include "host/pool.h"
#include "tests/lib/check_main.h"
#include "tests/lib/corpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TASK_ROWS 32

/* A pool over a corpus, and what came of its tasks. */
struct fix {
    struct corpus corpus;
    struct loop *loop;
    struct pool *pool;
    struct pool_config config;
    char *worker_path;
    uint32_t bytes;          /* as given to corpus_make */
    int64_t special_at;      /* row that is not like the others, or -1 */
    uint8_t special_drop;    /* … and what must become of it */
    uint32_t stride;         /* tasks take the rows in steps of so many, all around; 0: one after the other. It has no
                                divisor in common with their number */
    uint32_t open, done_rows, failed;
    uint8_t *seen;           /* [rows] */
    enum lk_code code;       /* of the last failed task, */
    uint32_t failed_row;     /* the row that failed it, */
    uint32_t before;         /* how many of its rows were before that one */
    char detail[1024];       /* … and its text; or that of the special row */
    pid_t pids[64];          /* of workers, as they became ready */
    uint32_t n_pids;
    uint32_t first_tag[1024], n_order; /* order in which tasks were done */
    struct loop_timer timer, guard;
    uint64_t random;
    uint32_t killed, kills_max;
    bool named;              /* pool_waits_for gave the reason */
    uint64_t cancel;         /* task to be cancelled when it runs */
    bool leave;              /* do not wait until its worker is free again */
    pid_t child;
    int child_status;
};

static inline void on_log(void *owner, int level, const char *event, const char *text)
{
    struct fix *f = owner;
    const char *process = strstr(text, "process ");
    (void)level;
    if (strcmp(event, "worker_ready") == 0 && process != NULL && f->n_pids < 64)
        f->pids[f->n_pids++] = (pid_t)atoi(process + 8);
}

static inline void too_late(void *owner)
{
    struct fix *f = owner;
    ck_abort_msg("not done in time: %u tasks open; %s", f->open, pool_waits_for(f->pool));
}

static inline void fix_start(struct fix *f, uint32_t workers)
{
    f->loop = loop_new(NULL);
    f->worker_path = beside_test("../../lanekeeper-worker-faults");
    f->seen = lk_zalloc(f->corpus.rows, 1);
    f->random = 88172645463325252u;
    f->config.loop = f->loop;
    f->config.stream = &f->corpus.stream;
    f->config.n_streams = 1;
    f->config.workers = workers;
    f->config.worker_path = f->worker_path;
    f->config.cache_bytes = 1 << 20;
    f->config.log = on_log;
    f->config.log_owner = f;
    struct lk_err err = {.text = ""};
    ck_assert_msg(pool_open(&f->config, &f->pool, &err) == LK_OK, "%s", err.text);
    loop_set(f->loop, &f->guard, loop_now_ms(f->loop) + 60000, too_late, f);
}

static inline void fix_init(struct fix *f, uint32_t rows, uint32_t bytes, const char *special,
                     uint32_t special_at)
{
    *f = (struct fix){.bytes = bytes, .special_at = special != NULL ? (int64_t)special_at : -1};
    corpus_make(&f->corpus, rows, bytes, special, special_at);
}

/* No process of the pool may remain. */
static inline void fix_done(struct fix *f)
{
    pool_close(f->pool);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    loop_clear(f->loop, &f->guard);
    loop_clear(f->loop, &f->timer);
    loop_free(f->loop);
    free(f->worker_path);
    free(f->seen);
    corpus_done(&f->corpus);
}

static inline void check_row(struct fix *f, uint32_t i, const struct pool_row *row)
{
    ck_assert_uint_eq(f->seen[i]++, 0);
    f->done_rows++;
    if ((int64_t)i == f->special_at) {
        ck_assert_uint_eq(row->drop, f->special_drop);
        (void)snprintf(f->detail, sizeof f->detail, "%s", row->detail);
        return;
    }
    char *text = corpus_text(i, f->bytes);
    size_t n = strlen(text);
    ck_assert_uint_eq(row->drop, 0);
    ck_assert_uint_eq(row->text_bytes, n);
    ck_assert_uint_eq(row->tokens, n + 1);
    size_t same = 0; /* one assertion a row: each writes to a pipe */
    while (same < n && row->ids[same] == (uint8_t)text[same])
        same++;
    ck_assert_uint_eq(same, n);
    ck_assert_uint_eq(row->ids[n], 256);
    free(text);
}

static inline uint32_t task_row(const struct fix *f, uint64_t tag, uint32_t i)
{
    uint32_t first = (uint32_t)tag * TASK_ROWS;
    uint32_t n = f->corpus.rows - first < TASK_ROWS ? f->corpus.rows - first : TASK_ROWS;
    uint32_t row = first + (n - 1 - i); /* backwards: results come in the order of the task, not of the file */
    return f->stride == 0 ? row : (uint32_t)((uint64_t)row * f->stride % f->corpus.rows);
}

static inline void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    if (f->n_order < 1024)
        f->first_tag[f->n_order++] = (uint32_t)tag;
    uint32_t first = (uint32_t)tag * TASK_ROWS, n = result->n;
    if (result->code != LK_OK) {
        f->failed++;
        f->code = result->code;
        f->before = n;
        f->failed_row = task_row(f, tag, n);
        (void)snprintf(f->detail, sizeof f->detail, "%s", result->detail);
    } else {
        ck_assert(n == TASK_ROWS || first + n == f->corpus.rows);
    }
    for (uint32_t i = 0; i < n; i++)
        check_row(f, task_row(f, tag, i), &result->rows[i]);
    if (--f->open == 0)
        loop_stop(f->loop);
}

static inline uint64_t submit(struct fix *f, uint64_t tag, uint64_t urgency)
{
    uint64_t rows[TASK_ROWS];
    uint32_t first = (uint32_t)tag * TASK_ROWS, n = 0;
    while (n < TASK_ROWS && first + n < f->corpus.rows) {
        rows[n] = task_row(f, tag, n);
        n++;
    }
    struct pool_task task = {.rows = rows, .n = n, .urgency = urgency, .done = on_done,
                             .owner = f, .tag = tag};
    f->open++;
    return pool_submit(f->pool, &task);
}

static inline void submit_all(struct fix *f)
{
    for (uint32_t tag = 0; tag * TASK_ROWS < f->corpus.rows; tag++)
        (void)submit(f, tag, 0);
}

static inline void run(struct fix *f)
{
    loop_run(f->loop);
    ck_assert_uint_eq(f->open, 0);
}

static inline void again(void *owner, uint64_t tag, const struct pool_result *result);

/* A row alone, and when it is done the one after it, to the last. */
static inline void submit_again(struct fix *f, uint64_t tag)
{
    uint64_t row = tag;
    struct pool_task task = {.rows = &row, .n = 1, .done = again, .owner = f, .tag = tag};
    f->open++;
    (void)pool_submit(f->pool, &task);
}

static inline void again(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    ck_assert_int_eq(result->code, LK_OK);
    if (tag + 1 < f->corpus.rows)
        submit_again(f, tag + 1);
    check_row(f, (uint32_t)tag, &result->rows[0]);
    if (--f->open == 0)
        loop_stop(f->loop);
}

#endif
