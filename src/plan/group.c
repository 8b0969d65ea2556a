/* plan/group: looking things up in a group, and its table. */
#include "plan/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "plan/plan_text.h"

enum { COLUMN = 14, NAME = 34 };

bool dct_plan_same_weights(const dct_plan *a, const dct_plan *b) {
    if (a->fingerprint != b->fingerprint || a->n_weights != b->n_weights) return false;
    for (uint32_t i = 0; i < a->n_weights; i++) {
        if (a->weights[i].offset != b->weights[i].offset || !dct_weight_equal(&a->weights[i].w, &b->weights[i].w)) return false;
    }
    return true;
}

bool dct_plan_shares_weights(const dct_plan *a, const dct_plan *b) {
    return a->identity != 0 && a->identity == b->identity && dct_plan_same_weights(a, b);
}

bool dct_item_is_own(const dct_item *item) {
    return strcmp(item->name, DCT_ITEM_RECORD) == 0 || strcmp(item->name, DCT_ITEM_KERNEL) == 0;
}

uint64_t dct_group_kernel_bytes(const dct_group *g) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n_plans; i++) bytes += dct_plan_kernel_bytes(g->plans[i]);
    return bytes;
}

static bool is_same_part(const dct_part *a, const dct_part *b) { return a->piece == b->piece && a->offset == b->offset; }

/* What a plan has in a region, or the most that one has of those that have it there too; 0 when an earlier one does. */
static uint64_t bytes_once(const dct_group *g, uint32_t plan, dct_region region) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n_plans; i++) {
        if (!is_same_part(&g->part_of[i][region], &g->part_of[plan][region])) continue;
        if (i < plan) return 0;
        if (g->plans[i]->region_bytes[region] > bytes) bytes = g->plans[i]->region_bytes[region];
    }
    return bytes;
}

uint64_t dct_group_region_bytes(const dct_group *g, dct_region region) {
    uint64_t bytes = region == DCT_REGION_RUNTIME ? g->outside_bytes : 0;
    for (uint32_t i = 0; i < g->n_plans; i++) bytes += bytes_once(g, i, region);
    return bytes;
}

/* What of a family's caches and intermediates its members have in turns. */
static void put_members(const dct_text *t, const dct_plan *plan) {
    char name[64];
    for (uint32_t i = 0; plan->n_smaller > 0 && i < dct_plan_n_members(plan); i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        snprintf(name, sizeof name, "  context %u, ubatch %u", member->bounds.n_ctx, member->bounds.ubatch);
        dct_text_put(t, "%-*s%*s%*.2f%*s%*.2f\n", NAME, name, COLUMN, "", COLUMN, dct_mib(member->region_bytes[DCT_REGION_KV]),
                     COLUMN, "", COLUMN, dct_mib(dct_plan_arena_height(member)));
    }
}

void dct_group_dump_table(const dct_group *g, const dct_plan_room *room, dct_text_fn *out, void *ctx) {
    const dct_text t = {out, ctx};
    uint64_t alone = 0;
    dct_text_put(&t, "%u models, %s; MiB\n\n%-*s", g->n_plans,
                 g->exclusive ? "one runs at a time: their intermediates share bytes" : "any may run at any time", NAME, "");
    for (int r = 0; r < DCT_REGION_COUNT; r++) dct_text_put(&t, "%*s", COLUMN, dct_region_name((dct_region)r));
    dct_text_put(&t, "%*s\n", COLUMN + 2, "total (M_max)");
    for (uint32_t i = 0; i < g->n_plans; i++) {
        const dct_plan *plan = g->plans[i];
        dct_safe_text name;
        dct_text_put(&t, "%-*.*s", NAME, NAME - 1, dct_safe(plan->model_name, &name));
        for (int r = 0; r < DCT_REGION_COUNT; r++)
            dct_text_put(&t, "%*.2f", COLUMN, dct_mib(dct_plan_region_bytes(plan, (dct_region)r)));
        dct_text_put(&t, "%*.2f\n", COLUMN + 2, dct_mib(plan->m_max_bytes));
        put_members(&t, plan);
        alone += plan->m_max_bytes;
    }
    dct_text_put(&t, "%-*s", NAME, "together");
    for (int r = 0; r < DCT_REGION_COUNT; r++)
        dct_text_put(&t, "%*.2f", COLUMN, dct_mib(dct_group_region_bytes(g, (dct_region)r)));
    dct_text_put(&t, "%*.2f\n\nbytes    %" PRIu64 " together, %" PRIu64 " in processes of their own\n", COLUMN + 2,
                 dct_mib(g->m_max_bytes), g->m_max_bytes, alone);
    bool fits = g->m_max_bytes <= room->available_bytes;
    dct_text_put(&t, "fits     %s: needs %.2f MiB, %.2f MiB are available (%s)\n", fits ? "yes" : "no", dct_mib(g->m_max_bytes),
                 dct_mib(room->available_bytes), room->source);
}
