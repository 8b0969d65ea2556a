/* The reader: what it makes of a small model, models cut off at every byte and with every byte changed, and what it says of files
 * that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "onnx/onnx.h"
#include "support/onnx_build.h"

/* x ─ Conv ─ c ─ Relu ─ r ─ Reshape ─ y, the shape a weight. */
static pb small_graph(void) {
    pb g = {0};
    pb_text(&g, 2, "small");
    pb_add(&g, 11, onnx_info("x", "f?batchx3x8x8"));
    pb_add(&g, 5, onnx_tensor("w", "f4x3x3x3"));
    pb_add(&g, 5, onnx_tensor("to", "i2:0,-1"));
    pb_add(&g, 1, onnx_node("Conv", "x w", "c", "pads=1,1,1,1,"));
    pb_add(&g, 1, onnx_node("Relu", "c", "r", ""));
    pb_add(&g, 1, onnx_node("Reshape", "r to", "y", ""));
    pb_add(&g, 12, onnx_info("y", "f?batchx256"));
    return g;
}

static pb small_model(void) {
    pb g = small_graph();
    return onnx_model(&g);
}

/* All that an open model goes through before it is packed. */
static dct_status go_through(const void *bytes, size_t n, dct_arena *arena, dct_onnx_graph *g, dct_err *err) {
    uint32_t n_unshaped;
    dct_arena_init(arena, 64 << 20);
    dct_status status = dct_onnx_open_bytes(bytes, n, arena, g, err);
    if (status == DCT_OK) status = dct_onnx_bind_dim(g, "batch=2", err);
    if (status == DCT_OK) status = dct_onnx_check_bound(g, err);
    if (status == DCT_OK) status = dct_onnx_shape(g, arena, &n_unshaped, err);
    return status;
}

static void a_model_is_read(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb model = small_model();
    dct_arena arena;
    dct_onnx_graph g;
    dct_err err;
    assert_int_equal(go_through(model.bytes, model.n, &arena, &g, &err), DCT_OK);
    assert_int_equal(g.n_nodes, 3);
    assert_int_equal(g.opset, 17);
    assert_true(dct_str_eq_z(g.name, "small"));
    const dct_onnx_value *y = &g.values[g.nodes[2].out[0]];
    assert_true(y->is_output && y->is_shaped);
    assert_int_equal(y->tensor.n_dims, 2);
    assert_int_equal(y->tensor.dims[0], 2);
    assert_int_equal(y->tensor.dims[1], 256);
    dct_arena_deinit(&arena);
    pb_free(&model);
}

/* The same through a file, whose weight's data are passed over: the buffer does not hold them all. */
static void weights_are_passed_over(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    char path[512];
    snprintf(path, sizeof path, "%s/onnx_read.%ld.onnx", DCT_BINARY_DIR, (long)getpid());
    pb g = small_graph(), big = {0};
    size_t n = 300000;
    void *data = calloc(1, n);
    pb_int(&big, 1, 75000);
    pb_int(&big, 2, 1);
    pb_text(&big, 8, "big");
    pb_bytes(&big, 9, data, n);
    pb_put(&g, 5, &big);
    pb_add(&g, 1, onnx_node("Relu", "big", "unused", ""));
    pb model = onnx_model(&g);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(model.bytes, 1, model.n, f), model.n);
    fclose(f);
    dct_arena arena;
    dct_arena_init(&arena, 256 * 1024);
    dct_onnx_graph read;
    dct_err err;
    assert_int_equal(dct_onnx_open(path, &arena, &read, &err), DCT_OK);
    assert_int_equal(read.n_nodes, 4);
    assert_true(read.values[read.nodes[3].in[0]].source == DCT_ONNX_WEIGHT);
    dct_arena_deinit(&arena);
    remove(path);
    free(data);
    pb_free(&model);
}

/* Never anything but a status with a line; whole or not, nothing is read past its end (the sanitizers watch). */
static void damage_is_refused_or_read(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb model = small_model();
    dct_arena arena;
    dct_onnx_graph g;
    dct_err err;
    for (size_t n = 0; n < model.n; n++) {
        uint8_t *cut = malloc(n > 0 ? n : 1); /* of that size exactly */
        memcpy(cut, model.bytes, n);
        err = (dct_err){0};
        dct_status status = go_through(cut, n, &arena, &g, &err);
        assert_true(status == DCT_OK || (status == DCT_BAD_FILE && err.message[0] != '\0'));
        dct_arena_deinit(&arena);
        free(cut);
    }
    for (size_t at = 0; at < model.n; at++) {
        for (int flip = 1; flip < 256; flip += 14) {
            model.bytes[at] ^= (uint8_t)flip;
            err = (dct_err){0};
            dct_status status = go_through(model.bytes, model.n, &arena, &g, &err);
            assert_true(status == DCT_OK || (status != DCT_BUG && err.message[0] != '\0'));
            dct_arena_deinit(&arena);
            model.bytes[at] ^= (uint8_t)flip;
        }
    }
    pb_free(&model);
}

