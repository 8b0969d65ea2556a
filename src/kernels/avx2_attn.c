/* kernels/avx2_attn: attention with AVX2. */
#include "kernels/simd16_avx2.h"

#include "kernels/simd_attn.h"
#include "kernels/simd_fill.h"

void dct_avx2_fill_attn(dct_kernels *table) { fill_attn(table); }
