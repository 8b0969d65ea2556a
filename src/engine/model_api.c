/* engine/model_api: a model file's header behind a handle. */
#include <string.h>

#include "engine/engine.h"
#include "engine/report.h"

dctms_status dctms_model_open(const char *path, dctms_model **model, dctms_error *err) {
    dct_err why = {0};
    if (path == NULL || model == NULL) return dct_give(dct_fail(&why, DCT_USAGE, "no path of a model"), &why, err);
    size_t path_bytes = strlen(path) + 1;
    dctms_model *m = dct_os_map(sizeof *m + path_bytes);
    if (m == NULL) return dct_give(dct_fail(&why, DCT_SYSTEM, "no memory for a model handle"), &why, err);
    m->map_bytes = sizeof *m + path_bytes;
    memcpy(m->path, path, path_bytes);
    dct_arena_init(&m->arena, 0);
    dct_status status = dct_model_open(&m->model, m->path, &m->arena, &why);
    if (status != DCT_OK) {
        dct_arena_deinit(&m->arena);
        dct_os_unmap(m, m->map_bytes);
        return dct_give_of_file(status, path, &why, err);
    }
    m->is_open = true;
    m->hparams_status = dct_arch_hparams(&m->model, &m->hp, &m->hparams_err);
    *model = m;
    return DCTMS_OK;
}

void dctms_model_free(dctms_model *m) {
    if (m == NULL) return;
    dct_model_close(&m->model);
    dct_arena_deinit(&m->arena);
    dct_os_unmap(m, m->map_bytes);
}

dct_status dct_model_need_header(const dctms_model *m, dct_err *err) {
    if (m->is_open) return DCT_OK;
    return dct_fail(err, DCT_USAGE, "the model's header was dropped when a session was opened");
}

/* The type that holds most of the elements of matrices. */
static dct_dtype main_type(const dct_model *model) {
    uint64_t n[DCT_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (model->tensors[i].n_dims > 1) n[model->tensors[i].type] += model->tensors[i].n_elems;
    dct_dtype best = 0;
    for (dct_dtype t = 0; t < DCT_TYPE_COUNT; t++)
        if (n[t] > n[best]) best = t;
    return best;
}

static void copy_text(char *to, size_t cap, const char *from, size_t n) {
    if (n > cap - 1) n = cap - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

static dct_status fill_info(const dctms_model *m, dctms_model_info *info, dct_err *err) {
    const dct_model *f = &m->model;
    dct_str arch = {"", 0}, name = {"", 0};
    bool found;
    dct_status status = dct_model_get_str(f, "general.architecture", &arch, &found, err);
    if (status == DCT_OK) status = dct_model_get_str(f, "general.name", &name, &found, err);
    if (status != DCT_OK) return status;
    memset(info, 0, sizeof *info);
    copy_text(info->arch, sizeof info->arch, arch.ptr, arch.len);
    copy_text(info->name, sizeof info->name, name.ptr, name.len);
    const char *type = dct_dtype_name(main_type(f));
    copy_text(info->type_name, sizeof info->type_name, type, strlen(type));
    info->file_bytes = f->file_bytes;
    info->header_bytes = f->header_bytes;
    info->tensor_bytes = f->tensor_bytes;
    info->n_params = f->n_params;
    info->fingerprint = f->fingerprint;
    info->data_missing = f->data_missing;
    if (m->hparams_status != DCT_OK) return DCT_OK;
    info->n_layer = m->hp.n_layer;
    info->n_embd = m->hp.n_embd;
    info->n_head = m->hp.n_head[0];
    info->n_head_kv = m->hp.n_head_kv[0];
    info->n_vocab = m->hp.n_vocab;
    info->n_ctx_train = m->hp.n_ctx_train;
    return DCT_OK;
}

dctms_status dctms_model_get_info(const dctms_model *model, dctms_model_info *info, dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_model_need_header(model, &why);
    if (status == DCT_OK) status = fill_info(model, info, &why);
    return dct_give_of_file(status, model->model.path, &why, err);
}

dctms_status dctms_model_inspect(const dctms_model *model, bool json, bool all, dctms_write_fn *write, void *ctx,
                                 dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_model_need_header(model, &why);
    if (status == DCT_OK) status = dct_report_inspect(&model->model, json, all, write, ctx, &why);
    return dct_give_of_file(status, model->model.path, &why, err);
}
