/* What inspect prints: the facts of a file, long arrays cut, and nothing of a hostile file's strings that could move a cursor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/report.h"
#include "support/gguf_build.h"

typedef struct text {
    char *ptr;
    size_t n;
} text;

static void collect(void *ctx, const char *bytes, size_t n) {
    text *t = ctx;
    t->ptr = realloc(t->ptr, t->n + n + 1);
    assert_non_null(t->ptr);
    memcpy(t->ptr + t->n, bytes, n);
    t->n += n;
    t->ptr[t->n] = '\0';
}

static text inspect(gguf_build *b, bool json, bool all) {
    text t = {NULL, 0};
    size_t n;
    const uint8_t *image = gguf_build_image(b, &n);
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open_bytes(&m, image, n, &arena, &err), DCT_OK);
    assert_int_equal(dct_report_inspect(&m, json, all, collect, &t, &err), DCT_OK);
    dct_arena_deinit(&arena);
    return t;
}

static void has(const text *t, const char *part) {
    if (strstr(t->ptr, part) == NULL) fail_msg("expected '%s' in:\n%s", part, t->ptr);
}

static void text_of_a_model(void **state) {
    (void)state;
    gguf_build b;
    gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    gguf_build_tiny(&b, &tiny);
    text t = inspect(&b, false, false);
    has(&t, "GGUF version 3, little-endian, 1 part\n");
    has(&t, "data          complete\n");
    has(&t, "\"qwen2\"\n");
    has(&t, "string[320]");
    has(&t, "... 312 more]");
    has(&t, "blk.1.attn_q.weight                  Q4_0    256 x 256");
    has(&t, "  Q4_0       15 tensors");
    free(t.ptr);
    t = inspect(&b, false, true);
    assert_null(strstr(t.ptr, " more]"));
    has(&t, "\"<|im_end|>\"]\n");
    free(t.ptr);
    b.data.n = 0; /* the data section is gone */
    t = inspect(&b, false, false);
    has(&t, "data          missing or cut off");
    free(t.ptr);
    gguf_build_free(&b);
}

static void json_of_a_model(void **state) {
    (void)state;
    gguf_build b;
    gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_Q6_K);
    tiny.big_endian = true;
    gguf_build_tiny(&b, &tiny);
    text t = inspect(&b, true, false);
    json_error_t error;
    json_t *root = json_loads(t.ptr, 0, &error);
    assert_non_null(root);
    json_t *meta = json_object_get(root, "metadata"), *tokens = json_object_get(meta, "tokenizer.ggml.tokens");
    assert_string_equal(json_string_value(json_object_get(root, "byte_order")), "big");
    assert_false(json_is_true(json_object_get(root, "data_missing")));
    assert_int_equal(json_integer_value(json_object_get(meta, "llama.block_count")), 2);
    assert_string_equal(json_string_value(json_object_get(meta, "general.architecture")), "llama");
    assert_int_equal(json_integer_value(json_object_get(tokens, "count")), 320);
    json_t *first = json_array_get(json_object_get(root, "tensors"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "token_embd.weight");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "shape"), 1)), 320);
    json_t *q6 = json_object_get(json_object_get(root, "totals"), "Q6_K");
    assert_int_equal(json_integer_value(json_object_get(q6, "tensors")), 15);
    json_decref(root);
    free(t.ptr);
    t = inspect(&b, true, true);
    root = json_loads(t.ptr, 0, &error);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "metadata"), "tokenizer.ggml.tokens")), 320);
    json_decref(root);
    free(t.ptr);
    gguf_build_free(&b);
}

static gguf_build hostile(void) {
    gguf_build b;
    gguf_build_init(&b, 3, false);
    gguf_build_str(&b, "key\x1b[31m\nnext", "a\x1b]0;title\x07\r\n\xff\xc0\x80 \xe2\x80\xae right \xc2\x9b \xed\xa0\x80 \\\"");
    gguf_build_key(&b, "nul", DCT_META_STRING);
    gguf_build_raw_int(&b, 3, 8);
    gguf_build_raw(&b, "a\0b", 3);
    gguf_build_f32(&b, "inf", 1e30f * 1e30f);
    gguf_build_u64(&b, "big", UINT64_MAX);
    gguf_build_array_raw(&b, "bigs", DCT_META_U64, 1, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gguf_build_array_raw(&b, "none", DCT_META_STRING, 0, "", 0);
    gguf_build_tensor(&b, "t\t\x7f\xf0", DCT_TYPE_F32, 1, (uint64_t[]){1}, NULL);
    return b;
}

static void hostile_strings_in_text(void **state) {
    (void)state;
    gguf_build b = hostile();
    text t = inspect(&b, false, true);
    for (size_t i = 0; i < t.n; i++) assert_true(t.ptr[i] == '\n' || (t.ptr[i] >= 0x20 && t.ptr[i] < 0x7f));
    size_t lines = 0;
    for (size_t i = 0; i < t.n; i++) lines += t.ptr[i] == '\n';
    assert_int_equal(lines, 5 + 2 + 6 + 2 + 1 + 2 + 2); /* facts, metadata, tensors, totals */
    has(&t, "key\\u{1b}[31m\\nnext");
    has(&t, "\\xff\\xc0\\x80 \\u{202e} right \\u{9b} \\xed\\xa0\\x80 \\\\\\\"\"");
    has(&t, "\"a\\u{0}b\"");
    has(&t, "t\\t\\u{7f}\\xf0");
    free(t.ptr);
    gguf_build_free(&b);
}

static void hostile_strings_in_json(void **state) {
    (void)state;
    gguf_build b = hostile();
    text t = inspect(&b, true, false);
    json_error_t error;
    json_t *root = json_loads(t.ptr, JSON_ALLOW_NUL, &error);
    assert_non_null(root);
    json_t *meta = json_object_get(root, "metadata");
    assert_string_equal(json_string_value(json_object_get(meta, "inf")), "inf");
    assert_string_equal(json_string_value(json_object_get(meta, "big")), "18446744073709551615");
    assert_int_equal(json_string_length(json_object_get(meta, "nul")), 3);
    assert_int_equal(json_array_size(json_object_get(meta, "none")), 0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(root, "tensors"), 0), "name")), "t\t\x7f\xef\xbf\xbd");
    json_decref(root);
    free(t.ptr);
    gguf_build_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_a_model),
        cmocka_unit_test(json_of_a_model),
        cmocka_unit_test(hostile_strings_in_text),
        cmocka_unit_test(hostile_strings_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
