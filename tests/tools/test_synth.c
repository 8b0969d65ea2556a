/* Synthetic files: the same bytes for a seed whatever the threads, they reopen, weights have the wanted spread, the mixtures are
 * llama.cpp's, and the vocabulary holds together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/layout.h"
#include "model/hparams.h"
#include "tools/synth_blocks.h"
#include "tools/synth_shape.h"
#include "tools/synth_vocab.h"
#include "tools/tools.h"

static const char *temp_path(int i) {
    static char path[2][512];
    snprintf(path[i], sizeof path[i], "%s/synth%d.%ld.gguf", DCT_BINARY_DIR, i, (long)getpid());
    return path[i];
}

static uint8_t *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*n);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

static void write_synth(const char *name, const char *type, uint64_t seed, uint32_t threads, const char *path) {
    dct_err err;
    const dct_synth_params params = {.name = name, .type = type, .path = path, .seed = seed, .threads = threads};
    assert_int_equal(dct_synth(&params, &err), DCT_OK);
}

static void same_seed_same_bytes(void **state) {
    (void)state;
    size_t n[2];
    write_synth("tiny-qwen2", "Q4_K_M", 7, 1, temp_path(0));
    write_synth("tiny-qwen2", "q4_k_m", 7, 3, temp_path(1));
    uint8_t *a = slurp(temp_path(0), &n[0]), *b = slurp(temp_path(1), &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(a, b, n[0]);
    free(b);
    write_synth("tiny-qwen2", "Q4_K_M", 8, 1, temp_path(1));
    b = slurp(temp_path(1), &n[1]);
    assert_int_not_equal(memcmp(a, b, n[0] < n[1] ? n[0] : n[1]), 0);
    free(a);
    free(b);
    unlink(temp_path(0));
    unlink(temp_path(1));
}

/* What is written in pieces of 2 MiB is what one filling gives. */
static void pieces_are_a_whole(void **state) {
    (void)state;
    static const char name[] = "token_embd.weight";
    dct_model m;
    dct_arena arena;
    dct_err err;
    write_synth("tiny-gemma3", "F32", 7, 3, temp_path(0));
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&m, temp_path(0), &arena, &err), DCT_OK);
    const dct_tensor *t = dct_model_find_tensor(&m, name);
    assert_non_null(t);
    assert_true(t->bytes > 2 << 20);
    uint32_t n, at = 0;
    const dct_synth_tensor *all = dct_synth_tensors(dct_synth_find_shape("tiny-gemma3"), dct_synth_find_mix("F32"), &arena, &n);
    assert_non_null(all);
    while (at < n && strcmp(all[at].name, name) != 0) at++;
    assert_true(at < n);
    dct_synth_stream stream;
    dct_synth_stream_init(&stream, all[at].type, 7, at, all[at].mean, all[at].sigma);
    stream.offset = all[at].offset;
    stream.both_signs = all[at].both_signs;
    uint8_t *want = malloc(t->bytes), *found = malloc(t->bytes);
    dct_synth_fill(&stream, 0, all[at].ne[0] * all[at].ne[1], want);
    assert_int_equal(dct_model_read_tensor(&m, t, 0, found, t->bytes, &err), DCT_OK);
    assert_memory_equal(found, want, t->bytes);
    free(want);
    free(found);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
    unlink(temp_path(0));
}

static void every_tiny_shape_reopens(void **state) {
    (void)state;
    const char *const names[] = {"tiny-qwen2", "tiny-qwen2-untied", "tiny-qwen2vl", "tiny-qwen3", "tiny-llama", "tiny-gemma3"};
    const char *const types[] = {"F16", "Q4_0", "Q2_K", "Q3_K_M", "IQ4_XS", "MXFP4"};
    for (int i = 0; i < 6; i++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        static dct_hparams hp;
        write_synth(names[i], types[i], 1, 2, temp_path(0));
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_model_open(&m, temp_path(0), &arena, &err), DCT_OK);
        assert_false(m.data_missing);
        assert_int_equal(dct_hparams_read(&m, &hp, &err), DCT_OK);
        assert_int_equal(m.file_bytes % 32, 0);
        const dct_tensor *embd = dct_model_find_tensor(&m, "token_embd.weight");
        const dct_meta *tokens = dct_model_find_meta(&m, "tokenizer.ggml.tokens");
        assert_non_null(embd);
        assert_int_equal(embd->ne[1], hp.n_vocab);
        assert_int_equal(tokens->array.n, hp.n_vocab);
        assert_int_equal(dct_model_find_tensor(&m, "output.weight") != NULL, i == 1);
        assert_int_equal(dct_model_find_tensor(&m, "rope_freqs.weight") != NULL, i == 4);
        dct_model_close(&m);
        dct_arena_deinit(&arena);
    }
    unlink(temp_path(0));
}

