/* Each family on a tiny model of its own: the trace is a valid graph of the expected ops, uses every tensor of the file, and
 * refuses each that is missing or misshapen by its name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "support/gguf_build.h"

typedef struct subject {
    gguf_build b;
    dct_arena arena, graphs;
    dct_model model;
    dct_hparams hp;
    dct_graph g;
    dct_err err;
} subject;

/* Opens what was built in s->b. */
static void open_built(subject *s) {
    size_t n;
    const uint8_t *image = gguf_build_image(&s->b, &n);
    dct_arena_init(&s->arena, 0);
    dct_arena_init(&s->graphs, 0);
    if (dct_model_open_bytes(&s->model, image, n, &s->arena, &s->err) != DCT_OK) fail_msg("%s", s->err.message);
}

static subject *open_tiny(const gguf_tiny *tiny) {
    subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    gguf_build_tiny(&s->b, tiny);
    open_built(s);
    if (dct_arch_hparams(&s->model, &s->hp, &s->err) != DCT_OK) fail_msg("%s: %s", tiny->arch, s->err.message);
    return s;
}

static void close_subject(subject *s) {
    dct_model_close(&s->model);
    dct_arena_deinit(&s->graphs);
    dct_arena_deinit(&s->arena);
    gguf_build_free(&s->b);
    free(s);
}

static dct_status trace(subject *s, dct_phase_kind kind, uint32_t rows, uint32_t n_ctx, dct_logits_mode logits) {
    dct_trace_params params = {.kind = kind, .rows = rows, .n_ctx = n_ctx, .type_k = DCT_TYPE_F16, .type_v = DCT_TYPE_F16, .logits = logits};
    dct_arena_deinit(&s->graphs);
    return dct_arch_trace(&s->model, &s->hp, &params, &s->graphs, &s->g, &s->err);
}

static void trace_good(subject *s, dct_phase_kind kind, uint32_t rows, uint32_t n_ctx, dct_logits_mode logits) {
    if (trace(s, kind, rows, n_ctx, logits) != DCT_OK) fail_msg("%s: %s", s->hp.arch, s->err.message);
}

static uint32_t count(const dct_graph *g, dct_op_kind kind) {
    uint32_t n = 0;
    for (dct_op_id i = 0; i < g->n_ops; i++) n += g->ops[i].kind == kind;
    return n;
}

static const dct_op *layer_op(const dct_graph *g, dct_op_kind kind, int32_t layer) {
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind == kind && g->ops[i].layer == layer) return &g->ops[i];
    }
    fail_msg("no %s in layer %d", dct_op_info_of(kind)->name, layer);
    return NULL;
}

/* ---- what every family has ---- */

static const struct {
    const char *arch;
    uint32_t norms; /* RMS_NORMs a layer */
    bool capped;    /* final softcap */
    uint32_t tables;
} families[] = {{"llama", 2, false, 1}, {"qwen2", 2, false, 1}, {"qwen2vl", 2, false, 1}, {"qwen3", 4, false, 1}, {"gemma2", 4, true, 1},
                {"gemma3", 6, false, 1}, {"phi3", 2, false, 1}};
enum { N_FAMILIES = sizeof families / sizeof *families, LAYERS = 3, ROWS = 7, CTX = 1030 };

static void check_counts(const subject *s, size_t family, bool decode, bool one_row) {
    const dct_graph *g = &s->g;
    assert_int_equal(count(g, DCT_OP_EMBED), 1);
    assert_int_equal(count(g, DCT_OP_RMS_NORM), LAYERS * families[family].norms + 1);
    assert_int_equal(count(g, DCT_OP_QUANT), LAYERS * 4 + 1);
    assert_int_equal(count(g, DCT_OP_LINEAR), LAYERS * 7 + 1);
    assert_int_equal(count(g, DCT_OP_ROPE), LAYERS * 2);
    assert_int_equal(count(g, DCT_OP_KV_STORE), LAYERS);
    assert_int_equal(count(g, DCT_OP_ATTN), decode ? 0 : LAYERS);
    assert_int_equal(count(g, DCT_OP_ATTN_PART), decode ? LAYERS : 0);
    assert_int_equal(count(g, DCT_OP_ATTN_MERGE), decode ? LAYERS : 0);
    assert_int_equal(count(g, DCT_OP_GLU), LAYERS);
    assert_int_equal(count(g, DCT_OP_ADD), LAYERS * 2);
    assert_int_equal(count(g, DCT_OP_LAST_ROW), one_row ? 0 : 1);
    assert_int_equal(count(g, DCT_OP_SOFTCAP), families[family].capped);
    assert_int_equal(g->n_caches, LAYERS * 2);
    assert_int_equal(g->n_tables, families[family].tables);
    assert_int_equal(g->caches[0].n_ctx, 1040);
}

