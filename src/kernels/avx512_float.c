/* kernels/avx512_float: products of float weights, norms, rotary positions, elementwise operations and caches with AVX-512. */
#include "kernels/simd16_avx512.h"

#include "kernels/simd_fill.h"
#include "kernels/simd_float.h"
#include "kernels/simd_ops.h"

void dct_avx512_fill_floats(dct_kernels *table) {
    fill_float_linear(table);
    fill_ops(table);
}
