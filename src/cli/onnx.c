/* plan FILE.onnx: what the values of an ONNX graph take. */
#include "cli/cli.h"
#include "tools/tools.h"

/* What only plans of language models have. */
static const char *foreign_flag(const cli_options *o) {
    if (o->output != NULL) return "-o";
    if (o->html != NULL) return "--html";
    if (o->emit != NULL) return "--emit";
    if (o->phase != NULL) return "--phase";
    if (o->paper) return "--paper";
    if (o->concurrency) return "--concurrency";
    if (o->logits != NULL) return "--logits";
    if (o->memory_budget != 0 || o->budget_ctx != 0) return "a budget";
    return NULL;
}

int cli_plan_onnx(const cli_options *o, const char *path) {
    const char *flag = foreign_flag(o);
    if (flag != NULL) return cli_usage("%s is not for ONNX files: --dim, --input, --value, --json, --text and --svg are", flag);
    cli_paths paths = {{path}, {NULL}};
    cli_add_path(paths.out, o->svg);
    if (cli_check_outputs(&paths) != 0) return DCT_USAGE;
    const dct_onnx_params params = {.path = path,
                                    .dims = o->dims.text,
                                    .inputs = o->inputs.text,
                                    .values = o->values.text,
                                    .n_dims = o->dims.n,
                                    .n_inputs = o->inputs.n,
                                    .n_values = o->values.n,
                                    .nodes = o->nodes,
                                    .json = o->json,
                                    .with_values = o->text,
                                    .svg = o->svg,
                                    .write = cli_out,
                                    .complain = cli_out,
                                    .complain_ctx = CLI_STDERR};
    dct_err err;
    return dct_onnx_plan(&params, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}
