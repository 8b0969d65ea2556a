/* ir/graph: building a graph. Arrays that double in the arena, and ids that never change. Nothing is judged here but sizes:
 * check.c judges what was built. The first failure is kept in the graph and every later call answers DCT_NONE. */
#include "ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"

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

bool dct_cache_equal(const dct_cache *a, const dct_cache *b) {
    return a->layer == b->layer && a->is_k == b->is_k && a->n_head_kv == b->n_head_kv && a->head_dim == b->head_dim &&
           a->n_ctx == b->n_ctx && a->type == b->type;
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

/* ---- what an op needs ---- */

uint64_t dct_op_scratch_bytes(const dct_graph *g, const dct_op *op) {
    switch (op->kind) {
        case DCT_OP_ATTN:
        case DCT_OP_ATTN_ROWS:
        case DCT_OP_ATTN_PART: return dct_attn_scratch_bytes(op->p.head_dim_v);
        case DCT_OP_LINEAR_GLU: {
            uint32_t rows = g->values[op->in[0]].rows;
            return 2 * (uint64_t)rows * DCT_TILE_ROWS * dct_glu_tiles(rows) * sizeof(float);
        }
        case DCT_OP_NORM_QUANT:
            return dct_round_up((uint64_t)g->values[op->in[0]].cols * sizeof(float), 64); /* one row, normed */
        default: return 0;
    }
}
