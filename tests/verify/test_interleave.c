/* Packer, verifier and a simulator agree on random graphs and schedules of 2 to 8 workers (random_world.h, simulator.h), and on
 * the plans of all families:
 *
 *   - what dct_pack places, the verifier accepts, and the simulator never sees a live byte overwritten;
 *   - with one wait removed, the simulator sees one exactly when the verifier refuses, and the verifier names what was hurt;
 *   - bytes that are shared by order of index alone are found out by both.
 *
 * 2,000 cases; DCTMS_CASES=100000 or `make interleave` for as many as the project promises.
 */
#include "random_world.h"
#include "simulator.h"

typedef unsigned long long ull;

enum { CASES = 2000, RANDOM_RUNS = 3 };

static uint64_t cases(void) {
    const char *given = getenv("DCTMS_CASES");
    return given != NULL ? strtoull(given, NULL, 10) : CASES;
}

static void make_case(world *w, uint64_t i, bool index_order) {
    make_world(w, i, 2 + (uint32_t)(i % 7));
    make_plan(w, index_order);
}

/* Op for op in the middle of what it does while all others go as far as they can; then by lot. */
static void simulate(simulator *s, const dct_plan *plan, const dct_phase *phase) {
    sim_open(s, phase, plan->region_bytes, plan->bounds.threads);
    sim_run_each_held(s);
    for (int i = 0; i < RANDOM_RUNS; i++) sim_run_random(s, draw);
}

/* The value of that name: the text in quotes behind *text, which is moved on. */
static dct_value_id next_named(const dct_graph *g, const char **text) {
    const char *open = strchr(*text, '\''), *close = open != NULL ? strchr(open + 1, '\'') : NULL;
    if (close == NULL) return DCT_NONE;
    *text = close + 1;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        size_t n = strlen(g->values[v].name);
        if (n == (size_t)(close - open - 1) && memcmp(g->values[v].name, open + 1, n) == 0) return v;
    }
    return DCT_NONE;
}

/* The verifier's words name a value that was hurt in the simulator. */
static bool names_a_victim(const simulator *s, const char *message) {
    dct_value_id v;
    while ((v = next_named(&s->phase->graph, &message)) != DCT_NONE) {
        if (s->hurt[v]) return true;
    }
    return false;
}

static bool is_unsafe(dct_defect defect) {
    return defect == DCT_DEFECT_STEP_ORDER || defect == DCT_DEFECT_OVERLAP || defect == DCT_DEFECT_ALIAS_INVALID;
}

/* The simulator sees harm exactly when the verifier, whose answer this is, refuses. */
static void agree(const char *name, const dct_plan *plan, const dct_phase *phase, dct_defect defect, const dct_err *err) {
    simulator s;
    simulate(&s, plan, phase);
    if (is_unsafe(defect) != (s.n_hurt > 0))
        fail_msg("%s: the verifier says %s, values were hurt %u times", name, dct_defect_name(defect), s.n_hurt);
    if (s.n_hurt > 0 && !names_a_victim(&s, err->message))
        fail_msg("%s: \"%s\" names nothing that was hurt", name, err->message);
    sim_close(&s);
}

static dct_defect judge(world *w, uint64_t i) {
    dct_err err = {0};
    dct_defect defect = verify(w, &err);
    char name[32];
    snprintf(name, sizeof name, "case %llu", (ull)i);
    agree(name, &w->plan, phase_of(w), defect, &err);
    return defect;
}

static void waits_are_all_that_keeps_bytes_apart(void **state) {
    (void)state;
    uint64_t n = cases(), refused[DCT_DEFECT_COUNT] = {0}, n_unsafe = 0;
    for (uint64_t i = 0; i < n; i++) {
        world w;
        make_case(&w, i, false);
        assert_int_equal(judge(&w, i), DCT_DEFECT_NONE);
        if (phase_of(&w)->n_waits > 0) {
            drop_wait(phase_of(&w), draw(phase_of(&w)->n_waits));
            dct_defect defect = judge(&w, i);
            refused[defect]++;
            n_unsafe += is_unsafe(defect);
        }
        dct_arena_deinit(&w.arena);
    }
    print_message("%llu cases, a wait removed: %llu refused for order, %llu for sharing bytes, %llu in place; %llu harmless\n",
                  (ull)n, (ull)refused[DCT_DEFECT_STEP_ORDER], (ull)refused[DCT_DEFECT_OVERLAP],
                  (ull)refused[DCT_DEFECT_ALIAS_INVALID], (ull)(n - n_unsafe));
    assert_true(refused[DCT_DEFECT_STEP_ORDER] > n / 4 && refused[DCT_DEFECT_OVERLAP] > n / 100);
}

/* What a planner for one thread does: it is right for one thread, and corrupts data when steps run at the same time. */
static void order_of_index_is_not_order(void **state) {
    (void)state;
    uint64_t n = cases() / 4, n_unsafe = 0;
    for (uint64_t i = 0; i < n; i++) {
        world w;
        simulator s;
        make_case(&w, i, true);
        sim_open(&s, phase_of(&w), w.plan.region_bytes, w.plan.bounds.threads);
        sim_run_in_order(&s);
        assert_int_equal(s.n_hurt, 0);
        sim_close(&s);
        dct_defect defect = judge(&w, i);
        assert_true(defect == DCT_DEFECT_NONE || defect == DCT_DEFECT_OVERLAP);
        n_unsafe += defect != DCT_DEFECT_NONE;
        dct_arena_deinit(&w.arena);
    }
    print_message("%llu cases packed by order of index: %llu corrupt data\n", (ull)n, (ull)n_unsafe);
    assert_true(n_unsafe > n / 4);
}

/* A plan as compile/ makes it, and the same with one wait less. */
static void judge_plan(bench *b, uint32_t phase_number, uint32_t tries) {
    dct_phase *phase = &b->plan->phases[phase_number];
    dct_err err = {0};
    assert_int_equal(bench_verify(b, &err), DCT_DEFECT_NONE);
    agree(phase->name, b->plan, phase, DCT_DEFECT_NONE, &err);
    for (uint32_t i = 0; i < tries && phase->n_waits > 0; i++) {
        dct_phase whole = *phase;
        phase->steps = dct_arena_array(&b->arena, whole.n_steps, sizeof *whole.steps);
        phase->waits = dct_arena_array(&b->arena, whole.n_waits, sizeof *whole.waits);
        assert_true(phase->steps != NULL && phase->waits != NULL);
        memcpy(phase->steps, whole.steps, whole.n_steps * sizeof *whole.steps);
        memcpy(phase->waits, whole.waits, whole.n_waits * sizeof *whole.waits);
        drop_wait(phase, draw(phase->n_waits));
        dct_defect defect = bench_verify(b, &err);
        agree(phase->name, b->plan, phase, defect, &err);
        *phase = whole;
    }
}

static void plans_of_all_families_hold(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    static const uint32_t threads[] = {1, 2, 4, 8};
    lot = 1;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            bench b;
            gguf_tiny tiny = gguf_tiny_default(families[f], t % 2 == 0 ? DCT_TYPE_Q8_0 : DCT_TYPE_F16);
            dct_bounds bounds = small_bounds(threads[t]);
            bench_open(&b, &tiny, &bounds);
            for (uint32_t i = 0; i < b.plan->n_phases; i++) judge_plan(&b, i, 4);
            bench_close(&b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_all_that_keeps_bytes_apart),
        cmocka_unit_test(order_of_index_is_not_order),
        cmocka_unit_test(plans_of_all_families_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
