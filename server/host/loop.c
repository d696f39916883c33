/*
 * The event loop. Three things can happen in a turn, in this order: descriptors become readable,
 * timers come due, the idle function runs. A timer set during a turn runs in a later one, so that a
 * timer which sets itself again cannot starve the descriptors.
 *
 * Timers are a binary heap of pointers, ordered by (time, order of setting): a total order, so what
 * runs first never depends on the heap's history.
 */
#include "host/loop.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_A_TURN 64
#define OUTSIDE_MS 50 /* between attempts to enter what the kernel had no room for */

struct watcher {
    void (*ready)(void *owner); /* NULL: this descriptor is not watched */
    void *owner;
    uint32_t generation; /* tells an event of an earlier watcher of the same number from ours */
    uint32_t events;
    bool entered; /* the kernel has it; else it is tried again soon */
};

struct loop {
    int epoll;
    bool stopping;
    int64_t now_ms;
    struct watcher *watcher; /* [n_watchers] by descriptor */
    size_t n_watchers, n_outside; /* of these: not entered */
    uint32_t generation;
    struct loop_timer **heap; /* [1 … n_timers]; heap[0] is not used, since place 0 means "not set" */
    uint32_t n_timers, cap_timers;
    uint64_t order;
    void (*idle)(void *owner);
    void *idle_owner;
};

static int64_t clock_ms(void)
{
    struct timespec t;
    LK_CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct loop *loop_new(struct lk_err *err)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) {
        (void)lk_fail(err, LK_RESOURCE_EXHAUSTED, "epoll_create1: %s", strerror(errno));
        return NULL;
    }
    struct loop *loop = lk_zalloc(1, sizeof *loop);
    loop->epoll = epoll;
    loop->now_ms = clock_ms();
    return loop;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    for (uint32_t i = 1; i <= loop->n_timers; i++)
        loop->heap[i]->heap = 0;
    (void)close(loop->epoll);
    free(loop->watcher);
    free(loop->heap);
    free(loop);
}

int64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

/* --- descriptors --- */

static void watcher_room(struct loop *loop, int fd)
{
    size_t need = (size_t)fd + 1;
    if (need <= loop->n_watchers)
        return;
    size_t n = loop->n_watchers < 64 ? 64 : loop->n_watchers;
    while (n < need)
        n *= 2;
    loop->watcher = lk_resize(loop->watcher, n, sizeof *loop->watcher);
    for (size_t i = loop->n_watchers; i < n; i++)
        loop->watcher[i] = (struct watcher){.ready = NULL};
    loop->n_watchers = n;
}

/* The kernel may lack memory, or this user's share of watches be used up: both pass. */
static void enter(struct loop *loop, int fd)
{
    struct watcher *w = &loop->watcher[fd];
    struct epoll_event event = {.events = w->events,
                                .data.u64 = (uint64_t)w->generation << 32 | (uint32_t)fd};
    w->entered = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    LK_CHECK(w->entered || errno == ENOMEM || errno == ENOSPC);
    loop->n_outside += !w->entered;
}

static void enter_those_outside(struct loop *loop)
{
    size_t n = loop->n_watchers;
    if (loop->n_outside == 0)
        return;
    loop->n_outside = 0;
    for (size_t fd = 0; fd < n; fd++)
        if (loop->watcher[fd].ready != NULL && !loop->watcher[fd].entered)
            enter(loop, (int)fd);
}

void loop_watch(struct loop *loop, int fd, void (*ready)(void *owner), void *owner)
{
    LK_CHECK(fd >= 0 && ready != NULL);
    watcher_room(loop, fd);
    struct watcher *w = &loop->watcher[fd];
    LK_CHECK(w->ready == NULL);
    *w = (struct watcher){.ready = ready, .owner = owner, .generation = ++loop->generation};
    w->events = EPOLLIN;
    enter(loop, fd);
}

void loop_unwatch(struct loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->n_watchers || loop->watcher[fd].ready == NULL)
        return;
    loop->watcher[fd].ready = NULL;
    loop->n_outside -= !loop->watcher[fd].entered;
    /* Fails when the owner closed the descriptor first: the kernel then removed it already. */
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void loop_want_writable(struct loop *loop, int fd, bool wanted)
{
    LK_CHECK(fd >= 0 && (size_t)fd < loop->n_watchers && loop->watcher[fd].ready != NULL);
    struct watcher *w = &loop->watcher[fd];
    w->events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    struct epoll_event event = {.events = w->events,
                                .data.u64 = (uint64_t)w->generation << 32 | (uint32_t)fd};
    LK_CHECK(!w->entered || epoll_ctl(loop->epoll, EPOLL_CTL_MOD, fd, &event) == 0);
}

