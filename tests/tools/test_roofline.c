/* Ceilings of the machine: plausible, given back, and measured with the kernels' instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "support/emulated.h"
#include "tools/byte_dots.h"
#include "tools/tools.h"

static void the_buffer_is_given_back(void **state) {
    (void)state;
    dct_mem_figures before, after;
    dct_roofline roof = {0};
    dct_err err;
    assert_int_equal(dct_roofline_measure(1, &roof, &err), DCT_OK); /* what is mapped once and stays */
    dct_os_mem_figures(&before);
    assert_int_equal(dct_roofline_measure(3, &roof, &err), DCT_OK);
    dct_os_mem_figures(&after);
    assert_int_equal(roof.n_workers, 3);
    assert_true(roof.bytes_per_s_one > 1e7 && roof.bytes_per_s_all > 1e7 && roof.macs_per_s_one > 1e6 && roof.macs_per_s_all > 1e6);
    assert_true(roof.bytes_per_s_median <= roof.bytes_per_s_all && roof.bytes_per_s_median > 1e6);
    assert_true(roof.macs_per_s_median <= roof.macs_per_s_all && roof.macs_per_s_median > 1e5);
    assert_true(roof.bytes_per_s_one < 1e13 && roof.macs_per_s_one < 1e14); /* more would be a loop that was optimised away */
#ifndef DCT_SANITIZED
    if (!emulated("memory before and after: the figures are the emulator's")) {
        assert_true(after.vm_size <= before.vm_size);
        assert_true(after.rss_anon < before.rss_anon + (1 << 20));
    }
#endif
}

static void senseless_counts_are_refused(void **state) {
    (void)state;
    dct_roofline roof;
    dct_err err;
    assert_int_equal(dct_roofline_measure(0, &roof, &err), DCT_USAGE);
    assert_int_equal(dct_roofline_measure(DCT_ROOFLINE_WORKERS + 1, &roof, &err), DCT_USAGE);
}

/* Best of several, in multiply-accumulates a nanosecond. */
static double rate_of(const dct_byte_dots *dots) {
    enum { ROUNDS = 1 << 16, TURNS = 20 };
    uint64_t best = UINT64_MAX;
    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t begin = dct_os_now_ns();
        dots->run(ROUNDS);
        uint64_t took = dct_os_now_ns() - begin;
        best = took < best ? took : best;
    }
    return (double)ROUNDS * dots->macs_per_round / (double)(best > 0 ? best : 1);
}

/* Every set of this processor runs its own instructions, and byte dots are no slower than what stands in for them. */
static void each_instruction_set_has_its_loop(void **state) {
    (void)state;
    double rate[DCT_ISA_COUNT] = {0};
    for (int isa = 0; isa < DCT_ISA_COUNT; isa++) {
        const dct_kernels *table = dct_kernels_of((dct_isa)isa);
        if (table == NULL) continue;
        dct_byte_dots dots = dct_byte_dots_of(table);
        rate[isa] = rate_of(&dots);
        print_message("%s: %.1f GMAC/s\n", table->name, rate[isa]);
        assert_true(rate[isa] > 0.001 && rate[isa] < 1e5);
    }
#ifndef DCT_SANITIZED
    static const dct_isa pairs[][2] = {{DCT_ISA_AVX512_VNNI, DCT_ISA_AVX512}, {DCT_ISA_AVX2_VNNI, DCT_ISA_AVX2}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (rate[pairs[i][0]] > 0) assert_true(rate[pairs[i][0]] > rate[pairs[i][1]]);
    }
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_buffer_is_given_back),
        cmocka_unit_test(senseless_counts_are_refused),
        cmocka_unit_test(each_instruction_set_has_its_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
