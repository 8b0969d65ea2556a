/* compile/pack: places items with lifetimes in as few bytes as it can, and knows when it has.
 *
 * The load (most bytes live at one time) is a lower bound. First a portfolio of greedy orders; a height equal to the bound ends
 * it. Then the exact search is asked for the bound, within so many nodes, and after that for capacities half way to the best
 * height, so that the height falls even where no proof is in reach; then all of it again with twice the nodes. A capacity that
 * is refuted raises the bound. Where there are too many items for that, parts of time that nothing lives across are packed apart;
 * of a part that is still too large, the items of most area are packed so first, and the others around them.
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
#include "compile/pack_greedy.h"
#include "compile/sort.h"

#define DEFAULT_NODES UINT64_C(60000)
#define LARGE_NODES UINT64_C(6000) /* of problems whose nodes cost the more: a straight way through the cores, and some */
#define FIRST_LIMIT 64 /* nodes of a strategy in the first round, and two an item: a search that goes well hardly turns back */

enum { FIRST_CORE = DCT_EXACT_MAX_ITEMS / 16 };

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
static dct_status search_exact(packer *p, dct_effort *effort, dct_arena *arena, dct_err *err) {
    dct_exact *search;
    dct_status status = dct_exact_new(&p->problem, arena, &search, err);
    if (status != DCT_OK || search == NULL) return status;
    uint64_t before = 0;
    for (uint64_t limit = FIRST_LIMIT + 2 * (uint64_t)p->problem.n;
         !is_done(p) && !is_spent(effort) && effort->nodes_left != before; limit *= 2) {
        before = effort->nodes_left; /* a round that takes none has met its limit of memory */
        probe_round(p, search, limit, effort);
    }
    return DCT_OK;
}

static dct_status make(packer *p, const dct_pack_item *items, uint32_t n, const uint64_t *conflict, dct_arena *arena,
                       dct_err *err) {
    dct_status status = dct_problem_make(items, n, conflict, arena, &p->problem, err);
    if (status != DCT_OK) return status;
    p->bound = p->problem.bound;
    p->best.height = UINT64_MAX;
    p->best.offsets = dct_arena_array(arena, n, sizeof *p->best.offsets);
    p->found = dct_arena_array(arena, n, sizeof *p->found);
    return p->best.offsets != NULL && p->found != NULL ? DCT_OK : dct_fail_memory(err, arena, "the packer");
}

static uint64_t floor_of(const packer *p) { return p->enough > p->bound ? p->enough : p->bound; }

/* `q` is the packer's problem, or that with more items fixed. */
static dct_status pack_greedily(packer *p, const dct_problem *q, dct_effort *effort, dct_arena *arena, dct_err *err) {
    dct_greedy *greedy = dct_greedy_new(q, arena);
    if (greedy == NULL) return dct_fail_memory(err, arena, "the packer");
    return dct_greedy_portfolio(greedy, q->bound > floor_of(p) ? q->bound : floor_of(p), effort, &p->best, err);
}

static dct_status pack_small(packer *p, dct_effort *effort, dct_arena *arena, dct_err *err) {
    dct_status status = pack_greedily(p, &p->problem, effort, arena, err);
    return status == DCT_OK && !is_done(p) && !dct_effort_ends(effort) ? search_exact(p, effort, arena, err) : status;
}

/* ---- problems that are too large for the exact search as a whole ---- */

/* Runs with one n-th of the nodes that are left, and gives back what it did not take. */
static dct_effort take_share(dct_effort *effort, uint32_t n) {
    dct_effort share = *effort;
    share.nodes_left /= n;
    effort->nodes_left -= share.nodes_left;
    return share;
}

static void give_back(dct_effort *effort, const dct_effort *share) {
    effort->nodes_left += share->nodes_left;
    effort->stopped = share->stopped;
}

/* The first n_core of the keys packed by themselves, then the others around them. What the core proves holds for all. */
static dct_status pack_core(packer *p, const dct_sort_key *keys, uint32_t n_core, dct_effort *effort, dct_arena *arena,
                            dct_err *err) {
    packer core = {.params = p->params, .enough = floor_of(p)};
    dct_problem around = p->problem;
    uint32_t n = around.n;
    dct_pack_item *first = dct_arena_array(arena, n_core, sizeof *first), *items = dct_arena_array(arena, n, sizeof *items);
    if (first == NULL || items == NULL) return dct_fail_memory(err, arena, "the packer");
    for (uint32_t k = 0; k < n_core; k++) first[k] = around.items[keys[k].index];
    dct_status status = make(&core, first, n_core, NULL, arena, err);
    dct_effort share = take_share(effort, n_core < DCT_EXACT_MAX_ITEMS ? 2 : 1);
    if (status == DCT_OK) status = pack_small(&core, &share, arena, err);
    give_back(effort, &share);
    if (status != DCT_OK) return status;
    if (core.bound > p->bound) p->bound = core.bound;
    memcpy(items, around.items, n * sizeof *items);
    for (uint32_t k = 0; k < n_core; k++) {
        items[keys[k].index].fixed = true;
        items[keys[k].index].offset = core.best.offsets[k];
    }
    dct_problem_set_items(&around, items);
    return pack_greedily(p, &around, effort, arena, err);
}