static void run_ready(struct loop *loop, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n && !loop->stopping; i++) {
        uint32_t fd = (uint32_t)events[i].data.u64;
        uint32_t generation = (uint32_t)(events[i].data.u64 >> 32);
        if (fd >= loop->n_watchers)
            continue;
        struct watcher w = loop->watcher[fd];
        if (w.ready != NULL && w.generation == generation)
            w.ready(w.owner);
    }
}

/* --- timers --- */

static bool sooner(const struct loop_timer *a, const struct loop_timer *b)
{
    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms;
    LK_CHECK(a == b || a->order != b->order);
    return a->order < b->order;
}

static void heap_put(struct loop *loop, uint32_t at, struct loop_timer *timer)
{
    loop->heap[at] = timer;
    timer->heap = at;
}

static void heap_up(struct loop *loop, struct loop_timer *timer, uint32_t at)
{
    for (; at > 1 && sooner(timer, loop->heap[at / 2]); at /= 2)
        heap_put(loop, at, loop->heap[at / 2]);
    heap_put(loop, at, timer);
}

static void heap_down(struct loop *loop, struct loop_timer *timer, uint32_t at)
{
    for (;;) {
        uint32_t child = at * 2;
        if (child > loop->n_timers)
            break;
        if (child < loop->n_timers && sooner(loop->heap[child + 1], loop->heap[child]))
            child++;
        if (!sooner(loop->heap[child], timer))
            break;
        heap_put(loop, at, loop->heap[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

void loop_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms, void (*due)(void *owner),
              void *owner)
{
    LK_CHECK(due != NULL);
    loop_clear(loop, timer);
    if (loop->n_timers + 2 > loop->cap_timers) {
        loop->cap_timers = loop->cap_timers == 0 ? 64 : loop->cap_timers * 2;
        loop->heap = lk_resize(loop->heap, loop->cap_timers, sizeof(struct loop_timer *));
    }
    timer->at_ms = at_ms;
    timer->order = ++loop->order;
    timer->due = due;
    timer->owner = owner;
    loop->n_timers++;
    heap_up(loop, timer, loop->n_timers);
}

void loop_clear(struct loop *loop, struct loop_timer *timer)
{
    uint32_t at = timer->heap;
    if (at == 0)
        return;
    LK_CHECK(at <= loop->n_timers && loop->heap[at] == timer);
    struct loop_timer *last = loop->heap[loop->n_timers--];
    timer->heap = 0;
    if (last == timer)
        return;
    if (at > 1 && sooner(last, loop->heap[at / 2]))
        heap_up(loop, last, at);
    else
        heap_down(loop, last, at);
}

/* Only timers set before this round started: see the head of the file. */
static void run_due(struct loop *loop)
{
    uint64_t before = loop->order;
    while (loop->n_timers > 0 && !loop->stopping) {
        struct loop_timer *timer = loop->heap[1];
        if (timer->at_ms > loop->now_ms || timer->order > before)
            return;
        loop_clear(loop, timer);
        timer->due(timer->owner);
    }
}

static int wait_ms(const struct loop *loop)
{
    int64_t most = loop->n_outside > 0 ? OUTSIDE_MS : 3600000;
    if (loop->n_timers == 0)
        return loop->n_outside > 0 ? OUTSIDE_MS : -1;
    int64_t left = loop->heap[1]->at_ms - clock_ms();
    if (left <= 0)
        return 0;
    return (int)(left > most ? most : left);
}

/* --- running --- */

void loop_idle(struct loop *loop, void (*idle)(void *owner), void *owner)
{
    loop->idle = idle;
    loop->idle_owner = owner;
}

void loop_run(struct loop *loop)
{
    struct epoll_event events[EVENTS_A_TURN];
    loop->stopping = false;
    while (!loop->stopping) {
        int n = epoll_wait(loop->epoll, events, EVENTS_A_TURN, wait_ms(loop));
        LK_CHECK(n >= 0 || errno == EINTR);
        loop->now_ms = clock_ms();
        enter_those_outside(loop);
        run_ready(loop, events, n);
        run_due(loop);
        if (loop->idle != NULL && !loop->stopping)
            loop->idle(loop->idle_owner);
    }
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
