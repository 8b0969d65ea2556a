/* ir/check: what the files of dct_graph_check share. check.c asks what holds for every op, shape.c what its kind demands,
 * values.c what holds for every value. */
#ifndef DCT_IR_CHECK_H
#define DCT_IR_CHECK_H

#include "ir/graph.h"

#define TRY(call)                                     \
    do {                                              \
        dct_status try_status = (call);               \
        if (try_status != DCT_OK) return try_status;  \
    } while (0)

/* The op that is being judged. */
typedef struct dct_subject {
    const dct_graph *g;
    const dct_op *op;
    dct_op_id id;
    dct_err *err;
} dct_subject;

/* DCT_BUG, which op, and what is wrong with it. */
dct_status dct_op_refuse(const dct_subject *s, const char *format, ...) DCT_PRINTF(2, 3);

/* The rules of the op's kind; its ids are in range. */
dct_status dct_op_check_shapes(const dct_subject *s) DCT_MUST_CHECK;

/* Every value, and the ends of the graph. */
dct_status dct_graph_check_values(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

/* The op that a made value names as its producer has it among its outputs; asked when the ops are known to be well formed. */
dct_status dct_graph_check_producers(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

#endif
