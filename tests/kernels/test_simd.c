/* Every entry of every vector table against the scalar table, bit for bit: ragged shapes, sub-ranges, in-place forms, and
 * values at their limits, where a saturating or re-ordered sum would show. Outputs lie in buffers full of a pattern, and the
 * whole buffers are compared, so a write outside shows too. What the processor lacks is named and skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/size.h"
#include "kernels/kernel.h"

/* ---- values ---- */

static uint64_t seed = 1;

static uint32_t next(void) { /* splitmix64 */
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z >> 32);
}
static uint32_t below(uint32_t n) { return next() % n; }
static float unit(void) { return (float)(int32_t)next() * 0x1p-31f; } /* -1..1 */

/* Kinds of values: each row of a test takes one. */
enum { USUAL, ZEROS, AT_LIMIT, TINY, LARGE, MIXED, N_KINDS };

static float value(int kind) {
    switch (kind) {
    case ZEROS: return below(2) ? 0.0f : -0.0f;
    case AT_LIMIT: return below(2) ? 3.0f : -3.0f;
    case TINY: return unit() * 0x1p-130f;
    case LARGE: return unit() * 0x1p60f;
    case MIXED: return below(8) == 0 ? unit() * 1000 : unit() * 0.01f;
    default: return unit();
    }
}

static void fill(float *x, uint64_t n, int kind) {
    for (uint64_t i = 0; i < n; i++) x[i] = value(kind);
}

static void *new_bytes(uint64_t n) {
    void *p = aligned_alloc(64, dct_round_up(n + 64, 64));
    assert_non_null(p);
    memset(p, 0xa5, dct_round_up(n + 64, 64));
    return p;
}
static float *new_floats(uint64_t n) { return new_bytes(n * sizeof(float)); }

/* ---- the tables ---- */

static const dct_kernels *scalar(void) { return dct_kernels_of(DCT_ISA_SCALAR); }

typedef void check_fn(const dct_kernels *ref, const dct_kernels *simd);

