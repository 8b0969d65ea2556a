/* config.json: which architecture it is in GGUF's words, and its hyper-parameters.
 *
 * A value is looked for in "text_config" first, where models of several parts keep those of the language model. What a family
 * fixes in its code (activation, the scale of attention, layers with a window) must be what the file says: another value is
 * refused, never ignored.
 */
#include <string.h>

#include "model/gguf_scan.h"
#include "model/hf.h"

static const struct {
    const char *type, *arch;
} families[] = {
    {"llama", "llama"},            {"mistral", "llama"},           {"qwen2", "qwen2"},           {"qwen3", "qwen3"},
    {"qwen2_vl", "qwen2vl"},       {"qwen2_vl_text", "qwen2vl"},   {"qwen2_5_vl", "qwen2vl"},    {"qwen2_5_vl_text", "qwen2vl"},
    {"gemma2", "gemma2"},          {"gemma3_text", "gemma3"},      {"gemma3", "gemma3"},         {"phi3", "phi3"},
};
#define FAMILY_NAMES "llama, mistral, qwen2, qwen2_vl, qwen2_5_vl, qwen3, gemma2, gemma3_text, phi3"

/* Gemma 3's configurations leave out what is the default of their class in Hugging Face's code. */
static bool default_of_gemma3(const char *key, uint32_t *out) {
    static const struct {
        const char *key;
        uint32_t value;
    } defaults[] = {
        {"vocab_size", 262208},       {"hidden_size", 2304},      {"intermediate_size", 9216},
        {"num_hidden_layers", 26},    {"num_attention_heads", 8}, {"num_key_value_heads", 4},
        {"head_dim", 256},            {"sliding_window", 4096},   {"max_position_embeddings", 131072},
    };
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (strcmp(defaults[i].key, key) != 0) continue;
        *out = defaults[i].value;
        return true;
    }
    return false;
}

static bool get_u32(dct_hf_build *b, const char *key, uint32_t *out) {
    if (dct_hf_u32(b, dct_hf_holder(b, key), key, out)) return true;
    return b->status == DCT_OK && strcmp(b->arch, "gemma3") == 0 && default_of_gemma3(key, out);
}

static bool get_bool(dct_hf_build *b, const char *key, bool *out) { return dct_hf_bool(b, dct_hf_holder(b, key), key, out); }
static bool get_str(dct_hf_build *b, const char *key, dct_json *out) { return dct_hf_str(b, dct_hf_holder(b, key), key, out); }

static uint32_t need_u32(dct_hf_build *b, const char *key) {
    uint32_t v = 0;
    if (!get_u32(b, key, &v)) dct_hf_fail(b, b->text, "'%s' is missing", key);
    return v;
}

/* ---- the family ---- */

static void find_family(dct_hf_build *b) {
    dct_json type = {0};
    if (!dct_hf_str(b, b->text, "model_type", &type) && !dct_hf_str(b, b->root, "model_type", &type))
        dct_hf_fail(b, b->root, "'model_type' is missing");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (dct_json_str_is(type, families[i].type)) b->arch = families[i].arch;
    }
    if (b->arch[0] == '\0')
        dct_hf_fail(b, type, "model_type '%s' is not supported (" FAMILY_NAMES ")", dct_gguf_quote(dct_json_raw(type)).text);
    b->is_gemma = strncmp(b->arch, "gemma", 5) == 0;
}

static void put_name(dct_hf_build *b) {
    dct_json name = {0};
    if (dct_hf_str(b, b->root, "_name_or_path", &name) && dct_json_raw(name).len > 0) {
        dct_hf_put_str(b, "general.name", dct_hf_text(b, name));
        return;
    }
    const char *path = b->model->path;
    size_t end = strlen(path), begin;
    while (end > 0 && path[end - 1] == '/') end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';) begin--;
    if (end > begin) dct_hf_put_str(b, "general.name", (dct_str){path + begin, end - begin});
}

/* ---- what a family's code fixes ---- */

