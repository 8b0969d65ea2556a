/* Small vocabularies for tests, as GGUF images: byte-level BPE with 256 byte tokens, and SPM with byte fallback. */
#ifndef TESTS_TEXT_VOCAB_MAKE_H
#define TESTS_TEXT_VOCAB_MAKE_H

#include "support/gguf_build.h"
#include "text_support.h"

enum { MAKE_MAX = 1024 };

typedef struct made_vocab {
    const char *tokens[MAKE_MAX];
    int32_t types[MAKE_MAX];
    float scores[MAKE_MAX];
    uint32_t n_tokens;
    const char *merges[MAKE_MAX];
    uint32_t n_merges;
    char store[MAKE_MAX * 16]; /* texts that were put together here */
    size_t n_store;
} made_vocab;

static inline uint32_t made_token(made_vocab *m, const char *text, int32_t type, float score) {
    assert_true(m->n_tokens < MAKE_MAX);
    m->tokens[m->n_tokens] = text;
    m->types[m->n_tokens] = type;
    m->scores[m->n_tokens] = score;
    return m->n_tokens++;
}

static inline const char *made_text(made_vocab *m, const char *format, const char *a, const char *b) {
    char *text = m->store + m->n_store;
    m->n_store += (size_t)snprintf(text, sizeof m->store - m->n_store, format, a, b) + 1;
    assert_true(m->n_store < sizeof m->store);
    return text;
}

/* "a b": the merge, and the token it makes when that is new. */
static inline void made_merge(made_vocab *m, const char *a, const char *b) {
    const char *joined = made_text(m, "%s%s", a, b);
    bool is_known = false;
    for (uint32_t i = 0; i < m->n_tokens; i++) is_known |= strcmp(m->tokens[i], joined) == 0;
    if (!is_known) made_token(m, joined, 1, 0);
    m->merges[m->n_merges++] = made_text(m, "%s %s", a, b);
}

/* The 256 bytes in the alphabet of byte-level BPE; token i is byte i. */
static inline void made_bpe(made_vocab *m) {
    memset(m, 0, sizeof *m);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool is_plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        uint32_t code = is_plain ? byte : next++;
        char text[3] = {(char)code, 0, 0};
        if (code >= 0x80) {
            text[0] = (char)(0xc0 | code >> 6);
            text[1] = (char)(0x80 | (code & 0x3f));
        }
        made_token(m, made_text(m, "%s%s", text, ""), 1, 0);
    }
}

/* <unk> <s> </s>, then the bytes; ids as every SPM model has them. */
static inline void made_spm(made_vocab *m) {
    memset(m, 0, sizeof *m);
    made_token(m, "<unk>", 2, 0);
    made_token(m, "<s>", 3, 0);
    made_token(m, "</s>", 3, 0);
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        made_token(m, made_text(m, "%s%s", text, ""), 6, 0);
    }
}

/* Starts an image with everything but what the test adds itself; then test_vocab_open_bytes on gguf_build_image. */
static inline void made_write(const made_vocab *m, gguf_build *b, bool is_spm, const char *pre) {
    gguf_build_init(b, 3, false);
    gguf_build_str(b, "general.architecture", "llama");
    gguf_build_str(b, "tokenizer.ggml.model", is_spm ? "llama" : "gpt2");
    if (pre != NULL) gguf_build_str(b, "tokenizer.ggml.pre", pre);
    gguf_build_array_str(b, "tokenizer.ggml.tokens", m->tokens, m->n_tokens);
    gguf_build_array_i32(b, "tokenizer.ggml.token_type", m->types, m->n_tokens);
    if (is_spm) gguf_build_array_f32(b, "tokenizer.ggml.scores", m->scores, m->n_tokens);
    else gguf_build_array_str(b, "tokenizer.ggml.merges", m->merges, m->n_merges);
}

/* Opens the image and frees it. */
static inline dct_status made_open(gguf_build *b, test_vocab *v, dct_err *err) {
    size_t n;
    const uint8_t *image = gguf_build_image(b, &n);
    dct_status status = test_vocab_open_bytes(v, image, n, err);
    gguf_build_free(b);
    return status;
}

static inline test_vocab made_open_good(gguf_build *b) {
    test_vocab v;
    dct_err err = {0};
    if (made_open(b, &v, &err) != DCT_OK) fail_msg("%s", err.message);
    return v;
}

#endif
