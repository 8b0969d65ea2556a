/* Any bytes as the JSON of a safetensors header: refused with a line, or a list of tensors whose ranges follow one another; and the record made
 * of it beside a good configuration. */
#include <stdlib.h>
#include <string.h>

#include "model/hf.h"

static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"max_position_embeddings\":128,"
    "\"rms_norm_eps\":1e-5,\"vocab_size\":8,\"quantization\":{\"group_size\":64,\"bits\":4}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static dct_model model;
    dct_arena arena;
    dct_err err = {0};
    dct_st_file file;
    const dct_hf_texts texts = {.config = DCT_STR(config)};
    memset(&model, 0, sizeof model);
    model.path = "";
    dct_arena_init(&arena, 0);
    dct_status status = dct_st_read((dct_str){(const char *)data, n}, &arena, &file, &err);
    if (status == DCT_OK) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < file.n_tensors; at += file.tensors[i++].bytes) {
            if (file.tensors[i].begin != at) abort();
        }
        if (at != file.data_bytes) abort();
        status = dct_hf_record(&model, &texts, file.tensors, file.n_tensors, &arena, &err);
    }
    if (status != DCT_OK && (status != DCT_BAD_FILE || err.message[0] == '\0')) abort();
    if (arena.peak_bytes > 8 * (uint64_t)n + 1024 * 1024) abort();
    dct_arena_deinit(&arena);
    return 0;
}
