#include "onnx/wire.h"

#include <stdio.h>
#include <string.h>

enum { BUFFER_BYTES = 64 * 1024, MAX_RECORDS = 1 << 28 };

bool dct_wire_fail(dct_wire *w, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    w->status = dct_fail_at(w->err, DCT_BAD_FILE, w->pos, "%s", text);
    return false;
}

bool dct_wire_fail_memory(dct_wire *w) {
    w->status = dct_fail_memory(w->err, w->arena, "the ONNX graph");
    return false;
}

/* ---- bytes ---- */

static bool fill_buffer(dct_wire *w) {
    if (w->buffer == NULL) w->buffer = dct_arena_alloc(w->arena, BUFFER_BYTES);
    if (w->buffer == NULL) return dct_wire_fail_memory(w);
    w->buffer_at = w->pos;
    w->buffer_n = w->file->bytes - w->pos < BUFFER_BYTES ? w->file->bytes - w->pos : BUFFER_BYTES;
    w->status = dct_file_read_at(w->file, w->pos, w->buffer, w->buffer_n, w->err);
    return w->status == DCT_OK;
}

/* nanopb has seen that so many bytes are left. */
static bool read_bytes(pb_istream_t *s, pb_byte_t *out, size_t n) {
    dct_wire *w = s->state;
    while (n > 0) {
        uint64_t at = w->pos - w->buffer_at;
        if (w->pos < w->buffer_at || at >= w->buffer_n) {
            if (w->file == NULL || w->pos >= w->file->bytes || !fill_buffer(w)) return false;
            at = 0;
        }
        size_t part = w->buffer_n - at < n ? (size_t)(w->buffer_n - at) : n;
        memcpy(out, w->buffer + at, part);
        w->pos += part;
        out += part;
        n -= part;
    }
    return true;
}

bool dct_wire_skip(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return pb_skip_field(s, wire);
    if (!pb_make_string_substream(s, &field)) return false;
    w->pos += field.bytes_left;
    return true;
}

/* ---- messages ---- */

static bool read_message(dct_wire *w, pb_istream_t *s, dct_field_fn *read_field, void *into) {
    pb_wire_type_t wire;
    uint32_t tag;
    bool is_end;
    while (pb_decode_tag(s, &wire, &tag, &is_end)) {
        if (!read_field(w, s, tag, wire, into)) return false;
    }
    return is_end;
}

bool dct_wire_message(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_field_fn *read_field, void *into) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return dct_wire_fail(w, "a message has the wrong wire type");
    return pb_make_string_substream(s, &field) && read_message(w, &field, read_field, into);
}

dct_status dct_wire_read(dct_wire *w, uint64_t n, dct_field_fn *read_field, void *into) {
    pb_istream_t s = {.callback = read_bytes, .state = w, .bytes_left = (size_t)n};
    if (read_message(w, &s, read_field, into)) return DCT_OK;
    if (w->status != DCT_OK) return w->status;
    return dct_fail_at(w->err, DCT_BAD_FILE, w->pos, "cut off, or no ONNX file (%s)", PB_GET_ERROR(&s));
}

/* ---- values ---- */

bool dct_wire_text(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_str *out) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return dct_wire_fail(w, "a text has the wrong wire type");
    if (!pb_make_string_substream(s, &field)) return false;
    size_t n = field.bytes_left;
    char *text = dct_arena_alloc(w->arena, n);
    if (text == NULL) return dct_wire_fail_memory(w);
    *out = (dct_str){text, n};
    return pb_read(&field, (pb_byte_t *)text, n);
}

bool dct_wire_number(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, int64_t *out) {
    uint64_t v;
    if (wire != PB_WT_VARINT) return dct_wire_fail(w, "a number has the wrong wire type");
    if (!pb_decode_varint(s, &v)) return false;
    *out = (int64_t)v;
    return true;
}

bool dct_wire_float(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, float *out) {
    return wire == PB_WT_32BIT ? pb_decode_fixed32(s, out) : dct_wire_fail(w, "a float has the wrong wire type");
}

bool dct_wire_bytes(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, uint64_t most, const uint8_t **out, uint64_t *n) {
    pb_istream_t field;
    if (wire != PB_WT_STRING) return dct_wire_fail(w, "bytes have the wrong wire type");
    if (!pb_make_string_substream(s, &field)) return false;
    *out = NULL;
    *n = field.bytes_left;
    if (*n > most) {
        w->pos += *n;
        return true;
    }
    uint8_t *bytes = dct_arena_alloc(w->arena, *n);
    if (bytes == NULL) return dct_wire_fail_memory(w);
    *out = bytes;
    return pb_read(&field, bytes, field.bytes_left);
}

/* ---- lists ---- */

void *dct_list_add(dct_wire *w, dct_list *l, size_t bytes) {
    if (l->n == l->cap) {
        uint32_t cap = l->cap == 0 ? 8 : 2 * l->cap;
        void *grown = cap > MAX_RECORDS ? NULL : dct_arena_grow(w->arena, l->items, l->n, cap, bytes);
        if (grown == NULL) {
            dct_wire_fail_memory(w);
            return NULL;
        }
        l->items = grown;
        l->cap = cap;
    }
    void *record = (char *)l->items + l->n++ * bytes;
    memset(record, 0, bytes);
    return record;
}

static bool decode_item(pb_istream_t *s, dct_wire_kind kind, dct_onnx_item *out) {
    if (kind == DCT_WIRE_VARINTS) return pb_decode_varint(s, (uint64_t *)&out->i);
    if (kind == DCT_WIRE_DOUBLES) return pb_decode_fixed64(s, &out->f);
    float f;
    if (!pb_decode_fixed32(s, &f)) return false;
    out->f = (double)f;
    return true;
}

static bool add_item(dct_wire *w, pb_istream_t *s, dct_wire_kind kind, uint32_t most, dct_list *l) {
    dct_onnx_item item, *kept;
    if (!decode_item(s, kind, &item)) return false;
    if (l->n > most) return true;
    kept = dct_list_add(w, l, sizeof *kept);
    if (kept == NULL) return false;
    *kept = item;
    return true;
}

bool dct_wire_items(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_wire_kind kind, uint32_t most, dct_list *l) {
    static const pb_wire_type_t single[] = {PB_WT_VARINT, PB_WT_32BIT, PB_WT_64BIT};
    pb_istream_t packed;
    if (wire == single[kind]) return add_item(w, s, kind, most, l);
    if (wire != PB_WT_STRING) return dct_wire_fail(w, "a list of numbers has the wrong wire type");
    if (!pb_make_string_substream(s, &packed)) return false;
    if (packed.bytes_left > 10 * (uint64_t)most) { /* a varint has at most ten bytes */
        l->n = most + 1;
        w->pos += packed.bytes_left;
        return true;
    }
    while (packed.bytes_left > 0) {
        if (!add_item(w, &packed, kind, most, l)) return false;
    }
    return true;
}
