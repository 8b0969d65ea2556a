/* Decode beside another phase, where the bounds allow it.
 *
 * Nothing orders an op of one before an op of the other, so no byte that one writes may be among those that the other touches,
 * however far apart the two ops stand in their phases:
 *
 *   intermediates, scratch of all workers, ids, pos, logits    each phase has its own; this is what is checked here
 *   weights, rotary tables                                     may be shared: no phase writes them
 *   caches                                                     may be shared: a run writes rows of its slot, which is for whoever
 *                                                              runs two phases at once to choose, and in no plan
 */
#include "verify/checker.h"

typedef unsigned long long ull;

static bool is_written(const dct_phase *phase, dct_value_id v) {
    const dct_value *value = &phase->graph.values[v];
    bool is_table = value->kind == DCT_KIND_PERSISTENT && value->ref != DCT_NONE;
    return value->kind != DCT_KIND_WEIGHT && value->kind != DCT_KIND_KV && !is_table;
}

static dct_status refuse_two(dct_checker *c, const dct_phase *const two[2], const dct_range *a, const dct_range *b) {
    const dct_phase *pa = two[a->id % 2], *pb = two[b->id % 2];
    return dct_refuse(c, DCT_DEFECT_OVERLAP,
                      "'%s' of %s (%llu bytes at %llu of the reservation) and '%s' of %s (%llu at %llu): the two phases may run "
                      "at the same time", pa->graph.values[a->id / 2].name, pa->name, (ull)a->bytes, (ull)a->offset,
                      pb->graph.values[b->id / 2].name, pb->name, (ull)b->bytes, (ull)b->offset);
}

/* What both write, in order of place: each is held against the one of the other phase that reaches furthest so far. */
static dct_status check_two(dct_checker *c, const dct_phase *const two[2]) {
    const dct_range *furthest[2] = {NULL, NULL};
    uint32_t n = 0;
    dct_range *r = dct_arena_array(c->arena, (uint64_t)two[0]->graph.n_values + two[1]->graph.n_values, sizeof *r);
    if (r == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t side = 0; side < 2; side++) {
        for (dct_value_id v = 0; v < two[side]->graph.n_values; v++) {
            const dct_place *place = &two[side]->places[v];
            uint64_t at = c->plan->region_offset[place->region] + place->offset;
            if (is_written(two[side], v)) r[n++] = (dct_range){at, two[side]->graph.values[v].bytes, 2 * v + side};
        }
    }
    dct_sort_ranges(r, n);
    for (const dct_range *at = r; at < r + n; at++) {
        const dct_range **own = &furthest[at->id % 2], *other = furthest[1 - at->id % 2];
        if (other != NULL && at->offset - other->offset < other->bytes) return refuse_two(c, two, other, at);
        if (*own == NULL || at->offset + at->bytes > (*own)->offset + (*own)->bytes) *own = at;
    }
    return DCT_OK;
}

dct_status dct_check_overlap(dct_checker *c) {
    const dct_phase *decode = dct_plan_phase(c->plan, DCT_PHASE_DECODE);
    dct_status status = DCT_OK;
    if (!c->plan->bounds.overlap || decode == NULL) return DCT_OK;
    for (uint32_t i = 0; i < c->plan->n_phases && status == DCT_OK; i++) {
        if (&c->plan->phases[i] != decode) status = check_two(c, (const dct_phase *const[2]){&c->plan->phases[i], decode});
    }
    return status;
}
