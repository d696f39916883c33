/* What the files of the cursor share: cursor.c (window, lanes), measure.c (rows in), assemble.c (batches
 * out). */
#ifndef LK_HOST_CURSOR_PRIVATE_H
#define LK_HOST_CURSOR_PRIVATE_H

#include "core/value.h"
#include "host/counted.h"
#include "host/cursor.h"

#define ROW_OPEN UINT32_MAX /* not handed out by its lane yet; else how many of its pieces are missing */

/* A step in the window. */
struct held {
    uint64_t step;
    uint32_t slot;
    uint32_t size;      /* sequences */
    uint32_t open;      /* of them that their lanes have not handed out yet */
    uint32_t ready;     /* of them that are complete */
    uint32_t *row;      /* [size] ROW_OPEN, or pieces that are missing */
};

struct cursor_lane {
    struct lk_lane *lane;      /* NULL: not active */
    bool over;                 /* it has ended */
    bool stuck;                /* it waits for a measurement */
    struct errand **slices;    /* [datasets] lists of those that are being measured */
    uint64_t planned;          /* slices are, up to this position, and nothing has changed since; 0: not so */
    bool failed;               /* it cannot go on: see cursor.fail_step */
    uint64_t began;            /* position at which this cursor took it up */
    uint64_t next_snapshot;    /* position of the next one to write */
    struct counted counted;    /* rows that it had from the counts cache, and holds */
    uint32_t *used;            /* ring of `cursor.ring`: tokens of the sequences handed out last */
};

/* A task at the pool on behalf of a cursor: a slice to measure, or rows to fetch again. When the
 * cursor is gone, it is an orphan: the result goes to the arena and no further. */
struct errand {
    struct cursor *cursor;     /* NULL: gone */
    struct errand *next, **self;
    const struct cursor_context *context;
    uint64_t task;
    uint32_t dataset;
    uint32_t n;                /* rows */
    uint64_t *row;             /* [n] */
    uint32_t lane;             /* slice: whose */
    uint64_t slice;            /* slice: its id */
    struct piece *piece;       /* fetch: [pieces] sorted by row; NULL for a slice */
    uint32_t pieces;
};

/* A slice that could not be measured. Nothing is wrong before the lane comes to it. */
struct failure {
    struct failure *next;
    uint32_t lane, dataset;
    uint64_t slice;
    struct lk_err err;
};

/* Tokens of a row that a batch still lacks. */
struct piece {
    uint32_t dataset;
    uint64_t row;
    uint32_t first, tokens;
    uint32_t of;               /* tokens that the row was counted to have; 0: not known */
    uint64_t step;
    uint32_t batch_row;
    uint32_t at;               /* in the sequence */
};

struct cursor {
    const struct cursor_context *context;
    const struct lk_recipe *recipe;
    struct cursor_lane *lane;  /* [lanes] */
    uint32_t active;
    uint32_t over;             /* lanes that have ended */
    bool fruitful;             /* no dataset is dropped as a whole: see look_for_records */
    uint32_t ring;             /* finite streams: sequences of a lane in more steps than a window has */
    uint64_t first_step;       /* of the window */
    uint64_t asked;            /* highest step asked for */
    uint64_t target;           /* the window is made up to here, exclusive */
    uint64_t keep;             /* steps from here on are not dropped */
    uint32_t ahead;            /* steps made beyond `asked`: grows with use */
    struct held *held;         /* ring of `capacity`: steps first_step … first_step + n */
    uint32_t head, n, capacity;
    struct errand *fetches;    /* rows that are fetched again */
    struct piece *missing;     /* found missing, not asked for yet */
    uint32_t n_missing, cap_missing;
    uint64_t fail_step;        /* this step and those after it cannot be made, for the reason in err */
    struct lk_err err;
    bool by_counts;            /* counts that were kept are in it, or in the states it began with */
    bool doubtful;             /* one of them was wrong: what it has made is not given any more */
    bool untold;               /* somebody must hear of that: another cursor would not fail */
    struct failure *failures;  /* slices that could not be measured, until a lane needs one */
    uint64_t rows_made, fetched;
    uint32_t measuring, fetching;
    uint32_t allowance;        /* rows that may still be taken from it in this pump */
    bool hungry;               /* there would have been more */
};

struct held *cursor_held(const struct cursor *cursor, uint64_t step); /* NULL: not in the window */
/* @step and those after it cannot be made. */
void cursor_fail(struct cursor *cursor, uint64_t step, enum lk_code code, const char *text);

/* A count that it may be made with was wrong, says @text. */
void cursor_doubt(struct cursor *cursor, const char *text);

/* measure.c */
/* True: some were known, so that the lane may go on at once. */
bool measure_ahead(struct cursor *cursor, uint32_t lane, uint64_t until);
void measure_fetch(struct cursor *cursor); /* asks for what is missing */
void measure_forget(struct cursor *cursor); /* the cursor goes away */

/* assemble.c */
void assemble_row(struct cursor *cursor, struct held *held, uint32_t row,
                  const struct lk_item *item, struct cursor_lane *lane);
void assemble_padding(struct cursor *cursor, struct held *held, uint32_t row);
void assemble_piece(struct cursor *cursor, const struct piece *piece, const uint32_t *ids);

#endif
