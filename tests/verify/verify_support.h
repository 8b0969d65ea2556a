/* What the tests of the verifier share: a tiny model, its plan, and its fresh traces. */
#ifndef TESTS_VERIFY_SUPPORT_H
#define TESTS_VERIFY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "compile/compile.h"
#include "support/gguf_build.h"
#include "verify/verify.h"

typedef struct bench {
    gguf_build build;
    dct_arena arena;
    dct_model model;
    dct_hparams hp;
    dct_bounds bounds;
    dct_plan *plan;
    dct_graph traced[DCT_PLAN_MAX_PHASES];
} bench;

static inline dct_bounds small_bounds(uint32_t threads) {
    return (dct_bounds){.n_ctx = 96, .n_input = 64, .n_output = 32, .ubatch = 16, .slots = 1, .threads = threads,
                        .type_k = DCT_TYPE_F16, .type_v = DCT_TYPE_F16, .logits = DCT_LOGITS_LAST};
}

/* Traces each phase of b->plan anew. */
static inline void bench_trace(bench *b) {
    dct_err err = {0};
    for (uint32_t i = 0; i < b->plan->n_phases; i++) {
        dct_trace_params trace = dct_trace_params_of(&b->bounds, b->plan->phases[i].kind);
        if (dct_arch_trace(&b->model, &b->hp, &trace, &b->arena, &b->traced[i], &err) != DCT_OK) fail_msg("%s", err.message);
    }
}

/* n_smaller: members of a family, with a half, a third, ... of the context and chunks that are larger by as much. */
static inline dct_plan *bench_smaller(bench *b, uint32_t n_smaller) {
    dct_plan *smaller = dct_arena_array(&b->arena, n_smaller, sizeof *smaller);
    dct_err err = {0};
    for (uint32_t i = 0; i < n_smaller; i++) {
        uint32_t part = n_smaller + 1 - i;
        dct_bounds bounds = b->bounds;
        bounds.n_ctx /= part;
        bounds.n_output /= part;
        bounds.n_input = bounds.n_ctx - bounds.n_output;
        bounds.ubatch *= part;
        bounds.table_ctx = b->bounds.n_ctx;
        dct_plan *plan;
        dct_compile_params params = {.model = &b->model, .hp = &b->hp, .bounds = bounds};
        if (dct_compile(&params, &b->arena, &plan, &err) != DCT_OK) fail_msg("%s", err.message);
        smaller[i] = *plan;
    }
    return smaller;
}

static inline void bench_open_family(bench *b, const gguf_tiny *tiny, const dct_bounds *bounds, uint32_t n_smaller) {
    memset(b, 0, sizeof *b);
    size_t n;
    dct_err err = {0};
    dct_arena_init(&b->arena, 0);
    gguf_build_tiny(&b->build, tiny);
    const uint8_t *image = gguf_build_image(&b->build, &n);
    b->bounds = *bounds;
    dct_status status = dct_model_open_bytes(&b->model, image, n, &b->arena, &err);
    if (status == DCT_OK) status = dct_arch_hparams(&b->model, &b->hp, &err);
    static const dct_extra_item extra[] = {
        {DCT_REGION_PERSISTENT, "sampler", 4096, false}, {DCT_REGION_RUNTIME, "stacks", 1 << 20, false}, {DCT_REGION_RUNTIME, "program image", 3 << 20, true}};
    dct_compile_params params = {.model = &b->model, .hp = &b->hp, .bounds = *bounds, .extra = extra, .n_extra = 3, .n_smaller = n_smaller};
    if (status == DCT_OK) params.smaller = bench_smaller(b, n_smaller);
    if (status == DCT_OK) status = dct_compile(&params, &b->arena, &b->plan, &err);
    if (status != DCT_OK) fail_msg("%s: %s", tiny->arch, err.message);
    bench_trace(b);
}

static inline void bench_open(bench *b, const gguf_tiny *tiny, const dct_bounds *bounds) { bench_open_family(b, tiny, bounds, 0); }

static inline void bench_close(bench *b) {
    dct_model_close(&b->model);
    dct_arena_deinit(&b->arena);
    gguf_build_free(&b->build);
}

/* The defect that the verifier finds, NONE when the plan passes. *message is its own. */
static inline dct_defect bench_verify(bench *b, dct_err *err) {
    dct_checked_plan *checked = NULL;
    dct_defect defect = DCT_DEFECT_COUNT;
    memset(err, 0, sizeof *err);
    dct_status status = dct_verify(b->plan, &b->model, &b->hp, b->traced, b->plan->n_phases, &b->arena, &b->arena, &checked, &defect, err);
    if (status == DCT_OK) {
        assert_int_equal(defect, DCT_DEFECT_NONE);
        assert_ptr_equal(dct_checked_plan_get(checked), b->plan);
    } else {
        if (status != DCT_BAD_FILE) fail_msg("status %d: %s", (int)status, err->message);
        assert_null(checked);
        assert_true(defect > DCT_DEFECT_NONE && defect < DCT_DEFECT_COUNT);
        assert_non_null(strstr(err->message, dct_defect_name(defect)));
    }
    return defect;
}

#endif
