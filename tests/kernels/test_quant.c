/* Quantised files: errors within what the codes allow, scales in range, and hand-made blocks read right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_data.h"
#include "support/quant.h"

enum { K = 1024, MAX_ROW = K * 4 };
static const double HALF_STEP = 0x1p-25; /* half of the least f16 */

/* The greatest error of an element over the greatest magnitude of its block, for uniform data: half a step of the coarsest
 * group, and for k-quants what rounding scales to few bits adds. */
static const double bounds[DCT_TYPE_COUNT] = {
    [DCT_TYPE_F32] = 0,
    [DCT_TYPE_F16] = 0x1p-11,
    [DCT_TYPE_BF16] = 0x1p-8,
    [DCT_TYPE_Q4_0] = 1.0 / 8 + 1e-3,     /* the far end has no code of its own: one step */
    [DCT_TYPE_Q4_1] = 1.0 / 15 + 2e-3,    /* half a step of a range of 2 */
    [DCT_TYPE_Q5_0] = 1.0 / 16 + 1e-3,
    [DCT_TYPE_Q5_1] = 1.0 / 31 + 2e-3,
    [DCT_TYPE_Q8_0] = 0.5 / 127 + 1e-3,
    [DCT_TYPE_Q2_K] = 1.0 / 3 + 0.12,     /* scale and minimum to a thirtieth each, times up to 3 codes */
    [DCT_TYPE_Q3_K] = 1.0 / 4 + 0.03,
    [DCT_TYPE_Q4_K] = 1.0 / 15 + 0.03,
    [DCT_TYPE_Q5_K] = 1.0 / 31 + 0.03,
    [DCT_TYPE_Q6_K] = 1.0 / 32 + 0.01,
    [DCT_TYPE_IQ4_NL] = 14.5 / 127 + 1e-3, /* from 127, which has no code when -127 is the extreme, to 113; gaps up to 24 */
    [DCT_TYPE_IQ4_XS] = 14.5 / 127 + 0.03,
    [DCT_TYPE_MXFP4] = 0.25 + 1e-6,       /* between 6 and 8: as far as 2 of 8 */
};

/* MLX: a range of up to twice the greatest magnitude in steps, and what a rounded scale adds at the far end. */
static double bound_of(dct_dtype type) {
    const dct_affine *a = dct_dtype_affine(type);
    return a == NULL ? bounds[type] : 2.0 / ((1 << a->bits) - 1) + 0.01;
}

static void quantise(dct_dtype type, const float *x, float *back) {
    uint8_t row[MAX_ROW];
    quant_row(type, K, x, row);
    dct_dequant_row(type, K, row, back);
}

static void check_error(dct_dtype type, const float *x) {
    float back[K];
    uint32_t elems = dct_dtype_block_elems(type);
    quantise(type, x, back);
    for (uint32_t b = 0; b < K; b += elems) {
        double amax = 0, error = 0;
        for (uint32_t i = b; i < b + elems; i++) {
            amax = fmax(amax, fabs(x[i]));
            error = fmax(error, fabs((double)x[i] - back[i]));
        }
        if (error > bound_of(type) * amax + HALF_STEP) fail_msg("%s: error %g of %g", dct_dtype_name(type), error, amax);
    }
}

static void test_error_bounds(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        rng g = {(uint64_t)type + 1};
        for (int i = 0; i < 50; i++) {
            float x[K], size = ldexpf(1, i % 12 - 8);
            for (int j = 0; j < K; j++) x[j] = rng_float(&g) * size * (i % 3 == 0 ? rng_float(&g) : 1);
            check_error((dct_dtype)type, x);
        }
    }
}

static void test_one_sign(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        rng g = {(uint64_t)type + 77};
        float x[K];
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int j = 0; j < K; j++) x[j] = (float)sign * (1 + rng_float(&g)) / 2;
            check_error((dct_dtype)type, x);
        }
    }
}

