/* onnx/read: the file as a record. nanopb (Debian's libnanopb-dev) takes protocol buffers apart: tags, lengths, numbers; this
 * file knows which fields of ONNX's messages matter and skips the others, weights among them, without reading them.
 *
 *      ModelProto ─► GraphProto ─► NodeProto ─► AttributeProto ─► TensorProto        a function reads one field of a message;
 *                        │                                                           `into` is the record that it fills
 *                        ├───────► TensorProto (weights)
 *                        └───────► ValueInfoProto (inputs, outputs) ─► TypeProto ─► TensorShapeProto
 *
 * A value exists from the first time that its name is met, since the fields of a graph may stand in any order; order.c
 * sees to it that each is defined before it is used.
 */
#include <pb_decode.h>
#include <string.h>

#include "base/half.h"
#include "base/name_index.h"
#include "base/os.h"
#include "base/size.h"
#include "onnx/order.h"

typedef unsigned long long ull;

enum {
    BUFFER_BYTES = 64 * 1024,
    RAW_BYTES = 8 * DCT_ONNX_MAX_ITEMS, /* a tensor whose data are longer is not looked into */
    MAX_RECORDS = 1 << 28
};

typedef struct list {
    void *items;
    uint32_t n, cap;
} list;

typedef struct reader {
    dct_arena *arena;
    dct_err *err;
    dct_status status;   /* why it ended, when not for what nanopb says */
    const dct_file *file; /* NULL: all is in the buffer */
    uint8_t *buffer;
    uint64_t pos, buffer_at, buffer_n; /* the next byte; what the buffer holds of the file */
    list values, nodes;
    uint32_t *index, index_size; /* of values by name */
    bool has_graph;
} reader;

static bool fail(reader *r, dct_status status) {
    r->status = status;
    return false;
}

static bool fail_memory(reader *r) { return fail(r, dct_fail_memory(r->err, r->arena, "the ONNX graph")); }

#define FAIL(r, ...) fail(r, dct_fail_at((r)->err, DCT_BAD_FILE, (r)->pos, __VA_ARGS__))

/* ---- bytes ---- */

static bool fill_buffer(reader *r) {
    r->buffer_at = r->pos;
    r->buffer_n = r->file->bytes - r->pos < BUFFER_BYTES ? r->file->bytes - r->pos : BUFFER_BYTES;
    dct_status status = dct_file_read_at(r->file, r->pos, r->buffer, r->buffer_n, r->err);
    return status == DCT_OK || fail(r, status);
}

/* nanopb has seen that so many bytes are left. */
static bool read_bytes(pb_istream_t *s, pb_byte_t *out, size_t n) {
    reader *r = s->state;
    while (n > 0) {
        uint64_t at = r->pos - r->buffer_at;
        if (r->pos < r->buffer_at || at >= r->buffer_n) {
            if (r->file == NULL || r->pos >= r->file->bytes || !fill_buffer(r)) return false;
            at = 0;
        }
        size_t part = r->buffer_n - at < n ? (size_t)(r->buffer_n - at) : n;
        memcpy(out, r->buffer + at, part);
        r->pos += part;
        out += part;
        n -= part;
    }
    return true;
}

/* Goes on behind a field that does not matter. Bytes are passed over, not read. */
static bool skip(pb_istream_t *s, pb_wire_type_t wire) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return pb_skip_field(s, wire);
    if (!pb_make_string_substream(s, &field)) return false;
    ((reader *)s->state)->pos += field.bytes_left;
    return true;
}

/* ---- fields ---- */

typedef bool field_fn(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into);

static bool read_message(reader *r, pb_istream_t *s, field_fn *read_field, void *into) {
    pb_wire_type_t wire;
    uint32_t tag;
    bool is_end;
    while (pb_decode_tag(s, &wire, &tag, &is_end)) {
        if (!read_field(r, s, tag, wire, into)) return false;
    }
    return is_end;
}

static bool read_inner(reader *r, pb_istream_t *s, pb_wire_type_t wire, field_fn *read_field, void *into) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return FAIL(r, "a message has the wrong wire type");
    return pb_make_string_substream(s, &field) && read_message(r, &field, read_field, into) && field.bytes_left == 0;
}

