/* compile/color: the fewest buffers for a set of lifetimes, and why there can be no fewer.
 *
 * Intervals taken by their first step, each given the lowest-numbered buffer that is free: a new buffer is opened only when
 * every open one is in use at that very step, so the number of buffers is the number of intervals that meet there, a clique
 * of the interval graph, and no colouring can do with less (Golumbic 2004).
 */
#include "compile/compile.h"
#include "compile/sort.h"

/* The most intervals that meet at one step, counted on its own: the proof must not rest on the colouring. A clique of intervals
 * meets at the first step of one of them. */
static uint32_t largest_clique(const dct_interval *iv, const dct_sort_key *by_first, const dct_sort_key *by_last, uint32_t n,
                               uint32_t *clique_step) {
    uint32_t best = 0, open = 0, ended = 0, step = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t now = iv[by_first[i].index].first;
        open++;
        for (; ended < n && by_last[ended].first < now; ended++) open--;
        if (open > best) {
            best = open;
            step = now;
        }
    }
    if (clique_step != NULL) *clique_step = step;
    return best;
}

dct_status dct_interval_color(const dct_interval *iv, uint32_t n, dct_arena *arena, uint32_t *color, uint32_t *n_buffers,
                              uint32_t *clique, uint32_t *clique_step, dct_err *err) {
    dct_sort_key *by_first = dct_arena_array(arena, n, sizeof *by_first);
    dct_sort_key *by_last = dct_arena_array(arena, n, sizeof *by_last);
    uint32_t *busy_until = dct_arena_array(arena, n, sizeof *busy_until); /* last step of a buffer's newest interval */
    if (by_first == NULL || by_last == NULL || busy_until == NULL) return dct_fail_memory(err, arena, "the interval colouring");
    for (uint32_t i = 0; i < n; i++) {
        if (iv[i].first > iv[i].last) return dct_fail(err, DCT_USAGE, "interval %u ends before it begins", i);
        by_first[i] = (dct_sort_key){.first = iv[i].first, .index = i};
        by_last[i] = (dct_sort_key){.first = iv[i].last, .index = i};
    }
    dct_sort_keys(by_first, n);
    dct_sort_keys(by_last, n);
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = by_first[i].index, buffer = 0;
        while (buffer < used && busy_until[buffer] >= iv[id].first) buffer++;
        if (buffer == used) used++;
        busy_until[buffer] = iv[id].last;
        if (color != NULL) color[id] = buffer;
    }
    *n_buffers = used;
    *clique = largest_clique(iv, by_first, by_last, n, clique_step);
    return DCT_OK;
}
