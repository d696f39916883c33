/*
 * Indexing or verifying one dataset: what `lanekeeper index` does for each.
 */
#ifndef LK_CLIENT_CLI_INDEX_DATASET_H
#define LK_CLIENT_CLI_INDEX_DATASET_H

#include "base/digest.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_index_options {
    unsigned threads; /* 1… */
    bool verify;      /* hold the index against the data instead of making it */
};

struct lk_index_result {
    uint32_t shards;
    uint64_t rows;
    uint64_t file_bytes; /* of all shards, as stored */
    uint64_t data_bytes; /* decompressed */
    uint64_t nanoseconds;
    struct lk_digest digest;
};

/*
 * Makes the index @out of the shards that @paths mean (a directory, a glob, a file, or several files
 * of one directory), or verifies it. @out appears as a whole or not at all; its directory is made.
 * What was ignored and how far it has come are written to standard error.
 */
enum lk_code lk_index_dataset(const char *const *paths, uint32_t n, const char *out,
                              const struct lk_index_options *options,
                              struct lk_index_result *ret_result, struct lk_err *err);

#endif
