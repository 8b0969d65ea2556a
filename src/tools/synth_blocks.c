#include "tools/synth_blocks.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"

/* The values that a code stands for, before any scale. `spread` is where three standard deviations of the wanted distribution
 * fall, so that outer codes are used but rarely. */
typedef struct code_book {
    uint32_t n;
    float spread;
    float values[256];
} code_book;

static const float iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const float mxfp4_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* n codes in steps of one, code `zero` (which may lie between two) standing for 0. */
static void book_even(code_book *book, uint32_t n, float zero) {
    book->n = n;
    book->spread = (float)n * 0.5f * 1.1f;
    for (uint32_t i = 0; i < n; i++) book->values[i] = (float)i - zero;
}

static void book_table(code_book *book, const float *values, float spread) {
    book->n = 16;
    book->spread = spread;
    memcpy(book->values, values, 16 * sizeof *values);
}

/* Codes are unsigned here; Q8_0 stores code - 128. */
static void book_of(dct_dtype type, code_book *book) {
    const dct_affine *affine = dct_dtype_affine(type);
    if (affine != NULL) {
        book_even(book, 1u << affine->bits, (float)((1 << affine->bits) - 1) / 2);
        return;
    }
    switch (type) {
    case DCT_TYPE_Q4_0: book_even(book, 16, 8); break;
    case DCT_TYPE_Q4_1: case DCT_TYPE_Q4_K: book_even(book, 16, 7.5f); break;
    case DCT_TYPE_Q5_0: book_even(book, 32, 16); break;
    case DCT_TYPE_Q5_1: case DCT_TYPE_Q5_K: book_even(book, 32, 15.5f); break;
    case DCT_TYPE_Q8_0: book_even(book, 256, 128); break;
    case DCT_TYPE_Q2_K: book_even(book, 4, 1.5f); break;
    case DCT_TYPE_Q3_K: book_even(book, 8, 4); break;
    case DCT_TYPE_Q6_K: book_even(book, 64, 32); break;
    case DCT_TYPE_IQ4_NL: case DCT_TYPE_IQ4_XS: book_table(book, iq4_values, 120); break;
    case DCT_TYPE_MXFP4: book_table(book, mxfp4_values, 6); break;
    default: book->n = 0; break;
    }
}

/* Quantiles (i + 1/2) / 256 of the standard normal distribution, by the binomial distribution of 4096 coins: additions,
 * products and quotients only, so every machine gets the same numbers. */
static void fill_quantiles(float *quantiles) {
    enum { COINS = 4096, MIDDLE = COINS / 2 };
    const double sigma = 32; /* sqrt(4096) / 2 */
    /* The mass at MIDDLE is not needed exactly: masses are relative to it and normalised by their sum. */
    double mass = 1, sum = 1;
    for (int k = 0; k < 8 * 32; k++) {
        mass = mass * (double)(MIDDLE - k) / (double)(MIDDLE + k + 1);
        sum += 2 * mass;
    }
    double below = 0.5, at = 1 / sum; /* below: distribution at the middle of the bar at `k` */
    int i = 128;
    for (int k = 0; i < 256; k++) {
        double next = at * (double)(MIDDLE - k) / (double)(MIDDLE + k + 1);
        double above = below + 0.5 * (at + next);
        while (i < 256 && ((double)i + 0.5) / 256 <= above) {
            double part = (((double)i + 0.5) / 256 - below) / (above - below);
            quantiles[i] = (float)(((double)k + part) / sigma);
            quantiles[255 - i] = -quantiles[i];
            i++;
        }
        below = above;
        at = next;
    }
}

static void fill_codes(dct_synth_stream *s, const code_book *book) {
    double squares = 0;
    for (int i = 0; i < 256; i++) {
        float want = s->quantiles[i] * book->spread / 3;
        uint32_t best = 0;
        for (uint32_t c = 1; c < book->n; c++) {
            if (fabsf(book->values[c] - want) < fabsf(book->values[best] - want)) best = c;
        }
        s->codes[i] = (uint8_t)best;
        squares += (double)book->values[best] * (double)book->values[best];
    }
    s->code_sigma = (float)sqrt(squares / 256);
}

