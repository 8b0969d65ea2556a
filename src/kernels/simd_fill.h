/* kernels/simd_fill: the parts of the vector tables. Each replaces the entries that its file has code for. */
#ifndef DCT_KERNELS_SIMD_FILL_H
#define DCT_KERNELS_SIMD_FILL_H

#include "kernels/kernel.h"

void dct_avx2_fill_linear(dct_kernels *table);
void dct_avx2_vnni_fill_linear(dct_kernels *table);
void dct_avx512_fill_linear(dct_kernels *table);
void dct_avx2_fill_floats(dct_kernels *table);
void dct_avx512_fill_floats(dct_kernels *table);
void dct_avx2_fill_attn(dct_kernels *table);
void dct_avx512_fill_attn(dct_kernels *table);
void dct_neon_fill_linear(dct_kernels *table);
void dct_neon_dot_fill_linear(dct_kernels *table);
void dct_neon_fill_floats(dct_kernels *table);
void dct_neon_fill_attn(dct_kernels *table);

#endif
