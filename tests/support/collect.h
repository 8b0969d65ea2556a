/* Pieces of text gathered into one: a dct_text_fn for tests. The text is the caller's to free. */
#ifndef DCT_TESTS_COLLECT_H
#define DCT_TESTS_COLLECT_H

#include <stdlib.h>
#include <string.h>

typedef struct collected {
    char *text;
    size_t n, cap;
} collected;

static inline void collect(void *ctx, const char *text, size_t n) {
    collected *c = ctx;
    if (c->n + n + 1 > c->cap) {
        c->cap = (c->n + n + 1) * 2;
        c->text = realloc(c->text, c->cap);
        if (c->text == NULL) abort();
    }
    memcpy(c->text + c->n, text, n);
    c->n += n;
    c->text[c->n] = '\0';
}

#endif
