/* kernels/layout: packs the file's rows into tiles of 16 output rows, and reads single rows of a tile back.
 *
 * Each quantised type is one row of the table `forms`: its layout, and two functions that move one row of one unit. Most
 * pieces of a unit are words of four columns, one word a row, so packing is 32-bit moves; the formats of files were made
 * for vectors as well and often need no more than that:
 *
 *     Q4_K nibbles, Q6_K and Q2_K pairs of bits, Q3_K scales   lie as we want them: moved
 *     blocks of 32 (low nibbles = first 16 columns)            two blocks are merged, columns 4c+i against 32+4c+i
 *     fifth and third bits                                     four columns are gathered to one nibble of hi1
 *     MLX's runs of bits                                       four columns are spread to a word, and that goes to its pieces
 */
#include "kernels/layout.h"

#include <assert.h>
#include <string.h>

#include "base/half.h"
#include "base/size.h"
#include "kernels/tables.h"

enum { MAX_UNIT_COLS = 256, MAX_UNIT_GROUPS = 16, MAX_SMALL_UNIT = 160 };
enum { NIB = 512, HI1 = 128, BY2 = 512, BYTE = 1024, F16S = 32, U8S = 16 }; /* bytes of the pieces */

/* One row of one unit as numbers. */
typedef struct unit_row {
    int8_t codes[MAX_UNIT_COLS];
    float scales[MAX_UNIT_GROUPS], mins[MAX_UNIT_GROUPS];
} unit_row;

typedef struct form {
    dct_layout layout;
    void (*pack)(const uint8_t *blocks, uint8_t *unit, uint32_t r);  /* the blocks of one unit; the unit is zero before */
    void (*unpack)(const uint8_t *unit, uint32_t r, unit_row *out);
} form;

/* ---- words, nibbles, halves ---- */

