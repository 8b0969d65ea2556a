#include "arch/block.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "kernels/kernel.h"

enum { TENSOR_NAME_BYTES = sizeof((dct_weight *)0)->tensor };

void dct_block_fail(dct_tracer *t, const char *format, ...) {
    if (t->g->status != DCT_OK) return;
    char text[300];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->g->status = dct_fail(&t->g->err, DCT_BAD_FILE, "%s", n < 0 ? "" : text);
}

/* Caches and tables hold whole blocks of 16 positions. */
static uint32_t whole_blocks(uint32_t n_ctx) { return (uint32_t)dct_round_up(n_ctx, 16); }
static uint32_t positions(const dct_tracer *t) { return whole_blocks(t->params->n_ctx); }

uint32_t dct_block_table_ctx(const dct_tracer *t) {
    return t->params->table_ctx > t->params->n_ctx ? t->params->table_ctx : t->params->n_ctx;
}

/* ---- tensors ---- */

static void tensor_name(char out[TENSOR_NAME_BYTES], int32_t layer, const char *name, const char *suffix) {
    if (layer >= 0) snprintf(out, TENSOR_NAME_BYTES, "blk.%d.%s.%s", layer, name, suffix);
    else snprintf(out, TENSOR_NAME_BYTES, "%s.%s", name, suffix);
}

static void shape_text(char *out, size_t bytes, const dct_tensor *tensor) {
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->n_dims && i < DCT_MAX_DIMS && used < bytes; i++) {
        int n = snprintf(out + used, bytes - used, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)tensor->ne[i]);
        used += n < 0 ? 0 : (size_t)n;
    }
}

/* The tensor `name` of [k, m]; m = 0 for a vector of k. NULL, and a failed trace, when its shape is another. */
static const dct_tensor *shaped(dct_tracer *t, const char *name, uint64_t k, uint64_t m) {
    char want[48], have[100] = "";
    if (m == 0) snprintf(want, sizeof want, "%llu", (unsigned long long)k);
    else snprintf(want, sizeof want, "%llu, %llu", (unsigned long long)k, (unsigned long long)m);
    const dct_tensor *tensor = dct_model_find_tensor(t->model, name);
    if (tensor == NULL) {
        dct_block_fail(t, "tensor '%s' of [%s] is missing", name, want);
        return NULL;
    }
    if (tensor->ne[0] == k && tensor->ne[1] == (m == 0 ? 1 : m) && tensor->ne[2] == 1 && tensor->ne[3] == 1) return tensor;
    shape_text(have, sizeof have, tensor);
    dct_block_fail(t, "tensor '%s' is [%s], expected [%s]", name, have, want);
    return NULL;
}

/* Rows [begin, begin + n) of the matrix `name` of [k, m], as a weight. */
static dct_value_id matrix_rows(dct_tracer *t, const char *name, uint64_t k, uint64_t m, uint64_t begin, uint64_t n) {
    const dct_tensor *tensor = shaped(t, name, k, m);
    if (tensor == NULL) return DCT_NONE;
    dct_weight w = {.type = tensor->type};
    snprintf(w.tensor, sizeof w.tensor, "%s", name);
    if (k > UINT32_MAX || m > UINT32_MAX || !dct_layout_bytes(tensor->type, n, k, &w.bytes)) {
        dct_block_fail(t, "tensor '%s' of type %s cannot have rows of %llu", name, dct_dtype_name(tensor->type),
                       (unsigned long long)k);
        return DCT_NONE;
    }
    w.row_begin = (uint32_t)begin;
    w.n_rows = (uint32_t)n;
    w.n_cols = (uint32_t)k;
    return dct_graph_weight(t->g, &w);
}

static dct_value_id layer_matrix(dct_tracer *t, int32_t layer, const char *name, uint64_t k, uint64_t m) {
    char full[TENSOR_NAME_BYTES];
    tensor_name(full, layer, name, "weight");
    return matrix_rows(t, full, k, m, 0, m);
}

