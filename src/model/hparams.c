#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Limits far beyond every model that exists, so that products of two sizes fit 64 bits and heads times width fits 32. */
enum { MAX_WIDTH = 1 << 24, MAX_HEADS = 1 << 14, MAX_HEAD_DIM = 1 << 14, MAX_VOCAB = 1 << 26 };

/* One reading of the keys. The first failure sticks, and what follows does nothing. */
typedef struct keys {
    const dct_model *model;
    dct_hparams *hp;
    dct_err *err;
    dct_status status;
    char name[128]; /* of the key that was asked for last, in full */
} keys;

static const dct_meta *find(keys *k, const char *suffix) {
    snprintf(k->name, sizeof k->name, "%s.%s", k->hp->arch, suffix);
    return dct_model_find_meta(k->model, k->name);
}

static void refuse(keys *k, const char *why) {
    if (k->status != DCT_OK) return;
    const dct_meta *meta = dct_model_find_meta(k->model, k->name);
    if (meta == NULL) k->status = dct_fail(k->err, DCT_BAD_FILE, "key '%s' %s", k->name, why);
    else k->status = dct_fail_at(k->err, DCT_BAD_FILE, meta->offset, "key '%s' %s", k->name, why);
}

/* Leaves *out alone when the key is absent. */
static bool get_u32(keys *k, const char *suffix, uint32_t min, uint32_t max, uint32_t *out) {
    bool found = false;
    find(k, suffix);
    if (k->status != DCT_OK) return false;
    uint32_t value = *out;
    k->status = dct_model_get_u32(k->model, k->name, &value, &found, k->err);
    if (k->status == DCT_OK && found && (value < min || value > max)) {
        char why[80];
        snprintf(why, sizeof why, "is %u (%u to %u expected)", value, min, max);
        refuse(k, why);
    }
    if (k->status == DCT_OK) *out = value;
    return found;
}

static void need_u32(keys *k, const char *suffix, uint32_t min, uint32_t max, uint32_t *out) {
    if (!get_u32(k, suffix, min, max, out)) refuse(k, "is missing");
}

static bool get_f32(keys *k, const char *suffix, float *out) {
    bool found = false;
    find(k, suffix);
    if (k->status != DCT_OK) return false;
    float value = *out;
    k->status = dct_model_get_f32(k->model, k->name, &value, &found, k->err);
    if (k->status == DCT_OK && !(isfinite(value) && value >= 0)) refuse(k, "is not a finite number of at least 0");
    if (k->status == DCT_OK) *out = value;
    return found;
}

static void get_positive_f32(keys *k, const char *suffix, float *out) {
    if (get_f32(k, suffix, out) && k->status == DCT_OK && *out == 0) refuse(k, "is 0");
}

/* One number for all layers, or an array of one for each. False when the key is absent. */
static bool get_layers(keys *k, const char *suffix, uint32_t max, uint32_t *out) {
    const dct_meta *meta = find(k, suffix);
    uint32_t n = k->hp->n_layer, one = 0;
    if (k->status != DCT_OK || meta == NULL) return false;
    if (meta->type != DCT_META_ARRAY) {
        get_u32(k, suffix, 1, max, &one);
        for (uint32_t i = 0; i < n; i++) out[i] = one;
        return true;
    }
    if (meta->array.n != n) {
        refuse(k, "is an array whose length is not the number of layers");
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t value;
        if (!dct_meta_array_i64(k->model, meta, i, &value) || value < 1 || value > (int64_t)max) {
            char why[80];
            snprintf(why, sizeof why, "has an element out of range for layer %u (1 to %u expected)", i, max);
            refuse(k, why);
            return true;
        }
        out[i] = (uint32_t)value;
    }
    return true;
}

/* --- groups of keys ----------------------------------------------------------------------------------------------- */