static void check_activation(dct_hf_build *b) {
    static const char *const silu[] = {"silu", "swish", NULL}, *const gelu[] = {"gelu_pytorch_tanh", "gelu_new", NULL};
    dct_json act = {0};
    if (!(b->is_gemma && get_str(b, "hidden_activation", &act)) && !get_str(b, "hidden_act", &act)) return;
    for (const char *const *name = b->is_gemma ? gelu : silu; *name != NULL; name++) {
        if (dct_json_str_is(act, *name)) return;
    }
    dct_hf_fail(b, act, "activation '%s' is not that of %s", dct_gguf_quote(dct_json_raw(act)).text, b->arch);
}

/* Scores are scaled by the head's width; in the 27B Gemmas by that of heads which would split the embedding. */
static void check_score_scale(dct_hf_build *b, uint32_t head_dim, uint32_t n_head, uint32_t n_embd) {
    double scalar = 0;
    if (!b->is_gemma || !dct_hf_setting_f64(b, "query_pre_attn_scalar", &scalar)) return;
    bool is_27b = b->n_layer == (strcmp(b->arch, "gemma2") == 0 ? 46u : 62u);
    double want = is_27b && n_head != 0 ? n_embd / n_head : head_dim;
    if (scalar != want) dct_hf_fail(b, b->text, "'query_pre_attn_scalar' is %g, %g expected", scalar, want);
}

static void put_window(dct_hf_build *b) {
    uint32_t window = 0, pattern = 0;
    bool used = true;
    get_u32(b, "sliding_window", &window);
    get_bool(b, "use_sliding_window", &used);
    if (strncmp(b->arch, "qwen", 4) == 0) { /* there it is off unless use_sliding_window says otherwise */
        if (used && dct_hf_setting(b, "use_sliding_window").at != NULL && window != 0) {
            dct_hf_fail(b, b->text, "'use_sliding_window': windows on some layers are not supported for %s", b->arch);
        }
        return;
    }
    dct_json type = {0};
    bool is_llama = get_str(b, "model_type", &type) && dct_json_str_is(type, "llama"); /* whose class has no window */
    if (window != 0 && !is_llama) dct_hf_put_arch_u32(b, "attention.sliding_window", window);
    if (strcmp(b->arch, "gemma3") == 0 &&
        (get_u32(b, "sliding_window_pattern", &pattern) || get_u32(b, "_sliding_window_pattern", &pattern))) {
        dct_hf_put_arch_u32(b, "attention.sliding_window_pattern", pattern);
    }
}

/* The order of layers with a window, which newer configurations spell out. */
static void check_layer_types(dct_hf_build *b) {
    uint32_t pattern = strcmp(b->arch, "gemma2") == 0 ? 2 : 6, i = 0;
    bool is_llama = strcmp(b->arch, "llama") == 0;
    if (!get_u32(b, "sliding_window_pattern", &pattern)) get_u32(b, "_sliding_window_pattern", &pattern);
    dct_json list = dct_hf_setting(b, "layer_types");
    if (is_llama || pattern == 0) return;
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w); i++) {
        bool has_window = b->is_gemma && (i + 1) % pattern != 0;
        if (!dct_json_str_is(w.value, has_window ? "sliding_attention" : "full_attention"))
            dct_hf_fail(b, w.value, "'layer_types': layer %u is not of the kind that %s has there", i, b->arch);
    }
}

static void refuse_bidirectional(dct_hf_build *b) {
    bool is_set = false;
    if (get_bool(b, "use_bidirectional_attention", &is_set) && is_set)
        dct_hf_fail(b, b->text, "'use_bidirectional_attention': a model of embeddings; only text is made");
}

/* null is none; a key that is not there leaves the family's own. */
static void put_softcap(dct_hf_build *b, const char *key) {
    double cap = 0;
    if (dct_json_find(dct_hf_holder(b, key), key, NULL).at == NULL) return;
    dct_hf_put_arch_f32(b, key, dct_hf_setting_f64(b, key, &cap) ? cap : 0);
}

static void put_softcaps(dct_hf_build *b) {
    if (!b->is_gemma) return;
    dct_json scores = dct_hf_setting(b, "attn_logit_softcapping");
    if (strcmp(b->arch, "gemma2") == 0) put_softcap(b, "attn_logit_softcapping");
    else if (scores.at != NULL) dct_hf_fail(b, scores, "'attn_logit_softcapping' is not supported for %s", b->arch);
    put_softcap(b, "final_logit_softcapping");
}

