#include "tests/lib/pool_fix.h"
#include "worker/link.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

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
    if (_i == 1) { /* each task of rows of many shards */
        corpus_split(&f.corpus, 9);
        f.stride = 37;
    }
    f.corpus.recipe.drop_crashing = true;
    f.special_drop = 7; /* crashes_worker */
    ck_assert_int_eq(setenv("LK_FAULT_CRASH_TEXT", "CRASH-ME", 1), 0);
    fix_start(&f, 2);
    submit_all(&f);
    run(&f);
    ck_assert_uint_eq(f.failed, 0);
    ck_assert_uint_eq(f.done_rows, 200);
    const char *place = _i == 1 ? "docs-003.jsonl.zst: row 11 at byte" : "docs.jsonl: row 77 at byte";
    ck_assert_msg(strstr(f.detail, place) != NULL, "%s", f.detail);
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
    ck_assert_uint_eq(f.failed_row, 77);
    ck_assert_uint_eq(f.done_rows, 200 - TASK_ROWS + f.before);
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
    Suite *s = suite_create("host/pool_deaths");
    TCase *t = tcase_create("deaths");
    tcase_set_timeout(t, 90);
    tcase_add_test(t, killing_workers_at_random_changes_no_result);
    tcase_add_test(t, kills_from_outside_never_convict_a_row);
    tcase_add_loop_test(t, a_row_that_crashes_workers_is_found_and_dropped_and_no_other_is, 0, 2);
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