static void for_each_isa(check_fn *check) {
    static const char *const names[DCT_ISA_COUNT] = {"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "neon"};
    for (int isa = DCT_ISA_SCALAR + 1; isa < DCT_ISA_COUNT; isa++) {
        const dct_kernels *simd = dct_kernels_of((dct_isa)isa);
        if (simd == NULL) {
            print_message("skipped: %s is not in this build or processor\n", names[isa]);
            continue;
        }
        seed = 1;
        check(scalar(), simd);
    }
}

static void expect_same(const void *a, const void *b, uint64_t bytes, const char *what, const char *isa) {
    const uint8_t *x = a, *y = b;
    if (memcmp(a, b, bytes) == 0) return;
    uint64_t i = 0;
    while (x[i] == y[i]) i++;
    i &= ~(uint64_t)3;
    uint32_t u, v;
    memcpy(&u, x + i, 4);
    memcpy(&v, y + i, 4);
    fail_msg("%s, %s: word %llu is %08x (%g), scalar %08x (%g)", isa, what, (unsigned long long)i / 4, v,
             (double)dct_f32_of_bits(v), u, (double)dct_f32_of_bits(u));
}

/* ---- weights ---- */

/* Offsets of the f16 fields of a block, -1 when there are fewer than two. */
static void half_fields(dct_dtype type, int at[2]) {
    at[0] = 0, at[1] = -1;
    switch (type) {
    case DCT_TYPE_Q4_1: case DCT_TYPE_Q5_1: case DCT_TYPE_Q4_K: case DCT_TYPE_Q5_K: at[1] = 2; break;
    case DCT_TYPE_Q2_K: at[0] = 80, at[1] = 82; break;
    case DCT_TYPE_Q3_K: at[0] = 108; break;
    case DCT_TYPE_Q6_K: at[0] = 208; break;
    case DCT_TYPE_MXFP4: at[0] = -1; break;
    default: break;
    }
}

static uint16_t some_half(int kind) {
    if (kind == ZEROS) return (uint16_t)(below(2) << 15);
    if (kind == TINY) return (uint16_t)(below(2) << 15 | below(0x400)); /* subnormal */
    if (kind == LARGE) return (uint16_t)(below(2) << 15 | (0x7800 + below(0x400)));
    return dct_f16_of_f32(unit());
}

/* A row as a file has it: random bits, at the limits all ones or all zeros, with finite scales. */
static void random_row(dct_dtype type, uint32_t k, int kind, uint8_t *row) {
    uint32_t block = dct_dtype_block_bytes(type), n = k / dct_dtype_block_elems(type);
    int at[2];
    half_fields(type, at);
    for (uint32_t i = 0; i < n; i++, row += block) {
        if (type == DCT_TYPE_F32) {
            float v = value(kind);
            memcpy(row, &v, 4);
            continue;
        }
        if (dct_dtype_is_float(type)) {
            uint16_t h = type == DCT_TYPE_F16 ? some_half(kind) : dct_bf16_of_f32(value(kind));
            memcpy(row, &h, 2);
            continue;
        }
        for (uint32_t j = 0; j < block; j++) row[j] = kind == AT_LIMIT ? (i % 2 ? 0xff : 0x00) : (uint8_t)next();
        for (int f = 0; f < 2; f++) {
            uint16_t h = some_half(kind);
            if (at[f] >= 0) memcpy(row + at[f], &h, 2);
        }
        if (type == DCT_TYPE_MXFP4) row[0] = (uint8_t)(kind == TINY ? below(3) : kind == LARGE ? 160 + below(8) : 120 + below(8));
    }
}

static void *random_weights(dct_dtype type, uint32_t m, uint32_t k, int kind) {
    uint64_t tile_bytes = 0, row_bytes = 0, bytes = 0;
    assert_true(dct_layout_tile_bytes(type, k, &tile_bytes) && dct_dtype_row_bytes(type, k, &row_bytes) && dct_layout_bytes(type, m, k, &bytes));
    uint8_t *w = new_bytes(bytes), *rows = new_bytes(16 * row_bytes);
    for (uint32_t r = 0; r < m; r += 16) {
        uint32_t n = m - r < 16 ? m - r : 16;
        for (uint32_t i = 0; i < n; i++) random_row(type, k, kind == MIXED ? (int)below(MIXED) : kind, rows + i * row_bytes);
        dct_layout_pack_tile(type, k, rows, n, w + r / 16 * tile_bytes);
    }
    free(rows);
    return w;
}

/* ---- products ---- */

enum { PLAIN, WITH_BIAS, WITH_RESIDUAL, IN_PLACE, N_FORMS };

static void *random_activations(dct_dtype type, uint32_t k, uint32_t n, uint64_t *stride, int kind) {
    bool is_float = dct_dtype_is_float(type);
    *stride = is_float ? dct_round_up((uint64_t)k * 4, 64) + 64 : dct_q8_row_bytes(k) + 64;
    uint8_t *x = new_bytes(n * *stride);
    float *row = new_floats(k);
    for (uint32_t t = 0; t < n; t++) {
        fill(row, k, kind == MIXED && below(2) ? AT_LIMIT : kind);
        if (is_float) memcpy(x + t * *stride, row, (uint64_t)k * 4);
        else scalar()->quant_q8(row, k, x + t * *stride);
    }
    free(row);
    return x;
}

static void check_product(const dct_kernels *ref, const dct_kernels *simd, dct_dtype type, uint32_t m, uint32_t k, uint32_t n, int kind) {
    int form = (int)below(N_FORMS);
    uint32_t n_tiles = (m + 15) / 16, begin = below(n_tiles), end = begin + 1 + below(n_tiles - begin);
    if (below(2)) begin = 0, end = n_tiles;
    dct_linear_args a = {.type = type, .m = m, .k = k, .n = n, .y_stride = m + below(3) * 7};
    uint64_t y_bytes = n * a.y_stride * sizeof(float);
    float *bias = new_floats(m), *residual = new_floats(n * a.y_stride), *y[2] = {new_floats(n * a.y_stride), new_floats(n * a.y_stride)};
    fill(bias, m, USUAL);
    fill(residual, n * a.y_stride, USUAL);
    a.w = random_weights(type, m, k, kind);
    a.x = random_activations(type, k, n, &a.x_stride, kind == LARGE ? USUAL : kind);
    a.bias = form == WITH_BIAS || form == IN_PLACE ? bias : NULL;
    for (int i = 0; i < 2; i++) {
        if (form == IN_PLACE) memcpy(y[i], residual, y_bytes);
        a.y = y[i];
        a.residual = form == WITH_RESIDUAL ? residual : form == IN_PLACE ? y[i] : NULL;
        (i == 0 ? ref : simd)->linear[type](&a, begin, end);
    }
    char what[128];
    snprintf(what, sizeof what, "%s m %u k %u n %u kind %d form %d tiles %u..%u", dct_dtype_name(type), m, k, n, kind, form, begin, end);
    expect_same(y[0], y[1], y_bytes + 64, what, simd->name);
    free((void *)(uintptr_t)a.w), free((void *)(uintptr_t)a.x), free(bias), free(residual), free(y[0]), free(y[1]);
}

static void check_products(const dct_kernels *ref, const dct_kernels *simd) {
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        uint32_t block = dct_dtype_block_elems((dct_dtype)type);
        for (uint32_t n = 1; n <= 40; n++) {
            uint32_t k = block * (1 + below(block == 1 ? 100 : block == 32 ? 9 : 4));
            check_product(ref, simd, (dct_dtype)type, 1 + below(70), k, n, (int)(n % N_KINDS));
        }
        for (int kind = 0; kind < N_KINDS; kind++) check_product(ref, simd, (dct_dtype)type, 48, block == 1 ? 320 : 1280, 8, kind);
        check_product(ref, simd, (dct_dtype)type, 33, block == 1 ? 4001 : 32768, 50, USUAL); /* more than one block of rows */
    }
}

static void products(void **state) {
    (void)state;
    for_each_isa(check_products);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
