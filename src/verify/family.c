/* The smaller members of a family lie in the reservation of the largest, and each passed on its own. Here: that one may run where
 * another ran before, and that nothing which outlives a run is touched.
 *
 *   weights, rotary tables   the same in the same places: they are filled once
 *   persistent               a member's inputs and logits lie over those of the largest, apart from all else
 *   caches and arena         over those of the largest. Caches begin where those of a smaller member do or later, so that they
 *                            are moved there in place, last to first
 */
#include <stdio.h>
#include <string.h>

#include "verify/checker.h"

typedef unsigned long long ull;

static dct_status check_member_bounds(dct_checker *c, const dct_plan *member, uint32_t least_ctx) {
    const dct_plan *plan = c->plan;
    const dct_bounds *a = &plan->bounds, *b = &member->bounds;
    bool same = member->fingerprint == plan->fingerprint && a->slots == b->slots && a->threads == b->threads &&
                a->type_k == b->type_k && a->type_v == b->type_v && a->logits == b->logits && a->overlap == b->overlap;
    if (!same || member->n_smaller != 0 || b->table_ctx != a->n_ctx)
        return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "context %u is a member of another model or family", b->n_ctx);
    if (b->n_ctx >= least_ctx && b->n_ctx < a->n_ctx) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "contexts do not ascend: %u among those up to %u", b->n_ctx, a->n_ctx);
}

static dct_status check_shared(dct_checker *c, const dct_plan *member) {
    const dct_plan *plan = c->plan;
    bool same = dct_plan_same_weights(member, plan) && member->n_tables == plan->n_tables;
    for (uint32_t i = 0; same && i < plan->n_tables; i++)
        same = member->tables[i].offset == plan->tables[i].offset && dct_same_table(&member->tables[i].t, &plan->tables[i].t);
    if (same) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "context %u has other weights or rotary tables, or has them elsewhere",
                      member->bounds.n_ctx);
}

/* Whether what lies there is of use to one run and its logits only, or the same for all. */
static bool is_of_runs(const char *name) {
    unsigned number;
    char end;
    return strcmp(name, DCT_ITEM_IDS) == 0 || strcmp(name, DCT_ITEM_POS) == 0 || strcmp(name, DCT_ITEM_LOGITS) == 0 ||
           strcmp(name, DCT_ITEM_SMALLER_INPUTS) == 0 || sscanf(name, DCT_ITEM_TABLE_FORMAT "%c", &number, &end) == 1;
}

static dct_status check_places(dct_checker *c, const dct_plan *member) {
    const dct_plan *plan = c->plan;
    const uint64_t *have = plan->region_bytes, *need = member->region_bytes;
    uint32_t n_ctx = member->bounds.n_ctx;
    if (need[DCT_REGION_KV] > have[DCT_REGION_KV] || need[DCT_REGION_PERSISTENT] > have[DCT_REGION_PERSISTENT] ||
        need[DCT_REGION_ARENA] > have[DCT_REGION_KV] - need[DCT_REGION_KV] + have[DCT_REGION_ARENA]) {
        return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG,
                          "context %u: %llu bytes of caches, %llu of intermediates and %llu of inputs do not lie in the envelope",
                          n_ctx, (ull)need[DCT_REGION_KV], (ull)need[DCT_REGION_ARENA], (ull)need[DCT_REGION_PERSISTENT]);
    }
    if (need[DCT_REGION_RUNTIME] != 0 || member->outside_bytes != 0)
        return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "context %u has a runtime of its own", n_ctx);
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        if (item->region != DCT_REGION_PERSISTENT || item->offset >= need[item->region] || is_of_runs(item->name)) continue;
        return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "the inputs of context %u lie over the item '%s'", n_ctx, item->name);
    }
    return DCT_OK;
}

/* `next` is the member that a session moves to. */
static dct_status check_move(dct_checker *c, const dct_plan *member, const dct_plan *next) {
    bool fits = member->n_caches == next->n_caches;
    for (uint32_t i = 0; fits && i < member->n_caches; i++) {
        const dct_cache *from = &member->caches[i].c, *to = &next->caches[i].c;
        fits = from->layer == to->layer && from->is_k == to->is_k && from->n_head_kv == to->n_head_kv &&
               from->head_dim == to->head_dim && member->caches[i].offset <= next->caches[i].offset;
    }
    if (fits) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "the caches of context %u cannot be moved to those of %u", member->bounds.n_ctx,
                      next->bounds.n_ctx);
}

dct_status dct_check_family(dct_checker *c) {
    const dct_plan *plan = c->plan;
    dct_status status = DCT_OK;
    uint32_t least_ctx = 0;
    if (plan->n_smaller > DCT_PLAN_MAX_SMALLER)
        return dct_refuse(c, DCT_DEFECT_FAMILY_WRONG, "%u members are too many", plan->n_smaller);
    for (uint32_t i = 0; i < plan->n_smaller && status == DCT_OK; i++) {
        const dct_plan *member = &plan->smaller[i];
        status = check_member_bounds(c, member, least_ctx);
        if (status == DCT_OK) status = check_shared(c, member);
        if (status == DCT_OK) status = check_places(c, member);
        if (status == DCT_OK) status = check_move(c, member, dct_plan_member(plan, i + 1));
        least_ctx = member->bounds.n_ctx + 1;
    }
    return status;
}
