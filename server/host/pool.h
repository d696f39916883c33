/*
 * The worker pool: tasks go out to worker processes, local or remote, in any order; results come
 * back in any order; whoever submitted a task hears of it exactly once.
 *
 * Local workers are exec'd (never forked bare) and replaced when they die; they die with the daemon.
 * A task whose worker died, or was lost, or is far slower than its size explains, is given to
 * another; the first result counts, they are all the same. A task whose workers died three times is
 * bisected until one row is left: that row is reported as crashing (drop CRASH, or failing the task).
 */
#ifndef LK_HOST_POOL_H
#define LK_HOST_POOL_H

#include "base/digest.h"
#include "base/status.h"
#include "core/recipe.h"
#include "format/index.h"
#include "host/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* One stream as workers need to know it; all borrowed, valid as long as the pool. */
struct pool_stream {
    const struct lk_recipe *recipe;
    const struct lk_index *index;     /* [n_datasets] */
    const char *const *root;          /* [n_datasets] absolute */
    struct lk_digest tokenizer_digest;
    bool has_append, has_prepend;
    uint32_t append, prepend;         /* token ids */
};

struct pool_config {
    struct loop *loop;
    const struct pool_stream *stream;
    uint32_t n_streams;
    uint32_t workers;               /* local ones; 0 = only remote */
    const char *worker_path;        /* executable */
    const char *listen;             /* address for remote workers, or NULL */
    const char *token_file;         /* secret that remote workers must show; needed with listen */
    uint64_t cache_bytes;           /* decoded shards, per worker */
    uint32_t task_timeout_ms;       /* a task older than this is given to another worker too */
    void (*log)(void *owner, int level, const char *event, const char *text); /* one line each */
    void *log_owner;
};

struct pool_row {
    uint32_t tokens;
    uint8_t drop;        /* enum lk_drop */
    uint64_t text_bytes;
    const uint32_t *ids; /* [tokens] valid during the call only */
    const char *detail;  /* of a dropped malformed or crashing row; else "" */
};

struct pool_result {
    enum lk_code code;   /* not OK: rows is NULL, and the text names shard and row */
    const char *detail;
    const struct pool_row *rows; /* [n] in the order of the task */
    uint64_t cpu_ns;
};

/* Rows of one shard, in the order wanted. */
struct pool_task {
    uint32_t stream, dataset;
    const uint64_t *rows; /* numbers in the dataset; copied */
    uint32_t n;
    uint64_t urgency;     /* lower goes first; ties in order of submission */
    void (*done)(void *owner, uint64_t tag, const struct pool_result *result);
    void *owner;
    uint64_t tag;
};

enum lk_code pool_open(const struct pool_config *config, struct pool **ret_pool, struct lk_err *err);
void pool_close(struct pool *pool); /* ends local workers within two seconds; no more calls of done */

uint64_t pool_submit(struct pool *pool, const struct pool_task *task); /* its id */
void pool_hurry(struct pool *pool, uint64_t id, uint64_t urgency);      /* raises a queued task */

struct pool_stats {
    uint32_t workers, remote, queued, running;
    uint64_t tasks, retried, deaths, bisected, rows, tokens, data_bytes, cpu_ns;
    int64_t oldest_ms; /* age of the oldest running task */
};
void pool_stats(const struct pool *pool, struct pool_stats *ret_stats);
const char *pool_waits_for(const struct pool *pool); /* "2 workers busy, oldest task 1.2 s: docs/a.jsonl" */

#endif
