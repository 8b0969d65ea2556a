/* compile/pack: places items with lifetimes in as few bytes as it can, and knows when it has.
 *
 * The load (most bytes live at one time) is a lower bound. First a portfolio of greedy orders, each tried with first fit and with
 * best fit; a height equal to the bound ends it. Otherwise the exact search (pack_exact.c) asks for the bound, then for
 * each next capacity that was not refuted; when nodes run short it asks for capacities between, so that the best height still falls.
 *
 *      bytes                      an item: begin..end in time, size in bytes
 *        │ ┌───────┐ ┌──┐         height: the highest end
 *        │ │   B   │ │D │         load: here at the times of B over A, or of C
 *        │ ├───┬───┴─┴──┤
 *      0 └─┴─A─┴───C────┴─ time
 */
#include <string.h>

#include "base/size.h"
#include "compile/pack_exact.h"
#include "compile/sort.h"

/* A placed item. Kept in order of offset, so that the gaps between items are met from the bottom up. */
typedef struct spot {
    uint64_t offset, end;
    uint32_t item;
} spot;

typedef struct packer {
    dct_pack_item *items;
    uint32_t n;
    const uint64_t *conflict;
    uint64_t *crowd;      /* an item: bytes of all the items it meets */
    dct_sort_key *keys;
    spot *spots;
    uint64_t *offsets, *best_offsets;
    uint64_t best_height;
    dct_pack_item *sized; /* the items that have bytes, for the exact search; and which they are, and where it put them */
    uint32_t *sized_of;
    uint64_t *found;
    uint32_t n_sized;
    uint64_t work_left;   /* item pairs the portfolio may still look at; a count, so it is the same everywhere */
} packer;

enum { ORDER_SIZE, ORDER_AREA, ORDER_LENGTH, ORDER_BEGIN, ORDER_END, ORDER_CROWD, ORDER_CROWD_AREA, ORDER_COUNT };

#define WORK_LIMIT UINT64_C(1000000000)
#define DEFAULT_NODES UINT64_C(60000)

static bool live_together(const packer *p, uint32_t a, uint32_t b) {
    if (p->conflict == NULL) return p->items[a].begin < p->items[b].end && p->items[b].begin < p->items[a].end;
    uint64_t bit = (uint64_t)a * p->n + b;
    return (p->conflict[bit / 64] >> (bit % 64) & 1) != 0;
}

static dct_status check_items(const dct_pack_item *items, uint32_t n, dct_err *err) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const dct_pack_item *item = &items[i];
        if (item->begin >= item->end) return dct_fail(err, DCT_USAGE, "item %u: its lifetime %u..%u is empty", i, item->begin, item->end);
        if (!dct_is_pow2(item->align)) return dct_fail(err, DCT_USAGE, "item %u: alignment %llu is not a power of two", i, (unsigned long long)item->align);
        if (item->fixed && item->offset % item->align != 0) return dct_fail(err, DCT_USAGE, "item %u: its fixed offset is not aligned", i);
        uint64_t end = item->fixed ? item->offset : 0;
        if (!dct_add_u64(sum, item->size, &sum) || !dct_add_u64(sum, item->align, &sum) || !dct_add_u64(end, sum, &end) || end > UINT64_MAX / 4) {
            return dct_fail(err, DCT_USAGE, "item %u: the sizes add up to more than 2^62", i);
        }
    }
    return DCT_OK;
}

/* Walks begins and ends in time; at equal times ends come first, because lifetimes are half-open. */
static uint64_t find_load(const dct_pack_item *items, uint32_t n, dct_sort_key *keys, uint32_t *at) {
    for (uint32_t i = 0; i < n; i++) {
        keys[2 * i] = (dct_sort_key){items[i].end, 0, i};
        keys[2 * i + 1] = (dct_sort_key){items[i].begin, 1, i};
    }
    dct_sort_keys(keys, 2 * n);
    uint64_t live = 0, load = 0;
    *at = n > 0 ? (uint32_t)keys[0].first : 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        if (keys[i].second == 0) {
            live -= items[keys[i].index].size;
            continue;
        }
        live += items[keys[i].index].size;
        if (live > load) {
            load = live;
            *at = (uint32_t)keys[i].first;
        }
    }
    return load;
}

static void find_crowds(packer *p) {
    for (uint32_t i = 0; i < p->n; i++) {
        p->crowd[i] = 0;
        for (uint32_t j = 0; j < p->n; j++) {
            if (live_together(p, i, j)) p->crowd[i] += p->items[j].size;
        }
    }
}

