/* Fuzzes streaming UTF-8: any bytes in any pieces give the same text as at once, within the stated bounds. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

#define REQUIRE(what) ((what) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0) return 0;
    size_t step = 1 + data[0] % 7;
    const char *text = (const char *)data + 1;
    n--;
    char *whole = malloc(3 * (n + 3)), *parts = malloc(3 * (n + 3));
    dct_utf8_stream a = {{0}, 0}, b = {{0}, 0};
    size_t n_whole = dct_utf8_push(&a, text, n, whole), n_parts = 0;
    n_whole += dct_utf8_flush(&a, whole + n_whole);
    for (size_t i = 0; i < n; i += step) {
        n_parts += dct_utf8_push(&b, text + i, n - i < step ? n - i : step, parts + n_parts);
        REQUIRE(b.n_held <= 3);
    }
    n_parts += dct_utf8_flush(&b, parts + n_parts);
    REQUIRE(n_whole == n_parts && memcmp(whole, parts, n_whole) == 0);
    /* what came out is well-formed: it goes through unchanged */
    char *again = malloc(3 * (n_whole + 3));
    REQUIRE(dct_utf8_push(&a, whole, n_whole, again) == n_whole && memcmp(whole, again, n_whole) == 0 && a.n_held == 0);
    free(again);
    free(parts);
    free(whole);
    return 0;
}
