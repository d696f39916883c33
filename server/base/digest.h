/*
 * Digests: XXH3-128 (Yann Collet, xxHash), as two little-endian 64-bit halves. They identify data
 * and find accidents; they are no protection against an adversary.
 */
#ifndef LK_BASE_DIGEST_H
#define LK_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_digest {
    uint64_t lo;
    uint64_t hi;
};

#define LK_DIGEST_HEX 33 /* 32 hexadecimal digits, high half first, and a NUL */

struct lk_digest lk_digest_of(const void *bytes, size_t n);
uint64_t lk_hash64(const void *bytes, size_t n, uint64_t seed); /* XXH3-64 with a seed */
uint32_t lk_hash32(const void *bytes, size_t n);                /* low half of XXH3-64, seed 0 */

/* Sum modulo 2^128: commutative, so parts may be combined in any order. */
struct lk_digest lk_digest_add(struct lk_digest a, struct lk_digest b);
bool lk_digest_equal(struct lk_digest a, struct lk_digest b);
void lk_digest_hex(struct lk_digest digest, char ret_hex[LK_DIGEST_HEX]);
bool lk_digest_parse(const char *hex, struct lk_digest *ret_digest); /* exactly 32 hex digits */
void lk_digest_put(struct lk_digest digest, uint8_t ret_bytes[16]);  /* lo then hi, little-endian */
struct lk_digest lk_digest_get(const uint8_t bytes[16]);

#endif
