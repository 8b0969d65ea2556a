/* ir/check: dct_graph_check. What holds for ops of every kind, logical or fused: how many inputs and outputs, in which order
 * values are defined, read and overwritten. shape.c judges each kind by its own rules, values.c the values. A graph may come from
 * a plan file, so no index or count in it is trusted before it was compared. */
#include "ir/check.h"

#include <stdio.h>

/* Where a value is read last and where, as an input, it is written first; DCT_NONE where never. */
typedef struct use {
    dct_op_id last_read, first_write;
} use;

dct_status dct_op_refuse(const dct_subject *s, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) text[0] = '\0';
    const char *kind = (uint32_t)s->op->kind < DCT_OP_COUNT ? dct_op_info_of(s->op->kind)->name : "?";
    dct_value_id out = s->op->n_out > 0 ? s->op->out[0] : DCT_NONE;
    if (s->op->layer < 0 && out < s->g->n_values)
        return dct_fail(s->err, DCT_BUG, "op %u (%s '%s'): %s", s->id, kind, s->g->values[out].name, text);
    return dct_fail(s->err, DCT_BUG, "op %u (%s, layer %d): %s", s->id, kind, s->op->layer, text);
}

static bool is_made(const dct_value *v) { return v->kind == DCT_KIND_INTERMEDIATE || v->kind == DCT_KIND_OUTPUT; }

/* Inputs exist, and were defined before. */
static dct_status check_inputs(const dct_subject *s) {
    const dct_op *op = s->op;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] == DCT_NONE) continue;
        if (op->in[i] >= s->g->n_values) return dct_op_refuse(s, "input %u is value %u of %u", i, op->in[i], s->g->n_values);
        const dct_value *v = &s->g->values[op->in[i]];
        if (is_made(v) && (v->producer == DCT_NONE || v->producer >= s->id))
            return dct_op_refuse(s, "input %u '%s' is read before it is defined", i, v->name);
    }
    return DCT_OK;
}

/* Outputs exist, and are defined here and once. */
static dct_status check_outputs(const dct_subject *s) {
    const dct_op *op = s->op;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i] == DCT_NONE) continue;
        if (op->out[i] >= s->g->n_values) return dct_op_refuse(s, "output %u is value %u of %u", i, op->out[i], s->g->n_values);
        const dct_value *v = &s->g->values[op->out[i]];
        if (!is_made(v)) return dct_op_refuse(s, "output %u '%s' is not a value that ops make", i, v->name);
        if (v->producer != s->id)
            return dct_op_refuse(s, "output %u '%s' is produced elsewhere (op %u)", i, v->name, v->producer);
        for (uint32_t j = 0; j < i; j++) {
            if (op->out[j] == op->out[i]) return dct_op_refuse(s, "output %u '%s' is produced twice", i, v->name);
        }
    }
    return DCT_OK;
}

static dct_status check_wiring(const dct_subject *s) {
    const dct_op *op = s->op;
    if ((uint32_t)op->kind >= DCT_OP_COUNT) return dct_op_refuse(s, "unknown kind %d", (int)op->kind);
    const dct_op_info *info = dct_op_info_of(op->kind);
    if (op->n_in < info->in_min || op->n_in > info->in_max)
        return dct_op_refuse(s, "%u inputs, expected %u to %u", op->n_in, info->in_min, info->in_max);
    if (op->n_out > info->n_out) return dct_op_refuse(s, "%u outputs, expected %u", op->n_out, info->n_out);
    TRY(check_inputs(s));
    return check_outputs(s);
}

/* Values of one op have the rows of one another not at the bound alone but in a run of any length; ops that turn rows into others
 * were asked by their kind. */
static dct_status check_run_rows(const dct_subject *s) {
    const dct_op *op = s->op;
    if (op->kind == DCT_OP_WINDOW || op->kind == DCT_OP_EXPERTS || op->kind == DCT_OP_MIX) return DCT_OK;
    const dct_value *first = &s->g->values[op->in[0]];
    for (uint32_t i = 1; i < op->n_in + op->n_out; i++) {
        dct_value_id id = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        if (id == DCT_NONE || (op->kind == DCT_OP_ATTN_ROWS && i < op->n_in)) continue;
        const dct_value *v = &s->g->values[id];
        bool has_rows = v->kind != DCT_KIND_WEIGHT && v->kind != DCT_KIND_KV && v->kind != DCT_KIND_PERSISTENT;
        if (has_rows && !dct_value_rows_alike(v, first))
            return dct_op_refuse(s, "'%s' has other rows in a run than '%s'", v->name, first->name);
    }
    return DCT_OK;
}

/* A value that the op overwrites: no other input of the op is that value, and nobody reads it later. */
static dct_status check_overwritten(const dct_subject *s, const use *uses, dct_value_id id) {
    const char *name = s->g->values[id].name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->op->n_in; i++) n += s->op->in[i] == id;
    if (n != 1) return dct_op_refuse(s, "overwrites '%s', which is another of its inputs too", name);
    if (uses[id].last_read > s->id)
        return dct_op_refuse(s, "'%s' is read by op %u after it was overwritten", name, uses[id].last_read);
    return DCT_OK;
}

