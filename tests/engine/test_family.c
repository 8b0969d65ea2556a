/* A family of plans: one session over several contexts answers as the largest alone would, in the memory that was promised for it. */
#include <stdio.h>

#include "engine/engine.h"
#include "engine_support.h"
#include "support/emulated.h"

#define PATH MODELS "tiny-vl-f16.gguf"

enum { N_STEPS = 3, OUTPUT = 48 };
static const dctms_ctx_step steps[N_STEPS] = {{48, 32}, {100, 16}, {256, 8}};

static dctms_token token_at(uint32_t i) { return (i * 7919u + 13u) % 1500u; }

static dctms_plan_params family_params(const char *type_k, const char *type_v) {
    dctms_plan_params p = plan_params(0, OUTPUT, 0, 2);
    memcpy(p.ctx_steps, steps, sizeof steps);
    p.n_ctx_steps = N_STEPS;
    strcpy(p.type_k, type_k);
    strcpy(p.type_v, type_v);
    return p;
}

/* The largest member, by itself. */
static dctms_plan_params alone_params(const char *type_k, const char *type_v) {
    dctms_plan_params p = family_params(type_k, type_v);
    p.n_ctx_steps = 0;
    p.n_ctx = steps[N_STEPS - 1].n_ctx;
    p.ubatch = steps[N_STEPS - 1].ubatch;
    return p;
}

static opened open_family(const char *type_k, const char *type_v) {
    dctms_plan_params p = family_params(type_k, type_v);
    return open_all(PATH, &p, DCTMS_ALLOC_PLANNED);
}

static opened open_alone(const char *type_k, const char *type_v) {
    dctms_plan_params p = alone_params(type_k, type_v);
    return open_all(PATH, &p, DCTMS_ALLOC_PLANNED);
}

static void eval(dctms_session *s, uint32_t first, uint32_t n) {
    dctms_token tokens[256];
    for (uint32_t i = 0; i < n; i++) tokens[i] = token_at(first + i);
    CHECK(dctms_session_eval(s, tokens, n, &check_err));
}

static void expect_same(dctms_session *a, dctms_session *b) {
    assert_int_equal(dctms_session_n_tokens(a), dctms_session_n_tokens(b));
    if (memcmp(dctms_session_logits(a), dctms_session_logits(b), dctms_session_n_vocab(a) * sizeof(float)) != 0)
        fail_msg("other logits after %u tokens", dctms_session_n_tokens(a));
}

static void step_both(dctms_session *a, dctms_session *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        dctms_token token = token_at(dctms_session_n_tokens(a));
        CHECK(dctms_session_step(a, token, &check_err));
        CHECK(dctms_session_step(b, token, &check_err));
        expect_same(a, b);
    }
}

/* The member that ran last: the smallest whose context holds the timeline. */
static void expect_member(const dctms_session *s) {
    uint32_t want = 0;
    while (steps[want].n_ctx < dctms_session_n_tokens(s)) want++;
    assert_int_equal(s->member, want);
}

static const char *const types[][2] = {{"f16", "f16"}, {"q8_0", "q8_0"}, {"f32", "q8_0"}, {"bf16", "f32"}};
enum { N_TYPES = sizeof types / sizeof *types };

/* A short prompt, then single tokens through all members; and again from the smallest. */
static void single_tokens_cross_members(void **state) {
    (void)state;
    for (int k = 0; k < N_TYPES; k++) {
        opened f = open_family(types[k][0], types[k][1]), a = open_alone(types[k][0], types[k][1]);
        for (int round = 0; round < 2; round++) {
            eval(f.session, 0, 40);
            eval(a.session, 0, 40);
            expect_same(f.session, a.session);
            expect_member(f.session);
            while (dctms_session_n_tokens(f.session) < 256) {
                step_both(f.session, a.session, 1);
                expect_member(f.session);
            }
            CHECK(dctms_session_rewind(f.session, 0, &check_err));
            CHECK(dctms_session_rewind(a.session, 0, &check_err));
        }
        close_all(f);
        close_all(a);
    }
}

