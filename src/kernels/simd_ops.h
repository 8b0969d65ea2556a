/* kernels/simd_ops: quantised activations, norms, rotary positions, elementwise operations and storing into the caches, for any
 * instruction set of simd16_*.h. Odd ends go through the masked forms, or through the scalar functions where those are simpler.
 */
#ifndef DCT_KERNELS_SIMD_OPS_H
#define DCT_KERNELS_SIMD_OPS_H

#include <string.h>

#include "kernels/kv.h"
#include "kernels/ref.h"
#include "kernels/simd_math.h"

/* Elements of the last, perhaps shorter, run of sixteen that begins at i. */
V_INLINE uint32_t run_at(uint32_t i, uint32_t n) { return n - i < 16 ? n - i : 16; }

/* ---- q8 ---- */

static void quant_block(const float *x, int8_t *codes, float *scale, int16_t sums[2]) {
    v16f a = v16f_load(x), b = v16f_load(x + 16);
    float none = v16f_tree(v16f_fma(a, v16f_zero(), v16f_mul(b, v16f_zero()))); /* NaN when one is not finite, else 0 */
    float amax = v16f_hmax(v16f_max(v16f_abs(a), v16f_abs(b))) + none;
    v16f inverse = v16f_set1(dct_ref_inverse(amax));
    const v16i least = v16i_set1(-127); /* what NaN becomes would overflow the sums */
    v16i low = v16i_max(v16i_round(v16f_mul(a, inverse)), least), high = v16i_max(v16i_round(v16f_mul(b, inverse)), least);
    v16i_store_i8(codes, low);
    v16i_store_i8(codes + 16, high);
    *scale = amax / 127.0f;
    sums[0] = (int16_t)v16i_sum(low);
    sums[1] = (int16_t)v16i_sum(high);
}

static void quant_q8(const float *x, uint32_t k, void *row) {
    float *scales = (float *)((char *)row + k);
    int16_t *sums = (int16_t *)((char *)row + k + k / 8);
    for (uint32_t b = 0; b < k / 32; b++) quant_block(x + 32 * b, (int8_t *)row + 32 * b, scales + b, sums + 2 * b);
}

/* ---- norm ---- */

static void rms_norm_group(const float *x, const float *w, uint32_t n, float eps, float *y) {
    v16f s = v16f_zero();
    uint32_t i = 0;
    for (; n - i >= 16; i += 16) s = v16f_fma(v16f_load(x + i), v16f_load(x + i), s);
    if (i < n) s = v16f_fma(v16f_load_n(x + i, n - i), v16f_load_n(x + i, n - i), s);
    const v16f inverse = v16f_set1(1.0f / sqrtf(v16f_tree(s) / (float)n + eps));
    for (i = 0; n - i >= 16; i += 16) v16f_store(y + i, v16f_mul(v16f_mul(v16f_load(x + i), inverse), v16f_load(w + i)));
    if (i < n) v16f_store_n(y + i, v16f_mul(v16f_mul(v16f_load_n(x + i, n - i), inverse), v16f_load_n(w + i, n - i)), n - i);
}

static void rms_norm(const float *x, const float *w, uint32_t group, uint32_t n_groups, float eps, float *y) {
    for (uint32_t g = 0; g < n_groups; g++) rms_norm_group(x + (uint64_t)g * group, w, group, eps, y + (uint64_t)g * group);
}

/* The distances from the mean lie in y meanwhile: lanes beyond n are read as zero from there, and add nothing. */
static void layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps, float *y) {
    v16f sums = v16f_zero(), squares = v16f_zero();
    for (uint32_t i = 0; i < n; i += 16) sums = v16f_add(sums, v16f_load_n(x + i, run_at(i, n)));
    const v16f mean = v16f_set1(v16f_tree(sums) / (float)n);
    for (uint32_t i = 0; i < n; i += 16) {
        v16f_store_n(y + i, v16f_sub(v16f_load_n(x + i, run_at(i, n)), mean), run_at(i, n));
        v16f d = v16f_load_n(y + i, run_at(i, n));
        squares = v16f_fma(d, d, squares);
    }
    const v16f inverse = v16f_set1(1.0f / sqrtf(v16f_tree(squares) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f scaled = v16f_mul(v16f_load_n(y + i, run), inverse);
        v16f_store_n(y + i, v16f_fma(scaled, v16f_load_n(w + i, run), v16f_load_n(b + i, run)), run);
    }
}

/* ---- rotary positions ---- */

V_INLINE void rotate16(v16f *a, v16f *b, const float *angles) {
    v16f c, s, minus_zero = v16f_set1(-0.0f), a0 = *a, b0 = *b;
    v16f_load_pairs(angles, &c, &s);
    *a = v16f_fma(a0, c, v16f_flip(v16f_mul(b0, s), minus_zero));
    *b = v16f_fma(a0, s, v16f_mul(b0, c));
}

/* Pairs begin..end of a head whose angles lie at `angles` (the table's row), end - begin a multiple of 16. */
static void rotate_pairs(float *x, const float *angles, uint32_t begin, uint32_t end, uint32_t n_pairs, bool adjacent) {
    for (uint32_t i = begin; i < end; i += 16) {
        v16f a, b;
        if (adjacent) {
            v16f_load_pairs(x + 2 * i, &a, &b);
            rotate16(&a, &b, angles + 2 * i);
            v16f_store_pairs(x + 2 * i, a, b);
        } else {
            a = v16f_load(x + i);
            b = v16f_load(x + i + n_pairs);
            rotate16(&a, &b, angles + 2 * i);
            v16f_store(x + i, a);
            v16f_store(x + i + n_pairs, b);
        }
    }
}

/* One row: runs of pairs with the same position, sixteen pairs at a time and the rest of a run singly. */
static void rotate_row(const dct_rope_args *args, uint32_t t) {
    const int32_t *pos = args->pos + 4 * (uint64_t)t;
    const bool adjacent = args->style == DCT_ROPE_NORM;
    const uint32_t n_pairs = args->n_rot / 2;
    float *row = args->x + t * args->stride;
    for (uint32_t begin = 0, end = 0; begin < n_pairs; begin = end) {
        uint32_t stream = dct_ref_rope_stream(args, begin);
        while (end < n_pairs && dct_ref_rope_stream(args, end) == stream) end++;
        const float *angles = args->table + (uint64_t)(uint32_t)pos[stream] * args->n_rot;
        uint32_t whole = begin + (end - begin) / 16 * 16;
        for (uint32_t h = 0; h < args->n_head; h++) {
            float *x = row + (uint64_t)h * args->head_dim;
            rotate_pairs(x, angles, begin, whole, n_pairs, adjacent);
            for (uint32_t i = whole; i < end; i++) dct_ref_rotate_pair(x, angles, i, n_pairs, adjacent);
        }
    }
}

static void rope(const dct_rope_args *args) {
    for (uint32_t t = 0; t < args->n; t++) rotate_row(args, t);
}

/* ---- elementwise ---- */

static void glu(dct_act act, const float *gate, const float *up, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f x = v16f_load_n(gate + i, run);
        v16f a = act == DCT_ACT_SILU ? v16f_silu(x) : act == DCT_ACT_SIGMOID ? v16f_sigmoid(x) : v16f_gelu_tanh(x);
        v16f_store_n(out + i, v16f_mul(a, v16f_load_n(up + i, run)), run);
    }
}

