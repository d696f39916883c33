#include "core/value.h"

#include "base/bytes.h"

#include <stdlib.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token buffers are hashed in place: a big-endian host needs a conversion here"
#endif

struct lk_digest value_sequence(const uint32_t *tokens, uint32_t sequence,
                                const struct lk_span *span, uint32_t n)
{
    uint8_t small[16 + 4 + 4 * 64];
    size_t bytes = 20 + 4 * (size_t)n;
    uint8_t *whole = bytes <= sizeof small ? small : lk_alloc(bytes);
    lk_digest_put(lk_digest_of(tokens, 4 * (size_t)sequence), whole);
    lk_put_u32(whole + 16, n);
    for (uint32_t i = 0; i < n; i++)
        lk_put_u32(whole + 20 + 4 * (size_t)i, span[i].tokens);
    struct lk_digest digest = lk_digest_of(whole, bytes);
    if (whole != small)
        free(whole);
    return digest;
}

struct lk_digest value_placed(struct lk_digest sequence, uint64_t step, uint32_t row)
{
    uint8_t bytes[28];
    lk_digest_put(sequence, bytes);
    lk_put_u64(bytes + 16, step);
    lk_put_u32(bytes + 24, row);
    return lk_digest_of(bytes, sizeof bytes);
}
