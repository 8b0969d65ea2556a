/* ir/trace: the calls by which architectures, and callers with a graph of their own, write themselves down. Each appends one op
 * and gives its output a shape that follows from the inputs; whether the inputs suit one another is check.c's to say. After a
 * failure every call answers DCT_NONE, so a trace reads straight down and is checked once. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "ir/graph.h"
#include "kernels/kv.h"

/* An op of `kind` with nothing in it yet. */
static dct_op blank_op(dct_op_kind kind, int32_t layer) {
    dct_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.layer = layer;
    for (int i = 0; i < DCT_OP_MAX_IN; i++) op.in[i] = DCT_NONE;
    for (int i = 0; i < DCT_OP_MAX_OUT; i++) op.out[i] = DCT_NONE;
    return op;
}

static dct_op op_of_1(dct_op_kind kind, int32_t layer, dct_value_id a) {
    dct_op op = blank_op(kind, layer);
    op.n_in = 1;
    op.in[0] = a;
    return op;
}

static dct_op op_of_2(dct_op_kind kind, int32_t layer, dct_value_id a, dct_value_id b) {
    dct_op op = op_of_1(kind, layer, a);
    op.n_in = 2;
    op.in[1] = b;
    return op;
}

static dct_op op_of_3(dct_op_kind kind, int32_t layer, dct_value_id a, dct_value_id b, dct_value_id c) {
    dct_op op = op_of_2(kind, layer, a, b);
    op.n_in = 3;
    op.in[2] = c;
    return op;
}

/* A new intermediate value as the op's next output. It has its rows when input 0 has its own. */
static dct_value_id add_output(dct_graph *g, dct_op *op, const char *name, dct_format format, uint32_t rows, uint32_t cols) {
    dct_value_id out = dct_graph_value(g, name, op->layer, DCT_KIND_INTERMEDIATE, format, rows, cols);
    if (out == DCT_NONE) return DCT_NONE;
    g->values[out].row_mul = g->values[op->in[0]].row_mul;
    g->values[out].row_div = g->values[op->in[0]].row_div;
    op->out[op->n_out++] = out;
    return out;
}

/* Gives the op its only output and appends it. */
static dct_value_id finish(dct_graph *g, dct_op *op, const char *name, dct_format format, uint32_t rows, uint32_t cols) {
    dct_value_id out = add_output(g, op, name, format, rows, cols);
    return out == DCT_NONE || dct_graph_op(g, op) == DCT_NONE ? DCT_NONE : out;
}

/* As finish, with the shape of value `like`. */
static dct_value_id finish_like(dct_graph *g, dct_op *op, const char *name, dct_format format, dct_value_id like) {
    return finish(g, op, name, format, g->values[like].rows, g->values[like].cols);
}

/* True when the graph is still good and both values exist: what every trace call asks first. */
static bool ready(dct_graph *g, dct_value_id a, dct_value_id b) {
    if (g->status != DCT_OK) return false;
    if (a < g->n_values && b < g->n_values) return true;
    g->status = dct_fail(&g->err, DCT_BUG, "op %u is traced on a value that does not exist", g->n_ops);
    return false;
}

dct_value_id dct_trace_embed(dct_graph *g, dct_value_id ids, dct_value_id w, float scale, const char *name) {
    if (!ready(g, ids, w)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_EMBED, -1, ids, w);
    op.p.scale = scale;
    return finish(g, &op, name, DCT_FMT_F32, g->values[ids].rows, g->values[w].cols);
}

dct_value_id dct_trace_rms_norm(dct_graph *g, dct_value_id x, dct_value_id w, float eps, int32_t layer, const char *name) {
    if (!ready(g, x, w)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_RMS_NORM, layer, x, w);
    op.p.eps = eps;
    op.p.group = g->values[w].cols;
    return finish_like(g, &op, name, DCT_FMT_F32, x);
}

/* The name of value `of`, with more behind it, cut to what a name holds. */
static void set_derived_name(dct_graph *g, dct_value_id id, dct_value_id of, const char *more) {
    char name[DCT_NAME_BYTES + 8];
    if (id == DCT_NONE || of == DCT_NONE) return;
    snprintf(name, sizeof name, "%s.%s", g->values[of].name, more);
    name[DCT_NAME_BYTES - 1] = '\0';
    memcpy(g->values[id].name, name, DCT_NAME_BYTES);
}

