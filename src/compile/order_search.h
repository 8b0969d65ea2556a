/* compile/order_search: of all orders that a graph allows, one of least load. */
#ifndef DCT_COMPILE_ORDER_SEARCH_H
#define DCT_COMPILE_ORDER_SEARCH_H

#include "base/arena.h"

/* Values lie in an arena from the node that makes them to the last that reads them. */
typedef struct dct_order_value {
    uint64_t bytes;
    bool stays; /* to the end, whoever reads it */
} dct_order_value;

typedef struct dct_order_node {
    const uint32_t *after;  /* nodes that must have run; each has a lower number */
    const uint32_t *reads;  /* values, each once */
    const uint32_t *makes;
    const uint32_t *over;   /* places in `reads`: the first of these whose value is not read again gives its bytes to makes[0],
                               which has as many */
    uint32_t n_after, n_reads, n_makes, n_over;
    uint64_t scratch_bytes; /* while it runs */
} dct_order_node;

typedef struct dct_order_problem {
    const dct_order_node *nodes; /* in an order that can be run: the given one */
    const dct_order_value *values;
    uint32_t n_nodes, n_values;
    uint32_t width; /* so many sets of nodes done are followed at once; 0: DCT_ORDER_WIDTH */
} dct_order_problem;

enum { DCT_ORDER_WIDTH = 4096 };

typedef struct dct_order_result {
    uint64_t given_load, load; /* largest sum of bytes that live at once */
    bool proven;               /* no order has less */
} dct_order_result;

/* order[n_nodes] receives nodes by position: the given order, unless another has less load. Deterministic. DCT_NO_FIT when the
 * bytes of all values together cannot be counted. */
dct_status dct_order_search(const dct_order_problem *problem, dct_arena *arena, uint32_t *order, dct_order_result *out,
                            dct_err *err) DCT_MUST_CHECK;

#endif
