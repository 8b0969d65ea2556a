/* In time, a largest set of live pieces stands where an end follows a begin: every other set of live pieces is part of a
 * neighbour's. A conflict matrix says more than the intervals do; pairs that meet in no section get sections of their own, each
 * filled up greedily with whatever conflicts with all that is in it.
 */
#include "compile/pack_sections.h"

#include <string.h>

#include "base/bits.h"
#include "base/size.h"
#include "compile/sort.h"

#define MOST_MEMBERS UINT64_C(8000000)
#define MOST_NEIGHBORS UINT64_C(8000000)

typedef struct builder {
    const dct_problem *p;
    dct_sort_key *events;     /* begins and ends of pieces in time; ends first */
    uint32_t n_events;
    uint32_t *live, *live_at; /* pieces; a piece: its place in `live` */
    uint64_t *covered;        /* with a matrix: pairs that some section holds */
    dct_sections s;
    uint64_t n_members;
} builder;

static uint32_t pieces_of(const dct_problem *p, uint32_t i) { return p->first_piece[i + 1] - p->first_piece[i]; }

static void sort_events(builder *b) {
    for (uint32_t k = 0; k < b->p->n_pieces; k++) {
        b->events[2 * k] = (dct_sort_key){b->p->pieces[k].end, 0, k};
        b->events[2 * k + 1] = (dct_sort_key){b->p->pieces[k].begin, 1, k};
    }
    b->n_events = 2 * b->p->n_pieces;
    dct_sort_keys(b->events, b->n_events);
}

static void count_sections(builder *b, uint32_t *n_sections) {
    uint64_t live = 0;
    bool grew = false;
    *n_sections = 0;
    for (uint32_t k = 0; k < b->n_events; k++) {
        bool begins = b->events[k].second == 1;
        if (!begins && grew) {
            (*n_sections)++;
            b->n_members += live;
        }
        grew = begins;
        live += begins ? 1 : UINT64_MAX;
    }
}

static void add_member(builder *b, const dct_problem_piece *piece) {
    uint32_t item = piece->item, section = b->s.n;
    b->s.members[b->n_members++] = (dct_member){piece->low, piece->high - piece->low, item};
    if (section < b->s.span_begin[item]) b->s.span_begin[item] = section;
    if (section + 1 > b->s.span_end[item]) b->s.span_end[item] = section + 1;
}

static void end_section(builder *b) { b->s.first_member[++b->s.n] = (uint32_t)b->n_members; }

static void fill_sections(builder *b) {
    uint32_t n_live = 0;
    bool grew = false;
    b->n_members = 0;
    for (uint32_t k = 0; k < b->n_events; k++) {
        uint32_t piece = b->events[k].index;
        if (b->events[k].second == 1) {
            grew = true;
            b->live_at[piece] = n_live;
            b->live[n_live++] = piece;
            continue;
        }
        if (grew) {
            for (uint32_t m = 0; m < n_live; m++) add_member(b, &b->p->pieces[b->live[m]]);
            end_section(b);
        }
        grew = false;
        uint32_t last = b->live[--n_live];
        b->live[b->live_at[piece]] = last;
        b->live_at[last] = b->live_at[piece];
    }
}

/* ---- pairs that only the matrix knows ---- */

static bool is_covered(const builder *b, uint32_t x, uint32_t y) {
    return dct_bit_is_set(b->covered, (uint64_t)x * b->p->n + y);
}

static void cover(builder *b, uint32_t x, uint32_t y) {
    dct_bit_set(b->covered, (uint64_t)x * b->p->n + y);
    dct_bit_set(b->covered, (uint64_t)y * b->p->n + x);
}

static void cover_section(builder *b, uint32_t section) {
    for (uint32_t k = b->s.first_member[section]; k < b->s.first_member[section + 1]; k++) {
        for (uint32_t m = b->s.first_member[section]; m < k; m++) cover(b, b->s.members[k].item, b->s.members[m].item);
    }
}

static bool conflicts_with_all(const builder *b, uint32_t item, const uint32_t *set, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        if (item == set[k] || !dct_problem_conflict(b->p, item, set[k])) return false;
    }
    return true;
}

/* A section that holds x and y. False when there is no room for it. */
static bool add_pair_section(builder *b, uint32_t x, uint32_t y, uint64_t room) {
    uint32_t n = 0;
    b->live[n++] = x;
    b->live[n++] = y;
    for (uint32_t z = 0; z < b->p->n; z++) {
        if (pieces_of(b->p, z) > 0 && conflicts_with_all(b, z, b->live, n)) b->live[n++] = z;
    }
    if (b->n_members + n > room) return false;
    for (uint32_t k = 0; k < n; k++) add_member(b, &b->p->pieces[b->p->first_piece[b->live[k]]]);
    end_section(b);
    cover_section(b, b->s.n - 1);
    return true;
}

static bool add_matrix_sections(builder *b, uint64_t room, uint32_t most_sections) {
    for (uint32_t k = 0; k < b->s.n; k++) cover_section(b, k);
    for (uint32_t x = 0; x < b->p->n; x++) {
        for (uint32_t y = 0; y < x; y++) {
            if (pieces_of(b->p, x) == 0 || pieces_of(b->p, y) == 0 || !dct_problem_conflict(b->p, x, y) || is_covered(b, x, y))
                continue;
            if (b->s.n == most_sections || !add_pair_section(b, x, y, room)) return false;
        }
    }
    return true;
}

