/*
 * The shards of a dataset as a store lists them: what the index is built from.
 */
#ifndef LK_BASE_DATASET_FILES_H
#define LK_BASE_DATASET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_SHARDS_MAX (1u << 24) /* of one dataset */

enum lk_codec { /* numbers are file format */
    LK_CODEC_PLAIN = 0,
    LK_CODEC_GZIP = 1, /* all members, as one stream */
    LK_CODEC_ZSTD = 2, /* all frames, skippable ones skipped */
    LK_CODECS
};

struct lk_dataset_files {
    char *root;           /* directory that the names are relative to */
    char **names;         /* '/'-separated, in strictly rising order of their bytes */
    enum lk_codec *codecs;
    uint64_t *bytes;      /* size of each when listed; may have changed since */
    uint32_t n;
    char **ignored;       /* files that are no shards, same order, relative to the root */
    uint32_t n_ignored;
};

void lk_dataset_files_done(struct lk_dataset_files *files); /* safe on a zeroed one */

/* Is @name that of a shard, and how is it stored? @ret_stem: length of the name without the
 * compression's suffix, so that x.jsonl and x.jsonl.gz have the same stem. */
bool lk_codec_of_name(const char *name, enum lk_codec *ret_codec, size_t *ret_stem);

const char *lk_codec_name(enum lk_codec codec); /* "plain", "gzip", "zstd" */

#endif
