/* Whether a phase is well formed at all: ids point at something, sizes follow from shapes, in-place values are allowed, the
 * graph obeys the rules of its ops; and whether its steps run every op exactly once, on workers and after steps that exist. */
#include <string.h>

#include "base/size.h"
#include "verify/checker.h"

static const char *op_name(const dct_op *op) { return dct_op_info_of(op->kind)->name; }

static bool id_ok(dct_value_id id, uint32_t n) { return id == DCT_NONE || id < n; }

static dct_status check_ids(dct_checker *c, const dct_phase *phase) {
    const dct_graph *g = &phase->graph;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        const dct_op *op = &g->ops[k];
        bool ok = (uint32_t)op->kind < DCT_OP_COUNT && op->n_in <= DCT_OP_MAX_IN && op->n_out <= DCT_OP_MAX_OUT;
        for (uint32_t i = 0; ok && i < op->n_in; i++) ok = id_ok(op->in[i], g->n_values);
        for (uint32_t i = 0; ok && i < op->n_out; i++) ok = id_ok(op->out[i], g->n_values);
        if (!ok) return dct_refuse(c, DCT_DEFECT_GRAPH_MALFORMED, "%s: op %u names values that do not exist", phase->name, k);
        if (!id_ok(phase->scratch[k], g->n_values)) {
            return dct_refuse(c, DCT_DEFECT_SCRATCH_WRONG, "%s: the scratch of op %u is value %u of %u", phase->name, k,
                              phase->scratch[k], g->n_values);
        }
    }
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        uint32_t n_refs = value->kind == DCT_KIND_WEIGHT ? g->n_weights : value->kind == DCT_KIND_KV ? g->n_caches : g->n_tables;
        bool must_refer = value->kind == DCT_KIND_WEIGHT || value->kind == DCT_KIND_KV;
        bool ok = id_ok(value->alias_of, g->n_values) && (value->producer == DCT_NONE || value->producer < g->n_ops) &&
                  (must_refer ? value->ref < n_refs : id_ok(value->ref, n_refs)) &&
                  memchr(value->name, '\0', sizeof value->name) != NULL;
        if (!ok) return dct_refuse(c, DCT_DEFECT_GRAPH_MALFORMED, "%s: value %u refers to what does not exist", phase->name, v);
    }
    return DCT_OK;
}

static dct_status check_sizes(dct_checker *c, const dct_phase *phase) {
    const dct_graph *g = &phase->graph;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        uint64_t want = 0;
        bool ok = true;
        if (value->format == DCT_FMT_WEIGHT && value->kind == DCT_KIND_WEIGHT) want = g->weights[value->ref].bytes;
        else if (value->format == DCT_FMT_KV && value->kind == DCT_KIND_KV) want = g->caches[value->ref].bytes;
        else ok = dct_mul_u64(dct_value_row_bytes(value), value->rows, &want) && dct_align_u64(want, DCT_PLAN_ALIGN, &want);
        if (!ok || value->bytes != want) {
            return dct_refuse(c, DCT_DEFECT_SIZE_WRONG, "%s: value %u '%s' [%u, %u] has %llu bytes, needs %llu", phase->name, v,
                              value->name, value->rows, value->cols, (unsigned long long)value->bytes, (unsigned long long)want);
        }
    }
    return DCT_OK;
}

/* Op k overwrites value v: no other input of k may be v, which k would read while it changes, and no later op may want v. Whether
 * earlier readers are done by then is a question of order (memory.c, happens.c). */
static dct_status check_overwritten(dct_checker *c, const dct_phase *phase, const dct_op_id *last_read, dct_op_id k,
                                    dct_value_id v) {
    const dct_op *op = &phase->graph.ops[k];
    const char *name = phase->graph.values[v].name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++) n += op->in[i] == v;
    if (n > 1)
        return dct_refuse(c, DCT_DEFECT_ALIAS_INVALID, "%s: op %u (%s) reads '%s' while it overwrites it", phase->name, k,
                          op_name(op), name);
    if (last_read[v] <= k) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_ALIAS_INVALID, "%s: op %u (%s) reads '%s', which op %u (%s) overwrites", phase->name,
                      last_read[v], op_name(&phase->graph.ops[last_read[v]]), name, k, op_name(op));
}

