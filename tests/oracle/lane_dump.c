/*
 * Runs the lanes of a recipe and made-up rows that stand on standard input (compare_order.py writes
 * them), twice: once the plain way, and once as a hostile host would, that plans slices of any size
 * far ahead, measures them out of order, late and repeatedly, and now and then loses the lane and loads
 * its state anew. Both must agree in every sequence and in every byte of saved state. Prints what the
 * lanes gave and the digests of the steps made of it. Links the pure part and nothing else.
 */
#include "core/steps.h"
#include "core/value.h"
#include "tests/lib/synth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 256
#define WORLDS_MAX 16

struct kept { /* one sequence handed out */
    struct lk_span *span;
    uint32_t n;
};

struct run { /* a lane's sequences, and the digest of its state after each */
    struct kept *sequence;
    struct lk_digest *state; /* [n + 1] */
    uint64_t n;
    enum seq_pull end; /* SEQ_OK: stopped at the limit */
    struct lane_totals totals;
};

struct dump {
    struct synth synth;
    uint32_t vocab;
    uint64_t limit;    /* sequences a lane */
    uint64_t schedule; /* key of the hostile host's choices */
    uint32_t saves;    /* of 1000 moments, how many lose the lane */
    uint32_t n_worlds, world[WORLDS_MAX];
    struct run *run;   /* [lanes] */
    bool *yields;      /* [datasets] some lane has come to a record of it */
};

struct pending { /* a planned slice that has not been measured */
    uint32_t dataset, n;
    uint64_t id;
    uint64_t rows[LK_SLICE_ROWS_MAX];
};

struct host {
    const struct dump *dump;
    struct lk_lane *lane;
    uint64_t key, drawn;
    struct pending *pending; /* [PENDING_MAX] */
    uint32_t n;
};

static void fail(const char *what, uint32_t lane, uint64_t position)
{
    (void)fprintf(stderr, "lane_dump: lane %" PRIu32 " at %" PRIu64 ": %s\n", lane, position, what);
    exit(1);
}

/* Input */

static uint64_t read_number(void)
{
    uint64_t value;
    if (scanf("%" SCNu64, &value) != 1) {
        (void)fputs("lane_dump: a number was expected\n", stderr);
        exit(2);
    }
    return value;
}

static void read_dataset(struct synth *s)
{
    char name[65];
    if (scanf("%64s", name) != 1)
        exit(2);
    uint64_t weight = read_number();
    uint32_t epochs = (uint32_t)read_number(), then = (uint32_t)read_number();
    uint32_t group = (uint32_t)read_number(), shards = (uint32_t)read_number();
    uint64_t *rows = lk_zalloc(shards, sizeof *rows), total = 0;
    for (uint32_t k = 0; k < shards; k++)
        total += rows[k] = read_number();

    uint32_t index = s->recipe.n_datasets;
    struct lk_dataset_recipe *dataset = synth_sharded(s, weight, rows, shards);
    free(rows);
    free(dataset->name);
    dataset->name = lk_strdup(name);
    dataset->epochs = epochs;
    dataset->then = (enum lk_then)then;
    dataset->group = group;
    s->row[index] = lk_zalloc(total, sizeof *s->row[index]);
    for (uint64_t k = 0; k < total; k++) {
        struct lk_row_measure *row = &s->row[index][k];
        row->tokens = (uint32_t)read_number();
        row->text_bytes = (uint32_t)read_number();
        row->drop = (uint8_t)read_number();
    }
}

static void read_stage(struct synth *s)
{
    struct lk_stage_recipe *stage = synth_stage(s, (enum lk_stage_kind)read_number());
    stage->max_tokens = (uint32_t)read_number();
    stage->buffer = (uint32_t)read_number();
    stage->algorithm = (enum lk_pack)read_number();
    stage->pool = (uint32_t)read_number();
    stage->groups = (uint32_t)read_number();
}