static uint32_t load32(const uint8_t *p) {
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static void store32(uint8_t *p, uint32_t w) { memcpy(p, &w, sizeof w); }

static uint32_t load16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

/* Entry r of an f16[16]. */
static float half_at(const uint8_t *halves, uint32_t r) { return dct_f32_of_f16((uint16_t)load16(halves + 2 * r)); }

static void put_half(uint8_t *halves, uint32_t r, const uint8_t *from) { memcpy(halves + 2 * r, from, 2); }

/* Eight nibbles of two words: columns of `a` below, of `b` above. */
static uint32_t low_nibbles(uint32_t a, uint32_t b) { return (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4; }
static uint32_t high_nibbles(uint32_t a, uint32_t b) { return (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u); }

/* Bit `bit` of each of four bytes, gathered to four bits. The products fall on distinct bits, so nothing carries. */
static uint32_t gather4(uint32_t w, uint32_t bit) { return ((w >> bit & 0x01010101u) * 0x01020408u) >> 24 & 15u; }

/* ---- the pieces of a unit ---- */

/* Words 0..7 of row r of a nib, by2 or half a byte piece are 64 bytes apart. */
static void put_words(uint8_t *piece, uint32_t r, const uint8_t *from) {
    for (uint32_t c = 0; c < 8; c++) store32(piece + c * 64 + r * 4, load32(from + 4 * c));
}

/* nib 512 from two times 16 bytes in the order of Q4_0: low nibbles are columns 0..15, high ones 16..31. */
static void put_nib_pair(uint8_t *nib, uint32_t r, const uint8_t *a, const uint8_t *b) {
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t wa = load32(a + 4 * c), wb = load32(b + 4 * c);
        store32(nib + c * 64 + r * 4, low_nibbles(wa, wb));
        store32(nib + (c + 4) * 64 + r * 4, high_nibbles(wa, wb));
    }
}

static void put_hi1(uint8_t *hi1, uint32_t r, uint32_t c, uint32_t half, uint32_t bits) {
    uint8_t *p = hi1 + (c * 2 + half) * 8 + r / 2;
    *p = (uint8_t)(*p | bits << (r % 2 * 4));
}

/* hi1 4 x 128 from 32 bytes whose bit g belongs to columns 32g..32g+31. */
static void put_hi1_planes(uint8_t *hi1, uint32_t r, const uint8_t *planes) {
    for (uint32_t c = 0; c < 8; c++) {
        uint32_t w = load32(planes + 4 * c);
        for (uint32_t g = 0; g < 8; g++) put_hi1(hi1 + g / 2 * HI1, r, c, g % 2, gather4(w, g));
    }
}

static void get_nib(const uint8_t *nib, uint32_t r, int8_t *codes) {
    for (uint32_t j = 0; j < 32; j++) {
        uint8_t b = nib[j / 4 * 64 + r * 4 + j % 4];
        codes[j] = (int8_t)(b & 15);
        codes[j + 32] = (int8_t)(b >> 4);
    }
}

static void get_by2(const uint8_t *by2, uint32_t r, int8_t *codes, uint32_t shift) {
    for (uint32_t j = 0; j < 32; j++) {
        uint8_t b = by2[j / 4 * 64 + r * 4 + j % 4];
        for (uint32_t q = 0; q < 4; q++) codes[32 * q + j] = (int8_t)(codes[32 * q + j] | (b >> 2 * q & 3) << shift);
    }
}

static void get_hi1(const uint8_t *hi1, uint32_t r, int8_t *codes, uint32_t shift) {
    for (uint32_t j = 0; j < 64; j++) {
        uint32_t nibble = hi1[(j % 32 / 4 * 2 + j / 32) * 8 + r / 2] >> (r % 2 * 4);
        codes[j] = (int8_t)(codes[j] | (nibble >> (j % 4) & 1) << shift);
    }
}

static void subtract(int8_t *codes, uint32_t n, int zero) {
    for (uint32_t j = 0; j < n; j++) codes[j] = (int8_t)(codes[j] - zero);
}

static void look_up(int8_t *codes, uint32_t n, const int8_t *table) {
    for (uint32_t j = 0; j < n; j++) codes[j] = table[codes[j]];
}

/* ---- blocks of 32: two of them make a unit of 64 columns ---- */

static void pack_q4_0(const uint8_t *b, uint8_t *unit, uint32_t r) { /* also IQ4_NL */
    put_nib_pair(unit, r, b + 2, b + 20);
    put_half(unit + NIB, r, b);
    put_half(unit + NIB + F16S, r, b + 18);
}

static void pack_q4_1(const uint8_t *b, uint8_t *unit, uint32_t r) {
    put_nib_pair(unit, r, b + 4, b + 24);
    for (uint32_t half = 0; half < 2; half++) {
        put_half(unit + NIB + half * F16S, r, b + 20 * half);
        put_half(unit + NIB + (2 + half) * F16S, r, b + 20 * half + 2);
    }
}

static void put_fifth_bits(uint8_t *hi1, uint32_t r, uint32_t half, uint32_t bits) {
    for (uint32_t c = 0; c < 8; c++) put_hi1(hi1, r, c, half, bits >> 4 * c & 15);
}

static void pack_q5_0(const uint8_t *b, uint8_t *unit, uint32_t r) {
    put_nib_pair(unit, r, b + 6, b + 28);
    for (uint32_t half = 0; half < 2; half++) {
        put_fifth_bits(unit + NIB, r, half, load32(b + 22 * half + 2));
        put_half(unit + NIB + HI1 + half * F16S, r, b + 22 * half);
    }
}

static void pack_q5_1(const uint8_t *b, uint8_t *unit, uint32_t r) {
    put_nib_pair(unit, r, b + 8, b + 32);
    for (uint32_t half = 0; half < 2; half++) {
        put_fifth_bits(unit + NIB, r, half, load32(b + 24 * half + 4));
        put_half(unit + NIB + HI1 + half * F16S, r, b + 24 * half);
        put_half(unit + NIB + HI1 + (2 + half) * F16S, r, b + 24 * half + 2);
    }
}

static void pack_q8_0(const uint8_t *b, uint8_t *unit, uint32_t r) {
    for (uint32_t half = 0; half < 2; half++, b += 34) {
        for (uint32_t c = 0; c < 8; c++) store32(unit + (half * 8 + c) * 64 + r * 4, load32(b + 2 + 4 * c) ^ 0x80808080u);
        put_half(unit + BYTE + half * F16S, r, b);
    }
}

static void pack_mxfp4(const uint8_t *b, uint8_t *unit, uint32_t r) {
    put_nib_pair(unit, r, b + 1, b + 18);
    put_nib_pair(unit + NIB, r, b + 35, b + 52);
    for (uint32_t g = 0; g < 4; g++) unit[2 * NIB + g * U8S + r] = b[17 * g];
}

static void get_scales2(const uint8_t *scales, uint32_t r, unit_row *out) {
    for (uint32_t half = 0; half < 2; half++) out->scales[half] = half_at(scales + half * F16S, r);
}

/* These files add m where we subtract a minimum. */
static void get_mins2(const uint8_t *mins, uint32_t r, unit_row *out) {
    for (uint32_t half = 0; half < 2; half++) out->mins[half] = -half_at(mins + half * F16S, r);
}

static void unpack_q4_0(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    subtract(out->codes, 64, 8);
    get_scales2(unit + NIB, r, out);
}

static void unpack_iq4_nl(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    look_up(out->codes, 64, dct_iq4_values);
    get_scales2(unit + NIB, r, out);
}

static void unpack_q4_1(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    get_scales2(unit + NIB, r, out);
    get_mins2(unit + NIB + 2 * F16S, r, out);
}

static void unpack_q5_0(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    get_hi1(unit + NIB, r, out->codes, 4);
    subtract(out->codes, 64, 16);
    get_scales2(unit + NIB + HI1, r, out);
}

static void unpack_q5_1(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    get_hi1(unit + NIB, r, out->codes, 4);
    get_scales2(unit + NIB + HI1, r, out);
    get_mins2(unit + NIB + HI1 + 2 * F16S, r, out);
}

static void unpack_q8_0(const uint8_t *unit, uint32_t r, unit_row *out) {
    for (uint32_t j = 0; j < 64; j++) out->codes[j] = (int8_t)(unit[j / 4 * 64 + r * 4 + j % 4] - 128);
    get_scales2(unit + BYTE, r, out);
}

static void unpack_mxfp4(const uint8_t *unit, uint32_t r, unit_row *out) {
    get_nib(unit, r, out->codes);
    get_nib(unit + NIB, r, out->codes + 64);
    look_up(out->codes, 128, dct_mxfp4_values);
    for (uint32_t g = 0; g < 4; g++) out->scales[g] = dct_mxfp4_scale(unit[2 * NIB + g * U8S + r]);
}

/* ---- blocks of 256: one is a unit ---- */

static void pack_q2_k(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *d = unit + 2 * BY2, *scales = d + 2 * F16S;
    put_words(unit, r, b + 16);
    put_words(unit + BY2, r, b + 48);
    put_half(d, r, b + 80);
    put_half(d + F16S, r, b + 82);
    for (uint32_t g = 0; g < 16; g++) scales[g * U8S + r] = b[g];
}

static void unpack_q2_k(const uint8_t *unit, uint32_t r, unit_row *out) {
    const uint8_t *d = unit + 2 * BY2, *scales = d + 2 * F16S;
    memset(out->codes, 0, sizeof out->codes);
    get_by2(unit, r, out->codes, 0);
    get_by2(unit + BY2, r, out->codes + 128, 0);
    for (uint32_t g = 0; g < 16; g++) {
        uint8_t s = scales[g * U8S + r];
        out->scales[g] = half_at(d, r) * (float)(s & 15);
        out->mins[g] = half_at(d + F16S, r) * (float)(s >> 4);
    }
}

static void pack_q3_k(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *hi1 = unit + 2 * BY2, *d = hi1 + 4 * HI1, *scales = d + F16S;
    put_words(unit, r, b + 32);
    put_words(unit + BY2, r, b + 64);
    put_hi1_planes(hi1, r, b);
    put_half(d, r, b + 108);
    for (uint32_t s = 0; s < 12; s++) scales[s * U8S + r] = b[96 + s]; /* 8 of low nibbles, 4 of high bits */
}

static void unpack_q3_k(const uint8_t *unit, uint32_t r, unit_row *out) {
    const uint8_t *hi1 = unit + 2 * BY2, *d = hi1 + 4 * HI1, *low = d + F16S, *high = low + 8 * U8S;
    memset(out->codes, 0, sizeof out->codes);
    get_by2(unit, r, out->codes, 0);
    get_by2(unit + BY2, r, out->codes + 128, 0);
    for (uint32_t h = 0; h < 4; h++) get_hi1(hi1 + h * HI1, r, out->codes + 64 * h, 2);
    subtract(out->codes, 256, 4);
    for (uint32_t g = 0; g < 16; g++) {
        int lo = low[g % 8 * U8S + r] >> (g / 8 * 4) & 15, hi = high[g % 4 * U8S + r] >> (g / 4 * 2) & 3;
        out->scales[g] = half_at(d, r) * (float)((lo | hi << 4) - 32);
    }
}

/* Eight six-bit scales and eight six-bit minima of Q4_K and Q5_K: twelve bytes to bytes. */
static void put_six_bits(uint8_t *scales, uint8_t *mins, uint32_t r, const uint8_t *q) {
    for (uint32_t g = 0; g < 4; g++) {
        scales[g * U8S + r] = q[g] & 63;
        mins[g * U8S + r] = q[g + 4] & 63;
        scales[(g + 4) * U8S + r] = (uint8_t)((q[g + 8] & 15) | q[g] >> 6 << 4);
        mins[(g + 4) * U8S + r] = (uint8_t)(q[g + 8] >> 4 | q[g + 4] >> 6 << 4);
    }
}

static void get_six_bits(const uint8_t *d, uint32_t r, unit_row *out) {
    const uint8_t *scales = d + 2 * F16S, *mins = scales + 8 * U8S;
    for (uint32_t g = 0; g < 8; g++) {
        out->scales[g] = half_at(d, r) * (float)scales[g * U8S + r];
        out->mins[g] = half_at(d + F16S, r) * (float)mins[g * U8S + r];
    }
}

static void pack_q4_k(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *d = unit + 4 * NIB, *scales = d + 2 * F16S;
    for (uint32_t h = 0; h < 4; h++) put_words(unit + h * NIB, r, b + 16 + 32 * h);
    put_half(d, r, b);
    put_half(d + F16S, r, b + 2);
    put_six_bits(scales, scales + 8 * U8S, r, b + 4);
}

static void unpack_q4_k(const uint8_t *unit, uint32_t r, unit_row *out) {
    for (uint32_t h = 0; h < 4; h++) get_nib(unit + h * NIB, r, out->codes + 64 * h);
    get_six_bits(unit + 4 * NIB, r, out);
}

static void pack_q5_k(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *hi1 = unit + 4 * NIB, *d = hi1 + 4 * HI1, *scales = d + 2 * F16S;
    for (uint32_t h = 0; h < 4; h++) put_words(unit + h * NIB, r, b + 48 + 32 * h);
    put_hi1_planes(hi1, r, b + 16);
    put_half(d, r, b);
    put_half(d + F16S, r, b + 2);
    put_six_bits(scales, scales + 8 * U8S, r, b + 4);
}

static void unpack_q5_k(const uint8_t *unit, uint32_t r, unit_row *out) {
    const uint8_t *hi1 = unit + 4 * NIB;
    for (uint32_t h = 0; h < 4; h++) {
        get_nib(unit + h * NIB, r, out->codes + 64 * h);
        get_hi1(hi1 + h * HI1, r, out->codes + 64 * h, 4);
    }
    get_six_bits(hi1 + 4 * HI1, r, out);
}

static void pack_q6_k(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *by2 = unit + 4 * NIB, *scales = by2 + 2 * BY2, *d = scales + 16 * U8S;
    for (uint32_t h = 0; h < 2; h++) { /* 128 columns: byte l has columns l and 64 + l, byte 32 + l has 32 + l and 96 + l */
        const uint8_t *ql = b + 64 * h;
        for (uint32_t c = 0; c < 8; c++) {
            uint32_t wa = load32(ql + 4 * c), wb = load32(ql + 32 + 4 * c);
            store32(unit + 2 * h * NIB + c * 64 + r * 4, low_nibbles(wa, wb));
            store32(unit + (2 * h + 1) * NIB + c * 64 + r * 4, high_nibbles(wa, wb));
        }
        put_words(by2 + h * BY2, r, b + 128 + 32 * h);
    }
    for (uint32_t g = 0; g < 16; g++) scales[g * U8S + r] = b[192 + g];
    put_half(d, r, b + 208);
}

static void unpack_q6_k(const uint8_t *unit, uint32_t r, unit_row *out) {
    const uint8_t *by2 = unit + 4 * NIB, *scales = by2 + 2 * BY2, *d = scales + 16 * U8S;
    for (uint32_t h = 0; h < 4; h++) get_nib(unit + h * NIB, r, out->codes + 64 * h);
    for (uint32_t h = 0; h < 2; h++) get_by2(by2 + h * BY2, r, out->codes + 128 * h, 4);
    subtract(out->codes, 256, 32);
    for (uint32_t g = 0; g < 16; g++) out->scales[g] = half_at(d, r) * (float)(int8_t)scales[g * U8S + r];
}

static void pack_iq4_xs(const uint8_t *b, uint8_t *unit, uint32_t r) {
    uint8_t *scales = unit + 4 * NIB, *d = scales + 8 * U8S;
    for (uint32_t h = 0; h < 4; h++) put_nib_pair(unit + h * NIB, r, b + 8 + 32 * h, b + 24 + 32 * h);
    for (uint32_t g = 0; g < 8; g++) {
        uint32_t lo = b[4 + g / 2] >> (g % 2 * 4) & 15u, hi = load16(b + 2) >> 2 * g & 3u;
        scales[g * U8S + r] = (uint8_t)((lo | hi << 4) - 32);
    }
    put_half(d, r, b);
}

static void unpack_iq4_xs(const uint8_t *unit, uint32_t r, unit_row *out) {
    const uint8_t *scales = unit + 4 * NIB, *d = scales + 8 * U8S;
    for (uint32_t h = 0; h < 4; h++) get_nib(unit + h * NIB, r, out->codes + 64 * h);
    look_up(out->codes, 256, dct_iq4_values);
    for (uint32_t g = 0; g < 8; g++) out->scales[g] = half_at(d, r) * (float)(int8_t)scales[g * U8S + r];
}

/* ---- MLX: one to four blocks are a unit of 128 columns ---- */

enum { AFFINE_COLS = 128 };

static float float_at(dct_dtype type, const uint8_t *p) {
    if (type == DCT_TYPE_F32) return dct_f32_of_bits(load32(p));
    return type == DCT_TYPE_F16 ? dct_f32_of_f16((uint16_t)load16(p)) : dct_f32_of_bf16((uint16_t)load16(p));
}

/* Codes 4w..4w+3 of a run of bits, a byte each. They span at most four bytes. */
static uint32_t four_codes(const uint8_t *run, uint32_t bits, uint32_t w) {
    const uint8_t *p = run + bits * w / 2;
    uint32_t shift = bits * w % 2 * 4, x = 0, mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < (shift + 4 * bits + 7) / 8; i++) x |= (uint32_t)p[i] << 8 * i;
    x >>= shift;
    return (x & mask) | (x >> bits & mask) << 8 | (x >> 2 * bits & mask) << 16 | (x >> 3 * bits & mask) << 24;
}