/* A prompt fills one member after the other, whatever lies in the bytes that its caches come to. */
static void a_prompt_crosses_members(void **state) {
    (void)state;
    for (int k = 0; k < N_TYPES; k++) {
        opened f = open_family(types[k][0], types[k][1]), a = open_alone(types[k][0], types[k][1]);
        const dct_plan *plan = f.session->plan;
        memset(f.session->bases.of[DCT_REGION_KV], 0xff, plan->region_bytes[DCT_REGION_KV]); /* NaN in every type */
        memset(f.session->bases.of[DCT_REGION_ARENA], 0xff, plan->region_bytes[DCT_REGION_ARENA]);
        eval(f.session, 0, 208);
        eval(a.session, 0, 208);
        expect_same(f.session, a.session);
        expect_member(f.session);
        step_both(f.session, a.session, 8);
        close_all(f);
        close_all(a);
    }
}

/* Going back, near and far, and on again. */
static void a_rewound_session_moves_back(void **state) {
    (void)state;
    static const uint32_t kept[] = {150, 100, 99, 48, 47, 20, 1, 0};
    opened f = open_family("f16", "q8_0"), a = open_alone("f16", "q8_0");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        uint32_t n = dctms_session_n_tokens(f.session);
        eval(f.session, n, 208 - n);
        eval(a.session, n, 208 - n);
        CHECK(dctms_session_rewind(f.session, kept[i], &check_err));
        CHECK(dctms_session_rewind(a.session, kept[i], &check_err));
        step_both(f.session, a.session, 2);
        expect_member(f.session);
    }
    close_all(f);
    close_all(a);
}

static void over_the_largest_is_refused(void **state) {
    (void)state;
    opened f = open_family("f16", "f16");
    dctms_error err;
    dctms_token tokens[256] = {0};
    assert_int_equal(dctms_session_eval(f.session, tokens, 209, &err), DCTMS_BOUND); /* N of the largest is 208 */
    assert_non_null(strstr(err.message, "209"));
    assert_non_null(strstr(err.message, "208"));
    assert_int_equal(dctms_session_n_tokens(f.session), 0);
    eval(f.session, 0, 208);
    for (uint32_t i = 0; i < OUTPUT; i++) CHECK(dctms_session_step(f.session, 1, &check_err));
    assert_int_equal(dctms_session_step(f.session, 1, &err), DCTMS_BOUND);
    assert_non_null(strstr(err.message, "257"));
    assert_non_null(strstr(err.message, "256"));
    close_all(f);
}

/* One envelope: that of the largest member, and what the others have beyond it. */
static void the_envelope_is_one(void **state) {
    (void)state;
    opened f = open_family("f16", "f16"), a = open_alone("f16", "f16");
    const dct_plan *family = f.plan->plan, *alone = a.plan->plan;
    uint64_t most = 0;
    for (uint32_t i = 0; i < N_STEPS; i++) {
        const dct_plan *member = dct_plan_member(family, i);
        uint64_t bytes = member->region_bytes[DCT_REGION_KV] + member->region_bytes[DCT_REGION_ARENA];
        assert_int_equal(member->bounds.n_ctx, steps[i].n_ctx);
        assert_int_equal(member->bounds.ubatch, steps[i].ubatch);
        if (bytes > most) most = bytes;
    }
    assert_int_equal(family->region_bytes[DCT_REGION_KV] + family->region_bytes[DCT_REGION_ARENA], most);
    assert_int_equal(family->region_bytes[DCT_REGION_WEIGHTS], alone->region_bytes[DCT_REGION_WEIGHTS]);
    assert_true(family->region_bytes[DCT_REGION_PERSISTENT] - alone->region_bytes[DCT_REGION_PERSISTENT] <= 4096);
    dctms_plan_info info;
    dctms_plan_get_info(f.plan, &info);
    assert_int_equal(info.n_ctx_steps, N_STEPS);
    assert_memory_equal(info.ctx_steps, steps, sizeof steps);
    assert_int_equal(info.n_ctx, 256);
    dctms_plan_get_info(a.plan, &info);
    assert_int_equal(info.n_ctx_steps, 0);
    close_all(f);
    close_all(a);
}

