/* Tensors of a directory under GGUF's names.
 *
 *     model.layers.N.self_attn.q_proj.weight  ->  blk.N.attn_q.weight
 *
 * A module that MLX quantised is three tensors of the file (weight, scales, biases) and one of the record. Tensors of vision and
 * audio towers are passed over. Any other that has no place in the architecture is refused: a weight that is silently
 * left out gives a model that talks nonsense.
 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "model/gguf_scan.h"
#include "model/hf.h"
#include "model/record.h"

/* What the configuration says of a module: for all of them, or of its own. */
typedef struct affine_spec {
    uint32_t bits, group;
    dct_json mode;
    bool off;
} affine_spec;

typedef struct own_spec {
    dct_str module; /* first, for name_index */
    dct_json value;
} own_spec;

typedef struct tensor_list {
    const dct_st_tensor *list;
    uint32_t n;
    dct_name_index index; /* by name */
    affine_spec spec;     /* of modules that have none of their own */
    own_spec *own;
    dct_name_index own_index;
} tensor_list;

static void bad(dct_hf_build *b, const dct_st_tensor *t, const char *why) {
    const dct_gguf_quoted name = dct_gguf_quote(t->name);
    if (b->status != DCT_OK) return;
    if (b->model->n_parts == 1) b->status = dct_fail_at(b->err, DCT_BAD_FILE, t->offset, "tensor '%s' %s", name.text, why);
    else b->status = dct_fail_at(b->err, DCT_BAD_FILE, t->offset, "part %u of %u: tensor '%s' %s", t->part + 1, b->model->n_parts,
                                 name.text, why);
}

/* ---- names ---- */

static const struct {
    const char *theirs, *ours;
} layer_modules[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"self_attn.qkv_proj", "attn_qkv"},  {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"},       {"mlp.gate_up_proj", "ffn_up"},
}, gemma_norms[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
}, other_norms[] = {
    {"post_attention_layernorm", "ffn_norm"},
};

static bool begins_with(dct_str s, const char *prefix) {
    return s.len >= strlen(prefix) && memcmp(s.ptr, prefix, strlen(prefix)) == 0;
}
static bool ends_with(dct_str s, const char *suffix) {
    size_t n = strlen(suffix);
    return s.len >= n && memcmp(s.ptr + s.len - n, suffix, n) == 0;
}

static bool drop_prefix(dct_str *s, const char *prefix) {
    if (!begins_with(*s, prefix)) return false;
    s->ptr += strlen(prefix);
    s->len -= strlen(prefix);
    return true;
}

/* Parts that the language model is not made of, and buffers that are computed anew. */
static bool is_elsewhere(dct_str name) {
    static const char *const prefixes[] = {"visual.",
                                           "model.visual.",
                                           "vision_tower.",
                                           "model.vision_tower.",
                                           "vision_model.",
                                           "multi_modal_projector.",
                                           "model.multi_modal_projector.",
                                           "audio_tower."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (begins_with(name, prefixes[i])) return true;
    }
    return ends_with(name, ".rotary_emb.inv_freq");
}

/* "12.rest": the number, and *s becomes the rest. */
static bool take_layer(dct_str *s, uint32_t n_layer, uint32_t *layer) {
    size_t i = 0;
    *layer = 0;
    for (; i < s->len && i < 6 && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++) *layer = *layer * 10 + (uint32_t)(s->ptr[i] - '0');
    if (i == 0 || i == s->len || s->ptr[i] != '.' || *layer >= n_layer || (s->ptr[0] == '0' && i > 1)) return false;
    s->ptr += i + 1;
    s->len -= i + 1;
    return true;
}

static const char *layer_module(const dct_hf_build *b, dct_str module) {
    for (size_t i = 0; i < sizeof layer_modules / sizeof *layer_modules; i++) {
        if (dct_str_eq_z(module, layer_modules[i].theirs)) return layer_modules[i].ours;
    }
    for (size_t i = 0; b->is_gemma && i < sizeof gemma_norms / sizeof *gemma_norms; i++) {
        if (dct_str_eq_z(module, gemma_norms[i].theirs)) return gemma_norms[i].ours;
    }
    return !b->is_gemma && dct_str_eq_z(module, other_norms[0].theirs) ? other_norms[0].ours : NULL;
}

enum { NAME_BYTES = 64 };

/* Our name of the module (a tensor's name without its last part); false when it has none. */
static bool our_name(const dct_hf_build *b, dct_str module, char out[NAME_BYTES]) {
    const char *name = NULL;
    uint32_t layer;
    drop_prefix(&module, "language_model.");
    if (dct_str_eq_z(module, "lm_head")) name = "output";
    if (!drop_prefix(&module, "model.language_model.")) drop_prefix(&module, "model.");
    if (dct_str_eq_z(module, "embed_tokens")) name = "token_embd";
    if (dct_str_eq_z(module, "norm")) name = "output_norm";
    if (name != NULL) {
        snprintf(out, NAME_BYTES, "%s", name);
        return true;
    }
    if (!drop_prefix(&module, "layers.") || !take_layer(&module, b->n_layer, &layer)) return false;
    name = layer_module(b, module);
    if (name != NULL) snprintf(out, NAME_BYTES, "blk.%u.%s", layer, name);
    return name != NULL;
}

