/* What a training step is fed with: the daemon's arrays if it has made them, else ours. */
#include "training.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lanekeeper_training_options_init(struct lanekeeper_training_options *options)
{
    *options = (struct lanekeeper_training_options){.dtype = LANEKEEPER_I64,
                                                    .labels = LANEKEEPER_LABELS_SHIFTED,
                                                    .borders = LANEKEEPER_BORDERS_MASKED,
                                                    .positions = LANEKEEPER_POSITIONS_PIECE,
                                                    .cu_seqlens = LANEKEEPER_CU_SEQLENS_FLAT,
                                                    .loss_mask = 1,
                                                    .document_ids = 1,
                                                    .ignore_index = -100};
}

enum lanekeeper_code lkc_training_fail(struct lanekeeper_error *error, enum lanekeeper_code code,
                                       const char *format, ...)
{
    va_list args;

    if (error == NULL)
        return code;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
    return code;
}

/* ---- options ---- */

static enum lanekeeper_code range_check(const char *name, uint32_t value, uint32_t most,
                                        struct lanekeeper_error *error)
{
    if (value <= most)
        return LANEKEEPER_OK;
    return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT, "training: %s %u: expected 0 to %u", name, value,
                             most);
}

static enum lanekeeper_code options_check(const struct lanekeeper_batch *batch,
                                          const struct lanekeeper_training_options *o,
                                          struct lanekeeper_error *error)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } field[] = {
        {"labels", (uint32_t)o->labels, LANEKEEPER_LABELS_SAME},
        {"borders", (uint32_t)o->borders, LANEKEEPER_BORDERS_KEPT},
        {"positions", (uint32_t)o->positions, LANEKEEPER_POSITIONS_ROW},
        {"cu_seqlens", (uint32_t)o->cu_seqlens, LANEKEEPER_CU_SEQLENS_ROWS},
        {"loss_mask", o->loss_mask, 1},
        {"document_ids", o->document_ids, 1},
    };
    enum lanekeeper_code code = LANEKEEPER_OK;

    if (o->dtype != LANEKEEPER_I32 && o->dtype != LANEKEEPER_I64)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT, "training: dtype %d: expected I32 or I64",
                                 (int)o->dtype);
    for (size_t i = 0; code == LANEKEEPER_OK && i < sizeof field / sizeof *field; i++)
        code = range_check(field[i].name, field[i].value, field[i].most, error);
    if (code != LANEKEEPER_OK)
        return code;
    if (o->dtype == LANEKEEPER_I32 && (o->ignore_index < INT32_MIN || o->ignore_index > INT32_MAX))
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "training: ignore_index %lld does not fit an I32", (long long)o->ignore_index);
    uint64_t all = (uint64_t)batch->rows * batch->sequence;
    if (o->cu_seqlens == LANEKEEPER_CU_SEQLENS_FLAT && all > INT32_MAX)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "training: %llu tokens: flat cu_seqlens take at most %d; take them per row",
                                 (unsigned long long)all, INT32_MAX);
    return LANEKEEPER_OK;
}

static struct lk_training_wish wish_of(const struct lanekeeper_training_options *o)
{
    static const uint32_t labels[] = {0, LK_TRAINING_SHIFTED, LK_TRAINING_SAME};
    static const uint32_t positions[] = {0, LK_TRAINING_OF_PIECE, LK_TRAINING_OF_DOCUMENT, LK_TRAINING_OF_ROW};
    struct lk_training_wish wish = {.flags = LK_TRAINING_WANTED | labels[o->labels] | positions[o->positions]};

    if (o->dtype == LANEKEEPER_I64)
        wish.flags |= LK_TRAINING_WIDE;
    if (o->loss_mask != 0)
        wish.flags |= LK_TRAINING_LOSS_MASK;
    if (o->document_ids != 0)
        wish.flags |= LK_TRAINING_DOCUMENT_IDS;
    bool targets = o->labels != LANEKEEPER_LABELS_NONE || o->loss_mask != 0;
    if (targets && o->borders == LANEKEEPER_BORDERS_KEPT)
        wish.flags |= LK_TRAINING_KEEP_BORDERS;
    if (o->labels != LANEKEEPER_LABELS_NONE)
        wish.ignore_index = o->ignore_index;
    return wish;
}

/* ---- pieces ---- */

struct lk_training_walk lkc_training_walk(const struct lanekeeper_batch *batch, uint32_t r,
                                          struct lk_batch_row *ret_row)
{
    memcpy(ret_row, &batch->row[r], sizeof *ret_row);
    if (ret_row->first_part > batch->n_parts || ret_row->n_parts > batch->n_parts - ret_row->first_part)
        ret_row->first_part = ret_row->n_parts = 0;
    const struct lk_batch_part *part = (const struct lk_batch_part *)(const void *)batch->part;
    return lk_training_walk(ret_row, part + ret_row->first_part, batch->sequence);
}

