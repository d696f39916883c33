#include "proto/socket.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define CLOSE_S 2

static void *close_socket(void *arg)
{
    nng_socket socket = {.id = (uint32_t)(uintptr_t)arg};
    (void)nng_close(socket);
    return NULL;
}

bool lk_socket_close(nng_socket socket)
{
    pthread_t thread;
    struct timespec until;
    void *id = (void *)(uintptr_t)socket.id;

    if (pthread_create(&thread, NULL, close_socket, id) != 0) {
        (void)close_socket(id);
        return true;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* whatever becomes of the time of day */
    until.tv_sec += CLOSE_S;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        return true;
    (void)pthread_detach(thread);
    return false;
}
