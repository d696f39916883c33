/*
 * A trainer that goes on for a long time, as a cluster has them.
 *
 *   soak_trainer ADDRESS steady|moving SECONDS STEPS_PER_SECOND
 *
 * steady  one handle for the whole time: every batch with its training arrays, whose options change, one batch
 *         held beside the next one, and now and then the status, a trace and digests.
 * moving  comes back every few dozen steps from a checkpoint, as another rank of another world, through shared
 *         memory or the wire; sometimes from an older checkpoint.
 *
 * The last line is "steps=N connections=N"; exit status 1 with a text for what should not happen.
 */
#include "client/c/lanekeeper.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct soak {
    const char *address;
    double begin_s, seconds, per_second;
    uint64_t steps, connections;
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void die(const char *what, enum lanekeeper_code code, const char *text)
{
    (void)fprintf(stderr, "soak_trainer: %s: %s: %s\n", what, lanekeeper_code_name((int)code), text);
    exit(1);
}

static bool go_on(const struct soak *s)
{
    return now_s() - s->begin_s < s->seconds;
}

/* Steps come at an even pace, whatever the machine could do: so the run has as many on any that is fast enough. */
static void keep_pace(struct soak *s)
{
    double wait_s = s->begin_s + (double)++s->steps / s->per_second - now_s();
    if (wait_s > 0) {
        struct timespec t = {.tv_sec = (time_t)wait_s, .tv_nsec = (long)((wait_s - (double)(time_t)wait_s) * 1e9)};
        (void)nanosleep(&t, NULL);
    }
}

static struct lanekeeper *connect_as(struct soak *s, struct lanekeeper_options *options)
{
    struct lanekeeper_error error;
    struct lanekeeper *lk;
    options->address = s->address;
    enum lanekeeper_code code = lanekeeper_connect(options, &lk, &error);
    if (code != LANEKEEPER_OK)
        die("connect", code, error.text);
    s->connections++;
    return lk;
}

static void take(struct lanekeeper *lk, struct lanekeeper_batch *ret_batch)
{
    enum lanekeeper_code code = lanekeeper_next(lk, ret_batch);
    if (code != LANEKEEPER_OK)
        die("next", code, lanekeeper_error_text(lk));
}

/* ---- steady ---- */

/* Everything, little, and row by row in 32 bits, for a while each. */
static void wish(uint64_t step, struct lanekeeper_training_options *ret_options)
{
    lanekeeper_training_options_init(ret_options);
    switch (step / 100 % 3) {
    case 1:
        ret_options->positions = LANEKEEPER_POSITIONS_NONE;
        ret_options->document_ids = 0;
        break;
    case 2:
        ret_options->dtype = LANEKEEPER_I32;
        ret_options->cu_seqlens = LANEKEEPER_CU_SEQLENS_ROWS;
        break;
    default:
        break;
    }
}

static void train(const struct lanekeeper_batch *batch)
{
    struct lanekeeper_training_options options;
    struct lanekeeper_training arrays, slice;
    struct lanekeeper_error error;
    uint64_t counted = 0;
    wish(batch->step, &options);
    enum lanekeeper_code code = lanekeeper_training(batch, &options, &arrays, &error);
    if (code != LANEKEEPER_OK)
        die("training", code, error.text);
    for (size_t i = 0; i < (size_t)arrays.rows * arrays.sequence; i++)
        counted += arrays.loss_mask[i];
    if (counted != arrays.num_valid_tokens)
        die("training", LANEKEEPER_INTERNAL, "the loss mask does not add up");
    code = lanekeeper_training_slice(&arrays, 1, 2, LANEKEEPER_SLICE_ZIGZAG, &slice, &error);
    if (code != LANEKEEPER_OK)
        die("training_slice", code, error.text);
    lanekeeper_training_done(&slice);
    lanekeeper_training_done(&arrays);
}

