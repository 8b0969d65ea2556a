/* verify/packing: whether a packing is one, judged by nothing but where the bytes lie. Shares no code with the packer. */
#ifndef DCT_VERIFY_PACKING_H
#define DCT_VERIFY_PACKING_H

#include "base/arena.h"

/* Bytes low..high of the arena, taken by `owner` during begin..end; both ranges half-open and not empty. */
typedef struct dct_packed {
    uint64_t low, high;
    uint32_t begin, end, owner;
} dct_packed;

/* DCT_BUG names two owners that hold a byte at one time, or the owner of an empty range; what one owner holds twice is its own
 * affair. In O(n log n). *height: the highest byte taken. */
dct_status dct_verify_packing(const dct_packed *list, uint32_t n, dct_arena *arena, uint64_t *height,
                              dct_err *err) DCT_MUST_CHECK;

#endif
