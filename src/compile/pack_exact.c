/* Exact search. Canonical solutions and bounds by section are ideas of MiniMalloc (Moffitt, ASPLOS 2023); a section seen as a
 * machine with release times is Jackson's (1955); weights that failures leave behind are Boussemart et al.'s (ECAI 2004). All
 * written anew.
 *
 * A solution is canonical when every item lies at 0 or on another item that it meets. Any solution can be pushed down into a
 * canonical one, so these are the ones searched for. The state is one number an item, `at`, under which it cannot lie any more:
 *
 *      bytes                 a section is a largest set of items that are live at one time
 *   capacity ─────────────
 *        │   ?  ┌──┐         an item is ready when no other that it meets fits wholly under it
 *        │  ┌───┤B │         a branch puts a ready item at its `at`; the other branch raises its `at` to the next place
 *        │  │ A │  │         where some other item could carry it
 *      0 └──┴───┴──┴─ time
 *
 * The unplaced items of a section, taken in the order of `at`, end at max(end, at) + size, one after the other: above the
 * capacity the state is dead. The next choice is made in the section that leaves least of it. Where nothing unplaced is live
 * across a cut in time, both sides are searched apart, and if one fails, so does the whole. A state is known by its unplaced
 * items and their `at`s alone; those that failed are remembered, by 128 bits of hash, whatever was placed around them.
 *
 * Each cut that depends on the capacity records the capacity it would have needed; when the tree is exhausted, the least of
 * those is the next capacity worth a try, and all under it are refuted.
 */
#include "compile/pack_exact.h"

#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "compile/pack_sections.h"
#include "compile/sort.h"

enum { MEMO_BITS = 16, STOP_EVERY = 64, WASTE = 3 }; /* WASTE: leaving bytes free at a floor counts as so many choices more */

#define PLACED (UINT64_C(1) << 63) /* as `at`: behind every item that is not placed */
#define NEVER (UINT64_C(1) << 62)  /* as a place: there is none */
#define MOST_CHANGES UINT64_C(2000000)

/* What a section looks like to those of its items that are not placed. */
typedef struct floor_view {
    uint64_t floor, next; /* the lowest place of one; the lowest of those that are not at the floor */
    uint64_t total;       /* their bytes */
    uint32_t n_low;       /* how many may lie at the floor: the first ones of the members */
} floor_view;

typedef struct change { uint64_t at, epoch; uint32_t item; bool carried; } change; /* what it was */
typedef struct placing { uint32_t start, pos; } placing;                   /* todo[start] stood at todo[pos] */
typedef struct memo_entry {
    uint64_t a, b, needed;
} memo_entry; /* the state with hash a, b fails under every capacity below `needed` */
typedef struct mark { uint64_t epoch; uint32_t n_changes, n_placings; } mark;

typedef enum section_rule { BY_WEIGHT, BY_FLOOR, BY_OPTIONS } section_rule;
typedef enum item_rule { BY_SECTIONS, BY_SIZE, BY_LENGTH, BY_AREA, BY_CROWD, ITEM_RULES } item_rule;

/* Which section to choose in, and which of its items. Each solves at once what another does not solve in hours. */
static const struct { section_rule section; item_rule item; } STRATEGIES[] = {
    {BY_WEIGHT, BY_SECTIONS}, {BY_OPTIONS, BY_LENGTH}, {BY_WEIGHT, BY_SIZE},  {BY_OPTIONS, BY_AREA}, {BY_FLOOR, BY_SECTIONS},
    {BY_OPTIONS, BY_SECTIONS}, {BY_FLOOR, BY_SIZE}, {BY_OPTIONS, BY_CROWD}, {BY_WEIGHT, BY_CROWD}, {BY_FLOOR, BY_CROWD},
    {BY_OPTIONS, BY_SIZE}, {BY_WEIGHT, BY_LENGTH}, {BY_FLOOR, BY_AREA}, {BY_WEIGHT, BY_AREA}, {BY_FLOOR, BY_LENGTH},
};
enum { N_STRATEGIES = sizeof STRATEGIES / sizeof *STRATEGIES };

