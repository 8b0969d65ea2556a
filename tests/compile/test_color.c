/* Interval colouring, its proof, and the paper's two counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "compile/compile.h"

static void color(const dct_interval *iv, uint32_t n, uint32_t *colors, uint32_t *buffers, uint32_t *clique, uint32_t *step) {
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_err err;
    assert_int_equal(dct_interval_color(iv, n, &arena, colors, buffers, clique, step, &err), DCT_OK);
    dct_arena_deinit(&arena);
}

/* Appendix B of the paper: Q [2,3], K [2,4], V [2,4], attn [4,5], MLP [5,6] share buffers A = {Q, attn, MLP}, B = {K}, C = {V}. attn and
 * MLP meet at step 5, so the example reads its intervals half-open: a tensor is gone at its second number. */
static void appendix_b(void **state) {
    (void)state;
    dct_interval iv[] = {{2, 3 - 1, 1}, {2, 4 - 1, 1}, {2, 4 - 1, 1}, {4, 5 - 1, 1}, {5, 6 - 1, 1}};
    uint32_t colors[5], buffers, clique, step;
    color(iv, 5, colors, &buffers, &clique, &step);
    assert_int_equal(buffers, 3);
    assert_int_equal(clique, 3);
    assert_int_equal(step, 2);
    uint32_t expected[] = {0, 1, 2, 0, 0};
    assert_memory_equal(colors, expected, sizeof expected);
}

/* The same with the closed intervals of the paper's section 3.2: still three buffers, but MLP may not follow attn at once. */
static void appendix_b_closed(void **state) {
    (void)state;
    dct_interval iv[] = {{2, 3, 1}, {2, 4, 1}, {2, 4, 1}, {4, 5, 1}, {5, 6, 1}};
    uint32_t colors[5], buffers, clique, step;
    color(iv, 5, colors, &buffers, &clique, &step);
    assert_int_equal(buffers, 3);
    assert_int_equal(clique, 3);
    uint32_t expected[] = {0, 1, 2, 0, 1};
    assert_memory_equal(colors, expected, sizeof expected);
}

static void random_intervals_are_proven(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 500; round++) {
        dct_interval iv[40];
        uint32_t n = round % 41;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t r = dct_hash_mix(round * 100 + i + 1);
            iv[i].first = (uint32_t)(r % 30);
            iv[i].last = iv[i].first + (uint32_t)(r >> 32) % 9;
        }
        uint32_t colors[40], buffers, clique, step, meeting = 0;
        color(iv, n, colors, &buffers, &clique, &step);
        assert_int_equal(buffers, clique);
        for (uint32_t i = 0; i < n; i++) {
            if (iv[i].first <= step && step <= iv[i].last) meeting++;
            assert_true(colors[i] < buffers);
            for (uint32_t j = 0; j < i; j++) {
                if (colors[i] == colors[j]) assert_true(iv[i].last < iv[j].first || iv[j].last < iv[i].first);
            }
        }
        assert_int_equal(meeting, clique);
    }
}

static void the_paper_counts_sixteen_a_layer(void **state) {
    (void)state;
    static dct_hparams hp;
    memset(&hp, 0, sizeof hp);
    hp.n_layer = 28, hp.n_embd = 1536, hp.head_dim_k = hp.head_dim_v = 128, hp.n_ctx_train = 32768;
    for (uint32_t l = 0; l < 28; l++) hp.n_head[l] = 12, hp.n_head_kv[l] = 2, hp.n_ff[l] = 8960;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_err err;
    dct_interval *iv;
    const char **names;
    uint32_t n, buffers, clique, step;
    static uint32_t colors[448];
    assert_int_equal(dct_paper_tensors(&hp, &arena, &iv, &names, &n, &err), DCT_OK);
    assert_int_equal(n, 448);
    assert_string_equal(names[17], "blk.1.attn_norm");
    assert_int_equal(dct_interval_color(iv, n, &arena, colors, &buffers, &clique, &step, &err), DCT_OK);
    assert_int_equal(buffers, 5);
    assert_int_equal(clique, 5);
    uint32_t n_again; /* as the compiler asks, who wants the counts alone */
    assert_int_equal(dct_paper_tensors(&hp, &arena, &iv, NULL, &n_again, &err), DCT_OK);
    assert_int_equal(n_again, n);
    assert_int_equal(dct_interval_color(iv, n, &arena, NULL, &buffers, &clique, NULL, &err), DCT_OK);
    assert_int_equal(buffers, 5);
    assert_int_equal(clique, 5);
    dct_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appendix_b),
        cmocka_unit_test(appendix_b_closed),
        cmocka_unit_test(random_intervals_are_proven),
        cmocka_unit_test(the_paper_counts_sixteen_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
