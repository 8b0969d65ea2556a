/* The tokenizer on small vocabularies: what special tokens do, the order of merges against a plain second implementation, round
 * trips, hostile headers. */
#include "dctms.h"
#include "vocab_make.h"

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void check(const test_vocab *v, const char *text, bool add_special, bool parse_special, const dct_token *want, uint64_t n) {
    test_ids got = test_encode(v->t, text, strlen(text), add_special, parse_special);
    assert_true(test_same_ids(text, 0, got, want, n));
    free(got.ids);
}

#define IDS(...) (const dct_token[]){__VA_ARGS__}, sizeof((const dct_token[]){__VA_ARGS__}) / sizeof(dct_token)

/* ---- special tokens ---- */

static void test_special_tokens(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    dct_token end = made_token(&m, "<|im_end|>", 3, 0), user = made_token(&m, "<tool>", 4, 0), longer = made_token(&m, "<tool>>", 4, 0);
    made_write(&m, &b, false, "qwen2");
    test_vocab v = made_open_good(&b);
    check(&v, "a<|im_end|>", true, true, IDS('a', end));
    check(&v, "<|im_end|>", true, false, IDS('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'));
    check(&v, "a<tool>b", true, false, IDS('a', user, 'b')); /* user-defined: always */
    check(&v, "<tool>><tool", true, false, IDS(longer, '<', 't', 'o', 'o', 'l'));
    assert_true(dct_tokenizer_is_end(v.t, end) && dct_tokenizer_is_control(v.t, end));
    assert_false(dct_tokenizer_is_end(v.t, user) || dct_tokenizer_is_control(v.t, user));
    assert_int_equal(dct_tokenizer_special(v.t)->eot, end);
    assert_int_equal(dct_tokenizer_special(v.t)->bos, DCT_NO_TOKEN);
    assert_int_equal(dct_tokenizer_find(v.t, DCT_STR("<tool>")), user);
    assert_int_equal(dct_tokenizer_find(v.t, DCT_STR("<tool")), DCT_NO_TOKEN);
    char piece[64];
    assert_int_equal(dct_tokenizer_longest(v.t), strlen("<|im_end|>"));
    assert_int_equal(dct_tokenizer_piece(v.t, end, false, piece, sizeof piece), 0);
    assert_int_equal(dct_tokenizer_piece(v.t, end, true, piece, sizeof piece), strlen("<|im_end|>"));
    assert_int_equal(dct_tokenizer_piece(v.t, 100000, true, piece, sizeof piece), 0);
    test_vocab_free(&v);
}

/* What opens a turn is a control token, whatever type the file has for it: nobody writes one into a chat. */
static void test_openings_of_turns(void **state) {
    (void)state;
    static const char *const names[] = {"<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
                                        "<|user|>",     "<|assistant|>",       "<|system|>"};
    enum { N_NAMES = sizeof names / sizeof *names };
    made_vocab m;
    gguf_build b;
    dct_token ids[N_NAMES];
    made_bpe(&m);
    for (size_t i = 0; i < N_NAMES; i++) ids[i] = made_token(&m, names[i], 4, 0);
    made_write(&m, &b, false, "qwen2");
    test_vocab v = made_open_good(&b);
    for (size_t i = 0; i < N_NAMES; i++) {
        dct_token bytes[32];
        size_t n = strlen(names[i]);
        for (size_t k = 0; k < n; k++) bytes[k] = (uint8_t)names[i][k];
        check(&v, names[i], true, false, bytes, n);
        check(&v, names[i], true, true, &ids[i], 1);
        assert_true(dct_tokenizer_is_control(v.t, ids[i]) && !dct_tokenizer_is_end(v.t, ids[i]));
    }
    test_vocab_free(&v);
}

