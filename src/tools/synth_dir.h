/* tools/synth_dir: the small files of a synthetic model directory, and the header of its weights, as Hugging Face and MLX have
 * them. */
#ifndef DCT_TOOLS_SYNTH_DIR_H
#define DCT_TOOLS_SYNTH_DIR_H

#include "base/arena.h"
#include "base/reader.h"
#include "tools/synth_shape.h"
#include "tools/synth_vocab.h"

/* config.json, tokenizer.json, tokenizer_config.json: counted with a writer without memory, and written. */
void dct_synth_put_config(dct_writer *w, const dct_synth_shape *shape, dct_dtype type);
void dct_synth_put_tokenizer(dct_writer *w, const dct_synth_shape *shape, const dct_synth_vocab *vocab);
void dct_synth_put_tokenizer_config(dct_writer *w, const dct_synth_vocab *vocab);

/* A token's text as vocabularies spell it: in the byte alphabet where the vocabulary is byte-level. `out` has 64 bytes. */
dct_str dct_synth_spelled(const dct_synth_vocab *v, uint32_t id, char *out);

/* Where the parts of a tensor lie in the data section; scales and biases of MLX types only. */
typedef struct dct_synth_places {
    uint64_t data, scales, biases;
} dct_synth_places;

/* Writes the descriptions of a tensor, whose name is GGUF's. */
void dct_synth_put_st_tensor(dct_writer *w, bool first, const dct_synth_tensor *tensor, const dct_synth_shape *shape,
                             const dct_synth_places *at);

#endif
