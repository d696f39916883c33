/*
 * Reading a protobuf message that a peer has sent. Two bytes of it can take a hundred of memory (an empty
 * message in a list, a field that nobody knows), so what is taken is bounded by what was sent.
 */
#ifndef LK_PROTO_UNPACK_H
#define LK_PROTO_UNPACK_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#define LK_UNPACK_FACTOR 16   /* bytes of memory for each of a message; what we send takes at most nine */
#define LK_UNPACK_BASE 4096   /* … and for any */

/* The message of @kind, to be freed by its free_unpacked without an allocator; NULL: it is malformed, or takes
 * more memory than that. */
void *lk_unpack(const ProtobufCMessageDescriptor *kind, const uint8_t *bytes, size_t n);

#endif