static dct_value_id vector(dct_tracer *t, int32_t layer, const char *name, const char *suffix, uint64_t n) {
    char full[TENSOR_NAME_BYTES];
    tensor_name(full, layer, name, suffix);
    const dct_tensor *tensor = shaped(t, full, n, 0);
    if (tensor == NULL) return DCT_NONE;
    dct_weight w = {.type = tensor->type, .n_rows = 1, .is_vector = true};
    memcpy(w.tensor, full, sizeof full);
    if (n > UINT32_MAX) {
        dct_block_fail(t, "tensor '%s' is too long", full);
        return DCT_NONE;
    }
    w.n_cols = (uint32_t)n;
    w.bytes = dct_round_up(n * sizeof(float), 64);
    return dct_graph_weight(t->g, &w);
}

/* The bias beside a matrix of m rows: DCT_NONE when the file has none and none is needed. */
static dct_value_id bias(dct_tracer *t, int32_t layer, const char *name, uint64_t m, bool needed) {
    char full[TENSOR_NAME_BYTES];
    tensor_name(full, layer, name, "bias");
    if (!needed && dct_model_find_tensor(t->model, full) == NULL) return DCT_NONE;
    return vector(t, layer, name, "bias", m);
}

const char *dct_block_if_present(const dct_tracer *t, const char *name) {
    return dct_model_find_tensor(t->model, name) != NULL ? name : "";
}

/* ---- what a decoder begins with ---- */

dct_value_id dct_block_embed(dct_tracer *t, float scale) {
    t->g->ids = dct_graph_input_i32(t->g, "ids", t->params->rows, 1);
    t->g->pos = dct_graph_input_i32(t->g, "pos", t->params->rows, 4);
    return dct_trace_embed(t->g, t->g->ids, layer_matrix(t, -1, "token_embd", t->hp->n_embd, t->hp->n_vocab), scale, "embed");
}

dct_rope_table dct_block_rope_table(const dct_tracer *t, const char *factors) {
    const dct_hparams *hp = t->hp;
    dct_rope_table table = {.n_rot = hp->n_rot, .n_ctx = whole_blocks(dct_block_table_ctx(t)), .base = hp->rope_base,
                            .factor = hp->rope_factor, .scaling = hp->rope_scaling, .orig_ctx = hp->rope_orig_ctx,
                            .attn_factor = hp->rope_attn_factor, .ext_factor = hp->yarn_ext_factor,
                            .beta_fast = hp->yarn_beta_fast, .beta_slow = hp->yarn_beta_slow};
    snprintf(table.factors_tensor, sizeof table.factors_tensor, "%s", factors);
    return table;
}

dct_value_id dct_block_rope(dct_tracer *t, const dct_rope_table *table) {
    if (table->n_rot == 0) return DCT_NONE;
    if (table->factors_tensor[0] != '\0' && shaped(t, table->factors_tensor, table->n_rot / 2, 0) == NULL) return DCT_NONE;
    return dct_graph_table(t->g, table);
}

dct_value_id dct_block_norm(dct_tracer *t, dct_value_id x, int32_t layer, const char *name) {
    return dct_trace_rms_norm(t->g, x, vector(t, layer, name, "weight", t->hp->n_embd), t->hp->rms_eps, layer, name);
}

/* ---- attention ---- */

dct_attn_spec dct_block_attn_spec(const dct_tracer *t) {
    return (dct_attn_spec){.table = DCT_NONE, .rope_style = DCT_ROPE_NEOX, .scale = 1.0f / sqrtf((float)t->hp->head_dim_k)};
}

