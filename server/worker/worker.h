/*
 * The worker: says hello to its daemon, then asks for tasks until it is told to end or its daemon
 * is gone. Two requests are in flight, so that the next task is here when one ends; tasks run one
 * after the other.
 */
#ifndef LK_WORKER_WORKER_H
#define LK_WORKER_WORKER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_options {
    bool local;           /* started by the daemon: the daemon's end is ours */
    int socket, board;    /* of a local one: its connection, see worker/link.h */
    const char *address;  /* of any other: where the daemon is, and the proof that it may */
    const char *token;
    uint32_t patience_ms; /* how long to look for a daemon that is gone before ending */
    void (*log)(void *owner, const char *text); /* may be NULL */
    void *log_owner;
};

/* LK_OK: the daemon ended, or was gone for longer than the patience allows (local workers only).
 * Otherwise what was wrong: refused, another tokenizer, nobody there (UNAVAILABLE). */
enum lk_code worker_run(const struct worker_options *options, struct lk_err *err);

#endif