/* ---- the three tensors of a quantised module ---- */

static const dct_st_tensor *find(const tensor_list *all, dct_str module, const char *suffix) {
    char name[512];
    size_t n = strlen(suffix);
    if (module.len + n > sizeof name) return NULL;
    memcpy(name, module.ptr, module.len);
    memcpy(name + module.len, suffix, n);
    uint32_t found = *dct_name_index_slot(&all->index, all->list, sizeof *all->list, (dct_str){name, module.len + n});
    return found == 0 ? NULL : &all->list[found - 1];
}

static void read_spec(dct_hf_build *b, dct_json object, affine_spec *spec) {
    dct_hf_u32(b, object, "bits", &spec->bits);
    dct_hf_u32(b, object, "group_size", &spec->group);
    dct_hf_str(b, object, "mode", &spec->mode);
}

static void read_specs(dct_hf_build *b, tensor_list *all) {
    uint64_t n = dct_json_count(b->quantization);
    if (n > UINT32_MAX / 4) dct_hf_fail(b, b->quantization, "'quantization' has %llu members", (unsigned long long)n);
    read_spec(b, b->quantization, &all->spec);
    all->own = dct_hf_alloc(b, n, sizeof *all->own);
    if (!dct_hf_index(b, &all->own_index, (uint32_t)n)) return;
    uint32_t i = 0;
    for (dct_json_walk w = dct_json_begin(b->quantization); b->status == DCT_OK && dct_json_next(&w); i++) {
        char *name = dct_hf_alloc(b, w.key.len + 1, 1);
        if (name == NULL) return;
        all->own[i] = (own_spec){{name, (size_t)dct_json_decode(w.key, name)}, w.value};
        uint32_t *slot = dct_name_index_slot(&all->own_index, all->own, sizeof *all->own, all->own[i].module);
        if (*slot != 0) dct_hf_fail(b, w.value, "'%s' stands twice", dct_gguf_quote(w.key).text);
        *slot = i + 1;
    }
}

static affine_spec spec_of(dct_hf_build *b, const tensor_list *all, dct_str module) {
    affine_spec spec = all->spec;
    uint32_t found = *dct_name_index_slot(&all->own_index, all->own, sizeof *all->own, module);
    dct_json own = found == 0 ? (dct_json){0} : all->own[found - 1].value;
    if (dct_json_kind_of(own) == DCT_JSON_OBJECT) read_spec(b, own, &spec);
    bool on = true;
    spec.off = dct_json_bool(own, &on) && !on;
    return spec;
}

static bool type_of_float(dct_st_type type, dct_dtype *out) {
    switch (type) {
    case DCT_ST_F32: *out = DCT_TYPE_F32; return true;
    case DCT_ST_F16: *out = DCT_TYPE_F16; return true;
    case DCT_ST_BF16: *out = DCT_TYPE_BF16; return true;
    default: return false;
    }
}