struct tally {
    uint64_t valid;   /* labels that count */
    uint64_t pieces;  /* of all rows, padding too */
    uint32_t most;    /* pieces of a row */
    uint32_t longest; /* tokens of a piece */
};

static struct tally tally_of(const struct lanekeeper_batch *batch, bool keep_borders)
{
    struct tally tally = {0};

    for (uint32_t r = 0; r < batch->rows; r++) {
        struct lk_batch_row row;
        struct lk_training_walk walk = lkc_training_walk(batch, r, &row);
        uint32_t pieces = 0;
        while (lk_training_walk_next(&walk)) {
            pieces++;
            tally.longest = walk.n > tally.longest ? walk.n : tally.longest;
            if (walk.id >= 0) /* of all its tokens, or of all but the first */
                tally.valid += keep_borders && walk.at > 0 ? walk.n : walk.n - 1;
        }
        tally.pieces += pieces;
        tally.most = pieces > tally.most ? pieces : tally.most;
    }
    return tally;
}

/* Writes where the pieces of all rows begin into @room numbers, and the end into those that remain: one. */
static void fill_flat(const struct lanekeeper_batch *batch, int32_t *to, uint64_t room)
{
    uint64_t k = 0;

    for (uint32_t r = 0; r < batch->rows; r++) {
        struct lk_batch_row row;
        struct lk_training_walk walk = lkc_training_walk(batch, r, &row);
        while (lk_training_walk_next(&walk) && k < room)
            to[k++] = (int32_t)(r * batch->sequence + walk.at);
    }
    while (k < room)
        to[k++] = (int32_t)(batch->rows * batch->sequence);
}

static void fill_rows(const struct lanekeeper_batch *batch, int32_t *to, uint64_t room, int32_t *longest)
{
    for (uint32_t r = 0; r < batch->rows; r++, to += room) {
        struct lk_batch_row row;
        struct lk_training_walk walk = lkc_training_walk(batch, r, &row);
        uint64_t k = 0;
        longest[r] = 0;
        while (lk_training_walk_next(&walk) && k < room) {
            to[k++] = (int32_t)walk.at;
            longest[r] = (int32_t)walk.n > longest[r] ? (int32_t)walk.n : longest[r];
        }
        while (k < room)
            to[k++] = (int32_t)batch->sequence;
    }
}

/* ---- memory of our own ---- */

static uint64_t cu_entries(enum lanekeeper_cu_seqlens kind, const struct tally *tally, uint32_t rows)
{
    if (kind == LANEKEEPER_CU_SEQLENS_NONE)
        return 0;
    return kind == LANEKEEPER_CU_SEQLENS_FLAT ? tally->pieces + 1 : (uint64_t)rows * (tally->most + 1);
}

static void put_cu_seqlens(const struct lanekeeper_batch *batch, enum lanekeeper_cu_seqlens kind,
                           const struct tally *tally, int32_t *at, int32_t *longest_at,
                           struct lanekeeper_training *training)
{
    if (kind == LANEKEEPER_CU_SEQLENS_NONE)
        return;
    training->cu_seqlens = at;
    training->max_seqlen = (int32_t)tally->longest;
    if (kind == LANEKEEPER_CU_SEQLENS_FLAT) {
        training->n_cu_seqlens = (uint32_t)tally->pieces + 1;
        fill_flat(batch, at, training->n_cu_seqlens);
    } else {
        training->n_cu_seqlens = tally->most + 1;
        training->max_seqlens = longest_at;
        fill_rows(batch, at, training->n_cu_seqlens, longest_at);
    }
}

static void make_arrays(const struct lanekeeper_batch *batch, const struct lk_training_wish *wish,
                        const struct lk_training_layout *layout, uint8_t *block)
{
    for (uint32_t r = 0; r < batch->rows; r++) {
        struct lk_batch_row row;
        struct lk_training_walk walk = lkc_training_walk(batch, r, &row);
        lk_training_row(wish, layout, block, r, batch->tokens + (size_t)r * batch->sequence, &row, walk.part);
    }
}

static const void *array_at(const uint8_t *block, const struct lk_training_layout *layout,
                            enum lk_training_array array, uint64_t first, size_t size)
{
    return layout->at[array] == LK_TRAINING_ABSENT ? NULL : block + layout->at[array] + first * size;
}

