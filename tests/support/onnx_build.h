/* ONNX files for tests, written field by field: protocol buffers by hand, so that no library reads what it wrote itself. */
#ifndef DCT_TEST_ONNX_BUILD_H
#define DCT_TEST_ONNX_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that grows; freed by whoever puts it into another. */
typedef struct pb {
    uint8_t *bytes;
    size_t n, cap;
} pb;

void pb_raw(pb *m, const void *bytes, size_t n);
void pb_varint(pb *m, uint64_t v);
void pb_int(pb *m, uint32_t field, int64_t v);
void pb_float(pb *m, uint32_t field, float v);
void pb_bytes(pb *m, uint32_t field, const void *bytes, size_t n);
void pb_text(pb *m, uint32_t field, const char *text);
void pb_put(pb *m, uint32_t field, pb *inner); /* frees it */
void pb_add(pb *m, uint32_t field, pb inner);  /* what was just made, which is freed */
void pb_free(pb *m);

/* A tensor as text: a letter for the type (f float32, h float16, d float64, i int64, j int32, u uint8, c int8, b bool), its
 * dimensions, and after ':' its elements. "f1x3x8x8", "i2:1,-1", "i:7" (a scalar). */
pb onnx_tensor(const char *name, const char *text); /* a weight; without elements its data are said to lie elsewhere */
pb onnx_info(const char *name, const char *text);   /* an input or output; "?batch" is an open dimension: "f?batchx3" */

/* Attributes as words: "axis=1" a number, "pads=1,1," and "axes=1," lists, "scales=f1,2.5" floats, "auto_pad='VALID'" a text,
 * "value=@i1:7" a tensor. Inputs and outputs are words too, "_" stands for one that is left out. */
pb onnx_node(const char *op, const char *inputs, const char *outputs, const char *attrs);

/* Gives a node a body, which is freed. */
void onnx_add_body(pb *node, const char *name, pb *graph);

/* A model around the graph, which is freed. */
pb onnx_model(pb *graph);

#endif
