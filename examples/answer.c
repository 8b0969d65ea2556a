/* A question to a model. What it costs is known before a weight is read, and reserved before it answers.
 *
 *     answer MODEL QUESTION
 *
 * Against an installed library: cc answer.c $(pkg-config --cflags --libs dctms) -o answer
 */
#include <stdio.h>

#include "dctms.h"

/* A piece of the answer, as it is made; false would stop it. */
static bool show(void *out, dctms_token token, const char *text, size_t n) {
    (void)token;
    return fwrite(text, 1, n, out) == n && fflush(out) == 0;
}

static dctms_status ask(dctms_session *session, const char *question, FILE *out, dctms_error *err) {
    dctms_gen_params how = dctms_gen_default_params();
    dctms_chat_message messages[] = {{"user", question}}; /* a longer chat has all of its messages here, each time */
    dctms_result result;
    how.temperature = 0;
    dctms_status status = dctms_session_chat(session, messages, 1, err);
    if (status == DCTMS_OK) status = dctms_session_generate(session, &how, show, out, &result, err);
    if (status == DCTMS_OK) fprintf(out, "\n%u tokens in, %u out\n", result.n_prompt, result.n_predicted);
    return status;
}

static dctms_status answer(const char *path, const char *question, FILE *out, dctms_error *err) {
    dctms_model *model = NULL;
    dctms_plan *plan = NULL;
    dctms_session *session = NULL;
    dctms_plan_params bounds = dctms_plan_default_params();
    bounds.n_ctx = 1024; /* input and output together */
    bounds.n_output = 256;
    dctms_status status = dctms_model_open(path, &model, err);
    if (status == DCTMS_OK) status = dctms_plan_compile(model, &bounds, &plan, err);
    if (status == DCTMS_OK) {
        dctms_plan_info cost;
        dctms_plan_get_info(plan, &cost);
        fprintf(stderr, "at most %llu bytes of memory\n", (unsigned long long)cost.m_max_bytes);
        status = dctms_session_open(model, plan, NULL, &session, err); /* verifies, reserves, loads */
    }
    if (status == DCTMS_OK) status = ask(session, question, out, err);
    dctms_session_free(session);
    dctms_plan_free(plan);
    dctms_model_free(model);
    return status;
}

int main(int argc, char **argv) {
    dctms_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: answer MODEL QUESTION\n");
        return DCTMS_USAGE;
    }
    dctms_status status = answer(argv[1], argv[2], stdout, &err);
    if (status != DCTMS_OK) fprintf(stderr, "%s\n", err.message);
    return status;
}
