/* What the tests of compile/ and plan/ share: models made of headers, and plans compiled from them. */
#ifndef TESTS_COMPILE_SUPPORT_H
#define TESTS_COMPILE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/size.h"
#include "compile/compile.h"
#include "kernels/layout.h"
#include "support/gguf_build.h"

typedef struct subject {
    gguf_build build;
    dct_arena arena;
    dct_model model;
    dct_hparams hp;
} subject;

/* Opens what s->build holds. */
static inline void subject_open(subject *s) {
    size_t n;
    dct_err err = {0};
    const uint8_t *image = gguf_build_image(&s->build, &n);
    dct_arena_init(&s->arena, 0);
    if (dct_model_open_bytes(&s->model, image, n, &s->arena, &err) != DCT_OK || dct_arch_hparams(&s->model, &s->hp, &err) != DCT_OK) {
        fail_msg("%s", err.message);
    }
}

static inline void subject_tiny(subject *s, const char *arch, dct_dtype type) {
    gguf_tiny tiny = gguf_tiny_default(arch, type);
    gguf_build_tiny(&s->build, &tiny);
    subject_open(s);
}

static inline void subject_close(subject *s) {
    dct_model_close(&s->model);
    dct_arena_deinit(&s->arena);
    gguf_build_free(&s->build);
}

/* Describes a tensor whose data is not there. */
static inline void describe(gguf_build *b, uint64_t *offset, const char *name, dct_dtype type, uint64_t cols, uint64_t rows) {
    uint64_t row_bytes = 0, ne[2] = {cols, rows};
    assert_true(dct_dtype_row_bytes(type, cols, &row_bytes));
    gguf_build_info(b, name, rows > 1 ? 2 : 1, ne, dct_dtype_ggml_id(type), *offset);
    *offset = dct_round_up(*offset + row_bytes * rows, 32);
}

typedef struct shape {
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
    bool tied;
} shape;

static const shape QWEN_1_5B = {28, 1536, 12, 2, 128, 8960, 151936, true};
static const shape QWEN_7B = {28, 3584, 28, 4, 128, 18944, 152064, false};

/* The header of a qwen2 model of that shape in Q4_0 (the head in Q6_K), cut off before its data. */
static inline void subject_qwen(subject *s, const shape *q) {
    gguf_build *b = &s->build;
    gguf_build_init(b, 3, false);
    gguf_build_str(b, "general.architecture", "qwen2");
    gguf_build_str(b, "general.name", "qwen2 by its header");
    gguf_build_u32(b, "qwen2.context_length", 32768);
    gguf_build_u32(b, "qwen2.embedding_length", q->n_embd);
    gguf_build_u32(b, "qwen2.block_count", q->n_layer);
    gguf_build_u32(b, "qwen2.feed_forward_length", q->n_ff);
    gguf_build_u32(b, "qwen2.attention.head_count", q->n_head);
    gguf_build_u32(b, "qwen2.attention.head_count_kv", q->n_head_kv);
    gguf_build_f32(b, "qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_build_f32(b, "qwen2.rope.freq_base", 1e6f);
    gguf_build_u32(b, "qwen2.vocab_size", q->n_vocab);
    uint64_t at = 0, q_rows = (uint64_t)q->n_head * q->head_dim, kv_rows = (uint64_t)q->n_head_kv * q->head_dim;
    describe(b, &at, "token_embd.weight", q->tied ? DCT_TYPE_Q6_K : DCT_TYPE_Q4_0, q->n_embd, q->n_vocab);
    if (!q->tied) describe(b, &at, "output.weight", DCT_TYPE_Q6_K, q->n_embd, q->n_vocab);
    describe(b, &at, "output_norm.weight", DCT_TYPE_F32, q->n_embd, 1);
    for (uint32_t l = 0; l < q->n_layer; l++) {
        const struct { const char *name; dct_dtype type; uint64_t cols, rows; } tensors[] = {
            {"attn_norm.weight", DCT_TYPE_F32, q->n_embd, 1},   {"attn_q.weight", DCT_TYPE_Q4_0, q->n_embd, q_rows},
            {"attn_q.bias", DCT_TYPE_F32, q_rows, 1},           {"attn_k.weight", DCT_TYPE_Q4_0, q->n_embd, kv_rows},
            {"attn_k.bias", DCT_TYPE_F32, kv_rows, 1},          {"attn_v.weight", DCT_TYPE_Q4_0, q->n_embd, kv_rows},
            {"attn_v.bias", DCT_TYPE_F32, kv_rows, 1},          {"attn_output.weight", DCT_TYPE_Q4_0, q_rows, q->n_embd},
            {"ffn_norm.weight", DCT_TYPE_F32, q->n_embd, 1},    {"ffn_gate.weight", DCT_TYPE_Q4_0, q->n_embd, q->n_ff},
            {"ffn_up.weight", DCT_TYPE_Q4_0, q->n_embd, q->n_ff}, {"ffn_down.weight", DCT_TYPE_Q4_0, q->n_ff, q->n_embd},
        };
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s", l, tensors[i].name);
            describe(b, &at, name, tensors[i].type, tensors[i].cols, tensors[i].rows);
        }
    }
    subject_open(s);
}

static inline dct_compile_params params_of(const subject *s, uint32_t n_ctx, uint32_t n_output, uint32_t ubatch, uint32_t threads) {
    return (dct_compile_params){
        .model = &s->model, .hp = &s->hp,
        .bounds = {.n_ctx = n_ctx, .n_input = n_ctx - n_output, .n_output = n_output, .ubatch = ubatch, .slots = 1, .threads = threads,
                   .type_k = DCT_TYPE_F16, .type_v = DCT_TYPE_F16, .logits = DCT_LOGITS_LAST},
    };
}

static inline dct_plan *compile_ok(const dct_compile_params *params, dct_arena *arena) {
    dct_plan *plan = NULL;
    dct_err err = {0};
    if (dct_compile(params, arena, &plan, &err) != DCT_OK) fail_msg("%s", err.message);
    return plan;
}

/* A family whose largest member is what the parameters say: each smaller one has half of the next one's context, and chunks of half
 * of its own. */
static inline dct_plan *compile_family(const dct_compile_params *params, uint32_t n_smaller, dct_arena *arena) {
    dct_compile_params all = *params;
    all.n_smaller = n_smaller;
    all.smaller = dct_arena_array(arena, n_smaller, sizeof *all.smaller);
    assert_non_null(all.smaller);
    for (uint32_t i = 0; i < n_smaller; i++) {
        dct_compile_params one = *params;
        one.bounds.table_ctx = params->bounds.n_ctx;
        one.bounds.n_ctx = params->bounds.n_ctx >> (n_smaller - i);
        one.bounds.n_output = one.bounds.n_ctx / 4;
        one.bounds.n_input = one.bounds.n_ctx - one.bounds.n_output;
        one.bounds.ubatch = one.bounds.n_ctx / 2;
        all.smaller[i] = *compile_ok(&one, arena);
    }
    return compile_ok(&all, arena);
}

#endif
