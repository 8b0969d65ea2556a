/* tools/onnx_order: the steps of an ONNX graph in an order of less load than the file's. */
#include "base/size.h"
#include "compile/order_search.h"
#include "plan/plan.h"
#include "tools/onnx_memory.h"

/* A value and all its views are one value of the search, which has the number of the first of them. */
typedef struct builder {
    const dct_onnx_graph *g;
    const uint32_t *steps;
    uint32_t n_steps;
    uint32_t *maker;          /* [n_values]: the step that writes it, or DCT_ONNX_NONE */
    uint32_t *first;          /* [n_values]: what it is a view of; itself */
    uint32_t *seen;           /* [n_values]: the step that listed it last, + 1 */
    dct_order_node *nodes;
    dct_order_value *values;
    uint32_t *lists, n_listed;
    bool exact;               /* what the search counts is what lies in the arena */
} builder;

static dct_status make_builder(builder *b, dct_arena *arena, dct_err *err) {
    uint64_t n_listed = 0;
    for (uint32_t t = 0; t < b->n_steps; t++) {
        const dct_onnx_node *node = &b->g->nodes[b->steps[t]];
        n_listed += 3 * (uint64_t)node->n_in + node->n_out;
    }
    b->maker = dct_arena_array(arena, b->g->n_values, sizeof *b->maker);
    b->first = dct_arena_array(arena, b->g->n_values, sizeof *b->first);
    b->seen = dct_arena_array(arena, b->g->n_values, sizeof *b->seen);
    b->nodes = dct_arena_array(arena, b->n_steps, sizeof *b->nodes);
    b->values = dct_arena_array(arena, b->g->n_values, sizeof *b->values);
    b->lists = dct_arena_array(arena, n_listed, sizeof *b->lists);
    if (b->maker == NULL || b->first == NULL || b->seen == NULL || b->nodes == NULL || b->values == NULL || b->lists == NULL)
        return dct_fail_memory(err, arena, "the order of steps");
    return DCT_OK;
}

static void find_values(builder *b) {
    const dct_onnx_graph *g = b->g;
    for (uint32_t v = 0; v < g->n_values; v++) {
        b->maker[v] = DCT_ONNX_NONE;
        b->first[v] = v;
    }
    for (uint32_t t = 0; t < b->n_steps; t++) {
        const dct_onnx_node *node = &g->nodes[b->steps[t]];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != DCT_ONNX_NONE) b->maker[node->out[k]] = t;
        }
        if (node->storage == DCT_ONNX_VIEW && node->out[0] != DCT_ONNX_NONE) b->first[node->out[0]] = b->first[node->in[0]];
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint64_t bytes = 0;
        if (b->maker[v] != DCT_ONNX_NONE && b->first[v] == v && dct_onnx_bytes(&g->values[v].tensor, &bytes))
            b->values[v].bytes = dct_round_up(bytes, DCT_PLAN_ALIGN);
    }
    for (uint32_t v = 0; v < g->n_values; v++) { /* outputs lie elsewhere */
        if (!g->values[v].is_output) continue;
        b->values[b->first[v]] = (dct_order_value){.bytes = 0, .stays = true};
    }
}

static void describe_step(builder *b, uint32_t t) {
    const dct_onnx_node *node = &b->g->nodes[b->steps[t]];
    uint32_t *after = b->lists + b->n_listed, *reads = after + node->n_in, *over = reads + node->n_in, *makes = over + node->n_in;
    b->n_listed += 3 * node->n_in + node->n_out;
    dct_order_node n = {.after = after, .reads = reads, .makes = makes, .over = over};
    for (uint32_t k = 0; k < node->n_in; k++) {
        uint32_t v = node->in[k];
        if (v == DCT_ONNX_NONE || b->maker[v] == DCT_ONNX_NONE) continue;
        after[n.n_after++] = b->maker[v];
        uint32_t first = b->first[v];
        if (b->maker[first] == DCT_ONNX_NONE || b->seen[first] == t + 1) continue;
        b->seen[first] = t + 1;
        bool is_free = b->values[first].bytes > 0 && node->storage == DCT_ONNX_ELEMENTWISE && node->out[0] != DCT_ONNX_NONE &&
                       dct_onnx_same_size(&b->g->values[v].tensor, &b->g->values[node->out[0]].tensor);
        if (is_free && b->values[node->out[0]].stays) b->exact = false; /* it may lie where the output will */
        else if (is_free) over[n.n_over++] = n.n_reads;
        reads[n.n_reads++] = first;
    }
    for (uint32_t k = 0; k < node->n_out; k++) {
        uint32_t v = node->out[k];
        if (v != DCT_ONNX_NONE && b->first[v] == v) makes[n.n_makes++] = v;
    }
    b->nodes[t] = n;
}

dct_status dct_onnx_order(const dct_onnx_graph *g, const uint32_t *steps, uint32_t n_steps, dct_arena *arena, uint32_t *ordered,
                          dct_order_result *out, bool *exact, dct_err *err) {
    builder b = {.g = g, .steps = steps, .n_steps = n_steps, .exact = true};
    dct_status status = make_builder(&b, arena, err);
    if (status != DCT_OK) return status;
    find_values(&b);
    for (uint32_t t = 0; t < n_steps; t++) describe_step(&b, t);
    const dct_order_problem problem = {.nodes = b.nodes, .values = b.values, .n_nodes = n_steps, .n_values = g->n_values};
    status = dct_order_search(&problem, arena, ordered, out, err);
    if (status != DCT_OK) return status;
    for (uint32_t t = 0; t < n_steps; t++) ordered[t] = steps[ordered[t]];
    *exact = b.exact;
    return DCT_OK;
}
