/* ir/values: the part of dct_graph_check that is about values alone: what a value of each kind must be, how many bytes it has,
 * and which of them are the ends of the graph. */
#include <string.h>

#include "base/size.h"
#include "ir/check.h"

/* What a value must weigh, from its shape or from the item that it stands for. */
static bool expected_bytes(const dct_graph *g, const dct_value *v, uint64_t *bytes) {
    switch (v->format) {
        case DCT_FMT_WEIGHT: *bytes = g->weights[v->ref].bytes; return true;
        case DCT_FMT_KV: *bytes = g->caches[v->ref].bytes; return true;
        default: return dct_mul_u64(dct_value_row_bytes(v), v->rows, bytes) && dct_align_u64(*bytes, 64, bytes);
    }
}

static dct_status check_weight(const dct_graph *g, const dct_value *v, dct_err *err) {
    if (v->ref >= g->n_weights) return dct_fail(err, DCT_BUG, "value '%s' is weight %u of %u", v->name, v->ref, g->n_weights);
    const dct_weight *w = &g->weights[v->ref];
    if ((uint32_t)w->type >= DCT_TYPE_COUNT || memchr(w->tensor, '\0', sizeof w->tensor) == NULL) {
        return dct_fail(err, DCT_BUG, "weight %u has no valid name or type", v->ref);
    }
    dct_format format = w->is_vector ? DCT_FMT_F32 : DCT_FMT_WEIGHT;
    if (v->format != format || v->rows != w->n_rows || v->cols != w->n_cols || (w->is_vector && w->n_rows != 1)) {
        return dct_fail(err, DCT_BUG, "value '%s' does not agree with its weight", v->name);
    }
    return DCT_OK;
}

static dct_status check_cache(const dct_graph *g, const dct_value *v, dct_err *err) {
    if (v->ref >= g->n_caches) return dct_fail(err, DCT_BUG, "value '%s' is cache %u of %u", v->name, v->ref, g->n_caches);
    const dct_cache *c = &g->caches[v->ref];
    if (v->format != DCT_FMT_KV || (uint32_t)c->type >= DCT_TYPE_COUNT || v->rows != c->n_ctx ||
        v->cols != (uint64_t)c->n_head_kv * c->head_dim) {
        return dct_fail(err, DCT_BUG, "value '%s' does not agree with its cache", v->name);
    }
    return DCT_OK;
}

static dct_status check_table(const dct_graph *g, const dct_value *v, dct_err *err) {
    if (v->ref == DCT_NONE) return DCT_OK; /* persistent, but no table */
    if (v->ref >= g->n_tables) return dct_fail(err, DCT_BUG, "value '%s' is table %u of %u", v->name, v->ref, g->n_tables);
    const dct_rope_table *t = &g->tables[v->ref];
    if (v->format != DCT_FMT_F32 || v->rows != t->n_ctx || v->cols != t->n_rot ||
        memchr(t->factors_tensor, '\0', sizeof t->factors_tensor) == NULL) {
        return dct_fail(err, DCT_BUG, "value '%s' does not agree with its table", v->name);
    }
    return DCT_OK;
}

static dct_status check_value(const dct_graph *g, dct_value_id id, dct_err *err) {
    const dct_value *v = &g->values[id];
    if (memchr(v->name, '\0', sizeof v->name) == NULL) return dct_fail(err, DCT_BUG, "value %u has no valid name", id);
    if ((uint32_t)v->kind > DCT_KIND_OUTPUT || (uint32_t)v->format > DCT_FMT_BYTES) {
        return dct_fail(err, DCT_BUG, "value '%s' has kind %d, format %d", v->name, (int)v->kind, (int)v->format);
    }
    if (v->rows == 0 || v->cols == 0 || v->row_mul == 0 || v->row_div == 0)
        return dct_fail(err, DCT_BUG, "value '%s' is empty", v->name);
    bool made = (v->kind == DCT_KIND_INTERMEDIATE && v->format != DCT_FMT_BYTES) || v->kind == DCT_KIND_OUTPUT;
    if (made ? v->producer >= g->n_ops : v->producer != DCT_NONE || v->alias_of != DCT_NONE) {
        return dct_fail(err, DCT_BUG, "value '%s' has producer %u of %u ops", v->name, v->producer, g->n_ops);
    }
    if ((v->format == DCT_FMT_WEIGHT) && v->kind != DCT_KIND_WEIGHT)
        return dct_fail(err, DCT_BUG, "value '%s' is not a weight", v->name);
    if (v->format == DCT_FMT_KV_ROWS && v->kind != DCT_KIND_INTERMEDIATE)
        return dct_fail(err, DCT_BUG, "value '%s' is no intermediate", v->name);
    if ((v->format == DCT_FMT_KV) && v->kind != DCT_KIND_KV) return dct_fail(err, DCT_BUG, "value '%s' is not a cache", v->name);
    if (v->kind == DCT_KIND_WEIGHT) TRY(check_weight(g, v, err));
    if (v->kind == DCT_KIND_KV) TRY(check_cache(g, v, err));
    if (v->kind == DCT_KIND_PERSISTENT) TRY(check_table(g, v, err));
    uint64_t bytes;
    if (!expected_bytes(g, v, &bytes) || v->bytes != bytes) {
        return dct_fail(err, DCT_BUG, "value '%s' of [%u, %u] cannot have %llu bytes", v->name, v->rows, v->cols,
                        (unsigned long long)v->bytes);
    }
    return DCT_OK;
}

