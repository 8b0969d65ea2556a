/* engine/graph_api: graphs that the caller traces, and their plans.
 *
 * Each call appends one op to the graph and has it checked at once, so the first mistake is told where it was made; it sticks in
 * the graph, and the calls after it do nothing. Weights are recorded as the tensors of a model, of which the loader and the
 * verifier know already how to read and compare them.
 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/name_index.h"
#include "base/size.h"
#include "engine/engine.h"

enum { MAX_ROWS = 1 << 24, MAX_COLS = 1 << 24 };

static const dct_hparams GRAPH = {.arch = "graph"}; /* what stands where models have an architecture */

dctms_status dctms_graph_new(const char *name, uint32_t max_rows, dctms_graph **graph, dctms_error *err) {
    dct_err why = {0};
    if (max_rows == 0 || max_rows > MAX_ROWS)
        return dct_give(dct_fail(&why, DCT_USAGE, "a graph for %u rows; 1 to %d are possible", max_rows, MAX_ROWS), &why, err);
    dctms_graph *g = dct_os_map(sizeof *g);
    if (g == NULL) return dct_give(dct_fail(&why, DCT_SYSTEM, "no memory for a graph"), &why, err);
    dct_arena_init(&g->arena, 0);
    dct_graph_init(&g->graph, &g->arena, max_rows);
    g->model.path = "";
    snprintf(g->name, sizeof g->name, "%s", name != NULL ? name : "");
    *graph = g;
    return DCTMS_OK;
}

void dctms_graph_free(dctms_graph *g) {
    if (g == NULL) return;
    dct_arena_deinit(&g->arena);
    dct_os_unmap(g, sizeof *g);
}

dctms_status dctms_graph_status(const dctms_graph *g, dctms_error *err) { return dct_give(g->graph.status, &g->graph.err, err); }

/* ---- what every call begins and ends with ---- */

static bool failed(const dctms_graph *g) { return g->graph.status != DCT_OK; }

/* A mistake in what is traced is the caller's, not a bug of ours. */
static dct_status blame_caller(dct_status status, dct_err *why) {
    if (status == DCT_BUG) status = why->code = DCT_USAGE;
    return status;
}

/* The result of a call that appended one op, when op and result are as they should be. */
static dctms_value checked(dctms_graph *g, dct_value_id result) {
    dct_graph *t = &g->graph;
    if (t->status == DCT_OK) t->status = dct_graph_check_last(t, &t->err);
    t->status = blame_caller(t->status, &t->err);
    return t->status == DCT_OK ? result : DCTMS_NO_VALUE;
}

static const char *or_empty(const char *name) { return name != NULL ? name : ""; }

/* Names that are looked up must be there, and whole. */
static bool is_name(dctms_graph *g, const char *what, const char *name) {
    size_t n = name != NULL ? strlen(name) : 0;
    if (failed(g)) return false;
    if (n > 0 && n < DCT_NAME_BYTES) return true;
    g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "%s '%.60s' must have a name of 1 to %d bytes", what, or_empty(name),
                               DCT_NAME_BYTES - 1);
    return false;
}

static bool is_size(dctms_graph *g, const char *name, uint64_t rows, uint64_t cols) {
    if (rows > 0 && rows <= MAX_COLS && cols > 0 && cols <= MAX_COLS) return true;
    g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "'%s' of %llu x %llu elements: both must be 1 to %d", name,
                               (unsigned long long)rows, (unsigned long long)cols, MAX_COLS);
    return false;
}

/* Whatever is not finite would make every result NaN. */
static bool is_number(dctms_graph *g, const char *name, const char *what, float number, float least) {
    if (failed(g)) return false;
    if (number >= least && number <= FLT_MAX) return true;
    g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "'%s': %s %g makes no sense", or_empty(name), what, (double)number);
    return false;
}

/* ---- inputs and outputs ---- */

dctms_value dctms_graph_input(dctms_graph *g, const char *name, uint32_t cols, uint32_t stride) {
    if (!is_name(g, "input", name) || !is_size(g, name, stride, cols)) return DCTMS_NO_VALUE;
    uint32_t rows = (uint32_t)dct_div_up(g->graph.rows, stride);
    dct_value_id v = dct_graph_value(&g->graph, name, -1, DCT_KIND_INPUT, DCT_FMT_F32, rows, cols);
    if (v != DCT_NONE) g->graph.values[v].row_div = stride;
    return v;
}

