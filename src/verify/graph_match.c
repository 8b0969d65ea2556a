/* Whether the plan's graph is the model's, and nothing else.
 *
 * The traced graph is in logical ops; the plan's has fused ones. Each op of the plan is taken apart by a table of its own here,
 * into the logical ops it stands for, in order:
 *
 *     norm_quant    rms_norm, quant
 *     linear_multi  linear, linear[, linear]
 *     linear_add    linear, add
 *     linear_glu    linear, linear, glu
 *     rope_kv       [rms_norm,] [rms_norm,] rope, rope, kv_store
 *
 * Values of the plan are identified with values of the trace, beginning with what has an identity of its own: the two inputs
 * (those of a graph of one's own by name), weights by tensor and rows, caches by layer, tables by their numbers. A logical op is
 * then found in the trace by kind, parameters and identified inputs; its outputs become identified by that. Every op of the trace
 * must be found exactly once. Ops may come in another order as long as each cache is written and read in the trace's order. Where
 * the trace does one thing twice, either result may stand for the other.
 */
#include <string.h>

#include "verify/checker.h"

/* A logical op of the plan: inputs and outputs are values of the plan, or virtual ones that only fused ops know. */
typedef struct logical {
    dct_op_kind kind;
    uint32_t n_in, n_out;
    dct_value_id in[DCT_OP_MAX_IN], out[DCT_OP_MAX_OUT];
    dct_op_params p;
} logical;

enum { MAX_LOGICAL = 5, MAX_VIRTUAL = 4 };

typedef struct matcher {
    dct_checker *c;
    const dct_phase *phase;
    const dct_graph *plan, *trace;
    dct_value_id *twin;      /* [plan values + MAX_VIRTUAL] the trace's value; DCT_NONE while unknown */
    dct_value_id *same;      /* [trace values] the first that is computed in the same way, or the value itself */
    bool *found;             /* [trace ops] */
    dct_op_id first_open;    /* every trace op before it was found */
    uint32_t *last_write, *last_access; /* [trace values]: number + 1 of the last found op that did, for caches */
} matcher;

/* ---- taking ops apart ---- */

typedef struct logical_list {
    logical op[MAX_LOGICAL];
    uint32_t n, n_virtual;
    dct_value_id first_virtual;
    const dct_op *from;
} logical_list;

static logical *add_part(logical_list *parts, dct_op_kind kind, dct_value_id out) {
    logical *l = &parts->op[parts->n++];
    memset(l, 0, sizeof *l);
    l->kind = kind;
    l->p = parts->from->p;
    l->n_out = out == DCT_NONE ? 0 : 1;
    l->out[0] = out;
    return l;
}

/* An absent optional input at the end is not counted; traced ops leave it away altogether. */
static void add_in(logical *l, dct_value_id v) {
    if (v != DCT_NONE) l->in[l->n_in++] = v;
}

static dct_value_id new_virtual(logical_list *parts) { return parts->first_virtual + parts->n_virtual++; }

static dct_value_id input(const dct_op *op, uint32_t i) { return i < op->n_in ? op->in[i] : DCT_NONE; }

static void part_linear(logical_list *parts, dct_value_id w, dct_value_id b, dct_value_id out) {
    logical *l = add_part(parts, DCT_OP_LINEAR, out);
    add_in(l, parts->from->in[0]);
    add_in(l, w);
    add_in(l, b);
}

static dct_value_id part_norm(logical_list *parts, dct_value_id x, dct_value_id w, uint32_t group, dct_value_id out) {
    logical *l = add_part(parts, DCT_OP_RMS_NORM, out);
    add_in(l, x);
    add_in(l, w);
    l->p.group = group;
    return out;
}

static dct_value_id part_rope(logical_list *parts, dct_value_id x, uint32_t n_head, dct_value_id out) {
    logical *l = add_part(parts, DCT_OP_ROPE, out);
    add_in(l, x);
    add_in(l, parts->from->in[3]);
    add_in(l, parts->from->in[4]);
    l->p.n_head = n_head;
    return out;
}

