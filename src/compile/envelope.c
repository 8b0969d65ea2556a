/* compile/envelope: every byte that the process will use, by name.
 *
 * Regions are filled one after another; an item stands for each thing in them and for each rounding, so the items of a region add
 * up to it. Items that lie outside the reservation come last in runtime and are counted in M_max as well.
 *
 *      weights      neighbours of a layer an item, other tensors one each
 *      kv           K, V, and what rounding n_ctx up to 16 adds
 *      persistent   rotary tables, ids, pos, logits (the largest of the phases) or the inputs and outputs of a graph of one's
 *                   own, what the engine adds; text scratch, when the arena is smaller
 *      intermediate one item: the height of the packing, the largest of the phases
 *                   Where decode may overlap, ids, pos, logits and the arena have a part for it behind the largest of the
 *                   others, and the text scratch is always there: the arena may be in use while a request is tokenized
 *                   In a family's largest member, each of the last two also has what smaller members need beyond that
 *      runtime      what the engine adds; load staging, when it does not fit over kv or the arena; the kernel's own memory for it
 *                   all, when asked for
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "compile/passes.h"

#define ROUNDING "page rounding"

enum { FIXED_ITEMS = 20 }; /* items besides weights, tables, extras and named ends: caches, inputs, roundings, ... */

typedef struct builder {
    dct_plan *plan;
    uint32_t cap;
    dct_region region;
    uint64_t at;       /* bytes of the region so far */
    bool overflow;
} builder;

/* Rounds up to whole lines, as places demand. */
static uint64_t whole_lines(builder *b, uint64_t bytes) {
    if (!dct_align_u64(bytes, DCT_PLAN_ALIGN, &bytes)) b->overflow = true;
    return bytes;
}

static void add_bytes(builder *b, uint64_t *sum, uint64_t bytes) {
    if (!dct_add_u64(*sum, bytes, sum)) b->overflow = true;
}

static void add_item(builder *b, const char *name, uint64_t bytes, bool outside) {
    if (bytes == 0) return;
    assert(b->plan->n_items < b->cap);
    dct_item *item = &b->plan->items[b->plan->n_items++];
    *item = (dct_item){.region = b->region, .bytes = bytes, .outside = outside, .offset = outside ? 0 : b->at};
    snprintf(item->name, sizeof item->name, "%s", name);
    add_bytes(b, outside ? &b->plan->outside_bytes : &b->at, bytes);
}

static void open_region(builder *b, dct_region region) {
    b->region = region;
    b->at = 0;
}

static void close_region(builder *b) {
    uint64_t whole;
    if (!dct_align_u64(b->at, DCT_PLAN_PAGE, &whole)) {
        b->overflow = true;
        return;
    }
    add_item(b, ROUNDING, whole - b->at, false);
    b->plan->region_bytes[b->region] = whole;
    add_bytes(b, &b->plan->reserve_bytes, whole);
}

/* Regions are filled in the order of their names and lie in another. */
static void lay_regions(dct_plan *plan) {
    uint64_t at = 0;
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        plan->region_offset[dct_region_order[i]] = at;
        at += plan->region_bytes[dct_region_order[i]]; /* their sum was checked */
    }
}

/* The largest of what `need` says of the smaller members. */
static uint64_t largest_smaller(const dct_plan *plan, uint64_t (*need)(const dct_plan *smaller)) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_smaller; i++) {
        uint64_t one = need(&plan->smaller[i]);
        if (one > bytes) bytes = one;
    }
    return bytes;
}

static uint64_t inputs_of(const dct_plan *smaller) { return smaller->region_bytes[DCT_REGION_PERSISTENT]; }

/* Both are parts of one envelope, so their sum was checked. */
static uint64_t caches_and_arena_of(const dct_plan *smaller) {
    return smaller->region_bytes[DCT_REGION_KV] + smaller->region_bytes[DCT_REGION_ARENA];
}

/* An item as long as the region is shorter than this. */
static void extend_region(builder *b, const char *name, uint64_t bytes) {
    if (bytes > b->at) add_item(b, name, bytes - b->at, false);
}

