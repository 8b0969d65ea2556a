#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h" /* DCT_PART_POSITIONS, which ops.def names */
#include "support/oracle_math.h"

/* What a layer has seen: rows of all heads, one a position. */
typedef struct history {
    float *rows;
    uint32_t cols;
} history;

struct oracle {
    dct_arena arena; /* of the model, when it is ours */
    dct_model *own;
    const dct_model *model;
    dct_hparams hp;
    uint32_t n_ctx, n_past;
    history *k, *v; /* a layer each */
    bool keep;
    dct_arena graph_arena; /* of oracle_eval */
    dct_graph graph;
    const dct_graph *ran; /* the last run: its graph, its values, its rows */
    float **values;
    uint32_t n_values, n_rows;
};

/* One execution of a graph. */
typedef struct run {
    oracle *o;
    const dct_graph *g;
    const int32_t *ids;
    const int32_t (*pos)[4];
    uint32_t n;
    float **values; /* one malloc each; NULL until made and after the last use */
    dct_err *err;
} run;

/* ---- open, close ---- */

static oracle *open_with(dct_model *own, const dct_model *model, uint32_t n_ctx, oracle *o, dct_err *err) {
    o->own = own;
    o->model = model;
    o->n_ctx = n_ctx;
    dct_arena_init(&o->graph_arena, 0);
    if (dct_arch_hparams(model, &o->hp, err) != DCT_OK) {
        oracle_close(o);
        return NULL;
    }
    o->k = oracle_alloc(o->hp.n_layer, sizeof *o->k);
    o->v = oracle_alloc(o->hp.n_layer, sizeof *o->v);
    return o;
}

oracle *oracle_open(const char *path, uint32_t n_ctx, dct_err *err) {
    oracle *o = oracle_alloc(1, sizeof *o);
    dct_arena_init(&o->arena, 0);
    dct_model *model = oracle_alloc(1, sizeof *model);
    if (dct_model_open(model, path, &o->arena, err) != DCT_OK) {
        dct_arena_deinit(&o->arena);
        free(model);
        free(o);
        return NULL;
    }
    return open_with(model, model, n_ctx, o, err);
}

oracle *oracle_open_model(const dct_model *model, uint32_t n_ctx, dct_err *err) {
    oracle *o = oracle_alloc(1, sizeof *o);
    dct_arena_init(&o->arena, 0);
    return open_with(NULL, model, n_ctx, o, err);
}

static void drop_values(oracle *o) {
    for (uint32_t i = 0; i < o->n_values; i++) free(o->values[i]);
    free(o->values);
    o->values = NULL;
    o->n_values = 0;
}

void oracle_close(oracle *o) {
    if (o == NULL) return;
    drop_values(o);
    for (uint32_t i = 0; o->k != NULL && i < o->hp.n_layer; i++) {
        free(o->k[i].rows);
        free(o->v[i].rows);
    }
    free(o->k);
    free(o->v);
    if (o->own != NULL) dct_model_close(o->own);
    free(o->own);
    dct_arena_deinit(&o->graph_arena);
    dct_arena_deinit(&o->arena);
    free(o);
}

const dct_hparams *oracle_hparams(const oracle *o) { return &o->hp; }
const dct_model *oracle_model(const oracle *o) { return o->model; }
void oracle_keep(oracle *o, bool keep) { o->keep = keep; }
void oracle_reset(oracle *o) { o->n_past = 0; }
void oracle_rewind(oracle *o, uint32_t n) { o->n_past = n < o->n_past ? n : o->n_past; }

/* ---- values ---- */

static uint32_t rows_of(const run *r, dct_value_id id) {
    uint32_t rows = r->g->values[id].rows;
    return rows == r->g->rows ? r->n : rows;
}

static uint32_t cols_of(const run *r, dct_value_id id) { return r->g->values[id].cols; }
static const float *in(const run *r, const dct_op *op, uint32_t i) { return r->values[op->in[i]]; }

