/* plan FILE.onnx: what the values of an ONNX graph take. */
#include "cli/cli.h"
#include "tools/tools.h"

int cli_plan_onnx(const cli_options *o, const char *path) {
    if (!cli_check_form(o, CLI_PLAN_ONNX)) return DCT_USAGE;
    cli_paths paths = {.in = {path}};
    cli_add_path(paths.out, o->svg);
    int code = cli_check_outputs(&paths);
    if (code != 0) return code;
    const dct_onnx_params params = {.path = path,
                                    .dims = o->dims.text,
                                    .inputs = o->inputs.text,
                                    .values = o->values.text,
                                    .n_dims = o->dims.n,
                                    .n_inputs = o->inputs.n,
                                    .n_values = o->values.n,
                                    .nodes = o->nodes,
                                    .keep_order = o->keep_order,
                                    .json = o->json,
                                    .with_values = o->text,
                                    .svg = o->svg,
                                    .write = cli_out,
                                    .complain = cli_out,
                                    .complain_ctx = CLI_STDERR};
    dct_err err;
    return dct_onnx_plan(&params, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}
