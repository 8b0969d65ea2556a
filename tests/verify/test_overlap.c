/* Plans in which decode may run while prefill does: sizes at real shapes, bytes apart, and what the verifier says when they are not. */
#include "compile/compile_support.h"
#include "verify/verify.h"

/* The header of Qwen2.5-0.5B, whose rows are no whole blocks of a K type. */
static void subject_half(subject *s) {
    gguf_tiny half = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    half.header_only = true;
    half.n_layer = 24, half.n_embd = 896, half.n_head = 14, half.n_head_kv = 2, half.head_dim = 64, half.n_ff = 4864;
    half.n_vocab = 151936, half.n_ctx = 32768;
    gguf_build_tiny(&s->build, &half);
    subject_open(s);
}

static dct_plan *plan_of(const subject *s, uint32_t threads, bool overlap, dct_arena *arena) {
    dct_compile_params params = params_of(s, 128, 32, 64, threads);
    params.bounds.overlap = overlap;
    params.text_scratch_bytes = 4096;
    return compile_ok(&params, arena);
}

static void open_tiny(subject *s, dct_arena *arena) {
    subject_tiny(s, "llama", DCT_TYPE_Q4_0);
    dct_arena_init(arena, 0);
}

static void close_tiny(subject *s, dct_arena *arena) {
    dct_arena_deinit(arena);
    subject_close(s);
}

static const dct_phase *phase_of(const dct_plan *plan, dct_phase_kind kind) {
    const dct_phase *phase = dct_plan_phase(plan, kind);
    assert_non_null(phase);
    return phase;
}

static bool is_scratch_of(const dct_phase *phase, dct_value_id v) {
    for (dct_op_id k = 0; k < phase->graph.n_ops; k++)
        if (phase->scratch[k] == v) return true;
    return false;
}

static void expect_verified(const dct_plan *plan) {
    dct_arena work;
    dct_defect defect;
    dct_err err = {0};
    dct_arena_init(&work, 0);
    if (dct_verify_alone(plan, &defect, &err) != DCT_OK) fail_msg("%s", err.message);
    dct_arena_deinit(&work);
}

/* What ops or the caller write into, as a range of the reservation; false for the rest. */
static bool written(const dct_plan *plan, const dct_phase *phase, dct_value_id v, uint64_t *begin, uint64_t *end) {
    const dct_value *value = &phase->graph.values[v];
    if (value->kind == DCT_KIND_WEIGHT || value->kind == DCT_KIND_KV || value->ref != DCT_NONE) return false;
    *begin = plan->region_offset[phase->places[v].region] + phase->places[v].offset;
    *end = *begin + value->bytes;
    return true;
}

/* Pair by pair, and of every kind at least one. */
static void expect_apart(const dct_plan *plan) {
    const dct_phase *a = phase_of(plan, DCT_PHASE_PREFILL), *b = phase_of(plan, DCT_PHASE_DECODE);
    uint64_t a_begin, a_end, b_begin, b_end;
    uint32_t n_scratch = 0, n_ends = 0;
    for (dct_value_id w = 0; w < b->graph.n_values; w++) {
        if (!written(plan, b, w, &b_begin, &b_end)) continue;
        n_scratch += is_scratch_of(b, w);
        n_ends += b->places[w].region == DCT_REGION_PERSISTENT;
        for (dct_value_id v = 0; v < a->graph.n_values; v++) {
            if (!written(plan, a, v, &a_begin, &a_end) || a_end <= b_begin || b_end <= a_begin) continue;
            fail_msg("%s of prefill and %s of decode", a->graph.values[v].name, b->graph.values[w].name);
        }
    }
    assert_true(n_scratch > 0 && n_ends >= 3);
}

static void expect_same_certificates(const dct_plan *a, const dct_plan *b) {
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(a->phases[i].cert.load_bytes, b->phases[i].cert.load_bytes);
        assert_int_equal(a->phases[i].cert.height_bytes, b->phases[i].cert.height_bytes);
        assert_int_equal(a->phases[i].cert.op, b->phases[i].cert.op);
        assert_int_equal(a->phases[i].n_waits, b->phases[i].n_waits);
        assert_true(a->phases[i].cert.optimal);
    }
}

