/* engine/sampler: from logits to one token, in planned memory.
 *
 * The chain is llama.cpp's: logit bias, penalties, top-k, top-p, min-p, temperature, draw. The same logits, parameters, seed and
 * history give the same token on every machine: sums run in one order, exp is ours (dct_exp64), ties go to the lower id.
 */
#ifndef DCT_ENGINE_SAMPLER_H
#define DCT_ENGINE_SAMPLER_H

#include "base/status.h"

typedef struct dct_candidate { uint32_t id; float logit; } dct_candidate;

typedef struct dct_sampler {
    uint32_t n_vocab;
    dct_candidate *candidates; /* [n_vocab] */
    uint32_t *counts;          /* [n_vocab], all zero between two calls */
    uint64_t random[4];        /* xoshiro256** */
} dct_sampler;

typedef struct dct_sampler_bias { uint32_t token; float bias; } dct_sampler_bias;

typedef struct dct_sampler_params {
    float temperature, top_p, min_p; /* temperature <= 0: greedy */
    int32_t top_k;                   /* <= 0: off */
    float repeat_penalty, presence_penalty, frequency_penalty;
    const dct_sampler_bias *bias;
    uint32_t n_bias;
    const uint32_t *recent;          /* tokens that the penalties look at */
    uint32_t n_recent;
    const uint32_t *banned;          /* tokens that are never taken */
    uint32_t n_banned;
} dct_sampler_params;

uint64_t dct_sampler_bytes(uint32_t n_vocab);
void dct_sampler_init(dct_sampler *sampler, void *memory, uint32_t n_vocab);
void dct_sampler_seed(dct_sampler *sampler, uint64_t seed);

uint32_t dct_sampler_take(dct_sampler *sampler, const float *logits, const dct_sampler_params *params);

#endif
