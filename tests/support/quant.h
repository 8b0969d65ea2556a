/* The way back from numbers to the types of files, which the library does not need: it reads files. */
#ifndef TESTS_SUPPORT_QUANT_H
#define TESTS_SUPPORT_QUANT_H

#include "base/dtype.h"

/* One row of k elements, a whole number of the type's blocks, as a file has it. */
void quant_row(dct_dtype type, uint32_t k, const float *x, void *row);

#endif
