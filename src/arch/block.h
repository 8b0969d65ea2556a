/* arch/block: the pieces that decoder families are built of. A family is a sequence of these calls; what differs between
 * families stands in the arguments. Every call checks the tensors that it names; the first failure stays in the graph and
 * later calls do nothing, so that a family reads straight down. */
#ifndef DCT_ARCH_BLOCK_H
#define DCT_ARCH_BLOCK_H

#include "arch/arch.h"

typedef struct dct_tracer {
    const dct_model *model;
    const dct_hparams *hp;
    const dct_trace_params *params;
    dct_graph *g;
} dct_tracer;

/* What one layer's attention is like. */
typedef struct dct_attn_spec {
    dct_value_id table;      /* DCT_NONE: no rotation */
    dct_rope_style rope_style;
    float scale;             /* of q.k */
    uint32_t window;         /* 0 = none */
    bool needs_bias;         /* q, k and v must have one; otherwise they may */
    bool head_norms;         /* each head of q and k is normed before it is rotated */
    bool fused_qkv;          /* one tensor attn_qkv holds q, k and v, in this order of rows */
} dct_attn_spec;

/* 1/sqrt(head_dim), no window, no rotation, no norms. */
dct_attn_spec dct_block_attn_spec(const dct_tracer *t);

/* token_embd, times `scale`. */
dct_value_id dct_block_embed(dct_tracer *t, float scale);

/* RMS norm of x by "blk.N.{name}.weight", or "{name}.weight" when layer is -1. */
dct_value_id dct_block_norm(dct_tracer *t, dct_value_id x, int32_t layer, const char *name);

/* From the normed x to the output projection, K and V stored in the layer's caches on the way. */
dct_value_id dct_block_attention(dct_tracer *t, dct_value_id x, int32_t layer, const dct_attn_spec *spec);

/* down(act(gate x) * up x). fused: ffn_up holds gate and up, in this order of rows. */
dct_value_id dct_block_ffn(dct_tracer *t, dct_value_id x, int32_t layer, dct_act act, bool fused);

/* All layers and the head of families that norm before each half of a layer and nowhere else; every layer is the same:
 *     x = x + attention(norm(x));  x = x + down(silu(gate h) * up h), h = norm(x) */
void dct_block_decoder(dct_tracer *t, dct_value_id x, const dct_attn_spec *spec, bool fused_ffn);

/* The last row (when it alone is wanted), the output norm, the head (tied to token_embd when the file has no output.weight),
 * the final softcap; marks the graph's output. Nothing when no logits are wanted. */
void dct_block_head(dct_tracer *t, dct_value_id x);

/* The rotary table that the hyper-parameters state, with the divisors of `factors` ("" or the name of a tensor of n_rot/2). */
uint32_t dct_block_table_ctx(const dct_tracer *t); /* the context that rotary tables are for */
dct_rope_table dct_block_rope_table(const dct_tracer *t, const char *factors);
/* Its value in the graph; DCT_NONE without failure when the model rotates nothing. */
dct_value_id dct_block_rope(dct_tracer *t, const dct_rope_table *table);

/* `name` when the file has such a tensor, "" otherwise. */
const char *dct_block_if_present(const dct_tracer *t, const char *name);

/* Records a failure of the trace. */
DCT_PRINTF(2, 3) void dct_block_fail(dct_tracer *t, const char *format, ...);

#endif
