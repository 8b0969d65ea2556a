#include "compile/sort.h"

#include <stdbool.h>

static bool less(const dct_sort_key *a, const dct_sort_key *b) {
    if (a->first != b->first) return a->first < b->first;
    if (a->second != b->second) return a->second < b->second;
    return a->index < b->index;
}

static void sift_down(dct_sort_key *keys, uint32_t at, uint32_t n) {
    dct_sort_key moving = keys[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && less(&keys[child], &keys[child + 1])) child++;
        if (!less(&moving, &keys[child])) break;
        keys[at] = keys[child];
        at = child;
    }
    keys[at] = moving;
}

void dct_sort_keys(dct_sort_key *keys, uint32_t n) {
    for (uint32_t i = n / 2; i > 0; i--) sift_down(keys, i - 1, n);
    for (uint32_t last = n; last > 1; last--) {
        dct_sort_key largest = keys[0];
        keys[0] = keys[last - 1];
        keys[last - 1] = largest;
        sift_down(keys, 0, last - 1);
    }
}