/* The quantised form of x: the QUANT that was traced before, or a new one. It can only stand behind x's producer. */
static dct_value_id quantised(dct_graph *g, dct_value_id x, int32_t layer) {
    dct_op_id producer = g->values[x].producer;
    for (dct_op_id i = g->n_ops; i > 0 && i - 1 != producer; i--) {
        const dct_op *op = &g->ops[i - 1];
        if (op->kind == DCT_OP_QUANT && op->in[0] == x) return op->out[0];
    }
    dct_op op = op_of_1(DCT_OP_QUANT, layer, x);
    dct_value_id q = finish_like(g, &op, "", DCT_FMT_Q8, x);
    set_derived_name(g, q, x, "q8");
    return q;
}

dct_value_id dct_trace_linear(dct_graph *g, dct_value_id x, dct_value_id w, dct_value_id b, int32_t layer, const char *name) {
    if (!ready(g, x, w)) return DCT_NONE;
    const dct_value *weight = &g->values[w];
    if (weight->kind != DCT_KIND_WEIGHT || weight->ref >= g->n_weights) {
        g->status = dct_fail(&g->err, DCT_BUG, "'%s' is not a weight", weight->name);
        return DCT_NONE;
    }
    uint32_t m = weight->rows;
    if (!dct_dtype_is_float(g->weights[weight->ref].type)) x = quantised(g, x, layer);
    if (x == DCT_NONE) return DCT_NONE;
    dct_op op = b == DCT_NONE ? op_of_2(DCT_OP_LINEAR, layer, x, w) : op_of_3(DCT_OP_LINEAR, layer, x, w, b);
    return finish(g, &op, name, DCT_FMT_F32, g->values[x].rows, m);
}

dct_value_id dct_trace_rope(dct_graph *g, dct_value_id x, dct_value_id table, const dct_op_params *p, int32_t layer,
                            const char *name) {
    if (!ready(g, x, table)) return DCT_NONE;
    dct_op op = op_of_3(DCT_OP_ROPE, layer, x, table, g->pos);
    op.p = *p;
    return finish_like(g, &op, name, DCT_FMT_F32, x);
}

void dct_trace_kv_store(dct_graph *g, dct_value_id k, dct_value_id v, dct_value_id kc, dct_value_id vc, const dct_op_params *p,
                        int32_t layer) {
    if (!ready(g, k, v) || !ready(g, kc, vc)) return;
    dct_op op = op_of_3(DCT_OP_KV_STORE, layer, k, v, kc);
    op.n_in = 4;
    op.in[3] = vc;
    op.p = *p;
    dct_graph_op(g, &op);
}

dct_value_id dct_trace_attn(dct_graph *g, dct_value_id q, dct_value_id kc, dct_value_id vc, const dct_op_params *p, bool split,
                            int32_t layer, const char *name) {
    if (!ready(g, q, kc) || !ready(g, q, vc)) return DCT_NONE;
    uint32_t rows = g->values[q].rows;
    uint64_t cols = (uint64_t)p->n_head * p->head_dim_v, part_cols;
    if (!dct_mul_u64((uint64_t)p->n_head * p->n_part, (uint64_t)p->head_dim_v + 2, &part_cols) || part_cols > UINT32_MAX ||
        cols > UINT32_MAX) {
        g->status = dct_fail(&g->err, DCT_NO_FIT, "attention of %u heads of %u over %u parts is too large", p->n_head,
                             p->head_dim_v, p->n_part);
        return DCT_NONE;
    }
    dct_op op = op_of_3(split ? DCT_OP_ATTN_PART : DCT_OP_ATTN, layer, q, kc, vc);
    op.p = *p;
    if (!split) return finish(g, &op, name, DCT_FMT_F32, rows, (uint32_t)cols);
    dct_value_id parts = finish(g, &op, "attn_parts", DCT_FMT_F32, rows, (uint32_t)part_cols);
    if (parts == DCT_NONE) return DCT_NONE;
    dct_op merge = op_of_1(DCT_OP_ATTN_MERGE, layer, parts);
    merge.p = *p;
    return finish(g, &merge, name, DCT_FMT_F32, rows, (uint32_t)cols);
}