/* Whatever the room, what is written is the beginning of the text: the longest of the vocabulary has no say in that. */
static void test_token_texts(void **state) {
    (void)state;
    static const char path[] = DCT_BINARY_DIR "/test_tokenizer.texts.gguf";
    made_vocab m;
    gguf_build b;
    char long_text[2001];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    for (int is_spm = 0; is_spm < 2; is_spm++) {
        dctms_model *model;
        dctms_tokenizer *t;
        dctms_error err;
        is_spm ? made_spm(&m) : made_bpe(&m);
        const char *space = is_spm ? "▁" : "Ġ", *texts[] = {" ab", "<tool>", long_text};
        const dctms_token ids[] = {made_token(&m, made_text(&m, "%s%s", space, "ab"), 1, 0), made_token(&m, "<tool>", 4, 0),
                                   made_token(&m, long_text, 1, 0)};
        made_write(&m, &b, is_spm, is_spm ? NULL : "qwen2");
        gguf_build_save(&b, path);
        gguf_build_free(&b);
        if (dctms_model_open(path, &model, &err) || dctms_tokenizer_open(model, &t, &err)) fail_msg("%s", err.message);
        for (int i = 0; i < 3; i++) {
            for (size_t cap = 0; cap < 10; cap++) {
                char out[10];
                memset(out, '.', sizeof out);
                size_t n = strlen(texts[i]), want = n < cap ? n : cap;
                assert_int_equal(dctms_token_text(t, ids[i], false, out, cap), want);
                assert_memory_equal(out, texts[i], want);
                for (size_t k = want; k < sizeof out; k++) assert_int_equal(out[k], '.');
            }
        }
        dctms_tokenizer_free(t);
        dctms_model_free(model);
    }
    remove(path);
}

static void check_parts(const test_vocab *v, const char *text, const dct_text_part *parts, uint64_t n_parts, const dct_token *want, uint64_t n) {
    dct_err err = {0};
    void *scratch = malloc(dct_tokenizer_scratch_bytes(strlen(text)));
    test_ids got = {malloc(64 * sizeof(dct_token)), 0};
    assert_int_equal(dct_tokenizer_encode_parts(v->t, text, strlen(text), parts, n_parts, false, scratch, got.ids, 64, &got.n, &err), DCT_OK);
    assert_true(test_same_ids(text, 0, got, want, n));
    free(scratch);
    free(got.ids);
}

/* What a person writes is no control token, nor is a seam between what the template and what the person wrote. */
static void test_parts(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    dct_token x = made_token(&m, "<x>", 3, 0);
    made_merge(&m, "n", "a"); /* a merge that crosses a seam */
    dct_token na = m.n_tokens - 1;
    made_write(&m, &b, false, "qwen2");
    test_vocab v = made_open_good(&b);
    const dct_text_part around[] = {{3, true}, {6, false}, {9, true}};
    check_parts(&v, "<x><x><x>", around, 3, IDS(x, '<', 'x', '>', x));
    const dct_text_part seam[] = {{2, true}, {3, false}};
    check_parts(&v, "<x>", seam, 2, IDS('<', 'x', '>'));
    const dct_text_part other_seam[] = {{1, false}, {3, true}};
    check_parts(&v, "<x>", other_seam, 2, IDS('<', 'x', '>'));
    const dct_text_part two_of_template[] = {{1, true}, {1, true}, {3, true}};
    check_parts(&v, "<x>", two_of_template, 3, IDS(x));
    const dct_text_part words[] = {{1, true}, {2, false}};
    check_parts(&v, "na", words, 2, IDS(na));
    test_vocab_free(&v);
}

