/* base/half: the one conversion between f32 and the two 16-bit floats. To 16 bits: round to nearest, ties to even; NaN
 * stays NaN. Exact the other way. The vector kernels must give the same bits. */
#ifndef DCT_BASE_HALF_H
#define DCT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float dct_f32_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t dct_bits_of_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float dct_f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0) { /* zero and subnormal: mantissa * 2^-24, exact in f32 */
        float f = (float)mantissa * 0x1p-24f;
        return dct_f32_of_bits(sign | dct_bits_of_f32(f));
    }
    if (exponent == 31) return dct_f32_of_bits(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0));
    return dct_f32_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

static inline uint16_t dct_f16_of_f32(float f) {
    uint32_t bits = dct_bits_of_f32(f);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to infinity */
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 lets the FPU round at 2^-24 */
        float rounded = dct_f32_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (dct_bits_of_f32(rounded) - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

static inline float dct_f32_of_bf16(uint16_t h) { return dct_f32_of_bits((uint32_t)h << 16); }

static inline uint16_t dct_bf16_of_f32(float f) {
    uint32_t bits = dct_bits_of_f32(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
