#include "rpc/room.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS_MAX 32

struct hall {
    pthread_mutex_t mutex;
    pthread_cond_t over;
    bool is_over;
};

static void *stay(void *arg)
{
    struct hall *hall = arg;
    pthread_mutex_lock(&hall->mutex);
    while (!hall->is_over)
        pthread_cond_wait(&hall->over, &hall->mutex);
    pthread_mutex_unlock(&hall->mutex);
    return NULL;
}

/* As many as nng starts: for tasks, times and names, one that polls and one that reaps. */
static int threads_needed(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long tasks = cpus > 8 ? 16 : 2 * cpus, times = cpus > 8 ? 8 : cpus;
    return (int)(tasks + times + 7);
}

/* 0, or why so many threads cannot live at once. */
static int try_threads(int n)
{
    struct hall hall = {.mutex = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};
    pthread_t thread[THREADS_MAX];
    int started = 0, error = 0;
    while (started < n && error == 0) {
        error = pthread_create(&thread[started], NULL, stay, &hall);
        started += error == 0;
    }
    pthread_mutex_lock(&hall.mutex);
    hall.is_over = true;
    pthread_cond_broadcast(&hall.over);
    pthread_mutex_unlock(&hall.mutex);
    while (started > 0)
        (void)pthread_join(thread[--started], NULL);
    return error;
}

/* 0, or why there cannot be its epoll and its eventfd. */
static int try_descriptors(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
    int error = epoll < 0 || event < 0 ? errno : 0;
    if (epoll >= 0)
        (void)close(epoll);
    if (event >= 0)
        (void)close(event);
    return error;
}

enum lk_code rpc_room(struct lk_err *err)
{
    int n = threads_needed(), error = try_threads(n);
    if (error != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED,
                       "cannot start %d threads: %s (see ulimit -u and -v, and the limits of the container)",
                       n, strerror(error));
    error = try_descriptors();
    if (error != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot open descriptors: %s", strerror(error));
    return LK_OK;
}
