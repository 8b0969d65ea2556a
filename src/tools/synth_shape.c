#include "tools/synth_shape.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"
#include "tools/tools.h"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

#define QWEN DCT_SYNTH_QWEN2
static const dct_synth_shape shapes[] = {
    /* name, title, label, family, layers, width, heads, kv, head, ffn, vocab, plain, ctx, rope base, eps, tied, window */
    {"qwen2.5-0.5b", "Qwen2.5 0.5B synthetic", "0.5B", QWEN, 24, 896, 14, 2, 64, 4864, 151936, 151643, 32768, 1e6f, 1e-6f, true,
     0},
    {"qwen2.5-1.5b", "Qwen2.5 1.5B synthetic", "1.5B", QWEN, 28, 1536, 12, 2, 128, 8960, 151936, 151643, 32768, 1e6f, 1e-6f, true,
     0},
    {"qwen2.5-3b", "Qwen2.5 3B synthetic", "3B", QWEN, 36, 2048, 16, 2, 128, 11008, 151936, 151643, 32768, 1e6f, 1e-6f, true, 0},
    {"qwen2.5-7b", "Qwen2.5 7B synthetic", "7B", QWEN, 28, 3584, 28, 4, 128, 18944, 152064, 151643, 32768, 1e6f, 1e-6f, false, 0},
    {"qwen2-vl-2b", "Qwen2-VL 2B synthetic", "2B", DCT_SYNTH_QWEN2VL, 28, 1536, 12, 2, 128, 8960, 151936, 151643, 32768, 1e6f,
     1e-6f, true, 0},
    {"qwen3-0.6b", "Qwen3 0.6B synthetic", "0.6B", DCT_SYNTH_QWEN3, 28, 1024, 16, 8, 128, 3072, 151936, 151643, 40960, 1e6f,
     1e-6f, true, 0},
    {"llama-3.2-1b", "Llama 3.2 1B synthetic", "1B", DCT_SYNTH_LLAMA3, 16, 2048, 32, 8, 64, 8192, 128256, 128000, 131072, 5e5f,
     1e-5f, true, 0},
    {"gemma-3-1b", "Gemma 3 1B synthetic", "1B", DCT_SYNTH_GEMMA3, 26, 1152, 4, 1, 256, 6912, 262144, 262144, 32768, 1e6f, 1e-6f,
     true, 512},
    {"tiny-qwen2", "Qwen2 tiny synthetic", "1M", QWEN, 2, 256, 4, 2, 64, 512, 1024, 992, 2048, 1e6f, 1e-6f, true, 0},
    {"tiny-qwen2-untied", "Qwen2 tiny synthetic", "1M", QWEN, 2, 256, 4, 2, 64, 512, 1024, 992, 2048, 1e6f, 1e-6f, false, 0},
    {"tiny-qwen2vl", "Qwen2-VL tiny synthetic", "1M", DCT_SYNTH_QWEN2VL, 2, 256, 2, 1, 128, 512, 1024, 992, 2048, 1e6f, 1e-6f,
     true, 0},
    {"tiny-qwen3", "Qwen3 tiny synthetic", "1M", DCT_SYNTH_QWEN3, 2, 256, 4, 2, 64, 512, 1024, 992, 2048, 1e6f, 1e-6f, true, 0},
    {"tiny-llama", "Llama tiny synthetic", "1M", DCT_SYNTH_LLAMA3, 2, 256, 4, 2, 64, 512, 1024, 992, 2048, 5e5f, 1e-5f, true, 0},
    {"tiny-gemma3", "Gemma 3 tiny synthetic", "1M", DCT_SYNTH_GEMMA3, 7, 256, 4, 1, 64, 512, 4096, 4096, 2048, 1e6f, 1e-6f, true,
     64},
};
#undef QWEN

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bool same_name(const char *a, const char *b) {
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
    }
    return *a == *b;
}

const dct_synth_shape *dct_synth_find_shape(const char *name) {
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (same_name(name, shapes[i].name)) return &shapes[i];
    }
    return NULL;
}