/* Length of "blk.N." at the start of a tensor's name, 0 when it belongs to no layer. */
static size_t layer_prefix(const char *tensor) {
    if (strncmp(tensor, "blk.", 4) != 0) return 0;
    size_t n = 4;
    while (tensor[n] >= '0' && tensor[n] <= '9') n++;
    return n > 4 && tensor[n] == '.' ? n + 1 : 0;
}

/* Before anything else has items. */
static bool is_taken(const builder *b, const char *name) {
    if (strcmp(name, ROUNDING) == 0) return true;
    for (uint32_t i = 0; i < b->plan->n_items; i++)
        if (strcmp(b->plan->items[i].name, name) == 0) return true;
    return false;
}

/* Weights are named by others, and in a graph of one's own those of a layer may stand in several runs: a name that is taken gets
 * a number, counted among its likes. */
static void make_unique(const builder *b, char name[DCT_ITEM_NAME_BYTES]) {
    enum { NUMBER_BYTES = sizeof " #4294967295" };
    size_t n = strlen(name);
    uint32_t number = 1;
    if (!is_taken(b, name)) return;
    if (n > DCT_ITEM_NAME_BYTES - NUMBER_BYTES) n = DCT_ITEM_NAME_BYTES - NUMBER_BYTES;
    for (uint32_t i = 0; i < b->plan->n_items; i++) number += strncmp(b->plan->items[i].name, name, n) == 0;
    do snprintf(name + n, NUMBER_BYTES, " #%u", number++);
    while (is_taken(b, name));
}

static void fill_weights(builder *b) {
    dct_plan *plan = b->plan;
    open_region(b, DCT_REGION_WEIGHTS);
    for (uint32_t i = 0, end; i < plan->n_weights; i = end) { /* a run of one layer */
        const char *tensor = plan->weights[i].w.tensor;
        size_t prefix = layer_prefix(tensor);
        uint64_t bytes = 0;
        for (end = i; end < plan->n_weights; end++) {
            const char *other = plan->weights[end].w.tensor;
            if (end > i && (prefix == 0 || layer_prefix(other) != prefix || memcmp(tensor, other, prefix) != 0)) break;
            plan->weights[end].offset = b->at;
            add_bytes(b, &plan->weights[end].offset, bytes);
            add_bytes(b, &bytes, whole_lines(b, plan->weights[end].w.bytes));
        }
        char name[DCT_ITEM_NAME_BYTES];
        if (prefix == 0) snprintf(name, sizeof name, "%.50s", tensor);
        else snprintf(name, sizeof name, "%.*s (%u tensors)", (int)(prefix - 1), tensor, end - i);
        make_unique(b, name);
        add_item(b, name, bytes, false);
    }
    close_region(b);
}

/* K of all layers, then V of all layers. The item of each is what the formula gives for N + M positions; what lies beyond is
 * padding. */
static dct_status fill_kv(builder *b, dct_err *err) {
    dct_plan *plan = b->plan;
    uint64_t offset = 0, formula[2] = {0, 0};
    open_region(b, DCT_REGION_KV);
    for (int v = 0; v <= 1; v++) {
        for (uint32_t i = 0; i < plan->n_caches; i++) {
            const dct_cache *c = &plan->caches[i].c;
            if (c->is_k == (v == 1)) continue;
            uint64_t row, rows;
            if (!dct_dtype_row_bytes(c->type, (uint64_t)c->n_head_kv * c->head_dim, &row)) {
                return dct_fail(err, DCT_USAGE, "heads of %u elements cannot be cached as %s", c->head_dim,
                                dct_dtype_name(c->type));
            }
            plan->caches[i].offset = offset;
            add_bytes(b, &offset, whole_lines(b, c->bytes));
            if (!dct_mul_u64(row, plan->bounds.n_ctx, &rows)) b->overflow = true;
            else add_bytes(b, &formula[v], rows);
        }
    }
    if (b->overflow) return DCT_OK; /* dct_envelope says so */
    if (formula[0] > offset || formula[1] > offset - formula[0])
        return dct_fail(err, DCT_BUG, "caches of %llu bytes for fewer than N + M positions", (unsigned long long)offset);
    add_item(b, "K cache", formula[0], false);
    add_item(b, "V cache", formula[1], false);
    add_item(b, "positions rounded up to 16", offset - b->at, false);
    close_region(b);
    return DCT_OK;
}

