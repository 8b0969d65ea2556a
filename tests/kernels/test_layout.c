/* Packed tiles: every value is the file's, every byte is where layout.h draws it, what is missing is zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel_data.h"

enum { MAX_K = 2304, CANARY = 64 };

static uint64_t row_bytes(dct_dtype type, uint32_t k) {
    uint64_t bytes = 0;
    assert_true(dct_dtype_row_bytes(type, k, &bytes));
    return bytes;
}

static uint64_t tile_bytes(dct_dtype type, uint32_t k) {
    uint64_t bytes = 0;
    assert_true(dct_layout_tile_bytes(type, k, &bytes));
    return bytes;
}

/* A packed tile of n random rows, with a canary behind it. */
typedef struct sample {
    dct_dtype type;
    uint32_t k, n;
    uint8_t *rows, *tile;
} sample;

static sample sample_of(dct_dtype type, uint32_t k, uint32_t n, uint64_t seed) {
    rng g = {seed};
    sample s = {type, k, n, malloc(n * row_bytes(type, k)), malloc(tile_bytes(type, k) + CANARY)};
    for (uint32_t r = 0; r < n; r++) random_row(&g, type, k, s.rows + r * row_bytes(type, k));
    memset(s.tile, 0xAA, tile_bytes(type, k) + CANARY);
    dct_layout_pack_tile(type, k, s.rows, n, s.tile);
    return s;
}

static void sample_free(sample *s) {
    free(s->rows);
    free(s->tile);
}

/* Multiples of the block that end units in all ways. */
static uint32_t k_of(dct_dtype type, uint32_t i) {
    static const uint32_t blocks[] = {1, 2, 3, 5, 7, 9};
    uint32_t elems = dct_dtype_block_elems(type);
    return i < sizeof blocks / sizeof *blocks ? blocks[i] * elems : 0;
}

typedef void check_fn(const sample *s);

static void for_all_samples(check_fn *check) {
    static const uint32_t rows[] = {1, 2, 15, 16};
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        for (uint32_t i = 0; k_of((dct_dtype)type, i) != 0; i++) {
            for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
                sample s = sample_of((dct_dtype)type, k_of((dct_dtype)type, i), rows[n], 1000 * i + 10 * n + (uint64_t)type);
                check(&s);
                sample_free(&s);
            }
        }
    }
}

static void check_values(const sample *s) {
    float want[MAX_K], got[MAX_K];
    for (uint32_t r = 0; r < s->n; r++) {
        dct_dequant_row(s->type, s->k, s->rows + r * row_bytes(s->type, s->k), want);
        dct_layout_row_f32(s->type, s->k, s->tile, r, got);
        for (uint32_t j = 0; j < s->k; j++) assert_true(got[j] == want[j]);
    }
}

static void test_values(void **state) {
    (void)state;
    for_all_samples(check_values);
}

static void check_numbers(const sample *s) {
    if (dct_dtype_is_float(s->type)) return;
    const dct_layout *layout = dct_layout_of(s->type);
    int8_t codes[MAX_K];
    float want[MAX_K], scales[MAX_K / 16], mins[MAX_K / 16];
    for (uint32_t r = 0; r < s->n; r++) {
        dct_dequant_row(s->type, s->k, s->rows + r * row_bytes(s->type, s->k), want);
        dct_layout_unpack_row(s->type, s->k, s->tile, r, codes, scales, mins);
        for (uint32_t j = 0; j < s->k; j++) {
            uint32_t g = j / layout->group;
            assert_true(scales[g] * (float)(codes[j] + layout->lift) - mins[g] == want[j]);
            assert_true(layout->has_min || mins[g] == 0);
        }
    }
}

static void test_numbers(void **state) {
    (void)state;
    for_all_samples(check_numbers);
}

/* Missing rows and columns read as zero, their scales too, and nothing was written behind the tile. */
static void check_missing(const sample *s) {
    const dct_layout *layout = dct_layout_of(s->type);
    uint32_t whole = (s->k + layout->unit_cols - 1) / layout->unit_cols * layout->unit_cols;
    float got[MAX_K];
    for (uint32_t r = 0; r < DCT_TILE_ROWS; r++) {
        dct_layout_row_f32(s->type, whole, s->tile, r, got);
        for (uint32_t j = r < s->n ? s->k : 0; j < whole; j++) assert_true(got[j] == 0);
    }
    for (uint32_t i = 0; i < CANARY; i++) assert_int_equal(s->tile[tile_bytes(s->type, s->k) + i], 0xAA);
}

