/*
 * Keys, counter-based random numbers and keyed permutations: every choice of the order is a pure
 * function of a 64-bit key and a counter, so any point of it can be computed without those before.
 *
 * Sources: the mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable
 * pseudorandom number generators", 2014; constants by Stafford). The permutation is a balanced
 * Feistel network (Luby, Rackoff, 1988) made to fit any n by cycle walking (Black, Rogaway, "Ciphers
 * with arbitrary finite domains", 2002). server/core/ORDER.md gives them integer by integer.
 */
#ifndef LK_BASE_KEYS_H
#define LK_BASE_KEYS_H

#include <stdint.h>

static inline uint64_t lk_mix64(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The @i-th child of a key; also the @i-th random number of a keyed generator. */
static inline uint64_t lk_key(uint64_t parent, uint64_t i)
{
    return lk_mix64(parent + 0x9e3779b97f4a7c15u * (i + 1));
}

/* A number in 0…n-1 from 64 random bits: the high half of their product. 1 <= n. */
static inline uint64_t lk_below(uint64_t random, uint64_t n)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)random * n >> 64);
}

#define LK_PERM_ROUNDS 6

/* A permutation of 0…n-1. O(1) memory; at and find cost a few dozen operations, on average less than
 * four walks. */
struct lk_perm {
    uint64_t n;                        /* 1…2^62 */
    uint64_t round_key[LK_PERM_ROUNDS];
    uint32_t half_bits;
};

void lk_perm_init(struct lk_perm *perm, uint64_t n, uint64_t key);
uint64_t lk_perm_at(const struct lk_perm *perm, uint64_t i);       /* i < n; result < n */
uint64_t lk_perm_find(const struct lk_perm *perm, uint64_t value); /* the i that at maps to value */

#endif