static void add(const float *a, const float *b, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f_store_n(out + i, v16f_add(v16f_load_n(a + i, run), v16f_load_n(b + i, run)), run);
    }
}

static void mul(const float *a, const float *b, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f_store_n(out + i, v16f_mul(v16f_load_n(a + i, run), v16f_load_n(b + i, run)), run);
    }
}

static void mix(const float *x, const float *w, uint32_t n_rows, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f y = v16f_mul(v16f_set1(w[0]), v16f_load_n(x + i, run));
        for (uint32_t j = 1; j < n_rows; j++) y = v16f_fma(v16f_set1(w[j]), v16f_load_n(x + (uint64_t)j * n + i, run), y);
        v16f_store_n(out + i, y, run);
    }
}

static void softcap(const float *x, uint32_t n, float cap, float *out) {
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t run = run_at(i, n);
        v16f_store_n(out + i, v16f_softcap(v16f_load_n(x + i, run), cap), run);
    }
}

/* ---- caches ---- */

V_INLINE void store_halves(dct_dtype type, uint16_t *p, v16f v, uint32_t n) {
    if (type == DCT_TYPE_F16) v16f_store_f16_n(p, v, n);
    else v16f_store_bf16_n(p, v, n);
}

/* Elements of K lie sixteen apart: convert sixteen, then put them down one by one. */
static void store_k(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                    void *cache) {
    if (type != DCT_TYPE_F16 && type != DCT_TYPE_BF16) {
        dct_ref_store_k(type, x, n_head_kv, head_dim, n_ctx, pos, cache);
        return;
    }
    const uint64_t head_bytes = dct_kv_head_bytes(type, head_dim, n_ctx);
    for (uint32_t h = 0; h < n_head_kv; h++, x += head_dim) {
        uint16_t *k = (uint16_t *)((char *)cache + h * head_bytes) + dct_k_at(head_dim, pos, 0);
        for (uint32_t d = 0; d < head_dim; d += 16) {
            uint16_t halves[16];
            uint32_t run = run_at(d, head_dim);
            store_halves(type, halves, v16f_load_n(x + d, run), 16);
            for (uint32_t i = 0; i < run; i++) k[(uint64_t)(d + i) * DCT_KV_BLOCK] = halves[i];
        }
    }
}

static void store_v_head(dct_dtype type, const float *x, uint32_t head_dim, uint32_t n_ctx, uint32_t pos, char *head) {
    const uint64_t at = dct_v_at(head_dim, pos, 0);
    if (type == DCT_TYPE_F32) {
        memcpy((float *)head + at, x, head_dim * sizeof *x);
    } else if (type == DCT_TYPE_Q8_0) {
        uint16_t *scales = (uint16_t *)(head + dct_kv_code_bytes(head_dim, n_ctx)) + dct_v_scale_at(head_dim, pos, 0);
        for (uint32_t b = 0; b < head_dim / 32; b++) {
            float scale;
            int16_t sums[2];
            quant_block(x + 32 * b, (int8_t *)head + at + 32 * b, &scale, sums);
            scales[b] = dct_f16_of_f32(scale);
        }
    } else {
        for (uint32_t d = 0; d < head_dim; d += 16) {
            uint32_t run = run_at(d, head_dim);
            store_halves(type, (uint16_t *)head + at + d, v16f_load_n(x + d, run), run);
        }
    }
}

static void store_v(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                    void *cache) {
    const uint64_t head_bytes = dct_kv_head_bytes(type, head_dim, n_ctx);
    for (uint32_t h = 0; h < n_head_kv; h++) {
        store_v_head(type, x + (uint64_t)h * head_dim, head_dim, n_ctx, pos, (char *)cache + h * head_bytes);
    }
}

static void fill_ops(dct_kernels *table) {
    table->quant_q8 = quant_q8;
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->rope = rope;
    table->glu = glu;
    table->add = add;
    table->mul = mul;
    table->mix = mix;
    table->softcap = softcap;
    table->store_k = store_k;
    table->store_v = store_v;
}

#endif
