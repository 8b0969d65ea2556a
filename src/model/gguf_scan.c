#include "model/gguf_scan.h"

#include <string.h>

/* The shortest records: what a count may be is what is left, divided by these. */
enum { MIN_META = 8 + 1 + 4 + 1, MIN_INFO = 8 + 1 + 4 + 8 + 4 + 8 };

dct_gguf_scan dct_gguf_scan_bytes(const void *bytes, uint64_t n) {
    uint64_t end = n < DCT_GGUF_MAX_HEADER ? n : DCT_GGUF_MAX_HEADER;
    return (dct_gguf_scan){.r = dct_reader_of(bytes, end), .end = end};
}

dct_gguf_scan dct_gguf_scan_file(const dct_file *file, uint8_t *window) {
    uint64_t end = file->bytes < DCT_GGUF_MAX_HEADER ? file->bytes : DCT_GGUF_MAX_HEADER;
    return (dct_gguf_scan){.r = dct_reader_of(window, 0), .file = file, .window = window, .end = end};
}

dct_gguf_quoted dct_gguf_quote(dct_str name) {
    dct_gguf_quoted q;
    size_t n = name.len < sizeof q.text - 1 ? name.len : sizeof q.text - 1;
    for (size_t i = 0; i < n; i++) q.text[i] = name.ptr[i] >= 0x20 && name.ptr[i] < 0x7f ? name.ptr[i] : '?';
    q.text[n] = '\0';
    return q;
}

