/* model/record: what the readers of model/ share: making the tables of a record, and each reader's entry. */
#ifndef DCT_MODEL_RECORD_H
#define DCT_MODEL_RECORD_H

#include "model/model.h"

/* The tables of n tensors, empty. model->index_seed must stand. */
dct_status dct_record_new_tensors(dct_model *model, uint32_t n, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* Adds a checked tensor, and its elements and bytes to the sums. A name that is there already is DCT_BAD_FILE. */
dct_status dct_record_add_tensor(dct_model *model, const dct_tensor *tensor, dct_err *err) DCT_MUST_CHECK;

/* The table of names of model->meta[n_meta]; a key that stands twice is DCT_BAD_FILE. */
dct_status dct_record_index_meta(dct_model *model, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* The readers, on a record that is blank but for its path. Files that they opened before a failure stay open. */
dct_status dct_gguf_open(dct_model *model, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;
dct_status dct_gguf_open_bytes(dct_model *model, const void *bytes, uint64_t n, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;
dct_status dct_hf_open(dct_model *model, dct_arena *arena, dct_err *err) DCT_MUST_CHECK; /* a directory */

#endif