static void or32(uint8_t *p, uint32_t w) { store32(p, load32(p) | w); }

/* Word w of the unit's 32, four codes in bytes, into the pieces of codes of `bits`. */
static void put_affine_word(uint8_t *unit, uint32_t bits, uint32_t r, uint32_t w, uint32_t codes) {
    uint32_t c = w % 8, half = w / 8, at = c * 64 + r * 4;
    uint8_t *high = unit + (bits == 3 ? BY2 : 2 * NIB); /* behind what holds the low bits */
    if (bits == 8) store32(unit + half * 512 + at, codes);
    else if (bits < 4) or32(unit + at, (codes & 0x03030303u) << 2 * half);
    else or32(unit + half / 2 * NIB + at, (codes & 0x0f0f0f0fu) << 4 * (half % 2));
    if (bits == 3) put_hi1(high + half / 2 * HI1, r, c, half % 2, gather4(codes, 2));
    if (bits == 5) put_hi1(high + half / 2 * HI1, r, c, half % 2, gather4(codes, 4));
    if (bits == 6) or32(high + at, (codes >> 4 & 0x03030303u) << 2 * half);
}

static void pack_affine(dct_dtype type, const uint8_t *blocks, uint8_t *unit, uint32_t r) {
    const dct_affine *a = dct_dtype_affine(type);
    const uint32_t block = dct_dtype_block_bytes(type), width = dct_dtype_block_bytes(a->scale);
    const uint32_t n = AFFINE_COLS / a->group, run = a->group * a->bits / 8;
    uint8_t *scales = unit + AFFINE_COLS * DCT_TILE_ROWS * a->bits / 8, *biases = scales + n * DCT_TILE_ROWS * width;
    for (uint32_t g = 0; g < n; g++, blocks += block) {
        for (uint32_t w = 0; w < a->group / 4; w++)
            put_affine_word(unit, a->bits, r, g * a->group / 4 + w, four_codes(blocks, a->bits, w));
        memcpy(scales + (g * DCT_TILE_ROWS + r) * width, blocks + run, width);
        memcpy(biases + (g * DCT_TILE_ROWS + r) * width, blocks + run + width, width);
    }
}

