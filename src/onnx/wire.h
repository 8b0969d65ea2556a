/* onnx/wire: fields of protocol buffers, from a file or from memory. nanopb (Debian's libnanopb-dev) decodes tags, lengths and
 * numbers; here are the texts, lists and messages that readers ask for, in the arena, and the failures, with the byte where they
 * were found.
 */
#ifndef DCT_ONNX_WIRE_H
#define DCT_ONNX_WIRE_H

#include <pb_decode.h>

#include "base/os.h"
#include "onnx/onnx.h"

typedef struct dct_wire {
    dct_arena *arena;
    dct_err *err;
    dct_status status;    /* why it ended, when not for what nanopb says */
    const dct_file *file; /* NULL: all is in the buffer */
    uint8_t *buffer;
    uint64_t pos, buffer_at, buffer_n; /* the next byte; what the buffer holds of the file */
} dct_wire;

/* A list that grows in the arena. */
typedef struct dct_list {
    void *items;
    uint32_t n, cap;
} dct_list;

/* Readers of one field: `into` is what they fill. They return false after dct_wire_fail, or when nanopb does. */
typedef bool dct_field_fn(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into);

/* All of a message of n bytes, from the beginning. */
dct_status dct_wire_read(dct_wire *w, uint64_t n, dct_field_fn *field, void *into) DCT_MUST_CHECK;

bool dct_wire_fail(dct_wire *w, const char *format, ...) DCT_PRINTF(2, 3); /* false: DCT_BAD_FILE */
bool dct_wire_fail_memory(dct_wire *w);                                    /* false */

bool dct_wire_skip(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire); /* bytes are passed over, not read */
bool dct_wire_message(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_field_fn *field, void *into);
bool dct_wire_text(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_str *out);
bool dct_wire_number(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, int64_t *out);
bool dct_wire_float(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, float *out);

/* Bytes: *out is NULL when they are more than `most`, and were passed over. */
bool dct_wire_bytes(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, uint64_t most, const uint8_t **out, uint64_t *n);

/* Numbers of a repeated field, one or packed, at the end of a list of dct_onnx_item. When there are more than `most` in all, n is
 * most + 1 and they are not looked into. */
typedef enum dct_wire_kind { DCT_WIRE_VARINTS, DCT_WIRE_FLOATS, DCT_WIRE_DOUBLES } dct_wire_kind;
bool dct_wire_items(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_wire_kind kind, uint32_t most, dct_list *list);

/* One more record at the end of a list, zeroed; NULL after dct_wire_fail_memory. */
void *dct_list_add(dct_wire *w, dct_list *list, size_t bytes);

/* read_tensor.c: a TensorProto. */
bool dct_wire_tensor(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_str *name, dct_onnx_tensor *out);

#endif
