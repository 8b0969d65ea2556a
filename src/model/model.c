/* Opening and closing a model, look-ups in its record, and reading its tensors' data. */
#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/hash.h"
#include "base/safe_text.h"
#include "model/gguf_scan.h"
#include "model/record.h"
#include "model/swap.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void init(dct_model *model, const char *path) {
    memset(model, 0, sizeof *model);
    model->path = path;
    model->n_parts = 1;
    for (uint32_t p = 0; p < DCT_MAX_PARTS; p++) model->files[p].fd = -1;
}

/* Names that other programs fetch by: an address, owner/name, name:tag. Whatever else keeps a path from being opened, opening it
 * will tell. */
static bool is_name_only(const char *path) {
    if (strstr(path, "://") != NULL) return true;
    return !dct_os_exists(path) && errno == ENOENT && strstr(path, ".gguf") == NULL;
}

dct_status dct_model_open(dct_model *model, const char *path, dct_arena *arena, dct_err *err) {
    init(model, path);
    if (is_name_only(path))
        return dct_fail(err, DCT_BAD_FILE, "%s: no such file or directory, and nothing is downloaded: a model is a path",
                        dct_show_path(path).text);
    dct_status status = dct_os_is_directory(path) ? dct_hf_open(model, arena, err) : dct_gguf_open(model, arena, err);
    if (status != DCT_OK) dct_model_close(model);
    return status;
}

dct_status dct_model_open_bytes(dct_model *model, const void *bytes, uint64_t n, dct_arena *arena, dct_err *err) {
    init(model, "");
    return dct_gguf_open_bytes(model, bytes, n, arena, err);
}

void dct_model_close(dct_model *model) {
    for (uint32_t p = 0; p < DCT_MAX_PARTS; p++) dct_file_close(&model->files[p]);
}

/* --- data --------------------------------------------------------------------------------------------------------- */

static dct_status read_place(const dct_model *model, const dct_tensor *tensor, dct_place_in_file at, void *out, uint64_t n,
                             dct_err *err) {
    dct_gguf_quoted name = dct_gguf_quote(tensor->name);
    const dct_file *file = &model->files[at.part];
    if (file->fd < 0) return dct_fail(err, DCT_BAD_FILE, "tensor '%s': its data is not there", name.text);
    dct_err why;
    dct_status status = dct_file_read_at(file, at.offset, out, n, &why);
    if (status == DCT_OK) return DCT_OK;
    if (model->n_parts == 1) dct_fail(err, status, "tensor '%s': %.300s", name.text, why.message);
    else dct_fail(err, status, "part %u of %u: tensor '%s': %.300s", at.part + 1, model->n_parts, name.text, why.message);
    if (err != NULL) err->offset = why.offset; /* the message has it */
    return status;
}

static dct_status read_plain(const dct_model *model, const dct_tensor *tensor, uint64_t from, void *out, uint64_t n,
                             dct_err *err) {
    dct_status status = read_place(model, tensor, (dct_place_in_file){tensor->part, tensor->offset + from}, out, n, err);
    if (status == DCT_OK && model->big_endian) dct_swap_blocks(tensor->type, out, n);
    return status;
}

/* F32 elements from those of the file, plus 1. They are read to the end of `out`, from where widening never overtakes itself. */
static dct_status read_norm(const dct_model *model, const dct_tensor *tensor, uint64_t from, void *out, uint64_t n,
                            dct_err *err) {
    uint32_t width = dct_dtype_block_bytes(tensor->stored);
    uint64_t n_elems = n / sizeof(float), first = from / sizeof(float);
    uint8_t *raw = (uint8_t *)out + n_elems * (sizeof(float) - width);
    dct_status status = read_place(model, tensor, (dct_place_in_file){tensor->part, tensor->offset + first * width}, raw,
                                   n_elems * width, err);
    for (uint64_t i = 0; status == DCT_OK && i < n_elems; i++) {
        uint8_t bytes[4];
        memcpy(bytes, raw + i * width, width);
        uint16_t half = (uint16_t)(bytes[0] | bytes[1] << 8);
        float x;
        if (tensor->stored == DCT_TYPE_F32) memcpy(&x, bytes, sizeof x);
        else x = tensor->stored == DCT_TYPE_F16 ? dct_f32_of_f16(half) : dct_f32_of_bf16(half);
        x = x + 1.0f;
        memcpy((uint8_t *)out + i * sizeof x, &x, sizeof x);
    }
    return status;
}

