/* Whole compiles: families, real shapes, sums, repeatability. */
#include "compile/compile_support.h"
#include "compile/passes.h"

/* Regions and items: in order, disjoint, adding up; M_max is their sum. */
static void check_envelope(const dct_plan *plan) {
    uint64_t total = 0, reserve = 0, at = 0;
    uint32_t next = 0;
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        assert_int_equal(plan->region_offset[dct_region_order[i]], at);
        at += plan->region_bytes[dct_region_order[i]];
    }
    for (int r = 0; r < DCT_REGION_COUNT; r++) {
        uint64_t inside = 0, outside = 0;
        assert_int_equal(plan->region_bytes[r] % DCT_PLAN_PAGE, 0);
        for (; next < plan->n_items && plan->items[next].region == (dct_region)r; next++) {
            const dct_item *item = &plan->items[next];
            if (item->outside) {
                outside += item->bytes;
                continue;
            }
            assert_int_equal(outside, 0); /* outside ones come last */
            assert_int_equal(item->offset, inside);
            inside += item->bytes;
        }
        assert_int_equal(inside, plan->region_bytes[r]);
        assert_int_equal(inside + outside, dct_plan_region_bytes(plan, (dct_region)r));
        reserve += inside;
        total += inside + outside;
    }
    assert_int_equal(next, plan->n_items);
    assert_int_equal(plan->reserve_bytes, reserve);
    assert_int_equal(plan->m_max_bytes, total);
}

static uint64_t item_bytes(const dct_plan *plan, dct_region region, const char *name) {
    uint64_t offset, bytes;
    dct_plan_find_item(plan, region, name, &offset, &bytes);
    return bytes;
}

static uint64_t saved(const dct_plan *plan, dct_arena *arena, uint8_t **out) {
    uint64_t n;
    dct_err err;
    assert_int_equal(dct_plan_save(plan, NULL, 0, &n, &err), DCT_OK);
    *out = dct_arena_alloc(arena, n);
    assert_int_equal(dct_plan_save(plan, *out, n, &n, &err), DCT_OK);
    return n;
}

static void every_family_compiles_twice_to_the_same_bytes(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    static const dct_dtype types[] = {DCT_TYPE_Q8_0, DCT_TYPE_F16, DCT_TYPE_Q4_K};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        for (size_t t = 0; t < 3; t++) {
            subject s;
            subject_tiny(&s, families[f], types[t]);
            dct_arena arena;
            dct_arena_init(&arena, 0);
            dct_compile_params params = params_of(&s, 200, 50, 24, 1 + (uint32_t)t);
            dct_plan *plan = compile_ok(&params, &arena);
            check_envelope(plan);
            for (uint32_t i = 0; i < plan->n_phases; i++) {
                assert_true(plan->phases[i].cert.optimal);
                assert_int_equal(plan->phases[i].cert.load_bytes, plan->phases[i].cert.height_bytes);
            }
            uint8_t *first, *second;
            uint64_t n = saved(plan, &arena, &first);
            assert_int_equal(saved(compile_ok(&params, &arena), &arena, &second), n);
            assert_memory_equal(first, second, n);
            dct_arena_deinit(&arena);
            subject_close(&s);
        }
    }
}

/* The numbers that the project promises for Qwen2.5-1.5B in Q4_0 with 1,024 + 256 tokens. */
static void qwen_1_5b_meets_the_promise(void **state) {
    (void)state;
    subject s;
    subject_qwen(&s, &QWEN_1_5B);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 1280, 256, 512, 2);
    dct_plan *plan = compile_ok(&params, &arena);
    check_envelope(plan);
    uint64_t height = 0;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        assert_true(plan->phases[i].cert.optimal);
        if (plan->phases[i].cert.height_bytes > height) height = plan->phases[i].cert.height_bytes;
    }
    assert_true(plan->region_bytes[DCT_REGION_ARENA] - height < DCT_PLAN_PAGE);
    assert_true(dct_plan_phase(plan, DCT_PHASE_DECODE)->n_waits <= 6 * 28);
    assert_int_equal(dct_plan_phase(plan, DCT_PHASE_DECODE)->n_steps, 5 * 28 + 2);
    assert_int_equal(plan->paper_tensors, 448);
    assert_true(plan->paper_buffers <= 8);
    assert_int_equal(plan->paper_buffers, plan->paper_clique);
    assert_int_equal(item_bytes(plan, DCT_REGION_KV, "K cache") + item_bytes(plan, DCT_REGION_KV, "V cache"), UINT64_C(2) * 28 * 1280 * 2 * 128 * 2); /* the paper's M_KV */
    assert_int_equal(plan->region_bytes[DCT_REGION_KV], UINT64_C(2) * 28 * 1280 * 2 * 128 * 2);
    assert_true((double)plan->region_bytes[DCT_REGION_WEIGHTS] <= 1.03 * (double)plan->tensor_bytes);
    assert_true(plan->est_ms_per_token >= plan->roofline_ms_per_token && plan->roofline_ms_per_token > 0);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* What the ops read and write leaves one order of the steps, and no choice: no other order can have a lower load, and no reuse of
 * bytes costs a wait. Bandwidth is made endless, so that it orders nothing. */
