/* kernels/tables: the constants of the file's formats that several files of this folder need. */
#ifndef DCT_KERNELS_TABLES_H
#define DCT_KERNELS_TABLES_H

#include "base/half.h"

/* What the 16 codes of IQ4_NL and IQ4_XS mean. */
static const int8_t dct_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Twice the values of MXFP4's codes (sign, 2 bits of exponent, 1 of mantissa); the scale makes up for the factor. */
static const int8_t dct_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Half of the block's scale 2^(e - 127), so 2^(e - 128). The two least are subnormal. */
static inline float dct_mxfp4_scale(uint8_t e) { return dct_f32_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23); }

#endif
