/* kernels/simd_linear: the product of quantised weights, for any instruction set of simd16_*.h.
 *
 * A lane is an output row. Along k it goes by halves of 32 columns, the block of an activation scale:
 *
 *     for each four columns: integer dot of 16 rows' codes with four activations, the same for all lanes
 *     for each group:        acc = fma(ws * as, dot, acc)                         (kernel.h states this order)
 *
 * Codes are unsigned here, table values and zero points included; a dot therefore starts at -zero * (sum of the group's
 * activations) and is exact in the end. Two ways lead there:
 *
 *     one row       the codes are taken from the packed form as they are used: the weights stream by once
 *     several rows  a chunk of 256 columns of one or two tiles is unpacked to bytes and f32 scales in the nearest cache, and
 *                   a panel that knows no formats runs over the rows; the sums wait in an array between chunks
 */
#ifndef DCT_KERNELS_SIMD_LINEAR_H
#define DCT_KERNELS_SIMD_LINEAR_H

#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_store.h"
#include "kernels/simd_stream.h"

enum { NIB = 512, HI1 = 128, BY2 = 512, BYTE = 1024, F16S = 32, U8S = 16 }; /* bytes of the pieces of a unit (layout.h) */

/* dct_iq4_values + 128 and dct_mxfp4_values + 12 */
static const uint8_t iq4_codes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t mxfp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* ---- MLX ---- */

/* Bits, groups and types of scales are many. The codes' bits are known to the compiler, by a type that stands for all of the
 * same bits; the rest is this, known at run time. All zero for other types. */
typedef struct affine_form {
    uint32_t shift;  /* groups of 32 columns that share a scale are 1 << shift */
    uint32_t codes;  /* bytes of a unit's codes; behind them the scales, then the biases */
    uint32_t array;  /* bytes of a scale of each of the 16 rows */
    uint32_t unit;   /* bytes of a unit */
    dct_dtype scale;
} affine_form;

V_INLINE uint32_t affine_bits(dct_dtype type) {
    switch (type) {
    case DCT_TYPE_MLX2_64_BF16: return 2;
    case DCT_TYPE_MLX3_64_BF16: return 3;
    case DCT_TYPE_MLX4_64_BF16: return 4;
    case DCT_TYPE_MLX5_64_BF16: return 5;
    case DCT_TYPE_MLX6_64_BF16: return 6;
    case DCT_TYPE_MLX8_64_BF16: return 8;
    default: return 0;
    }
}

V_INLINE affine_form affine_of(dct_dtype type) {
    const dct_affine *a = dct_dtype_affine(type);
    const uint32_t array = a->scale == DCT_TYPE_F32 ? 64 : 32, codes = 256 * a->bits;
    const uint32_t shift = a->group == 32 ? 0 : a->group == 64 ? 1 : 2;
    return (affine_form){shift, codes, array, codes + 2 * array * (4u >> shift), a->scale};
}

/* Array i of the scales and biases of a unit. */
V_INLINE v16f affine_at(affine_form a, const uint8_t *unit, uint32_t i) {
    const uint8_t *p = unit + a.codes + i * a.array;
    switch (a.scale) {
    case DCT_TYPE_F32: return v16f_load((const float *)(const void *)p);
    case DCT_TYPE_F16: return v16f_load_f16((const uint16_t *)(const void *)p);
    default: return v16f_load_bf16((const uint16_t *)(const void *)p);
    }
}

/* ---- codes ---- */

/* Half h of a run of pieces, columns 4c..4c+3 of it. */
V_INLINE v64b nib_codes(const uint8_t *nib, uint32_t h, uint32_t c) {
    v64b both = v64b_load(nib + h / 2 * NIB + c * 64);
    return h % 2 == 0 ? v64b_low4(both) : v64b_high4(both);
}
V_INLINE v64b by2_codes(const uint8_t *by2, uint32_t h, uint32_t c) {
    return v64b_two_bits(v64b_load(by2 + h / 4 * BY2 + c * 64), h % 4 * 2);
}
V_INLINE v64b hi1_codes(const uint8_t *hi1, uint32_t h, uint32_t c, uint8_t value) {
    return v64b_of_bits(hi1 + h / 2 * HI1 + (c * 2 + h % 2) * 8, value);
}