void dct_synth_stream_init(dct_synth_stream *s, dct_dtype type, uint64_t seed, uint64_t tensor, float mean, float sigma) {
    code_book book = {0};
    s->type = type;
    s->key = dct_hash_mix(dct_random_next(&seed) + (tensor + 1) * DCT_RANDOM_STEP);
    s->mean = mean;
    s->sigma = sigma;
    s->offset = 0;
    s->both_signs = false;
    s->code_sigma = 1;
    fill_quantiles(s->quantiles);
    book_of(type, &book);
    if (book.n != 0) fill_codes(s, &book);
}

/* --- one block ---------------------------------------------------------------------------------------------------- */

typedef struct random_block {
    uint64_t state;
    uint8_t codes[256];
} random_block;

static uint64_t next_bits(random_block *r) { return dct_random_next(&r->state); }

static void draw_codes(const dct_synth_stream *s, random_block *r, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t bits = next_bits(r);
        for (uint32_t k = 0; k < 8; k++) r->codes[i + k] = s->codes[(bits >> (8 * k)) & 0xff];
    }
}

/* A factor between 0.75 and 1.25 from eight bits. */
static float vary(uint64_t bits) { return 0.75f + (float)(bits & 0xff) * (0.5f / 255); }

static void put_f16(uint8_t *to, float value) {
    uint16_t h = dct_f16_of_f32(value);
    to[0] = (uint8_t)h;
    to[1] = (uint8_t)(h >> 8);
}