/* Points @training at the rows from number @skip on. */
static void put_arrays(struct lanekeeper_training *training, const uint8_t *block,
                       const struct lk_training_layout *layout, uint32_t skip)
{
    uint64_t first = (uint64_t)skip * training->sequence;
    size_t size = training->dtype == LANEKEEPER_I64 ? 8 : 4;
    const void *ids = array_at(block, layout, LK_TRAINING_AT_INPUT_IDS, first, size);

    training->input_ids = ids != NULL ? ids : training->input_ids;
    training->labels = array_at(block, layout, LK_TRAINING_AT_LABELS, first, size);
    training->positions = array_at(block, layout, LK_TRAINING_AT_POSITIONS, first, size);
    training->document_ids = array_at(block, layout, LK_TRAINING_AT_DOCUMENT_IDS, first, size);
    training->loss_mask = array_at(block, layout, LK_TRAINING_AT_LOSS_MASK, first, 1);
}

static enum lanekeeper_code make(const struct lanekeeper_batch *batch,
                                 const struct lanekeeper_training_options *o,
                                 const struct lk_training_wish *wish, struct lanekeeper_training *training,
                                 struct lanekeeper_error *error)
{
    struct holding *holding = batch->owner;
    struct tally tally = tally_of(batch, o->borders == LANEKEEPER_BORDERS_KEPT);
    bool shared = holding != NULL && lk_training_wish_equal(wish, &holding->made);
    struct lk_training_layout layout;

    lk_training_layout(wish, shared ? holding->block_rows : batch->rows, batch->sequence, &layout);
    uint64_t head = lkc_training_align(sizeof(struct training_own)), arrays = shared ? 0 : layout.bytes,
             cu = lkc_training_align(4 * cu_entries(o->cu_seqlens, &tally, batch->rows)),
             all = head + arrays + cu + lkc_training_align(4 * (uint64_t)batch->rows);
    uint8_t *block = aligned_alloc(LK_TRAINING_ALIGN, all);
    if (block == NULL)
        return lkc_training_fail(error, LANEKEEPER_RESOURCE_EXHAUSTED, "training: out of memory for %llu bytes",
                                 (unsigned long long)all);
    *training = (struct lanekeeper_training){.rows = batch->rows,
                                             .sequence = batch->sequence,
                                             .dtype = o->dtype,
                                             .shared = shared,
                                             .input_ids = batch->tokens,
                                             .num_valid_tokens = tally.valid,
                                             .owner = block};
    if (!shared)
        make_arrays(batch, wish, &layout, block + head);
    put_arrays(training, shared ? holding->arrays : block + head, &layout, shared ? holding->skip : 0);
    put_cu_seqlens(batch, o->cu_seqlens, &tally, (int32_t *)(void *)(block + head + arrays),
                   (int32_t *)(void *)(block + head + arrays + cu), training);
    if (holding != NULL)
        lkc_holding_hold(holding);
    *(struct training_own *)(void *)block = (struct training_own){*batch, wish->flags};
    return LANEKEEPER_OK;
}

/* ---- the calls ---- */

/* Is there anything of @wish that the daemon could make? 32-bit ids alone are the batch's tokens. */
static bool for_daemon(const struct lk_training_wish *wish)
{
    struct lk_training_layout layout;
    lk_training_layout(wish, 1, 1, &layout);
    return layout.bytes > 0;
}

enum lanekeeper_code lanekeeper_training(const struct lanekeeper_batch *batch,
                                         const struct lanekeeper_training_options *options,
                                         struct lanekeeper_training *ret_training,
                                         struct lanekeeper_error *error)
{
    struct lanekeeper_training_options defaults;
    static const struct lk_training_wish none = {0};

    *ret_training = (struct lanekeeper_training){0};
    if (batch == NULL || batch->tokens == NULL)
        return lkc_training_fail(error, LANEKEEPER_INVALID_ARGUMENT,
                                 "training: no batch, or one that was released");
    if (options == NULL) {
        lanekeeper_training_options_init(&defaults);
        options = &defaults;
    }
    enum lanekeeper_code code = options_check(batch, options, error);
    if (code != LANEKEEPER_OK)
        return code;
    struct lk_training_wish wish = wish_of(options);
    if (batch->owner != NULL)
        lkc_wish_set(((struct holding *)batch->owner)->wish, for_daemon(&wish) ? wish : none);
    return make(batch, options, &wish, ret_training, error);
}

void lanekeeper_training_done(struct lanekeeper_training *training)
{
    if (training == NULL)
        return;
    if (training->owner != NULL) {
        struct training_own *own = training->owner;
        if (own->batch.owner != NULL)
            lkc_holding_drop(own->batch.owner);
        free(training->owner);
    }
    *training = (struct lanekeeper_training){0};
}
