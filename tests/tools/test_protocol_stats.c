/* The statistics of protocol: figures with known answers, and intervals with known coverage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/hash.h"
#include "tools/protocol.h"

static void expect_near(double found, double wanted, double tolerance) {
    if (!(fabs(found - wanted) <= tolerance)) fail_msg("%.12g, expected %.12g", found, wanted);
}

/* 2 4 4 4 5 5 7 9: mean 5, sum of squares about it 32. */
static const double eight[] = {2, 4, 4, 4, 5, 5, 7, 9};
static const double flat[] = {3, 3, 3, 3}, pair[] = {1, 3}, tenfold[] = {20, 40, 40, 40, 50, 50, 70, 90};

static void mean_and_sigma_are_those_of_a_sample(void **state) {
    (void)state;
    expect_near(dct_stats_mean(eight, 8), 5, 0);
    expect_near(dct_stats_sigma(eight, 8), sqrt(32.0 / 7), 1e-15);
    expect_near(dct_stats_sigma(flat, 4), 0, 0);
    expect_near(dct_stats_sigma(pair, 2), sqrt(2), 1e-15);
    expect_near(dct_stats_sigma(pair, 1), 0, 0);
    expect_near(dct_stats_mean(pair, 0), 0, 0);
}

static dct_call call_of(uint32_t run, dct_system system, uint32_t prompt, uint32_t repetition, double ms) {
    return (dct_call){.key = {run, DCT_STRESS_NONE, system}, .prompt = prompt, .repetition = repetition, .n_prompt = 1, .n_predicted = 1, .latency_ms = ms};
}

/* Scale does not matter; the mean is over cells, whatever their size. */
static void cv_is_taken_in_each_cell(void **state) {
    (void)state;
    const dct_sample cells[] = {{eight, 8}, {tenfold, 8}, {flat, 4}, {pair, 2}};
    double of_eight = sqrt(32.0 / 7) / 5, of_pair = sqrt(2) / 2;
    expect_near(dct_stats_mean_cv(cells, 1), of_eight, 1e-15);
    expect_near(dct_stats_mean_cv(cells, 2), of_eight, 1e-15);
    expect_near(dct_stats_mean_cv(cells, 4), (2 * of_eight + of_pair) / 4, 1e-15);
    expect_near(dct_stats_mean_cv(cells, 0), 0, 0);
}

/* A cell of one value is neither steady nor unsteady: it counts in means alone. */
static void one_value_has_no_spread(void **state) {
    (void)state;
    const dct_sample cells[] = {{eight, 8}, {pair, 1}, {tenfold, 8}, {pair, 1}};
    const dct_sample spread[] = {{eight, 8}, {tenfold, 8}};
    dct_spread with, without;
    assert_int_equal(dct_stats_spread_cells(cells, 4), 2);
    assert_int_equal(dct_stats_spread_cells(cells + 1, 1), 0);
    expect_near(dct_stats_mean_cv(cells, 4), dct_stats_mean_cv(spread, 2), 1e-15);
    expect_near(dct_stats_mean_cv(cells + 1, 1), 0, 0);
    dct_stats_bootstrap_cv(cells, 4, 1, &with);
    dct_stats_bootstrap_cv(spread, 2, 1, &without);
    expect_near(with.low, without.low, 0.05 * without.low); /* of other draws */
    expect_near(with.high, without.high, 0.05 * without.high);
}

/* Calls of planned and dynamic in run 1, and of planned alone in run 2 and of prompt 1: what is compared is what both have. */
static void common_cells_are_compared(void **state) {
    (void)state;
    const double planned[] = {8, 12, 50, 60, 9}, dynamic[] = {16, 24};
    dct_call calls[7];
    for (uint32_t i = 0; i < 5; i++) calls[i] = call_of(i < 4 ? 1 + i / 2 : 1, DCT_PLANNED, i < 4 ? 0 : 1, 1 + i % 2, planned[i]);
    for (uint32_t i = 0; i < 2; i++) calls[5 + i] = call_of(1, DCT_DYNAMIC, 0, 1 + i, dynamic[i]);
    const dct_protocol p = {.calls = calls, .n_calls = 7, .seed = 1};
    const dct_row_key a = {{0, DCT_STRESS_NONE, DCT_PLANNED}, DCT_PROTOCOL_CATEGORIES};
    const dct_row_key b = {{0, DCT_STRESS_NONE, DCT_DYNAMIC}, DCT_PROTOCOL_CATEGORIES};
    const dct_row_key c = {{0, DCT_STRESS_NONE, DCT_LLAMA_CPP}, DCT_PROTOCOL_CATEGORIES};
    dct_comparison found;
    dct_row row;
    dct_err err;
    assert_int_equal(dct_protocol_compare(&p, &a, &b, &found, &err), DCT_OK);
    assert_true(found.known && found.cv_known);
    expect_near(found.latency, 0.5, 1e-15);
    expect_near(found.cv, 1, 1e-12);
    assert_int_equal(dct_protocol_compare(&p, &a, &c, &found, &err), DCT_OK);
    assert_false(found.known);
    assert_int_equal(dct_protocol_row(&p, &a, &row, &err), DCT_OK);
    assert_true(row.n_calls == 5 && row.n_cells == 3 && row.n_spread == 2);
    const dct_protocol one = {.calls = calls + 4, .n_calls = 2, .seed = 1}; /* a call of each system, of two prompts */
    assert_int_equal(dct_protocol_compare(&one, &a, &b, &found, &err), DCT_OK);
    assert_false(found.known);
    calls[4].prompt = 0;
    assert_int_equal(dct_protocol_compare(&one, &a, &b, &found, &err), DCT_OK);
    assert_true(found.known && !found.cv_known);
}

