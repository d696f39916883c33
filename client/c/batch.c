#include "batch.h"

#include "proto/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "batches are mapped as they are");
_Static_assert(sizeof(struct lanekeeper_row) == sizeof(struct lk_batch_row) &&
                   offsetof(struct lanekeeper_row, first_part) == offsetof(struct lk_batch_row, first_part) &&
                   offsetof(struct lanekeeper_row, n_parts) == offsetof(struct lk_batch_row, n_parts) &&
                   offsetof(struct lanekeeper_row, used) == offsetof(struct lk_batch_row, used),
               "the public row is the wire's");
_Static_assert(sizeof(struct lanekeeper_part) == sizeof(struct lk_batch_part) &&
                   offsetof(struct lanekeeper_part, dataset) == offsetof(struct lk_batch_part, dataset) &&
                   offsetof(struct lanekeeper_part, epoch) == offsetof(struct lk_batch_part, epoch) &&
                   offsetof(struct lanekeeper_part, first) == offsetof(struct lk_batch_part, first) &&
                   offsetof(struct lanekeeper_part, tokens) == offsetof(struct lk_batch_part, tokens),
               "the public part is the wire's");

void lkc_holding_hold(struct holding *holding)
{
    (void)atomic_fetch_add_explicit(&holding->holders, 1, memory_order_relaxed);
}