static void take_apart(const dct_op *op, dct_value_id first_virtual, logical_list *parts) {
    memset(parts, 0, sizeof *parts);
    parts->from = op;
    parts->first_virtual = first_virtual;
    dct_value_id t;
    logical *l;
    switch (op->kind) {
    case DCT_OP_NORM_QUANT:
        t = part_norm(parts, op->in[0], op->in[1], op->p.group, new_virtual(parts));
        add_in(add_part(parts, DCT_OP_QUANT, op->out[0]), t);
        return;
    case DCT_OP_LINEAR_MULTI:
        for (uint32_t i = 0; i < 3; i++) {
            if (input(op, 1 + i) != DCT_NONE) part_linear(parts, op->in[1 + i], input(op, 4 + i), op->out[i]);
        }
        return;
    case DCT_OP_LINEAR_ADD:
        t = new_virtual(parts);
        part_linear(parts, op->in[1], input(op, 3), t);
        l = add_part(parts, DCT_OP_ADD, op->out[0]);
        add_in(l, op->in[2]);
        add_in(l, t);
        return;
    case DCT_OP_LINEAR_GLU:
        part_linear(parts, op->in[1], DCT_NONE, new_virtual(parts));
        part_linear(parts, op->in[2], DCT_NONE, new_virtual(parts));
        l = add_part(parts, DCT_OP_GLU, op->out[0]);
        add_in(l, first_virtual);
        add_in(l, first_virtual + 1);
        return;
    case DCT_OP_ROPE_KV: {
        dct_value_id q = op->in[0], k = op->in[1];
        if (input(op, 7) != DCT_NONE) q = part_norm(parts, q, op->in[7], op->p.head_dim, new_virtual(parts));
        if (input(op, 8) != DCT_NONE) k = part_norm(parts, k, op->in[8], op->p.head_dim, new_virtual(parts));
        part_rope(parts, q, op->p.n_head, op->out[0]);
        k = part_rope(parts, k, op->p.n_head_kv, new_virtual(parts));
        l = add_part(parts, DCT_OP_KV_STORE, DCT_NONE);
        add_in(l, k);
        add_in(l, op->in[2]);
        add_in(l, op->in[5]);
        add_in(l, op->in[6]);
        return;
    }
    default: /* logical as it is */
        l = add_part(parts, op->kind, op->n_out > 0 ? op->out[0] : DCT_NONE);
        for (uint32_t i = 0; i < op->n_in; i++) add_in(l, op->in[i]);
        for (uint32_t i = 1; i < op->n_out; i++) l->out[l->n_out++] = op->out[i]; /* only LINEAR_MULTI has absent ones */
    }
}

/* ---- comparing ---- */

static bool same_heads(const dct_op_params *a, const dct_op_params *b) {
    return a->n_head == b->n_head && a->n_head_kv == b->n_head_kv && a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v;
}

static bool same_attn(const dct_op_params *a, const dct_op_params *b) {
    return same_heads(a, b) && a->window == b->window && dct_same_float(a->scale, b->scale) &&
           dct_same_float(a->softcap, b->softcap);
}

/* The parameters that ops.def gives a meaning for this kind; the others are not looked at by any kernel. */
static bool same_params(dct_op_kind kind, const dct_op_params *a, const dct_op_params *b) {
    switch (kind) {
        case DCT_OP_EMBED: return dct_same_float(a->scale, b->scale);
        case DCT_OP_RMS_NORM: return dct_same_float(a->eps, b->eps) && a->group == b->group;
        case DCT_OP_ROPE:
            return a->n_head == b->n_head && a->head_dim == b->head_dim && a->n_rot == b->n_rot &&
                   a->rope_style == b->rope_style &&
                   (a->rope_style != DCT_ROPE_MROPE || memcmp(a->sections, b->sections, sizeof a->sections) == 0);
        case DCT_OP_KV_STORE: return a->n_head_kv == b->n_head_kv && a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v;
        case DCT_OP_ATTN: return same_attn(a, b);
        case DCT_OP_ATTN_PART: return same_attn(a, b) && a->n_part == b->n_part;
        case DCT_OP_ATTN_MERGE: return a->n_head == b->n_head && a->head_dim_v == b->head_dim_v && a->n_part == b->n_part;
        case DCT_OP_GLU:
        case DCT_OP_ACT: return a->act == b->act;
        case DCT_OP_SOFTCAP: return dct_same_float(a->softcap, b->softcap);
        case DCT_OP_LAYER_NORM: return dct_same_float(a->eps, b->eps);
        case DCT_OP_WINDOW: return a->width == b->width && a->stride == b->stride && a->pad == b->pad;
        case DCT_OP_KV_ROWS: return a->n_head_kv == b->n_head_kv && a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v;
        case DCT_OP_ATTN_ROWS: return same_heads(a, b) && dct_same_float(a->scale, b->scale) && a->causal == b->causal;
        case DCT_OP_ROUTE: return a->n_expert == b->n_expert && a->n_used == b->n_used && a->renorm == b->renorm;
        case DCT_OP_EXPERTS: return a->n_expert == b->n_expert && a->n_used == b->n_used;
        case DCT_OP_MIX: return a->group == b->group;
        default: return true;
    }
}