static void read_case(struct dump *d)
{
    struct synth *s = &d->synth;
    uint64_t seed = read_number();
    uint32_t lanes = (uint32_t)read_number();
    synth_init(s, (uint32_t)read_number());
    s->recipe.seed = seed;
    s->recipe.lanes = lanes;
    s->recipe.mixture = (enum lk_mixture_unit)read_number();
    s->recipe.block_rows = (uint32_t)read_number();
    s->recipe.permute_blocks = read_number() != 0;
    s->recipe.permute_rows = read_number() != 0;
    s->recipe.tail = (enum lk_tail)read_number();
    s->recipe.pad_id = (uint32_t)read_number();
    d->vocab = (uint32_t)read_number();
    d->limit = read_number();
    d->schedule = read_number();
    d->saves = (uint32_t)read_number();
    s->recipe.n_batches = (uint32_t)read_number();
    for (uint32_t i = 0; i < s->recipe.n_batches; i++) {
        s->batch[i].from = read_number();
        s->batch[i].size = (uint32_t)read_number();
    }
    d->n_worlds = (uint32_t)read_number();
    for (uint32_t i = 0; i < d->n_worlds; i++)
        d->world[i] = (uint32_t)read_number();
    for (uint64_t n = read_number(); n > 0; n--)
        read_stage(s);
    for (uint64_t n = read_number(); n > 0; n--)
        read_dataset(s);
}

/* The plain run */

static struct lk_digest state_of(const struct lk_lane *lane)
{
    struct lk_buf buf = {0};
    lane_save(lane, &buf);
    struct lk_digest digest = lk_digest_of(buf.data, buf.len);
    lk_buf_done(&buf);
    return digest;
}

static void check_totals(const struct lk_lane *lane)
{
    struct lane_totals t;
    lane_totals(lane, &t);
    if (t.tokens_in != t.tokens_out + t.pack.lost + t.waiting)
        fail("tokens in are not tokens out, lost and waiting", lane_number(lane), lane_position(lane));
}

static void keep(struct run *run, const struct lk_item *item)
{
    uint64_t at = run->n++;
    run->sequence = lk_resize(run->sequence, run->n, sizeof *run->sequence);
    run->state = lk_resize(run->state, run->n + 1, sizeof *run->state);
    run->sequence[at].n = item->n;
    run->sequence[at].span = lk_zalloc(item->n, sizeof *item->span);
    memcpy(run->sequence[at].span, item->span, item->n * sizeof *item->span);
}

static void run_plainly(struct dump *d, uint32_t number, struct run *run)
{
    struct lk_lane *lane = lane_new(&d->synth.plan, number);
    struct lk_item item;
    *run = (struct run){.state = lk_zalloc(1, sizeof *run->state), .end = SEQ_OK};
    run->state[0] = state_of(lane);
    while (run->n < d->limit && (run->end = synth_next(&d->synth, lane, &item)) == SEQ_OK) {
        keep(run, &item);
        run->state[run->n] = state_of(lane);
        lane_check(lane);
        check_totals(lane);
    }
    lane_totals(lane, &run->totals);
    for (uint32_t i = 0; i < d->synth.recipe.n_datasets; i++)
        d->yields[i] |= !source_barren(lane_source(lane), i);
    lane_free(lane);
}

/* The hostile run */

static uint64_t host_draw(struct host *h, uint64_t n)
{
    return lk_below(lk_key(h->key, h->drawn++), n);
}

static void host_plan(struct host *h, uint32_t dataset)
{
    struct lk_slice slice;
    if (h->n == PENDING_MAX)
        return;
    uint32_t most = 1 + (uint32_t)host_draw(h, host_draw(h, 4) == 0 ? LK_SLICE_ROWS_MAX : 9);
    uint64_t bytes = host_draw(h, 2) == 0 ? UINT64_MAX : 1 + host_draw(h, 20);
    if (!source_plan(lane_source(h->lane), dataset, bytes, most, &slice))
        return;
    struct pending *p = &h->pending[h->n++];
    p->dataset = slice.dataset;
    p->id = slice.id;
    p->n = slice.n;
    memcpy(p->rows, slice.rows, slice.n * sizeof *slice.rows);
}

static void host_measure(struct host *h, uint32_t i)
{
    struct pending *p = &h->pending[i];
    synth_measured(&h->dump->synth, lane_source(h->lane), p->dataset, p->id, p->rows, p->n);
    if (host_draw(h, 8) != 0) /* else it stays, and is measured again, perhaps much later */
        *p = h->pending[--h->n];
}

/* Something is planned or measured; now and then what the lane wants, so that it gets on. */
static void host_act(struct host *h)
{
    uint32_t datasets = h->dump->synth.recipe.n_datasets;
    if (h->n == PENDING_MAX || (h->n > 0 && host_draw(h, 2) == 0)) {
        host_measure(h, (uint32_t)host_draw(h, h->n));
        return;
    }
    uint32_t dataset = (uint32_t)host_draw(h, datasets);
    if (host_draw(h, 3) == 0)
        dataset = lane_wanted(h->lane);
    if (source_takes_part(lane_source(h->lane), dataset))
        host_plan(h, dataset);
}

