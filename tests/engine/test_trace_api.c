/* Graphs that a caller traces: every mistake is one line that says where, a plan lives in a file and is checked against its graph,
 * what is not of that graph is refused, weights may be a file's, and each op does what the header says of it, told by another way of
 * computing the same: experts by products of the experts' rows, windows by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/gguf_build.h"
#include "support/quant.h"

enum { R = 12, WIDTH = 64, EXPERTS = 4, EXPERT_ROWS = 32 };

static float numbers[EXPERTS * WIDTH * WIDTH]; /* as large as the largest weight */

static dctms_graph *new_graph(void) {
    dctms_graph *g;
    dctms_error err;
    assert_int_equal(dctms_graph_new("test", R, &g, &err), DCTMS_OK);
    return g;
}

static dctms_value f32_matrix(dctms_graph *g, const char *name, uint32_t rows, uint32_t cols) {
    return dctms_graph_matrix(g, name, "f32", rows, cols, numbers);
}

/* ---- mistakes ---- */

static dctms_value x_of(dctms_graph *g) { return dctms_graph_input(g, "x", WIDTH, 1); }

static void wrong_columns(dctms_graph *g) { dctms_graph_linear(g, x_of(g), f32_matrix(g, "w", 8, WIDTH + 1), DCTMS_NO_VALUE, "y"); }
static void wrong_bias(dctms_graph *g) {
    dctms_graph_linear(g, x_of(g), f32_matrix(g, "w", 8, WIDTH), dctms_graph_vector(g, "b", 9, numbers), "y");
}
static void no_value(dctms_graph *g) { dctms_graph_add(g, x_of(g), 77, "sum"); }
static void no_weight(dctms_graph *g) {
    dctms_value x = x_of(g);
    dctms_graph_linear(g, x, x, DCTMS_NO_VALUE, "y");
}
static void a_vector_for_a_matrix(dctms_graph *g) {
    dctms_graph_linear(g, x_of(g), dctms_graph_vector(g, "w", WIDTH, numbers), DCTMS_NO_VALUE, "y");
}
static void unlike_shapes(dctms_graph *g) { dctms_graph_add(g, x_of(g), dctms_graph_input(g, "z", WIDTH / 2, 1), "sum"); }
/* 12 rows of 12 and 12 of 24: as many at the bound, not in a run of one row. */
static void unlike_rows(dctms_graph *g) {
    dctms_value x = x_of(g), half = dctms_graph_input(g, "half", EXPERTS, 2), z = dctms_graph_input(g, "z", WIDTH, 2);
    dctms_routing r = dctms_graph_route(g, half, 2, false, "r");
    dctms_graph_add(g, dctms_graph_experts(g, z, r, f32_matrix(g, "w", EXPERTS * WIDTH, WIDTH), "e"), x, "sum");
}
static void unknown_act(dctms_graph *g) { dctms_graph_act(g, x_of(g), (dctms_act)9, "a"); }
static void no_window(dctms_graph *g) { dctms_graph_window(g, x_of(g), 3, 0, 1, "w"); }
static void padded_too_much(dctms_graph *g) { dctms_graph_window(g, x_of(g), 3, 1, 3, "w"); }
static void huge_window(dctms_graph *g) { dctms_graph_window(g, x_of(g), UINT32_MAX, 1, 1, "w"); }
static void uneven_heads(dctms_graph *g) {
    dctms_value x = x_of(g);
    dctms_graph_attention(g, x, x, x, 8, 3, 1, true, "a");
}
static void no_heads(dctms_graph *g) {
    dctms_value x = x_of(g);
    dctms_graph_attention(g, x, x, x, 0, 0, 1, true, "a");
}
static void odd_rotation(dctms_graph *g) { dctms_graph_rope(g, x_of(g), 16, 7, 1e4f, false, "r"); }
static void rotated_halves(dctms_graph *g) { dctms_graph_rope(g, dctms_graph_input(g, "z", WIDTH, 2), 16, 16, 1e4f, false, "r"); }
static void no_number(dctms_graph *g) {
    dctms_value x = x_of(g);
    dctms_graph_attention(g, x, x, x, 4, 4, NAN, true, "a");
}
static void no_base(dctms_graph *g) { dctms_graph_rope(g, x_of(g), 16, 16, INFINITY, false, "r"); }
static void negative_eps(dctms_graph *g) { dctms_graph_rms_norm(g, x_of(g), dctms_graph_vector(g, "w", WIDTH, numbers), -1, "n"); }
static void too_many_experts(dctms_graph *g) { dctms_graph_route(g, dctms_graph_input(g, "s", EXPERTS, 1), EXPERTS + 1, false, "r"); }
static void experts_without_routing(dctms_graph *g) {
    dctms_routing r = {dctms_graph_input_ids(g, "ids"), 0};
    dctms_graph_experts(g, x_of(g), r, f32_matrix(g, "w", EXPERTS * 16, WIDTH), "e");
}
static void broken_tiles(dctms_graph *g) {
    dctms_routing r = dctms_graph_route(g, dctms_graph_input(g, "s", EXPERTS, 1), 2, false, "r");
    dctms_graph_experts(g, x_of(g), r, f32_matrix(g, "w", EXPERTS * 24, WIDTH), "e");
}
static void mixed_rows(dctms_graph *g) { dctms_graph_mix(g, x_of(g), dctms_graph_input(g, "s", 3, 1), "m"); }
static void rows_by_result(dctms_graph *g) {
    dctms_routing r = dctms_graph_route(g, dctms_graph_input(g, "s", EXPERTS, 1), 1, false, "r");
    dctms_graph_rows(g, r.ids, f32_matrix(g, "w", 2, WIDTH), "rows");
}
static void two_of_a_name(dctms_graph *g) {
    dctms_value x = x_of(g);
    dctms_graph_output(g, dctms_graph_add(g, x, x_of(g), "sum"), "y");
}
static void two_weights_of_a_name(dctms_graph *g) { f32_matrix(g, "w", 2, 2), f32_matrix(g, "w", 2, 2); }
static void long_name(dctms_graph *g) { dctms_graph_input(g, "a name that goes on and on and on and on and on, it does", 4, 1); }
static void no_name(dctms_graph *g) { dctms_graph_output(g, x_of(g), NULL); }
static void no_type(dctms_graph *g) { dctms_graph_matrix(g, "w", "q9_9", 2, 32, numbers); }
static void no_blocks(dctms_graph *g) { dctms_graph_matrix(g, "w", "q8_0", 2, 33, numbers); }
static void no_columns(dctms_graph *g) { dctms_graph_input(g, "x", 0, 1); }
static void output_of_an_input(dctms_graph *g) { dctms_graph_output(g, x_of(g), "y"); }
static void no_output(dctms_graph *g) { dctms_graph_act(g, x_of(g), DCTMS_SILU, "a"); }

