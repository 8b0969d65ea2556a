/* ir/shape: what ops.def says of each kind of op, fused ones as well: what lies in its inputs and outputs, which rows and
 * columns. Ids are in range here: check.c saw to that. */
#include "base/size.h"
#include "ir/check.h"
#include "kernels/kv.h"

/* ---- what an input or output must be; the generic pass has checked that ids are in range ---- */

static bool has_in(const dct_subject *s, uint32_t i) { return i < s->op->n_in && s->op->in[i] != DCT_NONE; }
static bool has_out(const dct_subject *s, uint32_t i) { return i < s->op->n_out && s->op->out[i] != DCT_NONE; }

static dct_status shape_is(const dct_subject *s, const char *what, uint32_t i, dct_value_id id, dct_format format, uint64_t rows,
                           uint64_t cols) {
    const dct_value *v = &s->g->values[id];
    if (v->format != format)
        return dct_op_refuse(s, "%s %u '%s' has format %d, expected %d", what, i, v->name, (int)v->format, (int)format);
    if (v->rows != rows || v->cols != cols) {
        return dct_op_refuse(s, "%s %u '%s' is [%u, %u], expected [%llu, %llu]", what, i, v->name, v->rows, v->cols,
                             (unsigned long long)rows, (unsigned long long)cols);
    }
    return DCT_OK;
}

static dct_status in_is(const dct_subject *s, uint32_t i, dct_format format, uint64_t rows, uint64_t cols) {
    if (!has_in(s, i)) return dct_op_refuse(s, "input %u is absent", i);
    return shape_is(s, "input", i, s->op->in[i], format, rows, cols);
}

static dct_status out_is(const dct_subject *s, uint32_t i, dct_format format, uint64_t rows, uint64_t cols) {
    if (!has_out(s, i)) return dct_op_refuse(s, "output %u is absent", i);
    return shape_is(s, "output", i, s->op->out[i], format, rows, cols);
}

/* Input i, of whatever shape. */
static dct_status in_any(const dct_subject *s, uint32_t i, dct_format format, const dct_value **v) {
    if (!has_in(s, i)) return dct_op_refuse(s, "input %u is absent", i);
    *v = &s->g->values[s->op->in[i]];
    if ((*v)->format != format)
        return dct_op_refuse(s, "input %u '%s' has format %d, expected %d", i, (*v)->name, (int)(*v)->format, (int)format);
    return DCT_OK;
}

static dct_status in_matrix(const dct_subject *s, uint32_t i, const dct_weight **w) {
    const dct_value *v;
    TRY(in_any(s, i, DCT_FMT_WEIGHT, &v));
    *w = &s->g->weights[v->ref];
    return DCT_OK;
}

/* A vector of n floats: a norm or a bias. */
static dct_status in_vector(const dct_subject *s, uint32_t i, uint64_t n) {
    TRY(in_is(s, i, DCT_FMT_F32, 1, n));
    if (s->g->values[s->op->in[i]].kind != DCT_KIND_WEIGHT) return dct_op_refuse(s, "input %u is not a weight", i);
    return DCT_OK;
}

static dct_status in_bias(const dct_subject *s, uint32_t i, uint64_t n) { return has_in(s, i) ? in_vector(s, i, n) : DCT_OK; }

static dct_status in_cache(const dct_subject *s, uint32_t i, bool is_k, const dct_cache **cache) {
    const dct_value *v;
    TRY(in_any(s, i, DCT_FMT_KV, &v));
    const dct_cache *c = &s->g->caches[v->ref];
    uint32_t dim = is_k ? s->op->p.head_dim : s->op->p.head_dim_v;
    if (c->is_k != is_k) return dct_op_refuse(s, "input %u '%s' is the wrong one of K and V", i, v->name);
    if (c->n_head_kv != s->op->p.n_head_kv || c->head_dim != dim) {
        return dct_op_refuse(s, "input %u '%s' holds %u heads of %u, expected %u of %u", i, v->name, c->n_head_kv, c->head_dim,
                             s->op->p.n_head_kv, dim);
    }
    *cache = c;
    return DCT_OK;
}

