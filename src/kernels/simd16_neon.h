/* kernels/simd16_neon: sixteen lanes as four NEON registers, lanes 0..3, 4..7, 8..11 and 12..15. Needs what every aarch64
 * processor has; with DCT_SIMD_DOTPROD also the byte dots of ARMv8.2. The names and their meaning are those of
 * simd16_avx512.h.
 *
 * NaN: the processor's own minimum and maximum return it, so the ones here compare and select as math.h states.
 */
#ifndef DCT_KERNELS_SIMD16_NEON_H
#define DCT_KERNELS_SIMD16_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))

typedef struct v16f { float32x4_t a, b, c, d; } v16f;
typedef struct v16i { int32x4_t a, b, c, d; } v16i;
typedef struct v64b { uint8x16_t a, b, c, d; } v64b;

/* Blocking: what keeps the accumulators of simd_linear.h, simd_float.h and simd_attn.h in 32 registers. */
enum { V_LINEAR_TILES = 1, V_LINEAR_ROWS = 3, V_FLOAT_ROWS = 1, V_ATTN_BLOCKS = 1, V_ATTN_CHUNKS = 1 };
enum { V_LONG_BURSTS = 0 }; /* simd_stream.h: whether most types' arithmetic is fast enough for them */

/* The four results of an instruction, for the braces of a struct. */
#define EACH1(f, x) f(x.a), f(x.b), f(x.c), f(x.d)
#define EACH2(f, x, y) f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)
#define EACH3(f, x, y, z) f(x.a, y.a, z.a), f(x.b, y.b, z.b), f(x.c, y.c, z.c), f(x.d, y.d, z.d)

V_INLINE v16f v16f_all(float32x4_t x) { return (v16f){x, x, x, x}; }
V_INLINE v16i v16i_all(int32x4_t x) { return (v16i){x, x, x, x}; }
V_INLINE v64b v64b_all(uint8x16_t x) { return (v64b){x, x, x, x}; }

/* ---- the same bits under another name ---- */

V_INLINE v16f v16f_of_bits(v16i x) { return (v16f){EACH1(vreinterpretq_f32_s32, x)}; }
V_INLINE v16i v16i_of_bits(v16f x) { return (v16i){EACH1(vreinterpretq_s32_f32, x)}; }
V_INLINE float32x4_t v4f_of_bits(uint32x4_t x) { return vreinterpretq_f32_u32(x); }
V_INLINE uint32x4_t v4u_of_bits(float32x4_t x) { return vreinterpretq_u32_f32(x); }

/* ---- floats ---- */

