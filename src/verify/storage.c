/* Weights, caches and rotary tables: what all phases share. Their sizes follow from type and shape, their places are apart, the
 * phases' graphs speak of the same ones, and with the model at hand they are the file's tensors. */
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/size.h"
#include "kernels/kernel.h"
#include "verify/checker.h"

/* A list of equal things with places in one region. */
typedef struct shelf {
    dct_region region;
    dct_defect defect;
    const char *what;
    uint32_t n;
    void (*range)(const dct_plan *plan, uint32_t i, uint64_t *offset, uint64_t *bytes);
} shelf;

static void weight_range(const dct_plan *plan, uint32_t i, uint64_t *offset, uint64_t *bytes) {
    *offset = plan->weights[i].offset;
    *bytes = plan->weights[i].w.bytes;
}

static void cache_range(const dct_plan *plan, uint32_t i, uint64_t *offset, uint64_t *bytes) {
    *offset = plan->caches[i].offset;
    *bytes = plan->caches[i].c.bytes;
}

static void table_range(const dct_plan *plan, uint32_t i, uint64_t *offset, uint64_t *bytes) {
    *offset = plan->tables[i].offset;
    *bytes = plan->tables[i].bytes;
}

/* Every thing of the shelf aligned, inside the region, apart from the others. */
static dct_status check_shelf(dct_checker *c, const shelf *s) {
    uint64_t size = c->plan->region_bytes[s->region];
    dct_range *r = dct_arena_array(c->arena, s->n, sizeof *r);
    if (r == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t i = 0; i < s->n; i++) {
        r[i].id = i;
        s->range(c->plan, i, &r[i].offset, &r[i].bytes);
        if (r[i].offset % DCT_PLAN_ALIGN != 0)
            return dct_refuse(c, DCT_DEFECT_ALIGNMENT, "%s %u at %llu", s->what, i, (unsigned long long)r[i].offset);
        if (dct_range_within(r[i].offset, r[i].bytes, size)) continue;
        return dct_refuse(c, DCT_DEFECT_OUT_OF_REGION, "%s %u of %llu bytes at %llu, the region has %llu", s->what, i,
                          (unsigned long long)r[i].bytes, (unsigned long long)r[i].offset, (unsigned long long)size);
    }
    dct_sort_ranges(r, s->n);
    for (uint32_t i = 1; i < s->n; i++) {
        if (r[i].offset - r[i - 1].offset >= r[i - 1].bytes) continue;
        return dct_refuse(c, s->defect, "%ss %u and %u share bytes at %llu", s->what, r[i - 1].id, r[i].id,
                          (unsigned long long)r[i].offset);
    }
    return DCT_OK;
}

static dct_status check_weight(dct_checker *c, uint32_t i) {
    const dct_weight *w = &c->plan->weights[i].w;
    uint64_t want = 0, row_bytes;
    bool ok = (uint32_t)w->type < DCT_TYPE_COUNT && w->n_rows > 0 && w->n_cols > 0 &&
              memchr(w->tensor, '\0', sizeof w->tensor) != NULL && dct_dtype_row_bytes(w->type, w->n_cols, &row_bytes);
    if (!ok) return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u has no valid type, shape or name", i);
    if (w->is_vector) ok = w->row_begin == 0 && w->n_rows == 1 && dct_align_u64((uint64_t)w->n_cols * 4, DCT_PLAN_ALIGN, &want);
    else ok = dct_layout_bytes(w->type, w->n_rows, w->n_cols, &want);
    if (ok && w->bytes == want) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u '%s' %s [%u, %u] has %llu bytes, needs %llu", i, w->tensor,
                      dct_dtype_name(w->type), w->n_rows, w->n_cols, (unsigned long long)w->bytes, (unsigned long long)want);
}

