/*
 * What the sections of a stream are read into before they are a recipe: a value may depend on keys
 * that stand further down in the file (groups name datasets, epochs have a stream-wide default).
 */
#ifndef LK_CONFIG_DRAFT_H
#define LK_CONFIG_DRAFT_H

#include "config/config.h"
#include "config/section.h"
#include "core/recipe.h"

#include <stdbool.h>

#define LK_BATCHES_MAX 4096 /* entries of a schedule */
#define LK_THEN_UNSAID 3u

struct lk_dataset_draft {
    struct lk_dataset_recipe recipe;
    uint64_t weight_nano; /* as written, times 1e9 */
    uint32_t epochs;      /* 0 = not said */
    unsigned then;        /* an enum lk_then, or LK_THEN_UNSAID */
    const struct lk_yaml *node;
};

struct lk_tokenizer_draft {
    bool bytes;
    char *hf, *vocab, *merges, *ranks, *scheme;
};

struct lk_stage_draft {
    struct lk_stage_recipe recipe;
    bool alone;                   /* pack: within a dataset */
    const struct lk_yaml *groups; /* pack: the list of groups, or NULL */
    const struct lk_yaml *node;
};

struct lk_stream_draft {
    struct lk_recipe recipe; /* its datasets and stages come last, from those below */
    struct lk_tokenizer_draft tokenizer;
    uint32_t epochs; /* for datasets that do not say; 0 = without end */
    uint32_t n_datasets;
    struct lk_dataset_draft *dataset;
    uint32_t n_stages;
    struct lk_stage_draft stage[LK_STAGES_MAX];
    struct lk_filter_recipe filter; /* the one being read */
    struct lk_stage_draft next;     /* likewise */
    const struct lk_yaml *node;
};

struct lk_root_draft {
    struct lk_config config;
};

/* Readers of keys that have a form of their own (rows of LK_KEY_OWN). */
lk_key_read lk_read_streams, lk_read_datasets, lk_read_batch, lk_read_pipeline, lk_read_within,
    lk_read_groups, lk_read_filter, lk_read_split, lk_read_shuffle, lk_read_pack, lk_read_listen,
    lk_read_address, lk_read_host_port;

/* The steps from a draft to a recipe; each fails at the place in the file that is to blame. */
enum lk_code lk_finish_datasets(struct lk_reading *r, struct lk_stream_draft *draft);
enum lk_code lk_finish_pipeline(struct lk_reading *r, struct lk_stream_draft *draft);
enum lk_code lk_finish_runtime(struct lk_reading *r, const struct lk_yaml *root,
                               struct lk_config *config);

/* Free what they hold, not themselves; safe on zeroed ones. */
void lk_dataset_recipe_done(struct lk_dataset_recipe *dataset);
void lk_filter_recipe_done(struct lk_filter_recipe *filter);
void lk_recipe_done(struct lk_recipe *recipe);

#endif