/* Whole blocks from the three places where the file has their parts. These pass through a little memory of our own, from which
 * each block takes its share. */
static dct_status read_affine(const dct_model *model, const dct_tensor *tensor, uint64_t from, void *out, uint64_t n,
                              dct_err *err) {
    uint8_t buffer[16 * 1024];
    uint32_t block = dct_dtype_block_bytes(tensor->type), scale = dct_dtype_block_bytes(dct_dtype_affine(tensor->type)->scale),
             codes = block - 2 * scale;
    const struct {
        dct_place_in_file at;
        uint32_t begin, bytes; /* in the block */
    } parts[3] = {{{tensor->part, tensor->offset}, 0, codes},
                  {tensor->more[0], codes, scale},
                  {tensor->more[1], codes + scale, scale}};
    for (int p = 0; p < 3; p++) {
        const uint32_t bytes = parts[p].bytes, most = sizeof buffer / bytes;
        for (uint64_t first = from / block, end = (from + n) / block, count; first < end; first += count) {
            count = end - first < most ? end - first : most;
            dct_place_in_file at = {parts[p].at.part, parts[p].at.offset + first * bytes};
            dct_status status = read_place(model, tensor, at, buffer, count * bytes, err);
            if (status != DCT_OK) return status;
            uint8_t *to = (uint8_t *)out + (first * block - from) + parts[p].begin;
            for (uint64_t i = 0; i < count; i++, to += block) memcpy(to, buffer + i * bytes, bytes);
        }
    }
    return DCT_OK;
}

dct_status dct_model_read_tensor(const dct_model *model, const dct_tensor *tensor, uint64_t from, void *out, uint64_t n,
                                 dct_err *err) {
    if (from > tensor->bytes || n > tensor->bytes - from) {
        return dct_fail(err, DCT_BUG, "tensor '%s': bytes %llu to %llu of %llu", dct_gguf_quote(tensor->name).text,
                        (unsigned long long)from, (unsigned long long)(from + n), (unsigned long long)tensor->bytes);
    }
    switch (tensor->form) {
    case DCT_FORM_AFFINE: return read_affine(model, tensor, from, out, n, err);
    case DCT_FORM_NORM: return read_norm(model, tensor, from, out, n, err);
    case DCT_FORM_COMPUTED: memcpy(out, (const char *)tensor->values + from, n); return DCT_OK;
    default: return read_plain(model, tensor, from, out, n, err);
    }
}

/* The three places where an affine tensor's data may lie, or the one that others have; returns how many. `bytes`: of each. */
static uint32_t places_of(const dct_tensor *t, dct_place_in_file at[3], uint64_t bytes[3]) {
    at[0] = (dct_place_in_file){t->part, t->offset};
    bytes[0] = t->form == DCT_FORM_NORM ? t->n_elems * dct_dtype_block_bytes(t->stored) : t->bytes;
    if (t->form == DCT_FORM_COMPUTED) return 0;
    if (t->form != DCT_FORM_AFFINE) return 1;
    uint64_t n_blocks = t->bytes / dct_dtype_block_bytes(t->type);
    at[1] = t->more[0];
    at[2] = t->more[1];
    bytes[1] = bytes[2] = n_blocks * dct_dtype_block_bytes(dct_dtype_affine(t->type)->scale);
    bytes[0] = t->bytes - bytes[1] - bytes[2];
    return 3;
}

