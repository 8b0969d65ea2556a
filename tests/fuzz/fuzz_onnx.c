/* Any bytes as an ONNX file: refused with a line, or read, bound, shaped and packed. Open dimensions get 3. */
#include <stdlib.h>

#include "tools/onnx_memory.h"

enum { FUZZ_NODES = 200, FUZZ_VALUES = 2000 };

/* Every open dimension and rank, as flags would bind them. */
static void bind_all(dct_onnx_graph *g) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        dct_onnx_value *value = &g->values[v];
        if (value->source != DCT_ONNX_INPUT) continue;
        value->has_rank = true;
        for (uint32_t i = 0; i < value->tensor.n_dims; i++)
            if (value->tensor.dims[i] < 0) value->tensor.dims[i] = 3;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dct_arena arena;
    dct_err err = {0};
    dct_onnx_graph g;
    dct_onnx_memory m;
    uint32_t n_unshaped = 0;
    dct_arena_init(&arena, 512 << 20);
    dct_status status = dct_onnx_open_bytes(data, n, &arena, &g, &err);
    if (arena.peak_bytes > 2048 * (uint64_t)n + 1024 * 1024) abort();
    if (status == DCT_OK) {
        bind_all(&g);
        status = dct_onnx_check_bound(&g, &err);
    }
    if (status == DCT_OK) status = dct_onnx_shape(&g, &arena, &n_unshaped, &err);
    if (status == DCT_OK && n_unshaped == 0 && g.n_values <= FUZZ_VALUES) {
        status = dct_onnx_place_values(&g, FUZZ_NODES, false, &arena, &m, &err);
        if (status == DCT_OK && (m.packed.height < m.packed.load || m.packed.height > m.file_height)) abort();
    }
    if (status != DCT_OK && (status == DCT_BUG || status == DCT_USAGE || err.message[0] == '\0')) abort();
    dct_arena_deinit(&arena);
    return 0;
}
