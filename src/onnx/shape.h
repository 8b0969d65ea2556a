/* onnx/shape: what the shape rules of operators share. A rule reads the shapes of a node's inputs and sets those of its outputs;
 * where elements are known (a chain that begins at Shape, or at a small weight), it works those out as well.
 */
#ifndef DCT_ONNX_SHAPE_H
#define DCT_ONNX_SHAPE_H

#include "onnx/onnx.h"

/* The node that is being shaped. */
typedef struct dct_shaping {
    dct_onnx_graph *g;
    const dct_onnx_node *node;
    int code;         /* of the operator's row in the table: what its rule makes of it */
    dct_arena *arena;
    bool no_memory;
    char why[160];    /* why it cannot be shaped */
} dct_shaping;

/* False: s->why says why, or there was no memory. */
typedef bool dct_shape_rule(dct_shaping *s);

/* ---- what a rule may ask ---- */
const dct_onnx_tensor *dct_in(const dct_shaping *s, uint32_t k); /* NULL: there is no such input */
bool dct_need_in(dct_shaping *s, uint32_t n);                     /* inputs 0..n-1 are there */
bool dct_need_dims(dct_shaping *s, uint32_t k, uint32_t least);   /* input k has at least so many */
int64_t dct_attr_int(const dct_shaping *s, const char *name, int64_t otherwise);
bool dct_attr_is(const dct_shaping *s, const char *name, const char *text); /* a text attribute */
const dct_onnx_attr *dct_attr(const dct_shaping *s, const char *name);      /* NULL: not given */

/* The elements of input k as integers, from the attribute of that name where older files have them. *n is 0 and *items NULL when
 * neither is given; false when they are given and not known. */
bool dct_ints(dct_shaping *s, uint32_t k, const char *attr, const dct_onnx_item **items, uint32_t *n);

/* An axis, or a list of axes, counted from the end when negative. */
bool dct_axis(dct_shaping *s, int64_t axis, uint32_t n_dims, uint32_t *out);
bool dct_axes(dct_shaping *s, const dct_onnx_item *items, uint32_t n, uint32_t n_dims, bool is_in[DCT_ONNX_MAX_DIMS]);

/* Input 0 is there, and the axes that it is treated along, in input 1 or an attribute: as dct_ints. */
bool dct_need_axes(dct_shaping *s, const dct_onnx_item **axes, uint32_t *n);

/* ---- what it answers ---- */
bool dct_cannot(dct_shaping *s, const char *format, ...) DCT_PRINTF(2, 3); /* false */
bool dct_set(dct_shaping *s, uint32_t k, const dct_onnx_tensor *t); /* output k; without effect when it is left out */
bool dct_set_like(dct_shaping *s, uint32_t k, uint32_t type, const dct_onnx_tensor *shape); /* of that shape, nothing known */
bool dct_add_dim(dct_shaping *s, dct_onnx_tensor *t, int64_t size);
bool dct_add_dims(dct_shaping *s, dct_onnx_tensor *t, const int64_t *sizes, uint32_t n);
bool dct_add_listed(dct_shaping *s, dct_onnx_tensor *t, const dct_onnx_item *sizes, uint32_t n); /* of a list of integers */

/* t's dimensions and those of `other` as numpy broadcasts them, into t. */
bool dct_broadcast(dct_shaping *s, dct_onnx_tensor *t, const dct_onnx_tensor *other);

/* Room for the elements of t when they are few enough to be kept: else NULL. */
dct_onnx_item *dct_new_items(dct_shaping *s, const dct_onnx_tensor *t);

/* t's elements as a view of `in`: element (i0, i1, ...) is in[from + i0 * strides[0] + i1 * strides[1] + ...]. */
void dct_fold_strided(dct_shaping *s, const dct_onnx_item *in, int64_t from, const int64_t *strides, dct_onnx_tensor *t);
void dct_strides(const dct_onnx_tensor *t, int64_t strides[DCT_ONNX_MAX_DIMS]); /* of t as it lies */

/* The elements of `in` for each of t, to which it is broadcast; NULL when they are not known. */
const dct_onnx_item *dct_spread(dct_shaping *s, const dct_onnx_tensor *in, const dct_onnx_tensor *t);

static inline int64_t dct_clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* ---- the rules ---- */
#define DCT_RULE(name) bool dct_rule_##name(dct_shaping *s);
#include "onnx/rules.def"
#undef DCT_RULE

/* Codes: of arithmetic (folded where elements are known), of reductions. */
enum {
    DCT_DO_NOTHING, /* not folded */
    DCT_DO_ADD, DCT_DO_SUB, DCT_DO_MUL, DCT_DO_DIV, DCT_DO_MOD, DCT_DO_POW, DCT_DO_MIN, DCT_DO_MAX,
    DCT_DO_EQUAL, DCT_DO_LESS, DCT_DO_LESS_EQUAL, DCT_DO_GREATER, DCT_DO_GREATER_EQUAL, DCT_DO_AND, DCT_DO_OR, DCT_DO_XOR,
    DCT_DO_NEG, DCT_DO_ABS, DCT_DO_FLOOR, DCT_DO_CEIL, DCT_DO_ROUND, DCT_DO_SQRT, DCT_DO_NOT, DCT_DO_COPY
};

/* What arithmetic makes of elements; false when it makes nothing that can be known (a division by 0). */
bool dct_fold_op(int code, uint32_t type, dct_onnx_item a, dct_onnx_item b, dct_onnx_item *out); /* type: of a and b */
bool dct_fold_cast(uint32_t from, uint32_t to, dct_onnx_item a, dct_onnx_item *out);

#endif
