/* kernels/neon: the tables of the two NEON instruction sets. */
#include "kernels/simd.h"
#include "kernels/simd_fill.h"

void dct_kernels_fill_neon(dct_kernels *table) {
    dct_neon_fill_linear(table);
    dct_neon_fill_floats(table);
    dct_neon_fill_attn(table);
}

void dct_kernels_fill_neon_dot(dct_kernels *table) {
    dct_kernels_fill_neon(table);
    dct_neon_dot_fill_linear(table);
}