/* A result in the bytes of an input: where ops.def allows it, of the same size, and nobody reads the input later. */
static dct_status check_alias(const dct_subject *s, const use *uses, uint32_t i) {
    const dct_value *out = &s->g->values[s->op->out[i]];
    if (out->alias_of == DCT_NONE) return DCT_OK;
    int inplace = dct_op_info_of(s->op->kind)->inplace;
    if (i != 0 || inplace < 0 || (uint32_t)inplace >= s->op->n_in || s->op->in[inplace] != out->alias_of)
        return dct_op_refuse(s, "output '%s' may not lie in the bytes of value %u", out->name, out->alias_of);
    const dct_value *in = &s->g->values[out->alias_of];
    if (in->kind != DCT_KIND_INTERMEDIATE)
        return dct_op_refuse(s, "'%s' would overwrite '%s', which is no intermediate", out->name, in->name);
    if (in->bytes != out->bytes) return dct_op_refuse(s, "'%s' and '%s' differ in size", out->name, in->name);
    return check_overwritten(s, uses, out->alias_of);
}

/* Inputs that the op writes: caches, and values that it may overwrite. */
static dct_status check_written_inputs(const dct_subject *s, const use *uses) {
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        dct_value_id id = s->op->in[i];
        if (id == DCT_NONE || !dct_op_writes_input(s->op->kind, i)) continue;
        const dct_value *v = &s->g->values[id];
        if (v->kind == DCT_KIND_KV) continue;
        if (v->kind != DCT_KIND_INTERMEDIATE) return dct_op_refuse(s, "would overwrite '%s', which is no intermediate", v->name);
        TRY(check_overwritten(s, uses, id));
    }
    return DCT_OK;
}

/* Attention reads a cache only after the rows of this run were stored in it. */
static dct_status check_caches_stored(const dct_subject *s, const use *uses) {
    if (s->op->kind != DCT_OP_ATTN && s->op->kind != DCT_OP_ATTN_PART) return DCT_OK;
    for (uint32_t i = 1; i <= 2; i++) {
        dct_op_id stored = uses[s->op->in[i]].first_write;
        if (stored == DCT_NONE || stored > s->id)
            return dct_op_refuse(s, "'%s' is read before its rows are stored", s->g->values[s->op->in[i]].name);
    }
    return DCT_OK;
}

static dct_status check_op(const dct_subject *s, const use *uses) {
    TRY(dct_op_check_shapes(s));
    TRY(check_run_rows(s));
    TRY(check_written_inputs(s, uses));
    TRY(check_caches_stored(s, uses));
    for (uint32_t i = 0; i < s->op->n_out; i++) {
        if (s->op->out[i] != DCT_NONE) TRY(check_alias(s, uses, i));
    }
    return DCT_OK;
}

/* ---- the whole ---- */

static void find_uses(const dct_graph *g, use *uses) {
    for (dct_value_id v = 0; v < g->n_values; v++) uses[v] = (use){DCT_NONE, DCT_NONE};
    for (dct_op_id id = 0; id < g->n_ops; id++) {
        const dct_op *op = &g->ops[id];
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (op->in[i] == DCT_NONE) continue;
            use *u = &uses[op->in[i]];
            u->last_read = id;
            if (u->first_write == DCT_NONE && dct_op_writes_input(op->kind, i)) u->first_write = id;
        }
    }
}

static dct_status check_ops(const dct_graph *g, dct_arena *work, dct_err *err) {
    use *uses = dct_arena_array(work, g->n_values, sizeof *uses);
    if (uses == NULL) return dct_fail_memory(err, work, "checking a graph");
    for (dct_op_id id = 0; id < g->n_ops; id++) TRY(check_wiring(&(dct_subject){g, &g->ops[id], id, err}));
    find_uses(g, uses);
    for (dct_op_id id = 0; id < g->n_ops; id++) TRY(check_op(&(dct_subject){g, &g->ops[id], id, err}, uses));
    return DCT_OK;
}

dct_status dct_graph_check(const dct_graph *g, dct_err *err) {
    if (g->status != DCT_OK) {
        if (err != NULL) *err = g->err;
        return g->status;
    }
    TRY(dct_graph_check_values(g, err));
    dct_arena work; /* the graph's own may be shared, and what is checked is not changed */
    dct_arena_init(&work, 0);
    dct_status status = check_ops(g, &work, err);
    dct_arena_deinit(&work);
    return status == DCT_OK ? dct_graph_check_producers(g, err) : status;
}

dct_status dct_graph_check_last(const dct_graph *g, dct_err *err) {
    dct_subject s = {g, &g->ops[g->n_ops - 1], g->n_ops - 1, err};
    TRY(check_wiring(&s));
    TRY(dct_op_check_shapes(&s));
    return check_run_rows(&s);
}
