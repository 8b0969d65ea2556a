/* base/random: a sequence of numbers that look random, the same on every machine: splitmix64 (Steele, Lea and Flood 2014), a
 * counter through a mixer. */
#ifndef DCT_BASE_RANDOM_H
#define DCT_BASE_RANDOM_H

#include "base/hash.h"

#define DCT_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The next number. A sequence begins at any *state. */
static inline uint64_t dct_random_next(uint64_t *state) { return dct_hash_mix(*state += DCT_RANDOM_STEP); }

#endif
