/* kernels/simd_linear: the product of quantised weights, for any instruction set of simd16_*.h.
 *
 * A panel is n_tiles tiles of weights times n_rows rows of activations, both constants after inlining, so that its
 * accumulators live in registers. Along k it goes by halves of 32 columns, the block of an activation scale:
 *
 *     for each four columns: codes of 16 rows, once; for each row of activations: integer dot, lane = output row
 *     for each group:        acc = fma(ws * as, dot, acc)                         (kernel.h states this order)
 *
 * Codes are unsigned here, table values and zero points included; a dot therefore starts at -zero * (sum of the group's
 * activations) and is exact in the end.
 */
#ifndef DCT_KERNELS_SIMD_LINEAR_H
#define DCT_KERNELS_SIMD_LINEAR_H

#include "kernels/kernel.h"
#include "kernels/simd_store.h"

enum { NIB = 512, HI1 = 128, BY2 = 512, BYTE = 1024, F16S = 32, U8S = 16 }; /* bytes of the pieces of a unit (layout.h) */

/* dct_iq4_values + 128 and dct_mxfp4_values + 12 */
static const uint8_t iq4_codes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t mxfp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

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
    default: return nib_codes(unit, h, c); /* Q4_0, Q4_1, Q4_K */
    }
}

/* Codes of more than six bits. */
V_INLINE bool is_wide(dct_dtype type) {
    return type == DCT_TYPE_Q8_0 || type == DCT_TYPE_IQ4_NL || type == DCT_TYPE_IQ4_XS;
}