/* A few items with many bytes for a long time make up most of the load; the rest goes between them. */
static dct_status pack_large(packer *p, dct_effort *effort, dct_arena *arena, dct_err *err) {
    dct_sort_key *keys = dct_arena_array(arena, p->problem.n, sizeof *keys);
    if (keys == NULL) return dct_fail_memory(err, arena, "the packer");
    dct_status status = pack_greedily(p, &p->problem, effort, arena, err);
    for (uint32_t i = 0; i < p->problem.n; i++) {
        const dct_pack_item *item = &p->problem.items[i];
        uint64_t area;
        if (!dct_mul_u64(item->end - item->begin, item->size, &area)) area = UINT64_MAX;
        keys[i] = (dct_sort_key){!item->fixed, UINT64_MAX - area, i};
    }
    dct_sort_keys(keys, p->problem.n);
    for (uint32_t n_core = FIRST_CORE; n_core <= DCT_EXACT_MAX_ITEMS; n_core *= 2) {
        bool holds_fixed = keys[n_core].first != 0, can_end = effort->nodes_left >= n_core && !dct_effort_ends(effort);
        if (status != DCT_OK || !holds_fixed || !can_end || is_done(p)) continue;
        dct_arena own; /* searches are large: each gives its memory back */
        dct_arena_init(&own, arena->limit_bytes);
        status = pack_core(p, keys, n_core, effort, &own, err);
        dct_arena_deinit(&own);
    }
    return status;
}

/* Numbers the parts of time that no item lives across: keys[].first. Returns how many there are. */
static uint32_t find_parts(const dct_problem *q, dct_sort_key *keys) {
    uint32_t n_parts = 0, end = 0;
    for (uint32_t i = 0; i < q->n; i++) keys[i] = (dct_sort_key){.first = q->items[i].begin, .index = i};
    dct_sort_keys(keys, q->n);
    for (uint32_t k = 0; k < q->n; k++) {
        const dct_pack_item *item = &q->items[keys[k].index];
        if (k == 0 || item->begin >= end) n_parts++;
        if (item->end > end) end = item->end;
        keys[k].first = n_parts;
    }
    dct_sort_keys(keys, q->n);
    return n_parts;
}

/* One part, in memory of its own. Its offsets go where its keys say. */
static dct_status pack_part(packer *part, const dct_pack_item *items, const dct_sort_key *keys, uint32_t n, dct_effort *effort,
                            uint64_t *offsets, const dct_arena *limits, dct_err *err) {
    dct_arena own;
    dct_arena_init(&own, limits->limit_bytes);
    dct_status status = make(part, items, n, NULL, &own, err);
    if (status == DCT_OK)
        status = n > DCT_EXACT_MAX_ITEMS ? pack_large(part, effort, &own, err) : pack_small(part, effort, &own, err);
    for (uint32_t k = 0; status == DCT_OK && k < n; k++) offsets[keys[k].index] = part->best.offsets[k];
    dct_arena_deinit(&own);
    return status;
}

/* Each part by itself, with a share of the nodes that are left. The highest says how high all is; others need not be lower. */
static dct_status pack_parts(packer *p, dct_effort *effort, dct_arena *arena, dct_err *err) {
    uint32_t n = p->problem.n;
    dct_sort_key *keys = dct_arena_array(arena, n, sizeof *keys);
    dct_pack_item *items = dct_arena_array(arena, n, sizeof *items);
    if (keys == NULL || items == NULL) return dct_fail_memory(err, arena, "the packer");
    uint32_t n_left = find_parts(&p->problem, keys);
    uint64_t height = 0;
    for (uint32_t from = 0, to; from < n; from = to, n_left--) {
        for (to = from; to < n && keys[to].first == keys[from].first; to++) items[to] = p->problem.items[keys[to].index];
        packer part = {.params = p->params, .enough = height > floor_of(p) ? height : floor_of(p)};
        dct_effort share = take_share(effort, n_left < 8 ? n_left : 8);
        dct_status status = pack_part(&part, items + from, keys + from, to - from, &share, p->best.offsets, arena, err);
        if (status != DCT_OK) return status;
        give_back(effort, &share);
        if (part.best.height > height) height = part.best.height;
        if (part.bound > p->bound) p->bound = part.bound;
    }
    p->best.height = height;
    return DCT_OK;
}

dct_status dct_pack(dct_pack_item *items, uint32_t n, const uint64_t *conflict, const dct_pack_params *params, dct_arena *arena,
                    dct_pack_result *out, dct_err *err) {
    static const dct_pack_params defaults;
    packer p = {.params = params != NULL ? params : &defaults};
    bool is_large = n > DCT_EXACT_MAX_ITEMS && conflict == NULL;
    uint64_t budget = p.params->nodes != 0 ? p.params->nodes : is_large ? LARGE_NODES : DEFAULT_NODES;
    dct_effort effort = {.nodes_left = budget, .stop = p.params->stop, .ctx = p.params->ctx};
    p.enough = p.params->capacity;
    dct_status status = make(&p, items, n, conflict, arena, err);
    if (status == DCT_OK) status = is_large ? pack_parts(&p, &effort, arena, err) : pack_small(&p, &effort, arena, err);
    if (status != DCT_OK) return status;
    *out = (dct_pack_result){.load = p.problem.load,
                             .at = p.problem.load_at,
                             .nodes = budget - effort.nodes_left,
                             .height = p.best.height,
                             .bound = p.bound,
                             .optimal = p.best.height <= p.bound};
    for (uint32_t i = 0; i < n; i++) items[i].offset = p.best.offsets[i];
    return DCT_OK;
}
