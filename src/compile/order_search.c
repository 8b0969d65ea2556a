/* compile/order_search: sections of a graph, and which of them are worth a search.
 *
 *      ──► a ──► b ──┬──► c ──┬──► e ──► f ──►      a, b, e, f: each before or after every other node, in whatever order.
 *                    └──► d ──┘                     Between two such nodes lies a section, here (c, d, e).
 *
 * What lives where a section begins is the same in every order, so sections are independent: the load is the largest of their
 * peaks. The section of the highest peak is searched first; where it cannot come below another's, that one need not be searched.
 */
#include "compile/order_search.h"

#include <string.h>

#include "base/size.h"
#include "compile/order_sets.h"
#include "compile/sort.h"

/* ---- the load of an order ---- */

/* What lives before and at each position of an order. */
typedef struct course {
    uint64_t *live, *peak;
    uint32_t *left; /* [n_values]: readers to come */
    bool *dies;     /* [most_reads] of the node at hand */
} course;

/* The largest peak. */
static uint64_t follow(const dct_order_graph *g, const uint32_t *order, course *c) {
    uint64_t live = 0, load = 0;
    for (uint32_t v = 0; v < g->p.n_values; v++) c->left[v] = dct_order_n_readers(g, v) + (g->p.values[v].stays ? 1 : 0);
    for (uint32_t at = 0; at < g->p.n_nodes; at++) {
        const dct_order_node *node = &g->p.nodes[order[at]];
        for (uint32_t k = 0; k < node->n_reads; k++) c->dies[k] = --c->left[node->reads[k]] == 0;
        dct_order_change change = dct_order_weigh(g, order[at], c->dies);
        c->live[at] = live;
        c->peak[at] = live + change.rise;
        if (c->peak[at] > load) load = c->peak[at];
        live += change.rise - change.fall;
    }
    return load;
}

/* What no order saves: everything that a node reads and makes lives while it runs. */
static uint64_t least_of_nodes(const dct_order_graph *g) {
    uint64_t least = 0;
    for (uint32_t i = 0; i < g->p.n_nodes; i++) {
        const dct_order_node *n = &g->p.nodes[i];
        uint64_t bytes = n->scratch_bytes;
        for (uint32_t k = 0; k < n->n_reads; k++) bytes += g->p.values[n->reads[k]].bytes;
        for (uint32_t k = n->n_over > 0 ? 1 : 0; k < n->n_makes; k++) bytes += g->p.values[n->makes[k]].bytes;
        if (bytes > least) least = bytes;
    }
    return least;
}

/* ---- the graph ---- */

static dct_status count_bytes(const dct_order_problem *p, dct_err *err) {
    uint64_t sum = 0;
    bool fits = true;
    for (uint32_t v = 0; v < p->n_values; v++) fits = fits && dct_add_u64(sum, p->values[v].bytes, &sum);
    for (uint32_t i = 0; i < p->n_nodes; i++) fits = fits && dct_add_u64(sum, p->nodes[i].scratch_bytes, &sum);
    return fits ? DCT_OK : dct_fail(err, DCT_NO_FIT, "the values have more bytes than can be counted");
}

static dct_status list_readers(dct_order_graph *g, dct_arena *arena, dct_err *err) {
    const dct_order_problem *p = &g->p;
    uint64_t n_reads = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) n_reads += p->nodes[i].n_reads;
    g->first_reader = dct_arena_array(arena, (uint64_t)p->n_values + 2, sizeof *g->first_reader);
    g->readers = dct_arena_array(arena, n_reads, sizeof *g->readers);
    if (g->first_reader == NULL || g->readers == NULL) return dct_fail_memory(err, arena, "the readers of values");
    uint32_t *next = g->first_reader + 1; /* in the end, first_reader of the value behind */
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        for (uint32_t k = 0; k < p->nodes[i].n_reads; k++) next[p->nodes[i].reads[k] + 1]++;
        if (p->nodes[i].n_reads > g->most_reads) g->most_reads = p->nodes[i].n_reads;
    }
    for (uint32_t v = 0; v < p->n_values; v++) next[v + 1] += next[v];
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        for (uint32_t k = 0; k < p->nodes[i].n_reads; k++) g->readers[next[p->nodes[i].reads[k]]++] = i;
    }
    return DCT_OK;
}

/* ---- sections ---- */

/* ends[i] stays true where every lower node runs before node i in any order: step by step upwards, where each lower node has one
 * that must follow it and is not above i. */
static void find_after_all(const dct_order_problem *p, uint32_t *first_after, bool *ends) {
    for (uint32_t i = 0; i < p->n_nodes; i++) first_after[i] = UINT32_MAX;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        for (uint32_t k = 0; k < p->nodes[i].n_after; k++) first_after[p->nodes[i].after[k]] = i;
    }
    uint32_t furthest = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        ends[i] = ends[i] && furthest <= i;
        if (first_after[i] > furthest) furthest = first_after[i];
    }
}