static void get_affine_codes(const uint8_t *unit, uint32_t bits, uint32_t r, int8_t *codes) {
    memset(codes, 0, AFFINE_COLS);
    for (uint32_t h = 0; h < 2 && bits >= 4 && bits < 8; h++) get_nib(unit + h * NIB, r, codes + 64 * h);
    if (bits < 4) get_by2(unit, r, codes, 0);
    if (bits == 6) get_by2(unit + 2 * NIB, r, codes, 4);
    for (uint32_t h = 0; h < 2 && bits == 3; h++) get_hi1(unit + BY2 + h * HI1, r, codes + 64 * h, 2);
    for (uint32_t h = 0; h < 2 && bits == 5; h++) get_hi1(unit + 2 * NIB + h * HI1, r, codes + 64 * h, 4);
    for (uint32_t j = 0; j < AFFINE_COLS && bits == 8; j++) codes[j] = (int8_t)(unit[j / 4 * 64 + r * 4 + j % 4] - 128);
}

/* A group of 64 or 128 is two or four of 32 alike. What is added here is a minimum of the other sign there. */
static void unpack_affine(dct_dtype type, const uint8_t *unit, uint32_t r, unit_row *out) {
    const dct_affine *a = dct_dtype_affine(type);
    const uint32_t width = dct_dtype_block_bytes(a->scale), n = AFFINE_COLS / a->group;
    const uint8_t *scales = unit + AFFINE_COLS * DCT_TILE_ROWS * a->bits / 8, *biases = scales + n * DCT_TILE_ROWS * width;
    get_affine_codes(unit, a->bits, r, out->codes);
    for (uint32_t g = 0; g < AFFINE_COLS / 32; g++) {
        uint32_t at = (g * 32 / a->group * DCT_TILE_ROWS + r) * width;
        out->scales[g] = float_at(a->scale, scales + at);
        out->mins[g] = -float_at(a->scale, biases + at);
    }
}