static bool read_text(reader *r, pb_istream_t *s, pb_wire_type_t wire, dct_str *out) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return FAIL(r, "a text has the wrong wire type");
    if (!pb_make_string_substream(s, &field)) return false;
    size_t n = field.bytes_left;
    char *text = dct_arena_alloc(r->arena, n);
    if (text == NULL) return fail_memory(r);
    *out = (dct_str){text, n};
    return pb_read(&field, (pb_byte_t *)text, n);
}

static bool read_number(reader *r, pb_istream_t *s, pb_wire_type_t wire, int64_t *out) {
    uint64_t v;
    if (wire != PB_WT_VARINT) return FAIL(r, "a number has the wrong wire type");
    if (!pb_decode_varint(s, &v)) return false;
    *out = (int64_t)v;
    return true;
}

/* One more record at the end of a list, zeroed; NULL when there is no memory. */
static void *add_record(reader *r, list *l, size_t bytes) {
    if (l->n == l->cap) {
        uint32_t cap = l->cap == 0 ? 8 : 2 * l->cap;
        void *grown = cap > MAX_RECORDS ? NULL : dct_arena_grow(r->arena, l->items, l->n, cap, bytes);
        if (grown == NULL) {
            fail_memory(r);
            return NULL;
        }
        l->items = grown;
        l->cap = cap;
    }
    void *record = (char *)l->items + l->n++ * bytes;
    memset(record, 0, bytes);
    return record;
}

/* Numbers of a repeated field, one or packed. Only the first `limit` are kept; *n_all counts them all. */
typedef enum number_kind { VARINTS, FLOATS, DOUBLES } number_kind;

static bool decode_item(pb_istream_t *s, number_kind kind, dct_onnx_item *out) {
    if (kind == VARINTS) return pb_decode_varint(s, (uint64_t *)&out->i);
    if (kind == DOUBLES) return pb_decode_fixed64(s, &out->f);
    float f;
    if (!pb_decode_fixed32(s, &f)) return false;
    out->f = (double)f;
    return true;
}

static bool read_items(reader *r, pb_istream_t *s, pb_wire_type_t wire, number_kind kind, uint32_t limit, list *l) {
    pb_istream_t field = *s, *from = s;
    if (wire == PB_WT_STRING) {
        if (!pb_make_string_substream(s, &field)) return false;
        from = &field;
        if (field.bytes_left > 10 * (uint64_t)limit) { /* more than that many numbers have */
            l->n = limit + 1;
            r->pos += field.bytes_left;
            return true;
        }
    } else if (wire != (kind == VARINTS ? PB_WT_VARINT : kind == FLOATS ? PB_WT_32BIT : PB_WT_64BIT)) {
        return FAIL(r, "a list of numbers has the wrong wire type");
    }
    do {
        dct_onnx_item item;
        if (from == &field && field.bytes_left == 0) break;
        if (!decode_item(from, kind, &item)) return false;
        if (l->n > limit) continue;
        dct_onnx_item *kept = add_record(r, l, sizeof item);
        if (kept == NULL) return false;
        *kept = item;
    } while (from == &field);
    return true;
}

/* ---- tensors ---- */

typedef struct tensor_parts {
    dct_str name;
    int64_t type;
    list dims, items;
    uint32_t items_tag;      /* the field that the items are of */
    const uint8_t *raw;      /* NULL: none, or too many to look into */
    uint64_t raw_bytes;
    bool has_raw, is_external, is_cut;
} tensor_parts;

static bool read_raw(reader *r, pb_istream_t *s, pb_wire_type_t wire, tensor_parts *t) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return FAIL(r, "a tensor's data have the wrong wire type");
    if (!pb_make_string_substream(s, &field)) return false;
    t->has_raw = true;
    t->raw_bytes = field.bytes_left;
    t->raw = NULL;
    if (t->raw_bytes > RAW_BYTES) {
        r->pos += t->raw_bytes;
        return true;
    }
    uint8_t *raw = dct_arena_alloc(r->arena, t->raw_bytes);
    if (raw == NULL) return fail_memory(r);
    t->raw = raw;
    return pb_read(&field, raw, field.bytes_left);
}

