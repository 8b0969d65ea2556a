/* The compile arena: limits, growth, failure at every point, alignment; and checked sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "base/size.h"

static void test_zeroed_and_aligned(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    for (uint64_t n = 0; n < 3000; n += 7) {
        uint8_t *p = dct_arena_alloc(&arena, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (uint64_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        if (n != 0) memset(p, 0xff, n); /* a neighbour that overlaps would not be zero */
    }
    dct_arena_deinit(&arena);
    assert_int_equal(arena.taken_bytes, 0);
}

static void test_reuse_after_deinit_is_zeroed(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    for (int round = 0; round < 3; round++) {
        uint8_t *p = dct_arena_alloc(&arena, 100000);
        assert_non_null(p);
        for (int i = 0; i < 100000; i++) assert_int_equal(p[i], 0);
        memset(p, 1, 100000);
        dct_arena_deinit(&arena);
    }
}

static void test_limit_holds(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 1 << 20);
    uint64_t got = 0;
    while (dct_arena_alloc(&arena, 5000) != NULL) got += 5000;
    assert_true(arena.peak_bytes <= 1 << 20);
    assert_true(got > (1 << 20) * 9 / 10); /* and most of it could be used */
    dct_err err;
    assert_int_equal(dct_fail_memory(&err, &arena, "x"), DCT_NO_FIT);
    assert_non_null(strstr(err.message, "limit 1048576"));
    dct_arena_deinit(&arena);
}

static void test_absurd_sizes_fail(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    assert_null(dct_arena_alloc(&arena, UINT64_MAX));
    assert_null(dct_arena_alloc(&arena, UINT64_MAX - 20));
    assert_null(dct_arena_array(&arena, UINT64_C(1) << 33, UINT64_C(1) << 33));
    assert_null(dct_arena_grow(&arena, NULL, 0, UINT64_C(1) << 60, 64));
    assert_non_null(dct_arena_alloc(&arena, 8)); /* and it still serves */
    dct_arena_deinit(&arena);
}

static void test_grow_keeps_content(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    uint32_t *list = NULL;
    for (uint32_t n = 0; n < 40000; n++) {
        uint32_t *grown = dct_arena_grow(&arena, list, n, n + 1, sizeof *list);
        assert_non_null(grown);
        list = grown;
        assert_int_equal(list[n], 0);
        list[n] = n;
        if (n % 1000 == 0) assert_non_null(dct_arena_alloc(&arena, 24)); /* something behind it: the next growth must move */
    }
    for (uint32_t n = 0; n < 40000; n++) assert_int_equal(list[n], n);
    dct_arena_deinit(&arena);
}

/* An array that fills its chunk to the last byte has no room behind it, not even a little: the growth must move. */
static void test_grow_of_a_full_chunk(void **state) {
    (void)state;
    dct_arena arena;
    for (uint64_t spare = 0; spare <= 64; spare += 16) {
        dct_arena_init(&arena, 0);
        uint64_t n = 64 * 1024 - 32 - spare;
        uint8_t *first = dct_arena_array(&arena, n, 1);
        assert_non_null(first);
        memset(first, 7, n);
        uint8_t *grown = dct_arena_grow(&arena, first, n, n + 48, 1);
        assert_non_null(grown);
        assert_int_equal(grown == first, spare >= 48);
        memset(grown + n, 9, 48);
        uint8_t *next = dct_arena_alloc(&arena, 4096); /* lies in mapped pages, behind nothing that is in use */
        memset(next, 1, 4096);
        assert_int_equal(grown[n - 1], 7);
        assert_int_equal(grown[n + 47], 9);
        dct_arena_deinit(&arena);
    }
}

static void test_grow_in_place(void **state) {
    (void)state;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    void *first = dct_arena_alloc(&arena, 160);
    assert_ptr_equal(dct_arena_grow(&arena, first, 10, 20, 16), first);
    uint8_t *next = dct_arena_alloc(&arena, 16);
    assert_true(next >= (uint8_t *)first + 320);
    dct_arena_deinit(&arena);
}

static void test_fail_at(void **state) {
    (void)state;
    for (uint64_t k = 1; k <= 4; k++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        char *text = NULL;
        for (uint64_t i = 1; i <= 4; i++) {
            void *p = i == 3 ? (void *)(text = dct_arena_strndup(&arena, "abcdef", 3)) : i == 4 ? dct_arena_grow(&arena, NULL, 0, 3, 4) : dct_arena_alloc(&arena, 10);
            assert_int_equal(p == NULL, i == k);
        }
        if (text != NULL) assert_string_equal(text, "abc");
        dct_arena_deinit(&arena);
    }
}

static void test_sizes(void **state) {
    (void)state;
    uint64_t r = 7;
    assert_false(dct_add_u64(UINT64_MAX, 1, &r));
    assert_false(dct_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &r));
    assert_false(dct_align_u64(UINT64_MAX - 3, 64, &r));
    assert_int_equal(r, 7); /* untouched on failure */
    assert_true(dct_add_u64(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
    assert_true(dct_mul_u64(UINT64_C(0xffffffff), UINT64_C(0xffffffff), &r) && r == UINT64_C(0xfffffffe00000001));
    assert_true(dct_align_u64(65, 64, &r) && r == 128);
    assert_true(dct_align_u64(128, 64, &r) && r == 128);
    assert_int_equal(dct_div_up(0, 3), 0);
    assert_int_equal(dct_div_up(7, 3), 3);
    assert_true(dct_is_pow2(1) && dct_is_pow2(UINT64_C(1) << 63) && !dct_is_pow2(0) && !dct_is_pow2(12));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_and_aligned), cmocka_unit_test(test_reuse_after_deinit_is_zeroed),
        cmocka_unit_test(test_limit_holds),        cmocka_unit_test(test_absurd_sizes_fail),
        cmocka_unit_test(test_grow_keeps_content), cmocka_unit_test(test_grow_of_a_full_chunk),
        cmocka_unit_test(test_grow_in_place),
        cmocka_unit_test(test_fail_at),            cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
