/* onnx/order: every value is defined before it is read.
 *
 * The format asks for nodes in such an order, but some exporters append nodes that belong further up. Here each node is followed
 * by those behind it in the file, after the nodes that it needs and that stand further down: what is in order stays as it is.
 */
#include "onnx/order.h"

enum { UNSEEN, OPEN, DONE };

typedef struct visit {
    uint32_t node, next_in; /* the input to look at next */
} visit;

typedef struct sorter {
    dct_onnx_graph *g;
    uint8_t *state;  /* of each node */
    visit *stack;    /* nodes that wait for those above them */
    uint32_t *order; /* node numbers of the file */
    uint32_t n_stack, n_order;
} sorter;

static dct_status fail_at_node(const dct_onnx_graph *g, uint32_t i, uint32_t value, const char *what, dct_err *err) {
    const dct_onnx_node *node = &g->nodes[i];
    return dct_fail(err, DCT_BAD_FILE, "node %u (%s '%s') reads '%s', %s", i, dct_onnx_quote(node->op).text,
                    dct_onnx_quote(node->name).text, dct_onnx_quote(g->values[value].name).text, what);
}

/* The top of the stack waits for one more node, or is done. */
static dct_status advance(sorter *s, dct_err *err) {
    visit *top = &s->stack[s->n_stack - 1];
    const dct_onnx_node *node = &s->g->nodes[top->node];
    while (top->next_in < node->n_needs) {
        bool is_inside = top->next_in >= node->n_in; /* what a body reads may be the body's own */
        uint32_t v = node->in[top->next_in++];
        if (v == DCT_ONNX_NONE) continue;
        const dct_onnx_value *value = &s->g->values[v];
        if (value->source == DCT_ONNX_UNDEFINED) return fail_at_node(s->g, top->node, v, "which nothing defines", err);
        if (value->source != DCT_ONNX_NODE || s->state[value->node] == DONE) continue;
        if (is_inside && value->node == top->node) continue;
        if (s->state[value->node] == OPEN) return fail_at_node(s->g, top->node, v, "which needs it in turn", err);
        s->state[value->node] = OPEN;
        s->stack[s->n_stack++] = (visit){value->node, 0};
        return DCT_OK;
    }
    s->state[top->node] = DONE;
    s->order[s->n_order++] = top->node;
    s->n_stack--;
    return DCT_OK;
}

static dct_status find_order(sorter *s, dct_err *err) {
    for (uint32_t i = 0; i < s->g->n_nodes; i++) {
        if (s->state[i] != UNSEEN) continue;
        s->state[i] = OPEN;
        s->stack[s->n_stack++] = (visit){i, 0};
        while (s->n_stack > 0) {
            dct_status status = advance(s, err);
            if (status != DCT_OK) return status;
        }
    }
    return DCT_OK;
}

static void apply(const sorter *s, dct_onnx_node *sorted, uint32_t *number) {
    dct_onnx_graph *g = s->g;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        sorted[i] = g->nodes[s->order[i]];
        number[s->order[i]] = i;
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->values[v].source == DCT_ONNX_NODE) g->values[v].node = number[g->values[v].node];
    }
    g->nodes = sorted;
}

dct_status dct_onnx_sort(dct_onnx_graph *g, dct_arena *arena, dct_err *err) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->values[v].source == DCT_ONNX_UNDEFINED && g->values[v].is_output)
            return dct_fail(err, DCT_BAD_FILE, "nothing defines the output '%s'", dct_onnx_quote(g->values[v].name).text);
    }
    sorter s = {.g = g};
    s.state = dct_arena_alloc(arena, g->n_nodes);
    s.stack = dct_arena_array(arena, g->n_nodes, sizeof *s.stack);
    s.order = dct_arena_array(arena, g->n_nodes, sizeof *s.order);
    dct_onnx_node *sorted = dct_arena_array(arena, g->n_nodes, sizeof *sorted);
    uint32_t *number = dct_arena_array(arena, g->n_nodes, sizeof *number);
    if (s.state == NULL || s.stack == NULL || s.order == NULL || sorted == NULL || number == NULL)
        return dct_fail_memory(err, arena, "the order of nodes");
    dct_status status = find_order(&s, err);
    if (status == DCT_OK) apply(&s, sorted, number);
    return status;
}
