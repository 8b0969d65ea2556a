/* compile/order: in which order the ops run, and which results lie in the bytes of an input.
 *
 * The order of the trace, unless another has less load (order_search.h), in-place results and scratch counted. What a decoder's
 * ops read and write leaves one order, which costs no search; graphs of one's own have branches.
 */
#include <string.h>

#include "base/size.h"
#include "compile/order_search.h"
#include "compile/passes.h"

enum {
    WIDTH = 256, /* of the search: its memory counts for the process, and these graphs are small */
    MOST_LISTED = 2 * DCT_OP_MAX_IN + DCT_OP_MAX_OUT + 1 /* of an op: what it is after, reads, makes, overwrites */
};

typedef struct orderer {
    dct_graph *g;
    uint32_t threads;
    dct_order_node *nodes;   /* [n_ops] */
    uint32_t *lists;         /* [n_ops * MOST_LISTED]: what they point to */
    dct_order_value *values; /* [n_values] */
    dct_op_id *last_toucher; /* [n_values], of caches */
    uint32_t *order;         /* position -> op */
    uint32_t *last_read;     /* [n_values]: the position of the last reader */
} orderer;

uint64_t dct_scratch_all(const dct_graph *g, const dct_op *op, uint32_t threads) {
    return dct_round_up(dct_op_scratch_bytes(g, op), DCT_PLAN_ALIGN) * threads;
}

dct_value_id dct_alias_root(const dct_graph *g, dct_value_id v) {
    while (g->values[v].alias_of != DCT_NONE) v = g->values[v].alias_of;
    return v;
}

bool dct_lies_in_logits(const dct_graph *g, dct_value_id v) {
    return g->logits != DCT_NONE && dct_alias_root(g, v) == dct_alias_root(g, g->logits);
}

/* Whether op could put output 0 into the bytes of its in-place input, were it the last to read it. An alias always has the higher
 * id, so chains of aliases end; an input named twice is read in one place while it is written in another. */
static bool could_run_in_place(const dct_graph *g, const dct_op *op) {
    int slot = dct_op_info_of(op->kind)->inplace;
    if (slot < 0 || (uint32_t)slot >= op->n_in || op->in[slot] == DCT_NONE) return false;
    dct_value_id in = op->in[slot];
    const dct_value *from = &g->values[in], *to = &g->values[op->out[0]];
    if (from->kind != DCT_KIND_INTERMEDIATE || (to->kind != DCT_KIND_INTERMEDIATE && op->out[0] != g->logits)) return false;
    if (from->bytes != to->bytes || from->format != to->format || in > op->out[0]) return false;
    for (uint32_t k = 0; k < op->n_in; k++) {
        if (k != (uint32_t)slot && op->in[k] == in) return false;
    }
    return true;
}

/* ---- the graph as the search sees it ---- */

static bool is_packed(const dct_graph *g, dct_value_id v) { return v != DCT_NONE && g->values[v].kind == DCT_KIND_INTERMEDIATE; }

/* Takes note that op i has input k, and returns the op that it must follow because of it. A value is read after it is made. What
 * touches a cache keeps the order of the trace, which costs no freedom worth having. */
static dct_op_id note_input(orderer *o, dct_op_id i, uint32_t k) {
    const dct_graph *g = o->g;
    dct_value_id v = g->ops[i].in[k];
    if (g->values[v].kind != DCT_KIND_KV) return g->values[v].producer;
    dct_op_id before = o->last_toucher[v];
    o->last_toucher[v] = i;
    return before;
}

