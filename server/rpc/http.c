#include "rpc/http.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/supplemental/http/http.h>
#include <pthread.h>
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
    nng_http_server *server;
    char *address;
    int event;
    pthread_mutex_t mutex; /* guards what follows: nng's threads put, the owner takes */
    struct http_request *first, **last;
    unsigned waiting;
    bool closing;
};

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

/* On an nng thread. */
static void arrived(nng_aio *aio)
{
    nng_http_req *req = nng_aio_get_input(aio, 0);
    nng_http_handler *handler = nng_aio_get_input(aio, 1);
    struct http_server *server = nng_http_handler_get_data(handler);
    struct http_request *request = lk_zalloc(1, sizeof *request);
    uint64_t one = 1;

    request->aio = aio;
    (void)snprintf(request->path, sizeof request->path, "%s", nng_http_req_get_uri(req));
    request->path[strcspn(request->path, "?#")] = '\0';
    pthread_mutex_lock(&server->mutex);
    bool full = server->waiting == HTTP_WAITING_MAX || server->closing;
    if (!full) {
        *server->last = request;
        server->last = &request->next;
        server->waiting++;
    }
    pthread_mutex_unlock(&server->mutex);
    if (full) {
        free(request);
        finish(aio, 503, "text/plain", "busy\n", 5);
    } else if (write(server->event, &one, sizeof one) < 0) {
        return; /* the counter is at its maximum: the owner is awake already */
    }
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

static enum lk_code start(struct http_server *server, const char *where, struct lk_err *err)
{
    nng_url *url = NULL;
    nng_http_handler *handler = NULL;
    char *text = lk_format("http://%s", where);
    int rv = nng_url_parse(&url, text);
    if (rv == 0)
        rv = nng_http_server_hold(&server->server, url);
    if (rv == 0)
        rv = nng_http_handler_alloc(&handler, "/", arrived);
    if (rv == 0)
        rv = nng_http_handler_set_data(handler, server, NULL);
    if (rv == 0)
        rv = nng_http_handler_set_tree(handler);
    if (rv == 0) {
        rv = nng_http_server_add_handler(server->server, handler);
        if (rv != 0)
            nng_http_handler_free(handler);
    }
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
    server->last = &server->first;
    server->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LK_CHECK(server->event >= 0);
    pthread_mutex_init(&server->mutex, NULL);
    enum lk_code code = start(server, where, err);
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
    (void)close(server->event);
    pthread_mutex_destroy(&server->mutex);
    free(server->address);
    free(server);
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
