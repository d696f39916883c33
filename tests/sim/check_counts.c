/* Wrong counts: that they are found once, and named, and that somebody hears of what was made with one. */
#include "sim.h"

#include "host/cursor_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A row that waits in a state is held against the count that is kept, which the state may be made of. */
static void check_piece(struct sim *sim, const struct cursor *cursor, const struct piece *piece)
{
    uint32_t share = oracle_size(sim->oracle[sim->wrong_stream], piece->step) / cursor->recipe->lanes;
    const struct cursor_lane *lane = &cursor->lane[piece->batch_row / share];
    if (piece->dataset == sim->wrong_dataset && piece->row == sim->wrong_row && lane->began > 0 && piece->of == 0)
        sim_fail(sim, "step %" PRIu64 ": row %" PRIu64 " of a state is not held against its count", piece->step,
                 piece->row);
}

void check_pieces(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->of.cursors_max && fake_files_mislead(sim); i++) {
        const struct cursor *cursor = sim->engine->stream[sim->wrong_stream].cursor[i].cursor;
        if (cursor == NULL)
            continue;
        for (const struct errand *errand = cursor->fetches; errand != NULL; errand = errand->next)
            for (uint32_t p = 0; p < errand->pieces; p++)
                check_piece(sim, cursor, &errand->piece[p]);
    }
}

/* What is at hand is not measured again, and so not held against the counts that are kept. */
void check_at_hand(struct sim *sim)
{
    struct arena_key key = {.stream = sim->wrong_stream, .dataset = sim->wrong_dataset, .row = sim->wrong_row};
    sim->at_hand = sim->at_hand || (sim->planted && sim->engine != NULL && arena_has(sim->engine->arena, key) != 0);
}

/* Around host/cursor.c's: a lane that goes on from another's state knows of the rows that wait in it which ones
 * had only been counted, as that one does. What it has from a snapshot is of another position. */
struct cursor *__real_cursor_new(const struct cursor_context *context, uint64_t step, struct steps_cut cut,
                                 const struct cursor *near);
struct cursor *__wrap_cursor_new(const struct cursor_context *context, uint64_t step, struct steps_cut cut,
                                 const struct cursor *near);
struct cursor *__wrap_cursor_new(const struct cursor_context *context, uint64_t step, struct steps_cut cut,
                                 const struct cursor *near)
{
    struct cursor *made = __real_cursor_new(context, step, cut, near);
    for (uint32_t l = 0; near != NULL && l < made->recipe->lanes; l++) {
        const struct cursor_lane *lane = &made->lane[l], *from = &near->lane[l];
        if (lane->lane != NULL && from->lane != NULL && lane->began > 0 &&
            lane->began == lane_position(from->lane) && lane->counted.n != from->counted.n)
            sim_fail(sim_now(), "lane %u: of %" PRIu64 " rows that were only counted its copy knows %" PRIu64, l,
                     from->counted.n, lane->counted.n);
    }
    return made;
}

static bool stands(const struct sim *sim, const struct sim_doubt *doubt)
{
    for (uint32_t i = 0; i < sim->of.cursors_max; i++) {
        const struct cursor *cursor = sim->engine->stream[doubt->stream].cursor[i].cursor;
        if (cursor == doubt->cursor && cursor != NULL && strcmp(cursor->err.text, doubt->err.text) == 0)
            return true;
    }
    return false;
}

static void add_doubt(struct sim *sim, uint32_t stream, const struct cursor *cursor)
{
    struct sim_doubt *at = sim->doubt;
    while (at < sim->doubt + sim->n_doubts && at->cursor != cursor && stands(sim, at))
        at++;
    if (at == sim->doubt + SIM_DOUBTS_MAX)
        sim_fail(sim, "check: too many doubts");
    if (at == sim->doubt + sim->n_doubts)
        sim->n_doubts++;
    *at = (struct sim_doubt){.cursor = cursor, .stream = stream, .err = cursor->err, .call = sim->last_call};
}

/* It names the row; and it is found once, since it is put right by that. (Who only reads files, and does not
 * remember, may find it again.) */
static void check_found(struct sim *sim, uint32_t stream, const char *text)
{
    const struct sim_dataset *dataset = &sim->of.recipe[sim->wrong_stream].dataset[sim->wrong_dataset];
    uint64_t row = sim->wrong_row;
    char right[96];
    uint32_t shard = 0;
    for (; row >= dataset->shard_rows[shard]; shard++)
        row -= dataset->shard_rows[shard];
    snprintf(right, sizeof right, "dataset %s, shard s%u, row %" PRIu64 ": measured again", dataset->name, shard, row);
    if (!sim->planted || stream != sim->wrong_stream || strncmp(text, right, strlen(right)) != 0)
        sim_fail(sim, "\"%s\", but that count is right", text);
    if (sim->found != 0 && sim->found != sim->events && sim->of.forgetful == 0)
        sim_fail(sim, "\"%s\", and it was found before", text);
    sim->found = sim->events;
    sim->must_forget = sim->of.snapshot_every > 0;
}

void check_failed(struct sim *sim, const char *stream, const char *text)
{
    bool found = strstr(text, "were counted before") != NULL;
    if (!found && strstr(text, "a count that was kept is wrong") == NULL)
        return;
    uint32_t s = 0;
    while (strcmp(stream, sim->of.recipe[s].name) != 0)
        s++;
    if (found)
        check_found(sim, s, text);
    for (uint32_t i = 0; i < sim->of.cursors_max; i++) {
        const struct cursor *cursor = sim->engine->stream[s].cursor[i].cursor;
        if (cursor != NULL && strcmp(cursor->err.text, text) == 0 && !cursor->doubtful)
            add_doubt(sim, s, cursor);
    }
}

/* Is there a cursor whose failure that is, and nobody has heard of it before? */
bool check_tells(struct sim *sim, uint32_t stream, const char *detail)
{
    bool tells = false;
    for (uint32_t i = 0; i < sim->n_doubts; i++) {
        struct sim_doubt *doubt = &sim->doubt[i];
        if (doubt->stream != stream || strcmp(doubt->err.text, detail) != 0 || !stands(sim, doubt) ||
            doubt->cursor->untold || (doubt->told != 0 && doubt->told != sim->events))
            continue;
        doubt->told = sim->events;
        tells = true;
    }
    return tells;
}

/* Whoever asks for a step after a cursor has failed which would make it hears of that first. */
void check_told(struct sim *sim, const struct sim_call *call)
{
    for (uint32_t i = 0; i < sim->n_doubts; i++) {
        const struct sim_doubt *doubt = &sim->doubt[i];
        const struct cursor *cursor = doubt->cursor;
        if (doubt->told == 0 && doubt->stream == call->stream && doubt->call < call->serial && stands(sim, doubt) &&
            call->step >= cursor->fail_step && call->step - cursor->fail_step <= cursor->capacity)
            sim_fail(sim, "call %" PRIu64 " is given step %" PRIu64 ", and nobody has heard that a count was wrong",
                     call->serial, call->step);
    }
}
