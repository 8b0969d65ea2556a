/* plan --diff A B: what differs between two plans. Each is a plan file, or a model that is compiled with the flags given. */
#include <string.h>

#include "cli/cli.h"

static dctms_status compile(const char *path, const dctms_plan_params *params, dctms_plan **plan, dctms_error *err) {
    dctms_model *model;
    dctms_status status = dctms_model_open(path, &model, err);
    if (status != DCTMS_OK) return status;
    status = dctms_plan_compile(model, params, plan, err);
    dctms_model_free(model);
    return status;
}

static dctms_status get_plan(const char *path, const dctms_plan_params *params, dctms_plan **plan, dctms_error *err) {
    return cli_is_plan_file(path) ? dctms_plan_load(path, plan, err) : compile(path, params, plan, err);
}

int cli_diff(const cli_options *o) {
    dctms_plan_params params;
    dctms_plan *before = NULL, *after = NULL;
    dctms_error err;
    if (o->n_args != 2) return cli_usage("usage: dctms plan --diff A B; each a plan file or a model");
    bool both_files = cli_is_plan_file(o->args[0]) && cli_is_plan_file(o->args[1]);
    if (!cli_check_form(o, both_files ? CLI_PLAN_FILES : CLI_PLAN_DIFF) || !cli_plan_params(o, &params)) return DCT_USAGE;
    dctms_status status = get_plan(o->args[0], &params, &before, &err);
    if (status == DCTMS_OK) status = get_plan(o->args[1], &params, &after, &err);
    if (status == DCTMS_OK) {
        if (!o->json) cli_print("%s -> %s\n", o->args[0], o->args[1]);
        status = dctms_plan_diff(before, after, o->json, cli_out, NULL, &err);
    }
    dctms_plan_free(after);
    dctms_plan_free(before);
    return status == DCTMS_OK ? 0 : cli_fail(&err);
}
