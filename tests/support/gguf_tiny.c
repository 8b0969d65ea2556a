/* Whole tiny models: hyper-parameters, a byte-level tokenizer, and every tensor of the family with random weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/gguf_build.h"

gguf_tiny gguf_tiny_default(const char *arch, dct_dtype type) {
    gguf_tiny t = {.arch = arch, .type = type, .embd_type = type, .seed = 1, .n_layer = 2, .n_embd = 256, .n_head = 4, .n_head_kv = 2,
                   .head_dim = 64, .n_ff = 512, .n_vocab = 320, .n_ctx = 512, .tied = true, .version = 3};
    t.biases = strncmp(arch, "qwen2", 5) == 0;
    if (strcmp(arch, "phi3") == 0) t.tied = false;
    if (strncmp(arch, "gemma", 5) == 0) t.sliding_window = 64;
    return t;
}

static void key(char *out, size_t n, const gguf_tiny *t, const char *name) { snprintf(out, n, "%s.%s", t->arch, name); }

static void put_u32(gguf_build *b, const gguf_tiny *t, const char *name, uint32_t v) {
    char k[96];
    key(k, sizeof k, t, name);
    gguf_build_u32(b, k, v);
}

static void put_f32(gguf_build *b, const gguf_tiny *t, const char *name, float v) {
    char k[96];
    key(k, sizeof k, t, name);
    gguf_build_f32(b, k, v);
}

static bool is_arch(const gguf_tiny *t, const char *name) { return strcmp(t->arch, name) == 0; }
static bool is_gemma(const gguf_tiny *t) { return strncmp(t->arch, "gemma", 5) == 0; }

static void hparams(gguf_build *b, const gguf_tiny *t) {
    gguf_build_str(b, "general.architecture", t->arch);
    gguf_build_str(b, "general.name", "tiny");
    put_u32(b, t, "context_length", t->n_ctx);
    put_u32(b, t, "embedding_length", t->n_embd);
    put_u32(b, t, "block_count", t->n_layer);
    put_u32(b, t, "feed_forward_length", t->n_ff);
    put_u32(b, t, "attention.head_count", t->n_head);
    put_u32(b, t, "attention.head_count_kv", t->n_head_kv);
    put_u32(b, t, "attention.key_length", t->head_dim);
    put_u32(b, t, "attention.value_length", t->head_dim);
    put_f32(b, t, "attention.layer_norm_rms_epsilon", 1e-6f);
    put_f32(b, t, "rope.freq_base", 10000);
    put_u32(b, t, "rope.dimension_count", t->head_dim);
    if (t->sliding_window != 0) put_u32(b, t, "attention.sliding_window", t->sliding_window);
    if (is_arch(t, "qwen2vl")) {
        int32_t pairs = (int32_t)t->head_dim / 2; /* a quarter for t, three eighths for h, the rest for w, as in Qwen2-VL */
        int32_t sections[4] = {pairs / 4, pairs * 3 / 8, pairs - pairs / 4 - pairs * 3 / 8, 0};
        gguf_build_array_i32(b, "qwen2vl.rope.dimension_sections", sections, 4);
    }
    if (is_arch(t, "gemma2")) {
        put_f32(b, t, "attn_logit_softcapping", 50);
        put_f32(b, t, "final_logit_softcapping", 30);
    }
}

/* --- tokenizers --------------------------------------------------------------------------------------------------- */

enum { TEXT_BYTES = 24 };

/* The printable character that GPT-2's vocabulary has for a byte: itself, or U+0100 + k for the k-th of the others. */
static uint32_t byte_char(uint32_t byte) {
    uint32_t moved = 0;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return printable ? b : 0x100 + moved;
        if (!printable) moved++;
    }
    return 0;
}

static void put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        out[1] = '\0';
    } else {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        out[2] = '\0';
    }
}

typedef struct vocab {
    char (*text)[TEXT_BYTES];
    const char **ptr;
    int32_t *type;
    float *score;
    uint32_t n;
} vocab;

static void add_token(vocab *v, const char *text, int32_t type, float score) {
    snprintf(v->text[v->n], TEXT_BYTES, "%s", text);
    v->ptr[v->n] = v->text[v->n];
    v->type[v->n] = type;
    v->score[v->n++] = score;
}

