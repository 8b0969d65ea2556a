/* Fuzzes the tokenizer: any bytes as a vocabulary (a GGUF header), then any text through it with exactly the promised scratch.
 *
 * The input is a header of up to 64 KiB whose length stands in the first four bytes, and the text. Without a valid header, the text goes
 * through a small built-in vocabulary of each kind, chosen by the first byte, so that the algorithms are reached from the start.
 */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

#define REQUIRE(what) ((what) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* ---- a small vocabulary ---- */

typedef struct image { uint8_t bytes[32768]; size_t n; } image;

static void put(image *g, const void *bytes, size_t n) {
    REQUIRE(g->n + n <= sizeof g->bytes);
    memcpy(g->bytes + g->n, bytes, n);
    g->n += n;
}

static void put_int(image *g, uint64_t v, size_t n) { put(g, &v, n); } /* little-endian hosts only, as all of these files are */

static void put_str(image *g, const char *text) {
    put_int(g, strlen(text), 8);
    put(g, text, strlen(text));
}

static void put_key_str(image *g, const char *key, const char *value) {
    put_str(g, key);
    put_int(g, DCT_META_STRING, 4);
    put_str(g, value);
}

static void put_array(image *g, const char *key, dct_meta_type type, uint64_t n) {
    put_str(g, key);
    put_int(g, DCT_META_ARRAY, 4);
    put_int(g, type, 4);
    put_int(g, n, 8);
}

static const char *const cuts[] = {"qwen2", "llama-bpe", "gpt-2", "smollm", "deepseek-llm", "default", "dbrx", NULL}; /* NULL: SPM */
static const char *const bpe_words[] = {"aa", "aaaa", "ab", "Ġa", "ĠĠ", "ba", "aba"};
static const char *const bpe_merges[] = {"a a", "aa aa", "a b", "Ġ a", "Ġ Ġ", "b a", "a ba", "ab a"};
static const char *const spm_words[] = {"▁", "a", "b", "aa", "aaaa", "▁a", "▁▁", "ab", "ba"};
enum { N_BPE_WORDS = 7, N_BPE_MERGES = 8, N_SPM_WORDS = 9 };