static void test_missing(void **state) {
    (void)state;
    for_all_samples(check_missing);
}

/* ---- the picture of layout.h, read by address ---- */

static int nib_at(const uint8_t *nib, uint32_t r, uint32_t j) { return nib[j % 32 / 4 * 64 + r * 4 + j % 4] >> (j / 32 * 4) & 15; }

static int hi1_at(const uint8_t *hi1, uint32_t r, uint32_t j) {
    uint64_t word;
    memcpy(&word, hi1 + (j % 32 / 4 * 2 + j / 32) * 8, sizeof word);
    return (int)(word >> (r * 4 + j % 4) & 1);
}

static int by2_at(const uint8_t *by2, uint32_t r, uint32_t j) { return by2[j % 32 / 4 * 64 + r * 4 + j % 4] >> (j / 32 * 2) & 3; }

static int byte_at(const uint8_t *bytes, uint32_t r, uint32_t j) { return bytes[(j / 32 * 8 + j % 32 / 4) * 64 + r * 4 + j % 4]; }

/* The unsigned code of column j of a unit. */
static int picture(dct_dtype type, const uint8_t *unit, uint32_t r, uint32_t j) {
    const uint8_t *nib = unit + j / 64 * 512, *by2 = unit + j / 128 * 512;
    const dct_affine *affine = dct_dtype_affine(type);
    switch (affine != NULL ? affine->bits : 0) {
    case 2: return by2_at(unit, r, j);
    case 3: return by2_at(unit, r, j) | hi1_at(unit + 512 + j / 64 * 128, r, j % 64) << 2;
    case 5: return nib_at(nib, r, j % 64) | hi1_at(unit + 1024 + j / 64 * 128, r, j % 64) << 4;
    case 6: return nib_at(nib, r, j % 64) | by2_at(unit + 1024, r, j) << 4;
    case 8: return byte_at(unit, r, j);
    default: break;
    }
    switch (type) {
    case DCT_TYPE_Q5_0:
    case DCT_TYPE_Q5_1: return nib_at(nib, r, j % 64) | hi1_at(unit + 512, r, j % 64) << 4;
    case DCT_TYPE_Q8_0: return byte_at(unit, r, j);
    case DCT_TYPE_Q2_K: return by2_at(by2, r, j % 128);
    case DCT_TYPE_Q3_K: return by2_at(by2, r, j % 128) | hi1_at(unit + 1024 + j / 64 * 128, r, j % 64) << 2;
    case DCT_TYPE_Q5_K: return nib_at(nib, r, j % 64) | hi1_at(unit + 2048 + j / 64 * 128, r, j % 64) << 4;
    case DCT_TYPE_Q6_K: return nib_at(nib, r, j % 64) | by2_at(unit + 2048 + j / 128 * 512, r, j % 128) << 4;
    default: return nib_at(nib, r, j % 64);
    }
}

static int meaning(dct_dtype type, int code) {
    static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    if (type == DCT_TYPE_IQ4_NL || type == DCT_TYPE_IQ4_XS) return iq4[code];
    if (type == DCT_TYPE_MXFP4) return fp4[code];
    return code - dct_layout_of(type)->zero;
}

static void check_picture(const sample *s) {
    if (dct_dtype_is_float(s->type)) return;
    const dct_layout *layout = dct_layout_of(s->type);
    int8_t codes[MAX_K];
    float scales[MAX_K / 16], mins[MAX_K / 16];
    for (uint32_t r = 0; r < s->n; r++) {
        dct_layout_unpack_row(s->type, s->k, s->tile, r, codes, scales, mins);
        for (uint32_t j = 0; j < s->k; j++) {
            const uint8_t *unit = s->tile + j / layout->unit_cols * layout->unit_bytes;
            assert_int_equal(codes[j], meaning(s->type, picture(s->type, unit, r, j % layout->unit_cols)));
        }
    }
}

static void test_picture(void **state) {
    (void)state;
    for_all_samples(check_picture);
}

