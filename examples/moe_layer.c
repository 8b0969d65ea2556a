/* A decoder layer with a mixture of experts, as in qwen2moe, traced from C, planned, verified and run:
 *
 *     hidden ─► norm ─► causal attention ─► + ─► norm ─┬─► router ─► the 2 of 8 experts that it chose for the row ─┬─► + ─► out
 *                                                       └─► shared expert, as much of it as its own gate says ──────┘
 *
 * Which experts run is data: it is not known when memory is planned. What is known is that each row has USED results, whoever
 * makes them, so the bytes for rows x USED results cover every routing; the weights of an expert that no row chose are not read.
 *
 *     moe_layer [THREADS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dctms.h"

enum {
    WIDTH = 64, HEADS = 4, KV_HEADS = 2, HEAD = WIDTH / HEADS, KV = KV_HEADS * HEAD,
    EXPERTS = 8, USED = 2, FF = 48, SHARED_FF = 96, MAX_ROWS = 40
};

/* ---- the weights ---- */

typedef struct layer {
    float attention_norm[WIDTH], mlp_norm[WIDTH];
    float q[WIDTH][WIDTH], q_bias[WIDTH], k[KV][WIDTH], k_bias[KV], v[KV][WIDTH], v_bias[KV], o[WIDTH][WIDTH];
    float router[EXPERTS][WIDTH];
    float gate[EXPERTS][FF][WIDTH], up[EXPERTS][FF][WIDTH], down[EXPERTS][WIDTH][FF];
    float shared_gate[SHARED_FF][WIDTH], shared_up[SHARED_FF][WIDTH], shared_down[WIDTH][SHARED_FF];
    float shared_share[1][WIDTH];
} layer;

/* Numbers in -1..1, the same everywhere. */
static float next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static void fill(float *to, size_t bytes, float middle, float spread, uint64_t *state) {
    for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] = middle + spread * next_random(state);
}

static void make_layer(layer *l) {
    uint64_t state = 1;
    fill((float *)l, sizeof *l, 0, 0.2f, &state); /* a layer is floats and nothing else */
    fill(l->attention_norm, sizeof l->attention_norm, 1, 0.2f, &state);
    fill(l->mlp_norm, sizeof l->mlp_norm, 1, 0.2f, &state);
    fill(l->router[0], sizeof l->router, 0, 0.6f, &state);
}

/* ---- the graph ---- */

static dctms_value matrix(dctms_graph *g, const char *name, uint32_t rows, uint32_t cols, const void *data) {
    return dctms_graph_matrix(g, name, "f32", rows, cols, data);
}

static dctms_value linear(dctms_graph *g, dctms_value x, const char *name, uint32_t rows, uint32_t cols, const void *data) {
    return dctms_graph_linear(g, x, matrix(g, name, rows, cols, data), DCTMS_NO_VALUE, name);
}

/* One of q, k, v: these have a bias. */
static dctms_value project(dctms_graph *g, dctms_value x, const char *name, uint32_t rows, const void *data, const char *bias_name,
                           const float *bias) {
    dctms_value w = matrix(g, name, rows, WIDTH, data), b = dctms_graph_vector(g, bias_name, rows, bias);
    return dctms_graph_linear(g, x, w, b, name);
}

static dctms_value trace_attention(dctms_graph *g, dctms_value x, const layer *l) {
    dctms_value norm = dctms_graph_vector(g, "attention_norm", WIDTH, l->attention_norm);
    dctms_value h = dctms_graph_rms_norm(g, x, norm, 1e-6f, "attention_norm");
    dctms_value q = project(g, h, "q", WIDTH, l->q, "q.bias", l->q_bias);
    dctms_value k = project(g, h, "k", KV, l->k, "k.bias", l->k_bias);
    dctms_value v = project(g, h, "v", KV, l->v, "v.bias", l->v_bias);
    q = dctms_graph_rope(g, q, HEAD, HEAD, 1e6f, false, "q.rotated");
    k = dctms_graph_rope(g, k, HEAD, HEAD, 1e6f, false, "k.rotated");
    h = dctms_graph_attention(g, q, k, v, HEADS, KV_HEADS, 1 / sqrtf(HEAD), true, "attention");
    return dctms_graph_add(g, x, linear(g, h, "o", WIDTH, WIDTH, l->o), "attended");
}