uint32_t dct_gguf_scalar_bytes(uint32_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* --- the window --------------------------------------------------------------------------------------------------- */

static uint64_t left(const dct_gguf_scan *s) { return s->end - dct_reader_offset(&s->r); }

static dct_status cut_off(const dct_gguf_scan *s, const char *what, dct_err *err) {
    const char *why = s->end == DCT_GGUF_MAX_HEADER ? "is longer than 256 MiB" : "is cut off";
    return dct_fail_at(err, DCT_BAD_FILE, dct_reader_offset(&s->r), "the header %s in %s", why, what);
}

/* Makes the next n bytes (at most a window) stand in the reader. */
static dct_status need(dct_gguf_scan *s, uint64_t n, const char *what, dct_err *err) {
    if (dct_reader_left(&s->r) >= n) return DCT_OK;
    if (left(s) < n || s->file == NULL) return cut_off(s, what, err);
    uint64_t offset = dct_reader_offset(&s->r), size = left(s) < DCT_GGUF_WINDOW ? left(s) : DCT_GGUF_WINDOW;
    dct_status status = dct_file_read_at(s->file, offset, s->window, size, err);
    if (status != DCT_OK) return status;
    s->r.base = offset;
    s->r.pos = 0;
    s->r.size = size;
    return DCT_OK;
}

/* Passes over n bytes without reading those outside the window. *at is where they stand, NULL when they are not in memory. */
static dct_status pass(dct_gguf_scan *s, uint64_t n, const char *what, const void **at, dct_err *err) {
    if (left(s) < n) return cut_off(s, what, err);
    *at = NULL;
    if (s->file == NULL) {
        if (!dct_read_bytes(&s->r, n, at)) return cut_off(s, what, err);
    } else if (!dct_read_skip(&s->r, n)) {
        s->r.base += s->r.pos + n;
        s->r.pos = 0;
        s->r.size = 0;
    }
    return DCT_OK;
}

/* An unsigned integer of 1, 2, 4 or 8 bytes. */
static dct_status scan_uint(dct_gguf_scan *s, uint32_t n, const char *what, uint64_t *out, dct_err *err) {
    dct_status status = need(s, n, what, err);
    if (status != DCT_OK) return status;
    uint8_t u8 = 0;
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    bool ok = n == 1   ? dct_read_u8(&s->r, &u8)
              : n == 2 ? dct_read_u16(&s->r, &u16)
              : n == 4 ? dct_read_u32(&s->r, &u32)
                       : dct_read_u64(&s->r, out);
    if (!ok) return cut_off(s, what, err);
    if (n != 8) *out = (uint64_t)u8 | u16 | u32;
    return DCT_OK;
}

static dct_status scan_u32(dct_gguf_scan *s, const char *what, uint32_t *out, dct_err *err) {
    uint64_t v = 0;
    dct_status status = scan_uint(s, 4, what, &v, err);
    *out = (uint32_t)v;
    return status;
}

/* A name of 1 to `max` bytes that stays readable until the next call. */
static dct_status scan_name(dct_gguf_scan *s, uint64_t max, const char *what, dct_str *out, dct_err *err) {
    uint64_t offset = dct_reader_offset(&s->r), n = 0;
    dct_status status = scan_uint(s, 8, what, &n, err);
    if (status != DCT_OK) return status;
    if (n == 0 || n > max) {
        return dct_fail_at(err, DCT_BAD_FILE, offset, "%s has %llu bytes (1 to %llu expected)", what, (unsigned long long)n,
                           (unsigned long long)max);
    }
    status = need(s, n, what, err);
    if (status != DCT_OK) return status;
    const void *at;
    if (!dct_read_bytes(&s->r, n, &at)) return cut_off(s, what, err);
    *out = (dct_str){at, (size_t)n};
    return DCT_OK;
}

/* --- other files --------------------------------------------------------------------------------------------------- */

/* What people have under a model's name when it is no model: begun with these bytes. */
static const struct {
    const char *bytes, *is;
    size_t n;
} others[] = {
#define BEGINS(bytes, is) {bytes, is, sizeof(bytes) - 1}
    BEGINS("version http", "a pointer of Git LFS: `git lfs pull` fetches what it stands for"),
    BEGINS("<!", "a page of HTML, which a download was answered with"),
    BEGINS("<h", "a page of HTML, which a download was answered with"),
    BEGINS("\0\0\0\0\0\0\0\0", "it begins with zeros, as an unfinished download does"),
    BEGINS("tjgg", "an old GGML file: fetch or convert it as GGUF"),
    BEGINS("lmgg", "an old GGML file: fetch or convert it as GGUF"),
    BEGINS("fmgg", "an old GGML file: fetch or convert it as GGUF"),
    BEGINS("algg", "an adapter: merge it into its model first"),
    BEGINS("DCTMPLAN", "a plan: `plan FILE`, `run MODEL --plan FILE` and `verify FILE` take it"),
    BEGINS("{", "JSON; of a model directory name the directory"),
    BEGINS("PK\3\4", "a ZIP archive, as PyTorch writes; take the model as GGUF or safetensors"),
    BEGINS("\x80\2", "a Python pickle; take the model as GGUF or safetensors"),
    BEGINS("\x89PNG", "a picture"),
    BEGINS("\xff\xd8\xff", "a picture"),
    BEGINS("\x1f\x8b", "compressed: unpack it first"),
    BEGINS("\x28\xb5\x2f\xfd", "compressed: unpack it first"),
    BEGINS("\xfd" "7zXZ", "compressed: unpack it first"),
#undef BEGINS
};

static dct_status refuse_other(const char *head, size_t n, dct_err *err) {
    const char *is = "the magic is wrong";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (n < others[i].n || memcmp(head, others[i].bytes, others[i].n) != 0) continue;
        is = others[i].is;
        break;
    }
    /* the length of a header in JSON, which follows */
    if (n > 8 && memcmp(head + 4, "\0\0\0\0{", 5) == 0) is = "safetensors; name the directory that has it and its config.json";
    /* the first fields of a model's message: a small version, then the producer, a version, the graph or an operator set */
    if (n > 3 && head[0] == 8 && head[1] > 0 && head[1] < 64 && strchr("\x12\x1a\x28\x3a\x42", head[2]) != NULL && head[2] != 0)
        is = "an ONNX file: `plan FILE.onnx` says what it takes, and nothing runs it";
    return dct_fail_at(err, DCT_BAD_FILE, 0, "not a GGUF file: %s", is);
}

/* --- records ------------------------------------------------------------------------------------------------------ */

