#include "tools/synth_vocab.h"

#include <stdio.h>
#include <string.h>

#include "base/name_index.h"
#include "base/random.h"

enum { MAX_TOKEN = 16, N_HAN = 2000 };

typedef struct maker {
    dct_synth_vocab *v;
    dct_arena *arena;
    uint64_t random;
    dct_name_index index; /* tokens by text */
    uint32_t *pool;  /* token ids that joins are made of, most frequent first */
    uint32_t n_pool;
    bool full;       /* the arena was */
} maker;

_Static_assert(offsetof(dct_synth_token, text) == 0, "name_index needs the text first");

static uint64_t draw(maker *m) { return dct_random_next(&m->random); }

uint32_t dct_synth_byte_char(uint8_t byte) {
    uint32_t moved = 0;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return printable ? b : 0x100 + moved;
        if (!printable) moved++;
    }
    return 0;
}

/* --- adding tokens ------------------------------------------------------------------------------------------------ */

/* Where the number + 1 of the token with that text stands. */
static uint32_t *find_slot(const maker *m, const char *text, size_t n) {
    return dct_name_index_slot(&m->index, m->v->tokens, sizeof *m->v->tokens, (dct_str){text, n});
}

/* False when there is such a token already or no memory. */
static bool add(maker *m, const char *text, size_t n, int32_t type) {
    dct_synth_vocab *v = m->v;
    uint32_t *slot = find_slot(m, text, n);
    if (*slot != 0) return false;
    char *copy = dct_arena_strndup(m->arena, text, n);
    if (copy == NULL) {
        m->full = true;
        return false;
    }
    v->tokens[v->n_tokens++] = (dct_synth_token){{copy, n}, type, 0};
    *slot = v->n_tokens;
    return true;
}

static void add_z(maker *m, const char *text, int32_t type) { add(m, text, strlen(text), type); }

static void add_numbered(maker *m, const char *format, uint32_t number, int32_t type) DCT_PRINTF(2, 0);
static void add_numbered(maker *m, const char *format, uint32_t number, int32_t type) {
    char text[64];
    snprintf(text, sizeof text, format, number);
    add_z(m, text, type);
}

/* The token that is one byte or character, into the pool. */
static void pool_text(maker *m, const char *text, size_t n) {
    uint32_t found = *find_slot(m, text, n);
    if (found != 0) m->pool[m->n_pool++] = found - 1;
}

/* The frequent parts of words, in about their order. `space` is what stands for one. */
static void fill_pool(maker *m, const char *space) {
    pool_text(m, space, strlen(space));
    for (const char *c = "etaoinshrdlucmwfgypbvkjxqzETAOINSRHDLUCMWFGYPBVKJXQZ"; *c != '\0'; c++) pool_text(m, c, 1);
}

static bool is_word_start(dct_str s) { return s.len > 0 && (s.ptr[0] == ' ' || (uint8_t)s.ptr[0] == 0xe2); }
static bool is_letters(dct_str s) { return s.len > 0 && (uint8_t)s.ptr[s.len - 1] < 0x80 && s.ptr[s.len - 1] != ' '; }

/* An id of the pool, earlier ones more often. */
static uint32_t draw_part(maker *m) {
    double u = (double)(draw(m) >> 11) * 0x1p-53;
    return m->pool[(uint32_t)(u * u * u * (double)m->n_pool)];
}

/* Joins two parts into a new token. False when they do not fit together or their join exists. */
static bool join(maker *m, uint32_t left, uint32_t right) {
    dct_synth_vocab *v = m->v;
    dct_str a = v->tokens[left].text, b = v->tokens[right].text;
    if (a.len + b.len > MAX_TOKEN) return false;
    char text[MAX_TOKEN];
    memcpy(text, a.ptr, a.len);
    memcpy(text + a.len, b.ptr, b.len);
    if (!add(m, text, a.len + b.len, DCT_TOKEN_NORMAL)) return false;
    v->merges[v->n_merges++] = (dct_synth_merge){left, right};
    return true;
}

/* Words, until there are `upto` tokens. */
static void add_words(maker *m, uint32_t upto) {
    while (m->v->n_tokens < upto && !m->full) {
        uint32_t left = draw_part(m), right = draw_part(m);
        if (is_word_start(m->v->tokens[right].text) || !is_letters(m->v->tokens[right].text)) continue;
        if (join(m, left, right)) m->pool[m->n_pool++] = m->v->n_tokens - 1;
    }
}

