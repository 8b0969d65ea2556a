/* The promise, over random configurations: a model of random shape, type and family, random bounds, threads and cache types, each run
 * as a process of its own that fills its bounds to the last token. In every one
 *
 *     plan        regions add up to M_max and items to regions, whatever process compiles it
 *     VmHWM       is at most M_max; and at least 0.95 of it from 256 MiB on, or within 4 MiB below that
 *     ready       0 mallocs and 0 page faults after it; --seal kill would end a process that asks the system for memory
 *     prompt      a short one finds the same M_max
 *
 * DCT_CONFIGURATIONS=N tries N instead of 300, DCT_SEED=S others than the fixed ones. What fails is named by seed and number, and its model
 * and prompt stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "dctms.h"
#include "support/emulated.h"
#include "support/gguf_build.h"
#include "tools/tools.h"

#define COMMAND DCT_BINARY_DIR "/dctms"
#define BUILT_IN DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"
#define WORK DCT_BINARY_DIR "/test_envelope."

#ifdef DCT_SANITIZED
enum { CONFIGURATIONS = 20, HAS_FIGURES = 0 }; /* a sanitizer's own memory is counted with the process */
#else
enum { CONFIGURATIONS = 300, HAS_FIGURES = 1 };
#endif
enum { MIB = 1024 * 1024, N_LARGE = 4, OUT_BYTES = 128 * 1024 };

/* ---- chance ---- */

typedef struct chance {
    uint64_t state;
} chance;

static uint64_t draw(chance *c) { return dct_hash_mix(c->state += UINT64_C(0x9e3779b97f4a7c15)); }

/* From low to high, both included; small numbers as likely as large ones of the same width. */
static uint32_t draw_between(chance *c, uint32_t low, uint32_t high) { return low + (uint32_t)(draw(c) % (high - low + 1)); }

static uint32_t draw_wide(chance *c, uint32_t low, uint32_t high) {
    uint32_t bits = 0;
    while ((high - low) >> bits > 1) bits++;
    uint32_t span = draw_between(c, 0, bits), most = (uint32_t)((UINT64_C(2) << span) - 1);
    return low + draw_between(c, 0, most < high - low ? most : high - low);
}

#define DRAW_OF(c, list) ((list)[draw_between(c, 0, sizeof(list) / sizeof *(list) - 1)])

/* ---- a configuration ---- */

typedef struct configuration {
    uint64_t seed;
    uint32_t number;
    char path[512];       /* of the model */
    bool is_ours;         /* the file was made for it */
    char about[128];      /* the model, for people */
    uint32_t n_ctx, n_output, ubatch, threads;
    const char *type_k, *type_v, *logits, *sampling;
    bool mlock;
} configuration;

static void describe(const configuration *c, char *out, size_t n) {
    snprintf(out, n, "seed %llu, number %u: %s (%s) -c %u -n %u -ub %u -t %u -ctk %s -ctv %s --logits %s %s%s", (unsigned long long)c->seed,
             c->number, c->path, c->about, c->n_ctx, c->n_output, c->ubatch, c->threads, c->type_k, c->type_v, c->logits, c->sampling,
             c->mlock ? " --mlock" : "");
}

#define FAIL(c, ...)                                     \
    do {                                                 \
        char which[1024], what[2048];                    \
        describe(c, which, sizeof which);                \
        snprintf(what, sizeof what, __VA_ARGS__);        \
        fail_msg("%s\n    %s", what, which);             \
    } while (0)