const char *dct_synth_names(void) {
    return "qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, qwen2-vl-2b, qwen3-0.6b, llama-3.2-1b, gemma-3-1b, tiny-qwen2, "
           "tiny-qwen2-untied, tiny-qwen2vl, tiny-qwen3, tiny-llama, tiny-gemma3";
}

const char *dct_synth_arch(dct_synth_family family) {
    static const char *const names[DCT_SYNTH_FAMILIES] = {"qwen2", "qwen2vl", "qwen3", "llama", "gemma3"};
    return names[family];
}

/* --- mixtures ----------------------------------------------------------------------------------------------------- */

struct dct_synth_mix {
    const char *name;
    dct_dtype base;
    uint32_t file_type;
    bool is_directory;
};

#define DIRECTORY(name, base) {name, DCT_TYPE_##base, 0, true}
static const dct_synth_mix mixes[] = {
    {"F32", DCT_TYPE_F32, 0, false},
    {"F16", DCT_TYPE_F16, 1, false},
    {"BF16", DCT_TYPE_BF16, 32, false},
    {"Q4_0", DCT_TYPE_Q4_0, 2, false},
    {"Q4_1", DCT_TYPE_Q4_1, 3, false},
    {"Q5_0", DCT_TYPE_Q5_0, 8, false},
    {"Q5_1", DCT_TYPE_Q5_1, 9, false},
    {"Q8_0", DCT_TYPE_Q8_0, 7, false},
    {"Q2_K", DCT_TYPE_Q2_K, 10, false},
    {"Q3_K_S", DCT_TYPE_Q3_K, 11, false},
    {"Q3_K_M", DCT_TYPE_Q3_K, 12, false},
    {"Q3_K_L", DCT_TYPE_Q3_K, 13, false},
    {"Q4_K_S", DCT_TYPE_Q4_K, 14, false},
    {"Q4_K_M", DCT_TYPE_Q4_K, 15, false},
    {"Q5_K_S", DCT_TYPE_Q5_K, 16, false},
    {"Q5_K_M", DCT_TYPE_Q5_K, 17, false},
    {"Q6_K", DCT_TYPE_Q6_K, 18, false},
    {"IQ4_NL", DCT_TYPE_IQ4_NL, 25, false},
    {"IQ4_XS", DCT_TYPE_IQ4_XS, 30, false},
    {"MXFP4", DCT_TYPE_MXFP4, 38, false},
    {"Q3_K", DCT_TYPE_Q3_K, 12, false},
    {"Q4_K", DCT_TYPE_Q4_K, 15, false},
    {"Q5_K", DCT_TYPE_Q5_K, 17, false}, /* short for the _M */
    DIRECTORY("hf-bf16", BF16),
    DIRECTORY("hf-f16", F16),
    DIRECTORY("mlx-2bit", MLX2_64_BF16),
    DIRECTORY("mlx-3bit", MLX3_64_BF16),
    DIRECTORY("mlx-4bit", MLX4_64_BF16),
    DIRECTORY("mlx-5bit", MLX5_64_BF16),
    DIRECTORY("mlx-6bit", MLX6_64_BF16),
    DIRECTORY("mlx-8bit", MLX8_64_BF16),
    DIRECTORY("mlx-4bit-32", MLX4_32_F16),
    DIRECTORY("mlx-8bit-128", MLX8_128_F32),
};
#undef DIRECTORY

/* What a tensor is for, as far as mixtures care. */
typedef enum role { ROLE_HEAD, ROLE_EMBD, ROLE_V, ROLE_DOWN, ROLE_ATTN_OUT, ROLE_OTHER } role;
typedef enum when { ALWAYS, MORE_BITS, FIRST_2, FIRST_4, FIRST_8TH, FIRST_16TH, MANY_QUERIES } when;

/* Where a mixture departs from its base type; the first row that applies counts. These are llama.cpp's recipes without an
 * importance matrix. */