struct dct_exact {
    const dct_problem *p;
    dct_sections s;
    uint32_t n_fixed;
    uint32_t *rank[ITEM_RULES]; /* an item: the less, the earlier */
    uint64_t *weights;          /* a strategy, a section: 1 + how often it was too full */
    memo_entry *memo;
    /* one probe */
    uint64_t capacity, needed;  /* needed: the least capacity that a cut asked for */
    dct_effort *effort;
    /* one attempt */
    uint64_t nodes_left;
    bool out_of_nodes;
    section_rule section_rule;
    uint64_t *weight;           /* of this strategy */
    const uint32_t *earlier;    /* the rank in use */
    /* the state */
    uint64_t *at, *offset;      /* offset: of a placed item */
    bool *carried;              /* an item: something placed holds it at `at` (so does 0) */
    floor_view *view;           /* a section */
    uint32_t *todo;             /* the items; a component is a stretch of unplaced ones in order of span_begin */
    change *changes;
    placing *placings;
    uint32_t n_changes, most_changes, n_placings;
    uint64_t epoch, n_epochs, *noted; /* an epoch begins at each mark; an item: the one in which its `at` was last noted down */
    uint64_t *look, *looked;    /* an item: its next place, and when that was found */
    uint64_t n_looks;
};

static uint64_t length_of(const dct_problem *p, uint32_t i) { return p->items[i].end - p->items[i].begin; }

/* The fullest section of an item. */
static uint64_t crowd_of(const dct_exact *s, uint32_t i) {
    uint64_t most = 0;
    for (uint32_t section = s->s.span_begin[i]; section < s->s.span_end[i]; section++) {
        uint64_t sum = 0;
        for (uint32_t k = s->s.first_member[section]; k < s->s.first_member[section + 1]; k++) sum += s->s.members[k].size;
        if (sum > most) most = sum;
    }
    return most;
}

static void fill_rank(dct_exact *s, item_rule rule, dct_sort_key *keys) {
    for (uint32_t k = 0; k < s->s.n_items; k++) {
        uint32_t i = s->s.by_span[k];
        uint64_t size = s->p->items[i].size, sections = s->s.span_end[i] - s->s.span_begin[i], length = length_of(s->p, i);
        uint64_t first = 0, second = size;
        switch (rule) {
        case BY_SECTIONS: first = sections; break;
        case BY_SIZE: first = size, second = length; break;
        case BY_LENGTH: first = length; break;
        case BY_AREA: if (!dct_mul_u64(length, size, &first)) first = UINT64_MAX; break;
        case BY_CROWD: first = crowd_of(s, i), second = sections; break;
        default: break;
        }
        keys[k] = (dct_sort_key){UINT64_MAX - first, UINT64_MAX - second, i};
    }
    dct_sort_keys(keys, s->s.n_items);
    for (uint32_t k = 0; k < s->s.n_items; k++) s->rank[rule][keys[k].index] = k;
}

static bool reserve(dct_exact *s, dct_arena *arena) {
    uint32_t n = s->p->n;
    uint64_t changes = 2 * ((uint64_t)n + 2) * n; /* two marks for each item that is placed */
    s->most_changes = (uint32_t)(changes < MOST_CHANGES ? changes : MOST_CHANGES);
    dct_sort_key *keys = dct_arena_array(arena, n, sizeof *keys);
    if (keys == NULL) return false;
    for (int rule = 0; rule < ITEM_RULES; rule++) {
        s->rank[rule] = dct_arena_array(arena, n, sizeof **s->rank);
        if (s->rank[rule] == NULL) return false;
        fill_rank(s, (item_rule)rule, keys);
    }
    s->weights = dct_arena_array(arena, (uint64_t)s->s.n * N_STRATEGIES, sizeof *s->weights);
    s->memo = dct_arena_array(arena, UINT64_C(1) << MEMO_BITS, sizeof *s->memo);
    s->at = dct_arena_array(arena, n, sizeof *s->at);
    s->offset = dct_arena_array(arena, n, sizeof *s->offset);
    s->carried = dct_arena_array(arena, n, sizeof *s->carried);
    s->view = dct_arena_array(arena, s->s.n, sizeof *s->view);
    s->todo = dct_arena_array(arena, n, sizeof *s->todo);
    s->changes = dct_arena_array(arena, s->most_changes, sizeof *s->changes);
    s->placings = dct_arena_array(arena, n, sizeof *s->placings);
    s->noted = dct_arena_array(arena, n, sizeof *s->noted);
    s->look = dct_arena_array(arena, n, sizeof *s->look);
    s->looked = dct_arena_array(arena, n, sizeof *s->looked);
    return s->weights != NULL && s->memo != NULL && s->at != NULL && s->offset != NULL && s->carried != NULL && s->view != NULL &&
           s->todo != NULL && s->changes != NULL && s->placings != NULL && s->noted != NULL && s->look != NULL &&
           s->looked != NULL;
}

