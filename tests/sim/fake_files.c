/*
 * host/snapshots.h and host/counts.h on a disk in memory. The bytes of states are the lanes' own. Files are
 * written late, listed late, torn, flipped, swapped and lost; with `blind_files` damage gets past the
 * file's checksum (as if it had been there when it was written), so that the lane itself has to find it.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct snapshots {
    struct snapshots_stats stats;
};

/* Snapshots ------------------------------------------------------------------------------------- */

enum lk_code snapshots_open(const char *dir, uint32_t keep, const struct log *log,
                            struct snapshots **ret_snapshots, struct lk_err *err)
{
    (void)dir;
    (void)keep;
    (void)log;
    (void)err;
    *ret_snapshots = lk_zalloc(1, sizeof **ret_snapshots);
    return LK_OK;
}

void snapshots_close(struct snapshots *snapshots)
{
    struct sim *sim = sim_now();
    for (uint32_t i = 0; snapshots != NULL && !sim->killing && i < sim->n_files; i++)
        sim->file[i].queued = false;
    free(snapshots);
}

static struct sim_file *find_file(struct sim *sim, uint32_t stream, uint32_t lane, uint64_t position)
{
    for (uint32_t i = 0; i < sim->n_files; i++) {
        struct sim_file *file = &sim->file[i];
        if (file->stream == stream && file->lane == lane && file->position == position)
            return file;
    }
    return NULL;
}

static void remove_at(struct sim *sim, uint32_t i)
{
    lk_buf_done(&sim->file[i].bytes);
    sim->file[i] = sim->file[--sim->n_files];
}

/* A state depends on order, lane and position alone. */
static void check_truth(struct sim *sim, uint32_t stream, uint32_t lane, uint64_t position, uint64_t hash)
{
    for (uint32_t i = 0; i < sim->n_truths; i++) {
        const struct sim_truth *truth = &sim->truth[i];
        if (truth->stream != stream || truth->lane != lane || truth->position != position)
            continue;
        if (truth->hash != hash)
            sim_fail(sim, "snapshot: two states of stream %u lane %u position %" PRIu64, stream, lane, position);
        return;
    }
    if (sim->n_truths == sim->cap_truths) {
        sim->cap_truths = sim->cap_truths == 0 ? 64 : 2 * sim->cap_truths;
        sim->truth = lk_resize(sim->truth, sim->cap_truths, sizeof *sim->truth);
    }
    sim->truth[sim->n_truths++] =
        (struct sim_truth){.stream = stream, .lane = lane, .position = position, .hash = hash};
}

void snapshots_write(struct snapshots *snapshots, const struct lk_recipe *recipe, uint64_t every,
                     struct lk_digest order, uint32_t lane, uint64_t position, struct lk_buf *state)
{
    struct sim *sim = sim_now();
    uint32_t stream = (uint32_t)order.lo;
    uint64_t hash = XXH3_64bits(state->data, state->len);
    (void)recipe;
    if (every != sim->of.snapshot_every)
        sim_fail(sim, "snapshot: every %" PRIu64, every);
    sim_note(sim, "snapshot of stream %u lane %u position %" PRIu64 ": %zu bytes %016" PRIx64, stream, lane,
             position, state->len, hash);
    check_saver(sim, stream, lane, position);
    if (!sim->misled)
        check_truth(sim, stream, lane, position, hash);
    snapshots->stats.written++;
    if (find_file(sim, stream, lane, position) != NULL) {
        lk_buf_done(state);
        return;
    }
    if (sim->n_files == sim->cap_files) {
        sim->cap_files = sim->cap_files == 0 ? 64 : 2 * sim->cap_files;
        sim->file = lk_resize(sim->file, sim->cap_files, sizeof *sim->file);
    }
    sim->file[sim->n_files++] = (struct sim_file){.stream = stream,
                                                  .lane = lane,
                                                  .position = position,
                                                  .bytes = *state,
                                                  .hash = hash,
                                                  .queued = true,
                                                  .tainted = sim->misled};
    *state = (struct lk_buf){0};
}

static struct sim_file *newest(struct sim *sim, uint32_t stream, uint32_t lane, uint64_t from, uint64_t until)
{
    struct sim_file *best = NULL;
    for (uint32_t i = 0; i < sim->n_files; i++) {
        struct sim_file *file = &sim->file[i];
        if (file->stream == stream && file->lane == lane && file->position >= from &&
            file->position <= until && file->listed && !file->queued &&
            (best == NULL || file->position > best->position))
            best = file;
    }
    return best;
}

