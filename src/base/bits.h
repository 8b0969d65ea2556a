/* base/bits: sets of small numbers as rows of 64-bit words, number i at bit i % 64 of word i / 64. */
#ifndef DCT_BASE_BITS_H
#define DCT_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* Words of a set of numbers below n. */
static inline uint64_t dct_bit_words(uint64_t n) { return n / 64 + (n % 64 != 0); }

static inline bool dct_bit_is_set(const uint64_t *row, uint64_t i) { return (row[i / 64] >> (i % 64) & 1) != 0; }
static inline void dct_bit_set(uint64_t *row, uint64_t i) { row[i / 64] |= UINT64_C(1) << (i % 64); }
static inline void dct_bit_clear(uint64_t *row, uint64_t i) { row[i / 64] &= ~(UINT64_C(1) << (i % 64)); }

#endif
