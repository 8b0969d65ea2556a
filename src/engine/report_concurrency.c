/* engine/report_concurrency: what `plan --concurrency` prints: for each phase the maximal sets of operations that may run at the
 * same time (the paper's §3.5), as the architecture traces them, before the compiler fuses any; and what running a chunk of one
 * prompt beside a token of another could win. Layers are alike, so sets that differ in the layer only are told once.
 */
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "engine/report.h"
#include "plan/plan_text.h"

enum { MOST_SETS = 4096, MOST_LINES = 64 };

typedef struct kind_of_set {
    const dct_op_set *first;
    uint32_t count;
} kind_of_set;

/* What an op makes, or, when it makes nothing, what it takes first. */
static const char *name_of(const dct_graph *g, dct_op_id id) {
    const dct_op *op = &g->ops[id];
    dct_value_id v = op->n_out > 0 ? op->out[0] : op->n_in > 0 ? op->in[0] : DCT_NONE;
    return v != DCT_NONE ? g->values[v].name : "";
}

/* The same ops of other layers. */
static bool is_alike(const dct_graph *g, const dct_op_set *a, const dct_op_set *b) {
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t layer_a, layer_b;
        const char *base_a = dct_name_base(name_of(g, a->ops[i]), &layer_a);
        const char *base_b = dct_name_base(name_of(g, b->ops[i]), &layer_b);
        if (g->ops[a->ops[i]].kind != g->ops[b->ops[i]].kind || strcmp(base_a, base_b) != 0) return false;
        if ((layer_a == DCT_NONE) != (layer_b == DCT_NONE)) return false;
    }
    return true;
}

static void put_op(const dct_text *t, const dct_graph *g, dct_op_id id, bool every_layer) {
    uint32_t layer;
    dct_safe_text safe;
    const char *name = name_of(g, id), *base = dct_name_base(name, &layer);
    bool starred = every_layer && layer != DCT_NONE;
    dct_text_put(t, "%s %s%s", dct_op_info_of(g->ops[id].kind)->name, starred ? "blk.*." : "",
                 dct_safe(starred ? base : name, &safe));
}

static void put_kind(const dct_text *t, const dct_graph *g, const kind_of_set *k, const dct_bounds *bounds,
                     const dct_profile *profile) {
    uint32_t n_bound = 0;
    for (uint32_t i = 0; i < k->first->n; i++)
        n_bound += dct_op_is_bandwidth_bound(g, &g->ops[k->first->ops[i]], bounds, profile);
    dct_text_put(t, "%6u x%4u ops,%4u bandwidth-bound:", k->count, k->first->n, n_bound);
    for (uint32_t i = 0; i < k->first->n; i++) {
        dct_text_put(t, "%s", i > 0 ? " | " : " ");
        put_op(t, g, k->first->ops[i], k->count > 1);
    }
    dct_text_put(t, "\n");
}

/* The sets gathered into kinds, in the order in which each kind is met first. */
static dct_status find_kinds(const dct_graph *g, const dct_op_sets *sets, dct_arena *work, kind_of_set **kinds, uint32_t *n,
                             dct_err *err) {
    *kinds = dct_arena_array(work, sets->n, sizeof **kinds);
    if (*kinds == NULL) return dct_fail_memory(err, work, "the sets of operations");
    *n = 0;
    for (uint32_t i = 0; i < sets->n; i++) {
        uint32_t k = 0;
        while (k < *n && !is_alike(g, (*kinds)[k].first, &sets->sets[i])) k++;
        if (k == *n) (*kinds)[(*n)++] = (kind_of_set){&sets->sets[i], 0};
        (*kinds)[k].count++;
    }
    return DCT_OK;
}

static dct_status put_phase(const dct_text *t, const dct_plan *plan, const dct_phase *phase, const dct_graph *traced,
                            const dct_profile *profile, dct_arena *work, dct_err *err) {
    dct_op_sets sets;
    kind_of_set *kinds;
    uint32_t n_kinds = 0, widest = 1;
    dct_safe_text name;
    dct_status status = dct_op_sets_find(traced, MOST_SETS, work, &sets, err);
    if (status == DCT_OK) status = find_kinds(traced, &sets, work, &kinds, &n_kinds, err);
    if (status != DCT_OK) return status;
    for (uint32_t i = 0; i < sets.n; i++) widest = sets.sets[i].n > widest ? sets.sets[i].n : widest;
    dct_text_put(t, "\nphase %s: %u operations, %u with no other beside them; %s%u maximal sets, at most %u in one\n",
                 dct_safe(phase->name, &name), traced->n_ops, sets.n_alone, sets.is_complete ? "" : "more than ", sets.n, widest);
    for (uint32_t k = 0; k < n_kinds && k < MOST_LINES; k++) put_kind(t, traced, &kinds[k], &plan->bounds, profile);
    if (n_kinds > MOST_LINES) dct_text_put(t, "       and %u kinds of sets more\n", n_kinds - MOST_LINES);
    dct_text_put(t, "planned: %u fused operations in %u steps with %u waits\n", phase->graph.n_ops, phase->n_steps,
                 phase->n_waits);
    return DCT_OK;
}

static void put_baselines(const dct_text *t, const dct_plan *plan, const dct_profile *profile) {
    dct_baselines b = dct_baselines_of(plan, profile);
    dct_text_put(t, "\na chunk of %u rows and %u %s of others, estimated:\n", plan->bounds.ubatch, b.n_tokens,
                 b.n_tokens == 1 ? "token" : "tokens");
    dct_text_put(t, "%12.2f ms  one after the other, each on all workers\n", b.sequential_us / 1e3);
    dct_text_put(t, "%12.2f ms  side by side, the tokens on one worker: gains %.3f\n", b.corun_us / 1e3,
                 b.corun_us > 0 ? b.sequential_us / b.corun_us : 1);
    dct_text_put(t, "%12.2f ms  fused, the tokens' rows in the chunk: gains %.3f\n", b.fused_us / 1e3,
                 b.fused_us > 0 ? b.sequential_us / b.fused_us : 1);
    dct_text_put(t, "side by side can gain %.3f at most (G_max of the cost profile)\n", b.gain_max);
}

dct_status dct_report_concurrency(const dct_plan *plan, const dct_graph *traced, const dct_profile *profile, dct_arena *work,
                                  dct_text_fn *out, void *ctx, dct_err *err) {
    dct_text t = {out, ctx};
    if (plan->bounds.table_ctx > plan->bounds.n_ctx) dct_text_put(&t, "\n---- context %u ----\n", plan->bounds.n_ctx);
    else
        dct_text_put(&t, "operations that may run at the same time: no path of the traced graph connects them.\n"
                         "Of those that are bandwidth-bound, the schedule runs one at a time, over all workers.\n");
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        dct_status status = put_phase(&t, plan, &plan->phases[i], &traced[i], profile, work, err);
        if (status != DCT_OK) return status;
    }
    put_baselines(&t, plan, profile);
    return DCT_OK;
}
