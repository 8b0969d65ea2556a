/* The built-in model through the whole product: prompt ids in, greedy ids and text out, against what PyTorch said. */
#include "engine_support.h"

#include "support/golden.h"

enum { N_CTX = 2048, N_OUTPUT = 128 };

static void check_case(dctms_session *s, const golden_case *c) {
    dctms_gen_params gp = dctms_gen_default_params();
    gp.temperature = 0;
    gp.n_predict = c->max_tokens < N_OUTPUT ? c->max_tokens : N_OUTPUT;
    dctms_result result;
    CHECK(dctms_session_rewind(s, 0, &check_err));
    CHECK(dctms_session_eval(s, (const dctms_token *)c->token_ids, (uint32_t)c->n_token_ids, &check_err));
    CHECK(dctms_session_generate(s, &gp, NULL, NULL, &result, &check_err));
    uint32_t n;
    const dctms_token *got = dctms_session_generated(s, &n);
    for (size_t i = 0; i < c->n_output_ids && i < n; i++)
        if (got[i] != (dctms_token)c->output_ids[i]) fail_msg("%s: token %zu is %u, expected %d", c->id, i, got[i], c->output_ids[i]);
    assert_int_equal(n, c->n_output_ids);
    assert_int_equal(result.finish, c->ends ? DCTMS_FINISH_STOP : DCTMS_FINISH_LENGTH);
    size_t n_text;
    const char *text = dctms_session_text(s, &n_text);
    if (c->ends) { /* a cut answer may end inside a character */
        assert_int_equal(n_text, strlen(c->output_text));
        assert_memory_equal(text, c->output_text, n_text);
    }
}

static void check_file(const char *path, bool (*belongs)(const golden_case *), size_t least) {
    size_t n, used = 0;
    golden_case *cases = golden_load(MODELS "golden.jsonl", &n);
    dctms_plan_params pp = plan_params(N_CTX, N_OUTPUT, 0, 2);
    opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
    for (size_t i = 0; i < n; i++) {
        if (!belongs(&cases[i]) || cases[i].min_gap < 0.1) continue;
        check_case(o.session, &cases[i]);
        used++;
    }
    assert_true(used >= least);
    close_all(o);
    golden_free(cases, n);
}

static void text_cases(void **state) {
    (void)state;
    check_file(MODELS "tiny-vl-f16.gguf", golden_is_text, 20);
}

static void draft_cases(void **state) {
    (void)state;
    check_file(MODELS "tiny-draft-f16.gguf", golden_is_draft, 2);
}

/* The chat way in gives the same ids as the golden prompt. */
static void chat_renders_the_golden_prompt(void **state) {
    (void)state;
    size_t n;
    golden_case *cases = golden_load(MODELS "golden.jsonl", &n);
    dctms_plan_params pp = plan_params(512, 64, 0, 2);
    opened o = open_all(MODELS "tiny-vl-f16.gguf", &pp, DCTMS_ALLOC_PLANNED);
    assert_string_equal(cases[0].id, "text-00");
    dctms_chat_message message = {"user", "What is the capital of France?"};
    CHECK(dctms_session_chat(o.session, &message, 1, &check_err));
    assert_int_equal(dctms_session_n_tokens(o.session), cases[0].n_token_ids);
    float *by_chat = malloc(dctms_session_n_vocab(o.session) * sizeof *by_chat);
    memcpy(by_chat, dctms_session_logits(o.session), dctms_session_n_vocab(o.session) * sizeof *by_chat);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    CHECK(dctms_session_eval(o.session, (const dctms_token *)cases[0].token_ids, (uint32_t)cases[0].n_token_ids, &check_err));
    assert_memory_equal(by_chat, dctms_session_logits(o.session), dctms_session_n_vocab(o.session) * sizeof *by_chat);
    free(by_chat);
    close_all(o);
    golden_free(cases, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_cases),
        cmocka_unit_test(draft_cases),
        cmocka_unit_test(chat_renders_the_golden_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
