/* Pools of a table, each packed by itself. Items that share bytes are one buffer to the packer: at each time it holds what they
 * hold that are live, and what lies between.
 *
 *      bytes
 *        │ ┌──a──┬─────┐          a, and two views of it that outlive it: b of its upper half,
 *        │ │     │  b  ├──┐       c of its lower one
 *        │ │     └──┬──┘  │
 *        │ │     ┌──┴──c──┤
 *      0 └─┴─────┴────────┴─ time
 *
 * The verifier is told of each item apart from the others; it does not know how buffers were made.
 */
#include <inttypes.h>

#include "compile/sort.h"
#include "tools/pack_table.h"
#include "verify/packing.h"

/* What the packer is given. */
typedef struct buffers {
    uint32_t n;
    dct_pack_item *items;
    uint32_t *roots;         /* a buffer: its item in the table */
    uint32_t *buffer_of;     /* a root */
    dct_pack_piece *merged;  /* of all buffers, one after another */
    uint32_t n_merged;
} buffers;

static uint32_t count_pieces(const dct_pack_item *item) {
    if (item->size == 0) return 0;
    return item->n_pieces > 0 ? item->n_pieces : 1;
}

/* The pieces of a pool's items, owned by their roots: where they lie or, before that is known, where they lie in their root. */
static dct_status list_pieces(const dct_pack_table *t, uint32_t pool, bool placed, dct_arena *arena, dct_packed **out,
                              uint32_t *n, dct_err *err) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->n_items; i++) most += count_pieces(&t->items[i]);
    dct_packed *list = *out = dct_arena_array(arena, most, sizeof *list);
    if (list == NULL) return dct_fail_memory(err, arena, "the pieces of a pool");
    *n = 0;
    for (uint32_t i = 0; i < t->n_items; i++) {
        const dct_pack_item *item = &t->items[i];
        const dct_pack_piece whole = {0, item->size, item->begin, item->end};
        uint64_t at = placed ? item->offset : t->homes[i].shift;
        if (t->homes[i].pool != pool) continue;
        for (uint32_t k = 0; k < count_pieces(item); k++) {
            const dct_pack_piece *p = item->n_pieces > 0 ? &item->pieces[k] : &whole;
            list[(*n)++] = (dct_packed){at + p->low, at + p->high, p->begin, p->end, t->homes[i].root};
        }
    }
    return DCT_OK;
}

/* ---- buffers ---- */

/* The pieces of one root that are live: trees over all pieces, of which a node has the least of the two below it and tree[1] the
 * least of all; UINT64_MAX where none is live. */
typedef struct live_pieces {
    uint32_t n, n_live;
    uint64_t *low, *not_high; /* [2 * n]; of piece k at n + k. Ends are turned round: the least of ~high is that of the highest */
} live_pieces;

static void set_leaf(uint64_t *tree, uint32_t n, uint32_t k, uint64_t value) {
    uint64_t at = (uint64_t)n + k;
    for (tree[at] = value; at > 1; at /= 2) tree[at / 2] = tree[at] < tree[at ^ 1] ? tree[at] : tree[at ^ 1];
}

static void add_live(live_pieces *live, uint32_t k, const dct_packed *p) {
    set_leaf(live->low, live->n, k, p->low);
    set_leaf(live->not_high, live->n, k, ~p->high);
    live->n_live++;
}

static void end_live(live_pieces *live, uint32_t k) {
    set_leaf(live->low, live->n, k, UINT64_MAX);
    set_leaf(live->not_high, live->n, k, UINT64_MAX);
    live->n_live--;
}

/* What the live pieces of a root hold from one time to another. */
static void add_merged(buffers *b, uint32_t root, const live_pieces *live, uint32_t from, uint32_t to) {
    dct_pack_item *item = &b->items[b->buffer_of[root]];
    const dct_pack_piece p = {live->low[1], ~live->not_high[1], from, to};
    dct_pack_piece *last = item->n_pieces > 0 ? &b->merged[b->n_merged - 1] : NULL;
    if (last != NULL && last->end == from && last->low == p.low && last->high == p.high) {
        last->end = to;
    } else {
        if (last == NULL) item->pieces = &b->merged[b->n_merged];
        if (last == NULL) item->begin = from;
        b->merged[b->n_merged++] = p;
        item->n_pieces++;
    }
    item->end = to;
}

/* Goes through begins and ends of pieces, root by root in time. */
static void merge(buffers *b, const dct_packed *list, const dct_sort_key *events, uint32_t n_events, live_pieces *live) {
    for (uint32_t e = 0; e < n_events; e++) {
        uint32_t piece = events[e].index / 2;
        if (live->n_live > 0 && events[e].second > events[e - 1].second)
            add_merged(b, list[piece].owner, live, (uint32_t)events[e - 1].second, (uint32_t)events[e].second);
        if (events[e].index % 2 == 0) add_live(live, piece, &list[piece]);
        else end_live(live, piece);
    }
}

