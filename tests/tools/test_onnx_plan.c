/* The memory of ONNX graphs: random graphs, whose loads, lifetimes and packings are counted again step by step, from the nodes
 * alone; what shares bytes, what does not; and the reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/onnx_build.h"
#include "tools/onnx_memory.h"
#include "tools/tools.h"

typedef struct planned {
    dct_arena arena;
    dct_onnx_graph g;
    dct_onnx_memory m;
} planned;

static void plan_graph(pb graph, bool keep_order, planned *p) {
    dct_err err;
    uint32_t n_unshaped;
    pb model = onnx_model(&graph);
    dct_arena_init(&p->arena, 0);
    dct_status status = dct_onnx_open_bytes(model.bytes, model.n, &p->arena, &p->g, &err);
    if (status == DCT_OK) status = dct_onnx_check_bound(&p->g, &err);
    if (status == DCT_OK) status = dct_onnx_shape(&p->g, &p->arena, &n_unshaped, &err);
    if (status != DCT_OK) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < p->g.n_nodes; i++)
        if (p->g.nodes[i].why != NULL) fail_msg("node %u: %s", i, p->g.nodes[i].why);
    status = dct_onnx_place_values(&p->g, 0, keep_order, &p->arena, &p->m, &err);
    if (status != DCT_OK) fail_msg("%s", err.message);
    pb_free(&model);
}

static const dct_onnx_place *place_of(const planned *p, const char *name) {
    for (uint32_t v = 0; v < p->g.n_values; v++)
        if (dct_str_eq_z(p->g.values[v].name, name)) return &p->m.places[v];
    fail_msg("no value '%s'", name);
    return NULL;
}

/* ---- counted again ---- */

static bool touches(const planned *p, uint32_t step, uint32_t v) {
    const dct_onnx_node *node = &p->g.nodes[p->m.steps[step]];
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] == v) return true;
    for (uint32_t k = 0; k < node->n_out; k++)
        if (node->out[k] == v) return true;
    return false;
}

/* Whether value v must be kept at a step: it has been written by then, and a step from then on touches it. */
static bool is_needed(const planned *p, uint32_t v, uint32_t step) {
    bool before = false, after = false;
    for (uint32_t t = 0; t < p->m.n_steps; t++) {
        if (!touches(p, t, v)) continue;
        if (t <= step) before = true;
        if (t >= step) after = true;
    }
    return before && after;
}

/* Every byte of the arena belongs to one buffer at a time; the load is the largest sum of buffers; a value that is overwritten in
 * place is not touched any more. */
static void count_again(const planned *p) {
    uint64_t load = 0, height = 0;
    bool *live = calloc(p->g.n_values, sizeof *live);
    for (uint32_t t = 0; t < p->m.n_steps; t++) {
        uint64_t sum = 0;
        memset(live, 0, p->g.n_values * sizeof *live);
        for (uint32_t v = 0; v < p->g.n_values; v++) {
            const dct_onnx_place *place = &p->m.places[v];
            if (place->region == DCT_ONNX_ARENA && is_needed(p, v, t)) live[place->root] = true;
            if (place->in_place) /* what lay there, views of it as well, is touched last by the step that overwrites it */
                for (uint32_t w = 0; w < p->g.n_values; w++)
                    assert_false(w != v && p->m.places[w].root == place->root && p->m.places[w].first < place->first &&
                                 t > place->first && touches(p, t, w) && p->m.places[w].last > place->first);
        }
        for (uint32_t a = 0; a < p->g.n_values; a++) {
            if (!live[a]) continue;
            uint64_t a_low = p->m.places[a].offset, a_high = a_low + p->m.places[a].bytes;
            sum += p->m.places[a].bytes;
            if (a_high > height) height = a_high;
            for (uint32_t b = 0; b < a; b++) {
                uint64_t b_low = p->m.places[b].offset, b_high = b_low + p->m.places[b].bytes;
                assert_true(!live[b] || a_high <= b_low || b_high <= a_low);
            }
        }
        if (sum > load) load = sum;
    }
    assert_int_equal(p->m.packed.load, load);
    assert_int_equal(p->m.packed.height, height);
    free(live);
}