/* Keys of one greedy order: large first but for the two orders of time; then large, then by begin through the index. */
static void fill_keys(packer *p, uint32_t order) {
    for (uint32_t i = 0; i < p->n; i++) {
        const dct_pack_item *item = &p->items[i];
        uint64_t length = item->end - item->begin, area, first = 0, second = UINT64_MAX - item->size;
        if (!dct_mul_u64(length, item->size, &area)) area = UINT64_MAX;
        switch (order) {
        case ORDER_SIZE: first = UINT64_MAX - item->size, second = UINT64_MAX - length; break;
        case ORDER_AREA: first = UINT64_MAX - area; break;
        case ORDER_LENGTH: first = UINT64_MAX - length; break;
        case ORDER_BEGIN: first = item->begin; break;
        case ORDER_END: first = UINT64_MAX - item->end; break;
        case ORDER_CROWD: first = UINT64_MAX - p->crowd[i]; break;
        case ORDER_CROWD_AREA: first = UINT64_MAX - p->crowd[i], second = UINT64_MAX - area; break;
        }
        p->keys[i] = (dct_sort_key){first, second, i};
    }
    dct_sort_keys(p->keys, p->n);
}

/* The lowest gap that takes the item or, with `tightest`, the smallest. Above everything when there is none. */
static uint64_t find_gap(const packer *p, uint32_t n_spots, uint32_t item, bool tightest) {
    uint64_t size = p->items[item].size, align = p->items[item].align;
    uint64_t top = 0, best = UINT64_MAX, best_room = UINT64_MAX; /* top: highest end met so far */
    for (uint32_t i = 0; i < n_spots; i++) {
        const spot *s = &p->spots[i];
        if (!live_together(p, item, s->item)) continue;
        uint64_t from = dct_round_up(top, align);
        if (from + size <= s->offset && s->offset - top < best_room) {
            if (!tightest) return from;
            best = from;
            best_room = s->offset - top;
        }
        if (s->end > top) top = s->end;
    }
    return best != UINT64_MAX ? best : dct_round_up(top, align);
}

static void insert_spot(packer *p, uint32_t n_spots, uint32_t item, uint64_t offset) {
    uint32_t low = 0, high = n_spots; /* after the spots of the same offset */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (p->spots[mid].offset <= offset) low = mid + 1;
        else high = mid;
    }
    memmove(&p->spots[low + 1], &p->spots[low], (n_spots - low) * sizeof *p->spots);
    p->spots[low] = (spot){offset, offset + p->items[item].size, item};
    p->offsets[item] = offset;
}

/* One pass in the order of p->keys. */
static uint64_t place_all(packer *p, bool tightest) {
    uint32_t n_spots = 0;
    uint64_t height = 0;
    for (int fixed = 1; fixed >= 0; fixed--) { /* fixed items are there before any other */
        for (uint32_t k = 0; k < p->n; k++) {
            uint32_t i = p->keys[k].index;
            if (p->items[i].fixed != (fixed != 0)) continue;
            uint64_t offset = p->items[i].fixed ? p->items[i].offset : p->items[i].size == 0 ? 0 : find_gap(p, n_spots, i, tightest);
            p->offsets[i] = offset;
            if (offset + p->items[i].size > height) height = offset + p->items[i].size;
            if (p->items[i].size > 0) insert_spot(p, n_spots++, i, offset);
        }
    }
    return height;
}

static void keep_if_better(packer *p, uint64_t height) {
    if (height >= p->best_height) return;
    p->best_height = height;
    memcpy(p->best_offsets, p->offsets, p->n * sizeof *p->offsets);
}

static void run_portfolio(packer *p, uint64_t bound) {
    uint64_t cost = (uint64_t)p->n * p->n;
    for (uint32_t order = 0; order < ORDER_COUNT; order++) {
        if (order == ORDER_CROWD && p->work_left >= cost) find_crowds(p);
        fill_keys(p, order);
        for (int tightest = 0; tightest <= 1; tightest++) {
            if (p->best_height != UINT64_MAX && p->work_left < cost) return;
            p->work_left -= cost < p->work_left ? cost : p->work_left;
            keep_if_better(p, place_all(p, tightest != 0));
            if (p->best_height <= bound) return;
        }
    }
}

static dct_status check_fixed(const packer *p, dct_err *err) {
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t j = i + 1; p->items[i].fixed && j < p->n; j++) {
            const dct_pack_item *a = &p->items[i], *b = &p->items[j];
            if (b->fixed && live_together(p, i, j) && a->offset < b->offset + b->size && b->offset < a->offset + a->size) {
                return dct_fail(err, DCT_USAGE, "items %u and %u are live together and fixed over the same bytes", i, j);
            }
        }
    }
    return DCT_OK;
}

