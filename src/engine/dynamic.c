/* engine/dynamic: the way it is done elsewhere, for comparison: the graph as the architecture traced it, nothing fused, one
 * malloc and one free for every tensor, caches that grow by 256 positions at a time by allocating, copying and freeing.
 *
 * Kernels, weights and the order of every sum are those of the planned mode, so the logits are the same bytes. This is the only
 * file of the library that calls malloc.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"
#include "kernels/kernel.h"

enum { GROW = 256, LINE = 64 };

/* malloc promises 16 bytes, kernels want 64. */
typedef struct tensor {
    void *raw, *at;
} tensor;

typedef struct dynamic_phase {
    dct_graph *graph;
    tensor *values;      /* [n_values]; weights and tables point into the reservation and have no raw */
    uint32_t *last_use;  /* [n_values]: op after which the value is freed; DCT_NONE: not by an op */
} dynamic_phase;

struct dct_dynamic {
    dct_graph graphs[DCT_PLAN_MAX_PHASES];
    dynamic_phase phases[DCT_PLAN_MAX_PHASES];
    dct_phase_kind kinds[DCT_PLAN_MAX_PHASES];
    const dct_kernels *kernels;
    uint32_t n_phases, n_caches, capacity; /* positions that the caches hold now */
    tensor *caches, *grown;                  /* [n_caches]; grown: larger ones in the making, else empty */
    tensor logits;
};

static dct_status allocate(tensor *t, uint64_t bytes, dct_err *err) {
    t->raw = malloc((size_t)bytes + LINE);
    if (t->raw == NULL) return dct_os_fail_map("a tensor", bytes, err);
    t->at = (void *)(((uintptr_t)t->raw + LINE - 1) & ~(uintptr_t)(LINE - 1));
    return DCT_OK;
}

static void release(tensor *t) {
    free(t->raw);
    *t = (tensor){0};
}

/* ---- open ---- */

static void *weight_address(const dctms_session *s, const dct_weight *w) {
    for (uint32_t i = 0; i < s->plan->n_weights; i++) {
        const dct_plan_weight *planned = &s->plan->weights[i];
        if (dct_weight_equal(&planned->w, w)) return s->bases.of[DCT_REGION_WEIGHTS] + planned->offset;
    }
    return NULL;
}

static void *table_address(const dctms_session *s, const dct_rope_table *t) {
    for (uint32_t i = 0; i < s->plan->n_tables; i++) {
        if (dct_rope_table_equal(&s->plan->tables[i].t, t))
            return s->bases.of[DCT_REGION_PERSISTENT] + s->plan->tables[i].offset;
    }
    return NULL;
}

static dct_status open_phase(dctms_session *s, dynamic_phase *p, dct_err *err) {
    dct_graph *g = p->graph;
    p->values = dct_arena_array(&s->keep, g->n_values, sizeof *p->values);
    p->last_use = dct_arena_array(&s->keep, g->n_values, sizeof *p->last_use);
    if (p->values == NULL || p->last_use == NULL) return dct_fail_memory(err, &s->keep, "the dynamic mode");
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        p->last_use[v] = DCT_NONE;
        if (value->kind == DCT_KIND_WEIGHT) p->values[v].at = weight_address(s, &g->weights[value->ref]);
        if (value->kind == DCT_KIND_PERSISTENT && value->ref != DCT_NONE)
            p->values[v].at = table_address(s, &g->tables[value->ref]);
        bool lies_in_reservation = value->kind == DCT_KIND_WEIGHT ||
                                   (value->kind == DCT_KIND_PERSISTENT && value->ref != DCT_NONE);
        if (lies_in_reservation && p->values[v].at == NULL) return dct_fail(err, DCT_BUG, "'%s' is not in the plan", value->name);
    }
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        for (uint32_t k = 0; k < g->ops[i].n_out; k++) p->last_use[g->ops[i].out[k]] = i; /* when nobody reads it */
        for (uint32_t k = 0; k < g->ops[i].n_in; k++)
            if (g->ops[i].in[k] != DCT_NONE) p->last_use[g->ops[i].in[k]] = i;
    }
    return DCT_OK;
}

