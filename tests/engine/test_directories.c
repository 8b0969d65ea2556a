/* Model directories through the whole engine: the same values as a GGUF file give the same bits, MLX's quantisations the oracle's logits,
 * and the envelope has no more for the weights than the files hold. */
#include "engine_support.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "support/oracle.h"
#include "tools/tools.h"

enum { N = 40 };

static const char *const text_of_tests = "The quick brown fox, isn't it? 2024: 12 + 34 = 46\n\n  caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 <|im_end|>";

static dctms_token token_at(uint32_t i, uint32_t n_vocab) { return (i * 7919u + 13u) % n_vocab; }

/* ---- against a GGUF file of the same values ---- */

static float *logits_of(const char *path, uint32_t n, size_t *bytes) {
    dctms_plan_params pp = plan_params(64, 8, 16, 2);
    opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
    uint32_t n_vocab = dctms_session_n_vocab(o.session);
    float *rows = malloc((size_t)n * n_vocab * sizeof *rows);
    *bytes = n_vocab * sizeof *rows;
    for (uint32_t i = 0; i < n; i++) {
        dctms_token id = token_at(i, n_vocab);
        CHECK(dctms_session_eval(o.session, &id, 1, &check_err));
        memcpy(rows + (size_t)i * n_vocab, dctms_session_logits(o.session), *bytes);
    }
    close_all(o);
    return rows;
}

static void tokens_of(const char *path, dctms_token ids[256], size_t *n) {
    dctms_model *model;
    dctms_tokenizer *tokenizer;
    CHECK(dctms_model_open(path, &model, &check_err));
    CHECK(dctms_tokenizer_open(model, &tokenizer, &check_err));
    CHECK(dctms_tokenize(tokenizer, text_of_tests, strlen(text_of_tests), true, true, ids, 256, n, &check_err));
    dctms_tokenizer_free(tokenizer);
    dctms_model_free(model);
}

/* Where the published form of the built-in model lies beside the sources. */
static void same_bits_as_the_gguf_file(void **state) {
    (void)state;
    static const char *const places[] = {DCT_SOURCE_DIR "/../shared/models/tiny-vl/hf", DCT_SOURCE_DIR "/../../shared/models/tiny-vl/hf"};
    const char *directory = access(places[0], R_OK) == 0 ? places[0] : places[1];
    if (access(directory, R_OK) != 0) {
        print_message("skipped: %s is not there\n", places[0]);
        skip();
    }
    size_t bytes[2], n[2];
    float *a = logits_of(MODELS "tiny-vl-f16.gguf", N, &bytes[0]), *b = logits_of(directory, N, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(a, b, N * bytes[0]);
    free(a);
    free(b);
    dctms_token ids[2][256];
    tokens_of(MODELS "tiny-vl-f16.gguf", ids[0], &n[0]);
    tokens_of(directory, ids[1], &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_true(n[0] > 20 && n[0] <= 256);
    assert_memory_equal(ids[0], ids[1], n[0] * sizeof ids[0][0]);
}

/* ---- synthetic directories ---- */

static const char *make(const char *shape, const char *type) {
    static char path[512];
    snprintf(path, sizeof path, "%s/directories.%ld.%s.%s", DCT_BINARY_DIR, (long)getpid(), shape, type);
    dct_synth_params params = {.name = shape, .type = type, .path = path, .seed = 7, .threads = 2};
    dct_err err;
    if (dct_synth(&params, &err) != DCT_OK) fail_msg("%s %s: %s", shape, type, err.message);
    return path;
}

static void discard(const char *path) {
    static const char *const files[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"};
    char file[600];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i]);
        assert_int_equal(unlink(file), 0);
    }
    assert_int_equal(rmdir(path), 0);
}

static void check_against_oracle(const char *shape, const char *type, double tolerance) {
    const char *path = make(shape, type);
    size_t bytes;
    float *have = logits_of(path, N, &bytes);
    uint32_t n_vocab = (uint32_t)(bytes / sizeof(float));
    dct_err err;
    oracle *o = oracle_open(path, 64, &err);
    if (o == NULL) fail_msg("%s %s: %s", shape, type, err.message);
    int32_t ids[N];
    for (uint32_t i = 0; i < N; i++) ids[i] = (int32_t)token_at(i, n_vocab);
    float *want = malloc(N * bytes);
    assert_int_equal(oracle_eval(o, ids, NULL, N, want, &err), DCT_OK);
    double squares = 0, size = 0;
    for (size_t i = 0; i < (size_t)N * n_vocab; i++) {
        squares += ((double)have[i] - (double)want[i]) * ((double)have[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    double error = sqrt(squares / size);
    if (!(size > 0) || !(error < tolerance)) fail_msg("%s %s: relative error %g of %g", shape, type, error, tolerance);
    free(want);
    free(have);
    oracle_close(o);
    discard(path);
}

/* Quantised activations err by some thousandths; wrong codes, scales or biases by far more. */
static void logits_are_the_oracles(void **state) {
    (void)state;
    static const char *const types[] = {"mlx-2bit", "mlx-3bit", "mlx-4bit", "mlx-5bit", "mlx-6bit", "mlx-8bit", "mlx-4bit-32", "mlx-8bit-128"};
    static const char *const shapes[] = {"tiny-llama", "tiny-qwen2-untied", "tiny-qwen3", "tiny-qwen2vl", "tiny-gemma3"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) check_against_oracle("tiny-qwen2", types[i], 0.05);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_against_oracle(shapes[i], "mlx-4bit", 0.05);
        check_against_oracle(shapes[i], "hf-bf16", 0.001);
    }
}

/* What is missing is named as directories have it. */
static void a_directory_without_a_tokenizer_is_refused(void **state) {
    (void)state;
    const char *path = make("tiny-qwen2", "mlx-4bit");
    char file[600], aside[600];
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    snprintf(aside, sizeof aside, "%s.tokenizer", path);
    assert_int_equal(rename(file, aside), 0);
    dctms_plan_params pp = plan_params(64, 8, 16, 2);
    dctms_model *model;
    dctms_plan *plan;
    dctms_error err;
    CHECK(dctms_model_open(path, &model, &check_err));
    assert_int_equal(dctms_plan_compile(model, &pp, &plan, &err), DCTMS_BAD_FILE);
    assert_non_null(strstr(err.message, "the directory has no tokenizer.json"));
    dctms_model_free(model);
    assert_int_equal(rename(aside, file), 0);
    discard(path);
}

/* M_weights against the bytes of the file's tensors; of a shape whose tables do not hide the weights. */
static void weights_take_what_the_file_has(void **state) {
    (void)state;
    const char *path = make("tiny-qwen2-untied", "mlx-4bit");
    dctms_plan_params pp = plan_params(64, 8, 16, 2);
    opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
    dctms_model *model;
    dctms_model_info info;
    dctms_plan_info envelope;
    CHECK(dctms_model_open(path, &model, &check_err));
    CHECK(dctms_model_get_info(model, &info, &check_err));
    dctms_plan_get_info(o.plan, &envelope);
    assert_string_equal(info.type_name, "MLX4_64_BF16");
    assert_true((double)envelope.weights_bytes <= 1.03 * (double)info.tensor_bytes);
    assert_true(envelope.weights_bytes >= info.tensor_bytes);
    dctms_model_free(model);
    close_all(o);
    discard(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_the_gguf_file),
        cmocka_unit_test(logits_are_the_oracles),
        cmocka_unit_test(a_directory_without_a_tokenizer_is_refused),
        cmocka_unit_test(weights_take_what_the_file_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
