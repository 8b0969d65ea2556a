/* Bytes in, bytes out: the reader at every truncation and in both orders, the writer counting and overflowing, halves, types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "base/reader.h"

static bool read_all(dct_reader *r) {
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    const void *g;
    return dct_read_u8(r, &a) && dct_read_u16(r, &b) && dct_read_u32(r, &c) && dct_read_u64(r, &d) &&
           dct_read_bytes(r, 3, &g) && dct_read_skip(r, 2);
}

static void test_every_truncation(void **state) {
    (void)state;
    uint8_t bytes[20] = {0};
    for (uint64_t n = 0; n <= sizeof bytes; n++) {
        dct_reader r = dct_reader_of(bytes, n);
        assert_int_equal(read_all(&r), n == 20);
        assert_true(r.pos <= n);
    }
    dct_reader r = dct_reader_of(bytes, 10);
    const void *p;
    assert_false(dct_read_bytes(&r, UINT64_MAX, &p));
    assert_false(dct_read_skip(&r, UINT64_MAX - 2));
    assert_int_equal(r.pos, 0); /* the cursor stays on failure */
}

static void test_orders(void **state) {
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    dct_reader little = dct_reader_of(bytes, 8), big = little;
    big.big_endian = true;
    uint64_t v;
    assert_true(dct_read_u64(&little, &v) && v == UINT64_C(0x0807060504030201));
    assert_true(dct_read_u64(&big, &v) && v == UINT64_C(0x0102030405060708));
    uint16_t h;
    little.pos = big.pos = 0;
    assert_true(dct_read_u16(&little, &h) && h == 0x0201);
    assert_true(dct_read_u16(&big, &h) && h == 0x0102);
    big.base = 100;
    assert_int_equal(dct_reader_offset(&big), 102);
}

static void write_some(dct_writer *w) {
    dct_write_u8(w, 1);
    dct_write_u32(w, 0x04050607);
    dct_write_u64(w, 8);
    dct_write_f32(w, 1.5f);
    dct_write_bytes(w, "abc", 3);
}

static void test_writer(void **state) {
    (void)state;
    dct_writer count = {0};
    write_some(&count);
    assert_int_equal(count.pos, 20);
    uint8_t bytes[21];
    for (uint64_t size = 0; size <= 20; size++) {
        memset(bytes, 0xee, sizeof bytes);
        dct_writer w = {.bytes = bytes, .size = size};
        write_some(&w);
        assert_int_equal(w.overflow, size < 20);
        for (uint64_t i = size; i < sizeof bytes; i++) assert_int_equal(bytes[i], 0xee);
    }
    dct_reader r = dct_reader_of(bytes, 20);
    uint8_t a = 0;
    uint32_t c = 0, bits = 0;
    uint64_t d = 0;
    float e;
    const void *text;
    assert_true(dct_read_u8(&r, &a) && dct_read_u32(&r, &c) && dct_read_u64(&r, &d));
    assert_true(dct_read_u32(&r, &bits) && dct_read_bytes(&r, 3, &text));
    memcpy(&e, &bits, sizeof e);
    assert_true(a == 1 && c == 0x04050607 && d == 8 && e == 1.5f && memcmp(text, "abc", 3) == 0);
}

/* Every f16 goes to f32 and back unchanged (NaN stays NaN); between two neighbours the nearer one is taken, ties to even. */
static void test_f16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = dct_f32_of_f16((uint16_t)h);
        uint16_t back = dct_f16_of_f32(f);
        if ((h & 0x7fff) > 0x7c00) assert_true(isnan(f) && (back & 0x7fff) > 0x7c00);
        else assert_int_equal(back, h);
        if ((h & 0x7fff) >= 0x7bff) continue;
        float next = dct_f32_of_f16((uint16_t)(h + 1)), middle = f + (next - f) * 0.5f;
        assert_int_equal(dct_f16_of_f32(middle), h % 2 == 0 ? h : h + 1);
        assert_int_equal(dct_f16_of_f32(nextafterf(middle, f)), h);
        assert_int_equal(dct_f16_of_f32(nextafterf(middle, next)), h + 1);
    }
    assert_int_equal(dct_f16_of_f32(65519.0f), 0x7bff);
    assert_int_equal(dct_f16_of_f32(65520.0f), 0x7c00);
    assert_int_equal(dct_f16_of_f32(-1e30f), 0xfc00);
}

