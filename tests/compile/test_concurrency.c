/* Maximal sets of operations that no path connects, against all subsets of small graphs; and the bounds of running side by side. */
#include "compile/compile_support.h"
#include "compile/concurrency.h"

enum { MOST_OPS = 9, GRAPHS = 2000 };

/* Ops that each make a value out of up to three earlier ones. */
typedef struct small_graph {
    dct_graph g;
    dct_op ops[MOST_OPS];
    dct_value values[MOST_OPS];
} small_graph;

static uint64_t seed;

static uint32_t draw(uint32_t below) {
    seed = dct_hash_mix(seed + 1);
    return (uint32_t)(seed % below);
}

static void make_graph(small_graph *s, uint64_t number) {
    seed = number * 1000;
    memset(s, 0, sizeof *s);
    s->g.ops = s->ops;
    s->g.values = s->values;
    s->g.n_ops = s->g.n_values = 1 + draw(MOST_OPS);
    for (uint32_t i = 0; i < s->g.n_ops; i++) {
        dct_op *op = &s->ops[i];
        op->kind = DCT_OP_ADD;
        op->n_out = 1;
        op->out[0] = i;
        op->n_in = draw(4);
        for (uint32_t k = 0; k < op->n_in; k++) op->in[k] = i > 0 ? draw(i) : DCT_NONE;
    }
}

static bool has_path(const small_graph *s, uint32_t from, uint32_t to) {
    for (uint32_t k = 0; k < s->ops[to].n_in; k++) {
        uint32_t in = s->ops[to].in[k];
        if (in != DCT_NONE && (in == from || has_path(s, from, in))) return true;
    }
    return false;
}

static bool may_meet(const small_graph *s, uint32_t a, uint32_t b) { return a != b && !has_path(s, a, b) && !has_path(s, b, a); }

static bool is_set(const small_graph *s, uint32_t set) {
    for (uint32_t a = 0; a < s->g.n_ops; a++) {
        for (uint32_t b = 0; b < a; b++) {
            if ((set >> a & 1) && (set >> b & 1) && !may_meet(s, a, b)) return false;
        }
    }
    return true;
}

static bool is_maximal(const small_graph *s, uint32_t set) {
    for (uint32_t a = 0; a < s->g.n_ops; a++) {
        if ((set >> a & 1) == 0 && is_set(s, set | 1u << a)) return false;
    }
    return true;
}

static uint32_t mask_of(const dct_op_set *set) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        assert_true(i == 0 || set->ops[i - 1] < set->ops[i]);
        mask |= 1u << set->ops[i];
    }
    return mask;
}

/* At the first op in which they differ, as two maximal sets always do. */
static bool is_before(const dct_op_set *a, const dct_op_set *b) {
    uint32_t i = 0;
    while (i < a->n && i < b->n && a->ops[i] == b->ops[i]) i++;
    return i < a->n && i < b->n && a->ops[i] < b->ops[i];
}

static void sets_are_those_of_brute_force(void **state) {
    (void)state;
    for (uint64_t number = 0; number < GRAPHS; number++) {
        small_graph s;
        dct_arena arena;
        dct_op_sets sets;
        dct_err err = {0};
        uint32_t expected = 0, alone = 0;
        make_graph(&s, number);
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_op_sets_find(&s.g, 1000, &arena, &sets, &err), DCT_OK);
        for (uint32_t set = 1; set < 1u << s.g.n_ops; set++) {
            if (!is_set(&s, set) || !is_maximal(&s, set)) continue;
            bool single = (set & (set - 1)) == 0;
            alone += single;
            expected += !single;
        }
        assert_true(sets.is_complete);
        assert_int_equal(sets.n, expected);
        assert_int_equal(sets.n_alone, alone);
        for (uint32_t i = 0; i < sets.n; i++) {
            assert_true(is_set(&s, mask_of(&sets.sets[i])) && is_maximal(&s, mask_of(&sets.sets[i])));
            for (uint32_t k = 0; k < i; k++) assert_int_not_equal(mask_of(&sets.sets[k]), mask_of(&sets.sets[i]));
            assert_true(i == 0 || is_before(&sets.sets[i - 1], &sets.sets[i]));
        }
        dct_arena_deinit(&arena);
    }
}

