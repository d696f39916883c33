/*
 * liblanekeeper: the client of lanekeeperd.
 *
 * A trainer connects as rank r of W, takes one batch a step, and stores 40 bytes in its checkpoint.
 *
 *     struct lanekeeper_options options;
 *     struct lanekeeper_error error;
 *     struct lanekeeper *lk;
 *     struct lanekeeper_batch batch;
 *
 *     lanekeeper_options_init(&options);
 *     options.address = "ipc:///run/lanekeeper.sock";
 *     options.rank = 0;
 *     options.world = 8;
 *     if (lanekeeper_connect(&options, &lk, &error) != LANEKEEPER_OK)
 *         die(error.text);
 *     while (lanekeeper_next(lk, &batch) == LANEKEEPER_OK) {
 *         train(batch.tokens, batch.rows, batch.sequence);
 *         lanekeeper_release(&batch);
 *     }
 *     lanekeeper_close(lk);
 *
 * DATA. A step is a global batch of N sequences of T tokens. Rank r of W gets the rows
 * [first_row, first_row + rows) of it; all ranks' cuts, in rank order, are the whole. Which rows make
 * a step depends on the stream and the step number alone: never on W, on timing, on restarts, or on
 * who asked before. Any step may be asked for, in any order, any number of times.
 *
 * THREADS. One thread at a time per handle; different handles are independent. A batch may be read
 * and released by any thread, also after its handle was closed. The library has no threads: it works
 * inside of calls, while what was asked for ahead comes to a socket by itself. (But while a call waits
 * for the address of a host's name, a thread of its own looks that up.) A forked child may connect anew,
 * but must leave its parent's handles and batches alone, and neither close nor release them.
 *
 * TIME. No call blocks longer than the handle's time-out, save lanekeeper_close (see there). While a
 * call waits, the library reconnects by itself: a daemon that is restarted costs time and nothing else.
 *
 * ERRORS. Every function that can fail returns a code with gRPC's name and number; the text for a
 * person is in lanekeeper_error_text. ret_ parameters are set on success only, save that batches are
 * always left in a state that lanekeeper_release accepts. Codes that any call may return:
 *
 *   INVALID_ARGUMENT     an argument is out of its range (the text says which, and the range)
 *   NOT_FOUND            the daemon serves no such stream (the text names those that it serves)
 *   DEADLINE_EXCEEDED    time is up; the text says what was waited for. Calling again goes on waiting
 *   CANCELLED            options.interrupted said so; likewise
 *   UNAVAILABLE          no daemon could be reached until time was up
 *   FAILED_PRECONDITION  the daemon serves another stream than the one this handle (or state) is of
 *                        (the text names both digests); or no step can be made, now or later, without
 *                        a change: a dataset yields no tokens, a row is malformed where the recipe says
 *                        on_bad_row: error, a row crashes every worker that takes it, the stream is
 *                        smaller than one global batch (the text names which)
 *   OUT_OF_RANGE         the stream ended before this step; the text says how many steps it has
 *   DATA_LOSS            the daemon found data damaged, or changed since it was indexed (the text names
 *                        it), or what it sent is malformed
 *   RESOURCE_EXHAUSTED   out of memory
 *   UNIMPLEMENTED        the daemon speaks another protocol version, or lacks the method
 */
#ifndef LANEKEEPER_H
#define LANEKEEPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LK_API __attribute__((visibility("default")))

enum lanekeeper_code {
    LANEKEEPER_OK = 0,
    LANEKEEPER_CANCELLED = 1,
    LANEKEEPER_UNKNOWN = 2,
    LANEKEEPER_INVALID_ARGUMENT = 3,
    LANEKEEPER_DEADLINE_EXCEEDED = 4,
    LANEKEEPER_NOT_FOUND = 5,
    LANEKEEPER_ALREADY_EXISTS = 6,
    LANEKEEPER_PERMISSION_DENIED = 7,
    LANEKEEPER_RESOURCE_EXHAUSTED = 8,
    LANEKEEPER_FAILED_PRECONDITION = 9,
    LANEKEEPER_ABORTED = 10,
    LANEKEEPER_OUT_OF_RANGE = 11,
    LANEKEEPER_UNIMPLEMENTED = 12,
    LANEKEEPER_INTERNAL = 13,
    LANEKEEPER_UNAVAILABLE = 14,
    LANEKEEPER_DATA_LOSS = 15,
    LANEKEEPER_UNAUTHENTICATED = 16
};

