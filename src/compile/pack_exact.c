/* compile/pack_exact: exact search, after the ideas of MiniMalloc (Moffitt, ASPLOS 2023) and written anew.
 *
 * A solution is canonical when every item lies as low as the items below it allow. Any solution can be pushed down into a canonical
 * one, so it is enough to place items in ascending order of offset, each at its floor: the highest end of the placed items it meets.
 *
 *      bytes                 sections: time between two neighbouring begins or ends
 *   capacity ─────────────   floor[s]  highest end of the placed items over s
 *        │      ┌──┐         total[s]  bytes of the items over s that are not placed yet
 *        │  ┌───┤B │         floor[s] + total[s] > capacity: no completion, whatever the order
 *        │  │ A │  │
 *      0 └──┴───┴──┴─ time
 *
 * Of the canonical solutions the one with the least sum of offsets is never cut: a choice is skipped when another item would fit wholly
 * below it (moving that one down would lower the sum), when an equal item with a lower index is still to be placed, or
 * when a section overflows. Every cut that depends on the capacity records the capacity it would have needed; when the tree is
 * exhausted, the least of those is the next capacity worth trying, and all between are refuted with it.
 */
#include "compile/pack_exact.h"

#include <string.h>

#include "base/size.h"
#include "compile/sort.h"

enum { N_ORDERS = 3, FIRST_LIMIT = 1024 };

typedef struct span { uint32_t begin, end; } span; /* sections of an item, half-open */

struct dct_exact {
    const dct_pack_item *items;
    uint32_t n, n_sections;
    span *spans;
    uint64_t *section_load;  /* bytes of all items over a section */
    uint32_t *order[N_ORDERS];
    /* the state of the search */
    uint64_t capacity, needed; /* needed: the least capacity that a cut asked for */
    uint64_t nodes_left;
    bool out_of_nodes;
    const uint32_t *trying;
    bool *placed;
    uint64_t *at;            /* a placed item's offset; otherwise its floor, aligned */
    uint64_t *floor, *total; /* a section */
    uint64_t *undo;          /* saved floors: of sections, then of items; a stack */
};

/* Times are numbered by rank, so sections are few and dense. */
static uint32_t rank_times(const dct_pack_item *items, uint32_t n, dct_sort_key *keys, span *spans) {
    for (uint32_t i = 0; i < n; i++) {
        keys[2 * i] = (dct_sort_key){.first = items[i].begin, .index = 2 * i};
        keys[2 * i + 1] = (dct_sort_key){.first = items[i].end, .index = 2 * i + 1};
    }
    dct_sort_keys(keys, 2 * n);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        if (i > 0 && keys[i].first != keys[i - 1].first) rank++;
        uint32_t item = keys[i].index / 2;
        if (keys[i].index % 2 == 0) spans[item].begin = rank;
        else spans[item].end = rank;
    }
    return rank;
}

/* The static orders in which choices are tried: each puts one property first. */
static void fill_order(const dct_exact *s, uint32_t which, dct_sort_key *keys, uint32_t *order) {
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t width = s->items[i].end - s->items[i].begin, area, crowd = 0;
        if (!dct_mul_u64(width, s->items[i].size, &area)) area = UINT64_MAX;
        for (uint32_t t = s->spans[i].begin; t < s->spans[i].end; t++) {
            if (s->section_load[t] > crowd) crowd = s->section_load[t];
        }
        uint64_t first = which == 0 ? width : which == 1 ? crowd : area;
        uint64_t second = which == 2 ? width : area;
        keys[i] = (dct_sort_key){UINT64_MAX - first, UINT64_MAX - second, i};
    }
    dct_sort_keys(keys, s->n);
    for (uint32_t i = 0; i < s->n; i++) order[i] = keys[i].index;
}

dct_exact *dct_exact_new(const dct_pack_item *items, uint32_t n, dct_arena *arena) {
    dct_exact *s = dct_arena_alloc(arena, sizeof *s);
    dct_sort_key *keys = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *keys);
    if (s == NULL || keys == NULL) return NULL;
    s->items = items;
    s->n = n;
    s->spans = dct_arena_array(arena, n, sizeof *s->spans);
    if (s->spans == NULL) return NULL;
    s->n_sections = rank_times(items, n, keys, s->spans);
    uint64_t undo = 0;
    for (uint32_t i = 0; i < n; i++) undo += s->spans[i].end - s->spans[i].begin + (uint64_t)n;
    s->section_load = dct_arena_array(arena, s->n_sections, sizeof *s->section_load);
    s->placed = dct_arena_array(arena, n, sizeof *s->placed);
    s->at = dct_arena_array(arena, n, sizeof *s->at);
    s->floor = dct_arena_array(arena, s->n_sections, sizeof *s->floor);
    s->total = dct_arena_array(arena, s->n_sections, sizeof *s->total);
    s->undo = dct_arena_array(arena, undo, sizeof *s->undo);
    if (s->section_load == NULL || s->placed == NULL || s->at == NULL || s->floor == NULL || s->total == NULL || s->undo == NULL) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t t = s->spans[i].begin; t < s->spans[i].end; t++) s->section_load[t] += items[i].size;
    }
    for (uint32_t k = 0; k < N_ORDERS; k++) {
        s->order[k] = dct_arena_array(arena, n, sizeof **s->order);
        if (s->order[k] == NULL) return NULL;
        fill_order(s, k, keys, s->order[k]);
    }
    return s;
}

static bool meet(const dct_pack_item *a, const dct_pack_item *b) { return a->begin < b->end && b->begin < a->end; }

