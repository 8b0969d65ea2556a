/* onnx/read_tensor: a tensor of the file: its type and dimensions, and the elements of small ones. Large ones are passed over, so
 * weights cost nothing but their names.
 */
#include <string.h>

#include "base/half.h"
#include "onnx/wire.h"

typedef unsigned long long ull;

enum { RAW_BYTES = 8 * DCT_ONNX_MAX_ITEMS };

typedef struct tensor_parts {
    dct_str name;
    int64_t type;
    dct_list dims, items;
    uint32_t items_tag;      /* the field that the items are of */
    const uint8_t *raw;      /* NULL: none, or too many to look into */
    uint64_t raw_bytes;
    bool is_external, is_cut;
} tensor_parts;

static bool read_typed(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, dct_wire_kind kind, tensor_parts *t) {
    if (t->items_tag != 0 && t->items_tag != tag) return dct_wire_fail(w, "a tensor has data of two types");
    t->items_tag = tag;
    return dct_wire_items(w, s, wire, kind, DCT_ONNX_MAX_ITEMS, &t->items);
}

static bool read_tensor_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    tensor_parts *t = into;
    int64_t location;
    switch (tag) {
    case 1: return dct_wire_items(w, s, wire, DCT_WIRE_VARINTS, DCT_ONNX_MAX_DIMS, &t->dims);
    case 2: return dct_wire_number(w, s, wire, &t->type);
    case 3: t->is_cut = true; return dct_wire_skip(w, s, wire);
    case 4: return read_typed(w, s, tag, wire, DCT_WIRE_FLOATS, t);
    case 5: case 7: case 11: return read_typed(w, s, tag, wire, DCT_WIRE_VARINTS, t);
    case 8: return dct_wire_text(w, s, wire, &t->name);
    case 9: return dct_wire_bytes(w, s, wire, RAW_BYTES, &t->raw, &t->raw_bytes);
    case 10: return read_typed(w, s, tag, wire, DCT_WIRE_DOUBLES, t);
    case 14:
        if (!dct_wire_number(w, s, wire, &location)) return false;
        t->is_external = location == 1;
        return true;
    default: return dct_wire_skip(w, s, wire);
    }
}

/* An element of raw data: little-endian, as the format has it. */
static dct_onnx_item item_of_bits(uint32_t type, uint64_t bits) {
    double f64;
    switch (type) {
    case DCT_ONNX_F32: return (dct_onnx_item){.f = (double)dct_f32_of_bits((uint32_t)bits)};
    case DCT_ONNX_F16: return (dct_onnx_item){.f = (double)dct_f32_of_f16((uint16_t)bits)};
    case DCT_ONNX_BF16: return (dct_onnx_item){.f = (double)dct_f32_of_bf16((uint16_t)bits)};
    case DCT_ONNX_F64: memcpy(&f64, &bits, sizeof f64); return (dct_onnx_item){.f = f64};
    case DCT_ONNX_I8: return (dct_onnx_item){.i = (int8_t)bits};
    case DCT_ONNX_I16: return (dct_onnx_item){.i = (int16_t)bits};
    case DCT_ONNX_I32: return (dct_onnx_item){.i = (int32_t)bits};
    default: return (dct_onnx_item){.i = (int64_t)bits};
    }
}

static bool is_readable(uint32_t type) {
    return dct_onnx_type_bits(type) >= 8 && type != DCT_ONNX_STRING && (type <= DCT_ONNX_U64 || type == DCT_ONNX_BF16);
}

static bool items_of_raw(dct_wire *w, const tensor_parts *p, uint32_t n, dct_onnx_tensor *t) {
    dct_onnx_item *items = dct_arena_array(w->arena, n, sizeof *items);
    if (items == NULL) return dct_wire_fail_memory(w);
    uint32_t width = dct_onnx_type_bits(t->type) / 8;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        for (uint32_t k = 0; k < width; k++) bits |= (uint64_t)p->raw[i * width + k] << 8 * k;
        items[i] = item_of_bits(t->type, bits);
    }
    t->items = items;
    return true;
}

/* Halves are written as integers in the typed field. */
static void items_of_typed(const tensor_parts *p, uint32_t n, dct_onnx_tensor *t) {
    bool are_floats = p->items_tag == 4 || p->items_tag == 10;
    dct_onnx_item *items = p->items.items;
    if (are_floats != dct_onnx_is_float(t->type)) {
        if (are_floats || t->type == DCT_ONNX_F32 || t->type == DCT_ONNX_F64) return;
        for (uint32_t i = 0; i < n; i++) items[i] = item_of_bits(t->type, (uint64_t)items[i].i);
    }
    t->items = items;
}

static bool finish_tensor(dct_wire *w, const tensor_parts *p, dct_onnx_tensor *t) {
    const dct_onnx_item *dims = p->dims.items;
    uint64_t n, bytes;
    dct_onnx_quoted name = dct_onnx_quote(p->name);
    if (p->is_cut) return dct_wire_fail(w, "tensor '%s' is a segment, which is not supported", name.text);
    if (p->dims.n > DCT_ONNX_MAX_DIMS)
        return dct_wire_fail(w, "tensor '%s' has more than %d dimensions", name.text, DCT_ONNX_MAX_DIMS);
    *t = (dct_onnx_tensor){.n_dims = p->dims.n};
    if (p->type > 0 && p->type < UINT32_MAX) t->type = (uint32_t)p->type;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        t->dims[i] = dims[i].i;
        if (t->dims[i] < 0) return dct_wire_fail(w, "tensor '%s': dimension %u is %lld", name.text, i, (long long)t->dims[i]);
    }
    if (t->type == DCT_ONNX_STRING) return true; /* a node that reads it says so */
    if (!dct_onnx_bytes(t, &bytes) || !dct_onnx_count(t, &n)) {
        return dct_wire_fail(w, "tensor '%s': its type (%u) is not known, or it has more bytes than there can be", name.text,
                             t->type);
    }
    if (p->is_external) return true;
    if ((p->raw != NULL || p->raw_bytes > 0) && p->raw_bytes != bytes)
        return dct_wire_fail(w, "tensor '%s' has %llu bytes, its shape needs %llu", name.text, (ull)p->raw_bytes, (ull)bytes);
    if (n > DCT_ONNX_MAX_ITEMS || !is_readable(t->type)) return true;
    if (p->raw != NULL) return items_of_raw(w, p, (uint32_t)n, t);
    if (n == 0) {
        t->items = dct_arena_array(w->arena, 0, sizeof *t->items); /* known: there are none */
        return t->items != NULL || dct_wire_fail_memory(w);
    }
    if (p->items.n == n) items_of_typed(p, (uint32_t)n, t);
    return true;
}

bool dct_wire_tensor(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_str *name, dct_onnx_tensor *t) {
    tensor_parts parts = {0};
    if (!dct_wire_message(w, s, wire, read_tensor_field, &parts) || !finish_tensor(w, &parts, t)) return false;
    *name = parts.name;
    return true;
}
