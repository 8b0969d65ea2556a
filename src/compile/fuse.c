/* compile/fuse: several ops become one where that saves memory, traffic or a wait.
 *
 * One small function a pattern. A pattern matches only when the values that vanish are intermediates with a single use, so nobody
 * can miss them. The new op takes the slot of one of its parts, at which all inputs are defined; the other slots are emptied; at
 * the end the graph is copied without empty slots and without the values that nothing names any more.
 *
 *      RMS_NORM ─ QUANT                          NORM_QUANT      LINEAR(gate) ┐
 *      LINEAR ─ ADD(residual)                    LINEAR_ADD      LINEAR(up) ──┴ GLU        LINEAR_GLU
 *      [RMS_NORM] ─ ROPE(q) ┐                                    LINEAR ┐
 *      [RMS_NORM] ─ ROPE(k) ┴ KV_STORE ─ ATTN    ROPE_KV         LINEAR ┤ of one input     LINEAR_MULTI
 */
#include <string.h>

#include "compile/passes.h"

typedef struct rewrite {
    const dct_graph *g;  /* values as traced */
    dct_op *ops;         /* the slots */
    bool *empty;
    uint32_t n_ops;
    uint32_t *uses;      /* a value: inputs that name it */
    dct_op_id *producer, *reader; /* a value: the slot that makes it; the last slot that reads it */
} rewrite;

/* After every pattern the uses are counted anew. */
static void count_uses(rewrite *r) {
    for (dct_value_id v = 0; v < r->g->n_values; v++) {
        r->uses[v] = 0;
        r->producer[v] = r->reader[v] = DCT_NONE;
    }
    for (dct_op_id i = 0; i < r->n_ops; i++) {
        if (r->empty[i]) continue;
        const dct_op *op = &r->ops[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] == DCT_NONE) continue;
            r->uses[op->in[k]]++;
            r->reader[op->in[k]] = i;
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (op->out[k] != DCT_NONE) r->producer[op->out[k]] = i;
        }
    }
}

/* The slot that makes `v`, if it is of `kind` and `v` is an intermediate that is used once; DCT_NONE otherwise. */
static dct_op_id made_for_one(const rewrite *r, dct_value_id v, dct_op_kind kind) {
    if (v == DCT_NONE || r->g->values[v].kind != DCT_KIND_INTERMEDIATE || r->uses[v] != 1) return DCT_NONE;
    dct_op_id i = r->producer[v];
    return i != DCT_NONE && !r->empty[i] && r->ops[i].kind == kind ? i : DCT_NONE;
}

static dct_op new_op(dct_op_kind kind, uint32_t n_in, uint32_t n_out, const dct_op *like) {
    dct_op op = {.kind = kind, .n_in = n_in, .n_out = n_out, .p = like->p, .layer = like->layer};
    for (uint32_t i = 0; i < DCT_OP_MAX_IN; i++) op.in[i] = DCT_NONE;
    for (uint32_t i = 0; i < DCT_OP_MAX_OUT; i++) op.out[i] = DCT_NONE;
    return op;
}

static void fuse_norm_quant(rewrite *r, dct_op_id quant) {
    dct_op_id norm = made_for_one(r, r->ops[quant].in[0], DCT_OP_RMS_NORM);
    if (norm == DCT_NONE) return;
    dct_op op = new_op(DCT_OP_NORM_QUANT, 2, 1, &r->ops[norm]);
    op.in[0] = r->ops[norm].in[0];
    op.in[1] = r->ops[norm].in[1];
    op.out[0] = r->ops[quant].out[0];
    r->ops[quant] = op;
    r->empty[norm] = true;
}

static dct_value_id bias_of(const dct_op *linear) { return linear->n_in > 2 ? linear->in[2] : DCT_NONE; }

static void fuse_glu(rewrite *r, dct_op_id glu) {
    dct_op_id gate = made_for_one(r, r->ops[glu].in[0], DCT_OP_LINEAR), up = made_for_one(r, r->ops[glu].in[1], DCT_OP_LINEAR);
    if (gate == DCT_NONE || up == DCT_NONE || r->ops[gate].in[0] != r->ops[up].in[0]) return;
    if (bias_of(&r->ops[gate]) != DCT_NONE || bias_of(&r->ops[up]) != DCT_NONE) return;
    dct_op op = new_op(DCT_OP_LINEAR_GLU, 3, 1, &r->ops[glu]);
    op.in[0] = r->ops[gate].in[0];
    op.in[1] = r->ops[gate].in[1];
    op.in[2] = r->ops[up].in[1];
    op.out[0] = r->ops[glu].out[0];
    r->ops[glu] = op;
    r->empty[gate] = r->empty[up] = true;
}