/* And where every higher node runs after it: where each must follow one that is not below i. */
static void find_before_all(const dct_order_problem *p, bool *ends) {
    int64_t nearest = p->n_nodes;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const dct_order_node *node = &p->nodes[i];
        ends[i] = ends[i] && nearest >= i;
        int64_t last = -1;
        for (uint32_t k = 0; k < node->n_after; k++) last = node->after[k] > last ? node->after[k] : last;
        if (last < nearest) nearest = last;
    }
}

static dct_status find_sections(const dct_order_graph *g, const course *given, dct_arena *arena, dct_order_section **sections,
                                uint32_t *n_sections, dct_err *err) {
    uint32_t n = g->p.n_nodes, begin = 0;
    bool *ends = dct_arena_array(arena, n, sizeof *ends);
    uint32_t *first_after = dct_arena_array(arena, n, sizeof *first_after);
    *sections = dct_arena_array(arena, n, sizeof **sections);
    if (ends == NULL || first_after == NULL || *sections == NULL) return dct_fail_memory(err, arena, "the sections of a graph");
    memset(ends, true, n * sizeof *ends);
    find_after_all(&g->p, first_after, ends);
    find_before_all(&g->p, ends);
    for (uint32_t i = 0; i < n; i++) {
        if (!ends[i] && i + 1 < n) continue;
        dct_order_section s = {.begin = begin, .end = i + 1, .live = given->live[begin]};
        for (uint32_t at = begin; at <= i; at++) s.peak = given->peak[at] > s.peak ? given->peak[at] : s.peak;
        (*sections)[(*n_sections)++] = s;
        begin = i + 1;
    }
    return DCT_OK;
}

/* ---- the search ---- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The highest first. *bound: no order has a lower load. */
static dct_status search_sections(const dct_order_graph *g, dct_order_section *sections, uint32_t n, dct_arena *arena,
                                  uint32_t *order, uint64_t *load, uint64_t *bound, dct_err *err) {
    dct_sort_key *keys = dct_arena_array(arena, n, sizeof *keys);
    if (keys == NULL) return dct_fail_memory(err, arena, "the sections of a graph");
    for (uint32_t i = 0; i < n; i++) keys[i] = (dct_sort_key){UINT64_MAX - sections[i].peak, 0, i};
    dct_sort_keys(keys, n);
    *load = *bound = least_of_nodes(g);
    uint64_t work = 0;
    for (uint32_t i = 0; i < n && sections[keys[i].index].peak > *load; i++) {
        dct_order_section *s = &sections[keys[i].index];
        bool exact = true;
        dct_status status = dct_order_sets_search(g, s, *load, arena, &work, order + s->begin, &exact, err);
        if (status != DCT_OK) return status;
        if (exact && s->peak > *load) *bound = larger(*bound, s->peak); /* else *load was all that was asked for */
        *load = larger(*load, s->peak);
    }
    return DCT_OK;
}

dct_status dct_order_search(const dct_order_problem *problem, dct_arena *arena, uint32_t *order, dct_order_result *out,
                            dct_err *err) {
    dct_order_graph g = {.p = *problem};
    uint32_t n = problem->n_nodes, n_sections = 0;
    uint64_t load = 0, bound = 0;
    dct_order_section *sections;
    *out = (dct_order_result){.proven = true}; /* of no nodes */
    if (n == 0) return DCT_OK;
    dct_status status = count_bytes(problem, err);
    if (status == DCT_OK) status = list_readers(&g, arena, err);
    if (status != DCT_OK) return status;
    course given = {.live = dct_arena_array(arena, n, sizeof *given.live),
                    .peak = dct_arena_array(arena, n, sizeof *given.peak),
                    .left = dct_arena_array(arena, problem->n_values, sizeof *given.left),
                    .dies = dct_arena_array(arena, g.most_reads, sizeof *given.dies)};
    if (given.live == NULL || given.peak == NULL || given.left == NULL || given.dies == NULL)
        return dct_fail_memory(err, arena, "the course of an order");
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    dct_order_result found = {.given_load = follow(&g, order, &given)};
    status = find_sections(&g, &given, arena, &sections, &n_sections, err);
    if (status == DCT_OK) status = search_sections(&g, sections, n_sections, arena, order, &load, &bound, err);
    if (status != DCT_OK) return status;
    found.load = follow(&g, order, &given);
    found.proven = found.load == bound;
    if (found.load != load) return dct_fail(err, DCT_BUG, "the load of the order found is misstated");
    *out = found;
    return DCT_OK;
}