dctms_value dctms_graph_input_ids(dctms_graph *g, const char *name) {
    if (!is_name(g, "input", name)) return DCTMS_NO_VALUE;
    return dct_graph_input_i32(&g->graph, name, g->graph.rows, 1);
}

void dctms_graph_output(dctms_graph *g, dctms_value x, const char *name) {
    if (!is_name(g, "output", name)) return;
    dct_value *v = x < g->graph.n_values ? &g->graph.values[x] : NULL;
    if (v == NULL || v->kind != DCT_KIND_INTERMEDIATE || (v->format != DCT_FMT_F32 && v->format != DCT_FMT_I32)) {
        g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "output '%s' is not the result of an operation, or is one already",
                                   name);
        return;
    }
    v->kind = DCT_KIND_OUTPUT;
    snprintf(v->name, sizeof v->name, "%s", name);
}

/* ---- weights ---- */

static dctms_value fail_memory(dctms_graph *g) {
    g->graph.status = dct_fail_memory(&g->graph.err, &g->arena, "a graph");
    return DCTMS_NO_VALUE;
}

static dctms_value fail_rows(dctms_graph *g, const char *name, uint32_t cols, dct_dtype type) {
    g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "'%s': rows of %u elements cannot be %s", name, cols,
                               dct_dtype_name(type));
    return DCTMS_NO_VALUE;
}

/* Records the tensor, and the whole of it as a weight. */
static dctms_value add_weight(dctms_graph *g, const dct_tensor *tensor, bool is_vector, uint32_t rows, uint32_t cols) {
    dct_model *m = &g->model;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        if (!dct_str_eq(m->tensors[i].name, tensor->name)) continue;
        g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "two weights are named '%.*s'", (int)tensor->name.len,
                                   tensor->name.ptr);
        return DCTMS_NO_VALUE;
    }
    if (m->n_tensors == g->cap_tensors) {
        uint32_t cap = g->cap_tensors == 0 ? 64 : 2 * g->cap_tensors;
        dct_tensor *grown = dct_arena_grow(&g->arena, m->tensors, m->n_tensors, cap, sizeof *grown);
        if (grown == NULL) return fail_memory(g);
        m->tensors = grown;
        g->cap_tensors = cap;
    }
    dct_tensor *t = &m->tensors[m->n_tensors];
    *t = *tensor;
    t->name.ptr = dct_arena_strndup(&g->arena, tensor->name.ptr, tensor->name.len);
    if (t->name.ptr == NULL) return fail_memory(g);
    dct_weight w = {.type = t->type, .n_rows = rows, .n_cols = cols, .is_vector = is_vector};
    snprintf(w.tensor, sizeof w.tensor, "%s", t->name.ptr);
    bool fits = is_vector ? dct_align_u64((uint64_t)cols * sizeof(float), 64, &w.bytes)
                          : dct_layout_bytes(t->type, rows, cols, &w.bytes);
    if (!fits) return fail_rows(g, w.tensor, cols, t->type);
    m->n_tensors++;
    m->tensor_bytes += t->bytes;
    m->n_params += t->n_elems;
    return dct_graph_weight(&g->graph, &w);
}

static dctms_value add_in_memory(dctms_graph *g, const char *name, dct_dtype type, bool is_vector, uint32_t rows, uint32_t cols,
                                 const void *data) {
    dct_tensor t = {.name = {name, strlen(name)}, .type = type, .n_dims = is_vector ? 1 : 2, .ne = {cols, rows, 1, 1},
                    .n_elems = (uint64_t)rows * cols, .form = DCT_FORM_COMPUTED, .values = data};
    uint64_t row_bytes = 0;
    if (!dct_dtype_row_bytes(type, cols, &row_bytes) || !dct_mul_u64(row_bytes, rows, &t.bytes))
        return fail_rows(g, name, cols, type);
    return add_weight(g, &t, is_vector, rows, cols);
}

dctms_value dctms_graph_matrix(dctms_graph *g, const char *name, const char *type, uint32_t rows, uint32_t cols,
                               const void *data) {
    dct_dtype dtype;
    if (!is_name(g, "weight", name) || !is_size(g, name, rows, cols)) return DCTMS_NO_VALUE;
    if (type == NULL || !dct_dtype_of_name(type, &dtype)) {
        g->graph.status = dct_fail(&g->graph.err, DCT_USAGE, "'%s': '%.20s' is no type of weights", name, or_empty(type));
        return DCTMS_NO_VALUE;
    }
    return add_in_memory(g, name, dtype, false, rows, cols, data);
}