/* Mean and deviation of what the blocks mean, for every type. */
static void weights_have_the_wanted_spread(void **state) {
    (void)state;
    enum { N = 256 * 64 };
    uint8_t *blocks = malloc(N * 4);
    float *values = malloc(N * sizeof *values);
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        dct_synth_stream s;
        dct_synth_stream_init(&s, (dct_dtype)type, 3, 1, 0, 0.05f);
        dct_synth_fill(&s, 0, N / dct_dtype_block_elems((dct_dtype)type), blocks);
        dct_dequant_row((dct_dtype)type, N, blocks, values);
        double sum = 0, squares = 0, fourth = 0;
        for (int i = 0; i < N; i++) sum += (double)values[i];
        for (int i = 0; i < N; i++) squares += pow((double)values[i] - sum / N, 2);
        double sigma = sqrt(squares / N);
        for (int i = 0; i < N; i++) fourth += pow(((double)values[i] - sum / N) / sigma, 4);
        double tolerance = type == DCT_TYPE_MXFP4 ? 0.25 : 0.06; /* MXFP4 has scales of powers of two only */
        if (fabs(sum / N) > 0.05 * 0.05 || fabs(sigma / 0.05 - 1) > tolerance) {
            fail_msg("%s: mean %g, deviation %g", dct_dtype_name((dct_dtype)type), sum / N, sigma);
        }
        if (type != DCT_TYPE_Q2_K) assert_true(fourth / N > 2.2 && fourth / N < 4.5); /* a normal distribution has 3, a flat one 1.8 */
    }
    free(blocks);
    free(values);
}

/* Any range of blocks is the same bytes as in one piece. */
static void blocks_do_not_depend_on_the_range(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        uint8_t whole[10 * 210], part[10 * 210];
        uint32_t bytes = dct_dtype_block_bytes((dct_dtype)type);
        dct_synth_stream s;
        dct_synth_stream_init(&s, (dct_dtype)type, 9, 4, 0, 1);
        dct_synth_fill(&s, 100, 10, whole);
        dct_synth_fill(&s, 100, 3, part);
        dct_synth_fill(&s, 103, 7, part + 3 * bytes);
        assert_memory_equal(whole, part, 10 * bytes);
    }
}

static dct_dtype type_in(const dct_synth_tensor *tensors, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, name) == 0) return tensors[i].type;
    }
    fail_msg("no tensor %s", name);
    return DCT_TYPE_COUNT;
}

