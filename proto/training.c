#include "proto/training.h"

#include <string.h>

#define FLAGS_ALL 0x1ffu
#define LABELS (LK_TRAINING_SHIFTED | LK_TRAINING_SAME)

/* Wishes -------------------------------------------------------------------------------------- */

bool lk_training_wish_good(const struct lk_training_wish *wish)
{
    uint32_t flags = wish->flags;
    if ((flags & LK_TRAINING_WANTED) == 0 || (flags & ~FLAGS_ALL) != 0 || (flags & LABELS) == LABELS)
        return false;
    if ((flags & LABELS) == 0 && wish->ignore_index != 0)
        return false;
    if ((flags & (LABELS | LK_TRAINING_LOSS_MASK)) == 0 && (flags & LK_TRAINING_KEEP_BORDERS) != 0)
        return false;
    return (flags & LK_TRAINING_WIDE) != 0 ||
           (wish->ignore_index >= INT32_MIN && wish->ignore_index <= INT32_MAX);
}

bool lk_training_wish_equal(const struct lk_training_wish *a, const struct lk_training_wish *b)
{
    return a->flags == b->flags && a->ignore_index == b->ignore_index;
}

/* Layout -------------------------------------------------------------------------------------- */

static uint64_t align(uint64_t bytes)
{
    return (bytes + LK_TRAINING_ALIGN - 1) / LK_TRAINING_ALIGN * LK_TRAINING_ALIGN;
}

static bool has(uint32_t flags, enum lk_training_array array)
{
    static const uint32_t of[LK_TRAINING_ARRAYS] = {
        [LK_TRAINING_AT_INPUT_IDS] = LK_TRAINING_WIDE,
        [LK_TRAINING_AT_LABELS] = LABELS,
        [LK_TRAINING_AT_POSITIONS] = LK_TRAINING_POSITIONS,
        [LK_TRAINING_AT_DOCUMENT_IDS] = LK_TRAINING_DOCUMENT_IDS,
        [LK_TRAINING_AT_LOSS_MASK] = LK_TRAINING_LOSS_MASK,
    };
    return (flags & of[array]) != 0;
}

void lk_training_layout(const struct lk_training_wish *wish, uint32_t rows, uint32_t tokens,
                        struct lk_training_layout *ret_layout)
{
    uint64_t n = (uint64_t)rows * tokens, size = (wish->flags & LK_TRAINING_WIDE) != 0 ? 8 : 4;

    *ret_layout = (struct lk_training_layout){.tokens = tokens};
    for (int i = 0; i < LK_TRAINING_ARRAYS; i++) {
        ret_layout->at[i] = LK_TRAINING_ABSENT;
        if (!has(wish->flags, i))
            continue;
        ret_layout->at[i] = ret_layout->bytes;
        ret_layout->bytes += align(n * (i == LK_TRAINING_AT_LOSS_MASK ? 1 : size));
    }
}

uint64_t lk_training_bytes_max(uint32_t rows, uint32_t tokens)
{
    uint64_t n = (uint64_t)rows * tokens;
    return 4 * align(8 * n) + align(n);
}

/* Pieces -------------------------------------------------------------------------------------- */

struct lk_training_walk lk_training_walk(const struct lk_batch_row *from,
                                         const struct lk_batch_part *part, uint32_t tokens)
{
    return (struct lk_training_walk){.used = from->used < tokens ? from->used : tokens,
                                     .tokens = tokens,
                                     .part = part,
                                     .end = part + from->n_parts};
}

bool lk_training_walk_next(struct lk_training_walk *walk)
{
    walk->at += walk->n;
    while (walk->at < walk->used && walk->part < walk->end) {
        const struct lk_batch_part *part = walk->part++;
        uint32_t left = walk->used - walk->at, n = part->tokens;
        if (n == 0)
            continue;
        walk->n = n < left ? n : left;
        walk->first = part->first;
        walk->id = walk->pieces++;
        return true;
    }
    walk->n = walk->tokens - walk->at;
    walk->first = 0;
    walk->id = -1;
    return walk->n > 0;
}

/* Rows ---------------------------------------------------------------------------------------- */

/* A row of 32- or 64-bit numbers. One plain loop for each, so that the compiler makes vectors of it. */
struct numbers {
    int64_t *wide; /* one of the two is NULL; both: not wished for */
    int32_t *narrow;
};

static bool wanted(struct numbers to)
{
    return to.wide != NULL || to.narrow != NULL;
}

static void fill(struct numbers to, uint32_t at, uint32_t n, int64_t value)
{
    if (to.wide != NULL) {
        for (uint32_t i = 0; i < n; i++)
            to.wide[at + i] = value;
    } else {
        for (uint32_t i = 0; i < n; i++)
            to.narrow[at + i] = (int32_t)value;
    }
}

