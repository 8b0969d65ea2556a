/* What lifetimes by happens-before win over lifetimes by waves. A wave holds the ops whose longest way from the inputs is the
 * same; waves run one after another, and all that is made or read in a wave is taken to be there together. Both are packed on one
 * schedule with the same waits: every step waits for all of the wave before its own, which makes waves sound. Happens-before then
 * keeps apart nothing that waves do not, but lets bytes pass inside a wave, from one op of a worker to that worker's next.
 *
 * The figures that this prints stand in docs/PACKING.md; DCTMS_CASES says how many random graphs, 2,000 unless given.
 */
#include "random_world.h"

#include <stdlib.h>

#include "compile/compile_support.h"
#include "compile/passes.h"

typedef unsigned long long ull;

enum { CASES = 2000, GRAPH_VALUES = 8192 };

/* The wave of each op, which follows who wrote what it reads. Returns how many waves. */
static uint32_t find_waves(const dct_graph *g, uint32_t *wave) {
    uint32_t n = 0;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        wave[k] = 0;
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            dct_op_id from = g->ops[k].in[i] != DCT_NONE ? g->values[g->ops[k].in[i]].producer : DCT_NONE;
            if (from != DCT_NONE && wave[k] <= wave[from]) wave[k] = wave[from] + 1;
        }
        if (wave[k] >= n) n = wave[k] + 1;
    }
    return n;
}

/* The same graph with its ops in the order of their waves. */
static void sort_by_wave(dct_graph *g, uint32_t *wave) {
    for (dct_op_id k = 1; k < g->n_ops; k++) {
        for (dct_op_id at = k; at > 0 && wave[at - 1] > wave[at]; at--) {
            dct_op op = g->ops[at];
            uint32_t its_wave = wave[at];
            g->ops[at] = g->ops[at - 1], wave[at] = wave[at - 1];
            g->ops[at - 1] = op, wave[at - 1] = its_wave;
        }
    }
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_out; i++) g->values[g->ops[k].out[i]].producer = k;
    }
}

/* The ops of a wave go round the workers; each waits for all of the wave before. */
static void schedule_waves(world *w, const uint32_t *wave) {
    dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    phase->n_steps = g->n_ops;
    phase->steps = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->steps);
    phase->waits = dct_arena_array(&w->arena, MAX_WAITS, sizeof *phase->waits);
    phase->scratch = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->scratch);
    assert_true(phase->steps != NULL && phase->waits != NULL && phase->scratch != NULL);
    for (dct_op_id k = 0, begin = 0; k < g->n_ops; k++) {
        if (k > 0 && wave[k] != wave[k - 1]) begin = k;
        phase->steps[k] = (dct_step){.n_ops = 1, .ops = {k}, .n_workers = 1, .wait_begin = phase->n_waits,
                                     .worker_first = (k - begin) % w->plan.bounds.threads};
        phase->scratch[k] = draw(4) == 0 ? make_scratch(w, k) : DCT_NONE;
        find_row(w, k);
        for (dct_op_id a = begin; a > 0 && wave[a - 1] + 1 == wave[k]; a--) {
            if (!is_before(w, a - 1, k)) wait_for(w, k, a - 1);
        }
    }
}

static uint64_t height_of(dct_pack_item *items, uint32_t n, dct_arena *arena) {
    dct_pack_result result;
    dct_err err = {0};
    dct_pack_params params = {.nodes = PACK_NODES};
    if (dct_pack(items, n, NULL, &params, arena, &result, &err) != DCT_OK) fail_msg("%s", err.message);
    return result.height;
}

/* The height when lives are counted in waves. */
static uint64_t height_by_waves(world *w, const uint32_t *wave) {
    dct_pack_item items[MAX_VALUES];
    dct_value_id value[MAX_VALUES];
    uint32_t n = find_items(w, items, value);
    for (uint32_t i = 0; i < n; i++) {
        items[i].begin = wave[items[i].begin]; /* ops are sorted by wave */
        items[i].end = wave[items[i].end - 1] + 1;
    }
    return height_of(items, n, &w->arena);
}

static void random_graphs(void **state) {
    (void)state;
    const char *given = getenv("DCTMS_CASES");
    uint64_t n = given != NULL ? strtoull(given, NULL, 10) : CASES;
    double sum[9] = {0};
    uint64_t cases[9] = {0}, lower = 0;
    for (uint64_t i = 0; i < n; i++) {
        world w;
        dct_err err = {0};
        uint32_t wave[MAX_OPS], threads = 2 + (uint32_t)(i % 7);
        begin_world(&w, i, threads);
        make_graph(&w);
        find_waves(&phase_of(&w)->graph, wave);
        sort_by_wave(&phase_of(&w)->graph, wave);
        schedule_waves(&w, wave);
        find_touches(&w);
        make_plan(&w, false);
        assert_int_equal(verify(&w, &err), DCT_DEFECT_NONE);
        uint64_t ours = phase_of(&w)->cert.height_bytes, theirs = height_by_waves(&w, wave);
        if (ours > theirs)
            fail_msg("case %llu: %llu bytes, by waves %llu", (ull)i, (ull)ours, (ull)theirs);
        sum[threads] += (double)ours / (double)theirs;
        cases[threads]++;
        lower += ours < theirs;
        dct_arena_deinit(&w.arena);
    }
    for (uint32_t t = 2; t <= 8; t++)
        print_message("%u workers: height by happens-before / by waves: %.4f\n", t, sum[t] / (double)cases[t]);
    print_message("%llu cases, lower in %llu\n", (ull)n, (ull)lower);
    assert_true(lower > n / 10);
}

