/* model/model: what a model file says, before any of its weights is read.
 *
 * A reader (gguf.c, hf.c) fills one neutral record: typed metadata and a table of tensors. Everything in it was checked against
 * the file: names are unique, shapes multiply without overflow, data ranges lie inside the file (or the file is marked
 * `data_missing`), ranges do not overlap. The record and the header bytes it points into live in the caller's arena; the files
 * stay open for reading weights. Nothing here is ever written.
 *
 * Directories of Hugging Face and MLX give the same record as GGUF files: keys and tensors have GGUF's names. Where the file
 * keeps a tensor in another form than the record says (`form`), dct_model_read_tensor brings it into that of the record.
 */
#ifndef DCT_MODEL_MODEL_H
#define DCT_MODEL_MODEL_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/name_index.h"
#include "base/os.h"
#include "base/reader.h"

enum { DCT_MAX_DIMS = 4, DCT_MAX_PARTS = 512, DCT_MAX_LAYERS = 1024 };

typedef enum dct_meta_type { /* the numbers of the GGUF format */
    DCT_META_U8 = 0, DCT_META_I8, DCT_META_U16, DCT_META_I16, DCT_META_U32, DCT_META_I32, DCT_META_F32, DCT_META_BOOL,
    DCT_META_STRING, DCT_META_ARRAY, DCT_META_U64, DCT_META_I64, DCT_META_F64
} dct_meta_type;

typedef struct dct_meta {
    dct_str key;
    dct_meta_type type;
    uint64_t offset; /* of the value in the file, for messages */
    union {
        union {
            uint64_t u;
            int64_t i;
            double f;
            bool b;
            dct_str s;
        } as; /* scalars and strings; integers are widened with their sign */
        struct {
            dct_meta_type type;
            uint64_t n;
            const uint8_t *bytes; /* n elements as they stand in the file (strings: u64 length + bytes each) */
            uint64_t n_bytes;
        } array; /* DCT_META_ARRAY only */
    };
} dct_meta;

/* How the file holds a tensor's data. */
typedef enum dct_form {
    DCT_FORM_PLAIN,    /* as the record says */
    DCT_FORM_AFFINE,   /* MLX: codes at part, offset; scales and biases at `more`; reading makes blocks of them (base/dtype.h) */
    DCT_FORM_NORM,     /* floats of `stored`, to which 1 is added: the record has them as F32 */
    DCT_FORM_COMPUTED, /* in no file: `values`, which the header's arena holds */
} dct_form;

typedef struct dct_place_in_file {
    uint32_t part; /* which file of a split model */
    uint64_t offset;
} dct_place_in_file;

typedef struct dct_tensor {
    dct_str name;
    dct_dtype type;
    uint32_t n_dims;
    uint64_t ne[DCT_MAX_DIMS]; /* ne[0] is contiguous; 1 beyond n_dims */
    uint32_t part;             /* which file of a split model */
    uint64_t offset;           /* of the data, from the start of that file */
    uint64_t n_elems, bytes;
    uint64_t info_offset;      /* where the header describes it, for messages */
    dct_form form;
    dct_dtype stored;           /* DCT_FORM_NORM */
    dct_place_in_file more[2];  /* DCT_FORM_AFFINE: scales, biases */
    const void *values;         /* DCT_FORM_COMPUTED */
} dct_tensor;

typedef enum dct_model_format { DCT_FORMAT_GGUF, DCT_FORMAT_SAFETENSORS } dct_model_format;

typedef struct dct_model {
    const char *path;
    dct_model_format format;
    bool big_endian;
    uint32_t version;              /* GGUF's */
    uint32_t n_parts;
    dct_file files[DCT_MAX_PARTS]; /* open for reading; parts that are missing have fd -1 */
    uint64_t file_bytes;           /* of all parts, as they are on disk */
    uint64_t header_bytes;         /* of all parts: all that was read */
    uint64_t tensor_bytes;         /* sum of the tensors' data */
    uint64_t n_params;             /* elements of all tensors */
    uint64_t fingerprint;          /* hash of every part's header */
    uint64_t index_seed;           /* of both name tables and the vocabulary's: an address, which no file can know, so that names
                                      cannot be made to collide */
    bool data_missing;             /* the data section is cut off (or a part's): good for plan and inspect only */
    dct_meta *meta;
    uint32_t n_meta;
    dct_tensor *tensors;
    uint32_t n_tensors;
    dct_name_index tensor_index, meta_index;
} dct_model;

/* Which files these are, and as of when: never 0. The fingerprint is of headers alone, and two fine-tunes can have the same. */
uint64_t dct_model_identity(const dct_model *m);

/* Reads the header(s) of a model: a GGUF file, the first of several, or a directory. DCT_BAD_FILE names field and byte. On
 * failure nothing stays open. At most 8 x header + 1 MiB is taken from the arena. `path` must outlive the model. */
dct_status dct_model_open(dct_model *model, const char *path, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* As above from bytes in memory, which must outlive the model (fuzzing, tests): a single part whose data cannot be read. */
dct_status dct_model_open_bytes(dct_model *model, const void *bytes, uint64_t n, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

void dct_model_close(dct_model *model);

/* DCT_BAD_FILE when data is missing: the first tensor that is not whole, where it lies, how large its file is and should be. */
dct_status dct_model_need_data(const dct_model *model, dct_err *err) DCT_MUST_CHECK;

/* DCT_BAD_FILE when a file was written to since it was opened: what was read of it may be of two files. */
dct_status dct_model_check_unchanged(const dct_model *model, dct_err *err) DCT_MUST_CHECK;

/* Copies `n` bytes of a tensor's data, from byte `from` of the tensor, as the record describes it. Values of a big-endian file
 * are swapped into the host's order. n and from must be whole blocks unless the tensor is plain and the file little-endian. */
dct_status dct_model_read_tensor(const dct_model *model, const dct_tensor *tensor, uint64_t from, void *out, uint64_t n,
                                 dct_err *err) DCT_MUST_CHECK;

const dct_tensor *dct_model_find_tensor(const dct_model *model, const char *name);
const dct_meta *dct_model_find_meta(const dct_model *model, const char *key);

/* Typed look-ups. *found is false when the key is absent (and *out is untouched); a key of the wrong type or out of the
 * range is DCT_BAD_FILE naming the key. Integers of any width are accepted where they fit. */
bool dct_meta_is_integer(dct_meta_type type);
dct_status dct_model_get_u32(const dct_model *model, const char *key, uint32_t *out, bool *found, dct_err *err) DCT_MUST_CHECK;
dct_status dct_model_get_f32(const dct_model *model, const char *key, float *out, bool *found, dct_err *err) DCT_MUST_CHECK;
dct_status dct_model_get_bool(const dct_model *model, const char *key, bool *out, bool *found, dct_err *err) DCT_MUST_CHECK;
dct_status dct_model_get_str(const dct_model *model, const char *key, dct_str *out, bool *found, dct_err *err) DCT_MUST_CHECK;

/* Arrays: element k of a numeric array as a double / int64, swapped as needed; false when k is out of range or not a number. */
bool dct_meta_array_f64(const dct_model *model, const dct_meta *meta, uint64_t k, double *out);
bool dct_meta_array_i64(const dct_model *model, const dct_meta *meta, uint64_t k, int64_t *out);

/* Walks a string array: start with *cursor = 0; false at the end. */
bool dct_meta_array_next_str(const dct_model *model, const dct_meta *meta, uint64_t *cursor, dct_str *out);

#endif
