/*
 * The same work on each of many shards, by a few threads. The outcome does not depend on how many.
 */
#ifndef LK_FORMAT_SHARD_JOBS_H
#define LK_FORMAT_SHARD_JOBS_H

#include "base/status.h"
#include "format/index.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_shard_jobs;

/* What one piece of work sees of the others. */
struct lk_shard_work {
    struct lk_shard_jobs *jobs;
    uint32_t shard;
};

/* Says how far the work has come since the last call: bytes as stored, rows. */
void lk_shard_work_add(const struct lk_shard_work *work, uint64_t bytes, uint64_t rows);

/* An earlier shard has failed: whatever this one yields, nobody will look at it. */
bool lk_shard_work_unwanted(const struct lk_shard_work *work);

/*
 * Calls @run for shards 0…n-1, each once, in up to @threads threads, and reports progress from the
 * calling one. When some fail, the failure of the first of them in shard order is returned: the
 * shards before it have all been run, those after it perhaps not.
 */
enum lk_code lk_shard_jobs_run(uint32_t n, unsigned threads, uint64_t all_bytes,
                               struct lk_progress progress,
                               enum lk_code (*run)(void *owner, const struct lk_shard_work *work,
                                                   struct lk_err *err),
                               void *owner, struct lk_err *err);

#endif