/* ---- the table ---- */

static const form forms[DCT_TYPE_COUNT] = {
    /*                   columns bytes group min zero lift */
    [DCT_TYPE_F32]    = {{1,     64,   0,  false, 0, 0}, NULL, NULL},
    [DCT_TYPE_F16]    = {{1,     32,   0,  false, 0, 0}, NULL, NULL},
    [DCT_TYPE_BF16]   = {{1,     32,   0,  false, 0, 0}, NULL, NULL},
    [DCT_TYPE_Q4_0]   = {{64,    576,  32, false, 8, 0}, pack_q4_0, unpack_q4_0},
    [DCT_TYPE_IQ4_NL] = {{64,    576,  32, false, 0, 0}, pack_q4_0, unpack_iq4_nl},
    [DCT_TYPE_Q4_1]   = {{64,    640,  32, true,  0, 0}, pack_q4_1, unpack_q4_1},
    [DCT_TYPE_Q5_0]   = {{64,    704,  32, false, 16, 0}, pack_q5_0, unpack_q5_0},
    [DCT_TYPE_Q5_1]   = {{64,    768,  32, true,  0, 0}, pack_q5_1, unpack_q5_1},
    [DCT_TYPE_Q8_0]   = {{64,    1088, 32, false, 128, 0}, pack_q8_0, unpack_q8_0},
    [DCT_TYPE_MXFP4]  = {{128,   1088, 32, false, 0, 0}, pack_mxfp4, unpack_mxfp4},
    [DCT_TYPE_Q2_K]   = {{256,   1344, 16, true,  0, 0}, pack_q2_k, unpack_q2_k},
    [DCT_TYPE_Q3_K]   = {{256,   1792, 16, false, 4, 0}, pack_q3_k, unpack_q3_k},
    [DCT_TYPE_Q4_K]   = {{256,   2368, 32, true,  0, 0}, pack_q4_k, unpack_q4_k},
    [DCT_TYPE_Q5_K]   = {{256,   2880, 32, true,  0, 0}, pack_q5_k, unpack_q5_k},
    [DCT_TYPE_Q6_K]   = {{256,   3392, 16, false, 32, 0}, pack_q6_k, unpack_q6_k},
    [DCT_TYPE_IQ4_XS] = {{256,   2240, 32, false, 0, 0}, pack_iq4_xs, unpack_iq4_xs},
#define BIAS(bits) ((bits) == 8 ? 128 : 0)
#define DCT_DTYPE(name, id, elems, bytes)
#define DCT_DTYPE_AFFINE(name, bits, group, scale, elems, bytes) \
    [DCT_TYPE_##name] = {                                        \
        {AFFINE_COLS, AFFINE_COLS / (group) * (bytes) * DCT_TILE_ROWS, 32, true, BIAS(bits), BIAS(bits)}, NULL, NULL},
#include "base/dtype.def"
#undef DCT_DTYPE
};

