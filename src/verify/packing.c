/* In order of begin, each is compared with those before it that have not ended. */
#include "verify/packing.h"

static bool later(const dct_packed *a, const dct_packed *b) {
    return a->begin != b->begin ? a->begin > b->begin : a->owner > b->owner;
}

static void swap(dct_packed *a, dct_packed *b) {
    dct_packed kept = *a;
    *a = *b;
    *b = kept;
}

static void heap_sort(dct_packed *list, uint32_t n) {
    for (uint32_t k = 1; k < n; k++) {
        for (uint32_t at = k; at > 0 && later(&list[at], &list[(at - 1) / 2]); at = (at - 1) / 2)
            swap(&list[at], &list[(at - 1) / 2]);
    }
    for (uint32_t last = n; last > 1; last--) {
        swap(&list[0], &list[last - 1]);
        for (uint32_t at = 0, child; (child = 2 * at + 1) < last - 1; at = child) {
            if (child + 1 < last - 1 && later(&list[child + 1], &list[child])) child++;
            if (!later(&list[child], &list[at])) break;
            swap(&list[at], &list[child]);
        }
    }
}

dct_status dct_verify_packing(dct_packed *list, uint32_t n, dct_arena *arena, uint64_t *height, dct_err *err) {
    uint32_t *live = dct_arena_array(arena, n, sizeof *live), n_live = 0;
    if (live == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    heap_sort(list, n);
    *height = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t kept = 0;
        for (uint32_t m = 0; m < n_live; m++) {
            const dct_packed *a = &list[live[m]], *b = &list[k];
            if (a->end <= b->begin) continue;
            if (a->owner != b->owner && a->low < b->high && b->low < a->high)
                return dct_fail(err, DCT_BUG, "items %u and %u hold a byte together at time %u", a->owner, b->owner, b->begin);
            live[kept++] = live[m];
        }
        live[kept] = k;
        n_live = kept + 1;
        if (list[k].high > *height) *height = list[k].high;
    }
    return DCT_OK;
}
