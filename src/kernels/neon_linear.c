/* kernels/neon_linear: products of quantised weights with NEON, byte products by way of 16 bits. */
#include "kernels/simd16_neon.h"

#include "kernels/simd_linear.h"

#include "kernels/simd_fill.h"

void dct_neon_fill_linear(dct_kernels *table) { fill_linear(table); }
