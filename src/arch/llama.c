/* arch/llama: Llama 1 to 3.2, Mistral, and the many models published in their shape.
 *
 *     x = embed(ids)
 *     each layer:  x = x + attention(norm(x))        pairs rotated; an optional window; optional biases
 *                  x = x + down(silu(gate h) * up h),  h = norm(x)
 *     logits = head(norm(x))
 *
 * Pairs are adjacent in GGUF files, whose converters move the rows of q and k, and half a head apart in directories.
 * Llama 3.1 and later stretch their rotation by divisors in rope_freqs.weight.
 */
#include <stdio.h>

#include "arch/family.h"

static dct_rope_style rope_style_of(dct_tracer *t) {
    char key[96];
    bool half_split = false, found;
    snprintf(key, sizeof key, "%s.rope.half_split", t->hp->arch);
    if (dct_model_get_bool(t->model, key, &half_split, &found, &t->g->err) != DCT_OK) t->g->status = DCT_BAD_FILE;
    return half_split ? DCT_ROPE_NEOX : DCT_ROPE_NORM;
}

void dct_trace_llama(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_rope_table table = dct_block_rope_table(t, dct_block_if_present(t, "rope_freqs.weight"));
    dct_attn_spec attn = dct_block_attn_spec(t);
    attn.table = dct_block_rope(t, &table);
    attn.rope_style = rope_style_of(t);
    attn.window = t->hp->sliding_window;
    dct_block_decoder(t, x, &attn, false);
}
