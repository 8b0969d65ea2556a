/* kernels/ref_ops: quantised activations, norms, rotary positions and the elementwise operations, in scalar code. */
#include <math.h>
#include <string.h>

#include "kernels/math.h"
#include "kernels/ref.h"

/* ---- q8 ---- */

/* A NaN is no maximum and would be lost, and with it the only sign that weights are damaged. */
float dct_ref_block_amax(const float *x, uint32_t n) {
    float amax = 0, none = 0; /* NaN when one is not finite */
    for (uint32_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        amax = a > amax ? a : amax;
        none += a * 0.0f;
    }
    return amax + none;
}

/* |x * inverse| is at most 127 and a few ulp, so adding 1.5 * 2^23 rounds it to the nearest integer, ties to even. */
int8_t dct_ref_code(float x, float inverse) {
    uint32_t bits = dct_bits_of_f32(x * inverse + DCT_EXP_ROUND) - dct_bits_of_f32(DCT_EXP_ROUND);
    return (int8_t)bits;
}

void dct_ref_quant_q8(const float *x, uint32_t k, void *row) {
    int8_t *codes = row;
    float *scales = (float *)((char *)row + k);
    int16_t *sums = (int16_t *)((char *)row + k + k / 32 * 4);
    for (uint32_t b = 0; b < k / 32; b++) {
        float amax = dct_ref_block_amax(x + 32 * b, 32), inverse = dct_ref_inverse(amax);
        scales[b] = amax / 127.0f;
        for (uint32_t h = 0; h < 2; h++) {
            int sum = 0;
            for (uint32_t i = 32 * b + 16 * h; i < 32 * b + 16 * h + 16; i++) {
                codes[i] = dct_ref_code(x[i], inverse);
                sum += codes[i];
            }
            sums[2 * b + h] = (int16_t)sum;
        }
    }
}

/* ---- norm ---- */

static void rms_norm_group(const float *x, const float *w, uint32_t n, float eps, float *y) {
    float s[16] = {0};
    for (uint32_t i = 0; i < n; i++) s[i % 16] = fmaf(x[i], x[i], s[i % 16]);
    float inverse = 1.0f / sqrtf(dct_tree16(s) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (x[i] * inverse) * w[i];
}

void dct_ref_rms_norm(const float *x, const float *w, uint32_t group, uint32_t n_groups, float eps, float *y) {
    for (uint32_t g = 0; g < n_groups; g++) rms_norm_group(x + (uint64_t)g * group, w, group, eps, y + (uint64_t)g * group);
}

void dct_ref_layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps, float *y) {
    float s[16] = {0}, squares[16] = {0};
    for (uint32_t i = 0; i < n; i++) s[i % 16] += x[i];
    float mean = dct_tree16(s) / (float)n;
    for (uint32_t i = 0; i < n; i++) squares[i % 16] = fmaf(x[i] - mean, x[i] - mean, squares[i % 16]);
    float inverse = 1.0f / sqrtf(dct_tree16(squares) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) y[i] = fmaf((x[i] - mean) * inverse, w[i], b[i]);
}

/* ---- experts ---- */

void dct_ref_mix(const float *x, const float *w, uint32_t n_rows, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) {
        float y = w[0] * x[i];
        for (uint32_t j = 1; j < n_rows; j++) y = fmaf(w[j], x[(uint64_t)j * n + i], y);
        out[i] = y;
    }
}

static bool is_chosen(const int32_t *ids, uint32_t n, uint32_t id) {
    for (uint32_t j = 0; j < n; j++)
        if (ids[j] == (int32_t)id) return true;
    return false;
}

/* The largest score that was not chosen yet. */
static uint32_t next_expert(const float *scores, uint32_t n, const int32_t *ids, uint32_t n_chosen) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (is_chosen(ids, n_chosen, i)) continue;
        if (best == UINT32_MAX || scores[i] > scores[best] || (isnan(scores[best]) && !isnan(scores[i]))) best = i;
    }
    return best;
}

void dct_ref_route(const float *scores, uint32_t n, uint32_t n_used, bool renorm, int32_t *ids, float *weights) {
    float sum = 0, chosen = 0;
    for (uint32_t j = 0; j < n_used; j++) ids[j] = (int32_t)next_expert(scores, n, ids, j);
    float most = scores[ids[0]];
    for (uint32_t i = 0; i < n; i++) sum += dct_exp(scores[i] - most);
    for (uint32_t j = 0; j < n_used; j++) {
        weights[j] = dct_exp(scores[ids[j]] - most) / sum;
        chosen += weights[j];
    }
    for (uint32_t j = 0; renorm && j < n_used; j++) weights[j] = weights[j] / chosen;
}

/* ---- rotary positions ---- */

/* Which of the streams t, h, w gives pair i its position. */
uint32_t dct_ref_rope_stream(const dct_rope_args *args, uint32_t i) {
    if (args->style != DCT_ROPE_MROPE) return 0;
    int64_t h = args->sections[0], w = h + args->sections[1], end = w + args->sections[2];
    if (i < h || i >= end) return 0;
    return i < w ? 1 : 2;
}

void dct_ref_rotate_pair(float *x, const float *angles, uint32_t i, uint32_t n_pairs, bool adjacent) {
    float *pa = adjacent ? x + 2 * i : x + i, *pb = adjacent ? pa + 1 : pa + n_pairs;
    float a = *pa, b = *pb, c = angles[2 * i], s = angles[2 * i + 1];
    *pa = fmaf(a, c, -(b * s));
    *pb = fmaf(a, s, b * c);
}

static void rotate_head(const dct_rope_args *args, const int32_t *pos, float *x) {
    uint32_t n_pairs = args->n_rot / 2;
    for (uint32_t i = 0; i < n_pairs; i++) {
        const float *angles = args->table + (uint64_t)(uint32_t)pos[dct_ref_rope_stream(args, i)] * args->n_rot;
        dct_ref_rotate_pair(x, angles, i, n_pairs, args->style == DCT_ROPE_NORM);
    }
}

void dct_ref_rope(const dct_rope_args *args) {
    for (uint32_t t = 0; t < args->n; t++) {
        for (uint32_t h = 0; h < args->n_head; h++) {
            rotate_head(args, args->pos + 4 * (uint64_t)t, args->x + t * args->stride + (uint64_t)h * args->head_dim);
        }
    }
}

/* ---- elementwise ---- */

static float activate(dct_act act, float x) {
    if (act == DCT_ACT_SIGMOID) return dct_sigmoid(x);
    return act == DCT_ACT_SILU ? dct_silu(x) : dct_gelu_tanh(x);
}

void dct_ref_glu(dct_act act, const float *gate, const float *up, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = activate(act, gate[i]) * up[i];
}

void dct_ref_add(const float *a, const float *b, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void dct_ref_mul(const float *a, const float *b, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}

void dct_ref_softcap(const float *x, uint32_t n, float cap, float *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = dct_softcap(x[i], cap);
}

void dct_ref_embed(dct_dtype type, uint32_t k, const void *w, uint32_t row, float scale, float *out) {
    uint64_t tile_bytes = 0;
    if (!dct_layout_tile_bytes(type, k, &tile_bytes)) return;
    dct_layout_row_f32(type, k, (const char *)w + row / DCT_TILE_ROWS * tile_bytes, row % DCT_TILE_ROWS, out);
    for (uint32_t i = 0; i < k; i++) out[i] = out[i] * scale;
}