dct_value_id dct_trace_glu(dct_graph *g, dct_value_id gate, dct_value_id up, dct_act act, int32_t layer, const char *name) {
    if (!ready(g, gate, up)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_GLU, layer, gate, up);
    op.p.act = act;
    return finish_like(g, &op, name, DCT_FMT_F32, gate);
}

dct_value_id dct_trace_add(dct_graph *g, dct_value_id a, dct_value_id b, int32_t layer, const char *name) {
    if (!ready(g, a, b)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_ADD, layer, a, b);
    return finish_like(g, &op, name, DCT_FMT_F32, a);
}

dct_value_id dct_trace_last_row(dct_graph *g, dct_value_id x, const char *name) {
    if (!ready(g, x, x)) return DCT_NONE;
    dct_op op = op_of_1(DCT_OP_LAST_ROW, -1, x);
    return finish(g, &op, name, DCT_FMT_F32, 1, g->values[x].cols);
}

dct_value_id dct_trace_softcap(dct_graph *g, dct_value_id x, float cap, const char *name) {
    if (!ready(g, x, x)) return DCT_NONE;
    dct_op op = op_of_1(DCT_OP_SOFTCAP, -1, x);
    op.p.softcap = cap;
    return finish_like(g, &op, name, DCT_FMT_F32, x);
}

/* ---- tracing what only graphs of one's own use ---- */

dct_value_id dct_trace_layer_norm(dct_graph *g, dct_value_id x, dct_value_id w, dct_value_id b, float eps, const char *name) {
    if (!ready(g, x, w) || !ready(g, x, b)) return DCT_NONE;
    dct_op op = op_of_3(DCT_OP_LAYER_NORM, -1, x, w, b);
    op.p.eps = eps;
    return finish_like(g, &op, name, DCT_FMT_F32, x);
}

dct_value_id dct_trace_act(dct_graph *g, dct_value_id x, dct_act act, const char *name) {
    if (!ready(g, x, x)) return DCT_NONE;
    dct_op op = op_of_1(DCT_OP_ACT, -1, x);
    op.p.act = act;
    return finish_like(g, &op, name, DCT_FMT_F32, x);
}

dct_value_id dct_trace_mul(dct_graph *g, dct_value_id a, dct_value_id b, const char *name) {
    if (!ready(g, a, b)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_MUL, -1, a, b);
    return finish_like(g, &op, name, DCT_FMT_F32, a);
}

/* A product of two counts as columns or rows of a value; a graph that failed when it is more than they hold. */
static bool count_of(dct_graph *g, uint32_t a, uint32_t b, const char *name, uint32_t *out) {
    uint64_t n = (uint64_t)a * b;
    *out = (uint32_t)n;
    if (n <= UINT32_MAX) return true;
    g->status = dct_fail(&g->err, DCT_NO_FIT, "value '%s' of %u x %u is larger than any memory", name, a, b);
    return false;
}

dct_value_id dct_trace_window(dct_graph *g, dct_value_id x, uint32_t width, uint32_t stride, uint32_t pad, const char *name) {
    uint32_t cols, row_div;
    if (!ready(g, x, x) || !count_of(g, g->values[x].cols, width, name, &cols)) return DCT_NONE;
    dct_op op = op_of_1(DCT_OP_WINDOW, -1, x);
    op.p.width = width;
    op.p.stride = stride;
    op.p.pad = pad;
    if (stride == 0) stride = 1; /* which the check of the op refuses */
    if (!count_of(g, g->values[x].row_div, stride, name, &row_div)) return DCT_NONE;
    dct_value_id out = finish(g, &op, name, DCT_FMT_F32, (uint32_t)dct_div_up(g->values[x].rows, stride), cols);
    if (out != DCT_NONE) g->values[out].row_div = row_div;
    return out;
}