static void add_unused(vocab *v, uint32_t upto) {
    while (v->n < upto) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "[PAD%u]", v->n);
        add_token(v, text, 5, 0);
    }
}

/* "\304\240" is the character that stands for a space. */
static const char *const merges[] = {"t h", "h e", "i n", "e r", "\304\240 t", "\304\240 a", "th e", "\304\240t he", "o u", "a n", "an d", "\304\240 w"};
enum { N_MERGES = sizeof merges / sizeof *merges };

static void bpe_vocab(vocab *v, uint32_t n_vocab) {
    for (uint32_t i = 0; i < 256; i++) {
        char text[4];
        put_utf8(text, byte_char(i));
        add_token(v, text, 1, 0);
    }
    for (uint32_t i = 0; i < N_MERGES; i++) {
        char joined[TEXT_BYTES];
        const char *space = strchr(merges[i], ' ');
        snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        add_token(v, joined, 1, 0);
    }
    add_unused(v, n_vocab - 3);
    add_token(v, "<|endoftext|>", 3, 0);
    add_token(v, "<|im_start|>", 3, 0);
    add_token(v, "<|im_end|>", 3, 0);
}

static void spm_vocab(vocab *v, uint32_t n_vocab) {
    static const char *const words[] = {"\342\226\201", "e", "t", "a", "o", "n", "h", "th", "the", "\342\226\201the", "an", "\342\226\201a"};
    add_token(v, "<pad>", 3, -1000);
    add_token(v, "<eos>", 3, -1000);
    add_token(v, "<bos>", 3, -1000);
    add_token(v, "<unk>", 2, -1000);
    for (uint32_t i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        add_token(v, text, 6, -1000);
    }
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) add_token(v, words[i], 1, -(float)(100 - 8 * i));
    add_unused(v, n_vocab - 2);
    add_token(v, "<start_of_turn>", 3, -1000);
    add_token(v, "<end_of_turn>", 3, -1000);
}

