/* Hyper-parameters: the format's defaults where keys are missing, and every senseless value refused by its key (U29 row 15). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/hparams.h"
#include "support/gguf_build.h"

static dct_hparams hp;
static dct_err err;

static dct_status read_image(gguf_build *b) {
    size_t n;
    const uint8_t *image = gguf_build_image(b, &n);
    dct_model m;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_status status = dct_model_open_bytes(&m, image, n, &arena, &err);
    if (status == DCT_OK) status = dct_hparams_read(&m, &hp, &err);
    dct_arena_deinit(&arena);
    gguf_build_free(b);
    return status;
}

/* The keys without which there is no model; one of them (or none) left out so that a test can give its own. */
static gguf_build least(const char *without) {
    gguf_build b;
    gguf_build_init(&b, 3, false);
    const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"x.block_count", 3}, {"x.embedding_length", 96}, {"x.context_length", 1000}, {"x.feed_forward_length", 200}, {"x.attention.head_count", 6}};
    if (strcmp(without, "general.architecture") != 0) gguf_build_str(&b, "general.architecture", "x");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(without, sizes[i].key) != 0) gguf_build_u32(&b, sizes[i].key, sizes[i].value);
    }
    if (strcmp(without, "x.attention.layer_norm_rms_epsilon") != 0) gguf_build_f32(&b, "x.attention.layer_norm_rms_epsilon", 1e-5f);
    if (strcmp(without, "vocab") != 0) gguf_build_array_str(&b, "tokenizer.ggml.tokens", (const char *const[]){"a", "b", "c"}, 3);
    return b;
}

static void expect_bad(gguf_build *b, const char *text) {
    assert_int_equal(read_image(b), DCT_BAD_FILE);
    if (strstr(err.message, text) == NULL) fail_msg("expected '%s' in: %s", text, err.message);
}

static void defaults(void **state) {
    (void)state;
    gguf_build b = least("");
    assert_int_equal(read_image(&b), DCT_OK);
    assert_string_equal(hp.arch, "x");
    assert_int_equal(hp.n_layer, 3);
    assert_int_equal(hp.n_vocab, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hp.n_head[i], 6);
        assert_int_equal(hp.n_head_kv[i], 6);
        assert_int_equal(hp.n_ff[i], 200);
    }
    assert_int_equal(hp.head_dim_k, 16);
    assert_int_equal(hp.head_dim_v, 16);
    assert_int_equal(hp.n_rot, 16);
    assert_true(hp.rope_base == 10000);
    assert_int_equal(hp.rope_scaling, DCT_ROPE_NONE);
    assert_true(hp.rope_factor == 1 && hp.rope_attn_factor == 1 && hp.yarn_ext_factor == 0);
    assert_true(hp.yarn_beta_fast == 32 && hp.yarn_beta_slow == 1);
    assert_int_equal(hp.rope_orig_ctx, 1000);
    assert_int_equal(hp.sliding_window, 0);
    assert_true(hp.attn_softcap == 0 && hp.final_softcap == 0);
    assert_int_equal(hp.n_expert, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(hp.rope_sections[i], 0);
}

static void given_values_win(void **state) {
    (void)state;
    gguf_build b = least("x.feed_forward_length");
    gguf_build_array_i32(&b, "x.feed_forward_length", (const int32_t[]){10, 20, 30}, 3);
    gguf_build_array_i32(&b, "x.attention.head_count_kv", (const int32_t[]){1, 2, 3}, 3);
    gguf_build_u32(&b, "x.attention.key_length", 32);
    gguf_build_u32(&b, "x.vocab_size", 77);
    gguf_build_u32(&b, "x.rope.dimension_count", 24);
    gguf_build_f32(&b, "x.rope.freq_base", 5e5f);
    gguf_build_u32(&b, "x.attention.sliding_window", 512);
    gguf_build_f32(&b, "x.attn_logit_softcapping", 50);
    gguf_build_f32(&b, "x.final_logit_softcapping", 30);
    gguf_build_u32(&b, "x.expert_count", 8);
    gguf_build_array_i32(&b, "x.rope.dimension_sections", (const int32_t[]){2, 5, 5, 0}, 4);
    assert_int_equal(read_image(&b), DCT_OK);
    assert_int_equal(hp.n_ff[1], 20);
    assert_int_equal(hp.n_head_kv[2], 3);
    assert_int_equal(hp.head_dim_k, 32);
    assert_int_equal(hp.head_dim_v, 16);
    assert_int_equal(hp.n_vocab, 77);
    assert_int_equal(hp.n_rot, 24);
    assert_true(hp.rope_base == 5e5f && hp.attn_softcap == 50 && hp.final_softcap == 30);
    assert_int_equal(hp.sliding_window, 512);
    assert_int_equal(hp.n_expert, 8);
    assert_int_equal(hp.rope_sections[1], 5);
}

