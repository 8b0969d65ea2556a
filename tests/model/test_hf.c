/* Model directories: what the record says of a good one, and what is refused: JSON, configurations, tokenizers, headers and indexes that lie
 * (users.md U29, for safetensors). A directory is made of texts; every test changes one thing of a good one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "base/half.h"
#include "model/hparams.h"
#include "text/tokenizer.h"

static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5,\"vocab_size\":8,\"rope_theta\":10000.0,\"hidden_act\":\"silu\"}";
static const char tokenizer[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<|end|>\",\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"ab\":3,\"\\\"\":4},\"merges\":[\"a b\",[\"a\",\"b\"]]}}";
static const char tokenizer_config[] = "{\"eos_token\":\"<|end|>\",\"bos_token\":null,\"chat_template\":\"{{ x }}\"}";

/* name, dtype, rows (0: a vector), columns, bytes an element */
typedef struct part_tensor {
    const char *name, *dtype;
    unsigned rows, cols, width;
} part_tensor;

static const part_tensor good[] = {
    {"model.embed_tokens.weight", "F16", 8, 64, 2},  {"model.norm.weight", "F32", 0, 64, 4}, {"model.layers.0.self_attn.q_proj.weight", "BF16", 64, 64, 2},
    {"model.layers.0.mlp.down_proj.weight", "U32", 64, 8, 4}, {"model.layers.0.mlp.down_proj.scales", "BF16", 64, 1, 2}, {"model.layers.0.mlp.down_proj.biases", "BF16", 64, 1, 2},
    {"vision_tower.patch.weight", "I64", 2, 3, 8},
};
enum { N_GOOD = sizeof good / sizeof *good };

/* ---- a directory on disk ---- */

static char directory[400];

