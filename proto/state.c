#include "proto/state.h"

#include "base/bytes.h"

#include <xxhash.h>

#define MAGIC "LKC1"
#define HASHED 32

void lk_state_put(uint64_t step, const uint8_t stream_digest[16], uint8_t ret_bytes[LK_STATE_BYTES])
{
    memcpy(ret_bytes, MAGIC, 4);
    lk_put_u32(ret_bytes + 4, 0);
    lk_put_u64(ret_bytes + 8, step);
    memcpy(ret_bytes + 16, stream_digest, 16);
    lk_put_u64(ret_bytes + HASHED, XXH3_64bits(ret_bytes, HASHED));
}

bool lk_state_get(const void *bytes, size_t n, uint64_t *ret_step, uint8_t ret_stream_digest[16])
{
    const uint8_t *p = bytes;

    if (n != LK_STATE_BYTES || memcmp(p, MAGIC, 4) != 0 || lk_get_u32(p + 4) != 0 ||
        lk_get_u64(p + HASHED) != XXH3_64bits(p, HASHED))
        return false;
    *ret_step = lk_get_u64(p + 8);
    memcpy(ret_stream_digest, p + 16, 16);
    return true;
}
