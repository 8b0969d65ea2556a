#include "base/utf8.h"

uint32_t dct_utf8_sequence_bytes(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0; /* a continuation, or the lead of an overlong form */
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) return 3;
    return lead < 0xf5 ? 4 : 0;
}

/* Table 3-7 of the standard. Only the second byte is narrower than 80..BF, which is what keeps out surrogates, overlong forms and
 * what lies above U+10FFFF. */
bool dct_utf8_may_follow(uint8_t lead, uint32_t at, uint8_t next) {
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
    uint32_t bytes = dct_utf8_sequence_bytes(text[0]);
    if (bytes == 0) return 1;
    uint32_t value = text[0] & lead_mask[bytes];
    for (uint32_t i = 1; i < bytes; i++) {
        if (i >= n || !dct_utf8_may_follow(text[0], i, text[i])) return i;
        value = value << 6 | (text[i] & 0x3fu);
    }
    *code = value;
    return bytes;
}

size_t dct_utf8_next(const void *text, size_t n, uint32_t *code) {
    uint32_t bytes = dct_utf8_decode(text, n, code);
    return *code == DCT_CHAR_INVALID ? 0 : bytes;
}
