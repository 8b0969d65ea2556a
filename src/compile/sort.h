/* compile/sort: sorting by two keys and the index, so every order is total and no order depends on the C library. */
#ifndef DCT_COMPILE_SORT_H
#define DCT_COMPILE_SORT_H

#include <stdint.h>

typedef struct dct_sort_key {
    uint64_t first, second; /* ascending; ties end with the index */
    uint32_t index;
} dct_sort_key;

/* Heap sort: in place, no memory, n log n at worst. */
void dct_sort_keys(dct_sort_key *keys, uint32_t n);

#endif
