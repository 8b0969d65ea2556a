/* Numbers, sizes and biases as people type them: the whole text is one, or it is none. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

bool cli_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v < low || v > high) return false;
    *out = v;
    return true;
}

bool cli_parse_u64(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') return false;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') return false;
    *out = v;
    return true;
}

/* 900M, 1.5G, 1024K, 1T, 123456; units are powers of 1024, an "iB" or "B" behind them is allowed. */
bool cli_parse_size(const char *text, uint64_t *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    double v = strtod(text, &end);
    double unit = 1;
    switch (*end) {
    case 'K': case 'k': unit = 1024.0; end++; break;
    case 'M': case 'm': unit = 1024.0 * 1024; end++; break;
    case 'G': case 'g': unit = 1024.0 * 1024 * 1024; end++; break;
    case 'T': case 't': unit = 1024.0 * 1024 * 1024 * 1024; end++; break;
    default: return cli_parse_u64(text, out);
    }
    if (*end == 'i') end++;
    if (*end == 'B' || *end == 'b') end++;
    if (*end != '\0' || errno != 0 || !(v * unit < 0x1p63)) return false;
    *out = (uint64_t)(v * unit);
    return true;
}

bool cli_parse_f32(const char *text, float *out) {
    char *end;
    float v = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(v)) return false;
    *out = v;
    return true;
}

/* "15043+1", "15043-0.5", "15043-inf" */
bool cli_parse_bias(const char *text, dctms_logit_bias *out) {
    char *end;
    errno = 0;
    unsigned long id = strtoul(text, &end, 10);
    if (errno != 0 || end == text || id > UINT32_MAX || (*end != '+' && *end != '-')) return false;
    char *last;
    float bias = strtof(end, &last);
    if (last == end || *last != '\0' || isnan(bias)) return false;
    out->token = (dctms_token)id;
    out->bias = bias;
    return true;
}
