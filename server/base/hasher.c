#include "base/hasher.h"

#include "base/status.h"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

/* XXH3's 64- and 128-bit forms differ in their last step only: one state yields both. */
struct lk_hasher *lk_hasher_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    LK_CHECK(state != NULL);
    (void)XXH3_128bits_reset(state);
    return (struct lk_hasher *)(void *)state;
}

static XXH3_state_t *state_of(struct lk_hasher *hasher)
{
    return (XXH3_state_t *)(void *)hasher;
}

void lk_hasher_free(struct lk_hasher *hasher)
{
    (void)XXH3_freeState(state_of(hasher));
}

void lk_hasher_reset(struct lk_hasher *hasher)
{
    (void)XXH3_128bits_reset(state_of(hasher));
}

void lk_hasher_put(struct lk_hasher *hasher, const void *bytes, size_t n)
{
    if (n > 0)
        (void)XXH3_128bits_update(state_of(hasher), bytes, n);
}

struct lk_digest lk_hasher_digest(const struct lk_hasher *hasher)
{
    XXH128_hash_t h = XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher);
    return (struct lk_digest){.lo = h.low64, .hi = h.high64};
}

uint32_t lk_hasher_hash32(const struct lk_hasher *hasher)
{
    return (uint32_t)XXH3_64bits_digest((const XXH3_state_t *)(const void *)hasher);
}