static dct_status check_cache(dct_checker *c, uint32_t i) {
    const dct_cache *k = &c->plan->caches[i].c;
    const dct_bounds *b = &c->plan->bounds;
    if (k->type != (k->is_k ? b->type_k : b->type_v) || k->n_ctx != dct_round_up(b->n_ctx, 16) || k->n_head_kv == 0 ||
        k->head_dim == 0) {
        return dct_refuse(c, DCT_DEFECT_KV_WRONG, "cache %u (layer %u, %s) for %u positions disagrees with the bounds", i,
                          k->layer, k->is_k ? "K" : "V", k->n_ctx);
    }
    if (k->type == DCT_TYPE_Q8_0 && k->head_dim % 32 != 0) {
        return dct_refuse(c, DCT_DEFECT_KV_WRONG, "cache %u (layer %u, %s): heads of %u elements are not whole blocks of 32", i,
                          k->layer, k->is_k ? "K" : "V", k->head_dim);
    }
    uint64_t want = 0;
    if (!dct_kv_bytes(k->type, k->n_head_kv, k->head_dim, k->n_ctx, &want) || k->bytes != want) {
        return dct_refuse(c, DCT_DEFECT_KV_WRONG, "cache %u (layer %u, %s) has %llu bytes, needs %llu", i, k->layer,
                          k->is_k ? "K" : "V", (unsigned long long)k->bytes, (unsigned long long)want);
    }
    for (uint32_t j = 0; j < i; j++) {
        const dct_cache *other = &c->plan->caches[j].c;
        if (other->layer == k->layer && other->is_k == k->is_k) {
            return dct_refuse(c, DCT_DEFECT_KV_WRONG, "caches %u and %u are both %s of layer %u", j, i, k->is_k ? "K" : "V",
                              k->layer);
        }
    }
    return DCT_OK;
}

static dct_status check_table(dct_checker *c, uint32_t i) {
    const dct_plan_table *t = &c->plan->tables[i];
    uint64_t want = 0;
    bool ok = dct_mul_u64((uint64_t)t->t.n_ctx * t->t.n_rot, sizeof(float), &want);
    if (ok && want != 0 && t->bytes == want && t->t.n_ctx >= c->plan->bounds.n_ctx) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_SIZE_WRONG, "rotary table %u [%u, %u] has %llu bytes, needs %llu", i, t->t.n_ctx, t->t.n_rot,
                      (unsigned long long)t->bytes, (unsigned long long)want);
}

bool dct_same_weight(const dct_weight *a, const dct_weight *b) {
    return a->type == b->type && a->row_begin == b->row_begin && a->n_rows == b->n_rows && a->n_cols == b->n_cols &&
           a->is_vector == b->is_vector && strncmp(a->tensor, b->tensor, sizeof a->tensor) == 0;
}

bool dct_same_cache(const dct_cache *a, const dct_cache *b) {
    return a->layer == b->layer && a->is_k == b->is_k && a->n_head_kv == b->n_head_kv && a->head_dim == b->head_dim &&
           a->n_ctx == b->n_ctx && a->type == b->type;
}

bool dct_same_float(float a, float b) { return dct_bits_of_f32(a) == dct_bits_of_f32(b); }

bool dct_same_table(const dct_rope_table *a, const dct_rope_table *b) {
    return a->n_rot == b->n_rot && a->n_ctx == b->n_ctx && a->scaling == b->scaling && a->orig_ctx == b->orig_ctx &&
           dct_same_float(a->base, b->base) && dct_same_float(a->factor, b->factor) &&
           dct_same_float(a->attn_factor, b->attn_factor) && dct_same_float(a->ext_factor, b->ext_factor) &&
           dct_same_float(a->beta_fast, b->beta_fast) && dct_same_float(a->beta_slow, b->beta_slow) &&
           strncmp(a->factors_tensor, b->factors_tensor, sizeof a->factors_tensor) == 0;
}

/* A graph has lists of its own; they must be the plan's, thing by thing: those of a phase, and those of the model, so that no
 * more is loaded than the model has. */