static dct_op_params attn_params(const dct_tracer *t, int32_t layer, const dct_attn_spec *spec) {
    const dct_hparams *hp = t->hp;
    dct_op_params p = {.scale = spec->scale,
                       .softcap = hp->attn_softcap,
                       .n_head = hp->n_head[layer],
                       .n_head_kv = hp->n_head_kv[layer],
                       .head_dim = hp->head_dim_k,
                       .head_dim_v = hp->head_dim_v,
                       .n_rot = hp->n_rot,
                       .rope_style = spec->rope_style,
                       .n_part = (uint32_t)dct_div_up(positions(t), DCT_PART_POSITIONS)};
    p.window = spec->window < t->params->n_ctx ? spec->window : 0; /* a window that never closes is none */
    if (spec->rope_style == DCT_ROPE_MROPE) memcpy(p.sections, hp->rope_sections, sizeof p.sections);
    return p;
}

static dct_value_id cache(dct_tracer *t, int32_t layer, bool is_k, const dct_op_params *p) {
    dct_cache c = {.layer = (uint32_t)layer, .is_k = is_k, .n_head_kv = p->n_head_kv, .n_ctx = positions(t)};
    c.head_dim = is_k ? p->head_dim : p->head_dim_v;
    c.type = is_k ? t->params->type_k : t->params->type_v;
    if (!dct_kv_bytes(c.type, c.n_head_kv, c.head_dim, c.n_ctx, &c.bytes)) {
        if (t->g->status == DCT_OK)
            t->g->status = dct_fail(&t->g->err, DCT_NO_FIT,
                                    "a cache of %u heads of %u elements for %u positions is larger than any memory", c.n_head_kv,
                                    c.head_dim, c.n_ctx);
        return DCT_NONE;
    }
    return dct_graph_cache(t->g, &c);
}

/* The three projections of x, each with its bias if it has one. */
static void project_qkv(dct_tracer *t, dct_value_id x, int32_t layer, const dct_attn_spec *spec, const dct_op_params *p,
                        dct_value_id qkv[3]) {
    static const char *const tensors[3] = {"attn_q", "attn_k", "attn_v"}, *const names[3] = {"q", "k", "v"};
    uint64_t k = t->hp->n_embd, total = 0, begin = 0;
    uint64_t m[3] = {(uint64_t)p->n_head * p->head_dim, (uint64_t)p->n_head_kv * p->head_dim,
                     (uint64_t)p->n_head_kv * p->head_dim_v};
    char fused[TENSOR_NAME_BYTES];
    tensor_name(fused, layer, "attn_qkv", "weight");
    for (int i = 0; i < 3; i++) total += m[i];
    for (int i = 0; i < 3; i++) {
        dct_value_id w = spec->fused_qkv ? matrix_rows(t, fused, k, total, begin, m[i])
                                         : layer_matrix(t, layer, tensors[i], k, m[i]);
        dct_value_id b = spec->fused_qkv ? DCT_NONE : bias(t, layer, tensors[i], m[i], spec->needs_bias);
        qkv[i] = dct_trace_linear(t->g, x, w, b, layer, names[i]);
        begin += m[i];
    }
}

static dct_value_id rotate(dct_tracer *t, dct_value_id x, int32_t layer, const dct_attn_spec *spec, const dct_op_params *p,
                           uint32_t n_head, const char *name) {
    if (spec->table == DCT_NONE) return x;
    dct_op_params of_x = *p;
    of_x.n_head = n_head;
    return dct_trace_rope(t->g, x, spec->table, &of_x, layer, name);
}