/* Each step reads what was there from the start or what steps before it wrote. */
static void can_be_run(const planned *p) {
    bool *written = calloc(p->g.n_values, sizeof *written);
    for (uint32_t t = 0; t < p->m.n_steps; t++) {
        const dct_onnx_node *node = &p->g.nodes[p->m.steps[t]];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const dct_onnx_value *v = &p->g.values[node->in[k]];
            assert_true(written[node->in[k]] || v->source != DCT_ONNX_NODE || v->tensor.items != NULL);
        }
        for (uint32_t k = 0; k < node->n_out; k++) written[node->out[k]] = true;
    }
    free(written);
}

/* ---- random graphs ---- */

static uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Values v0.. of one of three sizes: elementwise ops between equals, views and copies, joins and cuts. */
static pb random_graph(uint64_t seed) {
    static const char *const unary[] = {"Relu", "Softmax", "Identity", "Tanh", "Transpose"};
    static const char *const binary[] = {"Add", "Mul", "Concat"};
    enum { N = 40 };
    uint32_t rows[N + 1] = {[0] = 8}; /* of v[i]: rows x 16 */
    pb g = {0};
    pb_add(&g, 11, onnx_info("v0", "f8x16"));
    for (uint32_t i = 1; i <= N; i++) {
        uint32_t a = i - 1 - next_random(&seed) % (i < 6 ? i : 6), b = i - 1 - next_random(&seed) % (i < 6 ? i : 6);
        char in[32], out[16], op[16];
        snprintf(out, sizeof out, "v%u", i);
        if (next_random(&seed) % 2 == 0) {
            snprintf(in, sizeof in, "v%u", a);
            snprintf(op, sizeof op, "%s", unary[next_random(&seed) % 5]);
            rows[i] = rows[a];
        } else {
            bool fits = rows[a] == rows[b];
            snprintf(in, sizeof in, "v%u v%u", a, b);
            snprintf(op, sizeof op, "%s", fits ? binary[next_random(&seed) % 3] : "Concat");
            rows[i] = strcmp(op, "Concat") == 0 ? rows[a] + rows[b] : rows[a];
        }
        if (rows[i] > 100) { /* keeps them small */
            snprintf(in, sizeof in, "v%u", a);
            strcpy(op, "ReduceMax");
            rows[i] = 1;
        }
        const char *attrs = strcmp(op, "Transpose") == 0 ? "perm=0,1," : strcmp(op, "ReduceMax") == 0 ? "axes=0," : "axis=0";
        pb_add(&g, 1, onnx_node(op, in, out, attrs));
        if (next_random(&seed) % 16 == 0 || i == N) pb_add(&g, 12, onnx_info(out, "f"));
    }
    return g;
}

static void random_graphs_are_counted_again(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    uint32_t n_shared = 0, n_reordered = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        planned p, q;
        plan_graph(random_graph(seed), true, &p);
        count_again(&p);
        for (uint32_t v = 0; v < p.g.n_values; v++) n_shared += p.m.places[v].root != v;
        plan_graph(random_graph(seed), false, &q);
        count_again(&q);
        can_be_run(&q);
        assert_true(q.m.packed.height < p.m.packed.height || !q.m.is_reordered);
        assert_int_equal(q.m.file_load, p.m.packed.load);
        assert_int_equal(q.m.file_height, p.m.packed.height);
        n_reordered += q.m.is_reordered;
        dct_arena_deinit(&p.arena);
        dct_arena_deinit(&q.arena);
    }
    assert_true(n_shared > 1000); /* there was something to be wrong about */
    assert_true(n_reordered > 100);
}

/* ---- who shares ---- */