void lkc_holding_drop(struct holding *holding)
{
    if (atomic_fetch_sub_explicit(&holding->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (holding->memory != NULL) {
        lkc_memory_release(holding->memory, holding->lease);
        lkc_memory_drop(holding->memory);
    }
    lkc_wish_drop(holding->wish);
    free(holding->copy);
    free(holding);
}

void lanekeeper_release(struct lanekeeper_batch *batch)
{
    if (batch == NULL)
        return;
    if (batch->owner != NULL)
        lkc_holding_drop(batch->owner);
    memset(batch, 0, sizeof *batch);
}

static bool no(char *ret_why, size_t n, const char *what)
{
    (void)snprintf(ret_why, n, "malformed batch: %s", what);
    return false;
}

/* The block's own frame. @bytes is what there really is. */
static bool head_check(const struct lk_batch_head *head, uint64_t bytes, const struct batch_wanted *wanted,
                       char *ret_why, size_t n)
{
    if (head->magic != LK_BATCH_MAGIC)
        return no(ret_why, n, "wrong magic");
    if (head->step != wanted->step || head->tokens != wanted->sequence)
        return no(ret_why, n, "another step or sequence length than asked for");
    if (head->bytes > bytes)
        return no(ret_why, n, "longer than its message or slot");
    uint64_t table_end = sizeof *head + (uint64_t)head->rows * sizeof(struct lk_batch_row);
    uint64_t tokens = (uint64_t)head->rows * head->tokens; /* below 2^64: both are 32 bits */
    if (table_end > head->tokens_at || head->tokens_at % 64 != 0 || head->tokens_at > head->bytes ||
        tokens > (head->bytes - head->tokens_at) / sizeof(uint32_t))
        return no(ret_why, n, "its tokens do not fit");
    uint64_t tokens_end = head->tokens_at + tokens * sizeof(uint32_t);
    if (head->parts_at < tokens_end || head->parts_at % 8 != 0 || head->parts_at > head->bytes ||
        head->n_parts > (head->bytes - head->parts_at) / sizeof(struct lk_batch_part))
        return no(ret_why, n, "its parts do not fit");
    return true;
}

static bool rows_check(const struct lanekeeper_batch *batch, uint32_t datasets, char *ret_why, size_t n)
{
    for (uint32_t i = 0; i < batch->rows; i++) {
        const struct lanekeeper_row *row = &batch->row[i];
        uint64_t tokens = 0;
        if (row->first_part > batch->n_parts || row->n_parts > batch->n_parts - row->first_part)
            return no(ret_why, n, "a row's parts are out of bounds");
        /* No piece is empty: so a row has as many as tokens at most, whatever the table's length. */
        for (uint32_t k = 0; k < row->n_parts && tokens <= batch->sequence; k++) {
            tokens += batch->part[row->first_part + k].tokens;
            if (batch->part[row->first_part + k].tokens == 0)
                return no(ret_why, n, "a part is empty");
            if (batch->part[row->first_part + k].dataset >= datasets)
                return no(ret_why, n, "a part is of an unknown dataset");
        }
        if (tokens != row->used || row->used > batch->sequence)
            return no(ret_why, n, "a row's parts are not what it uses");
    }
    return true;
}

/* Points @batch into the block. */
static bool block_view(const uint8_t *block, uint64_t bytes, const struct batch_wanted *wanted,
                       const Lk__GetBatchReply *reply, struct lanekeeper_batch *batch, char *ret_why,
                       size_t n)
{
    struct lk_batch_head head;

    if (bytes < sizeof head)
        return no(ret_why, n, "shorter than its head");
    memcpy(&head, block, sizeof head);
    if (!head_check(&head, bytes, wanted, ret_why, n))
        return false;
    if (reply->first_row < head.first_row || reply->first_row - head.first_row > head.rows ||
        reply->rows > head.rows - (reply->first_row - head.first_row))
        return no(ret_why, n, "it does not hold the rows that it should");
    uint32_t skip = reply->first_row - head.first_row;
    batch->row = (const struct lanekeeper_row *)(const void *)(block + sizeof head) + skip;
    batch->tokens = (const uint32_t *)(const void *)(block + head.tokens_at) + (size_t)skip * head.tokens;
    batch->part = (const struct lanekeeper_part *)(const void *)(block + head.parts_at);
    batch->n_parts = head.n_parts;
    struct holding *holding = batch->owner;
    holding->block_rows = head.rows;
    holding->skip = skip;
    return rows_check(batch, wanted->datasets, ret_why, n);
}

/* Notes where the daemon has made arrays for a training step. */
static bool arrays_view(const struct batch_wanted *wanted, const Lk__GetBatchReply *reply,
                        struct holding *holding, char *ret_why, size_t n)
{
    struct lk_training_wish made = {reply->training, reply->ignore_index};
    struct lk_training_layout layout;

    if (made.flags == 0)
        return true;
    if (!reply->shared || !lk_training_wish_good(&made))
        return no(ret_why, n, "training arrays of an unknown kind, or without shared memory");
    lk_training_layout(&made, holding->block_rows, wanted->sequence, &layout);
    holding->arrays = reply->training_offset % LK_TRAINING_ALIGN != 0 || reply->training_bytes != layout.bytes
                          ? NULL
                          : lkc_memory_at(holding->memory, reply->region, reply->training_offset, layout.bytes);
    if (holding->arrays == NULL)
        return no(ret_why, n, "its training arrays are not where they can be");
    holding->made = made;
    return true;
}

static bool reply_check(const struct batch_wanted *wanted, const Lk__GetBatchReply *r, char *ret_why,
                        size_t n)
{
    if (r->step != wanted->step || r->sequence != wanted->sequence)
        return no(ret_why, n, "the reply is of another step or sequence length");
    if (r->digest.len != 16)
        return no(ret_why, n, "its digest does not have 16 bytes");
    if (r->rows > r->global_rows || r->first_row > r->global_rows - r->rows)
        return no(ret_why, n, "its rows are outside of the global batch");
    return true;
}

static enum lanekeeper_code out_of_memory(char *ret_why, size_t n, size_t bytes)
{
    (void)snprintf(ret_why, n, "out of memory for a batch of %zu bytes", bytes);
    return LANEKEEPER_RESOURCE_EXHAUSTED;
}

/* The block: in shared memory, or copied to where it is aligned. */
static enum lanekeeper_code block_get(const Lk__GetBatchReply *reply, const uint8_t *payload,
                                      size_t payload_bytes, struct holding *holding,
                                      const uint8_t **ret_block, uint64_t *ret_bytes, char *ret_why, size_t n)
{
    if (reply->shared) {
        *ret_bytes = reply->bytes;
        *ret_block = holding->memory == NULL
                         ? NULL
                         : lkc_memory_at(holding->memory, reply->region, reply->offset, reply->bytes);
        if (*ret_block == NULL)
            (void)no(ret_why, n, "it is outside of the shared memory");
        return *ret_block == NULL ? LANEKEEPER_DATA_LOSS : LANEKEEPER_OK;
    }
    size_t room = (payload_bytes + 63) / 64 * 64;
    if (room < payload_bytes || (holding->copy = aligned_alloc(64, room + 64)) == NULL)
        return out_of_memory(ret_why, n, payload_bytes);
    memcpy(holding->copy, payload, payload_bytes);
    *ret_block = holding->copy;
    *ret_bytes = payload_bytes;
    return LANEKEEPER_OK;
}

/* Fills @batch in with what is checked on the way. */
static enum lanekeeper_code batch_fill(const struct batch_wanted *wanted, const Lk__GetBatchReply *reply,
                                       const uint8_t *payload, size_t payload_bytes,
                                       struct lanekeeper_batch *batch, char *ret_why, size_t n)
{
    const uint8_t *block;
    uint64_t bytes;

    if (!reply_check(wanted, reply, ret_why, n))
        return LANEKEEPER_DATA_LOSS;
    batch->step = reply->step;
    batch->first_row = reply->first_row;
    batch->rows = reply->rows;
    batch->global_rows = reply->global_rows;
    batch->sequence = reply->sequence;
    batch->shared = reply->shared;
    memcpy(batch->digest, reply->digest.data, sizeof batch->digest);
    enum lanekeeper_code code =
        block_get(reply, payload, payload_bytes, batch->owner, &block, &bytes, ret_why, n);
    if (code != LANEKEEPER_OK)
        return code;
    return block_view(block, bytes, wanted, reply, batch, ret_why, n) &&
                   arrays_view(wanted, reply, batch->owner, ret_why, n)
               ? LANEKEEPER_OK
               : LANEKEEPER_DATA_LOSS;
}

enum lanekeeper_code lkc_batch_make(const struct batch_wanted *wanted, const Lk__GetBatchReply *reply,
                                    const uint8_t *payload, size_t payload_bytes, struct memory *memory,
                                    struct lanekeeper_batch *ret_batch, char *ret_why, size_t why_bytes)
{
    struct holding *holding = calloc(1, sizeof *holding);
    struct lanekeeper_batch batch = {.owner = holding};

    if (holding == NULL) {
        if (reply->shared && memory != NULL)
            lkc_memory_release(memory, reply->lease);
        return out_of_memory(ret_why, why_bytes, sizeof *holding);
    }
    atomic_init(&holding->holders, 1);
    lkc_wish_hold(wanted->wish);
    holding->wish = wanted->wish;
    if (reply->shared && memory != NULL) {
        lkc_memory_hold(memory);
        holding->memory = memory;
        holding->lease = reply->lease;
    }
    enum lanekeeper_code code =
        batch_fill(wanted, reply, payload, payload_bytes, &batch, ret_why, why_bytes);
    if (code == LANEKEEPER_OK)
        *ret_batch = batch;
    else
        lkc_holding_drop(holding);
    return code;
}

/* ---- tokens in other types ---- */

static enum lanekeeper_code copy_u16(const uint32_t *from, size_t n, uint16_t *to)
{
    uint32_t all = 0; /* one test at the end: the loop stays a vector loop */

    for (size_t i = 0; i < n; i++) {
        all |= from[i];
        to[i] = (uint16_t)from[i];
    }
    return all > UINT16_MAX ? LANEKEEPER_OUT_OF_RANGE : LANEKEEPER_OK;
}

static enum lanekeeper_code copy_i64(const uint32_t *from, size_t n, int64_t *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
    return LANEKEEPER_OK;
}

enum lanekeeper_code lanekeeper_copy_tokens(const struct lanekeeper_batch *batch,
                                            enum lanekeeper_dtype dtype, void *out, size_t out_bytes)
{
    if (batch == NULL || out == NULL || batch->tokens == NULL)
        return LANEKEEPER_INVALID_ARGUMENT;
    size_t n = (size_t)batch->rows * batch->sequence;
    if ((dtype != LANEKEEPER_U16 && dtype != LANEKEEPER_U32 && dtype != LANEKEEPER_I64) ||
        out_bytes / (size_t)dtype != n || out_bytes % (size_t)dtype != 0)
        return LANEKEEPER_INVALID_ARGUMENT;
    if (dtype == LANEKEEPER_U16)
        return copy_u16(batch->tokens, n, out);
    if (dtype == LANEKEEPER_I64)
        return copy_i64(batch->tokens, n, out);
    memcpy(out, batch->tokens, out_bytes);
    return LANEKEEPER_OK;
}
