/* tools/synth_shape: which models can be synthesised, the tensors they have, and which type each tensor gets in a mixture. */
#ifndef DCT_TOOLS_SYNTH_SHAPE_H
#define DCT_TOOLS_SYNTH_SHAPE_H

#include "base/arena.h"
#include "base/dtype.h"

typedef enum dct_synth_family {
    DCT_SYNTH_QWEN2, DCT_SYNTH_QWEN2VL, DCT_SYNTH_QWEN3, DCT_SYNTH_LLAMA3, DCT_SYNTH_GEMMA3, DCT_SYNTH_FAMILIES
} dct_synth_family;

typedef struct dct_synth_shape {
    const char *name; /* "qwen2.5-1.5b" */
    const char *title, *size_label;
    dct_synth_family family;
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff;
    uint32_t n_vocab, n_plain; /* tokens in all; tokens before the special ones */
    uint32_t n_ctx;
    float rope_base, eps;
    bool tied;
    uint32_t sliding_window;
} dct_synth_shape;

typedef struct dct_synth_mix dct_synth_mix; /* "Q4_K_M": a rule for the type of every tensor */

typedef struct dct_synth_tensor {
    char name[64];
    dct_dtype type;
    uint32_t n_dims;
    uint64_t ne[2];
    float mean, sigma, offset;
    bool both_signs;    /* (see synth_blocks.h) */
    const float *fixed; /* the values themselves (F32), or NULL: random */
} dct_synth_tensor;

/* NULL when there is none of that name (any case). */
const dct_synth_shape *dct_synth_find_shape(const char *name);
const dct_synth_mix *dct_synth_find_mix(const char *name);
const char *dct_synth_arch(dct_synth_family family);
uint32_t dct_synth_mix_file_type(const dct_synth_mix *mix); /* general.file_type */
dct_dtype dct_synth_mix_base(const dct_synth_mix *mix);
bool dct_synth_mix_is_directory(const dct_synth_mix *mix);  /* as Hugging Face and MLX have it, not a GGUF file */

/* All tensors in file order; NULL when the arena is full. */
dct_synth_tensor *dct_synth_tensors(const dct_synth_shape *shape, const dct_synth_mix *mix, dct_arena *arena, uint32_t *n);

#endif
