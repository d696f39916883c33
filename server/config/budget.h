/* What a recipe needs of memory, as far as that can be told from the recipe alone. */
#ifndef LK_CONFIG_BUDGET_H
#define LK_CONFIG_BUDGET_H

#include "config/section.h"
#include "core/recipe.h"

#include <stdint.h>

struct lk_config;

/*
 * What the descriptors of all lanes of one cursor take, buffers full. Tokens are not in it: they are the
 * arena's. `usual`: an estimate from the sizes of buffers, pools, groups and datasets, with documents of
 * usual lengths; it is what `state` is held against. `most`: were every document one token long, so that
 * a sequence has as many descriptors as tokens; nothing takes more.
 */
struct lk_state_bytes {
    uint64_t usual, most;
};
struct lk_state_bytes lk_recipe_state_bytes(const struct lk_recipe *recipe);

/* Steps have to fit `arena`, states `state`: otherwise the memory would be asked for and not be there. */
enum lk_code lk_check_budgets(struct lk_reading *r, const struct lk_yaml *at,
                              const struct lk_config *config);

#endif
