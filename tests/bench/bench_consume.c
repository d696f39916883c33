/*
 * A trainer that does nothing but read: takes steps FROM … TO-1 as one rank and looks at every token.
 *
 *   bench_consume ADDRESS FROM TO [--state]
 *
 * --state also prints "state BYTES": what a trainer's checkpoint has to hold.
 * Prints "first NANOSECONDS" (CLOCK_MONOTONIC, to compare with the moment that the daemon was
 * started) when the first batch is there, and "last NANOSECONDS STEPS TOKENS WAITED SUM" at the end:
 * the tokens of all steps but the first, nanoseconds spent waiting for them, and a sum of all.
 */
#include "client/c/lanekeeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct totals {
    uint64_t tokens, waited, sum;
};

static uint64_t look_at(const struct lanekeeper_batch *batch)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < (size_t)batch->rows * batch->sequence; i++)
        sum += batch->tokens[i];
    return sum;
}

static enum lanekeeper_code take(struct lanekeeper *lk, struct totals *totals, uint64_t *ret_tokens)
{
    struct lanekeeper_batch batch;
    uint64_t start = now_ns();
    enum lanekeeper_code code = lanekeeper_next(lk, &batch);
    if (code != LANEKEEPER_OK)
        return code;
    totals->waited += now_ns() - start;
    totals->sum += look_at(&batch);
    *ret_tokens = (uint64_t)batch.rows * batch.sequence;
    lanekeeper_release(&batch);
    return LANEKEEPER_OK;
}

static enum lanekeeper_code consume(struct lanekeeper *lk, uint64_t steps)
{
    struct totals totals = {0};
    uint64_t tokens;
    enum lanekeeper_code code = take(lk, &totals, &tokens);
    if (code != LANEKEEPER_OK)
        return code;
    printf("first %" PRIu64 "\n", now_ns());
    (void)fflush(stdout);
    totals.waited = 0;
    for (uint64_t i = 1; i < steps; i++) {
        if ((code = take(lk, &totals, &tokens)) != LANEKEEPER_OK)
            return code;
        totals.tokens += tokens;
    }
    printf("last %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", now_ns(), steps,
           totals.tokens, totals.waited, totals.sum);
    return LANEKEEPER_OK;
}

int main(int argc, char **argv)
{
    struct lanekeeper_options options;
    struct lanekeeper_error error;
    struct lanekeeper *lk;
    if (argc != 4 && argc != 5) {
        (void)fputs("usage: bench_consume ADDRESS FROM TO [--state]\n", stderr);
        return 2;
    }
    lanekeeper_options_init(&options);
    options.address = argv[1];
    options.step = strtoull(argv[2], NULL, 10);
    options.timeout_ms = 600000;
    if (lanekeeper_connect(&options, &lk, &error) != LANEKEEPER_OK) {
        (void)fprintf(stderr, "bench_consume: %s\n", error.text);
        return 1;
    }
    enum lanekeeper_code code = consume(lk, strtoull(argv[3], NULL, 10) - options.step);
    if (code != LANEKEEPER_OK)
        (void)fprintf(stderr, "bench_consume: %s\n", lanekeeper_error_text(lk));
    uint8_t state[LANEKEEPER_STATE_MAX];
    size_t bytes;
    if (code == LANEKEEPER_OK && argc == 5 &&
        (code = lanekeeper_state(lk, LANEKEEPER_CONSUMED, state, &bytes)) == LANEKEEPER_OK)
        printf("state %zu\n", bytes);
    lanekeeper_close(lk);
    return code == LANEKEEPER_OK ? 0 : 1;
}
