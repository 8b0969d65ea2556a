/* Each item goes where a gap between the items placed before it takes it: the lowest gap (first fit) or the tightest (best fit).
 * What is taken is kept in a tree over time (pack_room.c); under a conflict matrix, whose problems are small, the items placed
 * before are looked through one by one.
 */
#include "compile/pack_greedy.h"

#include <string.h>

#include "base/size.h"
#include "compile/pack_room.h"
#include "compile/sort.h"

struct dct_greedy {
    const dct_problem *p;
    dct_room *room;       /* NULL under a matrix */
    dct_sort_key *keys, *ranges;
    uint32_t *order;
    uint64_t *offsets, *crowd;
    uint64_t work;        /* under a matrix: items looked at */
};

enum { ORDER_SIZE, ORDER_AREA, ORDER_LENGTH, ORDER_BEGIN, ORDER_END, ORDER_CROWD, ORDER_CROWD_AREA, ORDER_COUNT };

enum { STOP_EVERY = 64 }; /* items placed between two looks at the clock */

#define PORTFOLIO_WORK UINT64_C(200000000)

dct_greedy *dct_greedy_new(const dct_problem *problem, dct_arena *arena) {
    dct_greedy *g = dct_arena_alloc(arena, sizeof *g);
    if (g == NULL) return NULL;
    uint32_t n = problem->n, m = problem->n_pieces;
    g->p = problem;
    g->keys = dct_arena_array(arena, 2 * ((uint64_t)m + n), sizeof *g->keys);
    g->order = dct_arena_array(arena, n, sizeof *g->order);
    g->offsets = dct_arena_array(arena, n, sizeof *g->offsets);
    g->crowd = dct_arena_array(arena, n, sizeof *g->crowd);
    if (g->keys == NULL || g->order == NULL || g->offsets == NULL || g->crowd == NULL) return NULL;
    if (problem->conflict != NULL) g->ranges = dct_arena_array(arena, n, sizeof *g->ranges);
    else g->room = dct_room_new(problem, arena);
    return g->ranges != NULL || g->room != NULL ? g : NULL;
}

static bool has_bytes(const dct_problem *p, uint32_t item) { return p->first_piece[item] < p->first_piece[item + 1]; }

static uint64_t work_of(const dct_greedy *g) { return g->room != NULL ? dct_room_work(g->room) : g->work; }

/* The lowest offset that is free or, with `tightest`, the lowest of the smallest gap. */
static uint64_t find_gap_in_room(dct_greedy *g, uint32_t item, bool tightest) {
    uint64_t more, best_more = UINT64_MAX, best = 0;
    dct_room_look(g->room, item);
    uint64_t offset = dct_room_find(g->room, 0, &more);
    while (tightest && more != UINT64_MAX) {
        if (more < best_more) {
            best = offset;
            best_more = more;
        }
        offset = dct_room_find(g->room, offset + more + 1, &more);
    }
    return best_more != UINT64_MAX ? best : offset;
}

/* The same among the first n_before of the order. */
static uint64_t find_gap_in_matrix(dct_greedy *g, uint32_t item, uint32_t n_before, bool tightest) {
    const dct_pack_item *mine = &g->p->items[item];
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_before; k++) {
        uint32_t other = g->order[k];
        if (!has_bytes(g->p, other) || !dct_problem_conflict(g->p, item, other)) continue;
        g->ranges[n++] = (dct_sort_key){g->offsets[other], g->offsets[other] + g->p->items[other].size, other};
    }
    g->work += n_before + n;
    dct_sort_keys(g->ranges, n);
    uint64_t top = 0, best = UINT64_MAX, best_room = UINT64_MAX; /* top: nothing under it is free */
    for (uint32_t k = 0; k < n; k++) {
        uint64_t from = dct_round_up(top, mine->align), room = g->ranges[k].first - top;
        if (from + mine->size <= g->ranges[k].first && room < best_room) {
            if (!tightest) return from;
            best = from;
            best_room = room;
        }
        if (g->ranges[k].second > top) top = g->ranges[k].second;
    }
    return best != UINT64_MAX ? best : dct_round_up(top, mine->align);
}

static bool is_free(dct_greedy *g, uint32_t item, uint32_t n_before) {
    uint64_t offset = g->p->items[item].offset, end = offset + g->p->items[item].size, more;
    if (g->room != NULL) {
        dct_room_look(g->room, item);
        return dct_room_find(g->room, offset, &more) == offset;
    }
    for (uint32_t k = 0; k < n_before; k++) {
        uint32_t other = g->order[k];
        bool apart = g->offsets[other] >= end || g->offsets[other] + g->p->items[other].size <= offset;
        if (!apart && has_bytes(g->p, other) && dct_problem_conflict(g->p, item, other)) return false;
    }
    return true;
}

static uint64_t top_of(const dct_greedy *g, uint32_t item) { return g->offsets[item] + dct_problem_top(g->p, item); }

/* Fixed items go first; the rest of the order stays. */
static void put_fixed_first(dct_greedy *g) {
    for (uint32_t k = 0, n_fixed = 0; k < g->p->n; k++) {
        uint32_t i = g->order[k];
        if (!g->p->items[i].fixed) continue;
        memmove(&g->order[n_fixed + 1], &g->order[n_fixed], (k - n_fixed) * sizeof *g->order);
        g->order[n_fixed++] = i;
    }
}

