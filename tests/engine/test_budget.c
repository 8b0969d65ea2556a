/* Budgets: the largest chunk whose plan fits, and the least that would do, to the byte. */
#include <stdio.h>

#include "engine_support.h"

static uint64_t need_of(dctms_model *model, const dctms_plan_params *p, uint32_t *ubatch) {
    dctms_plan *plan;
    dctms_plan_info info;
    CHECK(dctms_plan_compile(model, p, &plan, &check_err));
    dctms_plan_get_info(plan, &info);
    dctms_plan_free(plan);
    *ubatch = info.ubatch;
    return info.m_max_bytes;
}

/* The number that a refusal of this budget names. */
static uint64_t refused(dctms_model *model, dctms_plan_params p, uint64_t budget) {
    dctms_plan *plan = NULL;
    dctms_error err;
    unsigned long long least, said;
    p.memory_budget = budget;
    assert_int_equal(dctms_plan_compile(model, &p, &plan, &err), DCTMS_NO_FIT);
    assert_null(plan);
    assert_int_equal(sscanf(err.message, "needs at least %llu bytes", &least), 1);
    const char *last = strstr(err.message, "the budget is ");
    assert_non_null(last);
    assert_int_equal(sscanf(last, "the budget is %llu bytes", &said), 1);
    assert_true(said == budget);
    return least;
}

/* The bound itself, then powers of two below it: of those that fit, the largest is taken, and its plan is the one that -ub gives. */
static void the_largest_chunk_that_fits(void **state) {
    (void)state;
    dctms_model *model;
    CHECK(dctms_model_open(MODELS "tiny-vl-f16.gguf", &model, &check_err));
    static const uint32_t bounds[] = {256, 200, 33, 1};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        uint32_t chunks[16], n = 0, got;
        uint64_t need[16];
        for (uint32_t chunk = bounds[b], power = 256; power > 0; power /= 2) {
            if (power < bounds[b]) chunk = power;
            if (n > 0 && chunk == chunks[n - 1]) continue;
            dctms_plan_params p = plan_params(512, 48, chunk, 2);
            need[n] = need_of(model, &p, &got);
            assert_int_equal(got, chunk);
            chunks[n++] = chunk;
        }
        dctms_plan_params p = plan_params(512, 48, bounds[b], 2);
        for (uint32_t i = 0; i < n; i++) {
            for (uint64_t less = 0; less < 2; less++) {
                uint32_t want = 0;
                p.memory_budget = need[i] - less;
                while (want < n && need[want] > p.memory_budget) want++;
                if (want == n) {
                    refused(model, p, p.memory_budget);
                    continue;
                }
                assert_true(need_of(model, &p, &got) == need[want]);
                assert_int_equal(got, chunks[want]);
            }
        }
    }
    dctms_model_free(model);
}

/* Whatever the bounds: what a refusal names is enough, a byte less is not, and it is what the best of the chunks needs. */
static void the_least_that_is_named_is_enough(void **state) {
    (void)state;
    static const char *const files[] = {"tiny-vl-f16.gguf", "tiny-vl-q8_0.gguf", "tiny-draft-f16.gguf"};
    static const char *const types[] = {"f16", "q8_0"};
    for (uint32_t i = 0; i < 18; i++) {
        char path[512];
        dctms_model *model;
        uint32_t got;
        snprintf(path, sizeof path, "%s%s", MODELS, files[i % 3]);
        CHECK(dctms_model_open(path, &model, &check_err));
        dctms_plan_params p = plan_params(64u << (i % 4), 16, i % 2 == 0 ? 48 : 7, 1 + i % 3);
        strcpy(p.type_k, types[i / 3 % 2]);
        strcpy(p.type_v, types[i / 6 % 2]);
        if (i % 5 == 4) p.logits = DCTMS_LOGITS_ALL;
        const uint64_t least = refused(model, p, 1);
        assert_true(refused(model, p, least - 1) == least);
        uint64_t smallest = UINT64_MAX;
        for (uint32_t chunk = p.ubatch, power = 64; power > 0; power /= 2) {
            if (power < p.ubatch) chunk = power;
            dctms_plan_params other = p;
            other.ubatch = chunk;
            const uint64_t need = need_of(model, &other, &got);
            smallest = need < smallest ? need : smallest;
        }
        assert_true(smallest == least);
        p.memory_budget = least;
        assert_true(need_of(model, &p, &got) == least);
        dctms_model_free(model);
    }
}

