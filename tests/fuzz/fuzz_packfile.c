/* Any bytes as the CSV of a packing problem: refused with a line, or packed, the answer accepted by the verifier and writable in the file's form. */
#include <stdlib.h>

#include "tools/pack_table.h"

/* The search must not make an input slow; correctness at larger counts is test_pack's. */
enum { FUZZ_NODES = 300, FUZZ_ITEMS = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dct_arena arena;
    dct_err err = {0};
    dct_pack_table table = {0};
    if (n == 0) return 0;
    dct_arena_init(&arena, 0);
    dct_status status = dct_pack_table_parse((const char *)data, n, &arena, &table, &err);
    if (arena.peak_bytes > 256 * (uint64_t)n + 1024 * 1024) abort();
    if (status == DCT_OK && table.n_lines <= FUZZ_ITEMS) {
        const dct_pack_params params = {.nodes = FUZZ_NODES};
        for (uint32_t pool = 0; status == DCT_OK && pool < table.n_pools; pool++) {
            const dct_pack_result *r = &table.pools[pool].packed;
            status = dct_pack_table_pack(&table, pool, &params, &arena, &err);
            if (status == DCT_OK && (r->height < r->bound || r->bound < r->load)) abort();
        }
        if (status == DCT_OK) status = dct_pack_table_save(&table, "/dev/null", &arena, &err);
    }
    if (status != DCT_OK && (status != DCT_BAD_FILE || err.message[0] == '\0')) abort();
    dct_arena_deinit(&arena);
    return 0;
}
