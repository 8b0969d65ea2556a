/* Where values lie, and whether any two that may be live together share a byte.
 *
 * Bytes may pass from X to Y when every access of X happens before every access of Y. That holds or is asked of every pair in a
 * phase that shares bytes, in both directions; a value in place of another is asked the same, but for the op that turns one into
 * the other. Phases that never overlap in time use the arena anew, each by itself; those that may are overlap.c's.
 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "verify/checker.h"

typedef struct spot {
    dct_region region;
    uint64_t offset, bytes;
} spot;

/* The region that a value belongs to. Values in place of one another share it, and the output decides for all of them. */
static dct_region home_of(const dct_facts *f, dct_value_id v) {
    switch (f->graph->values[v].kind) {
        case DCT_KIND_WEIGHT: return DCT_REGION_WEIGHTS;
        case DCT_KIND_KV: return DCT_REGION_KV;
        case DCT_KIND_PERSISTENT:
        case DCT_KIND_INPUT:
        case DCT_KIND_OUTPUT: return DCT_REGION_PERSISTENT;
        case DCT_KIND_INTERMEDIATE: break;
    }
    if (f->graph->logits != DCT_NONE && f->root[f->graph->logits] == f->root[v]) return DCT_REGION_PERSISTENT;
    return DCT_REGION_ARENA;
}

static spot spot_of(const dct_phase *phase, dct_value_id v) {
    return (spot){phase->places[v].region, phase->places[v].offset, phase->graph.values[v].bytes};
}

static bool meet(spot a, spot b) { return a.region == b.region && dct_ranges_meet(a.offset, a.bytes, b.offset, b.bytes); }

/* The offset that the plan's own lists state for a weight, cache or table. */
static bool listed_offset(const dct_plan *plan, const dct_value *value, uint64_t *offset) {
    if (value->ref == DCT_NONE) return false;
    if (value->kind == DCT_KIND_WEIGHT) *offset = plan->weights[value->ref].offset;
    else if (value->kind == DCT_KIND_KV) *offset = plan->caches[value->ref].offset;
    else if (value->kind == DCT_KIND_PERSISTENT) *offset = plan->tables[value->ref].offset;
    else return false;
    return true;
}

static dct_status check_place(dct_checker *c, const dct_facts *f, dct_value_id v) {
    const dct_phase *phase = f->phase;
    const dct_value *value = &f->graph->values[v];
    spot at = spot_of(phase, v);
    dct_region home = home_of(f, v);
    uint64_t listed;
    if (at.region != home) {
        return dct_refuse(c, DCT_DEFECT_OUT_OF_REGION, "%s: value %u '%s' lies in region %d, belongs in %s", phase->name, v,
                          value->name, (int)at.region, dct_region_name(home));
    }
    if (at.offset % DCT_PLAN_ALIGN != 0) {
        return dct_refuse(c, DCT_DEFECT_ALIGNMENT, "%s: value %u '%s' at %llu", phase->name, v, value->name,
                          (unsigned long long)at.offset);
    }
    if (!dct_range_within(at.offset, at.bytes, c->plan->region_bytes[home])) {
        return dct_refuse(c, DCT_DEFECT_OUT_OF_REGION, "%s: value %u '%s' of %llu bytes at %llu, the region has %llu",
                          phase->name, v, value->name, (unsigned long long)at.bytes, (unsigned long long)at.offset,
                          (unsigned long long)c->plan->region_bytes[home]);
    }
    if (listed_offset(c->plan, value, &listed) && listed != at.offset) {
        dct_defect defect = value->kind == DCT_KIND_WEIGHT ? DCT_DEFECT_WEIGHT_WRONG
                            : value->kind == DCT_KIND_KV   ? DCT_DEFECT_KV_WRONG
                                                           : DCT_DEFECT_OVERLAP;
        return dct_refuse(c, defect, "%s: value %u '%s' at %llu, its list says %llu", phase->name, v, value->name,
                          (unsigned long long)at.offset, (unsigned long long)listed);
    }
    const dct_place *over = &phase->places[f->root[v]];
    if (f->root[v] != v && (at.region != over->region || at.offset != over->offset)) {
        return dct_refuse(c, DCT_DEFECT_ALIAS_INVALID, "%s: value %u '%s' does not lie where the value does that it overwrites",
                          phase->name, v, value->name);
    }
    return DCT_OK;
}

