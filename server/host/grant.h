/*
 * How many slots of batch memory a stream gets. Pure, so that what is told beforehand of a configuration is
 * what the daemon then makes of it.
 */
#ifndef LK_HOST_GRANT_H
#define LK_HOST_GRANT_H

#include "config/runtime.h"
#include "core/recipe.h"

#include <stdint.h>

struct slots_grant {
    uint32_t slots;      /* steps that batch memory has room for, 4… */
    uint32_t leased_max; /* of them, such as trainers can hold at once: so many have a training area (host/slots.h) */
    uint32_t rows;       /* sequences of the largest step */
    uint64_t step_bytes; /* token ids of it */
};

/* Ready batches of all @n_streams may take half of `arena`; config/budget.h has seen to it that four steps of each fit. */
struct slots_grant slots_granted(const struct lk_runtime *runtime, uint32_t n_streams, const struct lk_recipe *recipe);

#endif
