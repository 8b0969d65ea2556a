/* compile/lifetime: which bytes must be kept apart.
 *
 * A value occupies its bytes from its first write to the last access of it or of a result that took its bytes in place. X may
 * give its bytes to Y only if every access of X happens before the first write of Y in the schedule: order of ops alone is not
 * enough, because workers run on. When the schedule is a chain the two agree and lifetimes are intervals of op numbers; otherwise
 * a matrix says which values conflict. Scratch lives for its op.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "compile/passes.h"

/* A scratch value an op that needs one. They go behind the other values, so no id changes. */
static dct_status add_scratch(dct_graph *g, uint32_t threads, dct_arena *arena, dct_value_id *scratch, dct_err *err) {
    uint32_t n = 0;
    for (dct_op_id i = 0; i < g->n_ops; i++) n += dct_op_scratch_bytes(g, &g->ops[i]) > 0;
    dct_value *values = dct_arena_array(arena, (uint64_t)g->n_values + n, sizeof *values);
    if (values == NULL) return dct_fail_memory(err, arena, "scratch values");
    memcpy(values, g->values, g->n_values * sizeof *values);
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        uint64_t bytes = dct_scratch_all(g, &g->ops[i], threads);
        scratch[i] = DCT_NONE;
        if (bytes == 0) continue;
        if (bytes / threads > UINT32_MAX)
            return dct_fail(err, DCT_NO_FIT, "op %u needs %llu bytes of scratch", i, (unsigned long long)bytes);
        dct_value *v = &values[g->n_values];
        *v = (dct_value){.kind = DCT_KIND_INTERMEDIATE,
                         .format = DCT_FMT_BYTES,
                         .rows = threads,
                         .cols = (uint32_t)(bytes / threads),
                         .row_mul = 1,
                         .row_div = 1,
                         .bytes = bytes,
                         .producer = DCT_NONE,
                         .alias_of = DCT_NONE,
                         .ref = DCT_NONE,
                         .layer = g->ops[i].layer};
        const char *op_name = dct_op_info_of(g->ops[i].kind)->name;
        if (g->ops[i].layer >= 0) snprintf(v->name, sizeof v->name, "blk.%d.%.20s.scratch", g->ops[i].layer, op_name);
        else snprintf(v->name, sizeof v->name, "%.20s.scratch", op_name);
        scratch[i] = g->n_values++;
    }
    g->values = values;
    g->cap_values = g->n_values;
    return DCT_OK;
}

/* Every op that touches an item, in ascending order: a list an item, filled from the last op to the first. */
typedef struct accesses {
    uint32_t *first; /* an item: index in the two below */
    dct_op_id *op;
    uint32_t *next;
    uint32_t n;
} accesses;

static void add_access(accesses *a, uint32_t item, dct_op_id op) {
    if (item == DCT_NONE || (a->first[item] != DCT_NONE && a->op[a->first[item]] == op)) return;
    a->op[a->n] = op;
    a->next[a->n] = a->first[item];
    a->first[item] = a->n++;
}

static dct_status find_accesses(const dct_graph *g, const dct_value_id *scratch, const uint32_t *item_of, uint32_t n_items,
                                dct_arena *arena, accesses *a, dct_err *err) {
    uint64_t most = (uint64_t)g->n_ops * (DCT_OP_MAX_IN + DCT_OP_MAX_OUT + 1);
    a->first = dct_arena_array(arena, n_items, sizeof *a->first);
    a->op = dct_arena_array(arena, most, sizeof *a->op);
    a->next = dct_arena_array(arena, most, sizeof *a->next);
    if (a->first == NULL || a->op == NULL || a->next == NULL) return dct_fail_memory(err, arena, "lifetimes");
    for (uint32_t i = 0; i < n_items; i++) a->first[i] = DCT_NONE;
    for (dct_op_id id = g->n_ops; id > 0; id--) {
        const dct_op *op = &g->ops[id - 1];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] != DCT_NONE) add_access(a, item_of[dct_alias_root(g, op->in[k])], id - 1);
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (op->out[k] != DCT_NONE) add_access(a, item_of[dct_alias_root(g, op->out[k])], id - 1);
        }
        if (scratch[id - 1] != DCT_NONE) add_access(a, item_of[scratch[id - 1]], id - 1);
    }
    return DCT_OK;
}

/* Whether item x is done with before item y is first written. */
static bool gives_way(const accesses *a, const dct_schedule *s, uint32_t x, uint32_t y) {
    dct_op_id begin = a->op[a->first[y]];
    for (uint32_t k = a->first[x]; k != DCT_NONE; k = a->next[k]) {
        if (a->op[k] == begin || !dct_schedule_before(s, a->op[k], begin)) return false;
    }
    return true;
}

static dct_status find_conflicts(const accesses *a, const dct_schedule *s, uint32_t n, dct_arena *arena, uint64_t **out,
                                 dct_err *err) {
    uint64_t *bits = dct_arena_array(arena, dct_bit_words((uint64_t)n * n), sizeof *bits);
    if (bits == NULL) return dct_fail_memory(err, arena, "conflicts");
    for (uint32_t x = 0; x < n; x++) {
        for (uint32_t y = 0; y < n; y++) {
            if (x != y && (gives_way(a, s, x, y) || gives_way(a, s, y, x))) continue;
            dct_bit_set(bits, (uint64_t)x * n + y);
        }
    }
    *out = bits;
    return DCT_OK;
}

dct_status dct_lifetimes_find(dct_graph *g, const dct_schedule *s, uint32_t threads, dct_arena *arena, dct_lifetimes *out,
                              dct_err *err) {
    dct_lifetimes l = {0};
    l.scratch = dct_arena_array(arena, g->n_ops, sizeof *l.scratch);
    if (l.scratch == NULL) return dct_fail_memory(err, arena, "lifetimes");
    dct_status status = add_scratch(g, threads, arena, l.scratch, err);
    if (status != DCT_OK) return status;
    uint32_t *item_of = dct_arena_array(arena, g->n_values, sizeof *item_of); /* a value: its item, when it is one */
    l.values = dct_arena_array(arena, g->n_values, sizeof *l.values);
    l.items = dct_arena_array(arena, g->n_values, sizeof *l.items);
    if (item_of == NULL || l.values == NULL || l.items == NULL) return dct_fail_memory(err, arena, "lifetimes");
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        bool in_arena = value->kind == DCT_KIND_INTERMEDIATE && value->alias_of == DCT_NONE && !dct_lies_in_logits(g, v);
        item_of[v] = in_arena ? l.n : DCT_NONE;
        if (in_arena) l.values[l.n++] = v;
    }
    accesses a = {0};
    status = find_accesses(g, l.scratch, item_of, l.n, arena, &a, err);
    if (status != DCT_OK) return status;
    for (uint32_t i = 0; i < l.n; i++) {
        dct_op_id first = a.op[a.first[i]], last = first;
        for (uint32_t k = a.first[i]; k != DCT_NONE; k = a.next[k]) last = a.op[k];
        l.items[i] = (dct_pack_item){.size = g->values[l.values[i]].bytes,
                                     .align = DCT_PLAN_ALIGN,
                                     .begin = first,
                                     .end = last + 1};
    }
    if (!s->chain) status = find_conflicts(&a, s, l.n, arena, &l.conflict, err);
    *out = l;
    return status;
}