/* "OK", "DATA_LOSS", …; "?" for a number that is no code. Static storage. */
LK_API const char *lanekeeper_code_name(int code);

struct lanekeeper_error {
    enum lanekeeper_code code;
    char text[1024]; /* NUL-terminated */
};

struct lanekeeper; /* a connection: one rank of one stream */

enum lanekeeper_sharing {
    LANEKEEPER_SHARED_AUTO = 0, /* shared memory if the daemon is on this host, else the wire */
    LANEKEEPER_SHARED_NEVER = 1,
    LANEKEEPER_SHARED_ALWAYS = 2 /* UNAVAILABLE if it cannot be had */
};

#define LANEKEEPER_LOOKAHEAD_MAX 64

/* Strings and state are read by lanekeeper_connect only. */
struct lanekeeper_options {
    const char *address; /* "ipc:///path/of.sock" or "tcp://host:port" */
    const char *stream;  /* NULL or "": the only one that the daemon serves; "*": the first, whichever it
                          * is, for what is asked of no stream: lanekeeper_status */
    uint32_t rank;       /* 0 … world-1 */
    uint32_t world;      /* 1 … sequences of a step */
    uint64_t step;       /* where lanekeeper_next begins; not used with a state */
    uint32_t lookahead;  /* 0 … 64 steps asked for beyond the one that is used; costs the daemon a
                            batch of memory each */
    uint32_t timeout_ms; /* of every call, 1 … 86,400,000; 0 = 60,000 */
    enum lanekeeper_sharing sharing;
    const void *state;   /* of lanekeeper_state, to go on from; NULL: none */
    size_t state_bytes;
    /* Called at least ten times a second while a call waits, by the thread that called; not 0: the call
     * gives up, CANCELLED. It must not use the handle. NULL: none. */
    int (*interrupted)(void *context);
    void *context; /* for it */
};

/* Sets the defaults: rank 0 of 1, step 0, look-ahead 2, 60 s, shared memory if possible. */
LK_API void lanekeeper_options_init(struct lanekeeper_options *options);

/*
 * Connects, waiting for the daemon to come up if need be, and says hello.
 *
 * @error  may be NULL; else set on failure.
 * On success *ret_handle is for lanekeeper_close. A state of another stream is FAILED_PRECONDITION
 * naming both digests; one that is damaged is DATA_LOSS.
 */
LK_API enum lanekeeper_code lanekeeper_connect(const struct lanekeeper_options *options,
                                               struct lanekeeper **ret_handle,
                                               struct lanekeeper_error *error);

/*
 * Frees the handle; NULL is fine. Batches that were not released stay valid until they are.
 * Parting from the daemon takes a moment if it is well, and up to about a second if it is not,
 * whatever the handle's time-out.
 */
LK_API void lanekeeper_close(struct lanekeeper *handle);

/* What the last failed call on @handle says. Never NULL; valid until the next call on it. */
LK_API const char *lanekeeper_error_text(const struct lanekeeper *handle);

struct lanekeeper_info {
    uint8_t stream_digest[16]; /* identifies what every step is */
    uint8_t order_digest[16];  /* the same without the batch sizes */
    uint32_t sequence;         /* T, tokens of a sequence */
    uint32_t lanes;
    uint32_t vocab;            /* every token id is below it */
    uint32_t pad_id;           /* what fills the rest of a row */
    uint32_t datasets;
    uint32_t shared;           /* not 0: batches come through shared memory at present */
    uint64_t connections;      /* made so far: 1 + reconnects */
};
LK_API enum lanekeeper_code lanekeeper_info(struct lanekeeper *handle, struct lanekeeper_info *ret_info);

/* Name of dataset number @i as parts name it; NULL if there is none. Valid as long as the handle. */
LK_API const char *lanekeeper_dataset(const struct lanekeeper *handle, uint32_t i);

/* A row of a batch: one sequence. Its pieces are part[first_part … first_part + n_parts). */
struct lanekeeper_row {
    uint64_t digest_lo, digest_hi; /* of the row's tokens and bounds */
    uint32_t first_part;
    uint32_t n_parts;              /* 0: all of it is padding */
    uint32_t used;                 /* tokens that are data; the rest of the row is padding */
    uint32_t reserved;
};

/* A piece of a document, in token order: its tokens lie one after another from the row's start. */
struct lanekeeper_part {
    uint64_t row;     /* row of the dataset that the document is */
    uint32_t dataset; /* lanekeeper_dataset names it */
    uint32_t epoch;   /* pass over the dataset, from 0 */
    uint32_t first;   /* token of the document where the piece begins; 0: a document begins here */
    uint32_t tokens;
};

