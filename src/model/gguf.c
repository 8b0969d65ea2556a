/* Opens GGUF files: one, or all parts of a split model.
 *
 * Each part is scanned twice. The first pass goes through a window, takes no memory and finds where the header ends; then exactly
 * the header is read into the arena, and the second pass makes records of it that point into those bytes. Tensors must follow one
 * another in the data section without holes, as the format's own library demands; so no two overlap, and an offset that lies
 * beyond a file is either wrong, or right and the file is cut.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "model/gguf_scan.h"
#include "model/record.h"

enum { MAX_ALIGNMENT = 65536 };

/* What the reader itself needs to know of one part. */
typedef struct gguf_part {
    const uint8_t *bytes; /* the header, up to the padding */
    uint64_t n_bytes, file_bytes;
    uint64_t infos_at;    /* where the tensors' descriptions begin */
    dct_gguf_head head;
    uint64_t alignment;
    uint64_t split_no, split_count, split_tensors; /* 0, 1, 0 when the keys are absent */
} gguf_part;

/* --- one part ----------------------------------------------------------------------------------------------------- */

/* Finds where the header ends. */
static dct_status skim(dct_gguf_scan s, uint64_t *n_bytes, dct_err *err) {
    dct_gguf_head head;
    dct_meta meta;
    dct_gguf_info info;
    dct_status status = dct_gguf_scan_head(&s, &head, err);
    for (uint64_t i = 0; status == DCT_OK && i < head.n_meta; i++) status = dct_gguf_scan_meta(&s, i, &meta, err);
    for (uint64_t i = 0; status == DCT_OK && i < head.n_tensors; i++) status = dct_gguf_scan_info(&s, i, &info, err);
    *n_bytes = dct_reader_offset(&s.r);
    return status;
}

static dct_status integer_of(const dct_meta *meta, uint64_t max, uint64_t *out, dct_err *err) {
    dct_gguf_quoted key = dct_gguf_quote(meta->key);
    switch (meta->type) {
    case DCT_META_U8: case DCT_META_U16: case DCT_META_U32: case DCT_META_U64: *out = meta->as.u; break;
    case DCT_META_I8: case DCT_META_I16: case DCT_META_I32: case DCT_META_I64:
        *out = meta->as.i < 0 ? UINT64_MAX : (uint64_t)meta->as.i;
        break;
    default: return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s' is not an integer", key.text);
    }
    if (*out <= max) return DCT_OK;
    return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s' is out of range (0 to %llu)", key.text,
                       (unsigned long long)max);
}

/* Keys that change how the file is read. */
static dct_status note_key(gguf_part *part, const dct_meta *meta, dct_err *err) {
    if (dct_str_eq_z(meta->key, "general.alignment")) {
        if (meta->type != DCT_META_U32) {
            return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key 'general.alignment' has type %d (4, u32, expected)",
                               (int)meta->type);
        }
        part->alignment = meta->as.u;
        if (dct_is_pow2(part->alignment) && part->alignment <= MAX_ALIGNMENT) return DCT_OK;
        return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key 'general.alignment' is %llu (a power of two up to %d expected)",
                           (unsigned long long)part->alignment, (int)MAX_ALIGNMENT);
    }
    if (dct_str_eq_z(meta->key, "split.no")) return integer_of(meta, DCT_MAX_PARTS - 1, &part->split_no, err);
    if (dct_str_eq_z(meta->key, "split.count")) return integer_of(meta, DCT_MAX_PARTS, &part->split_count, err);
    if (dct_str_eq_z(meta->key, "split.tensors.count")) return integer_of(meta, INT32_MAX, &part->split_tensors, err);
    return DCT_OK;
}

