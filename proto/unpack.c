#include "proto/unpack.h"

#include <stdlib.h>

static void *take(void *owner, size_t bytes)
{
    size_t *left = owner;
    if (bytes > *left)
        return NULL;
    *left -= bytes;
    return malloc(bytes);
}

/* What was freed stays counted: what is read in vain has been taken, too. */
static void give_back(void *owner, void *at)
{
    (void)owner;
    free(at);
}

void *lk_unpack(const ProtobufCMessageDescriptor *kind, const uint8_t *bytes, size_t n)
{
    size_t left = n < (SIZE_MAX - LK_UNPACK_BASE) / LK_UNPACK_FACTOR ? LK_UNPACK_BASE + n * LK_UNPACK_FACTOR : SIZE_MAX;
    ProtobufCAllocator allocator = {.alloc = take, .free = give_back, .allocator_data = &left};
    return protobuf_c_message_unpack(kind, &allocator, n, bytes);
}
