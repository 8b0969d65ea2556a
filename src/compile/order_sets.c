/* compile/order_sets: the order of least peak within a section, as a path through sets of nodes.
 *
 * What lives depends on which nodes have run and not on their order, so of all orders that lead to one set the one of the
 * lowest peak is enough (Ahn et al. 2020, "Ordering chaos"). Sets of one node, of two, ... are followed side by side. A node
 * that adds nothing to what lives, within the peak that was reached anyway, runs at once: whatever ran before it instead would
 * find no less. Where sets become too many, those of lower peak go on alone, and the result may not be the best.
 */
#include "compile/order_sets.h"

#include <string.h>

#include "base/bits.h"
#include "base/hash.h"
#include "compile/sort.h"

enum {
    MOST_NODES = 4096,     /* of a section; larger ones stay as they are */
    MUCH_WORK = 1 << 24,   /* from here on few sets are followed */
    MOST_WORK = 1 << 26,   /* and here the search ends: some tenths of a second */
    FEW = 64
};

/* The last step to a set: this node, after the step numbered `before`. */
typedef struct step {
    uint32_t node, before;
} step;

/* A set of nodes that have run, and the best way to it. */
typedef struct state {
    uint64_t peak, live, hash;
    step step;
} state;

/* Sets of as many nodes. Two bit sets a state, `words` each: what has run, and what may run next. */
typedef struct level {
    state *states;
    uint64_t *bits;
    uint32_t n, first_step; /* the step to the first of them; the others follow */
} level;

typedef struct search {
    const dct_order_graph *g;
    const dct_order_section *section;
    uint32_t n, words;           /* nodes; 64 of them a word */
    uint32_t *first_next, *next; /* [n + 1]: where the nodes that wait for one begin in the other, as numbers in the section */
    bool *dies;                  /* [most_reads] */
    dct_order_change *changes;   /* [n] */
    level from, to;
    uint32_t cap, n_slots;       /* states of a level; slots of `table`, a power of two */
    uint32_t *table;             /* of `to`: state + 1 by hash; 0: free */
    dct_sort_key *keys;
    step *steps;                 /* of all levels but `to` */
    uint32_t n_steps;
    uint64_t work;               /* readers, nodes and words looked at so far, in all sections */
    bool exact;
} search;

static uint64_t *ran(const search *s, const level *l, uint32_t i) { return l->bits + (size_t)2 * s->words * i; }
static uint64_t *ready(const search *s, const level *l, uint32_t i) { return ran(s, l, i) + s->words; }

/* The first member from x on, or n. */
static uint32_t member(const search *s, const uint64_t *set, uint32_t x) {
    for (; x < s->n; x = (x / 64 + 1) * 64) {
        uint64_t rest = set[x / 64] >> (x % 64);
        if (rest != 0) return x + (uint32_t)__builtin_ctzll(rest);
    }
    return s->n;
}

static const dct_order_node *node_of(const search *s, uint32_t x) { return &s->g->p.nodes[s->section->begin + x]; }

/* ---- one node more ---- */

dct_order_change dct_order_weigh(const dct_order_graph *g, uint32_t node, const bool *dies) {
    const dct_order_node *n = &g->p.nodes[node];
    const dct_order_value *values = g->p.values;
    dct_order_change c = {n->scratch_bytes, n->scratch_bytes};
    uint32_t given = UINT32_MAX; /* of reads: its bytes are makes[0] from here on */
    for (uint32_t k = 0; k < n->n_over && given == UINT32_MAX; k++) {
        if (dies[n->over[k]]) given = n->over[k];
    }
    for (uint32_t k = 0; k < n->n_makes; k++) {
        uint32_t v = n->makes[k];
        if (k > 0 || given == UINT32_MAX) c.rise += values[v].bytes;
        if (dct_order_n_readers(g, v) == 0 && !values[v].stays) c.fall += values[v].bytes;
    }
    for (uint32_t k = 0; k < n->n_reads; k++) {
        if (dies[k] && k != given) c.fall += values[n->reads[k]].bytes;
    }
    return c;
}

/* Whether node x is the last to read v. Readers before the section have run, those behind it have not. */
static bool is_last_reader(search *s, const uint64_t *set, uint32_t x, uint32_t v) {
    if (s->g->p.values[v].stays) return false;
    for (uint32_t k = s->g->first_reader[v]; k < s->g->first_reader[v + 1]; k++) {
        uint32_t reader = s->g->readers[k];
        s->work++;
        if (reader < s->section->begin || reader == s->section->begin + x) continue;
        if (reader >= s->section->end || !dct_bit_is_set(set, reader - s->section->begin)) return false;
    }
    return true;
}

static dct_order_change change_by(search *s, const uint64_t *set, uint32_t x) {
    const dct_order_node *node = node_of(s, x);
    for (uint32_t k = 0; k < node->n_reads; k++) s->dies[k] = is_last_reader(s, set, x, node->reads[k]);
    s->work += 1 + node->n_reads;
    return dct_order_weigh(s->g, s->section->begin + x, s->dies);
}

