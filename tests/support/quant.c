/* f32 rows into the forms of files, by round-to-nearest recipes without search.
 *
 * Each block goes three steps: scales from the extremes of each group, rounded to what the block can hold; codes, nearest
 * under the rounded scales; bits into their places. Values must fit in f16 scales (magnitudes of a few thousand at most).
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/layout.h"
#include "kernels/tables.h"
#include "support/quant.h"

/* ---- numbers ---- */

/* The element of greatest magnitude, with its sign. */
static float extreme(const float *x, int n) {
    float best = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > fabsf(best)) best = x[i];
    }
    return best;
}

static float inverse(float x) { return x != 0 ? 1.0f / x : 0; }

/* Nearest integer within [low, high]. The inverse of a tiny scale may be infinite, so clamping comes first. */
static int nearest(float x, int low, int high) {
    if (!(x > (float)low)) return low;
    if (x > (float)high) return high;
    return (int)rintf(x);
}

static uint8_t nearest_entry(float x, const int8_t table[16]) {
    int best = 0;
    for (int i = 1; i < 16; i++) {
        if (fabsf(x - (float)table[i]) < fabsf(x - (float)table[best])) best = i;
    }
    return (uint8_t)best;
}

/* ---- bits ---- */

static float put_half(uint8_t *p, float x) {
    uint16_t h = dct_f16_of_f32(x);
    memcpy(p, &h, sizeof h);
    return dct_f32_of_f16(h);
}

/* 32 codes: low nibbles first. */
static void put_nibbles(uint8_t *qs, const uint8_t *codes) {
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)((codes[j] & 15) | codes[j + 16] << 4);
}

/* Bit 4 of 32 codes. */
static void put_fifth(uint8_t *qh, const uint8_t *codes) {
    uint32_t bits = 0;
    for (int j = 0; j < 32; j++) bits |= (uint32_t)(codes[j] >> 4 & 1) << j;
    memcpy(qh, &bits, sizeof bits);
}

/* 256 codes: low four bits, 32 bytes for each 64. */
static void put_nibbles_k(uint8_t *qs, const uint8_t *codes) {
    for (int j = 0; j < 128; j++) {
        const uint8_t *c = codes + j / 32 * 64 + j % 32;
        qs[j] = (uint8_t)((c[0] & 15) | c[32] << 4);
    }
}

/* 256 codes: two bits from `shift` up, 32 bytes for each 128. */
static void put_pairs_k(uint8_t *qs, const uint8_t *codes, int shift) {
    for (int j = 0; j < 64; j++) {
        const uint8_t *c = codes + j / 32 * 128 + j % 32;
        int byte = 0;
        for (int q = 0; q < 4; q++) byte |= (c[32 * q] >> shift & 3) << 2 * q;
        qs[j] = (uint8_t)byte;
    }
}

/* 256 codes: bit `shift`, group g of 32 in bit g of 32 bytes. */
static void put_planes_k(uint8_t *planes, const uint8_t *codes, int shift) {
    for (int j = 0; j < 32; j++) {
        int byte = 0;
        for (int g = 0; g < 8; g++) byte |= (codes[32 * g + j] >> shift & 1) << g;
        planes[j] = (uint8_t)byte;
    }
}

/* ---- blocks of 32 ---- */

/* Codes 0..2*zero-1 around `zero`, the extreme at -zero. */
static void symmetric32(const float *x, int zero, uint8_t *d, uint8_t *codes) {
    float id = inverse(put_half(d, extreme(x, 32) / (float)-zero));
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)nearest(x[j] * id + (float)zero, 0, 2 * zero - 1);
}

static void affine32(const float *x, int max_code, uint8_t *d, uint8_t *m, uint8_t *codes) {
    float low = x[0], high = x[0];
    for (int j = 1; j < 32; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
    }
    float id = inverse(put_half(d, (high - low) / (float)max_code)), base = put_half(m, low);
    for (int j = 0; j < 32; j++) codes[j] = (uint8_t)nearest((x[j] - base) * id, 0, max_code);
}

