/* In order of begin, each item asks whether another owner still holds one of its bytes, and then holds them itself.
 *
 * The bytes are cut at every low and high, and the cells between two cuts are the leaves of a tree. An item covers some nodes
 * whole: those, and all above them, remember who held their bytes and until when. Nothing is ever taken out, for what has ended
 * by the begin of an item is over for all that come after it.
 *
 *               ┌───────┐                 each node: `whole`, who held all of its bytes at once,
 *           ┌───┴───┬───┴───┐                        `any`, who held some of them
 *         ┌─┴─┬───┬─┴─┬───┬─┴─┐
 *         └───┴───┴───┴───┴───┘ bytes
 */
#include "verify/packing.h"

#include "verify/ranges.h"

/* The latest end of all, and the latest of those that have another owner than that; 0: nobody. */
typedef struct holders {
    uint32_t end[2], owner[2];
} holders;

typedef struct tree {
    dct_range *cuts;      /* in order, each offset once */
    uint32_t n_cuts;
    uint32_t n_cells;     /* a power of two, n_cuts at least */
    holders *whole, *any; /* [2 * n_cells]; the root is 1, below k are 2k and 2k + 1 */
    uint32_t other;       /* the owner that stood in the way */
} tree;

/* An item in cells: first .. end_cell, half-open. */
typedef struct claim {
    const dct_packed *item;
    uint32_t first, end_cell;
} claim;

static void remember(holders *h, const dct_packed *b) {
    bool is_latest = b->end > h->end[0];
    if (b->owner == h->owner[0]) {
        if (is_latest) h->end[0] = b->end;
    } else if (is_latest) {
        *h = (holders){{b->end, h->end[0]}, {b->owner, h->owner[0]}};
    } else if (b->end > h->end[1]) {
        h->end[1] = b->end;
        h->owner[1] = b->owner;
    }
}

/* Whether another owner holds on when b begins. */
static bool is_held(const holders *h, const dct_packed *b, uint32_t *other) {
    uint32_t i = h->owner[0] == b->owner;
    *other = h->owner[i];
    return h->end[i] > b->begin;
}

/* Takes the claimed cells of a node that covers begin .. end; false when another owner holds one. */
static bool take(tree *t, uint32_t node, uint32_t begin, uint32_t end, const claim *c) {
    const dct_packed *b = c->item;
    if (c->end_cell <= begin || end <= c->first) return true;
    bool all = c->first <= begin && end <= c->end_cell;
    if (is_held(all ? &t->any[node] : &t->whole[node], b, &t->other)) return false;
    remember(&t->any[node], b);
    if (all) remember(&t->whole[node], b);
    uint32_t middle = begin + (end - begin) / 2;
    return all || (take(t, 2 * node, begin, middle, c) && take(t, 2 * node + 1, middle, end, c));
}

static uint32_t cell_at(const tree *t, uint64_t offset) {
    uint32_t low = 0, high = t->n_cuts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->cuts[middle].offset < offset) low = middle + 1;
        else high = middle;
    }
    return low;
}

static dct_status make_tree(const dct_packed *list, uint32_t n, dct_arena *arena, tree *t, dct_err *err) {
    t->cuts = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *t->cuts);
    if (t->cuts == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    for (uint32_t i = 0; i < n; i++) {
        t->cuts[2 * i] = (dct_range){.offset = list[i].low};
        t->cuts[2 * i + 1] = (dct_range){.offset = list[i].high};
    }
    dct_sort_ranges(t->cuts, 2 * n);
    for (uint32_t i = 0; i < 2 * n; i++)
        if (t->n_cuts == 0 || t->cuts[i].offset != t->cuts[t->n_cuts - 1].offset) t->cuts[t->n_cuts++] = t->cuts[i];
    for (t->n_cells = 1; t->n_cells < t->n_cuts;) t->n_cells *= 2;
    t->whole = dct_arena_array(arena, 2 * (uint64_t)t->n_cells, sizeof *t->whole);
    t->any = dct_arena_array(arena, 2 * (uint64_t)t->n_cells, sizeof *t->any);
    return t->whole != NULL && t->any != NULL ? DCT_OK : dct_fail_memory(err, arena, "the check of a packing");
}

dct_status dct_verify_packing(const dct_packed *list, uint32_t n, dct_arena *arena, uint64_t *height, dct_err *err) {
    if (n > UINT32_MAX / 8) return dct_fail(err, DCT_NO_FIT, "%u items are too many to check", n);
    tree t = {.n_cuts = 0};
    dct_range *order = dct_arena_array(arena, n, sizeof *order);
    if (order == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    dct_status status = make_tree(list, n, arena, &t, err);
    if (status != DCT_OK) return status;
    for (uint32_t i = 0; i < n; i++) order[i] = (dct_range){list[i].begin, list[i].owner, i};
    dct_sort_ranges(order, n);
    *height = 0;
    for (uint32_t k = 0; k < n; k++) {
        const dct_packed *b = &list[order[k].id];
        const claim c = {b, cell_at(&t, b->low), cell_at(&t, b->high)};
        if (b->low >= b->high || b->begin >= b->end)
            return dct_fail(err, DCT_BUG, "item %u takes no byte, or takes it for no time", b->owner);
        if (!take(&t, 1, 0, t.n_cells, &c))
            return dct_fail(err, DCT_BUG, "items %u and %u hold a byte together at time %u", t.other, b->owner, b->begin);
        if (b->high > *height) *height = b->high;
    }
    return DCT_OK;
}