static void vocabulary_from_the_embedding(void **state) {
    (void)state;
    gguf_build b = least("vocab");
    gguf_build_info(&b, "token_embd.weight", 2, (uint64_t[]){96, 123}, 0, 0);
    assert_int_equal(read_image(&b), DCT_OK);
    assert_int_equal(hp.n_vocab, 123);
    b = least("vocab");
    expect_bad(&b, "the size of the vocabulary is unknown");
}

static void rope_scaling(void **state) {
    (void)state;
    gguf_build b = least("");
    gguf_build_f32(&b, "x.rope.scale_linear", 4); /* the old name */
    assert_int_equal(read_image(&b), DCT_OK);
    assert_int_equal(hp.rope_scaling, DCT_ROPE_LINEAR);
    assert_true(hp.rope_factor == 4);

    b = least("");
    gguf_build_f32(&b, "x.rope.scale_linear", 4);
    gguf_build_f32(&b, "x.rope.scaling.factor", 8);
    gguf_build_str(&b, "x.rope.scaling.type", "yarn");
    gguf_build_u32(&b, "x.rope.scaling.original_context_length", 250);
    gguf_build_f32(&b, "x.rope.scaling.attn_factor", 0.5f);
    gguf_build_f32(&b, "x.rope.scaling.yarn_beta_fast", 16);
    assert_int_equal(read_image(&b), DCT_OK);
    assert_int_equal(hp.rope_scaling, DCT_ROPE_YARN);
    assert_true(hp.rope_factor == 8 && hp.rope_attn_factor == 0.5f && hp.yarn_ext_factor == 1 && hp.yarn_beta_fast == 16 && hp.yarn_beta_slow == 1);
    assert_int_equal(hp.rope_orig_ctx, 250);

    b = least("");
    gguf_build_f32(&b, "x.rope.scaling.factor", 8);
    gguf_build_str(&b, "x.rope.scaling.type", "none");
    assert_int_equal(read_image(&b), DCT_OK);
    assert_int_equal(hp.rope_scaling, DCT_ROPE_NONE);
    assert_true(hp.rope_factor == 1);

    b = least("");
    gguf_build_str(&b, "x.rope.scaling.type", "su");
    expect_bad(&b, "'x.rope.scaling.type' is not one of");
}

static void missing_keys(void **state) {
    (void)state;
    const char *const keys[] = {"general.architecture", "x.block_count", "x.embedding_length", "x.context_length", "x.feed_forward_length",
                                "x.attention.head_count", "x.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        gguf_build b = least(keys[i]);
        expect_bad(&b, "is missing");
        b = least(keys[i]);
        expect_bad(&b, keys[i]);
    }
}

static void refuses_integer(const char *key, uint64_t value) {
    gguf_build b = least(key);
    gguf_build_u64(&b, key, value);
    expect_bad(&b, key);
}

static void refuses_float(const char *key, float value) {
    gguf_build b = least(key);
    gguf_build_f32(&b, key, value);
    expect_bad(&b, key);
}