static void test_bos_eos(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    dct_token bos = made_token(&m, "<bos>", 3, 0), eos = made_token(&m, "<e>", 3, 0);
    const struct { const char *pre; int add_bos; bool bos_expected; } rows[] = {
        {"qwen2", -1, false}, {"llama-bpe", -1, true}, {"llama-bpe", 0, false}, {"gpt-2", 1, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made_write(&m, &b, false, rows[i].pre);
        gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", bos);
        gguf_build_u32(&b, "tokenizer.ggml.eos_token_id", eos);
        if (rows[i].add_bos >= 0) gguf_build_bool(&b, "tokenizer.ggml.add_bos_token", rows[i].add_bos != 0);
        gguf_build_bool(&b, "tokenizer.ggml.add_eos_token", true);
        test_vocab v = made_open_good(&b);
        if (rows[i].bos_expected) check(&v, "a", true, false, IDS(bos, 'a', eos));
        else check(&v, "a", true, false, IDS('a', eos));
        check(&v, "a", false, false, IDS('a'));
        assert_true(dct_tokenizer_is_end(v.t, eos));
        test_vocab_free(&v);
    }
}

/* More ids than there is room for are counted, not written. */
static void test_cap(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    made_write(&m, &b, false, NULL);
    test_vocab v = made_open_good(&b);
    char scratch[1024];
    dct_token ids[3] = {7777, 7777, 7777};
    uint64_t n = 0;
    dct_err err = {0};
    assert_int_equal(dct_tokenizer_encode(v.t, "abcd", 4, false, false, scratch, ids, 2, &n, &err), DCT_OK);
    assert_int_equal(n, 4);
    assert_int_equal(ids[1], 'b');
    assert_int_equal(ids[2], 7777);
    test_vocab_free(&v);
}

/* A word that is a token: with the Llama 3 cut it is taken whole, elsewhere only merges make it. */
static void test_ignore_merges(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    dct_token whole = made_token(&m, "Ġhey", 1, 0);
    made_token(&m, "ctl", 3, 0);
    made_write(&m, &b, false, "llama-bpe");
    test_vocab v = made_open_good(&b);
    check(&v, "a hey", false, false, IDS('a', whole));
    check(&v, "ctl", false, false, IDS('c', 't', 'l')); /* but no text is a control token */
    test_vocab_free(&v);
    made_write(&m, &b, false, "qwen2");
    v = made_open_good(&b);
    check(&v, " hey", false, false, IDS(' ', 'h', 'e', 'y'));
    test_vocab_free(&v);
}

/* Nor does a merge make one; and a plain token that looks like an end token is not one when merges make it. */
static void test_merges_and_control(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    made_token(&m, "<s", 3, 0);
    made_merge(&m, "<", "s");
    made_merge(&m, "<", "e");
    made_merge(&m, "<e", "o");
    made_merge(&m, "<eo", "s");
    made_merge(&m, "<eos", ">");
    dct_token plain = m.n_tokens - 1;
    dct_token marked = made_token(&m, "<|end|>", 1, 0); /* not marked by the file */
    made_write(&m, &b, false, "gpt-2");
    test_vocab v = made_open_good(&b);
    check(&v, "<s", false, false, IDS('<', 's'));
    assert_int_equal(dct_tokenizer_find(v.t, DCT_STR("<eos>")), plain);
    assert_false(dct_tokenizer_is_end(v.t, plain) || dct_tokenizer_is_control(v.t, plain));
    assert_true(dct_tokenizer_is_end(v.t, marked) && dct_tokenizer_is_control(v.t, marked));
    test_vocab_free(&v);
}

/* ---- SPM ---- */

static void test_spm(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_spm(&m);
    dct_token space = made_token(&m, "▁", 1, -1), a = made_token(&m, "a", 1, -2), bee = made_token(&m, "b", 1, -3);
    dct_token space_a = made_token(&m, "▁a", 1, -4), ab = made_token(&m, "ab", 1, -0.5f), user = made_token(&m, "<u>", 4, 0);
    made_token(&m, "s>", 1, 0);
    made_token(&m, "<", 1, 0);
    made_write(&m, &b, true, NULL);
    test_vocab v = made_open_good(&b);
    check(&v, "a", true, true, IDS(1, space_a));
    check(&v, "", true, true, IDS(1));
    check(&v, "ab", false, true, IDS(space, ab)); /* the better score goes first */
    check(&v, "<s>a", false, true, IDS(1, space_a)); /* a space also after a special token */
    check(&v, "a<u>b</s>", false, true, IDS(space_a, user, space, bee, 2));
    check(&v, " a", false, true, IDS(space, space_a));
    check(&v, "\xc3\xa9", false, true, IDS(space, 3 + 0xc3, 3 + 0xa9)); /* no token: bytes */
    check(&v, "a\xff", false, true, IDS(space_a, 3 + 0xff));
    test_ids got = test_encode(v.t, "<s>", 3, false, false); /* "<" and "s>" are tokens, yet they do not make the control token */
    for (uint64_t i = 0; i < got.n; i++) assert_int_not_equal(got.ids[i], 1);
    free(got.ids);
    check(&v, "<0x41>", false, false, IDS(space, m.n_tokens - 1, 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>'));
    assert_true(dct_tokenizer_is_end(v.t, 2));
    char piece[64];
    assert_int_equal(dct_tokenizer_piece(v.t, space_a, false, piece, sizeof piece), 2);
    assert_memory_equal(piece, " a", 2);
    assert_int_equal(dct_tokenizer_piece_first(v.t, space_a, false, piece), 1);
    assert_int_equal(piece[0], 'a');
    assert_int_equal(dct_tokenizer_piece(v.t, 3 + 0xc3, false, piece, sizeof piece), 1);
    assert_int_equal((uint8_t)piece[0], 0xc3);
    assert_int_equal(dct_tokenizer_find(v.t, DCT_STR("a")), a);
    test_vocab_free(&v);

    made_write(&m, &b, true, NULL); /* as Gemma has it */
    gguf_build_bool(&b, "tokenizer.ggml.add_space_prefix", false);
    v = made_open_good(&b);
    check(&v, "a", true, true, IDS(1, a));
    assert_int_equal(dct_tokenizer_piece_first(v.t, space_a, false, piece), 2);
    test_vocab_free(&v);

    made_write(&m, &b, true, NULL); /* as directories of newer Llamas have it */
    gguf_build_bool(&b, "tokenizer.space_prefix_first", true);
    v = made_open_good(&b);
    check(&v, "a<s>a", false, true, IDS(space_a, 1, a));
    check(&v, "<s>a", false, true, IDS(1, a));
    test_vocab_free(&v);

    dct_token run = made_token(&m, "▁▁", 4, 0); /* as directories of Gemma have it */
    made_write(&m, &b, true, NULL);
    v = made_open_good(&b);
    assert_int_equal(dct_tokenizer_piece(v.t, run, false, piece, sizeof piece), 2);
    assert_memory_equal(piece, "  ", 2);
    test_vocab_free(&v);
}

/* Phi-3's special tokens swallow the white space that follows. */
static void test_phi3(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_spm(&m);
    dct_token space = made_token(&m, "▁", 1, -1), user = made_token(&m, "<|user|>", 3, 0);
    for (int is_phi = 0; is_phi < 2; is_phi++) {
        gguf_build_init(&b, 3, false);
        gguf_build_str(&b, "general.architecture", is_phi ? "phi3" : "llama");
        gguf_build_str(&b, "tokenizer.ggml.model", "llama");
        gguf_build_array_str(&b, "tokenizer.ggml.tokens", m.tokens, m.n_tokens);
        gguf_build_array_i32(&b, "tokenizer.ggml.token_type", m.types, m.n_tokens);
        test_vocab v = made_open_good(&b);
        if (is_phi) check(&v, "<|user|>\n x<|user|>\n", false, true, IDS(user, space, 3 + 'x', user));
        else check(&v, "<|user|>\nx", false, true, IDS(user, space, 3 + '\n', 3 + 'x'));
        test_vocab_free(&v);
    }
}

/* ---- the order of merges, against the definition ---- */

typedef struct symbol { const char *at; int n; } symbol;

static uint32_t find_token(const made_vocab *m, const char *text) {
    for (uint32_t i = 0; i < m->n_tokens; i++)
        if (strcmp(m->tokens[i], text) == 0) return i;
    return DCT_NO_TOKEN;
}

/* How early this pair is joined: the rank of its merge, or (SPM) the negated score of what it makes. False when it is not. */
static bool pair_order(const made_vocab *m, bool is_spm, symbol a, symbol b, double *order) {
    char joined[140];
    snprintf(joined, sizeof joined, "%.*s%s%.*s", a.n, a.at, is_spm ? "" : " ", b.n, b.at);
    if (is_spm) {
        uint32_t id = find_token(m, joined);
        if (id == DCT_NO_TOKEN) return false;
        *order = -(double)m->scores[id];
        return true;
    }
    for (uint32_t rank = 0; rank < m->n_merges; rank++) {
        if (strcmp(m->merges[rank], joined) != 0) continue;
        *order = rank;
        return true;
    }
    return false;
}

/* Joins the first best pair until there is none. */
static uint64_t naive_encode(const made_vocab *m, bool is_spm, const char *word, dct_token *ids) {
    symbol symbols[64];
    uint64_t n = strlen(word);
    for (uint64_t i = 0; i < n; i++) symbols[i] = (symbol){word + i, 1};
    for (;;) {
        double best = 0, order;
        uint64_t at = n;
        for (uint64_t i = 0; i + 1 < n; i++) {
            if (!pair_order(m, is_spm, symbols[i], symbols[i + 1], &order) || (at < n && order >= best)) continue;
            best = order;
            at = i;
        }
        if (at == n) break;
        symbols[at].n += symbols[at + 1].n;
        memmove(&symbols[at + 1], &symbols[at + 2], (n - at - 2) * sizeof symbols[0]);
        n--;
    }
    for (uint64_t i = 0; i < n; i++) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", symbols[i].n, symbols[i].at);
        ids[i] = find_token(m, text);
    }
    return n;
}

/* Vocabularies of few letters whose merges come in any order, also before the tokens that they are made of. */
static void random_merges(made_vocab *m, uint64_t *seed) {
    static const char *const letters[] = {"a", "b", "c"};
    const char *known[40];
    uint32_t n_known = 3;
    memcpy(known, letters, sizeof letters);
    for (int i = 0; i < 30; i++) {
        const char *a = known[next_random(seed) % n_known], *b = known[next_random(seed) % n_known];
        if (strlen(a) + strlen(b) > 8) continue;
        made_merge(m, a, b);
        known[n_known++] = made_text(m, "%s%s", a, b);
    }
    for (uint32_t i = m->n_merges; i > 1; i--) {
        uint32_t j = (uint32_t)(next_random(seed) % i);
        const char *moved = m->merges[i - 1];
        m->merges[i - 1] = m->merges[j];
        m->merges[j] = moved;
    }
}

static void test_merge_order(void **state) {
    (void)state;
    uint64_t seed = 3;
    static made_vocab m;
    for (int round = 0; round < 60; round++) {
        bool is_spm = round % 2 != 0;
        gguf_build b;
        if (is_spm) made_spm(&m); else made_bpe(&m);
        for (int i = 0; is_spm && i < 3; i++) made_token(&m, (const char *[]){"a", "b", "c"}[i], 1, 0);
        random_merges(&m, &seed);
        for (uint32_t i = 259; i < m.n_tokens; i++) m.scores[i] = -(float)(next_random(&seed) % 6); /* with ties */
        made_write(&m, &b, is_spm, "gpt-2");
        if (is_spm) gguf_build_bool(&b, "tokenizer.ggml.add_space_prefix", false);
        test_vocab v = made_open_good(&b);
        for (int i = 0; i < 100; i++) {
            char word[41];
            dct_token want[64];
            size_t n = 1 + next_random(&seed) % 40;
            for (size_t k = 0; k < n; k++) word[k] = (char)('a' + next_random(&seed) % 3);
            word[n] = '\0';
            uint64_t n_want = naive_encode(&m, is_spm, word, want);
            check(&v, word, false, false, want, n_want);
        }
        test_vocab_free(&v);
    }
}

/* ---- round trips ---- */

static void test_round_trip(void **state) {
    (void)state;
    uint64_t seed = 9;
    made_vocab m;
    gguf_build b;
    dct_err err = {0};
    test_vocab v[2];
    made_spm(&m);
    made_token(&m, "▁", 1, 0);
    made_write(&m, &b, true, NULL);
    v[0] = made_open_good(&b);
    if (test_vocab_open(&v[1], DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-q8_0.gguf", &err) != DCT_OK) fail_msg("%s", err.message);
    for (int round = 0; round < 2000; round++) {
        char text[200];
        size_t n = next_random(&seed) % sizeof text, n_back;
        for (size_t i = 0; i < n; i++) text[i] = (char)(round % 3 == 0 ? next_random(&seed) : 32 + next_random(&seed) % 96);
        for (int i = 0; i < 2; i++) {
            test_ids ids = test_encode(v[i].t, text, n, false, false);
            char *back = test_decode(v[i].t, ids.ids, ids.n, true, &n_back);
            assert_int_equal(n_back, n);
            assert_memory_equal(back, text, n);
            free(back);
            free(ids.ids);
        }
    }
    test_vocab_free(&v[0]);
    test_vocab_free(&v[1]);
}

/* ---- hostile headers ---- */

typedef enum damage {
    GOOD, NO_MODEL, OTHER_MODEL, OTHER_PRE, NO_TOKENS, EMPTY_TOKENS, EMPTY_TEXTS, TOKENS_NOT_STRINGS, TYPES_U8, TYPES_SHORT, SCORES_I32, SCORES_SHORT,
    SCORE_NAN, NO_MERGES, MERGE_UNKNOWN, MERGE_MAKES_UNKNOWN, MERGE_ONE_PART, SAME_TEXT, BAD_BYTE,
    BOS_STRING, ADD_BOS_WITHOUT, ADD_EOS_WITHOUT, ADD_BOS_NOT_BOOL, LONG_TOKEN, N_DAMAGES
} damage;

static const char *const damage_says[N_DAMAGES] = {
    [NO_MODEL] = "tokenizer.ggml.model", [OTHER_MODEL] = "'bert'", [OTHER_PRE] = "'qwen9'", [NO_TOKENS] = "tokenizer.ggml.tokens",
    [EMPTY_TOKENS] = "0 tokens", [EMPTY_TEXTS] = "no token has a text", [TOKENS_NOT_STRINGS] = "strings", [TYPES_U8] = "tokenizer.ggml.token_type", [TYPES_SHORT] = "token_type has 1",
    [SCORES_I32] = "tokenizer.ggml.scores", [SCORES_SHORT] = "scores has 1", [SCORE_NAN] = "not a number", [NO_MERGES] = "tokenizer.ggml.merges",
    [MERGE_UNKNOWN] = "entry 0 names", [MERGE_MAKES_UNKNOWN] = "entry 0 makes", [MERGE_ONE_PART] = "not two tokens", [SAME_TEXT] = "same text",
    [BAD_BYTE] = "<0xHH>", [BOS_STRING] = "bos_token_id", [ADD_BOS_WITHOUT] = "add_bos_token", [ADD_EOS_WITHOUT] = "add_eos_token", [ADD_BOS_NOT_BOOL] = "add_bos_token",
    [LONG_TOKEN] = "a token of 65536 bytes, at most 65535 are taken",
};

static bool is_spm_damage(damage d) { return d == SCORES_I32 || d == SCORES_SHORT || d == SCORE_NAN || d == BAD_BYTE; }

static void write_damaged(gguf_build *b, damage d) {
    static made_vocab m;
    static char longest[DCT_LONGEST_TOKEN + 2];
    bool is_spm = is_spm_damage(d);
    memset(longest, 'x', DCT_LONGEST_TOKEN + 1);
    if (is_spm) made_spm(&m); else made_bpe(&m);
    if (!is_spm) made_merge(&m, "a", "b");
    if (d == GOOD || d == LONG_TOKEN) made_token(&m, d == GOOD ? longest + 1 : longest, 1, 0); /* a byte less is good */
    if (d == SAME_TEXT) made_token(&m, "a", 1, 0);
    if (d == BAD_BYTE) made_token(&m, "<0xG0>", 6, 0);
    if (d == SCORE_NAN) m.scores[5] = (float)strtod("nan", NULL);
    if (d == MERGE_UNKNOWN) m.merges[0] = "a xyz";
    if (d == MERGE_MAKES_UNKNOWN) m.merges[0] = "a c";
    if (d == MERGE_ONE_PART) m.merges[0] = "ab";
    for (uint32_t i = 0; d == EMPTY_TEXTS && i < m.n_tokens; i++) m.tokens[i] = "";
    gguf_build_init(b, 3, false);
    gguf_build_str(b, "general.architecture", "llama");
    if (d != NO_MODEL) gguf_build_str(b, "tokenizer.ggml.model", d == OTHER_MODEL ? "bert" : is_spm ? "llama" : "gpt2");
    gguf_build_str(b, "tokenizer.ggml.pre", d == OTHER_PRE ? "qwen9" : "qwen2");
    if (d == TOKENS_NOT_STRINGS) gguf_build_array_i32(b, "tokenizer.ggml.tokens", m.types, m.n_tokens);
    else if (d != NO_TOKENS) gguf_build_array_str(b, "tokenizer.ggml.tokens", m.tokens, d == EMPTY_TOKENS ? 0 : m.n_tokens);
    if (d == TYPES_U8) gguf_build_array_raw(b, "tokenizer.ggml.token_type", DCT_META_U8, m.n_tokens, m.types, m.n_tokens);
    else gguf_build_array_i32(b, "tokenizer.ggml.token_type", m.types, d == TYPES_SHORT ? 1 : m.n_tokens);
    if (d == SCORES_I32) gguf_build_array_i32(b, "tokenizer.ggml.scores", m.types, m.n_tokens);
    else if (is_spm) gguf_build_array_f32(b, "tokenizer.ggml.scores", m.scores, d == SCORES_SHORT ? 1 : m.n_tokens);
    if (d != NO_MERGES && !is_spm) gguf_build_array_str(b, "tokenizer.ggml.merges", m.merges, m.n_merges);
    if (d == BOS_STRING) gguf_build_str(b, "tokenizer.ggml.bos_token_id", "1");
    if (d == ADD_BOS_WITHOUT) gguf_build_bool(b, "tokenizer.ggml.add_bos_token", true);
    if (d == ADD_EOS_WITHOUT) gguf_build_bool(b, "tokenizer.ggml.add_eos_token", true);
    if (d == ADD_BOS_NOT_BOOL) gguf_build_str(b, "tokenizer.ggml.add_bos_token", "yes");
}

static void test_hostile(void **state) {
    (void)state;
    for (damage d = GOOD; d < N_DAMAGES; d++) {
        gguf_build b;
        test_vocab v;
        dct_err err = {0};
        write_damaged(&b, d);
        dct_status status = made_open(&b, &v, &err);
        if (d == GOOD) {
            assert_int_equal(status, DCT_OK);
            test_vocab_free(&v);
            continue;
        }
        if (status != DCT_BAD_FILE || strstr(err.message, damage_says[d]) == NULL) fail_msg("damage %d: %d '%s'", d, status, err.message);
    }
}

/* Ids of no token are in files that people have: the kind's default stays, and what has none is not there. */
static void test_ids_beyond_the_list(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_spm(&m);
    made_write(&m, &b, true, NULL);
    gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", m.n_tokens);
    gguf_build_i32(&b, "tokenizer.ggml.eos_token_id", -1);
    gguf_build_u32(&b, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    test_vocab v = made_open_good(&b);
    const dct_special *s = dct_tokenizer_special(v.t);
    assert_true(s->bos == 1 && s->eos == 2 && s->unk == 0 && s->pad == DCT_NO_TOKEN);
    test_vocab_free(&v);
}

/* A vocabulary that cannot write a byte: the unknown token when there is one, else an error, never silence. */
static void test_missing_byte(void **state) {
    (void)state;
    static made_vocab m;
    gguf_build b;
    memset(&m, 0, sizeof m);
    dct_token a = made_token(&m, "a", 1, 0), unk = made_token(&m, "<unk>", 2, 0);
    for (int has_unk = 0; has_unk < 2; has_unk++) {
        made_write(&m, &b, false, "gpt-2");
        if (has_unk) gguf_build_u32(&b, "tokenizer.ggml.unknown_token_id", unk);
        test_vocab v = made_open_good(&b);
        if (has_unk) {
            check(&v, "aza", false, false, IDS(a, unk, a));
        } else {
            char scratch[1024];
            dct_token ids[4];
            uint64_t n = 77;
            dct_err err = {0};
            assert_int_equal(dct_tokenizer_encode(v.t, "az", 2, false, false, scratch, ids, 4, &n, &err), DCT_BAD_FILE);
            assert_non_null(strstr(err.message, "0x7A"));
            assert_int_equal(n, 77);
        }
        test_vocab_free(&v);
    }
}

/* Every allocation may fail, and nothing else is allocated than the tables. */
static void test_no_memory(void **state) {
    (void)state;
    made_vocab m;
    gguf_build b;
    made_bpe(&m);
    made_write(&m, &b, false, "gpt-2");
    size_t n;
    const uint8_t *image = gguf_build_image(&b, &n);
    dct_arena arena, work;
    dct_model model;
    dct_err err = {0};
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open_bytes(&model, image, n, &arena, &err), DCT_OK);
    dct_status status = DCT_NO_FIT;
    uint64_t table_bytes = 0, fail_at = 0;
    while (status != DCT_OK) {
        dct_arena_init(&work, 0);
        work.fail_at = ++fail_at;
        status = dct_tokenizer_measure(&model, &work, &table_bytes, &err);
        assert_true(status == DCT_OK || status == DCT_NO_FIT);
        dct_arena_deinit(&work);
        assert_in_range(fail_at, 1, 100);
    }
    assert_int_not_equal(fail_at, 1);
    /* too little room is our own mistake and is said so */
    void *memory = aligned_alloc(64, table_bytes);
    dct_tokenizer *t = NULL;
    dct_arena_init(&work, 0);
    assert_int_equal(dct_tokenizer_build(&model, memory, table_bytes - 64, &t, &err), DCT_BUG);
    assert_null(t);
    assert_int_equal(dct_tokenizer_build(&model, memory, table_bytes, &t, &err), DCT_OK);
    /* the same file gives the same bytes: no pointer is in them */
    void *other = aligned_alloc(64, table_bytes);
    memset(other, 0xff, table_bytes);
    dct_tokenizer *t2 = NULL;
    assert_int_equal(dct_tokenizer_build(&model, other, table_bytes, &t2, &err), DCT_OK);
    assert_memory_equal(memory, other, table_bytes);
    free(memory);
    free(other);
    dct_arena_deinit(&work);
    dct_model_close(&model);
    dct_arena_deinit(&arena);
    gguf_build_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_tokens), cmocka_unit_test(test_parts),        cmocka_unit_test(test_bos_eos),
        cmocka_unit_test(test_cap),            cmocka_unit_test(test_ignore_merges), cmocka_unit_test(test_merges_and_control),
        cmocka_unit_test(test_spm),            cmocka_unit_test(test_phi3),         cmocka_unit_test(test_merge_order),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_ids_beyond_the_list),
        cmocka_unit_test(test_hostile),      cmocka_unit_test(test_missing_byte),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_token_texts),  cmocka_unit_test(test_openings_of_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
