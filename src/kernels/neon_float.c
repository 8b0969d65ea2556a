/* kernels/neon_float: products of float weights, norms, rotary positions, elementwise operations and caches with NEON. */
#include "kernels/simd16_neon.h"

#include "kernels/simd_fill.h"
#include "kernels/simd_float.h"
#include "kernels/simd_ops.h"

void dct_neon_fill_floats(dct_kernels *table) {
    fill_float_linear(table);
    fill_ops(table);
}
