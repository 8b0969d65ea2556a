/* onnx/order: see order.c. */
#ifndef DCT_ONNX_ORDER_H
#define DCT_ONNX_ORDER_H

#include "onnx/onnx.h"

/* Puts the nodes into an order in which every value is defined before it is read. DCT_BAD_FILE: there is none, or a value or
 * output that nothing defines. */
dct_status dct_onnx_sort(dct_onnx_graph *g, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

#endif
