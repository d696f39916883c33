/* What the files of the engine share: engine.c (wiring, turns), requests.c (calls that wait),
 * places.c (who has which cursor), reply.c (batches as answers), report.c (status, metrics, health). */
#ifndef LK_HOST_ENGINE_PRIVATE_H
#define LK_HOST_ENGINE_PRIVATE_H

#include "host/arena.h"
#include "host/cursor.h"
#include "host/engine.h"
#include "host/pool.h"
#include "host/slots.h"
#include "host/snapshots.h"
#include "host/stream.h"
#include "proto/envelope.h"
#include "proto/lanekeeper.pb-c.h"
#include "rpc/handover.h"
#include "rpc/server.h"

#define STEPS_A_DIGEST_CALL 10000u

struct served_cursor {
    struct cursor *cursor;     /* NULL: free place */
    int64_t made_ms, last_use_ms, last_answer_ms;
    int64_t late_ms;           /* when a request was given up that waited for it */
    uint32_t peer;             /* that asked it last */
    uint64_t served;           /* requests it was given */
    uint64_t answered;         /* … and that it had the rows for */
    uint32_t waiting;          /* requests that wait for it; counted anew each turn */
    uint64_t lowest;           /* step of theirs */
};

struct served {                /* a stream, served */
    struct stream stream;
    struct cursor_context context;
    struct drop_log drops;
    struct errand *orphans;
    struct slots *slots;
    struct counts_set **counts;   /* [n_datasets]; NULL: none */
    uint64_t doubts;              /* of counts_doubts, those that were heeded */
    struct served_cursor *cursor; /* [cursors_max] */
    int64_t turn_ms, lacking_ms;  /* how long a turn is, and when somebody last lacked a cursor: places.c */
    uint64_t batches, batches_shared, batches_training, ended;
};

/* A request that waits for rows of a step. */
struct request {
    struct request *next;
    struct rpc_call *call;
    uint32_t stream;
    struct served_cursor *at;  /* NULL: no cursor yet */
    uint64_t step;
    struct steps_cut cut;
    uint64_t client;           /* GetBatch: 0 = inline */
    struct lk_training_wish training; /* GetBatch: flags 0 = none */
    uint64_t from, to;         /* Digest: steps; step runs through them */
    struct lk_buf digests;     /* Digest: 16 bytes a step so far */
};

/* Latencies of GetBatch, in seconds; the last bucket is everything above. */
#define LATENCY_BUCKETS 14

struct engine {
    struct engine_config config;
    struct pool *pool;
    struct pool_stream *pool_stream; /* [n_streams] what the pool knows of them */
    struct arena *arena;
    uint64_t batch_bytes;      /* of tokens, in the slots of all streams */
    struct snapshots *snapshots;
    struct counts *counts;     /* NULL: none */
    struct loop_timer counts_tick;
    struct loop_timer again;   /* another turn soon: somebody has left off */
    struct loop_timer drops;   /* the log is to say how many more rows were dropped */
    struct rpc_server *rpc;
    struct handover *handover;
    uint32_t n_streams;
    struct served *stream;     /* [n_streams] */
    struct request *waiting;
    struct request **last;
    uint64_t *client;          /* ids of trainers that can read our memory */
    uint32_t n_clients, cap_clients;
    struct loop_timer deadline;
    int64_t moved_ms;          /* when something last moved */
    uint64_t last_progress;    /* sequences, rows, replies: a sum that grows when something moves */
    uint64_t results;          /* deliveries of the pool */
    uint64_t latency[LATENCY_BUCKETS];
    double latency_sum;
    uint64_t latency_n, refused, timed_out;
    struct log_limit displaced; /* connections of the service's */
};

/* requests.c */
void requests_receive(struct engine *engine);              /* new calls from the service */
uint32_t requests_serve(struct engine *engine);            /* answers what can be answered; how many */
void requests_close(struct engine *engine);
int64_t requests_oldest_ms(const struct engine *engine);   /* age; 0 when none waits */

/* places.c */
#define PLACES_AGAIN_MS 1000 /* within this time who was late has asked again, if ever */
#define PLACES_LOOK_MS 500   /* how often whoever has no cursor is looked after */
void places_find(struct engine *engine, struct request *request); /* sets request->at, if there is a cursor for it */
void places_answered(struct engine *engine, const struct request *request); /* its cursor has its rows */
void places_late(struct engine *engine, const struct request *request, struct lk_buf *why); /* appends what it lacks */
void places_turn(struct engine *engine, uint32_t stream); /* gives a cursor to another, if it is time to */
void places_gone(struct engine *engine, uint32_t peer);

/* reply.c */
void reply_batch(struct engine *engine, struct request *request, uint32_t slot);
void reply_trace(struct engine *engine, struct request *request, uint32_t slot);
struct lk_digest reply_cut_digest(const struct served *served, uint32_t slot, struct steps_cut cut);
void reply_hello(struct engine *engine, struct rpc_call *call);

#endif
