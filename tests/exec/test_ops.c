/* How elementwise ops and products are cut: their pieces cover every element or tile once; elements begin at whole lines, also where rows times
 * columns pass 32 bits. The kernels here only note what they are asked for, so the values need addresses and no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "exec/exec.h"

enum { LINE = 64 };

static const float *base;
static uint64_t next_element; /* where the next piece must begin */

static void note_add(const float *a, const float *b, uint32_t n, float *out) {
    assert_true(a == base + next_element && b == a && out == a);
    assert_true(n > 0 && (uintptr_t)a % LINE == 0);
    next_element += n;
}

static const dct_kernels noting = {.name = "noting", .add = note_add};

static void check_cover(uint32_t rows, uint32_t cols, uint32_t n_workers) {
    dct_value values[2];
    memset(values, 0, sizeof values);
    for (uint32_t i = 0; i < 2; i++) {
        values[i].rows = rows;
        values[i].cols = cols;
        values[i].row_mul = values[i].row_div = 1;
    }
    dct_graph graph = {.values = values, .n_values = 2};
    dct_op op = {.kind = DCT_OP_ADD, .n_in = 2, .n_out = 1, .in = {0, 0}, .out = {1}};
    uint64_t bytes = (uint64_t)rows * cols * sizeof(float);
    void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        print_message("skipped: no address range of %llu bytes\n", (unsigned long long)bytes);
        return;
    }
    base = range;
    next_element = 0;
    dct_op_run run = {.graph = &graph, .op = &op, .in = {range, range}, .out = {range}, .n = rows, .n_workers = n_workers, .kernels = &noting};
    dct_op_cut(&run);
    for (uint32_t piece = 0; piece < run.n_pieces; piece++) dct_op_piece(&run, piece);
    assert_true(next_element == (uint64_t)rows * cols);
    munmap(range, bytes);
}

static void pieces_cover_every_element_once(void **state) {
    (void)state;
    check_cover(1, 5, 1);
    check_cover(3, 4097, 2);
    check_cover(100, 1000, 7);
    check_cover(512, 896, 3);
}

static void more_elements_than_32_bits_count(void **state) {
    (void)state;
    check_cover(262144, 18944, 2);     /* 4.97 G elements */
    check_cover(1u << 20, 1u << 15, 1); /* 2^35: one eighth of them passes 32 bits too */
    check_cover(262144, 16385, 64);
}

/* ---- products ---- */

enum { MAX_WEIGHTS = 3, MAX_TILES = 4096 };

static const char weight_at[MAX_WEIGHTS]; /* addresses only */
static uint32_t taken[MAX_WEIGHTS][MAX_TILES], widest;

static void note_tiles(const dct_linear_args *args, uint32_t begin, uint32_t end) {
    const ptrdiff_t weight = (const char *)args->w - weight_at;
    assert_true(weight >= 0 && weight < MAX_WEIGHTS && begin < end && end <= MAX_TILES);
    for (uint32_t tile = begin; tile < end; tile++) taken[weight][tile]++;
    widest = end - begin > widest ? end - begin : widest;
}

static void note_glu(dct_act act, const float *gate, const float *up, uint32_t n, float *out) {
    (void)act, (void)gate, (void)up, (void)n, (void)out;
}

static uint32_t tiles_in(uint32_t rows) { return (rows + DCT_TILE_ROWS - 1) / DCT_TILE_ROWS; }

