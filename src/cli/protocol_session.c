/* One session of protocol, in its own process: a plan with the experiment's bounds, a session as `planned` or `dynamic`, and
 * calls.
 *
 * A call empties the timeline, evaluates the prompt as it stands (no chat template, so that every system gets the same
 * tokens) and generates exactly M tokens greedily, past any end token. Its latency runs from the text to the last token.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/protocol.h"

static bool tell(int fd, const void *bytes, size_t n) {
    ssize_t put;
    do put = write(fd, bytes, n);
    while (put < 0 && errno == EINTR);
    return put == (ssize_t)n;
}

/* The parent's word that the next call may begin; false when there is no parent any more. */
static bool wait_for_go(int fd) {
    char byte;
    ssize_t got;
    do got = read(fd, &byte, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
}

/* ---- survey ---- */

static dctms_status count_tokens(const dctms_model *model, protocol_survey *survey, dctms_error *err) {
    dctms_tokenizer *tokenizer;
    dctms_status status = dctms_tokenizer_open(model, &tokenizer, err);
    if (status != DCTMS_OK) return status;
    for (uint32_t i = 0; i < DCT_PROTOCOL_PROMPTS && status == DCTMS_OK; i++) {
        const char *text = dct_protocol_prompt(i);
        size_t n = 0;
        status = dctms_tokenize(tokenizer, text, strlen(text), true, false, NULL, 0, &n, err);
        survey->n_tokens[i] = (uint32_t)n;
    }
    dctms_tokenizer_free(tokenizer);
    return status;
}

static dctms_status open_plan(const protocol_request *r, dctms_model **model, dctms_plan **plan, dctms_error *err) {
    dctms_plan_params pp;
    *model = NULL;
    *plan = NULL;
    if (!cli_plan_params(&r->bounds, &pp)) return DCTMS_USAGE;
    dctms_status status = dctms_model_open(cli_model_path(r->options), model, err);
    if (status == DCTMS_OK) status = dctms_plan_compile(*model, &pp, plan, err);
    return status;
}

int protocol_take_survey(const protocol_request *r, int to_parent) {
    static protocol_survey survey;
    dctms_error err = {.code = DCTMS_OK};
    dctms_model *model;
    dctms_plan *plan;
    dctms_status status = open_plan(r, &model, &plan, &err);
    if (status == DCTMS_OK) status = dctms_model_get_info(model, &survey.model, &err);
    if (status == DCTMS_OK) status = count_tokens(model, &survey, &err);
    if (status != DCTMS_OK) return err.code != DCTMS_OK ? cli_fail(&err) : (int)status;
    dctms_plan_get_info(plan, &survey.plan);
    cli_warn_context(model, plan, NULL);
    return tell(to_parent, &survey, sizeof survey) ? 0 : DCT_SYSTEM;
}

/* ---- calls ---- */

static dctms_status make_call(dctms_session *session, uint32_t prompt, uint32_t n_predict, protocol_message *out,
                              dctms_error *err) {
    const char *text = dct_protocol_prompt(prompt);
    dctms_gen_params gen = dctms_gen_default_params();
    dctms_result result = {0};
    gen.temperature = 0;
    gen.ignore_eos = true;
    gen.n_predict = n_predict;
    uint64_t begin = dct_os_now_ns();
    dctms_status status = dctms_session_rewind(session, 0, err);
    if (status == DCTMS_OK) status = dctms_session_prompt(session, text, strlen(text), false, err);
    if (status == DCTMS_OK) status = dctms_session_generate(session, &gen, NULL, NULL, &result, err);
    double ms = (double)(dct_os_now_ns() - begin) * 1e-6;
    *out = (protocol_message){PROTOCOL_ENDED, result.n_prompt, result.n_predicted, ms};
    return status;
}

static int make_calls(const protocol_job *job, dctms_session *session, int from_parent, int to_parent) {
    const protocol_message ready = {.event = PROTOCOL_READY}, began = {.event = PROTOCOL_BEGAN};
    uint32_t n_output = job->request->survey.plan.n_output;
    uint32_t n_warm = n_output < PROTOCOL_WARM_TOKENS ? n_output : PROTOCOL_WARM_TOKENS;
    protocol_message ended;
    dctms_error err;
    if (!tell(to_parent, &ready, sizeof ready) || !wait_for_go(from_parent)) return DCT_SYSTEM;
    dctms_status status = make_call(session, job->todo[0].prompt, n_warm, &ended, &err);
    for (uint32_t i = 0; i < job->n_todo && status == DCTMS_OK; i++) {
        if (!tell(to_parent, &began, sizeof began)) return DCT_SYSTEM;
        status = make_call(session, job->todo[i].prompt, n_output, &ended, &err);
        if (status == DCTMS_OK && !(tell(to_parent, &ended, sizeof ended) && wait_for_go(from_parent))) return DCT_SYSTEM;
    }
    return status == DCTMS_OK ? 0 : cli_fail(&err);
}

static bool find_modes(const protocol_job *job, cli_modes *modes) {
    cli_options one = job->request->bounds;
    one.alloc = dct_system_name(job->key.system);
    return cli_parse_modes(&one, modes);
}

int protocol_run_session(const protocol_job *job, int from_parent, int to_parent) {
    cli_modes modes;
    dctms_error err = {.code = DCTMS_OK};
    dctms_model *model;
    dctms_plan *plan;
    dctms_session *session = NULL;
    bool enforced;
    if (!find_modes(job, &modes)) return DCT_USAGE;
    dctms_status status = open_plan(job->request, &model, &plan, &err);
    if (status == DCTMS_OK) status = dctms_session_open(model, plan, &modes.session, &session, &err);
    dctms_plan_free(plan);
    dctms_model_free(model);
    if (status != DCTMS_OK) return err.code != DCTMS_OK ? cli_fail(&err) : (int)status;
    int code = cli_seal(&modes, &enforced);
    if (code == 0) code = make_calls(job, session, from_parent, to_parent);
    dctms_session_free(session);
    return code;
}
