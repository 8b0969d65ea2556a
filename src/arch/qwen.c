/* arch/qwen: Qwen2 and 2.5 (biases on q, k and v), Qwen2-VL and 2.5-VL (the same with three position streams: time, height,
 * width, equal for text), Qwen3 (no biases; each head of q and k is normed).
 *
 *     x = embed(ids)
 *     each layer:  x = x + attention(norm(x))        half-split pairs rotated
 *                  x = x + down(silu(gate h) * up h),  h = norm(x)
 *     logits = head(norm(x))
 */
#include "arch/family.h"

/* Every pair of a head belongs to one of the three streams. */
dct_status dct_adjust_qwen2vl(const dct_model *model, dct_hparams *hp, dct_err *err) {
    (void)model;
    const int32_t *s = hp->rope_sections;
    if (s[3] == 0 && (int64_t)s[0] + s[1] + s[2] == hp->n_rot / 2) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "%s.rope.dimension_sections is %d, %d, %d, %d; expected three that add up to %u", hp->arch,
                    s[0], s[1], s[2], s[3], hp->n_rot / 2);
}

static dct_attn_spec qwen_attn(dct_tracer *t) {
    dct_rope_table table = dct_block_rope_table(t, "");
    dct_attn_spec attn = dct_block_attn_spec(t);
    attn.table = dct_block_rope(t, &table);
    return attn;
}

void dct_trace_qwen2(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_attn_spec attn = qwen_attn(t);
    attn.needs_bias = true;
    dct_block_decoder(t, x, &attn, false);
}

void dct_trace_qwen2vl(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_attn_spec attn = qwen_attn(t);
    attn.needs_bias = true;
    attn.rope_style = DCT_ROPE_MROPE;
    dct_block_decoder(t, x, &attn, false);
}

void dct_trace_qwen3(dct_tracer *t) {
    dct_value_id x = dct_block_embed(t, 1.0f);
    dct_attn_spec attn = qwen_attn(t);
    attn.head_norms = true;
    dct_block_decoder(t, x, &attn, false);
}