static void put_byte_token(image *g, bool is_bpe, uint32_t byte, uint32_t *next) {
    static const char digits[] = "0123456789ABCDEF";
    char spm[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>', 0};
    if (!is_bpe) {
        put_str(g, spm);
        return;
    }
    bool is_plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    uint32_t code = is_plain ? byte : (*next)++;
    char bpe[3] = {(char)code, 0, 0};
    if (code >= 0x80) {
        bpe[0] = (char)(0xc0 | code >> 6);
        bpe[1] = (char)(0x80 | (code & 0x3f));
    }
    put_str(g, bpe);
}

static void make_vocabulary(image *g, const char *cut) {
    bool is_bpe = cut != NULL;
    uint32_t n_words = is_bpe ? N_BPE_WORDS : N_SPM_WORDS, n_tokens = 5 + 256 + n_words, next = 0x100;
    g->n = 0;
    put(g, "GGUF\3\0\0\0", 8);
    put_int(g, 0, 8);
    put_int(g, 6, 8);
    put_key_str(g, "general.architecture", is_bpe ? "llama" : "phi3");
    put_key_str(g, "tokenizer.ggml.model", is_bpe ? "gpt2" : "llama");
    put_key_str(g, "tokenizer.ggml.pre", is_bpe ? cut : "default");
    put_array(g, "tokenizer.ggml.tokens", DCT_META_STRING, n_tokens);
    put_str(g, "<unk>");
    put_str(g, "<s>");
    put_str(g, "</s>");
    put_str(g, "<u>");
    put_str(g, "<u>>");
    for (uint32_t byte = 0; byte < 256; byte++) put_byte_token(g, is_bpe, byte, &next);
    for (uint32_t i = 0; i < n_words; i++) put_str(g, is_bpe ? bpe_words[i] : spm_words[i]);
    put_array(g, "tokenizer.ggml.token_type", DCT_META_I32, n_tokens);
    static const uint32_t types[] = {2, 3, 3, 4, 4};
    for (uint32_t id = 0; id < n_tokens; id++) put_int(g, id < 5 ? types[id] : id < 261 && !is_bpe ? 6 : 1, 4);
    if (is_bpe) {
        put_array(g, "tokenizer.ggml.merges", DCT_META_STRING, N_BPE_MERGES);
        for (uint32_t i = 0; i < N_BPE_MERGES; i++) put_str(g, bpe_merges[i]);
        return;
    }
    put_array(g, "tokenizer.ggml.scores", DCT_META_F32, n_tokens);
    for (uint32_t id = 0; id < n_tokens; id++) {
        float score = -(float)(id % 5);
        put(g, &score, 4);
    }
}

/* ---- the run ---- */

/* Encodes and decodes; on a vocabulary of ours the text must come back. */
static void run_text(const dct_tokenizer *t, const uint8_t *text, size_t n, bool is_ours) {
    dct_err err;
    uint64_t n_ids = 0, cap = 3 * n + 4;
    void *scratch = malloc(dct_tokenizer_scratch_bytes(n));
    dct_token *ids = malloc(cap * sizeof *ids);
    char *back = malloc(cap * ((uint64_t)dct_tokenizer_longest(t) + 1));
    const dct_text_part parts[] = {{n / 2, true}, {n, false}};
    dct_status status = dct_tokenizer_encode_parts(t, (const char *)text, n, parts, 2, true, scratch, ids, cap, &n_ids, &err);
    REQUIRE(status == DCT_OK || !is_ours);
    if (status == DCT_OK) {
        REQUIRE(n_ids <= cap);
        for (uint64_t i = 0; i < n_ids; i++) {
            REQUIRE(ids[i] < dct_tokenizer_n_tokens(t));
            REQUIRE(dct_tokenizer_piece(t, ids[i], true, back, UINT64_MAX) <= dct_tokenizer_longest(t));
        }
    }
    status = dct_tokenizer_encode(t, (const char *)text, n, false, false, scratch, ids, cap, &n_ids, &err);
    for (uint64_t i = 0; status == DCT_OK && i < n_ids; i++) REQUIRE(!dct_tokenizer_is_control(t, ids[i]) || ids[i] == dct_tokenizer_special(t)->unk);
    bool has_spm_space = memmem(text, n, "\xe2\x96\x81", 3) != NULL;    /* SPM cannot tell it from a space */
    bool has_user = memmem(text, n, "<u>", 3) != NULL;                   /* SPM puts a space after it */
    if (is_ours && !has_spm_space && !has_user) {
        size_t n_back = 0;
        for (uint64_t i = 0; i < n_ids; i++)
            n_back += i == 0 ? dct_tokenizer_piece_first(t, ids[i], true, back) : dct_tokenizer_piece(t, ids[i], true, back + n_back, UINT64_MAX);
        REQUIRE(n_back == n && memcmp(back, text, n) == 0);
    }
    free(back);
    free(ids);
    free(scratch);
}

static void run_vocabulary(const uint8_t *header, size_t n_header, const uint8_t *text, size_t n, bool is_ours) {
    dct_arena arena;
    dct_model model;
    dct_err err;
    uint64_t table_bytes;
    dct_tokenizer *t;
    dct_arena_init(&arena, 64u << 20);
    if (dct_model_open_bytes(&model, header, n_header, &arena, &err) == DCT_OK) {
        dct_status status = dct_tokenizer_measure(&model, &arena, &table_bytes, &err);
        REQUIRE(status == DCT_OK || !is_ours);
        if (status == DCT_OK) {
            void *memory = aligned_alloc(64, table_bytes);
            REQUIRE(dct_tokenizer_build(&model, memory, table_bytes, &t, &err) == DCT_OK); /* what was measured will be built */
            run_text(t, text, n, is_ours);
            free(memory);
        }
        dct_model_close(&model);
    }
    dct_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static image g;
    uint32_t n_header;
    if (n < 4) return 0;
    memcpy(&n_header, data, 4);
    if (n_header >= 24 && n_header <= n - 4 && n_header < 65536) {
        run_vocabulary(data + 4, n_header, data + 4 + n_header, n - 4 - n_header, false);
        return 0;
    }
    make_vocabulary(&g, cuts[data[0] % (sizeof cuts / sizeof cuts[0])]);
    run_vocabulary(g.bytes, g.n, data + 1, n - 1, true);
    return 0;
}