static const struct {
    uint32_t file_type;
    role role;
    when when;
    dct_dtype type;
} rules[] = {
    {10, ROLE_V, MANY_QUERIES, DCT_TYPE_Q4_K}, {10, ROLE_V, ALWAYS, DCT_TYPE_Q3_K},
    {10, ROLE_DOWN, ALWAYS, DCT_TYPE_Q3_K},    {10, ROLE_ATTN_OUT, ALWAYS, DCT_TYPE_Q3_K},
    {12, ROLE_V, FIRST_2, DCT_TYPE_Q5_K},      {12, ROLE_V, ALWAYS, DCT_TYPE_Q4_K},
    {12, ROLE_DOWN, FIRST_16TH, DCT_TYPE_Q5_K}, {12, ROLE_DOWN, ALWAYS, DCT_TYPE_Q4_K},
    {12, ROLE_ATTN_OUT, ALWAYS, DCT_TYPE_Q4_K},
    {13, ROLE_V, ALWAYS, DCT_TYPE_Q5_K},       {13, ROLE_DOWN, ALWAYS, DCT_TYPE_Q5_K},
    {13, ROLE_ATTN_OUT, ALWAYS, DCT_TYPE_Q5_K},
    {14, ROLE_V, FIRST_4, DCT_TYPE_Q5_K},      {14, ROLE_DOWN, FIRST_8TH, DCT_TYPE_Q5_K},
    {15, ROLE_V, MORE_BITS, DCT_TYPE_Q6_K},    {15, ROLE_DOWN, MORE_BITS, DCT_TYPE_Q6_K},
    {17, ROLE_V, MORE_BITS, DCT_TYPE_Q6_K},    {17, ROLE_DOWN, MORE_BITS, DCT_TYPE_Q6_K},
    {25, ROLE_V, MANY_QUERIES, DCT_TYPE_Q5_K}, {25, ROLE_DOWN, FIRST_8TH, DCT_TYPE_Q5_K},
    {30, ROLE_V, MANY_QUERIES, DCT_TYPE_Q5_K}, {30, ROLE_DOWN, FIRST_8TH, DCT_TYPE_Q5_K},
};

const dct_synth_mix *dct_synth_find_mix(const char *name) {
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        if (same_name(name, mixes[i].name)) return &mixes[i];
    }
    return NULL;
}

const char *dct_synth_mix_names(void) {
    return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, "
           "Q6_K, IQ4_NL, IQ4_XS, MXFP4, "
           "hf-bf16, hf-f16, mlx-2bit, mlx-3bit, mlx-4bit, mlx-5bit, mlx-6bit, mlx-8bit, mlx-4bit-32, mlx-8bit-128";
}

uint32_t dct_synth_mix_file_type(const dct_synth_mix *mix) { return mix->file_type; }
dct_dtype dct_synth_mix_base(const dct_synth_mix *mix) { return mix->base; }
bool dct_synth_mix_is_directory(const dct_synth_mix *mix) { return mix->is_directory; }

static bool applies(when w, const dct_synth_shape *shape, uint32_t il) {
    uint32_t n = shape->n_layer;
    switch (w) {
    case ALWAYS: return true;
    case MORE_BITS: return il < n / 8 || il >= 7 * n / 8 || (il - n / 8) % 3 == 2;
    case FIRST_2: return il < 2;
    case FIRST_4: return il < 4;
    case FIRST_8TH: return il < n / 8;
    case FIRST_16TH: return il < n / 16;
    case MANY_QUERIES: return shape->n_head / shape->n_head_kv >= 4;
    }
    return false;
}

/* Rows that do not suit the type take another of about its size. */
static dct_dtype suit(dct_dtype type, uint64_t k) {
    if (k % dct_dtype_block_elems(type) == 0) return type;
    switch (type) {
    case DCT_TYPE_IQ4_XS: type = DCT_TYPE_IQ4_NL; break;
    case DCT_TYPE_Q2_K: case DCT_TYPE_Q3_K: type = DCT_TYPE_Q4_0; break;
    case DCT_TYPE_Q4_K: type = DCT_TYPE_Q5_0; break;
    case DCT_TYPE_Q5_K: type = DCT_TYPE_Q5_1; break;
    case DCT_TYPE_Q6_K: type = DCT_TYPE_Q8_0; break;
    default: break;
    }
    return k % dct_dtype_block_elems(type) == 0 ? type : DCT_TYPE_F16;
}

