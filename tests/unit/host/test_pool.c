#include "base/mem.h"
#include "host/pool.h"
#include "tests/lib/check_main.h"
#include "tests/lib/corpus.h"
#include "worker/link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    uint32_t open, done_rows, failed;
    uint8_t *seen;           /* [rows] */
    enum lk_code code;       /* of the last failed task */
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

static void on_log(void *owner, int level, const char *event, const char *text)
{
    struct fix *f = owner;
    const char *process = strstr(text, "process ");
    (void)level;
    if (strcmp(event, "worker_ready") == 0 && process != NULL && f->n_pids < 64)
        f->pids[f->n_pids++] = (pid_t)atoi(process + 8);
}

static void too_late(void *owner)
{
    struct fix *f = owner;
    ck_abort_msg("not done in time: %u tasks open; %s", f->open, pool_waits_for(f->pool));
}

static void fix_start(struct fix *f, uint32_t workers)
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

static void fix_init(struct fix *f, uint32_t rows, uint32_t bytes, const char *special,
                     uint32_t special_at)
{
    *f = (struct fix){.bytes = bytes, .special_at = special != NULL ? (int64_t)special_at : -1};
    corpus_make(&f->corpus, rows, bytes, special, special_at);
}

/* No process of the pool may remain. */
static void fix_done(struct fix *f)
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

static void check_row(struct fix *f, uint32_t i, const struct pool_row *row)
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

static uint32_t task_row(const struct fix *f, uint64_t tag, uint32_t i)
{
    uint32_t first = (uint32_t)tag * TASK_ROWS;
    uint32_t n = f->corpus.rows - first < TASK_ROWS ? f->corpus.rows - first : TASK_ROWS;
    return first + (n - 1 - i); /* backwards: results come in the order of the task, not of the file */
}

static void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    if (f->n_order < 1024)
        f->first_tag[f->n_order++] = (uint32_t)tag;
    if (result->code != LK_OK) {
        ck_assert_ptr_null(result->rows);
        f->failed++;
        f->code = result->code;
        (void)snprintf(f->detail, sizeof f->detail, "%s", result->detail);
    } else {
        uint32_t first = (uint32_t)tag * TASK_ROWS;
        for (uint32_t i = 0; i < TASK_ROWS && first + i < f->corpus.rows; i++)
            check_row(f, task_row(f, tag, i), &result->rows[i]);
    }
    if (--f->open == 0)
        loop_stop(f->loop);
}

static uint64_t submit(struct fix *f, uint64_t tag, uint64_t urgency)
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

static void submit_all(struct fix *f)
{
    for (uint32_t tag = 0; tag * TASK_ROWS < f->corpus.rows; tag++)
        (void)submit(f, tag, 0);
}

static void run(struct fix *f)
{
    loop_run(f->loop);
    ck_assert_uint_eq(f->open, 0);
}

/* --- results --- */

START_TEST(rows_come_back_as_their_tokens_in_the_order_of_the_task)
{
    struct fix f;
    fix_init(&f, 1000, 200, NULL, 0);
    fix_start(&f, (uint32_t)_i);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 1000);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.rows, 1000);
    ck_assert_uint_eq(stats.running + stats.queued, 0);
    ck_assert_uint_eq(stats.deaths, 0);
    ck_assert_uint_ge(stats.workers, 1);
    ck_assert_uint_gt(stats.cpu_ns, 0);
    fix_done(&f);
}
END_TEST

static void again(void *owner, uint64_t tag, const struct pool_result *result);

static void submit_again(struct fix *f, uint64_t tag)
{
    uint64_t row = tag;
    struct pool_task task = {.rows = &row, .n = 1, .done = again, .owner = f, .tag = tag};
    f->open++;
    (void)pool_submit(f->pool, &task);
}

static void again(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    ck_assert_int_eq(result->code, LK_OK);
    if (tag + 1 < f->corpus.rows)
        submit_again(f, tag + 1);
    check_row(f, (uint32_t)tag, &result->rows[0]);
    if (--f->open == 0)
        loop_stop(f->loop);
}

START_TEST(a_callback_may_submit_more)
{
    struct fix f;
    fix_init(&f, 200, 50, NULL, 0);
    fix_start(&f, 1);
    submit_again(&f, 0);
    run(&f);
    ck_assert_uint_eq(f.done_rows, 200);
    fix_done(&f);
}
END_TEST