static bool same_shape(const dct_pack_item *a, const dct_pack_item *b) {
    return a->begin == b->begin && a->end == b->end && a->size == b->size && a->align == b->align && !a->fixed && !b->fixed;
}

/* Whether every section can still hold what is to come, given that nothing is placed below `lowest` any more. */
static bool sections_hold(dct_exact *s, uint64_t lowest) {
    for (uint32_t t = 0; t < s->n_sections; t++) {
        if (s->total[t] == 0) continue;
        uint64_t floor = s->floor[t] > lowest ? s->floor[t] : lowest;
        uint64_t need = floor + s->total[t];
        if (need <= s->capacity) continue;
        if (need < s->needed) s->needed = need;
        return false;
    }
    return true;
}

/* Whether placing item i next is worth a look. */
static bool is_choice(dct_exact *s, uint32_t i, uint64_t lowest, uint32_t last) {
    const dct_pack_item *item = &s->items[i];
    uint64_t offset = item->fixed ? item->offset : s->at[i];
    if (offset < lowest || (offset == lowest && last != DCT_NONE && i < last)) return false;
    if (item->fixed && s->at[i] > item->offset) return false;
    if (offset + item->size > s->capacity) {
        if (offset + item->size < s->needed) s->needed = offset + item->size;
        return false;
    }
    for (uint32_t j = 0; j < s->n; j++) {
        const dct_pack_item *other = &s->items[j];
        if (s->placed[j] || j == i) continue;
        if (other->fixed) {
            if (other->offset < offset) return false; /* it could not be placed any more */
            continue;
        }
        if (j < i && same_shape(item, other)) return false;
        if (meet(item, other) && s->at[j] + other->size <= offset) return false;
    }
    return true;
}

/* Puts item i at its offset and raises the floors it touches. Returns the top of the undo stack. */
static uint64_t *place(dct_exact *s, uint32_t i, uint64_t *undo) {
    const dct_pack_item *item = &s->items[i];
    if (item->fixed) s->at[i] = item->offset;
    uint64_t end = s->at[i] + item->size;
    s->placed[i] = true;
    for (uint32_t t = s->spans[i].begin; t < s->spans[i].end; t++) {
        *undo++ = s->floor[t];
        s->floor[t] = end;
        s->total[t] -= item->size;
    }
    for (uint32_t j = 0; j < s->n; j++) {
        *undo++ = s->at[j];
        if (s->placed[j] || !meet(item, &s->items[j])) continue;
        uint64_t raised = dct_round_up(end, s->items[j].align);
        if (raised > s->at[j]) s->at[j] = raised;
    }
    return undo;
}

static void take_back(dct_exact *s, uint32_t i, uint64_t floor_of_i, const uint64_t *undo) {
    for (uint32_t t = s->spans[i].begin; t < s->spans[i].end; t++) {
        s->floor[t] = *undo++;
        s->total[t] += s->items[i].size;
    }
    memcpy(s->at, undo, s->n * sizeof *undo);
    s->at[i] = floor_of_i;
    s->placed[i] = false;
}

static bool descend(dct_exact *s, uint32_t n_placed, uint64_t lowest, uint32_t last, uint64_t *undo) {
    if (n_placed == s->n) return true;
    if (!sections_hold(s, lowest)) return false;
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t i = s->trying[k];
        if (s->placed[i] || !is_choice(s, i, lowest, last)) continue;
        if (s->nodes_left == 0) {
            s->out_of_nodes = true;
            return false;
        }
        s->nodes_left--;
        uint64_t floor_of_i = s->at[i];
        uint64_t *top = place(s, i, undo);
        if (descend(s, n_placed + 1, s->at[i], i, top)) return true;
        take_back(s, i, floor_of_i, undo);
        if (s->out_of_nodes) return false;
    }
    return false;
}

/* One run of one order within `limit` nodes. */
static dct_fit attempt(dct_exact *s, uint32_t which, uint64_t limit, uint64_t *used) {
    memset(s->placed, 0, s->n * sizeof *s->placed);
    memset(s->at, 0, s->n * sizeof *s->at);
    memset(s->floor, 0, s->n_sections * sizeof *s->floor);
    memcpy(s->total, s->section_load, s->n_sections * sizeof *s->total);
    s->trying = s->order[which];
    s->needed = UINT64_MAX;
    s->nodes_left = limit;
    s->out_of_nodes = false;
    bool found = descend(s, 0, 0, DCT_NONE, s->undo);
    *used = limit - s->nodes_left;
    return found ? DCT_FIT_FOUND : s->out_of_nodes ? DCT_FIT_UNKNOWN : DCT_FIT_IMPOSSIBLE;
}

dct_fit dct_exact_fit(dct_exact *s, uint64_t capacity, uint64_t *nodes, uint64_t *offsets, uint64_t *next_capacity) {
    s->capacity = capacity;
    uint64_t limit = FIRST_LIMIT;
    for (uint32_t round = 0; *nodes > 0; round++) {
        if (round > 0 && round % N_ORDERS == 0) limit *= 2;
        uint64_t used;
        dct_fit fit = attempt(s, round % N_ORDERS, limit < *nodes ? limit : *nodes, &used);
        *nodes -= used;
        if (fit == DCT_FIT_FOUND) memcpy(offsets, s->at, s->n * sizeof *offsets);
        if (fit == DCT_FIT_IMPOSSIBLE) *next_capacity = s->needed;
        if (fit != DCT_FIT_UNKNOWN) return fit;
    }
    return DCT_FIT_UNKNOWN;
}