static void read_architecture(keys *k) {
    dct_str arch = {NULL, 0};
    bool found = false;
    k->status = dct_model_get_str(k->model, "general.architecture", &arch, &found, k->err);
    if (k->status != DCT_OK) return;
    bool sane = found && arch.len > 0 && arch.len < sizeof k->hp->arch;
    for (size_t i = 0; sane && i < arch.len; i++) sane = arch.ptr[i] > 0x20 && arch.ptr[i] < 0x7f;
    if (!sane) {
        k->status = dct_fail(k->err, DCT_BAD_FILE, "key 'general.architecture' %s",
                             found ? "is not a name of 1 to 31 letters" : "is missing");
        return;
    }
    memcpy(k->hp->arch, arch.ptr, arch.len);
    k->hp->arch[arch.len] = '\0';
}

/* The vocabulary is as large as the file says, else as its token list, else as its embedding has rows. */
static void read_vocab(keys *k) {
    if (get_u32(k, "vocab_size", 1, MAX_VOCAB, &k->hp->n_vocab) || k->status != DCT_OK) return;
    uint64_t n = 0;
    const dct_meta *tokens = dct_model_find_meta(k->model, "tokenizer.ggml.tokens");
    const dct_tensor *embd = dct_model_find_tensor(k->model, "token_embd.weight");
    if (tokens != NULL && tokens->type == DCT_META_ARRAY) n = tokens->array.n;
    else if (embd != NULL) n = embd->ne[1];
    if (n == 0 || n > MAX_VOCAB) {
        k->status = dct_fail(k->err, DCT_BAD_FILE,
                             "the size of the vocabulary is unknown or out of range (keys '%s', 'tokenizer.ggml.tokens')",
                             k->name);
        return;
    }
    k->hp->n_vocab = (uint32_t)n;
}

static void read_sizes(keys *k) {
    dct_hparams *hp = k->hp;
    need_u32(k, "block_count", 1, DCT_MAX_LAYERS, &hp->n_layer);
    need_u32(k, "embedding_length", 1, MAX_WIDTH, &hp->n_embd);
    need_u32(k, "context_length", 1, INT32_MAX, &hp->n_ctx_train);
    if (k->status != DCT_OK) return;
    if (!get_layers(k, "feed_forward_length", MAX_WIDTH, hp->n_ff)) refuse(k, "is missing");
    if (!get_f32(k, "attention.layer_norm_rms_epsilon", &hp->rms_eps)) refuse(k, "is missing");
    get_u32(k, "expert_count", 0, UINT32_MAX, &hp->n_expert);
    read_vocab(k);
}

static void check_heads(keys *k) {
    const dct_hparams *hp = k->hp;
    for (uint32_t i = 0; i < hp->n_layer && k->status == DCT_OK; i++) {
        if (hp->n_head[i] % hp->n_head_kv[i] == 0) continue;
        char why[100];
        snprintf(why, sizeof why, "is %u, which does not divide the %u heads of layer %u", hp->n_head_kv[i], hp->n_head[i], i);
        refuse(k, why);
    }
}

static void read_heads(keys *k) {
    dct_hparams *hp = k->hp;
    if (!get_layers(k, "attention.head_count", MAX_HEADS, hp->n_head)) refuse(k, "is missing");
    if (k->status != DCT_OK) return;
    memcpy(hp->n_head_kv, hp->n_head, sizeof hp->n_head_kv);
    get_layers(k, "attention.head_count_kv", MAX_HEADS, hp->n_head_kv);
    check_heads(k);

    bool has_k = get_u32(k, "attention.key_length", 1, MAX_HEAD_DIM, &hp->head_dim_k);
    bool has_v = get_u32(k, "attention.value_length", 1, MAX_HEAD_DIM, &hp->head_dim_v);
    if (k->status != DCT_OK || (has_k && has_v)) return;
    uint32_t width = hp->n_embd / hp->n_head[0];
    if (hp->n_embd % hp->n_head[0] != 0 || width > MAX_HEAD_DIM) {
        find(k, "attention.head_count");
        refuse(k, "does not divide the embedding length, and no key_length and value_length are given");
        return;
    }
    if (!has_k) hp->head_dim_k = width;
    if (!has_v) hp->head_dim_v = width;
}