/* A shape of our own builder. Heads of a multiple of 32 take every type of cache, widths of a multiple of 256 every type of weight. */
static void make_random_shape(configuration *c, chance *dice) {
    static const char *const families[] = {"llama", "qwen2", "qwen2vl", "qwen3", "gemma2", "gemma3", "phi3"};
    static const dct_dtype types[] = {DCT_TYPE_F32,  DCT_TYPE_F16,  DCT_TYPE_BF16, DCT_TYPE_Q4_0, DCT_TYPE_Q4_1, DCT_TYPE_Q5_0,   DCT_TYPE_Q5_1,  DCT_TYPE_Q8_0,
                                      DCT_TYPE_Q2_K, DCT_TYPE_Q3_K, DCT_TYPE_Q4_K, DCT_TYPE_Q5_K, DCT_TYPE_Q6_K, DCT_TYPE_IQ4_NL, DCT_TYPE_IQ4_XS, DCT_TYPE_MXFP4};
    static const uint32_t heads[] = {32, 64, 96, 128, 256};
    gguf_tiny t = gguf_tiny_default(DRAW_OF(dice, families), DRAW_OF(dice, types));
    gguf_build b;
    t.embd_type = DRAW_OF(dice, types);
    t.seed = draw(dice);
    t.n_layer = draw_between(dice, 1, 4);
    t.n_embd = 256 * draw_between(dice, 1, 3);
    t.head_dim = DRAW_OF(dice, heads);
    t.n_head_kv = draw_between(dice, 1, 3);
    t.n_head = 256 / t.head_dim * t.n_head_kv * draw_between(dice, 1, 2); /* rows of attn_output are whole blocks */
    if (t.head_dim == 96) t.n_head = 8 * t.n_head_kv;
    t.n_ff = 256 * draw_between(dice, 1, 6);
    t.n_vocab = draw_wide(dice, 290, 6000);
    t.n_ctx = 2048;
    t.tied = strcmp(t.arch, "phi3") != 0 && draw(dice) % 2 == 0;
    t.rope_freqs = strcmp(t.arch, "llama") == 0 && draw(dice) % 2 == 0;
    if (t.sliding_window != 0) t.sliding_window = draw_between(dice, 16, 300);
    snprintf(c->about, sizeof c->about, "%s %s/%s, %u layers of %u, heads %u on %u of %u, ff %u, vocab %u%s", t.arch, dct_dtype_name(t.type),
             dct_dtype_name(t.embd_type), t.n_layer, t.n_embd, t.n_head, t.n_head_kv, t.head_dim, t.n_ff, t.n_vocab, t.tied ? ", tied" : "");
    gguf_build_tiny(&b, &t);
    gguf_build_save(&b, c->path);
    gguf_build_free(&b);
}

static void make_synth(configuration *c, const char *name, const char *type, uint64_t seed) {
    dct_synth_params params = {.name = name, .type = type, .path = c->path, .seed = seed, .threads = 1};
    dct_err err;
    snprintf(c->about, sizeof c->about, "%s %s", name, type);
    if (dct_synth(&params, &err) != DCT_OK) FAIL(c, "%s", err.message);
}

static void make_model(configuration *c, chance *dice) {
    static const char *const names[] = {"tiny-qwen2", "tiny-qwen2-untied", "tiny-qwen2vl", "tiny-qwen3", "tiny-llama", "tiny-gemma3"};
    static const char *const types[] = {"F16", "BF16", "Q4_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q6_K", "IQ4_XS", "MXFP4",
                                        "hf-bf16", "mlx-2bit", "mlx-4bit", "mlx-6bit", "mlx-8bit", "mlx-4bit-32"};
    uint32_t way = draw_between(dice, 0, 7);
    c->is_ours = way != 0;
    if (way == 0) {
        snprintf(c->path, sizeof c->path, "%s", BUILT_IN);
        snprintf(c->about, sizeof c->about, "built-in");
        return;
    }
    snprintf(c->path, sizeof c->path, "%smodel.%u", WORK, c->number);
    if (way < 4) make_synth(c, DRAW_OF(dice, names), DRAW_OF(dice, types), draw(dice));
    else make_random_shape(c, dice);
}

static void draw_bounds(configuration *c, chance *dice) {
    static const char *const caches[] = {"f32", "f16", "bf16", "q8_0"};
    static const char *const samplings[] = {"--temp 0", "--temp 0.8", "--temp 2 --top-k 0 --top-p 1 --min-p 0", "--repeat-penalty 1.3 --repeat-last-n -1"};
    c->n_ctx = draw_wide(dice, 3, 1200);
    c->n_output = draw_wide(dice, 1, c->n_ctx - 2); /* a prompt of BOS alone would be an empty text */
    if (c->n_output > 100 && c->n_output < c->n_ctx - 100) c->n_output = draw_between(dice, 1, 100); /* a token at a time is slow */
    c->ubatch = draw_wide(dice, 1, 1024);
    c->threads = draw_wide(dice, 1, 7);
    c->type_k = DRAW_OF(dice, caches);
    c->type_v = DRAW_OF(dice, caches);
    c->logits = draw(dice) % 4 == 0 ? "all" : "last";
    c->sampling = DRAW_OF(dice, samplings);
    c->mlock = draw(dice) % 8 == 0 && geteuid() == 0;
}

