/*
 * What a daemon of a configuration and its workers may take of memory, reckoned from the configuration alone, and
 * whether that is there. `lanekeeper config check`, `lanekeeper explain` and the daemon's start all say what
 * stands here.
 *
 * Neither the arena nor batch memory lies in a mounted file system: the arena is memory of the process, batches and
 * the workers' results are memfds. So the size of /dev/shm does not matter, but both count in the control group.
 *
 * Not in it: what the kernel keeps of files that are read, which it takes back when memory is short.
 */
#ifndef LK_HOST_FOOTPRINT_H
#define LK_HOST_FOOTPRINT_H

#include "base/mem.h"
#include "base/status.h"
#include "config/budget.h"
#include "config/config.h"
#include "host/machine.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Measured (resident and not shared): a worker with the 262,000 tokens of Gemma 3 has 72 MiB, one with the 50,000
 * of GPT-2 46 MiB, of which 40 are its cache of pieces; the daemon 66 and 25. To a worker's come two parts of its
 * board, which keep up to 4 MiB each (worker/link_local.c), and the rows in its hands.
 */
#define FOOTPRINT_WORKER_BYTES (96ull << 20)

struct footprint { /* bytes; more than 2^64 is 2^64 - 1 */
    uint64_t arena;                 /* tokens, and ready batches in up to half of it */
    uint64_t training;              /* areas for what training steps are fed with, were all wanted with all arrays */
    struct lk_state_bytes state;    /* of all cursors of all streams */
    uint64_t cache;                 /* decoded shards; 0 without local workers */
    uint64_t counts;                /* 0 when none are kept */
    uint64_t processes;             /* the daemon's and the local workers' own, about: tokenizers, pieces, boards */
    uint64_t total;                 /* of all these, with the usual state */
};
void footprint_of(const struct lk_config *config, struct footprint *ret_footprint);

/*
 * An arena that is larger than what there is becomes half of that, with a line in @notes, where it is the default, which
 * nobody chose, or @always. That costs time only: the arena is a cache.
 */
void footprint_lower_arena(struct lk_config *config, const struct machine_memory *there, bool always, struct lk_buf *notes);

/*
 * Holds it against what there is. RESOURCE_EXHAUSTED: `arena` alone is larger, and not the default; names file, key,
 * value, what there is and where that stands. Else, when the total is above nine tenths, appends a line to @notes that
 * says of what it consists.
 */
enum lk_code footprint_check(const struct lk_config *config, const struct machine_memory *there, struct lk_buf *notes,
                             struct lk_err *err);

#endif
