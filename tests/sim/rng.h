/* Random numbers of the simulator: SplitMix64 (Steele, Lea, Flood, 2014). Everything that is drawn for a
 * seed comes from here, so a seed is all there is to know of a run. */
#ifndef LK_SIM_RNG_H
#define LK_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_hash(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return rng_hash(rng->state);
}

/* 0…n-1; n >= 1. The bias is of no matter here. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

static inline uint64_t rng_range(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_chance(struct rng *rng, uint32_t of_1000)
{
    return rng_below(rng, 1000) < of_1000;
}

#endif
