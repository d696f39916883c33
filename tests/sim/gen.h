/* A seed's case: recipes and data, settings, and how likely each kind of event is. */
#ifndef LK_SIM_GEN_H
#define LK_SIM_GEN_H

#include "recipe.h"

#define SIM_STREAMS_MAX 2

/* What can happen. X(NAME, text) */
#define SIM_EVENTS(X)                                                                              \
    X(ASK, "ask")         /* a trainer sends a request */                                          \
    X(HEAR, "hear")       /* the engine takes what has been sent */                                \
    X(TASK, "task")       /* a task of the pool is done: any of them */                            \
    X(TASKS, "tasks")     /* many are */                                                           \
    X(LOSS, "loss")       /* a worker is lost: its tasks are tried again later */                  \
    X(CLOCK, "clock")     /* time passes */                                                        \
    X(RELEASE, "release") /* a trainer gives a batch back */                                       \
    X(CLIENT, "client")   /* a trainer joins or leaves shared memory */                            \
    X(DROP, "drop")       /* a connection is gone */                                               \
    X(WORLD, "world")     /* a training run goes on with another world, somewhere */               \
    X(DISK, "disk")       /* files are written, torn, lost */                                      \
    X(REPORT, "report")   /* somebody looks at status and metrics */                               \
    X(STOP, "stop")       /* the daemon is stopped, and started again */                           \
    X(KILL, "kill")       /* it is killed, and started again */

enum sim_event {
#define SIM_EVENT_ENUM(name, text) EVENT_##name,
    SIM_EVENTS(SIM_EVENT_ENUM)
#undef SIM_EVENT_ENUM
    EVENT_KINDS
};

struct sim_case {
    uint64_t seed;
    uint32_t n_streams;
    struct sim_recipe recipe[SIM_STREAMS_MAX];
    uint64_t arena_bytes;
    uint32_t prefetch_steps, cursors_max;
    uint64_t snapshot_every;     /* 0: none */
    bool counts, write_counts;
    uint32_t forgetful;          /* of 1000 times that counts are asked for, so often none is in memory */
    bool plant;                  /* a wrong count is planted at some restart */
    bool blind_files;            /* damage of a snapshot is not found by its file's checksum */
    uint32_t trainers;
    uint32_t events;
    uint32_t chance[EVENT_KINDS];
    uint32_t urgent;             /* of 1000 tasks that are done, so many are the most urgent one */
};

void gen_case(uint64_t seed, struct sim_case *ret_case);
/* Lines that describe it. */
void gen_describe(const struct sim_case *sim, void (*line)(void *owner, const char *format, ...), void *owner);

#endif