START_TEST(a_malformed_row_fails_its_task_and_is_named)
{
    struct fix f;
    fix_init(&f, 100, 50, "{\"text\": 7 x", 40);
    fix_start(&f, 1);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 1);
    ck_assert_int_eq(f.code, LK_INVALID_ARGUMENT);
    ck_assert_msg(strstr(f.detail, "docs") && strstr(f.detail, "docs.jsonl") &&
                      strstr(f.detail, "row 40"),
                  "%s", f.detail);
    ck_assert_uint_eq(f.done_rows, 100 - TASK_ROWS);
    fix_done(&f);
}
END_TEST

START_TEST(a_malformed_row_is_dropped_with_its_reason_where_the_recipe_says_so)
{
    struct fix f;
    fix_init(&f, 100, 50, "{\"text\": 7 x", 40);
    f.corpus.recipe.on_bad_row = LK_BAD_DROP;
    f.special_drop = 2; /* malformed_row */
    fix_start(&f, 1);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 100);
    ck_assert_str_ne(f.detail, "");
    fix_done(&f);
}
END_TEST

START_TEST(data_that_changed_since_indexing_is_data_loss)
{
    struct fix f;
    fix_init(&f, 64, 50, NULL, 0);
    FILE *file = fopen(f.corpus.path, "r+");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 25, SEEK_SET), 0);
    (void)fputc('!', file);
    ck_assert_int_eq(fclose(file), 0);
    fix_start(&f, 1);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 1);
    ck_assert_int_eq(f.code, LK_DATA_LOSS);
    ck_assert_msg(strstr(f.detail, "docs.jsonl") != NULL, "%s", f.detail);
    fix_done(&f);
}
END_TEST

START_TEST(urgent_tasks_go_first_and_a_queued_one_can_be_hurried)
{
    struct fix f;
    fix_init(&f, 10 * TASK_ROWS, 50, NULL, 0);
    fix_start(&f, 1);
    (void)submit(&f, 0, 5);
    (void)submit(&f, 1, 5);
    (void)submit(&f, 2, 1);
    uint64_t id = submit(&f, 3, 9);
    (void)submit(&f, 4, 0);
    (void)submit(&f, 5, 1);
    pool_hurry(f.pool, id, 0);
    pool_hurry(f.pool, id, 7); /* never the other way */
    pool_hurry(f.pool, 12345, 0);
    run(&f);
    /* Two tasks are on their way at once, and may overtake each other on it: not more than that. */
    const int place[] = {4, 5, 2, 0, 1, 3};
    ck_assert_uint_eq(f.n_order, 6);
    for (int i = 0; i < 6; i++)
        ck_assert_int_le(abs(place[f.first_tag[i]] - i), 1);
    fix_done(&f);
}
END_TEST

/* --- cancelling --- */

START_TEST(a_cancelled_task_that_waits_is_never_run)
{
    struct fix f;
    struct pool_stats stats;
    uint64_t id[10];
    fix_init(&f, 10 * TASK_ROWS, 50, NULL, 0);
    fix_start(&f, 1);
    for (uint32_t tag = 0; tag < 10; tag++)
        id[tag] = submit(&f, tag, tag);
    for (uint32_t tag = 0; tag < 10; tag += 3) {
        ck_assert(pool_cancel(f.pool, id[tag]));
        ck_assert(!pool_cancel(f.pool, id[tag]));
        f.open--;
    }
    ck_assert(!pool_cancel(f.pool, 12345));
    pool_hurry(f.pool, id[0], 0); /* gone: nothing happens */
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.queued, 6);
    run(&f);
    ck_assert_uint_eq(f.done_rows, 6 * TASK_ROWS);
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.rows, 6 * TASK_ROWS); /* nor did a worker see the others */
    for (uint32_t tag = 0; tag < 10; tag++) {
        ck_assert_uint_eq(f.seen[tag * TASK_ROWS], tag % 3 != 0);
        ck_assert(!pool_cancel(f.pool, id[tag]));
    }
    fix_done(&f);
}
END_TEST

struct canceller {
    struct fix *fix;
    uint64_t self;
    bool self_cancelled, other_cancelled;
};

