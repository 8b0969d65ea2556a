/* tools/byte_dots: one loop an instruction set.
 *
 * A round is twelve sums, each of which takes one product of two registers: enough of them to hide the time that one takes. The
 * loops are written in the processor's own words: compilers keep arrays of sums in memory at one level of optimisation and not at
 * another, and these files are for processors that may lack the instructions. What the registers hold means nothing; the time
 * does not depend on it.
 */
#include "tools/byte_dots.h"

#include "kernels/simd.h"

/* STEP(n) is the text of what adds to sum n. */
#define TWELVE(STEP) STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)

/* Four bytes to a sum, in the words of the language. */
static void run_scalar(uint32_t rounds) {
    enum { BYTES = 64 };
    int8_t a[BYTES] = {1}, b[BYTES] = {1};
    uint32_t sum[BYTES / 4] = {0};
    for (uint32_t r = 0; r < rounds; r++) {
        for (int i = 0; i < BYTES; i++) sum[i / 4] += (uint32_t)(a[i] * b[i]);
        __asm__ volatile("" : : "r"(a), "r"(b), "r"(sum) : "memory"); /* all of it is read and may change */
    }
}

#if defined(DCT_KERNELS_X86)

#define ROUNDS_OF(STEP)                                                                                                          \
    __asm__ volatile("1:\n\t" TWELVE(STEP) "decl %0\n\tjnz 1b\n\tvzeroupper"                                                     \
                     : "+r"(rounds)                                                                                              \
                     :                                                                                                           \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",   \
                       "xmm12", "xmm13", "xmm14", "xmm15")

/* Without byte dots: products as words, their pairs as 32 bits, and a sum. */
#define PLAIN(v, n)                                                                                                      \
    "vpmaddubsw %%" v "14, %%" v "15, %%" v "13\n\tvpmaddwd %%" v "12, %%" v "13, %%" v "13\n\tvpaddd %%" v "13, %%" v #n \
    ", %%" v #n "\n\t"
#define PLAIN_AVX2(n) PLAIN("ymm", n)
#define PLAIN_AVX512(n) PLAIN("zmm", n)
#define DOT_AVX2(n) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #n "\n\t"
#define DOT_AVX512(n) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #n "\n\t"

static void run_avx2(uint32_t rounds) { ROUNDS_OF(PLAIN_AVX2); }
static void run_avx2_vnni(uint32_t rounds) { ROUNDS_OF(DOT_AVX2); }
static void run_avx512(uint32_t rounds) { ROUNDS_OF(PLAIN_AVX512); }
static void run_avx512_vnni(uint32_t rounds) { ROUNDS_OF(DOT_AVX512); }

#elif defined(DCT_KERNELS_NEON)

#define ROUNDS_OF(STEP)                                                                                                       \
    __asm__ volatile("1:\n\t" TWELVE(STEP) "subs %w0, %w0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc", "v0", "v1", "v2", "v3", "v4", \
                     "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v13", "v14", "v15")

#define PLAIN_NEON(n) "smull v13.8h, v14.8b, v15.8b\n\tsmlal2 v13.8h, v14.16b, v15.16b\n\tsadalp v" #n ".4s, v13.8h\n\t"
#define DOT_NEON(n) ".inst 0x4e8f95c0 + " #n "\n\t" /* sdot vn.4s, v14.16b, v15.16b */

static void run_neon(uint32_t rounds) { ROUNDS_OF(PLAIN_NEON); }
static void run_neon_dot(uint32_t rounds) { ROUNDS_OF(DOT_NEON); }

#endif

dct_byte_dots dct_byte_dots_of(const dct_kernels *table) {
#if defined(DCT_KERNELS_X86)
    if (table == dct_kernels_of(DCT_ISA_AVX512_VNNI)) return (dct_byte_dots){12 * 64, run_avx512_vnni};
    if (table == dct_kernels_of(DCT_ISA_AVX512)) return (dct_byte_dots){12 * 64, run_avx512};
    if (table == dct_kernels_of(DCT_ISA_AVX2_VNNI)) return (dct_byte_dots){12 * 32, run_avx2_vnni};
    if (table == dct_kernels_of(DCT_ISA_AVX2)) return (dct_byte_dots){12 * 32, run_avx2};
#elif defined(DCT_KERNELS_NEON)
    if (table == dct_kernels_of(DCT_ISA_NEON_DOT)) return (dct_byte_dots){12 * 16, run_neon_dot};
    if (table == dct_kernels_of(DCT_ISA_NEON)) return (dct_byte_dots){12 * 16, run_neon};
#else
    (void)table;
#endif
    return (dct_byte_dots){64, run_scalar};
}
