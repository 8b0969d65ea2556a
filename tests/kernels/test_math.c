/* exp and its kin against libm in wider precision: dense sweeps, edges, and that nothing depends on the build. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernels/kernel.h"
#include "kernels/math.h"

/* |got - want| in units of the last place of want as a float. */
static double ulps(float got, double want) {
    int e;
    if (want != 0) (void)frexp(want, &e);
    double unit = want == 0 || fabs(want) < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
    return fabs(got - want) / unit;
}

static long double ulps64(double got, long double want) {
    int e;
    (void)frexpl(want, &e);
    return fabsl(got - want) / ldexpl(1, e - 53);
}

typedef float float_fn(float x);
typedef double want_fn(double x);

static double want_silu(double x) { return x / (1 + exp(-x)); }
static double want_gelu(double x) { return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

/* The greatest error over every float with the same step through its bits, within [low, high]. */
static double worst(float_fn *got, want_fn *want, float low, float high) {
    double most = 0;
    uint32_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099) {
        float x = dct_f32_of_bits((uint32_t)bits);
        if (!(x >= low && x <= high)) continue;
        n++;
        double error = ulps(got(x), want(x));
        if (!(error <= most)) most = isnan(error) ? INFINITY : error;
    }
    assert_true(n > 100000);
    return most;
}

static void test_exp_ulp(void **state) {
    (void)state;
    assert_true(worst(dct_exp, exp, -104, 88.72f) <= 1.0);
}

static void test_exp_edges(void **state) {
    (void)state;
    assert_true(dct_exp(0) == 1 && dct_exp(-0.0f) == 1);
    assert_true(dct_exp(-104) == 0 && dct_exp(-1e30f) == 0 && dct_exp(-INFINITY) == 0);
    assert_true(dct_exp(-103.9f) == 0x1p-149f && dct_exp(-87.5f) > 0);
    assert_true(dct_exp(88.8f) == INFINITY && dct_exp(1e30f) == INFINITY && dct_exp(INFINITY) == INFINITY);
    assert_true(isfinite(dct_exp(88.72f)));
    assert_true(isnan(dct_exp(NAN)) && isnan(dct_tanh(NAN)));
}

/* Scores are compared after exp as well: a greater argument never gives a smaller weight. */
static void test_exp_monotone(void **state) {
    (void)state;
    float last = 0;
    for (float x = -104; x < 89; x += 0x1p-10f) {
        float y = dct_exp(x);
        assert_true(y >= last);
        last = y;
    }
}

static void test_tanh(void **state) {
    (void)state;
    assert_true(worst(dct_tanh, tanh, -20, 20) <= 2.0);
    assert_true(dct_tanh(INFINITY) == 1 && dct_tanh(-INFINITY) == -1 && dct_tanh(30) == 1);
    for (float x = -12; x < 12; x += 0.001f) assert_true(dct_tanh(-x) == -dct_tanh(x));
}

static void test_activations(void **state) {
    (void)state;
    assert_true(worst(dct_silu, want_silu, -80, 1e30f) <= 3.0);
    assert_true(worst(dct_gelu_tanh, want_gelu, -1, 1e30f) <= 4.0);
    for (float x = -12; x < 0; x += 0.001f) assert_true(fabs(dct_gelu_tanh(x) - want_gelu(x)) < 1e-6);
    assert_true(dct_silu(-1e30f) == 0 && dct_gelu_tanh(-1e30f) == 0 && dct_gelu_tanh(1e30f) == 1e30f);
    for (float x = -200; x < 200; x += 0.37f) assert_true(fabs(dct_softcap(x, 50) - 50 * tanh((double)x / 50)) <= 2e-5);
}

static void test_exp64(void **state) {
    (void)state;
    for (double x = -708; x < 709; x += 0.01237) assert_true(ulps64(dct_exp64(x), expl(x)) <= 1.0L);
    assert_true(dct_exp64(0) == 1 && dct_exp64(-800) == 0 && dct_exp64(710) == INFINITY && isnan(dct_exp64(NAN)));
    assert_true(dct_exp64(-745) == 0x1p-1074 && dct_exp64(709.78) < INFINITY);
}