/*
 * A batch. All pointers are read-only, and valid until lanekeeper_release, whatever happens to the
 * daemon or the handle meanwhile. Do not copy the struct and release both.
 */
struct lanekeeper_batch {
    uint64_t step;
    uint32_t first_row;   /* number in the global batch of row 0 */
    uint32_t rows;        /* of this rank */
    uint32_t global_rows; /* N of this step */
    uint32_t sequence;    /* T */
    const uint32_t *tokens;             /* [rows][sequence], row-major, host byte order */
    const struct lanekeeper_row *row;   /* [rows] */
    const struct lanekeeper_part *part; /* [n_parts], indexed by row[].first_part */
    uint64_t n_parts;
    uint8_t digest[16];   /* of this cut; all ranks' digests add up (mod 2^128) to the step's */
    uint32_t shared;      /* not 0: in memory that the daemon shares, so hold it no longer than needed */
    void *owner;          /* of the library */
};

/*
 * The batch of the next step; the steps after it are asked for ahead of time.
 *
 * A batch counts as consumed once this returns it. After a failure the same step is next.
 */
LK_API enum lanekeeper_code lanekeeper_next(struct lanekeeper *handle, struct lanekeeper_batch *ret_batch);

/* The batch of any step, without moving what lanekeeper_next and lanekeeper_state count. */
LK_API enum lanekeeper_code lanekeeper_get(struct lanekeeper *handle, uint64_t step,
                                           struct lanekeeper_batch *ret_batch);

/* Gives the batch back. NULL, a zeroed batch, and a second time are fine. Any thread. */
LK_API void lanekeeper_release(struct lanekeeper_batch *batch);

enum lanekeeper_dtype { /* of a token */
    LANEKEEPER_U16 = 2, /* lanekeeper_copy_tokens only */
    LANEKEEPER_U32 = 4, /* the same */
    LANEKEEPER_I64 = 8,
    LANEKEEPER_I32 = 104 /* lanekeeper_training only */
};

/*
 * Copies the tokens, [rows][sequence], as @dtype into @out.
 *
 * @out_bytes  must be exactly rows × sequence × size of the type: INVALID_ARGUMENT otherwise.
 * A token that does not fit a u16 is OUT_OF_RANGE, and @out is then undefined.
 */
LK_API enum lanekeeper_code lanekeeper_copy_tokens(const struct lanekeeper_batch *batch,
                                                   enum lanekeeper_dtype dtype, void *out,
                                                   size_t out_bytes);

/*
 * What a training step is fed with, made of a batch: see lanekeeper_training.
 *
 * A piece is one part of a row (see struct lanekeeper_part); a border lies between two pieces, and where
 * the padding begins. Padding is what lies behind row.used, whatever its ids: a token that is data and has
 * the id of the padding is data.
 */
enum lanekeeper_labels {
    LANEKEEPER_LABELS_NONE = 0,
    LANEKEEPER_LABELS_SHIFTED = 1, /* label[i] is token[i + 1]; the last one of a row is ignored */
    LANEKEEPER_LABELS_SAME = 2     /* label[i] is token[i], for libraries that shift by themselves; the
                                      first one of a row, which nothing predicts, is ignored */
};

enum lanekeeper_borders {
    LANEKEEPER_BORDERS_MASKED = 0, /* what would have the first token of a piece predicted from the piece
                                      before it is ignored */
    LANEKEEPER_BORDERS_KEPT = 1    /* it counts; padding never does */
};

enum lanekeeper_positions {
    LANEKEEPER_POSITIONS_NONE = 0,
    LANEKEEPER_POSITIONS_PIECE = 1,    /* from 0 in each piece, also in one that goes on with a document
                                          begun in an earlier sequence: no position reaches T, and a 0 is
                                          where attention begins. Padding counts from 0, too */
    LANEKEEPER_POSITIONS_DOCUMENT = 2, /* from part.first in each piece: the token's place in its whole
                                          document, which may exceed T. Padding counts from 0 */
    LANEKEEPER_POSITIONS_ROW = 3       /* 0 … T-1 in each row */
};

enum lanekeeper_cu_seqlens {
    LANEKEEPER_CU_SEQLENS_NONE = 0,
    LANEKEEPER_CU_SEQLENS_FLAT = 1, /* over all rows, one behind the other: from 0 to rows × T */
    LANEKEEPER_CU_SEQLENS_ROWS = 2  /* for each row: from 0 to T, and T again up to the common length */
};

