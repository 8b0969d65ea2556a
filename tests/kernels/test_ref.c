/* The scalar kernels against f64 arithmetic within tolerances that follow from the sums' length, and against themselves with
 * == where kernel.h promises that a cut of the work changes nothing. Attention has a test of its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel_data.h"
#include "kernels/kernel.h"
#include "support/quant.h"

static const double ULP = 0x1p-24; /* relative error of one rounding */

static const dct_kernels *ref(void) { return dct_kernels_of(DCT_ISA_SCALAR); }

/* Memory on a 64-byte line, filled so that reading what was never written shows. */
static void *lines(uint64_t bytes) {
    bytes = (bytes + 63) / 64 * 64 + 64;
    void *p = aligned_alloc(64, bytes);
    assert_non_null(p);
    memset(p, 0xFF, bytes); /* NaN as f32 and f16 */
    return p;
}

/* ---- products ---- */

/* W[m, k] of random rows, packed; n rows of activations; room for y with a canary column behind m. */
typedef struct product {
    dct_dtype type;
    uint32_t m, k, n;
    uint64_t x_stride, y_stride;
    uint8_t *rows, *w, *x;
    float *x_f32, *y, *bias, *residual;
} product;

static uint64_t row_bytes(const product *p) {
    uint64_t bytes = 0;
    assert_true(dct_dtype_row_bytes(p->type, p->k, &bytes));
    return bytes;
}

static void pack(product *p) {
    uint64_t tile = 0, all = 0;
    assert_true(dct_layout_tile_bytes(p->type, p->k, &tile) && dct_layout_bytes(p->type, p->m, p->k, &all));
    p->w = lines(all);
    for (uint32_t i = 0; i * 16 < p->m; i++) {
        uint32_t n = p->m - i * 16 < 16 ? p->m - i * 16 : 16;
        dct_layout_pack_tile(p->type, p->k, p->rows + i * 16 * row_bytes(p), n, p->w + i * tile);
    }
}

static product product_of(dct_dtype type, uint32_t m, uint32_t k, uint32_t n, uint64_t seed) {
    rng g = {seed};
    product p = {.type = type, .m = m, .k = k, .n = n, .y_stride = m + 3};
    p.rows = malloc(m * row_bytes(&p));
    for (uint32_t r = 0; r < m; r++) random_row(&g, type, k, p.rows + r * row_bytes(&p));
    pack(&p);
    p.x_f32 = lines((uint64_t)n * k * 4);
    p.y = lines(n * p.y_stride * 4);
    p.bias = lines(m * 4);
    p.residual = lines(n * p.y_stride * 4);
    rng_floats(&g, p.x_f32, (uint64_t)n * k);
    rng_floats(&g, p.bias, m);
    rng_floats(&g, p.residual, n * p.y_stride);
    bool quantised = !dct_dtype_is_float(type);
    p.x_stride = quantised ? dct_q8_row_bytes(k) : (uint64_t)k * 4;
    p.x = quantised ? lines(n * p.x_stride) : (uint8_t *)p.x_f32;
    for (uint32_t t = 0; quantised && t < n; t++) ref()->quant_q8(p.x_f32 + (uint64_t)t * k, k, p.x + t * p.x_stride);
    return p;
}

static void product_free(product *p) {
    if ((uint8_t *)p->x_f32 != p->x) free(p->x);
    free(p->rows);
    free(p->w);
    free(p->x_f32);
    free(p->y);
    free(p->bias);
    free(p->residual);
}

static dct_linear_args args_of(const product *p) {
    return (dct_linear_args){.type = p->type, .m = p->m, .k = p->k, .w = p->w, .x = p->x, .x_stride = p->x_stride, .n = p->n, .y = p->y, .y_stride = p->y_stride};
}

static uint32_t tiles(const product *p) { return (p->m + 15) / 16; }

/* Activation j of row t as the product sees it. */
static double activation(const product *p, uint32_t t, uint32_t j) {
    const uint8_t *row = p->x + t * p->x_stride;
    if (dct_dtype_is_float(p->type)) return ((const float *)row)[j];
    return (double)dct_q8_codes(row)[j] * dct_q8_scales(row, p->k)[j / 32];
}

