#include "base/mem.h"
#include "host/loop.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct trace {
    struct loop *loop;
    char text[4096];
    size_t n;
    size_t stop_at;
};

struct named {
    struct trace *trace;
    char name;
    int fd;
    struct loop_timer timer, *other;
};

static void note(struct trace *trace, char name)
{
    trace->text[trace->n++] = name;
    if (trace->n == trace->stop_at)
        loop_stop(trace->loop);
}

static void due(void *owner)
{
    struct named *n = owner;
    note(n->trace, n->name);
}

static void set(struct named *n, struct trace *trace, char name, int64_t at)
{
    n->trace = trace;
    n->name = name;
    loop_set(trace->loop, &n->timer, at, due, n);
}

START_TEST(timers_run_by_time_and_ties_in_the_order_they_were_set)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 6};
    struct named n[6] = {0};
    int64_t now = loop_now_ms(t.loop);
    set(&n[0], &t, 'd', now - 1);
    set(&n[1], &t, 'a', now - 9);
    set(&n[2], &t, 'e', now - 1);
    set(&n[3], &t, 'b', now - 5);
    set(&n[4], &t, 'f', now - 1);
    set(&n[5], &t, 'c', now - 5);
    loop_run(t.loop);
    ck_assert_str_eq(t.text, "abcdef");
    for (int i = 0; i < 6; i++)
        ck_assert_uint_eq(n[i].timer.heap, 0);
    loop_free(t.loop);
}
END_TEST

START_TEST(setting_a_timer_again_moves_it_and_clearing_removes_it)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 2};
    struct named n[3] = {0};
    int64_t now = loop_now_ms(t.loop);
    set(&n[0], &t, 'x', now - 9);
    set(&n[1], &t, 'b', now - 8);
    set(&n[2], &t, 'a', now - 1);
    loop_clear(t.loop, &n[0].timer);
    loop_clear(t.loop, &n[0].timer);
    set(&n[2], &t, 'a', now - 20);
    loop_run(t.loop);
    ck_assert_str_eq(t.text, "ab");
    loop_free(t.loop);
}
END_TEST

/* Random sets and clears against a plain sorted model. */
START_TEST(heap_agrees_with_a_sorted_list_after_random_changes)
{
    enum { N = 300 };
    struct trace t = {.loop = loop_new(NULL)};
    struct named *n = lk_zalloc(N, sizeof *n);
    int64_t now = loop_now_ms(t.loop);
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 5000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        struct named *one = &n[x % N];
        if (x >> 32 & 3)
            set(one, &t, (char)('A' + x % 26), now - 1 - (int64_t)(x >> 40 & 31));
        else
            loop_clear(t.loop, &one->timer);
    }
    char expected[N + 1] = "";
    bool used[N] = {false};
    for (;;) {
        int best = -1;
        for (int i = 0; i < N; i++) {
            if (n[i].timer.heap == 0 || used[i])
                continue;
            if (best < 0 || n[i].timer.at_ms < n[best].timer.at_ms ||
                (n[i].timer.at_ms == n[best].timer.at_ms && n[i].timer.order < n[best].timer.order))
                best = i;
        }
        if (best < 0)
            break;
        used[best] = true;
        expected[t.stop_at++] = n[best].name;
    }
    ck_assert_uint_gt(t.stop_at, N / 2);
    loop_run(t.loop);
    ck_assert_str_eq(t.text, expected);
    free(n);
    loop_free(t.loop);
}
END_TEST

static void due_again(void *owner)
{
    struct named *n = owner;
    note(n->trace, n->name);
    loop_set(n->trace->loop, &n->timer, loop_now_ms(n->trace->loop), due_again, n);
}

static void drain(void *owner)
{
    struct named *n = owner;
    uint64_t value;
    ck_assert_int_eq(read(n->fd, &value, sizeof value), sizeof value);
    note(n->trace, n->name);
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    ck_assert_int_eq(write(fd, &one, sizeof one), sizeof one);
}

static void idle_signals(void *owner)
{
    struct named *n = owner;
    signal_fd(n->fd);
}

START_TEST(a_timer_that_sets_itself_again_starves_nobody)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 6};
    struct named timer = {.trace = &t, .name = 't'};
    struct named event = {.trace = &t, .name = 'e', .fd = eventfd(0, EFD_CLOEXEC)};
    loop_watch(t.loop, event.fd, drain, &event);
    loop_idle(t.loop, idle_signals, &event);
    loop_set(t.loop, &timer.timer, loop_now_ms(t.loop), due_again, &timer);
    loop_run(t.loop);
    ck_assert_str_eq(t.text, "tetete");
    loop_free(t.loop);
    close(event.fd);
}
END_TEST

static void remove_other(void *owner)
{
    struct named *n = owner;
    drain(n);
    loop_unwatch(n->trace->loop, n->fd + 1);
    loop_unwatch(n->trace->loop, n->fd - 1);
}

START_TEST(a_watcher_removed_in_a_turn_is_not_called_in_it)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 1};
    struct named a = {.trace = &t, .name = 'a', .fd = eventfd(1, EFD_CLOEXEC)};
    struct named b = {.trace = &t, .name = 'b', .fd = eventfd(1, EFD_CLOEXEC)};
    ck_assert_int_eq(a.fd + 1, b.fd);
    loop_watch(t.loop, a.fd, remove_other, &a);
    loop_watch(t.loop, b.fd, remove_other, &b);
    loop_run(t.loop);
    ck_assert_uint_eq(t.n, 1);
    loop_unwatch(t.loop, a.fd); /* one of them is gone already: no harm */
    loop_unwatch(t.loop, b.fd);
    loop_unwatch(t.loop, 9999);
    close(a.fd);
    close(b.fd);
    loop_free(t.loop);
}
END_TEST

static void replace_self(void *owner)
{
    struct named *n = owner;
    loop_unwatch(n->trace->loop, n->fd);
    signal_fd(n->fd);
    note(n->trace, 'r');
    n->name = 'n';
    loop_watch(n->trace->loop, n->fd, drain, n);
}

START_TEST(a_descriptor_may_get_a_new_watcher_in_its_own_callback)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 2};
    struct named a = {.trace = &t, .name = 'a', .fd = eventfd(1, EFD_CLOEXEC)};
    loop_watch(t.loop, a.fd, replace_self, &a);
    loop_run(t.loop);
    ck_assert_str_eq(t.text, "rn");
    close(a.fd);
    loop_free(t.loop);
}
END_TEST

START_TEST(a_timer_waits_for_its_time_and_the_clock_advances)
{
    struct trace t = {.loop = loop_new(NULL), .stop_at = 1};
    struct named a = {0};
    int64_t start = loop_now_ms(t.loop);
    set(&a, &t, 'a', start + 30);
    loop_run(t.loop);
    ck_assert_int_ge(loop_now_ms(t.loop), start + 30);
    loop_free(t.loop);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/loop");
    TCase *t = tcase_create("loop");
    tcase_add_test(t, timers_run_by_time_and_ties_in_the_order_they_were_set);
    tcase_add_test(t, setting_a_timer_again_moves_it_and_clearing_removes_it);
    tcase_add_test(t, heap_agrees_with_a_sorted_list_after_random_changes);
    tcase_add_test(t, a_timer_that_sets_itself_again_starves_nobody);
    tcase_add_test(t, a_watcher_removed_in_a_turn_is_not_called_in_it);
    tcase_add_test(t, a_descriptor_may_get_a_new_watcher_in_its_own_callback);
    tcase_add_test(t, a_timer_waits_for_its_time_and_the_clock_advances);
    suite_add_tcase(s, t);
    return s;
}