struct lanekeeper_training_options {
    enum lanekeeper_dtype dtype; /* of input_ids, labels, positions and document_ids: I32 or I64 */
    enum lanekeeper_labels labels;
    enum lanekeeper_borders borders;
    enum lanekeeper_positions positions;
    enum lanekeeper_cu_seqlens cu_seqlens;
    uint32_t loss_mask;    /* 0 or 1: is it wanted? */
    uint32_t document_ids; /* 0 or 1 */
    int64_t ignore_index;  /* the label of what does not count; must fit the dtype */
};

/* Sets the defaults: everything, I64, shifted labels, masked borders, positions from 0 in each piece, flat
 * cu_seqlens, and an ignore_index of -100. */
LK_API void lanekeeper_training_options_init(struct lanekeeper_training_options *options);

/* Read-only. What was not asked for is NULL. */
struct lanekeeper_training {
    uint32_t rows;
    uint32_t sequence;           /* T */
    enum lanekeeper_dtype dtype;
    uint32_t shared;             /* not 0: the daemon made labels, positions, document_ids, loss_mask and
                                    I64 input_ids, in memory that all processes of this cut look at */
    const void *input_ids;       /* [rows][T] of dtype; I32: the very tokens of the batch */
    const void *labels;          /* [rows][T] of dtype */
    const void *positions;       /* [rows][T] of dtype */
    const void *document_ids;    /* [rows][T] of dtype: number of the piece in its row, from 0; padding -1 */
    const uint8_t *loss_mask;    /* [rows][T]: 1 where the label counts, else 0. Without labels: as for
                                    shifted ones */
    const int32_t *cu_seqlens;   /* FLAT [n_cu_seqlens], ROWS [rows][n_cu_seqlens]: where pieces begin, and
                                    the end. A row's padding is a piece of its own, so nothing attends
                                    across it, and the last entry is the number of tokens there are */
    const int32_t *max_seqlens;  /* ROWS [rows]: tokens of the longest piece (or padding) of each row */
    uint32_t n_cu_seqlens;
    int32_t max_seqlen;          /* tokens of the longest piece (or padding) of all; 0 without cu_seqlens */
    uint64_t num_valid_tokens;   /* labels that count: the sum of the loss mask, wanted or not */
    void *owner;                 /* of the library */
};

/*
 * The arrays of @batch for a training step.
 *
 * @options  NULL: the defaults.
 * @error    may be NULL; else set on failure: INVALID_ARGUMENT (an option is out of its range, or
 *           rows × T does not fit the int32 of cu_seqlens), RESOURCE_EXHAUSTED.
 *
 * *ret_training is for lanekeeper_training_done, and valid until then, even if the batch is released or
 * the handle closed before; its lease on shared memory lasts until both are given back. On failure it is
 * zeroed.
 *
 * The handle remembers the options of the last call on one of its batches, and asks for the same with the
 * batches that it asks for from then on. Then the daemon makes the arrays once for all processes of the
 * node that ask for the same rows with the same options (tensor- and pipeline-parallel peers: same rank,
 * same world), and this function only points at them. Otherwise, so with the first batches, with a batch
 * that came over the wire, or when others made the daemon hold arrays of other options for this step, they
 * are made here, into memory of this process. What they hold is the same.
 *
 * A batch whose owner is NULL is one that the caller made, of copies for instance; its arrays are then the
 * caller's to keep as long as I32 input_ids are used, or slices are to be cut.
 *
 * Any thread, any number of times for a batch; not while another thread releases that batch.
 */
LK_API enum lanekeeper_code lanekeeper_training(const struct lanekeeper_batch *batch,
                                                const struct lanekeeper_training_options *options,
                                                struct lanekeeper_training *ret_training,
                                                struct lanekeeper_error *error);

enum lanekeeper_slice { /* which columns of every row context-parallel rank c of C gets */
    LANEKEEPER_SLICE_CONTIGUOUS = 0, /* [c × T/C, (c + 1) × T/C); T must be a multiple of C */
    LANEKEEPER_SLICE_ZIGZAG = 1      /* of 2C chunks number c and then number 2C-1-c, so that causal attention
                                        costs every rank the same (Megatron); T a multiple of 2C */
};

