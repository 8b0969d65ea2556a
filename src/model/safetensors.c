#include "model/safetensors.h"

#include <string.h>

#include "base/size.h"
#include "model/gguf_scan.h"
#include "model/json.h"

static const struct {
    const char *name;
    uint32_t bytes;
} types[DCT_ST_COUNT] = {
    [DCT_ST_F32] = {"F32", 4},         [DCT_ST_F16] = {"F16", 2},         [DCT_ST_BF16] = {"BF16", 2},
    [DCT_ST_U32] = {"U32", 4},         [DCT_ST_F64] = {"F64", 8},         [DCT_ST_I64] = {"I64", 8},
    [DCT_ST_U64] = {"U64", 8},         [DCT_ST_I32] = {"I32", 4},         [DCT_ST_I16] = {"I16", 2},
    [DCT_ST_U16] = {"U16", 2},         [DCT_ST_I8] = {"I8", 1},           [DCT_ST_U8] = {"U8", 1},
    [DCT_ST_BOOL] = {"BOOL", 1},       [DCT_ST_F8_E4M3] = {"F8_E4M3", 1}, [DCT_ST_F8_E5M2] = {"F8_E5M2", 1},
    [DCT_ST_F8_E8M0] = {"F8_E8M0", 1},
};

enum { HEAD = 8, LEAST_ENTRY = 40 }; /* bytes before the JSON; a description takes more than this many */

dct_status dct_st_header_bytes(const uint8_t first[8], uint64_t file_bytes, uint64_t *n, dct_err *err) {
    uint64_t bytes = 0;
    for (int i = 0; i < HEAD; i++) bytes |= (uint64_t)first[i] << (8 * i);
    if (bytes > DCT_SAFETENSORS_MAX_HEADER) {
        return dct_fail_at(err, DCT_BAD_FILE, 0, "a header of %llu bytes (at most %d): not a safetensors file",
                           (unsigned long long)bytes, (int)DCT_SAFETENSORS_MAX_HEADER);
    }
    if (file_bytes < HEAD || bytes > file_bytes - HEAD) {
        return dct_fail_at(err, DCT_BAD_FILE, 0, "a header of %llu bytes in a file of %llu", (unsigned long long)bytes,
                           (unsigned long long)file_bytes);
    }
    *n = bytes;
    return DCT_OK;
}

/* ---- one tensor ---- */

static dct_status bad(const dct_st_tensor *t, dct_err *err, const char *why) {
    return dct_fail_at(err, DCT_BAD_FILE, t->offset, "tensor '%s': %s", dct_gguf_quote(t->name).text, why);
}

static dct_status read_type(dct_json value, dct_st_tensor *t, dct_err *err) {
    for (int type = 0; type < DCT_ST_COUNT; type++) {
        if (!dct_json_str_is(value, types[type].name)) continue;
        t->type = (dct_st_type)type;
        return DCT_OK;
    }
    return dct_fail_at(err, DCT_BAD_FILE, t->offset, "tensor '%s': dtype '%s' is not one of the format",
                       dct_gguf_quote(t->name).text, dct_gguf_quote(dct_json_raw(value)).text);
}

static dct_status read_shape(dct_json value, dct_st_tensor *t, uint64_t *n_elems, dct_err *err) {
    if (dct_json_kind_of(value) != DCT_JSON_ARRAY) return bad(t, err, "its shape is not an array");
    *n_elems = 1;
    for (dct_json_walk w = dct_json_begin(value); dct_json_next(&w); t->n_dims++) {
        if (t->n_dims == DCT_SAFETENSORS_MAX_DIMS) return bad(t, err, "it has too many dimensions (8 at most)");
        uint64_t n;
        if (!dct_json_u64(w.value, &n)) return bad(t, err, "a dimension is not a whole number");
        if (!dct_mul_u64(*n_elems, n, n_elems) || *n_elems > INT64_MAX)
            return bad(t, err, "the product of its dimensions overflows");
        t->shape[t->n_dims] = n;
    }
    return DCT_OK;
}

static dct_status read_range(dct_json value, dct_st_tensor *t, uint64_t n_elems, dct_err *err) {
    uint64_t ends[2], bytes = 0;
    uint32_t n = 0;
    for (dct_json_walk w = dct_json_begin(value); dct_json_next(&w); n++) {
        if (n == 2 || !dct_json_u64(w.value, &ends[n])) return bad(t, err, "data_offsets are not two whole numbers");
    }
    if (n != 2 || dct_json_kind_of(value) != DCT_JSON_ARRAY) return bad(t, err, "data_offsets are not two whole numbers");
    if (ends[0] > ends[1] || ends[1] > INT64_MAX) return bad(t, err, "data_offsets do not ascend, or are out of range");
    if (!dct_mul_u64(n_elems, types[t->type].bytes, &bytes) || bytes != ends[1] - ends[0]) {
        return dct_fail_at(err, DCT_BAD_FILE, t->offset, "tensor '%s': data_offsets hold %llu bytes, its shape of %s takes %llu",
                           dct_gguf_quote(t->name).text, (unsigned long long)(ends[1] - ends[0]), types[t->type].name,
                           (unsigned long long)bytes);
    }
    t->begin = ends[0];
    t->bytes = bytes;
    return DCT_OK;
}

