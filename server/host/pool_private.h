/*
 * Inside the pool. A *job* is what was submitted; a *part* is a run of its rows that is given to a
 * worker as one task. A job starts as one part; bisecting cuts parts in two. A part may be with two
 * workers at once. One thread, no locks.
 *
 *   pool.c          opening, closing, submitting, what it says about itself
 *   pool_jobs.c     jobs and parts: the queue, results, bisecting, retries
 *   pool_workers.c  the workers' protocol: hello, asking for tasks, giving them out
 *   pool_locals.c   the connections of local workers
 *   pool_procs.c    local processes: starting, watching, starting again
 */
#ifndef LK_HOST_POOL_PRIVATE_H
#define LK_HOST_POOL_PRIVATE_H

#include "base/mem.h"
#include "host/log_limit.h"
#include "host/pool.h"
#include "proto/board.h"
#include "proto/pipe.h"
#include "proto/worker.pb-c.h"
#include "rpc/server.h"

#include <sys/types.h>

#define POOL_SLOTS 2              /* tasks a worker has at once: one runs, one waits */
#define POOL_RESULT_MAX ((size_t)256 << 20) /* payload bytes of one result */
#define POOL_DEATHS_MAX 3
#define POOL_MESSAGE_MAX (POOL_RESULT_MAX + ((size_t)64 << 20))
#define POOL_STRANGER_MAX ((size_t)64 << 10) /* of a message before its sender has shown its token */
#define POOL_WAITING_MAX (4 * POOL_MESSAGE_MAX) /* of messages that have come and were not looked at yet */

enum { POOL_ERROR = 3, POOL_WARNING = 4, POOL_INFO = 6 };

/* Whose doing it was that a part came back from its worker without a result. */
enum blame {
    BLAME_NONE,  /* ours, or the worker left in good order: nothing is known against the part */
    BLAME_OTHER, /* killed from outside (an operator, the kernel short of memory), or lost: the part
                    may be the cause, so it is treated with care; but it is never convicted of it */
    BLAME_PART,  /* the worker's own end: it crashed, or gave up */
};

struct part {
    struct job *job;
    struct part *next;          /* of the same job */
    uint32_t first, n;          /* rows of the job */
    uint32_t place;             /* in the queue, 0 = not queued */
    uint32_t copies;            /* workers that have it now */
    uint32_t deaths, deaths_max; /* of workers that had it; bisected at deaths_max */
    uint32_t lone_deaths;       /* … with BLAME_PART, that had nothing else: what convicts a row */
    uint32_t lone_losses;       /* … with BLAME_OTHER, that had nothing else */
    uint32_t tries;             /* delays so far, each longer than the one before */
    uint32_t timeouts;          /* each doubles our patience */
    bool suspect;               /* a worker died with it: from now on it runs alone */
    struct pool *pool;          /* for the timer */
    struct loop_timer retry;
    char *why;                  /* it had to wait the last time, or NULL */
};

struct job {
    struct pool_task task;      /* rows are our copy */
    uint64_t id;                /* slot | generation << 32 */
    uint64_t order;             /* of submission */
    struct part *parts;         /* unfinished ones */
    struct pool_row *rows;      /* [task.n] when it was cut, or has failed: those that are known, owned */
    uint32_t end;               /* rows before it are wanted: all, or those before the first that failed, */
    enum lk_code code;          /*   this way, */
    char *why;                  /*   for this reason; NULL: none has */
    uint64_t cpu_ns;
    bool finished;              /* done is being called */
};

struct job_slot {
    struct job *job; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct run {
    uint64_t assignment; /* the task's number on the wire: never used twice */
    struct part *part;   /* NULL: nobody waits for the result any more (another was faster, or the
                            task was cancelled) */
    int64_t since_ms;    /* when it became the first of its worker */
    int64_t decode_ms;   /* that decompressing its shards may take */
};

/* A request of a worker. */
struct ask {
    struct rpc_call *call; /* of a remote one; NULL: it came by the worker's pipe */
    uint64_t id;           /* of a local one: the envelope's call, and its method */
    uint16_t method;
    int64_t received_ms;
};

/* What a worker says, wherever it came from. */
struct said {
    struct ask ask;
    const uint8_t *header;
    size_t header_bytes;
    const uint8_t *payload; /* of a remote one; that of a local one is on its board */
    size_t payload_bytes;
};

struct worker {
    struct pool *pool;
    uint64_t number;     /* on the wire; new with each hello */
    bool local;
    bool ready;          /* has said hello, and its connection is there */
    uint32_t peer;       /* of a remote one */
    uint64_t calls_end;  /* of a remote one: its highest call's number + 1 … */
    uint64_t calls_seen; /* … and which of the 64 before that have come: bit 0 is the highest */
    int64_t heard_ms;
    char *host;
    struct ask waiting[POOL_SLOTS]; /* requests for tasks */
    uint32_t n_waiting;
    struct run running[POOL_SLOTS]; /* in the order given; two that were given at the same moment may
                                       reach the worker in the other order */
    uint32_t n_running;
    /* of local ones: */
    pid_t pid;           /* 0: no process now */
    int pidfd;
    int64_t started_ms;
    bool excused;        /* we killed it, and took its tasks back before */
    uint32_t fails;      /* ends in a row without a result in between */
    struct lk_pipe pipe;
    bool wants_writable; /* the pipe has more to send than its socket took */
    struct lk_board board;
    struct loop_timer respawn;
};

struct pool {
    struct pool_config config;
    struct pool_stream *streams; /* [config.n_streams] our copy, which config.stream points to */
    struct loop *loop;
    struct rpc_server *server; /* of remote workers, or NULL */
    char *remote_token;
    struct log_limit refused;  /* hellos */
    Lk__WorkerHelloReply *hello; /* built once */