/* Chunks grow with the budget, which is never exceeded; what a refusal names as the least is enough, and a byte less is not. */
static void a_budget_makes_chunks_smaller(void **state) {
    (void)state;
    dctms_model *model;
    dctms_plan *plan;
    dctms_error err;
    dctms_plan_info info;
    unsigned long long least;
    uint32_t chunks = 0;
    dctms_plan_params p = family_params("f16", "f16");
    for (uint32_t i = 0; i < N_STEPS; i++) p.ctx_steps[i].ubatch = 48;
    CHECK(dctms_model_open(PATH, &model, &check_err));
    p.memory_budget = 1;
    assert_int_equal(dctms_plan_compile(model, &p, &plan, &err), DCTMS_NO_FIT);
    assert_int_equal(sscanf(err.message, "needs at least %llu bytes", &least), 1);
    p.memory_budget = least - 1;
    assert_int_equal(dctms_plan_compile(model, &p, &plan, &err), DCTMS_NO_FIT);
    for (uint64_t more = 0; more <= 1 << 20; more = more == 0 ? 1 << 12 : 2 * more) {
        p.memory_budget = least + more;
        CHECK(dctms_plan_compile(model, &p, &plan, &check_err));
        dctms_plan_get_info(plan, &info);
        dctms_plan_free(plan);
        assert_true(info.m_max_bytes <= p.memory_budget);
        assert_true(info.ctx_steps[0].ubatch >= info.ctx_steps[1].ubatch && info.ctx_steps[1].ubatch >= info.ctx_steps[2].ubatch);
        assert_true(info.ctx_steps[2].ubatch >= chunks);
        chunks = info.ctx_steps[2].ubatch;
    }
    assert_int_equal(chunks, 48);
    dctms_model_free(model);
}

static void senseless_steps_are_refused(void **state) {
    (void)state;
    dctms_model *model;
    dctms_plan *plan = NULL;
    dctms_error err;
    static const char *const says[] = {"ascend", "2 tokens at least", "leaves no room", "is not the last", "takes none", "at most"};
    CHECK(dctms_model_open(PATH, &model, &check_err));
    for (int what = 0; what < 6; what++) {
        dctms_plan_params p = family_params("f16", "f16");
        switch (what) {
        case 0: p.ctx_steps[1].n_ctx = p.ctx_steps[0].n_ctx; break;
        case 1: p.ctx_steps[0].n_ctx = 1; break;
        case 2: p.n_output = 256; break;
        case 3: p.n_ctx = 255; break;
        case 4:
            p.budget_ctx = 100;
            p.memory_budget = 1 << 30;
            break;
        case 5: p.n_ctx_steps = DCTMS_MAX_CTX_STEPS + 1; break;
        }
        assert_int_equal(dctms_plan_compile(model, &p, &plan, &err), DCTMS_USAGE);
        if (strstr(err.message, says[what]) == NULL) fail_msg("%d: %s", what, err.message);
        assert_null(plan);
    }
    dctms_model_free(model);
}

static dct_item *item_of(const dct_plan *plan, const char *name) {
    for (uint32_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->items[i].name, name) == 0) return &plan->items[i];
    fail_msg("no item '%s'", name);
    return NULL;
}

/* Bytes go from one item to another behind it: the plan is sound in itself, but no session of the model can live in it. */
static void check_short_item(const dctms_plan *plan, dctms_model *model, const char *from, const char *to, uint64_t bytes) {
    dct_item *less = item_of(plan->plan, from), *more = item_of(plan->plan, to);
    dctms_error err;
    char defect[32], wanted[64];
    less->bytes -= bytes;
    more->bytes += bytes;
    if (!more->outside) more->offset -= bytes;
    CHECK(dctms_plan_verify(plan, NULL, defect, &check_err));
    assert_int_equal(dctms_plan_verify(plan, model, defect, &err), DCTMS_BAD_FILE);
    assert_string_equal(defect, "ITEMS_WRONG");
    snprintf(wanted, sizeof wanted, "'%s' has %llu bytes", from, (unsigned long long)less->bytes);
    if (strstr(err.message, wanted) == NULL) fail_msg("%s", err.message);
    dctms_session *session = NULL;
    assert_int_equal(dctms_session_open(model, plan, NULL, &session, &err), DCTMS_BAD_FILE);
    if (strstr(err.message, wanted) == NULL) fail_msg("%s", err.message);
    less->bytes += bytes;
    more->bytes -= bytes;
    if (!more->outside) more->offset += bytes;
}

