/* kernels/avx512_linear: products of quantised weights with 512-bit byte dots (AVX512-VNNI). */
#define DCT_SIMD_VNNI 1
#include "kernels/simd16_avx512.h"

#include "kernels/simd_linear.h"

#include "kernels/simd_fill.h"

void dct_avx512_fill_linear(dct_kernels *table) { fill_linear(table); }