/* Walks the metadata of a header in memory: into `keep` (n_meta records) when it is not NULL. */
static dct_status read_meta(gguf_part *part, dct_meta *keep, dct_err *err) {
    dct_gguf_scan s = dct_gguf_scan_bytes(part->bytes, part->n_bytes);
    part->alignment = 32;
    part->split_count = 1;
    dct_status status = dct_gguf_scan_head(&s, &part->head, err);
    for (uint64_t i = 0; status == DCT_OK && i < part->head.n_meta; i++) {
        dct_meta meta;
        status = dct_gguf_scan_meta(&s, i, &meta, err);
        if (status == DCT_OK) status = note_key(part, &meta, err);
        if (status == DCT_OK && keep != NULL) keep[i] = meta;
    }
    part->infos_at = s.r.pos;
    return status;
}

static dct_status read_head(gguf_part *part, dct_err *err) {
    dct_gguf_scan s = dct_gguf_scan_bytes(part->bytes, part->n_bytes);
    return dct_gguf_scan_head(&s, &part->head, err);
}

/* Opens a file and brings its header into the arena. */
static dct_status load_part(dct_model *model, uint32_t number, const char *path, uint8_t *window, dct_arena *arena,
                            gguf_part *part, dct_err *err) {
    dct_file *file = &model->files[number];
    memset(part, 0, sizeof *part);
    dct_status status = dct_file_open(file, path, err);
    if (status != DCT_OK) return status;
    part->file_bytes = file->bytes;
    status = skim(dct_gguf_scan_file(file, window), &part->n_bytes, err);
    if (status != DCT_OK) return status;
    uint8_t *bytes = dct_arena_alloc(arena, part->n_bytes);
    if (bytes == NULL) return dct_fail_memory(err, arena, "the header");
    status = dct_file_read_at(file, 0, bytes, part->n_bytes, err);
    if (status != DCT_OK) return status;
    part->bytes = bytes;
    return read_head(part, err);
}

/* --- the record --------------------------------------------------------------------------------------------------- */

static dct_status keep_meta(dct_model *model, gguf_part *part, dct_arena *arena, dct_err *err) {
    model->version = part->head.version;
    model->big_endian = part->head.big_endian;
    model->n_meta = (uint32_t)part->head.n_meta;
    model->index_seed = dct_hash_mix((uint64_t)(uintptr_t)model);
    model->meta = dct_arena_array(arena, model->n_meta, sizeof *model->meta);
    if (model->meta == NULL) return dct_fail_memory(err, arena, "the metadata");
    dct_status status = read_meta(part, model->meta, err);
    return status != DCT_OK ? status : dct_record_index_meta(model, arena, err);
}

/* Type, shape and size of a tensor. */
static dct_status shape_of(const dct_gguf_info *info, dct_tensor *tensor, dct_err *err) {
    dct_gguf_quoted name = dct_gguf_quote(info->name);
    const char *type_name;
    if (!dct_dtype_of_ggml_id(info->ggml_type, &tensor->type, &type_name)) {
        return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s' has type %s%s(id %u), which is not supported",
                           name.text, type_name != NULL ? type_name : "", type_name != NULL ? " " : "", info->ggml_type);
    }
    tensor->name = info->name;
    tensor->n_dims = info->n_dims;
    tensor->info_offset = info->info_offset;
    tensor->n_elems = 1;
    for (uint32_t i = 0; i < DCT_MAX_DIMS; i++) {
        tensor->ne[i] = info->ne[i];
        if (info->ne[i] == 0)
            return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s': dimension %u is 0", name.text, i);
        if (!dct_mul_u64(tensor->n_elems, info->ne[i], &tensor->n_elems) || tensor->n_elems > INT64_MAX) {
            return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s': the product of its dimensions overflows",
                               name.text);
        }
    }
    if (info->ne[0] % dct_dtype_block_elems(tensor->type) != 0) {
        return dct_fail_at(err, DCT_BAD_FILE, info->info_offset,
                           "tensor '%s': rows of %llu elements are not whole blocks of %s (%u)", name.text,
                           (unsigned long long)info->ne[0], dct_dtype_name(tensor->type), dct_dtype_block_elems(tensor->type));
    }
    if (!dct_dtype_row_bytes(tensor->type, tensor->n_elems, &tensor->bytes) || tensor->bytes > INT64_MAX) {
        return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s': its size in bytes overflows", name.text);
    }
    return DCT_OK;
}