/* Configurations of more than 256 MiB, each of another region: weights, caches, logits, intermediates. */
static void make_large(configuration *c, chance *dice) {
    gguf_tiny t = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    gguf_build b;
    snprintf(c->path, sizeof c->path, "%smodel.%u", WORK, c->number);
    c->is_ours = true;
    c->sampling = "--temp 0";
    c->threads = 2;
    c->type_k = c->type_v = "f32";
    c->logits = "last";
    c->n_ctx = 1100;
    c->n_output = 8;
    c->ubatch = 256;
    t.n_ctx = 65536;
    switch (c->number % N_LARGE) {
    case 0: make_synth(c, "qwen2.5-0.5b", "Q2_K", draw(dice)); c->n_ctx = 40; return;
    case 1: t.n_layer = 16; t.n_head = t.n_head_kv = 8; t.head_dim = 256; c->type_k = "f16"; c->n_ctx = 1400; break;
    case 2: t.n_vocab = 65536; c->ubatch = 1092; c->logits = "all"; break;
    default: t.n_ff = 65536; c->ubatch = 1092; break;
    }
    snprintf(c->about, sizeof c->about, "%u layers, vocab %u, ff %u", t.n_layer, t.n_vocab, t.n_ff);
    gguf_build_tiny(&b, &t);
    gguf_build_save(&b, c->path);
    gguf_build_free(&b);
}

static void remove_model(const char *path) {
    char command[1024];
    if (unlink(path) == 0) return;
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* ---- the plan, compiled here ---- */

static void gather(void *ctx, const char *text, size_t n) {
    char *all = ctx;
    size_t used = strlen(all);
    assert_true(used + n < OUT_BYTES);
    memcpy(all + used, text, n);
    all[used + n] = '\0';
}

static int64_t int_of(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v)) fail_msg("no number '%s'", key);
    return json_integer_value(v);
}

static void check_sums(const configuration *c, const char *text) {
    static const char *const regions[] = {"weights", "kv", "persistent", "intermediate", "runtime"};
    json_t *root = json_loads(text, 0, NULL);
    const json_t *e = json_object_get(root, "envelope");
    int64_t total = 0;
    for (size_t r = 0; r < 5; r++) {
        char key[64];
        int64_t sum = 0;
        size_t i;
        json_t *item;
        snprintf(key, sizeof key, "%s_bytes", regions[r]);
        json_array_foreach(json_object_get(e, "items"), i, item)
            if (strcmp(json_string_value(json_object_get(item, "region")), regions[r]) == 0) sum += int_of(item, "bytes");
        if (sum != int_of(e, key)) FAIL(c, "the items of %s are %lld bytes, the region has %lld", regions[r], (long long)sum, (long long)int_of(e, key));
        total += sum;
    }
    if (total != int_of(e, "m_max_bytes")) FAIL(c, "the items are %lld bytes, M_max is %lld", (long long)total, (long long)int_of(e, "m_max_bytes"));
    json_decref(root);
}

/* A text of exactly n tokens: characters are added for tokens that are missing, and taken away for those too many. */
static char *make_prompt(const configuration *c, const dctms_model *model, uint32_t n, chance *dice) {
    static const char letters[] = "the and 7 quick, lazy fox ";
    dctms_tokenizer *tokenizer;
    dctms_error err;
    size_t cap = (size_t)n * 16 + 64, used = 0, has = 0;
    char *text = malloc(cap);
    if (dctms_tokenizer_open(model, &tokenizer, &err) != DCTMS_OK) FAIL(c, "%s", err.message);
    for (int tries = 0;; tries++) {
        if (dctms_tokenize(tokenizer, text, used, true, true, NULL, 0, &has, &err) != DCTMS_OK) FAIL(c, "%s", err.message);
        if (has == n) break;
        if (tries == 2000 || (has > n && used < has - n)) FAIL(c, "no text of %u tokens was found", n);
        if (has > n) used -= has - n;
        for (; has < n && used < cap - 1; has++, used++) text[used] = n - has < 4 ? "Qz"[used % 2] : letters[draw(dice) % (sizeof letters - 1)];
        if (used > 0 && text[used - 1] == ' ') text[used - 1] = 'x';
    }
    text[used] = '\0';
    dctms_tokenizer_free(tokenizer);
    return text;
}

static uint64_t compile_here(const configuration *c, char **prompt, chance *dice) {
    dctms_model *model;
    dctms_plan *plan;
    dctms_error err;
    dctms_plan_info info;
    dctms_plan_params p = dctms_plan_default_params();
    p.n_ctx = c->n_ctx;
    p.n_output = (int32_t)c->n_output;
    p.ubatch = c->ubatch;
    p.threads = c->threads;
    p.logits = strcmp(c->logits, "all") == 0 ? DCTMS_LOGITS_ALL : DCTMS_LOGITS_LAST;
    snprintf(p.type_k, sizeof p.type_k, "%s", c->type_k);
    snprintf(p.type_v, sizeof p.type_v, "%s", c->type_v);
    if (dctms_model_open(c->path, &model, &err) != DCTMS_OK) FAIL(c, "%s", err.message);
    if (dctms_plan_compile(model, &p, &plan, &err) != DCTMS_OK) FAIL(c, "%s", err.message);
    dctms_plan_get_info(plan, &info);
    char *json = calloc(1, OUT_BYTES);
    assert_int_equal(dctms_plan_print(plan, DCTMS_PLAN_JSON, gather, json, &err), DCTMS_OK);
    check_sums(c, json);
    free(json);
    *prompt = make_prompt(c, model, c->n_ctx - c->n_output, dice);
    dctms_plan_free(plan);
    dctms_model_free(model);
    return info.m_max_bytes;
}