/* What is to be subtracted from the codes that codes_of returns. */
V_INLINE int zero_of(dct_dtype type) {
    switch (type) {
    case DCT_TYPE_Q4_0: return 8;
    case DCT_TYPE_Q5_0: return 16;
    case DCT_TYPE_Q6_K: return 32;
    case DCT_TYPE_Q3_K: return 4;
    case DCT_TYPE_MXFP4: return 12;
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
V_INLINE v16f scale_of(dct_dtype type, const uint8_t *unit, uint32_t g) {
    const uint8_t *q2 = unit + 2 * BY2, *q3 = unit + 2 * BY2 + 4 * HI1, *q4 = unit + 4 * NIB, *q5 = q4 + 4 * HI1, *q6 = q4 + 2 * BY2;
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
    return type == DCT_TYPE_Q4_1 || type == DCT_TYPE_Q5_1 || type == DCT_TYPE_Q2_K || type == DCT_TYPE_Q4_K || type == DCT_TYPE_Q5_K;
}

/* Minimum of group g. Q4_1 and Q5_1 add theirs where the others subtract. */
V_INLINE v16f min_of(dct_dtype type, const uint8_t *unit, uint32_t g) {
    const uint8_t *q2 = unit + 2 * BY2, *q4 = unit + 4 * NIB, *q5 = q4 + 4 * HI1;
    const v16f minus_zero = v16f_set1(-0.0f);
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

V_INLINE uint64_t unit_bytes_of(dct_dtype type) {
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

/* ---- a panel ---- */

/* Where a half of 32 columns lies: in the first tile's unit, and in the activation rows. */
typedef struct half_pos {
    const uint8_t *unit; /* the same unit of tile i is i * tile_bytes further */
    uint64_t tile_bytes;
    uint32_t h;              /* half of the unit */
    const int8_t *const *x;  /* activation rows */
    uint64_t codes, scale, sums; /* byte offsets in such a row */
} half_pos;

enum { PREFETCH_BYTES = 1536 }; /* how far ahead of a single row's reads; see bench/kernels */

V_INLINE void prefetch(const uint8_t *p, uint64_t bytes) {
    for (uint64_t line = 0; line < bytes; line += 64) __builtin_prefetch(p + line);
}

V_INLINE v16i dot(dct_dtype type, v16i acc, v64b codes, v64b x) {
    return is_wide(type) ? v16i_dot_wide(acc, codes, x) : v16i_dot(acc, codes, x);
}

/* One group: words c_begin..c_end of four columns in half p->h; g is its number in the unit. */
V_INLINE void add_group(dct_dtype type, uint32_t n_tiles, uint32_t n_rows, const half_pos *p, uint32_t c_begin, uint32_t c_end,
                        uint32_t g, v16f acc[][V_LINEAR_TILES]) {
    const int zero = zero_of(type);
    const bool first = c_begin == 0, second = c_end == 8; /* which of the half's two sums of 16 activations belong to it */
    v16i sum[V_LINEAR_ROWS][V_LINEAR_TILES];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        v16i start = v16i_zero();
        if (zero != 0) start = v16i_of_sums((const int16_t *)(p->x[t] + p->sums), first ? -zero : 0, second ? -zero : 0);
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) sum[t][i] = start;
    }
#pragma GCC unroll 8
    for (uint32_t c = c_begin; c < c_end; c++) {
        v64b codes[V_LINEAR_TILES];
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) codes[i] = codes_of(type, p->unit + i * p->tile_bytes, p->h, c);
#pragma GCC unroll 8
        for (uint32_t t = 0; t < n_rows; t++) {
            v64b x = v64b_spread4(p->x[t] + p->codes + 4 * c);
#pragma GCC unroll 2
            for (uint32_t i = 0; i < n_tiles; i++) sum[t][i] = dot(type, sum[t][i], codes[i], x);
        }
    }
    v16f scale[V_LINEAR_TILES], min[V_LINEAR_TILES];
#pragma GCC unroll 2
    for (uint32_t i = 0; i < n_tiles; i++) {
        scale[i] = scale_of(type, p->unit + i * p->tile_bytes, g);
        min[i] = min_of(type, p->unit + i * p->tile_bytes, g);
    }
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        v16f x_scale = v16f_set1(*(const float *)(p->x[t] + p->scale));
        v16f x_sum = v16f_zero();
        if (has_min(type)) x_sum = v16f_of_int(v16i_of_sums((const int16_t *)(p->x[t] + p->sums), first, second));
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) {
            acc[t][i] = v16f_fma(v16f_mul(scale[i], x_scale), v16f_of_int(sum[t][i]), acc[t][i]);
            if (has_min(type)) acc[t][i] = v16f_fnma(v16f_mul(min[i], x_scale), x_sum, acc[t][i]);
        }
    }
}

/* Half h of a unit, given the position of the unit's first half. */
V_INLINE void add_half(dct_dtype type, uint32_t n_tiles, uint32_t n_rows, half_pos p, uint32_t h, v16f acc[][V_LINEAR_TILES]) {
    p.h = h;
    p.codes += 32 * h;
    p.scale += 4 * h;
    p.sums += 4 * h;
    if (has_groups_of_16(type)) {
        add_group(type, n_tiles, n_rows, &p, 0, 4, 2 * h, acc);
        add_group(type, n_tiles, n_rows, &p, 4, 8, 2 * h + 1, acc);
    } else {
        add_group(type, n_tiles, n_rows, &p, 0, 8, h, acc);
    }
}