static size_t elems_of(const run *r, dct_value_id id) { return (size_t)rows_of(r, id) * cols_of(r, id); }

static const dct_weight *weight_of(const run *r, dct_value_id id) { return &r->g->weights[r->g->values[id].ref]; }

/* A norm or bias as doubles would read it: fetched for each use. */
static dct_status fetch_vector(const run *r, dct_value_id id, float **out) {
    const dct_weight *w = weight_of(r, id);
    *out = oracle_alloc(w->n_cols, sizeof(float));
    return oracle_weight_row(r->o->model, w, 0, *out, r->err);
}

/* ---- ops ---- */

static dct_status do_embed(const run *r, const dct_op *op, float *out) {
    const dct_weight *w = weight_of(r, op->in[1]);
    for (uint32_t t = 0; t < r->n; t++) {
        if (r->ids[t] < 0 || (uint32_t)r->ids[t] >= w->n_rows) return dct_fail(r->err, DCT_BOUND, "oracle: token %d", r->ids[t]);
        float *row = out + (size_t)t * w->n_cols;
        dct_status status = oracle_weight_row(r->o->model, w, (uint32_t)r->ids[t], row, r->err);
        if (status != DCT_OK) return status;
        for (uint32_t c = 0; c < w->n_cols; c++) row[c] *= op->p.scale;
    }
    return DCT_OK;
}

static dct_status do_norm(const run *r, const dct_op *op, float *out) {
    float *w;
    dct_status status = fetch_vector(r, op->in[1], &w);
    size_t groups = elems_of(r, op->in[0]) / op->p.group;
    for (size_t i = 0; status == DCT_OK && i < groups; i++) {
        const float *x = in(r, op, 0) + i * op->p.group;
        double sum = 0;
        for (uint32_t c = 0; c < op->p.group; c++) sum += (double)x[c] * (double)x[c];
        double scale = 1 / sqrt(sum / op->p.group + (double)op->p.eps);
        for (uint32_t c = 0; c < op->p.group; c++) out[i * op->p.group + c] = (float)((double)x[c] * scale * (double)w[c]);
    }
    free(w);
    return status;
}

static dct_status do_linear(const run *r, const dct_op *op, float *out) {
    const dct_weight *w = weight_of(r, op->in[1]);
    uint32_t n = rows_of(r, op->in[0]);
    dct_status status = oracle_product(r->o->model, w, in(r, op, 0), n, out, r->err);
    if (status != DCT_OK || op->n_in < 3 || op->in[2] == DCT_NONE) return status;
    float *b;
    status = fetch_vector(r, op->in[2], &b);
    for (uint32_t t = 0; status == DCT_OK && t < n; t++) {
        for (uint32_t c = 0; c < w->n_rows; c++) out[(size_t)t * w->n_rows + c] += b[c];
    }
    free(b);
    return status;
}

static dct_status do_rope(const run *r, const dct_op *op, float *out) {
    const dct_rope_table *table = &r->g->tables[r->g->values[op->in[1]].ref];
    double *freq = oracle_alloc(table->n_rot / 2, sizeof *freq), mscale;
    dct_status status = oracle_frequencies(r->o->model, table, freq, &mscale, r->err);
    memcpy(out, in(r, op, 0), elems_of(r, op->in[0]) * sizeof(float));
    for (uint32_t t = 0; status == DCT_OK && t < r->n; t++) {
        const int32_t plain[4] = {(int32_t)(r->o->n_past + t), (int32_t)(r->o->n_past + t), (int32_t)(r->o->n_past + t), 0};
        oracle_rotate(out + (size_t)t * cols_of(r, op->in[0]), &op->p, freq, mscale, r->pos != NULL ? r->pos[t] : plain);
    }
    free(freq);
    return status;
}