V_INLINE v16f v16f_zero(void) { return v16f_all(vdupq_n_f32(0)); }
V_INLINE v16f v16f_set1(float x) { return v16f_all(vdupq_n_f32(x)); }
V_INLINE v16f v16f_load(const float *p) { return (v16f){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
V_INLINE v16f v16f_load_n(const float *p, uint32_t n) {
    if (n == 16) return v16f_load(p);
    float copy[16] = {0};
    __builtin_memcpy(copy, p, n * sizeof *p);
    return v16f_load(copy);
}
V_INLINE void v16f_store(float *p, v16f x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
V_INLINE void v16f_store_n(float *p, v16f x, uint32_t n) {
    if (n == 16) {
        v16f_store(p, x);
        return;
    }
    float copy[16];
    v16f_store(copy, x);
    __builtin_memcpy(p, copy, n * sizeof *p);
}

V_INLINE v16f v16f_add(v16f x, v16f y) { return (v16f){EACH2(vaddq_f32, x, y)}; }
V_INLINE v16f v16f_sub(v16f x, v16f y) { return (v16f){EACH2(vsubq_f32, x, y)}; }
V_INLINE v16f v16f_mul(v16f x, v16f y) { return (v16f){EACH2(vmulq_f32, x, y)}; }
V_INLINE v16f v16f_div(v16f x, v16f y) { return (v16f){EACH2(vdivq_f32, x, y)}; }
V_INLINE v16f v16f_fma(v16f x, v16f y, v16f z) { return (v16f){EACH3(vfmaq_f32, z, x, y)}; }
V_INLINE v16f v16f_fnma(v16f x, v16f y, v16f z) { return (v16f){EACH3(vfmsq_f32, z, x, y)}; }

V_INLINE float32x4_t v4f_if_less(float32x4_t x, float32x4_t y, float32x4_t yes, float32x4_t no) {
    return vbslq_f32(vcltq_f32(x, y), yes, no);
}
V_INLINE float32x4_t v4f_max(float32x4_t x, float32x4_t y) { return v4f_if_less(y, x, x, y); }
V_INLINE float32x4_t v4f_min(float32x4_t x, float32x4_t y) { return v4f_if_less(x, y, x, y); }
V_INLINE v16f v16f_max(v16f x, v16f y) { return (v16f){EACH2(v4f_max, x, y)}; }
V_INLINE v16f v16f_min(v16f x, v16f y) { return (v16f){EACH2(v4f_min, x, y)}; }
V_INLINE v16f v16f_if_less(v16f x, v16f y, v16f yes, v16f no) {
    return (v16f){v4f_if_less(x.a, y.a, yes.a, no.a), v4f_if_less(x.b, y.b, yes.b, no.b),
                  v4f_if_less(x.c, y.c, yes.c, no.c), v4f_if_less(x.d, y.d, yes.d, no.d)};
}

V_INLINE float32x4_t v4f_or(float32x4_t x, float32x4_t y) { return v4f_of_bits(vorrq_u32(v4u_of_bits(x), v4u_of_bits(y))); }
V_INLINE float32x4_t v4f_flip(float32x4_t x, float32x4_t y) { return v4f_of_bits(veorq_u32(v4u_of_bits(x), v4u_of_bits(y))); }
V_INLINE float32x4_t v4f_sign(float32x4_t x) { return v4f_of_bits(vandq_u32(v4u_of_bits(x), vdupq_n_u32(0x80000000u))); }
V_INLINE v16f v16f_or(v16f x, v16f y) { return (v16f){EACH2(v4f_or, x, y)}; }
V_INLINE v16f v16f_flip(v16f x, v16f sign) { return (v16f){EACH2(v4f_flip, x, sign)}; }
V_INLINE v16f v16f_sign(v16f x) { return (v16f){EACH1(v4f_sign, x)}; }
V_INLINE v16f v16f_abs(v16f x) { return (v16f){EACH1(vabsq_f32, x)}; }

/* Lanes first, first + 1, ... that lie within begin <= lane < end. */
V_INLINE uint32x4_t v4_within(uint32_t first, uint32_t begin, uint32_t end) {
    static const uint32_t count[4] = {0, 1, 2, 3};
    uint32x4_t lane = vaddq_u32(vld1q_u32(count), vdupq_n_u32(first));
    return vandq_u32(vcgeq_u32(lane, vdupq_n_u32(begin)), vcltq_u32(lane, vdupq_n_u32(end)));
}
V_INLINE v16f v16f_keep(v16f x, uint32_t begin, uint32_t end, v16f other) {
    return (v16f){vbslq_f32(v4_within(0, begin, end), x.a, other.a), vbslq_f32(v4_within(4, begin, end), x.b, other.b),
                  vbslq_f32(v4_within(8, begin, end), x.c, other.c), vbslq_f32(v4_within(12, begin, end), x.d, other.d)};
}

/* ---- other types to floats and back ---- */

V_INLINE float32x4_t v4f_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
V_INLINE float32x4_t v4f_load_bf16(const uint16_t *p) { return v4f_of_bits(vshll_n_u16(vld1_u16(p), 16)); }
V_INLINE uint16x4_t v4f_to_f16(float32x4_t x) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
V_INLINE uint16x4_t v4f_to_bf16(float32x4_t x) {
    uint32x4_t bits = v4u_of_bits(x), high = vshrq_n_u32(bits, 16);
    uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
    return vmovn_u32(vbslq_u32(vceqq_f32(x, x), vshrq_n_u32(rounded, 16), quiet)); /* x == x unless NaN */
}

V_INLINE v16f v16f_load_f16(const uint16_t *p) {
    return (v16f){v4f_load_f16(p), v4f_load_f16(p + 4), v4f_load_f16(p + 8), v4f_load_f16(p + 12)};
}
V_INLINE v16f v16f_load_f16_n(const uint16_t *p, uint32_t n) {
    uint16_t copy[16] = {0};
    __builtin_memcpy(copy, p, n * sizeof *p);
    return v16f_load_f16(copy);
}
V_INLINE v16f v16f_load_bf16(const uint16_t *p) {
    return (v16f){v4f_load_bf16(p), v4f_load_bf16(p + 4), v4f_load_bf16(p + 8), v4f_load_bf16(p + 12)};
}
V_INLINE v16f v16f_load_bf16_n(const uint16_t *p, uint32_t n) {
    uint16_t copy[16] = {0};
    __builtin_memcpy(copy, p, n * sizeof *p);
    return v16f_load_bf16(copy);
}
V_INLINE void v16_store_halves(uint16_t *p, uint16x4_t a, uint16x4_t b, uint16x4_t c, uint16x4_t d, uint32_t n) {
    uint16_t copy[16];
    vst1q_u16(copy, vcombine_u16(a, b));
    vst1q_u16(copy + 8, vcombine_u16(c, d));
    __builtin_memcpy(p, copy, n * sizeof *p);
}
V_INLINE void v16f_store_f16_n(uint16_t *p, v16f x, uint32_t n) { v16_store_halves(p, EACH1(v4f_to_f16, x), n); }
V_INLINE void v16f_store_bf16_n(uint16_t *p, v16f x, uint32_t n) { v16_store_halves(p, EACH1(v4f_to_bf16, x), n); }

/* ---- integers ---- */

V_INLINE v16i v16i_zero(void) { return v16i_all(vdupq_n_s32(0)); }
V_INLINE v16i v16i_set1(int32_t x) { return v16i_all(vdupq_n_s32(x)); }
V_INLINE v16i v16i_add(v16i x, v16i y) { return (v16i){EACH2(vaddq_s32, x, y)}; }
V_INLINE v16i v16i_sub(v16i x, v16i y) { return (v16i){EACH2(vsubq_s32, x, y)}; }
V_INLINE v16i v16i_and(v16i x, v16i y) { return (v16i){EACH2(vandq_s32, x, y)}; }
V_INLINE v16i v16i_or(v16i x, v16i y) { return (v16i){EACH2(vorrq_s32, x, y)}; }
V_INLINE v16i v16i_max(v16i x, v16i y) { return (v16i){EACH2(vmaxq_s32, x, y)}; }
V_INLINE v16i v16i_shl(v16i x, unsigned n) {
    const v16i by = v16i_set1((int32_t)n);
    return (v16i){EACH2(vshlq_s32, x, by)};
}
V_INLINE int32x4_t v4i_shr(int32x4_t x, int32x4_t by) { /* logical; to the left by a negative number */
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), by));
}
V_INLINE v16i v16i_shr(v16i x, unsigned n) {
    const v16i by = v16i_set1(-(int32_t)n);
    return (v16i){EACH2(v4i_shr, x, by)};
}
V_INLINE int32x4_t v4i_half(int32x4_t x) { return vshrq_n_s32(x, 1); }
V_INLINE v16i v16i_half(v16i x) { return (v16i){EACH1(v4i_half, x)}; }