/* The product is the second addend as models write it; either will do, for a sum of two is the same both ways. */
static void fuse_add(rewrite *r, dct_op_id add) {
    for (uint32_t side = 2; side > 0; side--) {
        dct_value_id residual = r->ops[add].in[2 - side];
        dct_op_id linear = made_for_one(r, r->ops[add].in[side - 1], DCT_OP_LINEAR);
        if (linear == DCT_NONE) continue;
        dct_op op = new_op(DCT_OP_LINEAR_ADD, 4, 1, &r->ops[linear]);
        op.in[0] = r->ops[linear].in[0];
        op.in[1] = r->ops[linear].in[1];
        op.in[2] = residual;
        op.in[3] = bias_of(&r->ops[linear]);
        op.out[0] = r->ops[add].out[0];
        r->ops[add] = op;
        r->empty[linear] = true;
        return;
    }
}

/* A ROPE of heads, and the norm of each head before it when that has no other use. */
typedef struct rotation {
    dct_op_id rope, norm; /* norm: DCT_NONE when there is none */
    dct_value_id x, weight;
} rotation;

static bool match_rotation(const rewrite *r, dct_value_id rotated, rotation *out) {
    out->rope = made_for_one(r, rotated, DCT_OP_ROPE);
    if (out->rope == DCT_NONE) return false;
    const dct_op *rope = &r->ops[out->rope];
    out->x = rope->in[0];
    out->weight = DCT_NONE;
    out->norm = made_for_one(r, out->x, DCT_OP_RMS_NORM);
    if (out->norm != DCT_NONE && r->ops[out->norm].p.group == rope->p.head_dim) {
        out->x = r->ops[out->norm].in[0];
        out->weight = r->ops[out->norm].in[1];
    } else {
        out->norm = DCT_NONE;
    }
    return r->g->values[out->x].kind == DCT_KIND_INTERMEDIATE && r->uses[out->x] == 1; /* it is rotated in its own bytes */
}

static bool same_rotation(const dct_op *a, const dct_op *b) {
    return a->in[1] == b->in[1] && a->in[2] == b->in[2] && a->p.n_rot == b->p.n_rot && a->p.head_dim == b->p.head_dim &&
           a->p.rope_style == b->p.rope_style && memcmp(a->p.sections, b->p.sections, sizeof a->p.sections) == 0;
}

/* The attention that reads the cache which `store` fills, when it is the only one. */
static dct_op_id attention_of(const rewrite *r, const dct_op *store) {
    dct_op_id i = r->reader[store->in[2]];
    if (i == DCT_NONE || r->empty[i] || r->uses[store->in[2]] != 2) return DCT_NONE;
    return r->ops[i].kind == DCT_OP_ATTN || r->ops[i].kind == DCT_OP_ATTN_PART ? i : DCT_NONE;
}

static void fuse_rope_kv(rewrite *r, dct_op_id store) {
    const dct_op *kv = &r->ops[store];
    dct_op_id attn = attention_of(r, kv);
    rotation q, k;
    if (attn == DCT_NONE || !match_rotation(r, r->ops[attn].in[0], &q) || !match_rotation(r, kv->in[0], &k)) return;
    const dct_op *rope = &r->ops[q.rope];
    if (!same_rotation(rope, &r->ops[k.rope]) || kv->p.head_dim != rope->p.head_dim || q.x == k.x || kv->in[1] == q.x ||
        kv->in[1] == k.x)
        return;
    if (q.norm != DCT_NONE && k.norm != DCT_NONE && r->ops[q.norm].p.eps != r->ops[k.norm].p.eps) return;
    dct_op op = new_op(DCT_OP_ROPE_KV, 9, 1, kv);
    op.p.n_head = rope->p.n_head;
    op.p.n_rot = rope->p.n_rot;
    op.p.rope_style = rope->p.rope_style;
    memcpy(op.p.sections, rope->p.sections, sizeof op.p.sections);
    if (q.norm != DCT_NONE || k.norm != DCT_NONE) {
        op.p.eps = r->ops[q.norm != DCT_NONE ? q.norm : k.norm].p.eps;
        op.p.group = rope->p.head_dim;
    }
    const dct_value_id in[] = {q.x, k.x, kv->in[1], rope->in[1], rope->in[2], kv->in[2], kv->in[3], q.weight, k.weight};
    memcpy(op.in, in, sizeof in);
    op.out[0] = rope->out[0];
    dct_op_id slot = store > q.rope ? store : q.rope; /* all inputs are there, attention is still to come */
    r->empty[store] = r->empty[q.rope] = r->empty[k.rope] = true;
    if (q.norm != DCT_NONE) r->empty[q.norm] = true;
    if (k.norm != DCT_NONE) r->empty[k.norm] = true;
    r->ops[slot] = op;
    r->empty[slot] = false;
}

