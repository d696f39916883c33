/*
 * A cursor: one run of a stream's lanes through the steps. It drives the lanes' control planes, has
 * rows measured ahead of them, turns their sequences into batches in slots, and keeps a window of
 * ready steps that follows the highest step asked for.
 *
 * Lanes become active when a cut that needs them is asked for (all of them in a finite stream, whose
 * end is a property of all). An active lane is restored from the newest usable snapshot and run
 * forward to the window; nothing it does depends on who asks, when, or how often.
 */
#ifndef LK_HOST_CURSOR_H
#define LK_HOST_CURSOR_H

#include "base/mem.h"
#include "core/lane.h"
#include "core/steps.h"
#include "host/arena.h"
#include "host/counts.h"
#include "host/drop_log.h"
#include "host/log.h"
#include "host/pool.h"
#include "host/slots.h"
#include "host/snapshots.h"
#include "host/stream.h"

#include <stdbool.h>
#include <stdint.h>

struct cursor;
struct errand;

/* What cursors of one stream share. Borrowed; outlives them. */
struct cursor_context {
    const struct stream *stream;
    struct pool *pool;
    struct arena *arena;
    struct slots *slots;
    struct snapshots *snapshots; /* NULL: none */
    struct counts_set **counts;  /* [n_datasets]; NULL: none */
    uint64_t snapshot_every;     /* steps; 0 = none */
    uint32_t prefetch_steps;
    const struct log *log;
    struct drop_log *drops;
    void (*progress)(void *owner); /* something arrived: call cursor_pump soon */
    void *owner;
    struct errand **orphans;     /* tasks at the pool whose cursor has gone; a list, NULL at first */
};

/* Frees the orphans, once the pool has been closed and will never call back. */
void cursor_free_orphans(struct errand **orphans);

/* A new cursor whose window begins at @step, with the lanes that @cut needs: each begins where that of
 * @near stands, if that is before the step, or at the newest usable snapshot, whichever is closer.
 * @near may be NULL; it is not changed. Cannot fail; what can is found out later. */
struct cursor *cursor_new(const struct cursor_context *context, uint64_t step, struct steps_cut cut,
                          const struct cursor *near);
void cursor_free(struct cursor *cursor);

/* How far it would have to run for rows of @step, in steps; UINT64_MAX when it is past them. */
uint64_t cursor_distance(const struct cursor *cursor, uint64_t step, struct steps_cut cut);

/* How far it may be moved, in steps. */
uint64_t cursor_reach(const struct cursor *cursor);

/* Asks for rows of a step that it is not past, and within its reach: activates lanes and moves the
 * window. */
void cursor_ask(struct cursor *cursor, uint64_t step, struct steps_cut cut);

/* Does as much as can be done now. True when anything moved. */
bool cursor_pump(struct cursor *cursor);

enum cursor_state {
    CURSOR_READY,   /* the rows are in *ret_slot */
    CURSOR_WAITING, /* cursor_waits_for says for what */
    CURSOR_ENDED,   /* the stream ends before this step: after cursor_steps() steps */
    CURSOR_FAILED,  /* cursor_error() */
    CURSOR_PAST,    /* the step has left the window: ask another cursor */
};
enum cursor_state cursor_look(const struct cursor *cursor, uint64_t step, struct steps_cut cut,
                              uint32_t *ret_slot);

uint64_t cursor_steps(const struct cursor *cursor);
const struct lk_err *cursor_error(struct cursor *cursor); /* for whoever asked */
void cursor_waits_for(const struct cursor *cursor, uint64_t step, struct steps_cut cut,
                      struct lk_buf *out);

/* Steps from @step on stay in the window: the lowest that a request waits for; UINT64_MAX: none. */
void cursor_keep(struct cursor *cursor, uint64_t step);

/* It has no slot for @step, which it ought to make. */
bool cursor_starved(const struct cursor *cursor, uint64_t step);

/* Gives up steps that nobody waits for, for another cursor that needs slots: those before the highest
 * step asked for, or with @all also what was made ahead. */
void cursor_shed(struct cursor *cursor, bool all);

struct cursor_status {
    uint64_t first_step, next_step, asked;
    uint32_t lanes_active, steps_ready, steps_held;
    uint32_t slices_measuring, rows_fetching;
    struct lane_totals totals;      /* over active lanes */
    uint64_t rows_made, fetched;
};
void cursor_status(const struct cursor *cursor, struct cursor_status *ret_status);
/* Of an active lane; NULL when it is not. */
const struct lk_lane *cursor_lane(const struct cursor *cursor, uint32_t lane);
/* Its totals as the stream has them: what it handed out beyond the last step is lost by the tail rule,
 * not handed out. */
void cursor_lane_totals(const struct cursor *cursor, uint32_t lane, struct lane_totals *ret_totals);

/* A count that was kept has turned out to be wrong. If it may have entered what this cursor has made, or the
 * states that it began with, nothing of that is given any more: whoever asks next for a step of its window hears
 * of it as DATA_LOSS, once, and another cursor makes it anew. */
void cursor_distrust(struct cursor *cursor);
/* Whoever asks for @step is to hear of that. */
bool cursor_untold(const struct cursor *cursor, uint64_t step);

/* The last pump left off, so that others have a turn: pump it again soon. */
bool cursor_hungry(const struct cursor *cursor);

/* It is still on its way to its window; worth the work only while somebody waits. */
bool cursor_seeking(const struct cursor *cursor);

#endif