V_INLINE int32x4_t v4i_of_u16(uint16x4_t x) { return vreinterpretq_s32_u32(vmovl_u16(x)); }
V_INLINE v16i v16i_load_u8(const uint8_t *p) {
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    return (v16i){v4i_of_u16(vget_low_u16(low)), v4i_of_u16(vget_high_u16(low)),
                  v4i_of_u16(vget_low_u16(high)), v4i_of_u16(vget_high_u16(high))};
}
V_INLINE v16i v16i_load_i8(const uint8_t *p) {
    int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return (v16i){vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
V_INLINE void v16i_store_i8(int8_t *p, v16i x) { /* saturating */
    int16x8_t low = vcombine_s16(vqmovn_s32(x.a), vqmovn_s32(x.b)), high = vcombine_s16(vqmovn_s32(x.c), vqmovn_s32(x.d));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
V_INLINE v16i v16i_round(v16f x) { return (v16i){EACH1(vcvtnq_s32_f32, x)}; }
V_INLINE v16f v16f_of_int(v16i x) { return (v16f){EACH1(vcvtq_f32_s32, x)}; }
V_INLINE int32_t v16i_sum(v16i x) { return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d))); }

V_INLINE v16f v16f_load_i8(const int8_t *p) { return v16f_of_int(v16i_load_i8((const uint8_t *)p)); }
V_INLINE v16f v16f_load_i8_n(const int8_t *p, uint32_t n) {
    int8_t copy[16] = {0};
    __builtin_memcpy(copy, p, n);
    return v16f_load_i8(copy);
}

/* ---- across lanes ---- */