static void done_and_cancel(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct canceller *c = owner;
    ck_assert_uint_eq(tag, 1);
    ck_assert_int_eq(result->code, LK_OK);
    uint64_t other = submit(c->fix, 3, 0);
    (void)submit(c->fix, 2, 1);
    c->self_cancelled = pool_cancel(c->fix->pool, c->self);
    c->other_cancelled = pool_cancel(c->fix->pool, other);
    c->fix->open--;
}

START_TEST(a_callback_may_cancel_other_tasks_and_not_its_own)
{
    struct fix f;
    fix_init(&f, 4 * TASK_ROWS, 50, NULL, 0);
    fix_start(&f, 1);
    struct canceller c = {.fix = &f};
    uint64_t row = 0;
    struct pool_task task = {.rows = &row, .n = 1, .done = done_and_cancel, .owner = &c, .tag = 1};
    c.self = pool_submit(f.pool, &task);
    run(&f);
    ck_assert(!c.self_cancelled);
    ck_assert(c.other_cancelled);
    ck_assert_uint_eq(f.done_rows, TASK_ROWS);
    ck_assert_uint_eq(f.seen[2 * TASK_ROWS], 1);
    fix_done(&f);
}
END_TEST

/* Cancels the one task once a worker has it, and stops the loop when that worker is free again. */
static void cancel_running(void *owner)
{
    struct fix *f = owner;
    struct pool_stats stats;
    pool_stats(f->pool, &stats);
    if (f->open > 0 && stats.running > 0) {
        ck_assert(pool_cancel(f->pool, f->cancel));
        f->open = 0;
    }
    pool_stats(f->pool, &stats);
    if (f->open == 0 && (f->leave || stats.running == 0)) {
        loop_stop(f->loop);
        return;
    }
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 5, cancel_running, f);
}

START_TEST(a_cancelled_task_that_runs_ends_unheard_and_its_worker_goes_on)
{
    struct fix f;
    fix_init(&f, 2 * TASK_ROWS, 50, "{\"text\": \"SLOW\"}", 7);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    fix_start(&f, 1);
    f.cancel = submit(&f, 0, 0);
    cancel_running(&f);
    loop_run(f.loop);
    ck_assert_uint_eq(f.n_order, 0); /* done was not called */
    (void)submit(&f, 1, 0);
    run(&f);
    ck_assert_uint_eq(f.n_order, 1);
    ck_assert_uint_eq(f.done_rows, TASK_ROWS);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.deaths, 0);
    fix_done(&f);
}
END_TEST

START_TEST(a_worker_stuck_in_a_cancelled_task_is_replaced)
{
    struct fix f;
    fix_init(&f, 2 * TASK_ROWS, 50, "{\"text\": \"SLOW\"}", 7);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    f.config.task_timeout_ms = 50;
    f.leave = true;
    fix_start(&f, 1);
    f.cancel = submit(&f, 0, 0);
    cancel_running(&f);
    loop_run(f.loop);
    ck_assert_int_eq(kill(f.pids[0], SIGSTOP), 0); /* it would never end by itself */
    (void)submit(&f, 1, 0);
    run(&f);
    ck_assert_uint_eq(f.done_rows, TASK_ROWS);
    ck_assert_uint_ge(f.n_pids, 2);
    fix_done(&f);
}
END_TEST

/* --- a worker on another machine, as a person starts it --- */

static void poll_child(void *owner)
{
    struct fix *f = owner;
    if (waitpid(f->child, &f->child_status, WNOHANG) == f->child)
        loop_stop(f->loop);
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 2, poll_child, f);
}

static pid_t start_remote(const char *address, const char *token_file)
{
    char *path = beside_test("../../../lanekeeper-worker");
    char *argv[] = {path, (char *)"--connect", (char *)address, (char *)"--token-file",
                    (char *)token_file, NULL};
    pid_t pid;
    ck_assert_int_eq(posix_spawn(&pid, path, NULL, NULL, argv, environ), 0);
    free(path);
    return pid;
}

static void end_remote(pid_t pid, int expected)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, expected);
}