typedef enum pass { PASS_WHOLE, PASS_OVERLAP, PASS_STOPPED } pass;

/* One pass in the order of g->order. PASS_OVERLAP: fixed items do, *at_fault is one of them. `effort` NULL: to its end. */
static pass place_all(dct_greedy *g, bool tightest, dct_effort *effort, uint64_t *height, uint32_t *at_fault) {
    const dct_problem *p = g->p;
    if (g->room != NULL) dct_room_clear(g->room);
    put_fixed_first(g);
    *height = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = g->order[k];
        if (k % STOP_EVERY == 0 && effort != NULL && dct_effort_ends(effort)) return PASS_STOPPED;
        *at_fault = i;
        g->offsets[i] = p->items[i].fixed ? p->items[i].offset : 0;
        if (!has_bytes(p, i)) continue;
        if (p->items[i].fixed && !is_free(g, i, k)) return PASS_OVERLAP;
        if (!p->items[i].fixed)
            g->offsets[i] = g->room != NULL ? find_gap_in_room(g, i, tightest) : find_gap_in_matrix(g, i, k, tightest);
        if (g->room != NULL) dct_room_take(g->room, i, g->offsets[i]);
        if (top_of(g, i) > *height) *height = top_of(g, i);
    }
    return PASS_WHOLE;
}

static void keep_if_lower(dct_greedy *g, uint64_t height, dct_placement *best) {
    if (height >= best->height) return;
    best->height = height;
    memcpy(best->offsets, g->offsets, g->p->n * sizeof *g->offsets);
}

/* Bytes of all pieces that meet an item's lifetime: those begun before its end, less those ended by its begin. At equal times
 * what ends or begins is counted after an item's end was asked for, and before its begin is. */
static void find_crowds(dct_greedy *g) {
    const dct_problem *p = g->p;
    uint32_t m = p->n_pieces;
    uint64_t begun = 0, ended = 0;
    enum { ASK_END, BEGIN, END, ASK_BEGIN };
    for (uint32_t k = 0; k < m; k++) {
        g->keys[2 * k] = (dct_sort_key){p->pieces[k].begin, BEGIN, k};
        g->keys[2 * k + 1] = (dct_sort_key){p->pieces[k].end, END, k};
    }
    for (uint32_t i = 0; i < p->n; i++) {
        g->keys[2 * m + 2 * i] = (dct_sort_key){p->items[i].begin, ASK_BEGIN, i};
        g->keys[2 * m + 2 * i + 1] = (dct_sort_key){p->items[i].end, ASK_END, i};
        g->crowd[i] = 0;
    }
    dct_sort_keys(g->keys, 2 * (m + p->n));
    for (uint32_t k = 0; k < 2 * (m + p->n); k++) {
        uint32_t at = g->keys[k].index;
        switch (g->keys[k].second) {
        case ASK_END: g->crowd[at] += begun; break;
        case ASK_BEGIN: g->crowd[at] -= ended; break; /* wraps until the end is met */
        case BEGIN: begun += p->pieces[at].high - p->pieces[at].low; break;
        default: ended += p->pieces[at].high - p->pieces[at].low; break;
        }
    }
}

/* One greedy order: large first but for the two orders of time; then large, then by index. */
static void fill_order(dct_greedy *g, uint32_t which) {
    for (uint32_t i = 0; i < g->p->n; i++) {
        const dct_pack_item *item = &g->p->items[i];
        uint64_t length = item->end - item->begin, area, first = 0, second = UINT64_MAX - item->size;
        if (!dct_mul_u64(length, item->size, &area)) area = UINT64_MAX;
        switch (which) {
        case ORDER_SIZE: first = UINT64_MAX - item->size, second = UINT64_MAX - length; break;
        case ORDER_AREA: first = UINT64_MAX - area; break;
        case ORDER_LENGTH: first = UINT64_MAX - length; break;
        case ORDER_BEGIN: first = item->begin; break;
        case ORDER_END: first = UINT64_MAX - item->end; break;
        case ORDER_CROWD: first = UINT64_MAX - g->crowd[i]; break;
        case ORDER_CROWD_AREA: first = UINT64_MAX - g->crowd[i], second = UINT64_MAX - area; break;
        }
        g->keys[i] = (dct_sort_key){first, second, i};
    }
    dct_sort_keys(g->keys, g->p->n);
    for (uint32_t i = 0; i < g->p->n; i++) g->order[i] = g->keys[i].index;
}

dct_status dct_greedy_portfolio(dct_greedy *g, uint64_t enough, dct_effort *effort, dct_placement *best, dct_err *err) {
    find_crowds(g);
    for (uint32_t which = 0; which < ORDER_COUNT; which++) {
        for (int tightest = 0; tightest <= 1; tightest++) {
            bool is_first = best->height == UINT64_MAX;
            if (!is_first && (work_of(g) > PORTFOLIO_WORK || dct_effort_ends(effort))) return DCT_OK;
            uint64_t height;
            uint32_t at_fault;
            fill_order(g, which);
            pass end = place_all(g, tightest != 0, is_first ? NULL : effort, &height, &at_fault);
            if (end == PASS_STOPPED) return DCT_OK;
            if (end == PASS_OVERLAP)
                return dct_fail(err, DCT_USAGE, "item %u is fixed over the bytes of another fixed one that is live with it",
                                at_fault);
            keep_if_lower(g, height, best);
            if (best->height <= enough) return DCT_OK;
        }
    }
    return DCT_OK;
}
