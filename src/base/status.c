#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "base/utf8.h"

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
    for (char *at = err->message, *end = at + strlen(at); at < end;) {
        uint32_t c;
        size_t len = dct_utf8_next(at, (size_t)(end - at), &c);
        if (len == 0 || dct_is_unsafe_char(c)) memset(at, '?', len == 0 ? 1 : len);
        at += len == 0 ? 1 : len;
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

void dct_err_name_file(dct_err *err, const char *path) {
    dct_err why = *err, named;
    dct_fail(&named, why.code, "%s: ", dct_show_path(path).text);
    if (path[0] == '\0' || strncmp(why.message, named.message, strlen(named.message)) == 0) return;
    dct_fail(err, why.code, "%s%.260s", named.message, why.message);
    err->offset = why.offset;
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
