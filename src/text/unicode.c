#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer.h"

static bool is_white_space(uint32_t code) {
    return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

dct_char_class dct_char_class_of(uint32_t code) {
    if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return DCT_CHAR_LETTER;
    if (is_white_space(code)) return DCT_CHAR_SPACE;
    if (code > 0x10ffff) return DCT_CHAR_OTHER;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM: case UTF8PROC_CATEGORY_LO:
        return DCT_CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_NO:
        return DCT_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_PC: case UTF8PROC_CATEGORY_PD: case UTF8PROC_CATEGORY_PS: case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI: case UTF8PROC_CATEGORY_PF: case UTF8PROC_CATEGORY_PO:
        return DCT_CHAR_PUNCT;
    default:
        return DCT_CHAR_OTHER;
    }
}

/* ---- streaming ---- */

static size_t put_replacement(char *out) {
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

/* Takes one byte when nothing is held. */
static size_t start_sequence(dct_utf8_stream *s, uint8_t byte, char *out) {
    uint32_t bytes = dct_utf8_sequence_bytes(byte);
    if (bytes == 0) return put_replacement(out);
    if (bytes == 1) {
        *out = (char)byte;
        return 1;
    }
    s->held[0] = byte;
    s->n_held = 1;
    return 0;
}

size_t dct_utf8_push(dct_utf8_stream *s, const char *bytes, size_t n, char *out) {
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (s->n_held != 0 && !dct_utf8_may_follow(s->held[0], s->n_held, byte)) written += dct_utf8_flush(s, out + written);
        if (s->n_held == 0) {
            written += start_sequence(s, byte, out + written);
            continue;
        }
        s->held[s->n_held++] = byte;
        if (s->n_held < dct_utf8_sequence_bytes(s->held[0])) continue;
        memcpy(out + written, s->held, s->n_held);
        written += s->n_held;
        s->n_held = 0;
    }
    return written;
}

size_t dct_utf8_flush(dct_utf8_stream *s, char *out) {
    if (s->n_held == 0) return 0;
    s->n_held = 0;
    return put_replacement(out);
}
