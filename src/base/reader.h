/* base/reader: a cursor over untrusted bytes. The only code that reads a file's integers.
 *
 * Every call checks the remaining bytes first; nothing is read on failure and the cursor stays. Multi-byte values follow
 * `big_endian`. A writer for our own files stands beside it. Little-endian hosts only are supported for bulk data.
 */
#ifndef DCT_BASE_READER_H
#define DCT_BASE_READER_H

#include "base/status.h"

typedef struct dct_str {
    const char *ptr; /* not NUL-terminated */
    size_t len;
} dct_str;

#define DCT_STR(literal) ((dct_str){literal, sizeof(literal) - 1})

bool dct_str_eq(dct_str a, dct_str b);
bool dct_str_eq_z(dct_str a, const char *z);

typedef struct dct_reader {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t pos;
    uint64_t base; /* offset in the file of bytes[0], for messages */
    bool big_endian;
} dct_reader;

dct_reader dct_reader_of(const void *bytes, uint64_t size);
static inline uint64_t dct_reader_left(const dct_reader *r) { return r->size - r->pos; }
static inline uint64_t dct_reader_offset(const dct_reader *r) { return r->base + r->pos; }

bool dct_read_u8(dct_reader *r, uint8_t *out);
bool dct_read_u16(dct_reader *r, uint16_t *out);
bool dct_read_u32(dct_reader *r, uint32_t *out);
bool dct_read_u64(dct_reader *r, uint64_t *out);
bool dct_read_bytes(dct_reader *r, uint64_t n, const void **out);
bool dct_read_skip(dct_reader *r, uint64_t n);

/* Little-endian writer into the caller's buffer; `overflow` is set instead of writing past `size`. With bytes == NULL it
 * only counts, so one routine both measures and writes. */
typedef struct dct_writer {
    uint8_t *bytes;
    uint64_t size;
    uint64_t pos;
    bool overflow;
} dct_writer;

void dct_write_u8(dct_writer *w, uint8_t v);
void dct_write_u32(dct_writer *w, uint32_t v);
void dct_write_u64(dct_writer *w, uint64_t v);
void dct_write_f32(dct_writer *w, float v);
void dct_write_bytes(dct_writer *w, const void *bytes, uint64_t n);

#endif
