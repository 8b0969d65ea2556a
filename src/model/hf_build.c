/* Keys of the record, and members of the JSON that they come from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/hf.h"
#include "model/record.h"

enum { MAX_META = 64 };

void dct_hf_fail(dct_hf_build *b, dct_json at, const char *format, ...) {
    if (b->status != DCT_OK) return;
    char text[320];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = dct_fail_at(b->err, DCT_BAD_FILE, at.at == NULL ? DCT_NO_OFFSET : dct_json_offset(at), "%s: %s", b->file,
                            n < 0 ? "" : text);
}

void *dct_hf_alloc(dct_hf_build *b, uint64_t n, uint64_t item_bytes) {
    if (b->status != DCT_OK) return NULL;
    void *p = dct_arena_array(b->arena, n, item_bytes);
    if (p == NULL) b->status = dct_fail_memory(b->err, b->arena, "the model's record");
    return p;
}

bool dct_hf_index(dct_hf_build *b, dct_name_index *index, uint32_t n) {
    if (b->status != DCT_OK) return false;
    if (!dct_name_index_init(index, n, b->model->index_seed, b->arena))
        b->status = dct_fail_memory(b->err, b->arena, "the model's record");
    return b->status == DCT_OK;
}

/* ---- keys ---- */

static dct_meta *put(dct_hf_build *b, const char *prefix, const char *name, dct_meta_type type) {
    dct_model *m = b->model;
    if (m->meta == NULL) m->meta = dct_hf_alloc(b, MAX_META, sizeof *m->meta);
    size_t n_prefix = strlen(prefix), n = n_prefix + strlen(name) + (n_prefix != 0);
    char *key = dct_hf_alloc(b, n + 1, 1);
    if (b->status == DCT_OK && m->n_meta == MAX_META) b->status = dct_fail(b->err, DCT_BUG, "too many keys");
    if (b->status != DCT_OK) return &b->nowhere;
    snprintf(key, n + 1, "%s%s%s", prefix, n_prefix != 0 ? "." : "", name);
    dct_meta *meta = &m->meta[m->n_meta++];
    *meta = (dct_meta){.key = {key, n}, .type = type, .offset = DCT_NO_OFFSET};
    return meta;
}

void dct_hf_put_u32(dct_hf_build *b, const char *key, uint32_t v) { put(b, "", key, DCT_META_U32)->as.u = v; }
void dct_hf_put_bool(dct_hf_build *b, const char *key, bool v) { put(b, "", key, DCT_META_BOOL)->as.b = v; }
void dct_hf_put_str(dct_hf_build *b, const char *key, dct_str v) { put(b, "", key, DCT_META_STRING)->as.s = v; }
void dct_hf_put_arch_u32(dct_hf_build *b, const char *name, uint32_t v) { put(b, b->arch, name, DCT_META_U32)->as.u = v; }
void dct_hf_put_arch_bool(dct_hf_build *b, const char *name, bool v) { put(b, b->arch, name, DCT_META_BOOL)->as.b = v; }
void dct_hf_put_arch_str(dct_hf_build *b, const char *name, const char *v) {
    put(b, b->arch, name, DCT_META_STRING)->as.s = (dct_str){v, strlen(v)};
}

/* Rounded as a GGUF file would have it. */
void dct_hf_put_arch_f32(dct_hf_build *b, const char *name, double v) {
    put(b, b->arch, name, DCT_META_F32)->as.f = (double)(float)v;
}

static void fill_array(dct_meta *meta, dct_meta_type type, uint64_t n, const void *bytes, uint64_t n_bytes) {
    meta->array.type = type;
    meta->array.n = n;
    meta->array.bytes = bytes;
    meta->array.n_bytes = n_bytes;
}

void dct_hf_put_array(dct_hf_build *b, const char *key, dct_meta_type type, uint64_t n, const void *bytes, uint64_t n_bytes) {
    fill_array(put(b, "", key, DCT_META_ARRAY), type, n, bytes, n_bytes);
}

void dct_hf_put_arch_i32s(dct_hf_build *b, const char *name, const int32_t *v, uint64_t n) {
    int32_t *copy = dct_hf_alloc(b, n, sizeof *copy);
    if (copy == NULL) return;
    memcpy(copy, v, n * sizeof *copy);
    fill_array(put(b, b->arch, name, DCT_META_ARRAY), DCT_META_I32, n, (const uint8_t *)copy, n * sizeof *copy);
}

dct_str dct_hf_text(dct_hf_build *b, dct_json v) {
    dct_str raw = dct_json_raw(v);
    char *text = dct_hf_alloc(b, raw.len + 1, 1);
    if (text == NULL) return DCT_STR("");
    return (dct_str){text, dct_json_decode(raw, text)};
}

/* ---- members ---- */

dct_json dct_hf_member(dct_hf_build *b, dct_json object, const char *key) {
    uint32_t n;
    dct_json v = dct_json_find(object, key, &n);
    if (n > 1) dct_hf_fail(b, v, "'%s' stands twice", key);
    return dct_json_kind_of(v) == DCT_JSON_NULL || b->status != DCT_OK ? (dct_json){0} : v;
}

dct_json dct_hf_holder(const dct_hf_build *b, const char *key) {
    return dct_json_find(b->text, key, NULL).at != NULL ? b->text : b->root;
}

bool dct_hf_u32(dct_hf_build *b, dct_json object, const char *key, uint32_t *out) {
    dct_json v = dct_hf_member(b, object, key);
    uint64_t n;
    if (v.at == NULL) return false;
    if (!dct_json_u64(v, &n) || n > UINT32_MAX) {
        dct_hf_fail(b, v, "'%s' is not a whole number from 0 to %u", key, UINT32_MAX);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

bool dct_hf_f64(dct_hf_build *b, dct_json object, const char *key, double *out) {
    dct_json v = dct_hf_member(b, object, key);
    double x;
    if (v.at == NULL) return false;
    if (!dct_json_f64(v, &x) || fabs(x) > 3e38) {
        dct_hf_fail(b, v, "'%s' is not a number that fits", key);
        return false;
    }
    *out = x;
    return true;
}

bool dct_hf_bool(dct_hf_build *b, dct_json object, const char *key, bool *out) {
    dct_json v = dct_hf_member(b, object, key);
    if (v.at == NULL) return false;
    if (dct_json_bool(v, out)) return true;
    dct_hf_fail(b, v, "'%s' is not true or false", key);
    return false;
}

bool dct_hf_str(dct_hf_build *b, dct_json object, const char *key, dct_json *out) {
    dct_json v = dct_hf_member(b, object, key);
    if (v.at == NULL) return false;
    if (dct_json_kind_of(v) == DCT_JSON_STRING) {
        *out = v;
        return true;
    }
    dct_hf_fail(b, v, "'%s' is not a string", key);
    return false;
}

/* ---- the whole ---- */

dct_status dct_hf_record(dct_model *model, const dct_hf_texts *texts, const dct_st_tensor *tensors, uint32_t n, dct_arena *arena,
                         dct_err *err) {
    dct_hf_build b = {.model = model, .arena = arena, .err = err, .arch = ""};
    model->format = DCT_FORMAT_SAFETENSORS;
    dct_hf_config(&b, texts);
    dct_hf_tokenizer(&b, texts);
    dct_hf_tensors(&b, tensors, n);
    return b.status != DCT_OK ? b.status : dct_record_index_meta(model, arena, err);
}
