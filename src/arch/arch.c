/* arch/arch: finds the family of a file, checks what all families demand, and runs its trace. */
#include "arch/arch.h"

#include <string.h>

#include "arch/family.h"
#include "base/size.h"

typedef struct family {
    const char *name;
    dct_status (*adjust)(const dct_model *model, dct_hparams *hp, dct_err *err);
    void (*trace)(dct_tracer *t);
} family;

static const family families[] = {
#define FAMILY(name, adjust, trace) {#name, adjust, trace},
    DCT_FAMILIES(FAMILY)
#undef FAMILY
};

const char *dct_arch_names(void) {
#define NAME(name, adjust, trace) ", " #name
    static const char names[] = DCT_FAMILIES(NAME);
#undef NAME
    return names + 2;
}

static const family *find_family(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, name) == 0) return &families[i];
    }
    return NULL;
}

static dct_status unsupported(dct_err *err, int len, const char *name) {
    if (len == 4 && memcmp(name, "clip", 4) == 0)
        return dct_fail(err, DCT_BAD_FILE, "this encodes images ('clip'), which are not read; name the language model beside it");
    return dct_fail(err, DCT_BAD_FILE, "unsupported architecture '%.*s' (supported: %s)", len, name, dct_arch_names());
}

dct_status dct_adjust_none(const dct_model *model, dct_hparams *hp, dct_err *err) {
    (void)model;
    (void)hp;
    (void)err;
    return DCT_OK;
}

/* An unsupported architecture is named before its hyper-parameters are judged: they may mean something else there. */
static dct_status check_name(const dct_model *model, dct_err *err) {
    dct_str name;
    bool found = false;
    dct_status status = dct_model_get_str(model, "general.architecture", &name, &found, err);
    if (status != DCT_OK || !found) return status; /* dct_hparams_read says what is wrong */
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (dct_str_eq_z(name, families[i].name)) return DCT_OK;
    }
    return unsupported(err, (int)(name.len < 64 ? name.len : 64), name.ptr);
}

dct_status dct_arch_hparams(const dct_model *model, dct_hparams *hp, dct_err *err) {
    dct_status status = check_name(model, err);
    if (status != DCT_OK) return status;
    status = dct_hparams_read(model, hp, err);
    if (status != DCT_OK) return status;
    const family *f = find_family(hp->arch);
    if (f == NULL) return unsupported(err, (int)sizeof hp->arch, hp->arch);
    if (hp->n_expert > 0) {
        return dct_fail(err, DCT_BAD_FILE, "mixtures of experts are not supported: %s.expert_count is %u", hp->arch,
                        hp->n_expert);
    }
    return f->adjust(model, hp, err);
}

static dct_status check_cache_type(const dct_hparams *hp, dct_dtype type, uint32_t head_dim, const char *which, dct_err *err) {
    if (dct_dtype_is_float(type)) return DCT_OK;
    if (type != DCT_TYPE_Q8_0)
        return dct_fail(err, DCT_USAGE, "%s caches cannot be %s (f32, f16, bf16 or q8_0)", which, dct_dtype_name(type));
    if (head_dim % 32 == 0) return DCT_OK;
    return dct_fail(err, DCT_USAGE, "%s caches of %s cannot be q8_0: heads of %u are not whole blocks of 32", which, hp->arch,
                    head_dim);
}

static dct_status check_params(const dct_hparams *hp, const dct_trace_params *params, dct_err *err) {
    if (params->rows == 0 || params->n_ctx == 0 || params->n_ctx > INT32_MAX || params->table_ctx > INT32_MAX) {
        return dct_fail(err, DCT_USAGE, "a phase of %u rows over %u positions", params->rows, params->n_ctx);
    }
    dct_status status = check_cache_type(hp, params->type_k, hp->head_dim_k, "K", err);
    if (status != DCT_OK) return status;
    return check_cache_type(hp, params->type_v, hp->head_dim_v, "V", err);
}

static void mark_used(const dct_model *model, const char *name, bool *used) {
    const dct_tensor *t = name[0] != '\0' ? dct_model_find_tensor(model, name) : NULL;
    if (t != NULL) used[t - model->tensors] = true;
}

/* One flag a tensor: whether an op reads it. */
static bool *find_used(const dct_model *model, const dct_graph *g, dct_arena *arena) {
    bool *used = dct_arena_array(arena, model->n_tensors, sizeof *used);
    for (uint32_t i = 0; used != NULL && i < g->n_weights; i++) mark_used(model, g->weights[i].tensor, used);
    for (uint32_t i = 0; used != NULL && i < g->n_tables; i++) mark_used(model, g->tables[i].factors_tensor, used);
    return used;
}

/* A tensor of a layer that no op reads means a model that differs from the family we trace: its answers would be wrong. Left
 * aside are rotary frequencies that old converters stored, and layers past the last (drafts that some files carry). */
static dct_status check_all_used(const dct_model *model, const dct_hparams *hp, const dct_graph *g, dct_arena *arena,
                                 dct_err *err) {
    const bool *used = find_used(model, g, arena);
    if (used == NULL) return dct_fail_memory(err, arena, "the list of tensors in use");
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const dct_tensor *t = &model->tensors[i];
        if (t->name.len < 5 || memcmp(t->name.ptr, "blk.", 4) != 0) continue;
        uint64_t layer = 0;
        size_t at = 4;
        for (; at < t->name.len && t->name.ptr[at] >= '0' && t->name.ptr[at] <= '9' && layer < hp->n_layer; at++)
            layer = layer * 10 + (uint64_t)(t->name.ptr[at] - '0');
        if (layer >= hp->n_layer || used[i]) continue;
        dct_str rest = {t->name.ptr + at, t->name.len - at};
        if (dct_str_eq_z(rest, ".attn_rot_embd.weight") || dct_str_eq_z(rest, ".attn_rot_embd")) continue;
        return dct_fail_at(err, DCT_BAD_FILE, t->info_offset, "tensor '%.*s' has no place in a model of architecture '%s'",
                           (int)(t->name.len < 64 ? t->name.len : 64), t->name.ptr, hp->arch);
    }
    return DCT_OK;
}

dct_status dct_arch_trace(const dct_model *model, const dct_hparams *hp, const dct_trace_params *params, dct_arena *arena,
                          dct_graph *g, dct_err *err) {
    const family *f = find_family(hp->arch);
    if (f == NULL) return unsupported(err, (int)sizeof hp->arch, hp->arch);
    dct_status status = check_params(hp, params, err);
    if (status != DCT_OK) return status;
    dct_graph_init(g, arena, params->rows);
    dct_tracer t = {.model = model, .hp = hp, .params = params, .g = g};
    f->trace(&t);
    status = dct_graph_check(g, err);
    return status == DCT_OK ? check_all_used(model, hp, g, arena, err) : status;
}