dct_status dct_exact_new(const dct_problem *problem, dct_arena *arena, dct_exact **out, dct_err *err) {
    bool small;
    *out = NULL;
    dct_exact *s = dct_arena_alloc(arena, sizeof *s);
    if (s == NULL) return dct_fail_memory(err, arena, "the exact packing search");
    s->p = problem;
    dct_status status = dct_sections_find(problem, DCT_EXACT_MAX_ITEMS, arena, &s->s, &small, err);
    if (status != DCT_OK || !small) return status;
    if (!reserve(s, arena)) return dct_fail_memory(err, arena, "the exact packing search");
    for (uint64_t k = 0; k < (uint64_t)s->s.n * N_STRATEGIES; k++) s->weights[k] = 1;
    for (uint32_t i = 0; i < problem->n; i++) s->n_fixed += problem->items[i].fixed;
    *out = s;
    return DCT_OK;
}

/* ---- the state and its undoing ---- */

static void set_at(dct_exact *s, uint32_t item, uint64_t at, bool carried) {
    if (s->noted[item] != s->epoch && s->n_changes == s->most_changes) {
        s->out_of_nodes = true; /* as good as: what follows is given up, and undone */
        return;
    }
    if (s->noted[item] != s->epoch) s->changes[s->n_changes++] = (change){s->at[item], s->noted[item], item, s->carried[item]};
    s->noted[item] = s->epoch;
    s->at[item] = at;
    s->carried[item] = carried;
}

static mark begin_epoch(dct_exact *s) {
    mark here = {s->epoch, s->n_changes, s->n_placings};
    s->epoch = ++s->n_epochs;
    return here;
}

static void undo(dct_exact *s, mark to) {
    while (s->n_placings > to.n_placings) {
        placing p = s->placings[--s->n_placings];
        uint32_t item = s->todo[p.start];
        memmove(&s->todo[p.start], &s->todo[p.start + 1], (p.pos - p.start) * sizeof *s->todo);
        s->todo[p.pos] = item;
    }
    while (s->n_changes > to.n_changes) {
        change c = s->changes[--s->n_changes];
        s->at[c.item] = c.at;
        s->carried[c.item] = c.carried;
        s->noted[c.item] = c.epoch;
    }
    s->epoch = to.epoch;
}

/* Places todo[pos] at its `at`, as the first of the stretch, and raises what it meets. False when a fixed item is in the way. */
static bool place(dct_exact *s, uint32_t start, uint32_t pos) {
    uint32_t item = s->todo[pos];
    uint64_t offset = s->at[item];
    memmove(&s->todo[start + 1], &s->todo[start], (pos - start) * sizeof *s->todo);
    s->todo[start] = item;
    s->placings[s->n_placings++] = (placing){start, pos};
    s->offset[item] = offset;
    set_at(s, item, PLACED, true);
    for (uint32_t k = s->s.first_neighbor[item]; k < s->s.first_neighbor[item + 1]; k++) {
        const dct_neighbor *other = &s->s.neighbors[k];
        uint32_t j = other->item;
        if (s->at[j] == PLACED) continue;
        int64_t top = (int64_t)offset + other->over;
        uint64_t low = top > 0 ? dct_round_up((uint64_t)top, s->p->items[j].align) : 0;
        if (low > s->at[j] && s->p->items[j].fixed) return false;
        if (low > s->at[j] || (low == s->at[j] && !s->carried[j])) set_at(s, j, low, true);
    }
    return true;
}