/* ---- the run, in a child ---- */

static void write_prompt(const char *text) {
    FILE *f = fopen(WORK "prompt", "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* stdout of the command, parsed; its stderr when it fails. */
static json_t *run_json(const configuration *c, const char *prompt) {
    char line[2048];
    write_prompt(prompt);
    snprintf(line, sizeof line,
             "'" COMMAND "' run '%s' -c %u -n %u -ub %u -t %u -ctk %s -ctv %s --logits %s %s%s -no-cnv --ignore-eos --json --seal %s -f " WORK "prompt 2>" WORK "err",
             c->path, c->n_ctx, c->n_output, c->ubatch, c->threads, c->type_k, c->type_v, c->logits, c->sampling, c->mlock ? " --mlock" : "",
             HAS_FIGURES ? "kill" : "off");
    FILE *out = popen(line, "r");
    assert_non_null(out);
    json_error_t why;
    json_t *root = json_loadf(out, JSON_ALLOW_NUL, &why); /* an answer may hold any character */
    int status = pclose(out);
    if (status == 0 && root != NULL) return root;
    char said[400] = "";
    FILE *err = fopen(WORK "err", "r");
    if (err != NULL) said[fread(said, 1, sizeof said - 1, err)] = '\0';
    FAIL(c, "the run ended with status %d: %s(JSON: %s)", status, said, why.text);
    return NULL;
}

static void check_run(const configuration *c, uint64_t m_max, const char *prompt) {
    json_t *root = run_json(c, prompt);
    const json_t *memory = json_object_get(root, "memory"), *timings = json_object_get(root, "timings");
    int64_t most = int_of(memory, "m_max_bytes"), seen = int_of(memory, "vm_hwm_bytes");
    int64_t least = m_max >= 256 * MIB ? (int64_t)(0.95 * (double)m_max) : (int64_t)m_max - 4 * MIB;
    if ((uint64_t)most != m_max) FAIL(c, "M_max is %lld in the run, %llu in the plan", (long long)most, (unsigned long long)m_max);
    if (int_of(timings, "predicted_n") != c->n_output)
        FAIL(c, "%lld of %u tokens were generated", (long long)int_of(timings, "predicted_n"), c->n_output);
    if (!HAS_FIGURES) {
        json_decref(root);
        return;
    }
    if (seen > most) FAIL(c, "VmHWM is %lld, %lld more than M_max", (long long)seen, (long long)(seen - most));
    if (seen < least) FAIL(c, "VmHWM is %lld, %lld less than M_max", (long long)seen, (long long)(most - seen));
    static const char *const counts[] = {"mallocs_after_ready", "minflt_after_ready", "majflt_after_ready"};
    for (size_t i = 0; i < 3; i++)
        if (int_of(memory, counts[i]) != 0) FAIL(c, "%s is %lld", counts[i], (long long)int_of(memory, counts[i]));
    if (!json_is_true(json_object_get(memory, "sealed"))) FAIL(c, "not sealed");
    json_decref(root);
}

static void check_configuration(uint64_t seed, uint32_t number, bool is_large) {
    configuration c = {.seed = seed, .number = number};
    chance dice = {dct_hash_mix(seed) ^ dct_hash_mix(number + 1)};
    if (is_large) {
        make_large(&c, &dice);
    } else {
        make_model(&c, &dice);
        draw_bounds(&c, &dice);
    }
    char *prompt;
    uint64_t m_max = compile_here(&c, &prompt, &dice);
    if (is_large && m_max < 256 * MIB) FAIL(&c, "M_max is only %llu", (unsigned long long)m_max);
    check_run(&c, m_max, prompt);
    if (number % 10 == 0 && c.n_ctx - c.n_output >= 8) check_run(&c, m_max, "x"); /* populated at start, so the same band */
    free(prompt);
    if (c.is_ours) remove_model(c.path);
}

static uint64_t number_of(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void every_configuration_keeps_its_promise(void **state) {
    (void)state;
    if (emulated("skipped: an emulator's memory is counted with the process")) skip();
    uint64_t seed = number_of("DCT_SEED", 1), n = number_of("DCT_CONFIGURATIONS", CONFIGURATIONS);
    for (uint32_t i = 0; i < n; i++) check_configuration(seed, i, HAS_FIGURES && i < N_LARGE);
    unlink(WORK "prompt");
    unlink(WORK "err");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_configuration_keeps_its_promise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