static void test_bf16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = dct_f32_of_bf16((uint16_t)h);
        uint16_t back = dct_bf16_of_f32(f);
        if ((h & 0x7fff) > 0x7f80) assert_true(isnan(f) && (back & 0x7fff) > 0x7f80);
        else assert_int_equal(back, h);
    }
    assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(0x3f808000)), 0x3f80); /* a tie, to even */
    assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(0x3f818000)), 0x3f82);
    assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(0x3f808001)), 0x3f81);
}

static void test_dtypes(void **state) {
    (void)state;
    const struct {
        const char *name;
        uint32_t id, elems, bytes;
    } known[] = {{"F32", 0, 1, 4},     {"F16", 1, 1, 2},     {"Q4_0", 2, 32, 18},  {"Q4_1", 3, 32, 20},   {"Q5_0", 6, 32, 22},
                 {"Q5_1", 7, 32, 24},  {"Q8_0", 8, 32, 34},  {"Q2_K", 10, 256, 84}, {"Q3_K", 11, 256, 110}, {"Q4_K", 12, 256, 144},
                 {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210}, {"IQ4_NL", 20, 32, 18}, {"IQ4_XS", 23, 256, 136}, {"BF16", 30, 1, 2},
                 {"MXFP4", 39, 32, 17}};
    assert_int_equal(sizeof known / sizeof *known, DCT_TYPE_GGUF_COUNT);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        dct_dtype by_id, by_name;
        assert_true(dct_dtype_of_ggml_id(known[i].id, &by_id, NULL));
        assert_true(dct_dtype_of_name(known[i].name, &by_name));
        assert_int_equal(by_id, by_name);
        assert_string_equal(dct_dtype_name(by_id), known[i].name);
        assert_int_equal(dct_dtype_block_elems(by_id), known[i].elems);
        assert_int_equal(dct_dtype_block_bytes(by_id), known[i].bytes);
        assert_int_equal(dct_dtype_ggml_id(by_id), known[i].id);
    }
    dct_dtype type;
    const char *name;
    assert_true(dct_dtype_of_name("q4_k", &type) && type == DCT_TYPE_Q4_K);
    assert_false(dct_dtype_of_name("q4_", &type));
    assert_false(dct_dtype_of_name("", &type));
    assert_false(dct_dtype_of_ggml_id(16, &type, &name));
    assert_string_equal(name, "IQ2_XXS");
    assert_false(dct_dtype_of_ggml_id(4000, &type, &name));
    assert_null(name);
    uint64_t bytes;
    assert_true(dct_dtype_row_bytes(DCT_TYPE_Q4_0, 64, &bytes) && bytes == 36);
    assert_false(dct_dtype_row_bytes(DCT_TYPE_Q4_0, 33, &bytes));
    assert_false(dct_dtype_row_bytes(DCT_TYPE_F32, UINT64_C(1) << 62, &bytes));
}

/* MLX's types: each combination once, no id that a GGUF file could name. */
static void test_affine_dtypes(void **state) {
    (void)state;
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const dct_dtype scales[] = {DCT_TYPE_BF16, DCT_TYPE_F16, DCT_TYPE_F32};
    uint32_t n = 0;
    for (int i = 0; i < 54; i++) {
        uint32_t b = bits[i / 9], g = groups[i / 3 % 3];
        dct_dtype type, by_name, scale = scales[i % 3];
        char name[32];
        assert_true(dct_dtype_of_affine(b, g, scale, &type));
        snprintf(name, sizeof name, "mlx%u_%u_%s", b, g, dct_dtype_name(scale));
        assert_true(dct_dtype_of_name(name, &by_name) && by_name == type);
        assert_int_equal(dct_dtype_block_elems(type), g);
        assert_int_equal(dct_dtype_block_bytes(type), g * b / 8 + 2 * dct_dtype_block_bytes(scale));
        assert_true(type >= DCT_TYPE_GGUF_COUNT && dct_dtype_affine(type)->bits == b);
        n++;
    }
    dct_dtype type;
    assert_int_equal(n, DCT_TYPE_COUNT - DCT_TYPE_GGUF_COUNT);
    assert_false(dct_dtype_of_affine(7, 64, DCT_TYPE_F16, &type));
    assert_false(dct_dtype_of_affine(0, 0, DCT_TYPE_F32, &type));
    assert_false(dct_dtype_of_affine(4, 64, DCT_TYPE_Q4_0, &type));
    assert_null(dct_dtype_affine(DCT_TYPE_Q4_1));
    assert_false(dct_dtype_of_ggml_id(DCT_NO_GGML_ID, &type, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_truncation), cmocka_unit_test(test_orders), cmocka_unit_test(test_writer),
        cmocka_unit_test(test_f16),              cmocka_unit_test(test_bf16),   cmocka_unit_test(test_dtypes), cmocka_unit_test(test_affine_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
