/* arch/phi: Phi-3, Phi-3.5 and Phi-4 of the "phi3" architecture.
 *
 *     x = embed(ids)
 *     each layer:  x = x + attention(norm(x))        q, k, v from the rows of one tensor; part of each head rotated; a window
 *                  x = x + down(silu(gate h) * up h),  h = norm(x), gate and up from the rows of one tensor
 *     logits = head(norm(x))
 *
 * Long-context files carry two sets of divisors for the rotation: one up to the context of the first training, one for plans
 * beyond it.
 */
#include "arch/family.h"

static const char *factors_of(const dct_tracer *t) {
    bool is_long = dct_block_table_ctx(t) > t->hp->rope_orig_ctx;
    return dct_block_if_present(t, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
}

void dct_trace_phi3(dct_tracer *t) {
    if (dct_model_find_tensor(t->model, "blk.0.attn_qkv.bias") != NULL) {
        dct_block_fail(t, "tensor 'blk.0.attn_qkv.bias': biases of fused projections are not supported");
    }
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_rope_table table = dct_block_rope_table(t, factors_of(t));
    dct_attn_spec attn = dct_block_attn_spec(t);
    attn.table = dct_block_rope(t, &table);
    attn.window = t->hp->sliding_window;
    attn.fused_qkv = true;
    dct_block_decoder(t, x, &attn, true);
}