/* The lowest place of the item on top of one that is not placed yet. The item is ready when this is above its `at`. */
static uint64_t find_next_place(const dct_exact *s, uint32_t item) {
    int64_t least = (int64_t)NEVER;
    for (uint32_t k = s->s.first_neighbor[item]; k < s->s.first_neighbor[item + 1]; k++) {
        const dct_neighbor *other = &s->s.neighbors[k];
        if (s->at[other->item] == PLACED) continue;
        int64_t place = (int64_t)s->at[other->item] + other->under;
        if (place < least) least = place;
    }
    return least > 0 ? dct_round_up((uint64_t)least, s->p->items[item].align) : 0;
}

static bool take_node(dct_exact *s) {
    if (s->nodes_left > 0 && s->nodes_left % STOP_EVERY == 0) (void)dct_effort_ends(s->effort);
    if (s->nodes_left == 0 || s->effort->nodes_left == 0 || s->effort->stopped) s->out_of_nodes = true;
    if (s->out_of_nodes) return false;
    s->nodes_left--;
    s->effort->nodes_left--;
    return true;
}

/* ---- bounds ---- */

static bool fits_at(dct_exact *s, uint32_t item, uint64_t place) {
    uint64_t end = place + dct_problem_top(s->p, item);
    if (end > s->capacity && end < s->needed) s->needed = end;
    return end <= s->capacity;
}

/* Brings the members of a section in the order of their places; it changes little from one state to the next. */
static void sort_members(const dct_exact *s, dct_member *m, uint32_t n) {
    for (uint32_t k = 1; k < n; k++) {
        dct_member moving = m[k];
        uint64_t place = s->at[moving.item] + moving.low;
        uint32_t hole = k;
        for (; hole > 0 && s->at[m[hole - 1].item] + m[hole - 1].low > place; hole--) m[hole] = m[hole - 1];
        m[hole] = moving;
    }
}

/* Whether a section can hold what is to come. */
static bool section_holds(dct_exact *s, uint32_t section) {
    dct_member *m = &s->s.members[s->s.first_member[section]];
    uint32_t n = s->s.first_member[section + 1] - s->s.first_member[section];
    floor_view v = {.next = NEVER};
    uint64_t end = 0;
    sort_members(s, m, n);
    for (uint32_t k = 0; k < n && s->at[m[k].item] < PLACED; k++) {
        uint64_t place = s->at[m[k].item] + m[k].low;
        if (k == 0) v.floor = place;
        if (place == v.floor) v.n_low++;
        else if (v.next == NEVER) v.next = place;
        end = (end > place ? end : place) + m[k].size;
        v.total += m[k].size;
    }
    s->view[section] = v;
    if (end <= s->capacity) return true;
    if (end < s->needed) s->needed = end;
    s->weight[section]++;
    return false;
}

/* Raises items that nothing holds where they are, then asks every section. Items that only hold each other raise each other
 * without end, in steps that can be tiny beside the capacity: rounds beyond one an item are paid for. */
static bool tighten(dct_exact *s, uint32_t start, uint32_t count, uint32_t from, uint32_t to) {
    uint64_t rounds = 0;
    for (bool raised = true; raised;) {
        raised = false;
        if (++rounds > count && !take_node(s)) return false;
        for (uint32_t k = start; k < start + count; k++) {
            uint32_t i = s->todo[k];
            if (s->carried[i] || s->p->items[i].fixed) continue;
            uint64_t next = find_next_place(s, i);
            if (next >= NEVER || !fits_at(s, i, next)) return false;
            if (next <= s->at[i]) continue;
            set_at(s, i, next, false);
            raised = true;
            if (s->out_of_nodes) return false;
        }
    }
    for (uint32_t k = from; k < to; k++) {
        if (!section_holds(s, k)) return false;
    }
    return true;
}

/* ---- choices ---- */

