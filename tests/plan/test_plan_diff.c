/* What differs between two plans: nothing is missed that was changed, and nothing is told that was not. */
#include "compile/compile_support.h"
#include "support/collect.h"

enum { MOST = 256 };

typedef struct found {
    uint32_t n;
    struct {
        char section[16], phase[16], name[96];
        uint32_t context;
        uint32_t count;
        bool had, has, is_text;
        uint64_t before, after;
    } list[MOST];
} found;

static void keep(void *ctx, const dct_difference *d) {
    found *f = ctx;
    assert_true(f->n < MOST);
    snprintf(f->list[f->n].section, 16, "%s", d->section);
    snprintf(f->list[f->n].phase, 16, "%s", d->phase);
    snprintf(f->list[f->n].name, 96, "%s", d->name);
    f->list[f->n].context = d->context;
    f->list[f->n].count = d->count;
    f->list[f->n].had = d->had;
    f->list[f->n].has = d->has;
    f->list[f->n].is_text = d->text_before != NULL;
    f->list[f->n].before = d->before;
    f->list[f->n].after = d->after;
    f->n++;
}

/* Two plans of one model, with ubatch 8 and with what is asked for. */
typedef struct pair {
    subject s;
    dct_arena arenas[2], work;
    dct_plan *a, *b;
} pair;

static void open_pair(pair *p, uint32_t ubatch) {
    gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_Q8_0);
    tiny.n_layer = 3;
    gguf_build_tiny(&p->s.build, &tiny);
    subject_open(&p->s);
    dct_compile_params params_a = params_of(&p->s, 64, 16, 8, 2), params_b = params_of(&p->s, 64, 16, ubatch, 2);
    for (int i = 0; i < 2; i++) dct_arena_init(&p->arenas[i], 0);
    dct_arena_init(&p->work, 0);
    p->a = compile_ok(&params_a, &p->arenas[0]);
    p->b = compile_ok(&params_b, &p->arenas[1]);
}

static void close_pair(pair *p) {
    dct_arena_deinit(&p->work);
    for (int i = 0; i < 2; i++) dct_arena_deinit(&p->arenas[i]);
    subject_close(&p->s);
}

static found compare(pair *p) {
    found f = {.n = 0};
    dct_err err = {0};
    assert_int_equal(dct_plan_compare(p->a, p->b, &p->work, keep, &f, &err), DCT_OK);
    return f;
}

static bool are_same(pair *p) {
    bool same;
    dct_err err = {0};
    assert_int_equal(dct_plan_is_same(p->a, p->b, &p->work, &same, &err), DCT_OK);
    return same;
}

/* The value of that name in a phase, by its producer's place. */
static dct_value *value_of(dct_plan *plan, dct_phase_kind kind, const char *name) {
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        dct_graph *g = &plan->phases[i].graph;
        if (plan->phases[i].kind != kind) continue;
        for (dct_value_id v = 0; v < g->n_values; v++) {
            if (strcmp(g->values[v].name, name) == 0 && g->values[v].kind == DCT_KIND_INTERMEDIATE) return &g->values[v];
        }
    }
    fail_msg("no value %s", name);
    return NULL;
}

static void equal_plans_have_no_difference(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 8);
    assert_int_equal(compare(&p).n, 0);
    assert_true(are_same(&p));
    close_pair(&p);
}

