/* kernels/avx2: the tables of the two AVX2 instruction sets. */
#include "kernels/simd.h"

void dct_kernels_fill_avx2(dct_kernels *table) {
    table->name = "avx2";
}

void dct_kernels_fill_avx2_vnni(dct_kernels *table) {
    dct_kernels_fill_avx2(table);
    table->name = "avx2_vnni";
}
