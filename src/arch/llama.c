/* arch/llama: Llama 1 to 3.2, Mistral, and the many models published in their shape.
 *
 *     x = embed(ids)
 *     each layer:  x = x + attention(norm(x))        adjacent pairs rotated; an optional window; optional biases
 *                  x = x + down(silu(gate h) * up h),  h = norm(x)
 *     logits = head(norm(x))
 *
 * Llama 3.1 and later stretch their rotation by divisors in rope_freqs.weight.
 */
#include "arch/family.h"

void dct_trace_llama(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_rope_table table = dct_block_rope_table(t, dct_block_if_present(t, "rope_freqs.weight"));
    dct_attn_spec attn = dct_block_attn_spec(t);
    attn.table = dct_block_rope(t, &table);
    attn.rope_style = DCT_ROPE_NORM;
    attn.window = t->hp->sliding_window;
    for (int32_t il = 0; il < (int32_t)t->hp->n_layer; il++) {
        dct_value_id h = dct_block_norm(t, x, il, "attn_norm");
        x = dct_trace_add(t->g, x, dct_block_attention(t, h, il, &attn), il, "ffn_in");
        h = dct_block_norm(t, x, il, "ffn_norm");
        x = dct_trace_add(t->g, x, dct_block_ffn(t, h, il, DCT_ACT_SILU, false), il, "out");
    }
    dct_block_head(t, x);
}