V_INLINE v64b codes_of(dct_dtype type, const uint8_t *unit, uint32_t h, uint32_t c) {
    switch (type) {
    case DCT_TYPE_Q8_0: return v64b_load(unit + (h * 8 + c) * 64);
    case DCT_TYPE_Q2_K: return by2_codes(unit, h, c);
    case DCT_TYPE_Q3_K: return v64b_or(by2_codes(unit, h, c), hi1_codes(unit + 2 * BY2, h, c, 4));
    case DCT_TYPE_Q6_K: return v64b_or(nib_codes(unit, h, c), v64b_shl4(by2_codes(unit + 4 * NIB, h, c)));
    case DCT_TYPE_Q5_0:
    case DCT_TYPE_Q5_1: return v64b_or(nib_codes(unit, h, c), hi1_codes(unit + NIB, h, c, 16));
    case DCT_TYPE_Q5_K: return v64b_or(nib_codes(unit, h, c), hi1_codes(unit + 4 * NIB, h, c, 16));
    case DCT_TYPE_IQ4_NL:
    case DCT_TYPE_IQ4_XS: return v64b_lookup(nib_codes(unit, h, c), iq4_codes);
    case DCT_TYPE_MXFP4: return v64b_lookup(nib_codes(unit, h, c), mxfp4_codes);
    case DCT_TYPE_MLX2_64_BF16: return by2_codes(unit, h, c);
    case DCT_TYPE_MLX3_64_BF16: return v64b_or(by2_codes(unit, h, c), hi1_codes(unit + BY2, h, c, 4));
    case DCT_TYPE_MLX5_64_BF16: return v64b_or(nib_codes(unit, h, c), hi1_codes(unit + 2 * NIB, h, c, 16));
    case DCT_TYPE_MLX6_64_BF16: return v64b_or(nib_codes(unit, h, c), v64b_shl4(by2_codes(unit + 2 * NIB, h, c)));
    case DCT_TYPE_MLX8_64_BF16: return v64b_load(unit + (h * 8 + c) * 64);
    default: return nib_codes(unit, h, c); /* Q4_0, Q4_1, Q4_K, MLX4 */
    }
}

/* Codes of more than six bits. */
V_INLINE bool is_wide(dct_dtype type) {
    return type == DCT_TYPE_Q8_0 || type == DCT_TYPE_IQ4_NL || type == DCT_TYPE_IQ4_XS || affine_bits(type) == 8;
}

/* What is to be subtracted from the codes that codes_of returns. */
V_INLINE int zero_of(dct_dtype type) {
    switch (type) {
    case DCT_TYPE_Q4_0: return 8;
    case DCT_TYPE_Q5_0: return 16;
    case DCT_TYPE_Q6_K: return 32;
    case DCT_TYPE_Q3_K: return 4;
    case DCT_TYPE_MXFP4: return 12;
    case DCT_TYPE_MLX8_64_BF16: return V_WIDE_BIAS - 128; /* its codes are not biased */
    default: return is_wide(type) ? V_WIDE_BIAS : 0;
    }
}

/* ---- scales ---- */

V_INLINE v16f halves_at(const uint8_t *f16s) { return v16f_load_f16((const uint16_t *)f16s); }
V_INLINE v16f bytes_at(const uint8_t *u8s) { return v16f_of_int(v16i_load_u8(u8s)); }
V_INLINE v16f signed_at(const uint8_t *i8s) { return v16f_of_int(v16i_load_i8(i8s)); }
V_INLINE v16f nibbles_at(const uint8_t *u8s, unsigned shift) {
    return v16f_of_int(v16i_and(v16i_shr(v16i_load_u8(u8s), shift), v16i_set1(15)));
}

/* Scale of group g of Q3_K: six bits in two places, minus 32. */
V_INLINE v16f q3_k_scale(const uint8_t *scales, uint32_t g) {
    v16i low = v16i_and(v16i_shr(v16i_load_u8(scales + g % 8 * U8S), g / 8 * 4), v16i_set1(15));
    v16i high = v16i_and(v16i_shr(v16i_load_u8(scales + (8 + g % 4) * U8S), g / 4 * 2), v16i_set1(3));
    return v16f_of_int(v16i_sub(v16i_or(low, v16i_shl(high, 4)), v16i_set1(32)));
}