/* Sixteen bytes of nibbles: code j low, code j + 16 high. */
static void pack_nibbles_16(const uint8_t *codes, uint8_t *qs) {
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

static void pack_fifth_bits(const uint8_t *codes, uint8_t *qh) {
    uint32_t bits = 0;
    for (int j = 0; j < 32; j++) bits |= (uint32_t)(codes[j] >> 4) << j;
    for (int k = 0; k < 4; k++) qh[k] = (uint8_t)(bits >> (8 * k));
}

/* Types of 32: a scale, then a minimum, then the fifth bits, where the type has them; then nibbles or bytes. */
static void fill_block_32(const dct_synth_stream *s, random_block *r, uint8_t *out) {
    float d = s->sigma / s->code_sigma * vary(next_bits(r));
    draw_codes(s, r, 32);
    switch (s->type) {
    case DCT_TYPE_Q4_0: case DCT_TYPE_IQ4_NL:
        put_f16(out, d);
        pack_nibbles_16(r->codes, out + 2);
        break;
    case DCT_TYPE_Q4_1:
        put_f16(out, d);
        put_f16(out + 2, -7.5f * d);
        pack_nibbles_16(r->codes, out + 4);
        break;
    case DCT_TYPE_Q5_0:
        put_f16(out, d);
        pack_fifth_bits(r->codes, out + 2);
        pack_nibbles_16(r->codes, out + 6);
        break;
    case DCT_TYPE_Q5_1:
        put_f16(out, d);
        put_f16(out + 2, -15.5f * d);
        pack_fifth_bits(r->codes, out + 4);
        pack_nibbles_16(r->codes, out + 8);
        break;
    case DCT_TYPE_MXFP4: { /* the scale is a power of two: the nearest one, up or down at random in between */
        int exponent;
        float fraction = frexpf(d, &exponent); /* d = fraction * 2^exponent, fraction in [0.5, 1) */
        out[0] = (uint8_t)(127 + exponent - (fraction < 0.75f ? 1 : 0));
        pack_nibbles_16(r->codes, out + 1);
        break;
    }
    default: /* Q8_0 */
        put_f16(out, d);
        for (int j = 0; j < 32; j++) out[2 + j] = (uint8_t)(r->codes[j] ^ 0x80);
        break;
    }
}

/* The 6-bit scales and minima of Q4_K and Q5_K: eight of each in twelve bytes. */
static void pack_scales_k4(const uint8_t *scale, const uint8_t *min, uint8_t *q) {
    for (int j = 0; j < 4; j++) {
        q[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        q[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        q[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* The sixteen 6-bit scales of Q3_K: low nibbles in eight bytes, then four bytes of high bit pairs. */
static void pack_scales_k3(const uint8_t *scale, uint8_t *q) {
    for (int j = 0; j < 8; j++) q[j] = (uint8_t)((scale[j] & 15) | (scale[j + 8] & 15) << 4);
    for (int j = 0; j < 4; j++) {
        q[8 + j] = (uint8_t)(scale[j] >> 4 | scale[j + 4] >> 4 << 2 | scale[j + 8] >> 4 << 4 | scale[j + 12] >> 4 << 6);
    }
}

static void pack_nibbles_256(const uint8_t *codes, uint8_t *qs) {
    for (int g = 0; g < 4; g++) {
        for (int l = 0; l < 32; l++) qs[32 * g + l] = (uint8_t)((codes[64 * g + l] & 15) | (codes[64 * g + 32 + l] & 15) << 4);
    }
}

/* Two halves of 128; byte l of a half holds columns l, l+32, l+64, l+96 in bits 2b..2b+1. */
static void pack_pairs_256(const uint8_t *codes, uint8_t *qs) {
    for (int i = 0; i < 64; i++) {
        const uint8_t *c = codes + i / 32 * 128 + i % 32;
        qs[i] = (uint8_t)((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
    }
}

/* Bit `shift` of column 32*g + l is bit g of byte l. */
static void pack_bits_256(const uint8_t *codes, int shift, uint8_t *bits) {
    for (int l = 0; l < 32; l++) {
        unsigned b = 0;
        for (int g = 0; g < 8; g++) b |= (unsigned)(codes[32 * g + l] >> shift & 1) << g;
        bits[l] = (uint8_t)b;
    }
}

/* Q6_K: of each half of 128, 64 bytes of low nibbles (columns l and l+64); then, of each, 32 bytes of pairs of high bits. */
static void pack_codes_k6(const uint8_t *codes, uint8_t *out) {
    for (int h = 0; h < 2; h++) {
        const uint8_t *c = codes + 128 * h;
        for (int l = 0; l < 32; l++) {
            out[64 * h + l] = (uint8_t)((c[l] & 15) | (c[l + 64] & 15) << 4);
            out[64 * h + 32 + l] = (uint8_t)((c[l + 32] & 15) | (c[l + 96] & 15) << 4);
            out[128 + 32 * h + l] = (uint8_t)(c[l] >> 4 | c[l + 32] >> 4 << 2 | c[l + 64] >> 4 << 4 | c[l + 96] >> 4 << 6);
        }
    }
}

/* IQ4_XS: eight groups of 32 behind their scales, 6 bits less 32: two high bits of each in a word, then the low nibbles. */
static void pack_groups_xs(const uint8_t *codes, const uint8_t *scale, uint8_t *out) {
    unsigned high = 0;
    memset(out + 4, 0, 4);
    for (int g = 0; g < 8; g++) {
        unsigned code = scale[g] + 32u;
        high |= (code >> 4) << (2 * g);
        out[4 + g / 2] |= (uint8_t)((code & 15) << (4 * (g % 2)));
        pack_nibbles_16(codes + 32 * g, out + 8 + 16 * g);
    }
    out[2] = (uint8_t)high;
    out[3] = (uint8_t)(high >> 8);
}

/* n scale codes around `middle` (within a quarter of it). */
static void draw_scales(random_block *r, uint8_t *scale, int n, int middle) {
    for (int i = 0; i < n; i += 8) {
        uint64_t bits = next_bits(r);
        for (int k = 0; k < 8 && i + k < n; k++) {
            int span = middle / 4;
            scale[i + k] = (uint8_t)(middle - span + (int)((bits >> (8 * k)) & 0xff) * 2 * span / 255);
        }
    }
}

/* Types of 256: value = d * scale of the group * code, less a minimum where the type has one. */
static void fill_block_256(const dct_synth_stream *s, random_block *r, uint8_t *out) {
    float unit = s->sigma / s->code_sigma; /* d times the middle scale */
    uint8_t scale[16];
    draw_codes(s, r, 256);
    switch (s->type) {
    case DCT_TYPE_Q2_K: /* scale and minimum are nibbles; the minimum is 1.5 scales */
        draw_scales(r, scale, 16, 12);
        for (int j = 0; j < 16; j++) out[j] = (uint8_t)(scale[j] | scale[j] << 4);
        pack_pairs_256(r->codes, out + 16);
        put_f16(out + 80, unit / 12);
        put_f16(out + 82, 1.5f * unit / 12);
        break;
    case DCT_TYPE_Q3_K:
        draw_scales(r, scale, 16, 24);
        for (int j = 0; j < 16; j++) scale[j] = (uint8_t)(scale[j] + 32);
        pack_bits_256(r->codes, 2, out);
        pack_pairs_256(r->codes, out + 32);
        pack_scales_k3(scale, out + 96);
        put_f16(out + 108, unit / 24);
        break;
    case DCT_TYPE_Q4_K:
        draw_scales(r, scale, 8, 50);
        put_f16(out, unit / 50);
        put_f16(out + 2, 7.5f * unit / 50);
        pack_scales_k4(scale, scale, out + 4);
        pack_nibbles_256(r->codes, out + 16);
        break;
    case DCT_TYPE_Q5_K:
        draw_scales(r, scale, 8, 50);
        put_f16(out, unit / 50);
        put_f16(out + 2, 15.5f * unit / 50);
        pack_scales_k4(scale, scale, out + 4);
        pack_bits_256(r->codes, 4, out + 16);
        pack_nibbles_256(r->codes, out + 48);
        break;
    case DCT_TYPE_Q6_K:
        draw_scales(r, scale, 16, 100);
        pack_codes_k6(r->codes, out);
        memcpy(out + 192, scale, 16);
        put_f16(out + 208, unit / 100);
        break;
    default: /* IQ4_XS */
        draw_scales(r, scale, 8, 24);
        put_f16(out, unit / 24);
        pack_groups_xs(r->codes, scale, out);
        break;
    }
}

static void put_float(dct_dtype type, uint8_t *to, float value) {
    uint16_t h = type == DCT_TYPE_F16 ? dct_f16_of_f32(value) : dct_bf16_of_f32(value);
    if (type == DCT_TYPE_F32) memcpy(to, &value, sizeof value);
    else memcpy(to, &h, sizeof h);
}

/* A group of MLX: a run of bits, the first code lowest; then the scale, and a bias that puts the middle code at 0. */
static void fill_block_affine(const dct_synth_stream *s, random_block *r, uint8_t *out) {
    const dct_affine *a = dct_dtype_affine(s->type);
    uint32_t run = a->group * a->bits / 8, pending = 0, n_pending = 0;
    float d = s->sigma / s->code_sigma * vary(next_bits(r));
    draw_codes(s, r, a->group);
    put_float(a->scale, out + run, d);
    put_float(a->scale, out + run + dct_dtype_block_bytes(a->scale), -d * (float)((1 << a->bits) - 1) / 2);
    for (uint32_t i = 0; i < a->group; i++) {
        pending |= (uint32_t)r->codes[i] << n_pending;
        for (n_pending += a->bits; n_pending >= 8; n_pending -= 8, pending >>= 8) *out++ = (uint8_t)pending;
    }
}

/* Float types: the sum of two quantiles, so that 65,536 different values occur. */
static void fill_floats(const dct_synth_stream *s, uint64_t first, uint64_t n, uint8_t *out) {
    const float half_root = 0.70710678f;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = dct_hash_mix(s->key + (first + i) * DCT_RANDOM_STEP);
        float value = s->mean + s->sigma * half_root * (s->quantiles[bits & 0xff] + s->quantiles[bits >> 8 & 0xff]);
        if (s->both_signs && (bits >> 16 & 1) != 0) value = -value;
        put_float(s->type, out + i * dct_dtype_block_bytes(s->type), value + s->offset);
    }
}

void dct_synth_fill(const dct_synth_stream *s, uint64_t first, uint64_t n, void *out) {
    uint8_t *to = out;
    if (dct_dtype_is_float(s->type)) {
        fill_floats(s, first, n, to);
        return;
    }
    uint32_t bytes = dct_dtype_block_bytes(s->type);
    for (uint64_t i = 0; i < n; i++, to += bytes) {
        random_block r;
        r.state = dct_hash_mix(s->key + (first + i) * DCT_RANDOM_STEP);
        if (dct_dtype_affine(s->type) != NULL) fill_block_affine(s, &r, to);
        else if (dct_dtype_block_elems(s->type) == 32) fill_block_32(s, &r, to);
        else fill_block_256(s, &r, to);
    }
}