static void mixtures(void **state) {
    (void)state;
    const struct {
        const char *shape, *mix, *tensor;
        dct_dtype type;
    } cases[] = {
        {"qwen2.5-1.5b", "Q4_0", "token_embd.weight", DCT_TYPE_Q6_K},
        {"qwen2.5-1.5b", "Q4_0", "blk.0.ffn_down.weight", DCT_TYPE_Q4_0},
        {"qwen2.5-0.5b", "Q4_0", "token_embd.weight", DCT_TYPE_Q8_0},
        {"qwen2.5-0.5b", "Q4_K_M", "token_embd.weight", DCT_TYPE_Q8_0},
        {"qwen2.5-0.5b", "Q4_K_M", "blk.5.attn_q.weight", DCT_TYPE_Q5_0},
        {"qwen2.5-0.5b", "Q4_K_M", "blk.0.attn_v.weight", DCT_TYPE_Q8_0}, /* Q6_K, which 896 does not suit */
        {"qwen2.5-0.5b", "Q4_K_M", "blk.0.ffn_down.weight", DCT_TYPE_Q6_K},
        {"qwen2.5-0.5b", "Q4_K_M", "blk.3.ffn_down.weight", DCT_TYPE_Q4_K},
        {"qwen2.5-0.5b", "Q4_K_M", "blk.5.ffn_down.weight", DCT_TYPE_Q6_K}, /* (5 - 3) % 3 == 2 */
        {"qwen2.5-0.5b", "Q4_K_M", "blk.21.ffn_down.weight", DCT_TYPE_Q6_K},
        {"qwen2.5-0.5b", "IQ4_XS", "blk.5.attn_q.weight", DCT_TYPE_IQ4_NL},
        {"qwen2.5-7b", "Q4_0", "token_embd.weight", DCT_TYPE_Q4_0},
        {"qwen2.5-7b", "Q4_0", "output.weight", DCT_TYPE_Q6_K},
        {"qwen2.5-7b", "Q5_K_M", "blk.0.attn_v.weight", DCT_TYPE_Q6_K},
        {"qwen2.5-7b", "Q5_K_M", "blk.4.attn_v.weight", DCT_TYPE_Q5_K},
        {"qwen2.5-7b", "Q2_K", "blk.4.attn_v.weight", DCT_TYPE_Q4_K},
        {"qwen2.5-7b", "Q2_K", "blk.4.attn_output.weight", DCT_TYPE_Q3_K},
        {"llama-3.2-1b", "Q4_K_S", "blk.3.attn_v.weight", DCT_TYPE_Q5_K},
        {"llama-3.2-1b", "Q4_K_S", "blk.4.attn_v.weight", DCT_TYPE_Q4_K},
        {"llama-3.2-1b", "Q8_0", "token_embd.weight", DCT_TYPE_Q8_0},
        {"llama-3.2-1b", "F16", "blk.0.attn_norm.weight", DCT_TYPE_F32},
        {"gemma-3-1b", "Q6_K", "blk.0.attn_q.weight", DCT_TYPE_Q8_0}, /* 1152 is not a multiple of 256 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_arena arena;
        uint32_t n;
        dct_arena_init(&arena, 0);
        const dct_synth_tensor *tensors = dct_synth_tensors(dct_synth_find_shape(cases[i].shape), dct_synth_find_mix(cases[i].mix), &arena, &n);
        dct_dtype type = type_in(tensors, n, cases[i].tensor);
        if (type != cases[i].type) {
            fail_msg("%s %s %s is %s", cases[i].shape, cases[i].mix, cases[i].tensor, dct_dtype_name(type));
        }
        dct_arena_deinit(&arena);
    }
}

/* Parameters of the real models (what a tied head does not count twice). */
static void shapes_are_the_real_ones(void **state) {
    (void)state;
    const struct {
        const char *name;
        uint64_t params;
    } cases[] = {{"qwen2.5-0.5b", 494032768}, {"qwen2.5-1.5b", 1543714304}, {"qwen2.5-3b", 3085938688}, {"qwen2.5-7b", 7615616512},
                 {"qwen3-0.6b", 596049920}, {"llama-3.2-1b", 1235814432}, {"gemma-3-1b", 999885952}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_arena arena;
        uint32_t n;
        uint64_t sum = 0;
        dct_arena_init(&arena, 0);
        const dct_synth_tensor *tensors = dct_synth_tensors(dct_synth_find_shape(cases[i].name), dct_synth_find_mix("F16"), &arena, &n);
        for (uint32_t k = 0; k < n; k++) sum += tensors[k].ne[0] * tensors[k].ne[1];
        if (sum != cases[i].params) fail_msg("%s has %llu parameters", cases[i].name, (unsigned long long)sum);
        dct_arena_deinit(&arena);
    }
}

static void vocabulary_holds_together(void **state) {
    (void)state;
    const char *const names[] = {"tiny-qwen2", "tiny-llama", "tiny-gemma3", "qwen2.5-7b"};
    for (int i = 0; i < 4; i++) {
        dct_synth_vocab v;
        dct_arena arena;
        dct_err err;
        const dct_synth_shape *shape = dct_synth_find_shape(names[i]);
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_synth_vocab_make(&v, shape, 1, &arena, &err), DCT_OK);
        assert_int_equal(v.n_tokens, shape->n_vocab);
        uint32_t n_bytes = 0, made = v.spm ? v.n_tokens - v.n_merges : 256;
        for (uint32_t k = 0; k < v.n_tokens; k++) n_bytes += v.spm ? v.tokens[k].type == DCT_TOKEN_BYTE : k < 256 && v.tokens[k].text.len == 1;
        assert_int_equal(n_bytes, 256);
        for (uint32_t k = 0; k < v.n_merges; k++, made++) { /* each merge makes the next token out of earlier ones */
            dct_str a = v.tokens[v.merges[k].left].text, b = v.tokens[v.merges[k].right].text, c = v.tokens[made].text;
            assert_true(v.merges[k].left < made && v.merges[k].right < made);
            assert_int_equal(a.len + b.len, c.len);
            assert_memory_equal(a.ptr, c.ptr, a.len);
            assert_memory_equal(b.ptr, c.ptr + a.len, b.len);
        }
        if (i == 3) {
            assert_true(dct_str_eq_z(v.tokens[151643].text, "<|endoftext|>"));
            assert_true(dct_str_eq_z(v.tokens[151645].text, "<|im_end|>"));
            assert_int_equal(v.eos, 151645);
        }
        dct_arena_deinit(&arena);
    }
}

static void wrong_names(void **state) {
    (void)state;
    dct_err err;
    dct_synth_params params = {.name = "gpt-9", .type = "Q4_0", .path = temp_path(0), .threads = 1};
    assert_int_equal(dct_synth(&params, &err), DCT_USAGE);
    assert_non_null(strstr(err.message, "gpt-9"));
    params.name = "tiny-qwen2";
    params.type = "IQ1_S";
    assert_int_equal(dct_synth(&params, &err), DCT_USAGE);
    params.type = "Q4_0";
    params.path = "/nonexistent/x.gguf";
    assert_int_equal(dct_synth(&params, &err), DCT_SYSTEM);
    assert_int_not_equal(access(temp_path(0), F_OK), 0);

    char name[64];
    for (const char *at = dct_synth_names(); at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 2 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        assert_non_null(dct_synth_find_shape(name));
    }
    for (const char *at = dct_synth_mix_names(); at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 2 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        assert_non_null(dct_synth_find_mix(name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_bytes), cmocka_unit_test(pieces_are_a_whole), cmocka_unit_test(every_tiny_shape_reopens), cmocka_unit_test(weights_have_the_wanted_spread),
        cmocka_unit_test(blocks_do_not_depend_on_the_range), cmocka_unit_test(mixtures), cmocka_unit_test(shapes_are_the_real_ones),
        cmocka_unit_test(vocabulary_holds_together), cmocka_unit_test(wrong_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
