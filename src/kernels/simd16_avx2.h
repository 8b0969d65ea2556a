/* kernels/simd16_avx2: sixteen lanes as two AVX2 registers, lanes 0..7 and 8..15. Needs AVX2, FMA, F16C; with DCT_SIMD_VNNI
 * also AVX-VNNI. The names and their meaning are those of simd16_avx512.h.
 */
#ifndef DCT_KERNELS_SIMD16_AVX2_H
#define DCT_KERNELS_SIMD16_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))

typedef struct v16f { __m256 a, b; } v16f;
typedef struct v16i { __m256i a, b; } v16i;
typedef v16i v64b;

/* Blocking: what keeps the accumulators of simd_linear.h, simd_float.h and simd_attn.h in 16 registers. */
enum { V_LINEAR_TILES = 1, V_LINEAR_ROWS = 2, V_FLOAT_ROWS = 1, V_ATTN_BLOCKS = 1, V_ATTN_CHUNKS = 1 };
enum { V_LONG_BURSTS = 0 }; /* simd_stream.h: whether most types' arithmetic is fast enough for them */

V_INLINE v16f v16f_of(__m256 a, __m256 b) { return (v16f){a, b}; }
V_INLINE v16i v16i_of(__m256i a, __m256i b) { return (v16i){a, b}; }

/* ---- floats ---- */

V_INLINE __m256i v8_first(int32_t n) { /* lanes below n */
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

V_INLINE v16f v16f_zero(void) { return v16f_of(_mm256_setzero_ps(), _mm256_setzero_ps()); }
V_INLINE v16f v16f_set1(float a) { return v16f_of(_mm256_set1_ps(a), _mm256_set1_ps(a)); }
V_INLINE v16f v16f_load(const float *p) { return v16f_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
V_INLINE v16f v16f_load_n(const float *p, uint32_t n) {
    return v16f_of(_mm256_maskload_ps(p, v8_first((int32_t)n)), _mm256_maskload_ps(p + 8, v8_first((int32_t)n - 8)));
}
V_INLINE void v16f_store(float *p, v16f v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
V_INLINE void v16f_store_n(float *p, v16f v, uint32_t n) {
    _mm256_maskstore_ps(p, v8_first((int32_t)n), v.a);
    _mm256_maskstore_ps(p + 8, v8_first((int32_t)n - 8), v.b);
}

V_INLINE v16f v16f_add(v16f x, v16f y) { return v16f_of(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)); }
V_INLINE v16f v16f_sub(v16f x, v16f y) { return v16f_of(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)); }
V_INLINE v16f v16f_mul(v16f x, v16f y) { return v16f_of(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)); }
V_INLINE v16f v16f_div(v16f x, v16f y) { return v16f_of(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)); }
V_INLINE v16f v16f_fma(v16f x, v16f y, v16f z) {
    return v16f_of(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
V_INLINE v16f v16f_fnma(v16f x, v16f y, v16f z) {
    return v16f_of(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}
V_INLINE v16f v16f_max(v16f x, v16f y) { return v16f_of(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)); }
V_INLINE v16f v16f_min(v16f x, v16f y) { return v16f_of(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)); }
V_INLINE v16f v16f_or(v16f x, v16f y) { return v16f_of(_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)); }
V_INLINE v16f v16f_flip(v16f x, v16f sign) { return v16f_of(_mm256_xor_ps(x.a, sign.a), _mm256_xor_ps(x.b, sign.b)); }
V_INLINE v16f v16f_sign(v16f x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return v16f_of(_mm256_and_ps(x.a, sign), _mm256_and_ps(x.b, sign));
}
V_INLINE v16f v16f_abs(v16f x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return v16f_of(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
V_INLINE v16f v16f_if_less(v16f x, v16f y, v16f yes, v16f no) {
    return v16f_of(_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                   _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)));
}
V_INLINE v16f v16f_keep(v16f x, uint32_t begin, uint32_t end, v16f other) {
    __m256i in_a = _mm256_andnot_si256(v8_first((int32_t)begin), v8_first((int32_t)end));
    __m256i in_b = _mm256_andnot_si256(v8_first((int32_t)begin - 8), v8_first((int32_t)end - 8));
    return v16f_of(_mm256_blendv_ps(other.a, x.a, _mm256_castsi256_ps(in_a)),
                   _mm256_blendv_ps(other.b, x.b, _mm256_castsi256_ps(in_b)));
}

/* ---- other types to floats and back ---- */

