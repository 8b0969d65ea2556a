/* base/size: checked arithmetic on sizes. Each returns false when the result does not fit, and leaves *out alone then. */
#ifndef DCT_BASE_SIZE_H
#define DCT_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The heap that the command gives to the libraries it links, which M_max counts. */
enum { DCT_LIBRARY_HEAP_BYTES = 1024 * 1024 };

static inline bool dct_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool dct_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Rounds up to a multiple of `align`, a power of two. */
static inline bool dct_align_u64(uint64_t a, uint64_t align, uint64_t *out) {
    uint64_t r;
    if (!dct_add_u64(a, align - 1, &r)) return false;
    *out = r & ~(align - 1);
    return true;
}

/* For values known to be small (< 2^48): plain rounding, no check. */
static inline uint64_t dct_round_up(uint64_t a, uint64_t align) { return (a + align - 1) & ~(align - 1); }
static inline uint64_t dct_div_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* The largest power of two under n; n is 2 or more. */
static inline uint32_t dct_pow2_under(uint32_t n) {
    uint32_t power = 1;
    while (power < n - power) power *= 2;
    return power;
}

static inline bool dct_is_pow2(uint64_t a) { return a != 0 && (a & (a - 1)) == 0; }

#endif
