/* The operations of graphs of one's own, in red zones: pieces taken from the last to the first, in runs shorter than the bound, write
 * every element of the rows that the run has, nothing of the rows that it has not, nothing around them, and none of their inputs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/exec.h"

enum { R = 21, WIDTH = 48, HEADS = 3, EXPERTS = 5, USED = 2, ZONE = 256 };
enum { RED = 0xA5 }; /* as a float: -2.87e-16, which no result is by chance */

/* A value's bytes between two red zones. */
typedef struct buffer {
    unsigned char *from;
    size_t bytes;
} buffer;

typedef struct fixture {
    dct_arena arena;
    dct_graph g;
    buffer *buffers;
} fixture;

static dct_value_id input(dct_graph *g, const char *name, uint32_t cols) {
    return dct_graph_value(g, name, -1, DCT_KIND_INPUT, DCT_FMT_F32, R, cols);
}

static dct_value_id vector(dct_graph *g, const char *name) {
    dct_weight w = {.type = DCT_TYPE_F32, .n_rows = 1, .n_cols = WIDTH, .is_vector = true, .bytes = WIDTH * sizeof(float)};
    strcpy(w.tensor, name);
    return dct_graph_weight(g, &w);
}

static dct_value_id experts(dct_graph *g) {
    dct_weight w = {.tensor = "experts", .type = DCT_TYPE_F32, .n_rows = EXPERTS * WIDTH, .n_cols = WIDTH};
    assert_true(dct_layout_bytes(w.type, w.n_rows, w.n_cols, &w.bytes));
    return dct_graph_weight(g, &w);
}

static void trace(fixture *f) {
    dct_graph *g = &f->g;
    dct_value_id ids, weights;
    dct_arena_init(&f->arena, 0);
    dct_graph_init(g, &f->arena, R);
    dct_value_id x = input(g, "x", WIDTH);
    x = dct_trace_layer_norm(g, x, vector(g, "w"), vector(g, "b"), 1e-5f, "normed");
    x = dct_trace_act(g, x, DCT_ACT_SIGMOID, "active");
    x = dct_trace_mul(g, x, input(g, "y", WIDTH), "product");
    dct_trace_route(g, input(g, "scores", EXPERTS), USED, true, "routing", &ids, &weights);
    dct_value_id each = dct_trace_experts(g, x, ids, experts(g), "each");
    each = dct_trace_experts(g, each, ids, experts(g), "again");
    x = dct_trace_mix(g, each, weights, "mixed");
    x = dct_trace_window(g, x, 2, 2, 1, "windows");
    dct_op_params p = {.n_head = 2 * HEADS, .n_head_kv = HEADS, .head_dim = WIDTH / HEADS, .head_dim_v = WIDTH / HEADS, .scale = 1};
    x = dct_trace_attn_rows(g, x, input(g, "k", WIDTH), input(g, "v", WIDTH), &p, "attended");
    if (g->status != DCT_OK) fail_msg("%s", g->err.message);
    dct_graph_output(g, x);
    g->logits = DCT_NONE;
    dct_err err;
    if (dct_graph_check(g, &err) != DCT_OK) fail_msg("%s", err.message);
    f->buffers = calloc(g->n_values, sizeof *f->buffers);
    for (dct_value_id v = 0; v < g->n_values; v++) {
        f->buffers[v].bytes = (size_t)g->values[v].bytes;
        f->buffers[v].from = (unsigned char *)aligned_alloc(64, f->buffers[v].bytes + 2 * ZONE) + ZONE;
        memset(f->buffers[v].from - ZONE, RED, f->buffers[v].bytes + 2 * ZONE);
        bool made = g->values[v].producer != DCT_NONE;
        for (size_t i = 0; !made && i < f->buffers[v].bytes / sizeof(float); i++)
            ((float *)(void *)f->buffers[v].from)[i] = (float)((i * 37 + v * 11) % 101) / 101 - 0.5f;
    }
}

static void drop(fixture *f) {
    for (dct_value_id v = 0; v < f->g.n_values; v++) free(f->buffers[v].from - ZONE);
    free(f->buffers);
    dct_arena_deinit(&f->arena);
}

static bool is_red(const unsigned char *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (from[i] != RED) return false;
    return true;
}

static uint64_t sum_of(const buffer *b) {
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < b->bytes; i++) sum = (sum ^ b->from[i]) * 1099511628211u;
    return sum;
}

/* Rows that the run has are written, those that it has not are not. K and V lie block by block: of them the zones are enough. */
static void check_output(const fixture *f, dct_value_id id, uint32_t n) {
    const dct_value *v = &f->g.values[id];
    const buffer *b = &f->buffers[id];
    if (!is_red(b->from - ZONE, ZONE) || !is_red(b->from + b->bytes, ZONE)) fail_msg("'%s' is left, %u rows", v->name, n);
    if (v->format == DCT_FMT_KV_ROWS) return;
    size_t written = (size_t)dct_value_rows(v, n) * v->cols * 4;
    for (size_t i = 0; i < written; i += 4)
        if (is_red(b->from + i, 4)) fail_msg("'%s': element %zu is not written, %u rows", v->name, i / 4, n);
    if (!is_red(b->from + written, b->bytes - written)) fail_msg("'%s': rows behind the run are written, %u rows", v->name, n);
}

static void run_op(const fixture *f, dct_op_id id, uint32_t n, uint32_t n_workers) {
    const dct_op *op = &f->g.ops[id];
    uint64_t scratch_bytes = dct_op_scratch_bytes(&f->g, op), sums[DCT_OP_MAX_IN] = {0};
    void *scratch = aligned_alloc(64, (size_t)scratch_bytes + 64);
    dct_op_run run = {.graph = &f->g, .op = op, .scratch = scratch, .n = n, .n_workers = n_workers, .kernels = dct_kernels_best()};
    for (uint32_t i = 0; i < op->n_in; i++) {
        run.in[i] = f->buffers[op->in[i]].from;
        sums[i] = sum_of(&f->buffers[op->in[i]]);
    }
    for (uint32_t i = 0; i < op->n_out; i++) run.out[i] = f->buffers[op->out[i]].from;
    dct_op_cut(&run);
    for (uint32_t piece = run.n_pieces; piece > 0; piece--) dct_op_piece(&run, piece - 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (sum_of(&f->buffers[op->in[i]]) != sums[i]) fail_msg("%s changes its input %u", dct_op_info_of(op->kind)->name, i);
    for (uint32_t i = 0; i < op->n_out; i++) check_output(f, op->out[i], n);
    free(scratch);
}

static void pieces_write_the_rows_of_the_run(void **state) {
    (void)state;
    static const uint32_t lengths[] = {R, R - 1, 16, 2, 1};
    for (uint32_t n_workers = 1; n_workers <= 3; n_workers++) {
        for (int i = 0; i < 5; i++) {
            fixture f;
            trace(&f);
            for (dct_op_id id = 0; id < f.g.n_ops; id++) run_op(&f, id, lengths[i], n_workers);
            drop(&f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_write_the_rows_of_the_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
