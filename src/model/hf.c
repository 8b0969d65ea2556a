/* Opens a directory: reads its small files whole and the header of each part, and hands them to dct_hf_record. */
#include "model/hf.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "model/gguf_scan.h"
#include "model/record.h"

enum { MIB = 1024 * 1024, MAX_PATH = 4096 };

typedef struct hf_dir {
    dct_model *model;
    dct_arena *arena;
    dct_err *err;
    uint64_t hash;       /* of all that was read */
    dct_hf_texts texts;
    dct_str index;       /* model.safetensors.index.json */
    dct_str names[DCT_MAX_PARTS];
    uint32_t n_parts;
    dct_st_tensor *tensors; /* of all parts */
    uint32_t n_tensors;
} hf_dir;

static dct_status path_of(const hf_dir *d, dct_str name, char out[MAX_PATH]) {
    int n = snprintf(out, MAX_PATH, "%s/%.*s", d->model->path, (int)name.len, name.ptr);
    return n < 0 || n >= MAX_PATH ? dct_fail(d->err, DCT_BAD_FILE, "the path of '%s' is too long", dct_gguf_quote(name).text)
                                  : DCT_OK;
}

/* A file as one text in the arena; {NULL, 0} when there is none. */
static dct_status read_text(hf_dir *d, const char *name, uint64_t max, dct_str *out) {
    char path[MAX_PATH];
    dct_file file = {.fd = -1};
    dct_status status = path_of(d, (dct_str){name, strlen(name)}, path);
    if (status != DCT_OK || !dct_os_exists(path)) return status;
    status = dct_file_open(&file, path, d->err);
    if (status != DCT_OK) return status;
    char *bytes = NULL;
    if (file.bytes > max)
        status = dct_fail(d->err, DCT_BAD_FILE, "%s: %llu bytes (at most %llu)", dct_show_path(path).text,
                          (unsigned long long)file.bytes, (unsigned long long)max);
    if (status == DCT_OK && (bytes = dct_arena_alloc(d->arena, file.bytes + 1)) == NULL)
        status = dct_fail_memory(d->err, d->arena, name);
    if (status == DCT_OK) status = dct_file_read_at(&file, 0, bytes, file.bytes, d->err);
    dct_file_close(&file);
    if (status != DCT_OK) return status;
    *out = (dct_str){bytes, (size_t)file.bytes};
    d->hash = dct_hash_bytes(d->hash, bytes, file.bytes);
    d->model->file_bytes += file.bytes;
    d->model->header_bytes += file.bytes;
    return DCT_OK;
}

static dct_status read_texts(hf_dir *d) {
    const struct {
        const char *name;
        uint64_t max;
        dct_str *out;
    } files[] = {
        {"config.json", 4 * MIB, &d->texts.config},
        {"generation_config.json", MIB, &d->texts.generation},
        {"tokenizer.json", 128 * MIB, &d->texts.tokenizer},
        {"tokenizer_config.json", 16 * MIB, &d->texts.tokenizer_config},
        {"chat_template.jinja", MIB, &d->texts.chat_template},
        {"model.safetensors.index.json", 64 * MIB, &d->index},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dct_status status = read_text(d, files[i].name, files[i].max, files[i].out);
        if (status != DCT_OK) return status;
    }
    if (d->texts.config.ptr != NULL) return DCT_OK;
    return dct_fail(d->err, DCT_BAD_FILE, "%s: no config.json in this directory; of GGUF files name one",
                    dct_show_path(d->model->path).text);
}

/* ---- the parts ---- */

/* A plain name of this directory. */
static bool is_plain_name(dct_str name) {
    return name.len > 0 && name.len < 256 && memchr(name.ptr, '/', name.len) == NULL &&
           memchr(name.ptr, '\0', name.len) == NULL && name.ptr[0] != '.';
}

