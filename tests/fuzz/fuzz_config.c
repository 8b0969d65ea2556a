/* Any bytes as config.json, tokenizer.json, tokenizer_config.json and generation_config.json, parted by NULs: refused with a line, or a record whose every
 * key and element can be read, and hyper-parameters that are judged like those of a GGUF file. */
#include <stdlib.h>
#include <string.h>

#include "model/hf.h"
#include "model/hparams.h"

static dct_str take_text(const uint8_t **data, size_t *n) {
    const uint8_t *end = *n > 0 ? memchr(*data, 0, *n) : NULL;
    size_t len = end != NULL ? (size_t)(end - *data) : *n;
    dct_str text = {len > 0 ? (const char *)*data : NULL, len};
    len += end != NULL;
    *data += len;
    *n -= len;
    return text;
}

static void walk(const dct_model *m) {
    for (uint32_t i = 0; i < m->n_meta; i++) {
        const dct_meta *meta = &m->meta[i];
        uint64_t cursor = 0, n = 0;
        dct_str s;
        double f;
        if (dct_model_find_meta(m, meta->key.ptr) != meta) abort();
        if (meta->type != DCT_META_ARRAY) continue;
        while (dct_meta_array_next_str(m, meta, &cursor, &s)) n++;
        while (dct_meta_array_f64(m, meta, n, &f)) n++;
        if (n != meta->array.n) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static dct_model model;
    static dct_hparams hp;
    dct_arena arena;
    dct_err err = {0};
    size_t all = n;
    dct_hf_texts texts = {0};
    texts.config = take_text(&data, &n);
    texts.tokenizer = take_text(&data, &n);
    texts.tokenizer_config = take_text(&data, &n);
    texts.generation = take_text(&data, &n);
    if (texts.config.ptr == NULL) return 0; /* hf.c has refused that */
    memset(&model, 0, sizeof model);
    model.path = "x";
    dct_arena_init(&arena, 0);
    dct_status status = dct_hf_record(&model, &texts, NULL, 0, &arena, &err);
    if (arena.peak_bytes > 8 * (uint64_t)all + 1024 * 1024) abort();
    if (status == DCT_OK) {
        walk(&model);
        status = dct_hparams_read(&model, &hp, &err);
    }
    if (status != DCT_OK && (status != DCT_BAD_FILE || err.message[0] == '\0')) abort();
    dct_arena_deinit(&arena);
    return 0;
}