static bool read_typed(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, number_kind kind, tensor_parts *t) {
    if (t->items_tag != 0 && t->items_tag != tag) return FAIL(r, "a tensor has data of two types");
    t->items_tag = tag;
    return read_items(r, s, wire, kind, DCT_ONNX_MAX_ITEMS, &t->items);
}

static bool read_tensor_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    tensor_parts *t = into;
    int64_t location;
    switch (tag) {
    case 1: return read_items(r, s, wire, VARINTS, DCT_ONNX_MAX_DIMS, &t->dims);
    case 2: return read_number(r, s, wire, &t->type);
    case 3: t->is_cut = true; return skip(s, wire);
    case 4: return read_typed(r, s, tag, wire, FLOATS, t);
    case 5: case 7: case 11: return read_typed(r, s, tag, wire, VARINTS, t);
    case 8: return read_text(r, s, wire, &t->name);
    case 9: return read_raw(r, s, wire, t);
    case 10: return read_typed(r, s, tag, wire, DOUBLES, t);
    case 14:
        if (!read_number(r, s, wire, &location)) return false;
        t->is_external = location == 1;
        return true;
    default: return skip(s, wire);
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

static bool items_of_raw(reader *r, const tensor_parts *p, uint32_t n, dct_onnx_tensor *t) {
    dct_onnx_item *items = dct_arena_array(r->arena, n, sizeof *items);
    if (items == NULL) return fail_memory(r);
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

static bool finish_tensor(reader *r, const tensor_parts *p, dct_onnx_tensor *t) {
    const dct_onnx_item *dims = p->dims.items;
    uint64_t n, bytes;
    dct_onnx_quoted name = dct_onnx_quote(p->name);
    if (p->is_cut) return FAIL(r, "tensor '%s' is a segment, which is not supported", name.text);
    if (p->dims.n > DCT_ONNX_MAX_DIMS)
        return FAIL(r, "tensor '%s' has more than %d dimensions", name.text, DCT_ONNX_MAX_DIMS);
    *t = (dct_onnx_tensor){.n_dims = p->dims.n};
    if (p->type > 0 && p->type < UINT32_MAX) t->type = (uint32_t)p->type;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        t->dims[i] = dims[i].i;
        if (t->dims[i] < 0) return FAIL(r, "tensor '%s': dimension %u is %lld", name.text, i, (long long)t->dims[i]);
    }
    if (t->type == DCT_ONNX_STRING) return true; /* a node that reads it says so */
    if (!dct_onnx_bytes(t, &bytes) || !dct_onnx_count(t, &n)) {
        return FAIL(r, "tensor '%s': its type (%u) is not known, or it has more bytes than there can be", name.text, t->type);
    }
    if (p->is_external || n > DCT_ONNX_MAX_ITEMS) return true;
    if (p->has_raw && p->raw_bytes != bytes) {
        return FAIL(r, "tensor '%s' has %llu bytes, its shape needs %llu", name.text, (ull)p->raw_bytes, (ull)bytes);
    }
    if (!is_readable(t->type)) return true;
    if (p->raw != NULL) return items_of_raw(r, p, (uint32_t)n, t);
    if (p->items.n == n) items_of_typed(p, (uint32_t)n, t);
    return true;
}

static bool read_tensor(reader *r, pb_istream_t *s, pb_wire_type_t wire, dct_str *name, dct_onnx_tensor *t) {
    tensor_parts parts = {0};
    if (!read_inner(r, s, wire, read_tensor_field, &parts) || !finish_tensor(r, &parts, t)) return false;
    *name = parts.name;
    return true;
}

/* ---- values ---- */

static bool grow_index(reader *r) {
    uint32_t size = dct_name_index_size(r->values.n + 1);
    if (size <= r->index_size) return true;
    size *= 2; /* so that it is seldom made anew */
    r->index = dct_arena_array(r->arena, size, sizeof *r->index);
    if (r->index == NULL) return fail_memory(r);
    r->index_size = size;
    const dct_onnx_value *values = r->values.items;
    for (uint32_t i = 0; i < r->values.n; i++)
        r->index[dct_name_index_slot(r->index, size, DCT_HASH_SEED, values, sizeof *values, values[i].name)] = i + 1;
    return true;
}

/* The number of the value of that name, which is made when it is new; DCT_ONNX_NONE for "". */
static bool find_value(reader *r, dct_str name, uint32_t *out) {
    *out = DCT_ONNX_NONE;
    if (name.len == 0) return true;
    if (!grow_index(r)) return false;
    uint32_t slot = dct_name_index_slot(r->index, r->index_size, DCT_HASH_SEED, r->values.items, sizeof(dct_onnx_value), name);
    if (r->index[slot] == 0) {
        dct_onnx_value *value = add_record(r, &r->values, sizeof *value);
        if (value == NULL) return false;
        value->name = name;
        r->index[slot] = r->values.n;
    }
    *out = r->index[slot] - 1;
    return true;
}

static dct_onnx_value *value_at(const reader *r, uint32_t id) { return (dct_onnx_value *)r->values.items + id; }

static bool fail_twice(reader *r, dct_str name) {
    return FAIL(r, "'%s' is defined twice", dct_onnx_quote(name).text);
}

static bool read_weight(reader *r, pb_istream_t *s, pb_wire_type_t wire) {
    dct_onnx_tensor tensor;
    dct_str name;
    uint32_t id;
    if (!read_tensor(r, s, wire, &name, &tensor) || !find_value(r, name, &id)) return false;
    if (id == DCT_ONNX_NONE) return FAIL(r, "a weight has no name");
    dct_onnx_value *value = value_at(r, id);
    if (value->source != DCT_ONNX_UNDEFINED && value->source != DCT_ONNX_INPUT) return fail_twice(r, name);
    value->source = DCT_ONNX_WEIGHT; /* in older files every weight is an input as well */
    value->tensor = tensor;
    return true;
}

/* ---- inputs and outputs ---- */

typedef struct shape_parts {
    dct_str name;
    int64_t type;
    bool has_rank;
    list dims; /* of dimension */
} shape_parts;

typedef struct dimension {
    dct_str name;
    int64_t size;
} dimension;

static bool read_dim_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    dimension *d = into;
    if (tag == 1) return read_number(r, s, wire, &d->size);
    if (tag == 2) return read_text(r, s, wire, &d->name);
    return skip(s, wire);
}

