#include "wish.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct wish {
    atomic_uint holders;
    pthread_mutex_t mutex;
    struct lk_training_wish wish;
};

struct wish *lkc_wish_new(void)
{
    struct wish *wish = calloc(1, sizeof *wish);

    if (wish == NULL)
        return NULL;
    atomic_init(&wish->holders, 1);
    (void)pthread_mutex_init(&wish->mutex, NULL);
    return wish;
}

void lkc_wish_hold(struct wish *wish)
{
    if (wish != NULL)
        (void)atomic_fetch_add_explicit(&wish->holders, 1, memory_order_relaxed);
}

void lkc_wish_drop(struct wish *wish)
{
    if (wish == NULL || atomic_fetch_sub_explicit(&wish->holders, 1, memory_order_acq_rel) != 1)
        return;
    (void)pthread_mutex_destroy(&wish->mutex);
    free(wish);
}

void lkc_wish_set(struct wish *wish, struct lk_training_wish to)
{
    if (wish == NULL)
        return;
    (void)pthread_mutex_lock(&wish->mutex);
    wish->wish = to;
    (void)pthread_mutex_unlock(&wish->mutex);
}

struct lk_training_wish lkc_wish_get(struct wish *wish)
{
    (void)pthread_mutex_lock(&wish->mutex);
    struct lk_training_wish now = wish->wish;
    (void)pthread_mutex_unlock(&wish->mutex);
    return now;
}