dct_status dct_gguf_scan_head(dct_gguf_scan *s, dct_gguf_head *head, dct_err *err) {
    if (s->end == 0) return dct_fail_at(err, DCT_BAD_FILE, 0, "the file is empty");
    dct_status status = need(s, 8, "the magic and version", err);
    if (status != DCT_OK) return status;
    size_t n_head = (size_t)dct_reader_left(&s->r);
    const void *magic;
    if (!dct_read_bytes(&s->r, 4, &magic)) return cut_off(s, "the magic", err);
    if (memcmp(magic, "GGUF", 4) != 0) return refuse_other(magic, n_head, err);

    status = scan_u32(s, "the version", &head->version, err);
    if (status != DCT_OK) return status;
    head->big_endian = (head->version & 0xffff) == 0 && head->version != 0;
    if (head->big_endian) {
        s->r.big_endian = true;
        head->version = __builtin_bswap32(head->version);
    }
    if (head->version != 3 && (head->version != 2 || head->big_endian)) {
        return dct_fail_at(err, DCT_BAD_FILE, 4, "GGUF version %u%s is not supported (2, and 3 in either byte order, are)",
                           head->version, head->big_endian ? " big-endian" : "");
    }

    status = scan_uint(s, 8, "the tensor count", &head->n_tensors, err);
    if (status == DCT_OK) status = scan_uint(s, 8, "the metadata count", &head->n_meta, err);
    if (status != DCT_OK) return status;
    if (head->n_tensors > left(s) / MIN_INFO) {
        return dct_fail_at(err, DCT_BAD_FILE, 8, "%llu tensors cannot be described in %llu bytes",
                           (unsigned long long)head->n_tensors, (unsigned long long)left(s));
    }
    if (head->n_meta > left(s) / MIN_META) {
        return dct_fail_at(err, DCT_BAD_FILE, 16, "%llu metadata pairs cannot stand in %llu bytes",
                           (unsigned long long)head->n_meta, (unsigned long long)left(s));
    }
    return DCT_OK;
}

static dct_status scan_string(dct_gguf_scan *s, const char *key, dct_str *out, dct_err *err) {
    uint64_t offset = dct_reader_offset(&s->r), n = 0;
    dct_status status = scan_uint(s, 8, key, &n, err);
    if (status != DCT_OK) return status;
    if (n > left(s)) {
        return dct_fail_at(err, DCT_BAD_FILE, offset, "key '%s': a string of %llu bytes where %llu are left", key,
                           (unsigned long long)n, (unsigned long long)left(s));
    }
    const void *at;
    status = pass(s, n, key, &at, err);
    *out = (dct_str){at, (size_t)n};
    return status;
}

static dct_status scan_array(dct_gguf_scan *s, const char *key, dct_meta *meta, dct_err *err) {
    uint64_t offset = dct_reader_offset(&s->r), n = 0;
    uint32_t type;
    dct_status status = scan_u32(s, key, &type, err);
    if (status == DCT_OK) status = scan_uint(s, 8, key, &n, err);
    if (status != DCT_OK) return status;
    if (type == DCT_META_ARRAY || type > DCT_META_F64) {
        return dct_fail_at(err, DCT_BAD_FILE, offset, "key '%s': an array of type %u (%s)", key, type,
                           type == DCT_META_ARRAY ? "arrays of arrays are refused" : "unknown");
    }
    uint32_t width = type == DCT_META_STRING ? 8 : dct_gguf_scalar_bytes(type);
    if (n > left(s) / width) {
        return dct_fail_at(err, DCT_BAD_FILE, offset, "key '%s': an array of %llu elements where %llu bytes are left", key,
                           (unsigned long long)n, (unsigned long long)left(s));
    }
    meta->array.type = (dct_meta_type)type;
    meta->array.n = n;
    uint64_t begin = dct_reader_offset(&s->r);
    if (type != DCT_META_STRING) {
        const void *at;
        status = pass(s, n * width, key, &at, err);
        meta->array.bytes = at;
        meta->array.n_bytes = n * width;
        return status;
    }
    meta->array.bytes = s->file == NULL ? s->r.bytes + s->r.pos : NULL;
    for (uint64_t i = 0; i < n; i++) {
        dct_str element;
        status = scan_string(s, key, &element, err);
        if (status != DCT_OK) return status;
    }
    meta->array.n_bytes = dct_reader_offset(&s->r) - begin;
    return DCT_OK;
}