static const char *path_in(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t n) {
    FILE *file = fopen(path_in(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text) { write_file(name, text, strlen(text)); }

/* The JSON of a header for these tensors, one after another; returns the bytes of data. */
static size_t header_of(const part_tensor *list, unsigned n, char *out, size_t cap) {
    size_t at = 0, used = (size_t)snprintf(out, cap, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (unsigned i = 0; i < n; i++) {
        size_t bytes = (size_t)(list[i].rows == 0 ? 1 : list[i].rows) * list[i].cols * list[i].width;
        char shape[64];
        if (list[i].rows == 0) snprintf(shape, sizeof shape, "%u", list[i].cols);
        else snprintf(shape, sizeof shape, "%u,%u", list[i].rows, list[i].cols);
        used += (size_t)snprintf(out + used, cap - used, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", list[i].name, list[i].dtype, shape, at, at + bytes);
        at += bytes;
    }
    snprintf(out + used, cap - used, "}");
    return at;
}

/* A file of this JSON and n bytes of data, which count up. */
static void write_weights(const char *name, const char *json, size_t n_data) {
    uint64_t n = strlen(json);
    uint8_t *bytes = malloc(8 + n + n_data);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, json, n);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n + i] = (uint8_t)(i * 7);
    write_file(name, bytes, 8 + n + n_data);
    free(bytes);
}

static char header[8192];
static size_t n_data;

static void make_good(void) {
    write_text("config.json", config);
    write_text("tokenizer.json", tokenizer);
    write_text("tokenizer_config.json", tokenizer_config);
    n_data = header_of(good, N_GOOD, header, sizeof header);
    write_weights("model.safetensors", header, n_data);
}

static void clear(void) {
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "model.safetensors.index.json", "a.safetensors", "b.safetensors",
                                        "generation_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_in(names[i]));
}

static dct_status open_it(dct_model *m, dct_arena *arena, dct_err *err) {
    dct_arena_init(arena, 0);
    memset(err, 0, sizeof *err);
    dct_status status = dct_model_open(m, directory, arena, err);
    if (arena->peak_bytes > 8 * 65536 + 3 * 1024 * 1024) fail_msg("%llu bytes for a small directory", (unsigned long long)arena->peak_bytes);
    return status;
}

static void refused(const char *text) {
    dct_model m;
    dct_arena arena;
    dct_err err;
    if (open_it(&m, &arena, &err) != DCT_BAD_FILE) fail_msg("accepted; '%s' expected", text);
    if (strstr(err.message, text) == NULL) fail_msg("expected '%s' in: %s", text, err.message);
    for (int i = 0; i < DCT_MAX_PARTS; i++) assert_int_equal(m.files[i].fd, -1);
    dct_arena_deinit(&arena);
}

/* `text` with the first `from` replaced by `to`. */
static const char *changed(const char *text, const char *from, const char *to) {
    static char buffers[4][8192];
    static unsigned turn;
    char *out = buffers[turn++ % 4]; /* so that a change of a change can be made */
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof buffers[0], "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

#define CONFIG_WITH_MLX changed(config, "}", ",\"quantization\":{\"group_size\":64,\"bits\":4}}")

static int set_up(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "%s/test_hf.%ld", DCT_BINARY_DIR, (long)getpid());
    if (mkdir(directory, 0777) != 0) return -1;
    make_good();
    write_text("config.json", CONFIG_WITH_MLX);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    clear();
    return rmdir(directory);
}

/* ---- what is read ---- */

static void good_directory(void **state) {
    (void)state;
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_hparams hp;
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(dct_hparams_read(&m, &hp, &err), DCT_OK);
    assert_string_equal(hp.arch, "llama");
    assert_int_equal(hp.n_head_kv[0], 1);
    assert_int_equal(m.n_tensors, 4);
    const dct_tensor *w = dct_model_find_tensor(&m, "blk.0.ffn_down.weight");
    assert_non_null(w);
    assert_int_equal(w->type, DCT_TYPE_MLX4_64_BF16);
    assert_true(w->ne[0] == 64 && w->ne[1] == 64 && w->bytes == 64 * 36);
    uint8_t blocks[3 * 36];
    assert_int_equal(dct_model_read_tensor(&m, w, 5 * 36, blocks, sizeof blocks, &err), DCT_OK);
    size_t codes = 8 * 64 * 2 + 64 * 4 + 64 * 64 * 2, scales = codes + 64 * 32, biases = scales + 128; /* in the data */
    for (size_t b = 0; b < 3; b++) {
        for (size_t i = 0; i < 32; i++) assert_int_equal(blocks[b * 36 + i], (uint8_t)((codes + (5 + b) * 32 + i) * 7));
        for (size_t i = 0; i < 2; i++) assert_int_equal(blocks[b * 36 + 32 + i], (uint8_t)((scales + (5 + b) * 2 + i) * 7));
        for (size_t i = 0; i < 2; i++) assert_int_equal(blocks[b * 36 + 34 + i], (uint8_t)((biases + (5 + b) * 2 + i) * 7));
    }
    const dct_meta *tokens = dct_model_find_meta(&m, "tokenizer.ggml.tokens"), *types = dct_model_find_meta(&m, "tokenizer.ggml.token_type");
    const dct_meta *merges = dct_model_find_meta(&m, "tokenizer.ggml.merges");
    static const char *const texts[] = {"a", "b", "\xc4\xa0", "ab", "\"", "[PAD5]", "<|end|>", "[PAD7]"};
    static const int64_t kinds[] = {1, 1, 1, 1, 1, 5, 3, 5};
    uint64_t cursor = 0;
    dct_str text;
    for (int i = 0; i < 8; i++) {
        int64_t kind;
        assert_true(dct_meta_array_next_str(&m, tokens, &cursor, &text) && dct_str_eq_z(text, texts[i]));
        assert_true(dct_meta_array_i64(&m, types, (uint64_t)i, &kind) && kind == kinds[i]);
    }
    cursor = 0;
    for (int i = 0; i < 2; i++) assert_true(dct_meta_array_next_str(&m, merges, &cursor, &text) && dct_str_eq_z(text, "a b"));
    bool found;
    uint32_t eos = 0;
    assert_int_equal(dct_model_get_u32(&m, "tokenizer.ggml.eos_token_id", &eos, &found, &err), DCT_OK);
    assert_int_equal(eos, 6);
    assert_null(dct_model_find_meta(&m, "tokenizer.ggml.bos_token_id"));
    dct_model_close(&m);
    dct_arena_deinit(&arena);
}

/* Gemma's norms are stored less 1; whichever elements are asked for. */
static void norms_of_gemma(void **state) {
    (void)state;
    write_text("config.json", changed(changed(CONFIG_WITH_MLX, "llama", "gemma2"), "silu", "gelu_pytorch_tanh"));
    dct_model m;
    dct_arena arena;
    dct_err err;
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    const dct_tensor *w = dct_model_find_tensor(&m, "output_norm.weight");
    float all[64], some[2];
    assert_true(w != NULL && w->type == DCT_TYPE_F32 && w->bytes == sizeof all);
    assert_int_equal(dct_model_read_tensor(&m, w, 0, all, sizeof all, &err), DCT_OK);
    assert_int_equal(dct_model_read_tensor(&m, w, 40, some, sizeof some, &err), DCT_OK);
    assert_memory_equal(some, all + 10, sizeof some);
    uint8_t raw[4];
    float x;
    for (int i = 0; i < 4; i++) raw[i] = (uint8_t)((8 * 64 * 2 + 12 + i) * 7);
    memcpy(&x, raw, sizeof x);
    assert_true(all[3] == x + 1.0f);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
}

/* What Gemma 3's class has by default stands in no configuration; and what is not Gemma 3 is refused. */
static void defaults_of_gemma3(void **state) {
    (void)state;
    static const char left_out[] = "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5,";
    const char *gemma = changed(changed(changed(CONFIG_WITH_MLX, "llama", "gemma3_text"), "silu", "gelu_pytorch_tanh"), left_out, "");
    char base[4096];
    snprintf(base, sizeof base, "%s", gemma);
    write_text("config.json", base);
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_hparams hp;
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(dct_hparams_read(&m, &hp, &err), DCT_OK);
    assert_true(hp.n_head[0] == 8 && hp.n_head_kv[0] == 4 && hp.head_dim_k == 256 && hp.n_ctx_train == 131072);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
    write_text("config.json", changed(base, "\"hidden_size\"", "\"use_bidirectional_attention\":true,\"hidden_size\""));
    refused("a model of embeddings");
    write_text("config.json", changed(base, "\"hidden_size\"", "\"layer_types\":[\"full_attention\"],\"hidden_size\""));
    refused("'layer_types': layer 0 is not of the kind");
}

/* What the record has of a cap, -1 where it has none. */
static double cap_of(const dct_model *m, const char *type, const char *name) {
    char key[96];
    snprintf(key, sizeof key, "%.6s.%s", type, name); /* "gemma3_text" is gemma3 */
    const dct_meta *meta = dct_model_find_meta(m, key);
    return meta != NULL ? meta->as.f : -1;
}

/* A cap that is not there is the family's own, which null takes away. Gemma 3 has one of logits alone, and none by default. */
static void caps_of_gemma(void **state) {
    (void)state;
    static const struct {
        const char *type, *keys;
        double attn, final; /* of the record; -1: none */
        float hp_attn, hp_final;
    } cases[] = {
        {"gemma2", "", -1, -1, 50, 30},
        {"gemma2", "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null,", 0, 0, 0, 0},
        {"gemma2", "\"attn_logit_softcapping\":40.0,", 40, -1, 40, 30},
        {"gemma3_text", "", -1, -1, 0, 0},
        {"gemma3_text", "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":30.0,", -1, 30, 0, 30},
    };
    char base[4096], more[256];
    snprintf(base, sizeof base, "%s", changed(CONFIG_WITH_MLX, "silu", "gelu_pytorch_tanh"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        dct_hparams hp;
        snprintf(more, sizeof more, "%s\"hidden_size\"", cases[i].keys);
        write_text("config.json", changed(changed(base, "llama", cases[i].type), "\"hidden_size\"", more));
        if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("case %zu: %s", i, err.message);
        assert_true(cap_of(&m, cases[i].type, "attn_logit_softcapping") == cases[i].attn);
        assert_true(cap_of(&m, cases[i].type, "final_logit_softcapping") == cases[i].final);
        if (dct_arch_hparams(&m, &hp, &err) != DCT_OK) fail_msg("case %zu: %s", i, err.message);
        assert_true(hp.attn_softcap == cases[i].hp_attn && hp.final_softcap == cases[i].hp_final);
        dct_model_close(&m);
        dct_arena_deinit(&arena);
    }
    const char *gemma3 = changed(base, "llama", "gemma3_text");
    write_text("config.json", changed(gemma3, "\"hidden_size\"", "\"attn_logit_softcapping\":50.0,\"hidden_size\""));
    refused("'attn_logit_softcapping' is not supported for gemma3");
}

/* ---- tokens ---- */

/* The ids of a text under this tokenizer.json, each as a letter from 'A' on. */
static const char *ids_of(const char *json, const char *text) {
    static char letters[64];
    dct_model m;
    dct_arena arena;
    dct_err err;
    uint64_t bytes, n;
    dct_tokenizer *t;
    dct_token ids[32];
    write_text("tokenizer.json", json);
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    if (dct_tokenizer_measure(&m, &arena, &bytes, &err) != DCT_OK) fail_msg("%s", err.message);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64), *scratch = malloc(dct_tokenizer_scratch_bytes(strlen(text)));
    assert_int_equal(dct_tokenizer_build(&m, memory, bytes, &t, &err), DCT_OK);
    assert_int_equal(dct_tokenizer_encode(t, text, strlen(text), false, true, scratch, ids, 32, &n, &err), DCT_OK);
    for (uint64_t i = 0; i < n; i++) letters[i] = (char)('A' + ids[i]);
    letters[n] = '\0';
    free(scratch);
    free(memory);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
    return letters;
}

#define METASPACE(rest) "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"," rest "}"

/* Pairs are joined that stand among the merges, in their order, whatever other pairs would make a token too; expected ids are those
 * of Hugging Face's own tokenizers. */
static void tokens_by_merges(void **state) {
    (void)state;
    static const char with_bytes[] =
        "{\"added_tokens\":[{\"id\":11,\"content\":\"<x>\",\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":null,"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"c\":3,\"bc\":4,\"ab\":5,\"abc\":6,"
        "\"\xe2\x96\x81\":7,\"\xe2\x96\x81" "a\":8,\"b\xe2\x96\x81\":9,\"ac\":10},"
        "\"merges\":[\"b c\",\"a b\",\"ab c\",\"b \xe2\x96\x81\",\"\xe2\x96\x81 a\"]}}";
    static const char no_merges[] = "\"merges\":[]}}";
    static const struct {
        const char *pre, *text, *ids;
    } cases[] = {
        {"null", "abc", "BE"}, /* a bc, though a and bc would make abc */
        {"null", "ac", "BD"},  /* ac is a token that no merge makes */
        {METASPACE("\"prepend_scheme\":\"always\",\"split\":false"), "a", "I"},
        {METASPACE("\"prepend_scheme\":\"always\",\"split\":false"), " a", "I"},
        {METASPACE("\"prepend_scheme\":\"always\",\"split\":false"), "  a", "HI"},
        {METASPACE("\"prepend_scheme\":\"always\",\"split\":false"), "<x>a<x> a", "LILI"},
        {METASPACE("\"prepend_scheme\":\"first\",\"split\":false"), " a<x>a", "ILB"},
        {METASPACE("\"prepend_scheme\":\"never\",\"split\":false"), "b b", "JC"},
        {METASPACE("\"prepend_scheme\":\"never\""), "b b", "CHC"},
    };
    write_text("config.json", changed(CONFIG_WITH_MLX, "\"vocab_size\":8", "\"vocab_size\":12"));
    unlink(path_in("tokenizer_config.json"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pre[256];
        snprintf(pre, sizeof pre, "\"pre_tokenizer\":%s", cases[i].pre);
        const char *ids = ids_of(changed(with_bytes, "\"pre_tokenizer\":null", pre), cases[i].text);
        if (strcmp(ids, cases[i].ids) != 0) fail_msg("'%s' with %s: %s, not %s", cases[i].text, cases[i].pre, ids, cases[i].ids);
    }
    char none[sizeof with_bytes];
    snprintf(none, sizeof none, "%.*s%s", (int)(strstr(with_bytes, "\"merges\"") - with_bytes), with_bytes, no_merges);
    assert_string_equal(ids_of(none, "abc"), "BCD");
    static const struct {
        const char *from, *to, *why;
    } refusals[] = {
        {"\"special\":true", "\"special\":true,\"lstrip\":true", "'lstrip' is not supported"},
        {"\"special\":true", "\"special\":true,\"rstrip\":true", "'rstrip' is not supported"},
        {"\"special\":true", "\"special\":true,\"single_word\":true", "'single_word' is not supported"},
        {"\"byte_fallback\":true", "\"byte_fallback\":true,\"ignore_merges\":true", "'ignore_merges' is not supported"},
        {"\"byte_fallback\":true", "\"byte_fallback\":true,\"end_of_word_suffix\":\"</w>\"", "'end_of_word_suffix' is not supported"},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"}", "'Prepend' beside tokens for bytes"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        write_text("tokenizer.json", changed(with_bytes, refusals[i].from, refusals[i].to));
        refused(refusals[i].why);
    }
}

/* Whatever ends an answer: all that generation_config.json lists. */
static void all_ends_are_known(void **state) {
    (void)state;
    dct_model m;
    dct_arena arena;
    dct_err err;
    int64_t id = 0;
    write_text("generation_config.json", "{\"eos_token_id\":[6,0,1,3]}");
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    const dct_meta *ends = dct_model_find_meta(&m, "tokenizer.end_token_ids");
    assert_true(ends != NULL && ends->array.n == 4 && dct_meta_array_i64(&m, ends, 3, &id) && id == 3);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
}

/* -1 is no token, and a pad token without a row says nothing; an end beyond the tables is wrong all the same. */
static void ids_that_say_nothing(void **state) {
    (void)state;
    static const char *const ids[] = {"\"pad_token_id\":8,", "\"pad_token_id\":-1,", "\"bos_token_id\":-1,"};
    char base[4096], more[256];
    snprintf(base, sizeof base, "%s", CONFIG_WITH_MLX);
    write_text("tokenizer_config.json", "{\"eos_token\":\"<|end|>\",\"pad_token\":\"[PAD]\"}");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        snprintf(more, sizeof more, "%s\"hidden_size\"", ids[i]);
        write_text("config.json", changed(base, "\"hidden_size\"", more));
        if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s: %s", ids[i], err.message);
        assert_null(dct_model_find_meta(&m, "tokenizer.ggml.padding_token_id"));
        assert_null(dct_model_find_meta(&m, "tokenizer.ggml.bos_token_id"));
        assert_non_null(dct_model_find_meta(&m, "tokenizer.ggml.eos_token_id"));
        dct_model_close(&m);
        dct_arena_deinit(&arena);
    }
    write_text("tokenizer_config.json", "{}");
    write_text("config.json", changed(base, "\"hidden_size\"", "\"eos_token_id\":8,\"hidden_size\""));
    refused("'eos_token_id' is not a token id below 8");
}

/* What the language model's part leaves out stands at the root; Llama's class has no window, Mistral's has. */
static void settings_of_the_root(void **state) {
    (void)state;
    static const char more[] = "\"sliding_window\":16,\"rope_theta\":77.0";
    const char *whole = changed(changed(CONFIG_WITH_MLX, "\"rope_theta\":10000.0", more), "{", "{\"text_config\":{\"tie_word_embeddings\":true},");
    for (int i = 0; i < 2; i++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        dct_hparams hp;
        write_text("config.json", i == 0 ? whole : changed(whole, "\"llama\"", "\"mistral\""));
        if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
        assert_int_equal(dct_hparams_read(&m, &hp, &err), DCT_OK);
        assert_true(hp.rope_base == 77.0f);
        assert_int_equal(dct_model_find_meta(&m, "llama.attention.sliding_window") != NULL, i == 1);
        dct_model_close(&m);
        dct_arena_deinit(&arena);
    }
}

/* ---- what is refused ---- */

static void wrong_configurations(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"llama\"", "\"mamba\"", "model_type 'mamba' is not supported"}, {"\"llama\"", "7", "'model_type' is not a string"}, {"\"hidden_size\":64", "\"x\":0", "'hidden_size' is missing"},
        {"\"hidden_size\":64", "\"hidden_size\":\"64\"", "'hidden_size' is not a whole number"}, {"\"hidden_size\":64", "\"hidden_size\":-1", "'hidden_size' is not a whole number"},
        {"\"hidden_size\":64", "\"hidden_size\":1e30", "'hidden_size' is not a whole number"}, {"\"hidden_size\":64", "\"hidden_size\":64,\"hidden_size\":32", "'hidden_size' stands twice"},
        {"\"silu\"", "\"relu\"", "activation 'relu'"}, {"1e-5", "true", "'rms_norm_eps' is not a number"}, {"10000.0", "-3", "'rope_theta' is -3"},
        {"\"rope_theta\":10000.0", "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "rotation scaled by 'dynamic'"},
        {"\"rope_theta\":10000.0", "\"rope_scaling\":{\"type\":\"linear\"}", "'factor' of the rotation is missing"},
        {"\"rope_theta\":10000.0", "\"rope_scaling\":{\"type\":\"longrope\"}", "rotation scaled by 'longrope' is not supported for llama"},
        {"\"rope_theta\":10000.0", "\"rope_scaling\":[]", "is not an object"}, {"\"rope_theta\":10000.0", "\"num_local_experts\":8", "mixtures of experts"},
        {"\"vocab_size\":8", "\"vocab_size\":4000000000", "tokens for a vocab_size"}, {"\"vocab_size\":8", "\"vocab_size\":3", "the id of a token"},
        {"\"bits\":4", "\"bits\":7", "bits or groups that are not known"}, {"\"bits\":4", "\"bits\":8", "does not agree in shape"}, {"\"group_size\":64", "\"group_size\":32", "does not agree in shape"},
        {"\"bits\":4", "\"bits\":4,\"mode\":\"mxfp4\"", "quantisation mode 'mxfp4' is not supported"}, {"\"quantization\":{", "\"quantization_config\":{\"quant_method\":\"gptq\",", "quantisation by 'gptq'"},
        {"\"bits\":4", "\"bits\":4,\"model.layers.0.mlp.down_proj\":false", "does not say how"}, {"\"quantization\":", "\"other\":", "does not say how"},
        {"{", "[", "an object expected"},
    };
    char base[4096];
    snprintf(base, sizeof base, "%s", CONFIG_WITH_MLX);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", changed(base, cases[i].from, cases[i].to));
        refused(cases[i].why);
    }
    for (size_t n = 0; n < strlen(base); n += 3) { /* cut anywhere */
        write_file("config.json", base, n);
        refused("config.json");
    }
    unlink(path_in("config.json"));
    refused("no config.json");
}

static void wrong_tokenizers(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"BPE\"", "\"Unigram\"", "type 'Unigram'"}, {"\"a\":0", "\"a\":1", "two tokens have the id 1"}, {"\"a\":0", "\"a\":\"0\"", "the id of a token"}, {"\"a\":0", "\"a\":99", "the id of a token"},
        {"\"a b\"", "\"ab\"", "a merge is not two tokens"}, {"[\"a\",\"b\"]", "[\"a\"]", "a merge is not two tokens"}, {"[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]", "a merge is not two tokens"},
        {"\"type\":\"ByteLevel\"", "\"type\":\"Whitespace\"", "pre-tokenizer 'Whitespace'"}, {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "normalizer 'Lowercase'"},
        {"\"id\":6", "\"x\":6", "an added token has no id or no content"}, {"\"id\":6", "\"id\":8", "'eos_token' is not a token"},
        {"\"BPE\"", "\"BPE\",\"ignore_merges\":true", "'ignore_merges' with this pre-tokenizer is not supported"}, {"\"merges\":", "\"x\":", "'merges' is not an array"}, {"\"vocab\":", "\"x\":", "'vocab' is not an object"},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}", "is not one we know: x+"},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}", "'behavior' is not 'Isolated'"},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\",\"individual_digits\":true}]}", "behind ByteLevel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("tokenizer.json", changed(tokenizer, cases[i].from, cases[i].to));
        refused(cases[i].why);
    }
    for (size_t n = 0; n < strlen(tokenizer); n += 5) {
        write_file("tokenizer.json", tokenizer, n);
        refused("tokenizer.json");
    }
    write_text("tokenizer.json", tokenizer);
    write_text("tokenizer_config.json", "{\"eos_token\":\"nowhere\"}");
    refused("'eos_token' is not a token");
    write_text("tokenizer_config.json", "{\"add_bos_token\":\"true\"}");
    refused("tokenizer_config.json: 'add_bos_token' is not true or false");
    const char *bytes = changed(tokenizer, "\"BPE\"", "\"BPE\",\"byte_fallback\":true");
    write_text("tokenizer.json", bytes); /* a cut of byte-level tokens beside tokens for bytes */
    refused("'ByteLevel' beside tokens for bytes is not supported");
    bytes = changed(bytes, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", "null");
    write_text("tokenizer.json", changed(bytes, "\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}"));
    refused("'NFKC' beside tokens for bytes is not supported");
}

