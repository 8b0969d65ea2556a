/* model/swap: tensor data of a big-endian file in the host's order. Only fields wider than a byte are swapped: f16 scales,
 * the floats themselves, and the high scale bits of IQ4_XS. */
#ifndef DCT_MODEL_SWAP_H
#define DCT_MODEL_SWAP_H

#include "base/dtype.h"

/* n bytes, whole blocks, in place. */
void dct_swap_blocks(dct_dtype type, void *blocks, uint64_t n);

#endif