/* What QUANT makes blocks of. */
static dct_status has_whole_blocks(const dct_subject *s, const dct_value *x) {
    return x->cols % 32 == 0 ? DCT_OK : dct_op_refuse(s, "%u columns are not whole blocks of 32", x->cols);
}

static dct_status has_act(const dct_subject *s) {
    return s->op->p.act <= DCT_ACT_SIGMOID ? DCT_OK : dct_op_refuse(s, "activation %d is unknown", (int)s->op->p.act);
}

/* Ops that speak of the run's n rows at pos0 (caches, the last row) must be given as many as the phase has: n is at most that. */
static dct_status in_all_rows(const dct_subject *s, uint32_t i, const dct_value **v) {
    TRY(in_any(s, i, DCT_FMT_F32, v));
    if ((*v)->rows != s->g->rows || (*v)->row_mul != 1 || (*v)->row_div != 1)
        return dct_op_refuse(s, "input %u '%s' has %u rows, the phase has %u", i, (*v)->name, (*v)->rows, s->g->rows);
    return DCT_OK;
}

/* ---- the rules, one function a kind or family of kinds ---- */

static dct_status check_embed(const dct_subject *s) {
    const dct_value *ids;
    const dct_weight *w;
    TRY(in_any(s, 0, DCT_FMT_I32, &ids));
    TRY(in_matrix(s, 1, &w));
    TRY(in_is(s, 0, DCT_FMT_I32, s->g->rows, 1));
    if (ids->kind != DCT_KIND_INPUT)
        return dct_op_refuse(s, "'%s' is no input: nobody sees to it that its ids have rows", ids->name);
    return out_is(s, 0, DCT_FMT_F32, ids->rows, w->n_cols);
}

/* RMS_NORM and NORM_QUANT. */
static dct_status check_norm(const dct_subject *s, dct_format out_format) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    uint32_t group = s->op->p.group;
    if (group == 0 || x->cols % group != 0) return dct_op_refuse(s, "groups of %u do not divide %u columns", group, x->cols);
    if (out_format == DCT_FMT_Q8) TRY(has_whole_blocks(s, x));
    TRY(in_vector(s, 1, group));
    return out_is(s, 0, out_format, x->rows, x->cols);
}

static dct_status check_quant(const dct_subject *s) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    TRY(has_whole_blocks(s, x));
    return out_is(s, 0, DCT_FMT_Q8, x->rows, x->cols);
}

/* x of input 0 against the matrix of input i: the format that its type takes, its columns. */
static dct_status check_factor(const dct_subject *s, uint32_t i, const dct_weight **w, uint32_t *rows) {
    TRY(in_matrix(s, i, w));
    if (!has_in(s, 0)) return dct_op_refuse(s, "input 0 is absent");
    *rows = s->g->values[s->op->in[0]].rows;
    return in_is(s, 0, dct_dtype_is_float((*w)->type) ? DCT_FMT_F32 : DCT_FMT_Q8, *rows, (*w)->n_cols);
}

static dct_status check_linear(const dct_subject *s) {
    const dct_weight *w;
    uint32_t rows;
    TRY(check_factor(s, 1, &w, &rows));
    TRY(in_bias(s, 2, w->n_rows));
    return out_is(s, 0, DCT_FMT_F32, rows, w->n_rows);
}

static dct_status check_linear_multi(const dct_subject *s) {
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 2 && !has_in(s, 3) && !has_out(s, 2) && !has_in(s, 6)) break;
        const dct_weight *w;
        uint32_t rows;
        TRY(check_factor(s, 1 + i, &w, &rows));
        TRY(in_bias(s, 4 + i, w->n_rows));
        TRY(out_is(s, i, DCT_FMT_F32, rows, w->n_rows));
    }
    return DCT_OK;
}

static dct_status check_linear_add(const dct_subject *s) {
    const dct_weight *w;
    uint32_t rows;
    TRY(check_factor(s, 1, &w, &rows));
    TRY(in_is(s, 2, DCT_FMT_F32, rows, w->n_rows));
    TRY(in_bias(s, 3, w->n_rows));
    return out_is(s, 0, DCT_FMT_F32, rows, w->n_rows);
}

