/* A plan in which decode may run while prefill does, run: the same tokens in more memory, and neither phase touches what the other
 * writes. */
#include <unistd.h>

#include "engine/engine.h"
#include "engine_support.h"

#define PATH MODELS "tiny-vl-f16.gguf"

enum { N_PROMPT = 70 };

static dctms_token token_at(uint32_t i) { return (i * 7919u + 13u) % 1500u; }

static opened open_plan(bool overlap) {
    dctms_plan_params p = plan_params(128, 32, 24, 2);
    p.overlap = overlap;
    return open_all(PATH, &p, DCTMS_ALLOC_PLANNED);
}

static void eval_prompt(dctms_session *s, uint32_t n) {
    dctms_token tokens[N_PROMPT];
    for (uint32_t i = 0; i < n; i++) tokens[i] = token_at(i);
    CHECK(dctms_session_rewind(s, 0, &check_err));
    CHECK(dctms_session_eval(s, tokens, n, &check_err));
}

static void expect_same(dctms_session *a, dctms_session *b) {
    assert_memory_equal(dctms_session_logits(a), dctms_session_logits(b), dctms_session_n_vocab(a) * sizeof(float));
}

static void expect_same_run(dctms_session *a, dctms_session *b) {
    eval_prompt(a, N_PROMPT);
    eval_prompt(b, N_PROMPT);
    expect_same(a, b);
    for (uint32_t i = 0; i < 8; i++) {
        CHECK(dctms_session_step(a, token_at(i), &check_err));
        CHECK(dctms_session_step(b, token_at(i), &check_err));
        expect_same(a, b);
    }
}

/* Also when the plan comes from a file. */
static void the_same_tokens(void **state) {
    (void)state;
    char path[] = "/tmp/dctms-overlap-XXXXXX";
    opened off = open_plan(false), on = open_plan(true), filed = {0};
    dctms_session_params sp = dctms_session_default_params();
    dctms_error err;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    expect_same_run(off.session, on.session);
    CHECK(dctms_plan_save(on.plan, path, &check_err));
    if (dctms_model_open(PATH, &filed.model, &err) || dctms_plan_load(path, &filed.plan, &err) ||
        dctms_session_open(filed.model, filed.plan, &sp, &filed.session, &err))
        fail_msg("%s", err.message);
    expect_same_run(off.session, filed.session);
    unlink(path);
    close_all(off);
    close_all(on);
    close_all(filed);
}

/* What a phase has of the arena, with its ids, positions and logits behind one another. */
typedef struct part {
    unsigned char *bytes;
    size_t n;
} part;

static void append(part *p, const void *from, size_t n) {
    p->bytes = realloc(p->bytes, p->n + n);
    assert_non_null(p->bytes);
    memcpy(p->bytes + p->n, from, n);
    p->n += n;
}

static part part_of(const dctms_session *s, dct_phase_kind kind) {
    const dct_phase *phase = dct_plan_phase(s->plan, kind);
    const dct_graph *g = &phase->graph;
    const dct_value_id ends[] = {g->ids, g->pos, g->logits};
    part p = {0};
    append(&p, s->bases.of[DCT_REGION_ARENA] + dct_plan_arena_begin(s->plan, phase), (size_t)phase->cert.height_bytes);
    for (int i = 0; i < 3; i++) append(&p, dct_exec_value(s->exec[0], kind, ends[i]), (size_t)g->values[ends[i]].bytes);
    return p;
}

static void expect_untouched(part before, part after) {
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.bytes, after.bytes, before.n);
    free(before.bytes);
    free(after.bytes);
}

static void phases_leave_each_other_alone(void **state) {
    (void)state;
    opened o = open_plan(true);
    eval_prompt(o.session, 48);
    part before = part_of(o.session, DCT_PHASE_PREFILL);
    for (uint32_t i = 0; i < 4; i++) CHECK(dctms_session_step(o.session, token_at(i), &check_err));
    expect_untouched(before, part_of(o.session, DCT_PHASE_PREFILL));
    before = part_of(o.session, DCT_PHASE_DECODE);
    eval_prompt(o.session, 48); /* two chunks: no single token is left for decode */
    expect_untouched(before, part_of(o.session, DCT_PHASE_DECODE));
    close_all(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_tokens), cmocka_unit_test(phases_leave_each_other_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