static dct_status scan_scalar(dct_gguf_scan *s, const char *key, dct_meta *meta, dct_err *err) {
    uint64_t bits = 0;
    dct_status status = scan_uint(s, dct_gguf_scalar_bytes(meta->type), key, &bits, err);
    if (status != DCT_OK) return status;
    switch (meta->type) {
    case DCT_META_I8: meta->as.i = (int8_t)bits; break;
    case DCT_META_I16: meta->as.i = (int16_t)bits; break;
    case DCT_META_I32: meta->as.i = (int32_t)bits; break;
    case DCT_META_F32: {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        meta->as.f = (double)f;
        break;
    }
    case DCT_META_F64: memcpy(&meta->as.f, &bits, sizeof bits); break;
    case DCT_META_BOOL:
        if (bits > 1) return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "key '%s': a bool of value %u", key, (unsigned)bits);
        meta->as.b = bits == 1;
        break;
    default: meta->as.u = bits; break;
    }
    return DCT_OK;
}

dct_status dct_gguf_scan_meta(dct_gguf_scan *s, uint64_t number, dct_meta *meta, dct_err *err) {
    uint64_t begin = dct_reader_offset(&s->r);
    memset(meta, 0, sizeof *meta);
    dct_status status = scan_name(s, DCT_GGUF_MAX_KEY, "a metadata key", &meta->key, err);
    if (status != DCT_OK) return status;
    dct_gguf_quoted key = dct_gguf_quote(meta->key);

    uint32_t type;
    uint64_t type_offset = dct_reader_offset(&s->r);
    status = scan_u32(s, key.text, &type, err);
    if (status != DCT_OK) return status;
    if (type > DCT_META_F64) {
        return dct_fail_at(err, DCT_BAD_FILE, type_offset, "key '%s': unknown value type %u (pair %llu, begins at byte %llu)",
                           key.text, type, (unsigned long long)number, (unsigned long long)begin);
    }
    meta->type = (dct_meta_type)type;
    meta->offset = dct_reader_offset(&s->r);
    if (type == DCT_META_STRING) return scan_string(s, key.text, &meta->as.s, err);
    if (type == DCT_META_ARRAY) return scan_array(s, key.text, meta, err);
    return scan_scalar(s, key.text, meta, err);
}

dct_status dct_gguf_scan_info(dct_gguf_scan *s, uint64_t number, dct_gguf_info *info, dct_err *err) {
    memset(info, 0, sizeof *info);
    info->info_offset = dct_reader_offset(&s->r);
    dct_status status = scan_name(s, DCT_GGUF_MAX_NAME, "a tensor name", &info->name, err);
    if (status != DCT_OK) return status;
    dct_gguf_quoted name = dct_gguf_quote(info->name);

    uint64_t dims_offset = dct_reader_offset(&s->r);
    status = scan_u32(s, name.text, &info->n_dims, err);
    if (status != DCT_OK) return status;
    if (info->n_dims == 0 || info->n_dims > DCT_MAX_DIMS) {
        return dct_fail_at(err, DCT_BAD_FILE, dims_offset, "tensor '%s' (number %llu) has %u dimensions (1 to 4 expected)",
                           name.text, (unsigned long long)number, info->n_dims);
    }
    for (uint32_t i = 0; i < DCT_MAX_DIMS; i++) info->ne[i] = 1;
    for (uint32_t i = 0; i < info->n_dims; i++) {
        status = scan_uint(s, 8, name.text, &info->ne[i], err);
        if (status != DCT_OK) return status;
    }
    status = scan_u32(s, name.text, &info->ggml_type, err);
    if (status == DCT_OK) status = scan_uint(s, 8, name.text, &info->offset, err);
    return status;
}