dctms_value dctms_graph_vector(dctms_graph *g, const char *name, uint32_t n, const float *data) {
    if (!is_name(g, "weight", name) || !is_size(g, name, 1, n)) return DCTMS_NO_VALUE;
    return add_in_memory(g, name, DCT_TYPE_F32, true, 1, n, data);
}

/* The files stay those of the model; here they are looked at, not owned. */
static void adopt_files(dctms_graph *g, const dctms_model *file) {
    g->file = file;
    g->model.path = file->model.path;
    g->model.n_parts = file->model.n_parts;
    g->model.big_endian = file->model.big_endian;
    memcpy(g->model.files, file->model.files, sizeof g->model.files);
}

dctms_value dctms_graph_tensor(dctms_graph *g, const dctms_model *file, const char *name) {
    if (!is_name(g, "weight", name)) return DCTMS_NO_VALUE;
    dct_status status = dct_model_need_header(file, &g->graph.err);
    const dct_tensor *t = status == DCT_OK ? dct_model_find_tensor(&file->model, name) : NULL;
    if (status == DCT_OK && g->file != NULL && g->file != file)
        status = dct_fail(&g->graph.err, DCT_USAGE, "'%s': the weights of a graph are of one file", name);
    else if (status == DCT_OK && t == NULL)
        status = dct_fail(&g->graph.err, DCT_BAD_FILE, "%s has no tensor '%s'", file->model.path, name);
    g->graph.status = status;
    if (status != DCT_OK) return DCTMS_NO_VALUE;
    bool is_vector = t->n_dims == 1;
    uint64_t rows = is_vector ? 1 : t->n_elems / t->ne[0];
    if (!is_size(g, name, rows, t->ne[0])) return DCTMS_NO_VALUE;
    if (g->file == NULL) adopt_files(g, file);
    return add_weight(g, t, is_vector, (uint32_t)rows, (uint32_t)t->ne[0]);
}

/* ---- operations ---- */

dctms_value dctms_graph_linear(dctms_graph *g, dctms_value x, dctms_value w, dctms_value bias, const char *name) {
    return checked(g, dct_trace_linear(&g->graph, x, w, bias, -1, or_empty(name)));
}

dctms_value dctms_graph_rows(dctms_graph *g, dctms_value ids, dctms_value w, const char *name) {
    return checked(g, dct_trace_embed(&g->graph, ids, w, 1, or_empty(name)));
}

dctms_value dctms_graph_rms_norm(dctms_graph *g, dctms_value x, dctms_value w, float eps, const char *name) {
    if (!is_number(g, name, "eps", eps, 0)) return DCTMS_NO_VALUE;
    return checked(g, dct_trace_rms_norm(&g->graph, x, w, eps, -1, or_empty(name)));
}

dctms_value dctms_graph_layer_norm(dctms_graph *g, dctms_value x, dctms_value w, dctms_value bias, float eps, const char *name) {
    if (!is_number(g, name, "eps", eps, 0)) return DCTMS_NO_VALUE;
    return checked(g, dct_trace_layer_norm(&g->graph, x, w, bias, eps, or_empty(name)));
}

dctms_value dctms_graph_add(dctms_graph *g, dctms_value a, dctms_value b, const char *name) {
    return checked(g, dct_trace_add(&g->graph, a, b, -1, or_empty(name)));
}

dctms_value dctms_graph_mul(dctms_graph *g, dctms_value a, dctms_value b, const char *name) {
    return checked(g, dct_trace_mul(&g->graph, a, b, or_empty(name)));
}

_Static_assert((int)DCTMS_SILU == (int)DCT_ACT_SILU && (int)DCTMS_GELU == (int)DCT_ACT_GELU_TANH &&
                   (int)DCTMS_SIGMOID == (int)DCT_ACT_SIGMOID,
               "one numbering");

dctms_value dctms_graph_act(dctms_graph *g, dctms_value x, dctms_act act, const char *name) {
    return checked(g, dct_trace_act(&g->graph, x, (dct_act)act, or_empty(name)));
}

dctms_value dctms_graph_glu(dctms_graph *g, dctms_value gate, dctms_value up, dctms_act act, const char *name) {
    return checked(g, dct_trace_glu(&g->graph, gate, up, (dct_act)act, -1, or_empty(name)));
}