static void wrong_headers(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"dtype\":\"F16\"", "\"dtype\":\"F17\"", "dtype 'F17'"}, {"\"dtype\":\"F16\",", "", "'dtype' is missing"}, {"\"dtype\":\"F16\"", "\"dtype\":\"F16\",\"dtype\":\"F16\"", "'dtype' stands twice"},
        {"[8,64]", "[8,65]", "its shape of F16 takes"}, {"[8,64]", "[18446744073709551615,2]", "overflows"}, {"[8,64]", "[4294967296,4294967296]", "overflows"},
        {"[8,64]", "[-8,64]", "not a whole number"}, {"[8,64]", "512", "its shape is not an array"}, {"[8,64]", "[1,1,1,1,1,1,1,8,64]", "too many dimensions"},
        {"[0,1024]", "[1024,0]", "do not ascend"}, {"[0,1024]", "[0]", "not two whole numbers"}, {"[0,1024]", "[0,1024,2048]", "not two whole numbers"},
        {"[0,1024]", "[1099511627776,1099511628800]", "leaves a hole"}, {"[1024,1280]", "[1020,1276]", "overlaps another tensor"}, {"[1024,1280]", "[1028,1284]", "leaves a hole"},
        {"model.norm.weight", "model.embed_tokens.weight", "stands in the files twice"}, {"model.norm.weight", "model.norms.weight", "has no place"},
        {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "has no place"}, {"down_proj.scales", "down_proj.scalex", "no scales or no biases"},
        {"\"U32\",\"shape\":[64,8]", "\"U32\",\"shape\":[32,16]", "does not agree in shape"}, {"\"BF16\",\"shape\":[64,64]", "\"U16\",\"shape\":[64,64]", "has a type that is not supported"},
        {"{\"__metadata__\"", "[\"__metadata__\"", "an object expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_weights("model.safetensors", changed(header, cases[i].from, cases[i].to), n_data);
        refused(cases[i].why);
    }
    write_weights("model.safetensors", header, n_data + 1);
    refused("bytes that belong to no tensor");
    write_file("model.safetensors", "abc", 3);
    refused("model.safetensors");
    write_file("model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refused("not a safetensors file");
    write_file("model.safetensors", "\x03\0\0\0\0\0\0\0{}", 10);
    refused("a header of 3 bytes in a file of 10");
}