static bool read_shape_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag != 1) return skip(s, wire);
    if (p->dims.n == DCT_ONNX_MAX_DIMS) return FAIL(r, "an input or output has more than %d dimensions", DCT_ONNX_MAX_DIMS);
    dimension *d = add_record(r, &p->dims, sizeof *d);
    if (d == NULL) return false;
    d->size = DCT_ONNX_OPEN;
    return read_inner(r, s, wire, read_dim_field, d);
}

static bool read_tensor_type_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag == 1) return read_number(r, s, wire, &p->type);
    if (tag != 2) return skip(s, wire);
    p->has_rank = true;
    return read_inner(r, s, wire, read_shape_field, p);
}

static bool read_type_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    return tag == 1 ? read_inner(r, s, wire, read_tensor_type_field, into) : skip(s, wire);
}

static bool read_info_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag == 1) return read_text(r, s, wire, &p->name);
    if (tag == 2) return read_inner(r, s, wire, read_type_field, p);
    return skip(s, wire);
}

static bool set_input(reader *r, const shape_parts *p, dct_onnx_value *value) {
    const dimension *dims = p->dims.items;
    dct_str *names = dct_arena_array(r->arena, p->dims.n, sizeof *names);
    if (names == NULL) return fail_memory(r);
    value->source = DCT_ONNX_INPUT;
    value->has_rank = p->has_rank;
    value->dim_names = names;
    value->tensor = (dct_onnx_tensor){.n_dims = p->dims.n};
    if (p->type > 0 && p->type < UINT32_MAX) value->tensor.type = (uint32_t)p->type;
    for (uint32_t i = 0; i < p->dims.n; i++) {
        names[i] = dims[i].name;
        value->tensor.dims[i] = dims[i].size < 0 ? DCT_ONNX_OPEN : dims[i].size; /* some exporters write -1 for it */
    }
    return true;
}