/* 2^(e - 128) by its bits: (e - 1) << 23, and for the subnormal e = 0 and 1, (e + 1) << 21. */
V_INLINE v16f mxfp4_scale(const uint8_t *exponents) {
    v16i e = v16i_load_u8(exponents), one = v16i_set1(1);
    return v16f_of_bits(v16i_max(v16i_shl(v16i_sub(e, one), 23), v16i_shl(v16i_add(e, one), 21)));
}

/* Scale of group g of a unit, for each of the 16 rows. */
V_INLINE v16f scale_of(dct_dtype type, affine_form af, const uint8_t *unit, uint32_t g) {
    if (affine_bits(type) != 0) return affine_at(af, unit, g >> af.shift);
    const uint8_t *q2 = unit + 2 * BY2, *q3 = unit + 2 * BY2 + 4 * HI1, *q4 = unit + 4 * NIB, *q5 = q4 + 4 * HI1;
    const uint8_t *q6 = q4 + 2 * BY2;
    switch (type) {
    case DCT_TYPE_Q5_0:
    case DCT_TYPE_Q5_1: return halves_at(unit + NIB + HI1 + g * F16S);
    case DCT_TYPE_Q8_0: return halves_at(unit + BYTE + g * F16S);
    case DCT_TYPE_MXFP4: return mxfp4_scale(unit + 2 * NIB + g * U8S);
    case DCT_TYPE_Q2_K: return v16f_mul(halves_at(q2), nibbles_at(q2 + 2 * F16S + g * U8S, 0));
    case DCT_TYPE_Q3_K: return v16f_mul(halves_at(q3), q3_k_scale(q3 + F16S, g));
    case DCT_TYPE_Q4_K: return v16f_mul(halves_at(q4), bytes_at(q4 + 2 * F16S + g * U8S));
    case DCT_TYPE_Q5_K: return v16f_mul(halves_at(q5), bytes_at(q5 + 2 * F16S + g * U8S));
    case DCT_TYPE_Q6_K: return v16f_mul(halves_at(q6 + 16 * U8S), signed_at(q6 + g * U8S));
    case DCT_TYPE_IQ4_XS: return v16f_mul(halves_at(q4 + 8 * U8S), signed_at(q4 + g * U8S));
    default: return halves_at(unit + NIB + g * F16S); /* Q4_0, Q4_1, IQ4_NL */
    }
}

V_INLINE bool has_min(dct_dtype type) {
    return type == DCT_TYPE_Q4_1 || type == DCT_TYPE_Q5_1 || type == DCT_TYPE_Q2_K || type == DCT_TYPE_Q4_K ||
           type == DCT_TYPE_Q5_K || affine_bits(type) != 0;
}

/* Minimum of group g. Q4_1, Q5_1 and MLX add theirs where the others subtract. */
V_INLINE v16f min_of(dct_dtype type, affine_form af, const uint8_t *unit, uint32_t g) {
    const uint8_t *q2 = unit + 2 * BY2, *q4 = unit + 4 * NIB, *q5 = q4 + 4 * HI1;
    const v16f minus_zero = v16f_set1(-0.0f);
    if (affine_bits(type) != 0) return v16f_flip(affine_at(af, unit, (4 + g) >> af.shift), minus_zero);
    switch (type) {
    case DCT_TYPE_Q4_1: return v16f_flip(halves_at(unit + NIB + (2 + g) * F16S), minus_zero);
    case DCT_TYPE_Q5_1: return v16f_flip(halves_at(unit + NIB + HI1 + (2 + g) * F16S), minus_zero);
    case DCT_TYPE_Q2_K: return v16f_mul(halves_at(q2 + F16S), nibbles_at(q2 + 2 * F16S + g * U8S, 4));
    case DCT_TYPE_Q4_K: return v16f_mul(halves_at(q4 + F16S), bytes_at(q4 + 2 * F16S + (8 + g) * U8S));
    case DCT_TYPE_Q5_K: return v16f_mul(halves_at(q5 + F16S), bytes_at(q5 + 2 * F16S + (8 + g) * U8S));
    default: return v16f_zero();
    }
}

