/* engine/rope: the frequencies of a rotary table, by the scalings of the field.
 *
 * Pair i of n_rot/2 turns by base^(-2i/n_rot) radians a position. On top of that:
 *   linear    positions are divided by `factor`
 *   llama3    each frequency is divided by its factor, a tensor of the file
 *   longrope  likewise, with short or long factors that the architecture chose; the magnitude is scaled by attn_factor
 *   yarn      low frequencies are divided by `factor`, high ones are kept, with a ramp between the pairs that turn beta_fast and
 *             beta_slow times over the original context; the magnitude grows with the logarithm of `factor`
 *             (Peng et al. 2023, "YaRN")
 */
#include <math.h>

#include "engine/engine.h"
#include "kernels/kernel.h"

static const double TWO_PI = 6.283185307179586476925286766559;

/* The (fractional) pair that turns `turns` times over the original context. */
static double pair_of_turns(const dct_rope_table *t, double turns) {
    return t->n_rot * dct_log64(t->orig_ctx / (turns * TWO_PI)) / (2 * dct_log64((double)t->base));
}

typedef struct ramp { double low, high; } ramp;

static ramp yarn_ramp(const dct_rope_table *t) {
    double low = floor(pair_of_turns(t, (double)t->beta_fast)), high = ceil(pair_of_turns(t, (double)t->beta_slow)),
           last = t->n_rot - 1.0;
    return (ramp){low < 0 ? 0 : low, high > last ? last : high};
}

/* How much of pair i keeps its own frequency: 1 for the fast ones, 0 for the slow ones. */
static double kept_share(ramp r, uint32_t i) {
    double width = r.high - r.low > 0.001 ? r.high - r.low : 0.001, x = (i - r.low) / width;
    return 1 - (x < 0 ? 0 : x > 1 ? 1 : x);
}

void dct_rope_frequencies(const dct_rope_table *t, const float *factors, double *freq, double *mscale) {
    bool is_yarn = t->scaling == DCT_ROPE_YARN && t->factor > 1;
    ramp r = is_yarn ? yarn_ramp(t) : (ramp){0, 0};
    *mscale = t->attn_factor > 0 ? (double)t->attn_factor : 1;
    if (is_yarn && t->ext_factor != 0) *mscale *= 1 + 0.1 * dct_log64((double)t->factor);
    for (uint32_t i = 0; i < t->n_rot / 2; i++) {
        double own = dct_pow64((double)t->base, -2.0 * i / t->n_rot);
        if (factors != NULL) own /= (double)factors[i];
        double kept = is_yarn ? kept_share(r, i) * (double)t->ext_factor : 0;
        double stretched = is_yarn || t->scaling == DCT_ROPE_LINEAR ? own / (double)t->factor : own;
        freq[i] = is_yarn ? stretched * (1 - kept) + own * kept : stretched;
    }
}
