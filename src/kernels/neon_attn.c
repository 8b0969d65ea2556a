/* kernels/neon_attn: attention with NEON. */
#include "kernels/simd16_neon.h"

#include "kernels/simd_attn.h"
#include "kernels/simd_fill.h"

void dct_neon_fill_attn(dct_kernels *table) { fill_attn(table); }
