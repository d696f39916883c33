/*
 * The arrays that a handle's trainer wants with its batches: told by lanekeeper_training, on any thread and
 * perhaps after the handle was closed, and read when batches are asked for. Counted, thread-safe.
 */
#ifndef LK_CLIENT_WISH_H
#define LK_CLIENT_WISH_H

#include "proto/training.h"

struct wish;

struct wish *lkc_wish_new(void); /* NULL: out of memory */
void lkc_wish_hold(struct wish *wish); /* here and in the next two, NULL is nobody's: nothing happens */
void lkc_wish_drop(struct wish *wish);

void lkc_wish_set(struct wish *wish, struct lk_training_wish to);
struct lk_training_wish lkc_wish_get(struct wish *wish); /* flags 0: none */

#endif