static bool may_run(search *s, const uint64_t *set, uint32_t x) {
    const dct_order_node *node = node_of(s, x);
    s->work += node->n_after;
    for (uint32_t k = 0; k < node->n_after; k++) {
        if (node->after[k] >= s->section->begin && !dct_bit_is_set(set, node->after[k] - s->section->begin)) return false;
    }
    return true;
}

static uint32_t *slot_of(const search *s, const uint64_t *set, uint64_t hash) {
    uint32_t at = (uint32_t)hash & (s->n_slots - 1);
    while (s->table[at] != 0) {
        uint32_t i = s->table[at] - 1;
        if (s->to.states[i].hash == hash && memcmp(ran(s, &s->to, i), set, s->words * sizeof *set) == 0) break;
        at = (at + 1) & (s->n_slots - 1);
    }
    return &s->table[at];
}

/* The lower half by peak, then by what lives, goes on, in the order it was found in. */
static void thin_out(search *s) {
    level *l = &s->to;
    uint32_t keep = l->n / 2;
    s->exact = false;
    for (uint32_t i = 0; i < l->n; i++) s->keys[i] = (dct_sort_key){l->states[i].peak, l->states[i].live, i};
    dct_sort_keys(s->keys, l->n);
    for (uint32_t i = 0; i < keep; i++) s->keys[i].first = s->keys[i].second = 0;
    dct_sort_keys(s->keys, keep);
    memset(s->table, 0, s->n_slots * sizeof *s->table);
    l->n = 0;
    for (uint32_t i = 0; i < keep; i++) {
        uint32_t from = s->keys[i].index, to = l->n;
        l->states[to] = l->states[from];
        memmove(ran(s, l, to), ran(s, l, from), 2 * s->words * sizeof *l->bits);
        *slot_of(s, ran(s, l, to), l->states[to].hash) = to + 1;
        l->n++;
    }
}

/* From state i of one level by node x to the next, where the set may have been reached at a higher peak. */
static void extend(search *s, uint32_t i, uint32_t x) {
    const state *from = &s->from.states[i];
    const dct_order_change *c = &s->changes[x];
    state to = {.peak = from->live + c->rise, .live = from->live + c->rise - c->fall,
                .hash = from->hash ^ dct_hash_mix((uint64_t)x + 1), .step = {x, s->from.first_step + i}};
    if (to.peak < from->peak) to.peak = from->peak;
    if (to.peak >= s->section->peak) return; /* no better than the given order */
    s->work += s->words;
    uint64_t *set = ran(s, &s->to, s->cap); /* behind the states there is room for one to look for */
    memcpy(set, ran(s, &s->from, i), s->words * sizeof *set);
    dct_bit_set(set, x);
    uint32_t *slot = slot_of(s, set, to.hash);
    if (*slot != 0) {
        if (to.peak < s->to.states[*slot - 1].peak) s->to.states[*slot - 1] = to;
        return;
    }
    if (s->to.n == s->cap) {
        thin_out(s);
        slot = slot_of(s, set, to.hash);
    }
    uint64_t *next = ready(s, &s->to, s->to.n);
    memcpy(ran(s, &s->to, s->to.n), set, s->words * sizeof *set);
    memcpy(next, ready(s, &s->from, i), s->words * sizeof *next);
    dct_bit_clear(next, x);
    for (uint32_t k = s->first_next[x]; k < s->first_next[x + 1]; k++) {
        if (may_run(s, set, s->next[k])) dct_bit_set(next, s->next[k]);
    }
    s->to.states[s->to.n] = to;
    *slot = ++s->to.n;
}

static void expand(search *s, uint32_t i) {
    const state *from = &s->from.states[i];
    const uint64_t *next = ready(s, &s->from, i);
    for (uint32_t x = member(s, next, 0); x < s->n; x = member(s, next, x + 1)) {
        s->changes[x] = change_by(s, ran(s, &s->from, i), x);
        const dct_order_change *c = &s->changes[x];
        if (c->rise <= c->fall && from->live + c->rise <= from->peak) {
            extend(s, i, x);
            return;
        }
    }
    for (uint32_t x = member(s, next, 0); x < s->n; x = member(s, next, x + 1)) extend(s, i, x);
}

/* ---- all of them ---- */

static uint32_t most_states(const search *s) {
    uint32_t cap = s->g->p.width != 0 ? s->g->p.width : DCT_ORDER_WIDTH;
    if (s->n < 31 && cap > UINT32_C(1) << s->n) cap = UINT32_C(1) << s->n;
    return cap < 2 ? 2 : cap;
}

