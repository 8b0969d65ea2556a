/* model/safetensors: the header of a safetensors file.
 *
 *     u64 n | n bytes of JSON {"name": {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [begin, end]}, ...} | data
 *
 * Offsets count from the end of the header. Checked: every field and its kind, shape times width against the range, and that the
 * ranges follow one another from 0 without hole or overlap. A range beyond the file is not wrong as such: the file may be cut.
 */
#ifndef DCT_MODEL_SAFETENSORS_H
#define DCT_MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/reader.h"

enum { DCT_SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000, DCT_SAFETENSORS_MAX_DIMS = 8 };

/* The types of the format, with their bytes. Those that dctms computes with come first. */
typedef enum dct_st_type {
    DCT_ST_F32,
    DCT_ST_F16,
    DCT_ST_BF16,
    DCT_ST_U32,
    DCT_ST_F64,
    DCT_ST_I64,
    DCT_ST_U64,
    DCT_ST_I32,
    DCT_ST_I16,
    DCT_ST_U16,
    DCT_ST_I8,
    DCT_ST_U8,
    DCT_ST_BOOL,
    DCT_ST_F8_E4M3,
    DCT_ST_F8_E5M2,
    DCT_ST_F8_E8M0,
    DCT_ST_COUNT
} dct_st_type;

typedef struct dct_st_tensor {
    dct_str name;      /* decoded; first, for name_index */
    dct_st_type type;
    uint32_t part;     /* set by who reads several files */
    uint32_t n_dims;
    uint64_t shape[DCT_SAFETENSORS_MAX_DIMS];
    uint64_t begin, bytes; /* of the data, from the end of the header */
    uint64_t offset;   /* of the description in the file, for messages */
} dct_st_tensor;

typedef struct dct_st_file {
    uint32_t n_tensors;
    dct_st_tensor *tensors;  /* in the order of their data */
    uint64_t data_bytes;     /* where the last one ends */
} dct_st_file;

/* The header's length from the first 8 bytes of a file of file_bytes. */
dct_status dct_st_header_bytes(const uint8_t first[8], uint64_t file_bytes, uint64_t *n, dct_err *err) DCT_MUST_CHECK;

/* Reads the JSON of a header. Names and tables lie in the arena. */
dct_status dct_st_read(dct_str json, dct_arena *arena, dct_st_file *file, dct_err *err) DCT_MUST_CHECK;

#endif
