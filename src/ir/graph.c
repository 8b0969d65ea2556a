/* ir/graph: building a graph. Arrays that double in the arena, ids that never change, and the trace calls by which
 * architectures write themselves down. Nothing is judged here but sizes: shape.c checks what was built. The first failure
 * is kept in the graph and every later call answers DCT_NONE, so a trace reads straight down and is checked once. */
#include "ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "kernels/kv.h"

static const dct_op_info infos[DCT_OP_COUNT] = {
#define DCT_IN(i) (1u << (i))
#define DCT_OP(NAME, name, in_min, in_max, outs, inplace, writes, row_wise, fused, meaning)                                      \
    {name, meaning, in_min, in_max, outs, inplace, writes, row_wise, fused},
#include "ir/ops.def"
#undef DCT_OP
#undef DCT_IN
};

const dct_op_info *dct_op_info_of(dct_op_kind kind) { return &infos[kind]; }

bool dct_op_writes_input(dct_op_kind kind, uint32_t i) { return (infos[kind].writes >> i & 1) != 0; }

void dct_graph_init(dct_graph *g, dct_arena *arena, uint32_t rows) {
    memset(g, 0, sizeof *g);
    g->arena = arena;
    g->rows = rows;
    g->ids = g->pos = g->logits = DCT_NONE;
}

/* Room for one more item at the end of an array of the graph; NULL (and a failed graph) when there is no memory. */
static void *add_item(dct_graph *g, void *items, uint32_t n, uint32_t *cap, uint64_t item_bytes) {
    if (n < *cap) return items;
    uint32_t new_cap = *cap == 0 ? 64 : *cap * 2;
    void *grown = new_cap > *cap ? dct_arena_grow(g->arena, items, n, new_cap, item_bytes) : NULL;
    if (grown == NULL) {
        g->status = dct_fail_memory(&g->err, g->arena, "a graph");
        return NULL;
    }
    *cap = new_cap;
    return grown;
}

/* "blk.N.name", cut to what a name holds. */
static void set_name(dct_value *v, const char *name, int32_t layer) {
    char full[DCT_NAME_BYTES + 32];
    int n = layer >= 0 ? snprintf(full, sizeof full, "blk.%d.%.*s", layer, DCT_NAME_BYTES, name)
                       : snprintf(full, sizeof full, "%.*s", DCT_NAME_BYTES, name);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof v->name ? (size_t)n : sizeof v->name - 1;
    memcpy(v->name, full, len);
    v->name[len] = '\0';
}

uint64_t dct_value_row_bytes(const dct_value *v) {
    switch (v->format) {
        case DCT_FMT_F32:
        case DCT_FMT_KV_ROWS:
        case DCT_FMT_I32: return (uint64_t)v->cols * 4;
        case DCT_FMT_Q8: return dct_q8_row_bytes(v->cols);
        case DCT_FMT_BYTES: return v->cols;
        case DCT_FMT_WEIGHT:
        case DCT_FMT_KV: break;
    }
    return 0;
}

/* A value without bytes yet. */
static dct_value_id add_value(dct_graph *g, const char *name, int32_t layer, dct_kind kind, dct_format format, uint32_t rows,
                              uint32_t cols) {
    if (g->status != DCT_OK) return DCT_NONE;
    dct_value *values = add_item(g, g->values, g->n_values, &g->cap_values, sizeof *values);
    if (values == NULL) return DCT_NONE;
    g->values = values;
    dct_value *v = &values[g->n_values];
    memset(v, 0, sizeof *v);
    set_name(v, name, layer);
    v->kind = kind;
    v->format = format;
    v->rows = rows;
    v->cols = cols;
    v->row_mul = v->row_div = 1;
    v->layer = layer;
    v->producer = v->alias_of = v->ref = DCT_NONE;
    return g->n_values++;
}