/* Rows of this run behind those of earlier ones. */
static void remember(const run *r, history *h, const float *rows, uint32_t cols) {
    uint32_t past = r->o->n_past;
    float *grown = oracle_alloc((size_t)(past + r->n) * cols, sizeof(float));
    if (past > 0) memcpy(grown, h->rows, (size_t)past * cols * sizeof(float));
    memcpy(grown + (size_t)past * cols, rows, (size_t)r->n * cols * sizeof(float));
    free(h->rows);
    h->rows = grown;
    h->cols = cols;
}

static const dct_cache *cache_of(const run *r, dct_value_id id) { return &r->g->caches[r->g->values[id].ref]; }

static void do_kv_store(const run *r, const dct_op *op) {
    remember(r, &r->o->k[cache_of(r, op->in[2])->layer], in(r, op, 0), cols_of(r, op->in[0]));
    remember(r, &r->o->v[cache_of(r, op->in[3])->layer], in(r, op, 1), cols_of(r, op->in[1]));
}

/* One query head over positions [from, upto): the largest score, the sum of exp(score - largest), and the values
 * weighted by those. */
static double attend(const run *r, const dct_op *op, uint32_t t, uint32_t head, uint32_t from, uint32_t upto, double *sum, double *acc) {
    const dct_op_params *p = &op->p;
    const history *k = &r->o->k[cache_of(r, op->in[1])->layer], *v = &r->o->v[cache_of(r, op->in[2])->layer];
    uint32_t kv_head = head / (p->n_head / p->n_head_kv);
    const float *q = in(r, op, 0) + ((size_t)t * p->n_head + head) * p->head_dim;
    double *score = oracle_alloc(upto - from, sizeof *score), largest = -INFINITY;
    for (uint32_t at = from; at < upto; at++) {
        const float *key = k->rows + (size_t)at * k->cols + (size_t)kv_head * p->head_dim;
        double s = 0;
        for (uint32_t d = 0; d < p->head_dim; d++) s += (double)q[d] * (double)key[d];
        s *= (double)p->scale;
        if (p->softcap > 0) s = (double)p->softcap * tanh(s / (double)p->softcap);
        score[at - from] = s;
        largest = fmax(largest, s);
    }
    *sum = 0;
    for (uint32_t d = 0; d < p->head_dim_v; d++) acc[d] = 0;
    for (uint32_t at = from; at < upto; at++) {
        const float *value = v->rows + (size_t)at * v->cols + (size_t)kv_head * p->head_dim_v;
        double e = exp(score[at - from] - largest);
        *sum += e;
        for (uint32_t d = 0; d < p->head_dim_v; d++) acc[d] += e * (double)value[d];
    }
    free(score);
    return largest;
}

/* The first position that row t sees. */
static uint32_t first_seen(const run *r, const dct_op *op, uint32_t t) {
    uint32_t at = r->o->n_past + t;
    return op->p.window != 0 && at + 1 > op->p.window ? at + 1 - op->p.window : 0;
}

static void do_attn(const run *r, const dct_op *op, float *out) {
    const dct_op_params *p = &op->p;
    double *acc = oracle_alloc(p->head_dim_v, sizeof *acc), sum;
    for (uint32_t t = 0; t < r->n; t++) {
        for (uint32_t head = 0; head < p->n_head; head++) {
            attend(r, op, t, head, first_seen(r, op, t), r->o->n_past + t + 1, &sum, acc);
            for (uint32_t d = 0; d < p->head_dim_v; d++) out[((size_t)t * p->n_head + head) * p->head_dim_v + d] = (float)(acc[d] / sum);
        }
    }
    free(acc);
}

