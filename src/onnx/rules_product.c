/* onnx/rules_product: products of matrices, windows that slide over images and signals, recurrences. */
#include <math.h>

#include "onnx/shape.h"

/* ---- products ---- */

/* What a product gives: sums of small integers are wider than these. Output type of an 8-bit product that is scaled again: of its
 * zero point. */
static uint32_t product_type(const dct_shaping *s) {
    const dct_onnx_tensor *in = dct_in(s, 0), *zero = s->code == 3 ? dct_in(s, 7) : NULL;
    if (zero != NULL) return zero->type;
    return s->code == 1 && (in->type == DCT_ONNX_U8 || in->type == DCT_ONNX_I8) ? DCT_ONNX_I32 : in->type;
}

/* The operand in two dimensions or more: a vector is a row on the left, a column on the right. */
static bool as_matrix(dct_shaping *s, const dct_onnx_tensor *in, bool on_left, dct_onnx_tensor *m) {
    if (in->n_dims == 0) return dct_cannot(s, "it multiplies a single number");
    *m = *in;
    if (in->n_dims > 1) return true;
    *m = (dct_onnx_tensor){.n_dims = 2, .dims = {on_left ? 1 : in->dims[0], on_left ? in->dims[0] : 1}};
    return true;
}

static void transpose_last(dct_onnx_tensor *m) {
    int64_t rows = m->dims[m->n_dims - 2];
    m->dims[m->n_dims - 2] = m->dims[m->n_dims - 1];
    m->dims[m->n_dims - 1] = rows;
}

bool dct_rule_matmul(dct_shaping *s) {
    uint32_t second = (uint32_t)s->code;
    if (!dct_need_in(s, second + 1)) return false;
    const dct_onnx_tensor *left = dct_in(s, 0), *right = dct_in(s, second);
    dct_onnx_tensor a, b;
    if (!as_matrix(s, left, true, &a) || !as_matrix(s, right, false, &b)) return false;
    if (left->n_dims > 1 && dct_attr_int(s, "transA", 0) != 0) transpose_last(&a);
    if (right->n_dims > 1 && dct_attr_int(s, "transB", 0) != 0) transpose_last(&b);
    int64_t rows = a.dims[a.n_dims - 2], inner = a.dims[a.n_dims - 1], cols = b.dims[b.n_dims - 1];
    if (inner != b.dims[b.n_dims - 2])
        return dct_cannot(s, "it multiplies %lld columns by %lld rows", (long long)inner, (long long)b.dims[b.n_dims - 2]);
    a.n_dims -= 2;
    b.n_dims -= 2;
    if (!dct_broadcast(s, &a, &b)) return false;
    if (left->n_dims > 1 && !dct_add_dim(s, &a, rows)) return false;
    if (right->n_dims > 1 && !dct_add_dim(s, &a, cols)) return false;
    return dct_set_like(s, 0, product_type(s), &a);
}

/* The right side is packed: attributes say that it is K rows of N. */
bool dct_rule_matmul_packed(dct_shaping *s) {
    if (!dct_need_dims(s, 0, 1)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    int64_t inner = dct_attr_int(s, "K", -1), cols = dct_attr_int(s, "N", -1);
    if (t.dims[t.n_dims - 1] != inner || cols < 0) return dct_cannot(s, "its input does not have the K columns that it needs");
    t.dims[t.n_dims - 1] = cols;
    return dct_set_like(s, 0, t.type, &t);
}

bool dct_rule_gemm(dct_shaping *s) {
    if (!dct_need_in(s, 2)) return false;
    const dct_onnx_tensor *a = dct_in(s, 0), *b = dct_in(s, 1);
    if (a->n_dims != 2 || b->n_dims != 2) return dct_cannot(s, "its operands have %u and %u dimensions", a->n_dims, b->n_dims);
    uint32_t ta = dct_attr_int(s, "transA", 0) != 0, tb = dct_attr_int(s, "transB", 0) != 0;
    if (a->dims[1 - ta] != b->dims[tb])
        return dct_cannot(s, "it multiplies %lld columns by %lld rows", (long long)a->dims[1 - ta], (long long)b->dims[tb]);
    dct_onnx_tensor t = {.n_dims = 2, .dims = {a->dims[ta], b->dims[1 - tb]}};
    return dct_set_like(s, 0, a->type, &t);
}

/* The sizes of the letters of an equation; 0: not met, so that a size of 0 is refused. */
static bool read_letters(dct_shaping *s, dct_str *text, uint32_t k, int64_t sizes[128]) {
    const dct_onnx_tensor *in = dct_in(s, k);
    uint32_t d = 0;
    while (text->len > 0 && *text->ptr != ',' && *text->ptr != '-') {
        unsigned char c = (unsigned char)*text->ptr++;
        text->len--;
        if (c == ' ') continue;
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter || d >= in->n_dims || in->dims[d] == 0 || (sizes[c] != 0 && sizes[c] != in->dims[d]))
            return dct_cannot(s, "its equation does not fit input %u", k);
        sizes[c] = in->dims[d++];
    }
    return d == in->n_dims || dct_cannot(s, "its equation does not fit input %u", k);
}

