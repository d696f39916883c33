/*
 * A small trainer: one rank, which takes its part of every step and prints what it got.
 *
 *   consume --connect ADDRESS [--rank R] [--world W] [--from STEP | --state HEX] [--steps N]
 *           [--shared auto|never|always] [--print digests|nothing]
 *
 * One line a step: its number, the first row and the rows of this rank, the digest that came with the
 * batch, one made here of the tokens and bounds received, so that nothing needs to be believed, and
 * what a checkpoint after this step would hold. Both digests add up (mod 2^128) over a step's ranks.
 */
#include "client/c/lanekeeper.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef unsigned __int128 u128;

struct arguments {
    struct lanekeeper_options options;
    uint8_t state[LANEKEEPER_STATE_MAX];
    uint64_t steps;
    bool quiet;
};

static int usage(void)
{
    (void)fputs("usage: consume --connect ADDRESS [--rank R] [--world W] [--from STEP | --state HEX]\n"
                "               [--steps N] [--shared auto|never|always] [--print digests|nothing]\n",
                stderr);
    return 2;
}

static bool number(const char *text, uint64_t max, uint64_t *ret_value)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end != '\0' || value > max)
        return false;
    *ret_value = value;
    return true;
}

static bool unhex(const char *text, struct arguments *arguments)
{
    size_t n = strlen(text) / 2;
    if (n == 0 || n > sizeof arguments->state || strlen(text) % 2 != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        char *end;
        arguments->state[i] = (uint8_t)strtoul(digits, &end, 16);
        if (end != digits + 2)
            return false;
    }
    arguments->options.state = arguments->state;
    arguments->options.state_bytes = n;
    return true;
}

static bool choice(const char *text, const char *const names[], int n, int *ret_value)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_value = i;
            return true;
        }
    }
    return false;
}

static bool read_option(const char *name, const char *value, struct arguments *arguments)
{
    static const char *const sharings[] = {"auto", "never", "always"};
    static const char *const prints[] = {"digests", "nothing"};
    struct lanekeeper_options *options = &arguments->options;
    uint64_t u = 0;
    int i = 0;
    bool good = true;

    if (strcmp(name, "--connect") == 0) {
        options->address = value;
    } else if (strcmp(name, "--rank") == 0) {
        good = number(value, UINT32_MAX, &u);
        options->rank = (uint32_t)u;
    } else if (strcmp(name, "--world") == 0) {
        good = number(value, UINT32_MAX, &u);
        options->world = (uint32_t)u;
    } else if (strcmp(name, "--from") == 0) {
        good = number(value, UINT64_MAX, &options->step);
    } else if (strcmp(name, "--steps") == 0) {
        good = number(value, UINT64_MAX, &arguments->steps);
    } else if (strcmp(name, "--state") == 0) {
        good = unhex(value, arguments);
    } else if (strcmp(name, "--shared") == 0) {
        good = choice(value, sharings, 3, &i);
        options->sharing = (enum lanekeeper_sharing)i;
    } else if (strcmp(name, "--print") == 0) {
        good = choice(value, prints, 2, &i);
        arguments->quiet = i == 1;
    } else {
        good = false;
    }
    return good;
}

static u128 of_bytes(const uint8_t bytes[16])
{
    u128 sum = 0;
    for (int i = 15; i >= 0; i--)
        sum = sum << 8 | bytes[i];
    return sum;
}

static u128 of_hash(XXH128_hash_t hash)
{
    return (u128)hash.high64 << 64 | hash.low64;
}

/* Of every row its tokens and the bounds of its documents, with its place in the global batch. */
static u128 values(const struct lanekeeper_batch *batch)
{
    u128 sum = 0;
    for (uint32_t r = 0; r < batch->rows; r++) {
        const struct lanekeeper_row *row = &batch->row[r];
        uint64_t place = batch->first_row + r;
        sum += of_hash(XXH3_128bits_withSeed(batch->tokens + (size_t)r * batch->sequence,
                                             batch->sequence * sizeof *batch->tokens, place));
        for (uint32_t i = 0; i < row->n_parts; i++) {
            const struct lanekeeper_part *part = &batch->part[row->first_part + i];
            uint64_t bounds[] = {i,           part->row,    part->dataset, part->epoch,
                                 part->first, part->tokens, row->used};
            sum += of_hash(XXH3_128bits_withSeed(bounds, sizeof bounds, place));
        }
    }
    return sum;
}

static void print_batch(const struct lanekeeper_batch *batch, const uint8_t *state, size_t state_bytes)
{
    u128 digest = of_bytes(batch->digest), value = values(batch);
    printf("%" PRIu64 " %u %u %016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64 " ", batch->step,
           batch->first_row, batch->rows, (uint64_t)(digest >> 64), (uint64_t)digest,
           (uint64_t)(value >> 64), (uint64_t)value);
    for (size_t i = 0; i < state_bytes; i++)
        printf("%02x", state[i]);
    printf("\n");
    (void)fflush(stdout);
}

static enum lanekeeper_code consume(struct lanekeeper *lk, const struct arguments *arguments)
{
    uint8_t state[LANEKEEPER_STATE_MAX];
    struct lanekeeper_batch batch;
    size_t bytes;

    for (uint64_t i = 0; i < arguments->steps; i++) {
        enum lanekeeper_code code = lanekeeper_next(lk, &batch);
        if (code == LANEKEEPER_OK)
            code = lanekeeper_state(lk, LANEKEEPER_CONSUMED, state, &bytes);
        if (code == LANEKEEPER_OK && !arguments->quiet)
            print_batch(&batch, state, bytes);
        lanekeeper_release(&batch);
        if (code != LANEKEEPER_OK)
            return code;
    }
    return LANEKEEPER_OK;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.steps = 1};
    struct lanekeeper_error error;
    struct lanekeeper *lk;

    lanekeeper_options_init(&arguments.options);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !read_option(argv[i], argv[i + 1], &arguments))
            return usage();
    }
    if (arguments.options.address == NULL)
        return usage();
    enum lanekeeper_code code = lanekeeper_connect(&arguments.options, &lk, &error);
    if (code == LANEKEEPER_OK) {
        code = consume(lk, &arguments);
        if (code != LANEKEEPER_OK)
            (void)snprintf(error.text, sizeof error.text, "%s", lanekeeper_error_text(lk));
        lanekeeper_close(lk);
    }
    if (code != LANEKEEPER_OK)
        (void)fprintf(stderr, "consume: rank %u: %s: %s\n", arguments.options.rank,
                      lanekeeper_code_name((int)code), error.text);
    return code == LANEKEEPER_OK && fflush(stdout) == 0 ? 0 : 1;
}
