/*
 * Sequencers: stateful, deterministic, serial operators on descriptors. Each is one file and one row
 * of the table in table.c. They pull: a stage asks the one before it for the next item, and hands out
 * one item of its own. Items are lists of spans: before `pack` a list of one (a record or a part of
 * it), after it a sequence.
 *
 * Purity: no I/O, no clock, no floating point, no randomness but from keys; memory is allocated, and
 * nothing else of the outside world is used. All state is in the struct and is saved exactly; nothing
 * is flushed before the end of the stream.
 */
#ifndef LK_SEQ_SEQ_H
#define LK_SEQ_SEQ_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A run of tokens of one record. The token ids themselves are nobody's business here. */
struct lk_span {
    uint64_t row;      /* number in the dataset */
    uint32_t dataset;
    uint32_t epoch;    /* pass of that dataset in this lane */
    uint32_t first;    /* first token of the record */
    uint32_t tokens;   /* 1… */
};

struct lk_item {
    const struct lk_span *span; /* [n] owned by the stage that gave it, valid until its next call */
    uint32_t n;
    uint32_t tokens;            /* sum over the spans */
};

enum seq_pull {
    SEQ_OK,    /* an item */
    SEQ_WANT,  /* the source waits for a measurement; call again later, nothing is lost */
    SEQ_END,   /* no more items, ever */
    SEQ_ERROR, /* see seq_input.err; the lane cannot go on */
};

/* Where a stage gets its items from, and what it counts. */
struct seq_input {
    enum seq_pull (*next)(void *self, struct lk_item *ret_item);
    void *self;
    struct seq_counts *counts;
    struct lk_err *err;
};

/* What happened to tokens, per lane, since position 0. Part of the saved state. */
struct seq_counts {
    uint64_t lost;        /* tokens dropped at the end of the stream (tail: drop) */
    uint64_t padded;      /* padding in sequences handed out */
    uint64_t cuts;        /* record borders that pack made inside records */
    uint64_t forced_cuts; /* of these, such as a record longer than the sequence makes necessary */
    uint64_t sequences;   /* handed out by pack */
};

/* What a span may refer to; checked when a state is loaded. Borrowed. */
struct seq_bounds {
    uint32_t datasets;
    const uint64_t *rows; /* [datasets] how many each has; NULL: any */
};

struct seq_params {
    uint32_t sequence;    /* tokens */
    uint32_t max_tokens;  /* split */
    uint32_t buffer;      /* shuffle */
    uint32_t pool;        /* pack: bins or waiting records, per group */
    uint32_t groups;      /* pack */
    const uint32_t *group_of; /* [datasets] homogeneity group; borrowed */
    bool best;            /* fit: best_fit rather than first_fit */
    bool pad_tail;        /* pack: hand out the last, short sequences rather than drop them */
    bool packed;          /* shuffle: of sequences, after pack, rather than of records */
    uint64_t key;         /* shuffle: of this lane and stage */
    struct seq_bounds bounds;
};

struct seq_ops {
    const char *name;
    size_t size;
    void (*init)(void *stage, const struct seq_params *params); /* stage is zeroed */
    void (*done)(void *stage);                                  /* safe on a zeroed one */
    /* Pulls from @in as needed and sets @ret_item on SEQ_OK. After SEQ_WANT the same call continues. */
    enum seq_pull (*next)(void *stage, struct seq_input *in, struct lk_item *ret_item);
    uint64_t (*waiting)(const void *stage);                     /* tokens it holds */
    void (*save)(const void *stage, struct lk_buf *out);
    void (*load)(void *stage, struct lk_reader *in);            /* on an initialised one; sets in->bad */
    void (*check)(const void *stage);                           /* every invariant, by LK_CHECK */
    uint64_t (*bound)(const struct seq_params *params);         /* bytes it allocates at most */
};

enum seq_kind { SEQ_SPLIT, SEQ_SHUFFLE, SEQ_CONCAT, SEQ_FIT, SEQ_EXACT, SEQ_KINDS };
extern const struct seq_ops *const seq_table[SEQ_KINDS];

extern const struct seq_ops seq_split, seq_shuffle, seq_concat, seq_fit, seq_exact;

/* Spans as bytes: shared by the stages' save and load. */
void seq_put_span(struct lk_buf *out, const struct lk_span *span);
bool seq_get_span(struct lk_reader *in, const struct seq_bounds *bounds, struct lk_span *ret_span);

/* The first @tokens of @span; and takes them off it. @tokens < span->tokens. */
struct lk_span seq_take(struct lk_span *span, uint32_t tokens);

#endif
