/* compile/order: in which order the ops run, and which results lie in the bytes of an input.
 *
 * A decoder is nearly a chain, so a few list schedules are enough: they differ in which of the ready ops goes next. Each is
 * judged by its load, in-place results and scratch counted, and the least wins; on a tie the earlier policy, and the first is the
 * order of the trace.
 */
#include <string.h>

#include "base/size.h"
#include "compile/passes.h"

typedef enum policy { POLICY_TRACED, POLICY_DEEPEST, POLICY_LEAST_GROWTH, POLICY_COUNT } policy;

/* An edge of the op graph: `to` runs after `from`. Kept as a list a `from`. */
typedef struct edge {
    dct_op_id to;
    uint32_t next;
} edge;

typedef struct orderer {
    dct_graph *g;
    uint32_t threads;
    edge *edges;
    uint32_t n_edges;
    uint32_t *first_edge;    /* an op */
    uint32_t *n_before;      /* an op: edges that lead to it */
    uint32_t *uses;          /* a value: inputs that name it */
    uint32_t *left;          /* the same, counted down while ops are scheduled; or edges left */
    uint32_t *uses_left;
    dct_op_id *ready;
    dct_op_id *order, *best; /* position -> op */
    uint32_t *last_read;     /* a value: the position of its last reader */
    dct_value_id *alias;     /* a value, in the order at hand */
    uint64_t *rise;          /* a position: bytes that begin to live there; and, below, that end after it */
    uint64_t *fall;
} orderer;

uint64_t dct_scratch_all(const dct_graph *g, const dct_op *op, uint32_t threads) {
    return dct_round_up(dct_op_scratch_bytes(g, op), DCT_PLAN_ALIGN) * threads;
}

dct_value_id dct_alias_root(const dct_graph *g, dct_value_id v) {
    while (g->values[v].alias_of != DCT_NONE) v = g->values[v].alias_of;
    return v;
}

static void add_edge(orderer *o, dct_op_id from, dct_op_id to) {
    o->edges[o->n_edges] = (edge){to, o->first_edge[from]};
    o->first_edge[from] = o->n_edges++;
    o->n_before[to]++;
}

static bool writes_cache(const dct_op *op, uint32_t i, const dct_graph *g) {
    return dct_op_writes_input(op->kind, i) && g->values[op->in[i]].kind == DCT_KIND_KV;
}

/* A value is read after it is made. A cache is read after the write that the trace puts before it; writers and readers of a cache
 * keep the order of the trace among themselves, which costs no freedom worth having. */
static void add_edges(orderer *o, dct_op_id *last_toucher) {
    const dct_graph *g = o->g;
    for (dct_op_id i = 0; i < g->n_ops; i++) o->first_edge[i] = DCT_NONE;
    for (dct_value_id v = 0; v < g->n_values; v++) last_toucher[v] = DCT_NONE;
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        const dct_op *op = &g->ops[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            dct_value_id v = op->in[k];
            if (v == DCT_NONE) continue;
            o->uses[v]++;
            dct_op_id from = g->values[v].kind == DCT_KIND_KV ? last_toucher[v] : g->values[v].producer;
            if (from != DCT_NONE && from != i) add_edge(o, from, i);
            if (g->values[v].kind == DCT_KIND_KV && (writes_cache(op, k, g) || last_toucher[v] != DCT_NONE)) last_toucher[v] = i;
        }
    }
}

/* Bytes by which the live set grows when op i runs next: what it makes less what it is the last to read. */
static int64_t growth(const orderer *o, dct_op_id i) {
    const dct_graph *g = o->g;
    const dct_op *op = &g->ops[i];
    int64_t bytes = 0;
    for (uint32_t k = 0; k < op->n_out; k++) {
        if (op->out[k] != DCT_NONE && g->values[op->out[k]].kind == DCT_KIND_INTERMEDIATE)
            bytes += (int64_t)g->values[op->out[k]].bytes;
    }
    for (uint32_t k = 0; k < op->n_in; k++) {
        dct_value_id v = op->in[k];
        if (v != DCT_NONE && g->values[v].kind == DCT_KIND_INTERMEDIATE && o->uses_left[v] == 1)
            bytes -= (int64_t)g->values[v].bytes;
    }
    return bytes;
}