dct_value_id dct_graph_value(dct_graph *g, const char *name, int32_t layer, dct_kind kind, dct_format format, uint32_t rows,
                             uint32_t cols) {
    dct_value_id id = add_value(g, name, layer, kind, format, rows, cols);
    if (id == DCT_NONE) return DCT_NONE;
    dct_value *v = &g->values[id];
    uint64_t bytes;
    if (!dct_mul_u64(dct_value_row_bytes(v), rows, &bytes) || !dct_align_u64(bytes, 64, &bytes)) {
        g->status = dct_fail(&g->err, DCT_NO_FIT, "value '%s' of %u x %u elements is larger than any memory", v->name, rows,
                             cols);
        return DCT_NONE;
    }
    v->bytes = bytes;
    return id;
}

dct_value_id dct_graph_input_i32(dct_graph *g, const char *name, uint32_t rows, uint32_t cols) {
    return dct_graph_value(g, name, -1, DCT_KIND_INPUT, DCT_FMT_I32, rows, cols);
}

void dct_graph_output(dct_graph *g, dct_value_id id) {
    if (g->status != DCT_OK || id == DCT_NONE) return;
    g->values[id].kind = DCT_KIND_OUTPUT;
    g->logits = id;
}

/* The value that stands for item `ref` of weights, caches or tables. */
static dct_value_id value_of_ref(const dct_graph *g, dct_kind kind, uint32_t ref) {
    for (dct_value_id id = 0; id < g->n_values; id++) {
        if (g->values[id].kind == kind && g->values[id].ref == ref) return id;
    }
    return DCT_NONE;
}

bool dct_weight_equal(const dct_weight *a, const dct_weight *b) {
    return a->n_rows == b->n_rows && a->n_cols == b->n_cols && a->row_begin == b->row_begin && a->type == b->type &&
           a->is_vector == b->is_vector && strcmp(a->tensor, b->tensor) == 0;
}

/* The slot of the index that holds an equal weight, or the free one where it would stand. At most half of the slots are taken. */
static uint32_t weight_slot(const dct_graph *g, const dct_weight *w) {
    uint32_t mask = 2 * g->cap_weights - 1; /* capacities are powers of two */
    uint32_t slot = (uint32_t)dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, w->tensor, strlen(w->tensor))) & mask;
    while (g->weight_index[slot] != 0 && !dct_weight_equal(&g->weights[g->weight_index[slot] - 1], w)) slot = (slot + 1) & mask;
    return slot;
}

/* Room for one more weight, in the list and in its index. */
static bool grow_weights(dct_graph *g) {
    if (g->n_weights < g->cap_weights) return true;
    dct_weight *weights = add_item(g, g->weights, g->n_weights, &g->cap_weights, sizeof *weights);
    if (weights == NULL) return false;
    g->weights = weights;
    g->weight_index = dct_arena_array(g->arena, 2 * (uint64_t)g->cap_weights, sizeof *g->weight_index);
    if (g->weight_index == NULL) {
        g->status = dct_fail_memory(&g->err, g->arena, "a graph");
        return false;
    }
    for (uint32_t i = 0; i < g->n_weights; i++) g->weight_index[weight_slot(g, &g->weights[i])] = i + 1;
    return true;
}

dct_value_id dct_graph_weight(dct_graph *g, const dct_weight *w) {
    if (g->status != DCT_OK || !grow_weights(g)) return DCT_NONE;
    uint32_t slot = weight_slot(g, w);
    if (g->weight_index[slot] != 0) return value_of_ref(g, DCT_KIND_WEIGHT, g->weight_index[slot] - 1);
    dct_value_id id = add_value(g, w->tensor, -1, DCT_KIND_WEIGHT, w->is_vector ? DCT_FMT_F32 : DCT_FMT_WEIGHT, w->n_rows,
                                w->n_cols);
    if (id == DCT_NONE) return DCT_NONE;
    g->values[id].bytes = w->bytes;
    g->values[id].ref = g->n_weights;
    g->weights[g->n_weights++] = *w;
    g->weight_index[slot] = g->n_weights;
    return id;
}