static dct_status bad_index(const hf_dir *d, dct_json at, const char *why) {
    return dct_fail_at(d->err, DCT_BAD_FILE, dct_json_offset(at), "model.safetensors.index.json: %s", why);
}

static bool same_part(const hf_dir *d, uint32_t part, dct_json file) {
    dct_str raw = dct_json_raw(file);
    return dct_str_eq(raw, d->names[part]);
}

/* The parts that the index names, each once. Names are compared as they are spelt; escapes in them are refused as paths are. */
static dct_status list_parts(hf_dir *d, dct_json map) {
    for (dct_json_walk w = dct_json_begin(map); dct_json_next(&w);) {
        dct_str name = dct_json_raw(w.value);
        uint32_t part = d->n_parts;
        if (dct_json_kind_of(w.value) != DCT_JSON_STRING || !is_plain_name(name) || memchr(name.ptr, '\\', name.len) != NULL) {
            return bad_index(d, w.value, "a part is not a plain file name");
        }
        while (part > 0 && !same_part(d, part - 1, w.value)) part--;
        if (part > 0) continue;
        if (d->n_parts == DCT_MAX_PARTS) return bad_index(d, w.value, "too many parts (512 at most)");
        d->names[d->n_parts++] = name;
    }
    return d->n_parts > 0 ? DCT_OK : bad_index(d, map, "it names no parts");
}

static dct_status read_part(hf_dir *d, uint32_t part, dct_st_file *out) {
    char path[MAX_PATH];
    uint8_t first[8] = {0};
    uint64_t n = 0;
    dct_file *file = &d->model->files[part];
    dct_status status = path_of(d, d->names[part], path);
    if (status == DCT_OK) status = dct_file_open(file, path, d->err);
    if (status != DCT_OK) return status;
    dct_err why;
    status = dct_file_read_at(file, 0, first, file->bytes < 8 ? file->bytes : 8, &why);
    if (status == DCT_OK) status = dct_st_header_bytes(first, file->bytes, &n, &why);
    char *json = status == DCT_OK ? dct_arena_alloc(d->arena, n + 1) : NULL;
    if (status == DCT_OK && json == NULL) return dct_fail_memory(d->err, d->arena, "the header");
    if (status == DCT_OK) status = dct_file_read_at(file, 8, json, n, &why);
    if (status == DCT_OK) status = dct_st_read((dct_str){json, n}, d->arena, out, &why);
    if (status == DCT_OK && 8 + n + out->data_bytes < file->bytes) {
        status = dct_fail_at(&why, DCT_BAD_FILE, 8 + n + out->data_bytes, "bytes that belong to no tensor");
    }
    if (status != DCT_OK) return dct_fail(d->err, status, "%s: %.300s", dct_gguf_quote(d->names[part]).text, why.message);
    if (8 + n + out->data_bytes > file->bytes) d->model->data_missing = true;
    for (uint32_t i = 0; i < out->n_tensors; i++) { /* from the file's begin now; sums of 63-bit numbers */
        out->tensors[i].part = part;
        out->tensors[i].begin += 8 + n;
    }
    d->hash = dct_hash_bytes(d->hash, json, n);
    d->model->file_bytes += file->bytes;
    d->model->header_bytes += 8 + n;
    return DCT_OK;
}

static dct_status read_parts(hf_dir *d) {
    dct_st_file *parts = dct_arena_array(d->arena, d->n_parts, sizeof *parts);
    uint64_t n = 0;
    if (parts == NULL) return dct_fail_memory(d->err, d->arena, "the parts");
    d->model->n_parts = d->n_parts;
    for (uint32_t p = 0; p < d->n_parts; p++) {
        dct_status status = read_part(d, p, &parts[p]);
        if (status != DCT_OK) return status;
        n += parts[p].n_tensors;
    }
    d->n_tensors = (uint32_t)n; /* headers of 100 MB at 40 bytes each, 512 of them: below 2^31 */
    d->tensors = parts[0].tensors;
    if (d->n_parts == 1) return DCT_OK;
    d->tensors = dct_arena_array(d->arena, n, sizeof *d->tensors);
    if (d->tensors == NULL) return dct_fail_memory(d->err, d->arena, "the tensors of all parts");
    n = 0;
    for (uint32_t p = 0; p < d->n_parts; n += parts[p++].n_tensors) {
        if (parts[p].n_tensors > 0) memcpy(d->tensors + n, parts[p].tensors, parts[p].n_tensors * sizeof *d->tensors);
    }
    return DCT_OK;
}

