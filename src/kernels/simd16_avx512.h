/* kernels/simd16_avx512: sixteen lanes as one AVX-512 register. Needs F, BW, VL, DQ; and VNNI where DCT_SIMD_VNNI is set.
 *
 * simd16_avx2.h offers the same names. v16f: 16 floats; v16i: 16 int32; v64b: 64 bytes, four for each of 16 lanes.
 * The `_n` forms touch only the first n (0..16) elements and read the others as 0.
 */
#ifndef DCT_KERNELS_SIMD16_AVX512_H
#define DCT_KERNELS_SIMD16_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))

typedef __m512 v16f;
typedef __m512i v16i;
typedef __m512i v64b;

/* Blocking: what keeps the accumulators of simd_linear.h, simd_float.h and simd_attn.h in 32 registers. */
enum { V_LINEAR_TILES = 2, V_LINEAR_ROWS = 6, V_FLOAT_ROWS = 6, V_ATTN_BLOCKS = 4, V_ATTN_CHUNKS = 4 };
enum { V_LONG_BURSTS = 1 }; /* simd_stream.h: whether most types' arithmetic is fast enough for them */

/* ---- floats ---- */

V_INLINE __mmask16 v16_first(uint32_t n) { return (__mmask16)((1u << n) - 1); }

V_INLINE v16f v16f_zero(void) { return _mm512_setzero_ps(); }
V_INLINE v16f v16f_set1(float a) { return _mm512_set1_ps(a); }
V_INLINE v16f v16f_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE v16f v16f_load_n(const float *p, uint32_t n) { return _mm512_maskz_loadu_ps(v16_first(n), p); }
V_INLINE void v16f_store(float *p, v16f a) { _mm512_storeu_ps(p, a); }
V_INLINE void v16f_store_n(float *p, v16f a, uint32_t n) { _mm512_mask_storeu_ps(p, v16_first(n), a); }

V_INLINE v16f v16f_add(v16f a, v16f b) { return _mm512_add_ps(a, b); }
V_INLINE v16f v16f_sub(v16f a, v16f b) { return _mm512_sub_ps(a, b); }
V_INLINE v16f v16f_mul(v16f a, v16f b) { return _mm512_mul_ps(a, b); }
V_INLINE v16f v16f_div(v16f a, v16f b) { return _mm512_div_ps(a, b); }
V_INLINE v16f v16f_fma(v16f a, v16f b, v16f c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE v16f v16f_fnma(v16f a, v16f b, v16f c) { return _mm512_fnmadd_ps(a, b, c); }
/* The second operand when one is NaN: max is `a > b ? a : b`. */
V_INLINE v16f v16f_max(v16f a, v16f b) { return _mm512_max_ps(a, b); }
V_INLINE v16f v16f_min(v16f a, v16f b) { return _mm512_min_ps(a, b); }
V_INLINE v16f v16f_abs(v16f a) { return _mm512_abs_ps(a); }
V_INLINE v16f v16f_sign(v16f a) { return _mm512_and_ps(a, _mm512_set1_ps(-0.0f)); }
V_INLINE v16f v16f_or(v16f a, v16f b) { return _mm512_or_ps(a, b); }
V_INLINE v16f v16f_flip(v16f a, v16f sign) { return _mm512_xor_ps(a, sign); }
/* a < b ? yes : no */
V_INLINE v16f v16f_if_less(v16f a, v16f b, v16f yes, v16f no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
/* Lanes begin <= i < end of a, `other` elsewhere. */
V_INLINE v16f v16f_keep(v16f a, uint32_t begin, uint32_t end, v16f other) {
    return _mm512_mask_blend_ps((__mmask16)(v16_first(end) & ~v16_first(begin)), other, a);
}

/* ---- other types to floats and back ---- */

V_INLINE v16f v16f_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
V_INLINE v16f v16f_load_f16_n(const uint16_t *p, uint32_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v16_first(n), p));
}
V_INLINE void v16f_store_f16_n(uint16_t *p, v16f a, uint32_t n) {
    _mm256_mask_storeu_epi16(p, v16_first(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE v16f v16f_of_bf16(__m256i a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16)); }
V_INLINE v16f v16f_load_bf16(const uint16_t *p) { return v16f_of_bf16(_mm256_loadu_si256((const __m256i *)p)); }
V_INLINE v16f v16f_load_bf16_n(const uint16_t *p, uint32_t n) {
    return v16f_of_bf16(_mm256_maskz_loadu_epi16(v16_first(n), p));
}
V_INLINE void v16f_store_bf16_n(uint16_t *p, v16f a, uint32_t n) {
    __m512i bits = _mm512_castps_si512(a), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    __m512i out = _mm512_mask_mov_epi32(_mm512_srli_epi32(rounded, 16), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet);
    _mm256_mask_storeu_epi16(p, v16_first(n), _mm512_cvtepi32_epi16(out));
}
V_INLINE v16f v16f_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
V_INLINE v16f v16f_load_i8_n(const int8_t *p, uint32_t n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(v16_first(n), p)));
}

/* ---- integers ---- */