static void describe_op(orderer *o, dct_op_id i) {
    const dct_graph *g = o->g;
    const dct_op *op = &g->ops[i];
    uint32_t *after = o->lists + (size_t)i * MOST_LISTED, *reads = after + DCT_OP_MAX_IN, *makes = reads + DCT_OP_MAX_IN;
    uint32_t *over = makes + DCT_OP_MAX_OUT;
    dct_order_node n = {.after = after, .reads = reads, .makes = makes, .over = over,
                        .scratch_bytes = dct_scratch_all(g, op, o->threads)};
    bool in_place = could_run_in_place(g, op) && is_packed(g, op->out[0]);
    for (uint32_t k = 0; k < op->n_in; k++) {
        dct_value_id v = op->in[k];
        if (v == DCT_NONE) continue;
        dct_op_id before = note_input(o, i, k);
        if (before != DCT_NONE && before != i) after[n.n_after++] = before;
        bool again = false;
        for (uint32_t j = 0; j < n.n_reads; j++) again = again || reads[j] == v;
        if (again || !is_packed(g, v)) continue;
        if (in_place && dct_op_info_of(op->kind)->inplace == (int)k) over[n.n_over++] = n.n_reads;
        reads[n.n_reads++] = v;
    }
    for (uint32_t k = 0; k < op->n_out; k++) {
        if (is_packed(g, op->out[k])) makes[n.n_makes++] = op->out[k];
    }
    o->nodes[i] = n;
}

static void describe(orderer *o) {
    const dct_graph *g = o->g;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        o->values[v].bytes = is_packed(g, v) ? g->values[v].bytes : 0;
        o->last_toucher[v] = DCT_NONE;
    }
    for (dct_op_id i = 0; i < g->n_ops; i++) describe_op(o, i);
}

/* ---- the order in the graph ---- */

static dct_status apply(orderer *o, dct_arena *arena, dct_err *err) {
    dct_graph *g = o->g;
    dct_op *ops = dct_arena_array(arena, g->n_ops, sizeof *ops);
    if (ops == NULL) return dct_fail_memory(err, arena, "the order of ops");
    for (uint32_t at = 0; at < g->n_ops; at++) {
        ops[at] = g->ops[o->order[at]];
        for (uint32_t k = 0; k < ops[at].n_in; k++) {
            if (ops[at].in[k] != DCT_NONE) o->last_read[ops[at].in[k]] = at;
        }
        for (uint32_t k = 0; k < ops[at].n_out; k++) {
            if (ops[at].out[k] != DCT_NONE) g->values[ops[at].out[k]].producer = at;
        }
    }
    g->ops = ops;
    g->cap_ops = g->n_ops;
    for (dct_value_id v = 0; v < g->n_values; v++) g->values[v].alias_of = DCT_NONE;
    for (uint32_t at = 0; at < g->n_ops; at++) {
        if (!could_run_in_place(g, &ops[at])) continue;
        dct_value_id in = ops[at].in[dct_op_info_of(ops[at].kind)->inplace];
        if (o->last_read[in] == at) g->values[ops[at].out[0]].alias_of = in;
    }
    return DCT_OK;
}

dct_status dct_order(dct_graph *g, uint32_t threads, dct_arena *arena, dct_err *err) {
    orderer o = {.g = g, .threads = threads};
    o.nodes = dct_arena_array(arena, g->n_ops, sizeof *o.nodes);
    o.lists = dct_arena_array(arena, g->n_ops, MOST_LISTED * sizeof *o.lists);
    o.values = dct_arena_array(arena, g->n_values, sizeof *o.values);
    o.last_toucher = dct_arena_array(arena, g->n_values, sizeof *o.last_toucher);
    o.order = dct_arena_array(arena, g->n_ops, sizeof *o.order);
    o.last_read = dct_arena_array(arena, g->n_values, sizeof *o.last_read);
    if (o.nodes == NULL || o.lists == NULL || o.values == NULL || o.last_toucher == NULL || o.order == NULL ||
        o.last_read == NULL) {
        return dct_fail_memory(err, arena, "ordering");
    }
    describe(&o);
    const dct_order_problem problem = {o.nodes, o.values, g->n_ops, g->n_values, WIDTH};
    dct_order_result result;
    dct_status status = dct_order_search(&problem, arena, o.order, &result, err);
    return status == DCT_OK ? apply(&o, arena, err) : status;
}