/* Every cut of the file is refused, or is marked as having no data. */
static void cut_anywhere(void **state) {
    (void)state;
    uint64_t n = strlen(header), all = 8 + n + n_data;
    uint8_t *bytes = calloc(1, all);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    for (uint64_t cut = 0; cut <= all; cut += cut < 8 + n || cut + 2 > all ? 1 : cut + 998 < all ? 997 : all - 1 - cut) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        write_file("model.safetensors", bytes, cut);
        dct_status status = open_it(&m, &arena, &err);
        assert_int_equal(status, cut < 8 + n ? DCT_BAD_FILE : DCT_OK);
        if (status == DCT_OK) {
            float x[64];
            assert_int_equal(m.data_missing, cut < all);
            assert_int_equal(dct_model_read_tensor(&m, dct_model_find_tensor(&m, "output_norm.weight"), 0, x, sizeof x, &err), cut < 8 + n + 1280 ? DCT_BAD_FILE : DCT_OK);
            dct_model_close(&m);
        }
        dct_arena_deinit(&arena);
    }
    free(bytes);
}

static void parts(void **state) {
    (void)state;
    char a[4096], b[4096], index[4096];
    size_t n = (size_t)snprintf(index, sizeof index, "{\"metadata\":{},\"weight_map\":{");
    for (int i = 0; i < N_GOOD; i++) n += (size_t)snprintf(index + n, sizeof index - n, "%s\"%s\":\"%s\"", i == 0 ? "" : ",", good[i].name, i < 4 ? "a.safetensors" : "b.safetensors");
    snprintf(index + n, sizeof index - n, "}}");
    size_t n_a = header_of(good, 4, a, sizeof a), n_b = header_of(good + 4, N_GOOD - 4, b, sizeof b);
    unlink(path_in("model.safetensors"));
    refused("neither model.safetensors nor");
    write_text("model.safetensors.index.json", index);
    write_weights("a.safetensors", a, n_a);
    refused("b.safetensors");
    write_weights("b.safetensors", b, n_b);
    dct_model m;
    dct_arena arena;
    dct_err err;
    if (open_it(&m, &arena, &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(m.n_parts, 2);
    const dct_tensor *w = dct_model_find_tensor(&m, "blk.0.ffn_down.weight"); /* codes in one part, scales in the other */
    uint8_t block[36];
    assert_int_equal(dct_model_read_tensor(&m, w, 36, block, sizeof block, &err), DCT_OK);
    assert_int_equal(block[32], 14);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"a.safetensors", "../a.safetensors", "not a plain file name"}, {"a.safetensors", "/etc/passwd", "not a plain file name"}, {"\"a.safetensors\"", "7", "not a plain file name"},
        {"a.safetensors", "b.safetensors", "is not in the part it names"}, {"model.norm.weight", "model.gone.weight", "is not in the part it names"},
        {",\"vision_tower.patch.weight\":\"b.safetensors\"", "", "names 6 tensors, the parts hold 7"}, {"weight_map", "weights", "'weight_map' is not one object"},
        {"\"a.safetensors\"", "\"c.safetensors\"", "c.safetensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("model.safetensors.index.json", changed(index, cases[i].from, cases[i].to));
        refused(cases[i].why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_directory, set_up, tear_down),       cmocka_unit_test_setup_teardown(defaults_of_gemma3, set_up, tear_down),
        cmocka_unit_test_setup_teardown(norms_of_gemma, set_up, tear_down),       cmocka_unit_test_setup_teardown(tokens_by_merges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_ends_are_known, set_up, tear_down),   cmocka_unit_test_setup_teardown(settings_of_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_configurations, set_up, tear_down), cmocka_unit_test_setup_teardown(wrong_tokenizers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_headers, set_up, tear_down),        cmocka_unit_test_setup_teardown(cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts, set_up, tear_down),                cmocka_unit_test_setup_teardown(caps_of_gemma, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ids_that_say_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
