/*
 * The simulated world: one engine, and around it everything that it touches, made up from a seed. The
 * engine is the real one; the seams below it (pool, snapshots, counts, loop, rpc, stream, log) are
 * implemented here once more, under the same headers, and linked in their place. As these seams say nothing
 * of a world, there is one at a time, and sim_now() is it.
 */
#ifndef LK_SIM_SIM_H
#define LK_SIM_SIM_H

#include "gen.h"
#include "oracle.h"
#include "rng.h"

#include "config/config.h"
#include "core/lane.h"
#include "host/engine_private.h"

#include <setjmp.h>

#define SIM_RANKS_MAX 512
#define SIM_LOG_LINE 600

/* A task of the pool. */
struct sim_task {
    uint64_t id;
    struct pool_task task; /* rows are ours */
    int64_t not_before_ms; /* a try that was lost */
};

/* A file of a lane's state. */
struct sim_file {
    uint32_t stream, lane;
    uint64_t position;
    struct lk_buf bytes;
    uint64_t hash;         /* of the bytes as they were given */
    bool queued;           /* not on the disk yet */
    bool listed;           /* the directory, as last read, has it */
    bool tainted;          /* something wrong was known when it was made */
};

/* What is known of a state: it must be the same whoever makes it, and whenever. */
struct sim_truth {
    uint32_t stream, lane;
    uint64_t position, hash;
};

/* Counts of a dataset: what the files have, and what the daemon has read of them. */
struct sim_counts {
    struct lk_count *file, *memory; /* [rows] memory: not known, or not read yet, or forgotten again */
    struct lk_count *given;         /* [rows] of the news */
    bool *news, *told;              /* [rows] given, not written yet; known to contradict the file */
    uint64_t rows, doubts;
};

/* A cursor has failed since a count was wrong: somebody must hear of it, once. */
struct sim_doubt {
    const struct cursor *cursor;
    uint32_t stream;
    struct lk_err err;
    uint64_t call;                  /* the last one sent before */
    uint64_t told;                  /* the event; 0: nobody has heard of it */
};
#define SIM_DOUBTS_MAX 64

enum sim_call_kind { CALL_GET, CALL_TRACE, CALL_DIGEST, CALL_HELLO, CALL_CHECKPOINT, CALL_STATUS, CALL_BAD };

/* A request under way. */
struct sim_call {
    struct rpc_call call;  /* first: the engine knows this */
    enum sim_call_kind kind;
    uint64_t serial;
    uint32_t trainer, stream;
    uint64_t step, to;     /* DIGEST: [step, to) */
    uint32_t first, rows;
    uint64_t client;
    uint32_t bad;          /* BAD: the status that it must get */
    bool heard;            /* the engine has it */
    uint8_t header[96];
};

/* A batch that a trainer holds in shared memory. */
struct sim_lease {
    uint32_t trainer, stream;
    uint64_t client, lease, step, offset;
    uint32_t first, rows;
    uint64_t hash;         /* of what it reads */
};

struct sim_trainer {
    uint32_t stream, peer, world;
    uint64_t client;       /* 0: reads no shared memory */
    bool keeps;            /* never gives anything back */
    int mode;              /* of asking: see actors.c */
    uint64_t step[SIM_RANKS_MAX]; /* next of each rank */
};

struct sim {
    struct sim_case of;
    struct rng rng;
    struct log log;        /* the engine's: must be known by its address alone */
    bool verbose;
    uint64_t log_hash, events;
    jmp_buf failed;
    char failure[SIM_LOG_LINE];

    struct lk_config config;
    struct oracle *oracle[SIM_STREAMS_MAX];
    struct engine *engine; /* NULL: not running */
    struct loop *loop;
    int64_t now_ms;
    bool closing, killing, calm; /* calm: faults are over */

    struct sim_task *task;
    uint32_t n_tasks, cap_tasks;
    uint64_t last_task;
    struct pool_stats pool_stats;

    struct sim_file *file;
    uint32_t n_files, cap_files;
    struct sim_truth *truth;
    uint32_t n_truths, cap_truths;
    struct sim_counts counts[SIM_STREAMS_MAX][SIM_DATASETS_MAX];
    bool planted;          /* a count in the files is wrong … */
    uint32_t wrong_stream, wrong_dataset;
    uint64_t wrong_row;    /* … of this row */
    bool misled;           /* it has been used, by this daemon or in a state that it may read */
    bool must_forget;      /* a wrong count was found: states may be made of it */
    uint64_t found;        /* the event at which this daemon first found it; 0: not yet */
    struct sim_doubt doubt[SIM_DOUBTS_MAX];
    uint32_t n_doubts;
    bool misled_before;    /* by a state that was there when this daemon began */
    bool at_hand;          /* this daemon has had the tokens of the row in its arena */

