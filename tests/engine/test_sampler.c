/* The sampler alone, on logits of a few tokens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sampler.h"

enum { N = 8, DRAWS = 4000 };

typedef struct rig {
    dct_sampler s;
    void *memory;
    dct_sampler_params p;
} rig;

static rig start(void) {
    rig r;
    memset(&r, 0, sizeof r);
    r.memory = aligned_alloc(64, dct_sampler_bytes(N));
    dct_sampler_init(&r.s, r.memory, N);
    r.p.temperature = 1;
    r.p.top_p = 1;
    r.p.repeat_penalty = 1;
    return r;
}

static void count(rig *r, const float *logits, uint32_t counts[N]) {
    memset(counts, 0, N * sizeof *counts);
    for (uint32_t i = 0; i < DRAWS; i++) counts[dct_sampler_take(&r->s, logits, &r->p)]++;
}

static void greedy_takes_the_lowest_id_of_equals(void **state) {
    (void)state;
    rig r = start();
    r.p.temperature = 0;
    assert_int_equal(dct_sampler_take(&r.s, (float[N]){0, 3, 1, 3, NAN, 2, 3, 0}, &r.p), 1);
    assert_int_equal(dct_sampler_take(&r.s, (float[N]){NAN, -INFINITY, -INFINITY, NAN, NAN, NAN, NAN, NAN}, &r.p), 1);
    free(r.memory);
}

static void bias_and_bans(void **state) {
    (void)state;
    rig r = start();
    r.p.temperature = 0;
    dct_sampler_bias bias = {5, 10};
    uint32_t banned[] = {5};
    const float logits[N] = {0, 1, 2, 3, 4, 0, 0, 0};
    r.p.bias = &bias;
    r.p.n_bias = 1;
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 5);
    r.p.banned = banned;
    r.p.n_banned = 1;
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 4);
    free(r.memory);
}

static void penalties_count_each_token(void **state) {
    (void)state;
    rig r = start();
    r.p.temperature = 0;
    uint32_t recent[] = {0, 0, 0, 1};
    r.p.recent = recent;
    r.p.n_recent = 4;
    const float logits[N] = {4, 3.5f, 2, -1, -1, -1, -1, -1};
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 0);
    r.p.frequency_penalty = 0.3f; /* 0: 4 - 0.9; 1: 3.5 - 0.3 */
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 1);
    r.p.frequency_penalty = 0;
    r.p.repeat_penalty = 2; /* 0: 2; 1: 1.75; 2 as it is: a tie that the lower id wins */
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 0);
    r.p.presence_penalty = 0.1f;
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 2);
    assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), 2); /* counts were put back to zero */
    r.p.presence_penalty = 0;
    const float negative[N] = {-1, -1.5f, -1.9f, -9, -9, -9, -9, -9}; /* times 2: -2, -3 */
    assert_int_equal(dct_sampler_take(&r.s, negative, &r.p), 2);
    free(r.memory);
}

static void draws_follow_the_probabilities(void **state) {
    (void)state;
    rig r = start();
    uint32_t counts[N];
    const float logits[N] = {0, logf(2), logf(4), -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}; /* 1 : 2 : 4 */
    count(&r, logits, counts);
    assert_in_range(counts[0], DRAWS / 7 - 120, DRAWS / 7 + 120);
    assert_in_range(counts[1], 2 * DRAWS / 7 - 150, 2 * DRAWS / 7 + 150);
    assert_int_equal(counts[0] + counts[1] + counts[2], DRAWS);
    r.p.temperature = 0.5f; /* 1 : 4 : 16 */
    count(&r, logits, counts);
    assert_in_range(counts[0], DRAWS / 21 - 60, DRAWS / 21 + 60);
    free(r.memory);
}

/* A bias of +inf leaves no other token, and several of them have equal chances. */
static void infinite_biases_force(void **state) {
    (void)state;
    rig r = start();
    uint32_t counts[N];
    const float logits[N] = {0, 1, 2, 3, 4, 5, 6, 7};
    dct_sampler_bias bias[] = {{2, INFINITY}, {5, INFINITY}};
    r.p.bias = bias;
    r.p.n_bias = 1;
    count(&r, logits, counts);
    assert_int_equal(counts[2], DRAWS);
    r.p.n_bias = 2;
    r.p.top_p = 0.95f;
    count(&r, logits, counts);
    assert_int_equal(counts[2] + counts[5], DRAWS);
    assert_in_range(counts[2], DRAWS / 2 - 150, DRAWS / 2 + 150);
    free(r.memory);
}

static void cuts(void **state) {
    (void)state;
    rig r = start();
    uint32_t counts[N];
    const float logits[N] = {0, 5, 5.5f, 1, 6, 2, 3, 4};
    r.p.top_k = 3;
    count(&r, logits, counts);
    assert_true(counts[1] > 0 && counts[2] > 0 && counts[4] > 0);
    assert_int_equal(counts[1] + counts[2] + counts[4], DRAWS);
    r.p.top_k = 0;
    r.p.top_p = 0.5f; /* the first has 0.43, so two are needed */
    count(&r, logits, counts);
    assert_int_equal(counts[4] + counts[2], DRAWS);
    assert_true(counts[2] > 0);
    r.p.top_p = 1;
    r.p.min_p = 0.35f; /* e^-1 = 0.37 stays, e^-2 goes */
    count(&r, logits, counts);
    assert_int_equal(counts[4] + counts[2] + counts[1], DRAWS);
    assert_true(counts[1] > 0);
    free(r.memory);
}

static void seeds_reproduce(void **state) {
    (void)state;
    rig r = start();
    const float logits[N] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t first[64], differ = 0;
    dct_sampler_seed(&r.s, 42);
    for (uint32_t i = 0; i < 64; i++) first[i] = dct_sampler_take(&r.s, logits, &r.p);
    dct_sampler_seed(&r.s, 42);
    for (uint32_t i = 0; i < 64; i++) assert_int_equal(dct_sampler_take(&r.s, logits, &r.p), first[i]);
    dct_sampler_seed(&r.s, 43);
    for (uint32_t i = 0; i < 64; i++) differ += dct_sampler_take(&r.s, logits, &r.p) != first[i];
    assert_true(differ > 32);
    free(r.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_id_of_equals),
        cmocka_unit_test(bias_and_bans),
        cmocka_unit_test(penalties_count_each_token),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(infinite_biases_force),
        cmocka_unit_test(cuts),
        cmocka_unit_test(seeds_reproduce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