/* One file for all members: loaded, it is proven and runs; changed, it is refused; and it is no part of a group. */
static void a_saved_family_runs(void **state) {
    (void)state;
    static const char *const file = DCT_BINARY_DIR "/test_family.plan";
    dctms_plan_params p = family_params("f16", "f16");
    dctms_model *model;
    dctms_plan *made, *loaded;
    dctms_session *session;
    dctms_error err;
    char defect[32];
    CHECK(dctms_model_open(PATH, &model, &check_err));
    CHECK(dctms_plan_compile(model, &p, &made, &check_err));
    CHECK(dctms_plan_save(made, file, &check_err));
    dctms_plan_free(made);
    CHECK(dctms_plan_load(file, &loaded, &check_err));
    CHECK(dctms_plan_verify(loaded, NULL, defect, &check_err));
    CHECK(dctms_plan_verify(loaded, model, defect, &check_err));

    dct_op *op = loaded->plan->smaller[1].phases[0].graph.ops;
    while (op->p.eps == 0) op++;
    op->p.eps *= 2; /* of another model, which the trace shows */
    assert_int_equal(dctms_plan_verify(loaded, model, defect, &err), DCTMS_BAD_FILE);
    assert_string_equal(defect, "GRAPH_MISMATCH");
    op->p.eps /= 2;
    loaded->plan->smaller[0].region_bytes[DCT_REGION_ARENA] += 4096;
    assert_int_equal(dctms_plan_verify(loaded, NULL, defect, &err), DCTMS_BAD_FILE);
    assert_int_equal(dctms_session_open(model, loaded, NULL, &session, &err), DCTMS_BAD_FILE);
    loaded->plan->smaller[0].region_bytes[DCT_REGION_ARENA] -= 4096;
    check_short_item(loaded, model, "timeline", "prompt tokens", 64);
    check_short_item(loaded, model, "plan record", "main stack", 64);
    check_short_item(loaded, model, "kernel: page tables and stacks", "main stack", 16384);

    CHECK(dctms_session_open(model, loaded, NULL, &session, &check_err));
    opened a = open_alone("f16", "f16");
    eval(session, 0, 60);
    eval(a.session, 0, 60);
    step_both(session, a.session, 60);
    close_all(a);
    dctms_session_free(session);
    dctms_plan_free(loaded);
    dctms_model_free(model);
    remove(file);
}

/* ---- plans that were tampered with ---- */

static void no_kernel(dct_plan *plan) { strcpy(item_of(plan, DCT_ITEM_KERNEL)->name, "aside"); }
static void no_text_scratch(dct_plan *plan) { strcpy(item_of(plan, DCT_ITEM_TEXT_SCRATCH)->name, "aside"); }
static void no_such_cache(dct_plan *plan) { plan->bounds.type_k = DCT_TYPE_Q4_0; }
static void no_context(dct_plan *plan) { plan->bounds.n_ctx = 0; }
static void no_context_in_a_member(dct_plan *plan) { plan->smaller[1].bounds.n_ctx = 0; }
static void more_tensors(dct_plan *plan) { plan->paper_tensors++; }
static void fewer_buffers(dct_plan *plan) { plan->paper_buffers--; }
static void fewer_that_meet(dct_plan *plan) { plan->paper_clique--; }
static void more_tensors_in_a_member(dct_plan *plan) { plan->smaller[0].paper_tensors++; }

/* What only the model shows of a plan file. A session that lacks an item would take what nobody counted; what the paper counts it
 * does not need. */
