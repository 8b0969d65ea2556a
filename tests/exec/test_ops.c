/* How an elementwise op is cut: its pieces cover every element once and begin at whole lines, also where rows times columns pass 32 bits. The
 * kernel here only notes what it is asked for, so the values need addresses and no memory. */
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
    uint32_t n_pieces = dct_op_pieces(&run);
    for (uint32_t piece = 0; piece < n_pieces; piece++) dct_op_piece(&run, piece);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_cover_every_element_once),
        cmocka_unit_test(more_elements_than_32_bits_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
