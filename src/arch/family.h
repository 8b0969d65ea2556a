/* arch/family: the families there are. Each has a trace in a file of its own, and may adjust what the reader took from the file:
 * its defaults for keys that are missing, and what it demands of the rest. */
#ifndef DCT_ARCH_FAMILY_H
#define DCT_ARCH_FAMILY_H

#include "arch/block.h"

/* X(name in files, adjust function, trace function) */
#define DCT_FAMILIES(X)                                        \
    X(llama, dct_adjust_none, dct_trace_llama)                 \
    X(qwen2, dct_adjust_none, dct_trace_qwen2)                 \
    X(qwen2vl, dct_adjust_qwen2vl, dct_trace_qwen2vl)          \
    X(qwen3, dct_adjust_none, dct_trace_qwen3)                 \
    X(gemma2, dct_adjust_gemma2, dct_trace_gemma2)             \
    X(gemma3, dct_adjust_gemma3, dct_trace_gemma3)             \
    X(phi3, dct_adjust_none, dct_trace_phi3)

dct_status dct_adjust_none(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;
dct_status dct_adjust_qwen2vl(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;
dct_status dct_adjust_gemma2(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;
dct_status dct_adjust_gemma3(const dct_model *model, dct_hparams *hp, dct_err *err) DCT_MUST_CHECK;

#define DCT_FAMILY_TRACE(name, adjust, trace) void trace(dct_tracer *t);
DCT_FAMILIES(DCT_FAMILY_TRACE)
#undef DCT_FAMILY_TRACE

#endif