static void pack_unit(dct_dtype type, const uint8_t *blocks, uint8_t *unit, uint32_t r) {
    if (dct_dtype_affine(type) != NULL) pack_affine(type, blocks, unit, r);
    else forms[type].pack(blocks, unit, r);
}

static void unpack_unit(dct_dtype type, const uint8_t *unit, uint32_t r, unit_row *out) {
    if (dct_dtype_affine(type) != NULL) unpack_affine(type, unit, r, out);
    else forms[type].unpack(unit, r, out);
}

const dct_layout *dct_layout_of(dct_dtype type) { return &forms[type].layout; }

bool dct_layout_tile_bytes(dct_dtype type, uint64_t k, uint64_t *bytes) {
    const dct_layout *layout = &forms[type].layout;
    uint64_t n;
    if (k % dct_dtype_block_elems(type) != 0) return false;
    return dct_mul_u64(dct_div_up(k, layout->unit_cols), layout->unit_bytes, &n) && dct_align_u64(n, 64, bytes);
}

bool dct_layout_bytes(dct_dtype type, uint64_t m, uint64_t k, uint64_t *bytes) {
    uint64_t tile;
    return dct_layout_tile_bytes(type, k, &tile) && dct_mul_u64(dct_div_up(m, DCT_TILE_ROWS), tile, bytes);
}

