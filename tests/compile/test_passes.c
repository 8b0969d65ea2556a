/* The passes one by one: what fusing does and refuses, and random graphs through order, schedule, lifetimes and packing, judged by a checker that knows
 * only ops, steps and waits. */
#include "compile/compile_support.h"
#include "compile/passes.h"

static uint64_t rng_state;
static uint32_t below(uint32_t n) { return (uint32_t)(dct_hash_mix(rng_state += UINT64_C(0x9e3779b97f4a7c15)) % n); }

/* ---- small graphs by hand ---- */

static dct_value_id weight(dct_graph *g, const char *name, dct_dtype type, uint32_t rows, uint32_t cols) {
    dct_weight w = {.type = type, .n_rows = rows, .n_cols = cols, .is_vector = rows == 1 && type == DCT_TYPE_F32};
    snprintf(w.tensor, sizeof w.tensor, "%s", name);
    w.bytes = w.is_vector ? dct_round_up((uint64_t)cols * 4, 64) : 0;
    if (!w.is_vector) assert_true(dct_layout_bytes(type, rows, cols, &w.bytes));
    return dct_graph_weight(g, &w);
}

enum { D = 64, ROWS = 3 };

static void begin_rows(dct_graph *g, dct_arena *arena, uint32_t rows) {
    dct_arena_init(arena, 0);
    dct_graph_init(g, arena, rows);
    g->ids = dct_graph_input_i32(g, "ids", rows, 1);
    g->pos = dct_graph_input_i32(g, "pos", rows, 4);
}

static void begin(dct_graph *g, dct_arena *arena) { begin_rows(g, arena, ROWS); }

static dct_value_id embed(dct_graph *g) { return dct_trace_embed(g, g->ids, weight(g, "embd", DCT_TYPE_Q8_0, 128, D), 1, "x"); }
static dct_value_id linear(dct_graph *g, dct_value_id x, const char *name, dct_value_id bias) { return dct_trace_linear(g, x, weight(g, name, DCT_TYPE_Q8_0, D, D), bias, 0, name); }
static dct_value_id norm(dct_graph *g, dct_value_id x, const char *name) { return dct_trace_rms_norm(g, x, weight(g, "norm", DCT_TYPE_F32, 1, D), 1e-6f, 0, name); }

/* "embed norm_quant linear": the kinds after fusing. */
static const char *fused_kinds(const dct_graph *traced, dct_graph *fused, char *out, size_t cap) {
    dct_err err = {0};
    if (dct_graph_check(traced, &err) != DCT_OK || dct_fuse(traced, traced->arena, fused, &err) != DCT_OK || dct_graph_check(fused, &err) != DCT_OK) fail_msg("%s", err.message);
    out[0] = '\0';
    for (dct_op_id i = 0; i < fused->n_ops; i++) {
        size_t used = strlen(out);
        snprintf(out + used, cap - used, "%s%s", i > 0 ? " " : "", dct_op_info_of(fused->ops[i].kind)->name);
    }
    return out;
}

