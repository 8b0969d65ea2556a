#include "tools/gguf_write.h"

#include <string.h>

void dct_gguf_put_str(dct_writer *w, dct_str s) {
    dct_write_u64(w, s.len);
    dct_write_bytes(w, s.ptr, s.len);
}

static void put_z(dct_writer *w, const char *s) { dct_gguf_put_str(w, (dct_str){s, strlen(s)}); }

void dct_gguf_put_head(dct_writer *w, uint64_t n_tensors, uint64_t n_meta) {
    dct_write_bytes(w, "GGUF", 4);
    dct_write_u32(w, 3);
    dct_write_u64(w, n_tensors);
    dct_write_u64(w, n_meta);
}

static void put_key(dct_writer *w, const char *key, dct_meta_type type) {
    put_z(w, key);
    dct_write_u32(w, (uint32_t)type);
}

void dct_gguf_put_array(dct_writer *w, const char *key, dct_meta_type type, uint64_t n) {
    put_key(w, key, DCT_META_ARRAY);
    dct_write_u32(w, (uint32_t)type);
    dct_write_u64(w, n);
}

void dct_gguf_put_u32(dct_writer *w, const char *key, uint32_t v) {
    put_key(w, key, DCT_META_U32);
    dct_write_u32(w, v);
}

void dct_gguf_put_f32(dct_writer *w, const char *key, float v) {
    put_key(w, key, DCT_META_F32);
    dct_write_f32(w, v);
}

void dct_gguf_put_bool(dct_writer *w, const char *key, bool v) {
    put_key(w, key, DCT_META_BOOL);
    dct_write_u8(w, v);
}

void dct_gguf_put_z(dct_writer *w, const char *key, const char *v) {
    put_key(w, key, DCT_META_STRING);
    put_z(w, v);
}

void dct_gguf_put_tensor(dct_writer *w, const char *name, uint32_t n_dims, const uint64_t *ne, dct_dtype type, uint64_t offset) {
    put_z(w, name);
    dct_write_u32(w, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) dct_write_u64(w, ne[i]);
    dct_write_u32(w, dct_dtype_ggml_id(type));
    dct_write_u64(w, offset);
}