static void bytes_are_shared_where_they_may_be(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb g = {0};
    pb_add(&g, 11, onnx_info("x", "f4x8"));
    pb_add(&g, 5, onnx_tensor("to", "i1:-1"));
    pb_add(&g, 5, onnx_tensor("w", "f4x8"));
    pb_add(&g, 1, onnx_node("Relu", "x", "a", ""));             /* not over an input */
    pb_add(&g, 1, onnx_node("Reshape", "a to", "flat", ""));    /* a view */
    pb_add(&g, 1, onnx_node("Exp", "a", "b", ""));              /* not over a: flat is read later */
    pb_add(&g, 1, onnx_node("Neg", "flat", "c", ""));           /* over a, through its view */
    pb_add(&g, 1, onnx_node("Mul", "w b", "d", ""));            /* not over a weight, but over b */
    pb_add(&g, 1, onnx_node("Cast", "d", "e", "to=10"));        /* fewer bytes */
    pb_add(&g, 1, onnx_node("Softmax", "c", "s", "axis=0"));    /* not element by element */
    pb_add(&g, 1, onnx_node("Identity", "s", "y", ""));
    pb_add(&g, 1, onnx_node("Reshape", "w to", "v", ""));       /* a view of a weight */
    pb_add(&g, 1, onnx_node("Add", "v s", "z", ""));            /* not over s: it is the output y */
    pb_add(&g, 12, onnx_info("y", "f32"));
    pb_add(&g, 12, onnx_info("z", "f32"));
    planned p;
    plan_graph(g, true, &p);
    count_again(&p);
    uint32_t a = place_of(&p, "a")->root, b = place_of(&p, "b")->root, w = place_of(&p, "w")->root;
    assert_int_not_equal(a, place_of(&p, "x")->root);
    assert_int_equal(place_of(&p, "flat")->root, a);
    assert_false(place_of(&p, "flat")->in_place);
    assert_int_not_equal(b, a);
    assert_int_equal(place_of(&p, "c")->root, a);
    assert_true(place_of(&p, "c")->in_place);
    assert_int_equal(place_of(&p, "d")->root, b);
    assert_int_not_equal(place_of(&p, "e")->root, b);
    assert_int_not_equal(place_of(&p, "s")->root, a);
    assert_int_equal(place_of(&p, "v")->root, w);
    assert_int_equal(place_of(&p, "s")->region, DCT_ONNX_PERSISTENT); /* where the output that is a view of it must be */
    assert_int_not_equal(place_of(&p, "z")->root, place_of(&p, "s")->root);
    assert_int_equal(place_of(&p, "v")->region, DCT_ONNX_WEIGHTS);
    assert_int_equal(p.m.region_bytes[DCT_ONNX_PERSISTENT], 3 * 128);
    dct_arena_deinit(&p.arena);
}

/* What follows from shapes is no step, and what only such nodes read takes nothing at run time. */
static void known_values_are_no_steps(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb g = {0};
    pb_add(&g, 11, onnx_info("x", "f2x6"));
    pb_add(&g, 5, onnx_tensor("zero", "i1:0"));
    pb_add(&g, 5, onnx_tensor("rest", "i1:-1"));
    pb_add(&g, 1, onnx_node("Relu", "x", "a", ""));
    pb_add(&g, 1, onnx_node("Shape", "a", "shape", ""));
    pb_add(&g, 1, onnx_node("Gather", "shape zero", "rows", ""));
    pb_add(&g, 1, onnx_node("Concat", "rows rest", "to", "axis=0"));
    pb_add(&g, 1, onnx_node("Exp", "x", "b", ""));
    pb_add(&g, 1, onnx_node("Reshape", "b to", "y", ""));
    pb_add(&g, 12, onnx_info("y", "f2x6"));
    planned p;
    plan_graph(g, true, &p);
    count_again(&p);
    assert_int_equal(p.m.n_steps, 3);
    assert_int_equal(place_of(&p, "shape")->region, DCT_ONNX_NOWHERE);
    assert_int_equal(place_of(&p, "zero")->region, DCT_ONNX_NOWHERE);
    assert_int_equal(place_of(&p, "to")->region, DCT_ONNX_CONSTANTS);
    assert_int_equal(place_of(&p, "a")->last, 0); /* Shape does not read its bytes */
    dct_arena_deinit(&p.arena);
}

/* ---- branches ---- */

/* then: t = Exp(x), out = Concat(t, t); else: t = Neg(late), out = Concat(t, late). Both have a t of their own; `late` is the outer
 * graph's, and defined behind the If. */
static pb branching_node(void) {
    pb node = onnx_node("If", "cond", "y", ""), taken = {0}, other = {0};
    pb_add(&taken, 1, onnx_node("Exp", "x", "t", ""));
    pb_add(&taken, 1, onnx_node("Concat", "t t", "out", "axis=0"));
    pb_add(&taken, 12, onnx_info("out", "f"));
    pb_add(&other, 1, onnx_node("Neg", "late", "t", ""));
    pb_add(&other, 1, onnx_node("Concat", "t late", "out", "axis=1"));
    pb_add(&other, 12, onnx_info("out", "f"));
    onnx_add_body(&node, "then_branch", &taken);
    onnx_add_body(&node, "else_branch", &other);
    return node;
}

