/* compile/pack_exact: whether items fit under a capacity, by search over canonical solutions within a budget of nodes. */
#ifndef DCT_COMPILE_PACK_EXACT_H
#define DCT_COMPILE_PACK_EXACT_H

#include "compile/compile.h"

typedef enum dct_fit { DCT_FIT_FOUND, DCT_FIT_IMPOSSIBLE, DCT_FIT_UNKNOWN } dct_fit;

typedef struct dct_exact dct_exact;

enum { DCT_EXACT_MAX_ITEMS = 4096 }; /* the search recurses once an item */

/* A search over items judged by their intervals; items of size 0 must have been left out. NULL when the arena is exhausted. */
dct_exact *dct_exact_new(const dct_pack_item *items, uint32_t n, dct_arena *arena);

/* FOUND: offsets[n] are filled. IMPOSSIBLE: proven, and no capacity under *next_capacity is possible either (UINT64_MAX: none at all).
 * *nodes is the budget on entry and what is left of it on return. */
dct_fit dct_exact_fit(dct_exact *search, uint64_t capacity, uint64_t *nodes, uint64_t *offsets, uint64_t *next_capacity);

#endif