/* "bhid,bhjd->bhij"; without an arrow, or with dots, it is refused. */
bool dct_rule_einsum(dct_shaping *s) {
    const dct_onnx_attr *equation = dct_attr(s, "equation");
    int64_t sizes[128] = {0};
    if (equation == NULL || !dct_need_in(s, 1) || !dct_need_in(s, s->node->n_in)) return dct_cannot(s, "it has no equation");
    dct_str text = equation->s;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        if (!read_letters(s, &text, k, sizes)) return false;
        char next = k + 1 < s->node->n_in ? ',' : '-';
        if (text.len == 0 || *text.ptr != next) return dct_cannot(s, "its equation does not fit its inputs");
        text = (dct_str){text.ptr + 1, text.len - 1};
    }
    if (text.len == 0 || *text.ptr != '>') return dct_cannot(s, "its equation has no result");
    dct_onnx_tensor t = {.n_dims = 0};
    for (size_t i = 1; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == ' ') continue;
        if (c >= 128 || sizes[c] == 0) return dct_cannot(s, "its result has a dimension that no input has");
        if (!dct_add_dim(s, &t, sizes[c])) return false;
    }
    return dct_set_like(s, 0, dct_in(s, 0)->type, &t);
}

/* ---- windows ---- */

enum { MAX_SPATIAL = DCT_ONNX_MAX_DIMS - 2 };

/* A window along one dimension. */
typedef struct window {
    int64_t size, stride, dilation, before, after;
} window;

/* A list attribute of the window: `otherwise` where it is not given. */
static bool window_list(dct_shaping *s, const char *name, uint32_t n, int64_t least, int64_t otherwise, int64_t *out) {
    const dct_onnx_attr *attr = dct_attr(s, name);
    if (attr != NULL && attr->n_items != n) return dct_cannot(s, "%s has %u numbers, not %u", name, attr->n_items, n);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = attr != NULL ? attr->items[i].i : otherwise;
        if (out[i] < least || out[i] > INT32_MAX) return dct_cannot(s, "%s has %lld", name, (long long)out[i]);
    }
    return true;
}