/* The exact product of output r and row t, and the sum of magnitudes of what was added. */
static double exact(const product *p, uint32_t r, uint32_t t, double *magnitude) {
    float *w = malloc(p->k * sizeof *w);
    double sum = 0;
    dct_dequant_row(p->type, p->k, p->rows + r * row_bytes(p), w);
    *magnitude = 0;
    for (uint32_t j = 0; j < p->k; j++) {
        sum += (double)w[j] * activation(p, t, j);
        *magnitude += fabs(w[j]) * fabs(activation(p, t, j));
    }
    free(w);
    return sum;
}

/* Types with minima subtract large sums from one another: what of the magnitude the minima alone have. */
static double minima_magnitude(const product *p, uint32_t r, uint32_t t) {
    const dct_layout *layout = dct_layout_of(p->type);
    uint64_t tile = 0;
    double sum = 0;
    if (!layout->has_min || !dct_layout_tile_bytes(p->type, p->k, &tile)) return 0;
    int8_t *codes = malloc(p->k);
    float *scales = malloc(p->k * sizeof *scales), *mins = malloc(p->k * sizeof *mins);
    dct_layout_unpack_row(p->type, p->k, p->w + r / 16 * tile, r % 16, codes, scales, mins);
    for (uint32_t j = 0; j < p->k; j++) sum += 2 * fabs(mins[j / layout->group] * activation(p, t, j));
    free(codes);
    free(scales);
    free(mins);
    return sum;
}

static void check_product(const product *p) {
    uint32_t group = dct_layout_of(p->type)->group, n_roundings = group == 0 ? p->k / 4 + 4 : 4 * (p->k / group) + 2;
    for (uint32_t t = 0; t < p->n; t++) {
        for (uint32_t r = 0; r < p->m; r++) {
            double magnitude, want = exact(p, r, t, &magnitude);
            magnitude += minima_magnitude(p, r, t) + 1e-30;
            double error = fabs(p->y[t * p->y_stride + r] - want);
            if (!(error <= n_roundings * ULP * magnitude)) fail_msg("%s [%u, %u]: %g for %g", dct_dtype_name(p->type), r, t, error, want);
        }
    }
}

static void test_linear_exact(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        static const uint32_t ms[] = {1, 15, 16, 17, 40};
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
            uint32_t elems = dct_dtype_block_elems((dct_dtype)type);
            product p = product_of((dct_dtype)type, ms[i], elems == 1 ? 61 + (uint32_t)i : elems * (2 * (uint32_t)i + 1), 2, i + 9);
            dct_linear_args args = args_of(&p);
            ref()->linear[type](&args, 0, tiles(&p));
            check_product(&p);
            product_free(&p);
        }
    }
}

/* Only outputs below m are written. */
static void test_linear_writes_only_y(void **state) {
    (void)state;
    product p = product_of(DCT_TYPE_Q4_0, 21, 64, 3, 4);
    dct_linear_args args = args_of(&p);
    ref()->linear[p.type](&args, 0, 2);
    for (uint32_t t = 0; t < p.n; t++) {
        for (uint32_t r = p.m; r < p.y_stride; r++) assert_true(isnan(p.y[t * p.y_stride + r]));
    }
    product_free(&p);
}

/* Rows together or alone, tiles together or alone: the same bits. 70 rows are more than the kernel takes at once. */
static void test_linear_cuts(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        product p = product_of((dct_dtype)type, 33, 512, 70, 3);
        uint64_t bytes = p.n * p.y_stride * 4;
        float *whole = lines(bytes);
        dct_linear_args args = args_of(&p);
        args.y = whole;
        ref()->linear[type](&args, 0, tiles(&p));
        args = args_of(&p);
        args.n = 1;
        for (uint32_t t = 0; t < p.n; t++, args.x = (const uint8_t *)args.x + p.x_stride, args.y += p.y_stride) {
            for (uint32_t i = tiles(&p); i-- > 0;) ref()->linear[type](&args, i, i + 1);
        }
        assert_memory_equal(p.y, whole, bytes);
        free(whole);
        product_free(&p);
    }
}

