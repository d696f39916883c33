/*
 * Scanning: one shard's bytes → where its rows lie. The work of indexing and of verifying.
 */
#ifndef LK_FORMAT_SCAN_H
#define LK_FORMAT_SCAN_H

#include "format/index.h"
#include "format/shard_jobs.h"

/* The part of an index that one shard makes. Zeroed = empty. */
struct lk_shard_scan {
    uint64_t file_bytes;
    uint64_t data_bytes;
    struct lk_digest content;
    uint64_t rows;
    uint32_t *row_bytes; /* [rows] */
    uint32_t *row_hash;  /* [rows] */
    uint64_t *granule;   /* [granules] offsets of every stride-th row */
    uint64_t granules;
    uint32_t stride;     /* LK_INDEX_GRANULE while all gaps between rows are equal, else 1 */
    uint32_t gap;        /* that gap; 1 when there are fewer than two rows; 0 with stride 1 */
};

void lk_shard_scan_done(struct lk_shard_scan *scan);

/* Reads one shard from end to end. CANCELLED when @work says that nobody wants the result. */
enum lk_code lk_shard_scan_run(const struct lk_shard_work *work, struct lk_opener opener,
                               const char *root, const char *name, enum lk_codec codec,
                               struct lk_shard_scan *ret_scan, struct lk_err *err);

#endif
