/* onnx/fold: arithmetic on elements that are known before anything runs. Integers wrap as machines' do. */
#include <math.h>

#include "onnx/shape.h"

/* The bits of an integer type; the rest is cut off. */
static int64_t narrow(uint32_t type, int64_t v) {
    switch (type) {
    case DCT_ONNX_U8: return (uint8_t)v;
    case DCT_ONNX_I8: return (int8_t)v;
    case DCT_ONNX_U16: return (uint16_t)v;
    case DCT_ONNX_I16: return (int16_t)v;
    case DCT_ONNX_I32: return (int32_t)v;
    case DCT_ONNX_U32: return (uint32_t)v;
    case DCT_ONNX_BOOL: return v != 0;
    default: return v;
    }
}

bool dct_fold_cast(uint32_t from, uint32_t to, dct_onnx_item a, dct_onnx_item *out) {
    if (dct_onnx_is_float(to)) {
        double f = dct_onnx_is_float(from) ? a.f : (double)a.i;
        *out = (dct_onnx_item){.f = to == DCT_ONNX_F32 ? (double)(float)f : f};
        return to == DCT_ONNX_F32 || to == DCT_ONNX_F64; /* halves would have to be rounded */
    }
    if (!dct_onnx_is_float(from)) {
        *out = (dct_onnx_item){.i = narrow(to, a.i)};
        return true;
    }
    if (!(fabs(a.f) < 0x1p62)) return false;
    *out = (dct_onnx_item){.i = to == DCT_ONNX_BOOL ? a.f != 0 : narrow(to, (int64_t)a.f)};
    return true;
}

static int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t wrap_neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

static bool power(int64_t a, int64_t b, int64_t *out) {
    if (b < 0 || b > 64) return false;
    for (*out = 1; b > 0; b--) *out = wrap_mul(*out, a);
    return true;
}

/* Of Python's sign: that of b. */
static bool modulo(int64_t a, int64_t b, int64_t *out) {
    if (b == 0) return false;
    *out = b == -1 ? 0 : a % b;
    if (*out != 0 && (*out < 0) != (b < 0)) *out += b;
    return true;
}

static bool fold_int(int code, int64_t a, int64_t b, int64_t *out) {
    switch (code) {
    case DCT_DO_ADD: *out = (int64_t)((uint64_t)a + (uint64_t)b); return true;
    case DCT_DO_SUB: *out = (int64_t)((uint64_t)a - (uint64_t)b); return true;
    case DCT_DO_MUL: *out = wrap_mul(a, b); return true;
    case DCT_DO_DIV:
        if (b == 0) return false;
        *out = b == -1 ? wrap_neg(a) : a / b;
        return true;
    case DCT_DO_MOD: return modulo(a, b, out);
    case DCT_DO_POW: return power(a, b, out);
    case DCT_DO_MIN: *out = a < b ? a : b; return true;
    case DCT_DO_MAX: *out = a > b ? a : b; return true;
    case DCT_DO_EQUAL: *out = a == b; return true;
    case DCT_DO_LESS: *out = a < b; return true;
    case DCT_DO_LESS_EQUAL: *out = a <= b; return true;
    case DCT_DO_GREATER: *out = a > b; return true;
    case DCT_DO_GREATER_EQUAL: *out = a >= b; return true;
    case DCT_DO_AND: *out = a != 0 && b != 0; return true;
    case DCT_DO_OR: *out = a != 0 || b != 0; return true;
    case DCT_DO_XOR: *out = (a != 0) != (b != 0); return true;
    case DCT_DO_NEG: *out = wrap_neg(a); return true;
    case DCT_DO_ABS: *out = a < 0 ? wrap_neg(a) : a; return true;
    case DCT_DO_NOT: *out = a == 0; return true;
    case DCT_DO_COPY: case DCT_DO_FLOOR: case DCT_DO_CEIL: case DCT_DO_ROUND: *out = a; return true;
    default: return false;
    }
}