/* Loses the lane, with all that was planned and measured ahead, and loads it from its saved state. */
static void host_reload(struct host *h)
{
    struct lk_buf before = {0}, after = {0};
    struct lk_err err;
    uint32_t number = lane_number(h->lane);
    lane_save(h->lane, &before);
    lane_free(h->lane);
    h->lane = lane_new(&h->dump->synth.plan, number);
    if (lane_load(h->lane, before.data, before.len, &err) != LK_OK)
        fail(err.text, number, lane_position(h->lane));
    lane_check(h->lane);
    lane_save(h->lane, &after);
    if (before.len != after.len || memcmp(before.data, after.data, before.len) != 0)
        fail("saved again, the state differs", number, lane_position(h->lane));
    lk_buf_done(&before);
    lk_buf_done(&after);
    h->n = 0;
}

static void compare(const struct run *run, const struct lk_lane *lane, const struct lk_item *item)
{
    uint64_t at = lane_position(lane) - 1;
    if (at >= run->n || item->n != run->sequence[at].n ||
        memcmp(item->span, run->sequence[at].span, item->n * sizeof *item->span) != 0)
        fail("the hostile run gives another sequence", lane_number(lane), at);
    if (!lk_digest_equal(state_of(lane), run->state[at + 1]))
        fail("the hostile run is in another state", lane_number(lane), at + 1);
}

static void run_hostilely(const struct dump *d, uint32_t number, const struct run *run)
{
    struct host h = {.dump = d, .lane = lane_new(&d->synth.plan, number),
                     .key = lk_key(d->schedule, number)};
    enum seq_pull pull = SEQ_OK;
    h.pending = lk_zalloc(PENDING_MAX, sizeof *h.pending);
    while (lane_position(h.lane) < d->limit && (pull == SEQ_OK || pull == SEQ_WANT)) {
        struct lk_item item;
        pull = lane_next(h.lane, &item);
        lane_check(h.lane);
        check_totals(h.lane);
        if (pull == SEQ_OK)
            compare(run, h.lane, &item);
        if (pull == SEQ_WANT)
            host_act(&h);
        if (pull == SEQ_OK && host_draw(&h, 1000) < d->saves)
            host_reload(&h);
        if (pull == SEQ_WANT && host_draw(&h, 16000) < d->saves) /* rarer: it must get on */
            host_reload(&h);
    }
    if (lane_position(h.lane) != run->n || pull != run->end)
        fail("the hostile run ends otherwise", number, lane_position(h.lane));
    if (pull == SEQ_END) {
        struct lk_item item;
        host_reload(&h);
        if (synth_next(&d->synth, h.lane, &item) != SEQ_END)
            fail("loaded after its end, the lane goes on", number, lane_position(h.lane));
    }
    struct lane_totals totals;
    lane_totals(h.lane, &totals);
    if (memcmp(&totals, &run->totals, sizeof totals) != 0)
        fail("the hostile run counts otherwise", number, lane_position(h.lane));
    lane_free(h.lane);
    free(h.pending);
}

/* Output */

static void print_lane(const struct run *run, uint32_t number)
{
    static const char *const ends[] = {"limit", "want", "end", "error"};
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < LK_DROP_REASONS; i++)
        dropped += run->totals.dropped[i];
    printf("lane %" PRIu32 " %s rows %" PRIu64 " dropped %" PRIu64 " in %" PRIu64 " out %" PRIu64
           " lost %" PRIu64 "\n", number, ends[run->end], run->totals.rows, dropped,
           run->totals.tokens_in, run->totals.tokens_out, run->totals.pack.lost);
    for (uint64_t i = 0; i < run->n; i++) {
        printf("s");
        for (uint32_t k = 0; k < run->sequence[i].n; k++) {
            const struct lk_span *span = &run->sequence[i].span[k];
            printf(" %" PRIu32 ":%" PRIu64 ":%" PRIu32 ":%" PRIu32 ":%" PRIu32, span->dataset,
                   span->row, span->epoch, span->first, span->tokens);
        }
        printf("\n");
    }
}