/* The same worker serves one daemon after the other: a restart costs time, only. */
START_TEST(a_remote_worker_works_and_outlives_its_daemon)
{
    struct fix f;
    struct lk_err err = {.text = ""};
    fix_init(&f, 300, 100, NULL, 0);
    char *token_file = lk_format("%s/token", f.corpus.dir);
    FILE *file = fopen(token_file, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs("0123456789abcdef\n", file);
    ck_assert_int_eq(fclose(file), 0);
    f.config.listen = "tcp://127.0.0.1:0";
    f.config.token_file = token_file;
    fix_start(&f, 0);
    char *address = lk_strdup(pool_address(f.pool));
    pid_t pid = start_remote(address, token_file);
    f.config.listen = address;
    for (int round = 0; round < 3; round++) {
        submit_all(&f);
        run(&f);
        ck_assert_uint_eq(f.done_rows, 300);
        ck_assert_uint_eq(f.n_pids, (uint32_t)round + 1);
        ck_assert_int_eq(f.pids[round], pid);
        memset(f.seen, 0, 300);
        f.done_rows = 0;
        pool_close(f.pool);
        ck_assert_msg(pool_open(&f.config, &f.pool, &err) == LK_OK, "%s", err.text);
    }
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    end_remote(pid, SIGTERM);
    file = fopen(token_file, "we");
    (void)fputs("another token, a wrong one", file);
    ck_assert_int_eq(fclose(file), 0);
    loop_set(f.loop, &f.timer, loop_now_ms(f.loop), poll_child, &f);
    f.child = start_remote(address, token_file);
    loop_run(f.loop);
    ck_assert(WIFEXITED(f.child_status) && WEXITSTATUS(f.child_status) == 1);
    fix_done(&f);
    free(address);
    free(token_file);
}
END_TEST

/* --- deaths --- */

static void kill_one(void *owner)
{
    struct fix *f = owner;
    f->random ^= f->random << 13, f->random ^= f->random >> 7, f->random ^= f->random << 17;
    if (f->n_pids > 0 && f->killed < f->kills_max) {
        uint32_t recent = f->n_pids < 2 ? f->n_pids : 2;
        if (kill(f->pids[f->n_pids - 1 - f->random % recent], SIGKILL) == 0)
            f->killed++;
        if (f->n_pids > 60)
            f->n_pids = 0;
    }
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 2 + (int64_t)(f->random >> 32 & 31),
             kill_one, f);
}

/* Submits rounds of all tasks until enough workers were killed. */
START_TEST(killing_workers_at_random_changes_no_result)
{
    struct fix f;
    fix_init(&f, 3000, 3000, NULL, 0);
    f.kills_max = 30;
    fix_start(&f, 2);
    kill_one(&f);
    uint32_t rounds = 0;
    do {
        memset(f.seen, 0, f.corpus.rows);
        f.done_rows = 0;
        submit_all(&f);
        run(&f);
        ck_assert_uint_eq(f.failed, 0);
        ck_assert_uint_eq(f.done_rows, 3000);
    } while (f.killed < 10 && ++rounds < 100);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_ge(stats.deaths, 5);
    fix_done(&f);
}
END_TEST

/* One after the other, each worker is ended while it has the row; the last one is left alone. */
static void kill_each(void *owner)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGKILL, SIGQUIT};
    struct fix *f = owner;
    struct pool_stats stats;
    pool_stats(f->pool, &stats);
    if (f->killed < sizeof signals / sizeof *signals && f->n_pids == f->killed + 1 &&
        stats.running > 0) {
        ck_assert_int_eq(kill(f->pids[f->killed], signals[f->killed]), 0);
        f->killed++;
    }
    const char *text = pool_waits_for(f->pool);
    if (strstr(text, "row 0 at byte") && strstr(text, "was killed by SIGHUP"))
        f->named = true;
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 5, kill_each, f);
}

START_TEST(kills_from_outside_never_convict_a_row)
{
    struct fix f;
    fix_init(&f, 1, 50, "{\"text\": \"SLOW\"}", 0);
    f.corpus.recipe.drop_crashing = true;
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    fix_start(&f, 1);
    kill_each(&f);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 1); /* check_row: it is not dropped */
    ck_assert_uint_eq(f.killed, 6);
    ck_assert(f.named);
    fix_done(&f);
}
END_TEST

