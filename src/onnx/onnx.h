/* onnx: ONNX models as graphs whose shapes are known.
 *
 *      file ─► read.c ─► values and nodes by number, in an order to run ─► shape.c: every value's type, shape and, where it
 *      (protobuf)                                                           only depends on shapes, its elements
 *
 * A weight's elements are never read, but for the few of small tensors, which may say shapes. What the file says is not believed:
 * every name is defined once, sizes are sizes, and no shape is taken from the file but those of inputs and
 * weights. All records and texts lie in the arena of the caller.
 */
#ifndef DCT_ONNX_ONNX_H
#define DCT_ONNX_ONNX_H

#include "base/arena.h"
#include "base/reader.h"

enum {
    DCT_ONNX_MAX_DIMS = 8,
    DCT_ONNX_MAX_ITEMS = 1024, /* tensors of more elements are never looked into */
    DCT_ONNX_OPEN = -1         /* a dimension that the file leaves open */
};
#define DCT_ONNX_NONE UINT32_MAX /* an input or output of a node that is left out */

/* Element types by their numbers in the format. */
typedef enum dct_onnx_type {
    DCT_ONNX_F32 = 1, DCT_ONNX_U8, DCT_ONNX_I8, DCT_ONNX_U16, DCT_ONNX_I16, DCT_ONNX_I32, DCT_ONNX_I64, DCT_ONNX_STRING,
    DCT_ONNX_BOOL, DCT_ONNX_F16, DCT_ONNX_F64, DCT_ONNX_U32, DCT_ONNX_U64, DCT_ONNX_BF16 = 16
} dct_onnx_type;

/* Bits of an element; 0 when it is none that has a size. */
uint32_t dct_onnx_type_bits(uint32_t type);
const char *dct_onnx_type_name(uint32_t type); /* "float32" */

typedef union dct_onnx_item {
    int64_t i; /* of integers and booleans */
    double f;  /* of floating types */
} dct_onnx_item;
bool dct_onnx_is_float(uint32_t type);

typedef struct dct_onnx_tensor {
    uint32_t type; /* 0: not known */
    uint32_t n_dims;
    int64_t dims[DCT_ONNX_MAX_DIMS];
    const dct_onnx_item *items; /* its elements, when they are known before anything runs; else NULL */
} dct_onnx_tensor;

/* A name from the file as a message may show it. */
typedef struct dct_onnx_quoted {
    char text[100];
} dct_onnx_quoted;
dct_onnx_quoted dct_onnx_quote(dct_str name);

/* Elements, and bytes; false when they are more than 2^48. Every dimension must be known. */
bool dct_onnx_count(const dct_onnx_tensor *t, uint64_t *n);
bool dct_onnx_bytes(const dct_onnx_tensor *t, uint64_t *bytes);
bool dct_onnx_same_size(const dct_onnx_tensor *a, const dct_onnx_tensor *b); /* as many elements, as wide */

typedef enum dct_onnx_source {
    DCT_ONNX_UNDEFINED,
    DCT_ONNX_INPUT,     /* of the graph */
    DCT_ONNX_PARAMETER, /* of a body */
    DCT_ONNX_WEIGHT,
    DCT_ONNX_NODE
} dct_onnx_source;

typedef struct dct_onnx_value {
    dct_str name;            /* first: base/name_index.h wants it there */
    dct_onnx_source source;
    uint32_t node;           /* of the graph, that writes it, or whose body does */
    bool is_output, is_shaped;
    bool has_rank;           /* of an input: the file says how many dimensions it has */
    dct_onnx_tensor tensor;
    const dct_str *dim_names; /* of an input: [n_dims], "" where a dimension has none; NULL for other values */
} dct_onnx_value;

typedef struct dct_onnx_attr {
    dct_str name;
    int64_t i;
    float f;
    dct_str s;
    const dct_onnx_item *items; /* of a list: all integers, or all floats */
    uint32_t n_items;
    bool is_long;               /* a list of more than DCT_ONNX_MAX_ITEMS, which is not kept */
    dct_onnx_tensor tensor;
    const struct dct_onnx_body *body; /* NULL: none */
} dct_onnx_attr;

/* How a node's first output lies to its inputs. */
typedef enum dct_onnx_storage {
    DCT_ONNX_OWN,        /* bytes of its own */
    DCT_ONNX_VIEW,       /* the bytes of input 0, which stay what they are */
    DCT_ONNX_ELEMENTWISE /* may take the bytes of an input that has as many and is not read again */
} dct_onnx_storage;

typedef struct dct_onnx_node {
    dct_str op, name, domain; /* domain "" is the standard's */
    uint32_t *in, *out;       /* values, or DCT_ONNX_NONE */
    uint32_t n_in, n_out;
    uint32_t n_needs;         /* of in: with the values that its bodies read, which stand behind its inputs */
    dct_onnx_attr *attrs;
    uint32_t n_attrs;
    dct_onnx_storage storage; /* from here on by dct_onnx_shape */
    const char *why;          /* NULL: it has been shaped, or one before it has not */
} dct_onnx_node;

/* A branch of an If, or what a Loop or a Scan repeats. */
typedef struct dct_onnx_body {
    dct_onnx_node *nodes;
    uint32_t *outputs; /* values */
    uint32_t n_nodes, n_outputs;
} dct_onnx_body;

typedef struct dct_onnx_graph {
    dct_str name, producer;
    int64_t opset;
    dct_onnx_value *values;
    dct_onnx_node *nodes;
    uint32_t n_values, n_nodes;
} dct_onnx_graph;

/* The graph of a file, or of bytes. DCT_BAD_FILE says what is wrong. A build without the protobuf library refuses every file. */
dct_status dct_onnx_open(const char *path, dct_arena *arena, dct_onnx_graph *out, dct_err *err) DCT_MUST_CHECK;
dct_status dct_onnx_open_bytes(const void *bytes, uint64_t n, dct_arena *arena, dct_onnx_graph *out, dct_err *err) DCT_MUST_CHECK;
bool dct_onnx_is_supported(void); /* by this build */

/* Gives open dimensions of inputs their sizes. "batch=1" binds every dimension of that name; "images=1x3x224x224" an input.
 * DCT_USAGE: it is no such text, or names nothing, or contradicts the file. */
dct_status dct_onnx_bind_dim(dct_onnx_graph *g, const char *text, dct_err *err) DCT_MUST_CHECK;
dct_status dct_onnx_bind_input(dct_onnx_graph *g, const char *text, dct_err *err) DCT_MUST_CHECK;

/* "rate=16000": every element of an input of few is that number, which decides what hangs on it. After its shape is bound. */
dct_status dct_onnx_bind_value(dct_onnx_graph *g, const char *text, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* DCT_USAGE names the dimensions that are still open. */
dct_status dct_onnx_check_bound(const dct_onnx_graph *g, dct_err *err) DCT_MUST_CHECK;

/* Works out all shapes. Where the condition of an If is known, the nodes of its branch take its place in g->nodes. What cannot be
 * shaped has `why` set in its node; *n_unshaped is how many these are. Nodes behind them are not looked at, and their values stay
 * unshaped. */
dct_status dct_onnx_shape(dct_onnx_graph *g, dct_arena *arena, uint32_t *n_unshaped, dct_err *err) DCT_MUST_CHECK;

#endif