/* The same in parts: maximum, sum and accumulator of each 1,024 positions; of those that a row sees nothing of, -inf, 0, 0. */
static void do_attn_part(const run *r, const dct_op *op, float *out) {
    const dct_op_params *p = &op->p;
    double *acc = oracle_alloc(p->head_dim_v, sizeof *acc), sum;
    for (size_t i = 0; i < (size_t)r->n * p->n_head * p->n_part; i++) {
        uint32_t part = (uint32_t)(i % p->n_part), head = (uint32_t)(i / p->n_part % p->n_head), t = (uint32_t)(i / p->n_part / p->n_head);
        uint32_t from = part * DCT_PART_POSITIONS, upto = from + DCT_PART_POSITIONS, seen = first_seen(r, op, t), end = r->o->n_past + t + 1;
        from = from < seen ? seen : from;
        upto = upto > end ? end : upto;
        float *to = out + i * (p->head_dim_v + 2);
        to[0] = -INFINITY;
        if (from >= upto) continue; /* the rest is zero already */
        to[0] = (float)attend(r, op, t, head, from, upto, &sum, acc);
        to[1] = (float)sum;
        for (uint32_t d = 0; d < p->head_dim_v; d++) to[2 + d] = (float)acc[d];
    }
    free(acc);
}

static void do_attn_merge(const run *r, const dct_op *op, float *out) {
    const dct_op_params *p = &op->p;
    uint32_t dv = p->head_dim_v;
    for (size_t i = 0; i < (size_t)r->n * p->n_head; i++) {
        const float *parts = in(r, op, 0) + i * p->n_part * (dv + 2);
        double largest = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < p->n_part; j++) largest = fmax(largest, (double)parts[j * (dv + 2)]);
        for (uint32_t j = 0; j < p->n_part; j++) sum += exp((double)parts[j * (dv + 2)] - largest) * (double)parts[j * (dv + 2) + 1];
        for (uint32_t d = 0; d < dv; d++) {
            double acc = 0;
            for (uint32_t j = 0; j < p->n_part; j++) acc += exp((double)parts[j * (dv + 2)] - largest) * (double)parts[j * (dv + 2) + 2 + d];
            out[i * dv + d] = (float)(acc / sum);
        }
    }
}

static double activate(dct_act act, double x) {
    if (act == DCT_ACT_SILU) return x / (1 + exp(-x));
    return 0.5 * x * (1 + tanh(0.79788456080286535587989211986876 * (x + 0.044715 * x * x * x)));
}

static void do_glu(const run *r, const dct_op *op, float *out) {
    for (size_t i = 0; i < elems_of(r, op->in[0]); i++) out[i] = (float)(activate(op->p.act, (double)in(r, op, 0)[i]) * (double)in(r, op, 1)[i]);
}

static void do_add(const run *r, const dct_op *op, float *out) {
    for (size_t i = 0; i < elems_of(r, op->in[0]); i++) out[i] = in(r, op, 0)[i] + in(r, op, 1)[i];
}

static void do_softcap(const run *r, const dct_op *op, float *out) {
    double cap = (double)op->p.softcap;
    for (size_t i = 0; i < elems_of(r, op->in[0]); i++) out[i] = (float)(cap * tanh((double)in(r, op, 0)[i] / cap));
}

static dct_status do_op(const run *r, const dct_op *op, float *out) {
    switch (op->kind) {
        case DCT_OP_EMBED: return do_embed(r, op, out);
        case DCT_OP_RMS_NORM: return do_norm(r, op, out);
        case DCT_OP_QUANT: memcpy(out, in(r, op, 0), elems_of(r, op->in[0]) * sizeof(float)); return DCT_OK;
        case DCT_OP_LINEAR: return do_linear(r, op, out);
        case DCT_OP_ROPE: return do_rope(r, op, out);
        case DCT_OP_KV_STORE: do_kv_store(r, op); return DCT_OK;
        case DCT_OP_ATTN: do_attn(r, op, out); return DCT_OK;
        case DCT_OP_ATTN_PART: do_attn_part(r, op, out); return DCT_OK;
        case DCT_OP_ATTN_MERGE: do_attn_merge(r, op, out); return DCT_OK;
        case DCT_OP_GLU: do_glu(r, op, out); return DCT_OK;
        case DCT_OP_ADD: do_add(r, op, out); return DCT_OK;
        case DCT_OP_SOFTCAP: do_softcap(r, op, out); return DCT_OK;
        case DCT_OP_LAST_ROW: {
            uint32_t cols = cols_of(r, op->in[0]);
            memcpy(out, in(r, op, 0) + (size_t)(r->n - 1) * cols, cols * sizeof(float));
            return DCT_OK;
        }
        default: return dct_fail(r->err, DCT_BUG, "oracle: op '%s' is not a logical one", dct_op_info_of(op->kind)->name);
    }
}

