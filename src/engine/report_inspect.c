/* engine/report_inspect: what a model file holds, as text for people or one JSON object. Every string of the file is untrusted:
 * in text it is printed on one line with everything escaped that could move a cursor or reorder a line; in JSON what is not UTF-8
 * becomes U+FFFD. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "base/utf8.h"
#include "engine/report.h"
#include "plan/plan_text.h"

enum { SHOWN_ELEMENTS = 8, SHOWN_BYTES = 240 };

typedef struct sink {
    const dct_model *model;
    bool all;
    dct_text_fn *out;
    void *ctx;
} sink;

static const char *const meta_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};

static bool is_signed(dct_meta_type t) { return t == DCT_META_I8 || t == DCT_META_I16 || t == DCT_META_I32 || t == DCT_META_I64; }
static bool is_float(dct_meta_type t) { return t == DCT_META_F32 || t == DCT_META_F64; }

/* --- strings from outside ----------------------------------------------------------------------------------------- */

static void put(const sink *s, const char *text, size_t n) { s->out(s->ctx, text, n); }
static void put_z(const sink *s, const char *text) { put(s, text, strlen(text)); }

static void putf(const sink *s, const char *format, ...) DCT_PRINTF(2, 3);
static void putf(const sink *s, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) put(s, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* One character (or one bad byte) at `p`, escaped when need be, inside quotes; returns the bytes taken. */
static size_t put_char(const sink *s, const uint8_t *p, size_t n) {
    char shown[DCT_SAFE_CHAR_BYTES];
    size_t taken = dct_safe_char(p, n, shown);
    if (p[0] == '"' || p[0] == '\\') put_z(s, "\\");
    put_z(s, shown);
    return taken;
}

static void put_text(const sink *s, dct_str text) {
    const uint8_t *p = (const uint8_t *)text.ptr;
    size_t shown = s->all || text.len <= SHOWN_BYTES ? text.len : SHOWN_BYTES, at = 0;
    while (at < shown) at += put_char(s, p + at, text.len - at);
    if (at < text.len) putf(s, "... (%zu bytes)", text.len);
}

static void put_quoted(const sink *s, dct_str text) {
    put_z(s, "\"");
    put_text(s, text);
    put_z(s, "\"");
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void put_integer(const sink *s, const dct_meta *meta) {
    if (is_signed(meta->type)) putf(s, "%" PRId64, meta->as.i);
    else putf(s, "%" PRIu64, meta->as.u);
}

/* Element k of an array; `cursor` walks strings. */
static void put_element(const sink *s, const dct_meta *meta, uint64_t k, uint64_t *cursor) {
    dct_str text;
    double f;
    int64_t i;
    if (meta->array.type == DCT_META_STRING) {
        if (dct_meta_array_next_str(s->model, meta, cursor, &text)) put_quoted(s, text);
    } else if (!is_float(meta->array.type) && dct_meta_array_i64(s->model, meta, k, &i)) {
        if (meta->array.type == DCT_META_BOOL) put_z(s, i != 0 ? "true" : "false");
        else putf(s, "%" PRId64, i);
    } else if (dct_meta_array_f64(s->model, meta, k, &f)) {
        putf(s, "%.9g", f);
    }
}

static void put_array(const sink *s, const dct_meta *meta) {
    uint64_t n = meta->array.n, shown = s->all || n <= SHOWN_ELEMENTS ? n : SHOWN_ELEMENTS, cursor = 0;
    put_z(s, "[");
    for (uint64_t k = 0; k < shown; k++) {
        if (k != 0) put_z(s, ", ");
        put_element(s, meta, k, &cursor);
    }
    if (shown < n) putf(s, ", ... %" PRIu64 " more", n - shown);
    put_z(s, "]");
}

static void put_meta(const sink *s, const dct_meta *meta) {
    char type[48];
    if (meta->type == DCT_META_ARRAY) snprintf(type, sizeof type, "%s[%" PRIu64 "]", meta_names[meta->array.type], meta->array.n);
    else snprintf(type, sizeof type, "%s", meta_names[meta->type]);
    put_z(s, "  ");
    put_text(s, meta->key);
    for (size_t n = meta->key.len; n < 44; n++) put_z(s, " ");
    putf(s, " %-14s ", type);
    switch (meta->type) {
    case DCT_META_ARRAY: put_array(s, meta); break;
    case DCT_META_STRING: put_quoted(s, meta->as.s); break;
    case DCT_META_BOOL: put_z(s, meta->as.b ? "true" : "false"); break;
    case DCT_META_F32: case DCT_META_F64: putf(s, "%.9g", meta->as.f); break;
    default: put_integer(s, meta); break;
    }
    put_z(s, "\n");
}

static void put_tensor(const sink *s, const dct_tensor *t) {
    char shape[96];
    int n = 0;
    for (uint32_t d = 0; d < t->n_dims; d++) {
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%" PRIu64, d == 0 ? "" : " x ", t->ne[d]);
    }
    put_z(s, "  ");
    put_text(s, t->name);
    for (size_t k = t->name.len; k < 36; k++) put_z(s, " ");
    putf(s, " %-7s %-20s %14" PRIu64 " bytes at %" PRIu64, dct_dtype_name(t->type), shape, t->bytes, t->offset);
    if (s->model->n_parts > 1) putf(s, " of part %u", t->part + 1);
    put_z(s, "\n");
}

typedef struct totals {
    uint64_t tensors, elems, bytes;
} totals;

static void sum_types(const dct_model *model, totals sum[DCT_TYPE_COUNT]) {
    memset(sum, 0, DCT_TYPE_COUNT * sizeof *sum);
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        totals *t = &sum[model->tensors[i].type];
        t->tensors++;
        t->elems += model->tensors[i].n_elems;
        t->bytes += model->tensors[i].bytes;
    }
}

static void put_totals(const sink *s) {
    totals sum[DCT_TYPE_COUNT];
    sum_types(s->model, sum);
    put_z(s, "\ntotals\n");
    for (int t = 0; t < DCT_TYPE_COUNT; t++) {
        if (sum[t].tensors == 0) continue;
        putf(s, "  %-7s %5" PRIu64 " tensors %14" PRIu64 " elements %14" PRIu64 " bytes %10.2f MiB\n",
             dct_dtype_name((dct_dtype)t), sum[t].tensors, sum[t].elems, sum[t].bytes, dct_mib(sum[t].bytes));
    }
    putf(s, "  all     %5u tensors %14" PRIu64 " elements %14" PRIu64 " bytes %10.2f MiB\n", s->model->n_tensors,
         s->model->n_params, s->model->tensor_bytes, dct_mib(s->model->tensor_bytes));
}

static void inspect_text(const sink *s) {
    const dct_model *m = s->model;
    put_z(s, "file          ");
    put_text(s, (dct_str){m->path, strlen(m->path)});
    put_z(s, "\nformat        ");
    if (m->format == DCT_FORMAT_GGUF) putf(s, "GGUF version %u, %s-endian", m->version, m->big_endian ? "big" : "little");
    else put_z(s, "directory, safetensors");
    putf(s, ", %u part%s\n", m->n_parts, m->n_parts == 1 ? "" : "s");
    putf(s, "size          %" PRIu64 " bytes (%.2f MiB), header %" PRIu64 " bytes\n", m->file_bytes, dct_mib(m->file_bytes),
         m->header_bytes);
    putf(s, "data          %s\n",
         m->n_tensors == 0 ? "no tensors"
         : m->data_missing ? "missing or cut off: good for plan and inspect only"
                           : "complete");
    putf(s, "fingerprint   %016" PRIx64 "\n", m->fingerprint);
    putf(s, "\nmetadata (%u)\n", m->n_meta);
    for (uint32_t i = 0; i < m->n_meta; i++) put_meta(s, &m->meta[i]);
    putf(s, "\ntensors (%u)\n", m->n_tensors);
    for (uint32_t i = 0; i < m->n_tensors; i++) put_tensor(s, &m->tensors[i]);
    put_totals(s);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* A JSON string; jansson takes valid UTF-8 only. NULL when there is no memory. */
static json_t *json_text(dct_str text, dct_arena *arena) {
    static const char replacement[] = "\xef\xbf\xbd";
    char *clean = dct_arena_array(arena, text.len + 1, 3);
    if (clean == NULL) return NULL;
    size_t n = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        size_t len = dct_utf8_next(text.ptr + at, text.len - at, &c);
        memcpy(clean + n, len == 0 ? replacement : text.ptr + at, len == 0 ? 3 : len);
        n += len == 0 ? 3 : len;
        at += len == 0 ? 1 : len;
    }
    return json_stringn(clean, n);
}

/* JSON has no infinities; they and integers beyond its reader's range are given as text. */
static json_t *json_float(double f) {
    return isfinite(f) ? json_real(f) : json_string(isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
}

static json_t *json_unsigned(uint64_t u) { return u <= INT64_MAX ? json_integer((json_int_t)u) : json_sprintf("%" PRIu64, u); }

static json_t *json_element(const dct_model *model, const dct_meta *meta, uint64_t k, uint64_t *cursor, dct_arena *arena) {
    dct_str text;
    double f = 0;
    int64_t i;
    if (meta->array.type == DCT_META_STRING)
        return dct_meta_array_next_str(model, meta, cursor, &text) ? json_text(text, arena) : json_null();
    if (is_float(meta->array.type)) return dct_meta_array_f64(model, meta, k, &f) ? json_float(f) : json_null();
    if (dct_meta_array_i64(model, meta, k, &i))
        return meta->array.type == DCT_META_BOOL ? json_boolean(i != 0) : json_integer((json_int_t)i);
    dct_meta_array_f64(model, meta, k, &f); /* a u64 beyond i64: the nearest double */
    return json_real(f);
}

static json_t *json_meta(const dct_model *model, const dct_meta *meta, bool all, dct_arena *arena) {
    switch (meta->type) {
    case DCT_META_STRING: return json_text(meta->as.s, arena);
    case DCT_META_BOOL: return json_boolean(meta->as.b);
    case DCT_META_F32: case DCT_META_F64: return json_float(meta->as.f);
    case DCT_META_ARRAY: break;
    default: return is_signed(meta->type) ? json_integer((json_int_t)meta->as.i) : json_unsigned(meta->as.u);
    }
    uint64_t n = meta->array.n, shown = all || n <= SHOWN_ELEMENTS ? n : SHOWN_ELEMENTS, cursor = 0;
    json_t *values = json_array();
    for (uint64_t k = 0; k < shown; k++) json_array_append_new(values, json_element(model, meta, k, &cursor, arena));
    if (shown == n) return values;
    return json_pack("{s:s, s:o, s:o}", "type", meta_names[meta->array.type], "count", json_unsigned(n), "first", values);
}

static json_t *json_all_meta(const dct_model *model, bool all, dct_arena *arena) {
    json_t *object = json_object();
    for (uint32_t i = 0; i < model->n_meta; i++) {
        json_t *key = json_text(model->meta[i].key, arena);
        if (key != NULL) json_object_set_new(object, json_string_value(key), json_meta(model, &model->meta[i], all, arena));
        json_decref(key);
    }
    return object;
}

static json_t *json_tensors(const dct_model *model, dct_arena *arena) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const dct_tensor *t = &model->tensors[i];
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_unsigned(t->ne[d]));
        json_array_append_new(array, json_pack("{s:o, s:s, s:o, s:o, s:o, s:i}", "name", json_text(t->name, arena), "type",
                                               dct_dtype_name(t->type), "shape", shape, "bytes", json_unsigned(t->bytes),
                                               "offset", json_unsigned(t->offset), "part", (int)t->part));
    }
    return array;
}

