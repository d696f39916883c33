/*
 * The index of a dataset: which shards it has, where their rows lie, and what they hash to.
 *
 * It is made once (`lanekeeper index`), is small, and is all that serving needs to know before it
 * reads a row. It depends on the bytes of the data and their names below the dataset's root alone:
 * not on where the root lies, on time stamps, on directory order, locale or parallelism.
 *
 * Shards are ordered by the bytes of their relative names. A row is a record of a shard; rows are
 * numbered from 0 over the whole dataset in shard order. What is a row is decided by the format: in
 * JSONL, every line that is not blank.
 */
#ifndef LK_FORMAT_INDEX_H
#define LK_FORMAT_INDEX_H

#include "base/digest.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_INDEX_GRANULE 64               /* rows between two stored offsets */
#define LK_ROW_BYTES_MAX (1u << 30)       /* a longer row is refused when indexing, naming it */

enum lk_codec {
    LK_CODEC_PLAIN,
    LK_CODEC_GZIP, /* all members, as one stream */
    LK_CODEC_ZSTD, /* all frames, skippable ones skipped */
};

struct lk_index_shard {
    const char *name;     /* relative to the root, '/'-separated */
    enum lk_codec codec;
    uint64_t file_bytes;  /* as stored */
    uint64_t data_bytes;  /* after decompression; equals file_bytes for plain */
    uint64_t first_row;
    uint64_t rows;
    struct lk_digest content; /* XXH3-128 of the data bytes (decompressed) */
};

/* An open index: a read-only mapping. All pointers are valid until lk_index_close. */
struct lk_index {
    uint32_t shards;
    struct lk_index_shard *shard;
    uint64_t rows;
    const uint32_t *row_bytes;  /* [rows] length of each row's bytes, line end excluded */
    const uint32_t *row_hash;   /* [rows] lk_hash32 of those bytes */
    struct lk_digest digest;    /* of the dataset: enters the order digest */
    const char *path;           /* of the index file */
    const void *map;
    size_t map_bytes;
    const uint64_t *granule;    /* private: offsets of every LK_INDEX_GRANULE-th row of each shard */
};

struct lk_row_place {
    uint32_t shard;
    uint64_t row_in_shard;
    uint64_t offset; /* in the shard's data bytes */
    uint32_t bytes;
    uint32_t hash;
};

/* Every field is checked against every other before it returns: an index that contradicts itself is
 * DATA_LOSS naming the field, what was expected and what was found. NOT_FOUND says how to make one. */
enum lk_code lk_index_open(const char *path, struct lk_index *ret_index, struct lk_err *err);
void lk_index_close(struct lk_index *index); /* safe on a zeroed one */

/* @row < index->rows. Cost: one binary search over shards, at most 63 additions. */
struct lk_row_place lk_index_place(const struct lk_index *index, uint64_t row);

/* Progress of a long job: called from one thread at a time, a few times a second at most. */
struct lk_progress {
    void (*report)(void *owner, uint64_t done_bytes, uint64_t all_bytes, uint64_t rows);
    void *owner; /* report may be NULL */
};

struct lk_index_build {
    const char *root;     /* directory, one file, or a glob ("data/docs/X.jsonl" with a star): see lk_dataset_list */
    const char *out;      /* index file to write: temporary name, fsync, rename, fsync of directory */
    unsigned threads;     /* 1…; does not change a byte of the result */
    struct lk_progress progress;
};

/* Errors name shard, row and byte. Nothing is left under the final name unless all of it is good. */
enum lk_code lk_index_build(const struct lk_index_build *build, struct lk_index *ret_index,
                            struct lk_err *err);

/* Reads all data again and compares every row; the first difference is DATA_LOSS naming shard and
 * row. Also names shards that were added, removed or changed in size. */
enum lk_code lk_index_verify(const struct lk_index *index, const char *root, unsigned threads,
                             struct lk_progress progress, struct lk_err *err);

/* Cheap check at start: every shard is there and has the size that the index says. */
enum lk_code lk_index_check_files(const struct lk_index *index, const char *root,
                                  struct lk_err *err);

#endif
