/* kernels/avx2_vnni_linear: products of quantised weights with 256-bit byte dots (AVX-VNNI). */
#define DCT_SIMD_VNNI 1
#include "kernels/simd16_avx2.h"

#include "kernels/simd_linear.h"

#include "kernels/simd_fill.h"

void dct_avx2_vnni_fill_linear(dct_kernels *table) { fill_linear(table); }
