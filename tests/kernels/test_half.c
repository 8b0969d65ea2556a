/* base/half against a definition in f64 arithmetic: all 65,536 halves, and every rounding case between neighbours. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"

/* The value of an f16 by its definition; not for exponent 31. */
static double f16_value(uint32_t h) {
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, (int)exponent - 25);
    return (h & 0x8000) != 0 ? -v : v;
}

static void test_f16_to_f32(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = dct_f32_of_f16((uint16_t)h);
        if ((h & 0x7c00) != 0x7c00) assert_true(f == f16_value(h) && !signbit(f) == !(h & 0x8000));
        else if ((h & 0x3ff) != 0) assert_true(isnan(f));
        else assert_true(f == ((h & 0x8000) != 0 ? -INFINITY : INFINITY));
    }
}

static void test_f16_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t back = dct_f16_of_f32(dct_f32_of_f16((uint16_t)h));
        bool is_nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0;
        assert_int_equal(back, is_nan ? h | 0x200 : h); /* NaN becomes quiet */
    }
}

/* Between neighbours a and b: below the middle is a, above it is b, at the middle the even one. */
static void test_f16_rounding(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float middle = (float)((f16_value(h) + f16_value(h + 1)) / 2); /* exact in f32 */
        uint32_t even = (h & 1) == 0 ? h : h + 1;
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign != 0 ? -1.0f : 1.0f;
            assert_int_equal(dct_f16_of_f32(s * middle), sign | even);
            assert_int_equal(dct_f16_of_f32(s * nextafterf(middle, 0)), sign | h);
            assert_int_equal(dct_f16_of_f32(s * nextafterf(middle, INFINITY)), sign | (h + 1));
        }
    }
}

static void test_f16_edges(void **state) {
    (void)state;
    assert_int_equal(dct_f16_of_f32(65504), 0x7bff);
    assert_int_equal(dct_f16_of_f32(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(dct_f16_of_f32(65520), 0x7c00);
    assert_int_equal(dct_f16_of_f32(-INFINITY), 0xfc00);
    assert_int_equal(dct_f16_of_f32(0x1p-25f), 0);
    assert_int_equal(dct_f16_of_f32(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(dct_f16_of_f32(-0x1p-149f), 0x8000);
    for (uint32_t i = 1; i < 0x800000; i = i * 3 + 1) assert_true(isnan(dct_f32_of_f16(dct_f16_of_f32(dct_f32_of_bits(0x7f800000u | i)))));
}

/* bf16: every upper half, with lower halves below, at and above the middle. */
static void test_bf16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = dct_f32_of_bf16((uint16_t)h);
        assert_int_equal(dct_bits_of_f32(f), h << 16);
        bool is_nan = (h & 0x7f80) == 0x7f80 && (h & 0x7f) != 0, is_inf = (h & 0x7fff) == 0x7f80;
        if (is_nan) {
            assert_true(isnan(dct_f32_of_bf16(dct_bf16_of_f32(f))));
            continue;
        }
        assert_int_equal(dct_bf16_of_f32(f), h);
        if (is_inf) continue;
        assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(dct_bf16_of_f32(dct_f32_of_bits(h << 16 | 0x8001)), h + 1);
    }
    assert_true(isnan(dct_f32_of_bf16(dct_bf16_of_f32(dct_f32_of_bits(0x7f800001u))))); /* its payload lies below the cut */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_to_f32), cmocka_unit_test(test_f16_round_trip), cmocka_unit_test(test_f16_rounding),
        cmocka_unit_test(test_f16_edges),  cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