/* True when op k has value v among its inputs or outputs. */
static bool op_uses(const dct_op *op, dct_value_id v) {
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] == v) return true;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i] == v) return true;
    }
    return false;
}

/* The scratch of op k: there when needed, of the right kind, a row for each worker of the step, each row on lines of its own and
 * as long as one worker needs. Worker i of a step is given row i and nothing else. Whether the whole lies apart from what else is
 * live is asked of it as of any value. */
static dct_status check_scratch(dct_checker *c, const dct_facts *f, dct_op_id k) {
    const dct_graph *g = f->graph;
    const dct_step *step = &f->phase->steps[f->step_of[k]];
    uint64_t need = dct_op_scratch_bytes(g, &g->ops[k]); /* of one worker */
    dct_value_id id = f->phase->scratch[k];
    const char *name = dct_op_info_of(g->ops[k].kind)->name;
    if (need == 0 && id == DCT_NONE) return DCT_OK;
    if (id == DCT_NONE) return dct_refuse(c, DCT_DEFECT_SCRATCH_WRONG, "%s: op %u (%s) has no scratch", f->phase->name, k, name);
    const dct_value *value = &g->values[id];
    if (value->format != DCT_FMT_BYTES || value->kind != DCT_KIND_INTERMEDIATE || op_uses(&g->ops[k], id)) {
        return dct_refuse(c, DCT_DEFECT_SCRATCH_WRONG, "%s: the scratch of op %u (%s) is '%s', which is none", f->phase->name, k,
                          name, value->name);
    }
    if (value->cols < need || value->cols % DCT_PLAN_ALIGN != 0 || value->rows < step->n_workers) {
        return dct_refuse(c, DCT_DEFECT_SCRATCH_WRONG,
                          "%s: op %u (%s) needs %llu bytes of scratch for each of %u workers, has %u for each of %u",
                          f->phase->name, k, name, (unsigned long long)need, step->n_workers, value->cols, value->rows);
    }
    return DCT_OK;
}

/* Whether value y may follow x in the same bytes. */
static bool may_follow(const dct_facts *f, dct_value_id x, dct_value_id y) {
    const dct_value *value = &f->graph->values[y];
    dct_op_id turning = value->alias_of == x ? value->producer : DCT_NONE;
    return dct_all_before(f, x, y, turning);
}

static dct_status check_pair(dct_checker *c, const dct_facts *f, dct_value_id x, dct_value_id y) {
    if (!meet(spot_of(f->phase, x), spot_of(f->phase, y))) return DCT_OK;
    bool in_place = f->root[x] == f->root[y];
    if (may_follow(f, x, y) || may_follow(f, y, x)) return DCT_OK;
    return dct_refuse(c, in_place ? DCT_DEFECT_ALIAS_INVALID : DCT_DEFECT_OVERLAP,
                      "%s: '%s' (%llu bytes at %llu) and '%s' (%llu at %llu) may be live together", f->phase->name,
                      f->graph->values[x].name, (unsigned long long)f->graph->values[x].bytes,
                      (unsigned long long)f->phase->places[x].offset, f->graph->values[y].name,
                      (unsigned long long)f->graph->values[y].bytes, (unsigned long long)f->phase->places[y].offset);
}

