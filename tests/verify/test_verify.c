/* Good plans pass: every family, type, number of threads, cache type and mode of logits that the compiler makes one of. */
#include "verify_support.h"

#include "base/os.h"

static void expect_good(const gguf_tiny *tiny, const dct_bounds *bounds) {
    bench b;
    dct_err err;
    bench_open(&b, tiny, bounds);
    dct_defect defect = bench_verify(&b, &err);
    if (defect != DCT_DEFECT_NONE) fail_msg("%s, %u threads: %s", tiny->arch, bounds->threads, err.message);
    dct_status status = dct_verify_alone(b.plan, &defect, &err);
    assert_int_equal(status, DCT_OK);
    bench_close(&b);
}

static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void test_families(void **state) {
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        for (uint32_t threads = 1; threads <= 4; threads++) {
            gguf_tiny tiny = gguf_tiny_default(families[i], DCT_TYPE_Q4_0);
            dct_bounds bounds = small_bounds(threads);
            expect_good(&tiny, &bounds);
            tiny.type = DCT_TYPE_F16;
            expect_good(&tiny, &bounds);
        }
    }
}

/* Each member on its own, and the family. Phi-3 has other rotary tables beyond the context of its first training, as Gemma has
 * two. */
static void test_plan_families(void **state) {
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        for (int logits = DCT_LOGITS_LAST; logits <= DCT_LOGITS_ALL; logits++) {
            gguf_tiny tiny = gguf_tiny_default(families[i], DCT_TYPE_Q4_0);
            dct_bounds bounds = small_bounds(2);
            bench b;
            dct_err err;
            dct_defect defect;
            bounds.logits = (dct_logits_mode)logits;
            bounds.n_ctx = 6144;
            bounds.n_input = 6144 - bounds.n_output;
            bench_open_family(&b, &tiny, &bounds, 3);
            if (bench_verify(&b, &err) != DCT_DEFECT_NONE) fail_msg("%s: %s", families[i], err.message);
            if (dct_verify_alone(b.plan, &defect, &err) != DCT_OK) fail_msg("%s: %s", families[i], err.message);
            for (uint32_t m = 0; m < 3; m++) {
                bench one = b;
                one.plan = &b.plan->smaller[m];
                one.bounds = one.plan->bounds;
                bench_trace(&one);
                if (bench_verify(&one, &err) != DCT_DEFECT_NONE) fail_msg("%s: member %u: %s", families[i], m, err.message);
            }
            b.plan->smaller[1].phases[1].cert.height_bytes += 64; /* a member is looked at as well */
            assert_int_equal(dct_verify_alone(b.plan, &defect, &err), DCT_BAD_FILE);
            assert_int_equal(defect, DCT_DEFECT_CERTIFICATE_WRONG);
            bench_close(&b);
        }
    }
}

static void test_modes(void **state) {
    (void)state;
    static const dct_dtype kv[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_BF16, DCT_TYPE_Q8_0};
    gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_K);
    for (int logits = DCT_LOGITS_LAST; logits <= DCT_LOGITS_ALL; logits++) {
        for (int k = 0; k < 4; k++) {
            dct_bounds bounds = small_bounds(2);
            bounds.logits = (dct_logits_mode)logits;
            bounds.type_k = kv[k];
            bounds.type_v = kv[3 - k];
            expect_good(&tiny, &bounds);
        }
    }
}

static void test_sizes(void **state) {
    (void)state;
    for (uint32_t ubatch = 1; ubatch <= 64; ubatch *= 4) {
        for (uint32_t n_ctx = 8; n_ctx <= 5000; n_ctx *= 5) {
            gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_Q8_0);
            dct_bounds bounds = small_bounds(2);
            bounds.n_ctx = n_ctx;
            bounds.n_output = n_ctx / 4;
            bounds.n_input = n_ctx - bounds.n_output;
            bounds.ubatch = ubatch;
            expect_good(&tiny, &bounds);
        }
    }
}

/* Bytes of the arena that a verification works in. */
static uint64_t work_bytes(uint32_t n_layer, uint32_t threads) {
    gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    tiny.n_layer = n_layer;
    dct_bounds bounds = small_bounds(threads);
    bench b;
    dct_err err;
    bench_open(&b, &tiny, &bounds);
    dct_checked_plan *checked = NULL;
    dct_defect defect;
    dct_arena work;
    dct_arena_init(&work, 0);
    assert_int_equal(dct_verify(b.plan, &b.model, &b.hp, b.traced, b.plan->n_phases, &work, &work, &checked, &defect, &err), DCT_OK);
    uint64_t bytes = work.peak_bytes;
    dct_arena_deinit(&work);
    bench_close(&b);
    return bytes;
}

/* Eight times the layers need about eight times the memory, and not 64 times: no table of all pairs. An arena grows by large steps. */
static void test_memory_is_linear(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        uint64_t few = work_bytes(32, threads), many = work_bytes(256, threads);
        print_message("%u threads: 32 layers %llu bytes, 256 layers %llu\n", threads, (unsigned long long)few, (unsigned long long)many);
        assert_true(many < 16 * few);
    }
}

/* Without memory the verifier says so and passes nothing. */
static void test_memory_fails(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    dct_bounds bounds = small_bounds(2);
    bench b;
    dct_err err;
    bench_open(&b, &tiny, &bounds);
    for (uint64_t k = 1;; k++) {
        dct_checked_plan *checked = NULL;
        dct_defect defect;
        dct_arena work;
        dct_arena_init(&work, 0);
        work.fail_at = k;
        dct_status status = dct_verify(b.plan, &b.model, &b.hp, b.traced, b.plan->n_phases, &work, &work, &checked, &defect, &err);
        bool done = status == DCT_OK;
        if (!done) {
            assert_int_equal(status, DCT_NO_FIT);
            assert_null(checked);
            assert_int_equal(defect, DCT_DEFECT_NONE);
        }
        dct_arena_deinit(&work);
        if (done) {
            assert_true(k > 10);
            break;
        }
    }
    bench_close(&b);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(dct_defect_name(DCT_DEFECT_OVERLAP), "OVERLAP");
    for (int d = 0; d < DCT_DEFECT_COUNT; d++) assert_true(strlen(dct_defect_text((dct_defect)d)) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families), cmocka_unit_test(test_plan_families), cmocka_unit_test(test_modes), cmocka_unit_test(test_sizes), cmocka_unit_test(test_memory_is_linear),
        cmocka_unit_test(test_memory_fails), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