/* 3 ops that depend on nothing, each followed by one: 8 sets. */
static void no_more_sets_than_asked_for(void **state) {
    (void)state;
    small_graph s = {.g = {.n_ops = 6, .n_values = 6}};
    s.g.ops = s.ops;
    s.g.values = s.values;
    for (uint32_t i = 0; i < 6; i++) {
        s.ops[i].kind = DCT_OP_ADD;
        s.ops[i].n_in = i >= 3;
        s.ops[i].in[0] = i >= 3 ? i - 3 : 0;
        s.ops[i].n_out = 1;
        s.ops[i].out[0] = i;
    }
    for (uint32_t most = 1; most <= 9; most++) {
        dct_arena arena;
        dct_op_sets sets;
        dct_err err = {0};
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_op_sets_find(&s.g, most, &arena, &sets, &err), DCT_OK);
        assert_int_equal(sets.n, most < 8 ? most : 8);
        assert_int_equal(sets.is_complete, most >= 8);
        dct_arena_deinit(&arena);
    }
}

static void running_out_of_memory_is_told(void **state) {
    (void)state;
    small_graph s;
    make_graph(&s, 7);
    for (uint64_t at = 1;; at++) {
        dct_arena arena;
        dct_op_sets sets;
        dct_err err = {0};
        dct_arena_init(&arena, 0);
        arena.fail_at = at;
        dct_status status = dct_op_sets_find(&s.g, 100, &arena, &sets, &err);
        dct_arena_deinit(&arena);
        if (status == DCT_OK && at > 1) break;
        assert_int_equal(status, DCT_NO_FIT);
        assert_true(err.message[0] != '\0' && at < 200);
    }
}

/* Caches order what stores before what reads; layers stand one behind the other. */
static void a_decoder_has_its_products_side_by_side(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    dct_graph traced;
    dct_op_sets sets;
    dct_err err = {0};
    subject_tiny(&s, "llama", DCT_TYPE_Q8_0);
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 64, 16, 8, 2);
    dct_trace_params trace = dct_trace_params_of(&params.bounds, DCT_PHASE_DECODE);
    assert_int_equal(dct_arch_trace(&s.model, &s.hp, &trace, &arena, &traced, &err), DCT_OK);
    assert_int_equal(dct_op_sets_find(&traced, 1000, &arena, &sets, &err), DCT_OK);
    uint32_t n_products = 0;
    for (uint32_t i = 0; i < sets.n; i++) {
        bool products = sets.sets[i].n == 3;
        for (uint32_t k = 0; k < sets.sets[i].n; k++) {
            const dct_op *op = &traced.ops[sets.sets[i].ops[k]];
            assert_true(op->kind != DCT_OP_ATTN && op->kind != DCT_OP_ATTN_PART);
            assert_int_equal(op->layer, traced.ops[sets.sets[i].ops[0]].layer);
            products = products && op->kind == DCT_OP_LINEAR;
        }
        n_products += products;
    }
    assert_int_equal(n_products, s.hp.n_layer);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void side_by_side_wins_no_more_than_its_bound(void **state) {
    (void)state;
    subject s;
    subject_qwen(&s, &QWEN_1_5B);
    static const uint32_t threads[] = {1, 2, 4, 16};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_compile_params params = params_of(&s, 1280, 256, 512, threads[i]);
        dct_baselines b = dct_baselines_of(compile_ok(&params, &arena), dct_profile_default());
        assert_true(b.sequential_us > 0 && b.corun_us <= b.sequential_us && b.n_tokens >= 1);
        assert_true(b.sequential_us <= b.corun_us * b.gain_max * 1.000001);
        if (threads[i] == 1) assert_true(b.gain_max == 1 && b.corun_us == b.sequential_us);
        else assert_true(b.gain_max > 1 && b.gain_max < 2 && b.sequential_us > b.corun_us * (b.gain_max - 0.02)); /* balanced but for a token */
        if (threads[i] == 2) { /* planning: 1 / speed-up of products + share of the bandwidth */
            const dct_profile *p = dct_profile_default();
            double g = p->macs_per_s_one / p->macs_per_s_all + p->bytes_per_s_one / p->bytes_per_s_all;
            assert_true(b.gain_max > g - 1e-9 && b.gain_max < g + 1e-9);
        }
        dct_arena_deinit(&arena);
    }
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_those_of_brute_force),
        cmocka_unit_test(no_more_sets_than_asked_for),
        cmocka_unit_test(running_out_of_memory_is_told),
        cmocka_unit_test(a_decoder_has_its_products_side_by_side),
        cmocka_unit_test(side_by_side_wins_no_more_than_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
