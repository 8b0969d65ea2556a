/* kernels/math: exp, tanh and the activations in f32, as fixed sequences of IEEE operations.
 *
 * The sequence is the definition: a vector file repeats it lane by lane and gets the same bits. Each line below is one
 * operation (fma, multiply, add, subtract, divide, integer shift or add, compare and select), so it has one vector
 * instruction. Selects are written `a < b ? a : b` and `a > b ? a : b`, which is what x86 min and max do: the second operand
 * when one is NaN. Rounding to an integer adds 1.5 * 2^23, which rounds to nearest even as cvtps_epi32 and rintf do.
 *
 *   exp      at most 1 ulp; exactly 0 for x <= -104, infinity for x >= 88.8, exp(0) = 1; NaN gives NaN
 *   tanh     at most 2 ulp; odd; 1 for large x; NaN gives NaN
 *   sigmoid  1 / (1 + exp(-x))
 *   silu     x / (1 + exp(-x)), at most 3 ulp;  gelu_tanh  x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3), which is
 *            the same as x/2 * (1 + tanh(u)). Finite x only: -infinity gives NaN.
 */
#ifndef DCT_KERNELS_MATH_H
#define DCT_KERNELS_MATH_H

#include <math.h>

#include "base/half.h"

/* exp: x = n ln2 + r, |r| <= ln2/2; exp(r) = 1 + r + r^2 (C2 + C3 r + ... + C6 r^4). */
#define DCT_EXP_MAX 89.0f       /* above: infinity, through the scaling */
#define DCT_EXP_MIN (-104.0f)   /* below: 0; exp(-104) < 2^-150, half the least subnormal */
#define DCT_EXP_LOG2E 0x1.715476p+0f
#define DCT_EXP_ROUND 0x1.8p+23f
#define DCT_EXP_LN2_HI 0x1.62e430p-1f
#define DCT_EXP_LN2_LO (-0x1.05c610p-29f)
#define DCT_EXP_C2 0x1.000000p-1f
#define DCT_EXP_C3 0x1.5554dcp-3f
#define DCT_EXP_C4 0x1.55551ap-5f
#define DCT_EXP_C5 0x1.120b90p-7f
#define DCT_EXP_C6 0x1.6d112cp-10f

/* tanh below 0.625: x + x^3 (T0 + T1 x^2 + ... + T4 x^8). */
#define DCT_TANH_SMALL 0.625f
#define DCT_TANH_T0 (-0x1.555552p-2f)
#define DCT_TANH_T1 0x1.110e1cp-3f
#define DCT_TANH_T2 (-0x1.b9256ap-5f)
#define DCT_TANH_T3 0x1.58035cp-6f
#define DCT_TANH_T4 (-0x1.8f86f0p-8f)

/* gelu_tanh: -2u = x * (GELU_A x^2 + GELU_B). */
#define DCT_GELU_A (-0x1.2444f2p-4f) /* -2 sqrt(2/pi) 0.044715 */
#define DCT_GELU_B (-0x1.988454p+0f) /* -2 sqrt(2/pi) */

static inline float dct_exp(float x) {
    x = DCT_EXP_MAX < x ? DCT_EXP_MAX : x;
    x = DCT_EXP_MIN > x ? DCT_EXP_MIN : x;
    float z = fmaf(x, DCT_EXP_LOG2E, DCT_EXP_ROUND);
    int32_t n = (int32_t)(dct_bits_of_f32(z) - dct_bits_of_f32(DCT_EXP_ROUND));
    float fn = z - DCT_EXP_ROUND;
    float r = fmaf(fn, -DCT_EXP_LN2_HI, x);
    r = fmaf(fn, -DCT_EXP_LN2_LO, r);
    float p = fmaf(DCT_EXP_C6, r, DCT_EXP_C5);
    p = fmaf(p, r, DCT_EXP_C4);
    p = fmaf(p, r, DCT_EXP_C3);
    p = fmaf(p, r, DCT_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* 2^n in two steps, each a normal number: n is -150..128. Only the last multiplication can round. */
    int32_t half = n >> 1;
    float s1 = dct_f32_of_bits((uint32_t)(half + 127) << 23);
    float s2 = dct_f32_of_bits((uint32_t)(n - half + 127) << 23);
    return p * s1 * s2;
}

static inline float dct_tanh(float x) {
    uint32_t sign = dct_bits_of_f32(x) & 0x80000000u;
    float a = dct_f32_of_bits(dct_bits_of_f32(x) ^ sign);
    float e = dct_exp(a * -2.0f);
    float large = (1.0f - e) / (1.0f + e);
    float z = a * a;
    float p = fmaf(DCT_TANH_T4, z, DCT_TANH_T3);
    p = fmaf(p, z, DCT_TANH_T2);
    p = fmaf(p, z, DCT_TANH_T1);
    p = fmaf(p, z, DCT_TANH_T0);
    float small = fmaf(p, z * a, a);
    float t = a < DCT_TANH_SMALL ? small : large;
    return dct_f32_of_bits(dct_bits_of_f32(t) | sign);
}

static inline float dct_sigmoid(float x) { return 1.0f / (1.0f + dct_exp(-x)); }

static inline float dct_silu(float x) { return x / (1.0f + dct_exp(-x)); }

static inline float dct_gelu_tanh(float x) {
    float t = fmaf(x * x, DCT_GELU_A, DCT_GELU_B);
    return x / (1.0f + dct_exp(x * t));
}

/* cap * tanh(x / cap) */
static inline float dct_softcap(float x, float cap) { return cap * dct_tanh(x / cap); }

/* Sine and cosine in f64 with the same bits on every machine (math.c), for |x| up to 1e7. */
void dct_sincos64(double x, double *sine, double *cosine);

#endif