/* Of the first part that is cut off: the tensor where it ends, and the bytes that all of its tensors need. */
dct_status dct_model_need_data(const dct_model *model, dct_err *err) {
    if (!model->data_missing) return DCT_OK;
    const dct_tensor *first = NULL;
    dct_place_in_file begin = {UINT32_MAX, UINT64_MAX}, at[3];
    uint64_t n = 0, needed = 0, bytes[3];
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        for (uint32_t k = 0, n_places = places_of(&model->tensors[i], at, bytes); k < n_places; k++) {
            if (at[k].offset + bytes[k] <= model->files[at[k].part].bytes || at[k].part > begin.part) continue;
            if (at[k].part < begin.part) needed = 0;
            if (at[k].offset + bytes[k] > needed) needed = at[k].offset + bytes[k];
            if (at[k].part == begin.part && at[k].offset >= begin.offset) continue;
            first = &model->tensors[i];
            begin = at[k];
            n = bytes[k];
        }
    }
    if (first == NULL) return dct_fail(err, DCT_BAD_FILE, "the weights are missing");
    char part[48] = "";
    if (model->n_parts > 1) snprintf(part, sizeof part, "part %u of %u: ", begin.part + 1, model->n_parts);
    return dct_fail(err, DCT_BAD_FILE,
                    "%sthe weights are cut off in tensor '%s' (bytes %llu to %llu): "
                    "the file has %llu bytes, %llu are needed", part,
                    dct_gguf_quote(first->name).text, (unsigned long long)begin.offset, (unsigned long long)(begin.offset + n),
                    (unsigned long long)model->files[begin.part].bytes, (unsigned long long)needed);
}

dct_status dct_model_check_unchanged(const dct_model *model, dct_err *err) {
    for (uint32_t p = 0; p < model->n_parts; p++) {
        if (model->files[p].fd < 0 || dct_file_is_as_opened(&model->files[p])) continue;
        if (model->n_parts == 1) return dct_fail(err, DCT_BAD_FILE, "the file was written to while it was loaded");
        return dct_fail(err, DCT_BAD_FILE, "part %u of %u was written to while it was loaded", p + 1, model->n_parts);
    }
    return DCT_OK;
}

/* --- look-ups ----------------------------------------------------------------------------------------------------- */

const dct_tensor *dct_model_find_tensor(const dct_model *model, const char *name) {
    dct_str key = {name, strlen(name)};
    uint32_t found = *dct_name_index_slot(&model->tensor_index, model->tensors, sizeof *model->tensors, key);
    return found == 0 ? NULL : &model->tensors[found - 1];
}

const dct_meta *dct_model_find_meta(const dct_model *model, const char *name) {
    dct_str key = {name, strlen(name)};
    uint32_t found = *dct_name_index_slot(&model->meta_index, model->meta, sizeof *model->meta, key);
    return found == 0 ? NULL : &model->meta[found - 1];
}

/* --- typed look-ups ----------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};

static dct_status wrong_type(const dct_meta *meta, const char *key, const char *expected, dct_err *err) {
    return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s' is of type %s (%s expected)", key, type_names[meta->type],
                       expected);
}

static bool is_signed(dct_meta_type type) {
    return type == DCT_META_I8 || type == DCT_META_I16 || type == DCT_META_I32 || type == DCT_META_I64;
}

static bool is_unsigned(dct_meta_type type) {
    return type == DCT_META_U8 || type == DCT_META_U16 || type == DCT_META_U32 || type == DCT_META_U64;
}

static const dct_meta *look_up(const dct_model *model, const char *key, bool *found) {
    const dct_meta *meta = dct_model_find_meta(model, key);
    *found = meta != NULL;
    return meta;
}

bool dct_meta_is_integer(dct_meta_type type) { return is_signed(type) || is_unsigned(type); }

dct_status dct_model_get_u32(const dct_model *model, const char *key, uint32_t *out, bool *found, dct_err *err) {
    const dct_meta *meta = look_up(model, key, found);
    if (meta == NULL) return DCT_OK;
    if (!dct_meta_is_integer(meta->type)) return wrong_type(meta, key, "an integer", err);
    /* As unsigned bits a negative value is beyond any u32, so one comparison does for both. */
    if (meta->as.u > UINT32_MAX)
        return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s' is out of range (0 to %u)", key, UINT32_MAX);
    *out = (uint32_t)meta->as.u;
    return DCT_OK;
}