static bool read_input(reader *r, pb_istream_t *s, pb_wire_type_t wire) {
    shape_parts parts = {0};
    uint32_t id;
    if (!read_inner(r, s, wire, read_info_field, &parts) || !find_value(r, parts.name, &id)) return false;
    if (id == DCT_ONNX_NONE) return FAIL(r, "an input has no name");
    dct_onnx_value *value = value_at(r, id);
    if (value->source == DCT_ONNX_WEIGHT) return true;
    return value->source == DCT_ONNX_UNDEFINED ? set_input(r, &parts, value) : fail_twice(r, parts.name);
}

static bool read_output(reader *r, pb_istream_t *s, pb_wire_type_t wire) {
    shape_parts parts = {0};
    uint32_t id;
    if (!read_inner(r, s, wire, read_info_field, &parts) || !find_value(r, parts.name, &id)) return false;
    if (id == DCT_ONNX_NONE) return FAIL(r, "an output has no name");
    value_at(r, id)->is_output = true;
    return true;
}

/* ---- nodes ---- */

typedef struct node_parts {
    dct_onnx_node node;
    list in, out, attrs;
} node_parts;

typedef struct attr_parts {
    dct_onnx_attr attr;
    list items;
    bool has_body;
} attr_parts;

static bool read_attr_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    attr_parts *p = into;
    dct_str ignored;
    switch (tag) {
    case 1: return read_text(r, s, wire, &p->attr.name);
    case 2: return wire == PB_WT_32BIT ? pb_decode_fixed32(s, &p->attr.f) : FAIL(r, "a float has the wrong wire type");
    case 3: return read_number(r, s, wire, &p->attr.i);
    case 4: return read_text(r, s, wire, &p->attr.s);
    case 5: return read_tensor(r, s, wire, &ignored, &p->attr.tensor);
    case 6: case 11: p->has_body = true; return skip(s, wire);
    case 7: return read_items(r, s, wire, FLOATS, DCT_ONNX_MAX_ITEMS, &p->items);
    case 8: return read_items(r, s, wire, VARINTS, DCT_ONNX_MAX_ITEMS, &p->items);
    default: return skip(s, wire);
    }
}

static bool read_attr(reader *r, pb_istream_t *s, pb_wire_type_t wire, node_parts *node) {
    attr_parts parts = {0};
    if (!read_inner(r, s, wire, read_attr_field, &parts)) return false;
    if (parts.items.n > DCT_ONNX_MAX_ITEMS)
        return FAIL(r, "attribute '%s' has more than %d numbers", dct_onnx_quote(parts.attr.name).text, DCT_ONNX_MAX_ITEMS);
    parts.attr.items = parts.items.items;
    parts.attr.n_items = parts.items.n;
    if (parts.has_body) node->node.has_body = true;
    dct_onnx_attr *kept = add_record(r, &node->attrs, sizeof *kept);
    if (kept == NULL) return false;
    *kept = parts.attr;
    return true;
}

static bool read_value_name(reader *r, pb_istream_t *s, pb_wire_type_t wire, list *ids) {
    dct_str name;
    uint32_t id;
    if (!read_text(r, s, wire, &name) || !find_value(r, name, &id)) return false;
    uint32_t *kept = add_record(r, ids, sizeof *kept);
    if (kept == NULL) return false;
    *kept = id;
    return true;
}

static bool read_node_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    node_parts *p = into;
    switch (tag) {
    case 1: return read_value_name(r, s, wire, &p->in);
    case 2: return read_value_name(r, s, wire, &p->out);
    case 3: return read_text(r, s, wire, &p->node.name);
    case 4: return read_text(r, s, wire, &p->node.op);
    case 5: return read_attr(r, s, wire, p);
    case 7: return read_text(r, s, wire, &p->node.domain);
    default: return skip(s, wire);
    }
}