static pb branching_graph(const char *cond) {
    pb g = {0};
    pb_add(&g, 11, onnx_info("x", "f4x8"));
    if (cond == NULL) pb_add(&g, 11, onnx_info("cond", "b1"));
    else pb_add(&g, 5, onnx_tensor("cond", cond));
    pb_add(&g, 1, branching_node());
    pb_add(&g, 1, onnx_node("Tanh", "x", "late", ""));
    pb_add(&g, 1, onnx_node("Relu", "y", "z", ""));
    pb_add(&g, 12, onnx_info("z", "f"));
    return g;
}

static void a_known_branch_is_taken(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    planned p;
    plan_graph(branching_graph("b1:1"), true, &p);
    count_again(&p);
    assert_int_equal(p.g.n_nodes, 5); /* Tanh, Exp, Concat, the link, Relu */
    assert_int_equal(p.g.values[p.g.nodes[4].out[0]].tensor.dims[0], 8);
    assert_int_equal(p.m.region_bytes[DCT_ONNX_CONSTANTS], 0);
    dct_arena_deinit(&p.arena);
    plan_graph(branching_graph("b1:0"), true, &p);
    count_again(&p);
    assert_int_equal(p.g.values[p.g.nodes[4].out[0]].tensor.dims[0], 4);
    assert_int_equal(p.g.values[p.g.nodes[4].out[0]].tensor.dims[1], 16);
    assert_true(dct_str_eq_z(p.g.nodes[1].op, "Neg"));
    dct_arena_deinit(&p.arena);
}

static void an_unknown_branch_is_named_or_said(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    for (int said = 0; said < 2; said++) {
        pb graph = branching_graph(NULL), model = onnx_model(&graph);
        dct_arena arena;
        dct_onnx_graph g;
        dct_err err;
        uint32_t n_unshaped;
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err), DCT_OK);
        if (said) assert_int_equal(dct_onnx_bind_value(&g, "cond=1", &arena, &err), DCT_OK);
        else assert_int_equal(dct_onnx_bind_value(&g, "late=1", &arena, &err), DCT_USAGE);
        assert_int_equal(dct_onnx_shape(&g, &arena, &n_unshaped, &err), DCT_OK);
        assert_int_equal(n_unshaped, said ? 0 : 1);
        for (uint32_t i = 0; i < g.n_nodes && !said; i++) {
            if (dct_str_eq_z(g.nodes[i].op, "If")) assert_non_null(strstr(g.nodes[i].why, "--value cond=N"));
        }
        dct_arena_deinit(&arena);
        pb_free(&model);
    }
}

/* A body may not lean on itself: what it reads and nothing defines is named, and so is an If that waits for itself. */
static void bodies_lie_as_well(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    static const char *const reads[] = {"nowhere", "y"};
    static const char *const said[] = {"'nowhere', which nothing defines", "which needs it in turn"};
    for (int i = 0; i < 2; i++) {
        pb g = {0}, taken = {0}, node = onnx_node("If", i == 0 ? "cond" : "y", "y", "");
        pb_add(&taken, 1, onnx_node("Exp", reads[i], "out", ""));
        pb_add(&taken, 12, onnx_info("out", "f"));
        onnx_add_body(&node, "then_branch", &taken);
        pb_add(&g, 5, onnx_tensor("cond", "b1:1"));
        pb_put(&g, 1, &node);
        pb model = onnx_model(&g);
        dct_arena arena;
        dct_onnx_graph read;
        dct_err err;
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_onnx_open_bytes(model.bytes, model.n, &arena, &read, &err), DCT_BAD_FILE);
        if (strstr(err.message, said[i]) == NULL) fail_msg("%s", err.message);
        dct_arena_deinit(&arena);
        pb_free(&model);
    }
}

/* ---- files and reports ---- */

static void gather(void *ctx, const char *text, size_t n) {
    pb *sink = ctx;
    pb_raw(sink, text, n);
}

