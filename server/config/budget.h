/* What a recipe needs of memory, as far as that can be told from the recipe alone. */
#ifndef LK_CONFIG_BUDGET_H
#define LK_CONFIG_BUDGET_H

#include "config/section.h"
#include "core/recipe.h"

#include <stdint.h>

struct lk_config;

/* Token ids of the largest step: sequences × tokens × 4 bytes. */
uint64_t lk_recipe_step_bytes(const struct lk_recipe *recipe);

/* About what the descriptors of all lanes of one cursor take, buffers full: an estimate from the
 * sizes of buffers, pools, groups and datasets. Tokens are not in it: they are the arena's. */
uint64_t lk_recipe_state_bytes(const struct lk_recipe *recipe);

/* Steps have to fit `arena`, states `state`: otherwise the memory would be asked for and not be there. */
enum lk_code lk_check_budgets(struct lk_reading *r, const struct lk_yaml *at,
                              const struct lk_config *config);

#endif
