/* compile/compile: the passes in their order. A phase is traced, fused, ordered, scheduled and packed on its own; then those that
 * may run at the same time are laid apart, and all together give the envelope. */
#include "compile/compile.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "compile/passes.h"
#include "compile/sort.h"

static dct_status check_bounds(const dct_compile_params *params, dct_err *err) {
    const dct_bounds *b = &params->bounds;
    uint64_t n_ctx = (uint64_t)b->n_input + b->n_output;
    if (b->n_ctx == 0 || n_ctx != b->n_ctx)
        return dct_fail(err, DCT_USAGE, "N %u and M %u do not add up to the context of %u", b->n_input, b->n_output, b->n_ctx);
    if (params->graph == NULL && b->logits != DCT_LOGITS_LAST && b->logits != DCT_LOGITS_ALL)
        return dct_fail(err, DCT_USAGE, "a plan gives the logits of the last row or of all rows");
    if (b->ubatch == 0 || b->slots == 0 || b->threads == 0)
        return dct_fail(err, DCT_USAGE, "ubatch, slots and threads must be at least 1");
    return DCT_OK;
}

/* ---- weights, caches and tables are those of the plan; graphs refer to them ---- */

/* Phases of one model trace the same weights, caches and tables in the same order: the first trace names them, the others must
 * agree. */
static dct_status adopt_references(dct_plan *plan, const dct_graph *g, dct_arena *arena, dct_err *err) {
    if (plan->n_phases == 0) {
        plan->n_weights = g->n_weights;
        plan->n_caches = g->n_caches;
        plan->n_tables = g->n_tables;
        plan->weights = dct_arena_array(arena, g->n_weights, sizeof *plan->weights);
        plan->caches = dct_arena_array(arena, g->n_caches, sizeof *plan->caches);
        plan->tables = dct_arena_array(arena, g->n_tables, sizeof *plan->tables);
        if (plan->weights == NULL || plan->caches == NULL || plan->tables == NULL) return dct_fail_memory(err, arena, "the plan");
        for (uint32_t i = 0; i < g->n_weights; i++) plan->weights[i].w = g->weights[i];
        for (uint32_t i = 0; i < g->n_caches; i++) plan->caches[i].c = g->caches[i];
        for (uint32_t i = 0; i < g->n_tables; i++) {
            /* Fits: the value of the table has as many (dct_graph_value). */
            uint64_t bytes = (uint64_t)g->tables[i].n_ctx * g->tables[i].n_rot * sizeof(float);
            plan->tables[i] = (dct_plan_table){.t = g->tables[i], .bytes = bytes};
        }
        return DCT_OK;
    }
    bool same = g->n_weights == plan->n_weights && g->n_caches == plan->n_caches && g->n_tables == plan->n_tables;
    for (uint32_t i = 0; same && i < g->n_weights; i++) same = dct_weight_equal(&g->weights[i], &plan->weights[i].w);
    for (uint32_t i = 0; same && i < g->n_caches; i++) same = dct_cache_equal(&g->caches[i], &plan->caches[i].c);
    for (uint32_t i = 0; same && i < g->n_tables; i++) same = dct_rope_table_equal(&g->tables[i], &plan->tables[i].t);
    if (!same) return dct_fail(err, DCT_BUG, "two phases of '%s' use different weights, caches or tables", plan->arch);
    return DCT_OK;
}

/* ---- one phase ---- */

typedef struct packing {
    dct_schedule schedule;
    dct_graph graph;
    dct_lifetimes lifetimes;
    dct_pack_result result;
} packing;

static dct_status pack_once(const dct_graph *g, const dct_compile_params *params, bool chain, dct_arena *arena, packing *out,
                            dct_err *err) {
    uint32_t threads = params->bounds.threads;
    out->graph = *g;
    dct_status status = dct_schedule_make(g, &params->bounds, params->profile, chain, arena, &out->schedule, err);
    if (status != DCT_OK) return status;
    status = dct_lifetimes_find(&out->graph, &out->schedule, threads, arena, &out->lifetimes, err);
    if (status != DCT_OK) return status;
    dct_pack_params pack = {.nodes = params->pack_nodes};
    return dct_pack(out->lifetimes.items, out->lifetimes.n, out->lifetimes.conflict, &pack, arena, &out->result, err);
}