/* A longer context can cost less, where loading gets room in the arena: the longest that fits is found all the same. */
static void a_context_is_found(void **state) {
    (void)state;
    dctms_model *model;
    CHECK(dctms_model_open(MODELS "tiny-vl-q8_0.gguf", &model, &check_err));
    dctms_plan_params p = dctms_plan_default_params();
    uint64_t least[512];
    p.n_output = 8;
    p.threads = 1;
    for (uint32_t ctx = 240; ctx < 304; ctx++) {
        p.n_ctx = ctx;
        least[ctx] = refused(model, p, 1);
    }
    assert_true(least[240] > least[244]);
    p.n_ctx = 304;
    p.budget_ctx = 240;
    for (uint32_t ctx = 240; ctx < 304; ctx += 9) {
        dctms_plan *plan;
        dctms_plan_info info;
        p.memory_budget = least[ctx];
        CHECK(dctms_plan_compile(model, &p, &plan, &check_err));
        dctms_plan_get_info(plan, &info);
        dctms_plan_free(plan);
        uint32_t longest = 303;
        while (least[longest] > p.memory_budget) longest--;
        assert_true(info.m_max_bytes <= p.memory_budget);
        assert_in_range(info.n_ctx, longest, 304);
        if (info.n_ctx < 304) assert_int_equal(info.n_ctx, longest);
    }
    dctms_model_free(model);
}

/* Up to some context loading needs a MiB of its own, so that those a little above take least of all. What is named when none fits is
 * enough, and a byte less is not. */
static void the_only_contexts_that_fit_are_found(void **state) {
    (void)state;
    dctms_model *model;
    CHECK(dctms_model_open(MODELS "tiny-vl-f16.gguf", &model, &check_err));
    dctms_plan_params p = dctms_plan_default_params();
    uint64_t least = UINT64_MAX;
    uint32_t cheapest = 0;
    p.n_output = 256;
    p.threads = 2;
    for (p.n_ctx = 300; p.n_ctx < 1280; p.n_ctx += p.n_ctx < 490 || p.n_ctx >= 506 ? 38 : 1) {
        uint64_t need = refused(model, p, 1);
        if (need < least) cheapest = p.n_ctx;
        least = need < least ? need : least;
    }
    assert_in_range(cheapest, 491, 505);
    p.n_ctx = 1280;
    p.budget_ctx = 300;
    assert_true(refused(model, p, least - 1) == least);
    assert_true(refused(model, p, 1) == least);
    p.memory_budget = least;
    dctms_plan *plan;
    dctms_plan_info info;
    CHECK(dctms_plan_compile(model, &p, &plan, &check_err));
    dctms_plan_get_info(plan, &info);
    dctms_plan_free(plan);
    assert_true(info.m_max_bytes <= least && info.n_ctx >= cheapest);
    dctms_model_free(model);
}

/* A context that the answer fills has no room for a prompt: asked for as the least, it is one token more. */
static void a_least_context_without_a_prompt_is_no_mistake(void **state) {
    (void)state;
    static const uint32_t least_ctx[] = {9, 8, 1};
    dctms_model *model;
    CHECK(dctms_model_open(MODELS "tiny-vl-q8_0.gguf", &model, &check_err));
    dctms_plan_params p = dctms_plan_default_params();
    dctms_plan_info first = {0};
    p.n_ctx = 304;
    p.n_output = 8;
    p.threads = 1;
    p.memory_budget = refused(model, p, 1) - 1; /* what all 304 need at least, less a byte */
    for (size_t i = 0; i < sizeof least_ctx / sizeof *least_ctx; i++) {
        dctms_plan *plan;
        dctms_plan_info info;
        p.budget_ctx = least_ctx[i];
        CHECK(dctms_plan_compile(model, &p, &plan, &check_err));
        dctms_plan_get_info(plan, &info);
        dctms_plan_free(plan);
        if (i == 0) first = info;
        assert_in_range(info.n_ctx, 9, 303);
        assert_int_equal(info.n_ctx, first.n_ctx);
        assert_int_equal(info.ubatch, first.ubatch);
        assert_int_equal(info.m_max_bytes, first.m_max_bytes);
    }
    dctms_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_chunk_that_fits),
        cmocka_unit_test(the_least_that_is_named_is_enough),
        cmocka_unit_test(a_context_is_found),
        cmocka_unit_test(the_only_contexts_that_fit_are_found),
        cmocka_unit_test(a_least_context_without_a_prompt_is_no_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