V_INLINE uint32_t halves_per_unit(dct_dtype type) {
    if (affine_bits(type) != 0) return 4;
    switch (type) {
    case DCT_TYPE_MXFP4: return 4;
    case DCT_TYPE_Q2_K:
    case DCT_TYPE_Q3_K:
    case DCT_TYPE_Q4_K:
    case DCT_TYPE_Q5_K:
    case DCT_TYPE_Q6_K:
    case DCT_TYPE_IQ4_XS: return 8;
    default: return 2;
    }
}

V_INLINE uint64_t unit_bytes_of(dct_dtype type, affine_form af) {
    if (affine_bits(type) != 0) return af.unit;
    switch (type) {
    case DCT_TYPE_Q4_1: return 640;
    case DCT_TYPE_Q5_0: return 704;
    case DCT_TYPE_Q5_1: return 768;
    case DCT_TYPE_Q8_0:
    case DCT_TYPE_MXFP4: return 1088;
    case DCT_TYPE_Q2_K: return 1344;
    case DCT_TYPE_Q3_K: return 1792;
    case DCT_TYPE_Q4_K: return 2368;
    case DCT_TYPE_Q5_K: return 2880;
    case DCT_TYPE_Q6_K: return 3392;
    case DCT_TYPE_IQ4_XS: return 2240;
    default: return 576;
    }
}

V_INLINE bool has_groups_of_16(dct_dtype type) {
    return type == DCT_TYPE_Q2_K || type == DCT_TYPE_Q3_K || type == DCT_TYPE_Q6_K;
}

/* ---- activations ---- */

/* A half of 32 columns of one row or more: where codes, scale and sums of 16 lie, as bytes from the row's begin. */
typedef struct x_half {
    const char *row;
    uint64_t stride; /* of rows */
    uint64_t codes, scale, sums;
} x_half;

V_INLINE x_half x_half_at(const dct_linear_args *a, uint32_t row, uint32_t half) {
    return (x_half){(const char *)a->x + row * a->x_stride, a->x_stride, 32ull * half, a->k + 4ull * half,
                    a->k + a->k / 8 + 4ull * half};
}

V_INLINE v64b x_codes(const x_half *x, uint32_t t, uint32_t c) {
    return v64b_spread4((const int8_t *)x->row + t * x->stride + x->codes + 4 * c);
}
V_INLINE v16f x_scale(const x_half *x, uint32_t t) { return v16f_set1(*(const float *)(x->row + t * x->stride + x->scale)); }

/* The sum of the activations of words c_begin..c_end, times `factor`. */
V_INLINE v16i x_sum(const x_half *x, uint32_t t, uint32_t c_begin, uint32_t c_end, int factor) {
    return v16i_of_sums((const int16_t *)(x->row + t * x->stride + x->sums), c_begin == 0 ? factor : 0, c_end == 8 ? factor : 0);
}

V_INLINE v16i dot(bool wide, v16i acc, v64b codes, v64b x) {
    return wide ? v16i_dot_wide(acc, codes, x) : v16i_dot(acc, codes, x);
}

/* ---- one row ---- */

V_INLINE stream_kind stream_kind_of(dct_dtype type) {
    if (type == DCT_TYPE_Q4_0 || type == DCT_TYPE_Q8_0) return STREAM_IN_ORDER;
    const uint32_t bits = affine_bits(type);
    const bool is_slow = type == DCT_TYPE_Q2_K || type == DCT_TYPE_Q3_K || bits == 2 || bits == 3;
    return is_slow || !V_LONG_BURSTS ? STREAM_SLOW : STREAM_PREFETCHED;
}

/* Half h of a unit and, if n is 2, the next one, which often shares its bytes. All dots first: the sums of their groups do not
 * wait for each other. Then group after group, as the order demands. */
V_INLINE v16f add_halves(dct_dtype type, affine_form af, const uint8_t *unit, const dct_linear_args *a, uint32_t done,
                         uint32_t h, uint32_t n, v16f acc) {
    const uint32_t n_groups = has_groups_of_16(type) ? 2 : 1, words = 8 / n_groups;
    const x_half x[2] = {x_half_at(a, 0, done + h), x_half_at(a, 0, done + h + n - 1)};
    v16i sum[2][2];
#pragma GCC unroll 4
    for (uint32_t g = 0; g < n * n_groups; g++) {
        const uint32_t begin = g % n_groups * words;
        sum[g / n_groups][g % n_groups] =
            zero_of(type) == 0 ? v16i_zero() : x_sum(&x[g / n_groups], 0, begin, begin + words, -zero_of(type));
    }
#pragma GCC unroll 8
    for (uint32_t c = 0; c < 8; c++) {
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n; i++) {
            sum[i][c / words] = dot(is_wide(type), sum[i][c / words], codes_of(type, unit, h + i, c), x_codes(&x[i], 0, c));
        }
    }