/* Gate, up and down of every expert stand one below another in three matrices. */
static dctms_value trace_experts(dctms_graph *g, dctms_value h, const layer *l) {
    dctms_value scores = linear(g, h, "router", EXPERTS, WIDTH, l->router);
    dctms_routing chosen = dctms_graph_route(g, scores, USED, false, "routing");
    dctms_value gate = dctms_graph_experts(g, h, chosen, matrix(g, "gate", EXPERTS * FF, WIDTH, l->gate), "gate");
    dctms_value up = dctms_graph_experts(g, h, chosen, matrix(g, "up", EXPERTS * FF, WIDTH, l->up), "up");
    dctms_value mid = dctms_graph_glu(g, gate, up, DCTMS_SILU, "mid");
    dctms_value down = dctms_graph_experts(g, mid, chosen, matrix(g, "down", EXPERTS * WIDTH, FF, l->down), "down");
    dctms_graph_output(g, chosen.ids, "chosen"); /* so that we can see them */
    return dctms_graph_mix(g, down, chosen.weights, "experts");
}

static dctms_value trace_shared(dctms_graph *g, dctms_value h, const layer *l) {
    dctms_value gate = linear(g, h, "shared_gate", SHARED_FF, WIDTH, l->shared_gate);
    dctms_value up = linear(g, h, "shared_up", SHARED_FF, WIDTH, l->shared_up);
    dctms_value mid = dctms_graph_glu(g, gate, up, DCTMS_SILU, "shared_mid");
    dctms_value all = linear(g, mid, "shared_down", WIDTH, SHARED_FF, l->shared_down);
    dctms_value share = dctms_graph_act(g, linear(g, h, "shared_share", 1, WIDTH, l->shared_share), DCTMS_SIGMOID, "share");
    return dctms_graph_mix(g, all, share, "shared"); /* one row, times one number */
}

static void trace_layer(dctms_graph *g, const layer *l) {
    dctms_value x = trace_attention(g, dctms_graph_input(g, "hidden", WIDTH, 1), l);
    dctms_value norm = dctms_graph_vector(g, "mlp_norm", WIDTH, l->mlp_norm);
    dctms_value h = dctms_graph_rms_norm(g, x, norm, 1e-6f, "mlp_norm");
    dctms_value experts = trace_experts(g, h, l), shared = trace_shared(g, h, l);
    dctms_value mlp = dctms_graph_add(g, experts, shared, "mlp");
    dctms_graph_output(g, dctms_graph_add(g, x, mlp, "out"), "out");
}

/* ---- plan it and run it ---- */

static void fill_hidden(float *to, uint32_t n_rows) {
    uint64_t state = 7;
    fill(to, n_rows * WIDTH * sizeof *to, 0, 1, &state);
}

static void must(dctms_status status, const dctms_error *err) {
    if (status == DCTMS_OK) return;
    fprintf(stderr, "moe_layer: %s\n", err->message);
    exit(status);
}

int main(int argc, char **argv) {
    static layer weights;
    dctms_graph *graph;
    dctms_plan *plan;
    dctms_runner *runner;
    dctms_plan_info info;
    dctms_error err;
    make_layer(&weights);

    must(dctms_graph_new("decoder layer with experts", MAX_ROWS, &graph, &err), &err);
    trace_layer(graph, &weights); /* a mistake in it is told by the next call */
    must(dctms_graph_compile(graph, argc > 1 ? (uint32_t)atoi(argv[1]) : 0, &plan, &err), &err);
    must(dctms_graph_verify(graph, plan, NULL, &err), &err);
    dctms_plan_get_info(plan, &info);
    printf("M_max %.2f MiB: weights %.2f, intermediates %.2f for %d rows, whatever experts they choose\n",
           (double)info.m_max_bytes / 1048576, (double)info.weights_bytes / 1048576, (double)info.intermediate_bytes / 1048576,
           MAX_ROWS);

    must(dctms_runner_open(graph, plan, NULL, 0, &runner, &err), &err); /* the last call that obtains memory */
    dctms_graph_free(graph);
    dctms_plan_free(plan);
    fill_hidden(dctms_runner_data(runner, "hidden"), MAX_ROWS);
    must(dctms_runner_run(runner, MAX_ROWS, &err), &err);
    const int32_t *chosen = dctms_runner_data(runner, "chosen");
    const float *out = dctms_runner_data(runner, "out");
    for (int row = 0; row < 3; row++)
        printf("row %d chose experts %d and %d: %.4f %.4f %.4f ...\n", row, chosen[row * USED], chosen[row * USED + 1],
               (double)out[row * WIDTH], (double)out[row * WIDTH + 1], (double)out[row * WIDTH + 2]);
    dctms_runner_free(runner);
    return 0;
}
