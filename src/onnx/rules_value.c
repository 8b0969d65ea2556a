/* onnx/rules_value: operators that work element by element, constants, and what shapes say. */
#include "onnx/shape.h"

/* ---- one input ---- */

/* Output 0 is as input 0. What else it gives (the means of a normalisation in training) has no rule. */
bool dct_rule_same(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    const dct_onnx_item *in = t.items;
    t.items = NULL;
    dct_onnx_item *items = in != NULL && s->code != DCT_DO_NOTHING ? dct_new_items(s, &t) : NULL;
    uint64_t n = 0;
    bool known = items != NULL && dct_onnx_count(&t, &n);
    for (uint64_t i = 0; known && i < n; i++) known = dct_fold_op(s->code, t.type, in[i], in[i], &items[i]);
    if (known) t.items = items;
    return dct_set(s, 0, &t);
}

bool dct_rule_to_bool(dct_shaping *s) { return dct_need_in(s, 1) && dct_set_like(s, 0, DCT_ONNX_BOOL, dct_in(s, 0)); }

bool dct_rule_cast(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0), *like = dct_in(s, 1);
    int64_t to = like != NULL ? (int64_t)like->type : dct_attr_int(s, "to", 0);
    if (to <= 0 || to > UINT16_MAX) return dct_cannot(s, "it has no type to cast to");
    dct_onnx_tensor t = *in;
    t.type = (uint32_t)to;
    t.items = NULL;
    dct_onnx_item *items = in->items != NULL ? dct_new_items(s, &t) : NULL;
    uint64_t n = 0;
    bool known = items != NULL && dct_onnx_count(&t, &n);
    for (uint64_t i = 0; known && i < n; i++) known = dct_fold_cast(in->type, t.type, in->items[i], &items[i]);
    if (known) t.items = items;
    return dct_set(s, 0, &t);
}

bool dct_rule_dropout(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    return dct_set(s, 0, dct_in(s, 0)) && dct_set_like(s, 1, DCT_ONNX_BOOL, dct_in(s, 0));
}