static void block_q4_0(const float *x, uint8_t *b) {
    uint8_t codes[32];
    symmetric32(x, 8, b, codes);
    put_nibbles(b + 2, codes);
}

static void block_q4_1(const float *x, uint8_t *b) {
    uint8_t codes[32];
    affine32(x, 15, b, b + 2, codes);
    put_nibbles(b + 4, codes);
}

static void block_q5_0(const float *x, uint8_t *b) {
    uint8_t codes[32];
    symmetric32(x, 16, b, codes);
    put_fifth(b + 2, codes);
    put_nibbles(b + 6, codes);
}

static void block_q5_1(const float *x, uint8_t *b) {
    uint8_t codes[32];
    affine32(x, 31, b, b + 2, codes);
    put_fifth(b + 4, codes);
    put_nibbles(b + 8, codes);
}

static void block_q8_0(const float *x, uint8_t *b) {
    float id = inverse(put_half(b, fabsf(extreme(x, 32)) / 127.0f));
    for (int j = 0; j < 32; j++) b[2 + j] = (uint8_t)nearest(x[j] * id, -127, 127);
}

static void block_iq4_nl(const float *x, uint8_t *b) {
    uint8_t codes[32];
    float id = inverse(put_half(b, extreme(x, 32) / (float)dct_iq4_values[0]));
    for (int j = 0; j < 32; j++) codes[j] = nearest_entry(x[j] * id, dct_iq4_values);
    put_nibbles(b + 2, codes);
}

/* The greatest exponent of the block becomes that of 4 and 6, which are 8 and 12 in the doubled table. */
static void block_mxfp4(const float *x, uint8_t *b) {
    uint8_t codes[32];
    int exponent = -125;
    float amax = fabsf(extreme(x, 32));
    if (amax > 0) frexpf(amax, &exponent); /* amax in [2^(exponent-1), 2^exponent) */
    b[0] = (uint8_t)nearest((float)(exponent - 1 - 2 + 127), 0, 254);
    float id = inverse(dct_mxfp4_scale(b[0]));
    for (int j = 0; j < 32; j++) codes[j] = nearest_entry(x[j] * id, dct_mxfp4_values);
    put_nibbles(b + 1, codes);
}

/* ---- blocks of 256 ---- */

/* Scales and minima of the groups of a block, in units of d and dmin. */
typedef struct affine_block {
    float d, dmin;
    uint8_t scales[16], mins[16];
} affine_block;

/* Groups of `group` elements with codes 0..max_code, scales and minima 0..max_scale. A minimum is never below zero: a group
 * of positive numbers has its range begin at 0. */
