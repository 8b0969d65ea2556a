/* Any bytes as a model file: it is refused with a line, or every record, look-up and element of it can be read. */
#include <stdlib.h>

#include "model/hparams.h"

static void walk(const dct_model *m) {
    for (uint32_t i = 0; i < m->n_meta; i++) {
        const dct_meta *meta = &m->meta[i];
        uint64_t cursor = 0, n = 0;
        dct_str s;
        double f;
        int64_t k;
        if (meta->type != DCT_META_ARRAY) continue;
        while (dct_meta_array_next_str(m, meta, &cursor, &s)) n++;
        if (meta->array.type == DCT_META_STRING && n != meta->array.n) abort();
        for (n = 0; dct_meta_array_f64(m, meta, n, &f) || dct_meta_array_i64(m, meta, n, &k); n++) continue;
        if (meta->array.type != DCT_META_STRING && n != meta->array.n) abort();
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) bytes += m->tensors[i].bytes;
    if (bytes != m->tensor_bytes) abort();
    dct_model_find_tensor(m, "token_embd.weight");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static dct_hparams hp;
    dct_model m;
    dct_arena arena;
    dct_err err = {0};
    dct_arena_init(&arena, 0);
    dct_status status = dct_model_open_bytes(&m, data, n, &arena, &err);
    if (arena.peak_bytes > 8 * (uint64_t)n + 1024 * 1024) abort();
    if (status == DCT_OK) {
        walk(&m);
        status = dct_hparams_read(&m, &hp, &err);
        if (status != DCT_OK && status != DCT_BAD_FILE) abort();
    }
    if (status != DCT_OK && err.message[0] == '\0') abort();
    dct_arena_deinit(&arena);
    return 0;
}