dctms_value dctms_graph_window(dctms_graph *g, dctms_value x, uint32_t width, uint32_t stride, uint32_t pad, const char *name) {
    return checked(g, dct_trace_window(&g->graph, x, width, stride, pad, or_empty(name)));
}

/* Numbers of rows: four streams as models have them, which a runner fills once. */
static dct_value_id positions(dct_graph *t) {
    if (t->pos == DCT_NONE) t->pos = dct_graph_input_i32(t, "pos", t->rows, 4);
    return t->pos;
}

dctms_value dctms_graph_rope(dctms_graph *g, dctms_value x, uint32_t head_dim, uint32_t n_rot, float base, bool neighbours,
                             const char *name) {
    dct_graph *t = &g->graph;
    if (!is_number(g, name, "base", base, FLT_MIN)) return DCTMS_NO_VALUE;
    if (x >= t->n_values || head_dim == 0 || n_rot == 0 || n_rot > head_dim) {
        t->status = dct_fail(&t->err, DCT_USAGE, "'%s': no value, or heads of %u elements of which %u rotate", or_empty(name),
                             head_dim, n_rot);
        return DCTMS_NO_VALUE;
    }
    if (positions(t) == DCT_NONE) return DCTMS_NO_VALUE; /* the graph says why */
    dct_rope_table table = {.n_rot = n_rot, .n_ctx = t->rows, .base = base, .factor = 1, .attn_factor = 1};
    dct_op_params p = {.n_head = t->values[x].cols / head_dim, .head_dim = head_dim, .n_rot = n_rot,
                       .rope_style = neighbours ? DCT_ROPE_NORM : DCT_ROPE_NEOX};
    return checked(g, dct_trace_rope(t, x, dct_graph_table(t, &table), &p, -1, or_empty(name)));
}

dctms_value dctms_graph_attention(dctms_graph *g, dctms_value q, dctms_value k, dctms_value v, uint32_t n_head,
                                  uint32_t n_head_kv, float scale, bool causal, const char *name) {
    dct_graph *t = &g->graph;
    if (!is_number(g, name, "scale", scale, -FLT_MAX)) return DCTMS_NO_VALUE;
    if (q >= t->n_values || v >= t->n_values || n_head == 0 || n_head_kv == 0) {
        t->status = dct_fail(&t->err, DCT_USAGE, "'%s': attention of %u heads and %u, or no value", or_empty(name), n_head,
                             n_head_kv);
        return DCTMS_NO_VALUE;
    }
    dct_op_params p = {.n_head = n_head, .n_head_kv = n_head_kv, .head_dim = t->values[q].cols / n_head,
                       .head_dim_v = t->values[v].cols / n_head_kv, .scale = scale, .causal = causal};
    return checked(g, dct_trace_attn_rows(t, q, k, v, &p, or_empty(name)));
}

dctms_routing dctms_graph_route(dctms_graph *g, dctms_value scores, uint32_t n_used, bool renorm, const char *name) {
    dctms_routing r = {DCTMS_NO_VALUE, DCTMS_NO_VALUE};
    dct_trace_route(&g->graph, scores, n_used, renorm, or_empty(name), &r.ids, &r.weights);
    r.ids = checked(g, r.ids);
    if (r.ids == DCTMS_NO_VALUE) r.weights = DCTMS_NO_VALUE;
    return r;
}

dctms_value dctms_graph_experts(dctms_graph *g, dctms_value x, dctms_routing routing, dctms_value w, const char *name) {
    return checked(g, dct_trace_experts(&g->graph, x, routing.ids, w, or_empty(name)));
}

dctms_value dctms_graph_mix(dctms_graph *g, dctms_value x, dctms_value weights, const char *name) {
    return checked(g, dct_trace_mix(&g->graph, x, weights, or_empty(name)));
}

/* ---- plans ---- */

/* Names, types and shapes of the weights, and the name of the graph. */
static uint64_t fingerprint(const dctms_graph *g) {
    uint64_t hash = dct_hash_bytes(DCT_HASH_SEED, g->name, strlen(g->name));
    for (uint32_t i = 0; i < g->model.n_tensors; i++) {
        const dct_tensor *t = &g->model.tensors[i];
        const uint64_t shape[] = {t->type, t->ne[0], t->n_elems};
        hash = dct_hash_bytes(hash, t->name.ptr, t->name.len);
        hash = dct_hash_bytes(hash, shape, sizeof shape);
    }
    return dct_hash_mix(hash);
}

