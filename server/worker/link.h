/*
 * A worker's connection to its daemon: a few requests in flight at once over one nng REQ socket.
 * nng's callbacks only mark a slot as answered; everything declared here is called by one thread.
 */
#ifndef LK_WORKER_LINK_H
#define LK_WORKER_LINK_H

#include "base/mem.h"
#include "base/status.h"
#include "proto/envelope.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#define LINK_SLOTS 2 /* so that the next task is here when one ends */

struct link;

/* Starts dialling @address in the background; it keeps trying until link_close. Fails only for an
 * address that can never be dialled. */
enum lk_code link_open(const char *address, size_t reply_max, struct link **ret_link,
                       struct lk_err *err);
void link_close(struct link *link); /* NULL is fine */

/* Milliseconds since there was a connection; 0 while there is one. */
int64_t link_lost_ms(const struct link *link);

/* Sends a request in @slot, which must be free. @payload is copied. */
enum lk_code link_send(struct link *link, unsigned slot, enum lk_method method,
                       const ProtobufCMessage *message, const void *payload, size_t payload_bytes,
                       struct lk_err *err);

/* One answered request; its pointers are valid until the next call on the same slot. */
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
