#include "base/reader.h"

#include <string.h>

bool dct_str_eq(dct_str a, dct_str b) { return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0); }
bool dct_str_eq_z(dct_str a, const char *z) { return dct_str_eq(a, (dct_str){z, strlen(z)}); }

dct_reader dct_reader_of(const void *bytes, uint64_t size) {
    return (dct_reader){.bytes = bytes, .size = size};
}

/* The next n bytes (n <= 8) as an unsigned integer in the reader's byte order. */
static bool read_uint(dct_reader *r, unsigned n, uint64_t *out) {
    if (dct_reader_left(r) < n) return false;
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned shift = 8 * (r->big_endian ? n - 1 - i : i);
        v |= (uint64_t)r->bytes[r->pos + i] << shift;
    }
    r->pos += n;
    *out = v;
    return true;
}

bool dct_read_u8(dct_reader *r, uint8_t *out) {
    uint64_t v;
    if (!read_uint(r, 1, &v)) return false;
    *out = (uint8_t)v;
    return true;
}

bool dct_read_u16(dct_reader *r, uint16_t *out) {
    uint64_t v;
    if (!read_uint(r, 2, &v)) return false;
    *out = (uint16_t)v;
    return true;
}

bool dct_read_u32(dct_reader *r, uint32_t *out) {
    uint64_t v;
    if (!read_uint(r, 4, &v)) return false;
    *out = (uint32_t)v;
    return true;
}

bool dct_read_u64(dct_reader *r, uint64_t *out) { return read_uint(r, 8, out); }

bool dct_read_bytes(dct_reader *r, uint64_t n, const void **out) {
    if (dct_reader_left(r) < n) return false;
    *out = r->bytes + r->pos;
    r->pos += n;
    return true;
}

bool dct_read_skip(dct_reader *r, uint64_t n) {
    if (dct_reader_left(r) < n) return false;
    r->pos += n;
    return true;
}

void dct_write_bytes(dct_writer *w, const void *bytes, uint64_t n) {
    if (w->bytes != NULL) {
        if (w->size - w->pos < n) {
            w->overflow = true;
            return;
        }
        if (n != 0) memcpy(w->bytes + w->pos, bytes, n);
    }
    w->pos += n;
}

static void write_uint(dct_writer *w, uint64_t v, unsigned n) {
    uint8_t le[8];
    for (unsigned i = 0; i < n; i++) le[i] = (uint8_t)(v >> (8 * i));
    dct_write_bytes(w, le, n);
}

void dct_write_u8(dct_writer *w, uint8_t v) { write_uint(w, v, 1); }
void dct_write_u32(dct_writer *w, uint32_t v) { write_uint(w, v, 4); }
void dct_write_u64(dct_writer *w, uint64_t v) { write_uint(w, v, 8); }

void dct_write_f32(dct_writer *w, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    write_uint(w, bits, 4);
}
