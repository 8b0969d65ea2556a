/* The reader of a build that found no protobuf library. */
#include "onnx/onnx.h"

static dct_status refuse(dct_err *err) {
    return dct_fail(err, DCT_BAD_FILE, "this build reads no ONNX files (libnanopb-dev was not there)");
}

dct_status dct_onnx_open(const char *path, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    (void)path, (void)arena, (void)out;
    return refuse(err);
}

dct_status dct_onnx_open_bytes(const void *bytes, uint64_t n, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    (void)bytes, (void)n, (void)arena, (void)out;
    return refuse(err);
}

bool dct_onnx_is_supported(void) { return false; }