START_TEST(a_row_that_crashes_workers_is_found_and_dropped_and_no_other_is)
{
    struct fix f;
    fix_init(&f, 200, 50, "{\"text\": \"CRASH-ME\"}", 77);
    f.corpus.recipe.drop_crashing = true;
    f.special_drop = 7; /* crashes_worker */
    ck_assert_int_eq(setenv("LK_FAULT_CRASH_TEXT", "CRASH-ME", 1), 0);
    fix_start(&f, 2);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 200);
    ck_assert_msg(strstr(f.detail, "row 77") && strstr(f.detail, "docs.jsonl"), "%s", f.detail);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_ge(stats.bisected, 4);
    ck_assert_uint_le(stats.deaths, 16);
    fix_done(&f);
}
END_TEST

START_TEST(a_row_that_crashes_workers_fails_its_task_alone_when_it_may_not_be_dropped)
{
    struct fix f;
    fix_init(&f, 200, 50, "{\"text\": \"CRASH-ME\"}", 77);
    ck_assert_int_eq(setenv("LK_FAULT_CRASH_TEXT", "CRASH-ME", 1), 0);
    fix_start(&f, 2);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 1);
    ck_assert_int_eq(f.code, LK_FAILED_PRECONDITION);
    ck_assert_msg(strstr(f.detail, "row 77") && strstr(f.detail, "docs.jsonl") &&
                      strstr(f.detail, "SIGABRT"),
                  "%s", f.detail);
    ck_assert_uint_eq(f.done_rows, 200 - TASK_ROWS);
    fix_done(&f);
}
END_TEST

START_TEST(a_row_that_takes_all_memory_ends_its_workers_by_itself_and_is_dropped)
{
    struct fix f;
    fix_init(&f, 64, 50, "{\"text\": \"EAT-ALL\"}", 40);
    f.corpus.recipe.drop_crashing = true;
    f.special_drop = 7; /* crashes_worker */
    ck_assert_int_eq(setenv("LK_FAULT_EAT_TEXT", "EAT-ALL", 1), 0);
    fix_start(&f, 2);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 64);
    ck_assert_msg(strstr(f.detail, "row 40") && strstr(f.detail, "SIGABRT"), "%s", f.detail);
    fix_done(&f);
}
END_TEST

START_TEST(the_shipped_worker_has_no_faults)
{
    struct fix f;
    fix_init(&f, 64, 50, "{\"text\": \"CRASH-ME\"}", 7);
    ck_assert_int_eq(setenv("LK_FAULT_CRASH_TEXT", "CRASH-ME", 1), 0);
    f.loop = loop_new(NULL);
    char *shipped = beside_test("../../../lanekeeper-worker");
    loop_free(f.loop);
    fix_start(&f, 0);
    pool_close(f.pool);
    f.config.workers = 1;
    f.config.worker_path = shipped;
    struct lk_err err = {.text = ""};
    ck_assert_msg(pool_open(&f.config, &f.pool, &err) == LK_OK, "%s", err.text);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.done_rows, 64);
    fix_done(&f);
    free(shipped);
}
END_TEST

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Not to wait at the end for one that sleeps. */
static void kill_all(const struct fix *f)
{
    for (uint32_t i = 0; i < f->n_pids; i++)
        (void)kill(f->pids[i], SIGKILL);
}

/* The slow worker sleeps for a minute; the other one must not wait for it. */
START_TEST(a_slow_task_is_given_to_another_worker_and_the_first_result_counts)
{
    struct fix f;
    fix_init(&f, 64, 50, "{\"text\": \"SLOW\"}", 7);
    char *once = lk_format("%s/once", f.corpus.dir);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_ONCE", once, 1), 0);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_MS", "60000", 1), 0);
    f.config.task_timeout_ms = 150;
    fix_start(&f, 2);
    int64_t start = now_ms();
    submit_all(&f);
    run(&f);
    ck_assert_int_lt(now_ms() - start, 30000);
    ck_assert_uint_eq(f.done_rows, 64);
    ck_assert_int_eq(access(once, F_OK), 0);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_ge(stats.retried, 1);
    kill_all(&f);
    fix_done(&f);
    free(once);
}
END_TEST

START_TEST(a_stuck_worker_is_replaced_and_its_rows_are_not_blamed)
{
    struct fix f;
    fix_init(&f, 64, 50, NULL, 0);
    f.corpus.recipe.drop_crashing = true;
    f.config.task_timeout_ms = 50;
    fix_start(&f, 1);
    while (f.n_pids == 0) { /* until the first has said hello */
        f.open = 1;
        submit_again(&f, f.corpus.rows - 1);
        f.open = 1;
        f.seen[f.corpus.rows - 1] = 0;
        f.done_rows = 0;
        run(&f);
    }
    f.seen[f.corpus.rows - 1] = 0;
    f.done_rows = 0;
    ck_assert_int_eq(kill(f.pids[0], SIGSTOP), 0);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 64);
    ck_assert_uint_ge(f.n_pids, 2);
    fix_done(&f);
}
END_TEST