V_INLINE float v16f_tree(v16f x) { /* s[i] += s[i+8]; s[i] += s[i+4]; s[i] += s[i+2]; s[0] + s[1] */
    float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
V_INLINE float v16f_hmax(v16f x) {
    float32x4_t four = v4f_max(v4f_max(x.a, x.c), v4f_max(x.b, x.d));
    four = v4f_max(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(v4f_max(four, vdupq_laneq_f32(four, 1)), 0);
}

V_INLINE void v16f_load_pairs(const float *p, v16f *even, v16f *odd) {
    float32x4x2_t a = vld2q_f32(p), b = vld2q_f32(p + 8), c = vld2q_f32(p + 16), d = vld2q_f32(p + 24);
    *even = (v16f){a.val[0], b.val[0], c.val[0], d.val[0]};
    *odd = (v16f){a.val[1], b.val[1], c.val[1], d.val[1]};
}
V_INLINE void v4f_store_pairs(float *p, float32x4_t even, float32x4_t odd) {
    const float32x4x2_t pairs = {{even, odd}};
    vst2q_f32(p, pairs);
}
V_INLINE void v16f_store_pairs(float *p, v16f even, v16f odd) {
    v4f_store_pairs(p, even.a, odd.a);
    v4f_store_pairs(p + 8, even.b, odd.b);
    v4f_store_pairs(p + 16, even.c, odd.c);
    v4f_store_pairs(p + 24, even.d, odd.d);
}

/* ---- codes: bytes of four columns for each of sixteen rows ---- */

V_INLINE v64b v64b_load(const uint8_t *p) { return (v64b){vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}; }
V_INLINE void v64b_store(uint8_t *p, v64b x) {
    vst1q_u8(p, x.a);
    vst1q_u8(p + 16, x.b);
    vst1q_u8(p + 32, x.c);
    vst1q_u8(p + 48, x.d);
}
V_INLINE v64b v64b_and(v64b x, v64b y) { return (v64b){EACH2(vandq_u8, x, y)}; }
V_INLINE v64b v64b_or(v64b x, v64b y) { return (v64b){EACH2(vorrq_u8, x, y)}; }
V_INLINE v64b v64b_low4(v64b x) { return v64b_and(x, v64b_all(vdupq_n_u8(15))); }
V_INLINE uint8x16_t v16b_high4(uint8x16_t x) { return vshrq_n_u8(x, 4); }
V_INLINE v64b v64b_high4(v64b x) { return (v64b){EACH1(v16b_high4, x)}; }
V_INLINE v64b v64b_two_bits(v64b x, unsigned at) {
    const int8x16_t by = vdupq_n_s8((int8_t)-(int)at);
    v64b down = {vshlq_u8(x.a, by), vshlq_u8(x.b, by), vshlq_u8(x.c, by), vshlq_u8(x.d, by)};
    return v64b_and(down, v64b_all(vdupq_n_u8(3)));
}
V_INLINE uint8x16_t v16b_shl4(uint8x16_t x) { return vshlq_n_u8(x, 4); }
V_INLINE v64b v64b_shl4(v64b x) { return (v64b){EACH1(v16b_shl4, x)}; }
V_INLINE v64b v64b_lookup(v64b codes, const uint8_t table[16]) {
    const v64b t = v64b_all(vld1q_u8(table));
    return (v64b){EACH2(vqtbl1q_u8, t, codes)};
}
V_INLINE uint8x16_t v16b_of_bits(const uint8_t *p, uint8_t value) {
    static const uint8_t bit_of[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1]));
    return vandq_u8(vtstq_u8(bits, vld1q_u8(bit_of)), vdupq_n_u8(value));
}
V_INLINE v64b v64b_of_bits(const uint8_t *p, uint8_t value) {
    return (v64b){v16b_of_bits(p, value), v16b_of_bits(p + 2, value), v16b_of_bits(p + 4, value), v16b_of_bits(p + 6, value)};
}
V_INLINE v64b v64b_spread4(const int8_t *p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return v64b_all(vreinterpretq_u8_u32(vdupq_n_u32(four)));
}

/* Four columns of four rows, both sides signed. */
#ifdef DCT_SIMD_DOTPROD
V_INLINE int32x4_t v4i_dot(int32x4_t acc, uint8x16_t codes, uint8x16_t x) {
    return vdotq_s32(acc, vreinterpretq_s8_u8(codes), vreinterpretq_s8_u8(x));
}
#else
/* By way of 16-bit sums of two products, each at most 128 * 127. */
V_INLINE int32x4_t v4i_dot(int32x4_t acc, uint8x16_t codes, uint8x16_t x) {
    int8x16_t v = vreinterpretq_s8_u8(codes), y = vreinterpretq_s8_u8(x);
    return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(v), vget_low_s8(y)), vmull_high_s8(v, y)));
}
#endif
/* Codes up to 63 are the same signed or not. */
V_INLINE v16i v16i_dot(v16i acc, v64b codes, v64b x) { return (v16i){EACH3(v4i_dot, acc, codes, x)}; }
/* Codes of eight bits are made signed: the bias of 128 is taken away before the dot. */
enum { V_WIDE_BIAS = 0 };
V_INLINE uint8x16_t v16b_to_signed(uint8x16_t codes) { return veorq_u8(codes, vdupq_n_u8(0x80)); }
V_INLINE v16i v16i_dot_wide(v16i acc, v64b codes, v64b x) {
    const v64b value = {EACH1(v16b_to_signed, codes)};
    return v16i_dot(acc, value, x);
}

V_INLINE v16i v16i_of_sums(const int16_t *sums, int a, int b) { return v16i_set1(a * sums[0] + b * sums[1]); }

#undef EACH1
#undef EACH2
#undef EACH3

#endif
