/* tools/byte_dots: products of bytes summed in registers, as fast as an instruction set can: the ceiling of a prefill product. */
#ifndef DCT_TOOLS_BYTE_DOTS_H
#define DCT_TOOLS_BYTE_DOTS_H

#include "kernels/kernel.h"

typedef struct dct_byte_dots {
    uint32_t macs_per_round; /* multiply-accumulates */
    void (*run)(uint32_t rounds);
} dct_byte_dots;

/* For the instruction set of a table of kernels. */
dct_byte_dots dct_byte_dots_of(const dct_kernels *table);

#endif
