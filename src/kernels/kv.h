/* kernels/kv: where an element of a cache lies (the picture is in kernel.h). */
#ifndef DCT_KERNELS_KV_H
#define DCT_KERNELS_KV_H

#include "kernels/kernel.h"

enum { DCT_KV_BLOCK = 16 };

static inline uint64_t dct_kv_round(uint32_t n_ctx) {
    return ((uint64_t)n_ctx + DCT_KV_BLOCK - 1) & ~(uint64_t)(DCT_KV_BLOCK - 1);
}

/* Elements: index into a head's values (floats, halves or codes). */
static inline uint64_t dct_k_at(uint32_t head_dim, uint32_t pos, uint32_t d) {
    return ((uint64_t)(pos / DCT_KV_BLOCK) * head_dim + d) * DCT_KV_BLOCK + pos % DCT_KV_BLOCK;
}
static inline uint64_t dct_v_at(uint32_t head_dim, uint32_t pos, uint32_t d) { return (uint64_t)pos * head_dim + d; }

/* Q8_0: bytes of a head's codes, behind which its f16 scales lie; and index among the scales of the block of 32 that has d. */
static inline uint64_t dct_kv_code_bytes(uint32_t head_dim, uint32_t n_ctx) { return dct_kv_round(n_ctx) * head_dim; }
static inline uint64_t dct_k_scale_at(uint32_t head_dim, uint32_t pos, uint32_t d) {
    return dct_k_at(head_dim / 32, pos, d / 32);
}
static inline uint64_t dct_v_scale_at(uint32_t head_dim, uint32_t pos, uint32_t d) {
    return dct_v_at(head_dim / 32, pos, d / 32);
}

#endif
