/* kernels/simd: what the instruction-set files offer to select.c, and the scratch they need.
 *
 * Each function takes a table that already holds the scalar kernels and replaces the entries it has code for. Call one only
 * on a processor that has the instructions. Files of one kind of processor are absent from builds for another.
 *
 * How the vector code is laid out: the algorithms are written once, over sixteen lanes, in simd_*.h; simd16_avx2.h,
 * simd16_avx512.h and simd16_neon.h say what sixteen lanes are on each instruction set; avx*.c and neon*.c compile the one
 * with the other.
 */
#ifndef DCT_KERNELS_SIMD_H
#define DCT_KERNELS_SIMD_H

#include "kernels/kernel.h"

#if defined(__x86_64__) && !defined(DCT_NO_SIMD)
#define DCT_KERNELS_X86 1
void dct_kernels_fill_avx2(dct_kernels *table);        /* AVX2, FMA, F16C */
void dct_kernels_fill_avx2_vnni(dct_kernels *table);   /* and AVX-VNNI */
void dct_kernels_fill_avx512(dct_kernels *table);      /* AVX-512 F, BW, VL, DQ, and all of AVX2 above */
void dct_kernels_fill_avx512_vnni(dct_kernels *table); /* and AVX512-VNNI */
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DCT_KERNELS_NEON 1
void dct_kernels_fill_neon(dct_kernels *table);        /* what every aarch64 has */
void dct_kernels_fill_neon_dot(dct_kernels *table);    /* and the byte dots of ARMv8.2 */
#endif

enum { DCT_SIMD_QUERIES = 6 }; /* queries that the vector attention handles together */

/* Scratch of the vector attention for one worker, for every instruction set: a query's scores of one part and two
 * accumulators, for DCT_SIMD_QUERIES queries. */
static inline uint64_t dct_simd_attn_scratch_bytes(uint32_t dv) {
    uint64_t query_floats = (uint64_t)DCT_PART_POSITIONS + 2 * (((uint64_t)dv + 15) & ~(uint64_t)15);
    return DCT_SIMD_QUERIES * query_floats * sizeof(float);
}

#endif