static bool goes_first(const orderer *o, policy p, dct_op_id a, dct_op_id b) {
    if (p == POLICY_DEEPEST) return a > b;
    if (p == POLICY_LEAST_GROWTH) {
        int64_t grow_a = growth(o, a), grow_b = growth(o, b);
        if (grow_a != grow_b) return grow_a < grow_b;
    }
    return a < b;
}

static void list_schedule(orderer *o, policy p) {
    const dct_graph *g = o->g;
    uint32_t n_ready = 0, n_done = 0;
    memcpy(o->left, o->n_before, g->n_ops * sizeof *o->left);
    memcpy(o->uses_left, o->uses, g->n_values * sizeof *o->uses_left);
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        if (o->left[i] == 0) o->ready[n_ready++] = i;
    }
    while (n_ready > 0) {
        uint32_t pick = 0;
        for (uint32_t k = 1; k < n_ready; k++) {
            if (goes_first(o, p, o->ready[k], o->ready[pick])) pick = k;
        }
        dct_op_id i = o->ready[pick];
        o->ready[pick] = o->ready[--n_ready];
        o->order[n_done++] = i;
        for (uint32_t k = 0; k < g->ops[i].n_in; k++) {
            if (g->ops[i].in[k] != DCT_NONE) o->uses_left[g->ops[i].in[k]]--;
        }
        for (uint32_t e = o->first_edge[i]; e != DCT_NONE; e = o->edges[e].next) {
            if (--o->left[o->edges[e].to] == 0) o->ready[n_ready++] = o->edges[e].to;
        }
    }
}

/* Whether op, at `position`, may put output 0 into the bytes of its in-place input. An alias always has the higher id, so chains
 * of aliases end; an input named twice is read in one place while it is written in another. */
static bool may_run_in_place(const orderer *o, const dct_op *op, uint32_t position) {
    int slot = dct_op_info_of(op->kind)->inplace;
    if (slot < 0 || (uint32_t)slot >= op->n_in || op->in[slot] == DCT_NONE) return false;
    dct_value_id in = op->in[slot];
    const dct_value *from = &o->g->values[in], *to = &o->g->values[op->out[0]];
    if (from->kind != DCT_KIND_INTERMEDIATE || to->kind != DCT_KIND_INTERMEDIATE) return false;
    if (from->bytes != to->bytes || from->format != to->format || in > op->out[0] || o->last_read[in] != position) return false;
    for (uint32_t k = 0; k < op->n_in; k++) {
        if (k != (uint32_t)slot && op->in[k] == in) return false;
    }
    return true;
}

static void find_aliases(orderer *o) {
    const dct_graph *g = o->g;
    for (uint32_t at = 0; at < g->n_ops; at++) {
        const dct_op *op = &g->ops[o->order[at]];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] != DCT_NONE) o->last_read[op->in[k]] = at;
        }
    }
    for (dct_value_id v = 0; v < g->n_values; v++) o->alias[v] = DCT_NONE;
    for (uint32_t at = 0; at < g->n_ops; at++) {
        const dct_op *op = &g->ops[o->order[at]];
        if (op->n_out > 0 && may_run_in_place(o, op, at)) o->alias[op->out[0]] = op->in[dct_op_info_of(op->kind)->inplace];
    }
}

