/* arch/arch: model families as graphs. One file a family; arch.c holds the table and what they share.
 *
 * A family checks the file's tensors against the hyper-parameters and traces a phase. It calls dct_trace_* and allocates
 * nothing. To add one: a file with a trace function, a row in arch.c.
 */
#ifndef DCT_ARCH_ARCH_H
#define DCT_ARCH_ARCH_H

#include "ir/graph.h"
#include "model/hparams.h"

typedef struct dct_trace_params {
    dct_phase_kind kind;
    uint32_t rows;            /* R */
    uint32_t n_ctx;           /* N + M; caches hold this, rounded up to 16 */
    uint32_t table_ctx;       /* what rotary tables are for, as far as it is more: the context of a family's largest member */
    dct_dtype type_k, type_v;
    dct_logits_mode logits;   /* LAST: f32[1, vocab] of the last row; ALL: f32[R, vocab] */
} dct_trace_params;

/* Hyper-parameters with the family's own defaults applied and checked. DCT_BAD_FILE "unsupported architecture 'x'
 * (supported: ...)" names it. */
dct_status dct_arch_hparams(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;

/* Traces one phase into *g (initialised here, in `arena`). A tensor that is missing, or whose shape disagrees with the
 * hyper-parameters, is DCT_BAD_FILE naming the tensor, its shape and the expected one. The inputs are g->ids i32[R, 1] and g->pos
 * i32[R, 4]; the output g->logits. Deterministic. */
dct_status dct_arch_trace(const dct_model *model, const dct_hparams *hp, const dct_trace_params *params, dct_arena *arena,
                          dct_graph *g, dct_err *err) DCT_MUST_CHECK;

/* Comma-separated names of the supported architectures. */
const char *dct_arch_names(void);

#endif