static dct_status read_tensor(dct_json value, dct_st_tensor *t, dct_err *err) {
    static const char *const fields[3] = {"dtype", "shape", "data_offsets"};
    dct_json found[3];
    uint64_t n_elems = 0;
    if (dct_json_kind_of(value) != DCT_JSON_OBJECT) return bad(t, err, "its description is not an object");
    for (int i = 0; i < 3; i++) {
        uint32_t n;
        found[i] = dct_json_find(value, fields[i], &n);
        if (n == 1) continue;
        return dct_fail_at(err, DCT_BAD_FILE, t->offset, "tensor '%s': '%s' %s", dct_gguf_quote(t->name).text, fields[i],
                           n == 0 ? "is missing" : "stands twice");
    }
    dct_status status = read_type(found[0], t, err);
    if (status == DCT_OK) status = read_shape(found[1], t, &n_elems, err);
    if (status == DCT_OK) status = read_range(found[2], t, n_elems, err);
    return status;
}

/* ---- the order of the data ---- */

/* Empty tensors come before what begins where they stand, in the order in which they are described. */
static bool comes_after(const dct_st_tensor *a, const dct_st_tensor *b) {
    if (a->begin != b->begin) return a->begin > b->begin;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->offset > b->offset;
}

static void sift_down(dct_st_tensor *list, uint32_t n, uint32_t at) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && comes_after(&list[child + 1], &list[child])) child++;
        if (!comes_after(&list[child], &list[at])) return;
        dct_st_tensor moved = list[at];
        list[at] = list[child];
        list[child] = moved;
        at = child;
    }
}

static void sort_by_data(dct_st_tensor *list, uint32_t n) {
    uint32_t ordered = 1;
    while (ordered < n && !comes_after(&list[ordered - 1], &list[ordered])) ordered++;
    if (ordered >= n) return; /* as most files have it */
    for (uint32_t i = n / 2; i-- > 0;) sift_down(list, n, i);
    for (uint32_t end = n - 1; end > 0; end--) {
        dct_st_tensor last = list[end];
        list[end] = list[0];
        list[0] = last;
        sift_down(list, end, 0);
    }
}

static dct_status check_ranges(dct_st_file *file, dct_err *err) {
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        const dct_st_tensor *t = &file->tensors[i];
        if (t->begin != file->data_bytes) {
            return dct_fail_at(err, DCT_BAD_FILE, t->offset, "tensor '%s': data offset %llu %s (%llu expected)",
                               dct_gguf_quote(t->name).text, (unsigned long long)t->begin,
                               t->begin < file->data_bytes ? "overlaps another tensor" : "leaves a hole",
                               (unsigned long long)file->data_bytes);
        }
        file->data_bytes += t->bytes; /* begin + bytes, which fits 63 bits */
    }
    return DCT_OK;
}

/* ---- the header ---- */

dct_status dct_st_read(dct_str json, dct_arena *arena, dct_st_file *file, dct_err *err) {
    *file = (dct_st_file){0};
    dct_json root;
    dct_status status = dct_json_open(json, "the header", HEAD, &root, err);
    if (status != DCT_OK) return status;
    uint64_t n = dct_json_count(root),
             most = json.len / LEAST_ENTRY + 1; /* more entries cannot all be descriptions: one will be refused */
    if (n > most) n = most;
    file->tensors = dct_arena_array(arena, n, sizeof *file->tensors);
    if (file->tensors == NULL) return dct_fail_memory(err, arena, "the list of tensors");
    for (dct_json_walk w = dct_json_begin(root); dct_json_next(&w);) {
        if (file->n_tensors == n)
            return dct_fail_at(err, DCT_BAD_FILE, HEAD + dct_json_offset(w.value), "more entries than descriptions fit");
        char *name = dct_arena_alloc(arena, w.key.len);
        if (name == NULL) return dct_fail_memory(err, arena, "the names of tensors");
        dct_st_tensor *t = &file->tensors[file->n_tensors];
        t->name = (dct_str){name, dct_json_decode(w.key, name)};
        t->offset = HEAD + dct_json_offset(w.value);
        if (dct_str_eq_z(t->name, "__metadata__")) continue; /* strings for people */
        status = read_tensor(w.value, t, err);
        if (status != DCT_OK) return status;
        file->n_tensors++;
    }
    sort_by_data(file->tensors, file->n_tensors);
    return check_ranges(file, err);
}
