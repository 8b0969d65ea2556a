#include "compile/pack_room.h"

#include <string.h>

#include "base/size.h"
#include "compile/sort.h"

typedef struct range { uint64_t from, end; } range; /* bytes, half-open */

typedef struct set { range *r; uint32_t n; } set; /* sorted, apart */

typedef struct node { set cover, below; } node;

/* A set that an item must stay clear of, for the sake of one of its pieces. */
typedef struct cursor {
    const set *taken;
    uint32_t at;         /* ranges before it lie under the piece */
    uint64_t low, high;  /* of the piece */
} cursor;

struct dct_room {
    const dct_problem *p;
    uint32_t *begin, *end; /* a piece: ranks of its times */
    uint32_t leaves;
    node *nodes;           /* k has children 2k and 2k + 1; 1 is the root */
    cursor *cursors;
    uint32_t n_cursors;
    uint64_t align;        /* of the item that is looked at */
    uint64_t work;
};

/* Calls for the nodes of a span: those that make it up, and those above. */
typedef struct visit {
    dct_room *room;
    uint32_t begin, end, piece;
    range taken;         /* to add */
    uint64_t *n_cover, *n_below; /* to count */
    enum { COUNT, ADD, LOOK } what;
} visit;

/* Adds a range and merges what it touches. */
static void add(set *s, range r) {
    uint32_t low = 0, high = s->n;
    while (low < high) { /* the first that reaches r */
        uint32_t mid = low + (high - low) / 2;
        if (s->r[mid].end < r.from) low = mid + 1;
        else high = mid;
    }
    uint32_t last = low;
    for (; last < s->n && s->r[last].from <= r.end; last++) {
        if (s->r[last].from < r.from) r.from = s->r[last].from;
        if (s->r[last].end > r.end) r.end = s->r[last].end;
    }
    memmove(&s->r[low + 1], &s->r[last], (s->n - last) * sizeof *s->r);
    s->r[low] = r;
    s->n = s->n - (last - low) + 1;
}

static void look_at(dct_room *room, const set *taken, uint32_t piece) {
    room->work++;
    if (taken->n == 0) return;
    room->cursors[room->n_cursors++] = (cursor){taken, 0, room->p->pieces[piece].low, room->p->pieces[piece].high};
}

/* `from`..`to` is the time of node k. Recursion is as deep as the tree. */
static void walk(const visit *v, uint32_t k, uint32_t from, uint32_t to) {
    if (v->end <= from || to <= v->begin) return;
    node *here = &v->room->nodes[k];
    bool whole = v->begin <= from && to <= v->end;
    switch (v->what) {
    case COUNT:
        v->n_below[k]++;
        v->n_cover[k] += whole;
        break;
    case ADD:
        add(&here->below, v->taken);
        if (whole) add(&here->cover, v->taken);
        break;
    case LOOK: look_at(v->room, whole ? &here->below : &here->cover, v->piece); break;
    }
    if (whole) return;
    uint32_t mid = from + (to - from) / 2;
    walk(v, 2 * k, from, mid);
    walk(v, 2 * k + 1, mid, to);
}

static void walk_piece(dct_room *room, visit v, uint32_t piece) {
    v.room = room;
    v.piece = piece;
    v.begin = room->begin[piece];
    v.end = room->end[piece];
    walk(&v, 1, 0, room->leaves);
}

static uint32_t rank_times(dct_room *room, dct_sort_key *keys) {
    uint32_t n = room->p->n_pieces, rank = 0;
    for (uint32_t k = 0; k < n; k++) {
        keys[2 * k] = (dct_sort_key){.first = room->p->pieces[k].begin, .index = 2 * k};
        keys[2 * k + 1] = (dct_sort_key){.first = room->p->pieces[k].end, .index = 2 * k + 1};
    }
    dct_sort_keys(keys, 2 * n);
    for (uint32_t k = 0; k < 2 * n; k++) {
        if (k > 0 && keys[k].first != keys[k - 1].first) rank++;
        if (keys[k].index % 2 == 0) room->begin[keys[k].index / 2] = rank;
        else room->end[keys[k].index / 2] = rank;
    }
    return rank;
}