    struct worker **worker; /* [n_workers] the first config.workers are the local ones */
    uint32_t n_workers, cap_workers;
    uint64_t numbers, assignments, orders;

    struct job_slot *job;
    uint32_t n_jobs, cap_jobs, free_job; /* free_job: slot + 1, 0 = none */
    struct part **queue;                 /* heap, [1 … n_queue] */
    uint32_t n_queue, cap_queue;
    uint32_t n_retrying;                 /* parts that wait for their timer */
    struct part *retrying;               /* one of them, or NULL: to be named */

    struct loop_timer pump, tick;
    struct pool_row *row; /* scratch: rows of the result being read */
    uint32_t cap_row;
    struct lk_tokens ids;
    struct pool_stats stats;
    struct lk_buf *text;       /* of pool_waits_for */
    struct lk_buf *last_death; /* for a person */
    struct lk_buf *unfit;      /* what the last worker said that cannot serve; empty once one could */
};

/* pool.c */
void pool_log(const struct pool *pool, int level, const char *event, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void pool_pump_soon(struct pool *pool);

/* pool_jobs.c */
struct job *job_new(struct pool *pool, const struct pool_task *task);
struct job *job_find(const struct pool *pool, uint64_t id);
void job_free(struct pool *pool, struct job *job); /* with its parts, without a word */
void jobs_done(struct pool *pool);                 /* frees all of them */
void queue_part(struct pool *pool, struct part *part);
void queue_remove(struct pool *pool, struct part *part);
const char *part_dataset(const struct part *part);
const struct lk_index *part_index(const struct part *part);
const uint64_t *part_rows(const struct part *part); /* [n] numbers in the dataset */
const char *part_shard(const struct part *part);    /* of its first row */
const char *part_others(const struct part *part);   /* what to say behind that, of rows in other shards; or "" */
/* A worker's answer about @part; false: it contradicts itself, see @err. */
bool part_result(struct pool *pool, struct part *part, const Lk__WorkerTaskRequest *result,
                 const uint8_t *payload, size_t payload_bytes, struct lk_err *err);
/* The part came back unfinished; @lone: its worker had nothing else; @how it ended, for a person. */
void part_returned(struct pool *pool, struct part *part, enum blame blame, bool lone,
                   const char *how);

/* pool_workers.c */
struct worker *worker_new(struct pool *pool, bool local);
void worker_free(struct worker *worker);
void workers_forget_part(struct pool *pool, const struct part *part);
/* Its tasks go back; @blame is for the one that ran, @how for a person. */
void worker_lost(struct worker *worker, enum blame blame, const char *how);
/* Forgets its requests for tasks. It is told FAILED_PRECONDITION: say hello again; UNAVAILABLE: the
 * daemon ends; or OK: nothing, since it is gone. */
void worker_drop_calls(struct worker *worker, enum lk_code say);
/* @worker: whose connection it came by, or NULL: of a remote one that has not said hello. */
void worker_said(struct pool *pool, struct worker *worker, const struct said *said);
void workers_ready(void *pool); /* the server's descriptor is readable */
void workers_dispatch(struct pool *pool);
void workers_tick(struct pool *pool); /* overdue tasks, silent peers */

/* pool_locals.c */
/* Makes pipe and board; the ends that the worker gets. */
enum lk_code local_open(struct worker *worker, int *ret_socket, struct lk_err *err);
void local_close(struct worker *worker);
void local_drain(struct worker *worker); /* takes what it said before it ended */
void local_answer(struct worker *worker, const struct ask *ask, enum lk_code status,
                  const ProtobufCMessage *message, const void *payload, size_t payload_bytes);

/* pool_procs.c */
void proc_spawn(struct worker *worker);
void proc_kill(struct worker *worker, bool excused);
void procs_end(struct pool *pool); /* ends all within two seconds */

#endif