/* ---- phases of real models ---- */

typedef struct lives {
    dct_pack_item items[GRAPH_VALUES];
    uint32_t item_of[GRAPH_VALUES], n; /* a root value: 1 + its item; 0: none yet */
} lives;

static void touch_in_wave(lives *l, const dct_graph *g, dct_value_id v, uint32_t wave) {
    if (v == DCT_NONE || g->values[v].kind != DCT_KIND_INTERMEDIATE) return;
    dct_value_id root = dct_alias_root(g, v);
    if (l->item_of[root] == 0) {
        l->items[l->n++] = (dct_pack_item){.size = g->values[root].bytes, .align = 64, .begin = wave, .end = wave + 1};
        l->item_of[root] = l->n;
    }
    dct_pack_item *item = &l->items[l->item_of[root] - 1];
    if (wave < item->begin) item->begin = wave;
    if (wave >= item->end) item->end = wave + 1;
}

static uint64_t graph_height_by_waves(const dct_graph *g, const dct_value_id *scratch, dct_arena *arena) {
    lives *l = dct_arena_alloc(arena, sizeof *l);
    uint32_t *wave = dct_arena_array(arena, g->n_ops, sizeof *wave);
    assert_true(l != NULL && wave != NULL && g->n_values <= GRAPH_VALUES);
    find_waves(g, wave);
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) touch_in_wave(l, g, g->ops[k].in[i], wave[k]);
        for (uint32_t i = 0; i < g->ops[k].n_out; i++) touch_in_wave(l, g, g->ops[k].out[i], wave[k]);
        touch_in_wave(l, g, scratch[k], wave[k]);
    }
    return height_of(l->items, l->n, arena);
}

/* The height of a phase before its ops are fused, and by waves: its branches are still there. */
static uint64_t traced_height(const dct_compile_params *p, dct_phase_kind kind, dct_arena *arena, uint64_t *by_waves) {
    dct_trace_params trace = dct_trace_params_of(&p->bounds, kind);
    dct_graph g;
    dct_schedule schedule;
    dct_lifetimes l;
    dct_err err = {0};
    dct_status status = dct_arch_trace(p->model, p->hp, &trace, arena, &g, &err);
    if (status == DCT_OK) status = dct_order(&g, p->bounds.threads, arena, &err);
    if (status == DCT_OK) status = dct_schedule_make(&g, &p->bounds, dct_profile_default(), true, arena, &schedule, &err);
    if (status == DCT_OK) status = dct_lifetimes_find(&g, &schedule, p->bounds.threads, arena, &l, &err);
    if (status != DCT_OK) fail_msg("%s", err.message);
    *by_waves = graph_height_by_waves(&g, l.scratch, arena);
    return height_of(l.items, l.n, arena);
}

static void compare_phases(const char *name, subject *s) {
    static const uint32_t threads[] = {1, 2, 4, 8, 16};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_compile_params params = params_of(s, 1280, 256, 512, threads[t]);
        const dct_plan *plan = compile_ok(&params, &arena);
        for (uint32_t i = 0; i < plan->n_phases; i++) {
            const dct_phase *phase = &plan->phases[i];
            uint64_t ours = phase->cert.height_bytes, waves = graph_height_by_waves(&phase->graph, phase->scratch, &arena);
            uint64_t traced_waves, traced = traced_height(&params, phase->kind, &arena, &traced_waves);
            if (threads[t] == 2)
                print_message("%s, %s: %llu bytes, by waves %llu; before fusing %llu, by waves %llu\n", name, phase->name,
                              (ull)ours, (ull)waves, (ull)traced, (ull)traced_waves);
            assert_true(ours <= waves && traced <= traced_waves);
        }
        dct_arena_deinit(&arena);
    }
}

static void real_phases(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    subject s;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        subject_tiny(&s, families[f], DCT_TYPE_Q8_0);
        compare_phases(families[f], &s);
        subject_close(&s);
    }
    subject_qwen(&s, &QWEN_1_5B);
    compare_phases("1.5B", &s);
    subject_close(&s);
    subject_qwen(&s, &QWEN_7B);
    compare_phases("7B", &s);
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(real_phases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