static void test_linear_bias_and_residual(void **state) {
    (void)state;
    static const dct_dtype types[] = {DCT_TYPE_F16, DCT_TYPE_Q8_0};
    for (size_t i = 0; i < 2; i++) {
        product p = product_of(types[i], 18, 96, 2, i);
        dct_linear_args args = args_of(&p);
        ref()->linear[p.type](&args, 0, 2);
        float *plain = lines(p.n * p.y_stride * 4);
        memcpy(plain, p.y, p.n * p.y_stride * 4);
        args.bias = p.bias;
        args.residual = args.y = p.residual; /* in place */
        float *before = lines(p.n * p.y_stride * 4);
        memcpy(before, p.residual, p.n * p.y_stride * 4);
        ref()->linear[p.type](&args, 0, 2);
        for (uint32_t t = 0; t < p.n; t++) {
            for (uint32_t r = 0; r < p.m; r++) {
                uint64_t at = t * p.y_stride + r;
                float biased = plain[at] + p.bias[r];
                assert_true(p.residual[at] == before[at] + biased);
            }
        }
        free(plain);
        free(before);
        product_free(&p);
    }
}

/* Three groups of one code each, where every other order, and a product that rounds before the addition, gives other bits. */
static void test_linear_order(void **state) {
    (void)state;
    float w[96] = {0}, x[96] = {0}, y = 0;
    uint8_t file[3 * 34];
    w[0] = w[32] = w[64] = 127; /* scale 1, code 127 */
    x[0] = 0x1p30f;
    x[32] = 1;
    x[64] = -0x1p30f;
    quant_row(DCT_TYPE_Q8_0, 96, w, file);
    uint8_t *tile = lines(2 * 1088), *row = lines(dct_q8_row_bytes(96));
    dct_layout_pack_tile(DCT_TYPE_Q8_0, 96, file, 1, tile);
    ref()->quant_q8(x, 96, row);
    dct_linear_args args = {.type = DCT_TYPE_Q8_0, .m = 1, .k = 96, .w = tile, .x = row, .x_stride = 192, .n = 1, .y = &y, .y_stride = 1};
    ref()->linear[DCT_TYPE_Q8_0](&args, 0, 1);
    float large = 0x1p30f / 127, want = fmaf(large, 16129, 0);
    want = fmaf(1.0f / 127, 16129, want);
    want = fmaf(large, -16129, want);
    assert_true(want != 0 && y == want);
    free(tile);
    free(row);
}

/* ---- quantised activations ---- */

static void test_q8_error(void **state) {
    (void)state;
    enum { K = 320 };
    rng g = {1};
    uint8_t *row = lines(dct_q8_row_bytes(K));
    for (int i = 0; i < 100; i++) {
        float x[K], size = ldexpf(1, 3 * (i % 20) - 30);
        for (int j = 0; j < K; j++) x[j] = rng_float(&g) * size;
        ref()->quant_q8(x, K, row);
        for (int j = 0; j < K; j++) {
            float scale = dct_q8_scales(row, K)[j / 32];
            assert_true(fabs(x[j] - (double)scale * dct_q8_codes(row)[j]) <= scale * (0.5 + 256 * ULP));
        }
        for (int b = 0; b < K / 16; b++) {
            int sum = 0;
            for (int j = 0; j < 16; j++) sum += dct_q8_codes(row)[16 * b + j];
            assert_int_equal(dct_q8_sums(row, K)[b], sum);
        }
    }
    free(row);
}

static void test_q8_edges(void **state) {
    (void)state;
    float x[96] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -2.5f, -127};
    uint8_t *row = lines(dct_q8_row_bytes(96));
    x[64] = 1e-37f; /* so small that 127 over it overflows */
    ref()->quant_q8(x, 96, row);
    static const int8_t want[7] = {127, 0, 2, 2, 0, -2, -127}; /* ties to even */
    assert_memory_equal(dct_q8_codes(row), want, sizeof want);
    assert_true(dct_q8_scales(row, 96)[0] == 1 && dct_q8_scales(row, 96)[1] == 0);
    for (int j = 32; j < 96; j++) assert_int_equal(dct_q8_codes(row)[j], 0);
    free(row);
}

/* ---- norm ---- */