dct_value_id dct_block_attention(dct_tracer *t, dct_value_id x, int32_t layer, const dct_attn_spec *spec) {
    dct_op_params p = attn_params(t, layer, spec);
    dct_value_id qkv[3];
    project_qkv(t, x, layer, spec, &p, qkv);
    dct_value_id q = qkv[0], k = qkv[1], v = qkv[2];
    if (spec->head_norms) {
        q = dct_trace_rms_norm(t->g, q, vector(t, layer, "attn_q_norm", "weight", p.head_dim), t->hp->rms_eps, layer, "q_norm");
        k = dct_trace_rms_norm(t->g, k, vector(t, layer, "attn_k_norm", "weight", p.head_dim), t->hp->rms_eps, layer, "k_norm");
    }
    q = rotate(t, q, layer, spec, &p, p.n_head, "q_rope");
    k = rotate(t, k, layer, spec, &p, p.n_head_kv, "k_rope");
    dct_value_id kc = cache(t, layer, true, &p), vc = cache(t, layer, false, &p);
    dct_trace_kv_store(t->g, k, v, kc, vc, &p, layer);
    dct_value_id heads = dct_trace_attn(t->g, q, kc, vc, &p, t->params->kind == DCT_PHASE_DECODE, layer, "attn");
    dct_value_id wo = layer_matrix(t, layer, "attn_output", (uint64_t)p.n_head * p.head_dim_v, t->hp->n_embd);
    return dct_trace_linear(t->g, heads, wo, bias(t, layer, "attn_output", t->hp->n_embd, false), layer, "attn_out");
}

/* ---- feed-forward and head ---- */

dct_value_id dct_block_ffn(dct_tracer *t, dct_value_id x, int32_t layer, dct_act act, bool fused) {
    uint64_t k = t->hp->n_embd, m = t->hp->n_ff[layer];
    dct_value_id gate, up;
    if (fused) {
        char name[TENSOR_NAME_BYTES];
        tensor_name(name, layer, "ffn_up", "weight");
        gate = dct_trace_linear(t->g, x, matrix_rows(t, name, k, 2 * m, 0, m), DCT_NONE, layer, "gate");
        up = dct_trace_linear(t->g, x, matrix_rows(t, name, k, 2 * m, m, m), DCT_NONE, layer, "up");
    } else {
        gate = dct_trace_linear(t->g, x, layer_matrix(t, layer, "ffn_gate", k, m), bias(t, layer, "ffn_gate", m, false), layer,
                                "gate");
        up = dct_trace_linear(t->g, x, layer_matrix(t, layer, "ffn_up", k, m), bias(t, layer, "ffn_up", m, false), layer, "up");
    }
    dct_value_id both = dct_trace_glu(t->g, gate, up, act, layer, "glu");
    return dct_trace_linear(t->g, both, layer_matrix(t, layer, "ffn_down", m, k), bias(t, layer, "ffn_down", k, false), layer,
                            "ffn_out");
}

void dct_block_head(dct_tracer *t, dct_value_id x) {
    const dct_hparams *hp = t->hp;
    if (t->params->logits == DCT_LOGITS_NONE) return;
    if (t->params->logits == DCT_LOGITS_LAST && t->params->rows > 1) x = dct_trace_last_row(t->g, x, "last");
    x = dct_block_norm(t, x, -1, "output_norm");
    bool tied = dct_model_find_tensor(t->model, "output.weight") == NULL;
    dct_value_id w = layer_matrix(t, -1, tied ? "token_embd" : "output", hp->n_embd, hp->n_vocab);
    dct_value_id b = bias(t, -1, "output", hp->n_vocab, false);
    bool capped = hp->final_softcap > 0;
    dct_value_id logits = dct_trace_linear(t->g, x, w, b, -1, capped ? "logits_uncapped" : "logits");
    if (capped) logits = dct_trace_softcap(t->g, logits, hp->final_softcap, "logits");
    dct_graph_output(t->g, logits);
}

void dct_block_decoder(dct_tracer *t, dct_value_id x, const dct_attn_spec *spec, bool fused_ffn) {
    for (int32_t il = 0; il < (int32_t)t->hp->n_layer; il++) {
        dct_value_id h = dct_block_norm(t, x, il, "attn_norm");
        x = dct_trace_add(t->g, x, dct_block_attention(t, h, il, spec), il, "ffn_in");
        h = dct_block_norm(t, x, il, "ffn_norm");
        x = dct_trace_add(t->g, x, dct_block_ffn(t, h, il, DCT_ACT_SILU, fused_ffn), il, "out");
    }
    dct_block_head(t, x);
}
