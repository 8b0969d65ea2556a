/* kernels/avx512_attn: attention with AVX-512. */
#include "kernels/simd16_avx512.h"

#include "kernels/simd_attn.h"
#include "kernels/simd_fill.h"

void dct_avx512_fill_attn(dct_kernels *table) { fill_attn(table); }
