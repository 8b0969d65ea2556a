#include "tools/synth_dir.h"

#include <stdio.h>
#include <string.h>

/* ---- JSON ---- */

static void put(dct_writer *w, const char *format, ...) DCT_PRINTF(2, 3);
static void put(dct_writer *w, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dct_write_bytes(w, text, n < 0 ? 0 : (uint64_t)n < sizeof text ? (uint64_t)n : sizeof text - 1);
}

/* Without the quotes. Texts are UTF-8. */
static void put_text(dct_writer *w, dct_str s) {
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.ptr[i];
        if (c == '"' || c == '\\') dct_write_u8(w, '\\');
        if (c < 0x20) put(w, "\\u%04x", c);
        else dct_write_u8(w, c);
    }
}

static void put_string(dct_writer *w, dct_str s) {
    dct_write_u8(w, '"');
    put_text(w, s);
    dct_write_u8(w, '"');
}

/* ---- config.json ---- */

static const char *model_type(dct_synth_family family) {
    static const char *const names[DCT_SYNTH_FAMILIES] = {"qwen2", "qwen2_vl", "qwen3", "llama", "gemma3_text"};
    return names[family];
}

static void put_rotation(dct_writer *w, const dct_synth_shape *s) {
    uint32_t pairs = s->head_dim / 2, t = pairs / 4, h = pairs * 3 / 8;
    put(w, "  \"rope_theta\": %.1f,\n", (double)s->rope_base);
    if (s->family == DCT_SYNTH_QWEN2VL)
        put(w, "  \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [%u, %u, %u]},\n", t, h, pairs - t - h);
    if (s->family == DCT_SYNTH_LLAMA3) {
        put(w,
            "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, "
            "\"high_freq_factor\": 4.0, "
            "\"original_max_position_embeddings\": 8192},\n");
    }
    if (s->family == DCT_SYNTH_GEMMA3) {
        put(w,
            "  \"rope_local_base_freq\": 10000.0,\n  \"sliding_window\": %u,\n  \"sliding_window_pattern\": 6,\n  "
            "\"query_pre_attn_scalar\": %u,\n",
            s->sliding_window, s->head_dim);
    }
}

void dct_synth_put_config(dct_writer *w, const dct_synth_shape *s, dct_dtype type) {
    const dct_affine *affine = dct_dtype_affine(type);
    put(w, "{\n  \"model_type\": \"%s\",\n  \"_name_or_path\": \"%s\",\n", model_type(s->family), s->title);
    put(w, "  \"hidden_act\": \"%s\",\n", s->family == DCT_SYNTH_GEMMA3 ? "gelu_pytorch_tanh" : "silu");
    put(w, "  \"hidden_size\": %u,\n  \"intermediate_size\": %u,\n  \"num_hidden_layers\": %u,\n", s->n_embd, s->n_ff,
        s->n_layer);
    put(w, "  \"num_attention_heads\": %u,\n  \"num_key_value_heads\": %u,\n  \"head_dim\": %u,\n", s->n_head, s->n_head_kv,
        s->head_dim);
    put(w, "  \"max_position_embeddings\": %u,\n  \"rms_norm_eps\": %g,\n  \"vocab_size\": %u,\n", s->n_ctx, (double)s->eps,
        s->n_vocab);
    put_rotation(w, s);
    if (affine != NULL)
        put(w, "  \"quantization\": {\"group_size\": %u, \"bits\": %u, \"mode\": \"affine\"},\n", affine->group, affine->bits);
    put(w, "  \"torch_dtype\": \"%s\",\n  \"tie_word_embeddings\": %s\n}\n", type == DCT_TYPE_F16 ? "float16" : "bfloat16",
        s->tied ? "true" : "false");
}

/* ---- tokenizer.json ---- */