dct_status dct_model_get_f32(const dct_model *model, const char *key, float *out, bool *found, dct_err *err) {
    const dct_meta *meta = look_up(model, key, found);
    if (meta == NULL) return DCT_OK;
    if (meta->type != DCT_META_F32 && meta->type != DCT_META_F64) return wrong_type(meta, key, "a float", err);
    if (isfinite(meta->as.f) && fabs(meta->as.f) > 3.4028234663852886e38) {
        return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s' is out of range of f32", key);
    }
    *out = (float)meta->as.f;
    return DCT_OK;
}

dct_status dct_model_get_bool(const dct_model *model, const char *key, bool *out, bool *found, dct_err *err) {
    const dct_meta *meta = look_up(model, key, found);
    if (meta == NULL) return DCT_OK;
    if (meta->type != DCT_META_BOOL) return wrong_type(meta, key, "a bool", err);
    *out = meta->as.b;
    return DCT_OK;
}

dct_status dct_model_get_str(const dct_model *model, const char *key, dct_str *out, bool *found, dct_err *err) {
    const dct_meta *meta = look_up(model, key, found);
    if (meta == NULL) return DCT_OK;
    if (meta->type != DCT_META_STRING) return wrong_type(meta, key, "a string", err);
    *out = meta->as.s;
    return DCT_OK;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* The bits of element k, in the low bytes. */
static bool element_bits(const dct_model *model, const dct_meta *meta, uint64_t k, uint64_t *bits) {
    if (meta->type != DCT_META_ARRAY || k >= meta->array.n) return false;
    uint32_t width = dct_gguf_scalar_bytes(meta->array.type);
    if (width == 0) return false;
    const uint8_t *p = meta->array.bytes + k * width;
    *bits = 0;
    for (uint32_t i = 0; i < width; i++) *bits |= (uint64_t)p[model->big_endian ? width - 1 - i : i] << (8 * i);
    return true;
}

bool dct_meta_array_i64(const dct_model *model, const dct_meta *meta, uint64_t k, int64_t *out) {
    uint64_t bits;
    if (!element_bits(model, meta, k, &bits)) return false;
    switch (meta->array.type) {
    case DCT_META_I8: *out = (int8_t)bits; return true;
    case DCT_META_I16: *out = (int16_t)bits; return true;
    case DCT_META_I32: *out = (int32_t)bits; return true;
    case DCT_META_BOOL: *out = bits != 0; return true;
    case DCT_META_F32: case DCT_META_F64: return false;
    case DCT_META_U64:
        if (bits > INT64_MAX) return false;
        break;
    default: break;
    }
    *out = (int64_t)bits;
    return true;
}

bool dct_meta_array_f64(const dct_model *model, const dct_meta *meta, uint64_t k, double *out) {
    uint64_t bits;
    int64_t integer;
    if (!element_bits(model, meta, k, &bits)) return false;
    if (meta->array.type == DCT_META_F32) {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        *out = (double)f;
    } else if (meta->array.type == DCT_META_F64) {
        memcpy(out, &bits, sizeof *out);
    } else if (dct_meta_array_i64(model, meta, k, &integer)) {
        *out = (double)integer;
    } else {
        *out = (double)bits; /* a u64 beyond i64 */
    }
    return true;
}

bool dct_meta_array_next_str(const dct_model *model, const dct_meta *meta, uint64_t *cursor, dct_str *out) {
    if (meta->type != DCT_META_ARRAY || meta->array.type != DCT_META_STRING || *cursor >= meta->array.n_bytes) return false;
    dct_reader r = dct_reader_of(meta->array.bytes, meta->array.n_bytes);
    r.big_endian = model->big_endian;
    r.pos = *cursor;
    uint64_t n;
    const void *at;
    if (!dct_read_u64(&r, &n) || !dct_read_bytes(&r, n, &at)) return false;
    *out = (dct_str){at, (size_t)n};
    *cursor = r.pos;
    return true;
}

uint64_t dct_model_identity(const dct_model *m) {
    uint64_t hash = m->fingerprint;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const dct_file *f = &m->files[i];
        hash = dct_hash_mix(dct_hash_mix(dct_hash_mix(hash ^ f->identity) ^ f->bytes) ^ (uint64_t)f->written_ns);
    }
    return hash | 1;
}
