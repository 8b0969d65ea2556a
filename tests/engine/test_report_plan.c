/* The JSON of a plan: the names of DESIGN §6, and sums that add up. */
#include "compile/compile_support.h"

#include <jansson.h>

#include "engine/report.h"

static char text[1 << 20];
static size_t n_text;

static void collect(void *ctx, const char *piece, size_t n) {
    (void)ctx;
    assert_true(n_text + n < sizeof text);
    memcpy(text + n_text, piece, n);
    n_text += n;
    text[n_text] = '\0';
}

static void has(const json_t *object, const char *const *names, size_t n) {
    assert_int_equal(json_object_size(object), n);
    for (size_t i = 0; i < n; i++) {
        if (json_object_get(object, names[i]) == NULL) fail_msg("no '%s'", names[i]);
    }
}

#define HAS(object, ...) has(object, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static json_int_t integer(const json_t *object, const char *name) {
    assert_true(json_is_integer(json_object_get(object, name)));
    return json_integer_value(json_object_get(object, name));
}

static json_int_t sum_of(const json_t *items, const char *region) {
    json_int_t sum = 0;
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)items, i, item) {
        HAS(item, "region", "name", "bytes", "memory", "huge_pages", "mlock");
        bool outside = strcmp(json_string_value(json_object_get(item, "name")), "program image and libraries") == 0; /* of those below */
        assert_true(json_is_true(json_object_get(item, "mlock")) == !outside && json_is_true(json_object_get(item, "huge_pages")) == !outside);
        assert_string_equal(json_string_value(json_object_get(item, "memory")), outside ? "file" : "anonymous");
        if (strcmp(json_string_value(json_object_get(item, "region")), region) == 0) sum += integer(item, "bytes");
    }
    return sum;
}

static void the_contract(void **state) {
    (void)state;
    subject s;
    subject_qwen(&s, &QWEN_7B);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    static const dct_extra_item extra[] = {{DCT_REGION_RUNTIME, DCT_ITEM_PROGRAM, 3 << 20, true}, {DCT_REGION_RUNTIME, "stacks", 1 << 20, false}};
    dct_compile_params params = params_of(&s, 4096, 512, 512, 2);
    params.extra = extra;
    params.n_extra = 2;
    dct_plan *plan = compile_ok(&params, &arena);
    snprintf(plan->model_name, sizeof plan->model_name, "caf\xe9 \"7B\""); /* Latin-1, as careless files have it */
    dct_report_facts facts = {"m.gguf", UINT64_C(8) << 30, UINT64_C(1) << 30, "MemAvailable", 1.5, 1 << 20, dct_profile_default()};
    dct_err err;
    assert_int_equal(dct_report_plan_json(plan, &facts, collect, NULL, &err), DCT_OK);
    json_error_t why;
    json_t *all = json_loads(text, 0, &why);
    if (all == NULL) fail_msg("%s", why.text);
    HAS(all, "model", "bounds", "envelope", "compile", "phases", "schedule");
    HAS(json_object_get(all, "model"), "path", "arch", "name", "file_bytes", "n_params", "fingerprint");
    assert_string_equal(json_string_value(json_object_get(json_object_get(all, "model"), "name")), "caf? \"7B\"");
    json_t *bounds = json_object_get(all, "bounds");
    HAS(bounds, "ctx", "max_input", "max_output", "ubatch", "slots", "threads", "type_k", "type_v", "image_max_tokens", "logits", "overlap");
    assert_string_equal(json_string_value(json_object_get(bounds, "type_k")), "f16");
    json_t *e = json_object_get(all, "envelope"), *items = json_object_get(e, "items");
    HAS(e, "m_max_bytes", "weights_bytes", "kv_bytes", "persistent_bytes", "intermediate_bytes", "runtime_bytes", "m_hw_bytes", "m_free_bytes", "fits", "source", "loading", "items");
    static const char *const regions[][2] = {
        {"weights", "weights_bytes"}, {"kv", "kv_bytes"}, {"persistent", "persistent_bytes"}, {"intermediate", "intermediate_bytes"}, {"runtime", "runtime_bytes"}};
    json_int_t sum = 0;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sum_of(items, regions[i][0]), integer(e, regions[i][1]));
        sum += integer(e, regions[i][1]);
    }
    assert_int_equal(sum, integer(e, "m_max_bytes"));
    assert_int_equal(integer(e, "m_free_bytes"), (1 << 30) - sum); /* negative: it does not fit */
    assert_true(json_is_false(json_object_get(e, "fits")));
    json_t *loading = json_object_get(e, "loading");
    HAS(loading, "staging_bytes", "region");
    assert_int_equal(integer(loading, "staging_bytes"), 1 << 20);
    assert_string_equal(json_string_value(json_object_get(loading, "region")), "kv"); /* which is larger, and not used yet */
    json_t *compile = json_object_get(all, "compile");
    HAS(compile, "logical_tensors", "physical_buffers", "reduction_pct", "load_bytes", "height_bytes", "optimal", "compile_ms");
    assert_int_equal(integer(compile, "logical_tensors"), 448);
    json_t *phases = json_object_get(all, "phases");
    assert_int_equal(json_array_size(phases), 2);
    for (size_t i = 0; i < 2; i++) HAS(json_array_get(phases, i), "name", "rows", "values", "buffers", "load_bytes", "height_bytes", "optimal", "steps", "waits");
    HAS(json_object_get(all, "schedule"), "workers", "waits_per_token", "est_ms_per_token", "roofline_ms_per_token", "g_max", "corun");
    json_decref(all);
    n_text = 0;
    assert_int_equal(dct_report_paper(plan, &facts, collect, NULL, &err), DCT_OK);
    assert_non_null(strstr(text, "98.88%"));
    assert_non_null(strstr(text, "missing"));
    dct_arena_deinit(&arena);
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_contract)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