/* Node 1 comes before node 0, on which it depends: put in order. */
static void nodes_are_put_in_order(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb graph = {0};
    pb_add(&graph, 11, onnx_info("x", "f4"));
    pb_add(&graph, 1, onnx_node("Relu", "b", "c", ""));
    pb_add(&graph, 1, onnx_node("Abs", "x", "a", ""));
    pb_add(&graph, 1, onnx_node("Neg", "a", "b", ""));
    pb_add(&graph, 1, onnx_node("Exp", "x", "d", ""));
    pb model = onnx_model(&graph);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_onnx_graph g;
    dct_err err;
    assert_int_equal(dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err), DCT_OK);
    static const char *const order[] = {"Abs", "Neg", "Relu", "Exp"};
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(dct_str_eq_z(g.nodes[i].op, order[i]));
        assert_int_equal(g.values[g.nodes[i].out[0]].node, i);
    }
    dct_arena_deinit(&arena);
    pb_free(&model);
}

/* A graph of one lie, and words of what is said about it. */
static void check_lie(pb graph, const char *said) {
    pb model = onnx_model(&graph);
    dct_arena arena;
    dct_onnx_graph g;
    dct_err err = {0};
    dct_status status = go_through(model.bytes, model.n, &arena, &g, &err);
    if (status != DCT_BAD_FILE || strstr(err.message, said) == NULL) fail_msg("'%s', not '%s'", err.message, said);
    dct_arena_deinit(&arena);
    pb_free(&model);
}

/* As check_lie, of the small graph with one field more. */
static void check_lie_with(uint32_t field, pb message, const char *said) {
    pb g = small_graph();
    pb_add(&g, field, message);
    check_lie(g, said);
}

static void lies_are_named(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    check_lie_with(1, onnx_node("Relu", "c", "r", ""), "'r' is defined twice");
    check_lie_with(5, onnx_tensor("w", "f1:0"), "'w' is defined twice");
    check_lie_with(11, onnx_info("x", "f1"), "'x' is defined twice");
    check_lie_with(1, onnx_node("Relu", "nowhere", "z", ""), "reads 'nowhere', which nothing defines");
    check_lie_with(12, onnx_info("lost", "f1"), "nothing defines the output 'lost'");
    pb g = small_graph();
    pb_add(&g, 1, onnx_node("Add", "x q", "p", ""));
    pb_add(&g, 1, onnx_node("Relu", "p", "q", ""));
    check_lie(g, "which needs it in turn");
    check_lie_with(1, onnx_node("Add", "x self", "self", ""), "which needs it in turn");
    check_lie_with(5, onnx_tensor("n", "f-3"), "tensor 'n': dimension 0 is -3");
    check_lie_with(5, onnx_tensor("n", "f9223372036854775807x9223372036854775807"), "more bytes than there can be");
    check_lie_with(5, onnx_tensor("n", "i3:1,2"), "has 16 bytes, its shape needs 24");
    check_lie_with(5, onnx_tensor("n", "f1x1x1x1x1x1x1x1x1"), "more than 8 dimensions");
    check_lie_with(5, onnx_tensor("n", "?1"), "its type (0) is not known");
    check_lie_with(11, onnx_info("words", "s4"), "no tensor of numbers");
    check_lie_with(15, (pb){0}, "sparse weights");
    check_lie((pb){0}, "no graph with nodes");
}

static void bounds_are_asked_for(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    static const struct {
        const char *input, *dim, *said; /* said NULL: bound */
    } cases[] = {
        {NULL, NULL, "1 dimension is open: 0 'batch' of 'x'"},
        {NULL, "batch=4", NULL},
        {"x=4x3x8x8", NULL, NULL},
        {"x=4x3x8x8", "batch=4", NULL},
        {"x=4x3x8x8", "batch=5", "another size"},
        {"x=4x3x8x9", NULL, "dimension 3 is 8, not 9"},
        {"x=4x3x8", NULL, "has 4 dimensions, not 3"},
        {"y=4", NULL, "no input 'y'"},
        {"w=4", NULL, "no input 'w'"},
        {"x=4x", NULL, "is expected"},
        {"x=4x3x8x99999999999999999999", NULL, "is expected"},
        {NULL, "batch=281474976710656", "input 'x' has more bytes than there can be"},
        {NULL, "batch=-1", "NAME=N is expected"},
        {NULL, "batch", "NAME=N is expected"},
        {NULL, "time=3", "no input has a dimension named 'time'"},
    };
    pb model = small_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_onnx_graph g;
        dct_err err = {0};
        assert_int_equal(dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err), DCT_OK);
        dct_status status = DCT_OK;
        if (cases[i].input != NULL) status = dct_onnx_bind_input(&g, cases[i].input, &err);
        if (status == DCT_OK && cases[i].dim != NULL) status = dct_onnx_bind_dim(&g, cases[i].dim, &err);
        if (status == DCT_OK) status = dct_onnx_check_bound(&g, &err);
        bool right = cases[i].said == NULL ? status == DCT_OK : status == DCT_USAGE && strstr(err.message, cases[i].said) != NULL;
        if (!right) fail_msg("case %zu: %s", i, err.message);
        dct_arena_deinit(&arena);
    }
    pb_free(&model);
}

