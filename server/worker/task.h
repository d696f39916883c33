/*
 * One task: rows of one dataset in, shard by shard, their tokens out. A pure function of (streams, task,
 * data), so it does not matter which worker runs it, or how often.
 */
#ifndef LK_WORKER_TASK_H
#define LK_WORKER_TASK_H

#include "base/mem.h"
#include "base/status.h"
#include "format/format.h"
#include "proto/work.h"
#include "worker/streams.h"

#include <stdint.h>

/* The outcome of a task, and memory that is used again for the next. Zeroed = empty. */
struct task_result {
    uint8_t *place;         /* where its payload is wanted (link.h), at the beginning of a word; NULL: anywhere */
    size_t place_bytes;     /* as far as it fits there */
    uint64_t task;
    struct lk_err err;      /* code OK: every row was measured */
    struct lk_work_result *row; /* [n_rows] all, or those before the one that failed the task for good */
    uint32_t n_rows, cap_rows;
    Lk__RowNote **note;     /* [n_notes] why rows were dropped, of those that say more than a reason */
    uint32_t n_notes, cap_notes;
    struct lk_tokens tokens; /* of all kept rows, in order */
    uint64_t cpu_ns, data_bytes;
    uint64_t specials;       /* special tokens in the texts of kept rows */
    struct lk_row_span *span; /* [cap_rows] */
};

void task_result_done(struct task_result *result); /* safe on a zeroed one */

/*
 * Runs @task. Transient failures are tried again a few times, with growing pauses, before they are
 * reported as UNAVAILABLE; nothing of a failed try remains then. A row that cannot be measured fails the
 * task with its dataset, shard, row and byte in the text. More than @result_max bytes of tokens:
 * OUT_OF_RANGE.
 */
void task_run(struct streams *streams, struct lk_shard_cache *cache, const Lk__WorkerTaskReply *task,
              const uint8_t *payload, size_t payload_bytes, struct task_result *result);

#endif
