/* The bounds and the envelope: plain arithmetic over what the plan states.
 *
 *     reservation | weights | kv | arena | persistent | runtime |      regions touch, each begins on a page
 *     region      | item | item | ... |                                items touch and fill the region
 *     M_max       = reservation + items marked outside
 */
#include <string.h>

#include "base/size.h"
#include "verify/checker.h"

enum { PAGE = 4096, MAX_THREADS = 4096, N_PHASE_KINDS = DCT_PHASE_DECODE + 1 };
_Static_assert((int)N_PHASE_KINDS <= (int)DCT_PLAN_MAX_PHASES, "a plan holds every kind of phase");

typedef unsigned long long ull;

static bool is_kv_type(dct_dtype type) {
    return type == DCT_TYPE_F32 || type == DCT_TYPE_F16 || type == DCT_TYPE_BF16 || type == DCT_TYPE_Q8_0;
}

/* What is printed of a phase goes by its name. */
static bool has_its_name(const dct_phase *phase) {
    return strncmp(phase->name, dct_phase_name(phase->kind), sizeof phase->name) == 0;
}

/* The one phase of a graph of one's own: its rows are the bound, and its ends have names. */
static dct_status check_graph_phase(dct_checker *c) {
    const dct_bounds *b = &c->plan->bounds;
    const dct_phase *phase = &c->plan->phases[0];
    if (!has_its_name(phase)) return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "the phase is not named graph");
    if (phase->rows != b->n_input || phase->graph.rows != b->n_input || b->ubatch != b->n_input)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%s is for %u rows, its graph for %u, the bounds say %u", phase->name,
                          phase->rows, phase->graph.rows, b->n_input);
    if (phase->graph.ids == DCT_NONE && phase->graph.logits == DCT_NONE) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%s has the ends of a model's phase", phase->name);
}

static dct_status check_phase(dct_checker *c, const dct_phase *phase) {
    const dct_bounds *b = &c->plan->bounds;
    if ((uint32_t)phase->kind > DCT_PHASE_DECODE || !has_its_name(phase))
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "a phase is of no kind that exists, or has not the name of its kind");
    uint32_t rows = phase->kind == DCT_PHASE_PREFILL ? b->ubatch : b->slots;
    if (phase->rows != rows || phase->graph.rows != rows)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%s is for %u rows, its graph for %u, the bounds say %u", phase->name,
                          phase->rows, phase->graph.rows, rows);
    if (phase->graph.ids == DCT_NONE || phase->graph.pos == DCT_NONE || phase->graph.logits == DCT_NONE)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%s lacks an input, or the output: the bounds promise logits", phase->name);
    return DCT_OK;
}

/* As many phases as kinds, none twice: each is there, and whoever runs one by its kind finds it. */
static dct_status check_phases(dct_checker *c) {
    const dct_plan *plan = c->plan;
    if (plan->n_phases != N_PHASE_KINDS)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%u phases, not prefill and decode", plan->n_phases);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        dct_status status = check_phase(c, &plan->phases[i]);
        if (status != DCT_OK) return status;
        for (uint32_t j = 0; j < i; j++) {
            if (plan->phases[j].kind == plan->phases[i].kind)
                return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "phases %u and %u are of one kind", j, i);
        }
    }
    return DCT_OK;
}

dct_status dct_check_bounds(dct_checker *c) {
    const dct_plan *plan = c->plan;
    const dct_bounds *b = &plan->bounds;
    const bool is_graph = dct_plan_is_graph(plan); /* of rows, not of prompts and answers */
    const bool has_logits = b->logits == DCT_LOGITS_LAST || b->logits == DCT_LOGITS_ALL;
    if (b->n_input == 0 || (b->n_output == 0) != is_graph || (uint64_t)b->n_input + b->n_output != b->n_ctx)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "%u input and %u output positions are not the %u of the context",
                          b->n_input, b->n_output, b->n_ctx);
    if (b->ubatch == 0 || b->slots == 0 || b->threads == 0 || b->threads > MAX_THREADS)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "ubatch %u, %u slots, %u threads", b->ubatch, b->slots, b->threads);
    if (!is_kv_type(b->type_k) || !is_kv_type(b->type_v) || has_logits == is_graph)
        return dct_refuse(c, DCT_DEFECT_BOUNDS_WRONG, "cache types or logits are none that can be run");
    return is_graph ? check_graph_phase(c) : check_phases(c);
}

