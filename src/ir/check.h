/* ir/check: what the files of dct_graph_check share. shape.c asks of each op, values.c of each value. */
#ifndef DCT_IR_CHECK_H
#define DCT_IR_CHECK_H

#include "ir/graph.h"

#define TRY(call)                                     \
    do {                                              \
        dct_status try_status = (call);               \
        if (try_status != DCT_OK) return try_status;  \
    } while (0)

/* Every value, and the ends of the graph. */
dct_status dct_graph_check_values(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

/* The op that a made value names as its producer has it among its outputs; asked when the ops are known to be well formed. */
dct_status dct_graph_check_producers(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

#endif
