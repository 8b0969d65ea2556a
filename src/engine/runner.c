/* engine/runner: a graph of one's own in planned memory.
 *
 *   verify ► is there room ► reserve, or take the caller's memory ► workers ► weights and tables ► executor
 *
 * The runner itself lies in the reservation. After it was opened nothing allocates; a run checks what comes from outside, which
 * is how many rows there are and which ids, and hands over to the executor.
 */
#include <string.h>

#include "engine/engine.h"
#include "kernels/kernel.h"

/* ---- memory ---- */

/* The caller's memory, or a mapping that is to be given back: *mapped. What the process holds is its own, but for our work. */
static dct_status reserve(const dct_plan *plan, void *memory, size_t n_memory, uint64_t work_bytes, char **base, void **mapped,
                          dct_err *err) {
    size_t bytes = (size_t)plan->reserve_bytes;
    *mapped = NULL;
    if (memory != NULL && (n_memory < bytes || (uintptr_t)memory % DCT_PLAN_PAGE != 0))
        return dct_fail(err, DCT_USAGE, "%llu bytes of memory, the plan needs %llu at a multiple of %d",
                        (unsigned long long)n_memory, (unsigned long long)bytes, DCT_PLAN_PAGE);
    *base = memory;
    if (memory != NULL) return DCT_OK;
    dct_status status = dct_check_room(plan->m_max_bytes, dct_plan_kernel_bytes(plan), work_bytes, err);
    if (status != DCT_OK) return status;
    *base = *mapped = dct_os_map_huge(bytes);
    return *mapped != NULL ? DCT_OK : dct_os_fail_map("the reservation", bytes, err);
}

/* ---- filling it ---- */

/* Where the weights lie now; in a file or in the caller's memory. */
static dct_status find_weights(const dct_plan *plan, const dct_model *model, dct_arena *work, dct_loader *l, dct_err *err) {
    l->tensors = dct_arena_array(work, plan->n_weights, sizeof *l->tensors);
    if (l->tensors == NULL) return dct_fail_memory(err, work, "the list of weights");
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const dct_tensor *t = dct_model_find_tensor(model, plan->weights[i].w.tensor);
        if (t == NULL) return dct_fail(err, DCT_BUG, "weight '%s' is not the graph's", plan->weights[i].w.tensor);
        if (t->form == DCT_FORM_COMPUTED && t->values == NULL)
            return dct_fail(err, DCT_USAGE, "weight '%s' was traced without data", plan->weights[i].w.tensor);
        l->tensors[i] = *t;
    }
    return DCT_OK;
}

/* *blamed becomes the weights' file where that is at fault. */
static dct_status load(dctms_runner *r, const dctms_graph *graph, const dct_model *model, dct_arena *work, const char **blamed,
                       dct_err *err) {
    const dct_plan *plan = r->handle->plan;
    dct_progress unseen = {0};
    dct_place place;
    dct_loader l = {.model = model, .plan = plan, .bases = &r->bases, .pool = r->pool, .progress = &unseen,
                    .staging_bytes = dct_load_staging_bytes(&graph->graph, plan->bounds.threads)};
    if (!dct_plan_staging(plan, l.staging_bytes, &place))
        return dct_fail(err, DCT_BAD_FILE, "the plan has no room for %llu bytes of staging", (unsigned long long)l.staging_bytes);
    l.staging = r->bases.of[place.region] + place.offset;
    dct_status status = find_weights(plan, model, work, &l, err);
    if (status == DCT_OK) status = dct_load_all(&l, err);
    if (status == DCT_BAD_FILE && graph->file != NULL) *blamed = graph->file->model.path;
    memset(r->bases.of[DCT_REGION_ARENA], 0, (size_t)plan->region_bytes[DCT_REGION_ARENA]); /* where the staging may lie */
    return status;
}

/* The inputs that a run must look at, of which a graph has fewer than ends, and the one that is ours to fill. */
static void bind_inputs(dctms_runner *r) {
    const dct_graph *g = &r->phase->graph;
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        const dct_op *op = &g->ops[i];
        if (op->kind != DCT_OP_EMBED) continue;
        dct_ids_input *known = r->ids;
        while (known < r->ids + r->n_ids && known->value != op->in[0]) known++;
        if (known == r->ids + r->n_ids)
            r->ids[r->n_ids++] = (dct_ids_input){op->in[0], dct_exec_value(r->exec, DCT_PHASE_GRAPH, op->in[0]), UINT32_MAX};
        if (g->values[op->in[1]].rows < known->n_rows) known->n_rows = g->values[op->in[1]].rows;
    }
    if (g->pos == DCT_NONE) return;
    dct_fill_positions(dct_exec_value(r->exec, DCT_PHASE_GRAPH, g->pos), 0, g->rows);
}

