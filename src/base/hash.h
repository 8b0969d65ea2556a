/* base/hash: one 64-bit hash (FNV-1a folded through a finaliser) for fingerprints and tables. Not cryptographic. */
#ifndef DCT_BASE_HASH_H
#define DCT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define DCT_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* Hash of n bytes continued from `seed`, so a long input may be hashed in parts. */
static inline uint64_t dct_hash_bytes(uint64_t seed, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint64_t h = seed;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Spreads the bits of a finished hash or of an integer key (the splitmix64 finaliser, Steele et al. 2014). */
static inline uint64_t dct_hash_mix(uint64_t x) {
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

#endif