static bool read_node(reader *r, pb_istream_t *s, pb_wire_type_t wire) {
    node_parts parts = {0};
    if (!read_inner(r, s, wire, read_node_field, &parts)) return false;
    dct_onnx_node *node = add_record(r, &r->nodes, sizeof *node);
    if (node == NULL) return false;
    *node = parts.node;
    node->in = parts.in.items;
    node->n_in = parts.in.n;
    node->out = parts.out.items;
    node->n_out = parts.out.n;
    node->attrs = parts.attrs.items;
    node->n_attrs = parts.attrs.n;
    if (dct_str_eq_z(node->domain, "ai.onnx")) node->domain.len = 0;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] == DCT_ONNX_NONE) continue;
        dct_onnx_value *value = value_at(r, node->out[k]);
        if (value->source != DCT_ONNX_UNDEFINED) return fail_twice(r, value->name);
        value->source = DCT_ONNX_NODE;
        value->node = r->nodes.n - 1;
    }
    return true;
}

/* ---- the model ---- */

static bool read_graph_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    dct_onnx_graph *g = into;
    switch (tag) {
    case 1: return read_node(r, s, wire);
    case 2: return read_text(r, s, wire, &g->name);
    case 5: return read_weight(r, s, wire);
    case 11: return read_input(r, s, wire);
    case 12: return read_output(r, s, wire);
    case 15: return FAIL(r, "sparse weights are not supported");
    default: return skip(s, wire);
    }
}

typedef struct opset {
    dct_str domain;
    int64_t version;
} opset;

static bool read_opset_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    opset *o = into;
    if (tag == 1) return read_text(r, s, wire, &o->domain);
    if (tag == 2) return read_number(r, s, wire, &o->version);
    return skip(s, wire);
}

static bool read_model_field(reader *r, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    dct_onnx_graph *g = into;
    opset o = {0};
    switch (tag) {
    case 2: return read_text(r, s, wire, &g->producer);
    case 7:
        if (r->has_graph) return FAIL(r, "two graphs");
        r->has_graph = true;
        return read_inner(r, s, wire, read_graph_field, g);
    case 8:
        if (!read_inner(r, s, wire, read_opset_field, &o)) return false;
        if (o.domain.len == 0 || dct_str_eq_z(o.domain, "ai.onnx")) g->opset = o.version;
        return true;
    default: return skip(s, wire);
    }
}

static dct_status read_model(reader *r, uint64_t n, dct_onnx_graph *out) {
    pb_istream_t s = {.callback = read_bytes, .state = r, .bytes_left = (size_t)n};
    dct_onnx_graph g = {.opset = 1};
    if (!read_message(r, &s, read_model_field, &g)) {
        if (r->status != DCT_OK) return r->status;
        return dct_fail_at(r->err, DCT_BAD_FILE, r->pos, "cut off, or no ONNX file (%s)", PB_GET_ERROR(&s));
    }
    if (!r->has_graph || r->nodes.n == 0) return dct_fail(r->err, DCT_BAD_FILE, "no ONNX file: it has no graph with nodes");
    g.values = r->values.items;
    g.n_values = r->values.n;
    g.nodes = r->nodes.items;
    g.n_nodes = r->nodes.n;
    dct_status status = dct_onnx_sort(&g, r->arena, r->err);
    if (status == DCT_OK) *out = g;
    return status;
}

dct_status dct_onnx_open_bytes(const void *bytes, uint64_t n, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    reader r = {.arena = arena, .err = err, .buffer = (uint8_t *)(uintptr_t)bytes, .buffer_n = n};
    return read_model(&r, n, out);
}

dct_status dct_onnx_open(const char *path, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    dct_file file;
    dct_status status = dct_file_open(&file, path, err);
    if (status != DCT_OK) return status;
    reader r = {.arena = arena, .err = err, .file = &file, .buffer = dct_arena_alloc(arena, BUFFER_BYTES)};
    status = r.buffer != NULL ? read_model(&r, file.bytes, out) : dct_fail_memory(err, arena, "the ONNX graph");
    dct_file_close(&file);
    return status;
}

bool dct_onnx_is_supported(void) { return true; }
