/*
 * An opened stream: the recipe with everything it refers to, read and checked: the datasets' indexes,
 * the tokenizer, the plan, and the digests that name what comes out. Immutable once opened. Daemon and
 * offline tools begin here.
 */
#ifndef LK_HOST_STREAM_H
#define LK_HOST_STREAM_H

#include "base/digest.h"
#include "config/config.h"
#include "core/plan.h"
#include "format/index.h"
#include "op/tokenise/open.h"

#include <stdbool.h>
#include <stdint.h>

struct stream {
    const struct lk_recipe *recipe;   /* borrowed from the configuration */
    uint32_t number;                  /* in the configuration */
    struct lk_index *index;           /* [n_datasets] */
    char **root;                      /* [n_datasets] directory of the shards */
    struct lk_shape *shape;           /* [n_datasets] */
    uint64_t **shard_first;           /* [n_datasets][shards + 1] */
    struct lk_plan plan;
    struct lk_tokenizer *tokenizer;
    bool has_append, has_prepend;
    uint32_t append, prepend;
    struct lk_digest order, digest;   /* order digest; stream digest */
    struct lk_digest *ops;            /* [n_datasets] how rows are measured: see config/canonical.h */
    uint32_t batch_max;               /* sequences of the largest step */
    bool finite;                      /* some lane may end */
};

/* Errors name what is missing or wrong and how to mend it ("run `lanekeeper index CONFIG`"). */
enum lk_code stream_open(const struct lk_config *config, uint32_t number, struct stream *ret_stream,
                         struct lk_err *err);
void stream_done(struct stream *stream); /* safe on a zeroed one */

/* The index of one of its datasets, opened; the error names the command that makes it. */
enum lk_code stream_index(const struct lk_config *config, const struct lk_dataset_recipe *dataset,
                          struct lk_index *ret_index, struct lk_err *err);

/* Makes the shape of dataset @d, and its table of shards, of its index; in shape.c. */
void stream_shape(struct stream *stream, uint32_t d);

/* What part of the mixture dataset @d is, for people: its weight over the sum of all. */
static inline double stream_share(const struct stream *stream, uint32_t d)
{
    uint64_t weights = 0;
    for (uint32_t i = 0; i < stream->recipe->n_datasets; i++)
        weights += stream->recipe->dataset[i].weight;
    return (double)stream->recipe->dataset[d].weight / (double)weights;
}

/* The stream as a pool of workers needs to know it: borrows from it. */
struct pool_stream;
void stream_for_pool(const struct stream *stream, struct pool_stream *ret_stream);

/* Bytes of decoded shards that one worker may hold. */
uint64_t stream_worker_cache(const struct lk_runtime *runtime);

/* A shard that no worker can hold decoded would never be read: FAILED_PRECONDITION names it, and both
 * sizes. */
enum lk_code stream_check_cache(const struct stream *stream, const struct lk_runtime *runtime,
                                struct lk_err *err);

/* A recipe's words for a kind of tokenizer, and for what special tokens in text are, in the ops' terms. */
enum lk_tokenizer_kind stream_tokenizer_kind(enum lk_tokenizer_source source);
enum lk_special_in_text stream_special_in_text(enum lk_specials specials);

/* Where its files lie, and how it is to read them; borrowed from the recipe. */
struct lk_tokenizer_paths stream_tokenizer_paths(const struct lk_tokenizer_recipe *recipe);

/* The tokenizer that a recipe asks for, and the ids of its appended and prepended tokens. */
enum lk_code stream_tokenizer(const struct lk_recipe *recipe, struct lk_tokenizer **ret_tokenizer,
                              struct lk_err *err);

#endif
