#include "text/merge.h"

#include "base/size.h"

uint64_t dct_merge_scratch_bytes(uint64_t n) { return 24 * n + 16; }

dct_merge_state dct_merge_start(void *scratch, uint32_t n) {
    dct_merge_state s = {.n = n};
    s.heap = (uint64_t *)(uintptr_t)dct_round_up((uint64_t)(uintptr_t)scratch, 8);
    s.len = (uint32_t *)(s.heap + 2 * (uint64_t)n);
    s.val = s.len + n;
    return s;
}

/* A heap of four children a node: half the levels of a binary one, and the four lie in one cache line or two. */
void dct_merge_push(dct_merge_state *s, uint32_t key, uint32_t pos) {
    uint64_t item = (uint64_t)key << 32 | pos, at = s->n_heap++;
    while (at > 0 && s->heap[(at - 1) / 4] > item) {
        s->heap[at] = s->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    s->heap[at] = item;
}

bool dct_merge_pop(dct_merge_state *s, uint32_t *key, uint32_t *pos) {
    if (s->n_heap == 0) return false;
    *key = (uint32_t)(s->heap[0] >> 32);
    *pos = (uint32_t)s->heap[0];
    uint64_t item = s->heap[--s->n_heap], at = 0;
    for (;;) {
        uint64_t first = 4 * at + 1, end = first + 4 < s->n_heap ? first + 4 : s->n_heap;
        if (first >= end) break;
        uint64_t least = first;
        for (uint64_t child = first + 1; child < end; child++)
            if (s->heap[child] < s->heap[least]) least = child;
        if (s->heap[least] >= item) break;
        s->heap[at] = s->heap[least];
        at = least;
    }
    s->heap[at] = item;
    return true;
}