/* With a type it is what the type says; a factor alone is linear scaling, under its new name or its old one. */
static void read_rope_scaling(keys *k) {
    static const struct {
        const char *name;
        dct_rope_scaling scaling;
    } types[] = {{"none", DCT_ROPE_NONE},
                 {"linear", DCT_ROPE_LINEAR},
                 {"yarn", DCT_ROPE_YARN},
                 {"llama3", DCT_ROPE_LLAMA3},
                 {"longrope", DCT_ROPE_LONGROPE}};
    dct_hparams *hp = k->hp;
    float factor = 0;
    if (!get_f32(k, "rope.scaling.factor", &factor)) get_f32(k, "rope.scale_linear", &factor);
    hp->rope_factor = factor == 0 ? 1 : factor;
    hp->rope_scaling = hp->rope_factor == 1 ? DCT_ROPE_NONE : DCT_ROPE_LINEAR;

    dct_str type = {NULL, 0};
    bool found = false;
    find(k, "rope.scaling.type");
    if (k->status == DCT_OK) k->status = dct_model_get_str(k->model, k->name, &type, &found, k->err);
    bool known = !found;
    for (size_t i = 0; i < sizeof types / sizeof *types && found && !known; i++) {
        known = dct_str_eq_z(type, types[i].name);
        if (known) hp->rope_scaling = types[i].scaling;
    }
    if (!known) refuse(k, "is not one of none, linear, yarn, llama3, longrope");
    if (hp->rope_scaling == DCT_ROPE_NONE) hp->rope_factor = 1;

    hp->rope_orig_ctx = hp->n_ctx_train;
    hp->rope_attn_factor = 1;
    hp->yarn_ext_factor = hp->rope_scaling == DCT_ROPE_YARN ? 1 : 0;
    hp->yarn_beta_fast = 32;
    hp->yarn_beta_slow = 1;
    get_u32(k, "rope.scaling.original_context_length", 1, INT32_MAX, &hp->rope_orig_ctx);
    get_positive_f32(k, "rope.scaling.attn_factor", &hp->rope_attn_factor);
    get_f32(k, "rope.scaling.yarn_ext_factor", &hp->yarn_ext_factor);
    get_positive_f32(k, "rope.scaling.yarn_beta_fast", &hp->yarn_beta_fast);
    get_positive_f32(k, "rope.scaling.yarn_beta_slow", &hp->yarn_beta_slow);
}

/* M-RoPE: how many pairs turn by each position stream. */
static void read_rope_sections(keys *k) {
    const dct_meta *meta = find(k, "rope.dimension_sections");
    if (k->status != DCT_OK || meta == NULL) return;
    bool sane = meta->type == DCT_META_ARRAY && meta->array.n >= 3 && meta->array.n <= 4;
    int64_t sum = 0, pairs = k->hp->n_rot / 2;
    for (uint64_t i = 0; sane && i < meta->array.n; i++) {
        int64_t value;
        sane = dct_meta_array_i64(k->model, meta, i, &value) && value >= 0 && value <= pairs;
        if (!sane) break;
        k->hp->rope_sections[i] = (int32_t)value;
        sum += value;
    }
    if (!sane || sum > pairs) refuse(k, "is not 3 or 4 counts of rotated pairs that fit a head");
}

static void read_rope(keys *k) {
    dct_hparams *hp = k->hp;
    hp->n_rot = hp->head_dim_k;
    hp->rope_base = 10000;
    get_u32(k, "rope.dimension_count", 0, hp->head_dim_k, &hp->n_rot);
    if (hp->n_rot % 2 != 0) refuse(k, "(or the head size it is taken from) is odd");
    get_positive_f32(k, "rope.freq_base", &hp->rope_base);
    read_rope_scaling(k);
    read_rope_sections(k);
}

dct_status dct_hparams_read(const dct_model *model, dct_hparams *hp, dct_err *err) {
    keys k = {.model = model, .hp = hp, .err = err, .status = DCT_OK};
    memset(hp, 0, sizeof *hp);
    read_architecture(&k);
    if (k.status == DCT_OK) read_sizes(&k);
    if (k.status == DCT_OK) read_heads(&k);
    if (k.status == DCT_OK) read_rope(&k);
    get_u32(&k, "attention.sliding_window", 0, INT32_MAX, &hp->sliding_window);
    get_f32(&k, "attn_logit_softcapping", &hp->attn_softcap);
    get_f32(&k, "final_logit_softcapping", &hp->final_softcap);
    return k.status;
}
