/* plan/plan: looking things up in a plan. */
#include "plan/plan.h"

#include <string.h>

const char *dct_region_name(dct_region region) {
    switch (region) {
    case DCT_REGION_WEIGHTS: return "weights";
    case DCT_REGION_KV: return "kv";
    case DCT_REGION_PERSISTENT: return "persistent";
    case DCT_REGION_ARENA: return "intermediate";
    case DCT_REGION_RUNTIME: return "runtime";
    case DCT_REGION_COUNT: break;
    }
    return "?";
}

bool dct_plan_find_item(const dct_plan *plan, const char *name, uint64_t *reserve_offset, uint64_t *bytes) {
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        if (strcmp(item->name, name) != 0) continue;
        *reserve_offset = item->outside ? 0 : plan->region_offset[item->region] + item->offset;
        *bytes = item->bytes;
        return true;
    }
    *reserve_offset = *bytes = 0;
    return false;
}

const dct_phase *dct_plan_phase(const dct_plan *plan, dct_phase_kind kind) {
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        if (plan->phases[i].kind == kind) return &plan->phases[i];
    }
    return NULL;
}

uint64_t dct_plan_value_offset(const dct_plan *plan, const dct_phase *phase, dct_value_id id) {
    while (phase->graph.values[id].alias_of != DCT_NONE) id = phase->graph.values[id].alias_of; /* an alias has the higher id: this ends */
    const dct_place *place = &phase->places[id];
    return plan->region_offset[place->region] + place->offset;
}

uint64_t dct_plan_region_bytes(const dct_plan *plan, dct_region region) {
    uint64_t bytes = plan->region_bytes[region];
    return region == DCT_REGION_RUNTIME ? bytes + plan->outside_bytes : bytes;
}

bool dct_plan_staging(const dct_plan *plan, uint64_t bytes, uint64_t *reserve_offset) {
    uint64_t item_bytes;
    if (dct_plan_find_item(plan, DCT_ITEM_STAGING, reserve_offset, &item_bytes)) return bytes <= item_bytes;
    static const dct_region unused_while_loading[] = {DCT_REGION_KV, DCT_REGION_ARENA};
    for (uint32_t i = 0; i < 2; i++) {
        dct_region region = unused_while_loading[i];
        *reserve_offset = plan->region_offset[region];
        if (bytes <= plan->region_bytes[region]) return true;
    }
    return false;
}
