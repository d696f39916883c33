/*
 * The workers' service, as both sides must agree on it beside the messages (worker.proto): its version,
 * the payloads of a task and of its result, and which failures of a task may pass.
 */
#ifndef LK_PROTO_WORK_H
#define LK_PROTO_WORK_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_WORK_PROTOCOL 3            /* another version is refused */
#define LK_WORK_ROWS_MAX (1u << 20)   /* of one task */
#define LK_WORK_SHARDS_MAX (1u << 13) /* of one task: their names, too, must fit a message */

/* A row of a task: its number in the shard, its place in the decoded shard, its hash in the index. In
 * the payload the four follow each other in this order, little-endian. */
#define LK_WORK_ROW_BYTES 24
struct lk_work_row {
    uint64_t row, offset;
    uint32_t bytes, hash;
};

static inline void lk_work_row_put(const struct lk_work_row *row, uint8_t ret_bytes[LK_WORK_ROW_BYTES])
{
    lk_put_u64(ret_bytes, row->row);
    lk_put_u64(ret_bytes + 8, row->offset);
    lk_put_u32(ret_bytes + 16, row->bytes);
    lk_put_u32(ret_bytes + 20, row->hash);
}

static inline struct lk_work_row lk_work_row_get(const uint8_t bytes[LK_WORK_ROW_BYTES])
{
    return (struct lk_work_row){.row = lk_get_u64(bytes),
                                .offset = lk_get_u64(bytes + 8),
                                .bytes = lk_get_u32(bytes + 16),
                                .hash = lk_get_u32(bytes + 20)};
}

/*
 * What became of a row. The payload of a result is one of these for each row of the task, in its order,
 * and then the token ids of all kept rows, u32; everything little-endian and without gaps, which is
 * how the machines that we run on keep it in memory: nothing is converted on the way.
 */
struct lk_work_result {
    uint32_t tokens;
    uint32_t text_bytes;
    uint32_t specials; /* special tokens in its text */
    uint32_t drop;     /* enum lk_drop */
};
_Static_assert(sizeof(struct lk_work_result) == 16, "it is its own wire format");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "results travel as they lie in memory, little-endian: convert them here"
#endif

/* A task that failed so is tried again: first by its worker, a few times, then by the daemon, for ever.
 * Everything else is a property of the data, or of the configuration. */
static inline bool lk_work_may_pass(uint32_t code)
{
    return code == LK_UNAVAILABLE || code == LK_RESOURCE_EXHAUSTED ||
           code == LK_DEADLINE_EXCEEDED || code == LK_ABORTED || code == LK_CANCELLED;
}

#endif