static uint64_t bytes_of(const dct_graph *g, dct_value_id id) { return id != DCT_NONE ? g->values[id].bytes : 0; }
static uint64_t ids_of(const dct_phase *phase) { return bytes_of(&phase->graph, phase->graph.ids); }
static uint64_t pos_of(const dct_phase *phase) { return bytes_of(&phase->graph, phase->graph.pos); }
static uint64_t logits_of(const dct_phase *phase) { return bytes_of(&phase->graph, phase->graph.logits); }

static void add_extras(builder *b, const dct_compile_params *params, bool outside) {
    for (uint32_t i = 0; i < params->n_extra; i++) {
        const dct_extra_item *extra = &params->extra[i];
        if (extra->region != b->region || extra->outside != outside) continue;
        add_item(b, extra->name, outside ? extra->bytes : whole_lines(b, extra->bytes), outside);
    }
}

/* Where ids, pos and logits begin in the persistent region, those of all phases. */
typedef struct ends {
    uint64_t ids, pos, logits;
} ends;

/* Caches and arena of a smaller member begin where the caches do, and may end behind the arena of all phases. */
static uint64_t arena_bytes(const dct_plan *plan) {
    uint64_t height = dct_plan_arena_height(plan), smaller = largest_smaller(plan, caches_and_arena_of);
    uint64_t beyond = smaller > plan->region_bytes[DCT_REGION_KV] ? smaller - plan->region_bytes[DCT_REGION_KV] : 0;
    return beyond > height ? beyond : height;
}

/* The inputs and outputs of a graph of one's own, an item each. */
static void fill_ends(builder *b) {
    for (uint32_t i = 0; i < b->plan->n_phases; i++) {
        const dct_phase *phase = &b->plan->phases[i];
        for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
            char name[DCT_ITEM_NAME_BYTES];
            if (!dct_value_is_end(&phase->graph, v)) continue;
            phase->places[v] = (dct_place){DCT_REGION_PERSISTENT, b->at};
            dct_plan_end_name(&phase->graph.values[v], name);
            add_item(b, name, phase->graph.values[v].bytes, false);
        }
    }
}

static ends fill_persistent(builder *b, const dct_compile_params *params) {
    dct_plan *plan = b->plan;
    open_region(b, DCT_REGION_PERSISTENT);
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        char name[sizeof plan->items->name];
        snprintf(name, sizeof name, DCT_ITEM_TABLE_FORMAT, i);
        plan->tables[i].offset = b->at;
        add_item(b, name, whole_lines(b, plan->tables[i].bytes), false);
    }
    ends e;
    e.ids = b->at;
    add_item(b, DCT_ITEM_IDS, dct_plan_parts_end(plan, ids_of), false);
    e.pos = b->at;
    add_item(b, DCT_ITEM_POS, dct_plan_parts_end(plan, pos_of), false);
    e.logits = b->at;
    add_item(b, DCT_ITEM_LOGITS, dct_plan_parts_end(plan, logits_of), false);
    extend_region(b, DCT_ITEM_SMALLER_INPUTS, largest_smaller(plan, inputs_of));
    fill_ends(b);
    add_extras(b, params, false);
    if (plan->bounds.overlap || params->text_scratch_bytes > arena_bytes(plan))
        add_item(b, DCT_ITEM_TEXT_SCRATCH, whole_lines(b, params->text_scratch_bytes), false);
    close_region(b);
    return e;
}

