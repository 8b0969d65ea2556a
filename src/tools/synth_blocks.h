/* tools/synth_blocks: seeded random weights, straight in the form that a file has them.
 *
 * A stream is one tensor's weights. Every block (of float types: every element) is a pure function of the stream's key and its
 * number, so any range may be filled by any thread in any order with the same bytes. Codes follow a normal distribution: one
 * random byte is looked up in a table of 256 normal quantiles rounded to the nearest code of the type; scales vary a little from
 * block to block. The standard deviation of the de-quantised values is `sigma` within a few per cent. Only exact operations are
 * used: the same bytes on every machine.
 */
#ifndef DCT_TOOLS_SYNTH_BLOCKS_H
#define DCT_TOOLS_SYNTH_BLOCKS_H

#include "base/dtype.h"

typedef struct dct_synth_stream {
    dct_dtype type;
    uint64_t key;
    float mean, sigma;    /* mean: float types only, 0 otherwise */
    float offset;         /* float types: added to every value; 0 unless set after dct_synth_stream_init, as is: */
    bool both_signs;      /* float types: half of the values are negated, before the offset is added */
    float code_sigma;     /* standard deviation of the codes' values in `codes` */
    float quantiles[256]; /* of the standard normal distribution */
    uint8_t codes[256];   /* the type's code for each quantile */
} dct_synth_stream;

void dct_synth_stream_init(dct_synth_stream *s, dct_dtype type, uint64_t seed, uint64_t tensor, float mean, float sigma);

/* Blocks [first, first + n) as the file has them. */
void dct_synth_fill(const dct_synth_stream *s, uint64_t first, uint64_t n, void *out);

#endif
