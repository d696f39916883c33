/*
 * The worker pool: tasks go out to worker processes, local or remote, in any order; results come
 * back in any order; whoever submitted a task hears of it exactly once.
 *
 * Local workers are exec'd (never forked bare) and replaced when they die; they die with the daemon.
 * A task whose worker died, or was lost, or is far slower than its size explains, is given to
 * another; the first result counts, they are all the same. A task whose workers died three times is
 * bisected until one row is left: when three local workers that had nothing else to do have died on
 * that row alone, it is reported as crashing (drop CRASH, or FAILED_PRECONDITION).
 *
 * Only a death of the worker's own doing convicts: by SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE or
 * SIGSYS, or an exit with another status than 0; a result of a local worker that contradicts itself
 * counts as one. What others did to the worker (any other signal: an operator's kill, the kernel's
 * when memory is short), a remote worker that is gone, or lies, and being slow never change data: such
 * a task may be bisected to find what is left, and is retried for ever. A row that lost three workers
 * that way waits between its tries, longer each time, up to ten seconds. So do tasks with UNAVAILABLE
 * results. pool_waits_for names them.
 *
 * For a row that takes all memory the kernel would kill the worker, which convicts nobody; so each
 * worker bounds its own, to the cache and 16 GiB more (worker/memory.h), and aborts there. On a machine, or
 * in a container, that has less for each of its workers, such a row stalls the stream, by name, until
 * it is taken out or there is more.
 *
 * Call everything from the thread that called pool_open, and let that thread live as long as the
 * pool: local workers die with it (PR_SET_PDEATHSIG).
 */
#ifndef LK_HOST_POOL_H
#define LK_HOST_POOL_H

#include "base/digest.h"
#include "base/status.h"
#include "core/recipe.h"
#include "format/index.h"
#include "host/loop.h"
#include "proto/work.h"

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* One stream as workers need to know it. The struct is copied; what it points to is borrowed and must
 * be valid as long as the pool. */
struct pool_stream {
    const struct lk_recipe *recipe;
    const struct lk_index *index;     /* [n_datasets] */
    const char *const *root;          /* [n_datasets] absolute */
    struct lk_digest tokenizer_digest;
    bool has_append, has_prepend;
    uint32_t append, prepend;         /* token ids */
    uint32_t vocab;                   /* every id of a result must be below it; 0 = not known */
};

/* All strings are borrowed, and must be valid as long as the pool. */
struct pool_config {
    struct loop *loop;
    const struct pool_stream *stream;
    uint32_t n_streams;
    uint32_t workers;               /* local ones; 0 = only remote */
    const char *worker_path;        /* executable */
    const char *listen;             /* address for remote workers, or NULL */
    const char *token_file;         /* secret that remote workers must show; needed with listen */
    uint64_t cache_bytes;           /* decoded shards, per worker */
    uint32_t task_timeout_ms;       /* a task older than this, and than decompressing its shards explains, is given
                                       to another worker too */
    /* One line each; @level is syslog's: 3 error, 4 warning, 6 information. */
    void (*log)(void *owner, int level, const char *event, const char *text);
    void *log_owner;
};

struct pool_row {
    uint32_t tokens;
    uint8_t drop;        /* enum lk_drop */
    uint32_t specials;   /* special tokens in the text of a kept row */
    uint64_t text_bytes;
    const uint32_t *ids; /* [tokens] valid during the call only */
    const char *detail;  /* of a dropped malformed or crashing row; else "" */
};

struct pool_result {
    enum lk_code code;   /* not OK: the text names shard and row */
    const char *detail;
    const struct pool_row *rows; /* [n] in the order of the task */
    uint32_t n;          /* all of the task's; not OK: those before the row that failed it, as far as they are known */
    uint64_t cpu_ns;
};

/* Rows of one dataset, of any of its shards and in any order: the order wanted. Rows that follow each other and
 * lie in the same shard make a run; a task costs the less the fewer runs it has. */
struct pool_task {
    uint32_t stream, dataset;
    const uint64_t *rows; /* numbers in the dataset; copied */
    uint32_t n;           /* 1 … LK_WORK_ROWS_MAX, in at most LK_WORK_SHARDS_MAX runs */
    uint64_t urgency;     /* lower goes first; ties in order of submission */
    void (*done)(void *owner, uint64_t tag, const struct pool_result *result);
    void *owner;
    uint64_t tag;
};

/* INVALID_ARGUMENT for a listen address without a token file, or one that cannot be listened on;
 * FAILED_PRECONDITION when worker_path cannot be executed. Workers start in the background. */
enum lk_code pool_open(const struct pool_config *config, struct pool **ret_pool, struct lk_err *err);
void pool_close(struct pool *pool); /* ends local workers within two seconds; no more calls of done */

uint64_t pool_submit(struct pool *pool, const struct pool_task *task); /* its id */
void pool_hurry(struct pool *pool, uint64_t id, uint64_t urgency);      /* raises a queued task */
/*
 * Takes a task back. True: done will never be called for it, and its owner may go at once. What is
 * queued, or waits for another try, is dropped; what a worker has runs to its end there, as workers
 * are not interrupted, and its result is thrown away. False: there is no such task any more, as done
 * has been called, or is being called (so a task's own done cannot cancel it).
 */
bool pool_cancel(struct pool *pool, uint64_t id);

struct pool_stats {
    uint32_t workers, remote, queued, running;
    uint64_t tasks, retried, deaths, bisected, rows, tokens, data_bytes, cpu_ns;
    uint64_t specials; /* special tokens in the texts of kept rows, each time a row is measured */
    int64_t oldest_ms; /* age of the oldest running task */
};
void pool_stats(const struct pool *pool, struct pool_stats *ret_stats);
/* Address for remote workers, with the real port; NULL when the pool does not listen for any. */
const char *pool_address(const struct pool *pool);

/* Valid until the next call. */
const char *pool_waits_for(const struct pool *pool); /* "2 workers busy, oldest task 1.2 s: docs/a.jsonl" */

#endif
