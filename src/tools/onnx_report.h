/* tools/onnx_report: the memory of an ONNX model as a table, as text, as JSON, as a picture. */
#ifndef DCT_TOOLS_ONNX_REPORT_H
#define DCT_TOOLS_ONNX_REPORT_H

#include "plan/plan_text.h"
#include "tools/onnx_memory.h"

typedef struct dct_onnx_report {
    const char *path;
    const dct_onnx_memory *m;
    uint64_t m_max_bytes;
    double ms;
} dct_onnx_report;

void dct_onnx_put_table(const dct_onnx_report *r, bool with_values, const dct_text *t);
void dct_onnx_put_json(const dct_onnx_report *r, const dct_text *t);
dct_status dct_onnx_draw(const dct_onnx_memory *m, const char *path, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

#endif
