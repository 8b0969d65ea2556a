/* tests/kernels/kernel_data: seeded numbers and random file rows of every type. */
#ifndef DCT_TESTS_KERNEL_DATA_H
#define DCT_TESTS_KERNEL_DATA_H

#include <string.h>

#include "base/half.h"
#include "kernels/layout.h"

typedef struct rng {
    uint64_t state;
} rng;

static inline uint32_t rng_u32(rng *g) {
    g->state = g->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(g->state >> 32);
}

static inline uint32_t rng_below(rng *g, uint32_t n) { return rng_u32(g) % n; }

/* Between -1 and 1; all multiples of 2^-23. */
static inline float rng_float(rng *g) { return (float)((int32_t)rng_u32(g) >> 8) * 0x1p-23f; }

static inline void rng_floats(rng *g, float *x, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) x[i] = rng_float(g);
}

static inline void put_f16(uint8_t *p, float x) {
    uint16_t h = dct_f16_of_f32(x);
    memcpy(p, &h, sizeof h);
}

/* Scale and bias, which end at `end`, of either sign. */
static inline void put_affine_scales(rng *g, const dct_affine *a, uint8_t *end) {
    uint32_t width = dct_dtype_block_bytes(a->scale);
    for (uint32_t i = 1; i <= 2; i++) {
        float x = rng_float(g);
        uint16_t h = a->scale == DCT_TYPE_F16 ? dct_f16_of_f32(x) : dct_bf16_of_f32(x);
        memcpy(end - i * width, a->scale == DCT_TYPE_F32 ? (const void *)&x : (const void *)&h, width);
    }
}

/* A row as a file may hold it: every bit random, except that f16 scales are finite and of ordinary size. */
static inline void random_row(rng *g, dct_dtype type, uint32_t k, void *row) {
    static const struct {
        int8_t first, second; /* where the f16 of a block lie; -1: nowhere */
    } halves[DCT_TYPE_COUNT] = {
        [DCT_TYPE_F32] = {-1, -1},  [DCT_TYPE_F16] = {0, -1},    [DCT_TYPE_BF16] = {-1, -1}, [DCT_TYPE_Q4_0] = {0, -1},
        [DCT_TYPE_Q4_1] = {0, 2},   [DCT_TYPE_Q5_0] = {0, -1},   [DCT_TYPE_Q5_1] = {0, 2},   [DCT_TYPE_Q8_0] = {0, -1},
        [DCT_TYPE_Q2_K] = {80, 82}, [DCT_TYPE_Q3_K] = {108, -1}, [DCT_TYPE_Q4_K] = {0, 2},   [DCT_TYPE_Q5_K] = {0, 2},
        [DCT_TYPE_Q6_K] = {-1, -1}, [DCT_TYPE_IQ4_NL] = {0, -1}, [DCT_TYPE_IQ4_XS] = {0, -1}, [DCT_TYPE_MXFP4] = {-1, -1},
    };
    uint32_t bytes = dct_dtype_block_bytes(type);
    uint8_t *b = row;
    for (uint32_t n = k / dct_dtype_block_elems(type); n > 0; n--, b += bytes) {
        for (uint32_t i = 0; i < bytes; i++) b[i] = (uint8_t)rng_u32(g);
        if (dct_dtype_affine(type) != NULL) put_affine_scales(g, dct_dtype_affine(type), b + bytes);
        else if (halves[type].first >= 0) put_f16(b + halves[type].first, rng_float(g));
        if (halves[type].second > 0) put_f16(b + halves[type].second, rng_float(g));
        if (type == DCT_TYPE_Q6_K) put_f16(b + 208, rng_float(g));
        if (type == DCT_TYPE_MXFP4) b[0] = (uint8_t)(115 + rng_below(g, 12));
        if (type == DCT_TYPE_F32) memcpy(b, &(float){rng_float(g)}, 4);
        if (type == DCT_TYPE_BF16) b[1] = (uint8_t)((b[1] & 0x80) | (0x38 + (b[1] & 7))); /* exponents near 1 */
    }
}

#endif