static dct_status check_linear_glu(const dct_subject *s) {
    const dct_weight *gate, *up;
    uint32_t rows;
    TRY(check_factor(s, 1, &gate, &rows));
    TRY(check_factor(s, 2, &up, &rows));
    if (gate->n_rows != up->n_rows) return dct_op_refuse(s, "gate has %u rows, up has %u", gate->n_rows, up->n_rows);
    TRY(has_act(s));
    return out_is(s, 0, DCT_FMT_F32, rows, gate->n_rows);
}

/* The table (input i) and the positions (input i + 1) of a rotation. */
static dct_status check_rotation(const dct_subject *s, uint32_t i, uint32_t rows) {
    const dct_op_params *p = &s->op->p;
    const dct_value *table;
    TRY(in_any(s, i, DCT_FMT_F32, &table));
    if (table->kind != DCT_KIND_PERSISTENT) return dct_op_refuse(s, "input %u '%s' is not a rotary table", i, table->name);
    if (p->n_rot == 0 || p->n_rot % 2 != 0 || p->n_rot > p->head_dim)
        return dct_op_refuse(s, "rotates %u of %u elements", p->n_rot, p->head_dim);
    if (table->cols != p->n_rot)
        return dct_op_refuse(s, "table '%s' is for %u elements, expected %u", table->name, table->cols, p->n_rot);
    if (p->rope_style > DCT_ROPE_MROPE) return dct_op_refuse(s, "rotation style %d is unknown", (int)p->rope_style);
    for (int k = 0; k < 4; k++) {
        if (p->sections[k] < 0) return dct_op_refuse(s, "section %d is negative", k);
    }
    return in_is(s, i + 1, DCT_FMT_I32, rows, 4);
}

static dct_status check_rope(const dct_subject *s) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    TRY(in_is(s, 0, DCT_FMT_F32, x->rows, (uint64_t)s->op->p.n_head * s->op->p.head_dim));
    TRY(check_rotation(s, 1, x->rows));
    return out_is(s, 0, DCT_FMT_F32, x->rows, x->cols);
}

/* k (input i), v (input i + 1) of `rows` rows and the two caches (from input c) that they go to. */
static dct_status check_store(const dct_subject *s, uint32_t i, uint32_t c, uint32_t rows) {
    const dct_op_params *p = &s->op->p;
    const dct_cache *kc, *vc;
    TRY(in_is(s, i, DCT_FMT_F32, rows, (uint64_t)p->n_head_kv * p->head_dim));
    TRY(in_is(s, i + 1, DCT_FMT_F32, rows, (uint64_t)p->n_head_kv * p->head_dim_v));
    TRY(in_cache(s, c, true, &kc));
    TRY(in_cache(s, c + 1, false, &vc));
    if (kc->n_ctx != vc->n_ctx || kc->layer != vc->layer) return dct_op_refuse(s, "K and V caches do not belong together");
    return DCT_OK;
}

static dct_status check_kv_store(const dct_subject *s) {
    const dct_value *k;
    TRY(in_all_rows(s, 0, &k));
    return check_store(s, 0, 2, k->rows);
}

static dct_status check_rope_kv(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *q;
    TRY(in_all_rows(s, 0, &q));
    TRY(in_is(s, 0, DCT_FMT_F32, q->rows, (uint64_t)p->n_head * p->head_dim));
    TRY(check_store(s, 1, 5, q->rows));
    TRY(check_rotation(s, 3, q->rows));
    TRY(in_bias(s, 7, p->head_dim));
    TRY(in_bias(s, 8, p->head_dim));
    return out_is(s, 0, DCT_FMT_F32, q->rows, q->cols);
}

static dct_status check_heads(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    if (p->n_head == 0 || p->n_head_kv == 0 || p->n_head % p->n_head_kv != 0) {
        return dct_op_refuse(s, "%u query heads do not share %u key heads evenly", p->n_head, p->n_head_kv);
    }
    if (p->head_dim == 0 || p->head_dim_v == 0)
        return dct_op_refuse(s, "heads of %u and %u elements", p->head_dim, p->head_dim_v);
    return DCT_OK;
}

