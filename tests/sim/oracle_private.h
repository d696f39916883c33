/* What the files of the oracle share: oracle_source.c (keys, blocks, mixing), oracle_stages.c (sequencers),
 * oracle.c (lanes, steps, digests). */
#ifndef LK_SIM_ORACLE_PRIVATE_H
#define LK_SIM_ORACLE_PRIVATE_H

#include "oracle.h"

uint64_t oracle_key(uint64_t parent, uint64_t i);
uint64_t oracle_below(uint64_t random, uint64_t n);
uint64_t oracle_stage_key(const struct sim_recipe *recipe, uint32_t stage, uint32_t lane);

/* Where a lane is in the rows of a dataset. */
struct oracle_place {
    uint64_t block_rows, blocks, key;
    uint32_t epoch;
    uint64_t k, r;
    uint64_t dry;
    bool part;
    uint64_t charge;
};

struct oracle_source {
    const struct sim_recipe *recipe;
    uint32_t lane;
    struct oracle_place place[SIM_DATASETS_MAX];
};

void oracle_source_init(struct oracle_source *source, const struct sim_recipe *recipe, uint32_t lane);
enum oracle_why oracle_source_next(struct oracle_source *source, struct oracle_span *ret_span);

/* A growing list of sequences, or of spans. */
struct oracle_list {
    struct oracle_sequence *item;
    uint32_t n, cap;
};

void oracle_push_span(struct oracle_sequence *sequence, struct oracle_span span);
void oracle_push(struct oracle_list *list, struct oracle_sequence sequence); /* takes its memory */
struct oracle_sequence oracle_remove(struct oracle_list *list, uint32_t i);  /* the order stays */
void oracle_list_done(struct oracle_list *list);

/* The state of one sequencer: each uses what it needs. */
struct oracle_stage {
    struct oracle_span rest;       /* tokens 0: none */
    bool ended;
    struct oracle_list *group;     /* [groups] open sequence, bins, or pool */
    uint64_t *since;               /* bins: [groups][pool] when they last changed */
    uint64_t clock;
    uint64_t taken[SIM_DATASETS_MAX];
    uint32_t last;                 /* group */
    uint64_t draws;
    struct oracle_list held;       /* shuffle */
};

struct oracle_chain {
    struct oracle_source source;
    struct oracle_stage stage[SIM_STAGES_MAX];
};

void oracle_chain_init(struct oracle_chain *chain, const struct sim_recipe *recipe, uint32_t lane);
void oracle_chain_done(struct oracle_chain *chain);
/* What the last stage gives next; the caller frees its spans. */
enum oracle_why oracle_chain_next(struct oracle_chain *chain, struct oracle_sequence *ret_sequence);

#endif
