/* Wrong counts: that they are found once, and named, and that somebody hears of what was made with one. */
#include "sim.h"

#include "host/cursor_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
