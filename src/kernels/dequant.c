/* kernels/dequant: a row as the file has it, to f32.
 *
 * Read from the formats alone, element by element, without a look at layout.c: it is the oracle for the packed forms.
 * Products of a scale and a code are exact in f32 for all types but MLX's with f32 scales, so each element rounds at most once.
 */
#include <string.h>

#include "base/half.h"
#include "kernels/layout.h"
#include "kernels/tables.h"

static uint16_t read16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static uint32_t read32(const uint8_t *p) { return (uint32_t)read16(p) | (uint32_t)read16(p + 2) << 16; }

static float read_half(const uint8_t *p) { return dct_f32_of_f16(read16(p)); }

/* The 4-bit code of element j of a block of 32: the low nibbles come first. */
static uint8_t code4(const uint8_t *qs, int j) { return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4; }

static void block_q4_0(const uint8_t *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)(code4(b + 2, j) - 8);
}

static void block_q4_1(const uint8_t *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)code4(b + 4, j) + read_half(b + 2);
}

static void block_q5_0(const uint8_t *b, float *out) {
    uint32_t high = read32(b + 2);
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)((int)(code4(b + 6, j) | (high >> j & 1) << 4) - 16);
}

static void block_q5_1(const uint8_t *b, float *out) {
    uint32_t high = read32(b + 4);
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)(code4(b + 8, j) | (high >> j & 1) << 4) + read_half(b + 2);
}

static void block_q8_0(const uint8_t *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)(int8_t)b[2 + j];
}

static void block_iq4_nl(const uint8_t *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = read_half(b) * (float)dct_iq4_values[code4(b + 2, j)];
}

static void block_mxfp4(const uint8_t *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = dct_mxfp4_scale(b[0]) * (float)dct_mxfp4_values[code4(b + 1, j)];
}

