#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer.h"

/* Bytes of the sequence that this byte may begin; 0 when no sequence begins with it. */
static uint32_t sequence_bytes(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0; /* a continuation, or the lead of an overlong form */
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) return 3;
    return lead < 0xf5 ? 4 : 0;
}

/* Whether `next` may stand at position `at` (1, 2 or 3) after this lead: table 3-7 of the standard. Only the second byte
 * is narrower than 80..BF, which is what keeps out surrogates, overlong forms and what lies above U+10FFFF. */
static bool may_follow(uint8_t lead, uint32_t at, uint8_t next) {
    uint8_t low = 0x80, high = 0xbf;
    if (at == 1) {
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    }
    return next >= low && next <= high;
}

uint32_t dct_utf8_decode(const uint8_t *text, uint64_t n, uint32_t *code) {
    static const uint8_t lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *code = DCT_CHAR_INVALID;
    uint32_t bytes = sequence_bytes(text[0]);
    if (bytes == 0) return 1;
    uint32_t value = text[0] & lead_mask[bytes];
    for (uint32_t i = 1; i < bytes; i++) {
        if (i >= n || !may_follow(text[0], i, text[i])) return i;
        value = value << 6 | (text[i] & 0x3fu);
    }
    *code = value;
    return bytes;
}

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
    uint32_t bytes = sequence_bytes(byte);
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
        if (s->n_held != 0 && !may_follow(s->held[0], s->n_held, byte)) written += dct_utf8_flush(s, out + written);
        if (s->n_held == 0) {
            written += start_sequence(s, byte, out + written);
            continue;
        }
        s->held[s->n_held++] = byte;
        if (s->n_held < sequence_bytes(s->held[0])) continue;
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