/* Inputs of a traced op that are there, in order. */
static uint32_t present_inputs(const dct_op *op, dct_value_id *in) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] != DCT_NONE) in[n++] = op->in[i];
    }
    return n;
}

static bool is_alike(const matcher *m, dct_value_id twin, dct_value_id t) {
    return twin != DCT_NONE && m->same[twin] == m->same[t];
}

static bool same_inputs(const matcher *m, const logical *l, const dct_op *op) {
    dct_value_id in[DCT_OP_MAX_IN];
    if (present_inputs(op, in) != l->n_in) return false;
    bool same = true, swapped = l->kind == DCT_OP_ADD || l->kind == DCT_OP_MUL; /* either way bit for bit */
    for (uint32_t i = 0; i < l->n_in; i++) {
        dct_value_id twin = m->twin[l->in[i]];
        same = same && is_alike(m, twin, in[i]);
        swapped = swapped && is_alike(m, twin, in[l->n_in - 1 - i]);
    }
    return same || swapped;
}

static bool same_shape(const dct_value *a, const dct_value *b) {
    return a->format == b->format && a->rows == b->rows && a->cols == b->cols && dct_value_rows_alike(a, b);
}

/* What reads a cache may read something else the next time. */
static bool touches_cache(const dct_graph *g, const dct_op *op) {
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] != DCT_NONE && g->values[op->in[i]].kind == DCT_KIND_KV) return true;
    }
    return false;
}

static bool computes_alike(const matcher *m, const dct_op *a, const dct_op *b) {
    if (a->kind != b->kind || a->n_in != b->n_in || a->n_out != b->n_out || !same_params(a->kind, &a->p, &b->p)) return false;
    for (uint32_t i = 0; i < a->n_in; i++) {
        bool absent = a->in[i] == DCT_NONE || b->in[i] == DCT_NONE;
        if (absent ? a->in[i] != b->in[i] : m->same[a->in[i]] != m->same[b->in[i]]) return false;
    }
    return true;
}

/* Ops of the trace that differ are kept in lists by what they read first. */
static dct_status find_alike(matcher *m) {
    const dct_graph *g = m->trace;
    dct_arena *arena = m->c->arena;
    dct_op_id *newest = dct_arena_array(arena, g->n_values, sizeof *newest);
    dct_op_id *older = dct_arena_array(arena, g->n_ops, sizeof *older);
    m->same = dct_arena_array(arena, g->n_values, sizeof *m->same);
    if (newest == NULL || older == NULL || m->same == NULL) return dct_fail_memory(m->c->err, arena, "the verifier");
    for (dct_value_id v = 0; v < g->n_values; v++) {
        m->same[v] = v;
        newest[v] = DCT_NONE;
    }
    for (dct_op_id t = 0; t < g->n_ops; t++) {
        const dct_op *op = &g->ops[t];
        if (op->n_in == 0 || op->in[0] == DCT_NONE || touches_cache(g, op)) continue;
        dct_value_id first = m->same[op->in[0]];
        dct_op_id k = newest[first];
        while (k != DCT_NONE && !computes_alike(m, &g->ops[k], op)) k = older[k];
        for (uint32_t i = 0; k != DCT_NONE && i < op->n_out; i++) m->same[op->out[i]] = m->same[g->ops[k].out[i]];
        if (k != DCT_NONE) continue;
        older[t] = newest[first];
        newest[first] = t;
    }
    return DCT_OK;
}

