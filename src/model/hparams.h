/* model/hparams: the hyper-parameters of a decoder, read from "{arch}." keys with the format's documented defaults, and
 * checked for sense (heads divide, sizes are in range, layers are few enough). Architectures adjust them (arch/). */
#ifndef DCT_MODEL_HPARAMS_H
#define DCT_MODEL_HPARAMS_H

#include "model/model.h"

typedef enum dct_rope_scaling {
    DCT_ROPE_NONE, DCT_ROPE_LINEAR, DCT_ROPE_YARN, DCT_ROPE_LLAMA3, DCT_ROPE_LONGROPE
} dct_rope_scaling;

typedef struct dct_hparams {
    char arch[32];
    uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
    uint32_t n_head[DCT_MAX_LAYERS], n_head_kv[DCT_MAX_LAYERS], n_ff[DCT_MAX_LAYERS]; /* a layer each */
    uint32_t head_dim_k, head_dim_v;
    float rms_eps;
    uint32_t n_rot;           /* rotated elements of a head; 0 = no rotation */
    float rope_base;
    dct_rope_scaling rope_scaling;
    float rope_factor;        /* 1 when not scaled */
    uint32_t rope_orig_ctx;
    float rope_attn_factor, yarn_ext_factor, yarn_beta_fast, yarn_beta_slow;
    int32_t rope_sections[4]; /* M-RoPE; all 0 when absent */
    uint32_t sliding_window;  /* 0 = none */
    float attn_softcap, final_softcap; /* 0 = none */
    uint32_t n_expert;        /* 0 for the architectures we run */
} dct_hparams;

/* Reads general.architecture and its keys. Does not know which architectures are supported. */
dct_status dct_hparams_read(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;

#endif