/* The op that a made value names as its producer must have it among its outputs. */
static dct_status check_producer(const dct_graph *g, dct_value_id id, dct_err *err) {
    const dct_value *v = &g->values[id];
    if (v->producer == DCT_NONE) return DCT_OK;
    const dct_op *op = &g->ops[v->producer];
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i] == id) return DCT_OK;
    }
    return dct_fail(err, DCT_BUG, "value '%s' is not made by op %u, its producer", v->name, v->producer);
}

/* Rows that an id or four positions are given for. */
static dct_status check_input(const dct_graph *g, dct_value_id id, uint32_t cols, dct_err *err) {
    if (id >= g->n_values) return dct_fail(err, DCT_BUG, "the graph has no inputs");
    const dct_value *v = &g->values[id];
    if (v->kind != DCT_KIND_INPUT || v->format != DCT_FMT_I32)
        return dct_fail(err, DCT_BUG, "the inputs of the graph are not int32 inputs");
    if (v->rows == g->rows && v->cols == cols) return DCT_OK;
    return dct_fail(err, DCT_BUG, "the inputs of the graph are not an id and four positions for each of %u rows", g->rows);
}

/* Whoever runs a graph of one's own finds its ends by name. */
static dct_status check_named_ends(const dct_graph *g, dct_err *err) {
    dct_value_id ends[DCT_MAX_ENDS];
    uint32_t n = 0, n_out = 0;
    for (dct_value_id id = 0; id < g->n_values; id++) {
        if (!dct_value_is_end(g, id)) continue;
        const dct_value *v = &g->values[id];
        for (uint32_t i = 0; i < n; i++) {
            if (strcmp(g->values[ends[i]].name, v->name) == 0)
                return dct_fail(err, DCT_BUG, "two inputs or outputs are named '%s'", v->name);
        }
        if (n == DCT_MAX_ENDS) return dct_fail(err, DCT_BUG, "more than %d inputs and outputs", DCT_MAX_ENDS);
        ends[n++] = id;
        n_out += v->kind == DCT_KIND_OUTPUT;
    }
    return n_out > 0 ? DCT_OK : dct_fail(err, DCT_BUG, "the graph has no output");
}

static dct_status check_ends(const dct_graph *g, dct_err *err) {
    if (g->rows == 0) return dct_fail(err, DCT_BUG, "a phase of no rows");
    if (g->ids == DCT_NONE && g->logits == DCT_NONE) {
        TRY(check_named_ends(g, err));
        return g->pos == DCT_NONE ? DCT_OK : check_input(g, g->pos, 4, err);
    }
    TRY(check_input(g, g->ids, 1, err));
    TRY(check_input(g, g->pos, 4, err));
    if (g->logits == DCT_NONE) return DCT_OK;
    if (g->logits >= g->n_values || g->values[g->logits].kind != DCT_KIND_OUTPUT || g->values[g->logits].format != DCT_FMT_F32) {
        return dct_fail(err, DCT_BUG, "the output of the graph is value %u, which is none", g->logits);
    }
    return DCT_OK;
}

dct_status dct_graph_check_values(const dct_graph *g, dct_err *err) {
    for (dct_value_id id = 0; id < g->n_values; id++) TRY(check_value(g, id, err));
    return check_ends(g, err);
}

dct_status dct_graph_check_producers(const dct_graph *g, dct_err *err) {
    for (dct_value_id id = 0; id < g->n_values; id++) TRY(check_producer(g, id, err));
    return DCT_OK;
}
