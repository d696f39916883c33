/*
 * Lifetime: nng's release of a server may leave the rest to its threads (from 1.6 on), so a request may
 * arrive, and use the struct, after http_close. Therefore it is counted: the owner holds it, and so do
 * nng's handler, as long as nng has it, and every arrived() that runs. (nng forgets a handler when a
 * connection ends in the moment in which its request is read. Then the struct is left to the process's
 * end, which is why a server is closed.)
 */
#include "rpc/http.h"

#include "base/mem.h"
#include "rpc/room.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nng/nng.h>
#include <nng/supplemental/http/http.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct http_request {
    struct http_request *next;
    nng_aio *aio;
    char path[256];
};

struct http_server {
    atomic_uint holders;
    nng_http_server *server;
    char *address;
    int event;
    pthread_mutex_t mutex; /* guards what follows: nng's threads put, the owner takes */
    struct http_request *first, **last;
    unsigned waiting;
    bool closing;
};

static void server_hold(struct http_server *server)
{
    (void)atomic_fetch_add_explicit(&server->holders, 1, memory_order_relaxed);
}

static void server_drop(void *arg)
{
    struct http_server *server = arg;

    if (atomic_fetch_sub_explicit(&server->holders, 1, memory_order_acq_rel) != 1)
        return;
    (void)close(server->event);
    pthread_mutex_destroy(&server->mutex);
    free(server->address);
    free(server);
}

/* Answers with a body; the aio is nng's and must be finished exactly once. */
static void finish(nng_aio *aio, unsigned status, const char *type, const void *body, size_t n)
{
    nng_http_res *res;
    int rv = nng_http_res_alloc(&res);
    if (rv == 0) {
        (void)nng_http_res_set_status(res, (uint16_t)status);
        (void)nng_http_res_set_header(res, "Content-Type", type);
        rv = nng_http_res_copy_data(res, body, n);
        if (rv != 0)
            nng_http_res_free(res);
    }
    if (rv != 0) {
        nng_aio_finish(aio, rv);
        return;
    }
    nng_aio_set_output(aio, 0, res);
    nng_aio_finish(aio, 0);
}

/* False: too many wait, or it is too late. */
static bool queue(struct http_server *server, struct http_request *request)
{
    uint64_t one = 1;

    pthread_mutex_lock(&server->mutex);
    bool taken = server->waiting < HTTP_WAITING_MAX && !server->closing;
    if (taken) {
        *server->last = request;
        server->last = &request->next;
        server->waiting++;
        /* It can fail only when the counter is at its maximum: the owner is awake already. */
        (void)!write(server->event, &one, sizeof one);
    }
    pthread_mutex_unlock(&server->mutex);
    return taken;
}

/* On an nng thread. */
static void arrived(nng_aio *aio)
{
    nng_http_req *req = nng_aio_get_input(aio, 0);
    nng_http_handler *handler = nng_aio_get_input(aio, 1);
    struct http_server *server = nng_http_handler_get_data(handler);
    struct http_request *request = lk_zalloc(1, sizeof *request);

    request->aio = aio;
    (void)snprintf(request->path, sizeof request->path, "%s", nng_http_req_get_uri(req));
    request->path[strcspn(request->path, "?#")] = '\0';
    server_hold(server); /* once it is queued, it may be answered, and the handler go */
    if (!queue(server, request)) {
        free(request);
        finish(aio, 503, "text/plain", "busy\n", 5);
    }
    server_drop(server);
}

/* @where with the port that the system chose, if it was left to the system. */
static char *real_address(const struct http_server *server, const char *where)
{
    nng_sockaddr at;
    const char *colon = strrchr(where, ':');
    uint16_t port;
    if (colon == NULL || nng_http_server_get_addr(server->server, &at) != 0)
        return lk_strdup(where);
    if (at.s_family == NNG_AF_INET)
        port = at.s_in.sa_port;
    else if (at.s_family == NNG_AF_INET6)
        port = at.s_in6.sa_port;
    else
        return lk_strdup(where);
    return lk_format("%.*s:%u", (int)(colon - where), where, ntohs(port));
}

static int handler_add(struct http_server *server)
{
    nng_http_handler *handler;
    int rv = nng_http_handler_alloc(&handler, "/", arrived);

    if (rv != 0)
        return rv;
    rv = nng_http_handler_set_data(handler, server, server_drop);
    if (rv == 0)
        server_hold(server);
    if (rv == 0)
        rv = nng_http_handler_set_tree(handler);
    if (rv == 0) /* no bodies: else every connection could fill a megabyte of ours */
        rv = nng_http_handler_collect_body(handler, true, 0);
    if (rv == 0)
        rv = nng_http_server_add_handler(server->server, handler);
    if (rv != 0)
        nng_http_handler_free(handler);
    return rv;
}

static enum lk_code start(struct http_server *server, const char *where, struct lk_err *err)
{
    nng_url *url = NULL;
    LK_TRY(rpc_room(err));
    char *text = lk_format("http://%s", where);
    int rv = nng_url_parse(&url, text);

    if (rv == 0)
        rv = nng_http_server_hold(&server->server, url);
    if (rv == 0)
        rv = handler_add(server);
    if (rv == 0)
        rv = nng_http_server_start(server->server);
    if (url != NULL)
        nng_url_free(url);
    free(text);
    if (rv != 0)
        return lk_fail(err, LK_UNAVAILABLE, "cannot serve HTTP on %s: %s", where, nng_strerror(rv));
    return LK_OK;
}

enum lk_code http_open(const char *where, struct http_server **ret_server, struct lk_err *err)
{
    struct http_server *server = lk_zalloc(1, sizeof *server);
    atomic_init(&server->holders, 1);
    server->last = &server->first;
    server->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = errno;
    pthread_mutex_init(&server->mutex, NULL);
    enum lk_code code = server->event >= 0 ? start(server, where, err)
                                           : lk_fail(err, LK_RESOURCE_EXHAUSTED,
                                                     "cannot serve HTTP on %s: eventfd: %s", where, strerror(error));
    if (code != LK_OK) {
        http_close(server);
        return code;
    }
    server->address = real_address(server, where);
    *ret_server = server;
    return LK_OK;
}

const char *http_address(const struct http_server *server)
{
    return server->address;
}

struct http_request *http_next(struct http_server *server)
{
    uint64_t count;
    (void)!read(server->event, &count, sizeof count);
    pthread_mutex_lock(&server->mutex);
    struct http_request *request = server->first;
    if (request != NULL) {
        server->first = request->next;
        if (server->first == NULL)
            server->last = &server->first;
        server->waiting--;
    }
    pthread_mutex_unlock(&server->mutex);
    return request;
}

void http_close(struct http_server *server)
{
    struct http_request *request;
    if (server == NULL)
        return;
    pthread_mutex_lock(&server->mutex);
    server->closing = true;
    pthread_mutex_unlock(&server->mutex);
    while ((request = http_next(server)) != NULL)
        http_answer(request, 503, "text/plain", "stopping\n", 9);
    if (server->server != NULL)
        nng_http_server_release(server->server);
    server_drop(server);
}

int http_fd(const struct http_server *server)
{
    return server->event;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

void http_answer(struct http_request *request, unsigned status, const char *type, const void *body,
                 size_t n)
{
    finish(request->aio, status, type, body, n);
    free(request);
}
