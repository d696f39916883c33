/*
 * A bound on a worker's memory, so that a row which makes it grow without end ends the worker by its
 * own doing (an allocation fails, and it aborts). Without one the kernel would kill the worker, or
 * another process, and what may be a kill from outside is never held against a row.
 */
#ifndef LK_WORKER_MEMORY_H
#define LK_WORKER_MEMORY_H

#include <stdint.h>

/* What a worker may take beside its cache. The worst row that can be indexed (LK_ROW_BYTES_MAX) takes
 * less, unless it is one word of hundreds of megabytes. */
#define MEMORY_OWN_BYTES ((uint64_t)16 << 30)

/* From now on private memory may grow by @bytes. A limit that is lower already stays; where the
 * system does not tell how much is in use, there is none. */
void memory_limit(uint64_t bytes);

#endif
