/* What a training step is fed with, against a reference that thinks token by token: of which piece is this
 * token, and what predicts it? */
#include "proto/training.h"

#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T_MAX 96u
#define ROWS 5u
#define PARTS_MAX (ROWS * T_MAX)
#define EDGE 0xa5 /* what memory holds that nobody writes */

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

struct batch {
    uint32_t tokens; /* T */
    uint32_t id[ROWS][T_MAX];
    struct lk_batch_row row[ROWS];
    struct lk_batch_part part[PARTS_MAX];
    uint32_t n_parts;
};

static void add_part(struct batch *b, uint32_t row, uint32_t first, uint32_t tokens)
{
    struct lk_batch_row *r = &b->row[row];
    if (r->n_parts == 0)
        r->first_part = b->n_parts;
    b->part[b->n_parts++] = (struct lk_batch_part){.row = b->n_parts, .first = first, .tokens = tokens};
    r->n_parts++;
    r->used += tokens;
}

static void add_ids(struct batch *b, uint64_t *state)
{
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < b->tokens; i++) /* 7 is the padding, and a token as any other */
            b->id[r][i] = i < b->row[r].used ? (uint32_t)(draw(state, 4) == 0 ? 7 : draw(state, 200000)) : 7;
}

static void make_random(struct batch *b, uint64_t *state)
{
    memset(b, 0, sizeof *b);
    b->tokens = 1 + (uint32_t)draw(state, T_MAX);
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t left = draw(state, 3) == 0 ? b->tokens : (uint32_t)draw(state, b->tokens + 1);
        while (left > 0) {
            uint32_t n = 1 + (uint32_t)draw(state, left < 30 ? left : 30);
            add_part(b, r, draw(state, 3) == 0 ? (uint32_t)draw(state, 5000) : 0, n);
            left -= n;
        }
    }
    add_ids(b, state);
}

/* The reference -------------------------------------------------------------------------------- */

struct place {
    int piece; /* -1: padding */
    uint32_t in_piece, first;
};

static struct place place_of(const struct batch *b, uint32_t row, uint32_t i)
{
    uint32_t begin = 0;
    for (uint32_t p = 0; p < b->row[row].n_parts; p++) {
        const struct lk_batch_part *part = &b->part[b->row[row].first_part + p];
        if (i < begin + part->tokens)
            return (struct place){(int)p, i - begin, part->first};
        begin += part->tokens;
    }
    return (struct place){-1, i - begin, 0};
}

/* Does predicting token @i of the row from what lies before it count? */
static bool counts(const struct batch *b, uint32_t flags, uint32_t row, uint32_t i)
{
    struct place of = place_of(b, row, i);
    if (i == 0 || i >= b->tokens || of.piece < 0)
        return false;
    return (flags & LK_TRAINING_KEEP_BORDERS) != 0 || of.in_piece > 0;
}

static int64_t expected(const struct batch *b, const struct lk_training_wish *wish, uint32_t row,
                        uint32_t i, enum lk_training_array array)
{
    struct place of = place_of(b, row, i);
    uint32_t target = (wish->flags & LK_TRAINING_SAME) != 0 ? i : i + 1;
    switch (array) {
    case LK_TRAINING_AT_INPUT_IDS:
        return b->id[row][i];
    case LK_TRAINING_AT_LABELS:
        return counts(b, wish->flags, row, target) ? b->id[row][target] : wish->ignore_index;
    case LK_TRAINING_AT_POSITIONS:
        return (wish->flags & LK_TRAINING_POSITIONS) == LK_TRAINING_OF_ROW     ? i
               : (wish->flags & LK_TRAINING_POSITIONS) == LK_TRAINING_OF_PIECE ? of.in_piece
                                                                               : of.in_piece + of.first;
    case LK_TRAINING_AT_DOCUMENT_IDS:
        return of.piece;
    default:
        return counts(b, wish->flags, row, target);
    }
}

/* Comparing ------------------------------------------------------------------------------------ */

static int64_t value_at(const struct lk_training_wish *wish, const uint8_t *array_at,
                        enum lk_training_array array, size_t i)
{
    if (array == LK_TRAINING_AT_LOSS_MASK)
        return array_at[i];
    if ((wish->flags & LK_TRAINING_WIDE) != 0)
        return ((const int64_t *)(const void *)array_at)[i];
    return ((const int32_t *)(const void *)array_at)[i];
}

static bool all_edge(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != EDGE)
            return false;
    return true;
}

