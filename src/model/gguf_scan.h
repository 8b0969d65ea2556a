/* model/gguf_scan: the grammar of a GGUF header, one record at a time.
 *
 *     "GGUF" version n_tensors n_meta | n_meta x (key, type, value) | n_tensors x (name, n_dims, ne, type, offset)
 *     | padding, data
 *
 * A scan runs over a header in memory, or over a file through a window of fixed size. The second way remembers nothing and is how
 * the size of a header is found before any memory is taken for it. Both are the same code, so they refuse the same files. Every
 * length and count is compared with the bytes that are left before anything is done about it.
 */
#ifndef DCT_MODEL_GGUF_SCAN_H
#define DCT_MODEL_GGUF_SCAN_H

#include "model/model.h"

enum {
    DCT_GGUF_WINDOW = 64 * 1024,             /* holds the longest key */
    DCT_GGUF_MAX_KEY = 65535,
    DCT_GGUF_MAX_NAME = 63,                  /* of a tensor: ggml has 64 bytes with the NUL */
    DCT_GGUF_MAX_HEADER = 256 * 1024 * 1024, /* real ones have up to 20 MiB */
};

typedef struct dct_gguf_scan {
    dct_reader r;
    const dct_file *file; /* NULL: r holds everything */
    uint8_t *window;
    uint64_t end;         /* the header ends here at the latest */
} dct_gguf_scan;

typedef struct dct_gguf_head {
    uint32_t version;
    bool big_endian;
    uint64_t n_meta, n_tensors;
} dct_gguf_head;

/* A tensor's description as it stands in the header: nothing but the name's length and the number of dimensions is checked. */
typedef struct dct_gguf_info {
    dct_str name;
    uint32_t n_dims, ggml_type;
    uint64_t ne[DCT_MAX_DIMS], offset, info_offset;
} dct_gguf_info;

dct_gguf_scan dct_gguf_scan_bytes(const void *bytes, uint64_t n);
dct_gguf_scan dct_gguf_scan_file(const dct_file *file, uint8_t *window);

/* In this order. Keys, names, strings and arrays point into the header in memory; over a file these pointers mean nothing. */
dct_status dct_gguf_scan_head(dct_gguf_scan *s, dct_gguf_head *head, dct_err *err) DCT_MUST_CHECK;
dct_status dct_gguf_scan_meta(dct_gguf_scan *s, uint64_t number, dct_meta *meta, dct_err *err) DCT_MUST_CHECK;
dct_status dct_gguf_scan_info(dct_gguf_scan *s, uint64_t number, dct_gguf_info *info, dct_err *err) DCT_MUST_CHECK;

/* A name from outside, fit for a message: printable ASCII, cut to 63 bytes. */
typedef struct dct_gguf_quoted {
    char text[64];
} dct_gguf_quoted;
dct_gguf_quoted dct_gguf_quote(dct_str name);

/* Bytes of a scalar, 0 for strings, arrays and what is no type. */
uint32_t dct_gguf_scalar_bytes(uint32_t type);

#endif
