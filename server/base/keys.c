#include "base/keys.h"

#include "base/status.h"

void lk_perm_init(struct lk_perm *perm, uint64_t n, uint64_t key)
{
    LK_CHECK(n >= 1 && n <= 1ull << 62);
    perm->n = n;
    perm->half_bits = 1;
    while (perm->half_bits < 31 && 1ull << 2 * perm->half_bits < n)
        perm->half_bits++;
    for (uint64_t r = 0; r < LK_PERM_ROUNDS; r++)
        perm->round_key[r] = lk_key(key, r);
}

static uint64_t forward(const struct lk_perm *perm, uint64_t x)
{
    uint64_t mask = (1ull << perm->half_bits) - 1;
    uint64_t left = x >> perm->half_bits, right = x & mask;
    for (int r = 0; r < LK_PERM_ROUNDS; r++) {
        uint64_t next = left ^ (lk_mix64(perm->round_key[r] + right) & mask);
        left = right;
        right = next;
    }
    return left << perm->half_bits | right;
}

static uint64_t backward(const struct lk_perm *perm, uint64_t x)
{
    uint64_t mask = (1ull << perm->half_bits) - 1;
    uint64_t left = x >> perm->half_bits, right = x & mask;
    for (int r = LK_PERM_ROUNDS - 1; r >= 0; r--) {
        uint64_t next = right ^ (lk_mix64(perm->round_key[r] + left) & mask);
        right = left;
        left = next;
    }
    return left << perm->half_bits | right;
}

/* Walking: the network permutes a power of four; points that land outside 0…n-1 are sent on until
 * they come back, which they must, since the network is a permutation. */
uint64_t lk_perm_at(const struct lk_perm *perm, uint64_t i)
{
    LK_CHECK(i < perm->n);
    do {
        i = forward(perm, i);
    } while (i >= perm->n);
    return i;
}

uint64_t lk_perm_find(const struct lk_perm *perm, uint64_t value)
{
    LK_CHECK(value < perm->n);
    do {
        value = backward(perm, value);
    } while (value >= perm->n);
    return value;
}