static dct_status mismatch(matcher *m, dct_op_id k, const logical *l, const char *why) {
    return dct_refuse(m->c, DCT_DEFECT_GRAPH_MISMATCH, "%s: op %u (%s), its %s %s", m->phase->name, k,
                      dct_op_info_of(m->plan->ops[k].kind)->name, dct_op_info_of(l->kind)->name, why);
}

/* A cache is written and read in the order of the trace. */
static bool keeps_cache_order(matcher *m, const dct_op *op, dct_op_id number) {
    for (uint32_t i = 0; i < op->n_in; i++) {
        dct_value_id v = op->in[i];
        if (v == DCT_NONE || m->trace->values[v].kind != DCT_KIND_KV) continue;
        bool writes = dct_op_writes_input(op->kind, i);
        if (number < (writes ? m->last_access[v] : m->last_write[v])) return false;
        if (number + 1 > m->last_access[v]) m->last_access[v] = number + 1;
        if (writes) m->last_write[v] = number + 1;
    }
    return true;
}

static bool is_same(const matcher *m, const logical *l, const dct_op *op) {
    return op->kind == l->kind && same_params(l->kind, &op->p, &l->p) && same_inputs(m, l, op);
}

/* Finds the logical op in the trace and identifies its output. Plans keep near the order of the trace, so the first op that was
 * not found yet is never far from the one that is sought. */
static dct_status match_part(matcher *m, dct_op_id k, const logical *l) {
    while (m->first_open < m->trace->n_ops && m->found[m->first_open]) m->first_open++;
    for (dct_op_id t = m->first_open; t < m->trace->n_ops; t++) {
        const dct_op *op = &m->trace->ops[t];
        if (m->found[t] || !is_same(m, l, op)) continue;
        if (op->n_out != l->n_out)
            return mismatch(m, k, l, "has another number of outputs than the model's");
        if (!keeps_cache_order(m, op, t)) return mismatch(m, k, l, "touches a cache out of turn");
        m->found[t] = true;
        for (uint32_t i = 0; i < l->n_out; i++) {
            m->twin[l->out[i]] = op->out[i];
            bool is_virtual = l->out[i] >= m->plan->n_values;
            if (!is_virtual && !same_shape(&m->plan->values[l->out[i]], &m->trace->values[op->out[i]]))
                return mismatch(m, k, l, "has another shape than the model's");
        }
        return DCT_OK;
    }
    for (dct_op_id t = 0; t < m->trace->n_ops; t++) {
        if (!m->found[t] || !is_same(m, l, &m->trace->ops[t])) continue;
        return dct_refuse(m->c, DCT_DEFECT_OP_MISSING, "%s: op %u (%s): its %s is done twice", m->phase->name, k,
                          dct_op_info_of(m->plan->ops[k].kind)->name, dct_op_info_of(l->kind)->name);
    }
    return mismatch(m, k, l, "is not in the model's graph");
}

/* ---- what has an identity of its own ---- */

static bool same_leaf(const matcher *m, const dct_value *a, const dct_value *b) {
    if (a->kind != b->kind || a->ref == DCT_NONE || b->ref == DCT_NONE || !same_shape(a, b)) return false;
    switch (a->kind) {
        case DCT_KIND_WEIGHT: return dct_same_weight(&m->plan->weights[a->ref], &m->trace->weights[b->ref]);
        case DCT_KIND_KV: return dct_same_cache(&m->plan->caches[a->ref], &m->trace->caches[b->ref]);
        case DCT_KIND_PERSISTENT: return dct_same_table(&m->plan->tables[a->ref], &m->trace->tables[b->ref]);
        default: return false;
    }
}

static void identify(matcher *m, dct_value_id v, dct_value_id t) {
    if (v != DCT_NONE && t != DCT_NONE && same_shape(&m->plan->values[v], &m->trace->values[t])) m->twin[v] = t;
}

/* The input or output of a graph of one's own that has the kind and name of another's. */
static dct_value_id end_of_name(const dct_graph *g, const dct_value *like) {
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (dct_value_is_end(g, v) && g->values[v].kind == like->kind && strcmp(g->values[v].name, like->name) == 0) return v;
    }
    return DCT_NONE;
}

