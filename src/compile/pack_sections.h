/* compile/pack_sections: which items of a problem meet, in the two forms that the exact search needs: largest sets that are live
 * at one time, and pairs.
 */
#ifndef DCT_COMPILE_PACK_SECTIONS_H
#define DCT_COMPILE_PACK_SECTIONS_H

#include "compile/pack_problem.h"

/* A piece in a section: so many bytes, so high over the offset of its item. */
typedef struct dct_member {
    uint64_t low, size;
    uint32_t item;
} dct_member;

/* Of an item, another one that it meets. */
typedef struct dct_neighbor {
    int64_t over,
        under; /* when the other lies above, it lies at least `over` higher; when it lies below, at least `under` lower */
    uint32_t item;
} dct_neighbor;

typedef struct dct_sections {
    uint32_t n, n_items;         /* sections; items with bytes */
    uint32_t *first_member;      /* [n + 1] */
    dct_member *members;
    uint32_t *span_begin, *span_end; /* an item: all its sections lie in between */
    uint32_t *first_neighbor;    /* [items + 1] */
    dct_neighbor *neighbors;
    uint32_t *by_span;           /* [n_items], in order of span_begin */
} dct_sections;

/* *small is false, and nothing else is set, when there are more than `most` items, members or pairs at hand would take too much
 * memory. */
dct_status dct_sections_find(const dct_problem *problem, uint32_t most, dct_arena *arena, dct_sections *out, bool *small,
                             dct_err *err) DCT_MUST_CHECK;

#endif