/* ---- sizes ---- */

static void put_sizes(dct_hf_build *b) {
    uint32_t n_embd = need_u32(b, "hidden_size"), n_head = need_u32(b, "num_attention_heads"), n_head_kv = n_head, head_dim = 0;
    double eps = 0;
    b->n_layer = need_u32(b, "num_hidden_layers");
    b->n_vocab = need_u32(b, "vocab_size");
    dct_hf_put_arch_u32(b, "block_count", b->n_layer);
    b->n_ctx = need_u32(b, "max_position_embeddings");
    dct_hf_put_arch_u32(b, "context_length", b->n_ctx);
    dct_hf_put_arch_u32(b, "embedding_length", n_embd);
    dct_hf_put_arch_u32(b, "feed_forward_length", need_u32(b, "intermediate_size"));
    dct_hf_put_arch_u32(b, "attention.head_count", n_head);
    get_u32(b, "num_key_value_heads", &n_head_kv);
    dct_hf_put_arch_u32(b, "attention.head_count_kv", n_head_kv);
    if (strcmp(b->arch, "gemma3") == 0) eps = 1e-6; /* its class's default, as those above */
    if (!dct_hf_setting_f64(b, "rms_norm_eps", &eps) && eps == 0) dct_hf_fail(b, b->text, "'rms_norm_eps' is missing");
    dct_hf_put_arch_f32(b, "attention.layer_norm_rms_epsilon", eps);
    dct_hf_put_arch_u32(b, "vocab_size", b->n_vocab);
    if (get_u32(b, "head_dim", &head_dim)) {
        dct_hf_put_arch_u32(b, "attention.key_length", head_dim);
        dct_hf_put_arch_u32(b, "attention.value_length", head_dim);
    } else if (n_head != 0) {
        head_dim = n_embd / n_head; /* as hparams.c finds it */
    }
    b->head_dim = head_dim;
    check_score_scale(b, head_dim, n_head, n_embd);
}

/* ---- quantisation ---- */

/* MLX says "quantization", and copies it to "quantization_config", where other methods also stand. */
static void find_quantization(dct_hf_build *b) {
    dct_json other = dct_hf_member(b, b->root, "quantization_config"), method = {0};
    b->quantization = dct_hf_member(b, b->root, "quantization");
    if (b->quantization.at == NULL && other.at != NULL) {
        if (dct_hf_str(b, other, "quant_method", &method)) {
            dct_hf_fail(b, method, "quantisation by '%s' is not supported (MLX's affine is)",
                        dct_gguf_quote(dct_json_raw(method)).text);
        }
        b->quantization = other;
    }
    if (b->quantization.at != NULL && dct_json_kind_of(b->quantization) != DCT_JSON_OBJECT)
        dct_hf_fail(b, b->quantization, "'quantization' is not an object");
}

static void refuse_experts(dct_hf_build *b) {
    static const char *const keys[] = {"num_local_experts", "num_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t n = 0;
        if (get_u32(b, keys[i], &n) && n > 0)
            dct_hf_fail(b, b->text, "'%s' is %u: mixtures of experts are not supported", keys[i], n);
    }
}

void dct_hf_config(dct_hf_build *b, const dct_hf_texts *texts) {
    b->file = "config.json";
    b->status = dct_json_open(texts->config, b->file, 0, &b->root, b->err);
    if (b->status != DCT_OK) return;
    b->text = dct_hf_member(b, b->root, "text_config");
    if (dct_json_kind_of(b->text) != DCT_JSON_OBJECT) b->text = b->root;
    find_family(b);
    if (b->status != DCT_OK) return;
    dct_hf_put_str(b, "general.architecture", (dct_str){b->arch, strlen(b->arch)});
    put_name(b);
    refuse_experts(b);
    check_activation(b);
    put_sizes(b);
    put_window(b);
    check_layer_types(b);
    refuse_bidirectional(b);
    put_softcaps(b);
    dct_hf_rope(b);
    find_quantization(b);
    get_bool(b, "tie_word_embeddings", &b->tied);
}