bool snapshots_read(struct snapshots *snapshots, struct lk_digest order, uint32_t lane, uint64_t from,
                    uint64_t until, uint64_t *ret_position, struct lk_buf *ret_state)
{
    struct sim *sim = sim_now();
    for (struct sim_file *file; (file = newest(sim, (uint32_t)order.lo, lane, from, until)) != NULL;) {
        bool whole = XXH3_64bits(file->bytes.data, file->bytes.len) == file->hash;
        if (!whole && !sim->of.blind_files) {
            remove_at(sim, (uint32_t)(file - sim->file));
            snapshots->stats.damaged++;
            continue;
        }
        sim_note(sim, "snapshot of lane %u position %" PRIu64 " is read%s", lane, file->position,
                 whole ? "" : ", and is damaged");
        snapshots->stats.read++;
        ret_state->len = 0;
        lk_buf_put(ret_state, file->bytes.data, file->bytes.len);
        *ret_position = file->position;
        return true;
    }
    return false;
}

void snapshots_forget(struct snapshots *snapshots, struct lk_digest order)
{
    struct sim *sim = sim_now();
    (void)snapshots;
    sim_note(sim, "snapshots of stream %u are forgotten", (unsigned)order.lo);
    sim->must_forget = false;
    for (uint32_t i = sim->n_files; i-- > 0;)
        if (sim->file[i].stream == order.lo)
            remove_at(sim, i);
}

void snapshots_stats(struct snapshots *snapshots, struct snapshots_stats *ret_stats)
{
    *ret_stats = snapshots->stats;
}

/* Counts ---------------------------------------------------------------------------------------- */

struct counts_set {
    uint32_t stream, dataset;
};

struct counts {
    struct counts_config config;
    struct counts_set set[SIM_STREAMS_MAX][SIM_DATASETS_MAX];
    struct counts_stats stats;
};

enum lk_code counts_open(const struct counts_config *config, struct counts **ret_counts, struct lk_err *err)
{
    struct counts *counts = lk_zalloc(1, sizeof *counts);
    (void)err;
    counts->config = *config;
    *ret_counts = counts;
    return LK_OK;
}

/* It has been found out that a count was wrong: from now on everything must be right. */
static void doubt(struct sim *sim, struct sim_counts *of)
{
    sim_note(sim, "a wrong count is found");
    of->doubts++;
    sim->misled = sim->misled_before = false;
}

/* Who writes comes upon what the files have, and tells. */
static void write_news(struct sim *sim, struct sim_counts *of)
{
    for (uint64_t i = 0; i < of->rows; i++) {
        if (!of->news[i])
            continue;
        bool wrong = of->file[i].known && of->file[i].tokens != of->given[i].tokens;
        of->file[i] = of->given[i];
        of->news[i] = false;
        if (wrong && !of->told[i]) {
            memset(of->memory, 0, of->rows * sizeof *of->memory);
            doubt(sim, of);
        }
    }
}

static void write_all_news(struct sim *sim)
{
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        for (uint32_t d = 0; d < sim->of.recipe[s].n_datasets; d++)
            write_news(sim, &sim->counts[s][d]);
}

void counts_flush(struct counts *counts)
{
    struct sim *sim = sim_now();
    if (counts->config.write && !sim->killing)
        write_all_news(sim);
}

void counts_close(struct counts *counts)
{
    if (counts != NULL)
        counts_flush(counts);
    free(counts);
}

struct counts_set *counts_set(struct counts *counts, struct lk_digest ops, const struct lk_index *index,
                              const char *name)
{
    uint32_t stream = (uint32_t)(ops.lo >> 32), dataset = (uint32_t)ops.lo;
    (void)index;
    (void)name;
    counts->set[stream][dataset] = (struct counts_set){.stream = stream, .dataset = dataset};
    return &counts->set[stream][dataset];
}

static bool is_wrong(const struct sim *sim, const struct counts_set *set, uint64_t row)
{
    const struct lk_count *count = &sim->counts[set->stream][set->dataset].memory[row];
    return sim->planted && set->stream == sim->wrong_stream && set->dataset == sim->wrong_dataset &&
           row == sim->wrong_row &&
           count->tokens != sim_row(&sim->of.recipe[set->stream].dataset[set->dataset], row).tokens;
}

static struct sim_counts *counts_of(struct sim *sim, const struct counts_set *set)
{
    return &sim->counts[set->stream][set->dataset];
}

bool fake_files_mislead(const struct sim *sim)
{
    if (!sim->planted)
        return false;
    const struct sim_counts *of = &sim->counts[sim->wrong_stream][sim->wrong_dataset];
    uint64_t row = sim->wrong_row;
    const struct lk_count *count = of->memory[row].known ? &of->memory[row] : &of->file[row];
    return count->known &&
           count->tokens != sim_row(&sim->of.recipe[sim->wrong_stream].dataset[sim->wrong_dataset], row).tokens;
}

