/*
 * A worker's connection to its daemon: a few requests in flight at once, for one thread. A worker that
 * was started by its daemon has a socket of its own, and lays its payloads on a board that both share
 * (link_local.c); any other has one nng REQ socket (link_remote.c).
 */
#ifndef LK_WORKER_LINK_H
#define LK_WORKER_LINK_H

#include "base/mem.h"
#include "base/status.h"
#include "proto/envelope.h"
#include "proto/worker.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

#define LINK_SLOTS 2 /* so that the next task is here when one ends */

struct link;

/* Starts dialling @address in the background; it keeps trying until link_close. Fails only for an
 * address that can never be dialled. */
enum lk_code link_open(const char *address, size_t reply_max, struct link **ret_link,
                       struct lk_err *err);
/* Takes both descriptors: a connected stream socket, and the board's memory. */
enum lk_code link_open_local(int socket, int board, size_t reply_max, struct link **ret_link,
                             struct lk_err *err);
void link_close(struct link *link); /* NULL is fine */

/* Milliseconds since there was a connection; 0 while there is one. */
int64_t link_lost_ms(const struct link *link);

/* The payload of a request: up to two pieces, one after the other. */
struct link_payload {
    const void *data[2];
    size_t bytes[2];
};

/* Sends a request in @slot, which must be free. @payload is copied; NULL: none. */
enum lk_code link_send(struct link *link, unsigned slot, enum lk_method method,
                       const ProtobufCMessage *message, const struct link_payload *payload,
                       struct lk_err *err);
/* Where the payload of the result that goes next in @slot, which must be free, may be made in its place, which
 * saves its copy: at most *ret_bytes of it. NULL: nowhere. */
uint8_t *link_place(struct link *link, unsigned slot, size_t *ret_bytes);
/* link_send of a result, whose payload may go another way: sets @request's part and part_bytes. */
enum lk_code link_send_result(struct link *link, unsigned slot, Lk__WorkerTaskRequest *request,
                              const struct link_payload *payload, struct lk_err *err);

/* One answered request; its pointers are valid until the next call of link_wait, or on the same slot. */
struct link_reply {
    unsigned slot;
    struct lk_envelope envelope;
};

/*
 * Waits for the next answer, in the order in which they came. DEADLINE_EXCEEDED: none came in
 * @timeout_ms. UNAVAILABLE: the request was given up. DATA_LOSS: the answer was no whole message.
 */
enum lk_code link_wait(struct link *link, int64_t timeout_ms, struct link_reply *ret_reply,
                       struct lk_err *err);

int64_t link_clock_ms(void); /* CLOCK_MONOTONIC */

#endif
