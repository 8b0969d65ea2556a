/* compile/pack_exact: whether items fit under a capacity, by search over canonical solutions within a budget of nodes. */
#ifndef DCT_COMPILE_PACK_EXACT_H
#define DCT_COMPILE_PACK_EXACT_H

#include "compile/pack_problem.h"

typedef enum dct_fit { DCT_FIT_FOUND, DCT_FIT_IMPOSSIBLE, DCT_FIT_UNKNOWN } dct_fit;

typedef struct dct_exact dct_exact;

enum { DCT_EXACT_MAX_ITEMS = 4096 }; /* the search recurses once an item */

/* A search over the items that have bytes. *out is NULL when the problem is too large for it; DCT_NO_FIT when the arena is
 * exhausted. */
dct_status dct_exact_new(const dct_problem *problem, dct_arena *arena, dct_exact **out, dct_err *err) DCT_MUST_CHECK;

/* Tries each strategy for `limit` nodes. FOUND: offsets of the items with bytes are filled. IMPOSSIBLE: proven, and no capacity
 * under *next_capacity is possible either (UINT64_MAX: none at all). What was learnt helps later probes. */
dct_fit dct_exact_probe(dct_exact *search, uint64_t capacity, uint64_t limit, dct_effort *effort, uint64_t *offsets,
                        uint64_t *next_capacity);

#endif
