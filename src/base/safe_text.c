#include "base/safe_text.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

bool dct_is_unsafe_char(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

size_t dct_safe_char(const void *s, size_t n, char out[DCT_SAFE_CHAR_BYTES]) {
    uint32_t c;
    size_t len = dct_utf8_next(s, n, &c);
    if (len == 0) {
        snprintf(out, DCT_SAFE_CHAR_BYTES, "\\x%02x", *(const uint8_t *)s);
        return 1;
    }
    if (c == '\n' || c == '\t') {
        snprintf(out, DCT_SAFE_CHAR_BYTES, "%s", c == '\n' ? "\\n" : "\\t");
    } else if (dct_is_unsafe_char(c)) {
        snprintf(out, DCT_SAFE_CHAR_BYTES, "\\u{%x}", (unsigned)c);
    } else {
        memcpy(out, s, len);
        out[len] = '\0';
    }
    return len;
}

const char *dct_safe(const char *text, dct_safe_text *room) {
    size_t n = strlen(text), used = 0;
    for (size_t at = 0; at < n;) {
        char shown[DCT_SAFE_CHAR_BYTES];
        at += dct_safe_char(text + at, n - at, shown);
        size_t bytes = strlen(shown);
        if (used + bytes >= sizeof room->text) break;
        memcpy(room->text + used, shown, bytes);
        used += bytes;
    }
    room->text[used] = '\0';
    return room->text;
}

dct_shown_path dct_show_path(const char *path) {
    enum { SHOWN = 120 };
    dct_shown_path shown;
    size_t n = strlen(path);
    snprintf(shown.text, sizeof shown.text, "%s%s", n > SHOWN ? "..." : "", n > SHOWN ? path + n - SHOWN : path);
    return shown;
}