static void fusing_needs_a_single_reader(void **state) {
    (void)state;
    char kinds[400];
    dct_arena arena;
    dct_graph g, fused;

    begin(&g, &arena);
    dct_value_id x = embed(&g), n = norm(&g, x, "n");
    dct_graph_output(&g, dct_trace_add(&g, x, linear(&g, n, "o", DCT_NONE), 0, "sum"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed norm_quant linear_add");
    assert_int_equal(fused.n_values, g.n_values - 2); /* the norm and the product are gone */
    dct_arena_deinit(&arena);

    begin(&g, &arena); /* the norm is wanted by the sum as well: nothing of it may vanish */
    x = embed(&g), n = norm(&g, x, "n");
    dct_graph_output(&g, dct_trace_add(&g, n, linear(&g, n, "o", DCT_NONE), 0, "sum"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed rms_norm quant linear_add");
    dct_arena_deinit(&arena);

    begin(&g, &arena); /* the product is read twice */
    x = embed(&g);
    dct_value_id y = linear(&g, x, "o", DCT_NONE);
    dct_graph_output(&g, dct_trace_add(&g, dct_trace_add(&g, x, y, 0, "a"), y, 0, "b"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed quant linear add add");
    dct_arena_deinit(&arena);

    begin(&g, &arena); /* the product on the left */
    x = embed(&g);
    dct_graph_output(&g, dct_trace_add(&g, linear(&g, x, "o", DCT_NONE), x, 0, "sum"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed quant linear_add");
    dct_arena_deinit(&arena);
}

static void a_glu_takes_two_products_without_bias(void **state) {
    (void)state;
    char kinds[400];
    dct_arena arena;
    dct_graph g, fused;
    for (int biased = 0; biased <= 1; biased++) {
        begin(&g, &arena);
        dct_value_id x = embed(&g), b = biased ? weight(&g, "b", DCT_TYPE_F32, 1, D) : DCT_NONE;
        dct_value_id gate = linear(&g, x, "gate", DCT_NONE), up = linear(&g, x, "up", b);
        dct_graph_output(&g, linear(&g, dct_trace_glu(&g, gate, up, DCT_ACT_SILU, 0, "glu"), "down", DCT_NONE));
        assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), biased ? "embed quant linear_multi glu quant linear" : "embed quant linear_glu quant linear");
        dct_arena_deinit(&arena);
    }
    begin(&g, &arena); /* of two inputs */
    dct_value_id x = embed(&g), gate = linear(&g, x, "gate", DCT_NONE), up = linear(&g, norm(&g, x, "n"), "up", DCT_NONE);
    dct_graph_output(&g, dct_trace_glu(&g, gate, up, DCT_ACT_SILU, 0, "glu"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed quant linear norm_quant linear glu");
    dct_arena_deinit(&arena);
}

static void products_of_one_input_go_by_threes(void **state) {
    (void)state;
    char kinds[400];
    dct_arena arena;
    dct_graph g, fused;
    begin(&g, &arena);
    dct_value_id x = embed(&g), b = weight(&g, "b", DCT_TYPE_F32, 1, D);
    dct_value_id y[4] = {linear(&g, x, "a", DCT_NONE), linear(&g, x, "b1", b), linear(&g, x, "c", DCT_NONE), linear(&g, x, "d", DCT_NONE)};
    dct_value_id sum = dct_trace_add(&g, dct_trace_add(&g, y[0], y[1], 0, "s1"), dct_trace_add(&g, y[2], y[3], 0, "s2"), 0, "s");
    dct_graph_output(&g, dct_trace_add(&g, sum, dct_trace_add(&g, y[0], dct_trace_add(&g, y[1], dct_trace_add(&g, y[2], y[3], 0, "t3"), 0, "t2"), 0, "t1"), 0, "t"));
    assert_string_equal(fused_kinds(&g, &fused, kinds, sizeof kinds), "embed quant linear_multi linear add add add add add add add");
    const dct_op *multi = &fused.ops[2];
    assert_int_equal(multi->in[4], DCT_NONE);
    assert_string_equal(fused.values[multi->in[5]].name, "b");
    assert_string_equal(fused.values[multi->out[2]].name, "blk.0.c");
    dct_arena_deinit(&arena);
}

/* ---- random graphs ---- */

static void random_graph(dct_graph *g, dct_arena *arena, uint32_t rows) {
    begin_rows(g, arena, rows);
    dct_value_id pool[64] = {embed(g)};
    uint32_t n = 1, ops = 3 + below(20);
    for (uint32_t i = 0; i < ops; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        dct_value_id a = pool[below(n)], b = pool[below(n)], made = DCT_NONE;
        switch (below(6)) {
        case 0: made = norm(g, a, name); break;
        case 1: made = dct_trace_add(g, a, b, 0, name); break;
        case 2: made = dct_trace_glu(g, a, b, DCT_ACT_SILU, 0, name); break;
        default: made = linear(g, a, name, DCT_NONE); break;
        }
        pool[n++] = made;
    }
    dct_value_id out = pool[n - 1];
    for (uint32_t i = 0; i + 1 < n; i += 3) out = dct_trace_add(g, out, pool[i], 0, "end"); /* keeps old values alive */
    dct_graph_output(g, linear(g, out, "last", DCT_NONE));
}

enum { MAX_STEPS = 128 };

/* after[t][s]: step s is complete before step t, by waits alone (by order as well when one worker runs all). */
static void close_order(const dct_schedule *s, uint32_t threads, bool after[MAX_STEPS][MAX_STEPS]) {
    assert_true(s->n_steps <= MAX_STEPS);
    memset(after, 0, sizeof(bool[MAX_STEPS][MAX_STEPS]));
    for (uint32_t t = 0; t < s->n_steps; t++) {
        for (uint32_t w = 0; w < s->steps[t].n_waits; w++) after[t][s->waits[s->steps[t].wait_begin + w]] = true;
        if (threads == 1 && t > 0) after[t][t - 1] = true;
        for (uint32_t m = t; m > 0; m--) {
            for (uint32_t e = 0; after[t][m - 1] && e < m - 1; e++) after[t][e] |= after[m - 1][e];
        }
    }
}

static bool ordered(const dct_schedule *s, bool after[MAX_STEPS][MAX_STEPS], dct_op_id a, dct_op_id b) {
    return s->step_of[a] == s->step_of[b] ? a < b : after[s->step_of[b]][s->step_of[a]];
}

static bool names(const dct_graph *g, dct_op_id i, const dct_lifetimes *l, dct_value_id root) {
    for (uint32_t k = 0; k < g->ops[i].n_in; k++) {
        if (g->ops[i].in[k] != DCT_NONE && dct_alias_root(g, g->ops[i].in[k]) == root) return true;
    }
    for (uint32_t k = 0; k < g->ops[i].n_out; k++) {
        if (g->ops[i].out[k] != DCT_NONE && dct_alias_root(g, g->ops[i].out[k]) == root) return true;
    }
    return l->scratch[i] == root;
}

/* All accesses of x before all of y, or the other way round. */
static bool apart(const dct_graph *g, const dct_schedule *s, bool after[MAX_STEPS][MAX_STEPS], const dct_lifetimes *l, dct_value_id x, dct_value_id y) {
    bool forward = true, backward = true;
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        for (dct_op_id j = 0; j < g->n_ops; j++) {
            if (!names(g, i, l, x) || !names(g, j, l, y)) continue;
            forward &= i != j && ordered(s, after, i, j);
            backward &= i != j && ordered(s, after, j, i);
        }
    }
    return forward || backward;
}

static void judge(const dct_graph *g, const dct_schedule *s, const dct_lifetimes *l, uint32_t threads) {
    static bool after[MAX_STEPS][MAX_STEPS];
    close_order(s, threads, after);
    for (dct_op_id i = 0; i < g->n_ops; i++) { /* what is read was complete */
        for (uint32_t k = 0; k < g->ops[i].n_in; k++) {
            dct_value_id v = g->ops[i].in[k];
            if (v != DCT_NONE && g->values[v].producer != DCT_NONE) assert_true(ordered(s, after, g->values[v].producer, i));
        }
        for (uint32_t k = 0; k < g->ops[i].n_out; k++) { /* what is overwritten in place was read by all others */
            dct_value_id from = g->ops[i].out[k] != DCT_NONE ? g->values[g->ops[i].out[k]].alias_of : DCT_NONE;
            for (dct_op_id j = 0; from != DCT_NONE && j < g->n_ops; j++) {
                bool reads = false;
                for (uint32_t m = 0; m < g->ops[j].n_in; m++) reads |= g->ops[j].in[m] == from;
                if (reads && j != i) assert_true(ordered(s, after, j, i));
            }
        }
    }
    for (uint32_t x = 0; x < l->n; x++) { /* who shares bytes is never there together */
        for (uint32_t y = 0; y < x; y++) {
            const dct_pack_item *a = &l->items[x], *b = &l->items[y];
            if (a->offset < b->offset + b->size && b->offset < a->offset + a->size) assert_true(apart(g, s, after, l, l->values[x], l->values[y]));
        }
    }
    for (uint32_t t = 0; t < s->n_steps; t++) { /* no wait says what another implies */
        for (uint32_t w = 0; w < s->steps[t].n_waits; w++) {
            uint32_t waited = s->waits[s->steps[t].wait_begin + w];
            for (uint32_t o = 0; o < s->steps[t].n_waits; o++) assert_false(after[s->waits[s->steps[t].wait_begin + o]][waited]);
        }
    }
}

static void random_graphs_hold(void **state) {
    (void)state;
    uint32_t unordered = 0, in_place = 0;
    for (uint32_t round = 0; round < 400; round++) {
        rng_state = round * 1000;
        dct_arena arena;
        dct_graph traced, g;
        dct_schedule s;
        dct_lifetimes l;
        dct_pack_result packed;
        dct_err err = {0};
        random_graph(&traced, &arena, round % 2 == 1 ? 9 : ROWS); /* 9: more than a tail may have, so every op is a step */
        uint32_t threads = 1 + round % 3;
        dct_bounds bounds = {.n_ctx = 32, .threads = threads};
        dct_profile profile = *dct_profile_default();
        if (round % 4 >= 2) profile.bytes_per_s_all = 1e18; /* nothing is bandwidth-bound: steps may overlap */
        if (dct_graph_check(&traced, &err) != DCT_OK || dct_fuse(&traced, &arena, &g, &err) != DCT_OK || dct_order(&g, threads, &arena, &err) != DCT_OK ||
            dct_graph_check(&g, &err) != DCT_OK || dct_schedule_make(&g, &bounds, &profile, false, &arena, &s, &err) != DCT_OK ||
            dct_lifetimes_find(&g, &s, threads, &arena, &l, &err) != DCT_OK || dct_pack(l.items, l.n, l.conflict, &(dct_pack_params){.nodes = 500}, &arena, &packed, &err) != DCT_OK) {
            fail_msg("round %u: %s", round, err.message);
        }
        judge(&g, &s, &l, threads);
        unordered += l.conflict != NULL;
        for (dct_value_id v = 0; v < g.n_values; v++) in_place += g.values[v].alias_of != DCT_NONE;
        dct_arena_deinit(&arena);
    }
    assert_true(unordered > 50); /* both ways of judging were met */
    assert_true(in_place > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fusing_needs_a_single_reader),
        cmocka_unit_test(a_glu_takes_two_products_without_bias),
        cmocka_unit_test(products_of_one_input_go_by_threes),
        cmocka_unit_test(random_graphs_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
