/* kernels/ref: the scalar kernels, which are the definition. Vector files take from here what they have no code for. */
#ifndef DCT_KERNELS_REF_H
#define DCT_KERNELS_REF_H

#include "kernels/kernel.h"

/* Sums of a row: sixteen partial sums folded by one fixed tree. Destroys s. */
static inline float dct_tree16(float s[16]) {
    for (int half = 8; half > 1; half /= 2) {
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    }
    return s[0] + s[1];
}

void dct_ref_linear_quant(const dct_linear_args *args, uint32_t tile_begin, uint32_t tile_end);
void dct_ref_linear_float(const dct_linear_args *args, uint32_t tile_begin, uint32_t tile_end);

void dct_ref_quant_q8(const float *x, uint32_t k, void *row);
void dct_ref_rms_norm(const float *x, const float *w, uint32_t group, uint32_t n_groups, float eps, float *y);
void dct_ref_rope(const dct_rope_args *args);
uint32_t dct_ref_rope_stream(const dct_rope_args *args, uint32_t i); /* which of the streams t, h, w places pair i */
void dct_ref_rotate_pair(float *x, const float *angles, uint32_t i, uint32_t n_pairs, bool adjacent); /* pair i of head x */
void dct_ref_glu(dct_act act, const float *gate, const float *up, uint32_t n, float *out);
void dct_ref_add(const float *a, const float *b, uint32_t n, float *out);
void dct_ref_mul(const float *a, const float *b, uint32_t n, float *out);
void dct_ref_layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps, float *y);
void dct_ref_mix(const float *x, const float *w, uint32_t n_rows, uint32_t n, float *out);
void dct_ref_route(const float *scores, uint32_t n, uint32_t n_used, bool renorm, int32_t *ids, float *weights);
void dct_ref_softcap(const float *x, uint32_t n, float cap, float *out);
void dct_ref_embed(dct_dtype type, uint32_t k, const void *w, uint32_t row, float scale, float *out);

/* x finite; the inverse of a block's scale, and the code of one element (nearest, ties to even). */
float dct_ref_block_amax(const float *x, uint32_t n);
static inline float dct_ref_inverse(float amax) { return amax >= DCT_Q8_TINY ? 127.0f / amax : 0.0f; }
int8_t dct_ref_code(float x, float inverse);

void dct_ref_store_k(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                     void *cache);
void dct_ref_store_v(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                     void *cache);

void dct_ref_attn(const dct_attn_args *args, uint32_t kv_head, uint32_t t_begin, uint32_t t_end);
void dct_ref_attn_part(const dct_attn_args *args, uint32_t kv_head, uint32_t t, uint32_t part);
void dct_ref_attn_merge(const dct_attn_args *args, uint32_t t, uint32_t head_begin, uint32_t head_end);

#endif