static void look_for_end(void *owner)
{
    struct fix *f = owner;
    struct pool_stats stats;
    pool_stats(f->pool, &stats);
    if (stats.deaths >= 4)
        loop_stop(f->loop);
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 5, look_for_end, f);
}

START_TEST(a_worker_that_cannot_run_is_named_and_tried_again)
{
    struct fix f;
    struct lk_err err = {.text = ""};
    fix_init(&f, 8, 50, NULL, 0);
    fix_start(&f, 0);
    pool_close(f.pool);
    f.config.workers = 1;
    f.config.worker_path = "/nowhere/worker";
    ck_assert_int_eq(pool_open(&f.config, &f.pool, &err), LK_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/worker"));
    f.config.worker_path = "/bin/false";
    ck_assert_int_eq(pool_open(&f.config, &f.pool, &err), LK_OK);
    int64_t start = now_ms();
    look_for_end(&f);
    loop_run(f.loop);
    ck_assert_int_ge(now_ms() - start, 20 + 40); /* pauses between the starts, growing */
    const char *text = pool_waits_for(f.pool);
    ck_assert_msg(strstr(text, "no worker") && strstr(text, "exited with status 1"), "%s", text);
    fix_done(&f);
}
END_TEST

/* --- nothing remains (RC-121, RC-125) --- */

static uint32_t count_ours(const char *path)
{
    DIR *dir = opendir(path);
    uint32_t n = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strstr(e->d_name, "lanekeeper") != NULL;
    (void)closedir(dir);
    return n;
}

static uint32_t count_everywhere(void)
{
    return count_ours("/tmp") + count_ours("/dev/shm") + count_ours("/var/tmp");
}

/* Check's own: opens a channel for what assertions report. */
extern void setup_messaging(void);

/* A daemon in the middle of its work, which tells its workers' numbers as they come. It dies in the middle of
 * whatever it does. Its assertions report to nobody: on the test's own channel, a
 * report that is cut off by the kill would take the test with it. */
static void daemon_body(struct fix *f, int out)
{
    setup_messaging();
    fix_start(f, 2);
    for (;;) {
        memset(f->seen, 0, f->corpus.rows);
        submit_all(f);
        run(f);
        if (f->n_pids == 2) {
            (void)!write(out, f->pids, 2 * sizeof *f->pids);
            f->n_pids++;
        }
    }
}

/* RC-121, RC-125 */
START_TEST(workers_die_with_a_killed_daemon_and_nothing_remains)
{
    struct fix f;
    int ends[2];
    fix_init(&f, 500, 500, NULL, 0);
    uint32_t before = count_everywhere();
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans become ours to wait for */
    ck_assert_int_eq(pipe(ends), 0);
    pid_t daemon_pid = fork(); /* no thread and no nng yet in this process */
    ck_assert_int_ge(daemon_pid, 0);
    if (daemon_pid == 0)
        daemon_body(&f, ends[1]);
    pid_t workers[2];
    (void)close(ends[1]);
    ck_assert_int_eq(read(ends[0], workers, sizeof workers), sizeof workers);
    (void)usleep((useconds_t)_i * 1300); /* at some moment or other */
    ck_assert_int_eq(kill(daemon_pid, SIGKILL), 0);
    int ours = 0, status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, 0)) > 0) { /* the test's own time limit guards this */
        if (pid != daemon_pid && pid != workers[0] && pid != workers[1])
            continue; /* a leak checker's helper, left behind by its worker */
        ours++;
        /* Workers may see the end of their connection before the signal reaches them. */
        ck_assert(pid != daemon_pid || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
    ck_assert_int_eq(ours, 3); /* and no process is left, or waitpid would still wait */
    for (int i = 0; i < 1000 && count_everywhere() > before; i++) /* what others have there goes when they do */
        (void)usleep(20 * 1000);
    ck_assert_uint_le(count_everywhere(), before);
    (void)close(ends[0]);
    corpus_done(&f.corpus);
}
END_TEST

/* Stops when the one worker has as many tasks as it may have at once, and there are more. */
static void stop_when_busy(void *owner)
{
    struct fix *f = owner;
    struct pool_stats stats;
    pool_stats(f->pool, &stats);
    if (stats.running == LINK_SLOTS && stats.queued > 0)
        loop_stop(f->loop);
    else
        loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 1, stop_when_busy, f);
}