/* ---- packing ---- */

/* Elements of `width` bytes, a known number wherever this is called. A few columns a time, so that what is written stays in the
 * nearest cache. */
static inline void pack_floats(uint32_t width, uint32_t k, const uint8_t *rows, uint32_t n, uint8_t *tile) {
    const uint32_t run = 64 / width;
    for (uint32_t j0 = 0; j0 < k; j0 += run) {
        uint32_t end = k - j0 < run ? k : j0 + run;
        for (uint32_t r = 0; r < n; r++) {
            const uint8_t *row = rows + (uint64_t)r * k * width;
            for (uint32_t j = j0; j < end; j++)
                memcpy(tile + ((uint64_t)j * DCT_TILE_ROWS + r) * width, row + (uint64_t)j * width, width);
        }
    }
}

void dct_layout_pack_tile(dct_dtype type, uint32_t k, const void *rows, uint32_t n, void *tile) {
    const form *f = &forms[type];
    uint64_t tile_bytes = 0, row_bytes = 0;
    bool ok = dct_layout_tile_bytes(type, k, &tile_bytes) && dct_dtype_row_bytes(type, k, &row_bytes);
    assert(ok && n <= DCT_TILE_ROWS);
    (void)ok;
    memset(tile, 0, tile_bytes);
    if (type == DCT_TYPE_F32) {
        pack_floats(4, k, rows, n, tile);
        return;
    }
    if (dct_dtype_is_float(type)) {
        pack_floats(2, k, rows, n, tile);
        return;
    }
    uint32_t unit_cols = f->layout.unit_cols, whole = k / unit_cols;
    uint64_t file_unit = (uint64_t)unit_cols / dct_dtype_block_elems(type) * dct_dtype_block_bytes(type);
    uint8_t *unit = tile;
    for (uint32_t u = 0; u < whole; u++, unit += f->layout.unit_bytes) {
        for (uint32_t r = 0; r < n; r++) pack_unit(type, (const uint8_t *)rows + r * row_bytes + u * file_unit, unit, r);
    }
    if (whole * unit_cols == k) return;
    for (uint32_t r = 0; r < n; r++) { /* the last unit has missing columns: zero blocks stand for them */
        uint8_t blocks[MAX_SMALL_UNIT] = {0};
        memcpy(blocks, (const uint8_t *)rows + r * row_bytes + whole * file_unit, row_bytes - whole * file_unit);
        pack_unit(type, blocks, unit, r);
    }
}