static void test_rms_norm(void **state) {
    (void)state;
    enum { MAX = 131 };
    static const uint32_t sizes[] = {1, 15, 16, 17, 64, MAX};
    rng g = {2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = sizes[i];
        float x[3 * MAX], w[MAX], y[3 * MAX];
        rng_floats(&g, x, 3 * n);
        rng_floats(&g, w, n);
        ref()->rms_norm(x, w, n, 3, 1e-3f, y);
        for (uint32_t j = 0; j < 3 * n; j++) {
            double sum = 0;
            for (uint32_t c = 0; c < n; c++) sum += (double)x[j / n * n + c] * x[j / n * n + c];
            double want = x[j] / sqrt(sum / n + 1e-3f) * w[j % n];
            assert_true(fabs(y[j] - want) <= (n / 32.0 + 8) * ULP * fabs(want));
        }
        ref()->rms_norm(x, w, n, 3, 1e-3f, x);
        assert_memory_equal(x, y, 3 * n * sizeof *x);
    }
}

/* ---- rotary positions ---- */

enum { ROPE_CTX = 40, ROPE_ROWS = 3, ROPE_HEADS = 2, ROPE_DIM = 20, ROPE_ROT = 16, ROPE_STRIDE = ROPE_HEADS * ROPE_DIM + 5 };

/* Rotates x in f64: pair i of n_rot/2 at its stream's position, elements a and b. */
static void check_rope(uint32_t style, const int32_t sections[4], const uint32_t streams[ROPE_ROT / 2]) {
    float table[ROPE_CTX * ROPE_ROT], x[ROPE_ROWS * ROPE_STRIDE], before[ROPE_ROWS * ROPE_STRIDE];
    double freq[ROPE_ROT / 2];
    const int32_t pos[ROPE_ROWS][4] = {{0, 3, 7, 0}, {39, 1, 2, 0}, {11, 38, 25, 0}};
    rng g = {style + 6};
    for (int i = 0; i < ROPE_ROT / 2; i++) freq[i] = pow(100, -2.0 * i / ROPE_ROT);
    dct_rope_fill(table, ROPE_CTX, ROPE_ROT, freq, 1);
    rng_floats(&g, x, ROPE_ROWS * ROPE_STRIDE);
    memcpy(before, x, sizeof x);
    dct_rope_args args = {.x = x, .stride = ROPE_STRIDE, .n = ROPE_ROWS, .n_head = ROPE_HEADS, .head_dim = ROPE_DIM, .n_rot = ROPE_ROT,
                          .table = table, .pos = pos[0], .style = style, .sections = {sections[0], sections[1], sections[2], sections[3]}};
    ref()->rope(&args);
    for (uint32_t t = 0; t < ROPE_ROWS; t++) {
        for (uint32_t h = 0; h < ROPE_HEADS; h++) {
            const float *in = before + t * ROPE_STRIDE + h * ROPE_DIM, *out = x + t * ROPE_STRIDE + h * ROPE_DIM;
            for (uint32_t i = 0; i < ROPE_ROT / 2; i++) {
                uint32_t ia = style == 0 ? 2 * i : i, ib = style == 0 ? 2 * i + 1 : i + ROPE_ROT / 2;
                double angle = pos[t][streams[i]] * freq[i], c = cos(angle), s = sin(angle);
                assert_true(fabs(out[ia] - (in[ia] * c - in[ib] * s)) <= 6 * ULP);
                assert_true(fabs(out[ib] - (in[ia] * s + in[ib] * c)) <= 6 * ULP);
            }
            for (uint32_t d = ROPE_ROT; d < ROPE_DIM; d++) assert_true(out[d] == in[d]);
        }
        for (uint32_t d = ROPE_HEADS * ROPE_DIM; d < ROPE_STRIDE; d++) assert_true(x[t * ROPE_STRIDE + d] == before[t * ROPE_STRIDE + d]);
    }
}

static void test_rope(void **state) {
    (void)state;
    const int32_t none[4] = {0}, sections[4] = {2, 3, 1, 0};
    const uint32_t text[ROPE_ROT / 2] = {0}, image[ROPE_ROT / 2] = {0, 0, 1, 1, 1, 2, 0, 0};
    check_rope(0, none, text);
    check_rope(1, none, text);
    check_rope(2, sections, image);
}

/* ---- elementwise ---- */