/* Columns of the partials of a row: (maximum, sum, accumulator) a part and head. Cannot overflow once n_part was bounded
 * by a cache, but is compared with u32 columns in any case. */
static uint64_t part_cols(const dct_op_params *p) {
    uint64_t cols;
    if (!dct_mul_u64((uint64_t)p->n_head * p->n_part, (uint64_t)p->head_dim_v + 2, &cols)) return UINT64_MAX;
    return cols;
}

static dct_status check_attn(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *q;
    const dct_cache *kc, *vc;
    TRY(check_heads(s));
    TRY(in_all_rows(s, 0, &q));
    TRY(in_is(s, 0, DCT_FMT_F32, q->rows, (uint64_t)p->n_head * p->head_dim));
    TRY(in_cache(s, 1, true, &kc));
    TRY(in_cache(s, 2, false, &vc));
    if (kc->n_ctx != vc->n_ctx) return dct_op_refuse(s, "K and V caches hold %u and %u positions", kc->n_ctx, vc->n_ctx);
    if (s->op->kind == DCT_OP_ATTN) return out_is(s, 0, DCT_FMT_F32, q->rows, (uint64_t)p->n_head * p->head_dim_v);
    if (p->n_part != dct_div_up(kc->n_ctx, DCT_PART_POSITIONS))
        return dct_op_refuse(s, "%u parts for %u positions", p->n_part, kc->n_ctx);
    return out_is(s, 0, DCT_FMT_F32, q->rows, part_cols(p));
}

static dct_status check_attn_merge(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *parts;
    TRY(check_heads(s));
    TRY(in_all_rows(s, 0, &parts));
    TRY(in_is(s, 0, DCT_FMT_F32, parts->rows, part_cols(p)));
    return out_is(s, 0, DCT_FMT_F32, parts->rows, (uint64_t)p->n_head * p->head_dim_v);
}

/* GLU, ADD and MUL: two of one shape make a third. */
static dct_status check_pair(const dct_subject *s) {
    const dct_value *a;
    TRY(in_any(s, 0, DCT_FMT_F32, &a));
    TRY(in_is(s, 1, DCT_FMT_F32, a->rows, a->cols));
    if (s->op->kind == DCT_OP_GLU) TRY(has_act(s));
    return out_is(s, 0, DCT_FMT_F32, a->rows, a->cols);
}

static dct_status check_last_row(const dct_subject *s) {
    const dct_value *x;
    TRY(in_all_rows(s, 0, &x));
    return out_is(s, 0, DCT_FMT_F32, 1, x->cols);
}

static dct_status check_softcap(const dct_subject *s) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    if (!(s->op->p.softcap > 0)) return dct_op_refuse(s, "cap %g is not positive", (double)s->op->p.softcap);
    return out_is(s, 0, DCT_FMT_F32, x->rows, x->cols);
}

/* ---- ops that only graphs of one's own use ---- */

static dct_status check_layer_norm(const dct_subject *s) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    TRY(in_vector(s, 1, x->cols));
    TRY(in_vector(s, 2, x->cols));
    return out_is(s, 0, DCT_FMT_F32, x->rows, x->cols);
}

static dct_status check_act(const dct_subject *s) {
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    TRY(has_act(s));
    return out_is(s, 0, DCT_FMT_F32, x->rows, x->cols);
}

/* Rows for experts stand beside one another by chance of the routing: they are no sequence to slide a window over. */
static dct_status check_window(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *x;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    if (p->width == 0 || p->stride == 0 || p->pad >= p->width)
        return dct_op_refuse(s, "width %u, stride %u, pad %u make no window", p->width, p->stride, p->pad);
    if (x->row_mul != 1) return dct_op_refuse(s, "'%s' has %u rows for one: no sequence", x->name, x->row_mul);
    TRY(out_is(s, 0, DCT_FMT_F32, dct_div_up(x->rows, p->stride), (uint64_t)x->cols * p->width));
    const dct_value *out = &s->g->values[s->op->out[0]];
    if (out->row_mul == 1 && out->row_div == (uint64_t)x->row_div * p->stride) return DCT_OK;
    return dct_op_refuse(s, "output '%s' has %u of %u rows of a run", out->name, out->row_mul, out->row_div);
}