#pragma GCC unroll 4
    for (uint32_t g = 0; g < n * n_groups; g++) {
        const x_half *of = &x[g / n_groups];
        const uint32_t at = h * n_groups + g, begin = g % n_groups * words;
        acc = v16f_fma(v16f_mul(scale_of(type, af, unit, at), x_scale(of, 0)), v16f_of_int(sum[g / n_groups][g % n_groups]), acc);
        if (!has_min(type)) continue;
        v16f asum = v16f_of_int(x_sum(of, 0, begin, begin + words, 1));
        acc = v16f_fnma(min_of(type, af, unit, at), v16f_mul(x_scale(of, 0), asum), acc);
    }
    return acc;
}

V_INLINE v16f tile_times_row(dct_dtype type, affine_form af, const dct_linear_args *a, const uint8_t *unit,
                             weight_stream *weights) {
    const uint32_t per_unit = halves_per_unit(type), n_halves = a->k / 32;
    v16f acc = v16f_zero();
    for (uint32_t done = 0; done < n_halves; done += per_unit, unit += unit_bytes_of(type, af)) {
        uint32_t here = n_halves - done < per_unit ? n_halves - done : per_unit, h = 0;
        stream_reaches(weights, unit);
#pragma GCC unroll 1
        /* h is even, so that nibbles know their place */
        for (; h + 1 < here; h += 2) acc = add_halves(type, af, unit, a, done, h, 2, acc);
        if (h < here) acc = add_halves(type, af, unit, a, done, h, 1, acc);
    }
    return acc;
}

/* ---- several rows ---- */

enum {
    CHUNK_HALVES = 8,
    BLOCK_ROWS = 258,                /* that share one unpacking: whole panels of any instruction set */
    BLOCK_TILES = 2 * V_LINEAR_TILES /* that meet a panel's rows while these are in the nearest cache */
};
_Static_assert(BLOCK_ROWS % V_LINEAR_ROWS == 0, "a block's rows are rounded up to panels");
_Static_assert(V_LINEAR_TILES <= 2, "panel_tiles has one tile over at most");

/* 256 columns of one tile, unpacked. */
typedef struct chunk {
    _Alignas(64) uint8_t codes[CHUNK_HALVES * 8][64];
    float scales[CHUNK_HALVES * 2][16], mins[CHUNK_HALVES * 2][16]; /* of groups of 16 or 32 */
} chunk;

/* What a panel needs to know of a type. */
typedef struct panel_kind {
    uint32_t group;
    bool has_min, wide, lifted; /* lifted: its codes are higher than what they mean */
} panel_kind;

/* What the groups of a chunk need of one row of activations, worked out once for a block of tiles: where the dots begin if the
 * codes are lifted, and the sum times the scale if there is a minimum. */
typedef struct row_sums {
    int32_t start[CHUNK_HALVES * 2];
    float scaled[CHUNK_HALVES * 2];
} row_sums;

V_INLINE void unpack_half(dct_dtype type, affine_form af, const uint8_t *unit, uint32_t h, uint32_t at, chunk *out) {
    const uint32_t groups = has_groups_of_16(type) ? 2 : 1;
#pragma GCC unroll 1
    for (uint32_t c = 0; c < 8; c++) v64b_store(out->codes[at * 8 + c], codes_of(type, unit, h, c));
#pragma GCC unroll 1
    for (uint32_t g = 0; g < groups; g++) {
        v16f_store(out->scales[at * groups + g], scale_of(type, af, unit, h * groups + g));
        if (has_min(type)) v16f_store(out->mins[at * groups + g], min_of(type, af, unit, h * groups + g));
    }
}