V_INLINE v16i v16i_zero(void) { return _mm512_setzero_si512(); }
V_INLINE v16i v16i_set1(int32_t a) { return _mm512_set1_epi32(a); }
V_INLINE v16i v16i_add(v16i a, v16i b) { return _mm512_add_epi32(a, b); }
V_INLINE v16i v16i_sub(v16i a, v16i b) { return _mm512_sub_epi32(a, b); }
V_INLINE v16i v16i_and(v16i a, v16i b) { return _mm512_and_si512(a, b); }
V_INLINE v16i v16i_or(v16i a, v16i b) { return _mm512_or_si512(a, b); }
V_INLINE v16i v16i_shl(v16i a, unsigned n) { return _mm512_slli_epi32(a, n); }
V_INLINE v16i v16i_shr(v16i a, unsigned n) { return _mm512_srli_epi32(a, n); }
V_INLINE v16i v16i_half(v16i a) { return _mm512_srai_epi32(a, 1); } /* floor(a / 2) */
V_INLINE v16i v16i_max(v16i a, v16i b) { return _mm512_max_epi32(a, b); }
V_INLINE v16i v16i_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
V_INLINE v16i v16i_load_i8(const uint8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
V_INLINE v16i v16i_round(v16f a) { return _mm512_cvtps_epi32(a); } /* nearest, ties to even */
V_INLINE v16f v16f_of_int(v16i a) { return _mm512_cvtepi32_ps(a); }
V_INLINE v16f v16f_of_bits(v16i a) { return _mm512_castsi512_ps(a); }
V_INLINE v16i v16i_of_bits(v16f a) { return _mm512_castps_si512(a); }
V_INLINE void v16i_store_i8(int8_t *p, v16i a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(a)); }
V_INLINE int32_t v16i_sum(v16i a) { return _mm512_reduce_add_epi32(a); }

/* ---- across lanes ---- */

V_INLINE v16f v16f_swap8(v16f a) { return _mm512_shuffle_f32x4(a, a, 0x4e); }
V_INLINE float v8f_tree(__m256 a) { /* s[i] += s[i+4]; s[i] += s[i+2]; s[0] + s[1] */
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
V_INLINE float v16f_tree(v16f a) { return v8f_tree(_mm512_castps512_ps256(_mm512_add_ps(a, v16f_swap8(a)))); }
V_INLINE float v16f_hmax(v16f a) { return _mm512_reduce_max_ps(a); }

/* 16 (even, odd) pairs in memory order apart and together. */
V_INLINE void v16f_load_pairs(const float *p, v16f *even, v16f *odd) {
    v16f a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
    const v16i evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(a, evens, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(evens, _mm512_set1_epi32(1)), b);
}
V_INLINE void v16f_store_pairs(float *p, v16f even, v16f odd) {
    const v16i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, low, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd));
}

/* ---- codes: bytes of four columns for each of sixteen rows ---- */

V_INLINE v64b v64b_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
V_INLINE void v64b_store(uint8_t *p, v64b a) { _mm512_storeu_si512(p, a); }
V_INLINE v64b v64b_or(v64b a, v64b b) { return _mm512_or_si512(a, b); }
V_INLINE v64b v64b_low4(v64b a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
V_INLINE v64b v64b_high4(v64b a) { return v64b_low4(_mm512_srli_epi16(a, 4)); }
V_INLINE v64b v64b_two_bits(v64b a, unsigned at) { /* bits at, at + 1 of each byte */
    return _mm512_and_si512(_mm512_srl_epi16(a, _mm_cvtsi32_si128((int)at)), _mm512_set1_epi8(3));
}
V_INLINE v64b v64b_shl4(v64b a) { return _mm512_slli_epi16(a, 4); } /* of bytes below 16 */
V_INLINE v64b v64b_lookup(v64b codes, const uint8_t table[16]) { /* codes 0..15 */
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), codes);
}
/* Byte i is `value` where bit i of the little-endian bits at p is set, else 0. */
V_INLINE v64b v64b_of_bits(const uint8_t *p, uint8_t value) {
    uint64_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm512_maskz_set1_epi8((__mmask64)bits, (char)value);
}

/* Four int8 activations, the same for every lane. */
V_INLINE v64b v64b_spread4(const int8_t *p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* acc[lane] + sum of codes[4 lane + i] * x[4 lane + i], i = 0..3: unsigned codes, signed x. */
#ifdef DCT_SIMD_VNNI
enum { V_WIDE_BIAS = 128 }; /* what v16i_dot_wide leaves to be subtracted: dot with the codes as they are */
V_INLINE v16i v16i_dot(v16i acc, v64b codes, v64b x) { return _mm512_dpbusd_epi32(acc, codes, x); }
V_INLINE v16i v16i_dot_wide(v16i acc, v64b codes, v64b x) { return _mm512_dpbusd_epi32(acc, codes, x); }
#endif

/* a * sums[0] + b * sums[1] of two neighbouring 16-bit sums, in every lane. */
V_INLINE v16i v16i_of_sums(const int16_t *sums, int a, int b) {
    int32_t two;
    __builtin_memcpy(&two, sums, sizeof two);
    return _mm512_madd_epi16(_mm512_set1_epi32(two), _mm512_set1_epi32((int)((uint32_t)b << 16 | (uint16_t)a)));
}

#endif