dct_str dct_synth_spelled(const dct_synth_vocab *v, uint32_t id, char *out) {
    const dct_synth_token *token = &v->tokens[id];
    if (v->spm || token->type != DCT_TOKEN_NORMAL) return token->text;
    size_t n = 0;
    for (size_t i = 0; i < token->text.len; i++) {
        uint32_t c = dct_synth_byte_char((uint8_t)token->text.ptr[i]);
        if (c < 0x80) {
            out[n++] = (char)c;
        } else {
            out[n++] = (char)(0xc0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 63));
        }
    }
    return (dct_str){out, n};
}

static bool is_added(const dct_synth_token *t) {
    return t->type == DCT_TOKEN_CONTROL || t->type == DCT_TOKEN_USER || t->type == DCT_TOKEN_UNKNOWN;
}

static void put_added(dct_writer *w, const dct_synth_vocab *v) {
    bool first = true;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const dct_synth_token *t = &v->tokens[i];
        if (!is_added(t)) continue;
        put(w, "%s\n    {\"id\": %u, \"special\": %s, \"content\": ", first ? "" : ",", i,
            t->type != DCT_TOKEN_USER ? "true" : "false");
        put_string(w, t->text);
        put(w, "}");
        first = false;
    }
}

static void put_vocab(dct_writer *w, const dct_synth_vocab *v) {
    char text[64];
    bool first = true;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (is_added(&v->tokens[i]) || (!v->spm && v->tokens[i].type == DCT_TOKEN_UNUSED)) continue;
        put(w, "%s\n      ", first ? "" : ",");
        put_string(w, dct_synth_spelled(v, i, text));
        put(w, ": %u", i);
        first = false;
    }
}

static void put_merges(dct_writer *w, const dct_synth_vocab *v) {
    char text[64];
    for (uint32_t i = 0; i < v->n_merges; i++) {
        put(w, "%s\n      [", i == 0 ? "" : ",");
        put_string(w, dct_synth_spelled(v, v->merges[i].left, text));
        put(w, ", ");
        put_string(w, dct_synth_spelled(v, v->merges[i].right, text));
        put(w, "]");
    }
}

static void put_cut(dct_writer *w, const dct_synth_shape *shape) {
    static const char begin[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}",
                      end[] = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    put(w,
        "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Split\", \"behavior\": "
        "\"Isolated\", \"invert\": false, \"pattern\": {\"Regex\": \"");
    put_text(w, DCT_STR(begin));
    if (shape->family == DCT_SYNTH_LLAMA3) put(w, "{1,3}");
    put_text(w, DCT_STR(end));
    put(w, "\"}},\n    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]},\n");
}

void dct_synth_put_tokenizer(dct_writer *w, const dct_synth_shape *shape, const dct_synth_vocab *v) {
    put(w, "{\n  \"version\": \"1.0\",\n  \"added_tokens\": [");
    put_added(w, v);
    put(w, "],\n");
    if (v->spm)
        put(w,
            "  \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
            "\"\xe2\x96\x81\"},\n  \"pre_tokenizer\": null,\n");
    else put_cut(w, shape);
    put(w, "  \"model\": {\n    \"type\": \"BPE\",\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
        v->spm ? "true" : "false", shape->family == DCT_SYNTH_LLAMA3 ? "true" : "false");
    if (v->unk >= 0) {
        put(w, "    \"unk_token\": ");
        put_string(w, v->tokens[v->unk].text);
        put(w, ",\n");
    }
    put(w, "    \"vocab\": {");
    put_vocab(w, v);
    put(w, "},\n    \"merges\": [");
    put_merges(w, v);
    put(w, "]\n  }\n}\n");
}

static void put_token(dct_writer *w, const dct_synth_vocab *v, const char *key, int32_t id) {
    if (id < 0) return;
    put(w, "  \"%s\": ", key);
    put_string(w, v->tokens[id].text);
    put(w, ",\n");
}

void dct_synth_put_tokenizer_config(dct_writer *w, const dct_synth_vocab *v) {
    put(w, "{\n");
    put_token(w, v, "bos_token", v->bos);
    put_token(w, v, "eos_token", v->eos);
    put_token(w, v, "pad_token", v->pad);
    put(w, "  \"add_bos_token\": %s,\n  \"chat_template\": ", v->add_bos ? "true" : "false");
    put_string(w, (dct_str){v->chat_template, strlen(v->chat_template)});
    put(w, "\n}\n");
}

