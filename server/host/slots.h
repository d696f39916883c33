/*
 * Batch memory of one stream: a sealed memfd cut into slots, one step a slot in the layout of
 * proto/batch.h, and the leases that trainers hold on them.
 *
 * Behind the slots lie areas for what a training step is fed with (proto/training.h), one for each slot that
 * can be leased at once: up to 33 bytes a token, in pages that cost nothing until somebody wants them. A
 * slot is given one when a trainer that leases it asks; it keeps it as long as it is leased, and after that
 * until another slot needs it.
 *
 * A slot is used by a cursor while the step is in its window, and by leases while trainers read it.
 * It is free when neither holds it. Only `leased_max` slots may be leased at once; then batches go
 * out inline, so trainers that hold many batches slow themselves and nobody else.
 */
#ifndef LK_HOST_SLOTS_H
#define LK_HOST_SLOTS_H

#include "base/status.h"
#include "config/runtime.h"
#include "core/recipe.h"
#include "proto/batch.h"
#include "proto/training.h"

#include <stdbool.h>
#include <stdint.h>

struct slots;

#define SLOT_NONE UINT32_MAX

#define LEASES_MAX 65536 /* of one stream at once; beyond that batches go out inline */

struct slots_grant {
    uint32_t slots;      /* steps that there is room for, 4… */
    uint32_t leased_max; /* of them, such as may be leased at once */
    uint32_t rows;       /* sequences of the largest step */
    uint64_t step_bytes; /* token ids of it */
};

/* How many a stream gets. Ready batches of all @n_streams may take half of `arena`; config/budget.h has seen to it that
 * four steps of each fit. Pure: what is told beforehand of a configuration is what the daemon then makes of it. */
struct slots_grant slots_granted(const struct lk_runtime *runtime, uint32_t n_streams, const struct lk_recipe *recipe);

/* @rows × @tokens: the largest step of the stream. @region: its number, which stands in the upper 16
 * bits of its leases, so that a lease tells whose it is (slots_region). */
enum lk_code slots_open(uint16_t region, uint32_t n, uint32_t leased_max, uint32_t rows,
                        uint32_t tokens, struct slots **ret_slots, struct lk_err *err);
void slots_close(struct slots *slots);

int slots_fd(const struct slots *slots);        /* the memfd; sealed: receivers can only read */
uint64_t slots_bytes(const struct slots *slots); /* size of the whole region */

/* The lowest free slot, cleared and laid out for @rows of step @step; SLOT_NONE when none is free. */
uint32_t slots_take(struct slots *slots, uint64_t step, uint32_t rows);
void slots_put(struct slots *slots, uint32_t slot); /* the cursor is done with it */

struct lk_batch_head *slots_head(const struct slots *slots, uint32_t slot);
struct lk_batch_row *slots_row(const struct slots *slots, uint32_t slot, uint32_t row);
uint32_t *slots_tokens(const struct slots *slots, uint32_t slot, uint32_t row);
struct lk_batch_part *slots_parts(const struct slots *slots, uint32_t slot);
uint64_t slots_offset(const struct slots *slots, uint32_t slot); /* of its head in the region */

/* A lease for @client; 0 when leased_max slots are leased already and this is not one of them. */
uint64_t slots_lease(struct slots *slots, uint32_t slot, uint64_t client);
void slots_release(struct slots *slots, uint64_t client, uint64_t lease); /* unknown ones: nothing */
static inline uint16_t slots_region(uint64_t lease)
{
    return (uint16_t)(lease >> 48);
}
void slots_release_all(struct slots *slots, uint64_t client);

/*
 * Makes the arrays of @wish for rows [first, first + rows) of a slot that the caller has just leased, as far
 * as they are not made yet. The block is laid out for all rows of the step.
 *
 * False: the slot has arrays of another wish, and others may be reading them.
 */
bool slots_training(struct slots *slots, uint32_t slot, const struct lk_training_wish *wish, uint32_t first,
                    uint32_t rows, uint64_t *ret_offset, uint64_t *ret_bytes);

struct slots_stats {
    uint32_t slots, used, leased;
    uint64_t leases, bytes_each;
    uint32_t areas, areas_used; /* for training arrays; those that were ever written to */
    uint64_t area_bytes_each;   /* at most */
    uint64_t training_rows;     /* rows that arrays were made of */
};
void slots_stats(const struct slots *slots, struct slots_stats *ret_stats);

#endif