/* The load of o->order: what is born in place adds nothing, and its input's death is its own. */
static uint64_t load_of_order(orderer *o) {
    const dct_graph *g = o->g;
    memset(o->rise, 0, g->n_ops * sizeof *o->rise);
    memset(o->fall, 0, g->n_ops * sizeof *o->fall);
    for (dct_value_id v = 0; v < g->n_values; v++) o->last_read[v] = DCT_NONE;
    find_aliases(o);
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (o->alias[v] != DCT_NONE) o->last_read[o->alias[v]] = DCT_NONE; /* goes on living as v */
    }
    for (uint32_t at = 0; at < g->n_ops; at++) {
        const dct_op *op = &g->ops[o->order[at]];
        uint64_t scratch = dct_scratch_all(g, op, o->threads);
        o->rise[at] += scratch;
        o->fall[at] += scratch;
        for (uint32_t k = 0; k < op->n_out; k++) {
            dct_value_id v = op->out[k];
            if (v == DCT_NONE || g->values[v].kind != DCT_KIND_INTERMEDIATE) continue;
            if (o->alias[v] == DCT_NONE) o->rise[at] += g->values[v].bytes;
            if (o->uses[v] == 0) o->fall[at] += g->values[v].bytes;
        }
    }
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (g->values[v].kind == DCT_KIND_INTERMEDIATE && o->last_read[v] != DCT_NONE)
            o->fall[o->last_read[v]] += g->values[v].bytes;
    }
    uint64_t live = 0, load = 0;
    for (uint32_t at = 0; at < g->n_ops; at++) {
        live += o->rise[at];
        if (live > load) load = live;
        live -= o->fall[at];
    }
    return load;
}

/* Makes o->best the order of the graph. */
static dct_status apply(orderer *o, dct_arena *arena, dct_err *err) {
    dct_graph *g = o->g;
    dct_op *ops = dct_arena_array(arena, g->n_ops, sizeof *ops);
    if (ops == NULL) return dct_fail_memory(err, arena, "the order of ops");
    memcpy(o->order, o->best, g->n_ops * sizeof *o->order);
    find_aliases(o);
    for (uint32_t at = 0; at < g->n_ops; at++) {
        ops[at] = g->ops[o->order[at]];
        for (uint32_t k = 0; k < ops[at].n_out; k++) {
            if (ops[at].out[k] != DCT_NONE) g->values[ops[at].out[k]].producer = at;
        }
    }
    g->ops = ops;
    g->cap_ops = g->n_ops;
    for (dct_value_id v = 0; v < g->n_values; v++) g->values[v].alias_of = o->alias[v];
    return DCT_OK;
}

dct_status dct_order(dct_graph *g, uint32_t threads, dct_arena *arena, dct_err *err) {
    orderer o = {.g = g, .threads = threads};
    uint64_t ops = g->n_ops, values = g->n_values;
    o.edges = dct_arena_array(arena, ops * DCT_OP_MAX_IN, sizeof *o.edges);
    o.first_edge = dct_arena_array(arena, ops, sizeof *o.first_edge);
    o.n_before = dct_arena_array(arena, ops, sizeof *o.n_before);
    o.left = dct_arena_array(arena, ops, sizeof *o.left);
    o.ready = dct_arena_array(arena, ops, sizeof *o.ready);
    o.order = dct_arena_array(arena, ops, sizeof *o.order);
    o.best = dct_arena_array(arena, ops, sizeof *o.best);
    o.rise = dct_arena_array(arena, ops, sizeof *o.rise);
    o.fall = dct_arena_array(arena, ops, sizeof *o.fall);
    o.uses = dct_arena_array(arena, values, sizeof *o.uses);
    o.uses_left = dct_arena_array(arena, values, sizeof *o.uses_left);
    o.last_read = dct_arena_array(arena, values, sizeof *o.last_read);
    o.alias = dct_arena_array(arena, values, sizeof *o.alias);
    if (o.edges == NULL || o.first_edge == NULL || o.n_before == NULL || o.left == NULL || o.ready == NULL || o.order == NULL ||
        o.best == NULL || o.rise == NULL || o.fall == NULL || o.uses == NULL || o.uses_left == NULL || o.last_read == NULL ||
        o.alias == NULL) {
        return dct_fail_memory(err, arena, "ordering");
    }
    add_edges(&o, o.last_read);
    uint64_t least = UINT64_MAX;
    for (policy p = POLICY_TRACED; p < POLICY_COUNT; p++) {
        list_schedule(&o, p);
        uint64_t load = load_of_order(&o);
        if (load >= least) continue;
        least = load;
        memcpy(o.best, o.order, ops * sizeof *o.best);
    }
    return apply(&o, arena, err);
}