static bool is_matrix(const dct_st_tensor *t, uint64_t rows, uint64_t cols) {
    return t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* Shapes and types of the three against each other and against the configuration. */
static void describe_affine(dct_hf_build *b, const tensor_list *all, const dct_st_tensor *w, dct_str module, dct_tensor *t) {
    const dct_st_tensor *scales = find(all, module, ".scales"), *biases = find(all, module, ".biases");
    affine_spec spec = spec_of(b, all, module);
    dct_dtype scale_type = DCT_TYPE_F32;
    uint64_t cols = 0;
    if (b->status != DCT_OK) return;
    if (spec.mode.at != NULL && !dct_json_str_is(spec.mode, "affine")) {
        b->file = "config.json";
        dct_hf_fail(b, spec.mode, "quantisation mode '%s' is not supported (affine is)",
                    dct_gguf_quote(dct_json_raw(spec.mode)).text);
        return;
    }
    if (spec.off || spec.bits == 0 || spec.group == 0) bad(b, w, "is quantised, but config.json does not say how");
    else if (scales == NULL || biases == NULL) bad(b, w, "is quantised, but has no scales or no biases beside it");
    else if (w->type != DCT_ST_U32 || w->n_dims != 2 || w->shape[0] == 0 || scales->n_dims != 2)
        bad(b, w, "is not a U32 matrix with matrices of scales");
    else if (!type_of_float(scales->type, &scale_type) || biases->type != scales->type)
        bad(b, w, "has scales or biases that are not F32, F16 or BF16 alike");
    else if (!dct_dtype_of_affine(spec.bits, spec.group, scale_type, &t->type))
        bad(b, w, "is quantised in bits or groups that are not known (2, 3, 4, 5, 6, 8 bits; groups of 32, 64, 128)");
    else if (!dct_mul_u64(scales->shape[1], spec.group, &cols) || cols == 0 || cols > UINT32_MAX ||
             w->shape[1] != cols / 32 * spec.bits || !is_matrix(scales, w->shape[0], scales->shape[1]) ||
             !is_matrix(biases, w->shape[0], scales->shape[1]))
        bad(b, w, "does not agree in shape with its scales, its biases and its bits");
    if (b->status != DCT_OK) return;
    t->ne[0] = cols;
    t->form = DCT_FORM_AFFINE;
    t->more[0] = (dct_place_in_file){scales->part, scales->begin};
    t->more[1] = (dct_place_in_file){biases->part, biases->begin};
}

/* ---- one tensor ---- */

static void describe_float(dct_hf_build *b, const dct_st_tensor *w, dct_tensor *t, bool is_norm) {
    if (!type_of_float(w->type, &t->type)) {
        bad(b, w, "has a type that is not supported for weights (F32, F16, BF16, MLX's affine quantisation)");
        return;
    }
    t->ne[0] = w->shape[w->n_dims - 1];
    if (!b->is_gemma || !is_norm) return;
    t->form = DCT_FORM_NORM; /* these files hold w, the layer multiplies by 1 + w */
    t->stored = t->type;
    t->type = DCT_TYPE_F32;
}

static void count_elements(dct_hf_build *b, const dct_st_tensor *w, dct_tensor *t) {
    if (!dct_mul_u64(t->ne[0], t->ne[1], &t->n_elems) || t->n_elems > INT64_MAX ||
        !dct_dtype_row_bytes(t->type, t->n_elems, &t->bytes) || t->bytes > INT64_MAX) {
        bad(b, w, "has a size that overflows");
    }
}

/* A weight or a bias of a module that has our name. */
static void add_weight(dct_hf_build *b, const tensor_list *all, const dct_st_tensor *w, dct_str module, const char *name,
                       const char *suffix) {
    if (b->tied && strcmp(name, "output") == 0) return; /* a copy of the embedding */
    size_t n = strlen(name) + strlen(suffix);
    char *full = dct_hf_alloc(b, n + 1, 1);
    if (full == NULL) return;
    snprintf(full, n + 1, "%s%s", name, suffix);
    dct_tensor t = {.name = {full, n},
                    .n_dims = w->n_dims,
                    .ne = {1, 1, 1, 1},
                    .part = w->part,
                    .offset = w->begin,
                    .info_offset = w->offset};
    if (w->n_dims < 1 || w->n_dims > 2) {
        bad(b, w, "has neither one dimension nor two");
        return;
    }
    if (w->n_dims == 2) t.ne[1] = w->shape[0];
    size_t stem = strlen(name);
    bool is_norm = stem >= 4 && strcmp(name + stem - 4, "norm") == 0;
    if (w->type == DCT_ST_U32 || (strcmp(suffix, ".weight") == 0 && find(all, module, ".scales") != NULL))
        describe_affine(b, all, w, module, &t);
    else describe_float(b, w, &t, is_norm);
    if (b->status == DCT_OK && (t.ne[0] == 0 || t.ne[1] == 0)) bad(b, w, "has a dimension of 0");
    if (b->status == DCT_OK) count_elements(b, w, &t);
    if (b->status == DCT_OK) b->status = dct_record_add_tensor(b->model, &t, b->err);
}

static void add_tensor(dct_hf_build *b, const tensor_list *all, const dct_st_tensor *w) {
    static const char *const suffixes[] = {".weight", ".bias", ".scales", ".biases"};
    char name[NAME_BYTES];
    if (is_elsewhere(w->name)) return;
    for (uint32_t i = 0; i < 4; i++) {
        dct_str module = {w->name.ptr, w->name.len - strlen(suffixes[i])};
        if (!ends_with(w->name, suffixes[i]) || !our_name(b, module, name)) continue;
        if (i < 2) add_weight(b, all, w, module, name, suffixes[i]);
        else if (find(all, module, ".weight") == NULL) bad(b, w, "has no weight beside it");
        return;
    }
    bad(b, w, "has no place in the architecture that config.json names");
}

/* ---- all of them ---- */

static void make_index(dct_hf_build *b, tensor_list *all) {
    if (!dct_hf_index(b, &all->index, all->n)) return;
    for (uint32_t i = 0; b->status == DCT_OK && i < all->n; i++) {
        uint32_t *slot = dct_name_index_slot(&all->index, all->list, sizeof *all->list, all->list[i].name);
        if (*slot != 0) bad(b, &all->list[i], "stands in the files twice");
        else *slot = i + 1;
    }
}

void dct_hf_tensors(dct_hf_build *b, const dct_st_tensor *tensors, uint32_t n) {
    tensor_list all = {.list = tensors, .n = n};
    b->file = "config.json";
    make_index(b, &all);
    read_specs(b, &all);
    if (b->status == DCT_OK) b->status = dct_record_new_tensors(b->model, n + b->n_computed, b->arena, b->err);
    for (uint32_t i = 0; b->status == DCT_OK && i < n; i++) add_tensor(b, &all, &tensors[i]);
    for (uint32_t i = 0; b->status == DCT_OK && i < b->n_computed; i++)
        b->status = dct_record_add_tensor(b->model, &b->computed[i], b->err);
}
