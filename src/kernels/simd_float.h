/* kernels/simd_float: products of float weights, for any instruction set of simd16_*.h.
 *
 * A lane is an output row; each output has four partial sums over columns of equal k mod 4 (kernel.h), which are also the
 * independent chains that keep the multipliers busy.
 */
#ifndef DCT_KERNELS_SIMD_FLOAT_H
#define DCT_KERNELS_SIMD_FLOAT_H

#include "base/size.h"
#include "kernels/kernel.h"
#include "kernels/simd_store.h"
#include "kernels/simd_stream.h"

/* Sixteen elements of a float type at element `at`. */
V_INLINE v16f load_floats(dct_dtype type, const void *p, uint64_t at) {
    switch (type) {
    case DCT_TYPE_F16: return v16f_load_f16((const uint16_t *)p + at);
    case DCT_TYPE_BF16: return v16f_load_bf16((const uint16_t *)p + at);
    default: return v16f_load((const float *)p + at);
    }
}

V_INLINE void float_column(dct_dtype type, uint32_t n_rows, const void *w, const float *const x[], uint32_t col, uint32_t j,
                           v16f acc[][4]) {
    v16f column = load_floats(type, w, (uint64_t)col * 16);
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) acc[t][j] = v16f_fma(column, v16f_set1(x[t][col]), acc[t][j]);
}

V_INLINE void float_panel(dct_dtype type, uint32_t n_rows, const dct_linear_args *a, const void *w, uint32_t tile, uint32_t row,
                          weight_stream *weights) {
    const float *x[V_FLOAT_ROWS];
    v16f acc[V_FLOAT_ROWS][4];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        x[t] = (const float *)((const char *)a->x + (row + t) * a->x_stride);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[t][j] = v16f_zero();
    }
    const uint64_t column_bytes = 16 * dct_dtype_block_bytes(type);
    uint32_t col = 0;
    while (a->k - col >= 4) {
        uint64_t n = (a->k - col) / 4;
        if (n_rows == 1) {
            const uint64_t until = stream_units(weights, (const char *)w + col * column_bytes, 4 * column_bytes);
            n = until < n ? until : n;
        }
#pragma GCC unroll 1
        for (; n > 0; n--, col += 4) {
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 4; j++) float_column(type, n_rows, w, x, col + j, j, acc);
        }
    }
    if (col < a->k) float_column(type, n_rows, w, x, col, 0, acc);
    if (col + 1 < a->k) float_column(type, n_rows, w, x, col + 1, 1, acc);
    if (col + 2 < a->k) float_column(type, n_rows, w, x, col + 2, 2, acc);
#pragma GCC unroll 8
    for (uint32_t t = 0; t < n_rows; t++) {
        v16f sum = v16f_add(v16f_add(acc[t][0], acc[t][1]), v16f_add(acc[t][2], acc[t][3]));
        store_outputs(a, row + t, tile, sum);
    }
}

enum { FLOAT_BLOCK_BYTES = 256 * 1024 }; /* activations that stay in the second cache while the tiles go by */

V_INLINE void float_linear(dct_dtype type, const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    const uint64_t tile_bytes = dct_round_up((uint64_t)a->k * 16 * dct_dtype_block_bytes(type), 64);
    uint32_t block = FLOAT_BLOCK_BYTES / 4 / (a->k + 1) / V_FLOAT_ROWS * V_FLOAT_ROWS;
    if (block == 0) block = V_FLOAT_ROWS;
    for (uint32_t begin = 0; begin < a->n; begin += block) {
        uint32_t end = a->n - begin < block ? a->n : begin + block;
        weight_stream weights = stream_of(STREAM_SLOW, (const char *)a->w + tile_begin * tile_bytes,
                                          (const char *)a->w + tile_end * tile_bytes, 64 * dct_dtype_block_bytes(type));
        for (uint32_t tile = tile_begin; tile < tile_end; tile++) {
            const char *w = (const char *)a->w + tile * tile_bytes;
            uint32_t row = begin;
            for (; end - row >= V_FLOAT_ROWS; row += V_FLOAT_ROWS) float_panel(type, V_FLOAT_ROWS, a, w, tile, row, &weights);
            if (V_FLOAT_ROWS > 2) {
                for (; end - row >= 2; row += 2) float_panel(type, 2, a, w, tile, row, &weights);
            }
            for (; row < end; row++) float_panel(type, 1, a, w, tile, row, &weights);
        }
    }
}

static void linear_F32(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    float_linear(DCT_TYPE_F32, a, tile_begin, tile_end);
}
static void linear_F16(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    float_linear(DCT_TYPE_F16, a, tile_begin, tile_end);
}
static void linear_BF16(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end) {
    float_linear(DCT_TYPE_BF16, a, tile_begin, tile_end);
}

static void fill_float_linear(dct_kernels *table) {
    table->linear[DCT_TYPE_F32] = linear_F32;
    table->linear[DCT_TYPE_F16] = linear_F16;
    table->linear[DCT_TYPE_BF16] = linear_BF16;
}

#endif