static void data_orders_every_step(const dct_plan *plan, const dct_phase *phase, dct_arena *arena) {
    dct_profile profile = *dct_profile_default();
    dct_schedule schedule;
    dct_err err = {0};
    profile.bytes_per_s_one = profile.bytes_per_s_all = 1e30;
    if (dct_schedule_make(&phase->graph, &plan->bounds, &profile, false, arena, &schedule, &err) != DCT_OK)
        fail_msg("%s", err.message);
    assert_true(schedule.chain);
    assert_int_equal(schedule.n_waits, schedule.n_steps - 1);
}

/* Every family in the shapes of Qwen2.5 1.5B and 7B, whatever the number of workers: packed to the load, and at most six waits a
 * layer for a token. Times are not for a test: docs/PLANS.md has them. */
static void every_family_is_optimal_at_real_sizes(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    static const uint32_t workers[] = {1, 2, 4, 8, 16};
    for (size_t i = 0; i < 2 * sizeof families / sizeof *families; i++) {
        const shape *of = i % 2 == 0 ? &QWEN_1_5B : &QWEN_7B;
        gguf_tiny model = gguf_tiny_default(families[i / 2], DCT_TYPE_Q4_0);
        model.header_only = true;
        model.embd_type = DCT_TYPE_Q6_K;
        model.n_layer = of->n_layer, model.n_embd = of->n_embd, model.n_head = of->n_head, model.n_head_kv = of->n_head_kv;
        model.head_dim = of->head_dim, model.n_ff = of->n_ff, model.n_vocab = of->n_vocab, model.n_ctx = 32768;
        subject s;
        gguf_build_tiny(&s.build, &model);
        subject_open(&s);
        for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
            dct_arena arena;
            dct_arena_init(&arena, 0);
            dct_compile_params params = params_of(&s, 1280, 256, 512, workers[w]);
            const dct_plan *plan = compile_ok(&params, &arena);
            for (uint32_t p = 0; p < plan->n_phases; p++) {
                assert_true(plan->phases[p].cert.optimal);
                if (workers[w] > 1) data_orders_every_step(plan, &plan->phases[p], &arena);
            }
            assert_true(dct_plan_phase(plan, DCT_PHASE_DECODE)->n_waits <= 6 * of->n_layer);
            dct_arena_deinit(&arena);
        }
        subject_close(&s);
    }
}

static void one_worker_needs_no_waits(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 128, 32, 16, 1);
    dct_plan *plan = compile_ok(&params, &arena);
    for (uint32_t i = 0; i < plan->n_phases; i++) assert_int_equal(plan->phases[i].n_waits, 0);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void positions_beyond_the_bound_are_an_item(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 100, 32, 16, 2);
    dct_plan *plan = compile_ok(&params, &arena);
    check_envelope(plan);
    uint64_t a_position = 2 * 2 * 2 * 64 * 2; /* K and V, 2 layers, 2 heads of 64, f16 */
    assert_int_equal(item_bytes(plan, DCT_REGION_KV, "K cache") + item_bytes(plan, DCT_REGION_KV, "V cache"), 100 * a_position);
    assert_int_equal(item_bytes(plan, DCT_REGION_KV, "positions rounded up to 16"), 12 * a_position);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void extras_and_staging_are_items(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    static const dct_extra_item extra[] = {
        {DCT_REGION_RUNTIME, "program image", 12345, true}, {DCT_REGION_PERSISTENT, "sampler", 100, false}, {DCT_REGION_RUNTIME, "stacks", 1 << 20, false}};
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 128, 32, 16, 2);
    params.extra = extra;
    params.n_extra = 3;
    params.staging_bytes = 64 * 1024;
    dct_plan *plan = compile_ok(&params, &arena);
    check_envelope(plan);
    uint64_t offset, bytes;
    dct_place staging;
    assert_true(dct_plan_find_item(plan, DCT_REGION_RUNTIME, "stacks", &offset, &bytes));
    assert_int_equal(offset, 0);
    assert_int_equal(plan->outside_bytes, 12345);
    assert_int_equal(item_bytes(plan, DCT_REGION_PERSISTENT, "sampler"), 128); /* whole lines */
    assert_false(dct_plan_find_item(plan, DCT_REGION_RUNTIME, DCT_ITEM_STAGING, &offset, &bytes));
    assert_true(dct_plan_staging(plan, params.staging_bytes, &staging)); /* it lies over the caches */
    assert_true(staging.region == DCT_REGION_KV && staging.offset == 0);
    params.staging_bytes = UINT64_C(512) << 20;
    plan = compile_ok(&params, &arena);
    check_envelope(plan);
    assert_int_equal(item_bytes(plan, DCT_REGION_RUNTIME, DCT_ITEM_STAGING), params.staging_bytes);
    assert_true(dct_plan_staging(plan, params.staging_bytes, &staging));
    assert_true(staging.region == DCT_REGION_RUNTIME && staging.offset > 0);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* The text scratch is the arena where that is large enough, else an item of its own. */
