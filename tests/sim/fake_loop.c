/* host/loop.h with a clock that stands still until an event moves it. */
#include "sim.h"

#include <stdlib.h>

#define TIMERS_MAX 16
#define FDS_MAX 8

struct watch {
    int fd;
    void (*ready)(void *owner);
    void *owner;
};

struct loop {
    struct watch watch[FDS_MAX];
    struct loop_timer *timer[TIMERS_MAX];
    uint32_t timers;
    uint64_t order;
    int64_t turn_ms;
    void (*idle)(void *owner);
    void *idle_owner;
};

struct loop *loop_new(struct lk_err *err)
{
    (void)err;
    struct loop *loop = lk_zalloc(1, sizeof *loop);
    loop->turn_ms = sim_now()->now_ms;
    for (int i = 0; i < FDS_MAX; i++)
        loop->watch[i].fd = -1;
    return loop;
}

void loop_free(struct loop *loop)
{
    free(loop);
}

int64_t loop_now_ms(const struct loop *loop)
{
    return loop->turn_ms;
}

void loop_watch(struct loop *loop, int fd, void (*ready)(void *owner), void *owner)
{
    for (int i = 0; i < FDS_MAX; i++)
        if (loop->watch[i].fd < 0) {
            loop->watch[i] = (struct watch){.fd = fd, .ready = ready, .owner = owner};
            return;
        }
    sim_fail(sim_now(), "loop: too many descriptors");
}

void loop_unwatch(struct loop *loop, int fd)
{
    for (int i = 0; i < FDS_MAX; i++)
        if (loop->watch[i].fd == fd)
            loop->watch[i].fd = -1;
}

void loop_want_writable(struct loop *loop, int fd, bool wanted)
{
    (void)loop;
    (void)fd;
    (void)wanted;
}

void loop_clear(struct loop *loop, struct loop_timer *timer)
{
    if (timer->heap == 0)
        return;
    for (uint32_t i = 0; i < loop->timers; i++)
        if (loop->timer[i] == timer)
            loop->timer[i] = loop->timer[--loop->timers];
    timer->heap = 0;
}

void loop_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms, void (*due)(void *owner),
              void *owner)
{
    loop_clear(loop, timer);
    if (loop->timers == TIMERS_MAX)
        sim_fail(sim_now(), "loop: too many timers");
    *timer = (struct loop_timer){
        .at_ms = at_ms, .order = ++loop->order, .heap = 1, .due = due, .owner = owner};
    loop->timer[loop->timers++] = timer;
}

void loop_idle(struct loop *loop, void (*idle)(void *owner), void *owner)
{
    loop->idle = idle;
    loop->idle_owner = owner;
}

void loop_run(struct loop *loop)
{
    (void)loop;
}

void loop_stop(struct loop *loop)
{
    (void)loop;
}

static struct loop_timer *first_due(const struct loop *loop)
{
    struct loop_timer *first = NULL;
    for (uint32_t i = 0; i < loop->timers; i++) {
        struct loop_timer *timer = loop->timer[i];
        if (timer->at_ms <= loop->turn_ms &&
            (first == NULL || timer->at_ms < first->at_ms ||
             (timer->at_ms == first->at_ms && timer->order < first->order)))
            first = timer;
    }
    return first;
}

bool fake_timer_due(struct sim *sim)
{
    sim->loop->turn_ms = sim->now_ms;
    return first_due(sim->loop) != NULL;
}

/* One turn: what has arrived, if @hear; timers that are due (not those that they set anew); the end. */
void fake_turn(struct sim *sim, bool hear)
{
    struct loop *loop = sim->loop;
    loop->turn_ms = sim->now_ms;
    for (int i = 0; hear && i < FDS_MAX; i++)
        if (loop->watch[i].fd >= 0)
            loop->watch[i].ready(loop->watch[i].owner);
    uint64_t last = loop->order;
    for (struct loop_timer *timer; (timer = first_due(loop)) != NULL && timer->order <= last;) {
        loop_clear(loop, timer);
        timer->due(timer->owner);
    }
    if (loop->idle != NULL)
        loop->idle(loop->idle_owner);
}
