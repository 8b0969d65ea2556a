/* Each family's tiny model through the oracle against llama.cpp b9749 (CPU, KV in f32, no flash attention) on the
 * same file: 60 tokens, the logits of a few tokens at the last position. The models have what a family may have: factors, YaRN, long
 * rotation, windows that close, linear scaling, biases.
 *
 * llama.cpp rounds GELU to f16 by a table, which moves the Gemmas by some thousandths; and that build never reads the
 * epsilon of qwen2vl's norms. The numbers belong to the weights that gguf_tiny makes: if it changes, they change.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/gguf_build.h"
#include "support/oracle.h"

enum { N = 60, N_PROBES = 4 };

static const int32_t ids[N] = {121, 278, 66, 189, 242, 297, 33, 6, 240, 132, 282, 119, 98, 240, 276, 281, 243, 203, 77, 118, 77, 267, 199, 7,
                             32, 81, 21, 154, 15, 137, 242, 198, 218, 202, 295, 227, 68, 187, 49, 18, 69, 253, 111, 132, 223, 154, 215, 259,
                             197, 293, 179, 273, 299, 208, 299, 118, 172, 14, 143, 83};

static const int32_t probes[N_PROBES] = {0, 77, 200, 319};

typedef struct peer {
    const char *arch;
    double tolerance;
    double logits[N_PROBES]; /* of the probes, at the last position */
} peer;

static const peer peers[] = {
    {"llama", 0.0001, {6.36195, 1.95718, -6.51248, 2.79219}},
    {"qwen2", 0.0001, {-5.33280, 2.40156, 1.60037, -1.05481}},
    {"qwen2vl", 0.001, {4.21388, 1.55482, -6.39635, 3.73726}},
    {"qwen3", 0.0001, {-0.71497, -3.39640, 0.67669, 3.98272}},
    {"gemma2", 0.01, {-1.51814, -1.22593, 5.74622, -0.83508}},
    {"gemma3", 0.01, {-1.85689, -1.44442, -3.65814, -1.71673}},
    {"phi3", 0.0001, {-0.85070, 1.41617, -1.18702, -2.98693}},
};

static void put_long_rotation(gguf_build *b) {
    uint64_t pairs = 32;
    gguf_build_u32(b, "phi3.rope.scaling.original_context_length", 6);
    gguf_build_f32(b, "phi3.rope.scaling.attn_factor", 1.19f);
    gguf_build_str(b, "phi3.rope.scaling.type", "longrope");
    gguf_build_random(b, "rope_factors_short.weight", DCT_TYPE_F32, 1, &pairs, 1, 1, 0.1f);
    gguf_build_random(b, "rope_factors_long.weight", DCT_TYPE_F32, 1, &pairs, 9, 3, 0.4f);
}

static void build(gguf_build *b, const char *arch) {
    gguf_tiny t = gguf_tiny_default(arch, DCT_TYPE_F32);
    t.n_layer = 7;
    t.tied = strcmp(arch, "qwen2") == 0 || strcmp(arch, "qwen3") == 0 || strncmp(arch, "gemma", 5) == 0;
    t.sliding_window = strncmp(arch, "gemma", 5) == 0 ? 16 : 0;
    if (strcmp(arch, "llama") == 0) t.rope_freqs = t.biases = true;
    gguf_build_tiny(b, &t);
    if (strcmp(arch, "phi3") == 0) put_long_rotation(b);
    if (strcmp(arch, "qwen2") == 0) {
        gguf_build_str(b, "qwen2.rope.scaling.type", "yarn");
        gguf_build_f32(b, "qwen2.rope.scaling.factor", 4);
        gguf_build_u32(b, "qwen2.rope.scaling.original_context_length", 128);
    }
    if (strcmp(arch, "gemma3") == 0) {
        gguf_build_str(b, "gemma3.rope.scaling.type", "linear");
        gguf_build_f32(b, "gemma3.rope.scaling.factor", 8);
    }
}

static void check_family(const peer *p) {
    char path[64];
    snprintf(path, sizeof path, "test_families_logits.%s.%d.gguf", p->arch, (int)getpid());
    gguf_build b;
    build(&b, p->arch);
    gguf_build_save(&b, path);
    gguf_build_free(&b);
    dct_err err;
    oracle *o = oracle_open(path, N, &err);
    unlink(path);
    if (o == NULL) fail_msg("%s: %s", p->arch, err.message);
    uint32_t n_vocab = oracle_hparams(o)->n_vocab;
    float *logits = malloc((size_t)N * n_vocab * sizeof *logits);
    assert_non_null(logits);
    if (oracle_eval(o, ids, NULL, N, logits, &err) != DCT_OK) fail_msg("%s: %s", p->arch, err.message);
    for (int i = 0; i < N_PROBES; i++) {
        double have = (double)logits[(size_t)(N - 1) * n_vocab + probes[i]];
        if (fabs(have - p->logits[i]) > p->tolerance) fail_msg("%s: logit of %d is %.5f, llama.cpp says %.5f", p->arch, probes[i], have, p->logits[i]);
    }
    free(logits);
    oracle_close(o);
}

static void families_agree_with_llama_cpp(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) check_family(&peers[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_agree_with_llama_cpp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