static void compare(const struct batch *b, const struct lk_training_wish *wish)
{
    struct lk_training_layout layout;
    lk_training_layout(wish, ROWS, b->tokens, &layout);
    ck_assert_uint_le(layout.bytes, lk_training_bytes_max(ROWS, b->tokens));
    uint8_t *block = aligned_alloc(64, layout.bytes + 64);
    memset(block, EDGE, layout.bytes + 64);
    for (uint32_t r = ROWS; r-- > 0;) /* any order will do: a row touches nothing but itself */
        lk_training_row(wish, &layout, block, r, b->id[r], &b->row[r], b->part + b->row[r].first_part);
    for (int a = 0; a < LK_TRAINING_ARRAYS; a++) {
        if (layout.at[a] == LK_TRAINING_ABSENT)
            continue;
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < b->tokens; i++) {
                int64_t got = value_at(wish, block + layout.at[a], a, (size_t)r * b->tokens + i);
                int64_t want = expected(b, wish, r, i, a);
                if (got != want) /* an assertion costs a system call */
                    ck_abort_msg("flags %#x array %d row %u token %u of %u: got %lld, expected %lld",
                                 wish->flags, a, r, i, b->tokens, (long long)got, (long long)want);
            }
    }
    ck_assert(all_edge(block + layout.bytes, 64));
    free(block);
}

/* With every good combination of options; returns how many there are. */
static uint32_t compare_all(const struct batch *b)
{
    static const int64_t ignored[] = {-100, 0, 7, INT32_MIN, INT64_MAX};
    uint32_t n = 0;
    for (uint32_t flags = 0; flags < 0x200; flags++)
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
            struct lk_training_wish wish = {flags, ignored[i]};
            if (!lk_training_wish_good(&wish))
                continue;
            compare(b, &wish);
            n++;
        }
    return n;
}

START_TEST(every_wish_is_what_the_reference_says)
{
    struct batch b;
    uint64_t state = 20251;
    for (int round = 0; round < 12; round++) {
        make_random(&b, &state);
        /* positions × document ids × mask × (32 bits: 4 values, 64 bits: 5, times 2 kinds of labels and of
         * borders; without labels one value, and borders only with a mask) */
        ck_assert_uint_eq(compare_all(&b), 4 * 2 * (2 * (4 + 5) * 2 * 2 + 2 * (2 + 1)));
    }
}
END_TEST

static void edges_of(uint32_t tokens)
{
    struct batch b = {.tokens = tokens};
    uint64_t state = tokens;
    add_part(&b, 0, 0, tokens); /* exactly one document */
    add_part(&b, 1, 0, 1);      /* one token */
    add_part(&b, 2, 900, tokens - tokens / 2); /* goes on, and a document begins with the end of the row */
    if (tokens > 1)
        add_part(&b, 2, 0, tokens / 2);
    for (uint32_t i = 0; i < tokens; i++) /* row 3: documents of one token; row 4: all padding */
        add_part(&b, 3, 0, 1);
    add_ids(&b, &state);
    (void)compare_all(&b);
}

START_TEST(edges)
{
    edges_of(1);
    edges_of(2);
    edges_of(3);
    edges_of(16);
    edges_of(17);
    edges_of(T_MAX);
}
END_TEST

START_TEST(a_known_row)
{
    /* Written out by hand, so that the reference is held to something, too. */
    static const int64_t shifted[] = {11, 12, -100, 7, -100, -100, -100, -100};
    static const int64_t kept[] = {11, 12, 20, 7, -100, -100, -100, -100};
    static const int64_t same[] = {-100, 11, 12, -100, 7, -100, -100, -100};
    static const int64_t piece[] = {0, 1, 2, 0, 1, 0, 1, 2}, document[] = {40, 41, 42, 0, 1, 0, 1, 2};
    static const int64_t ids[] = {0, 0, 0, 1, 1, -1, -1, -1};
    static const uint32_t flags[] = {LK_TRAINING_SHIFTED | LK_TRAINING_OF_PIECE,
                                     LK_TRAINING_SHIFTED | LK_TRAINING_KEEP_BORDERS | LK_TRAINING_OF_DOCUMENT,
                                     LK_TRAINING_SAME | LK_TRAINING_OF_PIECE};
    static const int64_t *const labels[] = {shifted, kept, same}, *const positions[] = {piece, document, piece};
    uint32_t token[] = {10, 11, 12, 20, 7, 7, 7, 7};
    struct lk_batch_part part[] = {{.first = 40, .tokens = 3}, {.tokens = 2}};
    struct lk_batch_row row = {.n_parts = 2, .used = 5};
    for (int i = 0; i < 3; i++) {
        struct lk_training_wish wish = {
            flags[i] | LK_TRAINING_WANTED | LK_TRAINING_WIDE | LK_TRAINING_DOCUMENT_IDS, -100};
        struct lk_training_layout layout;
        lk_training_layout(&wish, 1, 8, &layout);
        uint8_t *block = aligned_alloc(64, layout.bytes);
        lk_training_row(&wish, &layout, block, 0, token, &row, part);
        ck_assert_mem_eq(block + layout.at[LK_TRAINING_AT_LABELS], labels[i], sizeof shifted);
        ck_assert_mem_eq(block + layout.at[LK_TRAINING_AT_POSITIONS], positions[i], sizeof shifted);
        ck_assert_mem_eq(block + layout.at[LK_TRAINING_AT_DOCUMENT_IDS], ids, sizeof ids);
        free(block);
    }
}
END_TEST

