#include "support/gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth_blocks.h"

static void die(const char *what) {
    fprintf(stderr, "gguf_build: %s\n", what);
    abort();
}

/* Room for n more bytes, zeroed; returns where they begin. */
static uint8_t *extend(gguf_bytes *to, size_t n) {
    if (to->cap - to->n < n) {
        size_t cap = to->cap == 0 ? 256 : to->cap;
        while (cap - to->n < n) cap *= 2;
        to->ptr = realloc(to->ptr, cap);
        if (to->ptr == NULL) die("out of memory");
        to->cap = cap;
    }
    uint8_t *at = to->ptr + to->n;
    if (n != 0) memset(at, 0, n);
    to->n += n;
    return at;
}

static void put_bytes(gguf_bytes *to, const void *bytes, size_t n) {
    uint8_t *at = extend(to, n);
    if (n != 0) memcpy(at, bytes, n);
}

static void put_int(const gguf_build *b, gguf_bytes *to, uint64_t v, unsigned n) {
    uint8_t *at = extend(to, n);
    for (unsigned i = 0; i < n; i++) at[b->big_endian ? n - 1 - i : i] = (uint8_t)(v >> (8 * i));
}

static void put_str(const gguf_build *b, gguf_bytes *to, const char *s) {
    size_t n = strlen(s);
    put_int(b, to, n, 8);
    put_bytes(to, s, n);
}

void gguf_build_init(gguf_build *b, uint32_t version, bool big_endian) {
    memset(b, 0, sizeof *b);
    b->version = version;
    b->big_endian = big_endian;
    b->alignment = 32;
}

void gguf_build_free(gguf_build *b) {
    free(b->meta.ptr);
    free(b->infos.ptr);
    free(b->data.ptr);
    free(b->image.ptr);
    memset(b, 0, sizeof *b);
}

/* --- metadata ----------------------------------------------------------------------------------------------------- */