/* ---- graphs ---- */

/* The last op that reads each value. */
static dct_op_id *last_readers(const dct_graph *g) {
    dct_op_id *last = oracle_alloc(g->n_values, sizeof *last);
    for (dct_op_id id = 0; id < g->n_ops; id++) {
        for (uint32_t i = 0; i < g->ops[id].n_in; i++) {
            if (g->ops[id].in[i] != DCT_NONE) last[g->ops[id].in[i]] = id;
        }
    }
    return last;
}

static dct_status run_ops(run *r, const dct_op_id *last) {
    for (dct_op_id id = 0; id < r->g->n_ops; id++) {
        const dct_op *op = &r->g->ops[id];
        float *out = op->n_out > 0 ? oracle_alloc(elems_of(r, op->out[0]), sizeof(float)) : NULL;
        if (out != NULL) r->values[op->out[0]] = out;
        dct_status status = do_op(r, op, out);
        if (status != DCT_OK) return status;
        for (uint32_t i = 0; i < op->n_in && !r->o->keep; i++) {
            if (op->in[i] == DCT_NONE || last[op->in[i]] != id) continue;
            free(r->values[op->in[i]]);
            r->values[op->in[i]] = NULL;
        }
    }
    return DCT_OK;
}

dct_status oracle_run(oracle *o, const dct_graph *g, const int32_t *ids, const int32_t (*positions)[4], uint32_t n, float *logits, dct_err *err) {
    if (n == 0 || n > g->rows || n > o->n_ctx - o->n_past) return dct_fail(err, DCT_BOUND, "oracle: %u rows at position %u of %u", n, o->n_past, o->n_ctx);
    dct_status status = dct_graph_check(g, err);
    if (status != DCT_OK) return status;
    drop_values(o);
    run r = {.o = o, .g = g, .ids = ids, .pos = positions, .n = n, .err = err};
    o->ran = g;
    o->n_values = g->n_values;
    o->n_rows = n;
    o->values = r.values = oracle_alloc(g->n_values, sizeof *r.values);
    dct_op_id *last = last_readers(g);
    status = run_ops(&r, last);
    free(last);
    if (status != DCT_OK) return status;
    if (g->logits != DCT_NONE && logits != NULL) memcpy(logits, r.values[g->logits], elems_of(&r, g->logits) * sizeof(float));
    o->n_past += n;
    return DCT_OK;
}

dct_status oracle_eval(oracle *o, const int32_t *ids, const int32_t (*positions)[4], uint32_t n, float *logits, dct_err *err) {
    drop_values(o);
    dct_arena_deinit(&o->graph_arena);
    dct_trace_params params = {.kind = DCT_PHASE_PREFILL, .rows = n, .n_ctx = o->n_ctx, .type_k = DCT_TYPE_F32, .type_v = DCT_TYPE_F32,
                               .logits = DCT_LOGITS_ALL};
    dct_status status = dct_arch_trace(o->model, &o->hp, &params, &o->graph_arena, &o->graph, err);
    if (status != DCT_OK) return status;
    return oracle_run(o, &o->graph, ids, positions, n, logits, err);
}

const float *oracle_value(const oracle *o, const char *name, uint32_t *rows, uint32_t *cols) {
    for (uint32_t i = 0; i < o->n_values; i++) {
        const dct_value *v = &o->ran->values[i];
        if (o->values[i] == NULL || strcmp(v->name, name) != 0) continue;
        *rows = v->rows == o->ran->rows ? o->n_rows : v->rows;
        *cols = v->cols;
        return o->values[i];
    }
    return NULL;
}
