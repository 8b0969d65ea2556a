/* compile/pack: places items with lifetimes in as few bytes as it can, and knows when it has.
 *
 * The load (most bytes live at one time) is a lower bound. First a portfolio of greedy orders; a height equal to the bound ends
 * it. Then the exact search is asked for the bound, within so many nodes, and after that for capacities half way to the best
 * height, so that the height falls even where no proof is in reach; then all of it again with twice the nodes. A capacity that
 * is refuted raises the bound.
 *
 *      bytes                      an item: begin..end in time, size in bytes
 *        │ ┌───────┐ ┌──┐         height: the highest end
 *        │ │   B   │ │D │         load: here at the times of B over A, or of C
 *        │ ├───┬───┴─┴──┤
 *      0 └─┴─A─┴───C────┴─ time
 */
#include <string.h>

#include "compile/pack_exact.h"
#include "compile/pack_greedy.h"

#define DEFAULT_NODES UINT64_C(60000)
#define FIRST_LIMIT 64 /* nodes of a strategy in the first round, and two an item: a search that goes well hardly turns back */

typedef struct packer {
    const dct_pack_params *params;
    dct_problem problem;
    dct_placement best;
    uint64_t bound;  /* no packing is lower */
    uint64_t enough; /* a height that ends it all */
    uint64_t *found; /* the search's answer */
} packer;

/* The answer of the search; items without bytes lie anywhere. */
static void keep_found(packer *p) {
    const dct_problem *q = &p->problem;
    uint64_t height = 0;
    for (uint32_t i = 0; i < q->n; i++) {
        if (q->first_piece[i] == q->first_piece[i + 1]) p->found[i] = q->items[i].fixed ? q->items[i].offset : 0;
        for (uint32_t k = q->first_piece[i]; k < q->first_piece[i + 1]; k++) {
            if (p->found[i] + q->pieces[k].high > height) height = p->found[i] + q->pieces[k].high;
        }
    }
    if (height >= p->best.height) return;
    p->best.height = height;
    memcpy(p->best.offsets, p->found, q->n * sizeof *p->found);
}

static bool is_done(const packer *p) { return p->best.height <= p->enough || p->best.height <= p->bound; }

static bool is_spent(const dct_effort *effort) { return effort->nodes_left == 0 || effort->stopped; }

static dct_fit probe(packer *p, dct_exact *search, uint64_t capacity, uint64_t limit, dct_effort *effort) {
    uint64_t next;
    dct_fit fit = dct_exact_probe(search, capacity, limit, effort, p->found, &next);
    if (fit == DCT_FIT_FOUND) keep_found(p);
    if (fit == DCT_FIT_IMPOSSIBLE) p->bound = next < p->best.height ? next : p->best.height;
    return fit;
}

/* Asks for the least height that is not refuted, then for heights between that and the best. */
static void probe_round(packer *p, dct_exact *search, uint64_t limit, dct_effort *effort) {
    uint64_t wanted = p->enough > p->bound ? p->enough : p->bound;
    while (!is_done(p) && probe(p, search, wanted, limit, effort) == DCT_FIT_IMPOSSIBLE) wanted = p->bound;
    if (p->params->capacity != 0) return;
    uint64_t low = wanted; /* not refuted, but not found either */
    while (!is_done(p) && !is_spent(effort) && p->best.height - low > 1) {
        uint64_t capacity = low + (p->best.height - low) / 2;
        if (probe(p, search, capacity, limit, effort) != DCT_FIT_FOUND) low = capacity;
    }
}

/* Nothing happens where there are too many items for it. */
static dct_status search_exact(packer *p, dct_arena *arena, uint64_t *nodes, dct_err *err) {
    dct_exact *search;
    dct_status status = dct_exact_new(&p->problem, arena, &search, err);
    if (status != DCT_OK || search == NULL) return status;
    uint64_t budget = p->params->nodes != 0 ? p->params->nodes : DEFAULT_NODES;
    dct_effort effort = {.nodes_left = budget, .stop = p->params->stop, .ctx = p->params->ctx};
    uint64_t before = 0;
    for (uint64_t limit = FIRST_LIMIT + 2 * (uint64_t)p->problem.n;
         !is_done(p) && !is_spent(&effort) && effort.nodes_left != before; limit *= 2) {
        before = effort.nodes_left; /* a round that takes none has met its limit of memory */
        probe_round(p, search, limit, &effort);
    }
    *nodes = budget - effort.nodes_left;
    return DCT_OK;
}

dct_status dct_pack(dct_pack_item *items, uint32_t n, const uint64_t *conflict, const dct_pack_params *params, dct_arena *arena,
                    dct_pack_result *out, dct_err *err) {
    static const dct_pack_params defaults;
    packer p = {.params = params != NULL ? params : &defaults, .best.height = UINT64_MAX};
    dct_status status = dct_problem_make(items, n, conflict, arena, &p.problem, err);
    if (status != DCT_OK) return status;
    p.bound = p.problem.bound;
    p.enough = p.params->capacity;
    p.best.offsets = dct_arena_array(arena, n, sizeof *p.best.offsets);
    p.found = dct_arena_array(arena, n, sizeof *p.found);
    dct_greedy *greedy = dct_greedy_new(&p.problem, arena);
    if (p.best.offsets == NULL || p.found == NULL || greedy == NULL) return dct_fail_memory(err, arena, "the packer");
    dct_pack_result result = {.load = p.problem.load, .at = p.problem.load_at};
    uint64_t enough = p.enough > p.bound ? p.enough : p.bound;
    status = dct_greedy_portfolio(greedy, enough, &p.best, err);
    if (status == DCT_OK && !is_done(&p)) status = search_exact(&p, arena, &result.nodes, err);
    if (status != DCT_OK) return status;
    result.height = p.best.height;
    result.bound = p.bound;
    result.optimal = p.best.height <= p.bound;
    for (uint32_t i = 0; i < n; i++) items[i].offset = p.best.offsets[i];
    *out = result;
    return DCT_OK;
}