static const unsigned meta_widths[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

void gguf_build_key(gguf_build *b, const char *key, uint32_t type) {
    put_str(b, &b->meta, key);
    put_int(b, &b->meta, type, 4);
    b->n_meta++;
}

void gguf_build_raw(gguf_build *b, const void *bytes, size_t n) { put_bytes(&b->meta, bytes, n); }
void gguf_build_raw_int(gguf_build *b, uint64_t v, unsigned n_bytes) { put_int(b, &b->meta, v, n_bytes); }

void gguf_build_int(gguf_build *b, const char *key, dct_meta_type type, uint64_t v) {
    gguf_build_key(b, key, type);
    put_int(b, &b->meta, v, meta_widths[type]);
}

void gguf_build_u32(gguf_build *b, const char *key, uint32_t v) { gguf_build_int(b, key, DCT_META_U32, v); }
void gguf_build_i32(gguf_build *b, const char *key, int32_t v) { gguf_build_int(b, key, DCT_META_I32, (uint32_t)v); }
void gguf_build_u64(gguf_build *b, const char *key, uint64_t v) { gguf_build_int(b, key, DCT_META_U64, v); }
void gguf_build_bool(gguf_build *b, const char *key, bool v) { gguf_build_int(b, key, DCT_META_BOOL, v); }

void gguf_build_f32(gguf_build *b, const char *key, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    gguf_build_int(b, key, DCT_META_F32, bits);
}

void gguf_build_f64(gguf_build *b, const char *key, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    gguf_build_int(b, key, DCT_META_F64, bits);
}

void gguf_build_str(gguf_build *b, const char *key, const char *v) {
    gguf_build_key(b, key, DCT_META_STRING);
    put_str(b, &b->meta, v);
}

static void array_head(gguf_build *b, const char *key, uint32_t type, uint64_t n) {
    gguf_build_key(b, key, DCT_META_ARRAY);
    put_int(b, &b->meta, type, 4);
    put_int(b, &b->meta, n, 8);
}

void gguf_build_array_str(gguf_build *b, const char *key, const char *const *v, uint64_t n) {
    array_head(b, key, DCT_META_STRING, n);
    for (uint64_t i = 0; i < n; i++) put_str(b, &b->meta, v[i]);
}

void gguf_build_array_i32(gguf_build *b, const char *key, const int32_t *v, uint64_t n) {
    array_head(b, key, DCT_META_I32, n);
    for (uint64_t i = 0; i < n; i++) put_int(b, &b->meta, (uint32_t)v[i], 4);
}

void gguf_build_array_f32(gguf_build *b, const char *key, const float *v, uint64_t n) {
    array_head(b, key, DCT_META_F32, n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        put_int(b, &b->meta, bits, 4);
    }
}

void gguf_build_array_raw(gguf_build *b, const char *key, uint32_t type, uint64_t n, const void *raw, size_t n_bytes) {
    array_head(b, key, type, n);
    put_bytes(&b->meta, raw, n_bytes);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static void swap_pair(uint8_t *p) {
    uint8_t t = p[0];
    p[0] = p[1];
    p[1] = t;
}

/* The fields of a block that are wider than a byte: the f16 scales, and the u16 of IQ4_XS. */
static void swap_block(dct_dtype type, uint8_t *p) {
    switch (type) {
    case DCT_TYPE_F32: {
        uint8_t t[4] = {p[3], p[2], p[1], p[0]};
        memcpy(p, t, 4);
        break;
    }
    case DCT_TYPE_F16: case DCT_TYPE_BF16: case DCT_TYPE_Q4_0: case DCT_TYPE_Q5_0: case DCT_TYPE_Q8_0: case DCT_TYPE_IQ4_NL:
        swap_pair(p);
        break;
    case DCT_TYPE_Q4_1: case DCT_TYPE_Q5_1: case DCT_TYPE_Q4_K: case DCT_TYPE_Q5_K: case DCT_TYPE_IQ4_XS:
        swap_pair(p);
        swap_pair(p + 2);
        break;
    case DCT_TYPE_Q2_K:
        swap_pair(p + 80);
        swap_pair(p + 82);
        break;
    case DCT_TYPE_Q3_K: swap_pair(p + 108); break;
    case DCT_TYPE_Q6_K: swap_pair(p + 208); break;
    default: break; /* MXFP4 has no wide field; MLX's types are not of GGUF files */
    }
}

void gguf_build_info(gguf_build *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t ggml_type, uint64_t offset) {
    put_str(b, &b->infos, name);
    put_int(b, &b->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) put_int(b, &b->infos, ne[i], 8);
    put_int(b, &b->infos, ggml_type, 4);
    put_int(b, &b->infos, offset, 8);
    b->n_tensors++;
}

void gguf_build_absent(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne) {
    uint64_t bytes = dct_dtype_block_bytes(type);
    for (uint32_t i = 0; i < n_dims; i++) bytes *= i == 0 ? ne[0] / dct_dtype_block_elems(type) : ne[i];
    gguf_build_info(b, name, n_dims, ne, dct_dtype_ggml_id(type), b->absent_bytes);
    b->absent_bytes += (bytes + b->alignment - 1) / b->alignment * b->alignment;
}

/* Describes the tensor and returns its place in the data section, zeroed. */
static uint8_t *add_tensor(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, uint64_t *n_blocks) {
    uint64_t elems = 1;
    for (uint32_t i = 0; i < n_dims; i++) elems *= ne[i];
    if (ne[0] % dct_dtype_block_elems(type) != 0) die("row length does not suit the type");
    gguf_build_info(b, name, n_dims, ne, dct_dtype_ggml_id(type), b->data.n);
    *n_blocks = elems / dct_dtype_block_elems(type);
    size_t bytes = (size_t)(*n_blocks * dct_dtype_block_bytes(type)), at = b->data.n;
    extend(&b->data, (bytes + b->alignment - 1) / b->alignment * b->alignment);
    return b->data.ptr + at;
}

static void finish_tensor(const gguf_build *b, dct_dtype type, uint8_t *data, uint64_t n_blocks) {
    if (!b->big_endian) return;
    for (uint64_t i = 0; i < n_blocks; i++) swap_block(type, data + i * dct_dtype_block_bytes(type));
}

void gguf_build_tensor(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, const void *data) {
    uint64_t n_blocks;
    uint8_t *to = add_tensor(b, name, type, n_dims, ne, &n_blocks);
    if (data != NULL) memcpy(to, data, (size_t)(n_blocks * dct_dtype_block_bytes(type)));
    finish_tensor(b, type, to, n_blocks);
}

void gguf_build_random(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, uint64_t seed, float mean, float sigma) {
    dct_synth_stream stream;
    uint64_t n_blocks;
    dct_synth_stream_init(&stream, type, seed, b->n_tensors, mean, sigma);
    uint8_t *to = add_tensor(b, name, type, n_dims, ne, &n_blocks);
    dct_synth_fill(&stream, 0, n_blocks, to);
    finish_tensor(b, type, to, n_blocks);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

size_t gguf_build_header_bytes(const gguf_build *b) {
    size_t n = 24 + b->meta.n + b->infos.n;
    return (n + b->alignment - 1) / b->alignment * b->alignment;
}

const uint8_t *gguf_build_image(gguf_build *b, size_t *n) {
    b->image.n = 0;
    put_bytes(&b->image, "GGUF", 4);
    put_int(b, &b->image, b->version, 4);
    put_int(b, &b->image, b->n_tensors, 8);
    put_int(b, &b->image, b->n_meta, 8);
    put_bytes(&b->image, b->meta.ptr, b->meta.n);
    put_bytes(&b->image, b->infos.ptr, b->infos.n);
    extend(&b->image, gguf_build_header_bytes(b) - b->image.n);
    put_bytes(&b->image, b->data.ptr, b->data.n);
    *n = b->image.n;
    return b->image.ptr;
}

void gguf_build_save(gguf_build *b, const char *path) {
    size_t n;
    const uint8_t *image = gguf_build_image(b, &n);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(image, 1, n, f) != n || fclose(f) != 0) die("cannot write the file");
}
