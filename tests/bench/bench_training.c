/*
 * What a training step is fed with: lanekeeper_training alone, everything that it can make of 8 rows of 2,048
 * tokens in six pieces each, of which the last 48 tokens are padding.
 *
 * Prints "own P50 P99 rows P50 P99" in microseconds: the whole call when the arrays are made here, into new
 * memory each time; and the arrays of the rows alone, into memory that is there, as the daemon does it.
 */
#include "client/c/lanekeeper.h"

#include "base/mem.h"
#include "base/status.h"
#include "proto/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 8, SEQUENCE = 2048, USED = 2000, PIECES = 6, ROUNDS = 2000 };

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void put(const char *name, double *took)
{
    qsort(took, ROUNDS, sizeof *took, by_value);
    printf("%s %.1f %.1f%s", name, took[ROUNDS / 2], took[ROUNDS * 99 / 100], name[0] == 'o' ? " " : "\n");
}

struct made {
    uint32_t tokens[ROWS * SEQUENCE];
    struct lanekeeper_row row[ROWS];
    struct lanekeeper_part part[ROWS * PIECES];
};

static struct lanekeeper_batch batch_of(struct made *made)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        made->row[r] = (struct lanekeeper_row){.first_part = r * PIECES, .n_parts = PIECES, .used = USED};
        for (uint32_t p = 0; p < PIECES; p++)
            made->part[r * PIECES + p].tokens = USED / PIECES + (p == 0 ? USED % PIECES : 0);
    }
    for (uint32_t i = 0; i < ROWS * SEQUENCE; i++)
        made->tokens[i] = i * 7919u % 50257;
    return (struct lanekeeper_batch){.rows = ROWS, .global_rows = ROWS, .sequence = SEQUENCE, .tokens = made->tokens,
                                     .row = made->row, .part = made->part, .n_parts = ROWS * PIECES};
}

static void call(const struct lanekeeper_batch *batch, double took[ROUNDS])
{
    for (int i = 0; i < ROUNDS; i++) {
        struct lanekeeper_training training;
        double start = now_us();
        LK_CHECK(lanekeeper_training(batch, NULL, &training, NULL) == LANEKEEPER_OK);
        took[i] = now_us() - start;
        LK_CHECK(training.num_valid_tokens == ROWS * (USED - PIECES));
        lanekeeper_training_done(&training);
    }
}

static void rows(const struct lanekeeper_batch *batch, double took[ROUNDS])
{
    struct lk_training_wish wish = {LK_TRAINING_WANTED | LK_TRAINING_WIDE | LK_TRAINING_SHIFTED |
                                        LK_TRAINING_OF_PIECE | LK_TRAINING_LOSS_MASK | LK_TRAINING_DOCUMENT_IDS,
                                    -100};
    struct lk_training_layout layout;
    lk_training_layout(&wish, ROWS, SEQUENCE, &layout);
    uint8_t *block = lk_zalloc(1, layout.bytes);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_us();
        for (uint32_t r = 0; r < ROWS; r++)
            lk_training_row(&wish, &layout, block, r, batch->tokens + r * SEQUENCE,
                            (const struct lk_batch_row *)(const void *)&batch->row[r],
                            (const struct lk_batch_part *)(const void *)&batch->part[batch->row[r].first_part]);
        took[i] = now_us() - start;
    }
    free(block);
}

int main(void)
{
    static double took[ROUNDS];
    struct made *made = lk_zalloc(1, sizeof *made);
    struct lanekeeper_batch batch = batch_of(made);
    call(&batch, took);
    put("own", took);
    rows(&batch, took);
    put("rows", took);
    free(made);
    return 0;
}