/* Of an input without a shape only the sizes are bound: it has no names that could be taken for those of the next. */
static void an_input_without_a_shape_has_no_names(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb graph = {0}, info = {0}, type = {0}, tensor = {0};
    pb_int(&tensor, 1, 1);
    pb_put(&type, 1, &tensor);
    pb_text(&info, 1, "x");
    pb_put(&info, 2, &type);
    pb_put(&graph, 11, &info);
    pb_add(&graph, 11, onnx_info("y", "f?batchx128"));
    pb_add(&graph, 1, onnx_node("Relu", "y", "z", ""));
    pb model = onnx_model(&graph);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_onnx_graph g;
    dct_err err = {0};
    assert_int_equal(dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err), DCT_OK);
    assert_int_equal(dct_onnx_check_bound(&g, &err), DCT_USAGE);
    assert_non_null(strstr(err.message, "the file says no shape for input 'x'"));
    if (dct_onnx_bind_input(&g, "x=4x128", &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(dct_onnx_check_bound(&g, &err), DCT_USAGE);
    assert_non_null(strstr(err.message, "1 dimension is open: 0 'batch' of 'y'"));
    dct_arena_deinit(&arena);
    pb_free(&model);
}

/* A node with one attribute, of n numbers. */
static pb node_with_list(const char *op, const char *out, uint32_t n) {
    pb node = onnx_node(op, "x", out, ""), attr = {0};
    pb_text(&attr, 1, "numbers");
    for (uint32_t i = 0; i < n; i++) pb_int(&attr, 8, i);
    pb_put(&node, 5, &attr);
    return node;
}

/* Lists that are not kept refuse no file: all nodes that cannot be shaped are named, and whether it is for their lists. */
static void long_lists_are_named_with_their_nodes(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    static const struct {
        const char *op;
        uint32_t n;
        const char *why; /* NULL: shaped */
    } nodes[] = {
        {"TreeEnsembleRegressor", 1025, "there is no rule for it"},
        {"Relu", 1025, "an attribute has more than 1024 numbers"},
        {"Relu", 1024, NULL},
        {"Scaler", 3000, "there is no rule for it"},
    };
    enum { N_NODES = sizeof nodes / sizeof *nodes };
    pb graph = {0};
    pb_add(&graph, 11, onnx_info("x", "f4"));
    for (uint32_t i = 0; i < N_NODES; i++) {
        char out[16];
        snprintf(out, sizeof out, "o%u", i);
        pb_add(&graph, 1, node_with_list(nodes[i].op, out, nodes[i].n));
    }
    pb model = onnx_model(&graph);
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_onnx_graph g;
    dct_err err = {0};
    uint32_t n_unshaped;
    if (dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(dct_onnx_shape(&g, &arena, &n_unshaped, &err), DCT_OK);
    assert_int_equal(n_unshaped, 3);
    assert_int_equal(g.n_nodes, N_NODES);
    for (uint32_t i = 0; i < N_NODES; i++) {
        assert_true(dct_str_eq_z(g.nodes[i].op, nodes[i].op));
        if (nodes[i].why == NULL) assert_null(g.nodes[i].why);
        else assert_string_equal(g.nodes[i].why, nodes[i].why);
    }
    dct_arena_deinit(&arena);
    pb_free(&model);
}

static void memory_that_is_refused_is_said(void **state) {
    (void)state;
    if (!dct_onnx_is_supported()) skip();
    pb model = small_model();
    bool done = false;
    for (uint64_t k = 1; !done; k++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_onnx_graph g;
        dct_err err = {0};
        uint32_t n_unshaped;
        dct_status status = dct_onnx_open_bytes(model.bytes, model.n, &arena, &g, &err);
        if (status == DCT_OK) status = dct_onnx_bind_dim(&g, "batch=1", &err);
        if (status == DCT_OK) status = dct_onnx_shape(&g, &arena, &n_unshaped, &err);
        done = arena.n_allocs < k;
        assert_int_equal(status, done ? DCT_OK : DCT_NO_FIT);
        dct_arena_deinit(&arena);
    }
    pb_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_read),        cmocka_unit_test(weights_are_passed_over),
        cmocka_unit_test(damage_is_refused_or_read), cmocka_unit_test(nodes_are_put_in_order),
        cmocka_unit_test(lies_are_named),         cmocka_unit_test(bounds_are_asked_for),
        cmocka_unit_test(an_input_without_a_shape_has_no_names), cmocka_unit_test(long_lists_are_named_with_their_nodes),
        cmocka_unit_test(memory_that_is_refused_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