/*
 * The part of context-parallel rank @cp_rank of @cp_size: a copy, in memory of this process, for
 * lanekeeper_training_done and independent of @training, which is no slice itself. It is cut from whole rows, not from each document.
 *
 * Its sequence is T / cp_size, and num_valid_tokens counts its own labels: those of all ranks add up to the
 * whole. cu_seqlens, max_seqlens and max_seqlen are those of the whole rows, as ring attention needs them.
 * Shifted labels are right at the cuts, too: they were shifted before.
 *
 * @error  may be NULL. INVALID_ARGUMENT: a rank, a size or a kind out of range, or a T that does not divide;
 *         RESOURCE_EXHAUSTED. Then *ret_slice is zeroed. @ret_slice must not be @training.
 */
LK_API enum lanekeeper_code lanekeeper_training_slice(const struct lanekeeper_training *training,
                                                      uint32_t cp_rank, uint32_t cp_size,
                                                      enum lanekeeper_slice kind,
                                                      struct lanekeeper_training *ret_slice,
                                                      struct lanekeeper_error *error);

/* Gives the arrays back. NULL, a zeroed one, and a second time are fine. Any thread. */
LK_API void lanekeeper_training_done(struct lanekeeper_training *training);

#define LANEKEEPER_STATE_MAX 64 /* at present a state has 40 bytes; they begin with "LKC1" */
#define LANEKEEPER_CONSUMED UINT64_MAX

/*
 * What to store in a checkpoint: a step number and the stream's digest, the same on every rank.
 *
 * @step  the next step that the trainer will need, or LANEKEEPER_CONSUMED for the one after the last
 *        that lanekeeper_next returned. What was only fetched ahead never counts.
 * Never talks to the daemon.
 */
LK_API enum lanekeeper_code lanekeeper_state(struct lanekeeper *handle, uint64_t step,
                                             uint8_t ret_state[LANEKEEPER_STATE_MAX], size_t *ret_bytes);

/* Makes lanekeeper_next go on from a state. Another stream's is FAILED_PRECONDITION naming both
 * digests, a damaged one DATA_LOSS; the handle is then unchanged. */
LK_API enum lanekeeper_code lanekeeper_resume(struct lanekeeper *handle, const void *state,
                                              size_t state_bytes);

/* Makes lanekeeper_next go on at @step. */
LK_API enum lanekeeper_code lanekeeper_seek(struct lanekeeper *handle, uint64_t step);

/* The step of the next lanekeeper_next. */
LK_API uint64_t lanekeeper_step(const struct lanekeeper *handle);

/* How many sequences the steps before @step have, over all ranks; UINT64_MAX if that is more. Counted from
 * the batch schedule, so also beyond the end of a stream. Times info.sequence: tokens, with padding. */
LK_API uint64_t lanekeeper_sequences(const struct lanekeeper *handle, uint64_t step);

/*
 * Digests of whole steps [from, to): @ret_digests holds (to - from) × 16 bytes; at most 10,000 steps,
 * and none is fine. The daemon makes every one of these steps, which may take long: all must be done
 * within the handle's time-out, or the call begins anew the next time. After a failure @ret_digests is
 * undefined.
 */
LK_API enum lanekeeper_code lanekeeper_digest(struct lanekeeper *handle, uint64_t from, uint64_t to,
                                              uint8_t *ret_digests);

/* The daemon's status as JSON; for lanekeeper_free. */
LK_API enum lanekeeper_code lanekeeper_status(struct lanekeeper *handle, char **ret_json);

/* Where a piece of a step came from. Strings belong to the trace. */
struct lanekeeper_trace_part {
    const char *dataset;
    const char *shard;
    uint64_t row_in_shard;
    uint64_t row;      /* in the dataset */
    uint32_t sequence; /* row of the global batch */
    uint32_t at;       /* first token in it */
    uint32_t tokens;
    uint32_t epoch;
    uint32_t first;    /* token of the document where the piece begins */
};
struct lanekeeper_trace {
    size_t n;
    struct lanekeeper_trace_part *part;
    void *owner;
};

/* The pieces of rows [first_row, first_row + rows) of the global batch of @step; rows 0: to the end.
 * For lanekeeper_trace_done. */
LK_API enum lanekeeper_code lanekeeper_trace(struct lanekeeper *handle, uint64_t step,
                                             uint32_t first_row, uint32_t rows,
                                             struct lanekeeper_trace *ret_trace);
LK_API void lanekeeper_trace_done(struct lanekeeper_trace *trace); /* twice is fine */

LK_API void lanekeeper_free(void *text); /* what lanekeeper_status returned; NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
