/* kernels/neon_dot_linear: products of quantised weights with byte dots (ARMv8.2 dotprod). */
#define DCT_SIMD_DOTPROD 1
#include "kernels/simd16_neon.h"

#include "kernels/simd_linear.h"

#include "kernels/simd_fill.h"

void dct_neon_dot_fill_linear(dct_kernels *table) { fill_linear(table); }