V_INLINE v16f v16f_load_f16(const uint16_t *p) {
    return v16f_of(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}
V_INLINE v16f v16f_load_f16_n(const uint16_t *p, uint32_t n) {
    uint16_t copy[16] = {0};
    __builtin_memcpy(copy, p, n * sizeof *p);
    return v16f_load_f16(copy);
}
V_INLINE void v16f_store_f16_n(uint16_t *p, v16f v, uint32_t n) {
    uint16_t copy[16];
    _mm_storeu_si128((__m128i *)copy, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(copy + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    __builtin_memcpy(p, copy, n * sizeof *p);
}
V_INLINE __m256 v8f_load_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
V_INLINE v16f v16f_load_bf16(const uint16_t *p) { return v16f_of(v8f_load_bf16(p), v8f_load_bf16(p + 8)); }
V_INLINE v16f v16f_load_bf16_n(const uint16_t *p, uint32_t n) {
    uint16_t copy[16] = {0};
    __builtin_memcpy(copy, p, n * sizeof *p);
    return v16f_load_bf16(copy);
}
V_INLINE __m256i v8f_to_bf16(__m256 v) { /* in 32-bit lanes */
    __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, is_nan);
}
V_INLINE void v16f_store_bf16_n(uint16_t *p, v16f v, uint32_t n) {
    uint16_t copy[16];
    __m256i mixed = _mm256_packus_epi32(v8f_to_bf16(v.a), v8f_to_bf16(v.b)); /* a0-3 b0-3 a4-7 b4-7 */
    _mm256_storeu_si256((__m256i *)copy, _mm256_permute4x64_epi64(mixed, 0xd8));
    __builtin_memcpy(p, copy, n * sizeof *p);
}
V_INLINE v16f v16f_load_i8(const int8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return v16f_of(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))));
}
V_INLINE v16f v16f_load_i8_n(const int8_t *p, uint32_t n) {
    int8_t copy[16] = {0};
    __builtin_memcpy(copy, p, n);
    return v16f_load_i8(copy);
}

/* ---- integers ---- */

V_INLINE v16i v16i_zero(void) { return v16i_of(_mm256_setzero_si256(), _mm256_setzero_si256()); }
V_INLINE v16i v16i_set1(int32_t x) { return v16i_of(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
V_INLINE v16i v16i_add(v16i x, v16i y) { return v16i_of(_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)); }
V_INLINE v16i v16i_sub(v16i x, v16i y) { return v16i_of(_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)); }
V_INLINE v16i v16i_and(v16i x, v16i y) { return v16i_of(_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)); }
V_INLINE v16i v16i_or(v16i x, v16i y) { return v16i_of(_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)); }
V_INLINE v16i v16i_shl(v16i x, unsigned n) { return v16i_of(_mm256_slli_epi32(x.a, (int)n), _mm256_slli_epi32(x.b, (int)n)); }
V_INLINE v16i v16i_shr(v16i x, unsigned n) { return v16i_of(_mm256_srli_epi32(x.a, (int)n), _mm256_srli_epi32(x.b, (int)n)); }
V_INLINE v16i v16i_half(v16i x) { return v16i_of(_mm256_srai_epi32(x.a, 1), _mm256_srai_epi32(x.b, 1)); }
V_INLINE v16i v16i_max(v16i x, v16i y) { return v16i_of(_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)); }
V_INLINE v16i v16i_load_u8(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return v16i_of(_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
}
V_INLINE v16i v16i_load_i8(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return v16i_of(_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
}
V_INLINE v16i v16i_round(v16f x) { return v16i_of(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)); }
V_INLINE v16f v16f_of_int(v16i x) { return v16f_of(_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)); }
V_INLINE v16f v16f_of_bits(v16i x) { return v16f_of(_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)); }
V_INLINE v16i v16i_of_bits(v16f x) { return v16i_of(_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)); }
V_INLINE void v16i_store_i8(int8_t *p, v16i x) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
V_INLINE int32_t v16i_sum(v16i x) {
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_unpackhi_epi64(t, t));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 1)));
}

/* ---- across lanes ---- */