static dct_dtype type_of(const dct_synth_mix *mix, const dct_synth_shape *shape, role r, uint32_t il, uint64_t k) {
    dct_dtype type = mix->base;
    if (dct_dtype_is_float(type) || mix->is_directory) return type; /* MLX quantises everything alike */
    if (r == ROLE_HEAD) { /* also a token embedding that serves as the head */
        bool bytes = type == DCT_TYPE_Q8_0 || type == DCT_TYPE_MXFP4 || k % dct_dtype_block_elems(type) != 0;
        return suit(bytes ? DCT_TYPE_Q8_0 : DCT_TYPE_Q6_K, k);
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].file_type != mix->file_type || rules[i].role != r || !applies(rules[i].when, shape, il)) continue;
        type = rules[i].type;
        break;
    }
    return suit(type, k);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* Scales: a normed activation has elements of about 1. A projection of deviation 1/sqrt(fan in) keeps that. Queries and keys are
 * half as large again: scores then deviate by 2 and attention has something to choose. The embedding has elements of 1 and what
 * the layers add is small beside it, all of them together about half: a network that overwrites its input at every layer
 * multiplies every rounding, which trained ones do not. The last norm has weights of both signs and makes logits deviate by
 * LOGIT_SIGMA: with weights of one sign, a head that is the embedding would mostly see the token it was given. */
#define LOGIT_SIGMA 3.5f
#define QUERY_GAIN 1.5f
#define LAYERS_GAIN 0.75f

typedef struct builder {
    const dct_synth_shape *shape;
    const dct_synth_mix *mix;
    dct_synth_tensor *tensors;
    uint32_t n, il;
} builder;

