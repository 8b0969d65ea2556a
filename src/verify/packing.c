/* In order of begin, each is compared with those before it that have not ended. */
#include "verify/packing.h"

#include "verify/ranges.h"

dct_status dct_verify_packing(const dct_packed *list, uint32_t n, dct_arena *arena, uint64_t *height, dct_err *err) {
    uint32_t *live = dct_arena_array(arena, n, sizeof *live), n_live = 0;
    dct_range *order = dct_arena_array(arena, n, sizeof *order);
    if (live == NULL || order == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    for (uint32_t i = 0; i < n; i++) order[i] = (dct_range){list[i].begin, list[i].owner, i};
    dct_sort_ranges(order, n);
    *height = 0;
    for (uint32_t k = 0; k < n; k++) {
        const dct_packed *b = &list[order[k].id];
        uint32_t kept = 0;
        for (uint32_t m = 0; m < n_live; m++) {
            const dct_packed *a = &list[live[m]];
            if (a->end <= b->begin) continue;
            if (a->owner != b->owner && a->low < b->high && b->low < a->high)
                return dct_fail(err, DCT_BUG, "items %u and %u hold a byte together at time %u", a->owner, b->owner, b->begin);
            live[kept++] = live[m];
        }
        live[kept] = order[k].id;
        n_live = kept + 1;
        if (b->high > *height) *height = b->high;
    }
    return DCT_OK;
}
