/* plan and verify: what it costs, and whether a plan may run. */
#include <string.h>

#include "cli/cli.h"

static int print_plan(const dctms_plan *plan, const dctms_model *model, const cli_options *o) {
    dctms_error err;
    if (o->concurrency) return dctms_plan_concurrency(plan, model, cli_out, NULL, &err) == DCTMS_OK ? 0 : cli_fail(&err);
    dctms_plan_format format = o->json    ? DCTMS_PLAN_JSON
                               : o->paper ? DCTMS_PLAN_PAPER
                               : o->text  ? DCTMS_PLAN_TEXT
                                          : DCTMS_PLAN_TABLE;
    dctms_status status = dctms_plan_print(plan, format, cli_out, NULL, &err);
    return status == DCTMS_OK ? 0 : cli_fail(&err);
}

/* The phase that --svg draws. */
static bool parse_phase(const cli_options *o, dctms_plan_format *drawn) {
    bool decode = o->phase != NULL && strcmp(o->phase, "decode") == 0;
    *drawn = decode ? DCTMS_PLAN_SVG_DECODE : DCTMS_PLAN_SVG_PREFILL;
    if (o->phase == NULL || decode || strcmp(o->phase, "prefill") == 0) return true;
    cli_usage("--phase: '%s' is neither prefill nor decode", o->phase);
    return false;
}

static int draw_plan(const dctms_plan *plan, dctms_plan_format drawn, const char *path) {
    dctms_error err;
    cli_sink sink = {0};
    dctms_status status = dctms_plan_print(plan, drawn, cli_sink_write, &sink, &err);
    if (status == DCTMS_OK) return cli_sink_save(&sink, path);
    cli_sink_drop(&sink);
    return cli_fail(&err);
}

/* Files come before anything is printed: what stands on the terminal is then no half of what was asked for. */
static int write_files(const dctms_plan *plan, dctms_plan_format drawn, const cli_options *o) {
    dctms_error err;
    int code = o->svg != NULL ? draw_plan(plan, drawn, o->svg) : 0;
    if (code == 0 && o->html != NULL) code = draw_plan(plan, DCTMS_PLAN_HTML, o->html);
    if (code == 0 && o->output != NULL && dctms_plan_save(plan, o->output, &err) != DCTMS_OK) code = cli_fail(&err);
    return code;
}

/* The input is read while the output is written. */
static int check_outputs(const cli_options *o) {
    cli_paths paths = {.in = {cli_model_path(o)}};
    cli_add_path(paths.in, o->cost_profile);
    cli_add_path(paths.out, o->output);
    cli_add_path(paths.out, o->svg);
    cli_add_path(paths.out, o->html);
    return cli_check_outputs(&paths);
}

static bool is_onnx(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".onnx") == 0;
}

bool cli_is_plan_file(const char *path) {
    static const char magic[] = "DCTMPLAN";
    char begin[sizeof magic - 1];
    dct_file file;
    dct_err err;
    if (dct_file_open(&file, path, &err) != DCT_OK) return false; /* a directory, or what opening the model will tell */
    bool is_plan = dct_file_read_at(&file, 0, begin, sizeof begin, &err) == DCT_OK && memcmp(begin, magic, sizeof begin) == 0;
    dct_file_close(&file);
    return is_plan;
}

/* Says which rule a plan breaks, if any; `model` may be NULL. */
static int check_plan(const dctms_plan *plan, const dctms_model *model, const char *path) {
    dctms_error err;
    char defect[32];
    if (dctms_plan_verify(plan, model, defect, &err) == DCTMS_OK) return 0;
    if (err.code != DCTMS_BAD_FILE || strcmp(defect, "NONE") == 0) return cli_fail(&err);
    cli_note("dctms: %s: %s: %s\n", path, defect, err.message);
    return err.code;
}

/* A plan that was saved, as it is; nothing of it is shown before it is verified. */
static int plan_saved(const cli_options *o, const char *path) {
    dctms_plan_format drawn;
    dctms_plan *plan;
    dctms_plan_info info;
    dctms_error err;
    if (!cli_check_form(o, CLI_PLAN_SAVED)) return DCT_USAGE;
    int code = check_outputs(o);
    if (code != 0) return code;
    if (!parse_phase(o, &drawn)) return DCT_USAGE;
    if (dctms_plan_load(path, &plan, &err) != DCTMS_OK) return cli_fail(&err);
    dctms_plan_get_info(plan, &info);
    if (info.n_output == 0 && o->phase == NULL) drawn = DCTMS_PLAN_SVG_GRAPH; /* a traced graph generates nothing */
    code = check_plan(plan, NULL, path);
    if (code == 0) code = write_files(plan, drawn, o);
    if (code == 0) code = print_plan(plan, NULL, o);
    dctms_plan_free(plan);
    return code;
}

int cli_plan(const cli_options *o) {
    if (o->diff) return cli_diff(o);
    if (cli_is_group(o)) return cli_plan_group(o);
    if (cli_has_more_args(o)) return cli_usage("plan takes one model after -m, or several without");
    if (cli_is_plan_file(cli_model_path(o))) return plan_saved(o, cli_model_path(o));
    if (is_onnx(cli_model_path(o))) return cli_plan_onnx(o, cli_model_path(o));
    if (!cli_check_form(o, CLI_PLAN)) return DCT_USAGE;
    dctms_plan_params params;
    dctms_plan_format drawn;
    int code = check_outputs(o);
    if (code != 0) return code;
    if (!cli_plan_params(o, &params) || !parse_phase(o, &drawn) || !cli_check_emit(o)) return DCT_USAGE;
    dctms_error err;
    dctms_model *model;
    dctms_plan *plan;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    if (dctms_plan_compile(model, &params, &plan, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto close_model;
    }
    dctms_model_info info = {.data_missing = false};
    if (dctms_model_get_info(model, &info, &err) == DCTMS_OK && info.data_missing) {
        cli_note("note: the data of %s is missing or cut off; run will refuse it\n", cli_model_path(o));
    }
    cli_warn_context(model, plan, o);
    code = write_files(plan, drawn, o);
    if (code == 0) code = o->emit != NULL ? cli_emit(plan, info.name, o) : print_plan(plan, model, o);
    dctms_plan_free(plan);
close_model:
    dctms_model_free(model);
    return code;
}

int cli_verify(const cli_options *o) {
    if (o->n_args < 1 || o->n_args > (o->model == NULL ? 2u : 1u)) return cli_usage("usage: dctms verify F.plan [MODEL]");
    const char *model_path = o->model != NULL ? o->model : o->n_args == 2 ? o->args[1] : NULL;
    dctms_error err;
    dctms_plan *plan;
    dctms_model *model = NULL;
    if (dctms_plan_load(o->args[0], &plan, &err) != DCTMS_OK) return cli_fail(&err);
    bool is_open = model_path == NULL || dctms_model_open(model_path, &model, &err) == DCTMS_OK;
    int code = is_open ? check_plan(plan, model, o->args[0]) : cli_fail(&err);
    if (code == 0)
        cli_print("%s: verified%s\n", o->args[0], model == NULL ? " (alone; name the model to compare it with its graph)" : "");
    dctms_model_free(model);
    dctms_plan_free(plan);
    return code;
}