dct_status dct_dynamic_open(dctms_session *s, const dct_graph *traced, uint32_t n_traced, dct_err *err) {
    dct_dynamic *d = dct_arena_alloc(&s->keep, sizeof *d);
    if (d == NULL) return dct_fail_memory(err, &s->keep, "the dynamic mode");
    d->kernels = dct_kernels_best();
    d->n_phases = n_traced;
    d->n_caches = traced[0].n_caches;
    d->caches = dct_arena_array(&s->keep, d->n_caches, sizeof *d->caches);
    d->grown = dct_arena_array(&s->keep, d->n_caches, sizeof *d->grown);
    if (d->caches == NULL || d->grown == NULL) return dct_fail_memory(err, &s->keep, "the dynamic mode");
    for (uint32_t i = 0; i < n_traced; i++) {
        d->graphs[i] = traced[i];
        d->phases[i].graph = &d->graphs[i];
        d->kinds[i] = s->plan->phases[i].kind;
        dct_status status = open_phase(s, &d->phases[i], err);
        if (status != DCT_OK) return status;
    }
    s->dynamic = d;
    return DCT_OK;
}

void dct_dynamic_forget(dct_dynamic *d) {
    for (uint32_t i = 0; i < d->n_caches; i++) release(&d->caches[i]);
    d->capacity = 0;
}

void dct_dynamic_close(dct_dynamic *d) {
    dct_dynamic_forget(d);
    release(&d->logits);
}

/* ---- caches ---- */

/* A larger copy. */
static dct_status grow_cache(const tensor *old, tensor *grown, const dct_cache *c, uint32_t from, uint32_t to, dct_err *err) {
    uint64_t bytes = c->n_head_kv * dct_kv_head_bytes(c->type, c->head_dim, to);
    dct_status status = allocate(grown, bytes, err);
    if (status != DCT_OK) return status;
    memset(grown->at, 0, (size_t)bytes);
    if (from != 0) dct_kv_move(c->type, c->n_head_kv, c->head_dim, from, old->at, from, grown->at, to);
    return DCT_OK;
}

/* All caches have one size, so either all of them grow or none. */
static dct_status grow_caches(dct_dynamic *d, uint32_t n_positions, dct_err *err) {
    if (n_positions <= d->capacity) return DCT_OK;
    uint32_t to = (uint32_t)dct_round_up(n_positions, GROW);
    dct_status status = DCT_OK;
    for (uint32_t i = 0; status == DCT_OK && i < d->n_caches; i++)
        status = grow_cache(&d->caches[i], &d->grown[i], &d->graphs[0].caches[i], d->capacity, to, err);
    if (status != DCT_OK) {
        for (uint32_t i = 0; i < d->n_caches; i++) release(&d->grown[i]);
        return status;
    }
    for (uint32_t i = 0; i < d->n_caches; i++) {
        release(&d->caches[i]);
        d->caches[i] = d->grown[i];
        d->grown[i] = (tensor){0};
    }
    d->capacity = to;
    for (uint32_t p = 0; p < d->n_phases; p++)
        for (uint32_t i = 0; i < d->n_caches; i++) d->graphs[p].caches[i].n_ctx = to;
    return DCT_OK;
}

/* ---- run ---- */

typedef struct op_work {
    dct_op_run run;
    tensor scratch;
    uint64_t scratch_a_worker;
} op_work;

static void run_piece(void *ctx, uint32_t piece, uint32_t worker) {
    const op_work *work = ctx;
    dct_op_run run = work->run;
    if (work->scratch.at != NULL) run.scratch = (char *)work->scratch.at + worker * work->scratch_a_worker;
    dct_op_piece(&run, piece);
}