/* Halves first..first+n-1 of a tile; an odd end brings its zero neighbour along. */
V_INLINE void unpack(dct_dtype type, affine_form af, const uint8_t *tile, uint32_t first, uint32_t n, chunk *out) {
    const uint32_t per_unit = halves_per_unit(type);
#pragma GCC unroll 1
    for (uint32_t at = 0; at < n; at += 2) {
        const uint8_t *unit = tile + (first + at) / per_unit * unit_bytes_of(type, af);
        uint32_t h = (first + at) % per_unit / 2 * 2;
        if (h == 0) prefetch_bytes((uintptr_t)unit + SHORT_AHEAD, unit_bytes_of(type, af));
        unpack_half(type, af, unit, h, at, out);
        unpack_half(type, af, unit, h + 1, at + 1, out);
    }
}

V_INLINE void sum_groups(panel_kind kind, uint32_t n_halves, const int16_t *of_16, const float *scales, int zero, row_sums *out) {
    const uint32_t per_half = kind.group == 16 ? 2 : 1;
    for (uint32_t g = 0; g < n_halves * per_half; g++) {
        int32_t sum = kind.group == 16 ? of_16[g] : of_16[2 * g] + of_16[2 * g + 1];
        if (kind.lifted) out->start[g] = -zero * sum;
        if (kind.has_min) out->scaled[g] = scales[g / per_half] * (float)sum;
    }
}

/* The same of a whole chunk of groups of 32, side by side. */
V_INLINE void sum_chunk(panel_kind kind, const int16_t *of_16, const float *scales, int zero, row_sums *out) {
    typedef int32_t ints __attribute__((vector_size(4 * CHUNK_HALVES)));
    typedef float floats __attribute__((vector_size(4 * CHUNK_HALVES)));
    ints two, sum;
    memcpy(&two, of_16, sizeof two);
    sum = (two << 16 >> 16) + (two >> 16); /* neighbours; the first is the lower half */
    if (kind.lifted) {
        ints start = -zero * sum;
        memcpy(out->start, &start, sizeof start);
    }
    if (kind.has_min) {
        floats scale, scaled;
        memcpy(&scale, scales, sizeof scale);
        scaled = scale * __builtin_convertvector(sum, floats);
        memcpy(out->scaled, &scaled, sizeof scaled);
    }
}

V_INLINE void sum_rows(panel_kind kind, uint32_t n_halves, x_half x, uint32_t n, int zero, row_sums *out) {
    if (!kind.lifted && !kind.has_min) return;
    for (uint32_t t = 0; t < n; t++, x.row += x.stride) {
        const int16_t *of_16 = (const int16_t *)(x.row + x.sums);
        const float *scales = (const float *)(x.row + x.scale);
        if (n_halves == CHUNK_HALVES && kind.group == 32) sum_chunk(kind, of_16, scales, zero, &out[t]);
        else if (n_halves == CHUNK_HALVES) sum_groups(kind, CHUNK_HALVES, of_16, scales, zero, &out[t]);
        else sum_groups(kind, n_halves, of_16, scales, zero, &out[t]);
    }
}

/* One group, the g-th of n_tiles chunks, and n_rows rows. */
V_INLINE void panel_group(panel_kind kind, uint32_t n_tiles, uint32_t n_rows, const chunk *w, size_t half, uint32_t c_begin,
                          uint32_t c_end, size_t g, const x_half *x, const row_sums *of_row, v16f acc[][V_LINEAR_TILES]) {
    v16i sum[V_LINEAR_ROWS][V_LINEAR_TILES];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        v16i start = kind.lifted ? v16i_set1(of_row[t].start[g]) : v16i_zero();
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) sum[t][i] = start;
    }
#pragma GCC unroll 8
    for (uint32_t c = c_begin; c < c_end; c++) {
        v64b codes[V_LINEAR_TILES];
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) codes[i] = v64b_load(w[i].codes[half * 8 + c]);
#pragma GCC unroll 8
        for (uint32_t t = 0; t < n_rows; t++) {
            v64b four = x_codes(x, t, c);
#pragma GCC unroll 2
            for (uint32_t i = 0; i < n_tiles; i++) sum[t][i] = dot(kind.wide, sum[t][i], codes[i], four);
        }
    }
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        v16f as = x_scale(x, t);
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) {
            acc[t][i] = v16f_fma(v16f_mul(v16f_load(w[i].scales[g]), as), v16f_of_int(sum[t][i]), acc[t][i]);
            if (kind.has_min) acc[t][i] = v16f_fnma(v16f_load(w[i].mins[g]), v16f_set1(of_row[t].scaled[g]), acc[t][i]);
        }
    }
}