/* Output 0 as input 0; mean and deviation, where they are wanted, have 1 in the dimensions that are normalised. */
bool dct_rule_layer_norm(dct_shaping *s) {
    uint32_t axis;
    if (!dct_need_dims(s, 0, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    dct_onnx_tensor stat = *in;
    if (!dct_axis(s, dct_attr_int(s, "axis", -1), in->n_dims, &axis)) return false;
    for (uint32_t i = axis; i < stat.n_dims; i++) stat.dims[i] = 1;
    return dct_set_like(s, 0, in->type, in) && dct_set_like(s, 1, DCT_ONNX_F32, &stat) && dct_set_like(s, 2, DCT_ONNX_F32, &stat);
}

/* A sum that is normalised: the last output is the sum itself; those between say nothing at inference. */
bool dct_rule_skip_norm(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    return dct_set_like(s, 0, in->type, in) && dct_set_like(s, 3, in->type, in);
}

/* ---- quantisation ---- */

bool dct_rule_quantize(dct_shaping *s) {
    if (!dct_need_in(s, 2)) return false;
    const dct_onnx_tensor *zero = dct_in(s, 2);
    int64_t type = zero != NULL ? (int64_t)zero->type : dct_attr_int(s, "output_dtype", 0);
    return dct_set_like(s, 0, type <= 0 || type > UINT16_MAX ? DCT_ONNX_U8 : (uint32_t)type, dct_in(s, 0));
}

bool dct_rule_dequantize(dct_shaping *s) {
    return dct_need_in(s, 2) && dct_set_like(s, 0, dct_in(s, 1)->type, dct_in(s, 0));
}

bool dct_rule_dynamic_quantize(dct_shaping *s) {
    static const dct_onnx_tensor scalar = {.n_dims = 0};
    return dct_need_in(s, 1) && dct_set_like(s, 0, DCT_ONNX_U8, dct_in(s, 0)) && dct_set_like(s, 1, DCT_ONNX_F32, &scalar) &&
           dct_set_like(s, 2, DCT_ONNX_U8, &scalar);
}

/* a, its scale and zero point, b, its own: the shape is that of a and b. */
bool dct_rule_quantized_binary(dct_shaping *s) {
    if (!dct_need_in(s, 5)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    return dct_broadcast(s, &t, dct_in(s, 3)) && dct_set_like(s, 0, t.type, &t);
}

/* ---- several inputs ---- */

/* The elements of t from those of all inputs, two at a time; an exponent may be of another type than its base. */
static void fold_all(dct_shaping *s, uint32_t type, dct_onnx_tensor *t) {
    uint64_t n;
    dct_onnx_item *items = s->code != DCT_DO_NOTHING ? dct_new_items(s, t) : NULL;
    if (items == NULL || !dct_onnx_count(t, &n) || dct_attr_int(s, "fmod", 0) != 0) return;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const dct_onnx_item *in = dct_in(s, k) != NULL ? dct_spread(s, dct_in(s, k), t) : NULL;
        if (in == NULL) return;
        uint32_t in_type = dct_in(s, k)->type;
        bool is_alike = in_type == type;
        if (!is_alike && !dct_onnx_is_float(type) && dct_onnx_is_float(in_type)) return; /* a fraction would be cut off */
        for (uint64_t i = 0; i < n; i++) {
            dct_onnx_item item = in[i];
            if (!is_alike && !dct_fold_cast(in_type, type, in[i], &item)) return;
            if (k == 0) items[i] = item;
            else if (!dct_fold_op(s->code, type, items[i], item, &items[i])) return;
        }
    }
    t->items = items;
}

static bool combine(dct_shaping *s, uint32_t type) {
    if (!dct_need_in(s, 1)) return false;
    dct_onnx_tensor t = *dct_in(s, 0);
    uint32_t in_type = t.type;
    for (uint32_t k = 1; k < s->node->n_in; k++) {
        if (dct_in(s, k) != NULL && !dct_broadcast(s, &t, dct_in(s, k))) return false;
    }
    t.type = type != 0 ? type : in_type;
    t.items = NULL;
    fold_all(s, in_type, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_arithmetic(dct_shaping *s) { return combine(s, 0); }
bool dct_rule_compare(dct_shaping *s) { return dct_need_in(s, 2) && combine(s, DCT_ONNX_BOOL); }

bool dct_rule_where(dct_shaping *s) {
    if (!dct_need_in(s, 3)) return false;
    dct_onnx_tensor t = *dct_in(s, 1);
    if (!dct_broadcast(s, &t, dct_in(s, 0)) || !dct_broadcast(s, &t, dct_in(s, 2))) return false;
    t.items = NULL;
    const dct_onnx_item *in[3];
    for (uint32_t k = 0; k < 3; k++) in[k] = dct_spread(s, dct_in(s, k), &t);
    uint64_t n = 0;
    dct_onnx_item *items = in[0] != NULL && in[1] != NULL && in[2] != NULL ? dct_new_items(s, &t) : NULL;
    if (items != NULL && dct_onnx_count(&t, &n)) t.items = items;
    for (uint64_t i = 0; i < n; i++) items[i] = in[in[0][i].i != 0 ? 1 : 2][i];
    return dct_set(s, 0, &t);
}

/* ---- constants ---- */

static bool constant_list(dct_shaping *s, uint32_t type, const dct_onnx_item *items, uint32_t n) {
    dct_onnx_tensor t = {.type = type, .n_dims = 1, .dims = {n}, .items = items};
    if (n == 0) t.items = dct_new_items(s, &t); /* known: there are none */
    return t.items != NULL && dct_set(s, 0, &t);
}

bool dct_rule_constant(dct_shaping *s) {
    const dct_onnx_attr *attr = s->node->n_attrs > 0 ? &s->node->attrs[0] : NULL;
    if (attr == NULL) return dct_cannot(s, "it has no value");
    if (dct_str_eq_z(attr->name, "value")) return dct_set(s, 0, &attr->tensor);
    if (dct_str_eq_z(attr->name, "value_ints")) return constant_list(s, DCT_ONNX_I64, attr->items, attr->n_items);
    if (dct_str_eq_z(attr->name, "value_floats")) return constant_list(s, DCT_ONNX_F32, attr->items, attr->n_items);
    dct_onnx_tensor t = {.n_dims = 0};
    dct_onnx_item *item = dct_new_items(s, &t);
    if (item == NULL) return false;
    t.items = item;
    if (dct_str_eq_z(attr->name, "value_int")) {
        t.type = DCT_ONNX_I64;
        item->i = attr->i;
        return dct_set(s, 0, &t);
    }
    if (dct_str_eq_z(attr->name, "value_float")) {
        t.type = DCT_ONNX_F32;
        item->f = (double)attr->f;
        return dct_set(s, 0, &t);
    }
    return dct_cannot(s, "attribute '%s' is no value that can be planned", dct_onnx_quote(attr->name).text);
}

bool dct_rule_constant_of_shape(dct_shaping *s) {
    const dct_onnx_item *dims;
    uint32_t n_dims;
    if (!dct_need_in(s, 1) || !dct_ints(s, 0, NULL, &dims, &n_dims)) return false;
    const dct_onnx_attr *value = dct_attr(s, "value");
    dct_onnx_tensor t = {.type = value != NULL ? value->tensor.type : DCT_ONNX_F32};
    if (!dct_add_listed(s, &t, dims, n_dims)) return false;
    uint64_t n = 1;
    if (value != NULL && (!dct_onnx_count(&value->tensor, &n) || n != 1)) return dct_cannot(s, "its value is not one element");
    static const dct_onnx_item zero = {0}; /* of integers and floats alike */
    static const int64_t still[DCT_ONNX_MAX_DIMS];
    dct_fold_strided(s, value != NULL ? value->tensor.items : &zero, 0, still, &t);
    return dct_set(s, 0, &t);
}

bool dct_rule_random(dct_shaping *s) {
    const dct_onnx_attr *shape = dct_attr(s, "shape");
    int64_t type = dct_attr_int(s, "dtype", DCT_ONNX_F32);
    if (shape == NULL || type <= 0 || type > UINT16_MAX) return dct_cannot(s, "it has no shape, or no type");
    dct_onnx_tensor t = {.type = (uint32_t)type};
    return dct_add_listed(s, &t, shape->items, shape->n_items) && dct_set(s, 0, &t);
}

/* How many numbers a range has; false when that is not known, or senseless. */
static bool range_count(const dct_onnx_tensor *from, const dct_onnx_tensor *to, const dct_onnx_tensor *step, int64_t *n) {
    if (from->items == NULL || to->items == NULL || step->items == NULL) return false;
    dct_onnx_item a = from->items[0], b = to->items[0], d = step->items[0];
    bool is_float = dct_onnx_is_float(from->type);
    double first = is_float ? a.f : (double)a.i, last = is_float ? b.f : (double)b.i, by = is_float ? d.f : (double)d.i;
    double count = (last - first) / by;
    if (!(count < 0x1p48)) return false;
    *n = count <= 0 ? 0 : (int64_t)count + (count > (double)(int64_t)count);
    return true;
}

bool dct_rule_range(dct_shaping *s) {
    if (!dct_need_in(s, 3)) return false;
    const dct_onnx_tensor *from = dct_in(s, 0), *step = dct_in(s, 2);
    uint64_t one[3] = {0};
    for (uint32_t k = 0; k < 3; k++) {
        if (!dct_onnx_count(dct_in(s, k), &one[k]) || one[k] != 1 || dct_in(s, k)->type != from->type)
            return dct_cannot(s, "input %u is no number of the type of the others", k);
    }
    dct_onnx_tensor t = {.type = from->type, .n_dims = 1};
    if (!range_count(from, dct_in(s, 1), step, &t.dims[0])) return dct_cannot(s, "its length is not known before it runs");
    dct_onnx_item *items = dct_onnx_is_float(t.type) ? NULL : dct_new_items(s, &t);
    for (int64_t i = 0; items != NULL && i < t.dims[0]; i++)
        items[i].i = (int64_t)((uint64_t)from->items->i + (uint64_t)i * (uint64_t)step->items->i);
    t.items = items;
    return dct_set(s, 0, &t);
}

bool dct_rule_shape(dct_shaping *s) {
    if (!dct_need_in(s, 1)) return false;
    const dct_onnx_tensor *in = dct_in(s, 0);
    int64_t n = in->n_dims, from = dct_attr_int(s, "start", 0), to = dct_attr_int(s, "end", n);
    from = dct_clamp(from < 0 ? from + n : from, 0, n);
    to = dct_clamp(to < 0 ? to + n : to, from, n);
    dct_onnx_tensor t = {.type = DCT_ONNX_I64, .n_dims = 1, .dims = {to - from}};
    dct_onnx_item *items = dct_new_items(s, &t);
    if (items == NULL) return false;
    for (int64_t i = from; i < to; i++) items[i - from].i = in->dims[i];
    t.items = items;
    return dct_set(s, 0, &t);
}

bool dct_rule_size(dct_shaping *s) {
    uint64_t n;
    if (!dct_need_in(s, 1)) return false;
    if (!dct_onnx_count(dct_in(s, 0), &n)) return dct_cannot(s, "its input has no size");
    dct_onnx_tensor t = {.type = DCT_ONNX_I64};
    dct_onnx_item *items = dct_new_items(s, &t);
    if (items == NULL) return false;
    items->i = (int64_t)n;
    t.items = items;
    return dct_set(s, 0, &t);
}