/* A product of n rows, of Q4_0 weights with these output rows, 0 for none. Returns the number of pieces. */
static uint32_t cut_product(dct_op_kind kind, const uint32_t rows[MAX_WEIGHTS], uint32_t cols, uint32_t n, uint32_t n_workers) {
    static float out[1 << 21], scratch[1 << 21];
    dct_kernels table = {.name = "noting", .glu = note_glu};
    table.linear[DCT_TYPE_Q4_0] = note_tiles;
    dct_value values[1 + 2 * MAX_WEIGHTS];
    dct_weight weights[MAX_WEIGHTS];
    memset(values, 0, sizeof values);
    memset(weights, 0, sizeof weights);
    dct_graph graph = {.values = values, .n_values = 1 + 2 * MAX_WEIGHTS, .weights = weights, .n_weights = MAX_WEIGHTS};
    dct_op op = {.kind = kind, .in = {0}, .n_in = 1, .n_out = 1};
    dct_op_run run = {.graph = &graph, .op = &op, .kernels = &table, .n = n, .n_workers = n_workers, .scratch = scratch};
    values[0] = (dct_value){.format = DCT_FMT_Q8, .rows = n, .cols = cols, .row_mul = 1, .row_div = 1};
    run.in[0] = out;
    for (uint32_t i = 0; i < MAX_WEIGHTS && rows[i] > 0; i++) {
        weights[i] = (dct_weight){.type = DCT_TYPE_Q4_0, .n_rows = rows[i], .n_cols = cols};
        values[1 + i] = (dct_value){.format = DCT_FMT_WEIGHT, .ref = i};
        values[1 + MAX_WEIGHTS + i] = (dct_value){.format = DCT_FMT_F32, .rows = n, .cols = rows[i], .row_mul = 1, .row_div = 1};
        op.in[op.n_in++] = 1 + i;
        op.out[i] = 1 + MAX_WEIGHTS + i;
        run.in[1 + i] = (void *)(uintptr_t)&weight_at[i];
        run.out[i] = out;
    }
    memset(taken, 0, sizeof taken);
    widest = 0;
    dct_op_cut(&run);
    for (uint32_t piece = 0; piece < run.n_pieces; piece++) dct_op_piece(&run, piece);
    for (uint32_t i = 0; i < MAX_WEIGHTS; i++) {
        for (uint32_t tile = 0; tile < MAX_TILES; tile++) assert_int_equal(taken[i][tile], tile < tiles_in(rows[i]));
    }
    return run.n_pieces;
}

/* On one row a piece has 256 KiB or more, unless a worker would have fewer than two, and a worker has eight at most; a Q4_0 tile of
 * 1,536 columns has 13,824 bytes. */
static void products_are_cut_by_bytes(void **state) {
    (void)state;
    static const struct {
        dct_op_kind kind;
        uint32_t rows[MAX_WEIGHTS], cols, n_workers, n_pieces;
    } cases[] = {
        {DCT_OP_LINEAR, {1536}, 1536, 1, 5},  /* 1.33 MB */
        {DCT_OP_LINEAR, {1536}, 1536, 2, 4},
        {DCT_OP_LINEAR, {1536}, 1536, 5, 10},
        {DCT_OP_LINEAR, {1536}, 8960, 2, 16}, /* 7.74 MB */
        {DCT_OP_LINEAR, {40}, 1536, 2, 3},    /* as many as there are tiles */
        {DCT_OP_LINEAR, {5}, 64, 4, 1},
        {DCT_OP_LINEAR_MULTI, {1536, 256, 256}, 1536, 2, 6}, /* 1.77 MB */
        {DCT_OP_LINEAR_MULTI, {1536, 256, 256}, 1536, 3, 6},
        {DCT_OP_LINEAR_GLU, {8960, 8960}, 1536, 2, 18},      /* as many as the scratch asks for */
        {DCT_OP_LINEAR_GLU, {1536, 1536}, 1536, 2, 10},      /* 2.65 MB */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(cut_product(cases[i].kind, cases[i].rows, cases[i].cols, 1, cases[i].n_workers), cases[i].n_pieces);
}

static void pieces_cover_every_tile_once(void **state) {
    (void)state;
    static const uint32_t shapes[][MAX_WEIGHTS] = {{7}, {1536}, {8960, 8960}, {100, 100}, {1536, 256, 256}, {17, 16, 15}};
    static const uint32_t n_rows[] = {1, 2, 9, 64};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t t = 0; t < sizeof n_rows / sizeof *n_rows; t++) {
            for (uint32_t workers = 1; workers <= 5; workers++) {
                const uint32_t *rows = shapes[s], n = n_rows[t];
                cut_product(rows[1] == 0 ? DCT_OP_LINEAR : DCT_OP_LINEAR_MULTI, rows, 1536, n, workers);
                if (rows[1] == 0 || rows[2] != 0) continue;
                cut_product(DCT_OP_LINEAR_GLU, rows, 1536, n, workers);
                assert_true(widest <= dct_glu_tiles(n));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_cover_every_element_once),
        cmocka_unit_test(more_elements_than_32_bits_count),
        cmocka_unit_test(products_are_cut_by_bytes),
        cmocka_unit_test(pieces_cover_every_tile_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
