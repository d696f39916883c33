/*
 * The connection to the daemon: one non-blocking socket, which speaks what a raw REQ socket of nng speaks
 * (wire.h) over ipc and tcp. There are no threads: all happens on the caller's, in turn and wait. What the
 * daemon sends meanwhile waits in the socket, and when that is full with the daemon.
 *
 * A connection that ends is made anew, after a pause of at most a quarter of a second that grows with
 * each try in vain.
 */
#ifndef LK_CLIENT_LINK_H
#define LK_CLIENT_LINK_H

#include "lanekeeper.h"
#include "proto/envelope.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;

/* INVALID_ARGUMENT: that is no address; RESOURCE_EXHAUSTED. Does not wait for the connection. */
enum lanekeeper_code lkc_link_open(const char *address, struct link **ret_link);

/* Closes at once; NULL is fine. */
void lkc_link_close(struct link *link);

/* No new connection is made after the one that is up. */
void lkc_link_last(struct link *link);

/* Number of the connection that is up; 0: none. Never the same number twice. Changed by turn, take, and
 * break alone. */
uint64_t lkc_link_connection(const struct link *link);

/* Why there is no connection, as far as known: for a person. */
const char *lkc_link_why(const struct link *link);

/* Does what can be done without waiting: dials when it is time to, sends, and reads once. What was taken
 * before is not valid any more. */
void lkc_link_turn(struct link *link);

/* The body of the oldest message that has been read, valid until the next turn; NULL: none that is whole. */
const uint8_t *lkc_link_take(struct link *link, size_t *ret_bytes);

/* Returns once there is something to do for turn, or @fd (-1: none) is readable or over, which is the
 * result then, or it is @until_ms on CLOCK_MONOTONIC, or for no reason. */
bool lkc_link_wait(struct link *link, int fd, int64_t until_ms);

/* Puts a request out, for the next flush or turn to send; false: not accepted, as if it were lost with the
 * connection. */
bool lkc_link_send(struct link *link, const struct lk_envelope *envelope, const ProtobufCMessage *header);
void lkc_link_flush(struct link *link);

/* Since when we have been listening to the connection and heard nothing. While nobody calls turn or wait
 * nobody listens. */
int64_t lkc_link_quiet_since(const struct link *link);

void lkc_link_break(struct link *link); /* gives up the connection that is up, so that another is made */

int64_t lkc_link_now_ms(void); /* CLOCK_MONOTONIC */

#endif