dct_value_id dct_trace_attn_rows(dct_graph *g, dct_value_id q, dct_value_id k, dct_value_id v, const dct_op_params *p,
                                 const char *name) {
    if (!ready(g, q, k) || !ready(g, q, v)) return DCT_NONE;
    uint32_t cols, positions = (uint32_t)dct_kv_round(g->values[k].rows);
    if (!count_of(g, p->n_head, p->head_dim_v, name, &cols)) return DCT_NONE;
    dct_op lay = op_of_2(DCT_OP_KV_ROWS, -1, k, v);
    lay.p = *p;
    dct_value_id k_rows = add_output(g, &lay, "", DCT_FMT_KV_ROWS, positions, g->values[k].cols);
    dct_value_id v_rows = add_output(g, &lay, "", DCT_FMT_KV_ROWS, positions, g->values[v].cols);
    set_derived_name(g, k_rows, k, "laid");
    set_derived_name(g, v_rows, v, "laid");
    if (k_rows == DCT_NONE || v_rows == DCT_NONE || dct_graph_op(g, &lay) == DCT_NONE) return DCT_NONE;
    dct_op op = op_of_3(DCT_OP_ATTN_ROWS, -1, q, k_rows, v_rows);
    op.p = *p;
    return finish(g, &op, name, DCT_FMT_F32, g->values[q].rows, cols);
}

void dct_trace_route(dct_graph *g, dct_value_id scores, uint32_t n_used, bool renorm, const char *name, dct_value_id *ids,
                     dct_value_id *weights) {
    *ids = *weights = DCT_NONE;
    if (!ready(g, scores, scores)) return;
    dct_op op = op_of_1(DCT_OP_ROUTE, -1, scores);
    op.p.n_expert = g->values[scores].cols;
    op.p.n_used = n_used;
    op.p.renorm = renorm;
    uint32_t rows = g->values[scores].rows;
    dct_value_id chosen = add_output(g, &op, "", DCT_FMT_I32, rows, n_used);
    dct_value_id share = add_output(g, &op, name, DCT_FMT_F32, rows, n_used);
    set_derived_name(g, chosen, share, "ids");
    if (chosen == DCT_NONE || share == DCT_NONE || dct_graph_op(g, &op) == DCT_NONE) return;
    *ids = chosen;
    *weights = share;
}

dct_value_id dct_trace_experts(dct_graph *g, dct_value_id x, dct_value_id ids, dct_value_id w, const char *name) {
    if (!ready(g, x, ids) || !ready(g, x, w)) return DCT_NONE;
    const dct_value *weight = &g->values[w];
    dct_op_id route = g->values[ids].producer;
    if (weight->kind != DCT_KIND_WEIGHT || weight->format != DCT_FMT_WEIGHT || route == DCT_NONE ||
        g->ops[route].kind != DCT_OP_ROUTE) {
        g->status = dct_fail(&g->err, DCT_BUG, "experts '%s': '%s' is no matrix, or '%s' says of no rows where they go", name,
                             weight->name, g->values[ids].name);
        return DCT_NONE;
    }
    const dct_op_params p = g->ops[route].p;
    uint32_t rows, row_mul, cols = weight->rows / p.n_expert;
    if (!dct_dtype_is_float(g->weights[weight->ref].type)) x = quantised(g, x, -1);
    if (x == DCT_NONE || !count_of(g, g->values[ids].rows, p.n_used, name, &rows) ||
        !count_of(g, g->values[ids].row_mul, p.n_used, name, &row_mul))
        return DCT_NONE;
    dct_op op = op_of_3(DCT_OP_EXPERTS, -1, x, ids, w);
    op.p.n_expert = p.n_expert;
    op.p.n_used = p.n_used;
    dct_value_id out = finish(g, &op, name, DCT_FMT_F32, rows, cols);
    if (out == DCT_NONE) return DCT_NONE;
    g->values[out].row_mul = row_mul;
    g->values[out].row_div = g->values[ids].row_div;
    return out;
}

dct_value_id dct_trace_mix(dct_graph *g, dct_value_id x, dct_value_id w, const char *name) {
    if (!ready(g, x, w)) return DCT_NONE;
    dct_op op = op_of_2(DCT_OP_MIX, -1, x, w);
    op.p.group = g->values[w].cols;
    dct_value_id out = finish(g, &op, name, DCT_FMT_F32, g->values[w].rows, g->values[x].cols);
    if (out == DCT_NONE) return DCT_NONE;
    g->values[out].row_mul = g->values[w].row_mul;
    return out;
}
