/* plan/plan: looking things up in a plan. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

const char *dct_region_name(dct_region region) {
    switch (region) {
    case DCT_REGION_WEIGHTS: return "weights";
    case DCT_REGION_KV: return "kv";
    case DCT_REGION_PERSISTENT: return "persistent";
    case DCT_REGION_ARENA: return "intermediate";
    case DCT_REGION_RUNTIME: return "runtime";
    case DCT_REGION_COUNT: break;
    }
    return "?";
}

const dct_region dct_region_order[DCT_REGION_COUNT] = {DCT_REGION_WEIGHTS, DCT_REGION_KV, DCT_REGION_ARENA,
                                                       DCT_REGION_PERSISTENT, DCT_REGION_RUNTIME};

const dct_item *dct_plan_item(const dct_plan *plan, dct_region region, const char *name, bool outside) {
    for (const dct_item *item = plan->items; item < plan->items + plan->n_items; item++) {
        if (item->region == region && item->outside == outside && strcmp(item->name, name) == 0) return item;
    }
    return NULL;
}

bool dct_plan_find_item(const dct_plan *plan, dct_region region, const char *name, uint64_t *offset, uint64_t *bytes) {
    const dct_item *item = dct_plan_item(plan, region, name, false);
    *offset = item != NULL ? item->offset : 0;
    *bytes = item != NULL ? item->bytes : 0;
    return item != NULL;
}

const char *dct_phase_name(dct_phase_kind kind) {
    static const char *const names[] = {
        [DCT_PHASE_PREFILL] = "prefill", [DCT_PHASE_DECODE] = "decode", [DCT_PHASE_GRAPH] = "graph"};
    return names[kind];
}

const dct_phase *dct_plan_phase(const dct_plan *plan, dct_phase_kind kind) {
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        if (plan->phases[i].kind == kind) return &plan->phases[i];
    }
    return NULL;
}

bool dct_plan_is_graph(const dct_plan *plan) {
    return plan->n_phases == 1 && plan->phases[0].kind == DCT_PHASE_GRAPH && plan->n_smaller == 0;
}

void dct_plan_end_name(const dct_value *end, char name[DCT_ITEM_NAME_BYTES]) {
    if (end->kind == DCT_KIND_INPUT) snprintf(name, DCT_ITEM_NAME_BYTES, DCT_ITEM_INPUT_FORMAT, end->name);
    else snprintf(name, DCT_ITEM_NAME_BYTES, DCT_ITEM_OUTPUT_FORMAT, end->name);
}

uint64_t dct_plan_region_bytes(const dct_plan *plan, dct_region region) {
    uint64_t bytes = plan->region_bytes[region];
    return region == DCT_REGION_RUNTIME ? bytes + plan->outside_bytes : bytes;
}

uint64_t dct_plan_part_begin(const dct_plan *plan, const dct_phase *phase, dct_phase_bytes_fn *bytes) {
    uint64_t begin = 0;
    if (!plan->bounds.overlap || phase->kind != DCT_PHASE_DECODE) return 0;
    for (const dct_phase *other = plan->phases; other < plan->phases + plan->n_phases; other++) {
        if (other->kind != DCT_PHASE_DECODE && bytes(other) > begin) begin = bytes(other);
    }
    return begin;
}

uint64_t dct_plan_parts_end(const dct_plan *plan, dct_phase_bytes_fn *bytes) {
    uint64_t last = 0;
    for (const dct_phase *phase = plan->phases; phase < plan->phases + plan->n_phases; phase++) {
        uint64_t end;
        if (!dct_add_u64(dct_plan_part_begin(plan, phase, bytes), bytes(phase), &end)) end = UINT64_MAX;
        if (end > last) last = end;
    }
    return last;
}

static uint64_t height_of(const dct_phase *phase) { return phase->cert.height_bytes; }
static uint64_t load_of(const dct_phase *phase) { return phase->cert.load_bytes; }

uint64_t dct_plan_arena_height(const dct_plan *plan) { return dct_plan_parts_end(plan, height_of); }
uint64_t dct_plan_arena_load(const dct_plan *plan) { return dct_plan_parts_end(plan, load_of); }
uint64_t dct_plan_arena_begin(const dct_plan *plan, const dct_phase *phase) {
    return dct_plan_part_begin(plan, phase, height_of);
}

dct_backing dct_item_backing(const dct_item *item) {
    if (!item->outside) return DCT_BACKING_ANONYMOUS;
    if (strcmp(item->name, DCT_ITEM_PROGRAM) == 0) return DCT_BACKING_FILE;
    return strcmp(item->name, DCT_ITEM_KERNEL) == 0 ? DCT_BACKING_KERNEL : DCT_BACKING_ANONYMOUS;
}

const char *dct_backing_name(dct_backing backing) {
    return backing == DCT_BACKING_FILE ? "file" : backing == DCT_BACKING_KERNEL ? "kernel" : "anonymous";
}

uint64_t dct_plan_kernel_bytes(const dct_plan *plan) {
    const dct_item *item = dct_plan_item(plan, DCT_REGION_RUNTIME, DCT_ITEM_KERNEL, true);
    return item != NULL ? item->bytes : 0;
}

bool dct_plan_staging(const dct_plan *plan, uint64_t bytes, dct_place *place) {
    uint64_t item_bytes;
    *place = (dct_place){.region = DCT_REGION_RUNTIME};
    if (dct_plan_find_item(plan, DCT_REGION_RUNTIME, DCT_ITEM_STAGING, &place->offset, &item_bytes)) return bytes <= item_bytes;
    static const dct_region unused_while_loading[] = {DCT_REGION_KV, DCT_REGION_ARENA};
    for (uint32_t i = 0; i < 2; i++) {
        dct_region region = unused_while_loading[i];
        *place = (dct_place){.region = region};
        if (bytes <= plan->region_bytes[region]) return true;
    }
    return false;
}

dct_status dct_plan_share_lists(dct_plan *plan, dct_arena *arena, dct_err *err) {
    dct_weight *weights = dct_arena_array(arena, plan->n_weights, sizeof *weights);
    dct_cache *caches = dct_arena_array(arena, plan->n_caches, sizeof *caches);
    dct_rope_table *tables = dct_arena_array(arena, plan->n_tables, sizeof *tables);
    if (weights == NULL || caches == NULL || tables == NULL) return dct_fail_memory(err, arena, "a plan");
    for (uint32_t i = 0; i < plan->n_weights; i++) weights[i] = plan->weights[i].w;
    for (uint32_t i = 0; i < plan->n_caches; i++) caches[i] = plan->caches[i].c;
    for (uint32_t i = 0; i < plan->n_tables; i++) tables[i] = plan->tables[i].t;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        dct_graph *g = &plan->phases[i].graph;
        g->arena = arena;
        g->cap_values = g->n_values;
        g->cap_ops = g->n_ops;
        g->weights = weights;
        g->caches = caches;
        g->tables = tables;
        g->cap_weights = g->n_weights = plan->n_weights;
        g->cap_caches = g->n_caches = plan->n_caches;
        g->cap_tables = g->n_tables = plan->n_tables;
    }
    return DCT_OK;
}

dct_phase_work dct_plan_phase_work(const dct_phase *phase) {
    dct_phase_work work = {0, 0, 0};
    if (phase == NULL) return work;
    const dct_graph *g = &phase->graph;
    for (const dct_op *op = g->ops; op < g->ops + g->n_ops; op++) {
        if (op->kind == DCT_OP_EMBED || op->n_in == 0 || op->in[0] == DCT_NONE)
            continue; /* the plan may be one that nobody verified */
        for (uint32_t i = 0; i < op->n_in; i++) {
            const dct_value *v = op->in[i] != DCT_NONE ? &g->values[op->in[i]] : NULL;
            if (v == NULL || v->kind != DCT_KIND_WEIGHT || v->format != DCT_FMT_WEIGHT) continue;
            const dct_weight *w = &g->weights[v->ref];
            uint64_t macs = (uint64_t)w->n_rows * w->n_cols;
            work.weight_bytes += w->bytes;
            if (g->values[op->in[0]].rows == phase->rows) work.macs_per_row += macs;
            else work.macs_per_run += macs;
        }
    }
    return work;
}

