/* What the files of lanekeeper_training share: training.c (whole rows), slice.c (parts of them). */
#ifndef LK_CLIENT_TRAINING_H
#define LK_CLIENT_TRAINING_H

#include "batch.h"

/* What owns a training's arrays; those that are its own follow, aligned. */
struct training_own {
    struct lanekeeper_batch batch; /* that it was made of; its holding, if it has one, is held */
    uint32_t flags;                /* of the wish */
};

static inline uint64_t lkc_training_align(uint64_t bytes)
{
    return (bytes + LK_TRAINING_ALIGN - 1) / LK_TRAINING_ALIGN * LK_TRAINING_ALIGN;
}

/* Sets *error, if there is one, and returns @code. */
enum lanekeeper_code lkc_training_fail(struct lanekeeper_error *error, enum lanekeeper_code code,
                                       const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The pieces of row @r as it is at this moment: its memory may be another process's. @ret_row must live as
 * long as the walk. */
struct lk_training_walk lkc_training_walk(const struct lanekeeper_batch *batch, uint32_t r,
                                          struct lk_batch_row *ret_row);

#endif