/* ---- the header of the weights ---- */

static const struct {
    const char *ours, *theirs, *gemma; /* gemma: where it has another name for it */
} names[] = {
    {"attn_norm", "input_layernorm", NULL},
    {"attn_q", "self_attn.q_proj", NULL},
    {"attn_k", "self_attn.k_proj", NULL},
    {"attn_v", "self_attn.v_proj", NULL},
    {"attn_output", "self_attn.o_proj", NULL},
    {"attn_q_norm", "self_attn.q_norm", NULL},
    {"attn_k_norm", "self_attn.k_norm", NULL},
    {"ffn_gate", "mlp.gate_proj", NULL},
    {"ffn_up", "mlp.up_proj", NULL},
    {"ffn_down", "mlp.down_proj", NULL},
    {"ffn_norm", "post_attention_layernorm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {"post_ffw_norm", "post_feedforward_layernorm", NULL},
};

/* "blk.3.attn_q.weight": the module's name there; the suffix behind the last point is the caller's. */
static void module_name(const char *ours, bool gemma, char out[128]) {
    const char *dot = strrchr(ours, '.'), *rest;
    unsigned layer;
    int begin = 0;
    size_t n = (size_t)(dot - ours);
    if (strncmp(ours, "token_embd.", 11) == 0) snprintf(out, 128, "model.embed_tokens");
    else if (strncmp(ours, "output_norm.", 12) == 0) snprintf(out, 128, "model.norm");
    else if (strncmp(ours, "output.", 7) == 0) snprintf(out, 128, "lm_head");
    if (sscanf(ours, "blk.%u.%n", &layer, &begin) != 1) return;
    rest = ours + begin;
    n -= (size_t)begin;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].ours) != n || memcmp(names[i].ours, rest, n) != 0) continue;
        snprintf(out, 128, "model.layers.%u.%s", layer, gemma && names[i].gemma != NULL ? names[i].gemma : names[i].theirs);
    }
}

static void put_entry(dct_writer *w, bool first, const char *module, const char *suffix, const char *dtype, uint64_t rows,
                      uint64_t cols, uint64_t begin, uint64_t bytes) {
    put(w, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", first ? "" : ",", module, suffix, dtype);
    if (rows > 0) put(w, "%llu,", (unsigned long long)rows);
    put(w, "%llu],\"data_offsets\":[%llu,%llu]}", (unsigned long long)cols, (unsigned long long)begin,
        (unsigned long long)(begin + bytes));
}

void dct_synth_put_st_tensor(dct_writer *w, bool first, const dct_synth_tensor *t, const dct_synth_shape *shape,
                             const dct_synth_places *at) {
    const dct_affine *a = dct_dtype_affine(t->type);
    uint64_t rows = t->n_dims == 2 ? t->ne[1] : 0, n = t->ne[0] * t->ne[1];
    char module[128] = "";
    module_name(t->name, shape->family == DCT_SYNTH_GEMMA3, module);
    if (a == NULL) {
        put_entry(w, first, module, strrchr(t->name, '.'), dct_dtype_name(t->type), rows, t->ne[0], at->data,
                  n * dct_dtype_block_bytes(t->type));
        return;
    }
    uint64_t n_scales = n / a->group, width = dct_dtype_block_bytes(a->scale);
    put_entry(w, first, module, ".weight", "U32", rows, t->ne[0] / 32 * a->bits, at->data, n / 8 * a->bits);
    put_entry(w, false, module, ".scales", dct_dtype_name(a->scale), rows, t->ne[0] / a->group, at->scales, n_scales * width);
    put_entry(w, false, module, ".biases", dct_dtype_name(a->scale), rows, t->ne[0] / a->group, at->biases, n_scales * width);
}