static dct_status check_kv_rows(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *k;
    TRY(check_heads(s));
    TRY(in_any(s, 0, DCT_FMT_F32, &k));
    TRY(in_is(s, 0, DCT_FMT_F32, k->rows, (uint64_t)p->n_head_kv * p->head_dim));
    TRY(in_is(s, 1, DCT_FMT_F32, k->rows, (uint64_t)p->n_head_kv * p->head_dim_v));
    TRY(out_is(s, 0, DCT_FMT_KV_ROWS, dct_kv_round(k->rows), (uint64_t)p->n_head_kv * p->head_dim));
    return out_is(s, 1, DCT_FMT_KV_ROWS, dct_kv_round(k->rows), (uint64_t)p->n_head_kv * p->head_dim_v);
}

/* K and V of one KV_ROWS, so that they have the same rows in every run; q may have others, unless it looks back from its own. */
static dct_status check_attn_rows(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *q, *k, *v;
    TRY(check_heads(s));
    TRY(in_any(s, 0, DCT_FMT_F32, &q));
    TRY(in_any(s, 1, DCT_FMT_KV_ROWS, &k));
    TRY(in_any(s, 2, DCT_FMT_KV_ROWS, &v));
    if (k->producer != v->producer || k == v) return dct_op_refuse(s, "'%s' and '%s' do not belong together", k->name, v->name);
    TRY(in_is(s, 0, DCT_FMT_F32, q->rows, (uint64_t)p->n_head * p->head_dim));
    TRY(in_is(s, 1, DCT_FMT_KV_ROWS, k->rows, (uint64_t)p->n_head_kv * p->head_dim));
    TRY(in_is(s, 2, DCT_FMT_KV_ROWS, k->rows, (uint64_t)p->n_head_kv * p->head_dim_v));
    if (p->causal && (dct_kv_round(q->rows) != k->rows || !dct_value_rows_alike(q, k)))
        return dct_op_refuse(s, "causal, but '%s' has other rows than the keys", q->name);
    return out_is(s, 0, DCT_FMT_F32, q->rows, (uint64_t)p->n_head * p->head_dim_v);
}

static dct_status check_route(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *scores;
    TRY(in_any(s, 0, DCT_FMT_F32, &scores));
    if (p->n_used == 0 || p->n_used > p->n_expert) return dct_op_refuse(s, "%u of %u experts", p->n_used, p->n_expert);
    TRY(in_is(s, 0, DCT_FMT_F32, scores->rows, p->n_expert));
    TRY(out_is(s, 0, DCT_FMT_I32, scores->rows, p->n_used));
    return out_is(s, 1, DCT_FMT_F32, scores->rows, p->n_used);
}

/* The ids come from ROUTE for as many experts, so that none lies outside W whatever the data. */
static dct_status check_routed(const dct_subject *s, uint32_t i, const dct_value **ids) {
    const dct_op_params *p = &s->op->p;
    TRY(in_any(s, i, DCT_FMT_I32, ids));
    const dct_op *route = (*ids)->producer < s->g->n_ops ? &s->g->ops[(*ids)->producer] : NULL;
    if (route == NULL || route->kind != DCT_OP_ROUTE || route->p.n_expert != p->n_expert || route->p.n_used != p->n_used)
        return dct_op_refuse(s, "input %u '%s' does not choose %u of %u experts", i, (*ids)->name, p->n_used, p->n_expert);
    return in_is(s, i, DCT_FMT_I32, (*ids)->rows, p->n_used);
}

/* A row for each choice of a row, in every run. */
static bool is_row_a_choice(const dct_value *x, const dct_value *ids, uint32_t n_used) {
    return x->rows == (uint64_t)ids->rows * n_used && x->row_mul == (uint64_t)ids->row_mul * n_used && x->row_div == ids->row_div;
}

