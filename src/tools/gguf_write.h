/* tools/gguf_write: the records of a GGUF v3 header, into a dct_writer. Counting with a writer without memory first gives the
 * size. */
#ifndef DCT_TOOLS_GGUF_WRITE_H
#define DCT_TOOLS_GGUF_WRITE_H

#include "base/dtype.h"
#include "base/reader.h"
#include "model/model.h"

enum { DCT_GGUF_WRITE_ALIGN = 32 };

void dct_gguf_put_head(dct_writer *w, uint64_t n_tensors, uint64_t n_meta);
void dct_gguf_put_str(dct_writer *w, dct_str s); /* u64 length, bytes */
void dct_gguf_put_array(dct_writer *w, const char *key, dct_meta_type type, uint64_t n); /* the elements follow */
void dct_gguf_put_u32(dct_writer *w, const char *key, uint32_t v);
void dct_gguf_put_f32(dct_writer *w, const char *key, float v);
void dct_gguf_put_bool(dct_writer *w, const char *key, bool v);
void dct_gguf_put_z(dct_writer *w, const char *key, const char *v);
void dct_gguf_put_tensor(dct_writer *w, const char *name, uint32_t n_dims, const uint64_t *ne, dct_dtype type, uint64_t offset);

#endif
