/* Same input, same bytes: logits compared with memcmp whatever the threads, the chunk, the instruction set, the mode of allocation, and
 * however the timeline came to be. */
#include "engine_support.h"

#include "support/emulated.h"

enum { N_PROMPT = 150, N_STEPS = 6 };

static const char *const isas[] = {"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "neon", "neon-dotprod"};

/* Logits after the prompt and after each of a few single tokens. */
typedef struct trail {
    float *rows;
    size_t bytes;
} trail;

static dctms_token token_at(uint32_t i) { return (i * 7919u + 13u) % 1500u; }

static trail walk(dctms_session *s, uint32_t n_prompt) {
    uint32_t n_vocab = dctms_session_n_vocab(s);
    trail t = {malloc((1 + N_STEPS) * n_vocab * sizeof(float)), (1 + N_STEPS) * n_vocab * sizeof(float)};
    dctms_token *prompt = malloc(n_prompt * sizeof *prompt);
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = token_at(i);
    CHECK(dctms_session_rewind(s, 0, &check_err));
    CHECK(dctms_session_eval(s, prompt, n_prompt, &check_err));
    memcpy(t.rows, dctms_session_logits(s), n_vocab * sizeof(float));
    for (uint32_t i = 0; i < N_STEPS; i++) {
        CHECK(dctms_session_step(s, token_at(n_prompt + i), &check_err));
        memcpy(t.rows + (1 + i) * n_vocab, dctms_session_logits(s), n_vocab * sizeof(float));
    }
    free(prompt);
    return t;
}

static trail one_walk(const char *path, uint32_t n_ctx, uint32_t n_prompt, uint32_t threads, uint32_t ubatch, const char *kv, dctms_alloc alloc) {
    dctms_plan_params pp = plan_params(n_ctx, 16, ubatch, threads);
    strcpy(pp.type_k, kv);
    strcpy(pp.type_v, kv);
    opened o = open_all(path, &pp, alloc);
    trail t = walk(o.session, n_prompt);
    close_all(o);
    return t;
}

static void check_same(trail reference, trail t, const char *what, uint32_t threads, uint32_t ubatch) {
    if (memcmp(reference.rows, t.rows, t.bytes) != 0) fail_msg("other bytes: %s, %u threads, chunks of %u", what, threads, ubatch);
    free(t.rows);
}

static void check_not_trivial(trail t) {
    float least = t.rows[0], most = t.rows[0];
    for (size_t i = 0; i < t.bytes / sizeof(float); i++) {
        assert_true(t.rows[i] == t.rows[i]);
        if (t.rows[i] < least) least = t.rows[i];
        if (t.rows[i] > most) most = t.rows[i];
    }
    assert_true(most - least > 3);
}

static void threads_and_chunks(void **state) {
    static const uint32_t chunks[] = {1, 7, 32, 512};
    const char *path = *state;
    const uint32_t n_repeats = emulated("each shape once, not three times") ? 1 : 3;
    trail reference = one_walk(path, 256, N_PROMPT, 1, 512, "f32", DCTMS_ALLOC_PLANNED);
    check_not_trivial(reference);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (uint32_t c = 0; c < 4; c++) {
            dctms_plan_params pp = plan_params(256, 16, chunks[c], threads);
            opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
            for (uint32_t repeat = 0; repeat < n_repeats; repeat++) check_same(reference, walk(o.session, N_PROMPT), "planned", threads, chunks[c]);
            close_all(o);
        }
    }
    free(reference.rows);
}

/* False when the processor or the build lacks the set: another one would be used silently. */
static bool choose_isa(const char *name) {
    setenv("DCTMS_ISA", name, 1);
    if (strcmp(dctms_kernels_name(), name) == 0) return true;
    print_message("skipped: %s is not in this build or processor (%s instead)\n", name, dctms_kernels_name());
    return false;
}

static void instruction_sets_and_modes(void **state) {
    static const char *const kv[] = {"f32", "f16", "bf16", "q8_0"};
    const char *path = *state;
    for (uint32_t k = 0; k < 4; k++) {
        trail reference = one_walk(path, 256, N_PROMPT, 2, 64, kv[k], DCTMS_ALLOC_PLANNED);
        for (uint32_t i = 0; i < sizeof isas / sizeof *isas; i++) {
            if (!choose_isa(isas[i])) continue;
            check_same(reference, one_walk(path, 256, N_PROMPT, 2, 64, kv[k], DCTMS_ALLOC_PLANNED), isas[i], 2, 64);
        }
        unsetenv("DCTMS_ISA");
        check_same(reference, one_walk(path, 512, 150, 2, 64, kv[k], DCTMS_ALLOC_DYNAMIC), "dynamic", 2, 64);
        check_same(reference, one_walk(path, 512, 150, 3, 7, kv[k], DCTMS_ALLOC_DYNAMIC), "dynamic", 3, 7);
        free(reference.rows);
    }
}

/* Attention in several parts of 1,024 positions, the last chunk across a border, caches of the dynamic mode grown many times. */
static void long_contexts(void **state) {
    const char *path = *state;
    const uint32_t n = emulated("1,023 positions, not 2,047") ? 1023 : 2047, n_ctx = n + 257;
    trail reference = one_walk(path, n_ctx, n, 1, 512, "f16", DCTMS_ALLOC_PLANNED);
    check_same(reference, one_walk(path, n_ctx, n, 3, 100, "f16", DCTMS_ALLOC_PLANNED), "long", 3, 100);
    check_same(reference, one_walk(path, n_ctx, n, 2, 512, "f16", DCTMS_ALLOC_DYNAMIC), "long, dynamic", 2, 512);
    free(reference.rows);
}

static void rewinding_gives_the_same_bytes(void **state) {
    const char *path = *state;
    dctms_plan_params pp = plan_params(256, 16, 32, 2);
    opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
    trail reference = walk(o.session, N_PROMPT);
    dctms_token rest[N_PROMPT];
    for (uint32_t i = 0; i < N_PROMPT; i++) rest[i] = token_at(i);
    uint32_t n_vocab = dctms_session_n_vocab(o.session);
    CHECK(dctms_session_rewind(o.session, 61, &check_err));
    assert_null(dctms_session_logits(o.session));
    CHECK(dctms_session_eval(o.session, rest + 61, N_PROMPT - 61, &check_err));
    assert_memory_equal(dctms_session_logits(o.session), reference.rows, n_vocab * sizeof(float));
    free(reference.rows);
    close_all(o);
}

int main(void) {
    static char f16[] = MODELS "tiny-vl-f16.gguf", q8[] = MODELS "tiny-vl-q8_0.gguf";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(threads_and_chunks, f16),
        cmocka_unit_test_prestate(threads_and_chunks, q8),
        cmocka_unit_test_prestate(instruction_sets_and_modes, f16),
        cmocka_unit_test_prestate(instruction_sets_and_modes, q8),
        cmocka_unit_test_prestate(long_contexts, q8),
        cmocka_unit_test_prestate(rewinding_gives_the_same_bytes, f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