static dct_status check_experts(const dct_subject *s) {
    const dct_op_params *p = &s->op->p;
    const dct_value *ids, *x;
    const dct_weight *w;
    uint32_t rows;
    TRY(check_routed(s, 1, &ids));
    TRY(check_factor(s, 2, &w, &rows));
    x = &s->g->values[s->op->in[0]];
    bool is_row_each = x->rows == ids->rows && dct_value_rows_alike(x, ids);
    if (!is_row_each && !is_row_a_choice(x, ids, p->n_used))
        return dct_op_refuse(s,
                             "'%s' of %u rows has neither a row for each of the %u rows routed nor one for each of their choices",
                             x->name, x->rows, ids->rows);
    if (w->n_rows % ((uint64_t)p->n_expert * DCT_TILE_ROWS) != 0)
        return dct_op_refuse(s, "%u rows of '%s' are not %u experts of whole tiles of %d rows", w->n_rows, w->tensor, p->n_expert,
                             DCT_TILE_ROWS);
    TRY(out_is(s, 0, DCT_FMT_F32, (uint64_t)ids->rows * p->n_used, w->n_rows / p->n_expert));
    const dct_value *out = &s->g->values[s->op->out[0]];
    return is_row_a_choice(out, ids, p->n_used) ? DCT_OK : dct_op_refuse(s, "output '%s' has other rows in a run", out->name);
}

static dct_status check_mix(const dct_subject *s) {
    const dct_value *x = NULL, *w = NULL;
    TRY(in_any(s, 0, DCT_FMT_F32, &x));
    TRY(in_any(s, 1, DCT_FMT_F32, &w));
    if (s->op->p.group == 0 || !is_row_a_choice(x, w, s->op->p.group))
        return dct_op_refuse(s, "'%s' of %u rows is not %u rows for each of the %u of '%s'", x->name, x->rows, s->op->p.group,
                             w->rows, w->name);
    TRY(in_is(s, 1, DCT_FMT_F32, w->rows, s->op->p.group));
    TRY(out_is(s, 0, DCT_FMT_F32, w->rows, x->cols));
    const dct_value *out = &s->g->values[s->op->out[0]];
    if (dct_value_rows_alike(out, w)) return DCT_OK;
    return dct_op_refuse(s, "output '%s' has other rows in a run", out->name);
}

dct_status dct_op_check_shapes(const dct_subject *s) {
    switch (s->op->kind) {
        case DCT_OP_EMBED: return check_embed(s);
        case DCT_OP_RMS_NORM: return check_norm(s, DCT_FMT_F32);
        case DCT_OP_NORM_QUANT: return check_norm(s, DCT_FMT_Q8);
        case DCT_OP_QUANT: return check_quant(s);
        case DCT_OP_LINEAR: return check_linear(s);
        case DCT_OP_LINEAR_MULTI: return check_linear_multi(s);
        case DCT_OP_LINEAR_ADD: return check_linear_add(s);
        case DCT_OP_LINEAR_GLU: return check_linear_glu(s);
        case DCT_OP_ROPE: return check_rope(s);
        case DCT_OP_KV_STORE: return check_kv_store(s);
        case DCT_OP_ROPE_KV: return check_rope_kv(s);
        case DCT_OP_ATTN:
        case DCT_OP_ATTN_PART: return check_attn(s);
        case DCT_OP_ATTN_MERGE: return check_attn_merge(s);
        case DCT_OP_GLU:
        case DCT_OP_MUL:
        case DCT_OP_ADD: return check_pair(s);
        case DCT_OP_LAST_ROW: return check_last_row(s);
        case DCT_OP_SOFTCAP: return check_softcap(s);
        case DCT_OP_LAYER_NORM: return check_layer_norm(s);
        case DCT_OP_ACT: return check_act(s);
        case DCT_OP_WINDOW: return check_window(s);
        case DCT_OP_KV_ROWS: return check_kv_rows(s);
        case DCT_OP_ATTN_ROWS: return check_attn_rows(s);
        case DCT_OP_ROUTE: return check_route(s);
        case DCT_OP_EXPERTS: return check_experts(s);
        case DCT_OP_MIX: return check_mix(s);
        case DCT_OP_COUNT: break;
    }
    return dct_op_refuse(s, "unknown kind %d", (int)s->op->kind);
}