/* If it had to be killed, that would always be after 300 ms. On a busy machine one of ten is quick enough. */
START_TEST(a_worker_with_tasks_in_hand_ends_by_itself)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 10 && best >= 250; i++) {
        struct fix f;
        fix_init(&f, 1000, 3000, NULL, 0);
        fix_start(&f, 1);
        submit_all(&f);
        stop_when_busy(&f);
        loop_run(f.loop);
        int64_t start = now_ms();
        fix_done(&f);
        best = now_ms() - start < best ? now_ms() - start : best;
    }
    ck_assert_int_lt(best, 250);
}
END_TEST

/* Its workers get a moment (with a leak checker three seconds), and then are killed: nobody waits for the minute. */
START_TEST(closing_in_the_middle_of_work_ends_all_in_bounded_time)
{
    struct fix f;
    fix_init(&f, 64, 50, "{\"text\": \"SLOW\"}", 7);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_MS", "60000", 1), 0);
    fix_start(&f, 2);
    (void)submit(&f, 1, 0);
    run(&f);
    (void)submit(&f, 0, 0);
    uint32_t before = f.n_order;
    f.open = 1;
    f.done_rows = 0;
    int64_t start = now_ms();
    fix_done(&f);
    ck_assert_int_lt(now_ms() - start, 20000);
    ck_assert_uint_eq(f.n_order, before);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/pool");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 90);
    tcase_add_loop_test(t, rows_come_back_as_their_tokens_in_the_order_of_the_task, 1, 4);
    tcase_add_test(t, a_callback_may_submit_more);
    tcase_add_test(t, a_malformed_row_fails_its_task_and_is_named);
    tcase_add_test(t, a_malformed_row_is_dropped_with_its_reason_where_the_recipe_says_so);
    tcase_add_test(t, data_that_changed_since_indexing_is_data_loss);
    tcase_add_test(t, urgent_tasks_go_first_and_a_queued_one_can_be_hurried);
    tcase_add_test(t, a_cancelled_task_that_waits_is_never_run);
    tcase_add_test(t, a_callback_may_cancel_other_tasks_and_not_its_own);
    tcase_add_test(t, a_cancelled_task_that_runs_ends_unheard_and_its_worker_goes_on);
    tcase_add_test(t, a_worker_stuck_in_a_cancelled_task_is_replaced);
    tcase_add_test(t, a_remote_worker_works_and_outlives_its_daemon);
    suite_add_tcase(s, t);
    t = tcase_create("deaths");
    tcase_set_timeout(t, 90);
    tcase_add_test(t, killing_workers_at_random_changes_no_result);
    tcase_add_test(t, kills_from_outside_never_convict_a_row);
    tcase_add_test(t, a_row_that_crashes_workers_is_found_and_dropped_and_no_other_is);
    tcase_add_test(t, a_row_that_crashes_workers_fails_its_task_alone_when_it_may_not_be_dropped);
    tcase_add_test(t, a_row_that_takes_all_memory_ends_its_workers_by_itself_and_is_dropped);
    tcase_add_test(t, the_shipped_worker_has_no_faults);
    tcase_add_test(t, a_slow_task_is_given_to_another_worker_and_the_first_result_counts);
    tcase_add_test(t, a_stuck_worker_is_replaced_and_its_rows_are_not_blamed);
    tcase_add_test(t, a_worker_that_cannot_run_is_named_and_tried_again);
    suite_add_tcase(s, t);
    t = tcase_create("ends");
    tcase_set_timeout(t, 90);
    tcase_add_loop_test(t, workers_die_with_a_killed_daemon_and_nothing_remains, 0, 8);
    tcase_add_test(t, a_worker_with_tasks_in_hand_ends_by_itself);
    tcase_add_test(t, closing_in_the_middle_of_work_ends_all_in_bounded_time);
    suite_add_tcase(s, t);
    return s;
}
