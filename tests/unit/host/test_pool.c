#include "tests/lib/pool_fix.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

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

/* Now and then what the pool says of itself is looked at. */
static void look_for_others(void *owner)
{
    struct fix *f = owner;
    const char *text = pool_waits_for(f->pool);
    if (strstr(text, ": docs/docs-003.jsonl.zst and others") != NULL)
        f->named = true;
    loop_set(f->loop, &f->timer, loop_now_ms(f->loop) + 1, look_for_others, f);
}

/* Neighbours of a task are rows of one shard, of two, or each of another. */
START_TEST(rows_of_many_shards_come_back_in_the_order_of_the_task)
{
    static const uint32_t strides[] = {0, 1, 7, 37, 97, 333};
    struct fix f;
    fix_init(&f, 1000, 200, NULL, 0);
    corpus_split(&f.corpus, 11);
    f.stride = strides[_i];
    fix_start(&f, 2);
    submit_all(&f);
    run(&f);
    ck_assert_msg(f.failed == 0, "%s", f.detail);
    ck_assert_uint_eq(f.done_rows, 1000);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.tasks, (1000 + TASK_ROWS - 1) / TASK_ROWS); /* each was one task, however it lies */
    ck_assert_uint_eq(stats.retried + stats.deaths + stats.bisected, 0);
    fix_done(&f);
}
END_TEST

START_TEST(a_row_of_many_shards_that_fails_its_task_is_named_by_its_own)
{
    struct fix f;
    fix_init(&f, 300, 50, "{\"text\": 7 x", 140);
    corpus_split(&f.corpus, 10); /* 30 rows each */
    f.stride = 31;
    fix_start(&f, 1);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 1);
    ck_assert_int_eq(f.code, LK_INVALID_ARGUMENT);
    ck_assert_msg(strstr(f.detail, "docs-004.jsonl: row 20 at byte") != NULL, "%s", f.detail);
    ck_assert_uint_eq(f.failed_row, 140);
    ck_assert_uint_eq(f.done_rows, 300 - TASK_ROWS + f.before);
    fix_done(&f);
}
END_TEST

START_TEST(a_task_of_many_shards_is_named_by_its_first_row_and_the_others)
{
    struct fix f;
    fix_init(&f, TASK_ROWS, 50, "{\"text\": \"SLOW\"}", 2);
    corpus_split(&f.corpus, 4);
    f.special_drop = 0;
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_TEXT", "SLOW", 1), 0);
    ck_assert_int_eq(setenv("LK_FAULT_SLOW_MS", "300", 1), 0);
    fix_start(&f, 1);
    look_for_others(&f);
    submit_all(&f);
    run(&f);
    ck_assert(f.named);
    ck_assert_uint_eq(f.done_rows, TASK_ROWS);
    fix_done(&f);
}
END_TEST

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

START_TEST(a_malformed_row_fails_its_task_behind_the_rows_before_it_and_is_named)
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
    ck_assert_uint_eq(f.failed_row, 40);
    ck_assert_uint_eq(f.done_rows, 100 - TASK_ROWS + f.before);
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
    ck_assert_uint_eq(f.failed_row, 0);
    ck_assert_uint_eq(f.done_rows, 64 - TASK_ROWS + f.before);
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

Suite *suite(void)
{
    Suite *s = suite_create("host/pool");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 90);
    tcase_add_loop_test(t, rows_come_back_as_their_tokens_in_the_order_of_the_task, 1, 4);
    tcase_add_loop_test(t, rows_of_many_shards_come_back_in_the_order_of_the_task, 0, 6);
    tcase_add_test(t, a_row_of_many_shards_that_fails_its_task_is_named_by_its_own);
    tcase_add_test(t, a_task_of_many_shards_is_named_by_its_first_row_and_the_others);
    tcase_add_test(t, a_callback_may_submit_more);
    tcase_add_test(t, a_malformed_row_fails_its_task_behind_the_rows_before_it_and_is_named);
    tcase_add_test(t, a_malformed_row_is_dropped_with_its_reason_where_the_recipe_says_so);
    tcase_add_test(t, data_that_changed_since_indexing_is_data_loss);
    tcase_add_test(t, urgent_tasks_go_first_and_a_queued_one_can_be_hurried);
    tcase_add_test(t, a_cancelled_task_that_waits_is_never_run);
    tcase_add_test(t, a_callback_may_cancel_other_tasks_and_not_its_own);
    tcase_add_test(t, a_cancelled_task_that_runs_ends_unheard_and_its_worker_goes_on);
    tcase_add_test(t, a_worker_stuck_in_a_cancelled_task_is_replaced);
    tcase_add_test(t, a_remote_worker_works_and_outlives_its_daemon);
    suite_add_tcase(s, t);
    return s;
}
