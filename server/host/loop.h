/*
 * The event loop: one thread, epoll, timers. Everything in host/ runs on it.
 */
#ifndef LK_HOST_LOOP_H
#define LK_HOST_LOOP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

struct loop *loop_new(struct lk_err *err); /* NULL: descriptors or memory of the kernel are short */
void loop_free(struct loop *loop);

int64_t loop_now_ms(const struct loop *loop); /* CLOCK_MONOTONIC when this turn began */

/* Calls @ready whenever @fd is readable, until removed. One watcher per descriptor. */
void loop_watch(struct loop *loop, int fd, void (*ready)(void *owner), void *owner);
void loop_unwatch(struct loop *loop, int fd);
/* Calls it also when the watched @fd is writable, or no longer. */
void loop_want_writable(struct loop *loop, int fd, bool wanted);

/* A timer, embedded in its owner's struct; zeroed = idle. Ties run in the order they were set. */
struct loop_timer {
    int64_t at_ms;
    uint64_t order;
    uint32_t heap; /* place in the heap, 0 = not set */
    void (*due)(void *owner);
    void *owner;
};
void loop_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms, void (*due)(void *owner),
              void *owner);
void loop_clear(struct loop *loop, struct loop_timer *timer);

/* Something to do at the end of every turn, once (the engine's pump). */
void loop_idle(struct loop *loop, void (*idle)(void *owner), void *owner);

void loop_run(struct loop *loop);  /* until loop_stop */
void loop_stop(struct loop *loop);

#endif
