/* The built-in model through the oracle against what PyTorch said of it: proves the traces and the oracle before any kernel
 * runs. A case is run once, prompt and answer together: the best token of each position must be the next one of the answer,
 * which is what greedy decoding token by token would have chosen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/emulated.h"
#include "support/golden.h"
#include "support/oracle.h"

#define MODELS DCT_SOURCE_DIR "/models/tiny-vl/"

enum { MAX_TOKENS = 2048, END_OF_TEXT = 1530, IM_END = 1532 };

static int32_t best_of(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return (int32_t)best;
}

/* The answer's tokens, where the golden path is decided by more than `gap`. */
static void check_answer(const golden_case *c, const float *logits, uint32_t n_vocab) {
    for (size_t i = 0; i < c->n_output_ids; i++) {
        int32_t best = best_of(logits + (c->n_token_ids - 1 + i) * n_vocab, n_vocab);
        if (best != c->output_ids[i]) fail_msg("%s: token %zu is %d, expected %d", c->id, i, best, c->output_ids[i]);
    }
    if (!c->ends) return;
    int32_t last = best_of(logits + (c->n_token_ids - 1 + c->n_output_ids) * n_vocab, n_vocab);
    if (last != IM_END && last != END_OF_TEXT) fail_msg("%s: ends with %d", c->id, last);
}

static double worst_top5(const golden_case *c, const float *logits, uint32_t n_vocab) {
    const float *row = logits + (c->n_token_ids - 1) * n_vocab;
    double worst = 0;
    for (int i = 0; i < 5; i++) worst = fmax(worst, fabs((double)row[c->top5[i].id] - c->top5[i].logit));
    return worst;
}

/* Every case that `belongs`: ids where min_gap is at least `gap`, logits of the first answer position within `tolerance`. */
static void check_file(const char *path, bool (*belongs)(const golden_case *), double gap, double tolerance, size_t least_cases) {
    const size_t one_in = emulated("one case of four") ? 4 : 1;
    size_t n, seen = 0, used = 0;
    golden_case *cases = golden_load(MODELS "golden.jsonl", &n);
    dct_err err;
    oracle *o = oracle_open(path, MAX_TOKENS, &err);
    if (o == NULL) fail_msg("%s", err.message);
    uint32_t n_vocab = oracle_hparams(o)->n_vocab;
    int32_t *ids = malloc(MAX_TOKENS * sizeof *ids);
    float *logits = malloc((size_t)MAX_TOKENS * n_vocab * sizeof *logits);
    for (size_t i = 0; i < n; i++) {
        const golden_case *c = &cases[i];
        size_t n_ids = c->n_token_ids + c->n_output_ids;
        if (!belongs(c) || seen++ % one_in != 0) continue;
        assert_true(n_ids <= MAX_TOKENS);
        memcpy(ids, c->token_ids, c->n_token_ids * sizeof *ids);
        memcpy(ids + c->n_token_ids, c->output_ids, c->n_output_ids * sizeof *ids);
        oracle_reset(o);
        if (oracle_eval(o, ids, NULL, (uint32_t)n_ids, logits, &err) != DCT_OK) fail_msg("%s: %s", c->id, err.message);
        double worst = worst_top5(c, logits, n_vocab);
        if (worst > tolerance) fail_msg("%s: top logits differ by %g", c->id, worst);
        used++;
        if (c->min_gap >= gap) check_answer(c, logits, n_vocab);
    }
    print_message("%zu cases\n", used);
    assert_true(used >= least_cases / one_in);
    free(logits);
    free(ids);
    oracle_close(o);
    golden_free(cases, n);
}

static void f16_answers_as_pytorch(void **state) {
    (void)state;
    check_file(MODELS "tiny-vl-f16.gguf", golden_is_text, 0.1, 0.0002, 28);
}

static void q8_0_answers_nearly_so(void **state) {
    (void)state;
    check_file(MODELS "tiny-vl-q8_0.gguf", golden_is_text, 1.0, 0.25, 28);
}

static void draft_answers_as_pytorch(void **state) {
    (void)state;
    check_file(MODELS "tiny-draft-f16.gguf", golden_is_draft, 0.1, 0.0002, 3);
}

/* The decode graph (attention in parts), token by token, and the prefill graph in uneven pieces give the logits of one run. */
static void cuts_do_not_matter(void **state) {
    (void)state;
    enum { N = 12 };
    const int32_t ids[N] = {1531, 1484, 198, 374, 295, 277, 429, 327, 1183, 30, 1532, 198};
    dct_err err;
    oracle *o = oracle_open(MODELS "tiny-vl-f16.gguf", 1100, &err);
    if (o == NULL) fail_msg("%s", err.message);
    uint32_t n_vocab = oracle_hparams(o)->n_vocab;
    float *whole = malloc((size_t)N * n_vocab * sizeof *whole), *cut = malloc((size_t)N * n_vocab * sizeof *cut);
    assert_int_equal(oracle_eval(o, ids, NULL, N, whole, &err), DCT_OK);

    oracle_reset(o);
    for (uint32_t at = 0; at < N; at += 5) {
        assert_int_equal(oracle_eval(o, ids + at, NULL, N - at < 5 ? N - at : 5, cut + (size_t)at * n_vocab, &err), DCT_OK);
    }
    assert_memory_equal(whole, cut, (size_t)N * n_vocab * sizeof *whole);

    dct_arena arena;
    dct_graph g;
    dct_arena_init(&arena, 0);
    dct_trace_params params = {.kind = DCT_PHASE_DECODE, .rows = 1, .n_ctx = 1100, .type_k = DCT_TYPE_F32, .type_v = DCT_TYPE_F32, .logits = DCT_LOGITS_LAST};
    assert_int_equal(dct_arch_trace(oracle_model(o), oracle_hparams(o), &params, &arena, &g, &err), DCT_OK);
    oracle_reset(o);
    for (uint32_t at = 0; at < N; at++) assert_int_equal(oracle_run(o, &g, ids + at, NULL, 1, cut + (size_t)at * n_vocab, &err), DCT_OK);
    for (size_t i = 0; i < (size_t)N * n_vocab; i++) assert_true(fabsf(whole[i] - cut[i]) < 1e-3f);

    oracle_close(o);
    dct_arena_deinit(&arena);
    free(whole);
    free(cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_answers_as_pytorch),
        cmocka_unit_test(q8_0_answers_nearly_so),
        cmocka_unit_test(draft_answers_as_pytorch),
        cmocka_unit_test(cuts_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
