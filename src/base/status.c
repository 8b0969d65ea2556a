#include "base/status.h"

#include <stdio.h>
#include <string.h>

static void fill(dct_err *err, dct_status code, uint64_t offset, const char *format, va_list args) {
    if (err == NULL) return;
    err->code = code;
    err->offset = offset;
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    if (n < 0) err->message[0] = '\0';
    if (offset != DCT_NO_OFFSET) {
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used, " (at byte %llu)", (unsigned long long)offset);
    }
    /* A message quotes names from outside: keep it one printable line. */
    for (char *c = err->message; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    }
}

dct_status dct_fail(dct_err *err, dct_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fill(err, code, DCT_NO_OFFSET, format, args);
    va_end(args);
    return code;
}

dct_status dct_fail_at(dct_err *err, dct_status code, uint64_t offset, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fill(err, code, offset, format, args);
    va_end(args);
    return code;
}

const char *dct_status_text(dct_status code) {
    switch (code) {
#define DCT_STATUS_CASE(name, number, text) \
    case DCT_##name: return text;
        DCT_STATUS_LIST(DCT_STATUS_CASE)
#undef DCT_STATUS_CASE
    }
    return "unknown status";
}