/* The search for a leaf begins behind the one found last: lists in one order are walked once. */
static void identify_leaves(matcher *m) {
    dct_value_id from = 0;
    for (dct_value_id v = 0; v < m->plan->n_values; v++) {
        if (m->plan->values[v].ref == DCT_NONE) continue; /* has no identity of its own */
        for (uint32_t i = 0; i < m->trace->n_values && m->twin[v] == DCT_NONE; i++) {
            dct_value_id t = from + i < m->trace->n_values ? from + i : from + i - m->trace->n_values;
            if (!same_leaf(m, &m->plan->values[v], &m->trace->values[t])) continue;
            m->twin[v] = t;
            from = t + 1;
        }
    }
    identify(m, m->plan->ids, m->trace->ids);
    identify(m, m->plan->pos, m->trace->pos);
    for (dct_value_id v = 0; v < m->plan->n_values; v++) {
        bool is_input = m->plan->values[v].kind == DCT_KIND_INPUT && dct_value_is_end(m->plan, v);
        if (is_input) identify(m, v, end_of_name(m->trace, &m->plan->values[v]));
    }
}

/* Every input and output of one graph is, by its name, in the other, as the same value. */
static dct_status check_names(const matcher *m, const dct_graph *of, const dct_graph *in, bool of_trace) {
    for (dct_value_id v = 0; v < of->n_values; v++) {
        if (!dct_value_is_end(of, v)) continue;
        dct_value_id same = end_of_name(in, &of->values[v]);
        if (same == DCT_NONE || !is_alike(m, m->twin[of_trace ? same : v], of_trace ? v : same))
            return dct_refuse(m->c, DCT_DEFECT_GRAPH_MISMATCH, "%s: '%s' is not the graph's", m->phase->name, of->values[v].name);
    }
    return DCT_OK;
}

static dct_status check_ends(matcher *m) {
    for (dct_op_id t = 0; t < m->trace->n_ops; t++) {
        if (m->found[t]) continue;
        return dct_refuse(m->c, DCT_DEFECT_OP_MISSING, "%s: the model's op %u (%s, layer %d) is not in the plan", m->phase->name,
                          t, dct_op_info_of(m->trace->ops[t].kind)->name, m->trace->ops[t].layer);
    }
    dct_value_id logits = m->plan->logits == DCT_NONE ? DCT_NONE : m->twin[m->plan->logits];
    if (logits != m->trace->logits && !(m->trace->logits != DCT_NONE && is_alike(m, logits, m->trace->logits)))
        return dct_refuse(m->c, DCT_DEFECT_GRAPH_MISMATCH, "%s: the output is not the model's", m->phase->name);
    dct_status status = check_names(m, m->trace, m->plan, true);
    return status == DCT_OK ? check_names(m, m->plan, m->trace, false) : status;
}

dct_status dct_check_graph_match(dct_checker *c, const dct_phase *phase, const dct_graph *traced) {
    matcher m = {.c = c, .phase = phase, .plan = &phase->graph, .trace = traced};
    uint64_t n_twins = (uint64_t)phase->graph.n_values + MAX_VIRTUAL;
    m.twin = dct_arena_array(c->arena, n_twins, sizeof *m.twin);
    m.found = dct_arena_array(c->arena, traced->n_ops, sizeof *m.found);
    m.last_write = dct_arena_array(c->arena, traced->n_values, sizeof *m.last_write);
    m.last_access = dct_arena_array(c->arena, traced->n_values, sizeof *m.last_access);
    if (m.twin == NULL || m.found == NULL || m.last_write == NULL || m.last_access == NULL)
        return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint64_t i = 0; i < n_twins; i++) m.twin[i] = DCT_NONE;
    dct_status status = find_alike(&m);
    if (status != DCT_OK) return status;
    identify_leaves(&m);
    for (dct_op_id k = 0; k < phase->graph.n_ops; k++) {
        logical_list parts;
        take_apart(&phase->graph.ops[k], phase->graph.n_values, &parts);
        for (uint32_t i = 0; i < parts.n; i++) {
            status = match_part(&m, k, &parts.op[i]);
            if (status != DCT_OK) return status;
        }
    }
    return check_ends(&m);
}
