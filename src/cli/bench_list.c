/* Lists of bench's flags: numbers and ranges as llama-bench takes them, words, pairs, masks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

/* Digits at *at, which moves behind them. */
static bool take_number(const char **at, uint32_t most, uint32_t *out) {
    uint64_t v = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9' && v <= most; p++) v = v * 10 + (uint64_t)(*p - '0');
    if (p == *at || v > most) return false;
    *at = p;
    *out = (uint32_t)v;
    return true;
}

/* "4", "1-4", "256-1024+256" or "1-8*2". */
static bool take_range(const char **at, uint32_t least, uint32_t most, bench_numbers *out) {
    uint32_t first, last, step = 1;
    char op = '+';
    if (!take_number(at, most, &first)) return false;
    last = first;
    if (**at == '-') {
        (*at)++;
        if (!take_number(at, most, &last)) return false;
        if (**at == '+' || **at == '*') {
            op = *(*at)++;
            if (!take_number(at, most, &step)) return false;
        }
    }
    bool moves = op == '*' ? step > 1 && first > 0 : step > 0;
    if (first < least || last < first || !moves) return false;
    for (uint64_t v = first; v <= last; v = op == '*' ? v * step : v + step) {
        if (out->n == BENCH_MAX_VALUES) return false;
        out->value[out->n++] = (uint32_t)v;
    }
    return true;
}

bool bench_parse_numbers(const cli_list *list, uint32_t least, uint32_t most, bench_numbers *out) {
    for (uint32_t i = 0; i < list->n; i++) {
        const char *at = list->text[i];
        for (;;) {
            if (!take_range(&at, least, most, out)) return false;
            if (*at == '\0') break;
            if (*at++ != ',') return false;
        }
    }
    return true;
}

bool bench_parse_words(const cli_list *list, bench_words *out) {
    for (uint32_t i = 0; i < list->n; i++) {
        const char *at = list->text[i];
        for (;;) {
            size_t n = strcspn(at, ",");
            if (n == 0 || n >= sizeof out->text[0] || out->n == BENCH_MAX_VALUES) return false;
            memcpy(out->text[out->n], at, n);
            out->text[out->n++][n] = '\0';
            at += n;
            if (*at == '\0') break;
            at++;
        }
    }
    return true;
}

bool bench_parse_pair(const char *text, uint32_t most, uint32_t *first, uint32_t *second) {
    if (!take_number(&text, most, first) || *text != ',') return false;
    text++;
    return take_number(&text, most, second) && *text == '\0';
}

bool bench_parse_mask(const char *text, uint64_t *mask) {
    char *end;
    errno = 0;
    if (strchr("0123456789abcdefABCDEF", text[0]) == NULL || text[0] == '\0') return false;
    *mask = strtoull(text, &end, 16);
    return errno == 0 && *end == '\0' && *mask != 0;
}
