/* kernels/avx512: the tables of the two AVX-512 instruction sets. */
#include "kernels/simd.h"

void dct_kernels_fill_avx512(dct_kernels *table) {
    dct_kernels_fill_avx2(table);
    table->name = "avx512";
}

void dct_kernels_fill_avx512_vnni(dct_kernels *table) {
    dct_kernels_fill_avx512(table);
    table->name = "avx512_vnni";
}