/* In turns the larger of the two, together their sum, which is the load and so optimal. */
static void check_sizes(const subject *s, uint32_t threads) {
    dct_arena arena;
    uint64_t offset, bytes;
    dct_arena_init(&arena, 0);
    const dct_plan *off = plan_of(s, threads, false, &arena), *on = plan_of(s, threads, true, &arena);
    uint64_t prefill = phase_of(off, DCT_PHASE_PREFILL)->cert.height_bytes, decode = phase_of(off, DCT_PHASE_DECODE)->cert.height_bytes;
    expect_same_certificates(off, on);
    assert_int_equal(dct_plan_arena_height(off), prefill > decode ? prefill : decode);
    assert_int_equal(dct_plan_arena_height(on), prefill + decode);
    assert_int_equal(dct_plan_arena_load(on), dct_plan_arena_height(on));
    assert_int_equal(dct_plan_arena_load(off), dct_plan_arena_height(off));
    assert_int_equal(on->region_bytes[DCT_REGION_ARENA], dct_round_up(prefill + decode, DCT_PLAN_PAGE));
    assert_int_equal(off->region_bytes[DCT_REGION_ARENA], dct_round_up(dct_plan_arena_height(off), DCT_PLAN_PAGE));
    assert_int_equal(on->region_bytes[DCT_REGION_WEIGHTS], off->region_bytes[DCT_REGION_WEIGHTS]);
    assert_int_equal(on->region_bytes[DCT_REGION_KV], off->region_bytes[DCT_REGION_KV]);
    assert_false(dct_plan_find_item(off, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT_SCRATCH, &offset, &bytes));
    assert_true(dct_plan_find_item(on, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT_SCRATCH, &offset, &bytes));
    expect_apart(on);
    expect_verified(on);
    expect_verified(off);
    dct_arena_deinit(&arena);
}

static void heights_add_up(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 2, 8};
    for (size_t t = 0; t < 3; t++) {
        subject s[3];
        subject_tiny(&s[0], "gemma2", DCT_TYPE_Q8_0);
        subject_half(&s[1]);
        subject_qwen(&s[2], &QWEN_1_5B);
        for (int i = 0; i < 3; i++) {
            check_sizes(&s[i], threads[t]);
            subject_close(&s[i]);
        }
    }
}

static void families_verify(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    open_tiny(&s, &arena);
    dct_compile_params params = params_of(&s, 128, 32, 16, 2);
    params.bounds.overlap = true;
    dct_plan *family = compile_family(&params, 2, &arena);
    for (uint32_t m = 0; m < 3; m++) expect_apart(dct_plan_member(family, m));
    expect_verified(family);
    close_tiny(&s, &arena);
}

/* Through a file; which, without overlap, is what it was before there was such a bound: the field of the logits holds 0. */
static void files_say_it(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    uint64_t n[2];
    uint8_t *bytes[2];
    dct_err err;
    open_tiny(&s, &arena);
    for (int overlap = 0; overlap < 2; overlap++) {
        dct_plan *plan = plan_of(&s, 2, overlap, &arena), *loaded = NULL;
        assert_int_equal(dct_plan_save(plan, NULL, 0, &n[overlap], &err), DCT_OK);
        bytes[overlap] = dct_arena_alloc(&arena, n[overlap]);
        assert_int_equal(dct_plan_save(plan, bytes[overlap], n[overlap], &n[overlap], &err), DCT_OK);
        assert_int_equal(dct_plan_load(bytes[overlap], n[overlap], &arena, &loaded, &err), DCT_OK);
        assert_int_equal(loaded->bounds.overlap, overlap);
        assert_int_equal(loaded->bounds.logits, DCT_LOGITS_LAST);
        expect_verified(loaded);
    }
    uint64_t at = 32; /* behind the header */
    while (at < n[0] && bytes[0][at] == bytes[1][at]) at++;
    assert_int_equal(bytes[0][at], DCT_LOGITS_LAST);
    assert_int_equal(bytes[1][at], DCT_LOGITS_NONE + 1 + DCT_LOGITS_LAST);
    close_tiny(&s, &arena);
}

/* ---- damages ---- */

typedef struct bench {
    dct_plan *plan;
    dct_phase *prefill, *decode;
    char a[DCT_NAME_BYTES + 32], b[DCT_NAME_BYTES + 32]; /* what must be named: 'x' of phase; "" when nothing is */
} bench;

/* The smallest scratch: nothing lies in place of it. */
static dct_value_id small_scratch(const dct_phase *phase) {
    dct_value_id least = DCT_NONE;
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        if (is_scratch_of(phase, v) && (least == DCT_NONE || phase->graph.values[v].bytes < phase->graph.values[least].bytes)) least = v;
    }
    assert_int_not_equal(least, DCT_NONE);
    return least;
}

static void name(char out[], const dct_phase *phase, dct_value_id v) {
    snprintf(out, DCT_NAME_BYTES + 32, "'%s' of %s", phase->graph.values[v].name, phase->name);
}

static void scratch_of_decode_over_prefill(bench *b) {
    dct_value_id v = small_scratch(b->decode);
    b->decode->places[v].offset = 0;
    name(b->a, b->decode, v);
}

