/* From a GetBatch reply to a struct lanekeeper_batch: everything is checked before it is trusted. */
#ifndef LK_CLIENT_BATCH_H
#define LK_CLIENT_BATCH_H

#include "lanekeeper.h"
#include "memory.h"
#include "wish.h"

#include "proto/lanekeeper.pb-c.h"
#include "proto/training.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct batch_wanted { /* what the reply must agree with */
    uint64_t step;
    uint32_t sequence;
    uint32_t datasets;
    struct wish *wish; /* that its trainings tell, or NULL; the batch then holds it, too */
};

/* What a batch, and what was made of it, hold (their owner): a lease in shared memory, or bytes of its own.
 * Counted. */
struct holding {
    atomic_uint holders;
    struct memory *memory;
    uint64_t lease;
    void *copy;
    struct wish *wish;
    struct lk_training_wish made; /* what the daemon made; flags 0: nothing */
    const uint8_t *arrays;        /* where, laid out for ... */
    uint32_t block_rows, skip;    /* ... so many rows, of which the batch's are those after the first @skip */
};
void lkc_holding_hold(struct holding *holding);
void lkc_holding_drop(struct holding *holding);

/*
 * Makes the batch of @reply: in @memory (which it then holds), or, inline, in a copy of @payload.
 * DATA_LOSS: it is malformed or does not fit; RESOURCE_EXHAUSTED: out of memory. Then @ret_why says
 * more, and a lease in it has been given back.
 */
enum lanekeeper_code lkc_batch_make(const struct batch_wanted *wanted, const Lk__GetBatchReply *reply,
                                    const uint8_t *payload, size_t payload_bytes, struct memory *memory,
                                    struct lanekeeper_batch *ret_batch, char *ret_why, size_t why_bytes);

#endif