static void what_does_not_vary_has_no_width(void **state) {
    (void)state;
    const dct_sample cells[] = {{flat, 4}, {flat, 4}};
    dct_spread s;
    dct_stats_bootstrap_mean(cells, 2, 1, &s);
    assert_true(s.low == 3 && s.high == 3);
    dct_stats_bootstrap_cv(cells, 2, 1, &s);
    assert_true(s.low == 0 && s.high == 0);
    dct_stats_bootstrap_cv_ratio(cells, 1, cells, 2, 1, &s);
    assert_true(s.low == 0 && s.high == 0);
}

/* Two values a, b are drawn as aa, ab, ba, bb, each with one chance in four: the mean is 1, 2 or 3. The CV is 0, or sigma of the
 * pair raised by sqrt(2) over 2. Each end of the interval has far more than 2.5 % beyond it. */
static void a_pair_has_the_ends_that_enumeration_gives(void **state) {
    (void)state;
    const dct_sample cell = {pair, 2};
    dct_spread s;
    for (uint64_t seed = 0; seed < 20; seed++) {
        dct_stats_bootstrap_mean(&cell, 1, seed, &s);
        assert_true(s.low == 1 && s.high == 3);
        dct_stats_bootstrap_cv(&cell, 1, seed, &s);
        expect_near(s.low, 0, 0);
        expect_near(s.high, sqrt(2) * sqrt(2) / 2, 1e-15);
    }
}

static void a_seed_is_an_interval(void **state) {
    (void)state;
    const dct_sample cell = {eight, 8};
    dct_spread a, b, other;
    dct_stats_bootstrap_cv(&cell, 1, 7, &a);
    dct_stats_bootstrap_cv(&cell, 1, 7, &b);
    dct_stats_bootstrap_cv(&cell, 1, 8, &other);
    assert_true(a.low == b.low && a.high == b.high && a.low < a.high);
    assert_true(a.low != other.low || a.high != other.high);
}

static void numbers_are_sorted(void **state) {
    (void)state;
    double x[50];
    for (uint32_t n = 0; n <= 50; n++) {
        double sum = 0;
        for (uint32_t i = 0; i < n; i++) sum += x[i] = (double)(dct_hash_mix(n * 100 + i) % 20); /* with ties */
        dct_stats_sort(x, n);
        for (uint32_t i = 0; i < n; i++) sum -= x[i];
        assert_true(sum == 0);
        for (uint32_t i = 1; i < n; i++) assert_true(x[i - 1] <= x[i]);
    }
}

/* ---- coverage ---- */

enum { TRIALS = 200, CELLS = 15, VALUES = 10 };

/* Uniform in [0, 1), the trial's own. */
static double uniform(uint64_t *at) {
    *at += UINT64_C(0x9e3779b97f4a7c15);
    return (double)(dct_hash_mix(*at) >> 11) * 0x1p-53;
}

/* Nearly normal: the sum of twelve. */
static double normal(uint64_t *at) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform(at);
    return sum;
}

static void draw(uint64_t *at, double cv, double values[CELLS][VALUES], dct_sample cells[CELLS]) {
    for (int c = 0; c < CELLS; c++) {
        double level = 100 * (c + 1);
        for (int i = 0; i < VALUES; i++) values[c][i] = level * (1 + cv * normal(at));
        cells[c] = (dct_sample){values[c], VALUES};
    }
}

/* Of samples with a known CV of 5 %, the interval holds what a sample of ten has in the mean (0.9727 of it) about as often as it
 * says; of two systems with 2 % and 5 %, their ratio. */
static void intervals_hold_the_truth_as_often_as_they_say(void **state) {
    (void)state;
    static double a[CELLS][VALUES], b[CELLS][VALUES];
    dct_sample cells_a[CELLS], cells_b[CELLS];
    uint64_t at = 1;
    int n_mean = 0, n_cv = 0, n_ratio = 0;
    for (int t = 0; t < TRIALS; t++) {
        dct_spread mean, cv, ratio;
        draw(&at, 0.02, a, cells_a);
        draw(&at, 0.05, b, cells_b);
        dct_stats_bootstrap_mean(cells_b, CELLS, (uint64_t)t, &mean);
        dct_stats_bootstrap_cv(cells_b, CELLS, (uint64_t)t, &cv);
        dct_stats_bootstrap_cv_ratio(cells_a, CELLS, cells_b, CELLS, (uint64_t)t, &ratio);
        n_mean += mean.low <= 800 && 800 <= mean.high;
        n_cv += cv.low <= 0.05 * 0.9727 && 0.05 * 0.9727 <= cv.high;
        n_ratio += ratio.low <= 0.4 && 0.4 <= ratio.high;
    }
    assert_in_range(n_mean, 0.88 * TRIALS, TRIALS);
    assert_in_range(n_cv, 0.85 * TRIALS, TRIALS);
    assert_in_range(n_ratio, 0.85 * TRIALS, TRIALS);
    assert_true(n_mean < TRIALS && n_cv < TRIALS); /* and not by being wide */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_sigma_are_those_of_a_sample),
        cmocka_unit_test(cv_is_taken_in_each_cell),
        cmocka_unit_test(one_value_has_no_spread),
        cmocka_unit_test(common_cells_are_compared),
        cmocka_unit_test(what_does_not_vary_has_no_width),
        cmocka_unit_test(a_pair_has_the_ends_that_enumeration_gives),
        cmocka_unit_test(a_seed_is_an_interval),
        cmocka_unit_test(numbers_are_sorted),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
