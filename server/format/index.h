/*
 * The index of a dataset: which shards it has, where their rows lie, and what they hash to.
 *
 * It is made once (`lanekeeper index`), is small (8 bytes a row and a little), and is all that
 * serving needs to know before it reads a row. It depends on the bytes of the data and their names
 * below the dataset's root alone: not on where the root lies, on time stamps, on directory order,
 * locale or parallelism.
 *
 * Shards are ordered by the bytes of their relative names. A row is a record of a shard; rows are
 * numbered from 0 over the whole dataset in shard order. What is a row is decided by the format: in
 * JSONL, every line that is not blank (format/jsonl.h).
 */
#ifndef LK_FORMAT_INDEX_H
#define LK_FORMAT_INDEX_H

#include "base/dataset_files.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/opener.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_INDEX_GRANULE 64               /* rows between two stored offsets */
#define LK_ROW_BYTES_MAX (1u << 30)       /* a longer row is refused when indexing, naming it */
#define LK_INDEX_MAP_MIN (64u << 20)      /* index files from this size on are mapped */

struct lk_index_shard {
    const char *name;     /* relative to the root, '/'-separated, without ".." */
    enum lk_codec codec;
    uint64_t file_bytes;  /* as stored */
    uint64_t data_bytes;  /* after decompression; equals file_bytes for plain */
    uint64_t first_row;
    uint64_t rows;        /* may be 0 */
    struct lk_digest content; /* XXH3-128 of the data bytes (decompressed) */
    uint64_t first_granule;   /* private, like the next two */
    uint32_t stride;          /* rows between two stored offsets: LK_INDEX_GRANULE or 1 */
    uint32_t gap;             /* bytes between two rows when stride is not 1 */
};

/* An open index. All pointers are valid until lk_index_close; immutable, may be shared by threads. */
struct lk_index {
    uint32_t shards;            /* 1… */
    struct lk_index_shard *shard;
    uint64_t rows;              /* 1… */
    const uint32_t *row_bytes;  /* [rows] length of each row's bytes, line end excluded; 1… */
    const uint32_t *row_hash;   /* [rows] lk_hash32 of those bytes */
    struct lk_digest digest;    /* of the dataset: enters the order digest */
    const char *path;           /* of the index file */
    const void *map;            /* private: its bytes, */
    size_t map_bytes;           /*          how many, */
    bool mapped;                /*          and whether they are a mapping or memory */
    const uint64_t *granule;    /* private: offsets of every stride-th row of each shard */
};

struct lk_row_place {
    uint32_t shard;
    uint64_t row_in_shard;
    uint64_t offset; /* in the shard's data bytes */
    uint32_t bytes;
    uint32_t hash;
};

/*
 * Every field is checked against every other before it returns: an index that contradicts itself is
 * DATA_LOSS naming the field, what was expected and what was found. NOT_FOUND says how to make one.
 *
 * A file below LK_INDEX_MAP_MIN is read into memory, so nothing can change it any more. A larger one
 * is mapped: shared by all processes of a host, but whoever truncates it in place kills its readers.
 * `lanekeeper index` never does; it replaces files by name.
 */
enum lk_code lk_index_open(const char *path, struct lk_index *ret_index, struct lk_err *err);
void lk_index_close(struct lk_index *index); /* safe on a zeroed one */

/* The same from bytes in memory, whose contents it takes (@bytes is empty afterwards, also on
 * failure). @name stands for the path. */
enum lk_code lk_index_of_bytes(const char *name, struct lk_buf *bytes, struct lk_index *ret_index,
                               struct lk_err *err);

/* @row < index->rows. Cost: one binary search over shards, at most 63 additions. */
struct lk_row_place lk_index_place(const struct lk_index *index, uint64_t row);
/* The same without the search: @row is one of @shard's. */
struct lk_row_place lk_index_place_in(const struct lk_index *index, uint32_t shard, uint64_t row);

/* Progress of a long job: called in the thread that called the job, about five times a second and
 * once at the end. Bytes are those of the files as stored. */
struct lk_progress {
    void (*report)(void *owner, uint64_t done_bytes, uint64_t all_bytes, uint64_t rows);
    void *owner; /* report may be NULL */
};

#define LK_INDEX_THREADS_MAX 256

struct lk_index_build {
    const struct lk_dataset_files *files; /* the store's listing; order is not trusted, but checked */
    struct lk_opener opener;
    unsigned threads;                     /* 1…; does not change a byte of the result */
    struct lk_progress progress;
};

/*
 * The bytes of the index file of a dataset; the caller writes them (store: lk_file_write_atomic).
 * Memory: about 20 bytes a row, and per thread 2 MiB (with zstd up to 128 MiB more: the window).
 * Errors name shard, line and byte; when several shards are bad, it is the first one in order,
 * whatever the parallelism. A dataset without rows is FAILED_PRECONDITION.
 */
enum lk_code lk_index_build(const struct lk_index_build *build, struct lk_buf *ret_bytes,
                            struct lk_err *err);

/* Reads all data again and compares every row; the first difference is DATA_LOSS naming shard and
 * row. Before that, shards that were added, removed or changed in size are named. @build as for
 * lk_index_build. */
enum lk_code lk_index_verify(const struct lk_index *index, const struct lk_index_build *build,
                             struct lk_err *err);

/* Does a listing have the very shards of the index, each in its size? DATA_LOSS names those that were
 * added, removed or changed in size. Reads nothing. */
enum lk_code lk_index_check_listing(const struct lk_index *index,
                                    const struct lk_dataset_files *files, struct lk_err *err);

/* Cheap check at start where there is no listing: every shard is there and has the size that the index says; else DATA_LOSS
 * or NOT_FOUND naming the first one that differs. Opens each shard once. */
enum lk_code lk_index_check_files(const struct lk_index *index, const char *root,
                                  struct lk_opener opener, struct lk_err *err);

#endif