/* One scratch for several ops: they must not run at the same time. */
static dct_status check_shared_scratch(dct_checker *c, const dct_facts *f, dct_value_id v) {
    if (f->graph->values[v].format != DCT_FMT_BYTES) return DCT_OK;
    for (uint32_t i = f->access_begin[v]; i < f->access_begin[v + 1]; i++) {
        for (uint32_t j = i + 1; j < f->access_begin[v + 1]; j++) {
            dct_op_id a = f->accesses[i].op, b = f->accesses[j].op;
            if (dct_happens_before(f, a, b) || dct_happens_before(f, b, a)) continue;
            return dct_refuse(c, DCT_DEFECT_OVERLAP, "%s: ops %u and %u may use scratch '%s' at the same time", f->phase->name, a,
                              b, f->graph->values[v].name);
        }
    }
    return DCT_OK;
}

/* Values that ops may overwrite: weights and caches are apart by storage.c, tables and the ends of the phase by their items. */
static bool is_packed(const dct_facts *f, dct_value_id v) {
    dct_kind kind = f->graph->values[v].kind;
    return kind == DCT_KIND_INTERMEDIATE || kind == DCT_KIND_OUTPUT;
}

/* When ops are in one order, values that no op lies between are ordered: the first is over before the second begins. So the ops
 * are walked, and a value is held against those that are live when it begins. `begun` chains the values that begin at an op. */
static dct_status check_chain(dct_checker *c, const dct_facts *f) {
    uint32_t n = f->graph->n_values, n_live = 0;
    dct_life *lives = dct_arena_array(c->arena, n, sizeof *lives);
    dct_value_id *live = dct_arena_array(c->arena, n, sizeof *live), *next = dct_arena_array(c->arena, n, sizeof *next);
    dct_value_id *begun = dct_arena_array(c->arena, f->graph->n_ops, sizeof *begun);
    if (lives == NULL || live == NULL || next == NULL || begun == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t at = 0; at < f->graph->n_ops; at++) begun[at] = DCT_NONE;
    for (dct_value_id v = 0; v < n; v++) {
        lives[v] = dct_life_of(f, v);
        if (!is_packed(f, v) || lives[v].first > lives[v].last) continue;
        next[v] = begun[lives[v].first];
        begun[lives[v].first] = v;
    }
    for (uint32_t at = 0; at < f->graph->n_ops; at++) {
        uint32_t n_left = 0;
        for (uint32_t i = 0; i < n_live; i++) {
            if (lives[live[i]].last >= at) live[n_left++] = live[i];
        }
        n_live = n_left;
        for (dct_value_id v = begun[at]; v != DCT_NONE; v = next[v]) {
            for (uint32_t i = 0; i < n_live; i++) {
                dct_status status = check_pair(c, f, live[i], v);
                if (status != DCT_OK) return status;
            }
            live[n_live++] = v;
        }
    }
    return DCT_OK;
}

/* Otherwise every two that share bytes are asked about. */
static dct_status check_pairs(dct_checker *c, const dct_facts *f) {
    dct_range *ranges = dct_arena_array(c->arena, f->graph->n_values, sizeof *ranges);
    if (ranges == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint32_t n = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        bool is_touched = f->access_begin[v] < f->access_begin[v + 1];
        if (is_packed(f, v) && is_touched) ranges[n++] = (dct_range){f->phase->places[v].offset, f->graph->values[v].bytes, v};
    }
    dct_sort_ranges(ranges, n);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n && ranges[j].offset < ranges[i].offset + ranges[i].bytes; j++) {
            dct_status status = check_pair(c, f, ranges[i].id, ranges[j].id);
            if (status != DCT_OK) return status;
        }
    }
    return DCT_OK;
}

dct_status dct_check_memory(dct_checker *c, const dct_facts *f) {
    dct_status status = DCT_OK;
    uint32_t n = f->graph->n_values;
    for (dct_value_id v = 0; v < n && status == DCT_OK; v++) status = check_place(c, f, v);
    for (dct_op_id k = 0; k < f->graph->n_ops && status == DCT_OK; k++) status = check_scratch(c, f, k);
    for (dct_value_id v = 0; v < n && status == DCT_OK && !f->is_chain; v++) status = check_shared_scratch(c, f, v);
    if (status != DCT_OK) return status;
    return f->is_chain ? check_chain(c, f) : check_pairs(c, f);
}