static void terms_differ_by_what_the_whole_does(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 16);
    found f = compare(&p);
    int64_t whole = 0, terms = 0, items = 0;
    bool ubatch = false, rows = false;
    for (uint32_t i = 0; i < f.n; i++) {
        int64_t delta = (int64_t)(f.list[i].after - f.list[i].before);
        bool is_envelope = strcmp(f.list[i].section, "envelope") == 0;
        if (is_envelope && strcmp(f.list[i].name, "m_max_bytes") == 0) whole = delta;
        else if (is_envelope) terms += delta;
        if (strcmp(f.list[i].section, "items") == 0) items += delta;
        ubatch = ubatch || (strcmp(f.list[i].name, "ubatch") == 0 && f.list[i].before == 8 && f.list[i].after == 16);
        rows = rows || (strcmp(f.list[i].phase, "prefill") == 0 && strcmp(f.list[i].name, "rows") == 0);
        assert_string_not_equal(f.list[i].section, "model");
        assert_string_not_equal(f.list[i].phase, "decode"); /* one row whatever the chunk */
    }
    assert_int_equal(whole, p.b->m_max_bytes - p.a->m_max_bytes);
    assert_true(whole != 0 && ubatch && rows);
    assert_int_equal(terms, whole);
    assert_int_equal(items, whole);
    assert_false(are_same(&p));
    close_pair(&p);
}

static void values_appear_vanish_and_grow(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 8);
    value_of(p.b, DCT_PHASE_DECODE, "blk.1.q")->bytes += 64;
    strcpy(value_of(p.b, DCT_PHASE_PREFILL, "blk.2.q")->name, "blk.2.other");
    found f = compare(&p);
    assert_int_equal(f.n, 3);
    assert_string_equal(f.list[0].name, "blk.2.other"); /* in the order of names without their layer */
    assert_true(!f.list[0].had && f.list[0].has);
    assert_string_equal(f.list[1].name, "blk.2.q");
    assert_true(f.list[1].had && !f.list[1].has);
    assert_string_equal(f.list[1].phase, "prefill");
    assert_string_equal(f.list[2].name, "blk.1.q");
    assert_string_equal(f.list[2].phase, "decode");
    assert_int_equal(f.list[2].after, f.list[2].before + 64);
    close_pair(&p);
}

static void layers_that_change_alike_are_told_once(void **state) {
    (void)state;
    static const char *const names[] = {"blk.0.q", "blk.1.q", "blk.2.q"};
    pair p;
    open_pair(&p, 8);
    for (int i = 0; i < 3; i++) value_of(p.b, DCT_PHASE_DECODE, names[i])->bytes += 64;
    found f = compare(&p);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.list[0].count, 3);
    assert_string_equal(f.list[0].name, "blk.*.q");
    value_of(p.b, DCT_PHASE_DECODE, names[2])->bytes += 64;
    f = compare(&p);
    assert_int_equal(f.n, 2);
    assert_int_equal(f.list[0].count, 2);
    assert_string_equal(f.list[1].name, "blk.2.q");
    close_pair(&p);
}

static void another_shape_of_as_many_bytes_is_told(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 8);
    dct_value *v = value_of(p.b, DCT_PHASE_DECODE, "blk.1.q");
    v->rows *= 2;
    found f = compare(&p);
    assert_int_equal(f.n, 1);
    assert_true(f.list[0].is_text);
    close_pair(&p);
}

/* What is not compared is not denied. */
static void other_places_are_not_the_same_plan(void **state) {
    (void)state;
    pair p;
    collected c = {0};
    dct_err err = {0};
    open_pair(&p, 8);
    p.b->phases[0].places[p.b->phases[0].cert.values[0]].offset += 64;
    assert_int_equal(compare(&p).n, 0);
    assert_false(are_same(&p));
    assert_int_equal(dct_plan_dump_diff(p.a, p.b, &p.work, collect, &c, &err), DCT_OK);
    assert_string_equal(c.text, "sizes, steps and waits are the same; places or the order of ops differ\n");
    free(c.text);
    close_pair(&p);
}

static void a_missing_phase_and_odd_names_are_shown(void **state) {
    (void)state;
    pair p;
    collected c = {0};
    dct_err err = {0};
    open_pair(&p, 8);
    strcpy(p.b->model_name, "\x1b[31m");
    strcpy(value_of(p.b, DCT_PHASE_PREFILL, "blk.0.q")->name, "blk.0.\x1b[31m");
    for (uint32_t i = 0; i < p.b->n_phases; i++) {
        if (p.b->phases[i].kind == DCT_PHASE_DECODE) p.b->phases[i] = p.b->phases[--p.b->n_phases];
    }
    assert_int_equal(dct_plan_dump_diff(p.a, p.b, &p.work, collect, &c, &err), DCT_OK);
    assert_null(strchr(c.text, '\x1b'));
    assert_non_null(strstr(c.text, "blk.0.\\u{1b}[31m"));
    assert_non_null(strstr(c.text, "\nphase decode\n"));
    assert_non_null(strstr(c.text, "->              -")); /* its height has no counterpart */
    free(c.text);
    close_pair(&p);
}

