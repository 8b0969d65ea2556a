/* verify/group: whether plans that were verified one by one may live in one reservation. Every pair of regions is looked at: they
 * may share bytes only as the same packed weights, or as intermediates of plans that never run together. Smaller members of a
 * family have their intermediates over the caches and the arena of the largest, without a gap; between runs they have none, so
 * the arena may be another's meanwhile, as it may for the largest.
 */
#include <string.h>

#include "base/size.h"
#include "verify/checker.h"

typedef unsigned long long ull;

static dct_status check_part(const dct_group *g, uint32_t plan, uint32_t region, dct_err *err) {
    const dct_part *part = &g->part_of[plan][region];
    if (part->piece < g->n_pieces && part->offset % DCT_PLAN_PAGE == 0 && g->piece_bytes[part->piece] % DCT_PLAN_PAGE == 0 &&
        dct_range_within(part->offset, g->plans[plan]->region_bytes[region], g->piece_bytes[part->piece]))
        return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "%s of model %u has no piece of the reservation that holds it",
                    dct_region_name((dct_region)region), plan);
}

static dct_status check_family(const dct_group *g, uint32_t plan, dct_err *err) {
    const dct_plan *largest = g->plans[plan];
    const dct_part *kv = &g->part_of[plan][DCT_REGION_KV], *arena = &g->part_of[plan][DCT_REGION_ARENA];
    if (largest->n_smaller == 0) return DCT_OK;
    if (arena->piece == kv->piece && arena->offset == kv->offset + largest->region_bytes[DCT_REGION_KV]) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "the intermediates of model %u do not follow its caches, as its smaller contexts need",
                    plan);
}

/* What a plan has in a region may have the bytes of another's. */
static bool may_share(const dct_group *g, uint32_t plan, uint32_t region, uint32_t other_plan, uint32_t other_region) {
    if (plan == other_plan || region != other_region) return false;
    if (region == DCT_REGION_ARENA) return g->exclusive;
    return region == DCT_REGION_WEIGHTS && g->part_of[plan][region].offset == g->part_of[other_plan][region].offset &&
           dct_plan_shares_weights(g->plans[plan], g->plans[other_plan]);
}

static dct_status check_pair(const dct_group *g, uint32_t plan, uint32_t region, uint32_t other_plan, uint32_t other_region,
                             dct_err *err) {
    const dct_part *a = &g->part_of[plan][region], *b = &g->part_of[other_plan][other_region];
    uint64_t a_end = a->offset + g->plans[plan]->region_bytes[region];
    uint64_t b_end = b->offset + g->plans[other_plan]->region_bytes[other_region];
    bool apart = a->piece != b->piece || a_end <= b->offset || b_end <= a->offset;
    if (apart || may_share(g, plan, region, other_plan, other_region)) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "%s of model %u and %s of model %u share bytes", dct_region_name((dct_region)region), plan,
                    dct_region_name((dct_region)other_region), other_plan);
}

/* The sum, over all names of items outside, of the largest; of those that each plan has for itself, all. */
static bool outside_of(const dct_group *g, uint64_t *sum) {
    *sum = 0;
    for (uint32_t i = 0; i < g->n_plans; i++) {
        for (uint32_t k = 0; k < g->plans[i]->n_items; k++) {
            const dct_item *item = &g->plans[i]->items[k];
            uint64_t known = 0; /* of this name in the plans before */
            if (!item->outside) continue;
            for (uint32_t j = 0; j < i && !dct_item_is_own(item); j++) {
                for (uint32_t l = 0; l < g->plans[j]->n_items; l++) {
                    const dct_item *other = &g->plans[j]->items[l];
                    if (other->outside && strcmp(other->name, item->name) == 0 && other->bytes > known) known = other->bytes;
                }
            }
            if (item->bytes > known && !dct_add_u64(*sum, item->bytes - known, sum)) return false;
        }
    }
    return true;
}

static dct_status check_sums(const dct_group *g, dct_err *err) {
    uint64_t pieces = 0, outside, m_max;
    bool fits = true;
    for (uint32_t i = 0; i < g->n_pieces; i++) fits = fits && dct_add_u64(pieces, g->piece_bytes[i], &pieces);
    if (fits && pieces == g->reserve_bytes && outside_of(g, &outside) && outside == g->outside_bytes &&
        dct_add_u64(pieces, outside, &m_max) && m_max == g->m_max_bytes)
        return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "M_max %llu of %u models is not their reservation of %llu and what lies outside",
                    (ull)g->m_max_bytes, g->n_plans, (ull)g->reserve_bytes);
}

dct_status dct_verify_group(const dct_group *g, dct_err *err) {
    dct_status status = DCT_OK;
    for (uint32_t i = 0; status == DCT_OK && i < g->n_plans * DCT_REGION_COUNT; i++)
        status = check_part(g, i / DCT_REGION_COUNT, i % DCT_REGION_COUNT, err);
    for (uint32_t i = 0; status == DCT_OK && i < g->n_plans; i++) status = check_family(g, i, err);
    for (uint32_t i = 0; status == DCT_OK && i < g->n_plans * DCT_REGION_COUNT; i++) {
        for (uint32_t k = 0; status == DCT_OK && k < i; k++)
            status = check_pair(g, i / DCT_REGION_COUNT, i % DCT_REGION_COUNT, k / DCT_REGION_COUNT, k % DCT_REGION_COUNT, err);
    }
    return status == DCT_OK ? check_sums(g, err) : status;
}
