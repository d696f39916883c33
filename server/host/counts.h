/*
 * The counts cache: what measuring rows found out, kept in files (store/counts.h), so that lanes may run
 * over rows that were measured once without touching the data. It only saves time: a file that is damaged,
 * missing or of another way of measuring is not used, and its rows are measured again.
 *
 * One file a shard and way of measuring, in one folder that daemons and machines may share without locks:
 * a writer reads the file anew, adds what it knows and replaces it as a whole. Two that do so at once may
 * lose each other's news, no more. A thread of its own writes, at most a fiftieth of the time. What is
 * given to be kept is found again when it has been written.
 *
 * All but the writer runs on the caller's thread.
 */
#ifndef LK_HOST_COUNTS_H
#define LK_HOST_COUNTS_H

#include "base/digest.h"
#include "base/status.h"
#include "format/index.h"
#include "host/log.h"
#include "store/counts.h"

#include <stdbool.h>
#include <stdint.h>

struct counts;
struct counts_set; /* a dataset, measured in one way */

struct counts_config {
    const char *dir;       /* made when missing and @write */
    uint64_t disk_bytes;   /* of all files; the oldest are removed beyond it */
    uint64_t memory_bytes; /* of everything here */
    bool write;            /* else what is given is not kept */
    bool eager;            /* for who does nothing but fill it: writes more often, and where there is no room for a
                            * count, waits for the writer rather than drop it */
    const struct log *log;
};

/* Strings are borrowed. Fails only when the folder cannot be made. */
enum lk_code counts_open(const struct counts_config *config, struct counts **ret_counts,
                         struct lk_err *err);
void counts_close(struct counts *counts); /* writes what is not written; NULL is fine */

/* The set of a dataset: the same for all who ask with the same @ops and index digest. @name stands for it
 * in the log. @index must outlive the cache. */
struct counts_set *counts_set(struct counts *counts, struct lk_digest ops,
                              const struct lk_index *index, const char *name);

/* The counts of rows @row [n]. False: not all are known, and *ret_count is undefined. May read files: where rows of
 * a shard follow each other, one. */
bool counts_get(struct counts_set *set, const uint64_t *row, uint32_t n, struct lk_count *ret_count);

/* So many rows, found, need not be measured. For the statistics. */
void counts_used(struct counts_set *set, uint32_t rows);

/* The counts of the rows of one block of a shard, as the files know them; the others are zeroed. */
void counts_block(struct counts_set *set, uint32_t shard, uint32_t b,
                  struct lk_count ret_row[static LK_COUNTS_BLOCK]);

/* Keeps a row's count, as it was measured. One that contradicts what is kept replaces it, and is named in
 * the log. When there is no room it is dropped, unless who fills it is eager. */
void counts_put(struct counts_set *set, uint64_t row, struct lk_count count);

/* The same of a row whose kept count has been used, and was found to be wrong by that: it is a doubt, whatever is
 * kept by now, and the file is read if need be, so that the wrong one is not used again. */
void counts_correct(struct counts_set *set, uint64_t row, struct lk_count count);

/* Grows whenever a count that was kept turns out to be wrong: in counts_put or counts_correct, or when the writer
 * comes upon the file, which nobody may have read; then what was read of it is forgotten here. What it was used for by
 * then is not known here. */
uint64_t counts_doubts(struct counts_set *set);

/* To be called now and then: gives the writer what is due. */
void counts_work(struct counts *counts);
/* Gives the writer all there is, and waits for it. */
void counts_flush(struct counts *counts);

/* Rows that the files know. Reads all of them. */
uint64_t counts_known(struct counts_set *set);

struct counts_stats {
    uint64_t used;      /* rows whose counts were found */
    uint64_t kept;      /* rows written that no file knew */
    uint64_t dropped;   /* rows not kept, for lack of room */
    uint64_t wrong;     /* rows that contradicted what was kept */
    uint64_t written, bytes; /* files, and their bytes */
    uint64_t failed;    /* files not written */
    uint64_t damaged;   /* files found damaged */
    uint64_t removed;   /* files removed, to stay within disk_bytes */
    uint64_t waiting;   /* rows not written yet */
    uint64_t memory;    /* bytes */
};
void counts_stats(struct counts *counts, struct counts_stats *ret_stats);

/* Checks one file: name, checksums. For `lanekeeper verify`. */
enum lk_code counts_check(const char *path, uint64_t *ret_rows, uint64_t *ret_known,
                          struct lk_err *err);

#endif
