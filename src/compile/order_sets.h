/* compile/order_sets: the search within a section of a graph; for order_search.c alone. */
#ifndef DCT_COMPILE_ORDER_SETS_H
#define DCT_COMPILE_ORDER_SETS_H

#include "compile/order_search.h"

/* A problem, and who reads each value: nodes in the given order. */
typedef struct dct_order_graph {
    dct_order_problem p;
    uint32_t *first_reader; /* [n_values + 1]: where the readers of a value begin in the other */
    uint32_t *readers;
    uint32_t most_reads;    /* of any node */
} dct_order_graph;

static inline uint32_t dct_order_n_readers(const dct_order_graph *g, uint32_t v) {
    return g->first_reader[v + 1] - g->first_reader[v];
}

/* Bytes that begin to live with a node, and that live no longer behind it. dies[k]: reads[k] is not read again. */
typedef struct dct_order_change {
    uint64_t rise, fall;
} dct_order_change;
dct_order_change dct_order_weigh(const dct_order_graph *g, uint32_t node, const bool *dies);

/* Nodes begin..end-1 of the given order, of which every order has the same before it and behind it. */
typedef struct dct_order_section {
    uint32_t begin, end;
    uint64_t live; /* bytes, before it */
    uint64_t peak; /* most that live in it */
} dct_order_section;

/* Puts the section's nodes into an order of the least peak, where a peak up to `floor` counts as `floor`. When no order is
 * below s->peak, the given one stays; else order[] receives it, and s->peak what it needs. *exact: none needs less. Takes as much
 * memory as `limits` allows, and gives it back. *work, 0 at first, bounds the time of all sections together. */
dct_status dct_order_sets_search(const dct_order_graph *g, dct_order_section *s, uint64_t floor, const dct_arena *limits,
                                 uint64_t *work, uint32_t *order, bool *exact, dct_err *err) DCT_MUST_CHECK;

#endif