static void test_elementwise(void **state) {
    (void)state;
    enum { N = 37 };
    float a[N], b[N], y[N];
    rng g = {8};
    for (int i = 0; i < N; i++) a[i] = 8 * rng_float(&g), b[i] = rng_float(&g);
    ref()->add(a, b, N, y);
    for (int i = 0; i < N; i++) assert_true(y[i] == a[i] + b[i]);
    ref()->softcap(a, N, 3, y);
    for (int i = 0; i < N; i++) assert_true(fabs(y[i] - 3 * tanh(a[i] / 3.0)) < 1e-6);
    ref()->glu(DCT_ACT_SILU, a, b, N, y);
    for (int i = 0; i < N; i++) assert_true(fabs(y[i] - a[i] / (1 + exp(-(double)a[i])) * b[i]) < 2e-6);
    ref()->glu(DCT_ACT_GELU_TANH, a, b, N, y);
    for (int i = 0; i < N; i++) {
        double gelu = 0.5 * a[i] * (1 + tanh(0.7978845608028654 * (a[i] + 0.044715 * a[i] * a[i] * a[i])));
        assert_true(fabs(y[i] - gelu * b[i]) < 4e-6);
    }
    ref()->glu(DCT_ACT_GELU_TANH, a, b, N, a);
    assert_memory_equal(a, y, sizeof y);
}

static void test_embed(void **state) {
    (void)state;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        enum { K = 256 };
        product p = product_of((dct_dtype)type, 35, K, 1, 2);
        float got[K], want[K];
        for (uint32_t row = 0; row < p.m; row += 17) {
            dct_dequant_row(p.type, K, p.rows + row * row_bytes(&p), want);
            ref()->embed(p.type, K, p.w, row, 1, got);
            for (int j = 0; j < K; j++) assert_true(got[j] == want[j]);
            ref()->embed(p.type, K, p.w, row, 3.7f, got);
            for (int j = 0; j < K; j++) assert_true(got[j] == want[j] * 3.7f);
        }
        product_free(&p);
    }
}

/* One number for all products: equal on every processor and compiler. */
static void test_same_bits(void **state) {
    (void)state;
    uint64_t hash = DCT_HASH_SEED, mlx = 0;
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        if (type == DCT_TYPE_GGUF_COUNT) {
            mlx = hash;
            hash = DCT_HASH_SEED;
        }
        product p = product_of((dct_dtype)type, 20, 768, 3, (uint64_t)type);
        dct_linear_args args = args_of(&p);
        args.bias = p.bias;
        ref()->linear[type](&args, 0, 2);
        for (uint32_t t = 0; t < p.n; t++) {
            float *y = p.y + t * p.y_stride;
            ref()->rms_norm(y, p.bias, p.m, 1, 1e-5f, y);
            hash = dct_hash_bytes(hash, y, p.m * sizeof *y);
        }
        product_free(&p);
    }
    assert_int_equal(mlx, UINT64_C(0x7a7367814e3fb6f9));
    assert_int_equal(hash, UINT64_C(0x8d6a20cc32ae124));
}

/* ---- choice ---- */

static void test_select(void **state) {
    (void)state;
    assert_non_null(ref());
    assert_string_equal(ref()->name, "scalar");
    assert_int_equal(setenv("DCTMS_ISA", "scalar", 1), 0);
    assert_ptr_equal(dct_kernels_best(), ref());
    assert_int_equal(setenv("DCTMS_ISA", "nothing we know", 1), 0);
    const dct_kernels *best = dct_kernels_best();
    assert_int_equal(unsetenv("DCTMS_ISA"), 0);
    assert_ptr_equal(dct_kernels_best(), best);
    for (int isa = 0; isa < DCT_ISA_COUNT; isa++) {
        const dct_kernels *table = dct_kernels_of((dct_isa)isa);
        if (table == NULL) continue;
        for (int type = 0; type < DCT_TYPE_COUNT; type++) assert_true(table->linear[type] != NULL);
        assert_true(table->attn != NULL && table->attn_merge != NULL && table->store_v != NULL && table->embed != NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_exact), cmocka_unit_test(test_linear_writes_only_y), cmocka_unit_test(test_linear_cuts),
        cmocka_unit_test(test_linear_bias_and_residual), cmocka_unit_test(test_linear_order), cmocka_unit_test(test_q8_error),
        cmocka_unit_test(test_q8_edges), cmocka_unit_test(test_rms_norm), cmocka_unit_test(test_rope),
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_embed), cmocka_unit_test(test_same_bits), cmocka_unit_test(test_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
