#include "base/digest.h"

#include "base/bytes.h"

/* Debian's default XXH3 entry points are SSE2 only; the dispatching ones are three times as fast
 * and give the same values. */
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

struct lk_digest lk_digest_of(const void *bytes, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    return (struct lk_digest){.lo = h.low64, .hi = h.high64};
}

uint64_t lk_hash64(const void *bytes, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n, seed);
}

uint32_t lk_hash32(const void *bytes, size_t n)
{
    return (uint32_t)XXH3_64bits(bytes, n);
}

struct lk_digest lk_digest_add(struct lk_digest a, struct lk_digest b)
{
    struct lk_digest sum = {.lo = a.lo + b.lo, .hi = a.hi + b.hi};
    sum.hi += sum.lo < a.lo;
    return sum;
}

bool lk_digest_equal(struct lk_digest a, struct lk_digest b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

void lk_digest_hex(struct lk_digest digest, char ret_hex[LK_DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        ret_hex[i] = digits[digest.hi >> (60 - 4 * i) & 15];
        ret_hex[16 + i] = digits[digest.lo >> (60 - 4 * i) & 15];
    }
    ret_hex[32] = '\0';
}

bool lk_digest_parse(const char *hex, struct lk_digest *ret_digest)
{
    uint64_t half[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        char c = hex[i];
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else
            return false;
        half[i / 16] = half[i / 16] << 4 | digit;
    }
    if (hex[32] != '\0')
        return false;
    *ret_digest = (struct lk_digest){.hi = half[0], .lo = half[1]};
    return true;
}

void lk_digest_put(struct lk_digest digest, uint8_t ret_bytes[16])
{
    lk_put_u64(ret_bytes, digest.lo);
    lk_put_u64(ret_bytes + 8, digest.hi);
}

struct lk_digest lk_digest_get(const uint8_t bytes[16])
{
    return (struct lk_digest){.lo = lk_get_u64(bytes), .hi = lk_get_u64(bytes + 8)};
}