static bool make_level(const search *s, level *l, dct_arena *arena) {
    l->states = dct_arena_array(arena, s->cap, sizeof *l->states);
    l->bits = dct_arena_array(arena, (uint64_t)s->cap + 1, 2 * s->words * sizeof *l->bits);
    return l->states != NULL && l->bits != NULL;
}

static bool prepare(search *s, dct_arena *arena) {
    uint64_t n_after = 0;
    for (uint32_t x = 0; x < s->n; x++) n_after += node_of(s, x)->n_after;
    s->words = (uint32_t)dct_bit_words(s->n);
    s->cap = most_states(s);
    for (s->n_slots = 16; s->n_slots < 2 * s->cap; s->n_slots *= 2) continue;
    s->first_next = dct_arena_array(arena, (uint64_t)s->n + 2, sizeof *s->first_next);
    s->next = dct_arena_array(arena, n_after, sizeof *s->next);
    s->dies = dct_arena_array(arena, s->g->most_reads, sizeof *s->dies);
    s->changes = dct_arena_array(arena, s->n, sizeof *s->changes);
    s->table = dct_arena_array(arena, s->n_slots, sizeof *s->table);
    s->keys = dct_arena_array(arena, s->cap, sizeof *s->keys);
    return s->first_next != NULL && s->next != NULL && s->dies != NULL && s->changes != NULL && s->table != NULL &&
           s->keys != NULL && make_level(s, &s->from, arena) && make_level(s, &s->to, arena);
}

static void list_next(search *s) {
    uint32_t *at = s->first_next + 1; /* in the end, where those of the node behind begin */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t x = 0; x < s->n; x++) {
            const dct_order_node *node = node_of(s, x);
            for (uint32_t k = 0; k < node->n_after; k++) {
                if (node->after[k] < s->section->begin) continue;
                uint32_t before = node->after[k] - s->section->begin;
                if (pass == 0) at[before + 1]++;
                else s->next[at[before]++] = x;
            }
        }
        for (uint32_t x = 0; pass == 0 && x < s->n; x++) at[x + 1] += at[x];
    }
}

static void begin_with_none(search *s, uint64_t floor) {
    uint64_t live = s->section->live;
    s->from.states[0] = (state){.peak = floor > live ? floor : live, .live = live};
    s->from.n = 1;
    for (uint32_t x = 0; x < s->n; x++) {
        if (may_run(s, ran(s, &s->from, 0), x)) dct_bit_set(ready(s, &s->from, 0), x);
    }
}

/* The sets of one node more. False: no memory. */
static bool climb(search *s, dct_arena *arena) {
    memset(s->table, 0, s->n_slots * sizeof *s->table);
    s->to.n = 0;
    if (s->work > MUCH_WORK && s->cap > FEW) s->cap = FEW;
    for (uint32_t i = 0; i < s->from.n && s->work < MOST_WORK; i++) expand(s, i);
    step *steps = dct_arena_grow(arena, s->steps, s->n_steps, (uint64_t)s->n_steps + s->to.n, sizeof *steps);
    if (steps == NULL) return false;
    for (uint32_t i = 0; i < s->to.n; i++) steps[s->n_steps + i] = s->to.states[i].step;
    s->steps = steps;
    s->to.first_step = s->n_steps;
    s->n_steps += s->to.n;
    level done = s->from;
    s->from = s->to;
    s->to = done;
    return true;
}

static dct_status find(search *s, uint64_t floor, dct_arena *arena, uint32_t *order, uint64_t *peak, dct_err *err) {
    if (!prepare(s, arena)) return dct_fail_memory(err, arena, "the search for an order");
    list_next(s);
    begin_with_none(s, floor);
    for (uint32_t size = 0; size < s->n && s->from.n > 0; size++) {
        if (!climb(s, arena)) return dct_fail_memory(err, arena, "the search for an order");
    }
    if (s->work >= MOST_WORK) s->exact = false;
    if (s->from.n == 0 || s->work >= MOST_WORK) return DCT_OK;
    *peak = s->from.states[0].peak;
    step at = s->from.states[0].step;
    for (uint32_t x = s->n; x-- > 0; at = s->steps[at.before]) order[x] = s->section->begin + at.node;
    return DCT_OK;
}

dct_status dct_order_sets_search(const dct_order_graph *g, dct_order_section *section, uint64_t floor, const dct_arena *limits,
                                 uint64_t *work, uint32_t *order, bool *exact, dct_err *err) {
    search s = {.g = g, .section = section, .n = section->end - section->begin, .work = *work, .exact = true};
    uint64_t peak = section->peak;
    *exact = s.n <= MOST_NODES;
    if (s.n < 2 || !*exact) return DCT_OK;
    dct_arena own; /* what it takes is given back */
    dct_arena_init(&own, limits->limit_bytes);
    dct_status status = find(&s, floor, &own, order, &peak, err);
    dct_arena_deinit(&own);
    section->peak = peak;
    *work = s.work;
    *exact = s.exact;
    return status;
}
