#include "model/record.h"

#include <string.h>

#include "base/size.h"
#include "model/gguf_scan.h"

_Static_assert(offsetof(dct_meta, key) == 0 && offsetof(dct_tensor, name) == 0, "name_index needs the name first");

dct_status dct_record_new_tensors(dct_model *model, uint32_t n, dct_arena *arena, dct_err *err) {
    model->tensors = dct_arena_array(arena, n, sizeof *model->tensors);
    if (model->tensors != NULL && dct_name_index_init(&model->tensor_index, n, model->index_seed, arena)) return DCT_OK;
    return dct_fail_memory(err, arena, "the tensor table");
}

dct_status dct_record_add_tensor(dct_model *model, const dct_tensor *tensor, dct_err *err) {
    uint32_t *slot = dct_name_index_slot(&model->tensor_index, model->tensors, sizeof *model->tensors, tensor->name);
    if (*slot != 0) {
        return dct_fail_at(err, DCT_BAD_FILE, tensor->info_offset, "tensor '%s' stands in the file twice",
                           dct_gguf_quote(tensor->name).text);
    }
    if (!dct_add_u64(model->n_params, tensor->n_elems, &model->n_params) ||
        !dct_add_u64(model->tensor_bytes, tensor->bytes, &model->tensor_bytes)) {
        return dct_fail_at(err, DCT_BAD_FILE, tensor->info_offset, "tensor '%s': the sum of all tensors overflows",
                           dct_gguf_quote(tensor->name).text);
    }
    model->tensors[model->n_tensors++] = *tensor;
    *slot = model->n_tensors;
    return DCT_OK;
}

dct_status dct_record_index_meta(dct_model *model, dct_arena *arena, dct_err *err) {
    if (!dct_name_index_init(&model->meta_index, model->n_meta, model->index_seed, arena))
        return dct_fail_memory(err, arena, "the metadata");
    for (uint32_t i = 0; i < model->n_meta; i++) {
        dct_str key = model->meta[i].key;
        uint32_t *slot = dct_name_index_slot(&model->meta_index, model->meta, sizeof *model->meta, key);
        if (*slot != 0) {
            return dct_fail_at(err, DCT_BAD_FILE, model->meta[i].offset, "key '%s' stands in the file twice",
                               dct_gguf_quote(key).text);
        }
        *slot = i + 1;
    }
    return DCT_OK;
}
