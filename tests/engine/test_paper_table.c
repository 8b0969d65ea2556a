/* The paper's Table 1 for this system: Qwen2.5-1.5B and 7B in four bits, N = 1024, M = 256, as GGUF and as an MLX directory. Models are
 * made without their weights, which no plan needs: 98 % fewer buffers than tensors, and an envelope below 1.03 x weights + KV + 32 MiB.
 */
#include "engine_support.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/tools.h"

#define WORK DCT_BINARY_DIR "/paper_table_model"

enum { N = 1024, M = 256, MIB = 1024 * 1024, N_LAYER = 28, HEAD_DIM = 128, TENSORS_A_LAYER = 16 };

static const struct row {
    const char *name, *type;
    uint32_t n_head_kv;
    uint64_t n_params;
} rows[] = {
    {"qwen2.5-1.5b", "Q4_0", 2, UINT64_C(1543714304)},
    {"qwen2.5-1.5b", "mlx-4bit", 2, UINT64_C(1543714304)},
    {"qwen2.5-7b", "Q4_0", 4, UINT64_C(7615616512)},
    {"qwen2.5-7b", "mlx-4bit", 4, UINT64_C(7615616512)},
};

static void gather(void *ctx, const char *text, size_t n) {
    char *all = ctx;
    size_t used = strlen(all);
    assert_true(used + n < 4096);
    memcpy(all + used, text, n);
    all[used + n] = '\0';
}

static void remove_model(void) {
    static const char *const names[] = {"/config.json", "/tokenizer.json", "/tokenizer_config.json", "/model.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", WORK, names[i]);
        unlink(path);
    }
    rmdir(WORK);
    unlink(WORK);
}

static void expect_number(const char *table, const char *term, uint64_t value) {
    const char *line = strstr(table, term);
    assert_non_null(line);
    assert_true(strtoull(line + strlen(term), NULL, 10) == value);
}

/* What `plan --paper` prints are the numbers of the plan. */
static void check_table(const dctms_plan *plan, const dctms_plan_info *p) {
    char table[4096] = "";
    CHECK(dctms_plan_print(plan, DCTMS_PLAN_PAPER, gather, table, &check_err));
    assert_non_null(strstr(table, "static compilation, N = 1024, M = 256\n"));
    expect_number(table, "\nlogical tensors ", p->logical_tensors);
    expect_number(table, "\nphysical buffers ", p->physical_buffers);
    expect_number(table, "\nM_weights ", p->weights_bytes);
    expect_number(table, "\nM_KV ", p->kv_bytes);
    expect_number(table, "\nM_persistent ", p->persistent_bytes);
    expect_number(table, "\nM_intermediate ", p->intermediate_bytes);
    expect_number(table, "\nM_runtime ", p->runtime_bytes);
    expect_number(table, "\nM_max ", p->m_max_bytes);
    assert_non_null(strstr(table, " 98.88%\n"));
}

static void check_envelope(const struct row *r, const dctms_model_info *m, const dctms_plan_info *p) {
    uint64_t kv = UINT64_C(2) * N_LAYER * (N + M) * r->n_head_kv * HEAD_DIM * 2; /* the paper's M_KV */
    double limit = 1.03 * (double)m->tensor_bytes + (double)kv + 32 * MIB;
    print_message("%-12s %-8s %u -> %u buffers, weights %llu, KV %llu, persistent %llu, intermediate %llu, runtime %llu, M_max %llu (limit %.0f)\n",
                  r->name, r->type, p->logical_tensors, p->physical_buffers, (unsigned long long)p->weights_bytes,
                  (unsigned long long)p->kv_bytes, (unsigned long long)p->persistent_bytes, (unsigned long long)p->intermediate_bytes,
                  (unsigned long long)p->runtime_bytes, (unsigned long long)p->m_max_bytes, limit);
    assert_int_equal(p->kv_bytes, kv);
    assert_int_equal(p->m_max_bytes, p->weights_bytes + p->kv_bytes + p->persistent_bytes + p->intermediate_bytes + p->runtime_bytes);
    assert_true(p->weights_bytes >= m->tensor_bytes - m->tensor_bytes / 100); /* none is left out */
    assert_true((double)p->m_max_bytes < limit);
    assert_int_equal(p->logical_tensors, N_LAYER * TENSORS_A_LAYER);
    assert_true(p->physical_buffers * 100 <= p->logical_tensors * 2);
}

static void table_1(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const dct_synth_params made = {.name = rows[i].name, .type = rows[i].type, .path = WORK, .threads = 1, .header_only = true};
        dctms_plan_params params = dctms_plan_default_params();
        dctms_model *model;
        dctms_plan *plan;
        dctms_model_info m;
        dctms_plan_info p;
        dct_err err;
        remove_model();
        if (dct_synth(&made, &err) != DCT_OK) fail_msg("%s", err.message);
        params.n_ctx = N + M;
        params.n_output = M;
        params.threads = 2;
        CHECK(dctms_model_open(WORK, &model, &check_err));
        CHECK(dctms_model_get_info(model, &m, &check_err));
        assert_true(m.data_missing && m.n_params == rows[i].n_params && m.n_head_kv == rows[i].n_head_kv);
        CHECK(dctms_plan_compile(model, &params, &plan, &check_err));
        dctms_plan_get_info(plan, &p);
        check_envelope(&rows[i], &m, &p);
        check_table(plan, &p);
        dctms_plan_free(plan);
        dctms_model_free(model);
    }
    remove_model();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(table_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
