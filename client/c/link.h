/*
 * The connection to the daemon: raw REQ over nng, with one receiver.
 *
 * nng dials, and dials again with growing, jittered pauses. Its callbacks only note what happened
 * (connection up or down, a message) and wake the handle's thread, which does all the rest. Raw REQ,
 * because every answer then arrives here, also one that nobody waits for any more: it may carry a
 * lease that must be given back.
 */
#ifndef LK_CLIENT_LINK_H
#define LK_CLIENT_LINK_H

#include "proto/envelope.h"

#include <nng/nng.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct link;

/* An nng error number, 0 for success. Does not wait for the connection. */
int lkc_link_open(const char *address, struct link **ret_link);

/* Closes and frees; whatever nng does, it returns within two seconds. NULL is fine. Best called when
 * nothing is on its way: after the answer to a Goodbye. */
void lkc_link_close(struct link *link);

/* No new connection is made after the one that is up. */
void lkc_link_last(struct link *link);

/* Number of the connection that is up; 0: none. Never the same number twice. */
uint64_t lkc_link_connection(struct link *link);

/* The oldest message that has arrived; NULL: none. The caller frees it. */
nng_msg *lkc_link_take(struct link *link);

/* Returns once there is a message, or the connection is another than @connection, or it is @until_ms
 * on CLOCK_MONOTONIC; sooner when the connection is down, which it sees to. */
void lkc_link_wait(struct link *link, uint64_t connection, int64_t until_ms);

/* Sends a request; false: not accepted, as if it were lost with the connection. */
bool lkc_link_send(struct link *link, const struct lk_envelope *envelope, const ProtobufCMessage *header);

void lkc_link_break(struct link *link); /* gives up the connection that is up, so that another is made */

int64_t lkc_link_now_ms(void); /* CLOCK_MONOTONIC */

#endif