static void row_15_senseless_values(void **state) {
    (void)state;
    const float inf = 1e30f * 1e30f;
    refuses_integer("x.attention.head_count", 0);
    refuses_integer("x.attention.head_count", 7); /* 96 % 7 */
    refuses_integer("x.attention.head_count", UINT64_C(1) << 40);
    refuses_integer("x.attention.head_count_kv", 0);
    refuses_integer("x.attention.head_count_kv", 4); /* 6 % 4 */
    refuses_integer("x.block_count", 0);
    refuses_integer("x.block_count", 1000000000);
    refuses_integer("x.block_count", DCT_MAX_LAYERS + 1);
    refuses_integer("x.embedding_length", 0);
    refuses_integer("x.context_length", 0);
    refuses_integer("x.feed_forward_length", 0);
    refuses_integer("x.vocab_size", 0);
    refuses_integer("x.attention.key_length", 0);
    refuses_integer("x.attention.value_length", 1u << 31);
    refuses_integer("x.rope.dimension_count", 18); /* beyond the head */
    refuses_integer("x.rope.dimension_count", 7);
    refuses_integer("x.rope.scaling.original_context_length", 0);
    refuses_float("x.attention.layer_norm_rms_epsilon", -1e-5f);
    refuses_float("x.attention.layer_norm_rms_epsilon", inf);
    refuses_float("x.attention.layer_norm_rms_epsilon", inf - inf);
    refuses_float("x.rope.freq_base", 0);
    refuses_float("x.rope.freq_base", -1);
    refuses_float("x.rope.scaling.factor", inf);
    refuses_float("x.rope.scaling.attn_factor", 0);
    refuses_float("x.final_logit_softcapping", -30);
    refuses_float("x.embedding_length", 96); /* of the wrong type */

    gguf_build b = least("x.attention.head_count");
    gguf_build_array_i32(&b, "x.attention.head_count", (const int32_t[]){6, 6}, 2);
    expect_bad(&b, "not the number of layers");
    b = least("x.attention.head_count");
    gguf_build_array_i32(&b, "x.attention.head_count", (const int32_t[]){6, -6, 6}, 3);
    expect_bad(&b, "out of range for layer 1");
    b = least("x.attention.head_count");
    gguf_build_array_f32(&b, "x.attention.head_count", (const float[]){6, 6, 6}, 3);
    expect_bad(&b, "out of range for layer 0");
    b = least("");
    gguf_build_array_i32(&b, "x.rope.dimension_sections", (const int32_t[]){4, 4, 4, 0}, 4); /* 12 pairs of 8 */
    expect_bad(&b, "dimension_sections");
    b = least("");
    gguf_build_array_i32(&b, "x.rope.dimension_sections", (const int32_t[]){4, -1, 4, 0}, 4);
    expect_bad(&b, "dimension_sections");
    b = least("");
    gguf_build_array_i32(&b, "x.rope.dimension_sections", (const int32_t[]){8}, 1);
    expect_bad(&b, "dimension_sections");
    b = least("general.architecture");
    gguf_build_str(&b, "general.architecture", "a name that is longer than any architecture");
    expect_bad(&b, "general.architecture");
    b = least("general.architecture");
    gguf_build_u32(&b, "general.architecture", 1);
    expect_bad(&b, "general.architecture");
}

static void tiny_models_of_all_families(void **state) {
    (void)state;
    const char *const archs[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        gguf_build b;
        gguf_tiny tiny = gguf_tiny_default(archs[i], DCT_TYPE_Q8_0);
        tiny.big_endian = i % 2 == 1;
        gguf_build_tiny(&b, &tiny);
        assert_int_equal(read_image(&b), DCT_OK);
        assert_string_equal(hp.arch, archs[i]);
        assert_int_equal(hp.n_vocab, tiny.n_vocab);
        assert_int_equal(hp.n_head_kv[1], tiny.n_head_kv);
        assert_int_equal(hp.head_dim_k, tiny.head_dim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),     cmocka_unit_test(given_values_win), cmocka_unit_test(vocabulary_from_the_embedding),
        cmocka_unit_test(rope_scaling), cmocka_unit_test(missing_keys),     cmocka_unit_test(row_15_senseless_values),
        cmocka_unit_test(tiny_models_of_all_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