static json_t *json_totals(const dct_model *model) {
    totals sum[DCT_TYPE_COUNT];
    sum_types(model, sum);
    json_t *object = json_object();
    for (int t = 0; t < DCT_TYPE_COUNT; t++) {
        if (sum[t].tensors == 0) continue;
        json_object_set_new(object, dct_dtype_name((dct_dtype)t),
                            json_pack("{s:o, s:o, s:o}", "tensors", json_unsigned(sum[t].tensors), "elements",
                                      json_unsigned(sum[t].elems), "bytes", json_unsigned(sum[t].bytes)));
    }
    return object;
}

static int dump_to_sink(const char *buffer, size_t size, void *data) {
    put(data, buffer, size);
    return 0;
}

static dct_status inspect_json(sink *s, dct_err *err) {
    const dct_model *m = s->model;
    dct_arena arena; /* texts on their way into jansson */
    dct_arena_init(&arena, 0);
    json_t *root = json_pack("{s:o, s:s, s:i, s:s, s:i, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "path",
                             json_text((dct_str){m->path, strlen(m->path)}, &arena), "format",
                             m->format == DCT_FORMAT_GGUF ? "gguf" : "safetensors", "version", (int)m->version, "byte_order",
                             m->big_endian ? "big" : "little", "parts", (int)m->n_parts, "file_bytes",
                             json_unsigned(m->file_bytes), "header_bytes", json_unsigned(m->header_bytes), "data_missing",
                             (int)m->data_missing, "fingerprint", json_sprintf("%016" PRIx64, m->fingerprint), "n_params",
                             json_unsigned(m->n_params), "tensor_bytes", json_unsigned(m->tensor_bytes), "metadata",
                             json_all_meta(m, s->all, &arena), "tensors", json_tensors(m, &arena), "totals", json_totals(m));
    int failed = root == NULL ? -1 : json_dump_callback(root, dump_to_sink, s, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (failed == 0) put_z(s, "\n");
    json_decref(root);
    dct_arena_deinit(&arena);
    return failed == 0 ? DCT_OK : dct_fail(err, DCT_SYSTEM, "no memory for the JSON of '%.200s'", m->path);
}

dct_status dct_report_inspect(const dct_model *model, bool json, bool all, dct_text_fn *out, void *ctx, dct_err *err) {
    sink s = {model, all, out, ctx};
    if (json) return inspect_json(&s, err);
    inspect_text(&s);
    return DCT_OK;
}