static bool fold_float(int code, double a, double b, dct_onnx_item *out) {
    switch (code) {
    case DCT_DO_ADD: out->f = a + b; return true;
    case DCT_DO_SUB: out->f = a - b; return true;
    case DCT_DO_MUL: out->f = a * b; return true;
    case DCT_DO_DIV: out->f = a / b; return b != 0;
    case DCT_DO_POW: out->f = pow(a, b); return true;
    case DCT_DO_MIN: out->f = fmin(a, b); return true;
    case DCT_DO_MAX: out->f = fmax(a, b); return true;
    case DCT_DO_EQUAL: out->i = a == b; return true;
    case DCT_DO_LESS: out->i = a < b; return true;
    case DCT_DO_LESS_EQUAL: out->i = a <= b; return true;
    case DCT_DO_GREATER: out->i = a > b; return true;
    case DCT_DO_GREATER_EQUAL: out->i = a >= b; return true;
    case DCT_DO_NEG: out->f = -a; return true;
    case DCT_DO_ABS: out->f = fabs(a); return true;
    case DCT_DO_FLOOR: out->f = floor(a); return true;
    case DCT_DO_CEIL: out->f = ceil(a); return true;
    case DCT_DO_ROUND: out->f = nearbyint(a); return true; /* to even, which is the mode that every process begins in */
    case DCT_DO_SQRT: out->f = sqrt(a); return true;
    case DCT_DO_COPY: out->f = a; return true;
    default: return false;
    }
}

static bool gives_bool(int code) { return code >= DCT_DO_EQUAL && code <= DCT_DO_XOR; }

bool dct_fold_op(int code, uint32_t type, dct_onnx_item a, dct_onnx_item b, dct_onnx_item *out) {
    if (!dct_onnx_is_float(type)) {
        if (!fold_int(code, a.i, b.i, &out->i)) return false;
        if (!gives_bool(code)) out->i = narrow(type, out->i);
        return true;
    }
    if (!fold_float(code, a.f, b.f, out)) return false;
    if (type == DCT_ONNX_F32 && !gives_bool(code)) out->f = (double)(float)out->f;
    return true;
}

/* ---- views ---- */

void dct_strides(const dct_onnx_tensor *t, int64_t strides[DCT_ONNX_MAX_DIMS]) {
    int64_t stride = 1;
    for (uint32_t i = t->n_dims; i > 0; i--) {
        strides[i - 1] = stride;
        stride *= t->dims[i - 1];
    }
}

dct_onnx_item *dct_new_items(dct_shaping *s, const dct_onnx_tensor *t) {
    uint64_t n;
    if (!dct_onnx_count(t, &n) || n > DCT_ONNX_MAX_ITEMS) return NULL;
    dct_onnx_item *items = dct_arena_array(s->arena, n, sizeof *items);
    if (items == NULL) s->no_memory = true;
    return items;
}

void dct_fold_strided(dct_shaping *s, const dct_onnx_item *in, int64_t from, const int64_t *strides, dct_onnx_tensor *t) {
    int64_t at[DCT_ONNX_MAX_DIMS] = {0};
    uint64_t n;
    dct_onnx_item *items = in != NULL ? dct_new_items(s, t) : NULL;
    if (items == NULL || !dct_onnx_count(t, &n)) return;
    for (uint64_t i = 0; i < n; i++) {
        items[i] = in[from];
        for (uint32_t d = t->n_dims; d-- > 0;) { /* as an odometer */
            from += strides[d];
            if (++at[d] < t->dims[d]) break;
            from -= at[d] * strides[d];
            at[d] = 0;
        }
    }
    t->items = items;
}

/* How far apart elements of `in` lie for the dimensions of t, to which it is broadcast. */
static void broadcast_strides(const dct_onnx_tensor *in, const dct_onnx_tensor *t, int64_t strides[DCT_ONNX_MAX_DIMS]) {
    int64_t own[DCT_ONNX_MAX_DIMS];
    dct_strides(in, own);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint32_t at = i + in->n_dims - t->n_dims; /* wraps where t has more dimensions: then it is no dimension of `in` */
        strides[i] = i + in->n_dims < t->n_dims || in->dims[at] == 1 ? 0 : own[at];
    }
}

const dct_onnx_item *dct_spread(dct_shaping *s, const dct_onnx_tensor *in, const dct_onnx_tensor *t) {
    int64_t strides[DCT_ONNX_MAX_DIMS];
    dct_onnx_tensor like = *t;
    like.items = NULL;
    broadcast_strides(in, t, strides);
    dct_fold_strided(s, in->items, 0, strides, &like);
    return like.items;
}
