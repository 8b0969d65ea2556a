/* verify/ranges: pieces of something that is numbered through, in order. */
#ifndef DCT_VERIFY_RANGES_H
#define DCT_VERIFY_RANGES_H

#include <stdint.h>

/* A piece, and whose it is. */
typedef struct dct_range {
    uint64_t offset, bytes;
    uint32_t id;
} dct_range;

/* By offset, then bytes, then id. */
void dct_sort_ranges(dct_range *ranges, uint32_t n);

#endif
