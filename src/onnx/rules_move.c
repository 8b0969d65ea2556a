/* onnx/rules_move: operators that move elements: none is computed, so what is known of the input is known of the output. */
#include "base/size.h"
#include "onnx/shape.h"

/* ---- the same elements in another shape ---- */

/* Input 0 in the shape of t, which must have as many elements. */
static bool set_view(dct_shaping *s, dct_onnx_tensor *t) {
    const dct_onnx_tensor *in = dct_in(s, 0);
    uint64_t n_in, n_out;
    t->type = in->type;
    t->items = in->items;
    if (!dct_onnx_count(t, &n_out) || !dct_onnx_count(in, &n_in) || n_in != n_out)
        return dct_cannot(s, "its input does not have as many elements as its output");
    return dct_set(s, 0, t);
}

/* 0 keeps a dimension, -1 is what is left. */
bool dct_rule_reshape(dct_shaping *s) {
    const dct_onnx_item *wanted;
    uint32_t n, open = DCT_ONNX_NONE;
    uint64_t product = 1, n_in = 0;
    if (!dct_need_in(s, 1) || !dct_ints(s, 1, "shape", &wanted, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    bool keeps_zero = dct_attr_int(s, "allowzero", 0) != 0;
    dct_onnx_tensor t = {.n_dims = 0};
    for (uint32_t i = 0; i < n; i++) {
        int64_t size = wanted[i].i;
        if (size == 0 && !keeps_zero) {
            if (i >= in->n_dims) return dct_cannot(s, "its shape keeps dimension %u of %u", i, in->n_dims);
            size = in->dims[i];
        }
        if (size == -1 && open == DCT_ONNX_NONE) {
            open = i;
            size = 1;
        }
        if (!dct_add_dim(s, &t, size)) return false;
    }
    if (!dct_onnx_count(&t, &product) || !dct_onnx_count(in, &n_in)) return dct_cannot(s, "its shape is too large");
    if (open != DCT_ONNX_NONE) t.dims[open] = product == 0 ? 0 : (int64_t)(n_in / product);
    return set_view(s, &t);
}

/* The product of dimensions from..to-1. */
static bool product_of(dct_shaping *s, const dct_onnx_tensor *in, uint32_t from, uint32_t to, dct_onnx_tensor *t) {
    dct_onnx_tensor part = {.n_dims = 0};
    uint64_t n;
    return dct_add_dims(s, &part, &in->dims[from], to - from) && dct_onnx_count(&part, &n) && dct_add_dim(s, t, (int64_t)n);
}

bool dct_rule_flatten(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    int64_t axis = dct_attr_int(s, "axis", 1), n = in->n_dims;
    if (axis < -n || axis > n) return dct_cannot(s, "axis %lld of %lld dimensions", (long long)axis, (long long)n);
    uint32_t at = (uint32_t)(axis < 0 ? axis + n : axis);
    dct_onnx_tensor t = {.n_dims = 0};
    return product_of(s, in, 0, at, &t) && product_of(s, in, at, in->n_dims, &t) && set_view(s, &t);
}

bool dct_rule_squeeze(dct_shaping *s) {
    const dct_onnx_item *axes;
    uint32_t n;
    bool goes[DCT_ONNX_MAX_DIMS];
    if (!dct_need_axes(s, &axes, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    if (!dct_axes(s, axes, n, in->n_dims, goes)) return false;
    dct_onnx_tensor t = {.n_dims = 0};
    for (uint32_t i = 0; i < in->n_dims; i++) {
        if (axes == NULL && n == 0) goes[i] = in->dims[i] == 1;
        if (!goes[i] && !dct_add_dim(s, &t, in->dims[i])) return false;
    }
    return set_view(s, &t);
}

bool dct_rule_unsqueeze(dct_shaping *s) {
    const dct_onnx_item *axes;
    uint32_t n, from = 0;
    bool is_new[DCT_ONNX_MAX_DIMS];
    if (!dct_need_axes(s, &axes, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    if (n > DCT_ONNX_MAX_DIMS - in->n_dims) return dct_cannot(s, "its output has more than %d dimensions", DCT_ONNX_MAX_DIMS);
    if (!dct_axes(s, axes, n, in->n_dims + n, is_new)) return false;
    dct_onnx_tensor t = {.n_dims = in->n_dims + n};
    for (uint32_t i = 0; i < t.n_dims; i++) t.dims[i] = is_new[i] ? 1 : in->dims[from++];
    return set_view(s, &t);
}

/* ---- a view that is copied ---- */

bool dct_rule_transpose(dct_shaping *s) {
    int64_t own[DCT_ONNX_MAX_DIMS], strides[DCT_ONNX_MAX_DIMS];
    bool seen[DCT_ONNX_MAX_DIMS];
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    const dct_onnx_attr *perm = dct_attr(s, "perm");
    if (perm != NULL && (perm->n_items != in->n_dims || !dct_axes(s, perm->items, perm->n_items, in->n_dims, seen)))
        return dct_cannot(s, "perm is no order of %u dimensions", in->n_dims);
    dct_strides(in, own);
    dct_onnx_tensor t = {.type = in->type, .n_dims = in->n_dims};
    for (uint32_t i = 0; i < in->n_dims; i++) {
        int64_t wanted = perm != NULL ? perm->items[i].i : (int64_t)(in->n_dims - 1 - i);
        uint32_t from = (uint32_t)(wanted < 0 ? wanted + in->n_dims : wanted);
        t.dims[i] = in->dims[from];
        strides[i] = own[from];
    }
    dct_fold_strided(s, in->items, 0, strides, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_expand(dct_shaping *s) {
    const dct_onnx_item *wanted;
    uint32_t n;
    if (!dct_need_in(s, 2) || !dct_ints(s, 1, NULL, &wanted, &n)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    dct_onnx_tensor shape = {.n_dims = 0}, t = *in;
    if (!dct_add_listed(s, &shape, wanted, n) || !dct_broadcast(s, &t, &shape)) return false;
    t.items = dct_spread(s, in, &t);
    return dct_set(s, 0, &t);
}

/* The starts, ends, axes and steps of a slice; lists that are not given are NULL. */
typedef struct cuts {
    const dct_onnx_item *starts, *ends, *axes, *steps;
    uint32_t n;
} cuts;

static bool find_cuts(dct_shaping *s, cuts *c) {
    uint32_t n_ends, n_axes, n_steps;
    if (!dct_ints(s, 1, "starts", &c->starts, &c->n) || !dct_ints(s, 2, "ends", &c->ends, &n_ends) ||
        !dct_ints(s, 3, "axes", &c->axes, &n_axes) || !dct_ints(s, 4, NULL, &c->steps, &n_steps)) {
        return false;
    }
    bool fits = n_ends == c->n && (c->axes == NULL || n_axes == c->n) && (c->steps == NULL || n_steps == c->n);
    return fits || dct_cannot(s, "its starts, ends, axes and steps are not as many");
}

/* Where a cut of a dimension begins, and how many elements it has. */
static void cut_dim(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *from, int64_t *n) {
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    *from = *n = 0;
    if (dim == 0) return;
    start = dct_clamp(start < 0 ? start + dim : start, 0, high);
    end = dct_clamp(end < 0 ? end + dim : end, low, high);
    int64_t span = step > 0 ? end - start : start - end, by = step > 0 ? step : -step;
    *from = start;
    *n = span <= 0 ? 0 : span / by + (span % by != 0);
}

bool dct_rule_slice(dct_shaping *s) {
    cuts c;
    bool seen[DCT_ONNX_MAX_DIMS] = {false};
    int64_t strides[DCT_ONNX_MAX_DIMS], from = 0;
    if (!dct_need_in(s, 1) || !find_cuts(s, &c)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    dct_onnx_tensor t = *in;
    t.items = NULL;
    dct_strides(in, strides);
    for (uint32_t i = 0; i < c.n; i++) {
        uint32_t axis;
        int64_t start, step = c.steps != NULL ? dct_clamp(c.steps[i].i, -INT32_MAX, INT32_MAX) : 1;
        if (!dct_axis(s, c.axes != NULL ? c.axes[i].i : (int64_t)i, in->n_dims, &axis)) return false;
        if (step == 0 || seen[axis]) return dct_cannot(s, step == 0 ? "a step is 0" : "axis %u is named twice", axis);
        seen[axis] = true;
        cut_dim(in->dims[axis], c.starts[i].i, c.ends[i].i, step, &start, &t.dims[axis]);
        if (t.dims[axis] == 0) continue; /* nothing will be taken */
        from += start * strides[axis];
        strides[axis] = t.dims[axis] == 1 ? 0 : strides[axis] * step; /* a step inside the dimension */
    }
    dct_fold_strided(s, in->items, from, strides, &t);
    return dct_set(s, 0, &t);
}

/* The sizes of the parts along the axis, which has `dim`. */
static bool find_parts(dct_shaping *s, int64_t dim, int64_t *sizes) {
    const dct_onnx_item *given;
    uint32_t n, n_out = s->node->n_out;
    if (!dct_ints(s, 1, "split", &given, &n)) return false;
    if (given != NULL && n != n_out) return dct_cannot(s, "%u sizes for %u outputs", n, n_out);
    int64_t left = dim, each = (dim + n_out - 1) / n_out;
    for (uint32_t k = 0; k < n_out; k++) {
        sizes[k] = given != NULL ? given[k].i : left < each ? left : each;
        if (sizes[k] < 0 || sizes[k] > left) return dct_cannot(s, "its sizes are not those of the axis");
        left -= sizes[k];
    }
    return left == 0 || dct_cannot(s, "its sizes are not those of the axis");
}

bool dct_rule_split(dct_shaping *s) {
    uint32_t axis;
    if (!dct_need_dims(s, 0, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    int64_t *sizes = dct_arena_array(s->arena, s->node->n_out, sizeof *sizes), strides[DCT_ONNX_MAX_DIMS], from = 0;
    if (sizes == NULL) s->no_memory = true;
    if (s->node->n_out == 0) return dct_cannot(s, "it has no output");
    if (sizes == NULL || !dct_axis(s, dct_attr_int(s, "axis", 0), in->n_dims, &axis)) return false;
    if (!find_parts(s, in->dims[axis], sizes)) return false;
    dct_strides(in, strides);
    for (uint32_t k = 0; k < s->node->n_out; k++) {
        dct_onnx_tensor t = *in;
        t.dims[axis] = sizes[k];
        t.items = NULL;
        dct_fold_strided(s, in->items, from, strides, &t);
        from += sizes[k] * strides[axis];
        if (!dct_set(s, k, &t)) return false;
    }
    return true;
}

/* ---- together ---- */

/* The elements of one part among those of t: rows of `width` at `at`, every `stride`. */
static void copy_rows(const dct_onnx_item *in, uint64_t n, uint64_t width, uint64_t at, uint64_t stride, dct_onnx_item *out) {
    for (uint64_t i = 0; i < n; i++) out[i / width * stride + at + i % width] = in[i];
}

static void fold_concat(dct_shaping *s, uint32_t axis, dct_onnx_tensor *t) {
    int64_t strides[DCT_ONNX_MAX_DIMS];
    uint64_t at = 0, n;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        if (dct_in(s, k)->items == NULL) return;
    }
    dct_onnx_item *items = dct_new_items(s, t);
    if (items == NULL) return;
    dct_strides(t, strides);
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const dct_onnx_tensor *in = dct_in(s, k);
        uint64_t width = (uint64_t)(in->dims[axis] * strides[axis]);
        if (dct_onnx_count(in, &n) && n > 0) copy_rows(in->items, n, width, at, (uint64_t)(t->dims[axis] * strides[axis]), items);
        at += width;
    }
    t->items = items;
}

bool dct_rule_concat(dct_shaping *s) {
    uint32_t axis;
    if (!dct_need_dims(s, 0, 1) || !dct_need_in(s, s->node->n_in)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    if (!dct_axis(s, dct_attr_int(s, "axis", 0), t.n_dims, &axis)) return false;
    t.items = NULL;
    for (uint32_t k = 1; k < s->node->n_in; k++) {
        const dct_onnx_tensor *in = dct_in(s, k);
        bool fits = in->n_dims == t.n_dims;
        for (uint32_t i = 0; fits && i < t.n_dims; i++) fits = i == axis || in->dims[i] == t.dims[i];
        if (!fits) return dct_cannot(s, "input %u does not fit the others", k);
        t.dims[axis] += in->dims[axis]; /* at most 2^32 inputs of 2^48 bytes: what is too large is refused by dct_set */
        if (t.dims[axis] > INT64_MAX / 4) return dct_cannot(s, "its output is too large");
    }
    uint64_t bytes;
    if (!dct_onnx_bytes(&t, &bytes)) return dct_cannot(s, "its output is too large, or of no size");
    fold_concat(s, axis, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_tile(dct_shaping *s) {
    const dct_onnx_item *times;
    uint32_t n;
    if (!dct_need_in(s, 2) || !dct_ints(s, 1, NULL, &times, &n)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    if (n != t.n_dims) return dct_cannot(s, "%u repeats of %u dimensions", n, t.n_dims);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size;
        if (times[i].i < 0 || !dct_mul_u64((uint64_t)t.dims[i], (uint64_t)times[i].i, &size) || size > INT64_MAX)
            return dct_cannot(s, "it repeats dimension %u %lld times", i, (long long)times[i].i);
        t.dims[i] = (int64_t)size;
    }
    return dct_set_like(s, 0, t.type, &t);
}

/* By dimension; negative counts cut. Older files have them in an attribute. */
bool dct_rule_pad(dct_shaping *s) {
    const dct_onnx_item *pads, *axes;
    uint32_t n, n_axes;
    if (!dct_need_in(s, 1) || !dct_ints(s, 1, "pads", &pads, &n) || !dct_ints(s, 3, NULL, &axes, &n_axes)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    if (axes == NULL) n_axes = t.n_dims;
    if (n != 2 * (uint64_t)n_axes) return dct_cannot(s, "%u pads of %u dimensions", n, n_axes);
    for (uint32_t i = 0; i < n_axes; i++) {
        uint32_t axis;
        int64_t before = pads[i].i, after = pads[n_axes + i].i, most = INT64_C(1) << 48;
        if (!dct_axis(s, axes != NULL ? axes[i].i : (int64_t)i, t.n_dims, &axis)) return false;
        if (before < -most || before > most || after < -most || after > most || t.dims[axis] + before + after < 0)
            return dct_cannot(s, "it pads dimension %u by %lld and %lld", axis, (long long)before, (long long)after);
        t.dims[axis] += before + after;
        if (t.dims[axis] > 4 * most) return dct_cannot(s, "its output is too large");
    }
    return dct_set_like(s, 0, t.type, &t);
}

/* ---- blocks of pixels ---- */

static bool block_of(dct_shaping *s, int64_t *block) {
    *block = dct_attr_int(s, "blocksize", 0);
    if (!dct_need_dims(s, 0, 4)) return false;
    bool fits = dct_in(s, 0)->n_dims == 4 && *block >= 1 && *block <= INT16_MAX;
    for (uint32_t i = 1; i < 4; i++) fits = fits && dct_in(s, 0)->dims[i] <= INT32_MAX;
    return fits || dct_cannot(s, "its blocks are no blocks of an image");
}

bool dct_rule_depth_to_space(dct_shaping *s) {
    int64_t block;
    if (!block_of(s, &block)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    if (t.dims[1] % (block * block) != 0) return dct_cannot(s, "its channels are no multiple of a block");
    t.dims[1] /= block * block;
    t.dims[2] *= block;
    t.dims[3] *= block;
    return dct_set_like(s, 0, t.type, &t);
}

bool dct_rule_space_to_depth(dct_shaping *s) {
    int64_t block;
    if (!block_of(s, &block)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    if (t.dims[2] % block != 0 || t.dims[3] % block != 0) return dct_cannot(s, "its image is no multiple of a block");
    t.dims[1] *= block * block;
    t.dims[2] /= block;
    t.dims[3] /= block;
    return dct_set_like(s, 0, t.type, &t);
}