dct_status dct_check_lists(dct_checker *c, const dct_graph *g, const char *whose) {
    const dct_plan *plan = c->plan;
    bool same = g->n_weights == plan->n_weights;
    for (uint32_t i = 0; same && i < g->n_weights; i++)
        same = dct_same_weight(&g->weights[i], &plan->weights[i].w) && g->weights[i].bytes == plan->weights[i].w.bytes;
    if (!same) return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "the weights of %s are not the plan's", whose);
    same = g->n_caches == plan->n_caches;
    for (uint32_t i = 0; same && i < g->n_caches; i++)
        same = dct_same_cache(&g->caches[i], &plan->caches[i].c) && g->caches[i].bytes == plan->caches[i].c.bytes;
    if (!same) return dct_refuse(c, DCT_DEFECT_KV_WRONG, "the caches of %s are not the plan's", whose);
    same = g->n_tables == plan->n_tables;
    for (uint32_t i = 0; same && i < g->n_tables; i++) same = dct_same_table(&g->tables[i], &plan->tables[i].t);
    if (same) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_GRAPH_MISMATCH, "the rotary tables of %s are not the plan's", whose);
}

static dct_status check_phase_lists(dct_checker *c, const dct_phase *phase) {
    char whose[sizeof phase->name + 16];
    snprintf(whose, sizeof whose, "%s's graph", phase->name);
    return dct_check_lists(c, &phase->graph, whose);
}

dct_status dct_check_storage(dct_checker *c) {
    const dct_plan *plan = c->plan;
    const shelf shelves[] = {
        {DCT_REGION_WEIGHTS, DCT_DEFECT_WEIGHT_WRONG, "weight", plan->n_weights, weight_range},
        {DCT_REGION_KV, DCT_DEFECT_KV_WRONG, "cache", plan->n_caches, cache_range},
        {DCT_REGION_PERSISTENT, DCT_DEFECT_OVERLAP, "table", plan->n_tables, table_range},
    };
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < plan->n_weights && status == DCT_OK; i++) status = check_weight(c, i);
    for (uint32_t i = 0; i < plan->n_caches && status == DCT_OK; i++) status = check_cache(c, i);
    for (uint32_t i = 0; i < plan->n_tables && status == DCT_OK; i++) status = check_table(c, i);
    for (size_t i = 0; i < sizeof shelves / sizeof *shelves && status == DCT_OK; i++) status = check_shelf(c, &shelves[i]);
    for (uint32_t i = 0; i < plan->n_phases && status == DCT_OK; i++) status = check_phase_lists(c, &plan->phases[i]);
    return status;
}

/* ---- with the model at hand ---- */

static dct_status check_weight_in_file(dct_checker *c, const dct_model *model, uint32_t i) {
    const dct_weight *w = &c->plan->weights[i].w;
    if (memchr(w->tensor, '\0', sizeof w->tensor) == NULL)
        return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u has no valid name", i);
    const dct_tensor *t = dct_model_find_tensor(model, w->tensor);
    if (t == NULL) return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u: the file has no tensor '%s'", i, w->tensor);
    if (t->type != w->type)
        return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u '%s' is not of the file's type %s", i, w->tensor,
                          dct_dtype_name(t->type));
    bool inside = t->ne[0] == w->n_cols && dct_range_within(w->row_begin, w->n_rows, t->n_elems / t->ne[0]);
    if (inside) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_WEIGHT_WRONG, "weight %u: rows %u to %u of %u columns are not in tensor '%s'", i,
                      w->row_begin, w->row_begin + w->n_rows, w->n_cols, w->tensor);
}

dct_status dct_check_model(dct_checker *c, const dct_model *model, const dct_hparams *hp) {
    const dct_plan *plan = c->plan;
    if (plan->fingerprint != model->fingerprint) {
        return dct_refuse(c, DCT_DEFECT_MODEL_MISMATCH, "the plan's fingerprint is %016llx, the file's %016llx",
                          (unsigned long long)plan->fingerprint, (unsigned long long)model->fingerprint);
    }
    if (strncmp(plan->arch, hp->arch, sizeof plan->arch) != 0 || plan->tensor_bytes != model->tensor_bytes ||
        plan->n_params != model->n_params) {
        return dct_refuse(c, DCT_DEFECT_MODEL_MISMATCH, "architecture or sizes are not the file's (%s, %llu bytes of tensors)",
                          hp->arch, (unsigned long long)model->tensor_bytes);
    }
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < plan->n_weights && status == DCT_OK; i++) status = check_weight_in_file(c, model, i);
    return status;
}