/* `expected` is where the data of the next tensor must begin in the section; moves on behind this tensor. */
static dct_status place(const gguf_part *part, const dct_gguf_info *info, uint64_t data_at, uint64_t *expected,
                        dct_tensor *tensor, dct_err *err) {
    dct_gguf_quoted name = dct_gguf_quote(info->name);
    if (info->offset != *expected) {
        const char *why = info->offset % part->alignment != 0 ? "is not aligned"
                          : info->offset < *expected          ? "overlaps another tensor"
                                                              : "leaves a hole";
        return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s': data offset %llu %s (%llu expected)", name.text,
                           (unsigned long long)info->offset, why, (unsigned long long)*expected);
    }
    uint64_t end;
    if (!dct_add_u64(data_at, info->offset, &tensor->offset) || !dct_add_u64(tensor->offset, tensor->bytes, &end) ||
        end > INT64_MAX || !dct_align_u64(*expected + tensor->bytes, part->alignment, expected)) {
        return dct_fail_at(err, DCT_BAD_FILE, info->info_offset, "tensor '%s': offset and size overflow", name.text);
    }
    return DCT_OK;
}

static dct_status read_tensors(dct_model *model, uint32_t number, const gguf_part *part, dct_err *err) {
    dct_gguf_scan s = dct_gguf_scan_bytes(part->bytes, part->n_bytes);
    s.r.pos = part->infos_at;
    s.r.big_endian = part->head.big_endian;
    uint64_t data_at = dct_round_up(part->n_bytes, part->alignment), expected = 0, end = 0;
    for (uint64_t i = 0; i < part->head.n_tensors; i++) {
        dct_gguf_info info;
        dct_tensor tensor = {.part = number};
        dct_status status = dct_gguf_scan_info(&s, i, &info, err);
        if (status == DCT_OK) status = shape_of(&info, &tensor, err);
        if (status == DCT_OK) status = place(part, &info, data_at, &expected, &tensor, err);
        if (status == DCT_OK) status = dct_record_add_tensor(model, &tensor, err);
        if (status != DCT_OK) return status;
        end = tensor.offset + tensor.bytes;
    }
    if (end > part->file_bytes) model->data_missing = true;
    return DCT_OK;
}

/* Records of all tensors, once every part's header is there. */
static dct_status keep_tensors(dct_model *model, const gguf_part *parts, dct_arena *arena, dct_err *err) {
    uint64_t n = 0;
    for (uint32_t p = 0; p < model->n_parts; p++) n += parts[p].head.n_tensors;
    if (n > INT32_MAX / 2 || (model->n_parts > 1 && parts[0].split_tensors != 0 && parts[0].split_tensors != n)) {
        return dct_fail(err, DCT_BAD_FILE, "the parts hold %llu tensors, key 'split.tensors.count' says %llu",
                        (unsigned long long)n, (unsigned long long)parts[0].split_tensors);
    }
    dct_status made = dct_record_new_tensors(model, (uint32_t)n, arena, err);
    if (made != DCT_OK) return made;
    model->fingerprint = DCT_HASH_SEED;
    for (uint32_t p = 0; p < model->n_parts; p++) {
        dct_status status = read_tensors(model, p, &parts[p], err);
        if (status != DCT_OK) return status;
        model->file_bytes += parts[p].file_bytes;
        model->header_bytes += parts[p].n_bytes;
        model->fingerprint = dct_hash_bytes(model->fingerprint, parts[p].bytes, parts[p].n_bytes);
    }
    return DCT_OK;
}

/* --- split models ------------------------------------------------------------------------------------------------- */

/* "-00001-of-00003.gguf" */
static void part_suffix(char out[32], uint64_t number, uint64_t count) {
    snprintf(out, 32, "-%05u-of-%05u.gguf", (unsigned)number + 1, (unsigned)count);
}

