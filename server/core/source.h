/*
 * The source of a lane: one row iterator per dataset, each planned and measured some slices ahead,
 * and the mixture that draws from them. It gives records; it asks for measurements.
 *
 * Mixing pulls, and knows what the next record of every dataset will cost. With weights w (integers,
 * sum W over the datasets that take part), charges c (what their records have cost) and their sum C,
 * dataset i is not ahead of its share when c_i*W <= w_i*C. Of these, the one with the least
 * (c_i + cost of its next record) / w_i gives the next record; ties go to the first. So at every moment
 * each dataset is within one record of its share, ahead or behind, however many there are: this is
 * worst-case fair weighted fair queueing (WF2Q: Bennett, Zhang, 1996), with records for packets.
 */
#ifndef LK_CORE_SOURCE_H
#define LK_CORE_SOURCE_H

#include "core/plan.h"
#include "seq/seq.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_SLICES_MAX 8        /* planned ahead, per lane and dataset */
#define LK_SLICE_ROWS_MAX 1024
#define LK_DROP_REASONS 16     /* reasons are small numbers whose names the ops know; 0 = kept */

/* What measuring found out of one row. */
struct lk_row_measure {
    uint32_t tokens;     /* 0 when dropped */
    uint32_t text_bytes; /* at most LK_ROW_BYTES_MAX */
    uint8_t drop;        /* 0 = kept, else the reason */
};

/* Rows to be measured together: of one pass, in the order they will be drawn. They may be of several blocks. */
struct lk_slice {
    uint32_t dataset;
    uint64_t id;             /* rising per lane and dataset */
    uint32_t epoch;
    uint32_t n;
    uint64_t bytes;          /* stored, of all its rows */
    const uint64_t *rows;    /* [n] numbers in the dataset; valid until the slice is used up */
};

struct lk_dataset_counts {
    uint64_t rows;           /* drawn */
    uint64_t tokens;         /* in records given */
    uint64_t records;
    uint64_t dropped[LK_DROP_REASONS]; /* rows, by reason; [0] stays 0 */
};

/* A row that was drawn and dropped: for the list of them. */
struct lk_dropped {
    uint32_t dataset;
    uint8_t drop;
    uint64_t row;
};

struct source;

struct source *source_new(const struct lk_plan *plan, uint32_t lane);
void source_free(struct source *source);

/* The next record; SEQ_WANT: source_wanted says whose measurement is missing. */
enum seq_pull source_next(struct source *source, struct lk_item *ret_item, struct lk_err *err);
uint32_t source_wanted(const struct source *source);

/* Plans one more slice of @dataset, of at least one row, at most @max_bytes beyond it and @max_rows;
 * false when LK_SLICES_MAX are planned or the dataset has no more rows. */
bool source_plan(struct source *source, uint32_t dataset, uint64_t max_bytes, uint32_t max_rows,
                 struct lk_slice *ret_slice);
/* The slice whose rows come next; false when none is planned. */
bool source_front(const struct source *source, uint32_t dataset, uint64_t *ret_id);
uint32_t source_planned(const struct source *source, uint32_t dataset);       /* slices */
uint64_t source_planned_bytes(const struct source *source, uint32_t dataset); /* not yet drawn */
bool source_takes_part(const struct source *source, uint32_t dataset);
/* Its rows of all passes are drawn, and every one was dropped. Known as soon as the source has given a record
 * or ended, since it looks for the next record of every dataset before it does either. Never so of a dataset
 * that repeats: to draw nothing from that is an error. */
bool source_barren(const struct source *source, uint32_t dataset);
/* It repeats, and as many rows as it has were dropped in a row: source_next has said so, as an error. */
bool source_dry(const struct source *source, uint32_t dataset);

/* The measures of the first @n rows of a planned slice, in its order: of all, or of those before one that cannot be
 * measured, which is wanted for ever then. Late or repeated ones are ignored. */
void source_measured(struct source *source, uint32_t dataset, uint64_t id,
                     const struct lk_row_measure *rows, uint32_t n);

const struct lk_dataset_counts *source_counts(const struct source *source, uint32_t dataset);
uint32_t source_epoch(const struct source *source, uint32_t dataset);

/* Hands over the rows dropped since the last call (at most @max, oldest first); how many. */
uint32_t source_take_dropped(struct source *source, struct lk_dropped *ret_rows, uint32_t max);

/* Bytes it allocates at most, but for the list of dropped rows, which its reader keeps short. */
uint64_t source_bound(uint32_t datasets);

void source_save(const struct source *source, struct lk_buf *out);
void source_load(struct source *source, struct lk_reader *in); /* on a new one; sets in->bad */
void source_check(const struct source *source);

#endif