static dct_status plan_file(pb graph, bool json, pb *out, pb *complaints, dct_err *err) {
    char path[512];
    snprintf(path, sizeof path, "%s/onnx_plan.%ld.onnx", DCT_BINARY_DIR, (long)getpid());
    pb model = onnx_model(&graph);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(model.bytes, 1, model.n, f), model.n);
    fclose(f);
    pb_free(&model);
    static const char *const dims[] = {"batch=2"};
    const dct_onnx_params params = {.path = path, .dims = dims, .n_dims = 1, .json = json, .with_values = true, .write = gather,
                                    .ctx = out, .complain = gather, .complain_ctx = complaints};
    dct_status status = dct_onnx_plan(&params, err);
    pb_raw(out, "", 1);
    pb_raw(complaints, "", 1);
    remove(path);
    return status;
}

static pb named_graph(const char *op) {
    pb g = {0};
    pb_add(&g, 11, onnx_info("x\"\x1b[2J\xff", "f?batchx32"));
    pb_add(&g, 1, onnx_node("Softmax", "x\"\x1b[2J\xff", "a", "axis=1"));
    pb_add(&g, 1, onnx_node(op, "a", "b", ""));
    pb_add(&g, 1, onnx_node("Softmax", "b", "y", "axis=1"));
    pb_add(&g, 12, onnx_info("y", "f?batchx32"));
    return g;
}

static void the_json_adds_up(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb out = {0}, complaints = {0};
    dct_err err;
    assert_int_equal(plan_file(named_graph("Relu"), true, &out, &complaints, &err), DCT_OK);
    json_t *root = json_loads((const char *)out.bytes, 0, NULL);
    assert_non_null(root);
    json_t *envelope = json_object_get(root, "envelope");
    json_int_t sum = 0;
    static const char *const terms[] = {"weights_bytes", "constants_bytes", "persistent_bytes", "intermediate_bytes"};
    for (size_t i = 0; i < 4; i++) sum += json_integer_value(json_object_get(envelope, terms[i]));
    assert_int_equal(json_integer_value(json_object_get(envelope, "m_max_bytes")), sum);
    assert_true(json_is_false(json_object_get(envelope, "includes_executor")));
    assert_int_equal(sum, 2 * 256 + 256); /* x and y, and a, over which b is written */
    assert_int_equal(json_array_size(json_object_get(root, "steps")), 3);
    assert_int_equal(json_array_size(json_object_get(root, "values")), 4);
    json_decref(root);
    pb_free(&out);
    pb_free(&complaints);
}

static void the_table_holds_no_control_characters(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb out = {0}, complaints = {0};
    dct_err err;
    assert_int_equal(plan_file(named_graph("Relu"), false, &out, &complaints, &err), DCT_OK);
    assert_null(strchr((const char *)out.bytes, '\x1b'));
    assert_non_null(strstr((const char *)out.bytes, "M_max"));
    assert_non_null(strstr((const char *)out.bytes, "over a"));
    pb_free(&out);
    pb_free(&complaints);
}

static void what_cannot_be_shaped_is_named(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb g = named_graph("Frobnicate"), out = {0}, complaints = {0};
    pb_add(&g, 1, onnx_node("NonZero", "a", "n", "")); /* named as well: it does not hang on the other */
    pb_add(&g, 1, onnx_node("Relu", "n", "m", ""));    /* not named: it does */
    dct_err err;
    assert_int_equal(plan_file(g, false, &out, &complaints, &err), DCT_BAD_FILE);
    const char *said = (const char *)complaints.bytes;
    assert_non_null(strstr(said, "Frobnicate '': there is no rule for it\n"));
    assert_non_null(strstr(said, "NonZero '': how many elements"));
    assert_null(strstr(said, "Softmax"));
    assert_null(strstr(said, "Relu"));
    assert_non_null(strstr(err.message, "2 of 5 nodes cannot be shaped"));
    assert_string_equal((const char *)out.bytes, "");
    pb_free(&out);
    pb_free(&complaints);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_are_counted_again),     cmocka_unit_test(bytes_are_shared_where_they_may_be),
        cmocka_unit_test(known_values_are_no_steps),           cmocka_unit_test(the_json_adds_up),
        cmocka_unit_test(a_known_branch_is_taken),             cmocka_unit_test(an_unknown_branch_is_named_or_said),
        cmocka_unit_test(bodies_lie_as_well),
        cmocka_unit_test(the_table_holds_no_control_characters), cmocka_unit_test(what_cannot_be_shaped_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
