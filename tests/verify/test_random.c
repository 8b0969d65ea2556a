/* Random graphs on random schedules: what dct_pack places with the conflicts that random_world.h works out, the verifier accepts;
 * and when a value is moved or a wait removed at random, both agree on whether that did harm. */
#include "random_world.h"

enum { WORLDS = 300, THREADS = 3 };

static void find_order(world *w) {
    for (uint32_t b = 0; b < phase_of(w)->n_steps; b++) find_row(w, b);
}

static bool any_alias_harmed(const world *w) {
    const dct_graph *g = &w->plan.phases[0].graph;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (g->values[v].alias_of != DCT_NONE && !is_only_mine(w, g->values[v].producer, g->values[v].alias_of)) return true;
    }
    return false;
}

static bool any_overlap(world *w) {
    const dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    for (dct_value_id x = 0; x < g->n_values; x++) {
        for (dct_value_id y = x + 1; y < g->n_values; y++) {
            if (!is_buffer(g, x) || !is_buffer(g, y) || !conflict(w, x, y)) continue;
            uint64_t a = phase->places[x].offset, b = phase->places[y].offset;
            if (a < b + g->values[y].bytes && b < a + g->values[x].bytes) return true;
        }
    }
    return false;
}

static bool reads_before_write(world *w) {
    const dct_graph *g = &phase_of(w)->graph;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            dct_op_id p = g->values[g->ops[k].in[i]].producer;
            if (p != DCT_NONE && !is_before(w, p, k)) return true;
        }
    }
    return false;
}

static void test_packed_plans_pass(void **state) {
    (void)state;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        dct_err err = {0};
        make_world(&w, i, THREADS);
        make_plan(&w, false);
        dct_defect defect = verify(&w, &err);
        if (defect != DCT_DEFECT_NONE) fail_msg("world %u: %s", (unsigned)i, dct_defect_name(defect));
        dct_arena_deinit(&w.arena);
    }
}

static void test_moved_values(void **state) {
    (void)state;
    uint32_t harmed = 0, harmless = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        dct_err err = {0};
        make_world(&w, i, THREADS);
        make_plan(&w, false);
        dct_phase *phase = phase_of(&w);
        dct_graph *g = &phase->graph;
        dct_value_id v = draw(g->n_values);
        while (!is_buffer(g, v)) v = draw(g->n_values);
        uint64_t room = w.plan.region_bytes[DCT_REGION_ARENA] - g->values[v].bytes;
        uint64_t to = (uint64_t)draw((uint32_t)(room / 64) + 1) * 64;
        for (dct_value_id u = 0; u < g->n_values; u++) {
            if (root_of(g, u) == v) phase->places[u].offset = to;
        }
        bool harm = any_overlap(&w);
        dct_defect defect = verify(&w, &err);
        if (harm) assert_int_equal(defect, DCT_DEFECT_OVERLAP);
        else assert_true(defect == DCT_DEFECT_NONE || defect == DCT_DEFECT_CERTIFICATE_WRONG);
        harmed += harm;
        harmless += !harm;
        dct_arena_deinit(&w.arena);
    }
    assert_true(harmed > WORLDS / 20 && harmless > WORLDS / 20); /* both answers were asked for */
}

static void test_removed_waits(void **state) {
    (void)state;
    uint32_t harmed = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        dct_err err = {0};
        make_world(&w, i, THREADS);
        make_plan(&w, false);
        dct_phase *phase = phase_of(&w);
        if (phase->n_waits > 0) {
            drop_wait(phase, draw(phase->n_waits));
            find_order(&w);
            dct_defect defect = verify(&w, &err);
            if (reads_before_write(&w)) assert_int_equal(defect, DCT_DEFECT_STEP_ORDER);
            else if (any_overlap(&w) && any_alias_harmed(&w))
                assert_true(defect == DCT_DEFECT_OVERLAP || defect == DCT_DEFECT_ALIAS_INVALID);
            else if (any_overlap(&w)) assert_int_equal(defect, DCT_DEFECT_OVERLAP);
            else if (any_alias_harmed(&w)) assert_int_equal(defect, DCT_DEFECT_ALIAS_INVALID);
            else assert_true(defect == DCT_DEFECT_NONE || defect == DCT_DEFECT_CERTIFICATE_WRONG);
            harmed += defect == DCT_DEFECT_STEP_ORDER || defect == DCT_DEFECT_OVERLAP;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(harmed > WORLDS / 4);
}

/* A result put in place although another worker may still read what it overwrites. */
static void test_unsafe_aliases(void **state) {
    (void)state;
    uint32_t n = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        dct_err err = {0};
        make_world(&w, i, THREADS);
        make_plan(&w, false);
        dct_phase *phase = phase_of(&w);
        dct_graph *g = &phase->graph;
        for (dct_op_id k = 0; k < g->n_ops; k++) {
            if (!may_alias(g, k)) continue;
            dct_value_id out = g->ops[k].out[0], in = g->ops[k].in[dct_op_info_of(g->ops[k].kind)->inplace];
            if (!is_buffer(g, out) || root_of(g, in) != in || is_only_mine(&w, k, in)) continue;
            g->values[out].alias_of = in;
            for (dct_value_id v = 0; v < g->n_values; v++) phase->places[v] = phase->places[root_of(g, v)];
            find_touches(&w);
            dct_defect defect = verify(&w, &err);
            assert_true(defect == DCT_DEFECT_ALIAS_INVALID || (any_overlap(&w) && defect == DCT_DEFECT_OVERLAP));
            n += defect == DCT_DEFECT_ALIAS_INVALID;
            break;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(n > WORLDS / 20);
}

/* A load that is too small is a true lower bound all the same; but it is not the load, whether the steps form a chain or not. */
static void test_understated_loads(void **state) {
    (void)state;
    uint32_t n = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        dct_err err = {0};
        make_world(&w, i, THREADS);
        make_plan(&w, false);
        dct_certificate *cert = &phase_of(&w)->cert;
        if (cert->n_values > 1) {
            cert->load_bytes -= phase_of(&w)->graph.values[cert->values[--cert->n_values]].bytes;
            cert->optimal = false;
            assert_int_equal(verify(&w, &err), DCT_DEFECT_CERTIFICATE_WRONG);
            n++;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(n > WORLDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_plans_pass), cmocka_unit_test(test_moved_values), cmocka_unit_test(test_removed_waits),
        cmocka_unit_test(test_unsafe_aliases), cmocka_unit_test(test_understated_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