/* When steps that may overlap cost memory, waits are added if they win it back. */
static dct_status pack_phase(const dct_graph *g, const dct_compile_params *params, dct_arena *arena, packing *out, dct_err *err) {
    dct_status status = pack_once(g, params, false, arena, out, err);
    if (status != DCT_OK || out->schedule.chain || out->result.height == out->result.load) return status;
    packing chained;
    status = pack_once(g, params, true, arena, &chained, err);
    if (status == DCT_OK && chained.result.height < out->result.height) *out = chained;
    return status;
}

/* Distinct ranges: sorted by offset and size, neighbours compared. */
static dct_status count_buffers(const dct_lifetimes *l, dct_arena *arena, uint32_t *n, dct_err *err) {
    dct_sort_key *keys = dct_arena_array(arena, l->n, sizeof *keys);
    if (keys == NULL) return dct_fail_memory(err, arena, "the buffers");
    for (uint32_t i = 0; i < l->n; i++) keys[i] = (dct_sort_key){l->items[i].offset, l->items[i].size, i};
    dct_sort_keys(keys, l->n);
    *n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i == 0 || keys[i].first != keys[i - 1].first || keys[i].second != keys[i - 1].second) (*n)++;
    }
    return DCT_OK;
}

static dct_status certify(const packing *p, dct_arena *arena, dct_certificate *cert, dct_err *err) {
    const dct_lifetimes *l = &p->lifetimes;
    *cert = (dct_certificate){.load_bytes = p->result.load,
                              .height_bytes = p->result.height,
                              .optimal = p->result.height == p->result.load,
                              .op = p->result.at,
                              .nodes = p->result.nodes};
    cert->values = dct_arena_array(arena, l->n, sizeof *cert->values);
    if (cert->values == NULL) return dct_fail_memory(err, arena, "the certificate");
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->items[i].begin <= cert->op && cert->op < l->items[i].end) cert->values[cert->n_values++] = l->values[i];
    }
    return DCT_OK;
}

static dct_status fill_phase(dct_phase *phase, const packing *p, dct_arena *arena, dct_err *err) {
    const dct_lifetimes *l = &p->lifetimes;
    phase->graph = p->graph;
    phase->n_steps = p->schedule.n_steps;
    phase->steps = p->schedule.steps;
    phase->n_waits = p->schedule.n_waits;
    phase->waits = p->schedule.waits;
    phase->scratch = l->scratch;
    phase->places = dct_arena_array(arena, phase->graph.n_values, sizeof *phase->places);
    if (phase->places == NULL) return dct_fail_memory(err, arena, "the places");
    for (uint32_t i = 0; i < l->n; i++) phase->places[l->values[i]] = (dct_place){DCT_REGION_ARENA, l->items[i].offset};
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) phase->places[v] = phase->places[dct_alias_root(&phase->graph, v)];
    dct_status status = count_buffers(l, arena, &phase->n_buffers, err);
    return status == DCT_OK ? certify(p, arena, &phase->cert, err) : status;
}

dct_trace_params dct_trace_params_of(const dct_bounds *b, dct_phase_kind kind) {
    return (dct_trace_params){.kind = kind, .rows = kind == DCT_PHASE_PREFILL ? b->ubatch : b->slots, .n_ctx = b->n_ctx,
                              .table_ctx = b->table_ctx, .type_k = b->type_k, .type_v = b->type_v, .logits = b->logits};
}

static dct_status add_traced(dct_plan *plan, const dct_compile_params *params, dct_phase_kind kind, const dct_graph *traced,
                             dct_arena *arena, dct_err *err) {
    dct_phase *phase = &plan->phases[plan->n_phases];
    phase->kind = kind;
    phase->rows = traced->rows;
    snprintf(phase->name, sizeof phase->name, "%s", dct_phase_name(kind));
    dct_graph fused;
    packing packed;
    dct_status status = adopt_references(plan, traced, arena, err);
    if (status == DCT_OK) status = dct_fuse(traced, arena, &fused, err);
    if (status == DCT_OK) status = dct_order(&fused, params->bounds.threads, arena, err);
    if (status == DCT_OK) status = pack_phase(&fused, params, arena, &packed, err);
    if (status == DCT_OK) status = fill_phase(phase, &packed, arena, err);
    if (status == DCT_OK) status = dct_graph_check(&phase->graph, err);
    if (status != DCT_OK) return status;
    plan->n_phases++;
    if (kind != DCT_PHASE_PREFILL) { /* the estimates are of a token; of a whole run, when there are none */
        double rows = kind == DCT_PHASE_DECODE ? phase->rows : 1;
        plan->est_ms_per_token = packed.schedule.est_us / 1e3 / rows;
        plan->roofline_ms_per_token = packed.schedule.roofline_us / 1e3 / rows;
    }
    return DCT_OK;
}

