/* A product that is stored from `first_row` on is the same product as the whole one, and touches nothing before its y: y and residual of
 * the part lie at the very beginning of their buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/size.h"
#include "kernels/kernel.h"
#include "kernel_data.h"

enum { M = 16 * 4 + 5, K = 256, N = 5, TILES = 5, FIRST_TILE = 2, WIDTH = 2 * 16 };

static void *new_bytes(uint64_t n) {
    void *p = aligned_alloc(64, dct_round_up(n, 64));
    assert_non_null(p);
    return p;
}

static void check_type(const dct_kernels *kernels, dct_dtype type) {
    rng g = {7};
    uint64_t row_bytes, packed, tile_bytes, x_bytes = dct_dtype_is_float(type) ? K * sizeof(float) : dct_q8_row_bytes(K);
    assert_true(dct_dtype_row_bytes(type, K, &row_bytes));
    assert_true(dct_layout_bytes(type, M, K, &packed) && dct_layout_tile_bytes(type, K, &tile_bytes));
    uint8_t *file = new_bytes(row_bytes * M), *w = new_bytes(packed), *x = new_bytes(x_bytes * N);
    for (uint32_t r = 0; r < M; r++) random_row(&g, type, K, file + r * row_bytes);
    for (uint32_t tile = 0; tile < TILES; tile++) dct_layout_pack_tile(type, K, file + tile * 16 * row_bytes, M - tile * 16 < 16 ? M - tile * 16 : 16, w + tile * tile_bytes);
    for (uint32_t t = 0; t < N; t++) {
        _Alignas(64) float row[K];
        rng_floats(&g, row, K);
        if (dct_dtype_is_float(type)) memcpy(x + t * x_bytes, row, x_bytes);
        else kernels->quant_q8(row, K, x + t * x_bytes);
    }
    float *whole = new_bytes(N * M * sizeof(float)), *residual = new_bytes(N * M * sizeof(float)), *bias = new_bytes(M * sizeof(float));
    rng_floats(&g, residual, N * M);
    rng_floats(&g, bias, M);
    dct_linear_args args = {.type = type, .m = M, .k = K, .w = w, .x = x, .x_stride = x_bytes, .n = N, .y = whole, .y_stride = M, .bias = bias, .residual = residual};
    kernels->linear[type](&args, 0, TILES);

    for (uint32_t tile = FIRST_TILE; tile < TILES; tile += 2) { /* the last tile has five rows */
        uint32_t first = tile * 16, n_rows = M - first < WIDTH ? M - first : WIDTH;
        float *part = new_bytes(N * WIDTH * sizeof(float)), *part_residual = new_bytes(N * WIDTH * sizeof(float));
        for (uint32_t t = 0; t < N; t++) memcpy(part_residual + t * WIDTH, residual + t * M + first, n_rows * sizeof(float));
        args.y = part;
        args.residual = part_residual;
        args.y_stride = WIDTH;
        args.first_row = first;
        kernels->linear[type](&args, tile, tile + 2 < TILES ? tile + 2 : TILES);
        for (uint32_t t = 0; t < N; t++) {
            if (memcmp(part + t * WIDTH, whole + t * M + first, n_rows * sizeof(float)) != 0)
                fail_msg("%s %s: other bytes in row %u from output %u on", kernels->name, dct_dtype_name(type), t, first);
        }
        free(part);
        free(part_residual);
    }
    free(bias);
    free(residual);
    free(whole);
    free(x);
    free(w);
    free(file);
}

static void a_part_is_stored_from_its_first_row(void **state) {
    (void)state;
    for (dct_isa isa = 0; isa < DCT_ISA_COUNT; isa++) {
        const dct_kernels *kernels = dct_kernels_of(isa);
        for (dct_dtype type = 0; kernels != NULL && type < DCT_TYPE_COUNT; type++)
            if (kernels->linear[type] != NULL) check_type(kernels, type);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_part_is_stored_from_its_first_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