    struct sim_call **call; /* in the order they were sent; the first may not have been heard */
    uint32_t n_calls, cap_calls;
    uint64_t last_call;
    struct rpc_event *gone; /* to be heard after the calls */
    uint32_t n_gone, cap_gone;
    uint32_t last_peer;
    uint64_t answers, batches, refusals, late;

    const struct handover_ops *client_ops;
    void *client_owner;
    const uint8_t *region[SIM_STREAMS_MAX];
    uint64_t region_bytes[SIM_STREAMS_MAX];
    struct sim_lease *lease;
    uint32_t n_leases, cap_leases;
    uint64_t last_client;
    struct sim_trainer *trainer; /* [of.trainers] */
};

struct sim *sim_now(void);

/* main.c: runs one seed. False: it failed, and sim->failure says how. */
bool sim_run(struct sim *sim, uint64_t seed, bool turning, bool verbose);

/* Into the event log: hashed always, printed when verbose. */
void sim_note(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends this seed. */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* world.c: what happens, and when. */
void world_begin(struct sim *sim);
void world_events(struct sim *sim);  /* as many as the case has */
void world_calm(struct sim *sim);    /* no more faults: everything asked for must be answered */
void world_done(struct sim *sim);    /* frees; safe after a failure */
void world_restart(struct sim *sim); /* the daemon ends, and another begins */
void world_end(struct sim *sim);     /* it ends */

/* turns.c: another story than events and calm. */
void turns_case(struct sim_case *sim); /* makes it one for that */
void turns(struct sim *sim);

/* fake_loop.c */
void fake_turn(struct sim *sim, bool hear);
bool fake_timer_due(struct sim *sim);

/* fake_pool.c */
void fake_pool_done_one(struct sim *sim, bool urgent);
void fake_pool_lose(struct sim *sim);
bool fake_pool_ready(struct sim *sim); /* some task may be done now */

/* fake_files.c */
void fake_files_open(struct sim *sim);     /* the daemon begins: reads everything anew */
void fake_files_crash(struct sim *sim);    /* what was not written is lost */
void fake_files_disturb(struct sim *sim);  /* something happens to the disk */
void fake_files_write(struct sim *sim);    /* all that waits is written */
void fake_files_plant(struct sim *sim);    /* a wrong count */
bool fake_files_mislead(const struct sim *sim); /* a daemon that asks for it would get it */
void fake_files_done(struct sim *sim);

/* fake_stream.c */
void fake_config_make(struct sim *sim);    /* the case as the server's configuration */
void fake_config_done(struct sim *sim);

/* fake_rpc.c */
struct sim_call *fake_call_new(struct sim *sim, uint32_t trainer, enum sim_call_kind kind, uint16_t method);
void fake_call_send(struct sim *sim, struct sim_call *call, size_t header_bytes);
void fake_peer_gone(struct sim *sim, uint32_t peer);
bool fake_something_to_hear(const struct sim *sim);
void fake_rpc_forget(struct sim *sim);     /* the daemon is gone: nothing will be answered */
void fake_leases_forget(struct sim *sim);

/* actors.c */
void actors_begin(struct sim *sim);
void actor_asks(struct sim *sim);
void actor_wants(struct sim *sim, uint32_t trainer, uint64_t step); /* asks for all of that one */
void actor_releases(struct sim *sim);
void actor_joins_or_leaves(struct sim *sim);
void actor_drops(struct sim *sim);
void actor_moves(struct sim *sim);         /* another world */

/* check.c */
void check_batch(struct sim *sim, const struct sim_call *call, const Lk__GetBatchReply *reply,
                 const uint8_t *block, uint64_t bytes);
void check_trace(struct sim *sim, const struct sim_call *call, const Lk__TraceReply *reply);
void check_digests(struct sim *sim, const struct sim_call *call, const Lk__DigestReply *reply);
void check_refusal(struct sim *sim, const struct sim_call *call, enum lk_code code, const char *detail);
void check_lease(struct sim *sim, const struct sim_lease *lease);
void check_saver(struct sim *sim, uint32_t stream, uint32_t lane, uint64_t position);
uint64_t check_lease_hash(const struct sim *sim, const struct sim_lease *lease);
void check_world(struct sim *sim, bool all); /* invariants; all: the slow ones, too */

/* check_counts.c */
void check_at_hand(struct sim *sim);
void check_pieces(struct sim *sim);
void check_failed(struct sim *sim, const char *stream, const char *text); /* a cursor has, says the log */
void check_told(struct sim *sim, const struct sim_call *call);            /* one is to be given its step */
bool check_tells(struct sim *sim, uint32_t stream, const char *detail);   /* one is refused: may it be, for a count? */

#endif