static dct_status fill(dctms_runner *r, const dctms_graph *graph, const dct_model *model, const dct_checked_plan *plan,
                       dct_arena *work, const char **blamed, dct_err *err) {
    void *memory;
    dct_status status = dct_start_workers(r->handle->plan, &r->bases, &r->pool, err);
    if (status == DCT_OK) status = load(r, graph, model, work, blamed, err);
    if (status == DCT_OK)
        status = dct_item_need(r->handle->plan, &r->bases, DCT_REGION_RUNTIME, DCT_ITEM_EXEC, dct_exec_bytes(r->handle->plan),
                               &memory, err);
    if (status == DCT_OK) status = dct_exec_init(memory, plan, &r->bases, dct_kernels_best(), r->pool, &r->exec, err);
    if (status == DCT_OK) bind_inputs(r);
    return status;
}

/* ---- open, run, free ---- */

static dct_status open_runner(const dctms_graph *graph, dctms_plan *handle, void *memory, size_t n_memory, dct_arena *work,
                              dctms_runner **out, const char **blamed, dct_err *err) {
    const dct_plan *plan = handle->plan;
    dct_arena keep;
    dct_model *model;
    dct_checked_plan *checked;
    dct_defect defect;
    char *base;
    void *mapped = NULL;
    dct_arena_init(&keep, 0);
    dct_status status = dct_graph_model(graph, work, &model, err);
    if (status == DCT_OK) status = dct_verify_graph(graph, plan, model, work, &keep, &checked, &defect, err);
    if (status == DCT_OK) status = reserve(plan, memory, n_memory, work->taken_bytes, &base, &mapped, err);
    if (status != DCT_OK) goto fail_keep;
    memset(base, 0, (size_t)plan->reserve_bytes); /* so every page is there from now on */
    dctms_runner here = {.handle = handle, .phase = &plan->phases[0], .keep = keep, .mapped = mapped}, *r = NULL;
    for (uint32_t i = 0; i < DCT_REGION_COUNT; i++) here.bases.of[i] = base + plan->region_offset[i];
    status = dct_item_need(plan, &here.bases, DCT_REGION_RUNTIME, DCT_ITEM_RUNNER, sizeof *r, &r, err);
    if (status != DCT_OK) goto fail_mapping;
    *r = here;
    atomic_fetch_add(&handle->owners, 1);
    status = fill(r, graph, model, checked, work, blamed, err);
    if (status != DCT_OK) dctms_runner_free(r);
    else *out = r;
    return status;

fail_mapping:
    if (mapped != NULL) dct_os_unmap(mapped, (size_t)plan->reserve_bytes);
fail_keep:
    dct_arena_deinit(&keep);
    return status;
}

dctms_status dctms_runner_open(const dctms_graph *graph, const dctms_plan *plan, void *memory, size_t n_memory,
                               dctms_runner **runner, dctms_error *err) {
    dct_err why = {0};
    dct_arena work;
    if (plan->group != NULL)
        return dct_give(dct_fail(&why, DCT_USAGE, "the plan is a member of a group, which is for models"), &why, err);
    dct_arena_init(&work, 0);
    dctms_plan *handle = (dctms_plan *)(uintptr_t)plan; /* only its count of owners changes */
    const char *blamed = plan->path;
    dct_status status = open_runner(graph, handle, memory, n_memory, &work, runner, &blamed, &why);
    dct_arena_deinit(&work);
    return dct_give_of_file(status, blamed, &why, err);
}

/* The runner lies in what is given back. */
void dctms_runner_free(dctms_runner *r) {
    if (r == NULL) return;
    dctms_plan *handle = r->handle;
    void *mapped = r->mapped;
    size_t bytes = (size_t)handle->plan->reserve_bytes;
    if (r->pool != NULL) dct_pool_stop(r->pool);
    dct_arena_deinit(&r->keep);
    if (mapped != NULL) dct_os_unmap(mapped, bytes);
    dctms_plan_free(handle);
}

void *dctms_runner_data(const dctms_runner *r, const char *name) {
    const dct_graph *g = &r->phase->graph;
    for (dct_value_id v = 0; v < g->n_values; v++)
        if (dct_value_is_end(g, v) && strcmp(g->values[v].name, name) == 0) return dct_exec_value(r->exec, DCT_PHASE_GRAPH, v);
    return NULL;
}

static dct_status check_ids(const dctms_runner *r, uint32_t n, dct_err *err) {
    for (uint32_t i = 0; i < r->n_ids; i++) {
        const dct_ids_input *in = &r->ids[i];
        for (uint32_t t = 0; t < n; t++) {
            if ((uint32_t)in->ids[t] < in->n_rows) continue;
            return dct_fail(err, DCT_BOUND, "id %d of '%s' (row %u) has no row: there are %u", in->ids[t],
                            r->phase->graph.values[in->value].name, t, in->n_rows);
        }
    }
    return DCT_OK;
}

dctms_status dctms_runner_run(dctms_runner *r, uint32_t n, dctms_error *err) {
    dct_err why = {0};
    if (n == 0 || n > r->phase->rows)
        return dct_give(dct_fail(&why, DCT_BOUND, "a run of %u rows; the plan is for 1 to %u", n, r->phase->rows), &why, err);
    dct_status status = check_ids(r, n, &why);
    if (status == DCT_OK) dct_exec_run(r->exec, DCT_PHASE_GRAPH, n, 0);
    return dct_give(status, &why, err);
}