/* find_next_place, once a choice. */
static uint64_t next_place(dct_exact *s, uint32_t item) {
    if (s->looked[item] != s->n_looks) {
        s->looked[item] = s->n_looks;
        s->look[item] = find_next_place(s, item);
    }
    return s->look[item];
}

/* The better of two choices has the lower number, or at equal numbers the earlier item. The number is a fraction. */
typedef struct choice { uint64_t number, weight; uint32_t item; } choice;

static bool is_better(const dct_exact *s, choice a, choice b) {
    if (b.item == DCT_NONE) return true;
    uint64_t x = a.number * b.weight, y = b.number * a.weight;
    if (s->section_rule == BY_FLOOR) {
        if (a.number != b.number) return a.number < b.number;
        return a.weight > b.weight;
    }
    if (x != y) return x < y;
    return s->section_rule == BY_OPTIONS && s->earlier[a.item] < s->earlier[b.item];
}

/* What a section offers: one of the items that may lie at its floor. False when one of those is not ready. */
static bool offer(dct_exact *s, uint32_t section, choice *out) {
    const floor_view *v = &s->view[section];
    const dct_member *m = &s->s.members[s->s.first_member[section]];
    uint64_t next = v->next;
    uint32_t item = DCT_NONE;
    for (uint32_t k = 0; k < v->n_low; k++) {
        uint32_t i = m[k].item;
        uint64_t place = next_place(s, i);
        if (place <= s->at[i]) return false;
        if (place + m[k].low < next) next = place + m[k].low;
        if (item == DCT_NONE || s->earlier[i] < s->earlier[item]) item = i;
    }
    bool waste = next + v->total <= s->capacity; /* the floor may stay bare */
    *out = (choice){.weight = 1, .item = item};
    switch (s->section_rule) {
    case BY_OPTIONS: out->number = v->n_low + (waste ? WASTE + 1 : 0); break;
    case BY_WEIGHT: out->number = 10 * (v->n_low - 1) + (waste ? 10 * WASTE : 0) + 1, out->weight = s->weight[section]; break;
    case BY_FLOOR: out->number = v->floor, out->weight = s->weight[section]; break;
    }
    return true;
}

/* The item to place next; its position in todo. */
static uint32_t choose(dct_exact *s, uint32_t start, uint32_t count, uint32_t from, uint32_t to) {
    choice best = {.item = DCT_NONE};
    s->n_looks++;
    for (uint32_t k = start; s->n_fixed > 0 && k < start + count; k++) { /* a fixed item that is ready has no other choice */
        if (s->p->items[s->todo[k]].fixed && next_place(s, s->todo[k]) > s->at[s->todo[k]]) return k;
    }
    for (uint32_t section = from; section < to; section++) {
        choice c;
        if (s->view[section].n_low > 0 && offer(s, section, &c) && is_better(s, c, best)) best = c;
    }
    uint32_t lowest = start;
    for (uint32_t k = start; k < start + count; k++) {
        if (s->todo[k] == best.item) return k;
        if (s->at[s->todo[k]] < s->at[s->todo[lowest]]) lowest = k;
    }
    return lowest; /* only where shapes interlock is nothing ready */
}

/* ---- the search ---- */

/* Where the state of a component is remembered; *a and *b are its hash. */
static memo_entry *find_slot(const dct_exact *s, uint32_t start, uint32_t count, uint64_t *a, uint64_t *b) {
    *a = *b = 1;
    for (uint32_t k = start; k < start + count; k++) {
        uint32_t i = s->todo[k];
        uint64_t h = dct_hash_mix((s->at[i] * 2 + s->carried[i]) ^ dct_hash_mix(i + 1));
        *a += h;
        *b += dct_hash_mix(h + UINT64_C(0x9e3779b97f4a7c15));
    }
    return &s->memo[*a >> (64 - MEMO_BITS)];
}

static bool descend(dct_exact *s, uint32_t start, uint32_t count);

/* Whether the state is known to fail. */
static bool is_hopeless(dct_exact *s, const memo_entry *slot, uint64_t a, uint64_t b) {
    if (slot->a != a || slot->b != b || s->capacity >= slot->needed) return false;
    if (slot->needed < s->needed) s->needed = slot->needed;
    return true;
}