static dct_status merge_shared(const dct_pack_table *t, uint32_t pool, buffers *b, dct_arena *arena, dct_err *err) {
    dct_packed *list;
    uint32_t n;
    dct_status status = list_pieces(t, pool, false, arena, &list, &n, err);
    if (status != DCT_OK) return status;
    dct_sort_key *events = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *events);
    live_pieces live = {.n = n};
    live.low = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *live.low);
    live.not_high = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *live.not_high);
    b->merged = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *b->merged);
    if (events == NULL || live.low == NULL || live.not_high == NULL || b->merged == NULL)
        return dct_fail_memory(err, arena, "the buffers of a pool");
    for (uint64_t k = 0; k < 2 * (uint64_t)n; k++) live.low[k] = live.not_high[k] = UINT64_MAX;
    for (uint32_t k = 0; k < n; k++) {
        events[2 * k] = (dct_sort_key){list[k].owner, list[k].begin, 2 * k};
        events[2 * k + 1] = (dct_sort_key){list[k].owner, list[k].end, 2 * k + 1};
    }
    dct_sort_keys(events, 2 * n);
    for (uint32_t k = 0; k < b->n; k++) b->items[k].n_pieces = 0;
    merge(b, list, events, 2 * n, &live);
    return DCT_OK;
}

static dct_status make_buffers(const dct_pack_table *t, uint32_t pool, buffers *b, dct_arena *arena, dct_err *err) {
    uint32_t n = t->n_items;
    bool shared = false;
    b->items = dct_arena_array(arena, n, sizeof *b->items);
    b->roots = dct_arena_array(arena, n, sizeof *b->roots);
    b->buffer_of = dct_arena_array(arena, n, sizeof *b->buffer_of);
    if (b->items == NULL || b->roots == NULL || b->buffer_of == NULL)
        return dct_fail_memory(err, arena, "the buffers of a pool");
    for (uint32_t i = 0; i < n; i++) {
        if (t->homes[i].pool != pool) continue;
        shared = shared || t->homes[i].root != i;
        if (t->homes[i].root != i) continue;
        b->buffer_of[i] = b->n;
        b->roots[b->n] = i;
        b->items[b->n++] = t->items[i];
    }
    return shared ? merge_shared(t, pool, b, arena, err) : DCT_OK;
}

/* ---- the answer ---- */

/* Fixed items must not move. */
static dct_status place(dct_pack_table *t, uint32_t pool, const buffers *b, dct_err *err) {
    for (uint32_t i = 0; i < t->n_items; i++) {
        const dct_pack_home *home = &t->homes[i];
        if (home->pool != pool) continue;
        uint64_t offset = b->items[b->buffer_of[home->root]].offset + home->shift;
        if (t->items[i].fixed && t->items[i].offset != offset) return dct_fail(err, DCT_BUG, "item %u was fixed and moved", i);
        t->items[i].offset = offset;
    }
    return DCT_OK;
}

static dct_status verify(const dct_pack_table *t, uint32_t pool, dct_arena *arena, dct_err *err) {
    uint64_t height = t->pools[pool].packed.height, found;
    dct_packed *list;
    uint32_t n;
    for (uint32_t i = 0; i < t->n_items; i++) {
        const dct_pack_item *item = &t->items[i], *root = &t->items[t->homes[i].root];
        if (t->homes[i].pool != pool) continue;
        if (item->offset % item->align != 0) return dct_fail(err, DCT_BUG, "item %u is not aligned", i);
        if (item->offset - t->homes[i].shift != root->offset)
            return dct_fail(err, DCT_BUG, "item %u is not where it shares bytes", i);
    }
    dct_status status = list_pieces(t, pool, true, arena, &list, &n, err);
    if (status == DCT_OK) status = dct_verify_packing(list, n, arena, &found, err);
    if (status == DCT_OK && found != height)
        status = dct_fail(err, DCT_BUG, "the height is %" PRIu64 ", not %" PRIu64, found, height);
    return status;
}

dct_status dct_pack_table_pack(dct_pack_table *t, uint32_t pool, const dct_pack_params *params, dct_arena *arena, dct_err *err) {
    buffers b = {0};
    dct_status status = make_buffers(t, pool, &b, arena, err);
    if (status == DCT_OK) status = dct_pack(b.items, b.n, NULL, params, arena, &t->pools[pool].packed, err);
    if (status == DCT_USAGE) { /* the message stays */
        status = DCT_BAD_FILE;
        if (err != NULL) err->code = status;
    }
    if (status == DCT_OK) status = place(t, pool, &b, err);
    return status == DCT_OK ? verify(t, pool, arena, err) : status;
}
