/* kernels/avx2: the tables of the two AVX2 instruction sets. */
#include "kernels/simd.h"
#include "kernels/simd_fill.h"

void dct_kernels_fill_avx2(dct_kernels *table) {
    dct_avx2_fill_linear(table);
    dct_avx2_fill_floats(table);
    dct_avx2_fill_attn(table);
}

void dct_kernels_fill_avx2_vnni(dct_kernels *table) {
    dct_kernels_fill_avx2(table);
    dct_avx2_vnni_fill_linear(table);
}
