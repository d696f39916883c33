/*
 * What goes over a connection: nng's scalability protocols, as a raw REQ socket speaks them.
 *
 *   greeting   eight bytes from each side, {0, 'S', 'P', 0, u16 protocol, 0, 0}: REQ is 0x30, REP 0x31
 *   message    over ipc a byte 1; then u64 length, and that many bytes: u32 request number with the
 *              highest bit set, then the body, an envelope (proto/envelope.h)
 *
 * all numbers big-endian. Bytes only: whoever holds the socket moves them. Nothing that the peer says is
 * trusted: memory grows with what has come, not with what is announced.
 */
#ifndef LK_CLIENT_WIRE_H
#define LK_CLIENT_WIRE_H

#include "proto/envelope.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LKC_REPLY_MAX ((size_t)1 << 30) /* bytes of a message; a longer one is garbage */
#define LKC_OUT_MAX ((size_t)1 << 20)   /* bytes that may wait to be sent, but for a single message */

/* One direction's bytes: [at, len) of them are still of use. Zeroed is empty. */
struct lkc_bytes {
    uint8_t *data;
    size_t at, len, cap;
};

/* Zeroed but for @tagged before its first start. */
struct lkc_wire {
    bool tagged; /* messages begin with a byte 1: ipc */
    struct lkc_bytes in, out;
    size_t last; /* length of the message that was taken last */
};

enum lkc_wire_step { LKC_WIRE_MORE, LKC_WIRE_READY, LKC_WIRE_GARBAGE };

/* For a new connection: forgets what was, and puts our greeting out. False: out of memory. */
bool lkc_wire_start(struct lkc_wire *wire);
void lkc_wire_done(struct lkc_wire *wire);

/* Where to receive to, and how much; NULL: out of memory. What was taken is not valid any more. */
uint8_t *lkc_wire_room(struct lkc_wire *wire, size_t *ret_bytes);
void lkc_wire_came(struct lkc_wire *wire, size_t bytes);

/* Takes the peer's greeting, which comes first. */
enum lkc_wire_step lkc_wire_greeted(struct lkc_wire *wire);

/* Takes the next message; READY: its body, valid until the next room. */
enum lkc_wire_step lkc_wire_take(struct lkc_wire *wire, const uint8_t **ret_body, size_t *ret_bytes);

/* Puts a request out; false: too much waits already, or there is no memory for it. */
bool lkc_wire_put(struct lkc_wire *wire, const struct lk_envelope *envelope, const ProtobufCMessage *header);

/* What is to be sent; NULL: nothing. */
const uint8_t *lkc_wire_waits(const struct lkc_wire *wire, size_t *ret_bytes);
void lkc_wire_went(struct lkc_wire *wire, size_t bytes);

#endif