/* A row's sums, of tile i, in the array of a block whose first row has them at `first`. */
V_INLINE float *sums_of(float *first, uint32_t row, uint32_t i) { return first + ((size_t)row * BLOCK_TILES + i) * 16; }

V_INLINE void panel(panel_kind kind, uint32_t n_tiles, uint32_t n_rows, const chunk *w, uint32_t n_halves, x_half x,
                    const row_sums *of_row, float *out) {
    v16f acc[V_LINEAR_ROWS][V_LINEAR_TILES];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) acc[t][i] = v16f_load(sums_of(out, t, i));
    }
#pragma GCC unroll 1
    for (size_t h = 0; h < n_halves; h++, x.codes += 32, x.scale += 4) {
        if (kind.group == 32) {
            panel_group(kind, n_tiles, n_rows, w, h, 0, 8, h, &x, of_row, acc);
        } else {
            panel_group(kind, n_tiles, n_rows, w, h, 0, 4, 2 * h, &x, of_row, acc);
            panel_group(kind, n_tiles, n_rows, w, h, 4, 8, 2 * h + 1, &x, of_row, acc);
        }
    }
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) v16f_store(sums_of(out, t, i), acc[t][i]);
    }
}

/* n_rows rows, known to the compiler, against n_tiles chunks, as many at a time as registers hold. */
V_INLINE void panel_tiles(panel_kind kind, uint32_t n_tiles, uint32_t n_rows, const chunk *w, uint32_t n_halves, x_half x,
                          int zero, float *out) {
    row_sums of_row[V_LINEAR_ROWS];
    uint32_t i = 0;
    sum_rows(kind, n_halves, x, n_rows, zero, of_row);
#pragma GCC unroll 1
    for (; n_tiles - i >= V_LINEAR_TILES; i += V_LINEAR_TILES)
        panel(kind, V_LINEAR_TILES, n_rows, w + i, n_halves, x, of_row, sums_of(out, 0, i));
    if (V_LINEAR_TILES > 1 && i < n_tiles) panel(kind, 1, n_rows, w + i, n_halves, x, of_row, sums_of(out, 0, i));
}

/* n rows against n_tiles chunks. */
V_INLINE void panels(panel_kind kind, uint32_t n_tiles, const chunk *w, uint32_t n_halves, x_half x, uint32_t n, int zero,
                     float *out) {
    uint32_t t = 0;
    for (; n - t >= V_LINEAR_ROWS; t += V_LINEAR_ROWS, x.row += V_LINEAR_ROWS * x.stride)
        panel_tiles(kind, n_tiles, V_LINEAR_ROWS, w, n_halves, x, zero, sums_of(out, t, 0));
    if (V_LINEAR_ROWS > 2) {
        for (; n - t >= 2; t += 2, x.row += 2 * x.stride) panel_tiles(kind, n_tiles, 2, w, n_halves, x, zero, sums_of(out, t, 0));
    }
    if (t < n) panel_tiles(kind, n_tiles, 1, w, n_halves, x, zero, sums_of(out, t, 0));
}

typedef void panels_fn(uint32_t n_tiles, const chunk *w, uint32_t n_halves, x_half x, uint32_t n, int zero, float *out);

#define PANELS(NAME, GROUP, HAS_MIN, WIDE, LIFTED) \
    static void NAME(uint32_t n_tiles, const chunk *w, uint32_t n_halves, x_half x, uint32_t n, int zero, float *out) { \
        panels((panel_kind){GROUP, HAS_MIN, WIDE, LIFTED}, n_tiles, w, n_halves, x, n, zero, out); \
    }
PANELS(groups_of_32, 32, false, false, true)
PANELS(groups_of_32_wide, 32, false, true, V_WIDE_BIAS != 0)
PANELS(groups_of_32_min, 32, true, false, false)
PANELS(groups_of_32_min_wide, 32, true, true, V_WIDE_BIAS != 128)
PANELS(groups_of_16, 16, false, false, true)
PANELS(groups_of_16_min, 16, true, false, false)
#undef PANELS

V_INLINE panels_fn *panels_of(dct_dtype type) {
    if (has_groups_of_16(type)) return has_min(type) ? groups_of_16_min : groups_of_16;
    if (has_min(type)) return is_wide(type) ? groups_of_32_min_wide : groups_of_32_min;
    return is_wide(type) ? groups_of_32_wide : groups_of_32;
}

