/* kernels/simd_store: how a product leaves the registers: bias, residual, and only rows that exist. */
#ifndef DCT_KERNELS_SIMD_STORE_H
#define DCT_KERNELS_SIMD_STORE_H

#include "kernels/kernel.h"

/* y[row][16 tile - first_row ..] = residual + (acc + bias) */
V_INLINE void store_outputs(const dct_linear_args *a, uint32_t row, uint32_t tile, v16f acc) {
    uint32_t r = tile * DCT_TILE_ROWS, n = a->m - r < DCT_TILE_ROWS ? a->m - r : DCT_TILE_ROWS;
    uint64_t at = row * a->y_stride + (r - a->first_row);
    if (a->bias != NULL) acc = v16f_add(acc, v16f_load_n(a->bias + r, n));
    if (a->residual != NULL) acc = v16f_add(v16f_load_n(a->residual + at, n), acc);
    v16f_store_n(a->y + at, acc, n);
}

#endif