static void phases_have_their_ops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        gguf_tiny tiny = gguf_tiny_default(families[i].arch, DCT_TYPE_Q4_0);
        tiny.n_layer = LAYERS;
        subject *s = open_tiny(&tiny);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        check_counts(s, i, false, false);
        assert_int_equal(s->g.values[s->g.logits].rows, 1);
        assert_int_equal(s->g.values[s->g.logits].cols, tiny.n_vocab);
        assert_string_equal(s->g.values[s->g.logits].name, "logits");
        trace_good(s, DCT_PHASE_DECODE, 1, CTX, DCT_LOGITS_LAST);
        check_counts(s, i, true, true);
        assert_int_equal(layer_op(&s->g, DCT_OP_ATTN_PART, 1)->p.n_part, 2);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_ALL);
        assert_int_equal(s->g.values[s->g.logits].rows, ROWS);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_NONE);
        assert_int_equal(s->g.logits, DCT_NONE);
        close_subject(s);
    }
}

/* Every family with every extra that its files may have. */
static subject *open_full(size_t family) {
    gguf_tiny tiny = gguf_tiny_default(families[family].arch, DCT_TYPE_Q8_0);
    tiny.tied = false;
    if (strcmp(tiny.arch, "llama") == 0) tiny.biases = tiny.rope_freqs = true;
    return open_tiny(&tiny);
}

static bool graph_uses(const dct_graph *g, const char *tensor) {
    for (uint32_t i = 0; i < g->n_weights; i++) {
        if (strcmp(g->weights[i].tensor, tensor) == 0) return true;
    }
    for (uint32_t i = 0; i < g->n_tables; i++) {
        if (strcmp(g->tables[i].factors_tensor, tensor) == 0) return true;
    }
    return false;
}

static void copy_name(char out[80], const dct_tensor *tensor) { snprintf(out, 80, "%.*s", (int)tensor->name.len, tensor->name.ptr); }

static void every_tensor_is_used(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        subject *s = open_full(i);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        for (uint32_t k = 0; k < s->model.n_tensors; k++) {
            char name[80];
            copy_name(name, &s->model.tensors[k]);
            if (!graph_uses(&s->g, name)) fail_msg("%s: tensor '%s' is not used", s->hp.arch, name);
        }
        close_subject(s);
    }
}

static void misshapen_tensors_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        subject *s = open_full(i);
        for (uint32_t k = 0; k < s->model.n_tensors; k++) {
            dct_tensor *tensor = &s->model.tensors[k];
            char name[80], want[120];
            copy_name(name, tensor);
            for (uint32_t dim = 0; dim < 3; dim++) {
                uint64_t ne = tensor->ne[dim];
                tensor->ne[dim] = ne + 32;
                snprintf(want, sizeof want, "tensor '%s' is [", name);
                dct_status status = trace(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
                tensor->ne[dim] = ne;
                if (status != DCT_BAD_FILE || strstr(s->err.message, want) == NULL || strstr(s->err.message, "expected [") == NULL) {
                    fail_msg("%s: '%s', dimension %u: status %d '%s'", s->hp.arch, name, dim, (int)status, s->err.message);
                }
            }
        }
        close_subject(s);
    }
}

/* Tensors that a file may lack: the head is the embedding then, a bias is none, factors are one. */
static bool may_lack(const char *arch, const char *name) {
    if (strcmp(name, "output.weight") == 0 || strcmp(name, "rope_freqs.weight") == 0) return true;
    return strcmp(arch, "llama") == 0 && strstr(name, ".bias") != NULL;
}

static void missing_tensors_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        subject *s = open_full(i);
        for (uint32_t k = 0; k < s->model.n_tensors; k++) {
            dct_tensor *tensor = &s->model.tensors[k];
            char name[80], want[120];
            copy_name(name, tensor);
            tensor->name.ptr++; /* now it has another name, and is of no layer */
            tensor->name.len--;
            dct_status status = trace(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
            tensor->name.ptr--;
            tensor->name.len++;
            snprintf(want, sizeof want, "tensor '%s' of [", name);
            bool as_wanted = may_lack(s->hp.arch, name) ? status == DCT_OK : status == DCT_BAD_FILE && strstr(s->err.message, want) != NULL;
            if (!as_wanted) fail_msg("%s without '%s': status %d '%s'", s->hp.arch, name, (int)status, s->err.message);
        }
        close_subject(s);
    }
}

