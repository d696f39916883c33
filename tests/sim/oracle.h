/*
 * The order once more: slow, simple, and written from server/core/ORDER.md alone. It shares no code and no
 * header with the server. What is asked for again is remembered, nothing else is done about speed.
 */
#ifndef LK_SIM_ORACLE_H
#define LK_SIM_ORACLE_H

#include "recipe.h"

struct oracle;

struct oracle_span {
    uint64_t row;
    uint32_t dataset, epoch, first, tokens;
};

struct oracle_sequence {
    struct oracle_span *span;
    uint32_t n, tokens;
};

struct oracle_digest {
    uint64_t lo, hi;
};

enum oracle_why { ORACLE_GIVES, ORACLE_ENDS, ORACLE_FAILS };

struct oracle *oracle_new(const struct sim_recipe *recipe);
void oracle_free(struct oracle *oracle);

/* A dataset has fewer rows than there are lanes. */
bool oracle_refuses(const struct oracle *oracle);
/* Some lane may end. */
bool oracle_finite(const struct oracle *oracle);
/* No row of a dataset that does not repeat is kept: no step is ever given. */
bool oracle_barren(const struct oracle *oracle);
uint32_t oracle_size(const struct oracle *oracle, uint64_t step);
void oracle_cut(uint32_t size, uint32_t rank, uint32_t world, uint32_t *ret_first, uint32_t *ret_rows);

/* How many steps there are; UINT64_MAX when none below the horizon is the last. */
uint64_t oracle_steps(struct oracle *oracle);
/* The first step, below the horizon, that some lane fails to fill; UINT64_MAX: none. */
uint64_t oracle_fails(struct oracle *oracle);
/* Row @row of @step: is there a sequence for it, or why not? */
enum oracle_why oracle_why(struct oracle *oracle, uint64_t step, uint32_t row);

/* Row @row of @step: its sequence (n is 0: all padding). The step must exist. */
const struct oracle_sequence *oracle_row(struct oracle *oracle, uint64_t step, uint32_t row);
/* Its T token ids, and its digest as placed. */
void oracle_tokens(struct oracle *oracle, const struct oracle_sequence *sequence, uint32_t *ret_ids);
struct oracle_digest oracle_digest(struct oracle *oracle, uint64_t step, uint32_t row);
struct oracle_digest oracle_add(struct oracle_digest a, struct oracle_digest b);

#endif