static struct lk_digest digest_of(const struct dump *d, const struct kept *kept)
{
    uint32_t sequence = d->synth.recipe.sequence, n = 0;
    uint32_t *ids = lk_zalloc(sequence, sizeof *ids);
    for (uint32_t i = 0; i < kept->n; i++)
        for (uint32_t k = 0; k < kept->span[i].tokens; k++)
            ids[n++] = (uint32_t)(lk_mix64(lk_key(lk_key(kept->span[i].dataset, kept->span[i].row),
                                                  kept->span[i].first + k)) % d->vocab);
    while (n < sequence)
        ids[n++] = d->synth.recipe.pad_id;
    struct lk_digest digest = value_sequence(ids, sequence, kept->span, kept->n);
    free(ids);
    return digest;
}

/* The sequence at @row of @step; NULL when its lane has none. */
static const struct kept *row_of(const struct dump *d, uint64_t step, uint32_t size, uint32_t row)
{
    const struct lk_recipe *recipe = &d->synth.recipe;
    const struct run *run = &d->run[steps_lane(recipe, size, row)];
    uint64_t at = steps_start(recipe, step) + row % (size / recipe->lanes);
    return at < run->n ? &run->sequence[at] : NULL;
}

static void print_cuts(const struct dump *d, const struct lk_digest *placed, uint32_t size)
{
    char hex[LK_DIGEST_HEX];
    for (uint32_t i = 0; i < d->n_worlds; i++) {
        if (d->world[i] > size)
            continue;
        for (uint32_t rank = 0; rank < d->world[i]; rank++) {
            struct steps_cut cut = steps_cut(size, rank, d->world[i]);
            struct lk_digest sum = {0};
            for (uint32_t row = cut.first; row < cut.first + cut.rows; row++)
                sum = lk_digest_add(sum, placed[row]);
            lk_digest_hex(sum, hex);
            printf("cut %" PRIu32 "/%" PRIu32 " %" PRIu32 "+%" PRIu32 " %s\n", rank, d->world[i],
                   cut.first, cut.rows, hex);
        }
    }
}

/* One step; false when it is not given: the stream has ended. */
static bool print_step(const struct dump *d, uint64_t step)
{
    uint32_t size = steps_size(&d->synth.recipe, step), missing = 0;
    struct lk_digest *placed = lk_zalloc(size, sizeof *placed), sum = {0};
    bool failed = false;
    for (uint32_t lane = 0; lane < d->synth.recipe.lanes; lane++)
        failed |= d->run[lane].end == SEQ_ERROR;
    for (uint32_t row = 0; row < size; row++) {
        const struct kept *kept = row_of(d, step, size, row), empty = {0};
        missing += kept == NULL;
        placed[row] = value_placed(digest_of(d, kept != NULL ? kept : &empty), step, row);
        sum = lk_digest_add(sum, placed[row]);
    }
    bool given = missing == 0 || (d->synth.recipe.tail == LK_TAIL_PAD && missing < size && !failed);
    if (given) {
        char hex[LK_DIGEST_HEX];
        lk_digest_hex(sum, hex);
        printf("step %" PRIu64 " %" PRIu32 " %s\n", step, size, hex);
        print_cuts(d, placed, size);
    }
    free(placed);
    return given;
}

static void dump_done(struct dump *d)
{
    for (uint32_t lane = 0; d->run != NULL && lane < d->synth.recipe.lanes; lane++) {
        for (uint64_t i = 0; i < d->run[lane].n; i++)
            free(d->run[lane].sequence[i].span);
        free(d->run[lane].sequence);
        free(d->run[lane].state);
    }
    free(d->run);
    free(d->yields);
    synth_done(&d->synth);
    free(d);
}

int main(void)
{
    struct dump *d = lk_zalloc(1, sizeof *d);
    struct lk_err err;
    read_case(d);
    if (synth_plan(&d->synth, &err) != LK_OK) {
        printf("refused %s\n", lk_code_name(err.code));
        dump_done(d);
        return 0;
    }
    d->run = lk_zalloc(d->synth.recipe.lanes, sizeof *d->run);
    d->yields = lk_zalloc(d->synth.recipe.n_datasets, sizeof *d->yields);
    for (uint32_t lane = 0; lane < d->synth.recipe.lanes; lane++) {
        run_plainly(d, lane, &d->run[lane]);
        run_hostilely(d, lane, &d->run[lane]);
        print_lane(&d->run[lane], lane);
    }
    bool given = true;
    for (uint32_t i = 0; i < d->synth.recipe.n_datasets; i++)
        given = given && d->yields[i];
    for (uint64_t step = 0; given && steps_start(&d->synth.recipe, step) < d->limit; step++)
        given = print_step(d, step);
    dump_done(d);
    return 0;
}
