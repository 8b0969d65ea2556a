/* Load and height, counted again.
 *
 * The steps in the order in which every worker walks them are one run that the schedule allows, so what is live in it at one op
 * must lie side by side whatever else may run at the same time: no packing is lower. A buffer (a value with all that lies in its
 * bytes in place) is live from the op that first touches it to the op that last does; the load is the largest sum at any op, and
 * the certificate names an op that reaches it and the buffers that are live there.
 *
 * Of two phases that may run at the same time both ops may be reached at once, so their loads add up; that their bytes are apart
 * is overlap.c's, and that no byte is wasted between them is asked here.
 */
#include "base/size.h"
#include "verify/checker.h"

typedef unsigned long long ull;

static bool in_arena(const dct_facts *f, dct_value_id v) { return f->phase->places[v].region == DCT_REGION_ARENA; }

/* Of each root value, the life of all that lies in its bytes; first > last for the others. NULL when there is no memory. */
static dct_life *find_lives(dct_checker *c, const dct_facts *f) {
    dct_life *lives = dct_arena_array(c->arena, f->graph->n_values, sizeof *lives);
    if (lives == NULL) return NULL;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) lives[v] = (dct_life){UINT32_MAX, 0};
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (!in_arena(f, v)) continue;
        dct_life *root = &lives[f->root[v]], life = dct_life_of(f, v);
        if (life.first < root->first) root->first = life.first;
        if (life.last > root->last) root->last = life.last;
    }
    return lives;
}

/* The values that the certificate names: buffers of the arena, each once, summing to the load. */
static dct_status check_witness(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    uint64_t sum = 0;
    bool *named = dct_arena_array(c->arena, f->graph->n_values, sizeof *named); /* a root value */
    if (named == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t i = 0; i < cert->n_values; i++) {
        dct_value_id v = cert->values[i];
        bool ok = v < f->graph->n_values && in_arena(f, v) && !named[f->root[v]];
        if (ok) named[f->root[v]] = true;
        if (!ok || !dct_add_u64(sum, f->graph->values[v].bytes, &sum)) {
            return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: entry %u of the certificate is no buffer, or named twice",
                              f->phase->name, i);
        }
    }
    if (sum != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, its values add up to %llu",
                          f->phase->name, (ull)cert->load_bytes, (ull)sum);
    }
    return DCT_OK;
}

/* Bytes live at each op. No two live buffers share a byte (memory.c), so no sum at an op is larger than the region; what wraps on
 * the way there wraps back. */
static uint64_t *find_loads(dct_checker *c, const dct_facts *f, const dct_life *lives) {
    uint64_t *load = dct_arena_array(c->arena, (uint64_t)f->graph->n_ops + 1, sizeof *load);
    if (load == NULL) return NULL;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        dct_life life = lives[v];
        if (life.first > life.last) continue;
        load[life.first] += f->graph->values[v].bytes;
        load[life.last + 1] -= f->graph->values[v].bytes;
    }
    for (uint32_t at = 1; at <= f->graph->n_ops; at++) load[at] += load[at - 1];
    return load;
}

static dct_status check_load(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    const dct_life *lives = find_lives(c, f);
    const uint64_t *load_at = lives != NULL ? find_loads(c, f, lives) : NULL;
    if (load_at == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint64_t load = 0;
    for (uint32_t at = 0; at < f->graph->n_ops; at++) {
        if (load_at[at] > load) load = load_at[at];
    }
    if (load != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, is %llu", f->phase->name,
                          (ull)cert->load_bytes, (ull)load);
    }
    if (cert->op >= f->graph->n_ops || load_at[f->number[cert->op]] != load) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: the load is not reached at op %u", f->phase->name, cert->op);
    }
    for (uint32_t i = 0; i < cert->n_values; i++) {
        dct_life life = lives[f->root[cert->values[i]]];
        if (life.first <= f->number[cert->op] && f->number[cert->op] <= life.last) continue;
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: '%s' is not live at op %u", f->phase->name,
                          f->graph->values[cert->values[i]].name, cert->op);
    }
    return DCT_OK;
}

/* Where the packing of a phase ends, and the lowest byte that it takes; UINT64_MAX when it takes none. */
static uint64_t arena_end(const dct_phase *phase, uint64_t *lowest) {
    uint64_t last = 0;
    *lowest = UINT64_MAX;
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        if (phase->places[v].region != DCT_REGION_ARENA) continue;
        uint64_t begin = phase->places[v].offset, end = begin + phase->graph.values[v].bytes; /* inside the region: memory.c */
        if (end > last) last = end;
        if (begin < *lowest) *lowest = begin;
    }
    return last;
}

/* What a packing lies behind: that of decode, where it may overlap, behind those of all other phases. */
static uint64_t arena_begin(const dct_plan *plan, const dct_phase *phase) {
    uint64_t begin = 0, lowest;
    if (!plan->bounds.overlap || phase->kind != DCT_PHASE_DECODE) return 0;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        uint64_t end = plan->phases[i].kind != DCT_PHASE_DECODE ? arena_end(&plan->phases[i], &lowest) : 0;
        if (end > begin) begin = end;
    }
    return begin;
}

/* Distinct (offset, size) ranges of the arena. */
static dct_status count_buffers(dct_checker *c, const dct_facts *f, uint32_t *n_buffers) {
    dct_range *r = dct_arena_array(c->arena, f->graph->n_values, sizeof *r);
    if (r == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint32_t n = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (in_arena(f, v)) r[n++] = (dct_range){f->phase->places[v].offset, f->graph->values[v].bytes, v};
    }
    dct_sort_ranges(r, n);
    *n_buffers = 0;
    for (uint32_t i = 0; i < n; i++) *n_buffers += i == 0 || r[i].offset != r[i - 1].offset || r[i].bytes != r[i - 1].bytes;
    return DCT_OK;
}

dct_status dct_check_certificate(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    uint32_t n_buffers = 0;
    dct_status status = check_witness(c, f);
    if (status == DCT_OK) status = check_load(c, f);
    if (status == DCT_OK) status = count_buffers(c, f, &n_buffers);
    if (status != DCT_OK) return status;
    uint64_t lowest, end = arena_end(f->phase, &lowest), begin = arena_begin(c->plan, f->phase), height = end - begin;
    if (end < begin || lowest < begin) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s takes the arena from %llu on; what it may run beside ends at %llu",
                          f->phase->name, (ull)lowest, (ull)begin);
    }
    if (cert->height_bytes != height || cert->optimal != (height == cert->load_bytes)) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: height is said to be %llu%s, is %llu over a load of %llu",
                          f->phase->name, (ull)cert->height_bytes, cert->optimal ? " (optimal)" : "", (ull)height,
                          (ull)cert->load_bytes);
    }
    if (f->phase->n_buffers != n_buffers) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: %u buffers are stated, %u counted", f->phase->name,
                          f->phase->n_buffers, n_buffers);
    }
    return DCT_OK;
}