/* The search's answer; items without bytes lie anywhere. */
static void keep_found(packer *p) {
    uint64_t height = 0;
    for (uint32_t i = 0; i < p->n; i++) p->offsets[i] = p->items[i].fixed ? p->items[i].offset : 0;
    for (uint32_t k = 0; k < p->n_sized; k++) p->offsets[p->sized_of[k]] = p->found[k];
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->offsets[i] + p->items[i].size > height) height = p->offsets[i] + p->items[i].size;
    }
    keep_if_better(p, height);
}

/* Asks for `bound` and upward. True when the best height is proven to be the least. */
static bool probe_upward(packer *p, dct_exact *search, uint64_t bound, uint64_t *nodes) {
    uint64_t capacity = bound, next;
    while (capacity < p->best_height) { /* every capacity below `capacity` is refuted */
        dct_fit fit = dct_exact_fit(search, capacity, nodes, p->found, &next);
        if (fit == DCT_FIT_FOUND) keep_found(p);
        if (fit == DCT_FIT_UNKNOWN) return false;
        if (fit == DCT_FIT_IMPOSSIBLE) capacity = next;
    }
    return true;
}

/* With no proof in reach, halves the way between the bound and the best height while that helps. */
static void probe_between(packer *p, dct_exact *search, uint64_t bound, uint64_t nodes) {
    uint64_t low = bound;
    while (nodes > 0 && p->best_height - low > 1) {
        uint64_t capacity = low + (p->best_height - low) / 2, share = nodes / 2 + 1, left = share, next;
        dct_fit fit = dct_exact_fit(search, capacity, &left, p->found, &next);
        nodes -= share - left;
        if (fit == DCT_FIT_FOUND) keep_found(p);
        else low = capacity;
    }
}

/* The search sees the items that have bytes; its answers go back to their places. */
static bool pick_sized(packer *p, dct_arena *arena) {
    p->sized = dct_arena_array(arena, p->n, sizeof *p->sized);
    p->sized_of = dct_arena_array(arena, p->n, sizeof *p->sized_of);
    p->found = dct_arena_array(arena, p->n, sizeof *p->found);
    if (p->sized == NULL || p->sized_of == NULL || p->found == NULL) return false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->items[i].size == 0) continue;
        p->sized[p->n_sized] = p->items[i];
        p->sized_of[p->n_sized++] = i;
    }
    return true;
}

static dct_status search_exact(packer *p, uint64_t bound, uint64_t budget, dct_arena *arena, dct_pack_result *out, dct_err *err) {
    dct_exact *search = pick_sized(p, arena) ? dct_exact_new(p->sized, p->n_sized, arena) : NULL;
    if (search == NULL) return dct_fail_memory(err, arena, "the exact packing search");
    uint64_t left = budget / 2;
    out->optimal = probe_upward(p, search, bound, &left);
    out->nodes = budget / 2 - left;
    if (!out->optimal) {
        probe_between(p, search, bound, budget / 2);
        out->nodes = budget;
    }
    return DCT_OK;
}

dct_status dct_pack(dct_pack_item *items, uint32_t n, const uint64_t *conflict, uint64_t nodes, dct_arena *arena, dct_pack_result *out, dct_err *err) {
    packer p = {.items = items, .n = n, .conflict = conflict, .best_height = UINT64_MAX, .work_left = WORK_LIMIT};
    dct_status status = check_items(items, n, err);
    if (status != DCT_OK) return status;
    status = check_fixed(&p, err);
    if (status != DCT_OK) return status;
    p.crowd = dct_arena_array(arena, n, sizeof *p.crowd);
    p.keys = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *p.keys);
    p.spots = dct_arena_array(arena, n, sizeof *p.spots);
    p.offsets = dct_arena_array(arena, n, sizeof *p.offsets);
    p.best_offsets = dct_arena_array(arena, n, sizeof *p.best_offsets);
    if (p.crowd == NULL || p.keys == NULL || p.spots == NULL || p.offsets == NULL || p.best_offsets == NULL) {
        return dct_fail_memory(err, arena, "the packer");
    }
    dct_pack_result result = {0};
    result.load = find_load(items, n, p.keys, &result.at);
    uint64_t bound = result.load; /* fixed items can force more */
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].fixed && items[i].offset + items[i].size > bound) bound = items[i].offset + items[i].size;
    }
    run_portfolio(&p, bound);
    result.optimal = p.best_height <= bound;
    if (!result.optimal && conflict == NULL && n <= DCT_EXACT_MAX_ITEMS) {
        status = search_exact(&p, bound, nodes != 0 ? nodes : DEFAULT_NODES, arena, &result, err);
        if (status != DCT_OK) return status;
    }
    result.height = p.best_height == UINT64_MAX ? 0 : p.best_height;
    for (uint32_t i = 0; i < n; i++) items[i].offset = p.best_offsets[i];
    *out = result;
    return DCT_OK;
}
