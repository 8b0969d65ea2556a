/* kernels/avx512: the tables of the two AVX-512 instruction sets. Without byte dots the products of quantised weights stay
 * those of AVX2.
 */
#include "kernels/simd.h"
#include "kernels/simd_fill.h"

void dct_kernels_fill_avx512(dct_kernels *table) {
    dct_kernels_fill_avx2(table);
    dct_avx512_fill_floats(table);
    dct_avx512_fill_attn(table);
}

void dct_kernels_fill_avx512_vnni(dct_kernels *table) {
    dct_kernels_fill_avx512(table);
    dct_avx512_fill_linear(table);
}