/* A tensor of a layer that the family does not know: the model is another one. Beyond the last layer, and old rotary tables, are let be. */
static void strangers_in_layers_are_refused(void **state) {
    (void)state;
    subject *s = open_full(0);
    dct_tensor *bias = NULL;
    for (uint32_t k = 0; k < s->model.n_tensors; k++) {
        if (dct_str_eq_z(s->model.tensors[k].name, "blk.0.attn_q.bias")) bias = &s->model.tensors[k];
    }
    assert_non_null(bias);
    static const struct {
        const char *name;
        dct_status status;
    } cases[] = {{"blk.0.attn_q_norm.weight", DCT_BAD_FILE}, {"blk.0.attn_rot_embd.weight", DCT_OK}, {"blk.99.attn_q.bias", DCT_OK},
                 {"blk.99999999999999999999.x", DCT_OK}, {"rope.stray", DCT_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bias->name = (dct_str){cases[i].name, strlen(cases[i].name)};
        assert_int_equal(trace(s, DCT_PHASE_DECODE, 1, CTX, DCT_LOGITS_LAST), cases[i].status);
        if (cases[i].status != DCT_OK) assert_non_null(strstr(s->err.message, "'blk.0.attn_q_norm.weight' has no place"));
    }
    close_subject(s);
}

static void heads_are_tied_or_not(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_K);
        tiny.tied = tied;
        tiny.embd_type = DCT_TYPE_Q6_K;
        subject *s = open_tiny(&tiny);
        trace_good(s, DCT_PHASE_DECODE, 1, CTX, DCT_LOGITS_LAST);
        const dct_op *head = layer_op(&s->g, DCT_OP_LINEAR, -1), *embed = layer_op(&s->g, DCT_OP_EMBED, -1);
        assert_int_equal(head->in[1] == embed->in[1], tied); /* one weight, not a copy of it */
        assert_string_equal(s->g.values[head->in[1]].name, tied ? "token_embd.weight" : "output.weight");
        close_subject(s);
    }
}

/* ---- what families differ in ---- */

static void rotations_differ(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        gguf_tiny tiny = gguf_tiny_default(families[i].arch, DCT_TYPE_F16);
        subject *s = open_tiny(&tiny);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        dct_rope_style style = strcmp(tiny.arch, "llama") == 0 ? DCT_ROPE_NORM : strcmp(tiny.arch, "qwen2vl") == 0 ? DCT_ROPE_MROPE : DCT_ROPE_NEOX;
        const dct_op *rope = layer_op(&s->g, DCT_OP_ROPE, 0);
        assert_int_equal(rope->p.rope_style, style);
        assert_int_equal(rope->p.sections[0] + rope->p.sections[1] + rope->p.sections[2], style == DCT_ROPE_MROPE ? tiny.head_dim / 2 : 0);
        assert_int_equal(count(&s->g, DCT_OP_QUANT), 0); /* float weights take floats */
        close_subject(s);
    }
}

static void check_windows(subject *s, uint32_t pattern, uint32_t window) {
    for (uint32_t il = 0; il < s->hp.n_layer; il++) {
        uint32_t want = pattern == 0 || il % pattern != pattern - 1 ? window : 0;
        if (layer_op(&s->g, DCT_OP_ATTN, (int32_t)il)->p.window != want) fail_msg("%s: window of layer %u", s->hp.arch, il);
    }
}

static void windows_alternate(void **state) {
    (void)state;
    static const struct {
        const char *arch;
        uint32_t pattern;
    } cases[] = {{"llama", 0}, {"phi3", 0}, {"gemma2", 2}, {"gemma3", 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_tiny tiny = gguf_tiny_default(cases[i].arch, DCT_TYPE_F16);
        tiny.n_layer = 7;
        tiny.sliding_window = 100;
        subject *s = open_tiny(&tiny);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        check_windows(s, cases[i].pattern, 100);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, 100, DCT_LOGITS_LAST); /* a window that never closes is none */
        check_windows(s, 0, 0);
        close_subject(s);
    }
}

static void hide_key(subject *s, const char *key) {
    dct_meta *meta = (dct_meta *)dct_model_find_meta(&s->model, key);
    assert_non_null(meta);
    meta->key.len--;
}

