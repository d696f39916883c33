/*
 * The recipe: everything that may change data, and nothing else. Read from YAML by config/, hashed
 * into the order digest (what lanes produce) and, with the batch schedule, the stream digest (what
 * a step is). Runtime settings (workers, budgets, addresses) are not here on purpose.
 *
 * All strings are NUL-terminated UTF-8 owned by the recipe. The bounds of numbers stand below.
 */
#ifndef LK_CORE_RECIPE_H
#define LK_CORE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

/* Bounds of a recipe; config/ checks them, the core asserts them. */
#define LK_LANES_MAX 4096
#define LK_DATASETS_MAX 4096
#define LK_SEQUENCE_MAX (1u << 20)    /* tokens */
#define LK_BATCH_MAX (1u << 16)       /* sequences a step */
#define LK_STAGES_MAX 8
#define LK_FILTERS_MAX 16
#define LK_BUFFER_MAX (1u << 20)      /* records or sequences a stage may hold, per lane */
#define LK_WEIGHT_SUM_MAX (1ull << 32) /* sum of the reduced integer weights of a stream */
#define LK_RECORD_TOKENS_MAX (1u << 30)

enum lk_mixture_unit { /* what the mixture's shares are counted in */
    LK_MEASURE_TOKENS,
    LK_MEASURE_BYTES,
    LK_MEASURE_SAMPLES,
};

enum lk_then { /* what happens when a lane has drawn the dataset's last pass */
    LK_THEN_REPEAT,  /* next pass; the default */
    LK_THEN_STOP,    /* the lane ends */
    LK_THEN_RELEASE, /* the other datasets share what it had */
};

struct lk_dataset_recipe {
    char *name;      /* [A-Za-z0-9._-]{1,64}; keys the permutation */
    char *path;      /* resolved against the configuration's folder: runtime, not hashed */
    char *text;      /* dotted field path */
    uint64_t weight; /* reduced integer, 1…; datasets of weight 0 are left out by config/ */
    uint32_t epochs; /* passes before @then applies; 0 with LK_THEN_REPEAT only */
    enum lk_then then;
    uint32_t group;  /* homogeneity group for `pack: within`, 0… */
};

enum lk_tokenizer_source {
    LK_TOKENISE_BYTES,
    LK_TOKENISE_HF,
    LK_TOKENISE_PAIR,
    LK_TOKENISE_TIKTOKEN,
};

enum lk_specials { /* the text of a special token inside a document … */
    LK_SPECIALS_SPLIT, /* … becomes that token */
    LK_SPECIALS_TEXT,  /* … is text like any other */
    LK_SPECIALS_ERROR, /* … makes its row malformed */
};

struct lk_tokenizer_recipe {
    enum lk_tokenizer_source source;
    char *path;    /* tokenizer.json, vocab.json of a pair, or a .tiktoken file; NULL for bytes */
    char *merges;  /* of a pair */
    char *scheme;  /* of a .tiktoken file: which pattern and special tokens go with its ranks */
    char *append;  /* token put after each document: "eos", a token's text, or NULL for none */
    char *prepend; /* token put before each document, likewise */
    enum lk_specials special_in_text;
};

struct lk_filter_recipe {      /* a row passes when all that is set holds */
    uint64_t min_bytes, max_bytes;   /* of the text; 0 and UINT64_MAX = not set */
    uint64_t min_tokens, max_tokens; /* with prepended and appended tokens */
    char *field;                     /* equality: dotted path … */
    char *equals;                    /* … and the text it must have; NULL = not set */
};

enum lk_on_bad { LK_BAD_ERROR, LK_BAD_DROP }; /* malformed rows, missing or non-string fields */

enum lk_stage_kind { LK_STAGE_SPLIT, LK_STAGE_SHUFFLE, LK_STAGE_PACK };
enum lk_pack { LK_PACK_CONCAT, LK_PACK_FIRST_FIT, LK_PACK_BEST_FIT, LK_PACK_EXACT_FIT };

struct lk_stage_recipe {
    enum lk_stage_kind kind;
    uint32_t max_tokens;    /* split: 1…LK_SEQUENCE_MAX */
    uint32_t buffer;        /* shuffle: records (before pack) or sequences (after) held, 2… */
    enum lk_pack algorithm; /* pack */
    uint32_t pool;          /* pack: open bins (first_fit, best_fit) or waiting records (exact_fit), per group */
    uint32_t groups;        /* pack: how many homogeneity groups there are, 1… */
};

struct lk_batch_recipe {
    uint64_t from;  /* first step with this size; the first entry's is 0, then strictly rising */
    uint32_t size;  /* sequences a step, a multiple of lanes */
};

enum lk_tail { LK_TAIL_DROP, LK_TAIL_PAD };

struct lk_recipe {
    char *name; /* of the stream */
    uint64_t seed;
    uint32_t lanes;
    uint32_t sequence; /* tokens */
    struct lk_tokenizer_recipe tokenizer;
    uint32_t n_datasets;
    struct lk_dataset_recipe *dataset;
    enum lk_mixture_unit mixture;

    uint32_t block_rows;  /* 1…; 0 = a whole shard is one block */
    bool permute_blocks;
    bool permute_rows;    /* rows inside a block */

    enum lk_on_bad on_bad_row;
    bool drop_crashing;   /* a row that kills workers: drop it (named, counted) or stop the stream */
    uint32_t n_filters;
    struct lk_filter_recipe filter[LK_FILTERS_MAX];
    uint32_t n_stages;    /* exactly one is LK_STAGE_PACK */
    struct lk_stage_recipe stage[LK_STAGES_MAX];

    enum lk_tail tail;    /* end of a finite stream */
    uint32_t pad_id;      /* value of padding tokens */
    uint32_t n_batches;   /* 1… */
    struct lk_batch_recipe *batch;
};

#endif
