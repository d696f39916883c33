/*
 * The index file: what index_build.c writes and index.c reads.
 *
 * All numbers are little-endian. Sections follow each other without holes; every number of u32 and
 * u64 lies at a multiple of its size, so that readers use the arrays where they are.
 *
 *     0  8   magic "LKINDEX\n"
 *     8  4   version, 1
 *    12  4   rows between two stored offsets, LK_INDEX_GRANULE
 *    16  8   length of the file
 *    24  4   S: shards, 1…
 *    28  4   0
 *    32  8   R: rows, 1…
 *    40  8   G: stored offsets
 *    48  8   N: bytes of all names
 *    56 16   digest of the dataset (below)
 *    72      S × 80 bytes: shards in rising order of the bytes of their names
 *             0  4  length of the name, without its NUL
 *             4  4  codec: 0 plain, 1 gzip, 2 zstd
 *             8  4  stride: rows between two stored offsets; 64 when all rows are equally far
 *                   apart, otherwise 1
 *            12  4  gap: that distance, from one row's end to the next one's begin (1 with LF, 2 with
 *                   CR LF); 1 below two rows; 0 with stride 1
 *            16  8  bytes of the file as stored
 *            24  8  bytes of the data (the same for plain)
 *            32  8  number of its first row
 *            40  8  rows, 0…
 *            48  8  number of its first stored offset
 *            56 16  XXH3-128 of the data
 *            72  8  0
 *     …      R × 4  lengths of the rows
 *     …      R × 4  hashes of the rows: low half of XXH3-64
 *     …      G × 8  offsets in the data, of rows 0, stride, 2·stride… of each shard in turn
 *     …      N      names, each with a NUL, in the order of the shards; then NULs to a multiple of 8
 *     …     16      XXH3-128 of everything before
 *
 * The digest of the dataset is the XXH3-128 of "lanekeeper dataset 1\0" and, for each shard, its name
 * with its NUL, the codec (u32), the bytes of the data (u64), the rows (u64) and the XXH3-128 of the
 * data: what the rows are, and neither how well they were compressed nor how they are indexed.
 */
#ifndef LK_FORMAT_INDEX_LAYOUT_H
#define LK_FORMAT_INDEX_LAYOUT_H

#include "format/index.h"

#define LK_INDEX_MAGIC "LKINDEX\n"
#define LK_INDEX_VERSION 1u

enum {
    LK_INDEX_HEADER_BYTES = 72,
    LK_INDEX_SHARD_BYTES = 80,
    LK_INDEX_TRAILER_BYTES = 16,
};

struct lk_index_sizes {
    uint64_t shards, rows, granules, name_bytes;
};

/* Where the sections lie, and the length of all. Every size must be below 2^56. */
struct lk_index_layout {
    uint64_t row_bytes, row_hash, granule, names, trailer, end;
};

static inline struct lk_index_layout lk_index_layout_of(const struct lk_index_sizes *n)
{
    struct lk_index_layout at;
    at.row_bytes = LK_INDEX_HEADER_BYTES + n->shards * LK_INDEX_SHARD_BYTES;
    at.row_hash = at.row_bytes + 4 * n->rows;
    at.granule = at.row_hash + 4 * n->rows;
    at.names = at.granule + 8 * n->granules;
    at.trailer = at.names + ((n->name_bytes + 7) & ~7ull);
    at.end = at.trailer + LK_INDEX_TRAILER_BYTES;
    return at;
}

struct lk_digest lk_index_digest_of(const struct lk_index_shard *shards, uint32_t n);

#endif
