/* kernels/simd_math: exp, tanh and the activations of math.h in sixteen lanes: the same operations in the same order, line by
 * line, so the same bits.
 */
#ifndef DCT_KERNELS_SIMD_MATH_H
#define DCT_KERNELS_SIMD_MATH_H

#include "kernels/math.h"

/* 2^n for a normal result */
V_INLINE v16f v16f_pow2(v16i n) { return v16f_of_bits(v16i_shl(v16i_add(n, v16i_set1(127)), 23)); }

V_INLINE v16f v16f_exp(v16f x) {
    const v16f round = v16f_set1(DCT_EXP_ROUND), one = v16f_set1(1.0f);
    x = v16f_min(v16f_set1(DCT_EXP_MAX), x);
    x = v16f_max(v16f_set1(DCT_EXP_MIN), x);
    v16f z = v16f_fma(x, v16f_set1(DCT_EXP_LOG2E), round);
    v16i n = v16i_sub(v16i_of_bits(z), v16i_of_bits(round));
    v16f fn = v16f_sub(z, round);
    v16f r = v16f_fma(fn, v16f_set1(-DCT_EXP_LN2_HI), x);
    r = v16f_fma(fn, v16f_set1(-DCT_EXP_LN2_LO), r);
    v16f p = v16f_fma(v16f_set1(DCT_EXP_C6), r, v16f_set1(DCT_EXP_C5));
    p = v16f_fma(p, r, v16f_set1(DCT_EXP_C4));
    p = v16f_fma(p, r, v16f_set1(DCT_EXP_C3));
    p = v16f_fma(p, r, v16f_set1(DCT_EXP_C2));
    p = v16f_fma(p, r, one);
    p = v16f_fma(p, r, one);
    v16i half = v16i_half(n);
    return v16f_mul(v16f_mul(p, v16f_pow2(half)), v16f_pow2(v16i_sub(n, half)));
}

V_INLINE v16f v16f_tanh(v16f x) {
    const v16f one = v16f_set1(1.0f);
    v16f sign = v16f_sign(x), a = v16f_abs(x);
    v16f e = v16f_exp(v16f_mul(a, v16f_set1(-2.0f)));
    v16f large = v16f_div(v16f_sub(one, e), v16f_add(one, e));
    v16f z = v16f_mul(a, a);
    v16f p = v16f_fma(v16f_set1(DCT_TANH_T4), z, v16f_set1(DCT_TANH_T3));
    p = v16f_fma(p, z, v16f_set1(DCT_TANH_T2));
    p = v16f_fma(p, z, v16f_set1(DCT_TANH_T1));
    p = v16f_fma(p, z, v16f_set1(DCT_TANH_T0));
    v16f small = v16f_fma(p, v16f_mul(z, a), a);
    return v16f_or(v16f_if_less(a, v16f_set1(DCT_TANH_SMALL), small, large), sign);
}

V_INLINE v16f v16f_sigmoid(v16f x) {
    v16f e = v16f_exp(v16f_flip(x, v16f_set1(-0.0f)));
    return v16f_div(v16f_set1(1.0f), v16f_add(v16f_set1(1.0f), e));
}

V_INLINE v16f v16f_silu(v16f x) {
    v16f e = v16f_exp(v16f_flip(x, v16f_set1(-0.0f)));
    return v16f_div(x, v16f_add(v16f_set1(1.0f), e));
}

V_INLINE v16f v16f_gelu_tanh(v16f x) {
    v16f t = v16f_fma(v16f_mul(x, x), v16f_set1(DCT_GELU_A), v16f_set1(DCT_GELU_B));
    return v16f_div(x, v16f_add(v16f_set1(1.0f), v16f_exp(v16f_mul(x, t))));
}

V_INLINE v16f v16f_softcap(v16f x, float cap) { return v16f_mul(v16f_set1(cap), v16f_tanh(v16f_div(x, v16f_set1(cap)))); }

#endif