/* Chinese characters of three bytes, each of two merges, up to `n` of them or `upto` tokens. Byte tokens are at `bytes`. */
static void add_han_merges(maker *m, const uint32_t *bytes, uint32_t n, uint32_t upto) {
    for (uint32_t i = 0; i < n && m->v->n_tokens + 2 <= upto && !m->full; i++) {
        uint64_t bits = draw(m);
        char lead[2] = {(char)(0xe4 + bits % 6), (char)(0x80 + (bits >> 8) % 64)};
        join(m, bytes[(uint8_t)lead[0]], bytes[(uint8_t)lead[1]]);
        uint32_t found = *find_slot(m, lead, 2);
        if (found != 0) join(m, found - 1, bytes[0x80 + (bits >> 16) % 64]);
    }
}

/* --- families ----------------------------------------------------------------------------------------------------- */

static const char chatml_template[] =
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if not (loop.first and message['role'] == 'system') %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

static const char chatml_plain_template[] =
    "{%- for message in messages %}{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' "
    "}}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

static const char llama3_template[] =
    "{%- for message in messages %}{%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
    "message['content'] | trim + '<|eot_id|>' %}{%- if loop.first %}{%- set content = bos_token + content %}{%- endif "
    "%}{{- content }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";

static const char gemma_template[] =
    "{{ bos_token }}{%- for message in messages %}{%- set role = 'model' if message['role'] == 'assistant' else "
    "message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}";

static void finish_qwen(maker *m, const dct_synth_shape *shape) {
    static const char *const names[] =
        {"<|endoftext|>",  "<|im_start|>",   "<|im_end|>",    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
         "<|box_end|>",    "<|quad_start|>", "<|quad_end|>",  "<|vision_start|>",     "<|vision_end|>",     "<|vision_pad|>",
         "<|image_pad|>",  "<|video_pad|>",  "<tool_call>",   "</tool_call>",         "<|fim_prefix|>",     "<|fim_middle|>",
         "<|fim_suffix|>", "<|fim_pad|>",    "<|repo_name|>", "<|file_sep|>",         "<tool_response>",    "</tool_response>",
         "<think>",        "</think>"};
    dct_synth_vocab *v = m->v;
    uint32_t first = v->n_tokens, n = shape->family == DCT_SYNTH_QWEN3 ? 26 : shape->family == DCT_SYNTH_QWEN2VL ? 14 : 22;
    for (uint32_t i = 0; i < n; i++) add_z(m, names[i], names[i][1] == '|' ? DCT_TOKEN_CONTROL : DCT_TOKEN_USER);
    while (v->n_tokens < shape->n_vocab && !m->full) add_numbered(m, "[PAD%u]", v->n_tokens, DCT_TOKEN_UNUSED);
    v->pad = (int32_t)first;
    v->eos = (int32_t)first + 2;
    v->bos = (int32_t)first;
    v->pre = "qwen2";
    v->chat_template = shape->family == DCT_SYNTH_QWEN3 ? chatml_plain_template : chatml_template;
}

static void finish_llama3(maker *m, const dct_synth_shape *shape) {
    static const char *const names[] = {"<|begin_of_text|>",
                                        "<|end_of_text|>",
                                        "<|reserved_special_token_0|>",
                                        "<|reserved_special_token_1|>",
                                        "<|finetune_right_pad_id|>",
                                        "<|reserved_special_token_2|>",
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|python_tag|>"};
    dct_synth_vocab *v = m->v;
    uint32_t first = v->n_tokens;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) add_z(m, names[i], DCT_TOKEN_CONTROL);
    for (uint32_t i = 3; v->n_tokens < shape->n_vocab && !m->full; i++)
        add_numbered(m, "<|reserved_special_token_%u|>", i, DCT_TOKEN_CONTROL);
    v->bos = (int32_t)first;
    v->eos = (int32_t)first + 9;
    v->pad = (int32_t)first + 4;
    v->add_bos = true;
    v->pre = "llama-bpe";
    v->chat_template = llama3_template;
}