/* A block of zeros is zeros, and tiny numbers, whose scales are zero in f16, never become large. */
static void test_zero_and_tiny(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        float x[K] = {0}, back[K];
        quantise((dct_dtype)type, x, back);
        for (int j = 0; j < K; j++) assert_true(back[j] == 0);
        for (int j = 0; j < K; j++) x[j] = j % 2 == 0 ? 1e-30f : -1e-38f;
        quantise((dct_dtype)type, x, back);
        for (int j = 0; j < K; j++) assert_true(fabsf(back[j]) < 1e-5f);
    }
}

/* Quantising what is already a grid of the type changes nothing more (the first pass may move the scale by an f16 ulp). */
static void test_second_pass(void **state) {
    (void)state;
    static const dct_dtype types[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_BF16, DCT_TYPE_Q4_0, DCT_TYPE_Q5_0, DCT_TYPE_IQ4_NL, DCT_TYPE_MXFP4};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        rng g = {t + 5};
        float x[K], once[K], twice[K];
        rng_floats(&g, x, K);
        quantise(types[t], x, once);
        quantise(types[t], once, twice);
        for (int j = 0; j < K; j++) assert_true(once[j] == twice[j]);
    }
}

/* ---- blocks made by hand from the formats, so that both directions cannot share one mistake ---- */

static void test_q4_0_by_hand(void **state) {
    (void)state;
    uint8_t b[18] = {0};
    float out[32];
    put_f16(b, 0.5f);
    b[2 + 3] = 0xF1; /* element 3 is 1, element 19 is 15 */
    dct_dequant_row(DCT_TYPE_Q4_0, 32, b, out);
    assert_true(out[3] == (1 - 8) * 0.5f && out[19] == (15 - 8) * 0.5f && out[0] == -4);
}

/* Codes follow one another bit by bit, across bytes; scale and bias stand behind them. */
static void test_mlx_by_hand(void **state) {
    (void)state;
    uint8_t b[12 + 4] = {0x40, 0x01}, c[24 + 4] = {[2] = 0xfc}; /* 3 bits: element 2 is bits 6 to 8, 101; 6 bits: element 3, 18 to 23 */
    float out[32];
    put_f16(b + 12, 2);
    put_f16(b + 14, -3);
    dct_dequant_row(DCT_TYPE_MLX3_32_F16, 32, b, out);
    assert_true(out[2] == 2 * 5 - 3 && out[0] == -3 && out[1] == -3 && out[3] == -3);
    put_f16(c + 24, 0.5f);
    put_f16(c + 26, 1);
    dct_dequant_row(DCT_TYPE_MLX6_32_F16, 32, c, out);
    assert_true(out[3] == 0.5f * 63 + 1 && out[2] == 1 && out[4] == 1);
}

static void test_q5_1_by_hand(void **state) {
    (void)state;
    uint8_t b[24] = {0};
    float out[32];
    put_f16(b, 2);
    put_f16(b + 2, -3);
    b[4 + 2] = 0x02; /* bit 17: the fifth of element 17 */
    b[8 + 1] = 0x70; /* element 17's low four are 7 */
    dct_dequant_row(DCT_TYPE_Q5_1, 32, b, out);
    assert_true(out[17] == 2 * (16 + 7) - 3 && out[1] == -3);
}

static void test_q4_k_by_hand(void **state) {
    (void)state;
    uint8_t b[144] = {0};
    float out[256];
    put_f16(b, 0.25f);
    put_f16(b + 2, 0.5f);
    b[4 + 1] = 0x80 | 9;       /* scale 1 = 9; high bits of scale 5: 2 */
    b[4 + 5] = 0x40 | 3;       /* min 1 = 3; high bits of min 5: 1 */
    b[4 + 9] = 0x2 | 0x7 << 4; /* low bits of scale 5: 2, of min 5: 7 */
    b[16 + 6] = 0xB0;          /* element 32 + 6 is 11 */
    b[16 + 64 + 6] = 0x40;     /* element 128 + 32 + 6 is 4 */
    dct_dequant_row(DCT_TYPE_Q4_K, 256, b, out);
    assert_true(out[38] == 0.25f * 9 * 11 - 0.5f * 3);
    assert_true(out[166] == 0.25f * (2 << 4 | 2) * 4 - 0.5f * (1 << 4 | 7));
}

