/* compile/group: makes the pieces of one reservation for several plans (plan/group.h shows which). Region after region, and in
 * each plan after plan; each piece is whole pages, as the regions are.
 */
#include <string.h>

#include "base/size.h"
#include "compile/compile.h"

/* Whose arena an exclusive group shares: the first family's, which must be where it is, else the first plan's. */
static uint32_t arena_host(const dct_group *g) {
    for (uint32_t i = 0; i < g->n_plans; i++)
        if (g->plans[i]->n_smaller > 0) return i;
    return 0;
}

/* The plan where this one's region lies as well, or its own number. */
static uint32_t host_of(const dct_group *g, uint32_t plan, dct_region region) {
    if (region == DCT_REGION_ARENA && g->exclusive && g->plans[plan]->n_smaller == 0) return arena_host(g);
    for (uint32_t i = 0; region == DCT_REGION_WEIGHTS && i < plan; i++) {
        if (dct_plan_shares_weights(g->plans[i], g->plans[plan])) return i;
    }
    return plan;
}

/* The most that one of those whose region lies there needs. */
static uint64_t bytes_of(const dct_group *g, uint32_t host, dct_region region) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n_plans; i++) {
        if (host_of(g, i, region) == host && g->plans[i]->region_bytes[region] > bytes) bytes = g->plans[i]->region_bytes[region];
    }
    return bytes;
}

/* A region that lies at no other plan's: in a piece of its own, but that the arena of a family is the end of the piece of its
 * caches, which were laid before. */
static bool lay_region(dct_group *g, uint32_t plan, dct_region region) {
    const dct_plan *p = g->plans[plan];
    dct_part *parts = g->part_of[plan];
    uint64_t bytes = bytes_of(g, plan, region);
    bool fits = true;
    if (p->n_smaller > 0 && region == DCT_REGION_ARENA) {
        parts[region] = (dct_part){parts[DCT_REGION_KV].piece, p->region_bytes[DCT_REGION_KV]};
        return true;
    }
    if (p->n_smaller > 0 && region == DCT_REGION_KV) fits = dct_add_u64(bytes, bytes_of(g, plan, DCT_REGION_ARENA), &bytes);
    parts[region] = (dct_part){g->n_pieces, 0};
    g->piece_bytes[g->n_pieces++] = bytes;
    return dct_add_u64(g->reserve_bytes, bytes, &g->reserve_bytes) && fits;
}

/* Of the items of this name in all plans the first of the largest ones counts, but for what every plan has for itself. */
static bool counts(const dct_group *g, uint32_t plan, const dct_item *item) {
    if (dct_item_is_own(item)) return true;
    for (uint32_t i = 0; i < g->n_plans; i++) {
        for (uint32_t k = 0; k < g->plans[i]->n_items; k++) {
            const dct_item *other = &g->plans[i]->items[k];
            if (!other->outside || strcmp(other->name, item->name) != 0) continue;
            if (other->bytes > item->bytes || (other->bytes == item->bytes && i < plan)) return false;
        }
    }
    return true;
}

static bool add_outside(dct_group *g, uint32_t plan) {
    for (uint32_t k = 0; k < g->plans[plan]->n_items; k++) {
        const dct_item *item = &g->plans[plan]->items[k];
        if (!item->outside || !counts(g, plan, item)) continue;
        if (!dct_add_u64(g->outside_bytes, item->bytes, &g->outside_bytes)) return false;
    }
    return true;
}

dct_status dct_group_lay(const dct_plan *const *plans, uint32_t n, bool exclusive, dct_arena *arena, dct_group *out,
                         dct_err *err) {
    dct_group g = {.n_plans = n, .plans = plans, .exclusive = exclusive};
    bool fits = true;
    g.piece_bytes = dct_arena_array(arena, (uint64_t)n * DCT_REGION_COUNT, sizeof *g.piece_bytes);
    g.part_of = dct_arena_array(arena, n, sizeof *g.part_of);
    if (g.piece_bytes == NULL || g.part_of == NULL) return dct_fail_memory(err, arena, "the layout of several models");
    for (uint32_t k = 0; k < DCT_REGION_COUNT; k++) {
        dct_region r = dct_region_order[k];
        for (uint32_t i = 0; i < n; i++)
            if (host_of(&g, i, r) == i) fits = lay_region(&g, i, r) && fits;
        for (uint32_t i = 0; i < n; i++) g.part_of[i][r] = g.part_of[host_of(&g, i, r)][r];
    }
    for (uint32_t i = 0; i < n; i++) fits = fits && add_outside(&g, i);
    fits = fits && dct_add_u64(g.reserve_bytes, g.outside_bytes, &g.m_max_bytes) && g.m_max_bytes <= INT64_MAX;
    if (!fits) return dct_fail(err, DCT_NO_FIT, "the envelope of %u models does not fit in 63 bits", n);
    *out = g;
    return DCT_OK;
}