/* Every tensor of the parts is in the index at its part, and the index has no others. */
static dct_status check_index(hf_dir *d, dct_json map) {
    dct_name_index index;
    if (!dct_name_index_init(&index, d->n_tensors, d->hash, d->arena))
        return dct_fail_memory(d->err, d->arena, "the names of tensors");
    for (uint32_t i = 0; i < d->n_tensors; i++)
        *dct_name_index_slot(&index, d->tensors, sizeof *d->tensors, d->tensors[i].name) = i + 1;
    uint64_t n = 0;
    for (dct_json_walk w = dct_json_begin(map); dct_json_next(&w); n++) {
        char name[512];
        if (w.key.len > sizeof name) return bad_index(d, w.value, "a name is too long");
        dct_str key = {name, (size_t)dct_json_decode(w.key, name)};
        uint32_t at = *dct_name_index_slot(&index, d->tensors, sizeof *d->tensors, key);
        if (at != 0 && same_part(d, d->tensors[at - 1].part, w.value)) continue;
        return dct_fail_at(d->err, DCT_BAD_FILE, dct_json_offset(w.value),
                           "model.safetensors.index.json: tensor '%s' is not in the part it names", dct_gguf_quote(key).text);
    }
    if (n == d->n_tensors) return DCT_OK;
    return dct_fail(d->err, DCT_BAD_FILE, "model.safetensors.index.json names %llu tensors, the parts hold %u",
                    (unsigned long long)n, d->n_tensors);
}

static dct_status read_tensors(hf_dir *d) {
    char path[MAX_PATH];
    dct_status status = path_of(d, DCT_STR("model.safetensors"), path);
    if (status != DCT_OK) return status;
    if (dct_os_exists(path)) {
        d->names[0] = DCT_STR("model.safetensors");
        d->n_parts = 1;
        return read_parts(d);
    }
    if (d->index.ptr == NULL)
        return dct_fail(d->err, DCT_BAD_FILE, "%s: neither model.safetensors nor model.safetensors.index.json in this directory",
                        dct_show_path(d->model->path).text);
    dct_json root;
    uint32_t n;
    status = dct_json_open(d->index, "model.safetensors.index.json", 0, &root, d->err);
    if (status != DCT_OK) return status;
    dct_json map = dct_json_find(root, "weight_map", &n);
    if (n != 1 || dct_json_kind_of(map) != DCT_JSON_OBJECT) return bad_index(d, map, "'weight_map' is not one object");
    status = list_parts(d, map);
    if (status == DCT_OK) status = read_parts(d);
    return status == DCT_OK ? check_index(d, map) : status;
}

dct_status dct_hf_open(dct_model *model, dct_arena *arena, dct_err *err) {
    hf_dir *d = dct_arena_alloc(arena, sizeof *d);
    if (d == NULL) return dct_fail_memory(err, arena, "reading the directory");
    *d = (hf_dir){.model = model, .arena = arena, .err = err, .hash = DCT_HASH_SEED};
    dct_status status = read_texts(d);
    if (status == DCT_OK) status = read_tensors(d);
    if (status != DCT_OK) return status;
    model->fingerprint = d->hash;
    model->index_seed = dct_hash_mix((uint64_t)(uintptr_t)model);
    return dct_hf_record(model, &d->texts, d->tensors, d->n_tensors, arena, err);
}