/* A result in the bytes of an input: only where ops.def says so, only of an intermediate of the same size, made earlier. */
static dct_status check_alias(dct_checker *c, const dct_phase *phase, const dct_op_id *last_read, dct_value_id v) {
    const dct_graph *g = &phase->graph;
    const dct_value *value = &g->values[v];
    if (value->alias_of == DCT_NONE) return DCT_OK;
    const dct_value *source = &g->values[value->alias_of];
    const dct_op *op = value->producer == DCT_NONE ? NULL : &g->ops[value->producer];
    int inplace = op == NULL ? -1 : dct_op_info_of(op->kind)->inplace;
    bool allowed = inplace >= 0 && (uint32_t)inplace < op->n_in && op->in[inplace] == value->alias_of && op->n_out > 0 &&
                   op->out[0] == v;
    bool fits = source->kind == DCT_KIND_INTERMEDIATE && source->bytes == value->bytes && source->producer < value->producer;
    if (!allowed || !fits) {
        return dct_refuse(c, DCT_DEFECT_ALIAS_INVALID, "%s: value %u '%s' may not lie in the bytes of '%s'", phase->name, v,
                          value->name, source->name);
    }
    return check_overwritten(c, phase, last_read, value->producer, value->alias_of);
}

/* Inputs that ops write, caches apart, are overwritten as well. */
static dct_status check_written_inputs(dct_checker *c, const dct_phase *phase, const dct_op_id *last_read, dct_op_id k) {
    const dct_op *op = &phase->graph.ops[k];
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < op->n_in && status == DCT_OK; i++) {
        dct_value_id v = op->in[i];
        bool written = v != DCT_NONE && dct_op_writes_input(op->kind, i) && phase->graph.values[v].kind != DCT_KIND_KV;
        if (written) status = check_overwritten(c, phase, last_read, k, v);
    }
    return status;
}

/* The last op that has a value as an input. */
static void find_last_reads(const dct_graph *g, dct_op_id *last_read) {
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            if (g->ops[k].in[i] != DCT_NONE) last_read[g->ops[k].in[i]] = k;
        }
    }
}

static dct_status check_overwriting(dct_checker *c, const dct_phase *phase) {
    const dct_graph *g = &phase->graph;
    dct_op_id *last_read = dct_arena_array(c->arena, g->n_values, sizeof *last_read);
    if (last_read == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    find_last_reads(g, last_read);
    dct_status status = DCT_OK;
    for (dct_value_id v = 0; v < g->n_values && status == DCT_OK; v++) status = check_alias(c, phase, last_read, v);
    for (dct_op_id k = 0; k < g->n_ops && status == DCT_OK; k++) status = check_written_inputs(c, phase, last_read, k);
    return status;
}

/* check_alias saw to it that what an alias overwrites was made by an earlier op than the alias, whatever their ids: chains end.
 * Each is walked to the first value whose root is known, and once more to tell it to all on the way. */
static void find_roots(dct_facts *f) {
    const dct_value *values = f->graph->values;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) f->root[v] = DCT_NONE;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        dct_value_id end = v;
        while (f->root[end] == DCT_NONE && values[end].alias_of != DCT_NONE) end = values[end].alias_of;
        const dct_value_id root = f->root[end] == DCT_NONE ? end : f->root[end];
        for (dct_value_id on = v; on != end; on = values[on].alias_of) f->root[on] = root;
        f->root[end] = root;
    }
}

/* Each op runs in one step; finds which. */
static dct_status check_step_ops(dct_checker *c, dct_facts *f) {
    const dct_phase *phase = f->phase;
    for (dct_op_id k = 0; k < f->graph->n_ops; k++) f->step_of[k] = DCT_NONE;
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        if (step->n_ops == 0 || step->n_ops > DCT_STEP_MAX_OPS)
            return dct_refuse(c, DCT_DEFECT_OP_MISSING, "%s: step %u has %u ops", phase->name, s, step->n_ops);
        for (uint32_t i = 0; i < step->n_ops; i++) {
            dct_op_id k = step->ops[i];
            if (k >= f->graph->n_ops)
                return dct_refuse(c, DCT_DEFECT_OP_MISSING, "%s: step %u runs op %u of %u", phase->name, s, k, f->graph->n_ops);
            if (f->step_of[k] != DCT_NONE)
                return dct_refuse(c, DCT_DEFECT_OP_MISSING, "%s: op %u (%s) runs in steps %u and %u", phase->name, k,
                                  op_name(&f->graph->ops[k]), f->step_of[k], s);
            f->step_of[k] = s;
            f->rank_of[k] = i;
        }
    }
    for (dct_op_id k = 0; k < f->graph->n_ops; k++) {
        if (f->step_of[k] == DCT_NONE)
            return dct_refuse(c, DCT_DEFECT_OP_MISSING, "%s: no step runs op %u (%s)", phase->name, k,
                              op_name(&f->graph->ops[k]));
    }
    return DCT_OK;
}

/* Steps wait for earlier ones, by all the waits that are listed, each step by its own: a run ends when the steps do that nobody
 * waits for. */