/* Where f16 scales and minima lie: the first of row 5 in the first unit. */
static void test_scales_in_place(void **state) {
    (void)state;
    static const struct {
        dct_dtype type;
        uint32_t in_file, in_unit;
    } places[] = {
        {DCT_TYPE_Q4_0, 0, 512},  {DCT_TYPE_Q4_1, 2, 576},   {DCT_TYPE_Q5_0, 0, 640},   {DCT_TYPE_Q5_1, 2, 704},  {DCT_TYPE_Q8_0, 0, 1024},
        {DCT_TYPE_Q2_K, 80, 1024}, {DCT_TYPE_Q2_K, 82, 1056}, {DCT_TYPE_Q3_K, 108, 1536}, {DCT_TYPE_Q4_K, 0, 2048}, {DCT_TYPE_Q4_K, 2, 2080},
        {DCT_TYPE_MLX4_64_BF16, 32, 1024}, {DCT_TYPE_MLX4_64_BF16, 34, 1088}, {DCT_TYPE_MLX6_128_F16, 98, 1568},
        {DCT_TYPE_Q5_K, 0, 2560}, {DCT_TYPE_Q5_K, 2, 2592},  {DCT_TYPE_Q6_K, 208, 3328}, {DCT_TYPE_IQ4_XS, 0, 2176}, {DCT_TYPE_IQ4_NL, 0, 512},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        sample s = sample_of(places[i].type, k_of(places[i].type, 1), 16, i);
        assert_memory_equal(s.tile + places[i].in_unit + 2 * 5, s.rows + 5 * row_bytes(s.type, s.k) + places[i].in_file, 2);
        sample_free(&s);
    }
}

/* ---- sizes ---- */

static void test_sizes(void **state) {
    (void)state;
    static const uint32_t unit_bytes[DCT_TYPE_COUNT] = {
        [DCT_TYPE_F32] = 64,     [DCT_TYPE_F16] = 32,     [DCT_TYPE_BF16] = 32,   [DCT_TYPE_Q4_0] = 576,   [DCT_TYPE_Q4_1] = 640,
        [DCT_TYPE_Q5_0] = 704,   [DCT_TYPE_Q5_1] = 768,   [DCT_TYPE_Q8_0] = 1088, [DCT_TYPE_MXFP4] = 1088, [DCT_TYPE_Q2_K] = 1344,
        [DCT_TYPE_Q3_K] = 1792,  [DCT_TYPE_Q4_K] = 2368,  [DCT_TYPE_Q5_K] = 2880, [DCT_TYPE_Q6_K] = 3392,  [DCT_TYPE_IQ4_NL] = 576,
        [DCT_TYPE_IQ4_XS] = 2240,
    };
    for (int type = 0; type < DCT_TYPE_GGUF_COUNT; type++) assert_int_equal(dct_layout_of((dct_dtype)type)->unit_bytes, unit_bytes[type]);
    assert_int_equal(dct_layout_of(DCT_TYPE_MLX4_64_BF16)->unit_bytes, 2 * 512 + 2 * 2 * 32);
    assert_int_equal(dct_layout_of(DCT_TYPE_MLX3_32_F16)->unit_bytes, 512 + 2 * 128 + 2 * 4 * 32);
    assert_int_equal(dct_layout_of(DCT_TYPE_MLX8_128_F32)->unit_bytes, 2 * 1024 + 2 * 64);
    uint64_t bytes = 7;
    assert_true(dct_layout_bytes(DCT_TYPE_Q4_0, 40, 96, &bytes) && bytes == 3 * 2 * 576);
    assert_true(dct_layout_bytes(DCT_TYPE_F16, 17, 3, &bytes) && bytes == 2 * 128);
    assert_true(dct_layout_bytes(DCT_TYPE_MXFP4, 16, 160, &bytes) && bytes == 2 * 1088);
    assert_true(dct_layout_bytes(DCT_TYPE_Q6_K, 0, 256, &bytes) && bytes == 0);
    bytes = 7;
    assert_false(dct_layout_tile_bytes(DCT_TYPE_Q4_0, 48, &bytes));
    assert_false(dct_layout_tile_bytes(DCT_TYPE_Q4_K, 128, &bytes));
    assert_false(dct_layout_tile_bytes(DCT_TYPE_F32, UINT64_MAX / 64 + 1, &bytes));
    assert_false(dct_layout_bytes(DCT_TYPE_F32, UINT64_MAX, 1024, &bytes));
    assert_int_equal(bytes, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_numbers),         cmocka_unit_test(test_missing),
        cmocka_unit_test(test_picture), cmocka_unit_test(test_scales_in_place), cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
