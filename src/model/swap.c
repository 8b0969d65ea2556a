#include "model/swap.h"

#include <assert.h>

/* Of the types that GGUF files have, the only ones that are big-endian: where the 16-bit fields of a block are; -1 ends the list.
 * F32 is the one type with a wider field. */
static const int16_t fields[DCT_TYPE_GGUF_COUNT][3] = {
    [DCT_TYPE_F32] = {-1},           [DCT_TYPE_F16] = {0, -1},    [DCT_TYPE_BF16] = {0, -1},   [DCT_TYPE_Q4_0] = {0, -1},
    [DCT_TYPE_Q4_1] = {0, 2, -1},    [DCT_TYPE_Q5_0] = {0, -1},   [DCT_TYPE_Q5_1] = {0, 2, -1}, [DCT_TYPE_Q8_0] = {0, -1},
    [DCT_TYPE_Q2_K] = {80, 82, -1},  [DCT_TYPE_Q3_K] = {108, -1}, [DCT_TYPE_Q4_K] = {0, 2, -1}, [DCT_TYPE_Q5_K] = {0, 2, -1},
    [DCT_TYPE_Q6_K] = {208, -1},     [DCT_TYPE_IQ4_NL] = {0, -1}, [DCT_TYPE_IQ4_XS] = {0, 2, -1}, [DCT_TYPE_MXFP4] = {-1},
};

static void swap_bytes(uint8_t *p, uint32_t n) {
    for (uint32_t i = 0; i < n / 2; i++) {
        uint8_t t = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

void dct_swap_blocks(dct_dtype type, void *blocks, uint64_t n) {
    assert(type < DCT_TYPE_GGUF_COUNT);
    uint8_t *p = blocks;
    uint32_t block = dct_dtype_block_bytes(type);
    for (uint64_t i = 0; i + block <= n; i += block) {
        if (type == DCT_TYPE_F32) swap_bytes(p + i, 4);
        for (const int16_t *f = fields[type]; *f >= 0; f++) swap_bytes(p + i + *f, 2);
    }
}