static dct_status check_waits(dct_checker *c, const dct_phase *phase) {
    uint64_t n_waits = 0;
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        if (step->wait_begin != n_waits || !dct_range_within(step->wait_begin, step->n_waits, phase->n_waits))
            return dct_refuse(c, DCT_DEFECT_WAIT_INVALID, "%s: the waits of step %u are not behind those of the step before",
                              phase->name, s);
        for (uint32_t i = 0; i < step->n_waits; i++) {
            uint32_t on = phase->waits[step->wait_begin + i];
            if (on >= s) return dct_refuse(c, DCT_DEFECT_WAIT_INVALID, "%s: step %u waits for step %u", phase->name, s, on);
        }
        n_waits += step->n_waits;
    }
    if (n_waits == phase->n_waits) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_WAIT_INVALID, "%s: %u waits are listed, steps wait %llu times", phase->name, phase->n_waits,
                      (unsigned long long)n_waits);
}

static dct_status check_workers(dct_checker *c, const dct_phase *phase) {
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        if (step->n_workers == 0 || !dct_range_within(step->worker_first, step->n_workers, c->plan->bounds.threads))
            return dct_refuse(c, DCT_DEFECT_WORKERS_INVALID, "%s: step %u names %u workers from %u on, of %u", phase->name, s,
                              step->n_workers, step->worker_first, c->plan->bounds.threads);
    }
    return DCT_OK;
}

/* Calls visit for each value that op k touches. */
static void each_access(const dct_phase *phase, dct_op_id k, void (*visit)(dct_facts *f, dct_value_id v, dct_access a),
                        dct_facts *f) {
    const dct_op *op = &phase->graph.ops[k];
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] != DCT_NONE) visit(f, op->in[i], (dct_access){k, dct_op_writes_input(op->kind, i)});
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i] != DCT_NONE) visit(f, op->out[i], (dct_access){k, true});
    }
    if (phase->scratch[k] != DCT_NONE) visit(f, phase->scratch[k], (dct_access){k, true});
}

static void count_access(dct_facts *f, dct_value_id v, dct_access a) {
    (void)a;
    f->access_begin[v + 1]++;
}

/* access_begin[v + 1] is the next free place of v while filling. */
static void put_access(dct_facts *f, dct_value_id v, dct_access a) { f->accesses[f->access_begin[v + 1]++] = a; }

/* A counting sort by value: count, sum up shifted by one, fill. */
static dct_status list_accesses(dct_checker *c, dct_facts *f) {
    uint32_t n = f->graph->n_values, total = 0;
    for (dct_op_id k = 0; k < f->graph->n_ops; k++) each_access(f->phase, k, count_access, f);
    for (uint32_t v = 1; v <= n; v++) {
        uint32_t count = f->access_begin[v];
        f->access_begin[v] = total;
        total += count;
    }
    f->accesses = dct_arena_array(c->arena, total, sizeof *f->accesses);
    if (f->accesses == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (dct_op_id k = 0; k < f->graph->n_ops; k++) each_access(f->phase, k, put_access, f);
    return DCT_OK;
}

dct_status dct_check_structure(dct_checker *c, const dct_phase *phase, dct_facts *f) {
    memset(f, 0, sizeof *f);
    f->phase = phase;
    f->graph = &phase->graph;
    uint32_t n_ops = f->graph->n_ops, n_values = f->graph->n_values;
    f->step_of = dct_arena_array(c->arena, n_ops, sizeof *f->step_of);
    f->rank_of = dct_arena_array(c->arena, n_ops, sizeof *f->rank_of);
    f->root = dct_arena_array(c->arena, n_values, sizeof *f->root);
    f->access_begin = dct_arena_array(c->arena, (uint64_t)n_values + 1, sizeof *f->access_begin);
    if (f->step_of == NULL || f->rank_of == NULL || f->root == NULL || f->access_begin == NULL) {
        return dct_fail_memory(c->err, c->arena, "the verifier");
    }
    dct_status status = check_ids(c, phase);
    if (status == DCT_OK) status = check_sizes(c, phase);
    if (status == DCT_OK) status = check_overwriting(c, phase);
    if (status != DCT_OK) return status;
    dct_err why;
    if (dct_graph_check(f->graph, &why) != DCT_OK)
        return dct_refuse(c, DCT_DEFECT_GRAPH_MALFORMED, "%s: %s", phase->name, why.message);
    find_roots(f);
    status = check_step_ops(c, f);
    if (status == DCT_OK) status = check_workers(c, phase);
    if (status == DCT_OK) status = check_waits(c, phase);
    if (status == DCT_OK) status = list_accesses(c, f);
    return status;
}