static void test_log64(void **state) {
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.0371) assert_true(ulps64(dct_log64(x), logl(x)) <= 1.0L);
    for (double x = 0.4; x < 2.5; x += 0.00013) assert_true(ulps64(dct_log64(x), logl(x)) <= 1.0L);
    assert_true(dct_log64(1) == 0 && dct_log64(0) == -INFINITY && isnan(dct_log64(-1)) && dct_log64(INFINITY) == INFINITY);
    assert_true(ulps64(dct_log64(0x1p-1074), logl(0x1p-1074L)) <= 1.0L);
}

/* The frequencies of rotary tables, and temperatures far from 1. */
static void test_pow64(void **state) {
    (void)state;
    static const double bases[] = {1e4, 1e6, 5e5, 10, 2, 0.5, 1.0001, 1e-3};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        for (double y = -40; y < 40; y += 0.0917) assert_true(ulps64(dct_pow64(bases[b], y), powl(bases[b], y)) <= 1.0L);
    }
    assert_true(dct_pow64(7, 0) == 1 && dct_pow64(0, 2) == 0 && dct_pow64(10, 400) == INFINITY && dct_pow64(10, -400) == 0);
    assert_true(dct_pow64(2, 10) == 1024 && dct_pow64(10, 3) == 1000);
}

static void check_sincos(double x) {
    double s, c;
    dct_sincos64(x, &s, &c);
    assert_true(fabsl(s - sinl(x)) <= 0x1p-52L * (1e-9L + fabsl(sinl(x))));
    assert_true(fabsl(c - cosl(x)) <= 0x1p-52L * (1e-9L + fabsl(cosl(x))));
}

static void test_sincos64(void **state) {
    (void)state;
    for (double x = -20; x < 20; x += 0.00071) check_sincos(x);
    for (double x = 1e-9; x < 1e7; x *= 1.00037) check_sincos(x);
    for (int n = -100000; n < 100000; n += 7) check_sincos(n * 1.5707963267948966); /* next to the zeros */
    double s, c;
    dct_sincos64(0, &s, &c);
    assert_true(s == 0 && c == 1);
}

static void test_rope_fill(void **state) {
    (void)state;
    enum { CTX = 50, ROT = 8 };
    float table[CTX * ROT];
    double freq[ROT / 2];
    for (int i = 0; i < ROT / 2; i++) freq[i] = dct_pow64(10000, -2.0 * i / ROT);
    dct_rope_fill(table, CTX, ROT, freq, 1.25);
    for (int p = 0; p < CTX; p++) {
        for (int i = 0; i < ROT / 2; i++) {
            assert_true(fabs(table[p * ROT + 2 * i] - 1.25 * cos(p * freq[i])) < 1e-7);
            assert_true(fabs(table[p * ROT + 2 * i + 1] - 1.25 * sin(p * freq[i])) < 1e-7);
        }
    }
}

/* One number for a sweep of everything: equal on every processor and compiler, which is what these functions are for. */
static void test_same_bits(void **state) {
    (void)state;
    uint64_t bits = DCT_HASH_SEED;
    for (int i = -4000; i <= 4000; i++) {
        float x = (float)i * 0x1.1p-5f, f32[4] = {dct_exp(x), dct_tanh(x), dct_silu(x), dct_gelu_tanh(x)};
        double y = (double)i * 0x1.1p-3, f64[5] = {dct_exp64(y), dct_log64(fabs(y)), dct_pow64(fabs(y), -0.7)};
        dct_sincos64(y * 1000, &f64[3], &f64[4]);
        bits = dct_hash_bytes(bits, f32, sizeof f32);
        bits = dct_hash_bytes(bits, f64, sizeof f64);
    }
    assert_int_equal(bits, UINT64_C(0x658ba66a6440582e));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_ulp),  cmocka_unit_test(test_exp_edges), cmocka_unit_test(test_exp_monotone),
        cmocka_unit_test(test_tanh),     cmocka_unit_test(test_activations), cmocka_unit_test(test_exp64),
        cmocka_unit_test(test_log64),    cmocka_unit_test(test_pow64),     cmocka_unit_test(test_sincos64),
        cmocka_unit_test(test_rope_fill), cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