uint32_t dct_plan_count_values(const dct_phase *phase) {
    uint32_t n = 0;
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) n += phase->graph.values[v].kind == DCT_KIND_INTERMEDIATE;
    return n;
}

const char *dct_logits_name(dct_logits_mode mode) {
    return mode == DCT_LOGITS_ALL ? "all" : mode == DCT_LOGITS_LAST ? "last" : "none";
}

/* The slots of an op, inputs, outputs and scratch, as one row. */
static dct_value_id touched(const dct_phase *phase, dct_op_id i, uint32_t slot) {
    const dct_op *op = &phase->graph.ops[i];
    if (slot < op->n_in) return op->in[slot];
    slot -= op->n_in;
    return slot < op->n_out ? op->out[slot] : phase->scratch[i];
}

/* An alias has a higher id than what it overwrites, in what the compiler makes and plan_io reads; and its producer stands later,
 * in what the verifier passed: either ends the chain. Each is walked to the first value whose root is known, and once more to
 * tell it to all on the way. */
static void find_roots(const dct_phase *phase, dct_value_id *root) {
    const dct_value *values = phase->graph.values;
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) root[v] = DCT_NONE;
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        dct_value_id end = v;
        while (root[end] == DCT_NONE && values[end].alias_of != DCT_NONE) end = values[end].alias_of;
        const dct_value_id found = root[end] == DCT_NONE ? end : root[end];
        for (dct_value_id on = v; on != end; on = values[on].alias_of) root[on] = found;
        root[end] = found;
    }
}

dct_status dct_plan_find_lives(const dct_phase *phase, dct_arena *arena, dct_plan_lives *out, dct_err *err) {
    const uint32_t n = phase->graph.n_values;
    out->root = dct_arena_array(arena, n, sizeof *out->root);
    out->first = dct_arena_array(arena, n, sizeof *out->first);
    out->last = dct_arena_array(arena, n, sizeof *out->last);
    if (out->root == NULL || out->first == NULL || out->last == NULL) return dct_fail_memory(err, arena, "a plan's lives");
    find_roots(phase, out->root);
    for (dct_value_id v = 0; v < n; v++) out->first[v] = out->last[v] = DCT_NONE;
    for (dct_op_id i = 0; i < phase->graph.n_ops; i++) {
        uint32_t n_slots = phase->graph.ops[i].n_in + phase->graph.ops[i].n_out + 1;
        for (uint32_t slot = 0; slot < n_slots; slot++) {
            dct_value_id v = touched(phase, i, slot);
            if (v == DCT_NONE) continue;
            if (out->first[out->root[v]] == DCT_NONE) out->first[out->root[v]] = i;
            out->last[out->root[v]] = i;
        }
    }
    for (dct_value_id v = 0; v < n; v++) {
        out->first[v] = out->first[out->root[v]];
        out->last[v] = out->last[out->root[v]];
    }
    return DCT_OK;
}