static void affine256(const float *x, int group, int max_code, int max_scale, uint8_t *d, uint8_t *dmin, affine_block *out,
                      uint8_t *codes) {
    float scales[16], mins[16], top_scale = 0, top_min = 0;
    for (int g = 0; g < 256 / group; g++) {
        float low = 0, high = 0;
        for (int i = g * group; i < (g + 1) * group; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        scales[g] = (high - low) / (float)max_code;
        mins[g] = -low;
        top_scale = scales[g] > top_scale ? scales[g] : top_scale;
        top_min = mins[g] > top_min ? mins[g] : top_min;
    }
    out->d = put_half(d, top_scale / (float)max_scale);
    out->dmin = put_half(dmin, top_min / (float)max_scale);
    for (int g = 0; g < 256 / group; g++) {
        out->scales[g] = (uint8_t)nearest(scales[g] * inverse(out->d), 0, max_scale);
        out->mins[g] = (uint8_t)nearest(mins[g] * inverse(out->dmin), 0, max_scale);
        float id = inverse(out->d * (float)out->scales[g]), min = out->dmin * (float)out->mins[g];
        for (int i = g * group; i < (g + 1) * group; i++) codes[i] = (uint8_t)nearest((x[i] + min) * id, 0, max_code);
    }
}

/* Signed scales of the groups of a block in units of d: the group's extreme over `top`, its code of greatest magnitude. The
 * extreme of the scales gets the code -max_scale. */
static float signed256(const float *x, int group, float top, int max_scale, uint8_t *d, int8_t *scales) {
    float wanted[16];
    for (int g = 0; g < 256 / group; g++) wanted[g] = extreme(x + g * group, group) / top;
    float scale = put_half(d, extreme(wanted, 256 / group) / (float)-max_scale);
    for (int g = 0; g < 256 / group; g++) scales[g] = (int8_t)nearest(wanted[g] * inverse(scale), -max_scale, max_scale - 1);
    return scale;
}

static void codes256(const float *x, int group, float d, const int8_t *scales, int zero, uint8_t *codes) {
    for (int i = 0; i < 256; i++) {
        float id = inverse(d * (float)scales[i / group]);
        codes[i] = (uint8_t)nearest(x[i] * id + (float)zero, 0, 2 * zero - 1);
    }
}

static void block_q2_k(const float *x, uint8_t *b) {
    uint8_t codes[256];
    affine_block a;
    affine256(x, 16, 3, 15, b + 80, b + 82, &a, codes);
    for (int g = 0; g < 16; g++) b[g] = (uint8_t)(a.scales[g] | a.mins[g] << 4);
    put_pairs_k(b + 16, codes, 0);
}

static void block_q3_k(const float *x, uint8_t *b) {
    uint8_t codes[256], *packed = b + 96;
    int8_t scales[16];
    float d = signed256(x, 16, -4, 32, b + 108, scales);
    codes256(x, 16, d, scales, 4, codes);
    put_planes_k(b, codes, 2);
    put_pairs_k(b + 32, codes, 0);
    memset(packed, 0, 12);
    for (int g = 0; g < 16; g++) {
        int s = scales[g] + 32;
        packed[g % 8] = (uint8_t)(packed[g % 8] | (s & 15) << g / 8 * 4);
        packed[8 + g % 4] = (uint8_t)(packed[8 + g % 4] | s >> 4 << g / 4 * 2);
    }
}

static void put_six_bits(uint8_t *q, const affine_block *a) {
    for (int g = 0; g < 4; g++) {
        q[g] = (uint8_t)(a->scales[g] | a->scales[g + 4] >> 4 << 6);
        q[g + 4] = (uint8_t)(a->mins[g] | a->mins[g + 4] >> 4 << 6);
        q[g + 8] = (uint8_t)((a->scales[g + 4] & 15) | a->mins[g + 4] << 4);
    }
}

static void block_q4_k(const float *x, uint8_t *b) {
    uint8_t codes[256];
    affine_block a;
    affine256(x, 32, 15, 63, b, b + 2, &a, codes);
    put_six_bits(b + 4, &a);
    put_nibbles_k(b + 16, codes);
}

static void block_q5_k(const float *x, uint8_t *b) {
    uint8_t codes[256];
    affine_block a;
    affine256(x, 32, 31, 63, b, b + 2, &a, codes);
    put_six_bits(b + 4, &a);
    put_planes_k(b + 16, codes, 4);
    put_nibbles_k(b + 48, codes);
}

static void block_q6_k(const float *x, uint8_t *b) {
    uint8_t codes[256];
    int8_t scales[16];
    float d = signed256(x, 16, -32, 128, b + 208, scales);
    codes256(x, 16, d, scales, 32, codes);
    for (int j = 0; j < 128; j++) { /* 64 bytes for each 128 elements: the second 64 of them in the high nibbles */
        const uint8_t *c = codes + j / 64 * 128 + j % 64;
        b[j] = (uint8_t)((c[0] & 15) | c[64] << 4);
    }
    put_pairs_k(b + 128, codes, 4);
    memcpy(b + 192, scales, 16);
}

static void block_iq4_xs(const float *x, uint8_t *b) {
    int8_t scales[16];
    float d = signed256(x, 32, (float)dct_iq4_values[0], 32, b, scales);
    uint16_t high = 0;
    memset(b + 4, 0, 4);
    for (int g = 0; g < 8; g++) {
        uint8_t codes[32];
        int s = scales[g] + 32;
        float id = inverse(d * (float)scales[g]);
        for (int j = 0; j < 32; j++) codes[j] = nearest_entry(x[32 * g + j] * id, dct_iq4_values);
        put_nibbles(b + 8 + 16 * g, codes);
        b[4 + g / 2] = (uint8_t)(b[4 + g / 2] | (s & 15) << g % 2 * 4);
        high = (uint16_t)(high | s >> 4 << 2 * g);
    }
    memcpy(b + 2, &high, sizeof high);
}

static void block_f32(const float *x, uint8_t *b) { memcpy(b, x, sizeof *x); }

static void block_f16(const float *x, uint8_t *b) { (void)put_half(b, *x); }

static void block_bf16(const float *x, uint8_t *b) {
    uint16_t h = dct_bf16_of_f32(*x);
    memcpy(b, &h, sizeof h);
}

/* ---- MLX ---- */

static float put_scale(dct_dtype type, uint8_t *p, float x) {
    uint16_t h = type == DCT_TYPE_F16 ? dct_f16_of_f32(x) : dct_bf16_of_f32(x);
    if (type == DCT_TYPE_F32) {
        memcpy(p, &x, sizeof x);
        return x;
    }
    memcpy(p, &h, sizeof h);
    return type == DCT_TYPE_F16 ? dct_f32_of_f16(h) : dct_f32_of_bf16(h);
}

/* The end of the range that lies farther from 0 is a bias, and the scale, which may be negative, is such that 0 has a code. */
static void block_affine(const dct_affine *a, const float *x, uint8_t *b) {
    const uint32_t run = a->group * a->bits / 8;
    const int max_code = (1 << a->bits) - 1;
    float low = x[0], high = x[0];
    for (uint32_t j = 1; j < a->group; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
    }
    float edge = fabsf(low) > fabsf(high) ? low : high, scale = (high - low) / (float)max_code;
    if (edge == high) scale = -scale;
    float steps = scale != 0 ? rintf(edge / scale) : 0;
    scale = put_scale(a->scale, b + run, steps != 0 ? edge / steps : scale);
    float bias = put_scale(a->scale, b + run + dct_dtype_block_bytes(a->scale), steps != 0 ? edge : scale == 0 ? low : 0);
    float inv = inverse(scale);
    memset(b, 0, run);
    for (uint32_t j = 0; j < a->group; j++) {
        uint32_t code = (uint32_t)nearest((x[j] - bias) * inv, 0, max_code), at = j * a->bits;
        b[at / 8] = (uint8_t)(b[at / 8] | code << at % 8);
        if (at % 8 + a->bits > 8) b[at / 8 + 1] = (uint8_t)(code >> (8 - at % 8));
    }
}

void quant_row(dct_dtype type, uint32_t k, const float *x, void *row) {
    static void (*const blocks[DCT_TYPE_COUNT])(const float *x, uint8_t *block) = {
        [DCT_TYPE_F32] = block_f32,   [DCT_TYPE_F16] = block_f16,       [DCT_TYPE_BF16] = block_bf16,
        [DCT_TYPE_Q4_0] = block_q4_0, [DCT_TYPE_Q4_1] = block_q4_1,     [DCT_TYPE_Q5_0] = block_q5_0,
        [DCT_TYPE_Q5_1] = block_q5_1, [DCT_TYPE_Q8_0] = block_q8_0,     [DCT_TYPE_Q2_K] = block_q2_k,
        [DCT_TYPE_Q3_K] = block_q3_k, [DCT_TYPE_Q4_K] = block_q4_k,     [DCT_TYPE_Q5_K] = block_q5_k,
        [DCT_TYPE_Q6_K] = block_q6_k, [DCT_TYPE_IQ4_NL] = block_iq4_nl, [DCT_TYPE_IQ4_XS] = block_iq4_xs,
        [DCT_TYPE_MXFP4] = block_mxfp4,
    };
    uint32_t elems = dct_dtype_block_elems(type), bytes = dct_dtype_block_bytes(type);
    uint8_t *block = row;
    for (uint32_t j = 0; j < k; j += elems, block += bytes) {
        if (dct_dtype_affine(type) != NULL) block_affine(dct_dtype_affine(type), x + j, block);
        else blocks[type](x + j, block);
    }
}