/* ---- pairs ---- */

/* Whether two items meet and, if so, how far apart they must lie. */
static bool meet(const dct_problem *p, uint32_t x, uint32_t y, dct_neighbor *out) {
    if (p->conflict != NULL) {
        *out = (dct_neighbor){(int64_t)p->items[x].size, (int64_t)p->items[y].size, y};
        return dct_problem_conflict(p, x, y);
    }
    bool met = false;
    uint32_t a = p->first_piece[x], c = p->first_piece[y];
    while (a < p->first_piece[x + 1] && c < p->first_piece[y + 1]) {
        const dct_problem_piece *mine = &p->pieces[a], *other = &p->pieces[c];
        if (mine->begin < other->end && other->begin < mine->end) {
            int64_t over = (int64_t)mine->high - (int64_t)other->low, under = (int64_t)other->high - (int64_t)mine->low;
            if (!met) *out = (dct_neighbor){over, under, y};
            if (over > out->over) out->over = over;
            if (under > out->under) out->under = under;
            met = true;
        }
        if (mine->end < other->end) a++;
        else c++;
    }
    return met;
}

static bool find_neighbors(builder *b, dct_arena *arena, bool *small) {
    const dct_problem *p = b->p;
    uint64_t n_pairs = 0;
    dct_neighbor pair;
    for (uint32_t x = 0; x < p->n; x++) {
        for (uint32_t y = 0; y < x; y++) n_pairs += pieces_of(p, x) > 0 && pieces_of(p, y) > 0 && meet(p, x, y, &pair);
    }
    *small = n_pairs <= MOST_NEIGHBORS / 2;
    if (!*small) return true;
    b->s.neighbors = dct_arena_array(arena, 2 * n_pairs, sizeof *b->s.neighbors);
    b->s.first_neighbor = dct_arena_array(arena, (uint64_t)p->n + 1, sizeof *b->s.first_neighbor);
    if (b->s.neighbors == NULL || b->s.first_neighbor == NULL) return false;
    uint32_t n = 0;
    for (uint32_t x = 0; x < p->n; x++) {
        b->s.first_neighbor[x] = n;
        for (uint32_t y = 0; y < p->n; y++) {
            if (x != y && pieces_of(p, x) > 0 && pieces_of(p, y) > 0 && meet(p, x, y, &pair)) b->s.neighbors[n++] = pair;
        }
    }
    b->s.first_neighbor[p->n] = n;
    return true;
}

static void order_by_span(builder *b) {
    dct_sort_key *keys = b->events;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->p->n; i++) {
        if (pieces_of(b->p, i) > 0) keys[n++] = (dct_sort_key){b->s.span_begin[i], b->s.span_end[i], i};
    }
    dct_sort_keys(keys, n);
    for (uint32_t k = 0; k < n; k++) b->s.by_span[k] = keys[k].index;
    b->s.n_items = n;
}

dct_status dct_sections_find(const dct_problem *problem, uint32_t most, dct_arena *arena, dct_sections *out, bool *small,
                             dct_err *err) {
    uint32_t n = problem->n, n_pieces = problem->n_pieces, n_sections;
    builder b = {.p = problem};
    *small = n <= most;
    if (!*small) return DCT_OK;
    b.events = dct_arena_array(arena, 2 * (uint64_t)n_pieces, sizeof *b.events);
    b.live = dct_arena_array(arena, (uint64_t)n_pieces + n, sizeof *b.live);
    b.live_at = dct_arena_array(arena, n_pieces, sizeof *b.live_at);
    b.s.span_begin = dct_arena_array(arena, n, sizeof *b.s.span_begin);
    b.s.span_end = dct_arena_array(arena, n, sizeof *b.s.span_end);
    b.s.by_span = dct_arena_array(arena, n, sizeof *b.s.by_span);
    if (b.events == NULL || b.live == NULL || b.live_at == NULL || b.s.span_begin == NULL || b.s.span_end == NULL ||
        b.s.by_span == NULL)
        goto no_memory;
    sort_events(&b);
    count_sections(&b, &n_sections);
    *small = b.n_members <= MOST_MEMBERS;
    if (!*small) return DCT_OK;
    uint64_t room = b.n_members;
    uint32_t most_sections = n_sections;
    if (problem->conflict != NULL) {
        room = 4 * room + 1024;
        most_sections = 4 * n_sections + 256;
        b.covered = dct_arena_array(arena, dct_bit_words((uint64_t)n * n), sizeof *b.covered);
        if (b.covered == NULL) goto no_memory;
    }
    b.s.members = dct_arena_array(arena, room, sizeof *b.s.members);
    b.s.first_member = dct_arena_array(arena, (uint64_t)most_sections + 1, sizeof *b.s.first_member);
    if (b.s.members == NULL || b.s.first_member == NULL) goto no_memory;
    for (uint32_t i = 0; i < n; i++) b.s.span_begin[i] = UINT32_MAX;
    fill_sections(&b);
    if (problem->conflict != NULL) *small = add_matrix_sections(&b, room, most_sections);
    if (!*small) return DCT_OK;
    order_by_span(&b);
    if (!find_neighbors(&b, arena, small)) goto no_memory;
    *out = b.s;
    return DCT_OK;
no_memory:
    return dct_fail_memory(err, arena, "the exact packing search");
}