START_TEST(rows_that_lie_write_nothing_outside)
{
    static const struct lk_batch_part parts[][2] = {
        {{.tokens = UINT32_MAX}, {.tokens = UINT32_MAX}},
        {{.tokens = 0}, {.tokens = 3}},
        {{.tokens = 15, .first = UINT32_MAX}, {.tokens = 2}},
        {{.tokens = 1}, {.tokens = 0}},
    };
    static const uint32_t used[] = {0, 1, 16, 17, UINT32_MAX};
    uint32_t token[16] = {0};
    for (uint32_t flags = 0; flags < 0x200; flags++)
        for (size_t p = 0; p < 4; p++)
            for (size_t u = 0; u < 5; u++) {
                struct lk_training_wish wish = {flags, 0};
                struct lk_training_layout layout;
                struct lk_batch_row row = {.n_parts = 2, .used = used[u]};
                if (!lk_training_wish_good(&wish))
                    continue;
                lk_training_layout(&wish, 3, 16, &layout);
                uint8_t *block = aligned_alloc(64, layout.bytes + 64);
                memset(block, EDGE, layout.bytes + 64);
                lk_training_row(&wish, &layout, block, 1, token, &row, parts[p]);
                for (int a = 0; a < LK_TRAINING_ARRAYS; a++) {
                    size_t size = a == LK_TRAINING_AT_LOSS_MASK ? 1 : flags & LK_TRAINING_WIDE ? 8 : 4;
                    if (layout.at[a] != LK_TRAINING_ABSENT &&
                        (!all_edge(block + layout.at[a], 16 * size) ||
                         !all_edge(block + layout.at[a] + 32 * size, 16 * size)))
                        ck_abort_msg("flags %#x array %d: a row beside it was written", flags, a);
                }
                free(block);
            }
}
END_TEST

START_TEST(wishes_that_make_no_sense_are_not_good)
{
    const uint32_t base = LK_TRAINING_WANTED;
    static const struct lk_training_wish bad[] = {
        {0, 0},
        {LK_TRAINING_WIDE, 0},
        {LK_TRAINING_WANTED | 0x200, 0},
        {LK_TRAINING_WANTED | 0x80000000u, 0},
        {LK_TRAINING_WANTED | LK_TRAINING_SHIFTED | LK_TRAINING_SAME, -100},
        {LK_TRAINING_WANTED | LK_TRAINING_WIDE, -100}, /* no labels: nothing is ignored */
        {LK_TRAINING_WANTED | LK_TRAINING_KEEP_BORDERS, 0},
        {LK_TRAINING_WANTED | LK_TRAINING_SHIFTED, (int64_t)INT32_MAX + 1},
        {LK_TRAINING_WANTED | LK_TRAINING_SHIFTED, (int64_t)INT32_MIN - 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!lk_training_wish_good(&bad[i]), "number %zu", i);
    struct lk_training_wish a = {base | LK_TRAINING_SHIFTED, INT32_MAX}, b = a;
    ck_assert(lk_training_wish_good(&a) && lk_training_wish_equal(&a, &b));
    b.ignore_index = -100;
    ck_assert(!lk_training_wish_equal(&a, &b));
    b = (struct lk_training_wish){a.flags | LK_TRAINING_WIDE, INT32_MAX};
    ck_assert(lk_training_wish_good(&b) && !lk_training_wish_equal(&a, &b));
}
END_TEST

START_TEST(arrays_lie_apart_and_aligned)
{
    struct lk_training_wish all = {LK_TRAINING_WANTED | LK_TRAINING_WIDE | LK_TRAINING_SHIFTED |
                                       LK_TRAINING_OF_ROW | LK_TRAINING_LOSS_MASK | LK_TRAINING_DOCUMENT_IDS,
                                   -100};
    struct lk_training_wish none = {LK_TRAINING_WANTED, 0};
    struct lk_training_layout layout;
    lk_training_layout(&all, 3, 5, &layout); /* 15 × 8 bytes take 128 */
    for (int a = 0; a < LK_TRAINING_ARRAYS; a++)
        ck_assert_uint_eq(layout.at[a], 128u * (unsigned)a);
    ck_assert_uint_eq(layout.bytes, 4 * 128 + 64);
    ck_assert_uint_eq(layout.bytes, lk_training_bytes_max(3, 5));
    lk_training_layout(&none, 3, 5, &layout); /* 32-bit ids are the tokens themselves */
    ck_assert_uint_eq(layout.bytes, 0);
    lk_training_layout(&all, 1u << 20, 1u << 22, &layout); /* does not overflow */
    ck_assert_uint_eq(layout.bytes, (uint64_t)33 << 42);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("proto/training");
    TCase *t = tcase_create("training");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_wish_is_what_the_reference_says);
    tcase_add_test(t, edges);
    tcase_add_test(t, a_known_row);
    tcase_add_test(t, rows_that_lie_write_nothing_outside);
    tcase_add_test(t, wishes_that_make_no_sense_are_not_good);
    tcase_add_test(t, arrays_lie_apart_and_aligned);
    suite_add_tcase(s, t);
    return s;
}