static void scratch_of_prefill_over_decode(bench *b) {
    dct_value_id v = small_scratch(b->prefill);
    b->prefill->places[v].offset = dct_plan_arena_begin(b->plan, b->decode);
    name(b->a, b->prefill, v);
}

/* All of decode's packing, a line further on or back. */
static void move_decode(bench *b, int64_t lines) {
    for (dct_value_id v = 0; v < b->decode->graph.n_values; v++)
        if (b->decode->places[v].region == DCT_REGION_ARENA) b->decode->places[v].offset += (uint64_t)(lines * DCT_PLAN_ALIGN);
}
static void a_line_shared(bench *b) { move_decode(b, -1); }
static void a_line_wasted(bench *b) { move_decode(b, 1); }

static void share(bench *b, dct_value_id of_decode, dct_value_id of_prefill) {
    b->decode->places[of_decode].offset = b->prefill->places[of_prefill].offset;
    name(b->a, b->decode, of_decode);
    name(b->b, b->prefill, of_prefill);
}

static void ids_shared(bench *b) { share(b, b->decode->graph.ids, b->prefill->graph.ids); }
static void pos_shared(bench *b) { share(b, b->decode->graph.pos, b->prefill->graph.pos); }
static void logits_shared(bench *b) { share(b, b->decode->graph.logits, b->prefill->graph.logits); }
static void logits_beyond(bench *b) { b->decode->places[b->decode->graph.logits].offset += DCT_PLAN_ALIGN; }
static void prefill_elsewhere(bench *b) { b->prefill->places[b->prefill->graph.ids].offset += DCT_PLAN_ALIGN; }
static void overlap_denied(bench *b) { b->plan->bounds.overlap = false; }

static const struct {
    const char *what;
    void (*apply)(bench *b);
    dct_defect want;
} damages[] = {
#define ROW(defect, apply) {#apply, apply, DCT_DEFECT_##defect}
    ROW(OVERLAP, scratch_of_decode_over_prefill), ROW(OVERLAP, scratch_of_prefill_over_decode), ROW(OVERLAP, a_line_shared),
    ROW(OVERLAP, ids_shared), ROW(OVERLAP, pos_shared), ROW(OVERLAP, logits_shared),
    ROW(ITEMS_WRONG, logits_beyond), ROW(ITEMS_WRONG, prefill_elsewhere), ROW(ITEMS_WRONG, overlap_denied),
    ROW(CERTIFICATE_WRONG, a_line_wasted),
#undef ROW
};

static void expect_defect(const dct_plan *plan, const char *what, dct_defect want, const char *a, const char *b) {
    dct_arena work;
    dct_defect defect;
    dct_err err = {0};
    dct_arena_init(&work, 0);
    assert_int_equal(dct_verify_alone(plan, &defect, &err), DCT_BAD_FILE);
    if (defect != want || strstr(err.message, a) == NULL || strstr(err.message, b) == NULL)
        fail_msg("%s: %s (want %s, %s and %s)", what, err.message, dct_defect_name(want), a, b);
    bool names_both = strstr(err.message, " of prefill (") != NULL && strstr(err.message, " of decode (") != NULL;
    assert_true(want != DCT_DEFECT_OVERLAP || names_both);
    dct_arena_deinit(&work);
}

static void damages_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        subject s;
        dct_arena arena;
        open_tiny(&s, &arena);
        bench b = {.plan = plan_of(&s, 2, true, &arena)};
        b.prefill = &b.plan->phases[0];
        b.decode = &b.plan->phases[1];
        damages[i].apply(&b);
        expect_defect(b.plan, damages[i].what, damages[i].want, b.a, b.b);
        close_tiny(&s, &arena);
    }
}

/* A plan whose phases have their bytes in turns cannot say that they may overlap. */
static void turns_are_no_overlap(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    open_tiny(&s, &arena);
    dct_plan *plan = plan_of(&s, 2, false, &arena);
    plan->bounds.overlap = true;
    expect_defect(plan, "turns", DCT_DEFECT_OVERLAP, "", "");
    dct_compile_params params = params_of(&s, 128, 32, 16, 2);
    plan = compile_family(&params, 1, &arena);
    params.bounds.overlap = true;
    dct_plan *other = compile_family(&params, 1, &arena);
    plan->smaller[0] = other->smaller[0];
    expect_defect(plan, "a member that may overlap", DCT_DEFECT_FAMILY_WRONG, "", "");
    close_tiny(&s, &arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heights_add_up),      cmocka_unit_test(families_verify),     cmocka_unit_test(files_say_it),
        cmocka_unit_test(damages_are_refused), cmocka_unit_test(turns_are_no_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
