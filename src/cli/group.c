/* Several models in one process: `plan A B ...` says what they cost together, `run A B ... -p TEXT` has each answer in turn. */
#include <string.h>

#include "base/size.h"
#include "cli/cli.h"

static int check_flags(const cli_options *o) {
    bool is_run = strcmp(o->verb, "run") == 0;
    if (cli_is_given(o, "--model")) return cli_usage("several models: name them all as arguments, without --model");
    if (o->n_args < 2) return cli_usage("--exclusive and --concurrent are about several models: name them as arguments");
    if (o->exclusive == o->concurrent)
        return cli_usage("several models: say --exclusive (one runs at a time) or --concurrent (any may run at any time)");
    if (!cli_check_form(o, is_run ? CLI_RUN_GROUP : CLI_PLAN_GROUP)) return DCT_USAGE;
    if (o->alloc != NULL && strcmp(o->alloc, "planned") != 0)
        return cli_usage("several models are planned, not --alloc %s", o->alloc);
    return 0;
}

/* The plan of one model; its header is gone before the next is read. */
static dctms_status plan_one(const char *path, const dctms_plan_params *params, bool warns, dctms_plan **plan, dctms_error *err) {
    dctms_model *model;
    dctms_status status = dctms_model_open(path, &model, err);
    if (status != DCTMS_OK) return status;
    status = dctms_plan_compile(model, params, plan, err);
    if (status == DCTMS_OK && warns) cli_warn_context(model, *plan, NULL);
    dctms_model_free(model);
    return status;
}

/* The group with these bounds, and its longest chunk. */
static dctms_status plan_all(const cli_options *o, const dctms_plan_params *params, bool warns, dctms_group **group,
                             uint32_t *chunk, dctms_error *err) {
    dctms_plan *plans[CLI_MAX_ARGS] = {NULL};
    dctms_status status = DCTMS_OK;
    *chunk = 0;
    for (uint32_t i = 0; i < o->n_args && status == DCTMS_OK; i++) {
        status = plan_one(o->args[i], params, warns, &plans[i], err);
        if (status != DCTMS_OK) break;
        dctms_plan_info info;
        dctms_plan_get_info(plans[i], &info);
        if (info.ubatch > *chunk) *chunk = info.ubatch;
        for (uint32_t k = 0; k < info.n_ctx_steps; k++)
            if (info.ctx_steps[k].ubatch > *chunk) *chunk = info.ctx_steps[k].ubatch;
    }
    if (status == DCTMS_OK)
        status = dctms_group_make((const dctms_plan *const *)plans, o->n_args, o->exclusive ? DCTMS_EXCLUSIVE : DCTMS_CONCURRENT,
                                  group, err);
    for (uint32_t i = 0; i < o->n_args; i++) dctms_plan_free(plans[i]);
    return status;
}

/* The smallest envelope of those that were tried. */
typedef struct cheapest {
    uint64_t bytes;
    uint32_t chunk;
} cheapest;

/* A budget is for all together: the longest chunk that fits, the same for each, where the bound itself does not. *group is NULL
 * when none does. */
static dctms_status fit_all(const cli_options *o, dctms_plan_params params, dctms_group **group, cheapest *least,
                            dctms_error *err) {
    const uint64_t budget = params.memory_budget;
    params.memory_budget = 0;
    *least = (cheapest){UINT64_MAX, 0};
    for (;;) {
        uint32_t chunk;
        dctms_group_info info;
        dctms_status status = plan_all(o, &params, least->chunk == 0, group, &chunk, err);
        if (status != DCTMS_OK) return status;
        dctms_group_get_info(*group, &info);
        if (budget == 0 || info.m_max_bytes <= budget) return DCTMS_OK;
        if (info.m_max_bytes < least->bytes) *least = (cheapest){info.m_max_bytes, chunk};
        dctms_group_free(*group);
        *group = NULL;
        if (chunk == 1) return DCTMS_OK;
        params.ubatch = dct_pow2_under(chunk);
        for (uint32_t i = 0; i < params.n_ctx_steps; i++)
            if (params.ctx_steps[i].ubatch > params.ubatch) params.ctx_steps[i].ubatch = params.ubatch;
    }
}

static int fail_budget(const cli_options *o, const cheapest *least) {
    cli_note("dctms: needs at least %llu bytes (%.2f MiB) together (M_max), with ubatch %u, the budget is %llu; a smaller -c%s "
             "takes less\n", (unsigned long long)least->bytes, cli_mib(least->bytes), least->chunk,
             (unsigned long long)o->memory_budget, o->exclusive ? "" : ", or --exclusive,");
    return DCT_NO_FIT;
}

int cli_make_group(const cli_options *o, dctms_group **group) {
    dctms_plan_params params;
    dctms_error err;
    cheapest least;
    *group = NULL;
    int code = check_flags(o);
    if (code != 0) return code;
    if (!cli_plan_params(o, &params)) return DCT_USAGE;
    if (fit_all(o, params, group, &least, &err) != DCTMS_OK) return cli_fail(&err);
    return *group != NULL ? 0 : fail_budget(o, &least);
}

int cli_plan_group(const cli_options *o) {
    dctms_group *group;
    dctms_error err;
    int code = cli_make_group(o, &group);
    if (code != 0) return code;
    dctms_plan_format format = o->json ? DCTMS_PLAN_JSON : DCTMS_PLAN_TABLE;
    if (dctms_group_print(group, format, cli_out, NULL, &err) != DCTMS_OK) code = cli_fail(&err);
    dctms_group_free(group);
    return code;
}

/* The last one to be opened finds the process as it will be. */
int cli_open_group(const cli_options *o, const dctms_session_params *params, dctms_session *sessions[CLI_MAX_ARGS]) {
    dctms_group *group;
    dctms_error err;
    int code = cli_make_group(o, &group);
    for (uint32_t i = 0; code == 0 && i < o->n_args; i++) {
        dctms_model *model;
        dctms_session_params own = *params;
        own.whole_process = params->whole_process && i + 1 == o->n_args;
        dctms_status status = dctms_model_open(o->args[i], &model, &err);
        if (status == DCTMS_OK) {
            status = dctms_session_open(model, dctms_group_member(group, i), &own, &sessions[i], &err);
            dctms_model_free(model);
        }
        if (status != DCTMS_OK) code = cli_fail(&err);
    }
    dctms_group_free(group); /* the sessions hold it */
    return code;
}