static void ask_about(struct lanekeeper *lk, uint64_t step)
{
    struct lanekeeper_trace trace;
    uint8_t digests[2 * 16];
    char *json;
    enum lanekeeper_code code = lanekeeper_status(lk, &json);
    if (code == LANEKEEPER_OK) {
        lanekeeper_free(json);
        code = lanekeeper_trace(lk, step, 0, 0, &trace);
    }
    if (code == LANEKEEPER_OK) {
        lanekeeper_trace_done(&trace);
        code = lanekeeper_digest(lk, step, step + 2, digests);
    }
    if (code != LANEKEEPER_OK)
        die("questions", code, lanekeeper_error_text(lk));
}

static void steady(struct soak *s)
{
    struct lanekeeper_options options;
    struct lanekeeper_batch held[2] = {{0}, {0}};
    lanekeeper_options_init(&options);
    options.world = 2;
    struct lanekeeper *lk = connect_as(s, &options);
    while (go_on(s)) {
        struct lanekeeper_batch *batch = &held[s->steps % 2];
        lanekeeper_release(batch);
        take(lk, batch);
        train(batch);
        if (s->steps % 50 == 49)
            ask_about(lk, batch->step);
        keep_pace(s);
    }
    lanekeeper_close(lk);
    lanekeeper_release(&held[0]);
    lanekeeper_release(&held[1]);
}

/* ---- moving ---- */

/* A step that is done over again must be what it was. */
struct memory {
    uint64_t step;
    uint8_t digest[16];
};

static void compare(struct lanekeeper *lk, struct memory *memory)
{
    uint8_t digest[16];
    enum lanekeeper_code code = lanekeeper_digest(lk, memory->step, memory->step + 1, digest);
    if (code != LANEKEEPER_OK)
        die("digest", code, lanekeeper_error_text(lk));
    if (memory->step > 0 && memcmp(digest, memory->digest, sizeof digest) != 0)
        die("digest", LANEKEEPER_DATA_LOSS, "a step is not what it was");
}

static void remember(struct lanekeeper *lk, struct memory *memory)
{
    memory->step = lanekeeper_step(lk);
    enum lanekeeper_code code = lanekeeper_digest(lk, memory->step, memory->step + 1, memory->digest);
    if (code != LANEKEEPER_OK)
        die("digest", code, lanekeeper_error_text(lk));
}

static void moving(struct soak *s)
{
    static const uint32_t worlds[] = {2, 4, 1, 3, 8, 5};
    uint8_t state[LANEKEEPER_STATE_MAX];
    size_t n = 0;
    struct memory memory = {0};
    struct lanekeeper_options options;
    for (uint64_t life = 0; go_on(s); life++) {
        lanekeeper_options_init(&options);
        options.world = worlds[life % 6];
        options.rank = (uint32_t)(life % options.world);
        options.lookahead = (uint32_t)(life % 4);
        options.sharing = life % 3 == 2 ? LANEKEEPER_SHARED_NEVER : LANEKEEPER_SHARED_AUTO;
        options.state = n > 0 ? state : NULL;
        options.state_bytes = n;
        struct lanekeeper *lk = connect_as(s, &options);
        compare(lk, &memory);
        remember(lk, &memory);
        for (int i = 0; i < 40 && go_on(s); i++) {
            struct lanekeeper_batch batch;
            take(lk, &batch);
            lanekeeper_release(&batch);
            keep_pace(s);
        }
        uint64_t step = lanekeeper_step(lk);
        enum lanekeeper_code code = lanekeeper_state(lk, life % 8 == 7 && step > 200 ? step - 200 : step, state, &n);
        if (code != LANEKEEPER_OK)
            die("state", code, lanekeeper_error_text(lk));
        lanekeeper_close(lk);
    }
}

int main(int argc, char **argv)
{
    struct soak s = {.begin_s = now_s()};
    bool is_steady = argc == 5 && strcmp(argv[2], "steady") == 0;
    if (argc != 5 || (!is_steady && strcmp(argv[2], "moving") != 0)) {
        (void)fputs("usage: soak_trainer ADDRESS steady|moving SECONDS STEPS_PER_SECOND\n", stderr);
        return 2;
    }
    s.address = argv[1];
    s.seconds = strtod(argv[3], NULL);
    s.per_second = strtod(argv[4], NULL);
    if (is_steady)
        steady(&s);
    else
        moving(&s);
    printf("steps=%" PRIu64 " connections=%" PRIu64 "\n", s.steps, s.connections);
    return 0;
}
