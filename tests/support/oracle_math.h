/* The oracle's products and rotations; see oracle.h. */
#ifndef TESTS_SUPPORT_ORACLE_MATH_H
#define TESTS_SUPPORT_ORACLE_MATH_H

#include "ir/graph.h"
#include "model/hparams.h"

void *oracle_alloc(size_t n, size_t item_bytes); /* zeroed; ends the process when there is no memory */

/* y[t][r] = w[r] . x[t] for n rows x of k floats and all rows of the weight. */
dct_status oracle_product(const dct_model *model, const dct_weight *w, const float *x, uint32_t n, float *y, dct_err *err);

/* Row r of a weight (a vector is one row), as floats. */
dct_status oracle_weight_row(const dct_model *model, const dct_weight *w, uint32_t r, float *out, dct_err *err);

/* The angle that a position adds, a pair each (n_rot/2 of them), and the length that rotated pairs are scaled to. */
dct_status oracle_frequencies(const dct_model *model, const dct_rope_table *table, double *freq, double *mscale, dct_err *err);

/* Rotates the heads of one row. */
void oracle_rotate(float *x, const dct_op_params *p, const double *freq, double mscale, const int32_t position[4]);

#endif