static void count_up(struct numbers to, uint32_t at, uint32_t n, int64_t first)
{
    if (to.wide != NULL) {
        int64_t *wide = to.wide + at;
        for (uint32_t i = 0; i < n; i++)
            wide[i] = first + i;
    } else {
        int32_t *narrow = to.narrow + at;
        for (uint32_t i = 0; i < n; i++)
            narrow[i] = (int32_t)((uint32_t)first + i);
    }
}

static void copy(struct numbers to, const uint32_t *restrict from, uint32_t n)
{
    if (to.wide != NULL) {
        int64_t *restrict wide = to.wide;
        for (uint32_t i = 0; i < n; i++)
            wide[i] = from[i];
    } else {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): who calls asked @wanted, or the layout */
        memcpy(to.narrow, from, (size_t)n * sizeof *from);
    }
}

static struct numbers numbers_at(const struct lk_training_wish *wish,
                                 const struct lk_training_layout *layout, uint8_t *block, uint32_t row,
                                 enum lk_training_array array)
{
    uint64_t at = layout->at[array], begin = (uint64_t)row * layout->tokens;
    if (at == LK_TRAINING_ABSENT)
        return (struct numbers){0};
    if ((wish->flags & LK_TRAINING_WIDE) != 0)
        return (struct numbers){.wide = (int64_t *)(void *)(block + at) + begin};
    return (struct numbers){.narrow = (int32_t *)(void *)(block + at) + begin};
}

/* Labels, or the mask that goes with them (the mask without labels is that of shifted ones). */
struct target {
    struct numbers labels;
    uint8_t *mask;
    int64_t ignore_index;
    bool same;
};

static void ignore(const struct target *target, uint32_t at, uint32_t n)
{
    if (wanted(target->labels))
        fill(target->labels, at, n, target->ignore_index);
    if (target->mask != NULL)
        memset(target->mask + at, 0, n);
}

static void make_target(const struct lk_training_wish *wish, const struct target *target,
                        const uint32_t *tokens, struct lk_training_walk walk)
{
    uint32_t all = walk.tokens, shift = target->same ? 0 : 1;

    if (all == 0 || (!wanted(target->labels) && target->mask == NULL))
        return;
    if (wanted(target->labels) && all > shift)
        copy(target->labels, tokens + shift, all - shift);
    if (target->mask != NULL)
        memset(target->mask, 1, all);
    ignore(target, target->same ? 0 : all - 1, 1); /* nothing in the row predicts it, or is predicted */
    while (lk_training_walk_next(&walk)) {
        bool border = walk.at > 0 && (walk.id < 0 || (wish->flags & LK_TRAINING_KEEP_BORDERS) == 0);
        if (border)
            ignore(target, walk.at - shift, 1);
        if (walk.id < 0)
            ignore(target, walk.at, walk.n);
    }
}

static void make_positions(const struct lk_training_wish *wish, struct numbers to,
                           struct lk_training_walk walk)
{
    uint32_t kind = wish->flags & LK_TRAINING_POSITIONS;

    if (!wanted(to))
        return;
    if (kind == LK_TRAINING_OF_ROW) {
        count_up(to, 0, walk.tokens, 0);
        return;
    }
    while (lk_training_walk_next(&walk))
        count_up(to, walk.at, walk.n, kind == LK_TRAINING_OF_DOCUMENT ? walk.first : 0);
}

static void make_document_ids(struct numbers to, struct lk_training_walk walk)
{
    while (wanted(to) && lk_training_walk_next(&walk))
        fill(to, walk.at, walk.n, walk.id);
}

void lk_training_row(const struct lk_training_wish *wish, const struct lk_training_layout *layout,
                     uint8_t *block, uint32_t row, const uint32_t *tokens,
                     const struct lk_batch_row *from, const struct lk_batch_part *part)
{
    struct lk_training_walk walk = lk_training_walk(from, part, layout->tokens);
    struct target target = {.labels = numbers_at(wish, layout, block, row, LK_TRAINING_AT_LABELS),
                            .ignore_index = wish->ignore_index,
                            .same = (wish->flags & LK_TRAINING_SAME) != 0};

    if (layout->at[LK_TRAINING_AT_LOSS_MASK] != LK_TRAINING_ABSENT)
        target.mask = block + layout->at[LK_TRAINING_AT_LOSS_MASK] + (uint64_t)row * layout->tokens;
    if (layout->at[LK_TRAINING_AT_INPUT_IDS] != LK_TRAINING_ABSENT)
        copy(numbers_at(wish, layout, block, row, LK_TRAINING_AT_INPUT_IDS), tokens, layout->tokens);
    make_target(wish, &target, tokens, walk);
    make_positions(wish, numbers_at(wish, layout, block, row, LK_TRAINING_AT_POSITIONS), walk);
    make_document_ids(numbers_at(wish, layout, block, row, LK_TRAINING_AT_DOCUMENT_IDS), walk);
}