/* Places todo[start..], which no cut in time parts, in sections from..to. */
static bool solve_component(dct_exact *s, uint32_t start, uint32_t count, uint32_t from, uint32_t to) {
    uint64_t needed_before = s->needed, a, b;
    mark entry = begin_epoch(s);
    s->needed = UINT64_MAX; /* of this component */
    bool alive = tighten(s, start, count, from, to), solved = false;
    memo_entry *slot = find_slot(s, start, count, &a, &b);
    alive = alive && !is_hopeless(s, slot, a, b);
    while (alive && take_node(s)) {
        uint32_t pos = choose(s, start, count, from, to), item = s->todo[pos];
        mark before = begin_epoch(s);
        solved = place(s, start, pos) && descend(s, start + 1, count - 1);
        if (solved) break;
        undo(s, before);
        if (s->out_of_nodes) break;
        uint64_t next = find_next_place(s, item);
        alive = !s->p->items[item].fixed && next > s->at[item] && next < NEVER;
        if (alive) set_at(s, item, next, false);
        alive = alive && tighten(s, start, count, from, to);
    }
    if (!solved) undo(s, entry);
    if (!solved && !s->out_of_nodes) *slot = (memo_entry){a, b, s->needed};
    if (needed_before < s->needed) s->needed = needed_before;
    return solved;
}

/* Parts the unplaced items where none of them is live across a cut. */
static bool descend(dct_exact *s, uint32_t start, uint32_t count) {
    uint32_t end = start + count;
    while (start < end) {
        uint32_t from = s->s.span_begin[s->todo[start]], to = s->s.span_end[s->todo[start]], k = start + 1;
        for (; k < end && s->s.span_begin[s->todo[k]] < to; k++) {
            if (s->s.span_end[s->todo[k]] > to) to = s->s.span_end[s->todo[k]];
        }
        if (!solve_component(s, start, k - start, from, to)) return false;
        start = k;
    }
    return true;
}

static dct_fit attempt(dct_exact *s, uint32_t strategy, uint64_t limit) {
    for (uint32_t i = 0; i < s->p->n; i++) {
        s->at[i] = s->p->items[i].fixed ? s->p->items[i].offset : 0;
        s->carried[i] = true;
    }
    memcpy(s->todo, s->s.by_span, s->s.n_items * sizeof *s->todo);
    memset(s->noted, 0, s->p->n * sizeof *s->noted);
    s->epoch = s->n_epochs = 1;
    s->n_changes = s->n_placings = 0;
    s->section_rule = STRATEGIES[strategy].section;
    s->earlier = s->rank[STRATEGIES[strategy].item];
    s->weight = s->weights + (uint64_t)strategy * s->s.n;
    s->nodes_left = limit;
    s->out_of_nodes = false;
    bool found = descend(s, 0, s->s.n_items);
    return found ? DCT_FIT_FOUND : s->out_of_nodes ? DCT_FIT_UNKNOWN : DCT_FIT_IMPOSSIBLE;
}

dct_fit dct_exact_probe(dct_exact *s, uint64_t capacity, uint64_t limit, dct_effort *effort, uint64_t *offsets,
                        uint64_t *next_capacity) {
    s->capacity = capacity;
    s->needed = UINT64_MAX;
    s->effort = effort;
    for (uint32_t strategy = 0; strategy < N_STRATEGIES && effort->nodes_left > 0 && !effort->stopped; strategy++) {
        dct_fit fit = attempt(s, strategy, limit);
        for (uint32_t k = 0; fit == DCT_FIT_FOUND && k < s->s.n_items; k++) offsets[s->s.by_span[k]] = s->offset[s->s.by_span[k]];
        if (fit == DCT_FIT_IMPOSSIBLE && s->p->shaped)
            fit = DCT_FIT_UNKNOWN; /* shapes can interlock: not every solution is canonical */
        if (fit == DCT_FIT_IMPOSSIBLE) *next_capacity = s->needed;
        if (fit != DCT_FIT_UNKNOWN) return fit;
    }
    return DCT_FIT_UNKNOWN;
}
