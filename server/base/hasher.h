/*
 * XXH3 of bytes that come in pieces. The values are those of digest.h for the same bytes at once.
 */
#ifndef LK_BASE_HASHER_H
#define LK_BASE_HASHER_H

#include "base/digest.h"

struct lk_hasher;

struct lk_hasher *lk_hasher_new(void); /* never NULL; ready for bytes */
void lk_hasher_free(struct lk_hasher *hasher);
void lk_hasher_reset(struct lk_hasher *hasher);
void lk_hasher_put(struct lk_hasher *hasher, const void *bytes, size_t n);

/* Of everything put since the last reset; more may be put afterwards. */
struct lk_digest lk_hasher_digest(const struct lk_hasher *hasher); /* = lk_digest_of */
uint32_t lk_hasher_hash32(const struct lk_hasher *hasher);         /* = lk_hash32 */

#endif