static void *address_of(const dct_dynamic *d, const dynamic_phase *p, dct_value_id id) {
    if (id == DCT_NONE) return NULL;
    const dct_value *v = &p->graph->values[id];
    return v->kind == DCT_KIND_KV ? d->caches[v->ref].at : p->values[id].at;
}

static dct_status run_op(dctms_session *s, dynamic_phase *p, dct_op_id id, uint32_t n, dct_err *err) {
    const dct_op *op = &p->graph->ops[id];
    uint32_t n_workers = dct_pool_workers(s->pool);
    op_work work = {
        .run = {.graph = p->graph, .op = op, .n = n, .pos0 = s->n_past, .n_workers = n_workers, .kernels = s->dynamic->kernels}};
    for (uint32_t k = 0; k < op->n_out; k++) {
        dct_status status = allocate(&p->values[op->out[k]], p->graph->values[op->out[k]].bytes, err);
        if (status != DCT_OK) return status;
        work.run.out[k] = p->values[op->out[k]].at;
    }
    for (uint32_t k = 0; k < op->n_in; k++) work.run.in[k] = address_of(s->dynamic, p, op->in[k]);
    work.scratch_a_worker = dct_round_up(dct_op_scratch_bytes(p->graph, op), LINE);
    if (work.scratch_a_worker != 0) {
        dct_status status = allocate(&work.scratch, work.scratch_a_worker * n_workers, err);
        if (status != DCT_OK) return status;
    }
    dct_op_cut(&work.run);
    dct_pool_run(s->pool, run_piece, &work, work.run.n_pieces);
    release(&work.scratch);
    return DCT_OK;
}

static dct_status make_inputs(const dctms_session *s, dynamic_phase *p, const dct_token *tokens, uint32_t n, dct_err *err) {
    const dct_graph *g = p->graph;
    dct_status status = allocate(&p->values[g->ids], g->values[g->ids].bytes, err);
    if (status == DCT_OK) status = allocate(&p->values[g->pos], g->values[g->pos].bytes, err);
    if (status != DCT_OK) return status;
    int32_t *ids = p->values[g->ids].at;
    for (uint32_t t = 0; t < n; t++) ids[t] = (int32_t)tokens[t];
    dct_fill_positions(p->values[g->pos].at, s->n_past, n);
    return DCT_OK;
}

static void release_value(dynamic_phase *p, dct_value_id v, dct_op_id after) {
    if (v != DCT_NONE && v != p->graph->logits && p->last_use[v] == after && p->values[v].raw != NULL) release(&p->values[v]);
}

/* Frees what this op was the last to use. */
static void release_after(dynamic_phase *p, dct_op_id id) {
    const dct_op *op = &p->graph->ops[id];
    for (uint32_t k = 0; k < op->n_in; k++) release_value(p, op->in[k], id);
    for (uint32_t k = 0; k < op->n_out; k++) release_value(p, op->out[k], id);
}

static void release_all(dynamic_phase *p) {
    for (dct_value_id v = 0; v < p->graph->n_values; v++)
        if (p->values[v].raw != NULL) release(&p->values[v]);
}

dct_status dct_dynamic_run(dctms_session *s, dct_phase_kind kind, const dct_token *tokens, uint32_t n, dct_err *err) {
    dct_dynamic *d = s->dynamic;
    uint32_t i = 0;
    while (d->kinds[i] != kind) i++;
    dynamic_phase *p = &d->phases[i];
    dct_status status = grow_caches(d, s->n_past + n, err);
    if (status == DCT_OK) status = make_inputs(s, p, tokens, n, err);
    for (dct_op_id op = 0; status == DCT_OK && op < p->graph->n_ops; op++) {
        status = run_op(s, p, op, n, err);
        if (status == DCT_OK) release_after(p, op);
    }
    tensor *logits = &p->values[p->graph->logits];
    if (status != DCT_OK) {
        release_all(p);
        return status;
    }
    release(&d->logits);
    d->logits = *logits;
    *logits = (tensor){0};
    s->logits = d->logits.at;
    return DCT_OK;
}