static void tokenizer(gguf_build *b, const gguf_tiny *t) {
    bool spm = is_gemma(t);
    if (t->n_vocab < 280) {
        fprintf(stderr, "gguf_tiny: n_vocab must be at least 280\n");
        abort();
    }
    vocab v = {malloc(t->n_vocab * sizeof *v.text), malloc(t->n_vocab * sizeof *v.ptr), malloc(t->n_vocab * sizeof *v.type),
               malloc(t->n_vocab * sizeof *v.score), 0};
    if (v.text == NULL || v.ptr == NULL || v.type == NULL || v.score == NULL) abort();
    if (spm) spm_vocab(&v, t->n_vocab);
    else bpe_vocab(&v, t->n_vocab);
    gguf_build_str(b, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
    gguf_build_str(b, "tokenizer.ggml.pre", spm ? "default" : is_arch(t, "llama") ? "llama-bpe" : "qwen2");
    gguf_build_array_str(b, "tokenizer.ggml.tokens", v.ptr, v.n);
    gguf_build_array_i32(b, "tokenizer.ggml.token_type", v.type, v.n);
    if (spm) {
        gguf_build_array_f32(b, "tokenizer.ggml.scores", v.score, v.n);
        gguf_build_u32(b, "tokenizer.ggml.bos_token_id", 2);
        gguf_build_u32(b, "tokenizer.ggml.eos_token_id", 1);
        gguf_build_u32(b, "tokenizer.ggml.unknown_token_id", 3);
        gguf_build_u32(b, "tokenizer.ggml.padding_token_id", 0);
        gguf_build_bool(b, "tokenizer.ggml.add_bos_token", true);
        gguf_build_bool(b, "tokenizer.ggml.add_space_prefix", false);
    } else {
        gguf_build_array_str(b, "tokenizer.ggml.merges", merges, N_MERGES);
        gguf_build_u32(b, "tokenizer.ggml.eos_token_id", t->n_vocab - 1);
        gguf_build_u32(b, "tokenizer.ggml.padding_token_id", t->n_vocab - 3);
        gguf_build_bool(b, "tokenizer.ggml.add_bos_token", false);
        gguf_build_str(b, "tokenizer.chat_template",
                       "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
                       "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
    }
    free(v.text);
    free(v.ptr);
    free(v.type);
    free(v.score);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static void tensor(gguf_build *b, const gguf_tiny *t, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, float mean, float sigma) {
    if (t->header_only) gguf_build_absent(b, name, type, n_dims, ne);
    else gguf_build_random(b, name, type, n_dims, ne, t->seed, mean, sigma);
}

static void matrix(gguf_build *b, const gguf_tiny *t, const char *name, dct_dtype type, uint32_t in, uint32_t out, float sigma) {
    tensor(b, t, name, type, 2, (uint64_t[]){in, out}, 0, sigma);
}

static void vector(gguf_build *b, const gguf_tiny *t, const char *name, uint32_t n, float mean, float sigma) {
    tensor(b, t, name, DCT_TYPE_F32, 1, (uint64_t[]){n}, mean, sigma);
}

typedef struct layer {
    gguf_build *b;
    const gguf_tiny *t;
    uint32_t il;
} layer;

static void layer_matrix(const layer *l, const char *name, uint32_t in, uint32_t out) {
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", l->il, name);
    matrix(l->b, l->t, full, l->t->type, in, out, 1 / sqrtf((float)in));
}

static void layer_norm(const layer *l, const char *name, uint32_t n) {
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", l->il, name);
    vector(l->b, l->t, full, n, 1, 0.1f);
}

static void layer_bias(const layer *l, const char *name, uint32_t n) {
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.bias", l->il, name);
    vector(l->b, l->t, full, n, 0, 0.2f);
}

static void layer_tensors(const layer *l) {
    const gguf_tiny *t = l->t;
    uint32_t q = t->n_head * t->head_dim, kv = t->n_head_kv * t->head_dim;
    layer_norm(l, "attn_norm", t->n_embd);
    if (is_arch(t, "phi3")) {
        layer_matrix(l, "attn_qkv", t->n_embd, q + 2 * kv);
    } else {
        layer_matrix(l, "attn_q", t->n_embd, q);
        layer_matrix(l, "attn_k", t->n_embd, kv);
        layer_matrix(l, "attn_v", t->n_embd, kv);
    }
    if (t->biases) {
        layer_bias(l, "attn_q", q);
        layer_bias(l, "attn_k", kv);
        layer_bias(l, "attn_v", kv);
    }
    if (is_arch(t, "qwen3") || is_arch(t, "gemma3")) {
        layer_norm(l, "attn_q_norm", t->head_dim);
        layer_norm(l, "attn_k_norm", t->head_dim);
    }
    layer_matrix(l, "attn_output", q, t->n_embd);
    if (is_gemma(t)) layer_norm(l, "post_attention_norm", t->n_embd);
    layer_norm(l, "ffn_norm", t->n_embd);
    if (is_arch(t, "phi3")) {
        layer_matrix(l, "ffn_up", t->n_embd, 2 * t->n_ff);
    } else {
        layer_matrix(l, "ffn_gate", t->n_embd, t->n_ff);
        layer_matrix(l, "ffn_up", t->n_embd, t->n_ff);
    }
    layer_matrix(l, "ffn_down", t->n_ff, t->n_embd);
    if (is_gemma(t)) layer_norm(l, "post_ffw_norm", t->n_embd);
}

static void rope_freqs(gguf_build *b, const gguf_tiny *t) {
    float factors[512];
    uint64_t n = t->head_dim / 2;
    for (uint64_t i = 0; i < n && i < 512; i++) factors[i] = i < n / 2 ? 1.0f : 8.0f;
    gguf_build_tensor(b, "rope_freqs.weight", DCT_TYPE_F32, 1, &n, factors);
}

void gguf_build_tiny(gguf_build *b, const gguf_tiny *t) {
    gguf_build_init(b, t->version, t->big_endian);
    hparams(b, t);
    tokenizer(b, t);
    float embd_sigma = 3 / sqrtf((float)t->n_embd); /* logits of a normed row then deviate by 3 */
    matrix(b, t, "token_embd.weight", t->embd_type, t->n_embd, t->n_vocab, embd_sigma);
    for (uint32_t il = 0; il < t->n_layer; il++) layer_tensors(&(layer){b, t, il});
    vector(b, t, "output_norm.weight", t->n_embd, 1, 0.1f);
    if (!t->tied) matrix(b, t, "output.weight", t->embd_type, t->n_embd, t->n_vocab, embd_sigma);
    if (t->rope_freqs) rope_freqs(b, t);
}
