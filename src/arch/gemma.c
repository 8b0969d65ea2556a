/* arch/gemma: Gemma 2 and the text side of Gemma 3.
 *
 *     x = embed(ids) * sqrt(n_embd)
 *     each layer:  x = x + post_norm(attention(norm(x)))      most layers see a window only
 *                  x = x + post_norm(down(gelu(gate h) * up h)),  h = norm(x)
 *     logits = head(norm(x))
 *
 * Gemma 2 caps the scores of attention and the logits by a tanh; every second layer, from the first, has the window. Gemma 3
 * norms each head of q and k instead of capping; five of six layers have the window, and those rotate by a table of their own
 * (base 10,000, not stretched), while the sixth uses the base and factor of the file.
 */
#include <math.h>
#include <stdio.h>

#include "arch/family.h"

/* Values that the format leaves out when they are these. */
enum { GEMMA2_WINDOW = 4096, GEMMA2_PATTERN = 2, GEMMA3_PATTERN = 6, GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };
static const float gemma2_attn_softcap = 50.0f, gemma2_final_softcap = 30.0f, gemma3_base = 1e6f, gemma3_local_base = 10000.0f;

static bool has_key(const dct_model *model, const dct_hparams *hp, const char *name) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", hp->arch, name);
    return dct_model_find_meta(model, key) != NULL;
}

dct_status dct_adjust_gemma2(const dct_model *model, dct_hparams *hp, dct_err *err) {
    (void)err;
    if (!has_key(model, hp, "attn_logit_softcapping")) hp->attn_softcap = gemma2_attn_softcap;
    if (!has_key(model, hp, "final_logit_softcapping")) hp->final_softcap = gemma2_final_softcap;
    if (!has_key(model, hp, "attention.sliding_window")) hp->sliding_window = GEMMA2_WINDOW;
    return DCT_OK;
}

/* A base of rotation, under the name that it has elsewhere or that of Ollama's converter; *base stays when there is neither. */
static dct_status read_base(const dct_model *model, const dct_hparams *hp, const char *name, const char *other, float *base,
                            dct_err *err) {
    char key[96];
    bool found;
    snprintf(key, sizeof key, "%s.rope.%s", hp->arch, name);
    dct_status status = dct_model_get_f32(model, key, base, &found, err);
    if (status == DCT_OK && !found) {
        snprintf(key, sizeof key, "%s.rope.%s", hp->arch, other);
        status = dct_model_get_f32(model, key, base, &found, err);
    }
    if (status != DCT_OK || (*base > 0 && isfinite(*base))) return status;
    return dct_fail(err, DCT_BAD_FILE, "%s is %g", key, (double)*base);
}

dct_status dct_adjust_gemma3(const dct_model *model, dct_hparams *hp, dct_err *err) {
    hp->rope_base = gemma3_base;
    return read_base(model, hp, "freq_base", "global.freq_base", &hp->rope_base, err);
}

/* Layers pattern-1, 2*pattern-1, ... see everything, the others a window. A pattern of 0 has the window everywhere. */
static bool is_global(uint32_t pattern, int32_t layer) {
    return pattern != 0 && (uint32_t)layer % pattern == pattern - 1;
}

/* Which layers have the window: a number, or a list of all layers, which must come to the family's own. */
static uint32_t pattern_of(dct_tracer *t, uint32_t fallback) {
    char key[96];
    uint32_t pattern = fallback;
    bool found;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", t->hp->arch);
    const dct_meta *list = dct_model_find_meta(t->model, key);
    if (list == NULL || list->type != DCT_META_ARRAY) {
        if (dct_model_get_u32(t->model, key, &pattern, &found, &t->g->err) != DCT_OK) t->g->status = DCT_BAD_FILE;
        return pattern;
    }
    int64_t has_window;
    bool same = list->array.type == DCT_META_BOOL && list->array.n >= t->hp->n_layer;
    for (uint32_t i = 0; same && i < t->hp->n_layer; i++)
        same = dct_meta_array_i64(t->model, list, i, &has_window) && (has_window == 0) == is_global(pattern, (int32_t)i);
    if (!same) dct_block_fail(t, "%s is not the window of all layers but every %uth", key, pattern);
    return pattern;
}

static float local_base_of(dct_tracer *t) {
    float base = gemma3_local_base;
    dct_status status = read_base(t->model, t->hp, "freq_base_swa", "local.freq_base", &base, &t->g->err);
    if (status != DCT_OK) t->g->status = status;
    return base;
}

/* The 27B models scale scores by the width that each head would have if heads split the embedding, not by their own. */
static float score_scale(const dct_hparams *hp, uint32_t layers_of_27b) {
    float width = hp->n_layer == layers_of_27b ? (float)(hp->n_embd / hp->n_head[0]) : (float)hp->head_dim_k;
    return 1.0f / sqrtf(width);
}

static void trace_gemma(dct_tracer *t, const dct_attn_spec *local, const dct_attn_spec *global, uint32_t pattern,
                        dct_value_id x) {
    for (int32_t il = 0; il < (int32_t)t->hp->n_layer; il++) {
        const dct_attn_spec *attn = is_global(pattern, il) ? global : local;
        dct_value_id h = dct_block_norm(t, x, il, "attn_norm");
        h = dct_block_norm(t, dct_block_attention(t, h, il, attn), il, "post_attention_norm");
        x = dct_trace_add(t->g, x, h, il, "ffn_in");
        h = dct_block_norm(t, x, il, "ffn_norm");
        h = dct_block_norm(t, dct_block_ffn(t, h, il, DCT_ACT_GELU_TANH, false), il, "post_ffw_norm");
        x = dct_trace_add(t->g, x, h, il, "out");
    }
    dct_block_head(t, x);
}

void dct_trace_gemma2(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, sqrtf((float)t->hp->n_embd));
    dct_rope_table table = dct_block_rope_table(t, "");
    dct_attn_spec global = dct_block_attn_spec(t);
    global.table = dct_block_rope(t, &table);
    global.scale = score_scale(t->hp, GEMMA2_27B_LAYERS);
    dct_attn_spec local = global;
    local.window = t->hp->sliding_window;
    trace_gemma(t, &local, &global, pattern_of(t, GEMMA2_PATTERN), x);
}

void dct_trace_gemma3(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, sqrtf((float)t->hp->n_embd));
    dct_rope_table table = dct_block_rope_table(t, "");
    dct_attn_spec global = dct_block_attn_spec(t);
    global.table = dct_block_rope(t, &table);
    global.scale = score_scale(t->hp, GEMMA3_27B_LAYERS);
    global.head_norms = true;
    dct_attn_spec local = global;
    if (t->hp->sliding_window != 0) {
        table.base = local_base_of(t);
        table.factor = 1.0f;
        table.scaling = DCT_ROPE_NONE;
        local.table = dct_block_rope(t, &table);
        local.window = t->hp->sliding_window;
    }
    trace_gemma(t, &local, &global, pattern_of(t, GEMMA3_PATTERN), x);
}