/* The tiles' dots with the rows: lanes of acc are output rows. */
V_INLINE void dots(dct_dtype type, uint32_t n_tiles, uint32_t n_rows, const dct_linear_args *a, uint32_t tile,
                   const int8_t *const x[], v16f acc[][V_LINEAR_TILES]) {
    const uint32_t per_unit = halves_per_unit(type), n_halves = a->k / 32;
    const uint64_t unit_bytes = unit_bytes_of(type);
    half_pos p = {.x = x, .tile_bytes = (n_halves + per_unit - 1) / per_unit * unit_bytes};
    p.unit = (const uint8_t *)a->w + tile * p.tile_bytes;
    p.scale = a->k;
    p.sums = a->k + a->k / 8;
    for (uint32_t u = 0; u < n_halves / per_unit; u++) {
        if (n_rows == 1) prefetch(p.unit + PREFETCH_BYTES, unit_bytes);
        for (uint32_t h = 0; h < per_unit; h += 2) { /* an even half and an odd one, so that nibbles know their place */
            add_half(type, n_tiles, n_rows, p, h, acc);
            add_half(type, n_tiles, n_rows, p, h + 1, acc);
        }
        p.unit += unit_bytes;
        p.codes += 32 * per_unit;
        p.scale += 4 * per_unit;
        p.sums += 4 * per_unit;
    }
    if (per_unit == 8) return; /* k is a multiple of 256 */
    if (per_unit == 2) {
        if (n_halves % 2 != 0) add_half(type, n_tiles, n_rows, p, 0, acc);
    } else {
        for (uint32_t h = 0; h < n_halves % per_unit; h++) add_half(type, n_tiles, n_rows, p, h, acc);
    }
}

V_INLINE void panel(dct_dtype type, uint32_t n_tiles, uint32_t n_rows, const dct_linear_args *a, uint32_t tile, uint32_t row) {
    const int8_t *x[V_LINEAR_ROWS];
    v16f acc[V_LINEAR_ROWS][V_LINEAR_TILES];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        x[t] = (const int8_t *)a->x + (row + t) * a->x_stride;
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) acc[t][i] = v16f_zero();
    }
    dots(type, n_tiles, n_rows, a, tile, x, acc);
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
#pragma GCC unroll 2
        for (uint32_t i = 0; i < n_tiles; i++) store_outputs(a, row + t, tile + i, acc[t][i]);
    }
}

/* ---- the whole product ---- */

/* Rows [row, end) of n_tiles tiles: as many at a time as registers hold. */
V_INLINE void rows_of_tiles(dct_dtype type, uint32_t n_tiles, const dct_linear_args *a, uint32_t tile, uint32_t row, uint32_t end) {
    for (; end - row >= V_LINEAR_ROWS; row += V_LINEAR_ROWS) panel(type, n_tiles, V_LINEAR_ROWS, a, tile, row);
    if (V_LINEAR_ROWS > 2) {
        for (; end - row >= 2; row += 2) panel(type, n_tiles, 2, a, tile, row);
    }
    if (row == end) return;
    for (uint32_t i = 0; i < n_tiles; i++) panel(type, 1, 1, a, tile + i, row); /* one stream of weights at a time */
}

enum { ROW_BLOCK_BYTES = 256 * 1024 }; /* activations that stay in the second cache while the tiles go by */

V_INLINE void linear(dct_dtype type, const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    uint32_t block = (uint32_t)(ROW_BLOCK_BYTES / dct_q8_row_bytes(a->k)) / V_LINEAR_ROWS * V_LINEAR_ROWS;
    if (block == 0) block = V_LINEAR_ROWS;
    for (uint32_t row = 0; row < a->n; row += block) {
        uint32_t end = a->n - row < block ? a->n : row + block, tile = tile_begin;
        for (; tile_end - tile >= V_LINEAR_TILES; tile += V_LINEAR_TILES) rows_of_tiles(type, V_LINEAR_TILES, a, tile, row, end);
        if (V_LINEAR_TILES > 1 && tile < tile_end) rows_of_tiles(type, 1, a, tile, row, end);
    }
}

#define DCT_SIMD_QUANTS(X) \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)

#define X(NAME) \
    static void linear_##NAME(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) { \
        linear(DCT_TYPE_##NAME, a, tile_begin, tile_end); \
    }
DCT_SIMD_QUANTS(X)
#undef X

static void fill_linear(dct_kernels *table) {
#define X(NAME) table->linear[DCT_TYPE_##NAME] = linear_##NAME;
    DCT_SIMD_QUANTS(X)
#undef X
}

#endif