static bool tells(const found *f, uint32_t context, const char *section, const char *name, uint64_t before, uint64_t after) {
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->list[i].context == context && strcmp(f->list[i].section, section) == 0 && strcmp(f->list[i].name, name) == 0)
            return f->list[i].before == before && f->list[i].after == after;
    }
    return false;
}

/* Families: of as many members one by one, else by their contexts, and what only one of them has. */
static void members_are_compared(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 8);
    dct_compile_params params = params_of(&p.s, 64, 16, 8, 2), longer = params_of(&p.s, 128, 16, 8, 2);
    dct_plan *two = compile_family(&params, 1, &p.arenas[0]), *three = compile_family(&params, 2, &p.arenas[0]);
    p.a = three;
    p.b = compile_family(&params, 2, &p.arenas[1]);
    assert_int_equal(compare(&p).n, 0);
    p.b = compile_family(&longer, 2, &p.arenas[1]); /* 32, 64, 128 for 16, 32, 64 */
    found f = compare(&p);
    assert_true(tells(&f, 0, "bounds", "ctx", 64, 128));
    assert_true(tells(&f, 32, "bounds", "ctx", 16, 32));
    assert_true(tells(&f, 64, "bounds", "ctx", 32, 64));
    assert_true(tells(&f, 32, "envelope", "kv_bytes", three->smaller[0].region_bytes[DCT_REGION_KV],
                      three->smaller[1].region_bytes[DCT_REGION_KV]));
    assert_true(tells(&f, 32, "phase", "rows", 8, 16));
    for (uint32_t i = 0; i < f.n; i++) assert_string_not_equal(f.list[i].section, "family"); /* as many members */
    p.b = two; /* 32, 64 */
    f = compare(&p);
    uint64_t gone = three->smaller[0].region_bytes[DCT_REGION_KV] + dct_plan_arena_height(&three->smaller[0]);
    assert_true(tells(&f, 0, "family", "members", 3, 2));
    assert_true(tells(&f, 0, "family", "context 16", gone, 0));
    for (uint32_t i = 0; i < f.n; i++) assert_int_equal(f.list[i].context, 0); /* that of 32 is the same */
    p.a = two;
    p.b = three;
    f = compare(&p);
    assert_true(tells(&f, 0, "family", "context 16", 0, gone));
    close_pair(&p);
}

static void running_out_of_memory_is_told(void **state) {
    (void)state;
    pair p;
    dct_err err = {0};
    open_pair(&p, 16);
    for (uint64_t at = 1;; at++) {
        found f = {.n = 0};
        dct_arena_deinit(&p.work);
        dct_arena_init(&p.work, 0);
        p.work.n_allocs = 0;
        p.work.fail_at = at;
        dct_status status = dct_plan_compare(p.a, p.b, &p.work, keep, &f, &err);
        if (status == DCT_OK && at > 1) break;
        assert_int_equal(status, DCT_NO_FIT);
        assert_true(at < 64);
    }
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_plans_have_no_difference),
        cmocka_unit_test(terms_differ_by_what_the_whole_does),
        cmocka_unit_test(values_appear_vanish_and_grow),
        cmocka_unit_test(layers_that_change_alike_are_told_once),
        cmocka_unit_test(another_shape_of_as_many_bytes_is_told),
        cmocka_unit_test(other_places_are_not_the_same_plan),
        cmocka_unit_test(a_missing_phase_and_odd_names_are_shown),
        cmocka_unit_test(members_are_compared),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