static void test_q6_k_by_hand(void **state) {
    (void)state;
    uint8_t b[210] = {0};
    float out[256];
    put_f16(b + 208, 0.125f);
    b[64 + 32 + 5] = 0xC0;      /* second half, element 96 + 5: low bits 12 */
    b[128 + 32 + 5] = 0x80;     /* its high bits 2 */
    b[192 + (128 + 101) / 16] = (uint8_t)-7;
    dct_dequant_row(DCT_TYPE_Q6_K, 256, b, out);
    assert_true(out[128 + 101] == 0.125f * -7 * ((2 << 4 | 12) - 32));
}

static void test_q3_k_by_hand(void **state) {
    (void)state;
    uint8_t b[110] = {0};
    float out[256];
    put_f16(b + 108, 1);
    b[7] = 1 << 6;            /* element 6*32 + 7 has its third bit */
    b[32 + 32 + 7] = 1 << 4;  /* and low bits 1: second half, pair 2 */
    b[96 + 4] = 0xA0;         /* scale 12: low bits 10 */
    b[96 + 8 + 0] = 2 << 6;   /* high bits 2 */
    dct_dequant_row(DCT_TYPE_Q3_K, 256, b, out);
    assert_true(out[199] == (float)(((2 << 4 | 10) - 32) * 1)); /* 4 + 1 - 4 = 1 */
}

static void test_iq4_xs_by_hand(void **state) {
    (void)state;
    uint8_t b[136] = {0};
    float out[256];
    put_f16(b, 2);
    b[3] = 3 << 2;           /* scales_h bits 10, 11: group 5's high bits are 3 */
    b[4 + 2] = 0x50;         /* group 5's low bits are 5 */
    b[8 + 16 * 5 + 2] = 0xE0; /* element 16 + 2 of the group: code 14, value 89 */
    dct_dequant_row(DCT_TYPE_IQ4_XS, 256, b, out);
    assert_true(out[5 * 32 + 18] == 2.0f * ((3 << 4 | 5) - 32) * 89);
}

static void test_q2_k_and_mxfp4_by_hand(void **state) {
    (void)state;
    uint8_t b[84] = {0}, m[17] = {128};
    float out[256];
    put_f16(b + 80, 3);
    put_f16(b + 82, 0.5f);
    b[9] = 0x6B;              /* group 9: scale 11, min 6 */
    b[16 + 32 + 17] = 2 << 0; /* second half, element 17 of the first quarter: code 2; 128 + 17 = 145 is in group 9 */
    dct_dequant_row(DCT_TYPE_Q2_K, 256, b, out);
    assert_true(out[145] == 3.0f * 11 * 2 - 0.5f * 6);
    m[1 + 15] = 0xD5; /* elements 15 and 31: codes 5 (3) and 13 (-3), scale 2 */
    dct_dequant_row(DCT_TYPE_MXFP4, 32, m, out);
    assert_true(out[15] == 6 && out[31] == -6 && out[0] == 0);
    m[0] = 0; /* the least scale, 2^-127 */
    dct_dequant_row(DCT_TYPE_MXFP4, 32, m, out);
    assert_true(out[15] == 3 * 0x1p-127f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_bounds), cmocka_unit_test(test_one_sign),     cmocka_unit_test(test_zero_and_tiny),
        cmocka_unit_test(test_second_pass),  cmocka_unit_test(test_mlx_by_hand), cmocka_unit_test(test_q4_0_by_hand), cmocka_unit_test(test_q5_1_by_hand),
        cmocka_unit_test(test_q4_k_by_hand), cmocka_unit_test(test_q6_k_by_hand), cmocka_unit_test(test_q3_k_by_hand),
        cmocka_unit_test(test_iq4_xs_by_hand), cmocka_unit_test(test_q2_k_and_mxfp4_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