static void mistakes_are_told(void **state) {
    (void)state;
    static const struct {
        void (*make)(dctms_graph *g);
        const char *says;
    } cases[] = {
        {wrong_columns, "(linear 'y'): input 0 'x' is [12, 64], expected [12, 65]"}, {wrong_bias, "input 2 'b' is [1, 9], expected [1, 8]"},
        {no_value, "a value that does not exist"}, {no_weight, "'x' is not a weight"}, {a_vector_for_a_matrix, "input 1 'w' has format"},
        {unlike_shapes, "(add 'sum'): input 1 'z' is [12, 32], expected [12, 64]"}, {unlike_rows, "'x' has other rows in a run than 'e'"},
        {unknown_act, "activation 9 is unknown"}, {no_window, "stride 0"}, {padded_too_much, "pad 3"}, {huge_window, "larger than any memory"},
        {uneven_heads, "8 query heads do not share 3"}, {no_heads, "attention of 0 heads"}, {odd_rotation, "rotates 7 of 16"},
        {rotated_halves, "[6, 4]"}, {no_number, "'a': scale nan"}, {no_base, "'r': base inf"}, {negative_eps, "'n': eps -1"}, {too_many_experts, "5 of 4 experts"}, {experts_without_routing, "where they go"},
        {broken_tiles, "96 rows of 'w' are not 4 experts"}, {mixed_rows, "not 3 rows for each"}, {rows_by_result, "is no input"},
        {two_of_a_name, "are named 'x'"}, {two_weights_of_a_name, "are named 'w'"}, {long_name, "1 to 47 bytes"}, {no_name, "1 to 47 bytes"},
        {no_type, "'q9_9' is no type"}, {no_blocks, "rows of 33 elements cannot be Q8_0"}, {no_columns, "both must be"},
        {output_of_an_input, "not the result of an operation"}, {no_output, "no output"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dctms_graph *g = new_graph();
        dctms_plan *plan;
        dctms_error err = {0};
        cases[i].make(g);
        dctms_status status = dctms_graph_compile(g, 1, &plan, &err);
        bool is_told = (status == DCTMS_USAGE || status == DCTMS_NO_FIT) && err.code == status && strstr(err.message, cases[i].says) != NULL;
        if (!is_told) fail_msg("case %zu: %d '%s', expected '%s'", i, (int)status, err.message, cases[i].says);
        assert_null(strchr(err.message, '\n'));
        dctms_graph_free(g);
    }
}

static void what_follows_a_mistake_does_nothing(void **state) {
    (void)state;
    dctms_graph *g = new_graph();
    dctms_error err, first;
    unlike_shapes(g);
    assert_int_equal(dctms_graph_status(g, &first), DCTMS_USAGE);
    assert_int_equal(dctms_graph_input(g, "more", 4, 1), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_matrix(g, "m", "f32", 4, 4, numbers), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_rope(g, 0, 16, 16, 1e4f, false, "r"), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_attention(g, 0, 0, 0, 1, 1, 1, false, "a"), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_route(g, 0, 1, false, "r").ids, DCTMS_NO_VALUE);
    wrong_columns(g);
    assert_int_equal(dctms_graph_status(g, &err), DCTMS_USAGE);
    assert_string_equal(err.message, first.message);
    dctms_graph_free(g);
    g = new_graph();
    dctms_routing refused = dctms_graph_route(g, dctms_graph_input(g, "s", EXPERTS, 1), EXPERTS + 1, false, "r");
    assert_true(refused.ids == DCTMS_NO_VALUE && refused.weights == DCTMS_NO_VALUE);
    dctms_graph_free(g);
    assert_int_equal(dctms_graph_new("none", 0, &g, &err), DCTMS_USAGE);
}

/* ---- a graph with every op ---- */

/* change: 0, or the number of a thing that is otherwise. */
static dctms_graph *all_ops(int change) {
    dctms_graph *g = new_graph();
    dctms_value norm_w = dctms_graph_vector(g, "norm", WIDTH, numbers), norm_b = dctms_graph_vector(g, "norm.bias", WIDTH, numbers + 70);
    dctms_value ids = dctms_graph_input_ids(g, change == 1 ? "other" : "ids"), x = dctms_graph_input(g, "x", WIDTH, 1);
    dctms_value h = dctms_graph_rows(g, ids, f32_matrix(g, "table", change == 2 ? 9 : 10, WIDTH), "rows");
    h = dctms_graph_mul(g, h, x, "product");
    h = dctms_graph_layer_norm(g, h, norm_w, norm_b, change == 3 ? 1e-4f : 1e-5f, "normed");
    h = dctms_graph_act(g, h, change == 4 ? DCTMS_SILU : DCTMS_GELU, "active");
    dctms_value q = dctms_graph_rope(g, h, 16, 16, 1e4f, change == 5, "turned");
    h = dctms_graph_attention(g, q, h, h, 4, 4, change == 6 ? 0.2f : 0.25f, change != 7, "attended");
    dctms_value scores = dctms_graph_linear(g, h, f32_matrix(g, "router", EXPERTS, WIDTH), DCTMS_NO_VALUE, "scores");
    dctms_routing r = dctms_graph_route(g, scores, change == 8 ? 3 : 2, change == 9, "routing");
    dctms_value e = dctms_graph_experts(g, h, r, dctms_graph_matrix(g, "experts", change == 10 ? "f16" : "f32", EXPERTS * WIDTH, WIDTH, numbers), "each");
    h = dctms_graph_mix(g, e, r.weights, "mixed");
    h = dctms_graph_window(g, h, 3, 2, change == 11 ? 2 : 1, "windows");
    if (change == 12) h = dctms_graph_act(g, h, DCTMS_SIGMOID, "one more");
    dctms_graph_output(g, h, change == 13 ? "z" : "y");
    return g;
}
enum { CHANGES = 13 };

static dctms_plan *compiled(const dctms_graph *g, uint32_t threads) {
    dctms_plan *plan;
    dctms_error err;
    if (dctms_graph_compile(g, threads, &plan, &err) != DCTMS_OK) fail_msg("%s", err.message);
    return plan;
}

static void a_plan_is_of_its_graph_alone(void **state) {
    (void)state;
    dctms_graph *g = all_ops(0);
    dctms_plan *plan = compiled(g, 3);
    dctms_error err;
    char defect[32];
    assert_int_equal(dctms_graph_verify(g, plan, defect, &err), DCTMS_OK);
    assert_int_equal(dctms_plan_verify(plan, NULL, defect, &err), DCTMS_OK);
    for (int change = 1; change <= CHANGES; change++) {
        dctms_graph *other = all_ops(change);
        dctms_runner *r;
        if (dctms_graph_status(other, &err) != DCTMS_OK) fail_msg("change %d: %s", change, err.message);
        if (dctms_graph_verify(other, plan, defect, &err) != DCTMS_BAD_FILE) fail_msg("change %d passes", change);
        assert_true(strcmp(defect, "GRAPH_MISMATCH") == 0 || strcmp(defect, "OP_MISSING") == 0 || strcmp(defect, "MODEL_MISMATCH") == 0);
        assert_int_equal(dctms_runner_open(other, plan, NULL, 0, &r, &err), DCTMS_BAD_FILE);
        dctms_graph_free(other);
    }
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* Layers whose weights do not stand together, and names that are the envelope's own: each item has a name of its own. */
static void weights_in_any_order_and_of_any_name(void **state) {
    (void)state;
    static const char *const names[] = {"blk.0.a", "blk.1.a", "blk.0.b", "blk.1.b", "page rounding", "blk.0.c", "blk.0 (1 tensors) #2",
                                        "page rounding #1"};
    static const char *const items[] = {"blk.0 (1 tensors)", "blk.1 (1 tensors)", "blk.0 (1 tensors) #2", "blk.1 (1 tensors) #2",
                                        "page rounding #1", "blk.0 (1 tensors) #3", "blk.0 (1 tensors) #2 #2", "page rounding #1 #2"};
    enum { N_NAMES = 8 };
    dctms_graph *g = new_graph();
    dctms_value h = x_of(g);
    for (int i = 0; i < N_NAMES; i++) h = dctms_graph_linear(g, h, f32_matrix(g, names[i], WIDTH, WIDTH), DCTMS_NO_VALUE, "h");
    dctms_graph_output(g, h, "y");
    dctms_plan *plan = compiled(g, 2);
    for (int i = 0; i < N_NAMES; i++) assert_string_equal(plan->plan->items[i].name, items[i]);
    dctms_error err;
    dctms_runner *r = NULL;
    char defect[32];
    if (dctms_graph_verify(g, plan, defect, &err) || dctms_runner_open(g, plan, NULL, 0, &r, &err)) fail_msg("%s", err.message);
    dctms_runner_free(r);
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* Two ops that do the same are each other's twins: fusing moves one of them before the other. */
static void a_thing_may_be_done_twice(void **state) {
    (void)state;
    dctms_graph *g = new_graph();
    dctms_value x = x_of(g), w = f32_matrix(g, "w", WIDTH, WIDTH);
    dctms_value y1 = dctms_graph_linear(g, x, w, DCTMS_NO_VALUE, "y1"), y2 = dctms_graph_linear(g, x, w, DCTMS_NO_VALUE, "y2");
    dctms_value r = dctms_graph_act(g, x, DCTMS_SILU, "r");
    dctms_graph_output(g, dctms_graph_add(g, r, y1, "sum"), "z");
    dctms_graph_output(g, dctms_graph_act(g, y2, DCTMS_SILU, "a"), "u");
    dctms_plan *plan = compiled(g, 2);
    dctms_error err;
    dctms_runner *runner = NULL;
    char defect[32];
    if (dctms_graph_verify(g, plan, defect, &err) || dctms_runner_open(g, plan, NULL, 0, &runner, &err)) fail_msg("%s", err.message);
    dctms_runner_free(runner);
    dct_op *op = plan->plan->phases[0].graph.ops; /* not so where they do not do the same */
    while (op->kind != DCT_OP_ACT) op++;
    op->p.act = DCT_ACT_GELU_TANH;
    assert_int_equal(dctms_graph_verify(g, plan, defect, &err), DCTMS_BAD_FILE);
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* Each weight is an item, for none is named as a layer's. */
static void more_than_a_plan_holds_is_said(void **state) {
    (void)state;
    enum { TOO_MANY = 2100 };
    dctms_graph *g = new_graph();
    dctms_value h = x_of(g);
    for (int i = 0; i < TOO_MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "model.layers.%d.w", i);
        h = dctms_graph_linear(g, h, f32_matrix(g, name, WIDTH, WIDTH), DCTMS_NO_VALUE, "h");
    }
    dctms_graph_output(g, h, "y");
    dctms_plan *plan = NULL;
    dctms_error err;
    assert_int_equal(dctms_graph_compile(g, 1, &plan, &err), DCTMS_NO_FIT);
    assert_non_null(strstr(err.message, "a plan holds 2048 at most"));
    assert_null(plan);
    dctms_graph_free(g);
}

/* What the verifier says to a plan whose graph was tampered with: the model's graph is another, or no graph at all. */
static void tampering_is_found(void **state) {
    (void)state;
    dctms_graph *g = all_ops(0);
    for (int what = 0; what < 12; what++) {
        dctms_plan *plan = compiled(g, 2);
        dct_phase *phase = &plan->plan->phases[0];
        dctms_error err;
        char defect[32];
        for (dct_op_id i = 0; i < phase->graph.n_ops; i++) {
            dct_op *op = &phase->graph.ops[i];
            if (what == 0 && op->kind == DCT_OP_LAYER_NORM) op->p.eps = 1;
            if (what == 1 && op->kind == DCT_OP_ACT) op->p.act = DCT_ACT_SILU;
            if (what == 2 && op->kind == DCT_OP_WINDOW) op->p.pad = 0;
            if (what == 3 && op->kind == DCT_OP_ATTN_ROWS) op->p.causal = false;
            if (what == 4 && op->kind == DCT_OP_ROUTE) op->p.renorm = true;
            if (what == 5 && op->kind == DCT_OP_EXPERTS) op->p.n_expert = EXPERTS / 2;
            if (what == 6 && op->kind == DCT_OP_MIX) op->p.group = 1;
            if (what == 7 && op->kind == DCT_OP_MUL) op->in[1] = op->in[0];
            if (what == 8 && op->kind == DCT_OP_KV_ROWS) op->p.head_dim = 8;
            if (what == 9 && op->kind == DCT_OP_WINDOW) phase->graph.values[op->out[0]].row_div = 1;
            if (what == 10 && op->kind == DCT_OP_EXPERTS) phase->graph.values[op->out[0]].row_mul = 1;
            if (what == 11 && op->kind == DCT_OP_EMBED) strcpy(phase->graph.values[op->in[0]].name, "x");
        }
        if (dctms_graph_verify(g, plan, defect, &err) != DCTMS_BAD_FILE) fail_msg("tampering %d passes", what);
        dctms_plan_free(plan);
    }
    dctms_graph_free(g);
}

static void fill_inputs(const dctms_runner *r) {
    float *x = dctms_runner_data(r, "x");
    int32_t *ids = dctms_runner_data(r, "ids");
    for (int i = 0; i < R * WIDTH; i++) x[i] = numbers[(i * 7 + 3) % 1000];
    for (int i = 0; i < R; i++) ids[i] = (i * 3) % 10;
}

/* Through a file, for 1 to 3 workers: the same bytes. */
static void a_plan_from_a_file_runs(void **state) {
    (void)state;
    char path[] = "/tmp/dctms_trace_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    float kept[R / 2 * 3 * WIDTH];
    dctms_graph *g = all_ops(0);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        dctms_plan *plan = compiled(g, threads), *loaded;
        dctms_runner *r;
        dctms_error err;
        assert_int_equal(dctms_plan_save(plan, path, &err), DCTMS_OK);
        if (dctms_plan_load(path, &loaded, &err) != DCTMS_OK) fail_msg("%s", err.message);
        if (dctms_runner_open(g, loaded, NULL, 0, &r, &err) != DCTMS_OK) fail_msg("%s", err.message);
        fill_inputs(r);
        assert_int_equal(dctms_runner_run(r, R, &err), DCTMS_OK);
        if (threads == 1) memcpy(kept, dctms_runner_data(r, "y"), sizeof kept);
        else assert_memory_equal(dctms_runner_data(r, "y"), kept, sizeof kept);
        dctms_runner_free(r);
        dctms_plan_free(loaded);
        dctms_plan_free(plan);
    }
    dctms_graph_free(g);
    unlink(path);
}

static void what_comes_from_outside_is_checked(void **state) {
    (void)state;
    dctms_graph *g = all_ops(0);
    dctms_plan *plan = compiled(g, 2);
    dctms_plan_info info;
    dctms_runner *r;
    dctms_error err;
    dctms_plan_get_info(plan, &info);
    static char memory[8192] __attribute__((aligned(4096)));
    assert_int_equal(dctms_runner_open(g, plan, memory, sizeof memory, &r, &err), DCTMS_USAGE);
    assert_int_equal(dctms_runner_open(g, plan, memory + 64, (size_t)info.reserve_bytes, &r, &err), DCTMS_USAGE);
    dctms_group *group;
    assert_int_equal(dctms_group_make((const dctms_plan *[]){plan}, 1, DCTMS_CONCURRENT, &group, &err), DCTMS_USAGE);
    if (dctms_runner_open(g, plan, NULL, 0, &r, &err) != DCTMS_OK) fail_msg("%s", err.message);
    fill_inputs(r);
    int32_t *ids = dctms_runner_data(r, "ids");
    assert_int_equal(dctms_runner_run(r, 0, &err), DCTMS_BOUND);
    assert_int_equal(dctms_runner_run(r, R + 1, &err), DCTMS_BOUND);
    ids[5] = 10;
    assert_int_equal(dctms_runner_run(r, 6, &err), DCTMS_BOUND);
    assert_non_null(strstr(err.message, "id 10 of 'ids' (row 5)"));
    assert_int_equal(dctms_runner_run(r, 5, &err), DCTMS_OK); /* it is not among those */
    ids[0] = -1;
    assert_int_equal(dctms_runner_run(r, 1, &err), DCTMS_BOUND);
    assert_null(dctms_runner_data(r, "ids "));
    assert_null(dctms_runner_data(r, "pos"));
    dctms_runner_free(r);
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* ---- what ops do, told in other ways ---- */

/* All experts are chosen: each result is the product of the expert's rows alone, bit for bit, quantised or not. */
static void experts_are_products_of_their_rows(void **state) {
    (void)state;
    static uint8_t packed[sizeof numbers];
    static const char *const types[] = {"f32", "f16", "q8_0"};
    static const dct_dtype dtypes[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_Q8_0};
    for (int type = 0; type < 3; type++) {
        uint64_t row_bytes;
        assert_true(dct_dtype_row_bytes(dtypes[type], WIDTH, &row_bytes));
        for (int i = 0; i < EXPERTS * EXPERT_ROWS; i++) quant_row(dtypes[type], WIDTH, numbers + i * WIDTH, packed + (size_t)i * row_bytes);
        dctms_graph *g = new_graph();
        dctms_value x = x_of(g), scores = dctms_graph_input(g, "scores", EXPERTS, 1);
        dctms_routing r = dctms_graph_route(g, scores, EXPERTS, false, "routing");
        dctms_value all = dctms_graph_matrix(g, "all", types[type], EXPERTS * EXPERT_ROWS, WIDTH, packed);
        dctms_graph_output(g, r.ids, "ids");
        dctms_graph_output(g, dctms_graph_experts(g, x, r, all, "each"), "each");
        for (int e = 0; e < EXPERTS; e++) {
            char name[8] = {'e', (char)('0' + e), '\0'};
            dctms_value w = dctms_graph_matrix(g, name, types[type], EXPERT_ROWS, WIDTH, packed + (size_t)(e * EXPERT_ROWS) * row_bytes);
            dctms_graph_output(g, dctms_graph_linear(g, x, w, DCTMS_NO_VALUE, name), name);
        }
        dctms_plan *plan = compiled(g, 2);
        dctms_runner *runner;
        dctms_error err;
        if (dctms_runner_open(g, plan, NULL, 0, &runner, &err) != DCTMS_OK) fail_msg("%s", err.message);
        float *in = dctms_runner_data(runner, "x"), *s = dctms_runner_data(runner, "scores");
        for (int i = 0; i < R * WIDTH; i++) in[i] = numbers[(i * 13 + 5) % 2000];
        for (int i = 0; i < R * EXPERTS; i++) s[i] = numbers[(i * 11 + 1) % 2000];
        assert_int_equal(dctms_runner_run(runner, R - 1, &err), DCTMS_OK);
        const int32_t *ids = dctms_runner_data(runner, "ids");
        const float *each = dctms_runner_data(runner, "each");
        for (int slot = 0; slot < (R - 1) * EXPERTS; slot++) {
            char name[8] = {'e', (char)('0' + ids[slot]), '\0'};
            const float *alone = dctms_runner_data(runner, name);
            assert_memory_equal(each + slot * EXPERT_ROWS, alone + slot / EXPERTS * EXPERT_ROWS, EXPERT_ROWS * sizeof *each);
        }
        dctms_runner_free(runner);
        dctms_plan_free(plan);
        dctms_graph_free(g);
    }
}

/* Keys of other rows than the queries': a sum over all of them, whatever the length of the run. */
static void attention_over_other_rows(void **state) {
    (void)state;
    dctms_graph *g = new_graph();
    dctms_value q = dctms_graph_input(g, "q", 8, 1), k = dctms_graph_input(g, "k", 8, 3), v = dctms_graph_input(g, "v", 8, 3);
    dctms_graph_output(g, dctms_graph_attention(g, q, k, v, 1, 1, 1, false, "a"), "a");
    dctms_plan *plan = compiled(g, 2);
    dctms_runner *r;
    dctms_error err;
    if (dctms_runner_open(g, plan, NULL, 0, &r, &err) != DCTMS_OK) fail_msg("%s", err.message);
    float *values = dctms_runner_data(r, "v");
    for (int i = 0; i < R / 3 * 8; i++) values[i] = (float)(i / 8 + 1); /* equal scores: the mean of the rows */
    for (uint32_t n = 1; n <= R; n++) {
        assert_int_equal(dctms_runner_run(r, n, &err), DCTMS_OK);
        const float *a = dctms_runner_data(r, "a");
        uint32_t n_keys = (n + 2) / 3;
        for (uint32_t i = 0; i < n * 8; i++) assert_true(a[i] == (float)(n_keys + 1) / 2);
    }
    dctms_runner_free(r);
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* ---- weights of a file ---- */

static void weights_of_a_file_are_those_in_memory(void **state) {
    (void)state;
    char path[] = "/tmp/dctms_trace_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gguf_build b;
    gguf_build_init(&b, 3, false);
    gguf_build_str(&b, "general.architecture", "none that we run");
    gguf_build_tensor(&b, "w", DCT_TYPE_F32, 2, (uint64_t[]){WIDTH, 24}, numbers);
    gguf_build_tensor(&b, "bias", DCT_TYPE_F32, 1, (uint64_t[]){24}, numbers + 100);
    gguf_build_save(&b, path);
    gguf_build_free(&b);
    dctms_model *model;
    dctms_error err;
    if (dctms_model_open(path, &model, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_graph *g = new_graph();
    dctms_value x = x_of(g), w = dctms_graph_tensor(g, model, "w"), bias = dctms_graph_tensor(g, model, "bias");
    dctms_value copy = f32_matrix(g, "copy", 24, WIDTH), copied_bias = dctms_graph_vector(g, "copied", 24, numbers + 100);
    dctms_graph_output(g, dctms_graph_linear(g, x, w, bias, "file"), "file");
    dctms_graph_output(g, dctms_graph_linear(g, x, copy, copied_bias, "memory"), "memory");
    dctms_plan *plan = compiled(g, 2);
    dctms_runner *r;
    if (dctms_runner_open(g, plan, NULL, 0, &r, &err) != DCTMS_OK) fail_msg("%s", err.message);
    float *in = dctms_runner_data(r, "x");
    for (int i = 0; i < R * WIDTH; i++) in[i] = numbers[i + 9];
    assert_int_equal(dctms_runner_run(r, R, &err), DCTMS_OK);
    assert_memory_equal(dctms_runner_data(r, "file"), dctms_runner_data(r, "memory"), R * 24 * sizeof(float));
    assert_true(((float *)dctms_runner_data(r, "file"))[5] != 0);
    dctms_runner_free(r);
    dctms_plan_free(plan);

    char defect[32];
    assert_int_equal(dctms_graph_tensor(g, model, "nothing"), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_status(g, &err), DCTMS_BAD_FILE);
    assert_non_null(strstr(err.message, "no tensor 'nothing'"));
    dctms_graph_free(g);
    g = new_graph();
    dctms_graph_tensor(g, model, "w");
    assert_int_equal(dctms_graph_tensor(g, model, "w"), DCTMS_NO_VALUE);
    assert_int_equal(dctms_graph_status(g, &err), DCTMS_USAGE);
    assert_string_equal(err.message, "two weights are named 'w'"); /* names in a file have no end of their own */
    dctms_graph_free(g);
    g = all_ops(0);
    plan = compiled(g, 1);
    assert_int_equal(dctms_plan_verify(plan, model, defect, &err), DCTMS_BAD_FILE); /* a graph's plan is no model's */
    dctms_plan_free(plan);
    dctms_graph_free(g);
    dctms_model_free(model);
    unlink(path);
}

static void a_graph_without_data_can_be_planned(void **state) {
    (void)state;
    dctms_graph *g = new_graph();
    dctms_value w = dctms_graph_matrix(g, "w", "q4_0", 4096, 4096, NULL);
    dctms_graph_output(g, dctms_graph_linear(g, dctms_graph_input(g, "x", 4096, 1), w, DCTMS_NO_VALUE, "y"), "y");
    dctms_plan *plan = compiled(g, 1);
    dctms_runner *r;
    dctms_error err;
    assert_int_equal(dctms_graph_verify(g, plan, NULL, &err), DCTMS_OK);
    assert_int_equal(dctms_runner_open(g, plan, NULL, 0, &r, &err), DCTMS_USAGE);
    assert_non_null(strstr(err.message, "'w' was traced without data"));
    dctms_plan_free(plan);
    dctms_graph_free(g);
}

/* ---- printing ---- */

typedef struct printed { size_t n; char begin[16]; } printed;

static void note(void *ctx, const char *text, size_t n) {
    printed *p = ctx;
    for (size_t i = 0; i < n && p->n + i < sizeof p->begin - 1; i++) p->begin[p->n + i] = text[i];
    p->n += n;
}

static void a_plan_of_a_graph_prints(void **state) {
    (void)state;
    static const struct { dctms_plan_format format; const char *begin; } formats[] = {
        {DCTMS_PLAN_TABLE, ""}, {DCTMS_PLAN_TEXT, ""}, {DCTMS_PLAN_JSON, "{"}, {DCTMS_PLAN_SVG_GRAPH, "<svg "}, {DCTMS_PLAN_HTML, "<!DOCTYPE html>"},
    };
    dctms_graph *g = all_ops(0), *g2 = all_ops(12);
    dctms_plan *plan = compiled(g, 2), *other = compiled(g2, 2);
    dctms_error err;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        printed p = {0};
        assert_int_equal(dctms_plan_print(plan, formats[i].format, note, &p, &err), DCTMS_OK);
        assert_true(p.n > 500);
        assert_memory_equal(p.begin, formats[i].begin, strlen(formats[i].begin));
    }
    static const dctms_plan_format others[] = {DCTMS_PLAN_SVG_PREFILL, DCTMS_PLAN_SVG_DECODE, DCTMS_PLAN_PAPER, (dctms_plan_format)99};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(dctms_plan_print(plan, others[i], note, &(printed){0}, &err), DCTMS_USAGE);
    printed p = {0};
    assert_int_equal(dctms_plan_diff(plan, other, false, note, &p, &err), DCTMS_OK);
    assert_true(p.n > 0);
    dctms_plan_free(plan);
    dctms_plan_free(other);
    dctms_graph_free(g);
    dctms_graph_free(g2);
}

int main(void) {
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(int32_t)state * 0x1p-31f;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(what_follows_a_mistake_does_nothing),
        cmocka_unit_test(a_plan_is_of_its_graph_alone),
        cmocka_unit_test(weights_in_any_order_and_of_any_name),
        cmocka_unit_test(a_thing_may_be_done_twice),
        cmocka_unit_test(more_than_a_plan_holds_is_said),
        cmocka_unit_test(tampering_is_found),
        cmocka_unit_test(a_plan_from_a_file_runs),
        cmocka_unit_test(what_comes_from_outside_is_checked),
        cmocka_unit_test(experts_are_products_of_their_rows),
        cmocka_unit_test(attention_over_other_rows),
        cmocka_unit_test(weights_of_a_file_are_those_in_memory),
        cmocka_unit_test(a_graph_without_data_can_be_planned),
        cmocka_unit_test(a_plan_of_a_graph_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