/* ---- what is persistent, over all phases ----
 *
 * The engine finds what is persistent by the names of items, and items are disjoint (envelope.c). So it is enough that each value
 * of the region lies in the item of its own name: no two of different roles can meet then, in one phase or in two. Whether two of
 * one role may, in phases that overlap, is asked in overlap.c.
 */

/* The name of the item that holds a persistent value; "" when such a value has no business there. Named ends have names of their
 * own (dct_graph_check), so no two of them have one item. */
static void name_item_of(const dct_facts *f, dct_value_id v, char name[DCT_ITEM_NAME_BYTES]) {
    const dct_graph *g = f->graph;
    const char *fixed = "";
    if (v == g->ids) fixed = DCT_ITEM_IDS;
    else if (v == g->pos) fixed = DCT_ITEM_POS;
    else if (g->logits != DCT_NONE && f->root[v] == f->root[g->logits]) fixed = DCT_ITEM_LOGITS;
    if (fixed[0] == '\0' && dct_value_is_end(g, v)) dct_plan_end_name(&g->values[v], name);
    else snprintf(name, DCT_ITEM_NAME_BYTES, "%s", fixed);
}

static bool is_table(const dct_value *value) { return value->kind == DCT_KIND_PERSISTENT && value->ref != DCT_NONE; }

/* The item of a name inside the persistent region. */
static const dct_item *persistent_item(const dct_plan *plan, const char *name) {
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        if (item->region == DCT_REGION_PERSISTENT && !item->outside && strcmp(item->name, name) == 0) return item;
    }
    return NULL;
}

/* A value begins where its item does, which is no shorter. Phases have values of different length. When decode may overlap, its
 * own begins further on. */
static dct_status check_in_item(dct_checker *c, const dct_facts *f, dct_value_id v) {
    const dct_phase *phase = f->phase;
    spot at = spot_of(phase, v);
    char name[DCT_ITEM_NAME_BYTES];
    name_item_of(f, v, name);
    const dct_item *item = persistent_item(c->plan, name);
    bool has_own_part = c->plan->bounds.overlap && phase->kind == DCT_PHASE_DECODE;
    if (name[0] != '\0' && item != NULL && at.offset >= item->offset && (has_own_part || at.offset == item->offset) &&
        dct_range_within(at.offset - item->offset, at.bytes, item->bytes))
        return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "%s: '%s' (%llu bytes at %llu) does not lie in the item '%s'", phase->name,
                      phase->graph.values[v].name, (unsigned long long)at.bytes, (unsigned long long)at.offset,
                      name);
}

/* A table fills an item of its own. */
static dct_status check_table_item(dct_checker *c, uint32_t t) {
    char name[sizeof c->plan->items->name];
    const dct_plan_table *table = &c->plan->tables[t];
    snprintf(name, sizeof name, DCT_ITEM_TABLE_FORMAT, t);
    const dct_item *item = persistent_item(c->plan, name);
    uint64_t want;
    if (item != NULL && dct_align_u64(table->bytes, DCT_PLAN_ALIGN, &want) && item->bytes == want &&
        item->offset == table->offset)
        return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "rotary table %u does not fill the item '%s'", t, name);
}

dct_status dct_check_persistent(dct_checker *c, const dct_facts *facts) {
    dct_status status = DCT_OK;
    for (uint32_t t = 0; t < c->plan->n_tables && status == DCT_OK; t++) status = check_table_item(c, t);
    for (uint32_t i = 0; i < c->plan->n_phases; i++) {
        const dct_phase *phase = &c->plan->phases[i];
        for (dct_value_id v = 0; v < phase->graph.n_values && status == DCT_OK; v++) {
            if (phase->places[v].region == DCT_REGION_PERSISTENT && !is_table(&phase->graph.values[v]))
                status = check_in_item(c, &facts[i], v);
        }
    }
    return status;
}
