/* The part of a training that a context-parallel rank gets. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

/* The columns of a rank: one run of them, or two of equal length. */
struct columns {
    uint32_t first[2];
    uint32_t each;
    uint32_t runs;
};

static uint32_t runs_of(enum lanekeeper_slice kind)
{
    return kind == LANEKEEPER_SLICE_ZIGZAG ? 2 : 1;
}

static struct columns columns_of(uint32_t tokens, uint32_t cp_rank, uint32_t cp_size, enum lanekeeper_slice kind)
{
    struct columns columns = {.runs = runs_of(kind)};

    columns.each = tokens / (columns.runs * cp_size);
    columns.first[0] = cp_rank * columns.each;
    columns.first[1] = (2 * cp_size - 1 - cp_rank) * columns.each;
    return columns;
}

static enum lanekeeper_code arguments_check(const struct lanekeeper_training *training, uint32_t cp_rank,
                                            uint32_t cp_size, enum lanekeeper_slice kind,
                                            struct lanekeeper_error *error)
{
    if (training == NULL || training->owner == NULL)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "slice: no training, or one that was given back");
    if ((unsigned)kind > LANEKEEPER_SLICE_ZIGZAG)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT, "slice: kind %d: expected 0 or 1", (int)kind);
    if (cp_size == 0 || cp_rank >= cp_size)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "slice: rank %u of %u: expected 0 <= rank < size", cp_rank, cp_size);
    if (((const struct training_own *)training->owner)->batch.tokens == NULL)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT, "slice: of a slice; cut the whole");
    uint64_t chunks = (uint64_t)cp_size * runs_of(kind);
    if (training->sequence % chunks != 0)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "slice: rows of %u tokens do not divide into %llu equal chunks",
                                 training->sequence, (unsigned long long)chunks);
    return LANEKEEPER_OK;
}

/* Copies the columns of every row of an array, if there is one; returns where the next one goes. */
static uint8_t *cut(const struct lanekeeper_training *whole, const struct columns *columns, size_t size,
                    const void *from, uint8_t *to, const void **ret_at)
{
    size_t run = columns->each * size;
    uint8_t *at = to;

    *ret_at = from == NULL ? NULL : to;
    if (from == NULL)
        return to;
    for (uint32_t r = 0; r < whole->rows; r++)
        for (uint32_t k = 0; k < columns->runs; k++, at += run)
            memcpy(at, (const uint8_t *)from + ((size_t)r * whole->sequence + columns->first[k]) * size, run);
    return to + lkc_training_align((uint64_t)(at - to));
}

static uint8_t *copy(const int32_t *from, size_t n, uint8_t *to, const int32_t **ret_at)
{
    *ret_at = from == NULL ? NULL : (const int32_t *)(const void *)to;
    if (from == NULL)
        return to;
    memcpy(to, from, n * sizeof *from);
    return to + lkc_training_align(n * sizeof *from);
}

/* How many of [begin, end) are in the columns. */
static uint64_t overlap(const struct columns *columns, int64_t begin, int64_t end)
{
    uint64_t n = 0;

    for (uint32_t k = 0; k < columns->runs; k++) {
        int64_t first = columns->first[k], last = first + columns->each;
        int64_t from = begin > first ? begin : first, to = end < last ? end : last;
        n += to > from ? (uint64_t)(to - from) : 0;
    }
    return n;
}

/* Labels in the columns that count: of each piece those of all tokens, or of all but the first. */
static uint64_t valid_of(const struct training_own *own, const struct columns *columns)
{
    int64_t shift = (own->flags & LK_TRAINING_SAME) != 0 ? 0 : 1;
    bool keep = (own->flags & LK_TRAINING_KEEP_BORDERS) != 0;
    uint64_t valid = 0;

    for (uint32_t r = 0; r < own->batch.rows; r++) {
        struct lk_batch_row row;
        struct lk_training_walk walk = lkc_training_walk(&own->batch, r, &row);
        while (lk_training_walk_next(&walk)) {
            int64_t begin = (int64_t)walk.at + (keep && walk.at > 0 ? 0 : 1), end = (int64_t)walk.at + walk.n;
            if (walk.id >= 0)
                valid += overlap(columns, begin - shift, end - shift);
        }
    }
    return valid;
}

static size_t cu_entries(const struct lanekeeper_training *whole)
{
    return (whole->max_seqlens != NULL ? whole->rows : 1) * (size_t)whole->n_cu_seqlens;
}

static void fill(const struct lanekeeper_training *whole, const struct columns *columns, uint8_t *block,
                 struct lanekeeper_training *slice)
{
    size_t size = whole->dtype == LANEKEEPER_I64 ? 8 : 4;
    uint8_t *to = block + lkc_training_align(sizeof(struct training_own));
    const void *mask;

    *slice = *whole;
    slice->sequence = columns->each * columns->runs;
    slice->shared = 0;
    slice->owner = block;
    to = cut(whole, columns, size, whole->input_ids, to, &slice->input_ids);
    to = cut(whole, columns, size, whole->labels, to, &slice->labels);
    to = cut(whole, columns, size, whole->positions, to, &slice->positions);
    to = cut(whole, columns, size, whole->document_ids, to, &slice->document_ids);
    to = cut(whole, columns, 1, whole->loss_mask, to, &mask);
    slice->loss_mask = mask;
    to = copy(whole->cu_seqlens, cu_entries(whole), to, &slice->cu_seqlens);
    (void)copy(whole->max_seqlens, whole->rows, to, &slice->max_seqlens);
}

enum lanekeeper_code lanekeeper_training_slice(const struct lanekeeper_training *training, uint32_t cp_rank,
                                               uint32_t cp_size, enum lanekeeper_slice kind,
                                               struct lanekeeper_training *ret_slice,
                                               struct lanekeeper_error *error)
{
    *ret_slice = (struct lanekeeper_training){0};
    enum lanekeeper_code code = arguments_check(training, cp_rank, cp_size, kind, error);
    if (code != LANEKEEPER_OK)
        return code;
    const struct training_own *own = training->owner;
    struct columns columns = columns_of(own->batch.sequence, cp_rank, cp_size, kind);
    uint64_t all = lkc_training_align(sizeof *own) +
                   lk_training_bytes_max(training->rows, columns.each * columns.runs) +
                   lkc_training_align(4 * cu_entries(training)) + lkc_training_align(4 * (uint64_t)training->rows);
    uint8_t *block = aligned_alloc(LK_TRAINING_ALIGN, all);
    if (block == NULL)
        return lkc_training_fail(error, LANEKEEPER_RESOURCE_EXHAUSTED, "slice: out of memory for %llu bytes",
                                 (unsigned long long)all);
    fill(training, &columns, block, ret_slice);
    ret_slice->num_valid_tokens = valid_of(own, &columns);
    /* Nothing of the batch is used any more, and a slice of a slice is refused. */
    *(struct training_own *)(void *)block = (struct training_own){.flags = own->flags};
    return LANEKEEPER_OK;
}
