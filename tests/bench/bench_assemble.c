/*
 * Assembling alone: fragments of rows in the arena → rows of a batch with their digests, against
 * memcpy of the same fragments between buffers of the same sizes.
 *
 * Prints "assemble BYTES_PER_SECOND memcpy BYTES_PER_SECOND": processor time, medians of several rounds.
 */
#include "base/mem.h"
#include "core/value.h"
#include "host/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEQUENCE = 2048, PIECE = 683, PIECES = 3, ROWS = 24 << 10, BATCH_ROWS = 64, ROUNDS = 9 };

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Rows are used in another order than they were measured in. */
static uint64_t nth(uint64_t i)
{
    return i * 7919 % ROWS;
}

static double assemble(const uint32_t *ids, uint32_t *batch)
{
    struct arena *arena = arena_new(512 << 20);
    struct lk_digest sum = {0};
    for (uint64_t row = 0; row < ROWS; row++)
        arena_put(arena, (struct arena_key){.row = row}, ids + row * PIECE, PIECE);
    double start = now();
    for (uint64_t i = 0, n = 0; i + PIECES <= ROWS; n++) {
        uint32_t *to = batch + n % BATCH_ROWS * SEQUENCE;
        struct lk_span span[PIECES];
        for (uint64_t p = 0; p < PIECES; p++)
            arena_ask(arena, (struct arena_key){.row = nth(i + p)}, 0);
        for (uint32_t p = 0, at = 0; p < PIECES; p++, i++) {
            uint32_t take = p + 1 < PIECES ? PIECE : SEQUENCE - at;
            LK_CHECK(arena_take(arena, (struct arena_key){.row = nth(i)}, 0, take, to + at));
            span[p].tokens = take;
            at += take;
        }
        sum = lk_digest_add(sum, value_placed(value_sequence(to, SEQUENCE, span, PIECES), n / BATCH_ROWS,
                                              (uint32_t)(n % BATCH_ROWS)));
    }
    double spent = now() - start;
    LK_CHECK(sum.lo != 0);
    arena_free(arena);
    return spent;
}

static double copy(const uint32_t *ids, uint32_t *batch)
{
    double start = now();
    for (uint64_t i = 0, n = 0; i + PIECES <= ROWS; n++) {
        uint32_t *to = batch + n % BATCH_ROWS * SEQUENCE;
        for (uint32_t p = 0, at = 0; p < PIECES; p++, i++) {
            uint32_t take = p + 1 < PIECES ? PIECE : SEQUENCE - at;
            memcpy(to + at, ids + nth(i) * PIECE, sizeof *to * take);
            at += take;
        }
        __asm__ volatile("" : : "r"(batch) : "memory"); /* or the compiler could leave copies out */
    }
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    uint32_t *ids = lk_zalloc((size_t)ROWS * PIECE, sizeof *ids);
    uint32_t *batch = lk_zalloc((size_t)BATCH_ROWS * SEQUENCE, sizeof *batch);
    double bytes = 4.0 * SEQUENCE * (ROWS / PIECES), made[ROUNDS], copied[ROUNDS];
    for (size_t i = 0; i < (size_t)ROWS * PIECE; i++)
        ids[i] = (uint32_t)(i * 2654435761u) % 50257;
    for (int r = 0; r < ROUNDS; r++) {
        made[r] = assemble(ids, batch);
        copied[r] = copy(ids, batch);
    }
    qsort(made, ROUNDS, sizeof *made, by_value);
    qsort(copied, ROUNDS, sizeof *copied, by_value);
    printf("assemble %.4e memcpy %.4e\n", bytes / made[ROUNDS / 2], bytes / copied[ROUNDS / 2]);
    free(ids);
    free(batch);
    return 0;
}