static dct_synth_tensor *add(builder *b, const char *name, bool in_layer) {
    dct_synth_tensor *t = &b->tensors[b->n++];
    if (in_layer) snprintf(t->name, sizeof t->name, "blk.%u.%s", b->il, name);
    else snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static void add_vector(builder *b, const char *name, bool in_layer, uint64_t n, float mean, float sigma) {
    dct_synth_tensor *t = add(b, name, in_layer);
    t->type = !b->mix->is_directory ? DCT_TYPE_F32 : b->mix->base == DCT_TYPE_F16 ? DCT_TYPE_F16 : DCT_TYPE_BF16;
    t->n_dims = 1;
    t->ne[0] = n;
    t->ne[1] = 1;
    t->mean = mean;
    t->sigma = sigma;
}

/* A norm's weights, about 1 or `mean`. Gemma's directories hold them less 1. */
static void add_norm(builder *b, const char *name, bool in_layer, uint64_t n, float mean) {
    add_vector(b, name, in_layer, n, mean, 0.1f * mean);
    if (b->mix->is_directory && b->shape->family == DCT_SYNTH_GEMMA3) b->tensors[b->n - 1].offset = -1;
}

static void add_matrix(builder *b, const char *name, bool in_layer, role r, uint64_t in, uint64_t out, float sigma) {
    dct_synth_tensor *t = add(b, name, in_layer);
    t->type = type_of(b->mix, b->shape, r, b->il, in);
    t->n_dims = 2;
    t->ne[0] = in;
    t->ne[1] = out;
    t->sigma = sigma;
}

static void add_layer(builder *b) {
    const dct_synth_shape *s = b->shape;
    uint64_t q = (uint64_t)s->n_head * s->head_dim, kv = (uint64_t)s->n_head_kv * s->head_dim;
    bool qk_norm = s->family == DCT_SYNTH_QWEN3 || s->family == DCT_SYNTH_GEMMA3, gemma = s->family == DCT_SYNTH_GEMMA3;
    bool biases = s->family == DCT_SYNTH_QWEN2 || s->family == DCT_SYNTH_QWEN2VL;
    float in = 1 / sqrtf((float)s->n_embd), gain = LAYERS_GAIN / sqrtf((float)s->n_layer), out = gemma ? 1 : gain;
    add_norm(b, "attn_norm.weight", true, s->n_embd, 1);
    add_matrix(b, "attn_q.weight", true, ROLE_OTHER, s->n_embd, q, QUERY_GAIN * in);
    if (biases) add_vector(b, "attn_q.bias", true, q, 0, 0.2f);
    add_matrix(b, "attn_k.weight", true, ROLE_OTHER, s->n_embd, kv, QUERY_GAIN * in);
    if (biases) add_vector(b, "attn_k.bias", true, kv, 0, 0.2f);
    add_matrix(b, "attn_v.weight", true, ROLE_V, s->n_embd, kv, in);
    if (biases) add_vector(b, "attn_v.bias", true, kv, 0, 0.2f);
    if (qk_norm) {
        add_norm(b, "attn_q_norm.weight", true, s->head_dim, QUERY_GAIN);
        add_norm(b, "attn_k_norm.weight", true, s->head_dim, QUERY_GAIN);
    }
    add_matrix(b, "attn_output.weight", true, ROLE_ATTN_OUT, q, s->n_embd, out / sqrtf((float)q));
    if (gemma) add_norm(b, "post_attention_norm.weight", true, s->n_embd, gain);
    add_norm(b, "ffn_norm.weight", true, s->n_embd, 1);
    add_matrix(b, "ffn_gate.weight", true, ROLE_OTHER, s->n_embd, s->n_ff, in);
    add_matrix(b, "ffn_up.weight", true, ROLE_OTHER, s->n_embd, s->n_ff, in);
    add_matrix(b, "ffn_down.weight", true, ROLE_DOWN, s->n_ff, s->n_embd, out / sqrtf((float)s->n_ff));
    if (gemma) add_norm(b, "post_ffw_norm.weight", true, s->n_embd, gain);
}

/* The frequency divisors of Llama 3.1 and later: long waves are stretched 32 times, short ones not, those between by degrees. */
static const float *llama3_factors(const dct_synth_shape *s, dct_arena *arena) {
    const double two_pi = 6.283185307179586, factor = 32, low = 1, high = 4, trained = 8192;
    uint32_t n = s->head_dim / 2;
    float *out = dct_arena_array(arena, n, sizeof *out);
    if (out == NULL) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        double wave = two_pi * dct_pow64((double)s->rope_base, 2.0 * (double)i / (double)s->head_dim);
        double smooth = (trained / wave - low) / (high - low);
        if (smooth < 0) smooth = 0;
        if (smooth > 1) smooth = 1;
        out[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return out;
}

dct_synth_tensor *dct_synth_tensors(const dct_synth_shape *s, const dct_synth_mix *mix, dct_arena *arena, uint32_t *n) {
    builder b = {.shape = s, .mix = mix};
    b.tensors = dct_arena_array(arena, s->n_layer * 14 + 4, sizeof *b.tensors);
    if (b.tensors == NULL) return NULL;
    float in = 1 / sqrtf((float)s->n_embd), embd = s->family == DCT_SYNTH_GEMMA3 ? in : 1; /* Gemma multiplies by sqrt(width) */
    if (!s->tied) add_matrix(&b, "output.weight", false, ROLE_HEAD, s->n_embd, s->n_vocab, embd);
    add_norm(&b, "output_norm.weight", false, s->n_embd, LOGIT_SIGMA * in / embd);
    b.tensors[b.n - 1].both_signs = true;
    if (s->family == DCT_SYNTH_LLAMA3 && !mix->is_directory) { /* a directory has them in its configuration */
        add_vector(&b, "rope_freqs.weight", false, s->head_dim / 2, 1, 0);
        b.tensors[b.n - 1].fixed = llama3_factors(s, arena);
        if (b.tensors[b.n - 1].fixed == NULL) return NULL;
    }
    add_matrix(&b, "token_embd.weight", false, s->tied ? ROLE_HEAD : ROLE_EMBD, s->n_embd, s->n_vocab, embd);
    for (b.il = 0; b.il < s->n_layer; b.il++) add_layer(&b);
    *n = b.n;
    return b.tensors;
}