/* ---- reading back ---- */

void dct_layout_unpack_row(dct_dtype type, uint32_t k, const void *tile, uint32_t r, int8_t *codes, float *scales, float *mins) {
    const form *f = &forms[type];
    uint32_t group = f->layout.group;
    const uint8_t *unit = tile;
    for (uint32_t j = 0; j < k; j += f->layout.unit_cols, unit += f->layout.unit_bytes) {
        uint32_t n = k - j < f->layout.unit_cols ? k - j : f->layout.unit_cols;
        unit_row row;
        memset(row.mins, 0, sizeof row.mins);
        unpack_unit(type, unit, r, &row);
        memcpy(codes + j, row.codes, n);
        memcpy(scales + j / group, row.scales, n / group * sizeof(float));
        memcpy(mins + j / group, row.mins, n / group * sizeof(float));
    }
}

void dct_layout_row_f32(dct_dtype type, uint32_t k, const void *tile, uint32_t r, float *out) {
    const dct_layout *layout = &forms[type].layout;
    const uint8_t *unit = tile;
    if (dct_dtype_is_float(type)) { /* a unit is a column */
        const uint32_t width = dct_dtype_block_bytes(type);
        for (uint32_t j = 0; j < k; j++, unit += layout->unit_bytes) out[j] = float_at(type, unit + r * width);
        return;
    }
    for (uint32_t j = 0; j < k; j += layout->unit_cols, unit += layout->unit_bytes) {
        uint32_t n = k - j < layout->unit_cols ? k - j : layout->unit_cols;
        int8_t codes[MAX_UNIT_COLS];
        float scales[MAX_UNIT_GROUPS], mins[MAX_UNIT_GROUPS];
        dct_layout_unpack_row(type, n, unit, r, codes, scales, mins);
        for (uint32_t i = 0; i < n; i++)
            out[j + i] = scales[i / layout->group] * (float)(codes[i] + layout->lift) - mins[i / layout->group];
    }
}