static dct_status check_regions(dct_checker *c) {
    const dct_plan *plan = c->plan;
    uint64_t end = 0;
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        dct_region r = dct_region_order[i];
        const char *name = dct_region_name(r);
        if (plan->region_bytes[r] % PAGE != 0) {
            return dct_refuse(c, DCT_DEFECT_ENVELOPE_WRONG, "region %s has %llu bytes, not whole pages", name,
                              (ull)plan->region_bytes[r]);
        }
        if (plan->region_offset[r] != end) {
            return dct_refuse(c, DCT_DEFECT_ENVELOPE_WRONG, "region %s begins at %llu, the one before ends at %llu", name,
                              (ull)plan->region_offset[r], (ull)end);
        }
        if (!dct_add_u64(end, plan->region_bytes[r], &end))
            return dct_refuse(c, DCT_DEFECT_ENVELOPE_WRONG, "the regions are larger than any memory");
    }
    uint64_t m_max = 0;
    if (plan->reserve_bytes != end || !dct_add_u64(end, plan->outside_bytes, &m_max) || plan->m_max_bytes != m_max ||
        m_max > INT64_MAX) {
        return dct_refuse(c, DCT_DEFECT_ENVELOPE_WRONG, "M_max %llu, reservation %llu, outside %llu; the regions need %llu",
                          (ull)plan->m_max_bytes, (ull)plan->reserve_bytes, (ull)plan->outside_bytes, (ull)end);
    }
    return DCT_OK;
}

/* Where the walk over the items stands: end of the last one in its region, and whether outside ones have begun. */
typedef struct item_walk {
    int region;
    uint64_t end, outside;
    bool is_outside;
} item_walk;

/* On to region `to`, over regions that their items fill. */
static dct_status walk_to(dct_checker *c, item_walk *w, int to) {
    for (; w->region < to; w->region++, w->end = 0, w->is_outside = false) {
        if (w->region < 0 || w->end == c->plan->region_bytes[w->region]) continue;
        return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "the items of %s add up to %llu, the region has %llu",
                          dct_region_name((dct_region)w->region), (ull)w->end, (ull)c->plan->region_bytes[w->region]);
    }
    return DCT_OK;
}

/* Items are looked up by region and name. Those of a region stand together, and plan_io bounds how many there are. */
static dct_status check_name(dct_checker *c, uint32_t i) {
    const dct_item *items = c->plan->items;
    for (uint32_t j = i; j > 0 && items[j - 1].region == items[i].region; j--) {
        if (strcmp(items[j - 1].name, items[i].name) != 0) continue;
        return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "items %u and %u of %s are both named '%s'", j - 1, i,
                          dct_region_name(items[i].region), items[i].name);
    }
    return DCT_OK;
}

static dct_status take_outside(dct_checker *c, const dct_item *item, item_walk *w) {
    if (item->region != DCT_REGION_RUNTIME)
        return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "item '%s' lies outside the reservation, which only those of runtime may",
                          item->name);
    w->is_outside = true;
    if (dct_add_u64(w->outside, item->bytes, &w->outside)) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "item '%s' is larger than any memory", item->name);
}

static dct_status take_inside(dct_checker *c, const dct_item *item, item_walk *w) {
    uint64_t size = c->plan->region_bytes[w->region];
    if (w->is_outside || item->offset != w->end || !dct_range_within(item->offset, item->bytes, size))
        return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG,
                          "item '%s' of %s: %llu bytes at %llu, the one before ends at %llu, the region at %llu", item->name,
                          dct_region_name(item->region), (ull)item->bytes, (ull)item->offset, (ull)w->end, (ull)size);
    bool is_state = w->region == DCT_REGION_PERSISTENT || w->region == DCT_REGION_RUNTIME; /* with words that threads wait at */
    if (is_state && item->offset % DCT_PLAN_ALIGN != 0)
        return dct_refuse(c, DCT_DEFECT_ALIGNMENT, "item '%s' lies at %llu, no whole line", item->name, (ull)item->offset);
    w->end += item->bytes;
    return DCT_OK;
}

static dct_status check_items(dct_checker *c) {
    const dct_plan *plan = c->plan;
    item_walk w = {.region = -1};
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        if (memchr(item->name, '\0', sizeof item->name) == NULL || (uint32_t)item->region >= DCT_REGION_COUNT ||
            (int)item->region < w.region) {
            return dct_refuse(c, DCT_DEFECT_ITEMS_WRONG, "item %u has no name, or stands in the wrong region", i);
        }
        dct_status status = check_name(c, i);
        if (status == DCT_OK) status = walk_to(c, &w, (int)item->region);
        if (status == DCT_OK) status = item->outside ? take_outside(c, item, &w) : take_inside(c, item, &w);
        if (status != DCT_OK) return status;
    }
    dct_status status = walk_to(c, &w, DCT_REGION_COUNT);
    if (status != DCT_OK) return status;
    if (w.outside != plan->outside_bytes) {
        return dct_refuse(c, DCT_DEFECT_ENVELOPE_WRONG, "items outside add up to %llu, the plan says %llu", (ull)w.outside,
                          (ull)plan->outside_bytes);
    }
    return DCT_OK;
}

dct_status dct_check_envelope(dct_checker *c) {
    dct_status status = check_regions(c);
    return status == DCT_OK ? check_items(c) : status;
}
