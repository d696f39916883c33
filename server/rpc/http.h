/*
 * The small HTTP server beside the service: GET only, for /metrics, /healthz and people. nng's server
 * runs on its threads; requests are queued, the owner's thread answers them. At most HTTP_WAITING_MAX
 * wait at once; more are refused with 503, and requests with a body with 400.
 *
 * nng limits neither the number of connections nor how long they idle (some 10 kB each): listen where
 * only those can connect who may.
 */
#ifndef LK_RPC_HTTP_H
#define LK_RPC_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_WAITING_MAX 64

struct http_server;
struct http_request;

/* @where: "host:port"; port 0 lets the system choose. An address in use is an error that names it. */
enum lk_code http_open(const char *where, struct http_server **ret_server, struct lk_err *err);
void http_close(struct http_server *server); /* NULL is fine */

const char *http_address(const struct http_server *server); /* @where with the real port */
int http_fd(const struct http_server *server); /* readable: http_next has something */
/* The next request; NULL when there is none. */
struct http_request *http_next(struct http_server *server);

const char *http_path(const struct http_request *request); /* without the query */
/* Answers and frees it. @type: for instance "text/plain; charset=utf-8". */
void http_answer(struct http_request *request, unsigned status, const char *type, const void *body,
                 size_t n);

#endif