/* Checks that `path` is the first of several parts and leaves room for the others' names in `name`. */
static dct_status first_part(const gguf_part *part, const char *path, char *name, size_t name_bytes, dct_err *err) {
    char suffix[32];
    size_t n = strlen(path);
    if (part->split_no != 0) {
        return dct_fail(err, DCT_BAD_FILE, "this is part %llu of %llu of a split model: open part 1 (key 'split.no')",
                        (unsigned long long)part->split_no + 1, (unsigned long long)part->split_count);
    }
    part_suffix(suffix, 0, part->split_count);
    if (n >= name_bytes || n < strlen(suffix) || strcmp(path + n - strlen(suffix), suffix) != 0) {
        return dct_fail(err, DCT_BAD_FILE, "part 1 of a split model must be named '...%s' (key 'split.count' is %llu)", suffix,
                        (unsigned long long)part->split_count);
    }
    memcpy(name, path, n + 1);
    return DCT_OK;
}

static dct_status load_other_parts(dct_model *model, gguf_part *parts, uint8_t *window, dct_arena *arena, dct_err *err) {
    char name[4096], suffix[32];
    uint64_t count = parts[0].split_count;
    dct_status status = first_part(&parts[0], model->path, name, sizeof name, err);
    for (uint32_t p = 1; status == DCT_OK && p < count; p++) {
        dct_err why;
        part_suffix(suffix, p, count);
        memcpy(name + strlen(name) - strlen(suffix), suffix, strlen(suffix));
        status = load_part(model, p, name, window, arena, &parts[p], &why);
        if (status == DCT_OK) status = read_meta(&parts[p], NULL, &why);
        if (status == DCT_OK && (parts[p].split_no != p || parts[p].split_count != count)) {
            status = dct_fail(&why, DCT_BAD_FILE, "it says that it is part %llu of %llu (keys 'split.no', 'split.count')",
                              (unsigned long long)parts[p].split_no + 1, (unsigned long long)parts[p].split_count);
        }
        if (status == DCT_OK && parts[p].head.big_endian != parts[0].head.big_endian) {
            status = dct_fail_at(&why, DCT_BAD_FILE, 4, "its byte order is not that of part 1");
        }
        if (status != DCT_OK) return dct_fail(err, status, "part %u of %u: %.300s", p + 1, (unsigned)count, why.message);
    }
    return status;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

dct_status dct_gguf_open(dct_model *model, dct_arena *arena, dct_err *err) {
    const char *path = model->path;
    gguf_part first, *parts = &first;
    uint8_t *window = dct_arena_alloc(arena, DCT_GGUF_WINDOW);
    if (window == NULL) return dct_fail_memory(err, arena, "reading the header");

    dct_status status = load_part(model, 0, path, window, arena, &first, err);
    if (status == DCT_OK) status = keep_meta(model, &first, arena, err);
    if (status != DCT_OK) return status;
    if (first.split_count > 1) {
        parts = dct_arena_array(arena, first.split_count, sizeof *parts);
        if (parts == NULL) return dct_fail_memory(err, arena, "the parts of a split model");
        parts[0] = first;
        model->n_parts = (uint32_t)first.split_count;
        status = load_other_parts(model, parts, window, arena, err);
        if (status != DCT_OK) return status;
    }
    return keep_tensors(model, parts, arena, err);
}

dct_status dct_gguf_open_bytes(dct_model *model, const void *bytes, uint64_t n, dct_arena *arena, dct_err *err) {
    gguf_part part = {.bytes = bytes, .file_bytes = n};
    dct_status status = skim(dct_gguf_scan_bytes(bytes, n), &part.n_bytes, err);
    if (status == DCT_OK) status = read_head(&part, err);
    if (status == DCT_OK) status = keep_meta(model, &part, arena, err);
    if (status == DCT_OK && part.split_count > 1) {
        status = dct_fail(err, DCT_BAD_FILE, "part of a split model, which bytes in memory cannot be (key 'split.count')");
    }
    if (status == DCT_OK) status = keep_tensors(model, &part, arena, err);
    return status;
}
