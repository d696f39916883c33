/*
 * What a seed makes, as plain data: recipes, and the data that they draw from. The oracle knows this and
 * nothing else; fake_stream.c turns it into what the server calls a recipe. Names of the fields are those
 * of server/core/ORDER.md.
 */
#ifndef LK_SIM_RECIPE_H
#define LK_SIM_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_DATASETS_MAX 6
#define SIM_SHARDS_MAX 8
#define SIM_STAGES_MAX 5
#define SIM_BATCHES_MAX 4
#define SIM_NO_ROW UINT64_MAX

enum sim_then { SIM_REPEAT, SIM_STOP, SIM_RELEASE };
enum sim_unit { SIM_TOKENS, SIM_BYTES, SIM_SAMPLES };
enum sim_stage_kind { SIM_SPLIT, SIM_SHUFFLE, SIM_CONCAT, SIM_FIRST_FIT, SIM_BEST_FIT, SIM_EXACT_FIT };

/* How many tokens rows have. */
enum sim_shape {
    SIM_EQUAL,     /* all @most */
    SIM_UNIFORM,   /* 1…most */
    SIM_SKEWED,    /* mostly short, a few up to most */
    SIM_NEAR,      /* most-1, most or most+1: around the sequence */
    SIM_GIANT,     /* short, and one of 30 times as many */
    SIM_SHAPES
};

struct sim_dataset {
    char name[24];
    uint64_t weight;
    uint32_t epochs;
    enum sim_then then;
    uint32_t group;
    uint32_t shards;
    uint32_t shard_rows[SIM_SHARDS_MAX];
    uint64_t rows;
    /* The data. */
    uint64_t key;
    enum sim_shape shape;
    uint32_t most;
    uint32_t drops;         /* rows of 1000 that are dropped */
    uint32_t stored;        /* a row has 1…stored bytes in its shard */
    uint64_t fatal;         /* a row that cannot be measured; SIM_NO_ROW: none … */
    uint32_t fatal_code;    /* … and the status that says so */
    uint32_t vocab;
};

struct sim_stage {
    enum sim_stage_kind kind;
    uint32_t max_tokens, buffer, pool;
};

struct sim_batch {
    uint64_t from;
    uint32_t size;
};

struct sim_recipe {
    char name[24];
    uint64_t seed;
    uint32_t lanes, sequence;
    enum sim_unit mixture;
    uint32_t n_datasets;
    struct sim_dataset dataset[SIM_DATASETS_MAX];
    uint32_t block_rows;    /* 0: a shard */
    bool permute_blocks, permute_rows;
    uint32_t groups;
    uint32_t n_stages;
    struct sim_stage stage[SIM_STAGES_MAX];
    bool pad_tail;
    uint32_t pad_id;
    uint32_t n_batches;
    struct sim_batch batch[SIM_BATCHES_MAX];
    uint64_t horizon;       /* steps below it are asked for */
};

/* What measuring a row yields: a pure function of the dataset and the row. */
struct sim_row {
    uint32_t tokens;        /* 0 when dropped */
    uint32_t text_bytes;
    uint8_t drop;           /* 0: kept, else a reason */
    bool fatal;
};
struct sim_row sim_row(const struct sim_dataset *dataset, uint64_t row);
uint32_t sim_row_stored(const struct sim_dataset *dataset, uint64_t row); /* bytes in its shard */
uint32_t sim_token(const struct sim_dataset *dataset, uint64_t row, uint32_t i);

#endif