/* The windows of all spatial dimensions; sizes are given by a weight where there is one. */
static bool find_windows(dct_shaping *s, uint32_t n, const int64_t *weight_sizes, window *w) {
    int64_t size[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pads[2 * MAX_SPATIAL];
    if (weight_sizes == NULL && dct_attr(s, "kernel_shape") == NULL) return dct_cannot(s, "it has no kernel_shape");
    if (!window_list(s, "kernel_shape", n, 1, 1, size) || !window_list(s, "strides", n, 1, 1, stride) ||
        !window_list(s, "dilations", n, 1, 1, dilation) || !window_list(s, "pads", 2 * n, 0, 0, pads)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (weight_sizes != NULL && (weight_sizes[i] < 1 || weight_sizes[i] > INT32_MAX))
            return dct_cannot(s, "its window has a size of %lld", (long long)weight_sizes[i]);
        w[i] = (window){weight_sizes != NULL ? weight_sizes[i] : size[i], stride[i], dilation[i], pads[i], pads[n + i]};
        if (dct_attr_is(s, "auto_pad", "VALID")) w[i].before = w[i].after = 0;
    }
    return true;
}

static bool pads_to_same(const dct_shaping *s) {
    return dct_attr_is(s, "auto_pad", "SAME_UPPER") || dct_attr_is(s, "auto_pad", "SAME_LOWER");
}

static int64_t reach(const window *w) { return (w->size - 1) * w->dilation + 1; }

/* How often the window stands in `dim`. With `ceil`, also where it stands out at the end, but not where it begins there. */
static bool slide(dct_shaping *s, const window *w, int64_t dim, bool ceil, int64_t *out) {
    if (pads_to_same(s)) {
        *out = dim / w->stride + (dim % w->stride != 0);
        return true;
    }
    int64_t span = dim + w->before + w->after - reach(w);
    if (span < 0) return dct_cannot(s, "a window of %lld in %lld", (long long)reach(w), (long long)(dim + w->before + w->after));
    *out = span / w->stride + 1;
    if (ceil && span % w->stride != 0 && *out * w->stride < dim + w->before) ++*out;
    return true;
}

/* Dimensions 2.. of t, which are those of the input, as windows over them make them. */
static bool slide_all(dct_shaping *s, const window *w, bool ceil, dct_onnx_tensor *t) {
    for (uint32_t i = 2; i < t->n_dims; i++) {
        if (!slide(s, &w[i - 2], t->dims[i], ceil, &t->dims[i])) return false;
    }
    return true;
}

bool dct_rule_conv(dct_shaping *s) {
    uint32_t second = (uint32_t)s->code;
    window w[MAX_SPATIAL];
    if (!dct_need_dims(s, 0, 3) || !dct_need_dims(s, second, 3)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *weight = dct_in(s, second);
    int64_t group = dct_attr_int(s, "group", 1);
    if (weight->n_dims != in->n_dims)
        return dct_cannot(s, "its weight has %u dimensions, its input %u", weight->n_dims, in->n_dims);
    if (group < 1 || in->dims[1] % group != 0 || in->dims[1] / group != weight->dims[1]) {
        return dct_cannot(s, "%lld channels in %lld groups do not fit a weight for %lld", (long long)in->dims[1],
                          (long long)group, (long long)weight->dims[1]);
    }
    dct_onnx_tensor t = *in;
    t.dims[1] = weight->dims[0];
    return find_windows(s, in->n_dims - 2, &weight->dims[2], w) && slide_all(s, w, false, &t) &&
           dct_set_like(s, 0, product_type(s), &t);
}

bool dct_rule_conv_transpose(dct_shaping *s) {
    window w[MAX_SPATIAL];
    int64_t extra[MAX_SPATIAL];
    if (!dct_need_dims(s, 0, 3) || !dct_need_dims(s, 1, 3)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *weight = dct_in(s, 1);
    const dct_onnx_attr *wanted = dct_attr(s, "output_shape");
    uint32_t n = in->n_dims - 2;
    int64_t group = dct_attr_int(s, "group", 1);
    if (weight->n_dims != in->n_dims || weight->dims[0] != in->dims[1] || group < 1 || group > INT32_MAX)
        return dct_cannot(s, "its weight does not fit its input");
    if (wanted != NULL && wanted->n_items != n) return dct_cannot(s, "output_shape has %u numbers, not %u", wanted->n_items, n);
    if (!find_windows(s, n, &weight->dims[2], w) || !window_list(s, "output_padding", n, 0, 0, extra)) return false;
    dct_onnx_tensor t = {.n_dims = 0};
    if (!dct_add_dim(s, &t, in->dims[0]) || weight->dims[1] > INT32_MAX || !dct_add_dim(s, &t, weight->dims[1] * group))
        return dct_cannot(s, "its output is too large");
    for (uint32_t i = 0; i < n; i++) {
        if (in->dims[2 + i] > INT32_MAX) return dct_cannot(s, "its input is too large");
        int64_t size = w[i].stride * (in->dims[2 + i] - 1) + extra[i] + reach(&w[i]) - w[i].before - w[i].after;
        if (wanted != NULL) size = wanted->items[i].i;
        else if (pads_to_same(s)) size = in->dims[2 + i] * w[i].stride;
        if (!dct_add_dim(s, &t, size)) return false;
    }
    return dct_set_like(s, 0, in->type, &t);
}

bool dct_rule_pool(dct_shaping *s) {
    window w[MAX_SPATIAL];
    if (!dct_need_dims(s, 0, 3)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    return find_windows(s, t.n_dims - 2, NULL, w) && slide_all(s, w, dct_attr_int(s, "ceil_mode", 0) != 0, &t) &&
           dct_set_like(s, 0, t.type, &t) && dct_set_like(s, 1, DCT_ONNX_I64, &t);
}

bool dct_rule_global_pool(dct_shaping *s) {
    if (!dct_need_dims(s, 0, 2)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    for (uint32_t i = 2; i < t.n_dims; i++) t.dims[i] = 1;
    return dct_set_like(s, 0, t.type, &t);
}

/* ---- resize ---- */

/* Factors by dimension, in an input or, in the oldest files, an attribute; NULL when there are none. */
static const dct_onnx_item *find_scales(const dct_shaping *s, uint32_t k, uint64_t *n) {
    const dct_onnx_tensor *in = dct_in(s, k);
    const dct_onnx_attr *attr = dct_attr(s, "scales");
    *n = 0;
    if (in != NULL && in->items != NULL && dct_onnx_is_float(in->type) && dct_onnx_count(in, n)) return in->items;
    if (attr == NULL) return NULL;
    *n = attr->n_items;
    return attr->items;
}

/* The dimension that number k of the sizes or scales is of. */
static uint32_t resized(const dct_onnx_attr *axes, uint32_t k, uint32_t n_dims) {
    int64_t axis = axes != NULL ? axes->items[k].i : k; /* was checked */
    return (uint32_t)(axis < 0 ? axis + n_dims : axis);
}

static bool scale(dct_shaping *s, const dct_onnx_item *scales, const dct_onnx_attr *axes, uint32_t n, dct_onnx_tensor *t) {
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = resized(axes, k, t->n_dims);
        double size = floor((double)((float)t->dims[i] * (float)scales[k].f)); /* in floats, as runtimes do */
        if (!(size >= 0 && size < 0x1p48)) return dct_cannot(s, "it scales dimension %u by a senseless factor", i);
        t->dims[i] = (int64_t)size;
    }
    return true;
}

static bool resize_to(dct_shaping *s, const dct_onnx_item *sizes, const dct_onnx_attr *axes, uint32_t n, dct_onnx_tensor *t) {
    const dct_onnx_attr *policy = dct_attr(s, "keep_aspect_ratio_policy");
    if (policy != NULL && !dct_str_eq_z(policy->s, "stretch")) return dct_cannot(s, "it keeps the aspect ratio");
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = resized(axes, k, t->n_dims);
        t->dims[i] = sizes[k].i;
        if (t->dims[i] < 0) return dct_cannot(s, "dimension %u of its output would be %lld", i, (long long)t->dims[i]);
    }
    return true;
}

/* X, region, scales, sizes; before version 11, X and scales. Only some axes, where these are given. */
bool dct_rule_resize(dct_shaping *s) {
    const dct_onnx_item *sizes;
    uint32_t n_sizes;
    uint64_t n_scales;
    bool is_once[DCT_ONNX_MAX_DIMS];
    if (!dct_need_in(s, 1)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    const dct_onnx_attr *axes = dct_attr(s, "axes");
    if (axes != NULL && !dct_axes(s, axes->items, axes->n_items, t.n_dims, is_once)) return false;
    uint32_t n = axes != NULL ? axes->n_items : t.n_dims;
    if (!dct_ints(s, 3, NULL, &sizes, &n_sizes)) return false;
    const dct_onnx_item *scales = find_scales(s, s->node->n_in > 2 ? 2 : 1, &n_scales);
    if (sizes != NULL && n_sizes > 0) {
        if (n_sizes != n) return dct_cannot(s, "%u sizes for %u dimensions", n_sizes, n);
        if (!resize_to(s, sizes, axes, n, &t)) return false;
    } else {
        if (scales == NULL || n_scales != n)
            return dct_cannot(s, "its scales are not known before it runs, or are not as many as its dimensions");
        if (!scale(s, scales, axes, n, &t)) return false;
    }
    return dct_set_like(s, 0, t.type, &t);
}

/* [N, C, ...] read at the points of a grid [N, ..., as many as a point has numbers]. */
bool dct_rule_grid_sample(dct_shaping *s) {
    if (!dct_need_dims(s, 0, 3) || !dct_need_dims(s, 1, 3)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *grid = dct_in(s, 1);
    if (grid->n_dims != in->n_dims || grid->dims[0] != in->dims[0]) return dct_cannot(s, "its grid does not fit its input");
    dct_onnx_tensor t = *in;
    for (uint32_t i = 2; i < t.n_dims; i++) t.dims[i] = grid->dims[i - 1];
    return dct_set_like(s, 0, t.type, &t);
}

/* ---- recurrences ---- */

/* X [steps, batch, size], W [directions, gates * hidden, size]; with layout 1 the batch comes first. Outputs: all states, the
 * last one, and the last cell. */
bool dct_rule_recurrent(dct_shaping *s) {
    if (!dct_need_in(s, 3)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *weight = dct_in(s, 1);
    if (in->n_dims != 3 || weight->n_dims != 3 || weight->dims[1] % s->code != 0 || weight->dims[2] != in->dims[2])
        return dct_cannot(s, "its weights do not fit its input");
    bool batch_first = dct_attr_int(s, "layout", 0) != 0;
    int64_t hidden = weight->dims[1] / s->code, ways = weight->dims[0];
    int64_t steps = in->dims[batch_first ? 1 : 0], batch = in->dims[batch_first ? 0 : 1];
    dct_onnx_tensor all = {.n_dims = 4, .dims = {steps, ways, batch, hidden}};
    dct_onnx_tensor last = {.n_dims = 3, .dims = {ways, batch, hidden}};
    if (batch_first) {
        all = (dct_onnx_tensor){.n_dims = 4, .dims = {batch, steps, ways, hidden}};
        last = (dct_onnx_tensor){.n_dims = 3, .dims = {batch, ways, hidden}};
    }
    return dct_set_like(s, 0, in->type, &all) && dct_set_like(s, 1, in->type, &last) &&
           dct_set_like(s, 2, in->type, &last);
}