/* Products of one input, up to three, in the slot of the first. */
static void fuse_multi(rewrite *r, dct_op_id first) {
    dct_op op = new_op(DCT_OP_LINEAR_MULTI, 7, 3, &r->ops[first]);
    dct_op_id parts[3];
    uint32_t n = 0;
    op.in[0] = r->ops[first].in[0];
    dct_op_id end = r->reader[op.in[0]];
    for (dct_op_id i = first; i <= end && n < 3; i++) {
        const dct_op *linear = &r->ops[i];
        if (r->empty[i] || linear->kind != DCT_OP_LINEAR || linear->in[0] != op.in[0]) continue;
        op.in[1 + n] = linear->in[1];
        op.in[4 + n] = bias_of(linear);
        op.out[n] = linear->out[0];
        parts[n++] = i;
    }
    if (n < 2) return;
    for (uint32_t i = 0; i < n; i++) r->empty[parts[i]] = true;
    r->ops[first] = op;
    r->empty[first] = false;
}

static const struct pattern {
    dct_op_kind kind; /* of the op that the pattern is found by */
    void (*fuse)(rewrite *r, dct_op_id i);
} PATTERNS[] = {
    {DCT_OP_QUANT, fuse_norm_quant}, {DCT_OP_GLU, fuse_glu},      {DCT_OP_ADD, fuse_add},
    {DCT_OP_KV_STORE, fuse_rope_kv}, {DCT_OP_LINEAR, fuse_multi},
};

/* Copies what is left, renumbering values; order is kept. */
static dct_status copy_out(const rewrite *r, dct_arena *arena, dct_graph *out, dct_err *err) {
    const dct_graph *g = r->g;
    *out = *g;
    out->arena = arena;
    uint32_t *renamed = dct_arena_array(arena, g->n_values, sizeof *renamed);
    out->values = dct_arena_array(arena, g->n_values, sizeof *out->values);
    out->ops = dct_arena_array(arena, r->n_ops, sizeof *out->ops);
    if (renamed == NULL || out->values == NULL || out->ops == NULL) return dct_fail_memory(err, arena, "the fused graph");
    out->cap_values = g->n_values;
    out->cap_ops = r->n_ops;
    out->n_values = out->n_ops = 0;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        bool kept = r->uses[v] > 0 || r->producer[v] != DCT_NONE || g->values[v].kind == DCT_KIND_INPUT;
        renamed[v] = kept ? out->n_values : DCT_NONE;
        if (kept) out->values[out->n_values++] = g->values[v];
    }
    for (dct_op_id i = 0; i < r->n_ops; i++) {
        if (r->empty[i]) continue;
        dct_op *op = &out->ops[out->n_ops];
        *op = r->ops[i];
        for (uint32_t k = 0; k < op->n_in; k++) op->in[k] = op->in[k] == DCT_NONE ? DCT_NONE : renamed[op->in[k]];
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (op->out[k] == DCT_NONE) continue;
            op->out[k] = renamed[op->out[k]];
            out->values[op->out[k]].producer = out->n_ops;
        }
        out->n_ops++;
    }
    out->ids = g->ids == DCT_NONE ? DCT_NONE : renamed[g->ids];
    out->pos = g->pos == DCT_NONE ? DCT_NONE : renamed[g->pos];
    out->logits = g->logits == DCT_NONE ? DCT_NONE : renamed[g->logits];
    return DCT_OK;
}

dct_status dct_fuse(const dct_graph *traced, dct_arena *arena, dct_graph *out, dct_err *err) {
    rewrite r = {.g = traced, .n_ops = traced->n_ops};
    r.ops = dct_arena_array(arena, traced->n_ops, sizeof *r.ops);
    r.empty = dct_arena_array(arena, traced->n_ops, sizeof *r.empty);
    r.uses = dct_arena_array(arena, traced->n_values, sizeof *r.uses);
    r.producer = dct_arena_array(arena, traced->n_values, sizeof *r.producer);
    r.reader = dct_arena_array(arena, traced->n_values, sizeof *r.reader);
    if (r.ops == NULL || r.empty == NULL || r.uses == NULL || r.producer == NULL || r.reader == NULL)
        return dct_fail_memory(err, arena, "fusing");
    memcpy(r.ops, traced->ops, traced->n_ops * sizeof *r.ops);
    for (size_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; p++) {
        count_uses(&r);
        for (dct_op_id i = 0; i < r.n_ops; i++) {
            if (!r.empty[i] && r.ops[i].kind == PATTERNS[p].kind) PATTERNS[p].fuse(&r, i);
        }
    }
    count_uses(&r);
    return copy_out(&r, arena, out, err);
}
