/* base/dtype: the tensor types of files: names, block sizes, ids. What the bits mean is in kernels/. */
#ifndef DCT_BASE_DTYPE_H
#define DCT_BASE_DTYPE_H

#include "base/status.h"

typedef enum dct_dtype {
#define DCT_DTYPE(name, id, elems, bytes) DCT_TYPE_##name,
#include "base/dtype.def"
#undef DCT_DTYPE
    DCT_TYPE_COUNT,
    DCT_TYPE_GGUF_COUNT = DCT_TYPE_MXFP4 + 1 /* types below are those of GGUF files */
} dct_dtype;

const char *dct_dtype_name(dct_dtype type);
uint32_t dct_dtype_block_elems(dct_dtype type);
uint32_t dct_dtype_block_bytes(dct_dtype type);
#define DCT_NO_GGML_ID UINT32_MAX /* of types that GGUF files cannot have */
uint32_t dct_dtype_ggml_id(dct_dtype type);

/* MLX's affine types: bits of a code, elements of a group, and the type of scale and bias (BF16, F16, F32). */
typedef struct dct_affine {
    uint32_t bits, group;
    dct_dtype scale;
} dct_affine;
/* NULL for all other types. */
const dct_affine *dct_dtype_affine(dct_dtype type);
bool dct_dtype_of_affine(uint32_t bits, uint32_t group, dct_dtype scale, dct_dtype *type);

/* True for F32, F16 and BF16. */
bool dct_dtype_is_float(dct_dtype type);

/* The type of a ggml id. False when it is not one we run; then *name is its name when the id is known ("IQ2_XXS",
 * "removed type 4", ...) and NULL when the id means nothing. */
bool dct_dtype_of_ggml_id(uint32_t id, dct_dtype *type, const char **name);

/* Case-insensitive, "q4_0" as well as "Q4_0". */
bool dct_dtype_of_name(const char *text, dct_dtype *type);

/* Bytes of n elements; false when n is not a multiple of the block or the product overflows. */
bool dct_dtype_row_bytes(dct_dtype type, uint64_t n_elems, uint64_t *bytes);

#endif