static void make_bpe(maker *m, const dct_synth_shape *shape) {
    uint32_t bytes[256];
    for (uint32_t c = 0; c < 512; c++) { /* in the order of the byte alphabet's characters */
        for (uint32_t b = 0; b < 256; b++) {
            if (dct_synth_byte_char((uint8_t)b) != c) continue;
            char byte = (char)b;
            bytes[b] = m->v->n_tokens;
            add(m, &byte, 1, DCT_TOKEN_NORMAL);
        }
    }
    fill_pool(m, " ");
    add_words(m, 256 + (shape->n_plain - 256) / 2);
    add_han_merges(m, bytes, N_HAN, shape->n_plain);
    add_words(m, shape->n_plain);
    if (shape->family == DCT_SYNTH_LLAMA3) finish_llama3(m, shape);
    else finish_qwen(m, shape);
}

/* Gemma's order: control tokens, unused ones, bytes from 238, pieces by rank, single characters at the end. */
static void make_spm(maker *m, const dct_synth_shape *shape) {
    static const char space[] = "\xe2\x96\x81";
    dct_synth_vocab *v = m->v;
    add_z(m, "<pad>", DCT_TOKEN_CONTROL);
    add_z(m, "<eos>", DCT_TOKEN_CONTROL);
    add_z(m, "<bos>", DCT_TOKEN_CONTROL);
    add_z(m, "<unk>", DCT_TOKEN_UNKNOWN);
    add_z(m, "<mask>", DCT_TOKEN_CONTROL);
    for (uint32_t i = 0; v->n_tokens < 105; i++) add_numbered(m, "<unused%u>", i, DCT_TOKEN_UNUSED);
    add_z(m, "<start_of_turn>", DCT_TOKEN_CONTROL);
    add_z(m, "<end_of_turn>", DCT_TOKEN_CONTROL);
    for (uint32_t i = 100; v->n_tokens < 238; i++) add_numbered(m, "<unused%u>", i, DCT_TOKEN_UNUSED);
    for (uint32_t i = 0; i < 256; i++) add_numbered(m, "<0x%02X>", i, DCT_TOKEN_BYTE);

    uint32_t first = v->n_tokens;
    add_z(m, space, DCT_TOKEN_NORMAL);
    for (char c = '!'; c <= '~'; c++) add(m, &c, 1, DCT_TOKEN_NORMAL);
    for (uint32_t i = 0; i < N_HAN; i++) {
        uint64_t bits = draw(m);
        char han[3] = {(char)(0xe4 + bits % 6), (char)(0x80 + (bits >> 8) % 64), (char)(0x80 + (bits >> 16) % 64)};
        add(m, han, 3, DCT_TOKEN_NORMAL);
    }
    uint32_t n_chars = v->n_tokens - first;
    fill_pool(m, space);
    add_words(m, shape->n_vocab);
    /* Joins are merged in the order they were made; characters come last. */
    for (uint32_t i = first + n_chars; i < v->n_tokens; i++) v->tokens[i].score = -(float)(i - first - n_chars);
    for (uint32_t i = first; i < first + n_chars; i++) v->tokens[i].score = -(float)(v->n_tokens - first + i - first - n_chars);
    v->pad = 0;
    v->eos = 1;
    v->bos = 2;
    v->unk = 3;
    v->add_bos = true;
    v->pre = "default";
    v->chat_template = gemma_template;
}

dct_status dct_synth_vocab_make(dct_synth_vocab *v, const dct_synth_shape *shape, uint64_t seed, dct_arena *arena, dct_err *err) {
    memset(v, 0, sizeof *v);
    v->spm = shape->family == DCT_SYNTH_GEMMA3;
    v->bos = v->eos = v->pad = v->unk = -1;
    maker m = {.v = v, .arena = arena, .random = dct_hash_mix(seed)};
    bool indexed = dct_name_index_init(&m.index, shape->n_vocab, 0, arena);
    m.pool = dct_arena_array(arena, shape->n_vocab, sizeof *m.pool);
    v->tokens = dct_arena_array(arena, shape->n_vocab, sizeof *v->tokens);
    v->merges = dct_arena_array(arena, shape->n_vocab, sizeof *v->merges);
    if (!indexed || m.pool == NULL || v->tokens == NULL || v->merges == NULL)
        return dct_fail_memory(err, arena, "the vocabulary");
    if (v->spm) make_spm(&m, shape);
    else make_bpe(&m, shape);
    if (m.full) return dct_fail_memory(err, arena, "the vocabulary");
    if (v->n_tokens != shape->n_vocab)
        return dct_fail(err, DCT_BUG, "a vocabulary of %u tokens instead of %u", v->n_tokens, shape->n_vocab);
    return DCT_OK;
}
