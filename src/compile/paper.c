/* compile/paper: a decode step at the grain of the paper: every tensor that the model's definition names, none fused, none in
 * place.
 *
 * 16 a layer. A row below is a tensor, the op that writes it (its number in the layer is its step) and the last op of the
 * layer, or of the next, that reads it. Keys and values count as the projections that they are; the caches do not.
 *
 *      hidden ─ norm ─┬ q ─ q_rope ┐
 *         │           ├ k ─ k_rope ┴ scores ┐
 *         │           └ v ──────────────────┴ attn ─ o ─┐
 *         └─────────────────────────────────────────────┴ residual ─ norm ─┬ gate ┐
 *                                                            │             └ up ──┴ act ─ down ┐
 *                                                            └─────────────────────────────────┴ hidden of the next layer
 */
#include <stdio.h>

#include "compile/compile.h"

enum { TENSORS_A_LAYER = 16, NAME_BYTES = 32 };

typedef enum width { WIDTH_EMBD, WIDTH_Q, WIDTH_K, WIDTH_V, WIDTH_SCORES, WIDTH_ATTN, WIDTH_FF } width;

static const struct logical {
    const char *name;
    uint32_t last; /* the step of its last reader, counted from the layer's first; 16 is the first step of the next layer */
    width width;
} LOGICAL[TENSORS_A_LAYER] = {
    {"hidden", 10, WIDTH_EMBD},     {"attn_norm", 4, WIDTH_EMBD}, {"q", 5, WIDTH_Q},         {"k", 6, WIDTH_K},
    {"v", 8, WIDTH_V},              {"q_rope", 7, WIDTH_Q},       {"k_rope", 7, WIDTH_K},    {"scores", 8, WIDTH_SCORES},
    {"attn", 9, WIDTH_ATTN},        {"attn_out", 10, WIDTH_EMBD}, {"residual", 16, WIDTH_EMBD}, {"ffn_norm", 13, WIDTH_EMBD},
    {"gate", 14, WIDTH_FF},         {"up", 14, WIDTH_FF},         {"act", 15, WIDTH_FF},     {"down", 16, WIDTH_EMBD},
};

static uint64_t elements(const dct_hparams *hp, uint32_t layer, width w) {
    uint64_t heads = hp->n_head[layer], heads_kv = hp->n_head_kv[layer];
    switch (w) {
    case WIDTH_EMBD: return hp->n_embd;
    case WIDTH_Q: return heads * hp->head_dim_k;
    case WIDTH_K: return heads_kv * hp->head_dim_k;
    case WIDTH_V: return heads_kv * hp->head_dim_v;
    case WIDTH_SCORES: return heads * hp->n_ctx_train;
    case WIDTH_ATTN: return heads * hp->head_dim_v;
    case WIDTH_FF: return hp->n_ff[layer];
    }
    return 0;
}

static dct_status name_tensors(uint32_t n, dct_arena *arena, const char ***out, dct_err *err) {
    const char **names = dct_arena_array(arena, n, sizeof *names);
    for (uint32_t i = 0; names != NULL && i < n; i++) {
        char text[NAME_BYTES];
        int len = snprintf(text, sizeof text, "blk.%u.%s", i / TENSORS_A_LAYER, LOGICAL[i % TENSORS_A_LAYER].name);
        names[i] = dct_arena_strndup(arena, text, (size_t)len);
        if (names[i] == NULL) names = NULL;
    }
    if (names == NULL) return dct_fail_memory(err, arena, "the logical tensors");
    *out = names;
    return DCT_OK;
}

dct_status dct_paper_tensors(const dct_hparams *hp, dct_arena *arena, dct_interval **iv, const char ***names, uint32_t *n,
                             dct_err *err) {
    uint32_t count = hp->n_layer * TENSORS_A_LAYER;
    dct_interval *out = dct_arena_array(arena, count, sizeof *out);
    if (out == NULL) return dct_fail_memory(err, arena, "the logical tensors");
    for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
        for (uint32_t i = 0; i < TENSORS_A_LAYER; i++) {
            const struct logical *t = &LOGICAL[i];
            uint32_t base = layer * TENSORS_A_LAYER, id = base + i;
            out[id] = (dct_interval){.first = id, .last = base + t->last, .bytes = elements(hp, layer, t->width) * sizeof(float)};
        }
    }
    dct_status status = names != NULL ? name_tensors(count, arena, names, err) : DCT_OK;
    if (status != DCT_OK) return status;
    *iv = out;
    *n = count;
    return DCT_OK;
}
