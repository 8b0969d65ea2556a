/* kernels/select: which instruction sets this build and this processor have, and one table of kernels for each. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref.h"
#include "kernels/simd.h"

#if defined(DCT_KERNELS_X86)
#include <cpuid.h>
#elif defined(DCT_KERNELS_NEON) && defined(__linux__)
#include <sys/auxv.h>
#endif

static dct_kernels tables[DCT_ISA_COUNT];
static bool present[DCT_ISA_COUNT];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static const char *const names[DCT_ISA_COUNT] = {
    [DCT_ISA_SCALAR] = "scalar", [DCT_ISA_AVX2] = "avx2",
    [DCT_ISA_AVX2_VNNI] = "avx2-vnni", [DCT_ISA_AVX512] = "avx512",
    [DCT_ISA_AVX512_VNNI] = "avx512-vnni", [DCT_ISA_NEON] = "neon",
    [DCT_ISA_NEON_DOT] = "neon-dotprod",
};

static void fill_scalar(dct_kernels *table) {
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        table->linear[type] = dct_dtype_is_float((dct_dtype)type) ? dct_ref_linear_float : dct_ref_linear_quant;
    }
    table->quant_q8 = dct_ref_quant_q8;
    table->rms_norm = dct_ref_rms_norm;
    table->rope = dct_ref_rope;
    table->glu = dct_ref_glu;
    table->add = dct_ref_add;
    table->mul = dct_ref_mul;
    table->layer_norm = dct_ref_layer_norm;
    table->mix = dct_ref_mix;
    table->route = dct_ref_route;
    table->softcap = dct_ref_softcap;
    table->embed = dct_ref_embed;
    table->store_k = dct_ref_store_k;
    table->store_v = dct_ref_store_v;
    table->attn = dct_ref_attn;
    table->attn_part = dct_ref_attn_part;
    table->attn_merge = dct_ref_attn_merge;
}

#if defined(DCT_KERNELS_X86)
/* Two features that not every compiler's __builtin_cpu_supports knows by name. The registers they need are those of AVX2,
 * which has been asked for. */
static bool has_f16c(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool has_avx_vnni(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}

/* __builtin_cpu_supports asks the system too: registers that it does not save count as absent. What fills a table is compiled
 * with the instructions of its kernels, so it is not called either where they are absent. */
static void fill_vectors(void) {
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    present[DCT_ISA_AVX2] = avx2;
    present[DCT_ISA_AVX2_VNNI] = avx2 && has_avx_vnni();
    present[DCT_ISA_AVX512] = avx512;
    present[DCT_ISA_AVX512_VNNI] = avx512 && __builtin_cpu_supports("avx512vnni");
    if (present[DCT_ISA_AVX2]) dct_kernels_fill_avx2(&tables[DCT_ISA_AVX2]);
    if (present[DCT_ISA_AVX2_VNNI]) dct_kernels_fill_avx2_vnni(&tables[DCT_ISA_AVX2_VNNI]);
    if (present[DCT_ISA_AVX512]) dct_kernels_fill_avx512(&tables[DCT_ISA_AVX512]);
    if (present[DCT_ISA_AVX512_VNNI]) dct_kernels_fill_avx512_vnni(&tables[DCT_ISA_AVX512_VNNI]);
}
#elif defined(DCT_KERNELS_NEON)
/* Elsewhere than on Linux, what the compiler was told of the processor. */
static bool has_dotprod(void) {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}

static void fill_vectors(void) {
    present[DCT_ISA_NEON] = true;
    present[DCT_ISA_NEON_DOT] = has_dotprod();
    dct_kernels_fill_neon(&tables[DCT_ISA_NEON]);
    if (present[DCT_ISA_NEON_DOT]) dct_kernels_fill_neon_dot(&tables[DCT_ISA_NEON_DOT]);
}
#else
static void fill_vectors(void) {}
#endif

static void fill(void) {
    for (int isa = 0; isa < DCT_ISA_COUNT; isa++) {
        tables[isa].name = names[isa];
        fill_scalar(&tables[isa]);
    }
    present[DCT_ISA_SCALAR] = true;
    fill_vectors();
}

const dct_kernels *dct_kernels_of(dct_isa isa) {
    pthread_once(&filled, fill);
    return present[isa] ? &tables[isa] : NULL;
}

/* The set that DCTMS_ISA names, else the last of the list: a name that means nothing changes nothing. */
static dct_isa limit_of_environment(void) {
    const char *name = getenv("DCTMS_ISA");
    for (int isa = 0; name != NULL && isa < DCT_ISA_COUNT; isa++) {
        if (strcmp(name, names[isa]) == 0) return (dct_isa)isa;
    }
    return (dct_isa)(DCT_ISA_COUNT - 1);
}

const dct_kernels *dct_kernels_best(void) {
    const dct_kernels *best = NULL;
    for (int isa = (int)limit_of_environment(); best == NULL; isa--) best = dct_kernels_of((dct_isa)isa);
    return best;
}