static dct_status add_phase(dct_plan *plan, const dct_compile_params *params, dct_phase_kind kind, dct_arena *arena,
                            dct_err *err) {
    dct_trace_params trace = dct_trace_params_of(&params->bounds, kind);
    dct_graph traced;
    dct_status status = dct_arch_trace(params->model, params->hp, &trace, arena, &traced, err);
    return status == DCT_OK ? add_traced(plan, params, kind, &traced, arena, err) : status;
}

static dct_status add_phases(dct_plan *plan, const dct_compile_params *params, dct_arena *arena, dct_err *err) {
    if (params->graph != NULL) return add_traced(plan, params, DCT_PHASE_GRAPH, params->graph, arena, err);
    dct_status status = add_phase(plan, params, DCT_PHASE_PREFILL, arena, err);
    return status == DCT_OK ? add_phase(plan, params, DCT_PHASE_DECODE, arena, err) : status;
}

/* ---- the plan ---- */

/* Where nothing orders the ops of two phases, all values of one conflict with all of the other: the loads add up, and one packing
 * behind the other takes just the sum of the heights, so it is optimal if both are. */
static void lay_apart(dct_plan *plan) {
    for (dct_phase *phase = plan->phases; phase < plan->phases + plan->n_phases; phase++) {
        uint64_t begin = dct_plan_arena_begin(plan, phase);
        for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
            if (phase->places[v].region == DCT_REGION_ARENA) phase->places[v].offset += begin;
        }
    }
}

static void copy_text(char *out, size_t cap, dct_str text) {
    size_t n = text.len < cap - 1 ? text.len : cap - 1;
    for (size_t i = 0; i < n; i++) out[i] = text.ptr[i] == '\0' ? '?' : text.ptr[i];
    out[n] = '\0';
}

static dct_status describe_model(dct_plan *plan, const dct_compile_params *params, dct_err *err) {
    const dct_model *model = params->model;
    plan->fingerprint = model->fingerprint;
    plan->identity = dct_model_identity(model);
    plan->file_bytes = model->file_bytes;
    plan->tensor_bytes = model->tensor_bytes;
    plan->n_params = model->n_params;
    plan->bounds = params->bounds;
    plan->smaller = params->smaller;
    plan->n_smaller = params->n_smaller;
    plan->profile_hash = dct_profile_hash(params->profile);
    snprintf(plan->arch, sizeof plan->arch, "%s", params->hp->arch);
    dct_str name = DCT_STR("");
    bool found;
    dct_status status = dct_model_get_str(model, "general.name", &name, &found, err);
    if (status != DCT_OK) return status;
    copy_text(plan->model_name, sizeof plan->model_name, name);
    return DCT_OK;
}

dct_status dct_compile_count_paper(dct_plan *plan, const dct_hparams *hp, dct_arena *arena, dct_err *err) {
    dct_interval *iv;
    dct_status status = dct_paper_tensors(hp, arena, &iv, NULL, &plan->paper_tensors, err);
    if (status != DCT_OK) return status;
    return dct_interval_color(iv, plan->paper_tensors, arena, NULL, &plan->paper_buffers, &plan->paper_clique, NULL, err);
}

dct_status dct_compile(const dct_compile_params *given, dct_arena *arena, dct_plan **out, dct_err *err) {
    dct_compile_params params = *given;
    if (params.profile == NULL) params.profile = dct_profile_default();
    dct_plan *plan = dct_arena_alloc(arena, sizeof *plan);
    if (plan == NULL) return dct_fail_memory(err, arena, "the plan");
    dct_status status = check_bounds(&params, err);
    if (status == DCT_OK) status = describe_model(plan, &params, err);
    if (status == DCT_OK) status = add_phases(plan, &params, arena, err);
    if (status == DCT_OK) status = dct_plan_share_lists(plan, arena, err);
    if (status == DCT_OK) lay_apart(plan);
    if (status == DCT_OK) status = dct_envelope(plan, &params, arena, err);
    if (status == DCT_OK && params.graph == NULL) status = dct_compile_count_paper(plan, params.hp, arena, err);
    if (status != DCT_OK) return status;
    *out = plan;
    return DCT_OK;
}
