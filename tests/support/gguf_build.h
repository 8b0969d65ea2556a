/* Builds GGUF images in memory, byte by byte, for tests: valid by default, and as wrong as a test asks for.
 *
 *     gguf_build b;
 *     gguf_build_init(&b, 3, false);
 *     gguf_build_str(&b, "general.architecture", "llama");
 *     gguf_build_u32(&b, "llama.block_count", 2);
 *     gguf_build_tensor(&b, "output_norm.weight", DCT_TYPE_F32, 1, (uint64_t[]){64}, NULL);
 *     size_t n;
 *     const uint8_t *image = gguf_build_image(&b, &n);
 *     ...
 *     gguf_build_free(&b);
 *
 * Or a whole tiny model with a tokenizer:
 *
 *     gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
 *     tiny.n_layer = 3;
 *     gguf_build_tiny(&b, &tiny);            (initialises b)
 *     gguf_build_save(&b, "/tmp/x.gguf");
 *
 * Uses malloc; running out of memory ends the test.
 */
#ifndef TESTS_SUPPORT_GGUF_BUILD_H
#define TESTS_SUPPORT_GGUF_BUILD_H

#include "base/dtype.h"
#include "model/model.h"

typedef struct gguf_bytes {
    uint8_t *ptr;
    size_t n, cap;
} gguf_bytes;

typedef struct gguf_build {
    uint32_t version;
    bool big_endian;
    uint32_t alignment;         /* of the data section and of each tensor; 32. Write general.alignment yourself when you change it */
    uint64_t n_meta, n_tensors; /* what the header will say: counted by the calls below, may be overwritten */
    gguf_bytes meta, infos, data, image;
    uint64_t absent_bytes;      /* of tensors that are described and not there */
} gguf_build;

void gguf_build_init(gguf_build *b, uint32_t version, bool big_endian);
void gguf_build_free(gguf_build *b);

/* ---- metadata ---- */
void gguf_build_u32(gguf_build *b, const char *key, uint32_t v);
void gguf_build_i32(gguf_build *b, const char *key, int32_t v);
void gguf_build_u64(gguf_build *b, const char *key, uint64_t v);
void gguf_build_f32(gguf_build *b, const char *key, float v);
void gguf_build_bool(gguf_build *b, const char *key, bool v);
void gguf_build_str(gguf_build *b, const char *key, const char *v);
/* Any integer type by its GGUF number; the low bytes of v are written. */
void gguf_build_int(gguf_build *b, const char *key, dct_meta_type type, uint64_t v);
void gguf_build_f64(gguf_build *b, const char *key, double v);
void gguf_build_array_str(gguf_build *b, const char *key, const char *const *v, uint64_t n);
void gguf_build_array_i32(gguf_build *b, const char *key, const int32_t *v, uint64_t n);
void gguf_build_array_f32(gguf_build *b, const char *key, const float *v, uint64_t n);
/* Any element type, elements already encoded (n_bytes of raw); n is what the header says and may lie. */
void gguf_build_array_raw(gguf_build *b, const char *key, uint32_t type, uint64_t n, const void *raw, size_t n_bytes);
/* A key and a type number, nothing more: the value follows by gguf_build_raw. Counts as one pair. */
void gguf_build_key(gguf_build *b, const char *key, uint32_t type);
void gguf_build_raw(gguf_build *b, const void *bytes, size_t n);   /* into the metadata, as it is */
void gguf_build_raw_int(gguf_build *b, uint64_t v, unsigned n_bytes); /* into the metadata, in the file's byte order */

/* ---- tensors ---- */
/* Data in the host's order, swapped when the file is big-endian; NULL: zeros. Offsets follow one another, aligned. */
void gguf_build_tensor(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, const void *data);
/* As above with seeded random data of this mean (float types) and standard deviation. */
void gguf_build_random(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne, uint64_t seed, float mean, float sigma);
/* Only a description, with whatever numbers; no data is added. */
void gguf_build_info(gguf_build *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t ggml_type, uint64_t offset);

/* A description as of a file that is cut off before its data. Not beside tensors that have some. */
void gguf_build_absent(gguf_build *b, const char *name, dct_dtype type, uint32_t n_dims, const uint64_t *ne);

/* The whole file; stays valid until the next call on b. */
const uint8_t *gguf_build_image(gguf_build *b, size_t *n);
/* Bytes of the image before the data section (padding included). */
size_t gguf_build_header_bytes(const gguf_build *b);
/* Writes the image; ends the test when the file cannot be written. */
void gguf_build_save(gguf_build *b, const char *path);

/* ---- tiny models ---- */
typedef struct gguf_tiny {
    const char *arch;   /* llama, qwen2, qwen2vl, qwen3, gemma2, gemma3, phi3 */
    dct_dtype type;     /* of all matrices */
    dct_dtype embd_type; /* of token_embd and output */
    uint64_t seed;
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx, sliding_window;
    bool tied;          /* no output.weight */
    bool biases;        /* attn_q/k/v.bias */
    bool rope_freqs;    /* rope_freqs.weight */
    uint32_t version;
    bool big_endian;
    bool header_only;   /* tensors are described and have no data, so that they may have any size */
} gguf_tiny;

/* Two layers of 256 (every type's block fits), 4 heads on 2, head_dim 64, n_ff 512, 320 tokens; 256 byte tokens, a few merges, and
 * <|endoftext|>, <|im_start|>, <|im_end|> at the end of the vocabulary (gemma: SPM with byte tokens). */
gguf_tiny gguf_tiny_default(const char *arch, dct_dtype type);
void gguf_build_tiny(gguf_build *b, const gguf_tiny *tiny);

#endif