/* Room for every range that a node can come to hold. */
static bool reserve_sets(dct_room *room, dct_arena *arena) {
    uint64_t *n_cover = dct_arena_array(arena, 2 * (uint64_t)room->leaves, sizeof *n_cover);
    uint64_t *n_below = dct_arena_array(arena, 2 * (uint64_t)room->leaves, sizeof *n_below), total = 0;
    if (n_cover == NULL || n_below == NULL) return false;
    for (uint32_t k = 0; k < room->p->n_pieces; k++)
        walk_piece(room, (visit){.what = COUNT, .n_cover = n_cover, .n_below = n_below}, k);
    for (uint32_t k = 1; k < 2 * room->leaves; k++) total += n_cover[k] + n_below[k];
    range *ranges = dct_arena_array(arena, total, sizeof *ranges);
    if (ranges == NULL) return false;
    for (uint32_t k = 1; k < 2 * room->leaves; k++) {
        room->nodes[k].cover.r = ranges;
        room->nodes[k].below.r = ranges + n_cover[k];
        ranges += n_cover[k] + n_below[k];
    }
    return true;
}

dct_room *dct_room_new(const dct_problem *problem, dct_arena *arena) {
    uint32_t most = 0, depth = 1, n = problem->n_pieces;
    for (uint32_t i = 0; i < problem->n; i++) {
        uint32_t pieces = problem->first_piece[i + 1] - problem->first_piece[i];
        if (pieces > most) most = pieces;
    }
    dct_room *room = dct_arena_alloc(arena, sizeof *room);
    dct_sort_key *keys = dct_arena_array(arena, 2 * (uint64_t)n, sizeof *keys);
    if (room == NULL || keys == NULL) return NULL;
    room->p = problem;
    room->begin = dct_arena_array(arena, n, sizeof *room->begin);
    room->end = dct_arena_array(arena, n, sizeof *room->end);
    if (room->begin == NULL || room->end == NULL) return NULL;
    uint32_t times = rank_times(room, keys);
    for (room->leaves = 1; room->leaves < times; room->leaves *= 2) depth++;
    room->nodes = dct_arena_array(arena, 2 * (uint64_t)room->leaves, sizeof *room->nodes);
    room->cursors = dct_arena_array(arena, (uint64_t)most * 4 * depth,
                                    sizeof *room->cursors); /* a walk meets four nodes a level at most */
    if (room->nodes == NULL || room->cursors == NULL || !reserve_sets(room, arena)) return NULL;
    return room;
}

void dct_room_clear(dct_room *room) {
    for (uint32_t k = 1; k < 2 * room->leaves; k++) room->nodes[k].cover.n = room->nodes[k].below.n = 0;
}

void dct_room_take(dct_room *room, uint32_t item, uint64_t offset) {
    for (uint32_t k = room->p->first_piece[item]; k < room->p->first_piece[item + 1]; k++) {
        range taken = {offset + room->p->pieces[k].low, offset + room->p->pieces[k].high};
        walk_piece(room, (visit){.what = ADD, .taken = taken}, k);
    }
}

void dct_room_look(dct_room *room, uint32_t item) {
    room->n_cursors = 0;
    room->align = room->p->items[item].align;
    for (uint32_t k = room->p->first_piece[item]; k < room->p->first_piece[item + 1]; k++)
        walk_piece(room, (visit){.what = LOOK}, k);
}

/* Lifts the offset until no set is in its way: each time a range blocks a piece, the piece goes on top of it. */
static uint64_t lift(dct_room *room, uint64_t offset) {
    uint32_t clear = 0; /* cursors in a row that have nothing against the offset */
    for (uint32_t k = 0; clear < room->n_cursors; k = k + 1 < room->n_cursors ? k + 1 : 0) {
        cursor *c = &room->cursors[k];
        for (; c->at < c->taken->n && c->taken->r[c->at].end <= offset + c->low; c->at++) room->work++;
        clear++;
        if (c->at == c->taken->n || c->taken->r[c->at].from >= offset + c->high) continue;
        offset = dct_round_up(c->taken->r[c->at].end - c->low, room->align);
        clear = 0;
    }
    return offset;
}

uint64_t dct_room_find(dct_room *room, uint64_t from, uint64_t *more) {
    uint64_t offset = lift(room, dct_round_up(from, room->align));
    *more = UINT64_MAX;
    for (uint32_t k = 0; k < room->n_cursors; k++) {
        const cursor *c = &room->cursors[k];
        if (c->at == c->taken->n) continue;
        uint64_t above = c->taken->r[c->at].from - (offset + c->high);
        if (above < *more) *more = above;
    }
    return offset;
}

uint64_t dct_room_work(const dct_room *room) { return room->work; }
