/* kernels/avx2_linear: products of quantised weights with AVX2, byte products by way of 16 bits. */
#include "kernels/simd16_avx2.h"

#include "kernels/simd_linear.h"

#include "kernels/simd_fill.h"

void dct_avx2_fill_linear(dct_kernels *table) { fill_linear(table); }