V_INLINE float v8f_tree(__m256 a) { /* s[i] += s[i+4]; s[i] += s[i+2]; s[0] + s[1] */
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
V_INLINE float v16f_tree(v16f x) { return v8f_tree(_mm256_add_ps(x.a, x.b)); }
V_INLINE float v16f_hmax(v16f x) {
    __m256 a = _mm256_max_ps(x.a, x.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

V_INLINE __m256 v8f_unmix(__m256 a) { /* 64-bit quarters 0 2 1 3 */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8));
}
V_INLINE void v16f_load_pairs(const float *p, v16f *even, v16f *odd) {
    v16f low = v16f_load(p), high = v16f_load(p + 16);
    even->a = v8f_unmix(_mm256_shuffle_ps(low.a, low.b, 0x88));
    odd->a = v8f_unmix(_mm256_shuffle_ps(low.a, low.b, 0xdd));
    even->b = v8f_unmix(_mm256_shuffle_ps(high.a, high.b, 0x88));
    odd->b = v8f_unmix(_mm256_shuffle_ps(high.a, high.b, 0xdd));
}
V_INLINE void v8f_store_pairs(float *p, __m256 even, __m256 odd) {
    __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
V_INLINE void v16f_store_pairs(float *p, v16f even, v16f odd) {
    v8f_store_pairs(p, even.a, odd.a);
    v8f_store_pairs(p + 16, even.b, odd.b);
}

/* ---- codes: bytes of four columns for each of sixteen rows ---- */

V_INLINE v64b v64b_load(const uint8_t *p) {
    return v16i_of(_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 32)));
}
V_INLINE void v64b_store(uint8_t *p, v64b x) {
    _mm256_storeu_si256((__m256i *)p, x.a);
    _mm256_storeu_si256((__m256i *)(p + 32), x.b);
}
V_INLINE v64b v64b_or(v64b x, v64b y) { return v16i_or(x, y); }
V_INLINE v64b v64b_low4(v64b x) { return v16i_and(x, v16i_set1(0x0f0f0f0f)); }
V_INLINE v64b v64b_high4(v64b x) { return v64b_low4(v16i_of(_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4))); }
V_INLINE v64b v64b_two_bits(v64b x, unsigned at) {
    __m128i n = _mm_cvtsi32_si128((int)at);
    return v16i_and(v16i_of(_mm256_srl_epi16(x.a, n), _mm256_srl_epi16(x.b, n)), v16i_set1(0x03030303));
}
V_INLINE v64b v64b_shl4(v64b x) { return v16i_of(_mm256_slli_epi16(x.a, 4), _mm256_slli_epi16(x.b, 4)); }
V_INLINE v64b v64b_lookup(v64b codes, const uint8_t table[16]) {
    __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return v16i_of(_mm256_shuffle_epi8(both, codes.a), _mm256_shuffle_epi8(both, codes.b));
}
V_INLINE __m256i v32b_of_bits(const uint8_t *p, uint8_t value) {
    int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of), bit_of);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit_of), _mm256_set1_epi8((char)value));
}
V_INLINE v64b v64b_of_bits(const uint8_t *p, uint8_t value) {
    return v16i_of(v32b_of_bits(p, value), v32b_of_bits(p + 4, value));
}
V_INLINE v64b v64b_spread4(const int8_t *p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return v16i_set1(four);
}

#ifdef DCT_SIMD_VNNI
enum { V_WIDE_BIAS = 128 };
V_INLINE v16i v16i_dot(v16i acc, v64b codes, v64b x) {
    return v16i_of(_mm256_dpbusd_avx_epi32(acc.a, codes.a, x.a), _mm256_dpbusd_avx_epi32(acc.b, codes.b, x.b));
}
V_INLINE v16i v16i_dot_wide(v16i acc, v64b codes, v64b x) { return v16i_dot(acc, codes, x); }
#else
/* Two steps, by way of 16-bit sums of two products: codes up to 63 stay below 2 * 63 * 127. */
V_INLINE __m256i v8i_dot(__m256i acc, __m256i codes, __m256i x) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1)));
}
V_INLINE v16i v16i_dot(v16i acc, v64b codes, v64b x) {
    return v16i_of(v8i_dot(acc.a, codes.a, x.a), v8i_dot(acc.b, codes.b, x.b));
}
/* Codes of eight bits would not fit: take the bias of 128 away first and move the sign to x, so that a sum of two is at most
 * 2 * 128 * 127 = 32,512. */
enum { V_WIDE_BIAS = 0 };
V_INLINE __m256i v8i_dot_wide(__m256i acc, __m256i codes, __m256i x) {
    __m256i value = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
    return v8i_dot(acc, _mm256_abs_epi8(value), _mm256_sign_epi8(x, value));
}
V_INLINE v16i v16i_dot_wide(v16i acc, v64b codes, v64b x) {
    return v16i_of(v8i_dot_wide(acc.a, codes.a, x.a), v8i_dot_wide(acc.b, codes.b, x.b));
}
#endif

V_INLINE v16i v16i_of_sums(const int16_t *sums, int a, int b) {
    int32_t two;
    __builtin_memcpy(&two, sums, sizeof two);
    __m256i sum = _mm256_madd_epi16(_mm256_set1_epi32(two), _mm256_set1_epi32((int)((uint32_t)b << 16 | (uint16_t)a)));
    return v16i_of(sum, sum);
}

#endif
