/* onnx/rules_pick: operators that pick elements by number, and those that make fewer of many. */
#include "onnx/shape.h"

/* ---- gather ---- */

/* Rows of the elements along the axis, one an index. */
static void fold_gather(dct_shaping *s, uint32_t axis, dct_onnx_tensor *t) {
    const dct_onnx_tensor *in = dct_in(s, 0), *index = dct_in(s, 1);
    int64_t strides[DCT_ONNX_MAX_DIMS];
    uint64_t n, n_index;
    if (in->items == NULL || index->items == NULL || dct_onnx_is_float(index->type)) return;
    dct_onnx_item *items = dct_new_items(s, t);
    if (items == NULL || !dct_onnx_count(t, &n) || !dct_onnx_count(index, &n_index)) return;
    dct_strides(in, strides);
    int64_t dim = in->dims[axis];
    uint64_t width = (uint64_t)strides[axis];
    for (uint64_t i = 0; i < n; i++) {
        int64_t at = index->items[i / width % n_index].i;
        if (at < -dim || at >= dim) return;
        uint64_t row = (uint64_t)(at < 0 ? at + dim : at);
        items[i] = in->items[(i / width / n_index * (uint64_t)dim + row) * width + i % width];
    }
    t->items = items;
}

bool dct_rule_gather(dct_shaping *s) {
    uint32_t axis;
    if (!dct_need_dims(s, 0, 1) || !dct_need_in(s, 2)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *index = dct_in(s, 1);
    if (!dct_axis(s, dct_attr_int(s, "axis", 0), in->n_dims, &axis)) return false;
    dct_onnx_tensor t = {.type = in->type};
    for (uint32_t i = 0; i < in->n_dims; i++) {
        bool fits = i == axis ? dct_add_dims(s, &t, index->dims, index->n_dims) : dct_add_dim(s, &t, in->dims[i]);
        if (!fits) return false;
    }
    fold_gather(s, axis, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_gather_elements(dct_shaping *s) {
    return dct_need_in(s, 2) && dct_set_like(s, 0, dct_in(s, 0)->type, dct_in(s, 1));
}

/* The last dimension of the indices says how many dimensions they go through. */
bool dct_rule_gather_nd(dct_shaping *s) {
    if (!dct_need_dims(s, 0, 1) || !dct_need_dims(s, 1, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *index = dct_in(s, 1);
    int64_t batch = dct_attr_int(s, "batch_dims", 0), deep = index->dims[index->n_dims - 1];
    if (batch < 0 || batch >= index->n_dims || batch + deep > in->n_dims)
        return dct_cannot(s, "its indices do not fit its input");
    dct_onnx_tensor t = {.type = in->type};
    uint32_t rest = (uint32_t)(batch + deep);
    return dct_add_dims(s, &t, index->dims, index->n_dims - 1) &&
           dct_add_dims(s, &t, &in->dims[rest], in->n_dims - rest) && dct_set(s, 0, &t);
}

bool dct_rule_one_hot(dct_shaping *s) {
    uint32_t axis;
    const dct_onnx_item *depth;
    uint32_t n;
    if (!dct_need_in(s, 3) || !dct_ints(s, 1, NULL, &depth, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    if (n != 1) return dct_cannot(s, "its depth is not one number");
    if (!dct_axis(s, dct_attr_int(s, "axis", -1), in->n_dims + 1, &axis)) return false;
    dct_onnx_tensor t = {.type = dct_in(s, 2)->type};
    for (uint32_t i = 0; i <= in->n_dims; i++) {
        if (!dct_add_dim(s, &t, i == axis ? depth[0].i : in->dims[i < axis ? i : i - 1])) return false;
    }
    return dct_set(s, 0, &t);
}

/* How many there are is known only where the elements are. */
bool dct_rule_nonzero(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    uint64_t n, found = 0;
    if (in->items == NULL || !dct_onnx_count(in, &n))
        return dct_cannot(s, "how many elements are not 0 is known only when it runs");
    dct_onnx_tensor t = {.type = DCT_ONNX_I64, .n_dims = 2, .dims = {in->n_dims, 0}};
    bool is_float = dct_onnx_is_float(in->type);
    for (uint64_t i = 0; i < n; i++) found += is_float ? in->items[i].f != 0 : in->items[i].i != 0;
    t.dims[1] = (int64_t)found;
    int64_t strides[DCT_ONNX_MAX_DIMS];
    dct_strides(in, strides);
    dct_onnx_item *items = dct_new_items(s, &t);
    for (uint64_t i = 0, at = 0; items != NULL && i < n; i++) {
        if (is_float ? in->items[i].f == 0 : in->items[i].i == 0) continue;
        for (uint32_t d = 0; d < in->n_dims; d++) items[d * found + at].i = (int64_t)i / strides[d] % in->dims[d];
        at++;
    }
    t.items = items;
    return dct_set(s, 0, &t);
}

/* ---- fewer ---- */

/* All elements to one, which is what shapes are made with. */
static void fold_reduce(dct_shaping *s, const bool *goes, dct_onnx_tensor *t) {
    const dct_onnx_tensor *in = dct_in(s, 0);
    uint64_t n;
    for (uint32_t i = 0; i < in->n_dims; i++) {
        if (!goes[i] && in->dims[i] != 1) return;
    }
    if (s->code == DCT_DO_NOTHING || in->items == NULL || !dct_onnx_count(in, &n) || n == 0) return;
    dct_onnx_item *item = dct_new_items(s, t);
    if (item == NULL) return;
    *item = in->items[0];
    for (uint64_t i = 1; i < n; i++) {
        if (!dct_fold_op(s->code, in->type, *item, in->items[i], item)) return;
    }
    t->items = item;
}

bool dct_rule_reduce(dct_shaping *s) {
    const dct_onnx_item *axes;
    uint32_t n;
    bool goes[DCT_ONNX_MAX_DIMS];
    if (!dct_need_axes(s, &axes, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    if (!dct_axes(s, axes, n, in->n_dims, goes)) return false;
    bool keeps = dct_attr_int(s, "keepdims", 1) != 0, all = n == 0 && dct_attr_int(s, "noop_with_empty_axes", 0) == 0;
    dct_onnx_tensor t = {.type = in->type};
    for (uint32_t i = 0; i < in->n_dims; i++) {
        goes[i] = goes[i] || all;
        if ((!goes[i] || keeps) && !dct_add_dim(s, &t, goes[i] ? 1 : in->dims[i])) return false;
    }
    fold_reduce(s, goes, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_arg(dct_shaping *s) {
    uint32_t axis;
    if (!dct_need_dims(s, 0, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    if (!dct_axis(s, dct_attr_int(s, "axis", 0), in->n_dims, &axis)) return false;
    bool keeps = dct_attr_int(s, "keepdims", 1) != 0;
    dct_onnx_tensor t = {.type = DCT_ONNX_I64};
    for (uint32_t i = 0; i < in->n_dims; i++) {
        if ((i != axis || keeps) && !dct_add_dim(s, &t, i == axis ? 1 : in->dims[i])) return false;
    }
    return dct_set(s, 0, &t);
}

bool dct_rule_top_k(dct_shaping *s) {
    const dct_onnx_item *given;
    uint32_t axis, n;
    if (!dct_need_dims(s, 0, 1) || !dct_ints(s, 1, NULL, &given, &n)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    int64_t k = n == 1 ? given[0].i : dct_attr_int(s, "k", -1);
    if (!dct_axis(s, dct_attr_int(s, "axis", -1), t.n_dims, &axis)) return false;
    if (k < 0 || k > t.dims[axis]) return dct_cannot(s, "%lld of %lld elements", (long long)k, (long long)t.dims[axis]);
    t.dims[axis] = k;
    return dct_set_like(s, 0, t.type, &t) && dct_set_like(s, 1, DCT_ONNX_I64, &t);
}
