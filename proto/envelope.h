/*
 * The frame around every message, on every transport. An nng message body is
 *
 *   offset size
 *        0    4  magic "LKP1"
 *        4    2  method (enum lk_method)
 *        6    2  status: 0 in a request; a gRPC code in a reply (server/base/status.h lists them)
 *        8    8  call id, chosen by the caller, repeated in the reply
 *       16    4  deadline: milliseconds the caller will still wait, counted from receipt; 0 in replies
 *       20    4  header bytes: a protobuf message, the method's request or reply, or lk.Error when
 *                status is not 0
 *       24    8  payload bytes: raw bytes after the header, never copied by protobuf
 *       32       header, then payload; nothing may follow
 *
 * all little-endian. Parsing checks every length against the message before anything is trusted.
 */
#ifndef LK_PROTO_ENVELOPE_H
#define LK_PROTO_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_ENVELOPE_BYTES 32

/*
 * X(NAME, number): wire format, never renumber. 1… the trainers' service, 64… the workers'.
 *
 * GOODBYE is the transport's own, on every service: empty request, empty reply. Its reply is the last
 * message on that connection, so whoever closes after it closes while nothing is on its way. (nng
 * 1.5.2 can hang for good when a connection is closed in the middle of an incoming message.)
 */
#define LK_METHODS(X)                                                                              \
    X(HELLO, 1)                                                                                    \
    X(GET_BATCH, 2)                                                                                \
    X(RELEASE, 3)                                                                                  \
    X(CHECKPOINT, 4)                                                                               \
    X(STATUS, 5)                                                                                   \
    X(TRACE, 6)                                                                                    \
    X(DIGEST, 7)                                                                                   \
    X(GOODBYE, 8)                                                                                  \
    X(WORKER_HELLO, 64)                                                                            \
    X(WORKER_TASK, 65)

enum lk_method {
#define LK_METHOD_ENUM(name, number) LK_METHOD_##name = (number),
    LK_METHODS(LK_METHOD_ENUM)
#undef LK_METHOD_ENUM
};

const char *lk_method_name(uint16_t method); /* "GetBatch", …; "?" */

struct lk_envelope {
    uint16_t method;
    uint16_t status;
    uint64_t call;
    uint32_t deadline_ms;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    const uint8_t *header;  /* into the message */
    const uint8_t *payload; /* into the message */
};

/* Writes the 32 bytes of the frame. */
void lk_envelope_put(const struct lk_envelope *envelope, uint8_t ret_bytes[LK_ENVELOPE_BYTES]);

/* Parses a message body of @n bytes; false when it is no whole, exact message. Pointers into it. */
bool lk_envelope_get(const void *body, size_t n, struct lk_envelope *ret_envelope);

/* Reads the frame alone, whatever its lengths claim: enough to answer a malformed message to whoever
 * sent it. header and payload are NULL; the lengths must not be trusted. */
bool lk_envelope_peek(const void *body, size_t n, struct lk_envelope *ret_envelope);

#endif
