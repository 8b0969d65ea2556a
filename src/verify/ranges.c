/* Ranges in order, so that neighbours are all that can meet. Heap sort: no memory, and no input makes it slow. */
#include "verify/ranges.h"

#include <stdbool.h>

static bool is_less(const dct_range *a, const dct_range *b) {
    if (a->offset != b->offset) return a->offset < b->offset;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->id < b->id;
}

static void swap(dct_range *a, dct_range *b) {
    dct_range t = *a;
    *a = *b;
    *b = t;
}

/* Lets r[at] sink to where it is not less than what stands below it. */
static void sink(dct_range *r, uint32_t at, uint32_t n) {
    for (uint32_t child; at < n / 2; at = child) {
        child = 2 * at + 1;
        if (child + 1 < n && is_less(&r[child], &r[child + 1])) child++;
        if (!is_less(&r[at], &r[child])) return;
        swap(&r[at], &r[child]);
    }
}

void dct_sort_ranges(dct_range *r, uint32_t n) {
    for (uint32_t i = n / 2; i > 0; i--) sink(r, i - 1, n);
    for (uint32_t end = n; end > 1; end--) {
        swap(&r[0], &r[end - 1]);
        sink(r, 0, end - 1);
    }
}
