/* The oracle: a model in plain C, the truth that tests compare with.
 *
 * It executes a traced graph (logical ops only) with f32 values and sums in f64, weights de-quantised row by row from the
 * file, QUANT as the identity, one malloc per tensor, the textbook form of attention over an f32 history, sines and
 * exponentials of the C library. It shares no arithmetic with kernels/ but the reading of the file's blocks.
 *
 *     oracle *o = oracle_open("model.gguf", 512, &err);
 *     status = oracle_eval(o, ids, NULL, n, logits, &err);     the n rows follow those given before
 *     oracle_close(o);
 *
 * Running out of memory ends the process. Slow, not silly: products use two or more threads and read each weight once for
 * all rows, so that hundreds of positions of a model of 1.5 billion weights take minutes.
 */
#ifndef TESTS_SUPPORT_ORACLE_H
#define TESTS_SUPPORT_ORACLE_H

#include "arch/arch.h"

typedef struct oracle oracle;

/* n_ctx: positions that it will be given at most (families choose by it: long rotation). NULL on failure, *err says why. */
oracle *oracle_open(const char *path, uint32_t n_ctx, dct_err *err);

/* As above on a model that stays the caller's. */
oracle *oracle_open_model(const dct_model *model, uint32_t n_ctx, dct_err *err);
void oracle_close(oracle *o);

const dct_hparams *oracle_hparams(const oracle *o);
const dct_model *oracle_model(const oracle *o);

/* Runs n tokens behind those already run, and writes n rows of n_vocab logits. positions: 4 streams a row (t, h, w, 0), or
 * NULL for plain text. The calls may cut a text anywhere: no sum depends on it, so the logits are the same bits. */
dct_status oracle_eval(oracle *o, const int32_t *ids, const int32_t (*positions)[4], uint32_t n, float *logits, dct_err *err) DCT_MUST_CHECK;

/* Runs any traced graph of this model instead (it must live as long as its values are asked for): n <= rows tokens behind those already run; logits has as many rows as the graph's output. */
dct_status oracle_run(oracle *o, const dct_graph *g, const int32_t *ids, const int32_t (*positions)[4], uint32_t n, float *logits,
                      dct_err *err) DCT_MUST_CHECK;

/* The value `name` of the last run ("blk.0.attn", ...), rows x cols, kept only while oracle_keep(o, true); NULL when there is none. */
void oracle_keep(oracle *o, bool keep);
const float *oracle_value(const oracle *o, const char *name, uint32_t *rows, uint32_t *cols);

/* Forgets the history; the next token stands at position 0. */
void oracle_reset(oracle *o);
/* Forgets the history from position n on. */
void oracle_rewind(oracle *o, uint32_t n);

#endif
