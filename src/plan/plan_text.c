#include "plan/plan_text.h"

#include <stdio.h>

void dct_text_put(const dct_text *t, const char *format, ...) {
    char buffer[1280];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (n < 0) return;
    t->out(t->ctx, buffer, (size_t)n < sizeof buffer ? (size_t)n : sizeof buffer - 1);
}

const char *dct_type_flag(dct_dtype type, char out[16]) {
    const char *name = dct_dtype_name(type);
    size_t n = 0;
    for (; name[n] != '\0' && n < 15; n++) out[n] = name[n] >= 'A' && name[n] <= 'Z' ? (char)(name[n] - 'A' + 'a') : name[n];
    out[n] = '\0';
    return out;
}

const char *dct_name_base(const char *name, uint32_t *layer) {
    unsigned number;
    int used = 0;
    bool has_layer = sscanf(name, "blk.%8u.%n", &number, &used) == 1 && used > 0;
    *layer = has_layer ? number : DCT_NONE;
    return name + used;
}