/* Two bits of element j of 256: each half of 128 has 32 bytes, a quarter of it in each pair of bits. */
static uint8_t code2(const uint8_t *qs, int j) { return qs[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3; }

static void block_q2_k(const uint8_t *b, float *out) {
    float d = read_half(b + 80), dmin = read_half(b + 82);
    for (int j = 0; j < 256; j++) {
        uint8_t s = b[j / 16];
        out[j] = d * (float)(s & 15) * (float)code2(b + 16, j) - dmin * (float)(s >> 4);
    }
}

/* Sixteen scales of six bits: twelve bytes, the last four with the high bits. */
static int scale_q3(const uint8_t *scales, int g) {
    int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    int high = scales[8 + g % 4] >> (2 * (g / 4)) & 3;
    return (low | high << 4) - 32;
}

static void block_q3_k(const uint8_t *b, float *out) {
    float d = read_half(b + 108);
    for (int j = 0; j < 256; j++) {
        int high = b[j % 32] >> (j / 32) & 1;
        out[j] = d * (float)scale_q3(b + 96, j / 16) * (float)(code2(b + 32, j) - (high ? 0 : 4));
    }
}

static void scale_min_k(const uint8_t *q, int g, uint8_t *scale, uint8_t *min) {
    if (g < 4) {
        *scale = q[g] & 63;
        *min = q[g + 4] & 63;
    } else {
        *scale = (uint8_t)((q[g + 4] & 15) | (q[g - 4] >> 6 << 4));
        *min = (uint8_t)((q[g + 4] >> 4) | (q[g] >> 6 << 4));
    }
}

/* Four bits of element j of 256: 32 bytes for each 64 elements, the second 32 of them in the high nibbles. */
static uint8_t code4_k(const uint8_t *qs, int j) { return qs[j / 64 * 32 + j % 32] >> (j % 64 / 32 * 4) & 15; }

static void block_q4_k(const uint8_t *b, float *out) {
    float d = read_half(b), dmin = read_half(b + 2);
    for (int j = 0; j < 256; j++) {
        uint8_t scale, min;
        scale_min_k(b + 4, j / 32, &scale, &min);
        out[j] = d * (float)scale * (float)code4_k(b + 16, j) - dmin * (float)min;
    }
}

static void block_q5_k(const uint8_t *b, float *out) {
    float d = read_half(b), dmin = read_half(b + 2);
    for (int j = 0; j < 256; j++) {
        uint8_t scale, min;
        scale_min_k(b + 4, j / 32, &scale, &min);
        int code = code4_k(b + 48, j) | (b[16 + j % 32] >> (j / 32) & 1) << 4;
        out[j] = d * (float)scale * (float)code - dmin * (float)min;
    }
}

static void block_q6_k(const uint8_t *b, float *out) {
    float d = read_half(b + 208);
    for (int j = 0; j < 256; j++) {
        int half = j / 128, in = j % 128; /* bytes 0..63 of ql hold columns 0..63 below and 64..127 above */
        int low = b[64 * half + in % 64] >> (in / 64 * 4) & 15;
        int high = b[128 + 32 * half + in % 32] >> (in / 32 * 2) & 3;
        out[j] = d * (float)(int8_t)b[192 + j / 16] * (float)((low | high << 4) - 32);
    }
}

static void block_iq4_xs(const uint8_t *b, float *out) {
    float d = read_half(b);
    for (int j = 0; j < 256; j++) {
        int g = j / 32, low = b[4 + g / 2] >> (g % 2 * 4) & 15, high = read16(b + 2) >> 2 * g & 3;
        out[j] = d * (float)((low | high << 4) - 32) * (float)dct_iq4_values[code4(b + 8 + 16 * g, j % 32)];
    }
}

static void block_f32(const uint8_t *b, float *out) { *out = dct_f32_of_bits(read32(b)); }
static void block_f16(const uint8_t *b, float *out) { *out = read_half(b); }
static void block_bf16(const uint8_t *b, float *out) { *out = dct_f32_of_bf16(read16(b)); }

static float scale_at(dct_dtype type, const uint8_t *p) {
    if (type == DCT_TYPE_F32) return dct_f32_of_bits(read32(p));
    return type == DCT_TYPE_F16 ? read_half(p) : dct_f32_of_bf16(read16(p));
}

/* Codes are a run of bits, the first element lowest. */
static void block_affine(const dct_affine *a, const uint8_t *b, float *out) {
    const uint8_t *scale = b + a->group * a->bits / 8, *bias = scale + dct_dtype_block_bytes(a->scale);
    for (uint32_t j = 0; j < a->group; j++) {
        uint32_t code = 0;
        for (uint32_t i = 0; i < a->bits; i++) {
            uint32_t at = j * a->bits + i;
            code |= (uint32_t)(b[at / 8] >> at % 8 & 1) << i;
        }
        out[j] = scale_at(a->scale, scale) * (float)code + scale_at(a->scale, bias);
    }
}

void dct_dequant_row(dct_dtype type, uint32_t k, const void *row, float *out) {
    static void (*const blocks[DCT_TYPE_COUNT])(const uint8_t *block, float *out) = {
        [DCT_TYPE_F32] = block_f32,   [DCT_TYPE_F16] = block_f16,       [DCT_TYPE_BF16] = block_bf16,
        [DCT_TYPE_Q4_0] = block_q4_0, [DCT_TYPE_Q4_1] = block_q4_1,     [DCT_TYPE_Q5_0] = block_q5_0,
        [DCT_TYPE_Q5_1] = block_q5_1, [DCT_TYPE_Q8_0] = block_q8_0,     [DCT_TYPE_Q2_K] = block_q2_k,
        [DCT_TYPE_Q3_K] = block_q3_k, [DCT_TYPE_Q4_K] = block_q4_k,     [DCT_TYPE_Q5_K] = block_q5_k,
        [DCT_TYPE_Q6_K] = block_q6_k, [DCT_TYPE_IQ4_NL] = block_iq4_nl, [DCT_TYPE_IQ4_XS] = block_iq4_xs,
        [DCT_TYPE_MXFP4] = block_mxfp4,
    };
    uint32_t elems = dct_dtype_block_elems(type), bytes = dct_dtype_block_bytes(type);
    const uint8_t *block = row;
    for (uint32_t j = 0; j < k; j += elems, block += bytes) {
        if (dct_dtype_affine(type) != NULL) block_affine(dct_dtype_affine(type), block, out + j);
        else blocks[type](block, out + j);
    }
}