/* Up to BLOCK_ROWS rows against n_tiles tiles, the first of which lies at w. */
V_INLINE void tiles_times_rows(dct_dtype type, affine_form af, const dct_linear_args *a, const uint8_t *w, uint64_t tile_bytes,
                               uint32_t tile, uint32_t n_tiles, uint32_t row, uint32_t n) {
    panels_fn *run = panels_of(type);
    chunk chunks[BLOCK_TILES];
    _Alignas(64) float sums[BLOCK_ROWS * BLOCK_TILES * 16];
    _Static_assert(sizeof chunks + sizeof sums <= 128 * 1024, "half of a worker's stack");
    memset(sums, 0, (size_t)n * BLOCK_TILES * 16 * sizeof *sums);
    for (uint32_t half = 0; half < a->k / 32; half += CHUNK_HALVES) {
        uint32_t n_halves = a->k / 32 - half < CHUNK_HALVES ? a->k / 32 - half : CHUNK_HALVES;
        for (uint32_t i = 0; i < n_tiles; i++) unpack(type, af, w + i * tile_bytes, half, n_halves, &chunks[i]);
        run(n_tiles, chunks, n_halves, x_half_at(a, row, half), n, zero_of(type), sums);
    }
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t i = 0; i < n_tiles; i++) store_outputs(a, row + t, tile + i, v16f_load(sums_of(sums, t, i)));
    }
}

/* ---- the whole product ---- */

V_INLINE void linear(dct_dtype type, affine_form af, const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    const uint32_t per_unit = halves_per_unit(type);
    const uint64_t tile_bytes = (a->k / 32 + per_unit - 1) / per_unit * unit_bytes_of(type, af);
    const uint8_t *w = a->w;
    if (a->n == 1) {
        weight_stream weights = stream_of(stream_kind_of(type), w + tile_begin * tile_bytes, w + tile_end * tile_bytes,
                                          unit_bytes_of(type, af));
        for (uint32_t tile = tile_begin; tile < tile_end; tile++)
            store_outputs(a, 0, tile, tile_times_row(type, af, a, w + tile * tile_bytes, &weights));
        return;
    }
    /* Blocks of nearly equal size, whole panels but for the last. */
    const uint32_t n_blocks = (a->n + BLOCK_ROWS - 1) / BLOCK_ROWS, even = (a->n + n_blocks - 1) / n_blocks;
    const uint32_t block = (even + V_LINEAR_ROWS - 1) / V_LINEAR_ROWS * V_LINEAR_ROWS;
    for (uint32_t row = 0; row < a->n; row += block) {
        uint32_t n = a->n - row < block ? a->n - row : block;
        for (uint32_t tile = tile_begin; tile < tile_end; tile += BLOCK_TILES) {
            uint32_t n_tiles = tile_end - tile < BLOCK_TILES ? tile_end - tile : BLOCK_TILES;
            tiles_times_rows(type, af, a, w + tile * tile_bytes, tile_bytes, tile, n_tiles, row, n);
        }
    }
}

#define DCT_SIMD_QUANTS(X) \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)

#define X(NAME) \
    static void linear_##NAME(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) { \
        linear(DCT_TYPE_##NAME, (affine_form){0}, a, tile_begin, tile_end); \
    }
DCT_SIMD_QUANTS(X)
#undef X

/* MLX: one function for all types of so many bits. */
#define DCT_SIMD_AFFINES(X) X(2) X(3) X(4) X(5) X(6) X(8)
#define X(BITS) \
    static void linear_affine_##BITS(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) { \
        linear(DCT_TYPE_MLX##BITS##_64_BF16, affine_of(a->type), a, tile_begin, tile_end); \
    }
DCT_SIMD_AFFINES(X)
#undef X

static void fill_linear(dct_kernels *table) {
#define X(NAME) table->linear[DCT_TYPE_##NAME] = linear_##NAME;
    DCT_SIMD_QUANTS(X)
#undef X
#define X(BITS) if (affine != NULL && affine->bits == BITS) table->linear[type] = linear_affine_##BITS;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        const dct_affine *affine = dct_dtype_affine((dct_dtype)type);
        DCT_SIMD_AFFINES(X)
    }
#undef X
}

#endif
