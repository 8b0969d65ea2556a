/* kernels/ref_linear: products, as kernel.h defines them, for every type.
 *
 * A row of a tile is unpacked once, piece by piece along k, and each piece meets up to ROWS rows of activations whose sums
 * wait in an array. Only the order of additions within one output counts, and that is along k.
 */
#include <math.h>
#include <string.h>

#include "kernels/ref.h"

enum { ROWS = 64, PIECE = 256 }; /* PIECE: a multiple of every unit, and of 4 */

static const uint8_t *tile_at(const dct_linear_args *a, uint32_t tile) {
    uint64_t bytes = 0;
    if (!dct_layout_tile_bytes(a->type, a->k, &bytes)) return a->w;
    return (const uint8_t *)a->w + tile * bytes;
}

static const void *x_row(const dct_linear_args *a, uint32_t t) { return (const char *)a->x + t * a->x_stride; }

/* y of rows t0..t0+n-1 at output `out` from the finished sums. */
static void finish(const dct_linear_args *a, uint32_t out, uint32_t t0, uint32_t n, const float *sums) {
    for (uint32_t t = 0; t < n; t++) {
        uint64_t at = (t0 + t) * a->y_stride + (out - a->first_row);
        float y = sums[t];
        if (a->bias != NULL) y = y + a->bias[out];
        if (a->residual != NULL) y = a->residual[at] + y;
        a->y[at] = y;
    }
}

/* ---- quantised weights ---- */

typedef struct piece {
    int8_t codes[PIECE];
    float scales[PIECE / 16], mins[PIECE / 16];
} piece;

static int32_t dot16(const int8_t *a, const int8_t *b) {
    int32_t sum = 0;
    for (int i = 0; i < 16; i++) sum += a[i] * b[i];
    return sum;
}

/* Columns j0..j0+n-1 of one activation row against the unpacked weights. */
static float add_groups(const dct_layout *layout, const piece *w, const void *x, uint32_t k, uint32_t j0, uint32_t n, float acc) {
    const int8_t *codes = dct_q8_codes(x) + j0;
    const float *scales = dct_q8_scales(x, k) + j0 / 32;
    const int16_t *sums = dct_q8_sums(x, k) + j0 / 16;
    for (uint32_t g = 0, j = 0; j < n; g++, j += layout->group) {
        int32_t isum = dot16(w->codes + j, codes + j), asum = sums[j / 16];
        if (layout->group == 32) {
            isum += dot16(w->codes + j + 16, codes + j + 16);
            asum += sums[j / 16 + 1];
        }
        isum += layout->lift * asum;
        acc = fmaf(w->scales[g] * scales[j / 32], (float)isum, acc);
        if (layout->has_min) acc = fmaf(-w->mins[g], scales[j / 32] * (float)asum, acc);
    }
    return acc;
}

static void quant_output(const dct_linear_args *a, const uint8_t *tile, uint32_t r, uint32_t out, uint32_t t0, uint32_t n) {
    const dct_layout *layout = dct_layout_of(a->type);
    float sums[ROWS] = {0};
    for (uint32_t j = 0; j < a->k; j += PIECE) {
        uint32_t cols = a->k - j < PIECE ? a->k - j : PIECE;
        piece w;
        dct_layout_unpack_row(a->type, cols, tile + (uint64_t)(j / layout->unit_cols) * layout->unit_bytes, r, w.codes,
                              w.scales, w.mins);
        for (uint32_t t = 0; t < n; t++) sums[t] = add_groups(layout, &w, x_row(a, t0 + t), a->k, j, cols, sums[t]);
    }
    finish(a, out, t0, n, sums);
}

/* ---- float weights ---- */

/* n columns from a multiple of 4 on. */
static void add_columns(const float *w, const float *x, uint32_t n, float p[4]) {
    float s[4] = {p[0], p[1], p[2], p[3]};
    uint32_t j = 0;
    for (; j + 4 <= n; j += 4) {
        for (uint32_t i = 0; i < 4; i++) s[i] = fmaf(w[j + i], x[j + i], s[i]);
    }
    for (uint32_t i = 0; j + i < n; i++) s[i] = fmaf(w[j + i], x[j + i], s[i]);
    memcpy(p, s, sizeof s);
}

static void float_output(const dct_linear_args *a, const uint8_t *tile, uint32_t r, uint32_t out, uint32_t t0, uint32_t n) {
    const dct_layout *layout = dct_layout_of(a->type);
    float partial[ROWS][4] = {{0}}, sums[ROWS];
    for (uint32_t j = 0; j < a->k; j += PIECE) {
        uint32_t cols = a->k - j < PIECE ? a->k - j : PIECE;
        float w[PIECE];
        dct_layout_row_f32(a->type, cols, tile + (uint64_t)j * layout->unit_bytes, r, w);
        for (uint32_t t = 0; t < n; t++) add_columns(w, (const float *)x_row(a, t0 + t) + j, cols, partial[t]);
    }
    for (uint32_t t = 0; t < n; t++) sums[t] = (partial[t][0] + partial[t][1]) + (partial[t][2] + partial[t][3]);
    finish(a, out, t0, n, sums);
}

/* ---- tiles ---- */

typedef void output_fn(const dct_linear_args *a, const uint8_t *tile, uint32_t r, uint32_t out, uint32_t t0, uint32_t n);

static void run_tiles(const dct_linear_args *a, uint32_t tile_begin, uint32_t tile_end, output_fn *output) {
    for (uint32_t i = tile_begin; i < tile_end; i++) {
        const uint8_t *tile = tile_at(a, i);
        for (uint32_t r = 0, out = i * DCT_TILE_ROWS; r < DCT_TILE_ROWS && out < a->m; r++, out++) {
            for (uint32_t t0 = 0; t0 < a->n; t0 += ROWS) output(a, tile, r, out, t0, a->n - t0 < ROWS ? a->n - t0 : ROWS);
        }
    }
}

void dct_ref_linear_quant(const dct_linear_args *args, uint32_t tile_begin, uint32_t tile_end) {
    run_tiles(args, tile_begin, tile_end, quant_output);
}

void dct_ref_linear_float(const dct_linear_args *args, uint32_t tile_begin, uint32_t tile_end) {
    run_tiles(args, tile_begin, tile_end, float_output);
}