static void fill_arena(builder *b) {
    open_region(b, DCT_REGION_ARENA);
    add_item(b, "arena of all phases", dct_plan_arena_height(b->plan), false);
    extend_region(b, DCT_ITEM_SMALLER_ARENA, arena_bytes(b->plan));
    close_region(b);
}

/* 4 KiB of page tables map 2 MiB, and 4 KiB above them 1 GiB; the kernel keeps them behind huge pages as well, to be able to
 * split those. */
static uint64_t page_table_bytes(uint64_t mapped) {
    return dct_round_up(mapped / 512, DCT_PLAN_PAGE) + dct_round_up(mapped / 512 / 512, DCT_PLAN_PAGE);
}

static void fill_runtime(builder *b, const dct_compile_params *params) {
    dct_plan *plan = b->plan;
    dct_place unused;
    open_region(b, DCT_REGION_RUNTIME);
    add_extras(b, params, false);
    if (!dct_plan_staging(plan, params->staging_bytes, &unused))
        add_item(b, DCT_ITEM_STAGING, whole_lines(b, params->staging_bytes), false);
    close_region(b);
    add_extras(b, params, true);
    if (params->kernel_bytes != 0)
        add_item(b, DCT_ITEM_KERNEL, params->kernel_bytes + page_table_bytes(plan->reserve_bytes), true);
}

/* Those of one phase. */
static ends ends_of(const dct_plan *plan, const dct_phase *phase, ends all) {
    return (ends){all.ids + dct_plan_part_begin(plan, phase, ids_of), all.pos + dct_plan_part_begin(plan, phase, pos_of),
                  all.logits + dct_plan_part_begin(plan, phase, logits_of)};
}

/* Places of the values that do not lie in the arena. */
static dct_status place_outer_values(dct_plan *plan, const ends *e, dct_phase *phase, dct_err *err) {
    const dct_graph *g = &phase->graph;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        dct_place *place = &phase->places[v];
        bool is_logits = dct_lies_in_logits(g, v), end = v == g->ids || v == g->pos || is_logits;
        if ((value->kind == DCT_KIND_INTERMEDIATE && !is_logits) || dct_value_is_end(g, v)) continue;
        if (value->kind == DCT_KIND_WEIGHT) *place = (dct_place){DCT_REGION_WEIGHTS, plan->weights[value->ref].offset};
        else if (value->kind == DCT_KIND_KV) *place = (dct_place){DCT_REGION_KV, plan->caches[value->ref].offset};
        else if (value->kind == DCT_KIND_PERSISTENT && value->ref != DCT_NONE)
            *place = (dct_place){DCT_REGION_PERSISTENT, plan->tables[value->ref].offset};
        else if (end) *place = (dct_place){DCT_REGION_PERSISTENT, v == g->ids ? e->ids : v == g->pos ? e->pos : e->logits};
        else return dct_fail(err, DCT_BUG, "value '%s' of phase %s has no region", value->name, phase->name);
    }
    return DCT_OK;
}

dct_status dct_envelope(dct_plan *plan, const dct_compile_params *params, dct_arena *arena, dct_err *err) {
    builder b = {.plan = plan, .cap = plan->n_weights + plan->n_tables + params->n_extra + DCT_MAX_ENDS + FIXED_ITEMS};
    plan->items = dct_arena_array(arena, b.cap, sizeof *plan->items);
    if (plan->items == NULL) return dct_fail_memory(err, arena, "the envelope");
    fill_weights(&b);
    dct_status status = fill_kv(&b, err);
    if (status != DCT_OK) return status;
    ends e = fill_persistent(&b, params);
    fill_arena(&b);
    fill_runtime(&b, params);
    bool fits = !b.overflow && dct_add_u64(plan->reserve_bytes, plan->outside_bytes, &plan->m_max_bytes);
    if (!fits || plan->m_max_bytes > INT64_MAX) return dct_fail(err, DCT_NO_FIT, "the envelope does not fit in 63 bits");
    lay_regions(plan);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        ends own = ends_of(plan, &plan->phases[i], e);
        status = place_outer_values(plan, &own, &plan->phases[i], err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}