bool counts_get(struct counts_set *set, const uint64_t *row, uint32_t n, struct lk_count *ret_count)
{
    struct sim *sim = sim_now();
    struct sim_counts *of = counts_of(sim, set);
    if (sim->of.forgetful > 0 && rng_chance(&sim->rng, sim->of.forgetful))
        memset(of->memory, 0, of->rows * sizeof *of->memory);
    for (uint32_t i = 0; i < n; i++) {
        if (!of->memory[row[i]].known)
            of->memory[row[i]] = of->file[row[i]];
        if (!of->memory[row[i]].known) {
            memset(ret_count, 0xa5, n * sizeof *ret_count); /* undefined, then */
            return false;
        }
        ret_count[i] = of->memory[row[i]];
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_wrong(sim, set, row[i])) {
            sim_note(sim, "the wrong count of row %" PRIu64 " is used", row[i]);
            sim->misled = true;
        }
    return true;
}

void counts_used(struct counts_set *set, uint32_t rows)
{
    (void)set;
    (void)rows;
}

static void check_count(struct sim *sim, const struct counts_set *set, uint64_t row, const struct lk_count *count)
{
    struct sim_row data = sim_row(&sim->of.recipe[set->stream].dataset[set->dataset], row);
    if (count->tokens != data.tokens || count->drop != data.drop || count->text_bytes != data.text_bytes)
        sim_fail(sim, "counts: row %" PRIu64 " of dataset %u is kept with %u tokens, has %u", row,
                 set->dataset, count->tokens, data.tokens);
}

void counts_put(struct counts_set *set, uint64_t row, struct lk_count count)
{
    struct sim *sim = sim_now();
    struct sim_counts *of = counts_of(sim, set);
    check_count(sim, set, row, &count);
    count.known = true;
    bool replaces = of->memory[row].known; /* what is not in memory is not looked up for this */
    if (replaces && of->memory[row].tokens == count.tokens)
        return;
    if (replaces) {
        of->memory[row] = count;
        doubt(sim, of);
    }
    if (!sim->of.write_counts)
        return;
    of->given[row] = count;
    of->told[row] = of->news[row] ? of->told[row] || replaces : replaces;
    of->news[row] = true;
}

void counts_correct(struct counts_set *set, uint64_t row, struct lk_count count)
{
    struct sim *sim = sim_now();
    struct sim_counts *of = counts_of(sim, set);
    check_count(sim, set, row, &count);
    count.known = true;
    if (of->memory[row].known || of->file[row].known)
        of->memory[row] = count;
    of->told[row] = true;
    doubt(sim, of);
}

uint64_t counts_doubts(struct counts_set *set)
{
    return counts_of(sim_now(), set)->doubts;
}

void counts_work(struct counts *counts)
{
    struct sim *sim = sim_now();
    if (counts->config.write && rng_chance(&sim->rng, 300))
        write_all_news(sim);
}

void counts_stats(struct counts *counts, struct counts_stats *ret_stats)
{
    *ret_stats = counts->stats;
}

/* The disk -------------------------------------------------------------------------------------- */

static bool any_tainted(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_files; i++)
        if (sim->file[i].tainted)
            return true;
    return false;
}

void fake_files_open(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_files; i++)
        sim->file[i].listed = true;
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        for (uint32_t d = 0; d < sim->of.recipe[s].n_datasets; d++) {
            struct sim_counts *of = &sim->counts[s][d];
            of->doubts = 0;
            if (of->rows > 0)
                memset(of->memory, 0, of->rows * sizeof *of->memory);
        }
    sim->misled = sim->misled_before = any_tainted(sim);
    sim->found = sim->n_doubts = 0;
    sim->at_hand = false;
}

void fake_files_crash(struct sim *sim)
{
    for (uint32_t i = sim->n_files; i-- > 0;)
        if (sim->file[i].queued)
            remove_at(sim, i);
    for (uint32_t s = 0; s < sim->of.n_streams; s++)
        for (uint32_t d = 0; d < sim->of.recipe[s].n_datasets; d++)
            if (sim->counts[s][d].rows > 0)
                memset(sim->counts[s][d].news, 0, sim->counts[s][d].rows);
}

void fake_files_write(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_files; i++) {
        sim->file[i].queued = false;
        sim->file[i].listed = true;
    }
    if (sim->of.write_counts)
        write_all_news(sim);
}