static void tampered_files_are_refused(void **state) {
    (void)state;
    static const char file[] = DCT_BINARY_DIR "/test_family.tampered.plan";
    static const struct {
        void (*tamper)(dct_plan *plan);
        const char *defect;
        bool runs, overlap; /* with overlap texts have scratch of their own */
    } cases[] = {{no_kernel, "ITEMS_WRONG", false, false},
                 {no_text_scratch, "ITEMS_WRONG", false, true},
                 {no_such_cache, "BOUNDS_WRONG", false, false},
                 {no_context, "BOUNDS_WRONG", false, false},
                 {no_context_in_a_member, "BOUNDS_WRONG", false, false},
                 {more_tensors, "CERTIFICATE_WRONG", true, false},
                 {fewer_buffers, "CERTIFICATE_WRONG", true, false},
                 {fewer_that_meet, "CERTIFICATE_WRONG", true, false},
                 {more_tensors_in_a_member, "CERTIFICATE_WRONG", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dctms_plan_params p = cases[i].overlap ? alone_params("f16", "f16") : family_params("f16", "f16");
        dctms_model *model;
        dctms_plan *plan;
        dctms_session *session = NULL;
        dctms_error err;
        char defect[32];
        p.overlap = cases[i].overlap;
        CHECK(dctms_model_open(PATH, &model, &check_err));
        CHECK(dctms_plan_compile(model, &p, &plan, &check_err));
        cases[i].tamper(plan->plan);
        CHECK(dctms_plan_save(plan, file, &check_err));
        dctms_plan_free(plan);
        CHECK(dctms_plan_load(file, &plan, &check_err));
        dctms_status verified = dctms_plan_verify(plan, model, defect, &err);
        if (verified != DCTMS_BAD_FILE || strcmp(defect, cases[i].defect) != 0)
            fail_msg("case %zu: %d, %s, expected %s (%s)", i, (int)verified, defect, cases[i].defect, err.message);
        assert_int_equal(err.code, DCTMS_BAD_FILE);
        dctms_status status = dctms_session_open(model, plan, NULL, &session, &err);
        if (status != (cases[i].runs ? DCTMS_OK : DCTMS_BAD_FILE)) fail_msg("case %zu: %d (%s)", i, (int)status, err.message);
        dctms_session_free(session);
        dctms_plan_free(plan);
        dctms_model_free(model);
    }
    remove(file);
}

#if !defined(DCT_SANITIZED) && defined(__linux__)
/* In a process of its own: what it may hold, what it held at most, and the page faults while it went through all members. */
static int be_child(void) {
    opened f = open_family("f16", "f16");
    dctms_memory memory;
    dctms_session_mark_ready(f.session);
    for (int round = 0; round < 2; round++) {
        eval(f.session, 0, 208);
        CHECK(dctms_session_rewind(f.session, 0, &check_err));
    }
    dctms_session_memory(f.session, &memory);
    printf("%llu %llu %llu\n", (unsigned long long)(memory.m_max_bytes - dct_plan_kernel_bytes(f.plan->plan)),
           (unsigned long long)memory.vm_hwm_bytes, (unsigned long long)(memory.min_faults + memory.maj_faults));
    return 0;
}

static void the_process_keeps_within_its_envelope(void **state) {
    (void)state;
    if (emulated("skipped: the emulator's memory and faults are counted with the process")) skip();
    char line[128] = "";
    unsigned long long m_max = 0, observed = 0, faults = 1;
    FILE *child = popen(DCT_BINARY_DIR "/test_family child", "r");
    assert_non_null(child);
    assert_non_null(fgets(line, sizeof line, child));
    assert_int_equal(pclose(child), 0);
    assert_int_equal(sscanf(line, "%llu %llu %llu", &m_max, &observed, &faults), 3);
    assert_true(observed <= m_max);
    assert_true(observed + ((unsigned long long)6 << 20) > m_max); /* what outside items hold in reserve */
    assert_true(faults <= 8); /* the child is not sealed: pages of the test itself */
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_tokens_cross_members),  cmocka_unit_test(a_prompt_crosses_members),
        cmocka_unit_test(a_rewound_session_moves_back), cmocka_unit_test(over_the_largest_is_refused),
        cmocka_unit_test(the_envelope_is_one),          cmocka_unit_test(a_budget_makes_chunks_smaller),
        cmocka_unit_test(senseless_steps_are_refused),  cmocka_unit_test(a_saved_family_runs),
        cmocka_unit_test(tampered_files_are_refused),
#if !defined(DCT_SANITIZED) && defined(__linux__)
        cmocka_unit_test(the_process_keeps_within_its_envelope),
#endif
    };
#if !defined(DCT_SANITIZED) && defined(__linux__)
    if (argc == 2) return be_child();
#endif
    (void)argc;
    (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