static void gemma2_knows_its_defaults(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("gemma2", DCT_TYPE_F16);
    subject *s = open_tiny(&tiny);
    hide_key(s, "gemma2.attn_logit_softcapping");
    hide_key(s, "gemma2.final_logit_softcapping");
    hide_key(s, "gemma2.attention.sliding_window");
    assert_int_equal(dct_arch_hparams(&s->model, &s->hp, &s->err), DCT_OK);
    assert_int_equal(s->hp.sliding_window, 4096);
    trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
    const dct_op *attn = layer_op(&s->g, DCT_OP_ATTN, 0), *embed = layer_op(&s->g, DCT_OP_EMBED, -1);
    assert_true(attn->p.softcap == 50 && attn->p.scale == 0.125f && embed->p.scale == 16);
    assert_true(layer_op(&s->g, DCT_OP_SOFTCAP, -1)->p.softcap == 30);
    assert_int_equal(layer_op(&s->g, DCT_OP_GLU, 0)->p.act, DCT_ACT_GELU_TANH);
    close_subject(s);
}

/* 46 layers are Gemma 2 27B, 62 are Gemma 3 27B: their scores are scaled by n_embd / n_head. */
static void gemma_27b_scales_by_width(void **state) {
    (void)state;
    static const struct {
        const char *arch;
        uint32_t n_layer;
        float width;
    } cases[] = {{"gemma2", 46, 64}, {"gemma2", 2, 32}, {"gemma3", 62, 64}, {"gemma3", 2, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_tiny tiny = gguf_tiny_default(cases[i].arch, DCT_TYPE_F16);
        tiny.n_layer = cases[i].n_layer;
        tiny.head_dim = 32;
        subject *s = open_tiny(&tiny);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        assert_true(fabsf(layer_op(&s->g, DCT_OP_ATTN, 0)->p.scale - 1 / sqrtf(cases[i].width)) < 1e-6f);
        close_subject(s);
    }
}

static const dct_rope_table *table_of(const dct_graph *g, int32_t layer) {
    return &g->tables[g->values[layer_op(g, DCT_OP_ROPE, layer)->in[1]].ref];
}

static void gemma3_rotates_locally_by_another_table(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("gemma3", DCT_TYPE_F16);
    tiny.n_layer = 6;
    subject *s = open_tiny(&tiny);
    s->hp.rope_base = 1e6f;
    s->hp.rope_scaling = DCT_ROPE_LINEAR;
    s->hp.rope_factor = 8;
    trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
    assert_int_equal(s->g.n_tables, 2);
    const dct_rope_table *local = table_of(&s->g, 4), *global = table_of(&s->g, 5);
    assert_true(local->base == 10000 && local->factor == 1 && local->scaling == DCT_ROPE_NONE);
    assert_true(global->base == 1e6f && global->factor == 8 && global->scaling == DCT_ROPE_LINEAR);
    close_subject(s);
}

/* Under the names that most files have, or those of Ollama's converter; without a key a base is the family's. */
static void gemma3_finds_its_bases(void **state) {
    (void)state;
    static const struct {
        const char *name;
        float base;
    } keys[] = {{"gemma3.rope.freq_base", 10000}, /* as gguf_build_tiny writes it; the base without a key is another */
                {"gemma3.rope.freq_base_swa", 20000},
                {"gemma3.rope.global.freq_base", 10000},
                {"gemma3.rope.local.freq_base", 20000}};
    static const struct {
        bool has[4];
        float global, local;
    } cases[] = {{{true, true, false, false}, 10000, 20000}, {{false, false, true, true}, 10000, 20000},
                 {{true, false, false, true}, 10000, 20000}, {{false, false, false, false}, 1e6f, 10000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_tiny tiny = gguf_tiny_default("gemma3", DCT_TYPE_F16);
        subject *s = calloc(1, sizeof *s);
        assert_non_null(s);
        tiny.n_layer = 6;
        gguf_build_tiny(&s->b, &tiny);
        for (size_t k = 1; k < 4; k++) gguf_build_f32(&s->b, keys[k].name, keys[k].base);
        open_built(s);
        for (size_t k = 0; k < 4; k++)
            if (!cases[i].has[k]) hide_key(s, keys[k].name);
        assert_int_equal(dct_arch_hparams(&s->model, &s->hp, &s->err), DCT_OK);
        trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        const float local = table_of(&s->g, 4)->base, global = table_of(&s->g, 5)->base;
        if (global != cases[i].global || local != cases[i].local)
            fail_msg("case %zu: bases %g and %g", i, (double)global, (double)local);
        close_subject(s);
    }
}

/* A list of all layers says what the family's own number says, or is refused. */
static void gemma3_takes_its_windows_as_a_list(void **state) {
    (void)state;
    enum { N_LAYER = 7, WINDOW = 100 };
    static const struct {
        uint8_t has_window[N_LAYER];
        uint64_t n;
        dct_status status;
    } cases[] = {{{1, 1, 1, 1, 1, 0, 1}, 7, DCT_OK},
                 {{0, 1, 1, 1, 1, 1, 0}, 7, DCT_BAD_FILE},
                 {{1, 1, 1, 1, 1, 1, 1}, 7, DCT_BAD_FILE},
                 {{1, 1, 1, 1, 1, 0, 1}, 6, DCT_BAD_FILE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char key[] = "gemma3.attention.sliding_window_pattern";
        gguf_tiny tiny = gguf_tiny_default("gemma3", DCT_TYPE_F16);
        subject *s = calloc(1, sizeof *s);
        assert_non_null(s);
        tiny.n_layer = N_LAYER;
        tiny.sliding_window = WINDOW;
        gguf_build_tiny(&s->b, &tiny);
        gguf_build_array_raw(&s->b, key, DCT_META_BOOL, cases[i].n, cases[i].has_window, cases[i].n);
        open_built(s);
        assert_int_equal(dct_arch_hparams(&s->model, &s->hp, &s->err), DCT_OK);
        dct_status status = trace(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
        if (status != cases[i].status) fail_msg("case %zu: status %d '%s'", i, (int)status, s->err.message);
        if (status == DCT_OK) check_windows(s, 6, WINDOW);
        else assert_non_null(strstr(s->err.message, "sliding_window_pattern is not the window of all layers but every 6th"));
        close_subject(s);
    }
}

static void phi3_takes_rows_of_fused_tensors(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("phi3", DCT_TYPE_Q4_0);
    subject *s = open_tiny(&tiny);
    trace_good(s, DCT_PHASE_PREFILL, ROWS, CTX, DCT_LOGITS_LAST);
    uint32_t next_qkv = 0, next_up = 0;
    for (uint32_t i = 0; i < s->g.n_weights; i++) {
        const dct_weight *w = &s->g.weights[i];
        uint32_t *next = strcmp(w->tensor, "blk.0.attn_qkv.weight") == 0 ? &next_qkv : strcmp(w->tensor, "blk.0.ffn_up.weight") == 0 ? &next_up : NULL;
        if (next == NULL) continue;
        assert_int_equal(w->row_begin, *next); /* q, k, v; gate, up: one after the other */
        *next += w->n_rows;
    }
    assert_int_equal(next_qkv, (tiny.n_head + 2 * tiny.n_head_kv) * tiny.head_dim);
    assert_int_equal(next_up, 2 * tiny.n_ff);
    close_subject(s);
}

/* Which factors a plan uses depends on its context alone. */
static void phi3_chooses_factors_by_context(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("phi3", DCT_TYPE_F16);
    subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    gguf_build_tiny(&s->b, &tiny);
    gguf_build_u32(&s->b, "phi3.rope.scaling.original_context_length", 128);
    gguf_build_str(&s->b, "phi3.rope.scaling.type", "longrope");
    gguf_build_f32(&s->b, "phi3.rope.scaling.attn_factor", 1.19f);
    gguf_build_random(&s->b, "rope_factors_short.weight", DCT_TYPE_F32, 1, (uint64_t[]){tiny.head_dim / 2}, 1, 1, 0.1f);
    gguf_build_random(&s->b, "rope_factors_long.weight", DCT_TYPE_F32, 1, (uint64_t[]){tiny.head_dim / 2}, 1, 1, 0.1f);
    open_built(s);
    assert_int_equal(dct_arch_hparams(&s->model, &s->hp, &s->err), DCT_OK);
    trace_good(s, DCT_PHASE_PREFILL, ROWS, 128, DCT_LOGITS_LAST);
    assert_string_equal(table_of(&s->g, 0)->factors_tensor, "rope_factors_short.weight");
    trace_good(s, DCT_PHASE_PREFILL, ROWS, 129, DCT_LOGITS_LAST);
    assert_string_equal(table_of(&s->g, 0)->factors_tensor, "rope_factors_long.weight");
    assert_true(table_of(&s->g, 0)->attn_factor == 1.19f);
    close_subject(s);
}

/* ---- refusals ---- */

static void refuse_hparams(const char *arch, const char *key, uint32_t value, const char *says) {
    subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    gguf_tiny tiny = gguf_tiny_default(arch, DCT_TYPE_F16);
    gguf_build_tiny(&s->b, &tiny);
    gguf_build_u32(&s->b, key, value);
    open_built(s);
    dct_status status = dct_arch_hparams(&s->model, &s->hp, &s->err);
    if (status != DCT_BAD_FILE || strstr(s->err.message, says) == NULL) fail_msg("status %d '%s' (expected '%s')", (int)status, s->err.message, says);
    close_subject(s);
}

static void others_are_refused_by_name(void **state) {
    (void)state;
    assert_string_equal(dct_arch_names(), "llama, qwen2, qwen2vl, qwen3, gemma2, gemma3, phi3");
    refuse_hparams("mamba", "x", 1, "unsupported architecture 'mamba' (supported: llama, qwen2,");
    refuse_hparams("clip", "x", 1, "this encodes images ('clip')");
    refuse_hparams("llama", "llama.expert_count", 8, "llama.expert_count is 8");
}

static void qwen2vl_needs_its_sections(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("qwen2vl", DCT_TYPE_F16);
    subject *s = open_tiny(&tiny);
    hide_key(s, "qwen2vl.rope.dimension_sections");
    assert_int_equal(dct_arch_hparams(&s->model, &s->hp, &s->err), DCT_BAD_FILE);
    assert_non_null(strstr(s->err.message, "expected three that add up to 32"));
    close_subject(s);
}

static void caches_have_few_types(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_F16);
    tiny.head_dim = 48;
    subject *s = open_tiny(&tiny);
    dct_trace_params params = {.kind = DCT_PHASE_DECODE, .rows = 1, .n_ctx = 64, .type_k = DCT_TYPE_Q8_0, .type_v = DCT_TYPE_F16};
    assert_int_equal(dct_arch_trace(&s->model, &s->hp, &params, &s->graphs, &s->g, &s->err), DCT_USAGE);
    assert_non_null(strstr(s->err.message, "heads of 48 are not whole blocks of 32"));
    params.type_k = DCT_TYPE_F16;
    params.type_v = DCT_TYPE_Q4_0;
    assert_int_equal(dct_arch_trace(&s->model, &s->hp, &params, &s->graphs, &s->g, &s->err), DCT_USAGE);
    assert_non_null(strstr(s->err.message, "V caches cannot be"));
    close_subject(s);
}

/* The allocation that fails first, second, ...: always a clean refusal, until there are enough. */
static void memory_failures_are_clean(void **state) {
    (void)state;
    gguf_tiny tiny = gguf_tiny_default("gemma3", DCT_TYPE_Q4_0);
    subject *s = open_tiny(&tiny);
    dct_trace_params params = {.kind = DCT_PHASE_DECODE, .rows = 1, .n_ctx = 64, .type_k = DCT_TYPE_F16, .type_v = DCT_TYPE_F16};
    for (uint64_t k = 1; k < 100; k++) {
        dct_arena_deinit(&s->graphs);
        dct_arena_init(&s->graphs, 0);
        s->graphs.fail_at = k;
        dct_status status = dct_arch_trace(&s->model, &s->hp, &params, &s->graphs, &s->g, &s->err);
        if (status == DCT_OK && k > 5) break;
        assert_int_equal(status, DCT_NO_FIT);
        assert_true(k < 99);
    }
    close_subject(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_have_their_ops),
        cmocka_unit_test(every_tensor_is_used),
        cmocka_unit_test(misshapen_tensors_are_named),
        cmocka_unit_test(missing_tensors_are_named),
        cmocka_unit_test(strangers_in_layers_are_refused),
        cmocka_unit_test(heads_are_tied_or_not),
        cmocka_unit_test(rotations_differ),
        cmocka_unit_test(windows_alternate),
        cmocka_unit_test(gemma2_knows_its_defaults),
        cmocka_unit_test(gemma_27b_scales_by_width),
        cmocka_unit_test(gemma3_rotates_locally_by_another_table),
        cmocka_unit_test(gemma3_finds_its_bases),
        cmocka_unit_test(gemma3_takes_its_windows_as_a_list),
        cmocka_unit_test(phi3_takes_rows_of_fused_tensors),
        cmocka_unit_test(phi3_chooses_factors_by_context),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(qwen2vl_needs_its_sections),
        cmocka_unit_test(caches_have_few_types),
        cmocka_unit_test(memory_failures_are_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