dct_status dct_graph_model(const dctms_graph *g, dct_arena *work, dct_model **out, dct_err *err) {
    dct_model *m = dct_arena_alloc(work, sizeof *m);
    if (m == NULL) return dct_fail_memory(err, work, "the weights of a graph");
    *m = g->model;
    m->fingerprint = fingerprint(g);
    if (!dct_name_index_init(&m->tensor_index, m->n_tensors, m->index_seed, work) ||
        !dct_name_index_init(&m->meta_index, 0, m->index_seed, work))
        return dct_fail_memory(err, work, "the weights of a graph");
    for (uint32_t i = 0; i < m->n_tensors; i++)
        *dct_name_index_slot(&m->tensor_index, m->tensors, sizeof *m->tensors, m->tensors[i].name) = i + 1;
    *out = m;
    return DCT_OK;
}

static dct_status compile(const dctms_graph *g, uint32_t threads, dct_arena *work, dct_plan **out, dct_err *err) {
    dct_compile_params c = {.hp = &GRAPH, .graph = &g->graph, .profile = dct_profile_default()};
    dct_model *model;
    dct_items items;
    dct_status status = blame_caller(dct_graph_check(&g->graph, err), err);
    if (status == DCT_OK) status = dct_choose_threads(threads, &threads, err);
    if (status == DCT_OK) status = dct_graph_model(g, work, &model, err);
    if (status != DCT_OK) return status;
    uint32_t rows = g->graph.rows;
    c.model = model;
    c.bounds = (dct_bounds){.n_ctx = rows, .n_input = rows, .ubatch = rows, .slots = 1, .threads = threads,
                            .type_k = DCT_TYPE_F32, .type_v = DCT_TYPE_F32, .logits = DCT_LOGITS_NONE};
    dct_items_of_graph(&g->graph, threads, &items);
    c.extra = items.item;
    c.n_extra = items.n;
    c.staging_bytes = items.staging_bytes;
    c.kernel_bytes = items.kernel_bytes;
    status = dct_compile(&c, work, out, err);
    if (status == DCT_OK) snprintf((*out)->model_name, sizeof (*out)->model_name, "%s", g->name);
    return status;
}

dctms_status dctms_graph_compile(const dctms_graph *g, uint32_t threads, dctms_plan **plan, dctms_error *err) {
    dct_err why = {0};
    dct_arena work;
    dct_plan *compiled;
    uint64_t start = dct_os_now_ns();
    dct_arena_init(&work, 0);
    dct_status status = compile(g, threads, &work, &compiled, &why);
    if (status == DCT_OK) status = dct_plan_hand_out(compiled, "", dct_profile_default(), start, &work, plan, &why);
    dct_arena_deinit(&work);
    return dct_give(status, &why, err);
}

dct_status dct_verify_graph(const dctms_graph *g, const dct_plan *plan, const dct_model *model, dct_arena *work, dct_arena *keep,
                            dct_checked_plan **checked_plan, dct_defect *defect, dct_err *err) {
    *defect = DCT_DEFECT_MODEL_MISMATCH;
    if (!dct_plan_is_graph(plan)) return dct_fail(err, DCT_BAD_FILE, "the plan is of a model, not of a traced graph");
    dct_status status = blame_caller(dct_graph_check(&g->graph, err), err);
    if (status != DCT_OK) return status;
    return dct_verify(plan, model, &GRAPH, &g->graph, 1, work, keep, checked_plan, defect, err);
}

dctms_status dctms_graph_verify(const dctms_graph *g, const dctms_plan *plan, char defect[32], dctms_error *err) {
    dct_err why = {0};
    dct_defect code = DCT_DEFECT_NONE;
    dct_arena work;
    dct_model *model;
    dct_checked_plan *checked_plan;
    dct_arena_init(&work, 0);
    dct_status status = dct_graph_model(g, &work, &model, &why);
    if (status == DCT_OK) status = dct_verify_graph(g, plan->plan, model, &work, &work, &checked_plan, &code, &why);
    dct_arena_deinit(&work);
    if (defect != NULL) snprintf(defect, 32, "%s", dct_defect_name(code));
    if (status == DCT_BAD_FILE && code != DCT_DEFECT_NONE) dct_explain_defect(code, &why);
    return dct_give(status, &why, err);
}
