/* `lanekeeper digest`: the digests of steps, and whether all ranks' cuts add up to them. */
#include "client/cli/commands.h"
#include "client/cli/digests.h"
#include "client/cli/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* steps asked for at once: the first lines come soon, and no answer takes too long */

struct digest_command {
    struct cli cli;
    uint32_t world; /* 0: no cuts are fetched */
    struct steps steps;
    uint64_t end;   /* of the steps so far */
    bool ended;     /* the stream has no more */
    struct lanekeeper *handle;
    struct ranks wire, memory;
    struct lk_buf all; /* 16 bytes a step so far: what the run's digest is of */
    struct lk_buf out;
    uint64_t differ;
};

static void put_step(struct digest_command *c, uint64_t step, struct lk_digest digest, bool same)
{
    if (c->cli.json) {
        lk_buf_puts(&c->out, step > c->steps.from ? ",{" : "{");
        json_u64(&c->out, false, "step", step);
        json_digest(&c->out, true, "digest", digest);
        if (c->world > 0)
            json_bool(&c->out, true, "cuts_add_up", same);
        lk_buf_puts(&c->out, "}");
        return;
    }
    lk_buf_putf(&c->out, "step %-10" PRIu64 " ", step);
    put_hex(&c->out, digest);
    lk_buf_puts(&c->out, c->world == 0 ? "\n" : same ? "  cuts add up\n" : "  CUTS DIFFER\n");
}

/* Fetches the cuts of @step both ways. */
static int check_cuts(struct digest_command *c, uint64_t step, struct lk_digest digest,
                      bool *ret_same)
{
    struct ranks *way[] = {&c->wire, &c->memory};
    *ret_same = true;
    for (int i = 0; i < 2; i++) {
        struct lk_digest sum;
        int status = ranks_digest(way[i], &c->cli, step, &sum);
        if (status >= 0)
            return status;
        *ret_same = *ret_same && lk_digest_equal(sum, digest);
    }
    return -1;
}

static int do_chunk(struct digest_command *c, uint64_t from, uint64_t to)
{
    uint8_t *digests = lk_buf_room(&c->all, (size_t)(to - from) * 16);
    enum lanekeeper_code code = digests_get(c->handle, from, to, digests, &c->end);
    if (code == LANEKEEPER_OK && c->end == c->steps.from)
        code = LANEKEEPER_OUT_OF_RANGE;
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&c->cli, c->handle, (int)code);
    c->ended = c->end < to;
    c->all.len += (size_t)(c->end - from) * 16;
    for (uint64_t step = from; step < c->end; step++) {
        struct lk_digest digest = lk_digest_get(c->all.data + (size_t)(step - c->steps.from) * 16);
        bool same = true;
        int status = c->world > 0 ? check_cuts(c, step, digest, &same) : -1;
        if (status >= 0)
            return status;
        c->differ += !same;
        put_step(c, step, digest, same);
    }
    return c->cli.json || output_flush(&c->out) ? -1 : EXIT_PROBLEM;
}

static int connect_all(struct digest_command *c)
{
    int status = cli_connect_one(&c->cli, LANEKEEPER_SHARED_NEVER, &c->handle);
    if (status < 0 && c->world > 0)
        status = ranks_open(&c->wire, &c->cli, c->world, LANEKEEPER_SHARED_NEVER);
    if (status < 0 && c->world > 0)
        status = ranks_open(&c->memory, &c->cli, c->world, LANEKEEPER_SHARED_AUTO);
    return status;
}

static void put_end(struct digest_command *c)
{
    struct lk_digest run = lk_digest_of(c->all.data, c->all.len);
    uint64_t batches = c->wire.batches + c->memory.batches;
    if (c->cli.json) {
        lk_buf_puts(&c->out, "]");
        json_u64(&c->out, true, "to", c->end);
        json_bool(&c->out, true, "stream_ends", c->ended);
        json_digest(&c->out, true, "run", run);
        if (c->world > 0) {
            json_u64(&c->out, true, "cuts", batches);
            json_u64(&c->out, true, "cuts_shared", c->memory.batches_shared);
            json_u64(&c->out, true, "steps_that_differ", c->differ);
        }
        lk_buf_puts(&c->out, "}\n");
        return;
    }
    lk_buf_putf(&c->out, "run  %" PRIu64 "..%" PRIu64 "  ", c->steps.from, c->end);
    put_hex(&c->out, run);
    lk_buf_puts(&c->out, "\n");
    if (c->world > 0)
        lk_buf_putf(&c->out, "%" PRIu64 " cuts of %u ranks fetched, %" PRIu64
                             " of them through shared memory: %" PRIu64 " steps differ\n",
                    batches, c->world, c->memory.batches_shared, c->differ);
}

static int run(struct digest_command *c)
{
    struct lanekeeper_info info;
    int status = cli_open(&c->cli);
    if (status < 0)
        status = connect_all(c);
    if (status >= 0)
        return status;
    enum lanekeeper_code code = lanekeeper_info(c->handle, &info);
    if (code != LANEKEEPER_OK)
        return cli_fail_call(&c->cli, c->handle, (int)code);
    cli_tell_changed(&c->cli, c->handle);
    if (c->cli.json) {
        lk_buf_puts(&c->out, "{");
        json_digest(&c->out, false, "stream_digest", lk_digest_get(info.stream_digest));
        json_u64(&c->out, true, "from", c->steps.from);
        json_u64(&c->out, true, "world", c->world);
        json_key(&c->out, true, "steps");
        lk_buf_puts(&c->out, "[");
    }
    for (uint64_t from = c->steps.from; from < c->steps.to && !c->ended; from += CHUNK) {
        uint64_t left = c->steps.to - from;
        status = do_chunk(c, from, from + (left < CHUNK ? left : CHUNK));
        if (status >= 0)
            return status;
    }
    put_end(c);
    bool written = output_flush(&c->out);
    if (c->ended)
        (void)fprintf(stderr, "lanekeeper digest: %s\n", lanekeeper_error_text(c->handle));
    return written && c->differ == 0 && !c->ended ? EXIT_WELL : EXIT_PROBLEM;
}

int cmd_digest(int argc, char **argv, const struct listener *listener)
{
    struct digest_command c = {.cli = {.command = argv[0], .timeout_s = 60}};
    struct option_row shared[CLI_OPTIONS_MAX];
    const struct option_row own[] = {
        {"--world", "W", OPTION_U32, &c.world, 1, RANKS_MAX,
         "fetch every rank's cut, by the wire and by shared memory, digest what"
         "\n                         was received again, and compare the sums"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "digest FROM..TO [--world W] [OPTIONS]",
        .about = "Prints the digest of each step from FROM to TO, TO left out, and one of all of them:\n"
                 "the XXH3-128 of the 16 bytes of each, in order. They depend on the stream alone.\n"
                 "Of a stream that ends before TO those of the steps it has, and a problem is told.\n",
        .own = own, .shared = shared, .args_min = 1, .args_max = 1};
    int args;
    cli_options(&c.cli, shared);
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (!options_steps(argv[1], &c.steps))
        return options_fail(argv[0], "expected FROM..TO with FROM < TO, or one step, found \"%s\"",
                            argv[1]);
    status = run(&c);
    ranks_close(&c.wire);
    ranks_close(&c.memory);
    lanekeeper_close(c.handle);
    cli_done(&c.cli);
    lk_buf_done(&c.all);
    lk_buf_done(&c.out);
    return status;
}