static void a_text_scratch_has_room(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "gemma3", "phi3"};
    static const uint64_t scratch[] = {0, 1000, 40000, 300000, UINT64_C(20) << 20};
    uint32_t n_own = 0, n_shared = 0;
    for (size_t f = 0; f < 4; f++) {
        subject s;
        subject_tiny(&s, families[f], DCT_TYPE_Q8_0);
        dct_arena arena;
        dct_arena_init(&arena, 0);
        for (uint32_t i = 0; i < 15; i++) {
            dct_compile_params params = params_of(&s, 64 << (i % 3), 16, i % 2 == 0 ? 48 : 7, 1 + i % 3);
            params.text_scratch_bytes = scratch[i % 5];
            params.staging_bytes = scratch[i % 4];
            dct_plan *plan = compile_ok(&params, &arena);
            check_envelope(plan);
            uint64_t offset, bytes;
            bool has_item = dct_plan_find_item(plan, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT_SCRATCH, &offset, &bytes);
            assert_true((has_item ? bytes : plan->region_bytes[DCT_REGION_ARENA]) >= params.text_scratch_bytes);
            n_own += has_item;
            n_shared += !has_item;
        }
        dct_arena_deinit(&arena);
        subject_close(&s);
    }
    assert_true(n_own > 0 && n_shared > 0);
}

/* Names of weights come from files: none of them is taken for what the engine looks up. */
static void items_are_found_in_their_region(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    static const dct_extra_item extra[] = {{DCT_REGION_PERSISTENT, "sampler", 128, false}, {DCT_REGION_RUNTIME, "heap", 4096, true}};
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 128, 32, 16, 2);
    params.extra = extra;
    params.n_extra = 2;
    dct_plan *plan = compile_ok(&params, &arena);
    strcpy(plan->items[0].name, "sampler");
    assert_int_equal(plan->items[0].region, DCT_REGION_WEIGHTS);
    uint64_t offset, bytes;
    assert_true(dct_plan_find_item(plan, DCT_REGION_PERSISTENT, "sampler", &offset, &bytes));
    assert_int_equal(bytes, 128);
    assert_true(offset + bytes <= plan->region_bytes[DCT_REGION_PERSISTENT]);
    assert_false(dct_plan_find_item(plan, DCT_REGION_RUNTIME, "heap", &offset, &bytes)); /* it has no place */
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void sums_that_wrap_are_refused(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    for (int i = 0; i < 5; i++) {
        dct_extra_item extra[] = {{DCT_REGION_PERSISTENT, "a", 64, false}, {DCT_REGION_RUNTIME, "b", 64, true}};
        dct_compile_params params = params_of(&s, 128, 32, 16, 2);
        params.extra = extra;
        params.n_extra = 2;
        if (i < 2) extra[i].bytes = UINT64_MAX;
        if (i == 2) extra[0].bytes = UINT64_MAX - 100000; /* the region wraps, no item does */
        if (i == 3) params.staging_bytes = UINT64_MAX - 10;
        if (i == 4) params.text_scratch_bytes = UINT64_MAX - 10;
        dct_plan *plan = NULL;
        dct_err err;
        assert_int_equal(dct_compile(&params, &arena, &plan, &err), DCT_NO_FIT);
        assert_null(plan);
    }
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void senseless_bounds_are_usage_errors(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_err err;
    dct_plan *plan = NULL;
    for (int i = 0; i < 5; i++) {
        dct_compile_params params = params_of(&s, 128, 32, 16, 2);
        if (i == 4) params.bounds.logits = DCT_LOGITS_NONE;
        if (i == 0) params.bounds.n_output++;
        if (i == 1) params.bounds.ubatch = 0;
        if (i == 2) params.bounds.threads = 0;
        if (i == 3) params.bounds.n_ctx = params.bounds.n_input = params.bounds.n_output = 0;
        assert_int_equal(dct_compile(&params, &arena, &plan, &err), DCT_USAGE);
    }
    assert_null(plan);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    subject s;
    subject_tiny(&s, "qwen3", DCT_TYPE_Q8_0);
    dct_compile_params params = params_of(&s, 64, 16, 8, 2);
    for (uint64_t k = 1;; k++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_plan *plan = NULL;
        dct_err err;
        dct_status status = dct_compile(&params, &arena, &plan, &err);
        bool reached = arena.n_allocs >= k;
        dct_arena_deinit(&arena);
        if (!reached) {
            assert_int_equal(status, DCT_OK);
            break;
        }
        assert_int_equal(status, DCT_NO_FIT);
        assert_null(plan);
    }
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_compiles_twice_to_the_same_bytes),
        cmocka_unit_test(qwen_1_5b_meets_the_promise),
        cmocka_unit_test(every_family_is_optimal_at_real_sizes),
        cmocka_unit_test(one_worker_needs_no_waits),
        cmocka_unit_test(positions_beyond_the_bound_are_an_item),
        cmocka_unit_test(extras_and_staging_are_items),
        cmocka_unit_test(a_text_scratch_has_room),
        cmocka_unit_test(items_are_found_in_their_region),
        cmocka_unit_test(sums_that_wrap_are_refused),
        cmocka_unit_test(senseless_bounds_are_usage_errors),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