static void tear(struct sim *sim, struct sim_file *file)
{
    struct rng *rng = &sim->rng;
    switch (rng_below(rng, 4)) {
    case 0:
        file->bytes.len = rng_below(rng, file->bytes.len + 1);
        break;
    case 1:
        if (file->bytes.len > 0)
            file->bytes.data[rng_below(rng, file->bytes.len)] ^= (uint8_t)(1u << rng_below(rng, 8));
        break;
    case 2:
        lk_buf_put(&file->bytes, "x", 1);
        break;
    default: { /* the bytes of another one of this order, mostly of this lane */
        bool any_lane = rng_chance(rng, 300);
        const struct sim_file *other = &sim->file[rng_below(rng, sim->n_files)];
        for (uint32_t i = 0; i < sim->n_files && (other == file || other->lane != file->lane) && !any_lane; i++)
            other = &sim->file[i];
        if (other == file || other->stream != file->stream)
            break;
        file->bytes.len = 0;
        lk_buf_put(&file->bytes, other->bytes.data, other->bytes.len);
    }
    }
}

static void lose_counts(struct sim *sim)
{
    uint32_t s = (uint32_t)rng_below(&sim->rng, sim->of.n_streams);
    uint32_t d = (uint32_t)rng_below(&sim->rng, sim->of.recipe[s].n_datasets);
    struct sim_counts *of = &sim->counts[s][d];
    uint64_t keep = 1 + rng_below(&sim->rng, 8);
    for (uint64_t i = 0; i < of->rows; i++)
        if (keep == 8 || i / 16 % keep != 0) /* all, or a part of it */
            of->file[i] = (struct lk_count){0};
}

void fake_files_disturb(struct sim *sim)
{
    uint64_t what = rng_below(&sim->rng, 8);
    struct sim_file *file = sim->n_files > 0 ? &sim->file[rng_below(&sim->rng, sim->n_files)] : NULL;
    sim_note(sim, "disk: %" PRIu64, what);
    if (what < 4)
        fake_files_write(sim);
    else if (what == 4 && file != NULL && !file->queued)
        tear(sim, file);
    else if (what == 5 && file != NULL)
        remove_at(sim, (uint32_t)(file - sim->file));
    else if (what == 6)
        lose_counts(sim);
    else if (file != NULL)
        file->queued = false; /* written, not listed yet */
}

/* All rows of a stream are known, as after `lanekeeper measure`. */
static void know_all(struct sim *sim, uint32_t s)
{
    for (uint32_t d = 0; d < sim->of.recipe[s].n_datasets; d++)
        for (uint64_t row = 0; row < sim->counts[s][d].rows; row++) {
            struct sim_row data = sim_row(&sim->of.recipe[s].dataset[d], row);
            if (!data.fatal)
                sim->counts[s][d].file[row] = (struct lk_count){.tokens = data.tokens,
                                                                .text_bytes = data.text_bytes,
                                                                .drop = data.drop,
                                                                .known = true};
        }
}

/* Of one row that lanes come to, another number of tokens than it has. */
void fake_files_plant(struct sim *sim)
{
    struct rng *rng = &sim->rng;
    uint32_t s = (uint32_t)rng_below(rng, sim->of.n_streams);
    uint64_t step = rng_below(rng, sim->of.recipe[s].horizon);
    if (oracle_refuses(sim->oracle[s]) || sim->planted)
        return;
    uint32_t in_step = (uint32_t)rng_below(rng, oracle_size(sim->oracle[s], step));
    const struct oracle_sequence *sequence = oracle_row(sim->oracle[s], step, in_step);
    if (sequence->n == 0)
        return;
    const struct oracle_span *span = &sequence->span[rng_below(rng, sequence->n)];
    know_all(sim, s);
    struct lk_count *count = &sim->counts[s][span->dataset].file[span->row];
    count->tokens += rng_chance(rng, 500) && count->tokens > 1 ? (uint32_t)-1 : 1 + (uint32_t)rng_below(rng, 3);
    sim->planted = true;
    sim->wrong_stream = s;
    sim->wrong_dataset = span->dataset;
    sim->wrong_row = span->row;
    sim_note(sim, "planted: stream %u dataset %u row %" PRIu64 " has %u tokens", s, span->dataset, span->row,
             count->tokens);
}

void fake_files_done(struct sim *sim)
{
    while (sim->n_files > 0)
        remove_at(sim, 0);
    free(sim->file);
    free(sim->truth);
    for (uint32_t s = 0; s < SIM_STREAMS_MAX; s++)
        for (uint32_t d = 0; d < SIM_DATASETS_MAX; d++) {
            free(sim->counts[s][d].file);
            free(sim->counts[s][d].memory);
            free(sim->counts[s][d].given);
            free(sim->counts[s][d].news);
            free(sim->counts[s][d].told);
        }
}