dct_value_id dct_graph_cache(dct_graph *g, const dct_cache *c) {
    if (g->status != DCT_OK) return DCT_NONE;
    dct_cache *caches = add_item(g, g->caches, g->n_caches, &g->cap_caches, sizeof *caches);
    if (caches == NULL) return DCT_NONE;
    g->caches = caches;
    dct_value_id id = add_value(g, c->is_k ? "cache_k" : "cache_v", (int32_t)c->layer, DCT_KIND_KV, DCT_FMT_KV, c->n_ctx,
                                c->n_head_kv * c->head_dim);
    if (id == DCT_NONE) return DCT_NONE;
    g->values[id].bytes = c->bytes;
    g->values[id].ref = g->n_caches;
    caches[g->n_caches++] = *c;
    return id;
}

bool dct_rope_table_equal(const dct_rope_table *a, const dct_rope_table *b) {
    return a->n_rot == b->n_rot && a->n_ctx == b->n_ctx && a->base == b->base && a->factor == b->factor &&
           a->scaling == b->scaling && a->orig_ctx == b->orig_ctx && a->attn_factor == b->attn_factor &&
           a->ext_factor == b->ext_factor && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           strcmp(a->factors_tensor, b->factors_tensor) == 0;
}

dct_value_id dct_graph_table(dct_graph *g, const dct_rope_table *t) {
    if (g->status != DCT_OK) return DCT_NONE;
    for (uint32_t i = 0; i < g->n_tables; i++) {
        if (dct_rope_table_equal(&g->tables[i], t)) return value_of_ref(g, DCT_KIND_PERSISTENT, i);
    }
    dct_rope_table *tables = add_item(g, g->tables, g->n_tables, &g->cap_tables, sizeof *tables);
    if (tables == NULL) return DCT_NONE;
    g->tables = tables;
    dct_value_id id = dct_graph_value(g, "rope_table", -1, DCT_KIND_PERSISTENT, DCT_FMT_F32, t->n_ctx, t->n_rot);
    if (id == DCT_NONE) return DCT_NONE;
    g->values[id].ref = g->n_tables;
    tables[g->n_tables++] = *t;
    return id;
}

dct_op_id dct_graph_op(dct_graph *g, const dct_op *op) {
    if (g->status != DCT_OK) return DCT_NONE;
    dct_op *ops = add_item(g, g->ops, g->n_ops, &g->cap_ops, sizeof *ops);
    if (ops == NULL) return DCT_NONE;
    g->ops = ops;
    ops[g->n_ops] = *op;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i] != DCT_NONE) g->values[op->out[i]].producer = g->n_ops;
    }
    return g->n_ops++;
}

/* ---- tracing ---- */

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

/* The name of value `of`, with more behind it. */
static void set_derived_name(dct_graph *g, dct_value_id id, dct_value_id of, const char *more) {
    char name[DCT_NAME_BYTES + 8];
    if (id == DCT_NONE || of == DCT_NONE) return;
    snprintf(name, sizeof name, "%s.%s", g->values[of].name, more);
    set_name(&g->values[id], name, -1);
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

/* ---- what an op needs ---- */

uint64_t dct_op_scratch_bytes(const dct_graph *g, const dct_op *op) {
    switch (op->kind) {
        case DCT_OP_ATTN:
        case DCT_OP_ATTN_ROWS:
        case DCT_OP_ATTN_PART: return dct_attn_scratch_bytes(op->p.n_head, op->p.n_head_kv, op->p.head_dim, op->p.head_dim_v);
        case DCT_OP_LINEAR_GLU: {
            uint32_t rows = g->values[op->in[0]].rows;
            return 2 * (uint64_t)rows * DCT_TILE_ROWS * dct_glu_tiles(rows) * sizeof(float);
        }
        case DCT_OP_NORM_QUANT:
            return dct_round_up((uint64_t)g->values[op->in[0]].cols * sizeof(float), 64); /* one row, normed */
        default: return 0;
    }
}
